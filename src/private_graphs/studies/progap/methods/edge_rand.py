"""EdgeRand: a GraphSAGE on a graph whose edges are perturbed by randomised response.

Wu, Long, Zhang & Li, LinkTeller, IEEE S&P 2022, Section 6; as in ProGAP's code. A noisy density d
is released with a tenth of the budget. Then every pair of nodes is an edge of the new graph with
probability p·s if it is one, and (1-p)·s if not, with p = e^ε/(1+e^ε) and s = d/(2pd - p - d + 1),
which keeps the density. As d is at most 1/2, s is at most 1 and the ratio of both answers at most
e^ε. docs/privacy.md §6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse
from pydantic import Field

from private_graphs.datasets.spec import GraphSize
from private_graphs.mechanisms.door import Door
from private_graphs.methods.noisy_sums import PROTOCOLS as SUMS
from private_graphs.methods.noisy_sums import (
    WIDTH,
    SumsData,
    SumsProtocol,
    SumsSettings,
    layer,
    memory,
    norms,
    started,
    sums_method,
)
from private_graphs.privacy.events import Event
from private_graphs.privacy.queries import PureQuery
from private_graphs.tasks.method import Context, Outcome, PrintedEpsilon, Request
from private_graphs.tasks.tasks import NodeTask

if TYPE_CHECKING:
    from private_graphs.training import stacks

_STREAM = "pairs"
SHARE = 0.9
"""Share of the budget for the pairs; the rest is for the density."""
_CHUNK = 500
"""Number of rows for which the authors' code computes a separate density."""


class SageSettings(SumsSettings):
    """Settings of GraphSAGE: ``hops`` is its number of layers."""

    hops: int = Field(default=2, ge=1)


@dataclass(frozen=True, kw_only=True)
class EdgeRandProtocol(SumsProtocol):
    """Pairs for which edges are drawn."""

    pairs: Literal["both_triangles", "once"]
    """``both_triangles``: independent draws for each direction, hence two releases of every
    edge; densities are of chunks of rows, with the noise of a density of the whole graph."""


PROTOCOLS = {
    "released": EdgeRandProtocol(**vars(SUMS["released"]), pairs="both_triangles"),
    "sound": EdgeRandProtocol(**vars(SUMS["sound"]), pairs="once"),
}


def keeping(epsilon: float, density: float) -> tuple[float, float]:
    """Return P(1|1) and P(1|0) at ``epsilon`` and a noisy density in (0, ½]."""
    p = 1 / (1 + math.exp(-epsilon))
    s = density / (2 * p * density - p - density + 1)
    return p * s, (1 - p) * s


def noisy_density(share: float, moves: float, door: Door, query: PureQuery) -> float:
    """Return the noisy share of pairs that are edges, of sensitivity ``moves``; at most ½."""
    ((noisy,),) = door.laplace(np.array([[share]]), [query], sensitivity=moves, stream=_STREAM)
    return min(float(noisy), 0.5)


def randomised(
    edges: np.ndarray, n_nodes: int, door: Door, plan: Sequence[PureQuery]
) -> np.ndarray:
    """Return (2, E') pairs i < j, each pair drawn once, given the (2, E) ``edges``.

    ``plan``: the queries of the density and of the pairs.
    """
    n_pairs = n_nodes * (n_nodes - 1) // 2
    density = noisy_density(edges.shape[1] / n_pairs, 1 / n_pairs, door, plan[0])

    def sample(generator: np.random.Generator, size: int) -> np.ndarray:
        ends = generator.integers(0, n_nodes, (2, size))
        low, high = ends.min(0), ends.max(0)
        return (low * n_nodes + high)[low < high]

    codes = edges[0] * n_nodes + edges[1]
    return _decoded(
        _drawn(codes, n_pairs, max(density, 1 / n_pairs), door, plan[1], sample), n_nodes
    )


def randomised_rows(
    edges: np.ndarray, n_nodes: int, door: Door, plan: Sequence[PureQuery]
) -> np.ndarray:
    """Return (2, E') ordered pairs (i, j), i ≠ j, drawn as in the authors' code.

    Every row of the adjacency matrix is drawn independently, so an edge is drawn in both
    directions; each ``_CHUNK`` rows have their own noisy density, with noise for the density of all
    rows.
    """
    arcs = np.concatenate([edges, edges[::-1]], axis=1)
    last, drawn = n_nodes % _CHUNK or _CHUNK, []
    for start in range(0, n_nodes, _CHUNK):
        stop = min(start + _CHUNK, n_nodes)
        rows = arcs[:, (arcs[0] >= start) & (arcs[0] < stop)]
        # all chunks have the noise of the last one, whose density an edge changes most
        density = noisy_density(
            rows.shape[1] / ((stop - start) * n_nodes), 1 / (last * n_nodes), door, plan[0]
        )

        def sample(
            generator: np.random.Generator, size: int, start: int = start, stop: int = stop
        ) -> np.ndarray:
            row, column = generator.integers((start, 0), (stop, n_nodes), (size, 2)).T
            return (row * n_nodes + column)[row != column]

        n_pairs = (stop - start) * (n_nodes - 1)
        codes = rows[0] * n_nodes + rows[1]
        drawn.append(_drawn(codes, n_pairs, max(density, 0.0), door, plan[1], sample))
    return _decoded(np.concatenate(drawn), n_nodes)


def _drawn(
    codes: np.ndarray,
    n_pairs: int,
    density: float,
    door: Door,
    query: PureQuery,
    sample: Callable[[np.random.Generator, int], np.ndarray],
) -> np.ndarray:
    """Return the codes of the drawn pairs, given those of the edges among ``n_pairs``.

    ``sample(generator, size)`` draws about ``size`` pairs uniformly.
    """
    true_rate, false_rate = keeping(query.epsilon, density)
    return door.flip(codes, n_pairs, true_rate, false_rate, query, sample, stream=_STREAM)


def _decoded(codes: np.ndarray, n_nodes: int) -> np.ndarray:
    return np.stack(np.divmod(codes, n_nodes))


@dataclass(frozen=True, eq=False)
class Sage:
    """A layer on the features, ``layers`` mean aggregations, all outputs concatenated, a head."""

    n_features: int
    n_classes: int
    layers: int
    matrices: Sequence[scipy.sparse.csr_matrix]
    """(N, N) means over neighbours, per replica or shared."""
    norm: stacks.Norm = "batch"

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Parameter shapes of one replica."""
        h, numbers = WIDTH, range(self.layers)
        shapes = layer("first", self.n_features, h)
        for number in numbers:
            shapes |= layer(f"near{number}", 1, h, h) | layer(f"self{number}", 1, h, h)
        shapes |= layer("joined", 1, self.layers * h, h)
        shapes |= norms(["first", *(f"near{number}" for number in numbers), "joined"], 1, h)
        return shapes | layer("head", 1, h, self.n_classes)

    def base(self, forward: stacks.Forward):
        """Return (R, 1, N, h): the first messages of all nodes."""
        return forward.norm("first.norm", self.norm, forward.features("first"), after_selu=True)

    def gathered(self, forward: stacks.Forward, values):
        """Return the aggregation of each node's neighbours' ``values``, and its own values."""
        from private_graphs.training.stacks import Mixed

        return Mixed.apply(values, self.matrices), values

    def __call__(self, forward: stacks.Forward):
        """Return logits (R, N, C)."""
        import torch
        from torch.nn.functional import normalize, selu

        values = self.base(forward)
        outputs = []
        for number in range(self.layers):
            got, values = self.gathered(forward, values)
            message = forward.linear(f"near{number}", got)
            values = normalize(message + forward.linear(f"self{number}", values), dim=-1)
            values = selu(forward.norm(f"near{number}.norm", self.norm, values))
            outputs.append(values)
        joined = forward.linear("joined", torch.cat(outputs, dim=-1))
        return forward.linear("head", selu(forward.norm("joined.norm", self.norm, joined)))[:, 0]


def _means(first: np.ndarray, second: np.ndarray, n: int) -> scipy.sparse.csr_matrix:
    """Return (N, N): row ``second`` averages over its senders."""
    matrix = scipy.sparse.csr_matrix(
        (np.ones(len(first), np.float32), (second, first)), (n, n), dtype=np.float32
    )
    degrees = np.maximum(1, np.diff(matrix.indptr))
    matrix.data /= np.repeat(degrees, np.diff(matrix.indptr)).astype(np.float32)
    return matrix


def stated(task: NodeTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    """See ``Method.stated``."""
    claim = None
    if request.private and task.protocol.calibration == "published":
        claim = PrintedEpsilon(request.epsilon, "randomised response of every pair, once")
    return {"events": _events(task, request), "claim": claim, "noise_generator": "flips"}


def _events(task: NodeTask, request: Request) -> tuple[Event, ...]:
    if not request.private:
        return ()
    words: dict[str, Any] = {"unit": "edge_undirected", "relation": "add_remove"}
    pairs, density = SHARE * request.epsilon, (1 - SHARE) * request.epsilon
    if task.protocol.pairs == "once":
        return (
            PureQuery(epsilon=density, count=1, reason="one edge moves the density by one pair, "
                      "under Laplace noise in proportion", **words),
            PureQuery(epsilon=pairs, count=1, reason="one pair is drawn by randomised response "
                      "whose probabilities differ by e^ε at most", **words),
        )  # fmt: skip
    n = task.graph.n_nodes
    chunk = density * n / (n % _CHUNK or _CHUNK)  # the last chunk may be smaller
    words |= {"count": 2, "calls": -(-n // _CHUNK)}
    return (
        PureQuery(epsilon=chunk, reason="one edge moves the densities of two chunks of "
                  "rows, whose noise is that of a density of the whole graph", **words),
        PureQuery(epsilon=pairs, reason="both directions of an edge are drawn by "
                  "themselves, each by randomised response", **words),
    )  # fmt: skip


def _graph(data: SumsData, request: Request, door: Door) -> scipy.sparse.csr_matrix:
    """Return the neighbour means of a run's perturbed graph."""
    edges, n = data.task.graph.edge_index, data.task.graph.n_nodes
    plan = _events(data.task, request)
    door.plan([plan])
    if not request.private:
        return _means(np.r_[edges[0], edges[1]], np.r_[edges[1], edges[0]], n)
    if data.task.protocol.pairs == "once":
        first, second = randomised(edges, n, door, plan)
        return _means(np.r_[first, second], np.r_[second, first], n)
    return _means(*randomised_rows(edges, n, door, plan), n)  # type: ignore[call-arg]


def _memory(settings: SageSettings, size: GraphSize, runs: int) -> int:
    """See ``Method.memory``: every run has a graph of its own, about as large as the true one."""
    return memory(settings, size, runs) + 32 * runs * size.edges


def _train(data: SumsData, requests: Sequence[Request], door: Door) -> list[Outcome]:
    from private_graphs.training import stacks

    task, settings = data.task, requests[0].settings
    matrices = [
        _graph(data, request, door.of_lanes([lane])) for lane, request in enumerate(requests)
    ]
    matrices = matrices if requests[0].private else matrices[:1]
    network = Sage(task.graph.n_features, task.n_classes, settings.hops, matrices)
    inputs, labels = stacks.StackInputs(data.rows), task.graph.labels
    stack = started(network, [request.streams for request in requests])
    fit = stacks.Fit(
        inputs, labels[data.train], [request.settings.learning_rate for request in requests],
        settings.epochs, inputs, labels[data.validation], data.train, data.validation,
    )  # fmt: skip
    stacks.train_whole(network, stack, fit)
    predicted = stacks.predictions(network, stack, inputs)
    return [
        Outcome(
            test_predictions=classes[data.test],
            validation_predictions=classes[data.validation],
            measured={"epochs": settings.epochs},
        )
        for classes in predicted
    ]


METHODS = (
    sums_method(
        "edge_rand",
        "EdgeRand",
        _train,
        ("links",),
        settings=SageSettings,
        protocols=PROTOCOLS,
        named=("hops",),
        stated=stated,
        memory=_memory,
        summary="Randomised response on every edge, then GraphSAGE on the noisy graph.",
    ),
)
