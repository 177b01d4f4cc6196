"""Shelves: results of one study that belong together, the reader's own or recorded ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from private_graphs.datasets.registry import dataset_names, dataset_spec, declared_graphs
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.report.claims import claims_of, judged, read_claims
from private_graphs.report.results import Results
from private_graphs.report.rows import answers_in, collect, read_statistics
from private_graphs.running.catalog import exhibits_by_name
from private_graphs.running.exhibit import Block, Exhibit, StudyAnswer
from private_graphs.running.store import ROWS, read_frame, remedy, tidy
from private_graphs.running.study import Run, Study, group_jobs, load_study
from private_graphs.site.record import CLAIMS, Made, Recorded, read_recorded

_WORDS = {
    "full": "your runs, full scale",
    "reduced": "your runs, reduced scale",
    "demo": "your runs, demo",
}


@dataclass(frozen=True)
class Shelf:
    """Results of one study that belong together."""

    name: str
    """``full``, ``reduced``, ``demo`` or ``recorded``: the folder below ``results``."""
    results: Results
    exhibits: Sequence[Exhibit]
    made: Made | None = None
    missing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What an exhibit lacks, in sentences, by its name."""
    verdicts: Path | None = None
    """File with the verdicts on the claims of the text; without it the claims are judged here."""

    @property
    def words(self) -> str:
        """What a reader calls it."""
        if not self.made:
            return _WORDS.get(self.name, self.name)
        scale = self.results.study.recorded_scale
        return f"recorded{'' if scale == 'full' else f' at scale {scale}'}, {self.made.date}"

    @cached_property
    def synthetic(self) -> tuple[str, ...]:
        """Titles of its synthetic datasets."""
        return tuple(entry["title"] for entry in self.statistics if entry.get("synthetic"))

    @cached_property
    def private(self) -> tuple[str, ...]:
        """Names of users' own graphs among its datasets."""
        return declared_graphs(entry["name"] for entry in self.statistics)

    def called(self, datasets: Iterable[str]) -> dict[str, str]:
        """Return short titles of datasets: their first words, as far as these differ.

        A printed dataset without a reader here has its name.
        """
        known = {entry["name"]: entry["title"] for entry in self.results.statistics}
        names = [*datasets]
        known |= {name: name for name in set(names) - set(known) - set(dataset_names())}
        titles = {name: (known.get(name) or dataset_spec(name).title).partition(" (")[0]
                  for name in names}  # fmt: skip
        first = Counter(title.partition(",")[0] for title in titles.values())
        return {name: title.replace(",", "") if first[title.partition(",")[0]] > 1
                else title.partition(",")[0] for name, title in titles.items()}  # fmt: skip

    @property
    def statistics(self) -> list[Mapping[str, Any]]:
        """Of the datasets that it has runs on."""
        used = set(self.own.datasets)
        return [entry for entry in self.results.statistics if entry["name"] in used]

    @cached_property
    def largest(self) -> dict[str, float]:
        """Share of the largest class among the test records, by dataset."""
        return self.results.runs.groupby("dataset")["majority_micro_f1"].mean().dropna().to_dict()

    @cached_property
    def own(self) -> Results:
        """Its results without those of other studies."""
        rows = self.results.rows
        return replace(self.results, rows=rows[rows["study"] == self.results.study.id])

    @cached_property
    def runs(self) -> pd.DataFrame:
        """Runs of its study, and those of others that its exhibits read."""
        runs, study = self.results.runs, self.results.study.id
        mask = runs["study"] == study
        for exhibit in self.exhibits:
            mask |= exhibit.rows_of(runs, study)
        return runs[mask]

    @cached_property
    def statements(self) -> dict[str, PrivacyStatement]:
        """Statements of its runs by identifier, with their audits."""
        names = self.runs["statement_id"].dropna().unique()
        return {name: PrivacyStatement.model_validate(self.results.statement(name))
                for name in names}  # fmt: skip

    def blocks(self, exhibit: Exhibit) -> list[Block]:
        """Return the blocks of one of its exhibits, which are built once."""
        if exhibit.name not in self._blocks:
            self._blocks[exhibit.name] = self.results.build(exhibit)
        return self._blocks[exhibit.name]

    @cached_property
    def _blocks(self) -> dict[str, list[Block]]:
        return {}

    @cached_property
    def answer(self) -> StudyAnswer | None:
        """What the overview says of it, if one of its exhibits can tell."""
        answers = (part.answer(self.results.read_by(part)) for part in self.exhibits if part.answer)
        return next((answer for answer in answers if answer is not None), None)

    @cached_property
    def claims(self) -> pd.DataFrame | None:
        """Verdicts on the claims of the text; None without claims, and for synthetic data, which
        say nothing about them."""
        claims = claims_of(self.results.study.id)
        if not claims or self.synthetic:
            return None
        if self.verdicts and self.verdicts.is_file():
            return read_claims(claims, self.verdicts)
        return judged(claims, self.results)

    def statements_of(self, rows: pd.DataFrame) -> list[PrivacyStatement]:
        """Return the statements of some of its rows, in their order."""
        return [self.statements[name] for name in rows["statement_id"].dropna().unique()]

    def rows_of(self, exhibit: Exhibit, rows: pd.DataFrame | None = None) -> pd.DataFrame:
        """Those of ``rows``, by default the runs, that are of the run groups of an exhibit."""
        rows = self.results.runs if rows is None else rows
        return rows[exhibit.rows_of(rows, self.results.study.id)]


def read_shelves(results_root: Path, recorded: Path) -> list[Shelf]:
    """Return the shelves of all studies: full scale, reduced, recorded, demo.

    Own results are those whose exhibits have been written (``report.write``), with the jobs that
    these show; ``recorded`` may be absent. Raises UserError for damaged results.
    """
    return [
        *own_shelves(results_root / "full"),
        *own_shelves(results_root / "reduced"),
        *recorded_shelves(recorded),
        *own_shelves(results_root / "demo"),
    ]


def recorded_shelves(recorded: str | Path) -> list[Shelf]:
    """Return the shelf of every recorded study; their files are read once."""
    read = cache(read_recorded)
    return [recorded_shelf(path.parent, read)
            for path in sorted(Path(recorded).glob(f"*/{ROWS}"))]  # fmt: skip


def own_shelves(folder: Path) -> list[Shelf]:
    """Return a shelf for every study that has exhibits below ``<folder>/exhibits``."""
    studies = sorted({path.parent.name for path in (folder / "exhibits").glob("*/*.md")})
    if not studies or not (folder / ROWS).is_file():
        return []
    with remedy("remove the file, and run snakemake again"):
        keys = read_frame(folder / ROWS, ["study", "group", "job"])
    jobs = set(keys["study"] + "/" + keys["group"] + "/" + keys["job"].fillna(""))
    rows, statements = collect(folder, jobs=jobs)
    shelves = []
    for study_id in studies:
        study = load_study(study_id, folder.name)
        names = {path.stem for path in (folder / "exhibits" / study_id).glob("*.md")}
        exhibits = [exhibit for exhibit in _exhibits(study) if exhibit.name in names]
        results = Results.of(
            study, folder.name, rows, statements, read_statistics(folder),
            answers_in(folder),
        )  # fmt: skip
        shelves.append(Shelf(folder.name, results, exhibits))
    return shelves


def recorded_shelf(folder: Path, read: Callable[[Path], Recorded] = read_recorded) -> Shelf:
    """Return what ``recorded/<study>`` holds, and what it lacks of the scale that is recorded."""
    recorded = read(folder)
    scale = load_study(Path(folder).name).recorded_scale
    study = load_study(Path(folder).name, scale)
    names = {
        group.split(".")[0] for entry in _exhibits(study) for group in entry.groups if "." in group
    }
    sources = sorted(name for name in names if (Path(folder).parent / name / ROWS).is_file())
    all_found = {study.id: recorded}
    all_found |= {name: read(Path(folder).parent / name) for name in sources}
    rows = tidy(part.rows for part in all_found.values()) if sources else recorded.rows
    results = Results.of(
        study, "recorded", rows,
        {name: value for part in all_found.values() for name, value in part.statements.items()},
        list({(entry["name"], entry.get("view")): entry for one in all_found.values()
              for entry in one.statistics}.values()),
        lambda job: all_found[job.split("/", 1)[0]].answers(job),
    )  # fmt: skip
    jobs = set(rows["study"] + "/" + rows["group"] + "/" + rows["job"])
    missing = {exhibit.name: tuple(_missing(study, exhibit, jobs)) for exhibit in _exhibits(study)}
    missing = {name: texts for name, texts in missing.items() if texts}
    shelf = Shelf("recorded", results, (), recorded.made, missing)
    exhibits = [exhibit for exhibit in _exhibits(study)
             if study.on_request(exhibit.groups) or len(shelf.rows_of(exhibit, rows))]  # fmt: skip
    return replace(shelf, exhibits=exhibits, verdicts=Path(folder) / CLAIMS)


def _exhibits(study: Study) -> list[Exhibit]:
    """All exhibits of a study, those that are made by default first."""
    by_name = exhibits_by_name(study.id)
    names = sorted(by_name, key=lambda name: [int(part) if part.isdigit() else part
                                             for part in re.split(r"(\d+)", name)])  # fmt: skip
    return [by_name[name] for name in dict.fromkeys([*study.exhibits, *names])]


def _missing(study: Study, exhibit: Exhibit, done: Collection[str]) -> Iterator[str]:
    """Say which jobs of an exhibit are not among ``done``, with the command that makes them."""
    planned, absent, scale = Counter(), Counter(), study.recorded_scale
    for owner, group in exhibit.reads(study.id):
        for job in group_jobs(load_study(owner, scale), group, Run(scale=scale)):
            planned[job.dataset] += 1
            absent[job.dataset] += job.id not in done
    lacking = [name for name, count in absent.items() if count]
    if lacking:
        counts = ", ".join(f"{name} ({absent[name]} of {planned[name]} jobs)" for name in lacking)
        yield (
            f"Not recorded: {counts}. To make them: snakemake --cores all --config scale={scale} "
            f"exhibits={study.id}.{exhibit.name} datasets={','.join(lacking)}"
        )


def exhibit_files(root: Path, shelf: Shelf, exhibit: Exhibit) -> list[Path]:
    """Return the files of an exhibit below ``root``: by number, then by kind."""
    folder = root / shelf.name / "exhibits" / shelf.results.study.id
    name = re.compile(rf"{re.escape(exhibit.name)}(_(\d+))?$")
    files = {path: name.match(path.stem) for path in folder.glob(f"{exhibit.name}*")}
    return sorted(
        (path for path, match in files.items() if match),
        key=lambda path: (int(files[path][2] or 1), path.suffix),
    )


def label_of(name: str) -> str:
    """Return the name of an exhibit in words: ``figure1`` is ``Figure 1``, ``table4_2`` has 4.2."""
    name = re.sub(r"(?<=\d)_(?=\d)", ".", name).replace("_", " ")
    words = re.sub(r"(?<=[a-z])(?=\d)", " ", name)
    return words[:1].upper() + words[1:]


def name_of(exhibit: Exhibit) -> str:
    """Return what a list calls an exhibit: its number in the paper, else its title, if that
    is short."""
    short = _numbered(exhibit) or len(exhibit.title) > 40
    return exhibit.label or (label_of(exhibit.name) if short else exhibit.title)


def title_of(exhibit: Exhibit) -> str:
    """Return label and title of an exhibit; the title alone where the paper has no such exhibit,
    or where it begins with the label."""
    if not exhibit.label and not _numbered(exhibit):
        return exhibit.title
    label = exhibit.label or label_of(exhibit.name)
    begins = exhibit.title.lower().startswith(label.lower())
    return exhibit.title if begins else f"{label}. {exhibit.title}"


def _numbered(exhibit: Exhibit) -> bool:
    """Return whether an exhibit is a numbered table or figure of its paper."""
    return re.fullmatch(r"(table|figure)[\d_]+", exhibit.name) is not None
