"""Representations of texts learned from public texts alone: weights, averages, axes.

Public rows determine every map here; applied to a private row, a map reads that row and nothing
else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.sparse

from private_graphs.tasks.graph_task import GraphTask, Records, unit_rows

MAX_ROWS = 2000
"""Maximum number of public rows, evenly spaced, from which principal axes are computed."""
MAX_RANK = 512
RESTART = 0.2
"""Weight of the initial scores in every averaging step (Gasteiger et al. 2019, personalised
propagation)."""
_EQUAL = 1e-9
_NO_VARIANCE = 1e-12
"""Variance of rows of norm 1 below which they are equal up to rounding."""


def public_rows(task: GraphTask) -> scipy.sparse.csr_matrix:
    """Return the public feature rows: validation nodes, under ``graph`` then the test nodes."""
    if task.public_adjacency is None:
        return task.validation_features
    stacked = scipy.sparse.vstack([task.validation_features, task.test_features])
    return scipy.sparse.csr_matrix(stacked)


def mean_of_neighbours(adjacency: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Return the (P, P) matrix that averages each row over itself and its neighbours."""
    looped = adjacency + scipy.sparse.eye(adjacency.shape[0], format="csr")
    return scipy.sparse.csr_matrix(scipy.sparse.diags(1.0 / looped.sum(axis=1).A1) @ looped)


def propagated(
    scores: np.ndarray,
    smoothing: scipy.sparse.csr_matrix,
    steps: int,
    current: np.ndarray | None = None,
) -> np.ndarray:
    """Return scores (P, columns) after ``steps`` of (1-RESTART) averaging + RESTART · scores.

    ``current``: the result of earlier steps on ``scores``, to which ``steps`` more are applied.
    """
    current = scores if current is None else current
    restart = RESTART * scores if steps else scores
    for _ in range(steps):
        current = smoothing @ current
        current *= 1 - RESTART
        current += restart
    return current


def inverse_document_weights(public: scipy.sparse.csr_matrix) -> np.ndarray:
    """Return (d,) weights log((P+1)/(df+1)) of the columns, df counted on P public rows.

    If rows are weighted already (entries differ within some public row), all weights are 1: the
    rule treats presence vectors and TF-IDF vectors alike. A column that occurs in no public row
    gets the largest weight. Source: Sparck Jones 1972; smoothed as in scikit-learn, without the
    added 1.
    """
    counts = np.diff(public.indptr)
    filled = np.flatnonzero(counts)
    starts = public.indptr[filled]
    if not len(filled):
        return np.ones(public.shape[1])
    spread = np.maximum.reduceat(public.data, starts) - np.minimum.reduceat(public.data, starts)
    if (spread > _EQUAL).any():
        return np.ones(public.shape[1])
    frequency = np.bincount(public.indices, minlength=public.shape[1])
    return np.log((public.shape[0] + 1) / (frequency + 1))


def reweighted(rows: scipy.sparse.csr_matrix, weights: np.ndarray) -> scipy.sparse.csr_matrix:
    """Return the rows with columns times ``weights``, rescaled to norm 1."""
    return unit_rows(rows @ scipy.sparse.diags(weights))


@dataclass(frozen=True, eq=False)
class Axes:
    """Centre and orthonormal principal axes of public rows, by decreasing variance."""

    centre: np.ndarray
    """(d,)"""
    directions: np.ndarray
    """(d, rank)"""

    @property
    def rank(self) -> int:
        """Number of axes."""
        return int(self.directions.shape[1])

    def unit(self, rows: scipy.sparse.csr_matrix, rank: int) -> np.ndarray:
        """Return (rows, rank): coordinates on the first axes, scaled to norm 1, or zero."""
        directions = self.directions[:, :rank]
        projected = np.asarray(rows @ directions) - self.centre @ directions
        norms = np.linalg.norm(projected, axis=1, keepdims=True)
        mask = norms > _EQUAL
        return np.divide(projected, norms, out=np.zeros_like(projected), where=mask)


def principal_axes(public: scipy.sparse.csr_matrix) -> Axes:
    """Return up to MAX_RANK axes along which the public rows vary.

    If they do not vary (a single row, for example), the first column is the only axis.
    """
    step = -(-public.shape[0] // MAX_ROWS)
    dense = public[::step].toarray()
    centre = dense.mean(axis=0)
    dense -= centre
    tall = dense.shape[0] > dense.shape[1]
    gram = dense.T @ dense if tall else dense @ dense.T
    variances, vectors = scipy.linalg.eigh(gram, driver="evd")
    order = np.argsort(-variances, kind="stable")[:MAX_RANK]
    order = order[variances[order] > max(variances.max() * 1e-10, _NO_VARIANCE)]
    if not len(order):
        return Axes(centre, np.eye(public.shape[1], 1))
    directions = vectors[:, order]
    if not tall:
        directions = dense.T @ (directions / np.sqrt(variances[order]))
    return Axes(centre, directions * np.where(directions.sum(axis=0) < 0, -1.0, 1.0))


@dataclass(frozen=True, eq=False)
class PublicText:
    """Rows that represent nodes, and the maps learned from public texts.

    A training node's row depends on its own record (text and edges to public nodes) and on public
    texts, so that a replaced node changes one row. Edges among training nodes are not read.
    """

    weights: np.ndarray
    """(d,) weights of the columns."""
    axes: Axes
    """Principal axes of ``public``."""
    public: scipy.sparse.csr_matrix
    """(P, d): weighted public texts after ``hops`` averages over neighbours, of norm 1."""
    met: scipy.sparse.csr_matrix | None
    """(P, d): the same after one average fewer; None without averages."""
    smoothing: scipy.sparse.csr_matrix | None
    """(P, P) means over public neighbours; only under ``graph``."""
    hops: int
    """Number of averages over public neighbours; 0 except under ``graph``."""

    @classmethod
    def of(cls, task: GraphTask, hops: int) -> PublicText:
        """Learn from the public side of ``task``, with ``hops`` averages under ``graph``.

        Averages x̄ = (A + I)x / (degree + 1) by rows are those of SGC (Wu et al., ICML 2019).
        """
        plain = public_rows(task)
        weights = inverse_document_weights(plain)
        current, met, smoothing = reweighted(plain, weights), None, None
        if task.public_adjacency is None:
            hops = 0
        else:
            smoothing = mean_of_neighbours(task.public_adjacency)
        for _ in range(hops):
            current, met = smoothing @ current, current
        public = unit_rows(current) if hops else current
        return cls(weights, principal_axes(public), public, met, smoothing, hops)

    def for_training(self) -> PublicText:
        """Return the part that ``training_rows`` needs."""
        return replace(self, public=self.public[:0], smoothing=None)

    def training_rows(self, task: GraphTask | Records, nodes: slice) -> scipy.sparse.csr_matrix:
        """Return the (nodes, d) rows of some training nodes, of norm 1 or zero.

        Each is the mean of the node's own weighted text and the rows ``met`` of its public
        neighbours.
        """
        rows = reweighted(task.train_features[nodes], self.weights)
        if self.met is None:
            return rows
        return unit_rows(rows + task.train_to_public[nodes] @ self.met)

    def evaluated_rows(self, task: GraphTask) -> scipy.sparse.csr_matrix:
        """Return the (V + M, d) rows of the validation then the test nodes."""
        if self.smoothing is not None:
            return self.public
        test = reweighted(task.test_features, self.weights)
        return scipy.sparse.csr_matrix(scipy.sparse.vstack([self.public, test]))
