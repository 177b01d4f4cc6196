"""Classes of new documents, block by block: a table of any length needs the memory of one block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TextIO

import numpy as np
from scipy.special import softmax

from private_graphs.core.spreadsheets import table_text
from private_graphs.datasets.spelling import looks
from private_graphs.documents.model import ReleasedModel

MOST_COLUMNS = 100
"""Classes up to which each has a column of its own."""
_PART, _MOST_SCORES = 2**13, 2**22
"""Most documents that are classified at once, and most scores of these."""


@dataclass(frozen=True)
class ClassUse:
    """How often a class was predicted, beside its share in the release."""

    name: str
    predicted: int
    share: float | None
    """Noisy share among the units that trained; None in releases of earlier versions."""


def score_columns(classes: Sequence[str]) -> list[str]:
    """Return the columns of scores: of the predicted class, and of each class, if they are few."""
    return ["score", *(f"score {name}" for name in classes if len(classes) <= MOST_COLUMNS)]


@dataclass(eq=False)
class Predictions:
    """Predicted classes of the blocks that were added, and what is counted of them."""

    model: ReleasedModel
    prior: np.ndarray | None = None
    """(K,) what is added to the scores: logarithms of declared shares over those of the model."""
    stream: TextIO | None = None
    ids: list[str] = field(default_factory=list)
    codes: list[np.ndarray] = field(default_factory=list)
    """Classes of each block, -1 for a text without a known word."""
    scores: list[np.ndarray] = field(default_factory=list)
    words: np.ndarray = field(default_factory=lambda: np.zeros(2, np.int64))
    """Known words, and all."""
    labelled: int = 0
    right: int = 0
    unknown_labels: int = 0
    unknown_label: str = ""

    def add(
        self, ids: Sequence[str], texts: Sequence[str], labels: Sequence[str] | None = None,
        votes: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        """Classify the documents of a block, and write their lines.

        ``votes`` (documents, K) are added to the scores.
        """
        rows = max(1, min(_PART, _MOST_SCORES // len(self.model.classes)))
        for start in range(0, len(ids), rows):
            part = slice(start, start + rows)
            self._add(ids[part], texts[part], labels and labels[part],
                      None if votes is None else votes[part])  # fmt: skip

    def _add(
        self, ids: Sequence[str], texts: Sequence[str], labels: Sequence[str] | None,
        votes: np.ndarray | None,
    ) -> None:  # fmt: skip
        model, words = self.model, self.model.features.word_counts(texts)
        sums = model.scores(texts)
        for term in (self.prior, votes):
            sums = sums if term is None else sums + term
        shares = softmax(sums, axis=1)
        read = words[:, 0] > 0
        if votes is not None:
            read |= votes.any(axis=1)
        codes, best = np.where(read, shares.argmax(axis=1), -1), shares.max(axis=1)
        if self.stream is not None:
            self._write(self.stream, ids, codes, best, shares)
        self.ids += ids
        self.codes.append(codes.astype(np.int32))
        self.scores.append(np.where(read, best, np.nan))
        self.words += words.sum(axis=0)
        if labels is not None:
            known = {looks(name): code for code, name in enumerate(model.classes)}
            truth = np.array([known.get(looks(label), -1) for label in labels])
            self.labelled += int((truth >= 0).sum())
            self.right += int(((truth == codes) & (truth >= 0)).sum())
            none = [label for label, code in zip(labels, truth, strict=True) if label and code < 0]
            self.unknown_labels += len(none)
            self.unknown_label = self.unknown_label or (none or [""])[0]

    def begin(self, stream: TextIO) -> None:
        """Write the header, and from now on the lines of blocks."""
        self.stream = stream
        stream.write(table_text(["id", "class", *score_columns(self.model.classes)], []))

    def _write(
        self, stream: TextIO, ids: Sequence[str], codes: np.ndarray, best: np.ndarray,
        shares: np.ndarray,
    ) -> None:  # fmt: skip
        names, columns = [*self.model.classes, ""], len(score_columns(self.model.classes))
        numbers = np.column_stack([best, shares])[:, :columns].round(4).tolist()
        stream.write(table_text([], (
            [name, names[code], *(row if code >= 0 else [""] * columns)]
            for name, code, row in zip(ids, codes.tolist(), numbers, strict=True)
        )).partition("\n")[2])  # fmt: skip

    @property
    def classes(self) -> list[str]:
        """Return the predicted classes; empty where a text has no known word."""
        names = [*self.model.classes, ""]
        return [names[code] for codes in self.codes for code in codes.tolist()]

    @property
    def empty(self) -> int:
        """Return the number of documents without a known word."""
        return sum(int((codes < 0).sum()) for codes in self.codes)

    @property
    def used(self) -> tuple[ClassUse, ...]:
        """Return how often each class was predicted."""
        names, shares = self.model.classes, self.model.shares
        counts = sum((np.bincount(codes[codes >= 0], minlength=len(names))
                      for codes in self.codes), np.zeros(len(names), np.int64))  # fmt: skip
        return tuple(
            ClassUse(name, count, share) for name, count, share in
            zip(names, counts.tolist(), shares or [None] * len(names), strict=True)
        )  # fmt: skip
