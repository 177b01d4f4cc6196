"""Classes of new documents, block by block: a table of any length needs the memory of one block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import numpy as np
from scipy.special import softmax

from private_graphs.core.errors import UsageError, counted, listed, naming
from private_graphs.core.manifest import MANIFEST
from private_graphs.core.private_files import private_path
from private_graphs.core.spreadsheets import table_text
from private_graphs.datasets.spelling import looks
from private_graphs.documents.model import ReleasedModel

MOST_COLUMNS = 100
"""Classes up to which each has a column of its own."""
LEAST_EPSILON = 2.0
"""ε from which declared shares are taken: below, the scores are too noisy to be moved."""
_PART = 8192


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

    def add(
        self, ids: Sequence[str], texts: Sequence[str], labels: Sequence[str] | None = None,
        votes: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        """Classify the documents of a block, and write their lines.

        ``votes`` (documents, K) are added to the scores.
        """
        for start in range(0, len(ids), _PART):
            part = slice(start, start + _PART)
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
        counts = np.zeros(len(names), np.int64)
        for codes in self.codes:
            counts += np.bincount(codes[codes >= 0], minlength=len(names))
        return tuple(
            ClassUse(name, count, share) for name, count, share in
            zip(names, counts.tolist(), shares or [None] * len(names), strict=True)
        )  # fmt: skip


def _refuse_other(out: Path, tables: Iterable[Path]) -> None:
    """Raise UsageError where predictions would take the place of anything but predictions, or lie
    among files that may be given away."""
    if (out.parent / MANIFEST).exists():
        raise UsageError(
            f"--out is {out}, in a folder of finished results ({MANIFEST}): predictions are not to "
            "be given away with them; choose another folder"
        )
    if not out.is_file():
        return
    if any(table.exists() and out.samefile(table) for table in tables):
        raise UsageError(f"--out is {out}, a table that is read; choose another name")
    header = table_text(["id", "class", "score"], []).strip().encode()
    with naming(out), open(out, "rb") as stream:
        start = stream.read(len(header))
    if start not in (b"", header):
        raise UsageError(
            f"--out is {out}, which is there and has no predictions; choose another name, or "
            "remove the file if nobody needs it"
        )


@contextmanager
def written_to(
    predictions: Predictions, out: Path | None, tables: Iterable[Path] = ()
) -> Iterator[Predictions]:
    """Write the lines of predictions into a file that its owner alone can read, when all are.

    Raises:
        UsageError: ``out`` is one of the ``tables`` that are read, another file than one of
            predictions, or in a folder with a manifest.
    """
    if out is None:
        yield predictions
        return
    _refuse_other(out, tables)
    with private_path(out) as temporary:
        with open(temporary, "w", encoding="utf-8", newline="") as stream:
            predictions.begin(stream)
            yield predictions
        predictions.stream = None


def declared_prior(model: ReleasedModel, shares: Mapping[str, float] | None) -> np.ndarray | None:
    """Return (K,) logarithms of declared shares over those of the model; None without ``shares``.

    Raises:
        UsageError: names or numbers that are no shares of the classes, or a release below ε = 2 or
            of a version that has not written its own shares.
    """
    if shares is None:
        return None
    if not model.shares or model.epsilon is None:
        raise UsageError("--shares: this release does not say the shares of its classes; it was "
                         "made by an earlier version. Leave --shares out")  # fmt: skip
    if model.epsilon < LEAST_EPSILON:
        raise UsageError(
            f"--shares: the release has epsilon {model.epsilon:g}, expected at least "
            f"{LEAST_EPSILON:g}: below, noise outweighs what other shares could gain. Leave it out"
        )
    wrong = {*shares} ^ {*model.classes}
    numbers = np.array([shares.get(name, 0.0) for name in model.classes], float)
    if wrong or not (np.isfinite(numbers) & (numbers > 0)).all():
        raise UsageError(
            f"--shares: expected a number above 0 for each of {listed(model.classes)}, such as "
            f"{model.classes[0]}=0.3"
            + (f"; found or missing: {listed(sorted(wrong))}" * bool(wrong))
        )
    return np.log(numbers / numbers.sum()) - np.log(np.asarray(model.shares))


def use_words(used: Sequence[ClassUse], empty: int) -> list[str]:
    """Return how often each class was predicted, in words."""
    total = max(1, sum(use.predicted for use in used))

    def text_of(use: ClassUse) -> str:
        released = "" if use.share is None else f" ({100 * use.share:.0f} %)"
        return f"{use.name} {100 * use.predicted / total:.0f} %{released}"

    released = " (in brackets: released, noisy)" if used[0].share is not None else ""
    lines = [f"predicted{released}: {listed(map(text_of, used))}"]
    if empty:
        lines.append(f"{counted(empty, 'document')} without a word that the model knows: no class")
    return lines
