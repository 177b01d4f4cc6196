"""Public maps from a text to a row: hashing, and a vocabulary of public documents.

A row depends on its own text and on values that are public or fixed in advance, to the bit: sparse
rows are counted, scaled and projected one by one.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse

from private_graphs.core.bounded_files import read_bounded
from private_graphs.core.errors import UserError
from private_graphs.core.limits import MOST_NAME_BYTES

_WORD = re.compile(r"\w+")
_PLAIN = "".join(chr(code).lower() if _WORD.match(chr(code)) else " " for code in range(128))
"""ASCII in lower case, and blanks for what is in no word."""
_WITHOUT_BLANKS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+"
)
"""Scripts that write no blanks between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""


def tokens(text: str) -> list[str]:
    """Return the words of a text in lower case; pairs of characters in scripts without blanks."""
    if text.isascii():  # the same words in half the time
        return text.translate(_PLAIN).split()
    words = _WORD.findall(text.lower())
    if not _WITHOUT_BLANKS.search(text):
        return words
    pieces = []
    for word in words:
        if _WITHOUT_BLANKS.search(word):
            pieces += [word[at : at + 2] for at in range(max(1, len(word) - 1))]
        else:
            pieces.append(word)
    return pieces


class _Columns(dict[str, int]):
    """Token -> 2 · column + sign; tokens are hashed when they are first seen."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.columns = columns

    def __missing__(self, token: str) -> int:
        key = b"private-graphs words"
        number = int.from_bytes(
            hashlib.blake2b(token.encode(errors="replace"), key=key, digest_size=8).digest(), "big"
        )
        self[token] = code = 2 * ((number >> 1) % self.columns) + (number & 1)
        return code


@dataclass(frozen=True, eq=False)
class HashedWords:
    """Map of texts to unit rows of damped counts in hashed columns."""

    columns: int
    words: tuple[str, ...] = ()
    """Public list of words, outside which nothing is read; empty: all words are read."""
    signed: bool = True
    """Whether a word has a sign of its own, so that two in one column cancel in the mean; else no
    entry is negative."""

    @cached_property
    def _known(self) -> dict[str, int]:
        columns = _Columns(self.columns)
        return {word: columns[word] for word in self.words} if self.words else columns

    def rows(self, texts: Iterable[str]) -> scipy.sparse.csr_matrix:
        """Return (texts, columns) rows of norm 1 or zero."""
        return _unit_counts(texts, self._known, self.columns, signed=self.signed)

    def word_counts(self, texts: Sequence[str]) -> np.ndarray:
        """Return (texts, 2): known words and all; without a list all are known."""
        return _word_counts(texts, self._known if self.words else None)


@dataclass(frozen=True, eq=False)
class PublicWords:
    """Map of texts to coordinates on principal axes of public documents."""

    words: tuple[str, ...]
    weights: np.ndarray
    """(words,) logarithm of the inverse share of public documents with a word."""
    centre: np.ndarray
    """(words,)"""
    directions: np.ndarray
    """(words, columns) orthonormal axes."""

    @cached_property
    def _known(self) -> dict[str, int]:
        return {word: 2 * number for number, word in enumerate(self.words)}

    @classmethod
    def counted(cls, texts: Sequence[str]) -> PublicWords:
        """Learn words and weights from public texts, without axes."""
        listed = [dict.fromkeys(tokens(text)) for text in texts]
        counts: dict[str, int] = {}
        for document in listed:
            for word in document:
                counts[word] = counts.get(word, 0) + 1
        words = tuple(sorted(word for word, count in counts.items() if count > 1)) or ("",)
        share = np.array([counts.get(word, 1) for word in words])
        weights = np.log((len(texts) + 1) / share)
        return cls(words, weights, np.zeros(len(words)), np.zeros((len(words), 0)))

    @classmethod
    def of(cls, texts: Sequence[str], columns: int) -> PublicWords:
        """Learn words, weights and axes from public texts alone."""
        from private_graphs.methods.public_text import principal_axes

        bare = cls.counted(texts)
        axes = principal_axes(bare.weighted(texts))
        directions = np.ascontiguousarray(axes.directions[:, : min(columns, axes.rank)])
        return replace(bare, centre=axes.centre, directions=directions)

    @property
    def columns(self) -> int:
        """Number of axes."""
        return self.directions.shape[1]

    def weighted(self, texts: Iterable[str]) -> scipy.sparse.csr_matrix:
        """Return (texts, words) rows of weighted words, of norm 1 or zero."""
        rows = _unit_counts(texts, self._known, len(self.words), present=True)
        rows.data *= self.weights[rows.indices]
        return _scaled(rows)

    def rows(self, texts: Iterable[str]) -> scipy.sparse.csr_matrix:
        """Return (texts, columns) coordinates, each row of norm 1 or zero."""
        projected = np.asarray(self.weighted(texts) @ self.directions)
        projected -= np.einsum("i,ij->j", self.centre, self.directions)
        norms = np.sqrt(np.einsum("ij,ij->i", projected, projected))[:, None]
        mask = norms > 1e-9
        return scipy.sparse.csr_matrix(
            np.divide(projected, norms, out=np.zeros_like(projected), where=mask)
        )

    def word_counts(self, texts: Sequence[str]) -> np.ndarray:
        """Return (texts, 2): words that some public document has, and all."""
        return _word_counts(texts, self._known)


def _word_counts(texts: Sequence[str], known: dict[str, int] | None) -> np.ndarray:
    counts = np.zeros((len(texts), 2), np.int64)
    for row, text in enumerate(texts):
        words = tokens(text)
        found = len(words) if known is None else sum(map(known.__contains__, words))
        counts[row] = found, len(words)
    return counts


def listed_words(path: Path, encoding: str) -> tuple[str, ...]:
    """Return the distinct words of a public list, sorted.

    Raises:
        UserError: a file that cannot be read, or without a word.
    """
    try:
        words = tuple(sorted(set(tokens(read_bounded(path, MOST_NAME_BYTES).decode(encoding)))))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: cannot be read as a list of words ({error}); expected text in {encoding}"
        ) from None
    if not words:
        raise UserError(f"{path}: has no word; expected a list of words, one on a line")
    return words


def _unit_counts(
    texts: Iterable[str], known: dict[str, int], columns: int, present: bool = False,
    signed: bool = True,
) -> scipy.sparse.csr_matrix:  # fmt: skip
    """Return rows of sign · sqrt(|count|), or of presence, divided by their norm."""
    codes, ends = array("q"), array("q", [0])
    hashed = isinstance(known, _Columns)
    for text in texts:
        words = tokens(text)
        codes.extend(
            [known[word] for word in words] if hashed
            else [known[word] for word in words if word in known]
        )  # fmt: skip
        ends.append(len(codes))
    entries = np.frombuffer(codes, dtype=np.int64) if len(codes) else np.zeros(0, np.int64)
    values = 1.0 - 2.0 * (entries & 1) if signed else np.ones(len(entries))
    shape = (len(ends) - 1, columns)
    rows = scipy.sparse.csr_matrix((values, entries >> 1, np.asarray(ends)), shape)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    if present:
        rows.data[:] = 1.0
    else:
        rows.data[:] = np.sign(rows.data) * np.sqrt(np.abs(rows.data))
    return _scaled(rows)


def _scaled(rows: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Return the rows divided by their norms; each norm is a sum over its own row alone."""
    filled = np.diff(rows.indptr) > 0
    squares = np.zeros(rows.shape[0])
    squares[filled] = np.add.reduceat(np.square(rows.data), rows.indptr[:-1][filled])
    norms = np.sqrt(squares)
    rows.data /= np.repeat(np.maximum(norms, 1e-300), np.diff(rows.indptr))
    return rows
