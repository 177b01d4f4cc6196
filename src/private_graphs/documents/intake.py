"""``declare``: the tables of an owner are checked and counted, and their declaration is kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from private_graphs.core.arguments import require_types
from private_graphs.core.errors import UsageError, UserError, counted, listed, refuse_idle, suggest
from private_graphs.documents.declaration import (
    DATA,
    LINK,
    Declaration,
    checked,
    delta_of,
)

if TYPE_CHECKING:
    from private_graphs.documents.vectors import ModelVectors

_NEEDED_BY = {"edges": ("source", "target", "unknown_edges", "max_edges"),
              "unit": ("max_per_unit",)}  # fmt: skip
"""Option -> those that have no effect without it."""


@dataclass(frozen=True)
class Declared:
    """Result of ``declare``: the declaration, and counts for its owner (they are private)."""

    name: str
    protected: int
    """Number of protected units: public by declaration, as their ids are; of links the bound."""
    unit: str
    """Name of the unit: ``document``, the column of the unit, or ``LINK``."""
    documents: int
    """Number of protected documents that are kept."""
    public: int
    """Number of public documents."""
    dropped: dict[str, int]
    """Reason -> number of documents or links that were dropped."""
    classes: tuple[str, ...]
    delta: float
    budget: float | None
    file: Path
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return the six lines that the command prints."""
        whom = counted(self.protected, self.unit)
        if self.unit == LINK:
            whom = f"each link by itself, of {self.protected:,} at most"
        elif self.unit != "document":
            whom += f" with {counted(self.documents, 'document')}"
        elif self.documents < self.protected:
            whom += f", of which {self.documents:,} are read"
        lost = ", ".join(
            counted(count, *why.split(" ", 1)) for why, count in self.dropped.items() if count
        )
        budget = "none: every release adds up without a limit" if self.budget is None else (
            f"{self.budget:g} for each {self.unit}, over all releases"
        )  # fmt: skip
        return [
            f"protected   {whom}",
            f"public      {counted(self.public, 'document')}" + ("" if self.public else ": nobody"),
            f"dropped     {lost or 'nothing'}",
            f"classes     {listed(self.classes)}",
            f"delta       {self.delta:g}; budget {budget}",
            f"file        {self.file}",
        ]


@require_types
def declare(
    name: str,
    *,
    nodes: str | Path | Any,
    text: str | Sequence[str],
    label: str,
    edges: str | Path | Any | None = None,
    id: str = "id",
    unit: str | None = None,
    max_per_unit: int | None = None,
    public: str | None = None,
    public_files: str | Path | None = None,
    vocabulary: str | Path | None = None,
    model: str | Path | None = None,
    classes: str | Sequence[str] = (),
    test_share: float | None = None,
    budget: float | None = None,
    delta: float | None = None,
    encoding: str = "utf-8",
    unknown_edges: Literal["refuse", "drop"] = "refuse",
    drop_empty: bool = False,
    source: str = "source",
    target: str = "target",
    max_edges: int | None = None,
    data: str | Path = DATA,
) -> Declared:
    """Declare private documents: whom a guarantee protects, what is public, what may be spent.

    Nothing is public unless you say so, and nothing is trained. Documents without a class are kept:
    they are protected, and get predictions. Read docs/your-own-graph.md first.

    Args:
        name (str): name for the documents: lower-case letters, digits.
        nodes (path or DataFrame): table of documents: CSV (fields between commas, semicolons or
            tabs), Parquet or JSON lines.
        text (list of str): columns with text, such as title,body.
        label (column): column with the class; may be empty.
        edges (path or DataFrame): table of links. Those among public documents tell how much
            ``predict`` can read off links; those of private ones are not read.
        id (column): column with the ids, which are public.
        unit (column): column with the person whom a document belongs to: persons are protected. By
            default each document is.
        max_per_unit (int): documents that are kept of one person, at least 1; by default 5.
        public (column): column that says yes for public documents; by default nobody is public.
        public_files (folder): folder with tables of further, public documents.
        vocabulary (path): public list of words, made without these documents: others are not read.
            By default all words are, or those of public documents.
        model (path): public model that reads the texts in place of words, trained on others: a
            folder (BERT, sentence-transformers), a fastText .bin file, or a name such as
            bert-base-multilingual-cased.
        classes (list of str): names of the classes; by default those of public documents.
        test_share (float): share of the documents or persons that only answer whether the release
            was worth it, 0 to .5; by default .2, from 3,000 on .1; 0 where you have tests of your
            own. With public documents these test.
        budget (float): largest ε that anybody's documents may spend: a release may ask for at most
            what is left.
        delta (float): δ of every guarantee; by default the largest power of ten up to 1/(10 n), n
            units.
        encoding (str): encoding of CSV files, such as latin-1.
        unknown_edges (str): what is done with links to ids that no document has.
        drop_empty (bool): leave out documents without text.
        source, target (column): column of the links.
        max_edges (int): where all documents are public, the links are protected: a public bound on
            their number, known without looking at them.
        data (path): folder of raw files; declarations and the ledger lie beside it.

    Returns:
        Declared: what is protected, public and dropped, for the owner alone. Of a DataFrame a copy
        that only you can read is kept beside the declaration, as ``classify`` reads it again.

    Example:
        >>> declare("letters", nodes="letters.csv", text=["title", "text"],
        ...         label="department", unit="patient", budget=4,
        ...         classes=["surgery", "cardiology"])  # doctest: +SKIP

    Raises:
        UserError: tables that cannot be used, with file and line.
    """
    return _declare(dict(locals()))


def _declare(fields: dict[str, Any]) -> Declared:
    """Make a declaration of the parameters of ``declare``, check it on its tables, and write it."""
    from private_graphs.datasets.own import OWN_FOLDER
    from private_graphs.datasets.own_tables import is_frame
    from private_graphs.datasets.registry import dataset_names

    data, name, model, vectors = Path(fields.pop("data")), fields["name"], fields["model"], None
    for owner, options in _NEEDED_BY.items():
        if fields[owner] is None:
            refuse_idle(f"no --{owner} is given", **{
                key: fields[key] not in (None, Declaration.model_fields[key].default)
                for key in options
            })  # fmt: skip
    if name in dataset_names([name], data.parent / OWN_FOLDER):
        raise UsageError(f"{name!r} is the name of another dataset; choose another name")
    if model is not None:
        from private_graphs.documents.vectors import ModelVectors

        vectors = ModelVectors.find(str(model), data)
        fields |= {"model": str(model), "model_sha256": vectors.digest}
    with ExitStack() as copies:  # of DataFrames: they go where the declaration is refused
        for role in ("nodes", "edges"):
            if is_frame(fields[role]):
                from private_graphs.documents.frames import copy_of

                fields[role] = copies.enter_context(copy_of(fields[role], name, role, data))
        fields["text"] = _columns(fields["text"], Path(fields["nodes"]), fields["encoding"])
        return _declared(checked(fields | {"classes": _names(fields["classes"])}), data, vectors)


def _declared(spec: Declaration, data: Path, vectors: ModelVectors | None) -> Declared:
    """Check a declaration on its tables, write it, and return its counts."""
    from private_graphs.datasets.spelling import shown
    from private_graphs.documents.earlier import earlier_releases, people_of, smallest_budget
    from private_graphs.documents.ledger import BudgetLedger
    from private_graphs.documents.table_warnings import alike_warnings, warnings_about
    from private_graphs.documents.tables import PUBLIC, TEST, TRAINING, read_documents
    from private_graphs.privacy.calibration import refuse_large_delta

    _require_files(spec)
    _require_codec(spec)
    docs = read_documents(spec, warnings_about)
    if docs.units_on(*PUBLIC).size:
        refuse_idle("public documents test, and all others train", test_share=spec.test_share)
    protected, kind = len(docs.units_on(TRAINING, TEST)), spec.unit or "document"
    if not protected:
        if spec.edges is None or spec.max_edges is None:
            raise UserError(
                f"{spec.nodes}: every document is public; nothing is protected. If the links are "
                "private, add --edges FILE and --max-edges N, a bound on their number that is "
                "known without looking at them"
            )
        protected, kind = spec.max_edges, LINK
    else:
        refuse_idle("some documents are private, and not their links", max_edges=spec.max_edges)
    if docs.outside and not (docs.labels >= 0).any():
        hints = (suggest(class_name, docs.outside) for class_name in docs.classes)
        raise UserError(
            f"{spec.nodes}: no label in {spec.label!r} is a class: found labels such as "
            f"{', '.join(map(shown, docs.outside[:3]))}, expected "
            f"{listed(map(shown, docs.classes))}; correct --classes or --label"
            f"{next(filter(None, hints), '')}"
        )
    refuse_large_delta(delta_of(spec, protected), protected)
    lost, warnings = dict[str, int](), [*docs.warnings, *alike_warnings(docs, spec)]
    if spec.edges is not None:
        from private_graphs.documents.link_tables import read_links

        links, lost = read_links(spec, docs.ids)
        whole = docs.kept[links].all(axis=0)
        public = np.isin(docs.sides, PUBLIC)[docs.unit_of[links]]
        lost["link of a document that is dropped"] = int((~whole).sum())
        if not links.size:
            warnings.append(f"{spec.edges.name} has no link between two of these documents")
        if not docs.units_on(*PUBLIC).size:
            warnings.append("no document is public: links are checked, and no release reads them")
        else:
            lost["link between private documents"] = int((whole & ~public.any(axis=0)).sum())
            if links.size and not (whole & public.all(axis=0)).any():
                warnings.append("no link joins two public documents: no release reads a link")
    ledger = BudgetLedger(data)
    entries = ledger.entries()
    people = people_of(spec, docs, ledger) if entries else None
    earlier = earlier_releases(spec, docs, people, entries) if people else []
    if (promised := smallest_budget(earlier)) < (spec.budget or math.inf):
        from private_graphs.documents.refusals import raised_budget

        warnings.append(raised_budget(promised, spec.budget))
    if spec.test_share and not (docs.units_on(*PUBLIC).size or docs.units_on(TEST).size):
        warnings.append(f"no {kind} tests: no release will say whether it was worth it")
    if vectors is not None:
        warnings += filter(None, [vectors.mismatch])
        count, most = vectors.longer([docs.texts[row] for row in np.flatnonzero(docs.kept)])
        if count:
            warnings.append(
                f"{counted(count, 'document')} longer than the {most} tokens that "
                f"{vectors.name} reads: read in parts, whose mean counts"
            )
    if spec.delta is not None and 10 * spec.delta * protected > 1:
        warnings.append(
            f"delta times {protected:,} units is {spec.delta * protected:.2g}: expected at most 0.1"
        )
    path = ledger.declare(spec.model_copy(update={"nodes_sha256": docs.sha256}))
    return Declared(
        name=spec.name, protected=protected, unit=kind,
        documents=len(docs.on(TRAINING, TEST)), public=len(docs.on(*PUBLIC)),
        dropped=docs.dropped | lost, classes=docs.classes, delta=delta_of(spec, protected),
        budget=spec.budget, file=path, warnings=tuple(warnings),
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
        if file is not None and (
            str(file.absolute()).startswith(("/dev/std", "/dev/fd/", "/proc/"))
            or (file.exists() and not file.is_file())
        ):
            raise UsageError(
                f"declare: --{flag}: {file} is a folder, pipe or device; expected a file that "
                "'classify' can read again"
            )
    if spec.vocabulary:
        if spec.nodes.is_file() and spec.vocabulary.exists() and (
            spec.vocabulary.samefile(spec.nodes)
        ):  # fmt: skip
            raise UsageError(
                f"declare: --vocabulary: {spec.vocabulary} is the table of --nodes; expected a "
                "public list of words that was made without these documents"
            )
        listed_words(spec.vocabulary, spec.encoding)


def _require_codec(spec: Declaration) -> None:
    """Raise UsageError for an encoding that no table of a declaration is read with."""
    if spec.encoding == Declaration.model_fields["encoding"].default or spec.public_files:
        return
    from private_graphs.datasets.table_blocks import require_codec

    require_codec(spec.encoding, filter(None, (spec.nodes, spec.edges, spec.vocabulary)))


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
