"""The best classifier on texts and training labels alone: no edge, hence edge-level ε = 0.

A multinomial logistic regression on damped TF-IDF rows, then votes of the nodes with the most
similar texts: their label if known, else the classes that the regression finds likely. A second
logistic regression combines the two. Everything is public if edges are the private unit: the texts
of all nodes and the training labels, on which cross-validation chooses all settings. The class
probabilities are also the initial beliefs of ``edge_votes``, out of fold on training nodes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse
from scipy.special import log_softmax, softmax

from private_graphs.graphs.similar import similar_in_blocks
from private_graphs.mechanisms.door import Door
from private_graphs.methods.fusion import fit_weights
from private_graphs.tasks.graph_task import UNIT_ROWS, GraphTask, unit_rows
from private_graphs.tasks.method import Context, Method, Outcome, Request

INVERSE_PENALTIES = (1.0, 3.0, 10.0)
"""Candidates C of the regularisation: the loss is Σ cross-entropy + |weights|² / (2 C)."""
NEIGHBOURHOODS = (3, 5, 10)
"""Candidate numbers of similar texts that vote."""
N_CONFIGURATIONS = len(INVERSE_PENALTIES) + len(NEIGHBOURHOODS)
_FOLDS = 5
_FLOOR = 1e-6
_ITERATIONS = 200
CHOSEN_BY = "hits on the public training labels, by five-fold cross-validation"
"""Data on which the settings of ``TextModel`` were compared."""
_CHUNK = 512
_EXACT = 20_000
"""Most nodes whose similar texts are found by comparing all pairs, and whose penalty is chosen on
all folds."""


@dataclass(frozen=True)
class TextModel:
    """Class probabilities of every node from public data."""

    probabilities: np.ndarray
    """(n+V+M, K) in the order of ``GraphTask.adjacency``: a training node's are computed without
    the labels of its fold (including its own), other nodes' with all training labels."""
    configuration: dict[str, float]
    """The chosen settings."""
    n_configurations: int = N_CONFIGURATIONS
    chosen_by: str = CHOSEN_BY


def text_rows(task: GraphTask) -> scipy.sparse.csr_matrix:
    """Return (n+V+M, d) unit rows: signed square roots of the features times sqrt(idf).

    idf is log((1 + N) / (1 + nodes with the word)) + 1 over all N nodes, whose texts are public; a
    column that every node has keeps its weight. Binary words, counts and TF-IDF all become damped
    TF-IDF.
    """
    parts = (task.train_features, task.validation_features, task.test_features)
    rows = scipy.sparse.csr_matrix(scipy.sparse.vstack(parts))
    rows.data = np.sign(rows.data) * np.sqrt(np.abs(rows.data))
    frequency = np.asarray((rows != 0).sum(axis=0)).ravel()
    inverse = np.log((1 + rows.shape[0]) / (1 + frequency)) + 1
    return unit_rows(rows @ scipy.sparse.diags(np.sqrt(inverse)))


def fit_logistic(
    rows: scipy.sparse.csr_matrix, labels: np.ndarray, n_classes: int, inverse_penalty: float
) -> np.ndarray:
    """Fit a multinomial logistic regression, return (d + 1, K) weights, the last row unpenalised.

    Minimises Σ cross-entropy + |weights|² / (2 · ``inverse_penalty``) by L-BFGS over ``rows``
    (n, d) and ``labels`` (n,) in 0..K-1.
    """
    n, d = rows.shape
    target = np.eye(n_classes)[labels]
    columns = rows.T.tocsr()

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(d + 1, n_classes)
        logs = log_softmax(rows @ weights[:d] + weights[d], axis=1)
        residual = np.exp(logs) - target
        gradient = np.empty_like(weights)
        gradient[:d] = columns @ residual + weights[:d] / inverse_penalty
        gradient[d] = residual.sum(axis=0)
        value = -(logs * target).sum() + (weights[:d] ** 2).sum() / (2 * inverse_penalty)
        return value / n, gradient.ravel() / n

    fitted = scipy.optimize.minimize(
        loss,
        np.zeros((d + 1) * n_classes),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _ITERATIONS, "gtol": 1e-5},
    )
    return fitted.x.reshape(d + 1, n_classes)


def fit_probabilities(
    rows: scipy.sparse.csr_matrix,
    labels: np.ndarray,
    targets: scipy.sparse.csr_matrix,
    n_classes: int,
    inverse_penalty: float,
) -> np.ndarray:
    """Fit on ``rows`` (n, d) and ``labels`` (n,), return (m, K) probabilities of ``targets``.

    Classes without a training node get the probability 1e-6; with fewer than two classes every row
    is the smoothed frequency of the labels.
    """
    counts = np.bincount(labels, minlength=n_classes)
    classes = np.flatnonzero(counts)
    if len(classes) < 2:
        return np.tile((counts + 1) / (counts.sum() + n_classes), (targets.shape[0], 1))
    places = np.searchsorted(classes, labels)
    weights = fit_logistic(rows, places, len(classes), inverse_penalty)
    probabilities = np.full((targets.shape[0], n_classes), _FLOOR)
    predicted = softmax(targets @ weights[:-1] + weights[-1], axis=1)
    probabilities[:, classes] = np.maximum(predicted, _FLOOR)
    return probabilities / probabilities.sum(axis=1, keepdims=True)


def similar_texts(rows: scipy.sparse.csr_matrix, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes (N, k) of the most similar other texts, nearest first, and their cosines.

    k is ``count``, or N - 1 if smaller. Non-positive cosines are returned as 0. Of many nodes they
    are found in blocks, and a few of the nearest may be missed.
    """
    if rows.shape[0] > _EXACT:
        return similar_in_blocks(rows, count)
    rows = rows.astype(np.float32)
    n_nodes = rows.shape[0]
    count = min(count, n_nodes - 1)
    nodes = np.empty((n_nodes, count), dtype=np.int64)
    cosines = np.empty((n_nodes, count))
    for start in range(0, n_nodes, _CHUNK):
        chunk = np.arange(start, min(start + _CHUNK, n_nodes))
        scores = np.ascontiguousarray((rows @ rows[chunk].T.toarray()).T)  # (chunk, N)
        scores[np.arange(len(chunk)), chunk] = -np.inf
        nearest = np.argpartition(-scores, count - 1, axis=1)[:, :count] if count else nodes[chunk]
        nearest.sort(axis=1)
        values = np.take_along_axis(scores, nearest, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        nodes[chunk] = np.take_along_axis(nearest, order, axis=1)
        cosines[chunk] = np.maximum(np.take_along_axis(values, order, axis=1), 0)
    return nodes, cosines


def text_votes(nodes: np.ndarray, cosines: np.ndarray, beliefs: np.ndarray) -> np.ndarray:
    """Return (m, K): cosine-weighted sums of the (N, K) beliefs, less 1/K, of m × k nodes."""
    centred = beliefs - beliefs.mean(axis=1, keepdims=True)
    return np.einsum("mk,mkc->mc", cosines, centred[nodes])


def _folds(n_train: int, n_nodes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return pairs (nodes whose labels are known, nodes that are predicted), all (N,) bool.

    Training node i is predicted in pass i mod 5, without the labels of that fold; the last pass
    knows all training labels and predicts all other nodes.
    """
    everyone = np.arange(n_nodes)
    training = everyone < n_train
    folds = [training & (everyone % _FOLDS == number) for number in range(_FOLDS)]
    return [(training & ~fold, fold) for fold in folds] + [(training, ~training)]


def first_beliefs(
    rows: scipy.sparse.csr_matrix, labels: np.ndarray, known: np.ndarray, n_classes: int, c: float
) -> np.ndarray:
    """Return (N, K): known labels as one-hot rows, other nodes by a regression on the known ones.

    ``labels`` (n,) are those of the first n nodes; only the ``known`` (N,) ones are read.
    """
    seen = labels[known[: len(labels)]]
    beliefs = np.zeros((rows.shape[0], n_classes))
    beliefs[known] = np.eye(n_classes)[seen]
    beliefs[~known] = fit_probabilities(rows[known], seen, rows[~known], n_classes, c)
    return beliefs


def fit_text_model(task: GraphTask) -> TextModel:
    """Fit the classifier: first the penalty, then the neighbourhood with the most out-of-fold hits.

    Ties go to the first candidate; of many nodes, penalties are compared on one fold. Texts and
    training labels are read, no validation labels and no edges. The label of a training node
    affects its own probabilities only through what cross-validation chooses (the two settings and
    the two weights).
    """
    rows, labels, n = text_rows(task), task.train_labels, task.n_train
    n_nodes, n_classes = rows.shape[0], task.n_classes
    passes = _folds(n, n_nodes)
    compared = passes if n_nodes <= _EXACT else passes[:1]

    def hits(scores: np.ndarray) -> int:
        return int((scores[:n].argmax(axis=1) == labels).sum())

    def asked_only(of_pass: list[np.ndarray]) -> np.ndarray:
        rows_of = zip(passes, of_pass, strict=False)
        return sum(np.where(mask[:, None], part, 0) for (_, mask), part in rows_of)

    tried = []
    for c in INVERSE_PENALTIES:
        beliefs = [first_beliefs(rows, labels, known, n_classes, c) for known, _ in compared]
        tried.append((hits(asked_only(beliefs)), beliefs, c))
    _, beliefs, penalty = max(tried, key=lambda trial: trial[0])
    beliefs = beliefs + [
        first_beliefs(rows, labels, known, n_classes, penalty)
        for known, _ in passes[len(compared) :]
    ]
    logs = np.log(asked_only(beliefs))
    logs -= logs.mean(axis=1, keepdims=True)
    nodes, cosines = similar_texts(rows, max(NEIGHBOURHOODS))
    fused = []
    for k in NEIGHBOURHOODS:
        votes = asked_only([text_votes(nodes[:, :k], cosines[:, :k], belief) for belief in beliefs])
        scores = np.stack([logs, votes])
        total = np.tensordot(fit_weights(scores[:, :n], labels), scores, axes=1)
        fused.append((hits(total), softmax(total, axis=1), k))
    _, probabilities, k = max(fused, key=lambda trial: trial[0])
    settings = {"inverse_penalty": penalty, "text_neighbours": k}
    return TextModel(np.maximum(probabilities, _FLOOR), settings)


_LAST: dict[bytes, TextModel] = {}
"""The model that was fitted last, by a hash of what it was fitted on."""


def text_model(task: GraphTask) -> TextModel:
    """Return ``fit_text_model(task)``, which methods that run on the same texts fit once."""
    rows = text_rows(task)
    parts = (rows.data, rows.indices, rows.indptr, task.train_labels, np.array(task.n_classes))
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(part).tobytes())
    key = digest.digest()
    if key not in _LAST:
        _LAST.clear()
        _LAST[key] = fit_text_model(task)
    return _LAST[key]


def stated(task: GraphTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    """See ``Method.stated``."""
    return {"chosen_by": CHOSEN_BY}


def run(
    task: GraphTask, requests: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Answer every request alike: nothing is random and no budget is spent."""
    model = text_model(task)
    predictions = model.probabilities.argmax(axis=1)[task.n_train :]
    outcome = Outcome.of(
        task, predictions, settings=model.configuration, n_configurations=model.n_configurations
    )
    context.report(len(requests), len(requests))
    return [outcome] * len(requests)


METHODS = (
    Method(
        "text_only",
        "text only",
        run,
        ("edges",),
        prepares=UNIT_ROWS,
        reads_private=False,
        stated=stated,
        summary="Baseline: the best classifier on texts and training labels; no edge is read.",
    ),
)
