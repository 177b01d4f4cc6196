"""Bag of words: indicators of the vocabulary's words in a node's texts."""

from __future__ import annotations

from private_graphs.datasets.graph_dataset import SparseFeatures
from private_graphs.datasets.text_graph import TextGraph
from private_graphs.datasets.views import DataView
from private_graphs.features.matrix import FeatureMatrix
from private_graphs.features.words import COUNTS, texts_not_split, vocabulary


def bag_of_words(
    graph: TextGraph, view: DataView, counts: tuple[int, int] = COUNTS
) -> FeatureMatrix:
    """Return binary CSR features (N, V): 1 where a text of the node contains the word.

    Igamberdiev & Habernal (LREC 2022, §5): tokens are lower-cased, without punctuation, split at
    white space; the V columns are the words with ``counts[0] < count <= counts[1]``, in the order
    of their code points, counted over the nodes selected by ``view.vocabulary``. No dense matrix is
    made at any stage.

    Raises:
        UsageError: the thresholds leave no possible count.
        UserError: no word is left.
    """
    words, sentence = vocabulary(graph, view, counts)
    matrix = words.counts.copy()
    matrix.data = (matrix.data > 0).astype("float32")
    counts = {"texts_not_split": texts_not_split(graph.texts)}
    return FeatureMatrix(SparseFeatures.from_scipy(matrix), (sentence,), counts=counts)
