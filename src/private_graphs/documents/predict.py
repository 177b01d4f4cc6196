"""``predict``: new documents in blocks, the file of classes, declared shares, classes in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from private_graphs.core.errors import UsageError, counted, listed, naming
from private_graphs.core.manifest import MANIFEST
from private_graphs.core.private_files import private_path
from private_graphs.core.spreadsheets import table_text
from private_graphs.datasets import own_tables
from private_graphs.documents.model import ReleasedModel
from private_graphs.documents.prediction import ClassUse, Predictions

LEAST_EPSILON = 2.0
"""ε from which declared shares are taken: below, the scores are too noisy to be moved."""


def read_new(
    path: Path | Any, text: Sequence[str], id: str, label: str | None, encoding: str
) -> Iterator[tuple[list[str], list[str], list[str] | None, float]]:
    """Yield documents to predict in blocks: ids, texts, labels (None without ``label``), and the
    share of the file that is read by then."""
    read = {"id": id} | own_tables.text_roles(text)
    roles = {f"{role}{own_tables.OF_MODEL}": column for role, column in read.items()}
    roles |= {"label": label} if label else {}
    for block, done in own_tables.read_blocks(path, roles, encoding):
        table = block.trimmed(id, *([label] if label else []))
        columns = [table.cells(name) for name in text]
        texts = ["\n".join(parts) for parts in zip(*columns, strict=True)]
        yield table.cells(id), texts, table.cells(label) if label else None, done


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
