"""The site: ``results/index.html``, a page per figure and per privacy statement, all static."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from private_graphs import __version__
from private_graphs.config import load_study, study_ids
from private_graphs.errors import UserError
from private_graphs.files import write_text
from private_graphs.protocols import PROTOCOLS
from private_graphs.reporting import readable
from private_graphs.reporting.figure_views import FigureView, figure_views
from private_graphs.reporting.formats import Readable, is_missing, number, read_table
from private_graphs.reporting.runs import collect, find_runs
from private_graphs.reporting.statement_view import statement_view
from private_graphs.reporting.tables import read_statistics
from private_graphs.reporting.views import (
    DatasetScores,
    Glance,
    Notes,
    dataset_scores,
    downloads,
    glance,
    notes,
)

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
    figure: str | None
    glance: tuple[Glance, ...]
    datasets: tuple[DatasetScores, ...]
    tables: tuple[Readable, ...]
    downloads: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    notes: Notes
    command: str
    figures: tuple[FigureView, ...] = ()

    @property
    def anchor(self) -> str:
        """Name of the section within the page."""
        return f"{self.scale}-{self.study}"


_TABLES = ("table1", "table3", "table5")
_TEMPLATES = Path(__file__).parent / "templates"


def write_site(results_root: Path) -> list[Path]:
    """Write ``index.html`` and the pages behind it; return the paths.

    These are ``<scale>/<study>_<figure>.html`` for every figure whose points have been written,
    and ``<scale>/statements/<statement_id>.html``. Shows every scale below ``results_root`` that
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
            runs, statements = collect(find_runs(results_root / scale, study))
            view = _study_view(results_root, scale, study, runs, statements)
            if view is not None:
                views.append(view)
                folder = results_root / scale / "statements"
                pages += _write_statements(templates, folder, view, runs, statements)
                pages += _write_figures(templates, results_root, view)
        _remove_others(results_root / scale, pages)
        written += pages
    if not views:
        raise UserError(
            f"{results_root}: no tables to show; write them before the site (snakemake tables)"
        )
    page = templates.get_template("index.html.j2").render(
        views=views, protocols=PROTOCOLS.values(), absent=_absent(views), version=__version__
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
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
) -> StudyView | None:
    folder = results_root / scale
    paths = {name: folder / "tables" / f"{study}_{name}.csv" for name in _TABLES}
    frames = {name: read_table(path) for name, path in paths.items() if path.exists()}
    source = load_study(study)
    statistics = read_statistics(folder)
    figures = figure_views(results_root, scale, source, statistics, runs, statements)
    if not frames and not figures:
        return None
    scored = frames.get("table1")
    used = {each.name for figure in figures for each in figure.pictures}
    used |= set() if scored is None else set(scored["dataset"])
    shown = {name: each for name, each in statistics.items() if name in (used or set(statistics))}
    titles = {name: each["title"] for name, each in shown.items()}
    synthetic = tuple(each["title"] for each in shown.values() if each["synthetic"])
    picture = f"{scale}/figures/{study}_table1.png"
    # Figures have notes of their own.
    mine = runs[runs["experiment"] == "table1"]
    return StudyView(
        scale=scale,
        study=study,
        title=source.title,
        citation=source.citation,
        url=source.url,
        synthetic=synthetic,
        figure=picture if (results_root / picture).exists() else None,
        glance=() if scored is None else glance(scored, titles),
        datasets=()
        if scored is None
        else dataset_scores(scored, statistics, f"{scale}/statements"),
        tables=tuple(
            getattr(readable, name)(frames[name]) for name in ("table3", "table5") if name in frames
        ),
        downloads=downloads(results_root, scale, study, (*_TABLES, *(f.name for f in figures))),
        notes=notes(mine, statements),
        command=_command(scale, sorted(shown)),
        figures=figures,
    )


def _command(scale: str, datasets: list[str]) -> str:
    if scale == "demo":
        return "snakemake"
    return f"snakemake --config scale={scale} datasets={','.join(datasets)}"


def _absent(views: list[StudyView]) -> tuple[str, ...]:
    there = {view.scale for view in views}
    return tuple(scale for scale in SCALES if scale not in there)


def _write_statements(
    templates: Environment,
    folder: Path,
    view: StudyView,
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
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
            used_by=() if rows is None else _used_by(rows),
            view=view,
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
            view=view, figure=figure, protocols=PROTOCOLS.values(), version=__version__
        )
        path = results_root / figure.address
        write_text(path, page)
        written.append(path)
    return written


def _used_by(rows: pd.DataFrame) -> tuple[str, ...]:
    names = [
        "dataset", "method", "optimizer", "protocol", "n_splits", "train_fraction", "epsilon", "lr",
        "experiment",
    ]  # fmt: skip
    found = []
    for values, group in rows.groupby(names, sort=True):
        dataset, method, optimizer, protocol, splits, fraction, epsilon, rate, experiment = values
        parts = [
            dataset, f"{method.upper()} with {readable.OPTIMIZER_TITLES[optimizer]}", protocol,
            "full graph" if splits == 1 else f"{splits} splits", f"ε = {number(epsilon)}",
            f"{100 * fraction:.3g} % of the training nodes" if fraction < 1 else None,
            f"learning rate {rate:g}" + ("" if group["selected"].any() else " (not selected)"),
            f"{len(group)} run" + ("s" if len(group) > 1 else "") + f" of {_words(experiment)}",
        ]  # fmt: skip
        found.append(", ".join(part for part in parts if not is_missing(part)))
    return tuple(found)


def _words(experiment: str) -> str:
    if experiment.startswith("table"):
        return experiment.replace("table", "Table ")
    return f"experiment {experiment}"


def _remove_others(folder: Path, pages: list[Path]) -> None:
    there = {*folder.glob("statements/*.html"), *folder.glob("*_figure*.html")}
    for path in there - set(pages):
        path.unlink()
