"""Votes along owned lists, released once, and read along each node's own list.

A labelled training node adds one column v to the sums of its class: v ≥ 0 holds 1/sqrt(d) for each
of the d nodes on its list and its features, |v| ≤ 1. The noisy sums are public, so that a node may
average the rows of all nodes on its own list: its record and a release, which is joint DP. Nothing
is trained, chosen, capped or calibrated by a degree. docs/privacy.md §14, docs/methods.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse
from pydantic import Field

from private_graphs.core.errors import UserError
from private_graphs.datasets.readers import DATASETS
from private_graphs.mechanisms.door import Door
from private_graphs.methods.lattice import NOISE_GENERATOR, LatticeGaussian
from private_graphs.methods.noisy_sums import PROTOCOLS, adjacency_of
from private_graphs.tasks.graph_task import unit_rows
from private_graphs.tasks.method import Context, Method, Outcome, Request, Settings
from private_graphs.tasks.tasks import NodeTask

LIST_SHARE = Fraction(19, 20)
"""Share of the list in |v|²; the features have the rest."""
OWN_ROW = 0.1
"""Weight of a node's own row, beside the sum over its list divided by sqrt(d)."""
FEATURES = 0.2
"""Weight of the features in the scores."""
LEAST_DEGREE = 20
"""Least declared mean length of the lists: on PubMed (4.5) and Cora (3.9) the votes lose."""
_FINEST = Fraction(1, 2**30)
"""Finest spacing of a feature, so that the squares of a row fit into 64 bits."""
_REASON = (
    "a training node adds one term v e_y^T, of which v >= 0, |v| <= 1 is a function of its own "
    "list and features, rounded down to the lattice; replaced, it moves the sum by "
    "|v e_y - v' e_y'|^2 = |v|^2 + |v'|^2 - 2 <v, v'> [y = y'] <= 2, and no other term reads it"
)
CONSTANTS = (
    "the constants of list_means were set on Cornell5, PubMed and Cora, their test nodes among "
    "them; on these graphs that choice is not priced"
)
MUTUAL = (
    "one friendship on both lists is covered at .975 mu towards all but the two friends; a node "
    "with all its friendships, where lists are mutual, is not"
)
EXACT_READ = (
    "each prediction is shown to its own node alone: it is an exact function of the list that it "
    "was read along, and published predictions are not covered"
)


class ListSettings(Settings):
    """What is declared of the lists."""

    mean_degree: float | None = Field(default=None, gt=0)
    """Mean length of the lists: a public number, declared and never counted from the edges. None:
    that of the published size of a built-in dataset."""


def run(task: NodeTask, requests: Sequence[Request], door: Door, context: Context) -> list[Outcome]:
    """Answer every request by one release and one read-out."""
    _check_degree(task, requests[0].settings)
    graph = task.graph
    lists = adjacency_of(graph) if task.lists is None else task.lists
    rows = non_negative(graph.features)
    labelled = graph.labels >= 0
    sides = [np.flatnonzero(side & labelled) for side in (graph.validation_mask, graph.test_mask)]
    places, terms, outcomes = np.concatenate(sides), {}, []
    lattices = [_calibrated(task, request.epsilon) for request in requests]
    queries = [_query(task, lattice) for lattice in lattices]
    door.plan([(query,) if query else () for query in queries])
    for index, (lattice, query) in enumerate(zip(lattices, queries, strict=True)):
        if lattice.spacing not in terms:
            lattice.check_total(graph.n_nodes)
            terms[lattice.spacing] = list_sums(task, lists, rows, Fraction(lattice.spacing))
        (noisy,) = door.of_lanes([index]).gaussian(terms[lattice.spacing][None], [query])
        classes = scores(noisy, lists[places], rows[places], places).argmax(axis=1)
        fields = {"noise_std": lattice.noise_std}
        outcomes.append(Outcome.of(task, classes, settings=fields))
        context.report(len(outcomes), len(requests))
    return outcomes


def _check_degree(task: NodeTask, settings: ListSettings) -> None:
    """Raise UserError unless lists are declared to be long."""
    name, declared = task.graph.info.name, settings.mean_degree
    if declared is None and name in DATASETS:
        size = DATASETS[name].size
        declared = 2 * size.edges / size.nodes
    if declared is None or declared < LEAST_DEGREE:
        length = "no mean length" if declared is None else f"a mean length of {declared:.3g}"
        raise UserError(
            f"{name}: {length} of the lists is declared; list_means expects at least "
            f"{LEAST_DEGREE} (its setting mean_degree, known without counting edges): where lists "
            "are shorter, use mlp_steps, which reads none"
        )


def non_negative(features: Any) -> scipy.sparse.csr_matrix:
    """Return (N, F) float64 rows of norm 1 without negative entries; rows of zeros stay zero."""
    matrix = features if isinstance(features, np.ndarray) else features.to_scipy()
    return unit_rows(scipy.sparse.csr_matrix(matrix).maximum(0))


def list_entries(degrees: np.ndarray, spacing: Fraction) -> np.ndarray:
    """Return the entry of each node on a list of each length in ``degrees``, in spacings.

    The largest whole number m with d · m² ≤ LIST_SHARE / spacing², in integers; 0 for no list.
    """
    lengths, places = np.unique(degrees, return_inverse=True)
    whole = [math.isqrt(LIST_SHARE / max(1, int(d)) // spacing**2) for d in lengths]
    return np.where(degrees > 0, np.array(whole, np.int64)[places], 0)


def feature_entries(rows: scipy.sparse.csr_matrix, spacing: Fraction) -> scipy.sparse.csr_matrix:
    """Return unit ``rows`` times sqrt(1 - LIST_SHARE), rounded down, in spacings (int64).

    The sum of squares of each row is at most (1 - LIST_SHARE) / spacing², in integers: a row that
    exceeds it by an error of floating point is lowered until it does not.
    """
    grid = max(spacing, _FINEST)
    factor, bound = math.sqrt(1 - LIST_SHARE) / float(grid), (1 - LIST_SHARE) // grid**2
    whole = scipy.sparse.csr_matrix(
        (np.floor(rows.data * factor).astype(np.int64), rows.indices, rows.indptr), rows.shape
    )
    owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    while (over := np.asarray(whole.multiply(whole).sum(axis=1)).ravel() > bound).any():
        whole.data -= over[owner] & (whole.data > 0)
    whole.data *= int(grid / spacing)
    return whole


def list_sums(
    task: NodeTask,
    lists: scipy.sparse.csr_matrix,
    rows: scipy.sparse.csr_matrix,
    spacing: Fraction,
) -> np.ndarray:
    """Return (N + F, K) int64, in spacings: sums over labelled training nodes of v e_y^T.

    Row j < N sums over those who list node j, row N + f over those with feature f.
    """
    graph = task.graph
    train = np.flatnonzero(graph.train_mask & (graph.labels >= 0))
    block, length = lists[train], np.diff(lists[train].indptr)
    votes = scipy.sparse.csr_matrix(
        (np.repeat(list_entries(length, spacing), length), block.indices, block.indptr), block.shape
    )
    terms = scipy.sparse.hstack([votes, feature_entries(rows[train], spacing)], format="csr")
    classes = np.eye(task.n_classes, dtype=np.int64)[graph.labels[train]]
    return np.asarray(terms.T @ classes)


def scores(
    noisy: np.ndarray,
    lists: scipy.sparse.csr_matrix,
    rows: scipy.sparse.csr_matrix,
    nodes: np.ndarray,
) -> np.ndarray:
    """Return the (m, K) scores of ``nodes``, each a function of ``noisy`` and its own record.

    ``lists`` (m, N) and unit ``rows`` (m, F) are those of the nodes.
    """
    votes, words = np.split(noisy, [lists.shape[1]])
    shares = np.maximum(votes.sum(axis=0), 1)
    length = np.maximum(np.diff(lists.indptr), 1)
    heard = (lists @ votes) / np.sqrt(length)[:, None] + OWN_ROW * votes[nodes]
    heard /= np.sqrt(shares / shares.sum())
    read = rows @ (words - words.mean(axis=1, keepdims=True))
    return heard - heard.mean(axis=1, keepdims=True) + FEATURES * read


def _calibrated(task: NodeTask, epsilon: float) -> LatticeGaussian:
    """Return the noise at ``epsilon``: sqrt 2 exactly, as rounding down keeps v ≥ 0 and |v| ≤ 1."""
    size = (task.graph.n_nodes + task.graph.n_features) * task.n_classes
    return LatticeGaussian.calibrate(
        epsilon, task.delta, math.sqrt(2), dimension=size, entries=size, contributions=0
    )


def _query(task: NodeTask, lattice: LatticeGaussian) -> Any:
    scenario = task.scenario
    return lattice.query(
        unit=scenario.unit, relation=scenario.relation, reason=_REASON, clipping="row"
    )


def stated(task: NodeTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    """See ``Method.stated``."""
    query = _query(task, _calibrated(task, request.epsilon))
    return {
        "events": (query,) if query else (),
        "noise_generator": NOISE_GENERATOR,
        "public_facts": ("the mean length of the lists, declared without counting them",),
    }


METHODS = (
    Method(
        "list_means",
        "list means",
        run,
        ("lists",),
        summary="Noisy counts of friends by class, read along each node's own list of friends.",
        settings=ListSettings,
        protocols={"sound": PROTOCOLS["sound"]},
        stated=stated,
        prepares="negative features are 0, and every row is scaled to norm 1 by itself",
        assumptions=(MUTUAL, EXACT_READ, CONSTANTS),
    ),
)
