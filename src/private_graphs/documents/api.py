"""The six verbs for declared documents, with the same names in the shell and in Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from private_graphs.core.errors import UsageError, UserError, counted, listed, suggest
from private_graphs.documents.declaration import (
    LINK,
    Declaration,
    Declared,
    checked,
    keep,
    known_names,
    needed,
)
from private_graphs.documents.model import ReleasedModel, load
from private_graphs.documents.release import Classified, classify
from private_graphs.report.explained import Explained, explained

if TYPE_CHECKING:
    from private_graphs.documents.attack import Attacked

DATA = Path("data/raw")
__all__ = [
    "Classified", "Declared", "Explained", "Predicted", "ReleasedModel", "Spent", "attack",
    "classify", "declare", "epsilon", "explain", "ledger", "load", "predict",
]  # fmt: skip


def declare(
    name: str,
    *,
    nodes: str | Path,
    text: str | Sequence[str],
    label: str,
    edges: str | Path | None = None,
    id: str = "id",
    unit: str | None = None,
    max_per_unit: int | None = None,
    public: str | None = None,
    public_files: str | Path | None = None,
    classes: str | Sequence[str] = (),
    delta: float | None = None,
    budget: float | None = None,
    vocabulary: str | Path | None = None,
    model: str | Path | None = None,
    encoding: str | None = None,
    unknown_edges: str | None = None,
    drop_empty: bool = False,
    source: str | None = None,
    target: str | None = None,
    max_edges: int | None = None,
    data: str | Path = DATA,
) -> Declared:
    """Declare a table of documents: whom a guarantee protects, what is public, what may be spent.

    Without ``public`` and ``public_files`` nobody is public. Documents without a label are kept:
    they are protected and predicted. ``model`` is a public model that reads the texts in place of
    words: a folder (BERT, sentence-transformers), a fastText file, or a name of the download rules.
    Where all documents are public, ``edges`` and ``max_edges``
    protect the links. Returns counts for the owner, and writes the declaration.

    Raises:
        UserError: tables that cannot be used, with file and line.
    """
    from private_graphs.datasets.own import OWN_FOLDER
    from private_graphs.datasets.registry import dataset_names
    from private_graphs.datasets.spelling import shown
    from private_graphs.documents.ledger import BudgetLedger
    from private_graphs.documents.release import delta_of, earlier_releases, people_of
    from private_graphs.documents.tables import (
        KNOWN,
        PUBLIC_TEST,
        TEST,
        TRAINING,
        read_documents,
        read_links,
    )
    from private_graphs.documents.vectors import ModelVectors
    from private_graphs.privacy.calibration import refuse_large_delta

    data = Path(data)
    vectors = ModelVectors.find(str(model), data) if model else None
    own = data.parent / OWN_FOLDER
    if name in dataset_names([name], own):
        raise UsageError(f"{name!r} is the name of another dataset; choose another name")
    spec = checked(
        dict(
            name=name, nodes=nodes, edges=edges, text=_columns(text, Path(nodes), encoding),
            label=label, id=id, unit=unit, max_per_unit=max_per_unit, public=public,
            public_files=public_files, classes=_names(classes), delta=delta, budget=budget,
            vocabulary=vocabulary, model=model and str(model),
            model_sha256=vectors and vectors.digest, encoding=encoding, unknown_edges=unknown_edges,
            drop_empty=drop_empty, source=source, target=target, max_edges=max_edges,
        )
    )  # fmt: skip
    _require_files(spec)
    docs = read_documents(spec)
    protected, kind = len(docs.units_on(TRAINING, TEST)), unit or "document"
    if not protected:
        if edges is None or max_edges is None:
            raise UserError(
                f"{spec.nodes}: every document is public; nothing is protected. If the links are "
                "private, add --edges FILE and --max-edges N, a bound on their number that is "
                "known without looking at them"
            )
        protected, kind = max_edges, LINK
    if docs.outside and not (docs.labels >= 0).any():
        hints = (suggest(each, docs.outside) for each in docs.classes)
        raise UserError(
            f"{spec.nodes}: no label in {spec.label!r} is a class: found labels such as "
            f"{', '.join(map(shown, docs.outside[:3]))}, expected "
            f"{listed(map(shown, docs.classes))}; correct --classes or --label"
            f"{next(filter(None, hints), '')}"
        )
    refuse_large_delta(delta_of(spec, protected), protected)
    _, lost = read_links(spec, docs.ids)
    ledger = BudgetLedger(data)
    entries = ledger.entries()
    people = people_of(spec, docs, ledger) if entries else None
    earlier = earlier_releases(spec, docs, people, entries) if people else []
    path = keep(spec, data)
    warnings = list(docs.warnings)
    promised = min((each.budget for each in earlier if each.budget), default=math.inf)
    if promised < (budget or math.inf):
        warnings.append(
            f"earlier releases of some of these ids had a budget of {promised:g}, the new one is "
            f"{f'{budget:g}' if budget else 'without a limit'}: more may be spent than was "
            f"promised; declare again with --budget {promised:g} to keep the promise"
        )
    if vectors is not None:
        count, most = vectors.longer([docs.texts[row] for row in np.flatnonzero(docs.kept)])
        if count:
            warnings.append(
                f"{counted(count, 'document')} longer than the {most} tokens that "
                f"{vectors.name} reads: read in parts, whose mean counts"
            )
    if delta is not None and 10 * delta * protected > 1:
        warnings.append(
            f"delta times {protected:,} units is {delta * protected:.2g}: expected at most 0.1"
        )
    return Declared(
        name=name, protected=protected, unit=kind,
        documents=len(docs.on(TRAINING, TEST)), public=len(docs.on(KNOWN, PUBLIC_TEST)),
        dropped=docs.dropped | lost, classes=docs.classes, delta=delta_of(spec, protected),
        budget=budget, file=path, warnings=tuple(warnings),
    )  # fmt: skip


def _columns(text: str | Sequence[str], nodes: Path, encoding: str | None) -> tuple[str, ...]:
    """Return text columns: names between commas, or the one column that is called so."""
    if not isinstance(text, str):
        return tuple(text)
    from private_graphs.datasets.own_tables import column_names

    header = column_names(nodes, encoding or "utf-8")
    names = (text,) if text in header else _names(text, header)
    if "" in names:
        raise UsageError(f"--text is {text!r}: expected names such as title,body")
    return names


def _require_files(spec: Declaration) -> None:
    """Raise UserError for a table or list of words that ``classify`` could not read again."""
    from private_graphs.documents.hashing import listed_words

    for flag in ("nodes", "edges", "vocabulary"):
        file = getattr(spec, flag)
        if file is not None and file.exists() and not file.is_file():
            raise UsageError(
                f"declare: --{flag}: {file} is a folder, pipe or device; expected a file that "
                "'classify' can read again"
            )
    if spec.vocabulary:
        listed_words(spec.vocabulary, spec.encoding)


def _names(value: str | Sequence[str], known: Sequence[str] = ()) -> tuple[str, ...]:
    """Return names between commas; one with a comma stands in double quotes."""
    if not isinstance(value, str):
        return tuple(value)
    import csv

    try:
        names = next(csv.reader([value], skipinitialspace='"' in value), [])
    except csv.Error:
        raise UsageError(
            f"{value!r}: expected names between commas; put one with a comma or a line break in "
            "double quotes"
        ) from None
    return tuple(name if name in known else name.strip() for name in names)


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

    @property
    def warning(self) -> str:
        """What the owner of the documents has to know before the classes are given away."""
        held = "" if self.protected is None else (
            f"; the ledger protects {self.protected:,} of these {len(self.ids):,} ids"
        )  # fmt: skip
        if self.unread:
            held = f"; how many of these ids are protected is not known: {self.unread}"
        return f"each class is an exact function of its text, which no epsilon covers{held}"


def predict(
    release: str | Path,
    *,
    nodes: str | Path,
    out: str | Path | None = None,
    label: str | None = None,
    encoding: str = "utf-8",
    model: str | Path | None = None,
    data: str | Path = DATA,
) -> Predicted:
    """Classify new documents with a released model; no ε is spent. See ``load`` for ``model``.

    Each class is an exact function of its text, which no ε covers: ``out`` is readable by its owner
    alone, and the result says how many of the ids a release in the ledger of ``data`` protects.

    Raises:
        UserError: no model in the folder, or a table that cannot be used.
    """
    from private_graphs.core.private_files import private_path
    from private_graphs.datasets.spelling import looks
    from private_graphs.documents.files import predictions_text
    from private_graphs.documents.ledger import BudgetLedger
    from private_graphs.documents.tables import read_new

    released = load(release, model=model, data=data)
    ids, texts, labels = read_new(Path(nodes), released.text, released.id, label, encoding)
    table, names, scores = predictions_text(released, ids, texts)
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
        Path(out) if out else None,
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
        return [_spent(each, data) for each in known_names(data)]
    return _spent(name, data)


def _spent(name: str, data: Path) -> Spent:
    from private_graphs.documents.ledger import BudgetLedger, most_spent, most_spent_on_links
    from private_graphs.documents.release import delta_of, people_of
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
    own = [each for each in entries if each.graph == name]
    for each in own:  # units of earlier tables under this name
        spent = max(spent, most_spent(entries, each.people, delta, each.protected))
        links = max(links, most_spent_on_links(entries, each.people, delta))
    held = [
        each.told()
        for each in entries
        if each.graph == name or np.isin(each.people.documents, people.documents).any()
        or np.isin(each.people.units, people.units).any()
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
    return explained([Path(each) for each in folders], full)


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
