"""How much of a graph a training step reads, by the size of the part that it trains on.

A step on a part reads X on all rows within two hops of it and the graph within one. A row that k
training nodes reach is read with probability 1 - (1 - q)^k by a part that takes each of them with
probability q. Over the rows of a graph, k is close to gamma distributed, and then two numbers give
the share that is read for every q (``Coverage``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from private_graphs.files import write_json

if TYPE_CHECKING:  # the numbers alone need neither numpy nor scipy
    import numpy as np

    from private_graphs.datasets.graph_dataset import GraphDataset

REACH_FILE = Path(__file__).with_name("reach.json")
_MEASURED_AT = (1 / 4, 1 / 6, 1 / 8, 1 / 10, 1 / 30, 1 / 100)
"""Sampling probabilities at which ``Coverage`` is fitted; the whole training set is exact enough
where these are."""


@dataclass(frozen=True)
class Coverage:
    """Share of some rows that a random part reads, if k is gamma distributed over the rows."""

    mean: float
    """Training nodes that reach a row."""
    shape: float

    def share(self, probability: float) -> float:
        """Expected share in 0…1; ``probability`` is that of a training node to be in the part."""
        return 1.0 - (1.0 + probability * self.mean / self.shape) ** -self.shape


EVERYTHING = Coverage(mean=1e12, shape=1.0)
"""Assumed of a graph that has not been measured: each step reads all of it."""


@dataclass(frozen=True)
class Reach:
    """What training on parts of a graph reads of it."""

    train_edges: float
    """Undirected edges between training nodes."""
    train_nonzeros: float
    """Non-zeros of X on training nodes."""
    nodes: Coverage = EVERYTHING
    """Nodes within one hop of a part."""
    entries: Coverage = EVERYTHING
    """Entries of the propagation matrix in the rows of these nodes."""
    nonzeros: Coverage = EVERYTHING
    """Non-zeros of X within two hops of a part."""
    words: Coverage = EVERYTHING
    """Columns of X with a non-zero within two hops of a part."""
    own_words: Coverage = EVERYTHING
    """Columns of X with a non-zero in the part itself."""


def measure(dataset: GraphDataset) -> Reach:
    """Measure a dataset: expected shares are exact sums over its nodes, nothing is sampled."""
    import numpy as np
    import scipy.sparse as sp

    nodes = dataset.n_nodes
    first, second = dataset.edge_index
    loops = np.arange(nodes)
    rows, columns = np.r_[first, second, loops], np.r_[second, first, loops]
    near = sp.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(nodes, nodes))
    dense = isinstance(dataset.features, np.ndarray)
    words = sp.csr_array(dataset.features if dense else dataset.features.to_scipy())
    words = _pattern(words.astype(np.float32))
    train = dataset.train_mask.astype(np.float32)
    nearby = _pattern(near @ near)
    nonzeros = np.diff(words.indptr)
    two_hops_of_words = _pattern(sp.csr_array(words.T) @ nearby)
    return Reach(
        train_edges=int((dataset.train_mask[first] & dataset.train_mask[second]).sum()),
        train_nonzeros=int(nonzeros[dataset.train_mask].sum()),
        nodes=_coverage(near @ train, np.ones(nodes)),
        entries=_coverage(near @ train, np.diff(near.indptr)),
        nonzeros=_coverage(nearby @ train, nonzeros),
        words=_coverage(two_hops_of_words @ train, np.ones(words.shape[1])),
        own_words=_coverage(words.T @ train, np.ones(words.shape[1])),
    )


def _pattern(matrix: Any) -> Any:
    matrix.data[:] = 1
    return matrix


def _coverage(reached_by: np.ndarray, weights: np.ndarray) -> Coverage:
    """Fit the coverage of rows that ``reached_by`` training nodes reach, in units of weight."""
    import numpy as np
    from scipy.optimize import least_squares

    counts = np.bincount(np.rint(reached_by).astype(np.int64), weights=weights)
    probabilities, k = np.array(_MEASURED_AT), np.arange(len(counts))
    read = 1 - (1 - probabilities[:, None]) ** k
    exact = read @ counts / counts.sum()

    def relative_error(logarithms: np.ndarray) -> np.ndarray:
        mean, shape = np.exp(logarithms)
        return (Coverage(mean, shape).share(probabilities) - exact) / exact

    start = np.log([max(counts @ k / counts.sum(), 1e-3), 1.0])
    # very large shapes are the same curve: all rows are reached by the same number
    bounds = ([-7.0, -3.0], [25.0, 7.0])
    found = least_squares(relative_error, np.clip(start, *bounds), bounds=bounds)
    mean, shape = (float(f"{each:.4g}") for each in np.exp(found.x))
    return Coverage(mean, shape)


@cache
def _kept(path: Path) -> Mapping[str, Reach]:
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {name: _from_json(each) for name, each in found.items()}


def _from_json(value: Mapping[str, Any]) -> Reach:
    return Reach(
        **{
            name: Coverage(**each) if isinstance(each, dict) else each
            for name, each in value.items()
        }
    )


def known_reach(dataset: str) -> Reach | None:
    """Return the reach that ``keep`` wrote for a dataset, None if there is none."""
    return _kept(REACH_FILE).get(dataset)


def keep(dataset: str, reach: Reach) -> None:
    """Write the reach of a dataset beside those that are kept already."""
    kept = {**_kept(REACH_FILE), dataset: reach}
    found = {name: asdict(each) for name, each in kept.items()}
    write_json(REACH_FILE, dict(sorted(found.items())))
    _kept.cache_clear()
