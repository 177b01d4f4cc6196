"""``predict``: new documents in blocks, the file of classes, declared shares, classes in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from private_graphs.core.arguments import require_types
from private_graphs.core.errors import (
    UsageError,
    UserError,
    counted,
    listed,
    naming,
    refuse_idle,
    require_text,
    system_error_text,
)
from private_graphs.core.manifest import MANIFEST
from private_graphs.core.private_files import private_path
from private_graphs.core.spreadsheets import table_text
from private_graphs.datasets import own_tables, table_blocks
from private_graphs.datasets.spelling import shown
from private_graphs.datasets.table_columns import OF_MODEL
from private_graphs.documents.declaration import DATA
from private_graphs.documents.model import ReleasedModel
from private_graphs.documents.model_file import load
from private_graphs.documents.prediction import ClassUse, Predictions

LEAST_EPSILON = 2.0
"""ε from which declared shares are taken: below, the scores are too noisy to be moved."""


class NewDocuments(NamedTuple):
    """A block of documents to predict."""

    ids: list[str]
    texts: list[str]
    labels: list[str] | None
    """None where no column has them."""
    joins: int
    """Number of documents with a field that may have swallowed rows."""
    done: float
    """Share of the file that is read by then."""


def read_new(
    path: Path | Any, text: Sequence[str], id: str, label: str | None, encoding: str
) -> Iterator[NewDocuments]:
    """Yield documents to predict in blocks."""
    read = {"id": id} | own_tables.text_roles(text)
    roles = {f"{role}{OF_MODEL}": column for role, column in read.items()}
    roles |= {"label": label} if label else {}
    for block, done in table_blocks.read_blocks(path, roles, encoding):
        table = block.trimmed(id, *([label] if label else []))
        columns = [table.cells(name) for name in text]
        texts = ["\n".join(parts) for parts in zip(*columns, strict=True)]
        labels = table.cells(label) if label else None
        yield NewDocuments(table.cells(id), texts, labels, block.joins, done)


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
    from private_graphs.documents.payment import raised_signals

    _refuse_other(out, tables)
    with raised_signals(), private_path(out) as temporary:
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


@dataclass(frozen=True)
class Predicted:
    """Result of ``predict``."""

    ids: list[str]
    classes: list[str]
    """Empty for a text without a word that the model knows."""
    scores: np.ndarray
    """(documents,) probability of the predicted class under the model; NaN without one."""
    unknown: float | None
    """Share of words that the model does not know; None where all words are read."""
    accuracy: float | None
    """Share of right answers among documents whose label is a class; None if there is none."""
    protected: int | None
    """Number of documents that a release in the ledger protects; None without a ledger, and where
    it cannot be read."""
    unread: str
    """Why the ledger cannot be read; empty where it can, and without one."""
    out: Path | None
    empty: int = 0
    """Number of documents without a word that the model knows."""
    used: tuple[ClassUse, ...] = ()
    """How often each class was predicted, beside the released shares."""
    linked: int | None = None
    """Number of documents with a link to a public one; None where no links were read."""
    idle_links: int = 0
    """Number of lines of links that add no vote on a document of the table."""
    votes: bool = False
    """Whether the release can read links to its public documents."""
    label: str | None = None
    """Column that was read for true classes."""
    joins: int = 0
    """Number of documents with a field that may have swallowed rows of the table."""
    labelled: int = 0
    """Number of documents whose label is a class."""
    unknown_labels: int = 0
    """Number of labels that are no class, of which ``unknown_label`` is one."""
    unknown_label: str = ""

    @property
    def unlabelled(self) -> str:
        """Which documents the share of right answers leaves out."""
        empty = len(self.ids) - self.labelled - self.unknown_labels
        such = f" (such as {shown(self.unknown_label)})" if self.unknown_labels else ""
        return (f"not counted: {counted(self.unknown_labels, 'label')} that the model has no class "
                f"for{such}, {counted(empty, 'document')} without a label")  # fmt: skip

    @property
    def links_read(self) -> str:
        """What was done with links; empty where the release can read none."""
        if not self.votes:
            return ""
        if self.linked is None:
            return (
                "by their words alone: give links to the public documents of the release with "
                "--edges (edges= in Python)"
            )
        rest = len(self.ids) - self.linked
        return (
            f"{self.linked:,} of {counted(len(self.ids), 'document')} with a link to a public one, "
            f"which votes; the other {rest:,} by their words alone"
            + f"; {counted(self.idle_links, 'line', 'of links')} not used: given twice, or without "
            "a public document of the release, or one of this table" * bool(self.idle_links)
        )

    @property
    def warning(self) -> str:
        """What the owner of the documents has to know before the classes are given away."""
        held = "" if self.protected is None else (
            f"; the ledger protects {self.protected:,} of these {len({*self.ids} - {''}):,} ids"
        )  # fmt: skip
        if self.unread:
            held = f"; how many of these ids are protected is not known: {self.unread}"
        read = "text" if self.linked is None else "text and links"
        return f"each class is an exact function of its {read}, which no epsilon covers{held}"

    def lines(self) -> list[str]:
        """Return what the command prints."""
        where = f" in {self.out}" if self.out else ""
        lines = [f"{counted(len(self.ids), 'document')} classified{where}", self.warning]
        lines += [self.links_read] if self.votes else []
        lines += use_words(self.used, self.empty) if self.used else []
        if self.joins:
            lines.append(
                f"{counted(self.joins, 'document')} with a field in double quotes whose lines "
                "each look like a row: they count as one document; if a quote is missing, close it"
            )
        if self.unknown is not None:
            lines.append(f"{100 * self.unknown:.1f} % of their words are unknown to the model")
        if without := self.ids.count(""):
            lines.append(f"{counted(without, 'document')} without an id, nor have their lines one")
        if self.accuracy is not None:
            lines.append(
                f"{100 * self.accuracy:.1f} % of {counted(self.labelled, 'document')} whose label "
                "is a class are right: an exact number about them, not to be given away if they "
                "are private"
            )
            lines += [self.unlabelled] if self.labelled < len(self.ids) else []
        elif self.label is not None:
            lines.append(f"no label in {self.label!r} is a class of the model: nothing to count")
        return lines

    def document(self) -> dict[str, Any]:
        """Return what ``--json`` prints: nothing about a single document."""
        return {
            "documents": len(self.ids), "linked": self.linked, "unknown": self.unknown,
            "accuracy": self.accuracy, "protected": self.protected, "empty": self.empty,
            "joins": self.joins, "labelled": self.labelled, "unknown_labels": self.unknown_labels,
            "classes": list(map(vars, self.used)), "warning": self.warning, "out": str(self.out),
        }  # fmt: skip

    def __repr__(self) -> str:
        return "\n".join(self.lines())


@require_types
def predict(
    release: str | Path,
    *,
    nodes: str | Path | Any,
    out: str | Path | None = None,
    label: str | None = None,
    edges: str | Path | None = None,
    source: str = "source",
    target: str = "target",
    model: str | Path | None = None,
    shares: str | Mapping[str, float] | None = None,
    encoding: str = "utf-8",
    data: str | Path = DATA,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Predicted:
    """Classify new documents with a released model: no ε is spent, no other file is needed.

    ``out`` has the class of each document, its score, and the scores of all classes. A score is the
    probability of a class if words are drawn one by one: on prose it is about right, and too sure
    where words depend on each other. A text without a word that the model knows gets no class.

    If the release was declared with a public model, that is needed too. If it was declared with
    links and public documents, ``edges`` takes the links of new documents to these: each adds the
    log-odds of its class. Documents without one are classified by their words alone. Each class is
    an exact function of its text and these links, which no ε covers: the file is readable by you
    alone, and is not to be given away if the texts are protected. The result says how many of these
    ids a release in the ledger protects.

    Args:
        release (path): folder release that ``classify`` wrote.
        nodes (path or DataFrame): table of new documents, with ids and texts; it is read in blocks,
            so that its length costs time and no memory.
        out (file): CSV with id, class and scores.
        label (column): column with true classes, to count right answers.
        edges (path): table of links of new documents to public ones of the release, which vote;
            other links are not used; by default texts alone are read.
        source, target (column): as in ``declare``.
        model (path): folder or file of the public model that reads texts, if the release names one
            that is not below ``data``.
        shares (dict of str to float): shares of the classes among the new documents, in place of
            those of the release; for releases of ε 2 and more. Rare classes are found more often,
            and some documents of the others are lost.
        encoding (str): as in ``declare``.
        data (path): folder of raw files, as in ``declare``.
        progress (callable): gets the number of finished documents and of all.

    Returns:
        Predicted: ids, classes, and (documents,) probabilities of the predicted classes.

    Example:
        >>> predict("january/release", nodes="new.csv", out="classes.csv")  # doctest: +SKIP

    Raises:
        UserError: no model in the folder, a table that cannot be used, an ``out`` that has anything
            but predictions or lies in a release, or ``edges`` where the
            release has no public documents whose links tell classes apart.
    """
    shares = _shares(shares)
    require_text(label=label, source=source, target=target, shares=",".join(shares or ()))
    if edges is None:
        refuse_idle("no --edges are given", source=source != "source",
                    target=target != "target")  # fmt: skip
    tables = [table for table in (nodes, edges) if table is not None]
    if encoding != "utf-8":
        table_blocks.require_codec(encoding, tables)
    if out is not None:
        from private_graphs.documents.ledger import BudgetLedger

        BudgetLedger(Path(data)).refuse(Path(out))
    released = load(release, model=model, data=data)
    nodes = nodes if own_tables.is_frame(nodes) else Path(nodes)
    links = None
    if edges is not None:
        if released.neighbours is None:
            raise UsageError(
                f"--edges: the release in {release} reads no links: it was made without links "
                "among public documents, or they do not tell classes apart; leave --edges out"
            )
        links = released.neighbours.read(Path(edges), source, target, encoding)
    linked = joins = 0
    found = Predictions(released, declared_prior(released, shares))
    files = [Path(table) for table in tables if not own_tables.is_frame(table)]
    # before the ledger is asked
    with written_to(found, None if out is None else Path(out), files):
        for block in read_new(nodes, released.text, released.id, label, encoding):
            votes = None
            if links is not None:
                votes, n_linked = links.of(block.ids)
                linked += n_linked
            joins += block.joins
            found.add(block.ids, block.texts, block.labels, votes)
            progress(int(1000 * block.done), 1000)
    protected, unread = _protected(found.ids, Path(data))
    known, words = found.words.tolist()
    idle = 0 if links is None else links.idle(found.ids)
    return Predicted(
        found.ids, found.classes, np.concatenate(found.scores),
        1 - known / max(1, words) if released.features.words else None,
        found.right / found.labelled if found.labelled else None, protected, unread,
        Path(out) if out else None, found.empty, found.used,
        None if links is None else linked, idle,
        released.neighbours is not None, label, joins, found.labelled,
        found.unknown_labels, found.unknown_label,
    )  # fmt: skip


def _shares(shares: str | Mapping[str, float] | None) -> Mapping[str, float] | None:
    """Return shares of classes, also of NAME=SHARE between commas."""
    if not isinstance(shares, str):
        return shares
    numbers: dict[str, float] = {}
    for part in shares.split(","):
        name, _, number = part.rpartition("=")
        if name.strip() in numbers:
            raise UsageError(f"--shares: {name.strip()!r} has two shares, expected one")
        try:
            numbers[name.strip()] = float(number)
        except ValueError:
            raise UsageError(
                f"--shares: {part!r} is no share of a class; expected NAME=NUMBER between commas"
            ) from None
    return numbers


def _protected(ids: list[str], data: Path) -> tuple[int | None, str]:
    """Return how many ids the ledger protects; where it cannot be read None, and why."""
    from private_graphs.documents.ledger import BudgetLedger

    try:
        book = BudgetLedger(data)
        if not (entries := book.entries()):
            return None, ""
        ids = list(dict.fromkeys(ids))  # a row for each time that an id stands in the table
        rows = np.arange(len(ids))
        people = book.people(ids, ids, rows, np.zeros(len(ids)), alone=True)
        documents = [entry.people.documents[np.isin(entry.people.sides, entry.protected)[
            entry.people.unit_of]] for entry in entries]  # fmt: skip
        return int(np.isin(people.documents, np.concatenate(documents)).sum()), ""
    except (OSError, UserError) as error:
        return None, system_error_text(error) if isinstance(error, OSError) else str(error)
