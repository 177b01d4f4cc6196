"""What an attacker asks a model about a node: which part of the graph the node brings along.

``features``: the node alone. ``public``: the node with its edges to public nodes, which are all but
the training nodes. ``whole``: the whole graph with all training nodes. A view of a two-layer GCN is
two sparse matrices: logits = outer · relu(inner · X W1 + b1) W2 + b2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.graphs.normalise import gcn_propagation

FEATURES, PUBLIC, WHOLE, PUBLISHED, TOGETHER, NOISY_SUMS = (
    "features", "public", "whole", "published", "together", "noisy sums",
)  # fmt: skip
"""Views; ``published``: the predicted classes of the test nodes, all that a release folder shows;
``together``: the first three at once; ``noisy sums``: what ``class_sums`` computes its model of."""
_ENTRIES = 20_000_000
"""Numbers of the largest array of hidden units of a batch of models."""


@dataclass(frozen=True)
class Query:
    """The graph around A asked nodes, for a two-layer GCN."""

    inner: sp.csr_array
    """(m, N) first propagation, onto the rows that the second one reads."""
    outer: sp.csr_array
    """(A, m) second propagation."""


def queries(dataset: GraphDataset, nodes: np.ndarray) -> dict[str, Query]:
    """Return the view of every kind of some training nodes (A,)."""
    selection = sp.csr_array(sp.identity(dataset.n_nodes, format="csr")[nodes])
    whole = gcn_propagation(dataset.edge_index, dataset.n_nodes)
    identity = sp.csr_array(sp.identity(len(nodes), format="csr"))
    return {
        FEATURES: Query(selection, identity),
        PUBLIC: _with_public_edges(dataset, nodes),
        WHOLE: Query(whole, sp.csr_array(selection @ whole)),
    }


def _with_public_edges(dataset: GraphDataset, nodes: np.ndarray) -> Query:
    """Return the view of each asked node, added alone to the graph that the public nodes induce."""
    n, (source, target) = dataset.n_nodes, dataset.edge_index
    public = ~dataset.train_mask
    ones = np.ones(2 * len(source))
    places = (np.r_[source, target], np.r_[target, source])
    edges = sp.csr_array((ones, places), shape=(n, n))
    among = sp.csr_array(edges.multiply(public[:, None]).multiply(public[None, :]))
    among.eliminate_zeros()
    degrees = np.diff(among.indptr)
    rows, columns, values = [], [], []  # of inner
    owners, weights = [], []  # of outer
    count = 0
    for index, node in enumerate(nodes):
        neighbours = edges.indices[edges.indptr[node] : edges.indptr[node + 1]]
        neighbours = neighbours[public[neighbours]]
        sizes = {int(node): 1.0 + len(neighbours)}
        for neighbour in (int(node), *neighbours.tolist()):
            if neighbour == node:
                reads = np.r_[neighbours, node]
            else:
                reads = among.indices[among.indptr[neighbour] : among.indptr[neighbour + 1]]
                reads = np.r_[reads, node, neighbour]
                sizes[neighbour] = 2.0 + degrees[neighbour]
            size = np.where(reads == node, 1.0 + len(neighbours), 1.0 + degrees[reads])
            # a neighbour of the node has one edge more than among the public nodes
            size = size + (np.isin(reads, neighbours) & (reads != node))
            rows.append(np.full(len(reads), count))
            columns.append(reads)
            values.append(1 / np.sqrt(sizes[neighbour] * size))
            owners.append(index)
            weights.append(1 / np.sqrt(sizes[int(node)] * sizes[neighbour]))
            count += 1
    inner = sp.csr_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(count, n)
    )
    outer = sp.csr_array((weights, (owners, np.arange(count))), shape=(len(nodes), count))
    return Query(inner, outer)


def gcn_margins(
    parameters: np.ndarray,
    features: sp.csr_array,
    views: Mapping[str, Query],
    labels: np.ndarray,
    hidden: int,
    n_classes: int,
) -> dict[str, np.ndarray]:
    """Return the (R, A) margins of R models (R, P) at the asked nodes' ``labels`` (A,), by view."""
    batches = {name: [] for name in views}
    largest = max(view.inner.shape[0] for view in views.values())
    size = max(1, _ENTRIES // (largest * hidden))
    for start in range(0, len(parameters), size):
        for name, logits in _logits(
            parameters[start : start + size].astype(np.float64), features, views, hidden, n_classes
        ):
            batches[name].append(margins(logits, labels))
    return {name: np.concatenate(parts) for name, parts in batches.items()}


def _logits(
    parameters: np.ndarray, features: sp.csr_array, views: Mapping[str, Query], hidden: int, k: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the (R, A, K) logits of every view."""
    from private_graphs.training.engine import layers  # compiled code, which margins do not need

    n_models, n_features = len(parameters), features.shape[1]
    w1, b1, w2, b2 = layers(parameters, n_features, hidden, k)
    first = w1.transpose(1, 0, 2).reshape(n_features, -1)
    projected = features @ first  # (N, R · hidden)
    for name, view in views.items():
        units = np.maximum(view.inner @ projected + b1.reshape(-1), 0)
        units = units.reshape(-1, n_models, hidden).transpose(1, 0, 2)
        answers = units @ w2  # (R, m, K)
        joined = answers.transpose(1, 0, 2).reshape(-1, n_models * k)
        logits = (view.outer @ joined).reshape(-1, n_models, k).transpose(1, 0, 2)
        yield name, logits + b2[:, None]


def margins(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return log p_y - log(1 - p_y) of (..., A, K) logits at labels (A,), float64, unclipped.

    Source: Carlini et al., "Membership inference attacks from first principles", 2022, Section IV.
    """
    logits = np.asarray(logits, dtype=np.float64)
    at = np.arange(len(labels))
    label_logits = logits[..., at, labels]
    rivals = logits.copy()
    rivals[..., at, labels] = -np.inf
    return label_logits - logsumexp(rivals, axis=-1)
