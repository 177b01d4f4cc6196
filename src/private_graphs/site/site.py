"""The site: ``results/index.html``, its pages in ``results/site``, and the guides beside them.

There is one page per exhibit, dataset, method and privacy statement, and per study one of every ε.
All are static and need no network. A page holds every set of results that has its subject, and a
switch shows one of them: the recorded results, or the reader's own run.
"""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from private_graphs.core.errors import UserError, counted
from private_graphs.core.files import write_json, write_text
from private_graphs.core.version import __version__
from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.datasets.registry import dataset_spec
from private_graphs.methods import all_methods, module_of
from private_graphs.privacy.explain import answers
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.report import statement as says
from private_graphs.report.claims import claims_table, reasons
from private_graphs.report.curves import learning_curves
from private_graphs.report.picture import variables
from private_graphs.report.table import Largest, Link, csv, html, layout_html
from private_graphs.report.words import SCALE, duration, enumeration
from private_graphs.running.exhibit import Block, Chart, Exhibit, Table
from private_graphs.running.study import study_ids
from private_graphs.site.advice import advised, grouped
from private_graphs.site.guides import GUIDES, guides_in_background, linked
from private_graphs.site.overview import (
    StudyVerdict,
    command,
    finding,
    guarantees,
    notes,
    other_papers,
    study_numbers,
    study_verdict,
    truth,
    verdict_counts,
    verdicts,
)
from private_graphs.site.pictures import PagePictures
from private_graphs.site.publish import write_all_texts
from private_graphs.site.search import search_index
from private_graphs.site.shelf import (
    Shelf,
    exhibit_files,
    label_of,
    name_of,
    read_shelves,
    title_of,
)
from private_graphs.site.write import draw, wait
from private_graphs.tasks.tasks import SCENARIOS

SITE, PRIVACY, CLAIMS, VERDICT = "site", "privacy", "claims", "index"
WHICH, SEARCH = f"{SITE}/which.html", f"{SITE}/search.html"
RECORDED = "recorded"
VERDICTS = "verdicts.txt"
"""File below ``site`` with a line on every study, which a finished run prints."""
_TEMPLATES = Path(__file__).parent / "templates"
_METHOD = re.compile(r"(?<=, )(\w+)(?: \(\w+\)), protocol (\w+)")
_GROUPS = re.compile(r"of group ([\w /]+)")
"""Method with its scenario and protocol, and run groups, in a line about runs."""
_ROLE = re.compile(r":\w+:`[~.]?([^`]*)`")
_UNSAFE = re.compile(r"[^-.\w]")
_DOCS_LINK = re.compile(r" \(\[[^]]*\]\([^)]*\)\)")
_NUMBER = re.compile(r"\d+(\.\d+)?")
_FIGURE = re.compile(r"(?<![\w.§])\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
_SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_NO_CLASS: Largest = {}
_FORMS = ("csv", "md", "tex")
"""Files of recorded exhibits, whose pictures are embedded in the pages only."""


@dataclass(frozen=True)
class StudyEntry:
    """A study with its sets of results: an entry of the overview and of the navigation."""

    shelves: Sequence[Shelf]

    @property
    def study(self) -> Any:
        """The study of all sets of results."""
        return self.shelves[0].results.study

    @cached_property
    def exhibits(self) -> dict[str, Exhibit]:
        """Every exhibit of any set of results, by name."""
        return {exhibit.name: exhibit for shelf in self.shelves for exhibit in shelf.exhibits}

    @cached_property
    def pages(self) -> list[tuple[str, str]]:
        """Return (address, label) of its pages, in order."""
        exhibits = [(self.address(name), name_of(entry)) for name, entry in self.exhibits.items()]
        claims = [(self.address(CLAIMS), "Claims checked")] if self.claims else []
        return [(self.address(VERDICT), "Verdict"), *exhibits, *claims,
                (self.address(PRIVACY), "All privacy guarantees")]  # fmt: skip

    @cached_property
    def judge(self) -> Shelf:
        """The results that the verdict is about: recorded ones, else those on the paper's data."""
        return min(self.shelves, key=lambda shelf: (not shelf.made, bool(shelf.synthetic)))

    @cached_property
    def verdict(self) -> StudyVerdict:
        """The verdict on the study's paper."""
        printed = [entry for entry in self.judge.exhibits if entry.name in self.study.published]
        judgements = verdicts([block for entry in printed for block in self.judge.blocks(entry)])
        return study_verdict(self.judge, judgements, self.numbers)

    @cached_property
    def numbers(self) -> dict[str, str]:
        """Numbers that sentences about the study may name."""
        return study_numbers(self.judge, self.judge.claims)

    @cached_property
    def others(self) -> list[tuple[Exhibit, StudyVerdict]]:
        """Lines on other papers that tables of the study compare."""
        return other_papers(self.judge, self.numbers)

    @cached_property
    def findings(self) -> dict[str, str]:
        """What each table or figure shows, in one sentence, by name; empty if nothing is known."""
        judge = self.judge
        return {entry.name: finding(judge, entry, verdicts(judge.blocks(entry)), self.numbers)
                for entry in judge.exhibits}  # fmt: skip

    @cached_property
    def claims(self) -> dict[str, pd.DataFrame]:
        """Verdicts on the text's claims, by name of the set of results; empty without claims."""
        return {shelf.name: shelf.claims for shelf in self.shelves if shelf.claims is not None}

    @property
    def not_run(self) -> str:
        """Command for the reader's own numbers at full scale, if there are none."""
        if any(shelf.name == "full" for shelf in self.shelves):
            return ""
        return f"snakemake --cores all --config scale=full studies={self.study.id}"

    def address(self, name: str) -> str:
        """Return the address of a page relative to the folder of ``index.html``."""
        return f"{SITE}/{self.study.id}/{name}.html"

    def beside(self, address: str) -> tuple[tuple[str, str] | None, tuple[str, str] | None]:
        """Return (address, label) of the previous and the next page of one of its pages."""
        ends = [("index.html", "Overview"), *self.pages, None]
        index = [page[0] for page in ends[:-1]].index(address)
        return ends[index - 1], ends[index + 1]


def write_site(
    results_root: str | Path,
    recorded: str | Path = "recorded",
    processes: int = 1,
    scale: str = "",
    report: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Write ``index.html`` and its pages; return their paths.

    The site shows the exhibits below ``<scale>/exhibits``, and those of ``recorded``, whose tables
    are written to ``recorded/exhibits`` and whose pictures are drawn by ``processes`` processes.
    ``scale`` is the one whose ``claims/<study>.csv`` match the present code; other claims of own
    results are judged here. ``report`` gets a line before each part of the work.

    Raises:
        UserError: there is nothing to show, or an ``index.html`` of another origin.
    """
    root = Path(results_root)
    _refuse_other(root / "index.html")
    report("reading results")
    shelves = [
        replace(shelf, verdicts=root / scale / "claims" / f"{shelf.results.study.id}.csv")
        if shelf.name == scale else shelf
        for shelf in read_shelves(root, Path(recorded))
    ]  # fmt: skip
    if not shelves:
        return write_pages(root, shelves)  # which says that there is nothing
    with TemporaryDirectory() as pictures, guides_in_background(root / GUIDES) as guides_built:
        drawings = []
        for shelf in (shelf for shelf in shelves if shelf.made):
            report(f"tables of {shelf.results.study.id}")
            folder = root / shelf.name / "exhibits" / shelf.results.study.id
            _, batch = write_all_texts(folder, shelf, _FORMS)
            target = Path(pictures, shelf.results.study.id)
            drawings += [replace(drawing, stem=target / drawing.stem.name, forms=("svg",))
                         for drawing in batch]  # fmt: skip
        being_drawn = draw(drawings, processes)
        report("guides, pages and pictures")
        guides_built()
        return write_pages(root, shelves, being_drawn, Path(pictures))


def _refuse_other(page: Path) -> None:
    """Raise UserError for a page that this package has not written."""
    if not page.is_file():
        return
    with open(page, "rb") as stream:
        start = stream.read(4096)
    if b"private-graphs" not in start:
        raise UserError(
            f"{page}: there is a page of another origin; expected a folder of results; name one, "
            "or remove the file if nobody needs it"
        )


def findings(results_root: str | Path) -> list[str]:
    """Return the verdict on every study's paper, as the last site says it, in one line each."""
    path = Path(results_root) / SITE / VERDICTS
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def write_pages(
    root: Path,
    shelves: Iterable[Shelf],
    being_drawn: Iterable[None] = (),
    recorded_pictures: Path | None = None,
) -> list[Path]:
    """Write the pages of sets of results whose exhibits are written; return their paths.

    Below ``site``: ``<study>/<exhibit>.html``, ``<study>/privacy.html`` with every ε,
    ``<study>/claims.html`` with the claims of the text, ``methods/<method>.html``,
    ``datasets/<dataset>.html`` (``private/<dataset>.html`` for a graph of the reader's own),
    ``<study>/<shelf>/<method>-….html`` with statements of similar runs, and with all of their
    fields ``<study>/statements-<shelf>.json.gz``. Downloads and
    pictures are those of ``<shelf>/exhibits/<study>``; pictures of recorded exhibits are those of
    ``<recorded_pictures>/<study>``, after those in ``being_drawn`` are finished. Pages without
    content any more are removed. Pages link to the guides in ``docs`` if there are some.

    Raises:
        UserError: there is nothing to show, or a picture is missing.
    """
    studies: dict[str, list[Shelf]] = {}
    for shelf in shelves:
        studies.setdefault(shelf.results.study.id, []).append(shelf)
    if not studies:
        raise UserError(
            f"{root}: no results to show; expected finished or recorded ones: run snakemake"
        )
    guides = (root / GUIDES / "index.html").is_file()
    site = _Site(root, _entries(studies.values()), recorded_pictures, guides)
    try:
        pages = dict(site.pages())
    finally:
        wait(being_drawn)
    pages |= site.exhibits()
    pages[root / SITE / "search.js"] = search_index(root, pages)
    for path, held in pages.items():
        (write_text if isinstance(held, str) else write_json)(path, held)
    _write_style(root)
    lines = [
        ("recorded: " if entry.judge.made else "") + entry.verdict.line(entry.study.name)
        for entry in site.entries
    ]
    write_text(root / SITE / VERDICTS, "\n".join(lines) + "\n")
    paths = {*pages, *(root / SITE / name for name in ("site.css", "site.js", VERDICTS))}
    ids = {*study_ids(), *(entry.study.id for entry in site.entries)}
    for name in ids | {"methods", "datasets", "private"}:  # nothing else is ours to remove
        for path in (root / SITE / name).rglob("*"):
            removable = name in ids or path.suffix == ".html"
            if removable and path.is_file() and path not in paths:
                path.unlink()
    return [path for path in pages if path.suffix == ".html"]


def write_first_page(root: Path, shelves: Iterable[Shelf], address: Path) -> Path:
    """Write ``index.html`` below ``root`` without the pages behind it; return its path.

    ``shelves`` has one set of results of each study; the page says what it would say at
    ``address``, the folder of a whole site.
    """
    entries = _entries([shelf] for shelf in shelves)
    _, text = _Site(address, entries, None, guides=True).first_page()
    write_text(root / "index.html", text)
    _write_style(root)
    return root / "index.html"


def _entries(studies: Iterable[Sequence[Shelf]]) -> list[StudyEntry]:
    """Return the entries of studies, each a list of sets of results, in the order of the pages."""
    entries = [StudyEntry(sorted(members, key=lambda shelf: shelf.name != RECORDED))
               for members in studies]  # fmt: skip
    return sorted(entries, key=lambda entry: (entry.study.rank, entry.study.id))


def _write_style(root: Path) -> None:
    """Write the style and the script of the pages."""
    style = (_TEMPLATES / "site.css").read_text(encoding="utf-8")
    for mark, dark in (("LIGHT", False), ("DARK", True)):
        style = style.replace(f"/* {mark} */", variables(dark))
    write_text(root / SITE / "site.css", style)
    shutil.copyfile(_TEMPLATES / "site.js", root / SITE / "site.js")


class _Site:
    """All pages of some studies."""

    def __init__(
        self,
        root: Path,
        entries: Sequence[StudyEntry],
        recorded_pictures: Path | None,
        guides: bool,
    ) -> None:
        self.guides = guides
        self.root, self.entries, self.recorded_pictures = root, entries, recorded_pictures
        self.files: dict[Path, str | dict[str, Any]] = {}
        self.places = _places(entries)
        self.shelves = [shelf for entry in entries for shelf in entry.shelves]
        self.private = {name for shelf in self.shelves for name in shelf.private}
        self.statistics: dict[str, list[Mapping[str, Any]]] = {}
        for shelf in self.shelves:
            for graph in shelf.statistics:
                known = self.statistics.setdefault(graph["name"], [])
                known += [graph] if graph not in known else []
            for name in {*shelf.runs["dataset"].dropna()} - self.statistics.keys():
                self.statistics[name] = [_unmeasured(name)]  # its sizes were not recorded
        used = {name for shelf in self.shelves for name in shelf.own.runs["method"]}
        self.methods = {name: method for name, method in all_methods().items() if name in used}
        self.templates = Environment(
            loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self.templates.globals |= {
            "doors": self.doors, "guides": guides, "alone": False, "which": WHICH,
            "listed": self.method("index"),
            "studies": entries, "protocols": PROTOCOLS.values(), "scale": SCALE,
            "version": __version__, "sets": _sets(self.shelves),
            "title_of": title_of, "label_of": label_of, "name_of": name_of,
            "datasets": {self.dataset(name): known[0]["title"]
                         for name, known in sorted(self.statistics.items())},
            "methods": {self.method(name): method.title for name, method in self.methods.items()},
        }  # fmt: skip

    def dataset(self, name: str) -> str:
        """Return the address of a dataset's page."""
        folder = "private" if name in self.private else "datasets"
        return f"{SITE}/{folder}/{_UNSAFE.sub('_', name)}.html"

    def method(self, name: str) -> str:
        """Return the address of a method's page."""
        return f"{SITE}/methods/{name}.html"

    @property
    def doors(self) -> dict[str, str]:
        """Addresses and names of the parts of the site, which stand above every page."""
        parts = {"index.html": "Results", "docs/your-own-graph.html": "Your documents",
                 WHICH: "Which method?", "docs/index.html": "Documentation"}  # fmt: skip
        return {address: name for address, name in parts.items()
                if self.guides or not address.startswith(GUIDES)}  # fmt: skip

    def page(
        self, address: str, kind: str, shelves: Iterable[Shelf], **values: Any
    ) -> tuple[Path, str]:
        """Return path and text of a page."""
        up = "../" * address.count("/")
        private = sorted({name for shelf in shelves for name in shelf.private})
        template = self.templates.get_template(f"{kind}.html.j2")
        text = template.render(root=up, address=address, private=private, **values)
        here = address.rpartition("/")[0]
        for folder in (here, SITE) if here else ():  # short addresses: a page has hundreds
            prefix = "../" * (here.count("/") - folder.count("/"))
            text = text.replace(f'"{up}{folder}/', f'"{prefix}')
        return self.root / address, linked(text, up if self.guides else None)

    def first_page(self) -> tuple[Path, str]:
        """Return path and text of the first page."""
        known = (entry for entry in self.entries if not entry.judge.synthetic)
        first = next((entry for entry in known if entry.judge.answer), None)
        runs: dict[str, list[StudyEntry]] = {}
        for entry in self.entries:
            for shelf in entry.shelves:
                if not shelf.made:
                    runs.setdefault(shelf.name, []).append(entry)
        return self.page("index.html", "index", self.shelves, first=first, alone=True,
                         own_runs=[self.own_run(name, members) for name, members in runs.items()],
                         )  # fmt: skip

    def own_run(self, name: str, entries: Sequence[StudyEntry]) -> dict[str, Any]:
        """Return the line on the reader's own run at a scale."""
        shelves = [shelf for entry in entries for shelf in entry.shelves if shelf.name == name]
        rows = pd.concat([shelf.own.runs for shelf in shelves])
        texts = [counted(len(rows), "run"), f"{len(shelves)} of {len(study_ids())} papers"]
        if rows["seconds"].notna().any():
            texts.append(f"{duration(rows['seconds'].sum())} of computing")
        return {"words": self.templates.globals["sets"][name].capitalize(),
                "counts": ", ".join(texts), "name": name, "address": entries[0].pages[0][0],
                "synthetic": any(shelf.synthetic for shelf in shelves)}  # fmt: skip

    def choices(self) -> Iterator[tuple[Path, str]]:
        """Yield the pages "Which method?" and of all methods, and the search."""
        ends = [end for entry in self.entries for end in advised(entry.judge)]
        pages = {end.advice.method: self.method(end.advice.method) for end in ends}
        yield self.page(WHICH, "which", self.shelves, ends=ends, pages=pages, alone=True)
        yield self.page(self.method("index"), "methods", (),
                        groups=grouped(self.methods, self.shelves))  # fmt: skip
        yield self.page(SEARCH, "search", (), alone=True)

    def pages(self) -> Iterator[tuple[Path, str | dict[str, Any]]]:
        """Yield path and content of every file, except pages of exhibits, which have pictures."""
        yield self.first_page()
        yield from self.choices()
        for entry in self.entries:
            yield self.page(
                entry.address(VERDICT), "study", entry.shelves, entry=entry,
                claims={shelf.name: _counted(entry.claims.get(shelf.name))
                        for shelf in entry.shelves},
                beside=entry.beside(entry.address(VERDICT)), elsewhere=self.elsewhere(entry),
            )  # fmt: skip
            yield self.appendix(entry, PRIVACY, "What was asked for and claimed, what is proved, "
                                "and what an attack showed.", guarantees)  # fmt: skip
            if entry.claims:
                yield self.appendix(
                    entry, CLAIMS, "What the text of the paper says and what the runs say of it, "
                    "and what we asked.",
                    lambda shelf, entry=entry: _verdicts(entry.claims[shelf.name]),
                )  # fmt: skip
        for name, graphs in self.statistics.items():
            address = self.dataset(name)
            held = self.with_runs(dataset=name)
            addresses = {entry.study.id: entry.address(PRIVACY) for entry in self.entries}
            yield self.page(
                address, "dataset", held, name=name, public=self.public(name),
                known=[{**graph, "degrees": _by_number(graph.get("degrees"))} for graph in graphs],
                scores=[(shelf, addresses[shelf.results.study.id]) for shelf in held],
            )  # fmt: skip
        for name, method in self.methods.items():
            about = _ROLE.sub(r"\1", inspect.getdoc(import_module(module_of(name))) or "")
            held = [doc for shelf in self.with_runs(method=name)
                    for doc in shelf.statements.values() if doc.method == name]  # fmt: skip
            yield self.page(
                self.method(name), "method", self.with_runs(method=name), method=method,
                about=about.replace("``", "").split("\n\n"), proofs=_reasons(held),
                scenarios=[SCENARIOS[scenario] for scenario in method.scenarios],
                sections=self.sections(name),
            )  # fmt: skip
        for entry in self.entries:
            for shelf in entry.shelves:
                yield from self.statements(entry, shelf)
        yield from self.files.items()

    def exhibits(self) -> Iterator[tuple[Path, str]]:
        """Yield path and text of the page of every exhibit."""
        for entry in self.entries:
            for exhibit in entry.exhibits.values():
                yield self.exhibit(entry, exhibit)

    def exhibit(self, entry: StudyEntry, exhibit: Exhibit) -> tuple[Path, str]:
        """Return the page of an exhibit, with one section per set of results that has it."""
        shelves = [shelf for shelf in entry.shelves if exhibit.name in
                   {candidate.name for candidate in shelf.exhibits}]  # fmt: skip
        pictures = PagePictures()
        sections = [self.section(shelf, exhibit, pictures) for shelf in shelves]
        address = entry.address(exhibit.name)
        return self.page(
            address, "exhibit", shelves, entry=entry, title=title_of(exhibit),
            label=name_of(exhibit), finding=entry.findings.get(exhibit.name, ""),
            meaning=exhibit.meaning,
            sections=sections, beside=entry.beside(address),
            occurring=_occurring(sections, [shelf.rows_of(exhibit) for shelf in shelves]),
        )  # fmt: skip

    def section(self, shelf: Shelf, exhibit: Exhibit, pictures: PagePictures) -> dict[str, Any]:
        """Return the section of an exhibit's page for one set of results."""
        blocks, statements = shelf.blocks(exhibit), self.link(shelf, shelf.results.study.id)
        files = exhibit_files(self.root, shelf, exhibit)
        numbered = [block for block in blocks if hasattr(block, "frame")]
        drawn = [block for block in blocks if not isinstance(block, (str, Table))]
        tables = [id(block) for block in blocks if isinstance(block, Table)] or list(
            map(id, drawn[:1])
        )
        judgements = [] if shelf.synthetic else verdicts(blocks)
        parts = [_part(truth(judgements), statements)] if judgements else []
        for block in blocks:
            part = _part(block, statements, shelf.largest)
            whole = (".md", ".tex") if id(block) in tables else ()  # files of all tables together
            keys = {(exhibit.name, suffix) for suffix in whole}
            for group, suffixes in ((numbered, [".csv"]), (drawn, [".svg", ".png"])):
                index = next((i for i, member in enumerate(group, 1) if member is block), 0)
                stem = exhibit.name if index == 1 else f"{exhibit.name}_{index}"
                keys |= {(stem, suffix) for suffix in suffixes} if index else set()
            paths = [path for path in files if (path.stem, path.suffix) in keys]
            part["files"] = [(path.name, path.relative_to(self.root).as_posix()) for path in paths]
            if not {"text", "tables"} & set(part):
                part["picture"] = pictures.add(*self.picture(shelf, stem))
            parts.append(part)
        return {
            "shelf": shelf, "missing": shelf.missing.get(exhibit.name, ()), "parts": parts,
            "notes": notes(shelf, exhibit), "command": command(shelf, exhibit), "statements": {},
        }  # fmt: skip

    def picture(self, shelf: Shelf, stem: str) -> tuple[str, Link]:
        """Return a set's picture and the addresses of statements; UserError if it is missing."""
        folder = self.root / shelf.name / "exhibits"
        if shelf.made and self.recorded_pictures is not None:
            folder = self.recorded_pictures
        path = folder / shelf.results.study.id / f"{stem}.svg"
        if not path.is_file():
            raise UserError(f"{path} is missing; write the exhibits before the pages")
        link = self.link(shelf, shelf.results.study.id)
        return path.read_text(encoding="utf-8"), lambda of: (
            link(of) if (shelf.name, of) in self.places else "")  # fmt: skip

    def elsewhere(self, entry: StudyEntry) -> list[tuple[str, str, str]]:
        """Return (label, address, other label) of a study's tables that another study has."""
        by_id = {study_entry.study.id: study_entry for study_entry in self.entries}
        links = []
        for name, where in entry.study.elsewhere.items():
            owner, _, exhibit = where.partition(".")
            if owner in by_id and exhibit in by_id[owner].exhibits:
                target = by_id[owner]
                label = f"{label_of(exhibit)}, {target.study.name}"
                links.append((label_of(name), target.address(exhibit), label))
        return links

    def with_runs(self, **of: str) -> list[Shelf]:
        """Return the sets of results that have runs with a given value in a column."""
        [(column, value)] = of.items()
        return [shelf for shelf in self.shelves if (shelf.own.runs[column] == value).any()]

    def public(self, dataset: str) -> dict[str, list[str]]:
        """Return, for each scenario, what all statements about a dataset assume public."""
        facts: dict[str, list[str]] = {}
        for shelf in self.with_runs(dataset=dataset):
            for doc in shelf.statements.values():
                if doc.dataset == dataset:
                    known = facts.setdefault(doc.scenario, list(doc.public_facts))
                    facts[doc.scenario] = [fact for fact in known if fact in doc.public_facts]
        return {scenario: known for scenario, known in sorted(facts.items()) if known}

    def sections(self, method: str) -> list[dict[str, Any]]:
        """Return every ε of a method's runs, with one section per set of results."""
        pictures = PagePictures()
        return [{"shelf": shelf, "study": shelf.results.study,
                 "part": self.every(shelf, PRIVACY, guarantees(shelf, method=method), "methods"),
                 "curves": _curves(shelf, method, pictures)}
                for shelf in self.with_runs(method=method)]  # fmt: skip

    def every(self, shelf: Shelf, page: str, table: Table, folder: str = "") -> dict[str, Any]:
        """Return a table outside any exhibit, with the CSV of a page of its study, which has all
        rows; ``folder`` is the one of the page, by default that of the study."""
        study = shelf.results.study.id
        file = f"{page}-{study}-{shelf.name}.csv"
        part = _part(table, self.link(shelf, folder or study), shelf.largest)
        part["captions"] = [
            f"{caption}, {shelf.results.study.name}" for caption in part["captions"]
        ]
        return part | {"files": [(file, f"{SITE}/{study}/{file}")]}

    def appendix(
        self, entry: StudyEntry, name: str, meaning: str, table: Callable[[Shelf], Table]
    ) -> tuple[Path, str]:
        """Return a page of a study outside any exhibit, with one table per set of results."""
        address = entry.address(name)
        shelves = [shelf for shelf in entry.shelves if name != CLAIMS or shelf.name in entry.claims]
        sections = []
        for shelf in shelves:
            content = table(shelf)
            part = self.every(shelf, name, content)
            self.files[self.root / part["files"][0][1]] = csv(content.frame)
            titles = self.kinds(entry, shelf) if name == PRIVACY else {}
            sections.append({"shelf": shelf, "missing": (), "notes": (), "command": "",
                             "parts": [part], "statements": titles})  # fmt: skip
        return self.page(
            address, "exhibit", shelves, entry=entry, title=dict(entry.pages)[address],
            finding="", meaning=meaning, sections=sections, beside=entry.beside(address),
            occurring=_occurring(sections, [shelf.own.runs for shelf in shelves]),
        )  # fmt: skip

    def statements(self, entry: StudyEntry, shelf: Shelf) -> Iterator[tuple[Path, str]]:
        """Yield the pages of a set's privacy statements, one per kind of runs, and their file."""
        fields, documents = f"{SITE}/{entry.study.id}/statements-{shelf.name}.json.gz", {}
        runs = {name: [_told(shelf, line) for line in lines]
                for name, lines in says.runs_of(shelf.runs).items()}  # fmt: skip
        printed = shelf.runs.groupby("statement_id")["epsilon"].min().to_dict()
        for address, members in self.members(entry, shelf).items():
            members.sort(key=lambda doc: (printed[doc.statement_id], doc.statement_id))
            documents |= {doc.statement_id: doc.model_dump(mode="json") for doc in members}
            methods = dict.fromkeys(doc.method for doc in members)
            rests = list(dict.fromkeys(map(says.rests_on, members)))
            common, lines = _alike({doc.statement_id: runs[doc.statement_id] for doc in members})
            for part in (members[0].dataset, self.kind(members).partition(" on ")[0],
                         PROTOCOLS[members[0].protocol].title):  # fmt: skip
                common = f", {common}, ".replace(f", {part}, ", ", ", 1).strip(", ")
            cards: dict[tuple[tuple[str, str], ...], list[dict[str, Any]]] = {}
            for doc in members:  # a card for all that protect the same from the same
                name = doc.statement_id
                texts = answers(doc, printed[name])
                cards.setdefault(tuple(says.card(texts)), []).append({
                    "id": name, "runs": lines[name], "tone": says.tone(doc),
                    "short": says.shortly(doc, printed[name]), "strength": says.strongly(texts),
                    "reason": says.reason(doc), "rests": rests.index(says.rests_on(doc)) + 1,
                })  # fmt: skip
            yield self.page(
                address, "statement", [shelf], entry=entry, shelf=shelf, title=self.kind(members),
                alike=common, rests=_shared(rests), fields=fields,
                cards=[_card(like, held) for like, held in cards.items()],
                methods_told={self.method(name): self.methods[name].title for name in methods},
                dataset=members[0].dataset in self.statistics and self.dataset(members[0].dataset),
            )  # fmt: skip
        self.files[self.root / fields] = documents

    def members(self, entry: StudyEntry, shelf: Shelf) -> dict[str, list[PrivacyStatement]]:
        """Return the statements of a set of results that are on its study's pages, by address."""
        pages: dict[str, list[PrivacyStatement]] = {}
        for name, statement in shelf.statements.items():
            teller, address = self.places[shelf.name, name]
            if teller == entry.study.id:
                pages.setdefault(f"{SITE}/{address}", []).append(statement)
        return pages

    def kinds(self, entry: StudyEntry, shelf: Shelf) -> dict[str, str]:
        """Return the title of every page with statements of a set of results, by address."""
        titles = {address: self.kind(members)
                 for address, members in self.members(entry, shelf).items()}  # fmt: skip
        return dict(sorted(titles.items(), key=lambda item: item[1]))

    def kind(self, members: Sequence[PrivacyStatement]) -> str:
        """Return what the runs of the statements of a page are, as its title."""
        first = members[0]
        if first.status == "not_private":
            return f"Without DP on {first.dataset}"
        method = self.methods[first.method].title
        scenario, protocol = SCENARIOS[first.scenario].called, PROTOCOLS[first.protocol].title
        return f"{method} on {first.dataset}, {scenario}, {protocol}"

    def link(self, shelf: Shelf, folder: str) -> Link:
        """Return a function from a set's statements to their addresses on pages of a folder."""

        def address(name: str) -> str:
            target = self.places[shelf.name, name][1]
            path = target.removeprefix(f"{folder}/")
            return f"{path if path != target else f'../{target}'}#{name}"

        return address


def _unmeasured(name: str) -> dict[str, Any]:
    """Return what a dataset's page says where no sizes were recorded."""
    return {"name": name, "title": dataset_spec(name).title, "citation": "", "licence": "",
            "sources": ()}  # fmt: skip


def _sets(shelves: Iterable[Shelf]) -> dict[str, str]:
    """Return the names of the sets of results, recorded ones first, with labels for the switch."""
    names = sorted(dict.fromkeys(part.name for part in shelves), key=lambda name: name != RECORDED)
    scales = [name for name in names if name != RECORDED]
    label = "a run on this machine" if len(scales) == 1 else "your run, scale {}"
    return {name: "recorded on the papers’ data" if name == RECORDED else label.format(name)
            for name in names}  # fmt: skip


def _places(entries: Iterable[StudyEntry]) -> dict[tuple[str, str], tuple[str, str]]:
    """Return the (study, page below ``site``) of each statement, by set of results and identifier.

    A statement of runs that two studies read is on the pages of the study to which they belong.
    """
    shelves = [(entry.study.id, shelf) for entry in entries for shelf in entry.shelves]
    here = {(shelf.name, study) for study, shelf in shelves}
    places = {}
    for teller, shelf in shelves:
        studies = shelf.runs.groupby("statement_id")["study"].unique()
        for name, held in shelf.statements.items():
            owners = {study for study in studies[name] if (shelf.name, study) in here}
            if owners and teller not in owners:
                continue
            like = (held.dataset, "without-dp")
            if held.status != "not_private":
                # most sentences contain the number of units: with others, little would be common
                like = held.method, held.dataset, held.scenario, held.protocol, held.n_units
            page = "-".join(map(str, like))
            address = f"{teller}/{shelf.name}/{_UNSAFE.sub('_', page)}.html"
            places[shelf.name, name] = teller, address
    return places


def _alike(lines: Mapping[str, Sequence[str]]) -> tuple[str, dict[str, list[str]]]:
    """Return the words that all lines about runs share, and the lines without them."""
    parts = {name: [line.split(", ") for line in texts] for name, texts in lines.items()}
    sets = [set(line) for group in parts.values() for line in group]
    shared = set.intersection(*sets) if len(sets) > 1 else set()
    if any(line <= shared for line in sets):
        shared = set()
    first = next(iter(parts.values()))[0]
    return ", ".join(part for part in first if part in shared), {
        name: [", ".join(part for part in line if part not in shared) for line in group]
        for name, group in parts.items()
    }


def _card(like: Iterable[tuple[str, str]], held: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a card: what its statements share, and what each of them says."""
    shared, runs = _alike({doc["id"]: doc["runs"] for doc in held})
    reasons, values = _formulas({doc["id"]: doc["reason"] for doc in held if doc["reason"]})
    statements = [doc | {"runs": runs[doc["id"]], "numbers": values.get(doc["id"])} for doc in held]
    rests = dict.fromkeys(doc["rests"] for doc in held)
    return {"lines": dict(like), "alike": shared, "statements": statements, "reasons": reasons,
            "rests": list(rests)}  # fmt: skip


def _formulas(
    reasons: Mapping[str, str],
) -> tuple[list[str], dict[str, tuple[int, list[str]]]]:
    """Return the texts of reasons, where numbers in which they differ are x₁, x₂, …, and, for each
    name, the place of its text and its values of these, in order."""
    groups: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for name, reason in reasons.items():
        words = tuple(_FIGURE.split(reason))
        groups.setdefault(words, {})[name] = _FIGURE.findall(reason)
    texts, values = [], {}
    for index, (words, numbers) in enumerate(groups.items()):
        columns = list(zip(*numbers.values(), strict=True))
        differ = list(dict.fromkeys(column for column in columns if len(set(column)) > 1))
        called = {column: f"x{str(i).translate(_SUBSCRIPT)}" for i, column in enumerate(differ, 1)}
        marks = [*(called.get(column, column[0]) for column in columns), ""]
        texts.append("".join(part for pair in zip(words, marks, strict=True) for part in pair))
        for rank, name in enumerate(numbers):
            values[name] = index, [column[rank] for column in differ]
    return texts, values


def _shared(rests: Sequence[tuple[Sequence[str], Sequence[str], str]]) -> list[dict[str, Any]]:
    """Return lists of assumptions and public facts, the first one with what all of them have."""
    heads = ("Assumed", "Public, hence unprotected", "Data before training")
    lists = [dict(zip(heads, (*rest[:2], rest[2:]), strict=True)) for rest in rests]
    common = {head: [text for text in lists[0][head] if all(text in part[head] for part in lists)]
             for head in heads}  # fmt: skip
    extras = [{head: [text for text in part[head] if text not in common[head]] for head in heads}
           for part in lists]  # fmt: skip
    return [common, *extras] if len(lists) > 1 else lists


def _told(shelf: Shelf, runs: str) -> str:
    """Return a line about runs with titles of methods and exhibits instead of keys."""
    labels = {group: name_of(exhibit) for exhibit in reversed(shelf.exhibits)
              for group in exhibit.groups}  # fmt: skip

    def exhibits(match: re.Match[str]) -> str:
        names = (labels.get(name, says.words(name)) for name in match[1].split(" / "))
        return f"for {enumeration(list(dict.fromkeys(names)))}"

    runs = _METHOD.sub(
        lambda match: f"{shelf.results.title(match[1])}, {PROTOCOLS[match[2]].title}", runs
    )
    return _GROUPS.sub(exhibits, runs)


def _by_number(counts: Mapping[str, int] | None) -> dict[str, int] | None:
    """Sort counts by names such as ``2 to 3`` and ``1,024 to 2,047``."""
    if counts is None:
        return None
    first = {name: int(name.partition(" ")[0].replace(",", "")) for name in counts}
    return dict(sorted(counts.items(), key=lambda item: first[item[0]]))


def _verdicts(claims: pd.DataFrame) -> Table:
    """Return verdicts as a table, with the reasons of artefacts below, without links to docs/."""
    table = claims_table(claims, "Claims")
    why = (f"{claim}: {_DOCS_LINK.sub('', reason)}" for claim, reason in reasons(claims))
    titles = {protocol.title for protocol in PROTOCOLS.values()}
    columns = [replace(col, group=col.head, head="verdict") if col.head in titles else col
               for col in table.columns]  # fmt: skip
    run = claims.assign(run=claims["verdict"] != "not_run").groupby("id")["run"].any()
    order = sorted(table.shown["id"].tolist(), key=lambda name: not run[name])  # not run: last
    lines = table.shown.set_index("id", drop=False).loc[order]
    return replace(table, columns=columns, notes=(*table.notes, *why), lines=lines)


def _counted(claims: pd.DataFrame | None) -> list[str]:
    """Return the number of claims by verdict, as one text per protocol."""
    if claims is None:
        return []
    numbers = claims[claims["source"] == "text"].groupby(["protocol", "verdict"]).size()
    groups = {protocol: numbers[protocol] for protocol in numbers.index.unique("protocol")}
    texts = []
    for protocol in (*PROTOCOLS, ""):
        counts = groups.get(protocol, {})
        if words := verdict_counts(counts):
            title = PROTOCOLS[protocol].title if protocol else "by calculation"
            texts.append(f"{title}: {', '.join(words)}")
    return texts


def _reasons(statements: Iterable[PrivacyStatement]) -> list[tuple[str, list[str]]]:
    """Return, for every protocol that adds noise, why the sensitivity of its releases holds."""
    private = [doc for doc in statements if doc.mechanisms]
    pairs = {(doc.protocol, doc.proof.partition(": ")[2] or doc.proof) for doc in private}
    patterns = {(protocol, _NUMBER.sub("", reason)): reason
             for protocol, reason in sorted(pairs, reverse=True)}  # fmt: skip
    return [(protocol, sorted(reason for (of, _), reason in patterns.items() if of == protocol))
            for protocol in PROTOCOLS if any(of == protocol for of, _ in patterns)]  # fmt: skip


def _part(block: Block, statements: Link = str, largest: Largest = _NO_CLASS) -> dict[str, Any]:
    """Return a block for the templates; with ``text``, ``tables`` or ``picture``."""
    if isinstance(block, str):
        return {"text": block, "files": ()}
    part: dict[str, Any] = {"title": block.title, "notes": block.notes, "files": ()}
    if isinstance(block, Chart):
        part["axes"] = f"{block.axes}."
    if isinstance(block, Table):  # each panel scrolls separately
        part["tables"] = [Markup(text) for text in html(block, statements, largest)]
        panels = dict.fromkeys(str(row[block.panel]) for row in block.rows if block.panel)
        part["captions"] = [f"{block.title}: {name}" for name in panels] or [block.title]
        if block.unfolded is not None:
            part["unfolded"], part["panels"] = block.unfolded, list(panels)
        if block.layout:
            part["layout"] = Markup(layout_html(block, statements, largest))
            grey = [("grey", "no better than always naming the largest class")]
            part["key"] = [*block.layout.key, *grey * ('class="useless"' in part["layout"])]
    return part


def _occurring(
    sections: Iterable[Mapping[str, Any]], runs: Iterable[pd.DataFrame]
) -> dict[str, list[str]]:
    """Return the tones and the protocols that occur on a page, for its legend."""
    text = "".join(map(str, (table for section in sections for part in section["parts"]
                             for table in part.get("tables", ()))))  # fmt: skip
    names = {name for rows in runs for name in rows["protocol"]}
    return {"tones": [tone for tone in SCALE if f'{tone}"' in text],
            "protocols": [name for name in PROTOCOLS if name in names]}  # fmt: skip


def _curves(shelf: Shelf, method: str, pictures: PagePictures) -> list[dict[str, Any]]:
    """Return the learning curves of a method as parts of its page."""
    if shelf.made:  # recorded results have no curves
        return []
    from private_graphs.report.chart import draw_chart, drawn

    parts = []
    for chart in learning_curves(shelf.own, method):
        text = drawn(draw_chart(chart), shelf.name).decode()
        parts.append(_part(chart) | {"picture": pictures.add(text)})
    return parts
