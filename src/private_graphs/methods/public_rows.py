"""Rows that represent nodes: axes of public texts, and coordinates in the public graph.

Public data determine every map here; applied to a private record, a map reads that record's own
text and its own edges to public nodes, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh

from private_graphs.methods.public_text import PublicText, public_rows, reweighted
from private_graphs.tasks.graph_task import GraphTask, Records

MAX_COORDINATES = 400
FEWEST_EDGES = 8
"""Public edges below which the public graph has no coordinates."""
EDGES_PER_COORDINATE = 4
HALF_DEGREE = 10.0
"""Number of public neighbours with which text and structure have equal weight in a row."""
SIMILAR_TEXTS = 10
TEXT_SHARE = 0.5
"""Weight of all similar texts of a node together, relative to one link."""
_SMALLEST_EIGENVALUE = 1e-6
_DENSE = 600
"""Largest component whose eigenvectors are all computed."""


def class_codes(n_classes: int) -> np.ndarray:
    """Return (K, K): row y is e_y - 1/K, of norm sqrt(1 - 1/K)."""
    return np.eye(n_classes) - 1.0 / n_classes


def bias_square(n_classes: int) -> float:
    """Return b², the share of the constant coordinate in the squared norm of a row.

    (K-2)/(2(K-1)) is the least with which the sensitivity of class sums is sqrt 2 instead of
    2 sqrt(1 - 1/K): what the constant takes from the text it gives back in noise, and it counts
    the classes for free. At least 1/10, for two classes.
    """
    return max(0.1, (n_classes - 2) / (2 * (n_classes - 1)))


def with_constant(unit: np.ndarray, n_classes: int) -> np.ndarray:
    """Return (rows, r + 1): (sqrt(1-b²) u, b) for rows u of norm at most 1."""
    share = bias_square(n_classes)
    constant = np.full((len(unit), 1), np.sqrt(share))
    return np.hstack([np.sqrt(1 - share) * unit, constant])


def spectral_coordinates(adjacency: scipy.sparse.csr_matrix) -> np.ndarray | None:
    """Return (P, r) coordinates D^-1/2 U of public nodes; None for a graph with hardly any edge.

    U are the leading eigenvectors of D^-1/2 (A + I) D^-1/2 on the largest connected component, by
    decreasing eigenvalue, and D the degrees with loops; other nodes have coordinates of zero. On
    all nodes, the leading eigenvectors would only name the components.
    """
    if adjacency.nnz // 2 < FEWEST_EDGES:
        return None
    _, component = connected_components(adjacency, directed=False)
    members = np.flatnonzero(component == np.bincount(component).argmax())
    looped = adjacency[members][:, members] + scipy.sparse.eye(len(members), format="csr")
    root = np.asarray(looped.sum(axis=1)).ravel() ** -0.5
    normalised = scipy.sparse.diags(root) @ looped @ scipy.sparse.diags(root)
    count = min(MAX_COORDINATES, len(members) - 2)
    if count < 1:
        return None
    if len(members) <= _DENSE:
        values, vectors = scipy.linalg.eigh(normalised.toarray())
    else:
        values, vectors = eigsh(
            normalised, count, which="LA", tol=1e-4, v0=np.ones(len(members)),
            rng=np.random.default_rng(0),
        )  # fmt: skip
    order = np.argsort(-values, kind="stable")[:count]
    order = order[values[order] > _SMALLEST_EIGENVALUE]
    coordinates = np.zeros((adjacency.shape[0], len(order)))
    coordinates[members] = vectors[:, order] * root[:, None]
    return coordinates


def smoother(task: GraphTask, text: PublicText) -> scipy.sparse.csr_matrix:
    """Return (P, P) means over a public node, its neighbours and the most similar public texts."""
    from private_graphs.methods.text_only import similar_texts

    rows = reweighted(public_rows(task), text.weights)
    nodes, cosines = similar_texts(rows, SIMILAR_TEXTS)
    size = len(nodes)
    places = (np.repeat(np.arange(size), nodes.shape[1]), nodes.ravel())
    similarity = _row_means(scipy.sparse.csr_matrix((cosines.ravel(), places), (size, size)))
    similarity = _row_means(similarity + similarity.T)
    loops = scipy.sparse.eye(size, format="csr")
    return _row_means(task.public_adjacency + TEXT_SHARE * similarity + loops)


def _row_means(matrix: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Return the rows scaled to sum 1; rows of zeros stay zero."""
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    scale = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return scipy.sparse.csr_matrix(scipy.sparse.diags(scale) @ matrix)


def _unit(rows: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)


def averages_texts(task: GraphTask) -> bool:
    """Return whether rows average texts over public neighbours: if nodes have one on average."""
    adjacency = task.public_adjacency
    return adjacency is not None and adjacency.nnz >= adjacency.shape[0]


@dataclass(frozen=True, eq=False)
class RowMap:
    """Map from a record to its row, for one number of axes.

    With d public neighbours, text has the weight 10/(d+10) and structure d/(d+10) in the squared
    norm of a row.
    """

    text: PublicText
    rank: int
    """Number of text axes."""
    coordinates: np.ndarray | None
    """(P, r) coordinates of public nodes; None: rows are texts alone."""
    centre: np.ndarray | None
    """(r,) mean of the public nodes' structure."""

    @classmethod
    def of(
        cls, task: GraphTask, text: PublicText, coordinates: np.ndarray | None, rank: int
    ) -> RowMap:
        """Return the map with at most ``rank`` axes of each kind."""
        first = cls(text, min(rank, text.axes.rank), None, None)
        if coordinates is None:
            return first
        most = max(1, task.public_adjacency.nnz // 2 // EDGES_PER_COORDINATE)
        axes = np.ascontiguousarray(coordinates[:, : min(rank, most)])
        centre = _unit(task.public_adjacency @ axes).mean(axis=0)
        return replace(first, coordinates=axes, centre=centre)

    @property
    def size(self) -> int:
        """Number of columns of ``rows``."""
        return self.rank + (0 if self.coordinates is None else self.coordinates.shape[1])

    def for_training(self) -> RowMap:
        """Return the part that ``training`` needs."""
        return replace(self, text=self.text.for_training())

    def training(self, records: Records) -> np.ndarray:
        """Return (nodes, size) rows of some training nodes, of norm 1 or zero."""
        return self._rows(self.text.training_rows(records, slice(None)), records.train_to_public)

    def evaluated(self, task: GraphTask) -> np.ndarray:
        """Return (V + M, size) rows of the validation, then the test nodes."""
        return self._rows(self.text.evaluated_rows(task), task.public_adjacency)

    def _rows(
        self, texts: scipy.sparse.csr_matrix, links: scipy.sparse.csr_matrix | None
    ) -> np.ndarray:
        rows = self.text.axes.unit(texts, self.rank)
        if self.coordinates is None:
            return rows
        structure = _unit(links @ self.coordinates)
        seen = structure.any(axis=1, keepdims=True)
        structure = _unit(np.where(seen, structure - self.centre, 0))
        degrees = np.asarray(links.sum(axis=1))
        share = degrees / (degrees + HALF_DEGREE)
        return _unit(np.hstack([np.sqrt(1 - share) * rows, np.sqrt(share) * structure]))
