"""Noisy counts of neighbours' labels, then noisy beliefs of asked neighbours: edge-level DP.

Labels of training nodes are public if edges are the private unit, so an edge between a training
node and an asked node adds 1 to one count of one row: L1 distance 1, which Laplace noise of scale
1/ε hides with δ = 0. Rows of training nodes, on which weights are fitted, are counted too; an
edge between two of them adds 1 to one count in two rows, and these get noise of scale 2/ε. A
second release reads the edges between two asked nodes, and no others: the node that the first one
left less certain receives the other's class probabilities, one row of sum 1. No edge is of two of
these kinds, so one ε covers everything. Gaussian noise, which hides L2 distances, would be several
times as large here, because one edge changes a single number. docs/methods.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import softmax, xlogy

from private_graphs.core.errors import UserError
from private_graphs.mechanisms.door import Door
from private_graphs.mechanisms.exact import LARGEST_STEPS
from private_graphs.methods.fusion import fit_weights
from private_graphs.methods.text_only import CHOSEN_BY, fit_probabilities, text_model
from private_graphs.privacy.queries import LaplaceQuery
from private_graphs.tasks.graph_task import UNIT_ROWS, GraphTask
from private_graphs.tasks.method import Context, Method, Outcome, Request

NOISE_GENERATOR = "discrete_laplace"
"""Key of ``privacy.assumptions.NOISE_GENERATORS``."""
STEPS_OF_ONE = 2**16
"""Lattice steps per neighbour, for counts and noise."""
_INVERSE_PENALTY = 0.1
"""Inverse penalty of the logistic regression: the loss is Σ cross-entropy + |weights|² / (2 ·
this)."""
_PRIOR = 3.0
"""Number added to the votes before shares are computed."""
ASKED = "edges between two asked nodes"
"""Name of the part of the edges that the second release reads (``Door.part``)."""
_SECOND = 0.8
"""Weight of the second release, in weights of the first one; it is multiplied by the ratio of what
a row of each hears on average, at most 1."""
_FOLDS = 5
_COMPARED = 3000
"""Number of training nodes that suffice to compare read-outs, and to fit one weight per kind of
evidence: of large graphs not all folds are held out, and not all nodes fit these weights."""
READ_OUTS = ("full", "shared", "text")
"""Candidate read-outs, the first of equals wins: a regression on all rows of ``evidence``, one
weight per kind of evidence for all classes, and texts alone."""
_REASON = (
    "an edge between a training node and one that is asked adds 1 to one count of the latter's "
    "row; one between two training nodes adds 1 to one count of each of their rows, whose noise "
    "has twice the scale; one between two asked nodes adds one row of probabilities, rounded down, "
    "to the second release, which reads no other edges: in units of the noise of its rows an edge "
    "moves the release that reads it by at most 1 in L1 distance"
)
CONSTANTS = (
    "what is read of counts, its penalty and the weight of the second release were compared on "
    "Cora, PubMed and on Facebook's Cornell5, their test nodes among them; on these graphs that "
    "choice is not priced"
)


def label_counts(task: GraphTask) -> np.ndarray:
    """Return (N, K) int64: number of training neighbours of each class, for every node.

    Rows are in the order of ``GraphTask.adjacency``.
    """
    n, classes = task.n_train, task.n_classes
    ones = np.ones(n, np.int64)
    labels = scipy.sparse.csr_matrix((ones, (np.arange(n), task.train_labels)), (n, classes))
    return (task.adjacency[:, :n].astype(np.int64) @ labels).toarray()


def steps_of(epsilon: float) -> int:
    """Return the noise scale of an asked row, in steps: the smallest one that keeps ε.

    Raises:
        UserError: ε is so small that the noise of training rows exceeds exact sampling.
    """
    steps = math.ceil(STEPS_OF_ONE / Fraction(epsilon))
    if 2 * steps > LARGEST_STEPS:
        raise UserError(
            f"epsilon is {epsilon:g}; expected at least {2 * STEPS_OF_ONE / LARGEST_STEPS:g}: "
            "wider noise of label counts is not sampled exactly"
        )
    return steps


def messages(task: GraphTask, beliefs: np.ndarray) -> np.ndarray:
    """Return (m, K) int64, in lattice steps: what each of the m asked nodes receives.

    Of two linked asked nodes, the one whose row of ``beliefs`` (m, K) has more entropy, or of
    equals the later one, receives the other's row, rounded down: its sum is at most 1.
    """
    steps = np.clip(np.floor(beliefs * STEPS_OF_ONE), 0, STEPS_OF_ONE).astype(np.int64)
    if (steps.sum(axis=1) > STEPS_OF_ONE).any():
        raise ValueError("a row of beliefs exceeds 1; expected probabilities")
    ranks = np.empty(len(beliefs), np.int64)
    ranks[np.argsort(-xlogy(beliefs, beliefs).sum(axis=1), kind="stable")] = np.arange(len(beliefs))
    first, second = scipy.sparse.triu(task.adjacency[task.n_train :, task.n_train :], 1).nonzero()
    hears = np.where(ranks[first] > ranks[second], first, second)
    ones = np.ones(len(first), np.int64)
    edges = scipy.sparse.csr_matrix((ones, (hears, first + second - hears)), 2 * (len(beliefs),))
    return edges @ steps


def noisy_counts(
    counts: np.ndarray, n_train: int, door: Door, queries: Sequence[LaplaceQuery | None]
) -> np.ndarray:
    """Return (R, N, K) float64: ``counts`` (N, K), in lattice steps, with noise of each query.

    The noise is discrete Laplace; the first ``n_train`` rows have twice the scale.
    """
    total = np.broadcast_to(counts, (len(queries), *counts.shape))
    weights = np.where(np.arange(len(counts)) < n_train, 2, 1)[:, None]
    return door.laplace(total, queries, spacing=1 / STEPS_OF_ONE, weights=weights)


def _shares(counts: np.ndarray) -> np.ndarray:
    return counts / (np.maximum(counts, 0).sum(axis=1, keepdims=True) + _PRIOR)


def evidence(probabilities: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return (N, 3K): centred log-probabilities of the text, vote shares, and logarithms of votes.

    ``probabilities`` (N, K) are positive; noise may make ``counts`` (N, K) negative.
    """
    votes = np.log1p(np.maximum(counts, 0))
    return np.hstack([_centred(probabilities), _shares(counts), votes])


def ladder(counts: np.ndarray) -> np.ndarray:
    """Return (7, N, K): counts in five steps of growing height, vote shares, and logarithms."""
    steps = [np.clip(counts - low, 0, high) for low, high in
             ((0, 1), (1, 1), (2, 2), (4, 4), (8, None))]  # fmt: skip
    return np.stack([*steps, _shares(counts), np.log1p(np.maximum(counts, 0))])


def _centred(probabilities: np.ndarray) -> np.ndarray:
    logs = np.log(probabilities)
    return logs - logs.mean(axis=1, keepdims=True)


@dataclass(frozen=True)
class Reading:
    """What the first release says."""

    name: str
    """The read-out with the most hits on training nodes, by cross-validation (``READ_OUTS``)."""
    beliefs: np.ndarray
    """(m, K) class probabilities of the asked nodes."""
    weights: np.ndarray
    """(7,) weights of ``ladder``."""


def read(task: GraphTask, probabilities: np.ndarray, noisy: np.ndarray) -> Reading:
    """Choose the read-out of the first release on the training nodes, whose labels are public."""
    n, labels = task.n_train, task.train_labels
    rows = evidence(probabilities, noisy)
    kinds = np.concatenate([_centred(probabilities)[None], ladder(noisy)])

    def full(known: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return _regression(task, rows, known, targets)

    def weights_of(known: np.ndarray) -> np.ndarray:
        known = known[:: max(1, -(-len(known) // _COMPARED))]
        return fit_weights(kinds[:, known], labels[known])

    def shared(known: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return softmax(np.tensordot(weights_of(known), kinds[:, targets], axes=1), axis=1)

    def text(known: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return probabilities[targets]

    tried = dict(zip(READ_OUTS, (full, shared, text), strict=True))
    hits, places = dict.fromkeys(tried, 0), np.arange(len(rows))
    for fold in range(min(_FOLDS, -(-_FOLDS * _COMPARED // max(1, n)))):
        held, known = places[fold:n:_FOLDS], np.flatnonzero(places[:n] % _FOLDS != fold)
        for name, predict in tried.items() if len(known) else ():
            hits[name] += int((predict(known, held).argmax(axis=1) == labels[held]).sum())
    name = max(hits, key=lambda option: hits[option])
    return Reading(name, tried[name](places[:n], places[n:]), weights_of(places[:n])[1:])


def second(reading: Reading, first: np.ndarray, noisy: np.ndarray) -> np.ndarray:
    """Return (m, K) scores of the asked nodes after both releases.

    ``first`` (n, K) are noisy counts of the training nodes, ``noisy`` (m, K) noisy messages.
    """
    scores = _centred(reading.beliefs)
    if reading.name == "text":
        return scores
    ratio = noisy.sum() / len(noisy) / max(first.sum() / len(first), 1e-9)
    weight = _SECOND * min(1.0, max(0.0, ratio))
    return scores + weight * np.tensordot(reading.weights, ladder(noisy), axes=1)


def run(
    task: GraphTask, requests: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Answer every request; the text model is fitted, and edges are counted, once for all."""
    text, counts, n = text_model(task), label_counts(task) * STEPS_OF_ONE, task.n_train
    outcomes = []
    queries = [_query(task, request) for request in requests]
    for gate in (door, door.part(ASKED)):
        gate.plan([(query,) if query else () for query in queries])
    for index, (request, query) in enumerate(zip(requests, queries, strict=True)):
        lane_door = door.of_lanes([index])
        (noisy,) = noisy_counts(counts, n, lane_door, [query])
        reading = read(task, text.probabilities, noisy)
        (votes,) = noisy_counts(messages(task, reading.beliefs), 0, lane_door.part(ASKED), [query])
        scores = second(reading, noisy[:n], votes)
        lane_door.public("scores", [scores])
        settings = {"read_out": reading.name, "noise_scale": _scale(request.epsilon)}
        outcomes.append(
            Outcome.of(
                task,
                scores.argmax(axis=1),
                settings={**text.configuration, **settings},
                n_configurations=text.n_configurations + len(READ_OUTS),
            )
        )
        context.report(len(outcomes), len(requests))
    return outcomes


def _scale(epsilon: float) -> float:
    return 0.0 if math.isinf(epsilon) else steps_of(epsilon) / STEPS_OF_ONE


def _query(task: GraphTask, request: Request) -> LaplaceQuery | None:
    if not request.private:
        return None
    return LaplaceQuery(
        unit=task.scenario.unit,
        relation=task.scenario.relation,
        count=1,
        reason=_REASON,
        sensitivity=1.0,
        scale=_scale(request.epsilon),
        dimension=task.adjacency.shape[0] * task.n_classes,
    )


def stated(task: GraphTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    """See ``Method.stated``."""
    query = _query(task, request)
    events = (query,) if query else ()
    return {"events": events, "chosen_by": CHOSEN_BY, "noise_generator": NOISE_GENERATOR}


def _regression(
    task: GraphTask, rows: np.ndarray, known: np.ndarray, targets: np.ndarray
) -> np.ndarray:
    """Return (m, K) probabilities of ``targets`` by a regression on the ``known`` training rows."""
    centre, spread = rows[known].mean(axis=0), rows[known].std(axis=0)
    first, second = (
        scipy.sparse.csr_matrix((rows[part] - centre) / np.where(spread > 0, spread, 1))
        for part in (known, targets)
    )
    labels = task.train_labels[known]
    return fit_probabilities(first, labels, second, task.n_classes, _INVERSE_PENALTY)


METHODS = (
    Method(
        "label_counts",
        "label counts",
        run,
        ("edges",),
        stated=stated,
        prepares=UNIT_ROWS,
        assumptions=(CONSTANTS,),
        summary="Noisy counts of the neighbours’ labels, as features of each node (edge-level DP).",
    ),
)
