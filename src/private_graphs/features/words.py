"""Words of texts: tokens, counts per node, and the vocabulary within count thresholds.

Tokens are those of Igamberdiev & Habernal (LREC 2022, §5): lower case, ASCII punctuation removed,
split at white space.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import scipy.sparse

from private_graphs.core.errors import UsageError, UserError
from private_graphs.datasets.text_graph import TextGraph
from private_graphs.datasets.views import DataView
from private_graphs.features.texts import (
    coverage,
    distinct_texts,
    fitted_on,
    fitted_on_words,
)

COUNTS = (15, 15_000)
"""Default thresholds: a word occurs more often than the first, at most as often as the second."""

_NO_BLANKS = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u1a20-\u1aaf\u3040-\u30ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua9e0-\ua9ff\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]{3,}"
)
"""Runs of letters in scripts that write words without blanks between them: Thai, Lao, Tibetan,
Burmese, Khmer, Tai Tham, Japanese, Chinese."""
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def tokens(text: str) -> list[str]:
    """Return the tokens of a text: lower-cased, without punctuation, never empty."""
    return text.lower().translate(_NO_PUNCTUATION).split()


def texts_not_split(texts: pa.Table) -> int:
    """Return how many rows contain words of a script without blanks, which stay one token."""
    distinct = distinct_texts(texts)
    indices = [number for number, text in enumerate(distinct.texts) if _NO_BLANKS.search(text)]
    return int((distinct.uses_of(np.array(indices, dtype=np.int64)).sum(axis=1) > 0).sum())


@dataclass(frozen=True, eq=False)
class WordCounts:
    """Number of uses of each word by each node."""

    words: list[str]
    """V words in the order of their code points."""
    counts: scipy.sparse.csr_matrix
    """(N, V) int64, no explicit zeros, sorted indices."""


def count_words(texts: pa.Table) -> WordCounts:
    """Count the tokens of all columns of every row; equal texts are split into tokens once."""
    distinct = distinct_texts(texts)
    ids: dict[str, int] = {}
    columns: list[int] = []
    ends = np.zeros(len(distinct.texts) + 1, dtype=np.int64)
    for number, text in enumerate(distinct.texts):
        columns.extend(ids.setdefault(token, len(ids)) for token in tokens(text))
        ends[number + 1] = len(columns)
    order = sorted(ids)
    rank = np.empty(len(ids), dtype=np.int64)
    rank[np.fromiter((ids[word] for word in order), dtype=np.int64, count=len(ids))] = np.arange(
        len(ids)
    )
    of_text = scipy.sparse.csr_matrix(
        (np.ones(len(columns), dtype=np.int64), rank[np.array(columns, dtype=np.int64)], ends),
        shape=(len(distinct.texts), len(ids)),
    )
    of_text.sum_duplicates()
    counts = scipy.sparse.csr_matrix(distinct.uses @ of_text)
    counts.sort_indices()
    return WordCounts(order, counts)


def vocabulary(
    graph: TextGraph, view: DataView, counts: tuple[int, int] = COUNTS
) -> tuple[WordCounts, str]:
    """Return the words within the thresholds, counted per node, and a sentence about them.

    A word stays if ``counts[0] < its occurrences <= counts[1]`` in the texts of the nodes selected
    by ``view.vocabulary``. With public nodes, no text of a private node influences which columns
    exist (docs/privacy.md §5).

    Raises:
        UsageError: the thresholds leave no possible count.
        UserError: no word is left.
    """
    low, high = counts
    if not 0 <= low < high:
        raise UsageError(
            f"counts is {tuple(counts)}; expected two thresholds with 0 <= first < second, such "
            f"as {COUNTS}"
        )
    table = count_words(graph.texts)
    fitted = fitted_on(graph, view)
    occurrences = np.asarray(table.counts[fitted].sum(axis=0)).ravel()
    columns = np.flatnonzero((occurrences > low) & (occurrences <= high))
    if len(columns) == 0:
        raise UserError(
            f"text graph {graph.info.name!r}: none of the {np.count_nonzero(occurrences)} words "
            f"of {fitted_on_words(view)} occurs more than {low:,} and at most {high:,} times (the "
            f"most frequent one: {int(occurrences.max(initial=0)):,}); set lower thresholds "
            "(counts) or use a graph with more text"
        )
    sentence = (
        f"The vocabulary holds the {len(columns):,} words that occur more than {low:,} and at most "
        f"{high:,} times in the texts of {fitted_on_words(view)}; {coverage(view)}."
    )
    return WordCounts([table.words[i] for i in columns], table.counts[:, columns].tocsr()), sentence
