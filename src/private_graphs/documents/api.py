"""The six verbs for declared documents, with the same names in the shell and in Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from private_graphs.core.errors import UsageError, UserError, counted
from private_graphs.documents.declaration import (
    DATA,
    LINK,
    Declared,
    delta_of,
    known_names,
    needed,
)
from private_graphs.documents.intake import declare
from private_graphs.documents.model import ReleasedModel, load
from private_graphs.documents.release import Classified, classify
from private_graphs.report.explained import Explained, explained

if TYPE_CHECKING:
    from private_graphs.documents.attack import Attacked

__all__ = [
    "Classified", "Declared", "Explained", "Predicted", "ReleasedModel", "Spent", "attack",
    "classify", "declare", "epsilon", "explain", "ledger", "load", "predict",
]  # fmt: skip


@dataclass(frozen=True)
class Predicted:
    """Result of ``predict``."""

    ids: list[str]
    classes: list[str]
    scores: np.ndarray
    """(documents,) probability of the predicted class under the model."""
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
    linked: int | None = None
    """Number of documents with a link to a public one; None where no links were read."""
    votes: bool = False
    """Whether the release can read links to its public documents."""

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
        )

    @property
    def warning(self) -> str:
        """What the owner of the documents has to know before the classes are given away."""
        held = "" if self.protected is None else (
            f"; the ledger protects {self.protected:,} of these {len(self.ids):,} ids"
        )  # fmt: skip
        if self.unread:
            held = f"; how many of these ids are protected is not known: {self.unread}"
        read = "text" if self.linked is None else "text and links"
        return f"each class is an exact function of its {read}, which no epsilon covers{held}"


def predict(
    release: str | Path,
    *,
    nodes: str | Path,
    out: str | Path | None = None,
    label: str | None = None,
    encoding: str = "utf-8",
    model: str | Path | None = None,
    data: str | Path = DATA,
    edges: str | Path | None = None,
    source: str = "source",
    target: str = "target",
) -> Predicted:
    """Classify new documents with a released model; no ε is spent. See ``load`` for ``model``.

    ``edges`` is a table of links, with the columns ``source`` and ``target``: links between a new
    document and a public one of the release are read, and the latter votes; no other link is used.
    Each class is an exact function of its text, and of these links, which no ε covers: ``out`` is
    readable by its owner alone, and the result says how many of the ids a release in the ledger of
    ``data`` protects.

    Raises:
        UserError: no model in the folder, a table that cannot be used, or ``edges`` where the
            release has no public documents whose links tell classes apart.
    """
    from private_graphs.core.private_files import private_path
    from private_graphs.datasets.spelling import looks
    from private_graphs.documents.files import predictions_text
    from private_graphs.documents.ledger import BudgetLedger
    from private_graphs.documents.tables import read_new

    released = load(release, model=model, data=data)
    ids, texts, labels = read_new(Path(nodes), released.text, released.id, label, encoding)
    votes = linked = None
    if edges is not None:
        if released.neighbours is None:
            raise UsageError(
                f"--edges: the release in {release} reads no links: it was made without links "
                "among public documents, or they do not tell classes apart; leave --edges out"
            )
        links = released.neighbours.read(Path(edges), source, target, encoding)
        votes, linked = links.of(ids)
    table, names, scores = predictions_text(released, ids, texts, votes)
    if out is not None:  # before the ledger, which may be damaged, is asked
        with private_path(out) as temporary:
            temporary.write_text(table, encoding="utf-8")
    protected, unread = None, ""
    try:
        protected = BudgetLedger(Path(data)).count_protected(ids)
    except (OSError, UserError) as error:
        unread = str(error)
    accuracy = None
    if labels is not None:
        known = set(map(looks, released.classes))  # other labels are none, as in ``declare``
        pairs = [(looks(a), looks(b)) for a, b in zip(labels, names, strict=True)
                 if looks(a) in known]  # fmt: skip
        accuracy = sum(a == b for a, b in pairs) / len(pairs) if pairs else None
    return Predicted(
        ids, names, scores, released.features.unknown(texts), accuracy, protected, unread,
        Path(out) if out else None, linked, released.neighbours is not None,
    )  # fmt: skip


@dataclass(frozen=True)
class Spent:
    """What the most used unit of a declaration has spent, in the two accounts of the ledger."""

    graph: str
    unit: str
    delta: float
    budget: float | None
    spent: float
    """Account of documents: ε of the most used protected unit; 0 where all documents are public."""
    links: float
    """Account of links: ε of the most used link between the documents."""
    releases: list[dict[str, Any]]
    """Releases that held one of its units, under whatever name."""


def ledger(name: str | None = None, *, data: str | Path = DATA) -> Spent | list[Spent]:
    """Return what was spent by the units of a declaration; without a name, of all of them.

    Raises:
        UserError: a line of the ledger that was changed or lost.
    """
    data = Path(data)
    if name is None:
        return [_spent(graph, data) for graph in known_names(data)]
    return _spent(name, data)


def _spent(name: str, data: Path) -> Spent:
    from private_graphs.documents.earlier import people_of
    from private_graphs.documents.ledger import BudgetLedger, most_spent, most_spent_on_links
    from private_graphs.documents.tables import TEST, TRAINING, read_documents

    spec, book = needed(name, data), BudgetLedger(data)
    docs = read_documents(spec)
    people, entries = people_of(spec, docs, book), book.entries()
    protected = len(docs.units_on(TRAINING, TEST))
    unit = spec.unit or "document"
    if not protected and spec.max_edges:
        protected, unit = spec.max_edges, LINK
    delta = delta_of(spec, protected)
    spent = most_spent(entries, people, delta, (TRAINING, TEST))
    links = most_spent_on_links(entries, people, delta)
    releases = [entry for entry in entries if entry.graph == name]
    for entry in releases:  # units of earlier tables under this name
        spent = max(spent, most_spent(entries, entry.people, delta, entry.protected))
        links = max(links, most_spent_on_links(entries, entry.people, delta))
    held = [
        entry.told()
        for entry in entries
        if entry.graph == name or np.isin(entry.people.documents, people.documents).any()
        or np.isin(entry.people.units, people.units).any()
    ]  # fmt: skip
    return Spent(name, unit, delta, spec.budget, spent, links, held)


def attack(
    folder: str | Path, *, data: str | Path = DATA, models: int = 256, seed: int = 0
) -> Attacked:
    """Attack classifiers of random halves, trained like a release; see ``documents.attack``.

    What is found is private, and is written into the release's folder ``private``.

    Raises:
        UserError: no release of declared documents in the folder.
    """
    from private_graphs.documents.attack import attack

    return attack(folder, data=data, models=models, seed=seed)


def explain(*folders: str | Path, full: bool = False) -> Explained:
    """Say in words what releases guarantee, alone and together.

    Raises:
        UserError: a folder without a statement, or with damaged files.
    """
    return explained([Path(folder) for folder in folders], full)


def epsilon(
    noise_multiplier: float,
    steps: int,
    *,
    sampling_rate: float = 1.0,
    delta: float = 1e-5,
    relation: str = "replace",
    accountant: str = "pld",
) -> float:
    """Return ε of noisy, clipped gradient steps (docs/privacy.md §0)."""
    from private_graphs.privacy.named_accountants import epsilon_for

    return epsilon_for(accountant, noise_multiplier, steps, sampling_rate, delta, relation)
