"""The site: ``results/index.html``, a page per figure and per privacy statement, all static."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from private_graphs import __version__
from private_graphs.config import load_study, study_ids
from private_graphs.datasets.registry import declared_graphs
from private_graphs.errors import UserError
from private_graphs.files import write_text
from private_graphs.protocols import PROTOCOLS
from private_graphs.reporting import readable
from private_graphs.reporting.audits import audit_table
from private_graphs.reporting.figure_views import FigureView, figure_views
from private_graphs.reporting.formats import Readable, is_missing, number, read_table
from private_graphs.reporting.method_tables import NAMES
from private_graphs.reporting.method_views import MethodSection, method_section, method_uses
from private_graphs.reporting.runs import METHOD_COLUMNS, collect, find_runs
from private_graphs.reporting.score_tables import score_tables_of
from private_graphs.reporting.statement_view import statement_view
from private_graphs.reporting.tables import read_statistics
from private_graphs.reporting.views import (
    ScoreSection,
    downloads,
    exhibit_title,
    score_section,
)

Collected = tuple[pd.DataFrame, dict[str, dict[str, Any]]]
"""Runs and their statements."""

SCALES = ("full", "demo")
"""Scales in the order of the page."""


@dataclass(frozen=True)
class StudyView:
    """Everything that ``index.html`` shows of one study at one scale."""

    scale: str
    study: str
    title: str
    citation: str
    url: str
    synthetic: tuple[str, ...]
    scores: tuple[ScoreSection, ...]
    tables: tuple[Readable, ...]
    downloads: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    figures: tuple[FigureView, ...] = ()
    methods: MethodSection | None = None
    private: tuple[str, ...] = ()
    """Names of users' own graphs among what is shown."""

    @property
    def anchor(self) -> str:
        """Name of the section within the page."""
        return f"{self.scale}-{self.study}"


_OTHER_TABLES = {"audit": audit_table, "table3": readable.table3, "table5": readable.table5}
"""Tables without scores."""
_TEMPLATES = Path(__file__).parent / "templates"


def write_site(results_root: Path) -> list[Path]:
    """Write ``index.html`` and the pages behind it; return the paths.

    These are ``<scale>/<study>_<figure>.html`` for every figure whose points have been written,
    ``<scale>/<study>_frontier.html`` for those of proved methods, and
    ``<scale>/statements/<statement_id>.html``. Shows every scale below ``results_root`` that
    has tables. The pages are self-contained but for the pictures beside them, and need neither
    network nor scripts. Pages of figures and statements that are gone are removed.

    Raises UserError where no table has been written yet.
    """
    results_root = Path(results_root)
    templates = _environment()
    views: list[StudyView] = []
    written: list[Path] = []
    for scale in SCALES:
        pages: list[Path] = []
        for study in study_ids():
            trained = collect(find_runs(results_root / scale, study))
            proved = collect(find_runs(results_root / scale, study, "methods"), METHOD_COLUMNS)
            view = _study_view(results_root, scale, study, trained, proved)
            if view is not None:
                views.append(view)
                folder = results_root / scale / "statements"
                pages += _write_statements(templates, folder, view, *trained, _used_by)
                pages += _write_statements(templates, folder, view, *proved, method_uses)
                pages += _write_figures(templates, results_root, view)
                pages += _write_frontier(templates, results_root, view)
        _remove_others(results_root / scale, pages)
        written += pages
    if not views:
        raise UserError(
            f"{results_root}: no tables to show; write them before the site (snakemake tables)"
        )
    page = templates.get_template("index.html.j2").render(
        views=views,
        protocols=PROTOCOLS.values(),
        absent=_absent(views),
        private=tuple(dict.fromkeys(name for view in views for name in view.private)),
        version=__version__,
    )
    write_text(results_root / "index.html", page)
    return [results_root / "index.html", *written]


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["groupby_run"] = _column_groups
    return environment


def _column_groups(columns: Sequence[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Return (group, its headings) for every run of columns that stand in one group."""
    return [
        (group, [name for _, name in members])
        for group, members in groupby(columns, key=itemgetter(0))
    ]


def _study_view(
    results_root: Path,
    scale: str,
    study: str,
    trained: Collected,
    proved: Collected,
) -> StudyView | None:
    folder = results_root / scale
    paths = {name: folder / "tables" / f"{study}_{name}.csv" for name in _OTHER_TABLES}
    frames = {name: read_table(path) for name, path in paths.items() if path.exists()}
    source = load_study(study)
    statistics = read_statistics(folder)
    given = (results_root, scale, source)
    sections = [
        score_section(*given, table, statistics, *trained) for table in score_tables_of(study)
    ]
    scores = tuple(each for each in sections if each is not None)
    figures = figure_views(*given, statistics, *trained)
    methods = method_section(*given, statistics, *proved)
    if not (scores or frames or figures or methods):
        return None
    used = {each.name for figure in figures for each in figure.pictures}
    used |= {name for each in scores for name in each.datasets}
    used |= {each.name for each in methods.pictures} if methods else set()
    shown = [each for name, each in statistics.items() if name in (used or set(statistics))]
    names = (
        *(each.table.name for each in scores), *NAMES, *_OTHER_TABLES,
        *(each.name for each in figures),
    )  # fmt: skip
    return StudyView(
        scale=scale,
        study=study,
        title=source.title,
        citation=source.citation,
        url=source.url,
        synthetic=tuple(each["title"] for each in shown if each["synthetic"]),
        scores=scores,
        tables=tuple(_OTHER_TABLES[name](frame) for name, frame in frames.items()),
        downloads=downloads(results_root, scale, study, names),
        figures=figures,
        methods=methods,
        private=declared_graphs(used | set(statistics)),
    )


def _absent(views: list[StudyView]) -> tuple[str, ...]:
    there = {view.scale for view in views}
    return tuple(scale for scale in SCALES if scale not in there)


def _write_statements(
    templates: Environment,
    folder: Path,
    view: StudyView,
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
    uses: Callable[[pd.DataFrame], tuple[str, ...]],
) -> list[Path]:
    template = templates.get_template("statement.html.j2")
    by_statement = dict(iter(runs.groupby("statement_id"))) if len(runs) else {}
    written = []
    for statement_id, statement in statements.items():
        rows = by_statement.get(statement_id)
        path = folder / f"{statement_id}.html"
        page = template.render(
            page=statement_view(statement),
            statement_id=statement_id,
            used_by=() if rows is None else uses(rows),
            view=view,
            private=() if rows is None else declared_graphs(rows["dataset"]),
            version=__version__,
        )
        write_text(path, page)
        written.append(path)
    return written


def _write_figures(templates: Environment, results_root: Path, view: StudyView) -> list[Path]:
    template = templates.get_template("figure.html.j2")
    written = []
    for figure in view.figures:
        page = template.render(
            view=view,
            figure=figure,
            protocols=PROTOCOLS.values(),
            private=declared_graphs(each.name for each in figure.pictures),
            version=__version__,
        )
        path = results_root / figure.address
        write_text(path, page)
        written.append(path)
    return written


def _write_frontier(templates: Environment, results_root: Path, view: StudyView) -> list[Path]:
    if view.methods is None:
        return []
    page = templates.get_template("frontier.html.j2").render(
        view=view,
        section=view.methods,
        private=declared_graphs(each.name for each in view.methods.pictures),
        version=__version__,
    )
    path = results_root / view.methods.address
    write_text(path, page)
    return [path]


def _used_by(rows: pd.DataFrame) -> tuple[str, ...]:
    names = [
        "study", "dataset", "features", "view", "method", "optimizer", "protocol", "n_splits",
        "train_fraction", "epsilon", "lr", "experiment",
    ]  # fmt: skip
    found = []
    for values, group in rows.groupby(names, sort=True, dropna=False):
        row = dict(zip(names, values, strict=True))
        optimizer, splits = readable.OPTIMIZER_TITLES[row["optimizer"]], row["n_splits"]
        fraction, rate = row["train_fraction"], row["lr"]
        parts = [
            row["dataset"],
            None if row["features"] == "raw" else readable.feature_title(row["features"]),
            None if is_missing(row["view"]) else f"read as {row['view']}",
            f"{row['method'].upper()} with {optimizer}", row["protocol"],
            "full graph" if splits == 1 else f"{splits} splits", f"ε = {number(row['epsilon'])}",
            f"{100 * fraction:.3g} % of the training nodes" if fraction < 1 else None,
            f"learning rate {rate:g}" + ("" if group["selected"].any() else " (not selected)"),
            f"{len(group)} run" + ("s" if len(group) > 1 else "") + f" of {_words(row)}",
        ]  # fmt: skip
        found.append(", ".join(part for part in parts if not is_missing(part)))
    return tuple(found)


def _words(row: Mapping[str, Any]) -> str:
    experiment = row["experiment"]
    if experiment.startswith("table"):
        return exhibit_title(row["study"], experiment)
    return f"experiment {experiment}"


def _remove_others(folder: Path, pages: list[Path]) -> None:
    kinds = ("statements/*.html", "*_figure*.html", f"*_{NAMES[0]}.html")
    there = {path for kind in kinds for path in folder.glob(kind)}
    for path in there - set(pages):
        path.unlink()
