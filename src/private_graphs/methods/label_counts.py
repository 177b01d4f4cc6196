"""Noisy counts of neighbours' labels as features of each node: edge-level DP.

Labels of training nodes are public if edges are the private unit, so an edge between a training
node and an asked node adds 1 to one count of one row: L1 distance 1, which Laplace noise of scale
1/ε hides with δ = 0. Rows of training nodes, on which the weights are fitted, are counted too; an
edge between two of them adds 1 to one count in two rows, and these get noise of scale 2/ε. No edge
is in both kinds, so one ε covers all rows. Gaussian noise, which hides L2 distances, would be
several times as large here, because one edge changes a single number. docs/methods.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse

from private_graphs.errors import UserError
from private_graphs.mechanisms.door import Door
from private_graphs.methods.method import Context, Method, Outcome, Request
from private_graphs.methods.text_only import CHOSEN_BY, fit_probabilities, fit_text_model
from private_graphs.privacy.events import LaplaceQuery
from private_graphs.tasks import UNIT_ROWS, GraphTask
from private_graphs.training.exact import LARGEST_STEPS

NOISE_GENERATOR = "discrete_laplace"
"""Key of ``privacy.assumptions.NOISE_GENERATORS``."""
STEPS_OF_ONE = 2**16
"""Lattice steps per neighbour, for counts and noise."""
_INVERSE_PENALTY = 0.1
"""Inverse penalty of the logistic regression: the loss is Σ cross-entropy + |weights|² / (2 ·
this)."""
_PRIOR = 3.0
"""Number added to the votes before shares are computed."""
_REASON = (
    "an edge between a training node and one that is asked adds 1 to one count of the latter's "
    "row; one between two training nodes adds 1 to one count of each of their rows, whose noise "
    "has twice the scale; other edges are not read: in units of the noise of its rows an edge "
    "moves all counts by 1 in L1 distance"
)
CONSTANTS = (
    "what the regression reads of counts and its penalty were compared on Cora and on Facebook's "
    "Cornell5, their test nodes among them; on these graphs that choice is not priced"
)


def label_counts(task: GraphTask) -> np.ndarray:
    """Return (N, K) int64: number of training neighbours of each class, for every node.

    The only reader of the edges; rows are in the order of ``GraphTask.adjacency``.
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


def noisy_counts(
    counts: np.ndarray, n_train: int, door: Door, queries: Sequence[LaplaceQuery | None]
) -> np.ndarray:
    """Return (R, N, K) float64: ``counts`` (N, K) with discrete Laplace noise of each query.

    The first ``n_train`` rows have twice the scale.
    """
    total = np.broadcast_to(counts * STEPS_OF_ONE, (len(queries), *counts.shape))
    weights = np.where(np.arange(len(counts)) < n_train, 2, 1)[:, None]
    return door.laplace(total, queries, spacing=1 / STEPS_OF_ONE, weights=weights)


def evidence(probabilities: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return (N, 3K): centred log-probabilities of the text, vote shares, and logarithms of votes.

    ``probabilities`` (N, K) are positive; noise may make ``counts`` (N, K) negative.
    """
    logs = np.log(probabilities)
    votes = np.maximum(counts, 0)
    shares = counts / (votes.sum(axis=1, keepdims=True) + _PRIOR)
    return np.hstack([logs - logs.mean(axis=1, keepdims=True), shares, np.log1p(votes)])


def run(
    task: GraphTask, requests: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Answer every request; the text model is fitted, and edges are counted, once for all."""
    text, counts = fit_text_model(task), label_counts(task)
    outcomes = []
    queries = [_query(task, request) for request in requests]
    door.plan([(query,) if query else () for query in queries])
    for place, (request, query) in enumerate(zip(requests, queries, strict=True)):
        (noisy,) = noisy_counts(counts, task.n_train, door.of_lanes([place]), [query])
        predictions = _predict(task, evidence(text.probabilities, noisy))
        outcomes.append(
            Outcome.of(
                task,
                predictions,
                settings={**text.configuration, "noise_scale": _scale(request.epsilon)},
                n_configurations=text.n_configurations,
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


def _predict(task: GraphTask, rows: np.ndarray) -> np.ndarray:
    """Return classes (V+M,) by a logistic regression fitted on the training rows."""
    n = task.n_train
    if not n:
        return np.zeros(len(rows), np.int64)
    centre, spread = rows[:n].mean(axis=0), rows[:n].std(axis=0)
    units = scipy.sparse.csr_matrix((rows - centre) / np.where(spread > 0, spread, 1))
    fitted = fit_probabilities(
        units[:n], task.train_labels, units[n:], task.n_classes, _INVERSE_PENALTY
    )
    return fitted.argmax(axis=1)


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
