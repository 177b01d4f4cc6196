"""The site: ``results/index.html``, a page per exhibit, list of claims and privacy statement.

All pages are static and need no network. A page shows one exhibit from every shelf that has it, so
that recorded results stand beside the reader's own.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from private_graphs import __version__
from private_graphs.errors import UserError
from private_graphs.files import write_text
from private_graphs.protocols import PROTOCOLS
from private_graphs.report import statement as says
from private_graphs.report.exhibit import Block, Exhibit, Table
from private_graphs.report.overview import claims, glance, notes
from private_graphs.report.publish import write_all
from private_graphs.report.shelf import Shelf, exhibit_files, label_of, read_shelves, title_of
from private_graphs.report.table import html

PAGES, CLAIMS = "pages", "claims"
_TEMPLATES = Path(__file__).parent / "templates"
_FILES = ("site.css", "site.js")
_IDENTIFIER = re.compile(r"""(?<=\s)id="|url\(#|href="#""")
_FORMS = {".csv": "CSV", ".md": "Markdown", ".tex": "LaTeX"}


@dataclass(frozen=True)
class Entry:
    """A study with its shelves: what the overview lists and the navigation leads to."""

    shelves: Sequence[Shelf]

    @property
    def study(self) -> Any:
        """The study that all shelves are of."""
        return self.shelves[0].results.study

    @cached_property
    def contents(self) -> list[tuple[Exhibit, list[str]]]:
        """Every exhibit, with the datasets that each shelf has of it."""
        found: dict[str, tuple[Exhibit, list[str]]] = {}
        for place, shelf in enumerate(self.shelves):
            for exhibit in shelf.exhibits:
                datasets = ", ".join(sorted(shelf.rows_of(exhibit)["dataset"].unique()))
                entry = (exhibit, [""] * len(self.shelves))
                found.setdefault(exhibit.name, entry)[1][place] = datasets or "shown"
        return list(found.values())

    @cached_property
    def pages(self) -> list[tuple[str, str]]:
        """(name, label) of its pages."""
        exhibits = ((exhibit.name, label_of(exhibit.name)) for exhibit, _ in self.contents)
        return [*exhibits, (CLAIMS, "Claims and proofs")]

    @property
    def not_run(self) -> str:
        """Command for the reader's own numbers at full scale, if there are none."""
        if any(shelf.name == "full" for shelf in self.shelves):
            return ""
        return f"snakemake --cores all --config scale=full studies={self.study.id}"

    def address(self, name: str) -> str:
        """Address of a page from the folder of ``index.html``."""
        return f"{PAGES}/{self.study.id}/{name}.html"


def write_site(results_root: str | Path, recorded: str | Path = "recorded") -> list[Path]:
    """Write ``index.html`` and the pages behind it; return their paths.

    Shows the exhibits that are below ``<scale>/exhibits``, and those of ``recorded``, which are
    written to ``recorded/exhibits``. Raises UserError where there is nothing to show.
    """
    root = Path(results_root)
    shelves = read_shelves(root, Path(recorded))
    for shelf in shelves:
        if shelf.made:
            write_all(root / shelf.name / "exhibits" / shelf.results.study.id, shelf)
    return write_pages(root, shelves)


def write_pages(root: Path, shelves: Iterable[Shelf]) -> list[Path]:
    """Write the pages of shelves whose exhibits are written; return their paths.

    ``pages/<study>/<exhibit>.html`` has an exhibit from every shelf, ``pages/<study>/claims.html``
    all claims, ``pages/statements/<shelf>/<statement_id>.html`` a statement. Pictures and files to
    download are those of ``<shelf>/exhibits/<study>``. Pages that nothing is made of any more are
    removed. Raises UserError where there is nothing to show, and where a picture is missing.
    """
    studies: dict[str, list[Shelf]] = {}
    for shelf in shelves:
        studies.setdefault(shelf.results.study.id, []).append(shelf)
    if not studies:
        raise UserError(
            f"{root}: no results to show; expected finished or recorded ones: run snakemake"
        )
    entries = [Entry(members) for members in studies.values()]
    pages = dict(_pages(root, entries))
    for path, text in pages.items():
        write_text(path, text)
    for name in _FILES:
        shutil.copyfile(_TEMPLATES / name, root / PAGES / name)
    for path in set((root / PAGES).rglob("*.html")) - set(pages):
        path.unlink()
    return list(pages)


def _pages(root: Path, entries: Sequence[Entry]) -> Iterator[tuple[Path, str]]:
    """Yield path and text of every page."""
    templates = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    templates.globals |= {
        "studies": entries,
        "protocols": PROTOCOLS.values(),
        "version": __version__,
    }

    def page(address: str, kind: str, shelves: Iterable[Shelf], **values: Any) -> tuple[Path, str]:
        up = "../" * address.count("/")
        private = sorted({name for shelf in shelves for name in shelf.private})
        text = templates.get_template(f"{kind}.html.j2")
        return root / address, text.render(root=up, address=address, private=private, **values)

    everything = [shelf for entry in entries for shelf in entry.shelves]
    glances = {
        id(shelf): _part(glance(shelf), f"{PAGES}/statements/{shelf.name}/") for shelf in everything
    }
    yield page("index.html", "index", everything, glance=lambda shelf: glances[id(shelf)],
               title_of=title_of, label_of=label_of)  # fmt: skip
    for entry in entries:
        for shown, _ in entry.contents:
            sections = [
                _section(root, shelf, exhibit)
                for shelf in entry.shelves
                for exhibit in shelf.exhibits
                if exhibit.name == shown.name
            ]
            yield page(entry.address(shown.name), "exhibit", [each["shelf"] for each in sections],
                       entry=entry, title=title_of(shown), meaning=shown.meaning,
                       sections=sections)  # fmt: skip
        sections = [
            {"shelf": shelf, "missing": (), "files": (), "notes": (),
             "parts": [_part(claims(shelf), _statements(shelf))]}
            for shelf in entry.shelves
        ]  # fmt: skip
        meaning = "What was claimed, what is proved, and what an attack showed, over all runs."
        yield page(entry.address(CLAIMS), "exhibit", entry.shelves, entry=entry,
                   title="Claims and proofs", meaning=meaning, sections=sections)  # fmt: skip
        for shelf in entry.shelves:
            rows = dict(iter(shelf.runs.groupby("statement_id")))
            for name, statement in shelf.statements.items():
                table = html(says.mechanisms(statement)) if statement.mechanisms else ""
                yield page(
                    f"{PAGES}/statements/{shelf.name}/{name}.html", "statement", [shelf],
                    entry=entry, shelf=shelf, statement_id=name, mechanisms=Markup(table),
                    headline=says.headline(statement), paragraphs=says.paragraphs(statement),
                    runs=says.runs_of(rows[name]), sections=says.sections(statement),
                )  # fmt: skip


def _statements(shelf: Shelf) -> str:
    """Address of the statements of a shelf from the page of an exhibit."""
    return f"../statements/{shelf.name}/"


def _section(root: Path, shelf: Shelf, exhibit: Exhibit) -> dict[str, Any]:
    """Return what the page of an exhibit shows of one shelf."""
    files = exhibit_files(root, shelf, exhibit)
    pictures = iter([_svg(path, shelf) for path in files if path.suffix == ".svg"])
    blocks, parts = shelf.results.build(exhibit), []
    for block in blocks:
        part = _part(block, _statements(shelf))
        if not {"text", "tables"} & set(part):
            part["picture"] = next(pictures, None)
            if part["picture"] is None:
                raise UserError(
                    f"{root / shelf.name}/exhibits: {exhibit.name} has no picture of "
                    f"{block.title!r}; write the exhibits before the pages"
                )
        parts.append(part)
    return {
        "shelf": shelf,
        "missing": shelf.missing.get(exhibit.name, ()),
        "files": [(_form(path, exhibit), path.relative_to(root).as_posix()) for path in files],
        "parts": parts,
        "notes": notes(shelf, exhibit),
    }


def _form(path: Path, exhibit: Exhibit) -> str:
    """Return what a file is: ``CSV``, ``PNG 2``."""
    form = _FORMS.get(path.suffix, path.suffix[1:].upper())
    return f"{form}{path.stem.removeprefix(exhibit.name).replace('_', ' ')}"


def _part(block: Block, statements: str) -> dict[str, Any]:
    """Return a block as the templates draw it; with ``text``, ``tables`` or ``picture``."""
    if isinstance(block, str):
        return {"text": block}
    part = {"title": block.title, "notes": block.notes}
    if isinstance(block, Table):  # each panel scrolls by itself
        part["tables"] = [Markup(f"{text}</table>")
                          for text in html(block, statements).split("</table>")[:-1]]  # fmt: skip
    return part


def _svg(path: Path, shelf: Shelf) -> Markup:
    """Return a picture for a page; its identifiers get the shelf's name, as two may have it."""
    text = path.read_text(encoding="utf-8")
    return Markup(_IDENTIFIER.sub(rf"\g<0>{shelf.name}-", text[text.index("<svg") :]))
