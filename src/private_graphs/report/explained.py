"""Statements of finished runs in words, alone and together."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from private_graphs.core.arguments import require_types
from private_graphs.core.bounded_files import read_bounded
from private_graphs.core.errors import UsageError, UserError, suggest
from private_graphs.core.files import shipped
from private_graphs.core.markup import plain_text
from private_graphs.privacy.rounding import at_most

if TYPE_CHECKING:
    from private_graphs.privacy.statements import PrivacyStatement

_ANEW = "take the folder anew from who made it"


@dataclass(frozen=True)
class Explained:
    """Result of ``explain``: statements, and what all of them cost one unit together."""

    statements: list[dict[str, Any]]
    texts: list[str]
    belongs_to: list[str]
    """Runs of each statement in words; empty for declared documents."""
    epsilon: float | None
    """ε of all releases for one unit that is in each of them; None if one proves nothing, or if
    they are about different units. Of persons: who has the same documents in each that has them;
    where documents had other persons, or none, the ledger knows what was spent."""
    delta: float
    """δ of ``epsilon``: that of Gaussian releases once, and the sum of the others'."""
    links: tuple[float | None, float] | None = None
    """(ε, δ) of all releases for one link whose documents are in each of them, where some protect
    links and others documents; None otherwise."""

    several: bool = False
    """Whether more than one folder was named, whose releases are put together."""
    unit: str = "unit"
    """Noun of the unit that ``epsilon`` is for."""

    def lines(self) -> list[str]:
        """Return what the command prints."""
        texts = list(self.texts)
        if self.several and self.links is not None:
            epsilon, delta = self.links
            guarantee = (
                "nothing is proved, as one of them proves nothing, or reads links among public "
                "documents without noise" if epsilon is None
                else f"ε = {at_most(epsilon)} at δ = {delta:g}"
            )  # fmt: skip
            texts.append(
                "All together, for a document that is in each: nothing is proved, as releases that "
                "protect links publish functions of texts and labels without noise.\n"
                f"All together, for a link whose documents are in each: {guarantee}"
            )
        elif self.several:
            texts.append(
                "All together: nothing is proved (one proves nothing, or units differ)"
                if self.epsilon is None
                else f"All together, for one {self.unit} that is in each{self._condition}: "
                f"ε = {at_most(self.epsilon)} at δ = {self.delta:g}"
            )
        return ["\n\n".join(texts)]

    @property
    def _condition(self) -> str:
        """What several releases by person suppose: statements do not tell whose documents are."""
        return ", and whose documents were no other person's, nor without one, in another" * (
            self.unit == "person")  # fmt: skip

    def document(self) -> list[dict[str, Any]]:
        """Return what ``--json`` prints."""
        from private_graphs.privacy.explain import explain as parts_of
        from private_graphs.privacy.statements import PrivacyStatement

        return [
            {"belongs_to": words, **parts_of(PrivacyStatement.model_validate(document))}
            for words, document in zip(self.belongs_to, self.statements, strict=True)
        ]

    def __repr__(self) -> str:
        heads = [text.partition("\n")[0] for text in self.texts]
        epsilon = "nothing is proved" if self.epsilon is None else f"ε = {at_most(self.epsilon)}"
        return "\n".join([*heads, f"together: {epsilon} at δ = {self.delta:g}"])


@require_types
def explain(*folders: str | Path, statement: str | None = None, full: bool = False) -> Explained:
    """Explain in plain words what finished runs guarantee, to whom, and what they do not cover.

    Of several folders it also says what all of them cost one unit that is in each.

    Args:
        folders (path): folders that ``classify`` wrote (also their release), of a job or of
            recorded/STUDY, or files statement.json.
        statement (ID): identifier of one statement; by default those of the selected runs.
        full (bool): with the formula of the proof, and all that is public or not covered.

    Returns:
        Explained: texts, and ε and δ of all of them for a unit that is in each.

    Example:
        >>> explain("january", "february").epsilon  # doctest: +SKIP

    Raises:
        UserError: a folder without a statement, or with damaged files.
    """
    if not folders:
        raise UsageError("explain: no folder is given; expected one at least")
    from private_graphs.privacy.composition import together
    from private_graphs.privacy.statements import PrivacyStatement

    documents, texts, statements, belongs = [], [], [], []
    counted: dict[str, frozenset[str]] = {}
    for folder in map(shipped, map(Path, folders)):
        for runs, printed, document, replicas in statements_of(folder, statement):
            current = PrivacyStatement.model_validate(document)
            before = counted.get(current.statement_id)
            # runs of other kept seeds have equal statements; without rows nothing tells them apart
            named = bool(replicas) or current.noise_source == "os_entropy"
            if before is not None and named and replicas <= before:
                continue  # the same runs, named twice
            counted[current.statement_id] = (before or frozenset()) | replicas
            documents.append(document)
            belongs.append(runs)
            statements.append(current)
            texts.append(_text(current, folder, runs, printed, full))
    # facts of releases by person begin with the column of the person
    columns = {one.public_facts[:1] for one in statements if one.unit == "person"}
    epsilon, delta = together(statements)
    return Explained(documents, texts, belongs, epsilon if len(columns) < 2 else None, delta,
                     links=_for_links(statements), several=len(folders) > 1,
                     unit=_noun(statements[0]))  # fmt: skip


def _noun(statement: PrivacyStatement) -> str:
    """Return what a statement calls its unit: an edge between declared documents is a link."""
    from private_graphs.privacy.explain import noun_of
    from private_graphs.privacy.statements import DECLARED

    link = statement.study == DECLARED and statement.unit == "edge_undirected"
    return "link" if link else noun_of(statement.unit)


def _text(
    statement: PrivacyStatement, folder: Path, runs: str, printed: float | None, full: bool
) -> str:
    """Return a statement in words, below its name."""
    from private_graphs.privacy.explain import brief, sentences

    heading = f"Statement {statement.statement_id} ({statement.status.replace('_', ' ')})"
    title = ": ".join(filter(None, [heading, runs]))
    lines = textwrap.wrap(title, 80, break_on_hyphens=False)
    if full:
        for name, paragraph in sentences(statement).items():
            lines.append(name.replace("_", " ").capitalize())
            for sentence in paragraph:
                lines += textwrap.wrap(f"- {sentence}", 80, subsequent_indent="  ")
        lines += ["Proof", *textwrap.wrap(f"- {statement.proof}", 80, **_HANGING)]
    else:
        lines += _page(folder, statement.statement_id) or brief(statement, printed)
    return "\n".join(lines)


PAGE = (
    "Who is protected", "From whom", "How strongly", "What is public, and not protected",
    "What is not covered", "What was spent before", "The model", "What it supposes",
)  # fmt: skip
"""Sections of the page of a release that say what it guarantees; ``explain`` prints them."""
_HANGING: dict[str, Any] = {"subsequent_indent": "  ", "break_on_hyphens": False}


def _page(folder: Path, identifier: str) -> list[str]:
    """Return these sections of the README of a release, for a terminal; empty without one."""
    for place in (folder / "release", folder, folder.parent):
        file = place / "README.md"
        text = read_bounded(file).decode(errors="replace") if file.is_file() else ""
        if f"Statement {identifier}," in text:
            break
    else:
        return []
    lines = []
    for section in text.split("\n## ")[1:]:
        heading, _, sentences = section.partition("\n")
        if heading in PAGE:
            lines.append(heading)
            for sentence in plain_text(sentences).strip().splitlines():
                lines += textwrap.wrap(sentence, 80, **_HANGING)
    return lines


def _for_links(statements: Sequence[PrivacyStatement]) -> tuple[float | None, float] | None:
    """Return (ε, δ) of all releases for one link, where some protect links and others documents."""
    from private_graphs.privacy.composition import together
    from private_graphs.privacy.statements import PUBLIC_LINKS

    protects = {statement.unit for statement in statements if not statement.reads_nothing}
    documents = protects & {"document", "person", "node"}
    if not documents or protects - documents != {"edge_undirected"}:
        return None
    if any(PUBLIC_LINKS in statement.public_facts for statement in statements):
        # one may have read the link exactly
        return None, min(statement.delta for statement in statements)
    return together(statements, for_link=True)


class Stated(NamedTuple):
    """A statement and the runs that it is about, as far as their rows are at hand."""

    runs: str
    """In words; empty without rows."""
    printed: float | None
    """Their printed ε."""
    statement: dict[str, Any]
    replicas: frozenset[str]


def statements_of(run: Path, key: str | None = None) -> list[Stated]:
    """Return a statement for every budget, in the order of the rows.

    ``run`` is the folder of a job, a ``statement.json``, or a folder that ``classify --out`` wrote
    (or its ``release``). If rows lie beside the statements, only those of selected rows are
    returned; ``key`` picks one by its identifier, selected or not. Statements of a study include
    their current audits. Raises UserError for missing files or an unknown identifier, for a row
    that contradicts its statement, and for a file that differs from its entry in ``manifest.json``.
    """
    from private_graphs.core.manifest import MANIFEST, check_manifest
    from private_graphs.running.store import read_statements, read_store, remedy

    for part in ("release", "private"):  # a run without DP has no release
        if (run / part / "statement.json").is_file() and not (run / "statement.json").is_file():
            run = run / part
            break
    if (run / "statements.json.gz").is_file():  # recorded results of a study
        return _recorded(run, key)
    file = run / "statement.json" if run.is_dir() else run
    if not os.path.lexists(file):
        raise UserError(
            f"{run}: expected a folder with statement.json (train or classify --out DIR writes "
            "one) or such a file; found neither"
        )
    rows = None
    if (file.parent / "runs.parquet").is_file() and file.name == "statement.json":
        with remedy(_ANEW):
            store = read_store(file.parent)
            rows, statements = store.rows, store.statements
        names = list(dict.fromkeys(rows.loc[rows["selected"], "statement_id"]))
        statements = _with_audits(file.parent, rows, statements)
    else:
        if run.is_dir() and not os.path.lexists(run / MANIFEST):
            raise UserError(
                f"{run}: there is no {MANIFEST}, which is written last: the run was not finished, "
                "or files were taken away; run it again"
            )
        with remedy(_ANEW):
            check_manifest(file.parent)
        with remedy(f"expected the statement.json of a run: {_ANEW}"):
            statements = read_statements(file)
        names = list(statements)
    if not names:
        raise UserError(f"{file}: has no statement; {_ANEW}")
    if key is not None and key not in statements:
        raise UserError(
            f"{file}: no statement {key!r}; it holds {', '.join(statements)}"
            f"{suggest(key, statements)}"
        )
    return [
        Stated("", None, statements[name], frozenset())
        if rows is None
        else _stated(rows, name, statements[name])
        for name in ([key] if key else names)
    ]


def _stated(rows: Any, name: str, statement: dict[str, Any]) -> Stated:
    """Return the statement called ``name`` with its runs among ``rows``."""
    from private_graphs.report.statement import runs_of

    runs = rows[rows["statement_id"] == name]
    words = "; ".join(runs_of(runs)[name])
    return Stated(words, runs["epsilon"].iloc[0], statement, frozenset(runs["replica_id"]))


def _with_audits(folder: Path, rows: Any, statements: dict[str, Any]) -> dict[str, Any]:
    """Return the statements of a study's job, with the audits among the rows of its scale."""
    from private_graphs.report.audits import audited
    from private_graphs.running.store import read_frame, tidy

    for parent in folder.resolve().parents:
        path = parent.parent / "rows.parquet"
        if parent.name == "jobs" and path.is_file():
            frame = read_frame(path, ["source"])
            return audited(tidy([rows, frame[frame["source"] == "audit"]]), statements)
    return statements


def _recorded(folder: Path, key: str | None) -> list[Stated]:
    """Return a statement of a study's recorded results, with the runs that it is about."""
    from private_graphs.running.store import read_rows, read_statements

    statements = read_statements(folder / "statements.json.gz")
    if key is None or key not in statements:
        hint = "" if key is None else (
            f", {key!r} is none of them{suggest(key, statements)}")  # fmt: skip
        raise UserError(
            f"{folder}: has {len(statements):,} statements{hint}; name one with --statement ID: "
            "the column statement_id of its rows.parquet has them"
        )
    return [_stated(read_rows(folder / "rows.parquet"), key, statements[key])]
