"""Synthetic citation graphs, seeded, and one of them in the gnn-benchmark format.

Edges follow a degree-corrected stochastic block model (Karrer & Newman, 2011) with Pareto degree
propensities; documents draw words from a mixture of a common Zipf distribution and one Zipf
distribution per topic, one topic per class; some recorded labels are wrong. All parameters are
fields of :class:`CitationModel`.

Every draw uses the legacy ``RandomState``, whose streams NumPy keeps unchanged (NEP 19), on integer
weights, so that the bytes are the same on every machine.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass

import numpy as np
import scipy.sparse

_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class CitationModel:
    """Parameters of one synthetic citation graph."""

    seed: int
    nodes: int
    words: int
    """Size of the vocabulary."""
    class_weights: tuple[int, ...]
    """Relative sizes of the classes."""
    edge_draws: int
    """Number of citations drawn; loops and repetitions stay in the raw files."""
    within_class: float
    """Share of citations whose second end is drawn within the class of the first."""
    degree_exponent: float
    """Tail exponent a of a node's Pareto propensity u^(-1/a) to take part in a citation."""
    degree_cap: float
    """Largest propensity, in units of the smallest."""
    words_per_node: tuple[int, int]
    """Range of words drawn per node: uniform, both ends included."""
    topical: float
    """Share of words drawn from a topic; the others come from the common distribution."""
    own_topic: float
    """Share of topical words from the topic of the node's class; the others from any topic."""
    label_noise: float
    """Share of nodes whose recorded label is redrawn from all classes."""
    counts: bool
    """Whether features are word counts; otherwise 1 where a word occurs."""


@dataclass(frozen=True)
class CitationGraph:
    """One draw of a :class:`CitationModel`."""

    features: scipy.sparse.csr_matrix
    """(nodes, words) float32."""
    labels: np.ndarray
    """(nodes,) int64, with label noise."""
    citing: np.ndarray
    """(edge_draws,) int64."""
    cited: np.ndarray
    """(edge_draws,) int64."""


def _draw(rng: np.random.RandomState, weights: np.ndarray, size: int) -> np.ndarray:
    """Draw ``size`` ids with probability proportional to integer ``weights``."""
    ends = np.cumsum(weights.astype(np.int64))
    return np.searchsorted(ends, rng.randint(0, ends[-1], size=size), side="right")


def _zipf(n_words: int) -> np.ndarray:
    return 10_000_000 // (np.arange(n_words, dtype=np.int64) + 10)


def _citations(
    rng: np.random.RandomState, model: CitationModel, classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    tail = (1.0 - rng.random_sample(model.nodes)) ** (-1.0 / model.degree_exponent)
    propensity = np.rint(1000 * np.minimum(tail, model.degree_cap)).astype(np.int64)
    citing = _draw(rng, propensity, model.edge_draws)
    cited = _draw(rng, propensity, model.edge_draws)
    inside = rng.random_sample(model.edge_draws) < model.within_class
    for label in range(len(model.class_weights)):
        chosen = np.flatnonzero(inside & (classes[citing] == label))
        members = np.flatnonzero(classes == label)
        cited[chosen] = members[_draw(rng, propensity[members], len(chosen))]
    return citing, cited


def _documents(
    rng: np.random.RandomState, model: CitationModel, classes: np.ndarray
) -> scipy.sparse.csr_matrix:
    low, high = model.words_per_node
    node = np.repeat(np.arange(model.nodes), rng.randint(low, high + 1, size=model.nodes))
    topic = rng.randint(0, len(model.class_weights), size=len(node))
    own = rng.random_sample(len(node)) < model.own_topic
    topic[own] = classes[node[own]]
    topical = rng.random_sample(len(node)) < model.topical
    word = _draw(rng, _zipf(model.words), len(node))
    for label in range(len(model.class_weights)):
        ranking = rng.permutation(model.words)
        chosen = np.flatnonzero(topical & (topic == label))
        word[chosen] = ranking[_draw(rng, _zipf(model.words), len(chosen))]
    ones = np.ones(len(node), dtype=np.float32)
    features = scipy.sparse.csr_matrix((ones, (node, word)), shape=(model.nodes, model.words))
    features.sum_duplicates()
    if not model.counts:
        features.data[:] = 1
    return features


def draw(model: CitationModel) -> CitationGraph:
    """Draw a graph, determined by the model."""
    rng = np.random.RandomState(model.seed)
    weights = np.array(model.class_weights)
    classes = _draw(rng, weights, model.nodes)
    citing, cited = _citations(rng, model, classes)
    features = _documents(rng, model, classes)
    wrong = rng.random_sample(model.nodes) < model.label_noise
    labels = np.where(wrong, rng.randint(0, len(weights), size=model.nodes), classes)
    return CitationGraph(features, labels, citing, cited)


def npz_bytes(model: CitationModel) -> dict[str, bytes]:
    """Return ``synthetic.npz``, a directed graph in the gnn-benchmark format."""
    graph = draw(model)
    order = np.lexsort((graph.cited, graph.citing))
    indptr = np.searchsorted(graph.citing[order], np.arange(model.nodes + 1))
    features = graph.features
    arrays = {
        "adj_data": np.ones(model.edge_draws, dtype=np.float32),
        "adj_indices": graph.cited[order].astype(np.int32),
        "adj_indptr": indptr.astype(np.int32),
        "adj_shape": np.array([model.nodes, model.nodes], dtype=np.int64),
        "attr_data": features.data.astype(np.float32),
        "attr_indices": features.indices.astype(np.int32),
        "attr_indptr": features.indptr.astype(np.int32),
        "attr_shape": np.array(features.shape, dtype=np.int64),
        "labels": graph.labels.astype(np.int64),
    }
    packed = io.BytesIO()
    # numpy.savez stores the time; reproducible bytes need a fixed one.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for key, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{key}.npy", _ZIP_TIME), content.getvalue())
    return {"synthetic.npz": packed.getvalue()}


MODELS: dict[str, CitationModel] = {
    "synthetic-planetoid": CitationModel(
        seed=20220,
        nodes=2400,
        words=1200,
        class_weights=(25, 19, 15, 13, 12, 9, 7),
        edge_draws=5000,
        within_class=0.8,
        degree_exponent=2.5,
        degree_cap=30.0,
        words_per_node=(12, 24),
        topical=0.45,
        own_topic=0.7,
        label_noise=0.08,
        counts=False,
    ),
    "synthetic-npz": CitationModel(
        seed=20221,
        nodes=2500,
        words=1300,
        class_weights=(22, 20, 16, 14, 12, 9, 7),
        edge_draws=5500,
        within_class=0.8,
        degree_exponent=2.2,
        degree_cap=40.0,
        words_per_node=(12, 24),
        topical=0.45,
        own_topic=0.7,
        label_noise=0.08,
        counts=True,
    ),
}
"""Name of the embedded dataset -> parameters of its graph."""
