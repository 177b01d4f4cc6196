"""The distinct texts of a text graph, and which nodes a vocabulary or model is fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import scipy.sparse

from private_graphs.datasets.text_graph import TextGraph
from private_graphs.datasets.views import DataView


@dataclass(frozen=True, eq=False)
class DistinctTexts:
    """Every text once, and how often each node uses it."""

    texts: list[str]
    """T distinct texts, including "" if a column is empty."""
    uses: scipy.sparse.csr_matrix
    """(N, T) int64: number of columns of the node that hold the text; rows add up to n_columns."""
    n_columns: int

    @cached_property
    def _by_text(self) -> scipy.sparse.csc_matrix:
        return self.uses.tocsc()

    def uses_of(self, texts: np.ndarray) -> scipy.sparse.csr_matrix:
        """Return the columns (N, len(texts)) of ``uses`` for these text ids."""
        return self._by_text[:, texts].tocsr()


def distinct_texts(table: pa.Table) -> DistinctTexts:
    """Collect the distinct texts of all string columns of ``table`` (N rows), null being ""."""
    n_nodes, n_columns = table.num_rows, table.num_columns
    chunks = [
        chunk.cast(pa.large_string()).fill_null("")
        for column in table.columns
        for chunk in column.chunks
    ]
    encoded = pa.chunked_array(chunks, pa.large_string()).combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy()
    texts = encoded.dictionary.to_pylist()
    nodes = np.tile(np.arange(n_nodes), n_columns)
    ones = np.ones(len(codes), dtype=np.int64)
    uses = scipy.sparse.csr_matrix((ones, (nodes, codes)), shape=(n_nodes, len(texts)))
    return DistinctTexts(texts, uses, n_columns)


def fitted_on(graph: TextGraph, view: DataView) -> np.ndarray:
    """Return (N,) bool: the nodes whose texts determine the vocabulary or train a model."""
    if view.vocabulary == "public_nodes":
        return graph.public_nodes
    return np.ones(graph.n_nodes, dtype=bool)


def fitted_on_words(view: DataView) -> str:
    """Return a phrase that says which nodes :func:`fitted_on` selects."""
    if view.vocabulary == "public_nodes":
        return "the public nodes (validation and test)"
    return "all nodes, private ones included"


def coverage(view: DataView) -> str:
    """Return a sentence: what fitting on the nodes of :func:`fitted_on` means for the guarantee
    (docs/privacy.md §5)."""
    if view.vocabulary == "public_nodes":
        return "no text of a private node enters it"
    return "this step is outside the privacy guarantee (docs/privacy.md §5)"
