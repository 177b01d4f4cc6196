"""A replica of CARIBOU (NDSS 2026), whose noise does not cover all that its released code shows.

The replica repeats, through the door, the lines that decide what is released; nothing is trained.
``mechanisms.replay`` says what of it depends on an edge, and ``twins`` what can be read off.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from private_graphs.core.streams import Streams
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.mechanisms.door import UNSEEN, Door, Watch
from private_graphs.privacy.queries import GaussianQuery

_FRIENDSHIP = {"unit": "edge_undirected", "relation": "add_remove"}
OWN = 10.0
"""Weight of a node's own features in CARIBOU's artifact."""
_GENEROUS = 1e3


def adjacency_of(dataset: GraphDataset, without: tuple[int, int] | None = None) -> sp.csr_array:
    """Return the symmetric adjacency matrix (N, N) of a graph, less one edge."""
    edges = np.asarray(dataset.edge_index)
    if without is not None:
        edges = edges[:, ~(np.sort(edges, axis=0).T == np.sort(without)).all(axis=1)]
    n = dataset.n_nodes
    half = sp.coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(n, n))
    return (half + half.T).tocsr()


def aggregated_rows(
    adjacency: sp.csr_array, features: np.ndarray, noise_std: float, watch: Watch = UNSEEN,
    *, mended: bool = False, layers: int = 5, own: float = OWN, contraction: float = 0.9,
) -> np.ndarray:  # fmt: skip
    """Return the rows (N, d) that CARIBOU's classifier reads (its ``compute_aggregations``).

    Every layer aggregates, adds noise, and aggregates again: the last step adds none, and is left
    out where the code is ``mended``. ``own`` is the weight of a node's own features,
    ``contraction`` that of its neighbours; the values are those of its artifact.
    """
    query = GaussianQuery(count=layers, sensitivity=_GENEROUS, noise_std=noise_std,
                          reason="more than one edge moves", **_FRIENDSHIP)  # fmt: skip
    door = Door.of([Streams.of({"replica": "caribou"})], watch)
    door.plan([(query,)])
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    roots = sp.diags_array(np.divide(1, np.sqrt(degrees), where=degrees > 0, out=0 * degrees))
    neighbours = roots @ adjacency @ roots

    def aggregate(rows: np.ndarray) -> np.ndarray:
        return contraction * (neighbours @ rows) + own * features

    rows = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    for layer in range(layers):
        [rows] = door.gaussian(aggregate(rows)[None], [query])
        if layer < layers - 1:
            rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
        if layer < layers - 1 or not mended:
            rows = aggregate(rows)
    door.public("input of the classifier", [rows])
    door.close()
    return rows


def twins(adjacency: sp.csr_array) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each node that several nodes have as their only neighbour, and these."""
    leaves = np.flatnonzero(np.diff(adjacency.indptr) == 1)
    hubs = adjacency[leaves].indices
    for hub in np.unique(hubs):
        if (alike := leaves[hubs == hub]).size > 1:
            yield int(hub), alike
