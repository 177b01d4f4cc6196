"""Figures of a study, drawn from its tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from private_graphs.errors import UserError
from private_graphs.files import atomic_path
from private_graphs.reporting.curve_figures import GRID_STYLE, MAJORITY_STYLE, draw_curves, plain
from private_graphs.reporting.curves import curves_of
from private_graphs.reporting.formats import is_missing, read_table
from private_graphs.reporting.frontier_figures import draw_frontier, draw_labels
from private_graphs.reporting.readable import OPTIMIZER_TITLES, panel_words, setting_title
from private_graphs.reporting.score_tables import BASELINES, SCORE_TABLES, ScoreTable, Source
from private_graphs.reporting.tables import read_statistics

# Shapes differ as well as colours, and the colours differ in lightness, so that grey print works.
_STYLES: tuple[dict[str, Any], ...] = (
    {"marker": "o", "color": "#d9822b", "markerfacecolor": "white"},
    {"marker": "s", "color": "#3b7dd8"},
    {"marker": "^", "color": "#14532d"},
)
"""Of the sources of a table in their order."""
_PAIR_STYLES = (_STYLES[2] | {"markerfacecolor": "white"}, _STYLES[2])
"""Of the two sources that a table compares under one protocol."""
_PUBLISHED = {"marker": "_", "color": "black", "markersize": 30, "markeredgewidth": 2.4}
_STEP = 0.24
"""How far the markers of two sources stand apart; a setting has a width of 1."""


def write_figures(
    scale_folder: Path, study: str, wanted: Mapping[str, Sequence[str]]
) -> list[Path]:
    """Draw figures from the tables of ``scale_folder``; return the paths of PNG and PDF.

    ``wanted`` maps tables of scores and figures to datasets. Figures have a picture per dataset,
    ``figures/<study>_figure2_<dataset>.{png,pdf}``, and so has ``frontier``, which brings
    ``figures/<study>_labels_<dataset>.{png,pdf}`` where that table has been written; a
    table of scores has one of all datasets in the table, ``figures/<study>_table1.{png,pdf}``. The
    same table gives the same bytes.

    Raises UserError where a table has not been written yet, or has no point of a dataset.
    """
    scale_folder = Path(scale_folder)
    statistics = read_statistics(scale_folder)
    titles = {name: f"{name} (synthetic)" for name, each in statistics.items() if each["synthetic"]}
    written: list[Path] = []
    for name, datasets in wanted.items():
        path = scale_folder / "tables" / f"{study}_{name}.csv"
        if not path.exists():
            raise UserError(
                f"{path} is missing; write the tables before the figures (snakemake tables)"
            )
        frame = read_table(path)
        stem = scale_folder / "figures" / f"{study}_{name}"
        if (study, name) in SCORE_TABLES:
            written += save_figure(draw_scores(frame, SCORE_TABLES[study, name], titles), stem)
            continue
        if name == "frontier":
            written += _write_method_figures(frame, stem, path, datasets, statistics)
            continue
        for dataset in datasets:
            points = frame[frame["dataset"] == dataset]
            if points.empty:
                raise _no_point(path, frame, dataset)
            title = statistics.get(dataset, {}).get("title", dataset)
            picture = draw_curves(points, curves_of(study, name), title)
            written += save_figure(picture, stem.with_name(f"{stem.name}_{dataset}"))
    return written


def _no_point(path: Path, frame: pd.DataFrame, dataset: str) -> UserError:
    return UserError(
        f"{path}: no point of {dataset!r}; found {', '.join(frame['dataset'].unique())}; train its "
        "cells and write the tables before the figures"
    )


def _write_method_figures(
    frame: pd.DataFrame,
    stem: Path,
    path: Path,
    datasets: Sequence[str],
    statistics: Mapping[str, Mapping[str, Any]],
) -> list[Path]:
    """Draw the frontier of each dataset, and its table of labels where there is one."""
    written: list[Path] = []
    beside = path.with_name(path.name.replace("_frontier", "_labels"))
    labels = read_table(beside) if beside.exists() else None
    for dataset in datasets:
        points = frame[frame["dataset"] == dataset]
        if points.empty:
            raise _no_point(path, frame, dataset)
        title = statistics.get(dataset, {}).get("title", dataset)
        place = stem.with_name(f"{stem.name}_{dataset}")
        written += save_figure(draw_frontier(points, title), place)
        rows = None if labels is None else labels[labels["dataset"] == dataset]
        picture = None if rows is None or rows.empty else draw_labels(rows, title)
        if picture is not None:
            name = stem.name.replace("_frontier", "_labels")
            written += save_figure(picture, stem.with_name(f"{name}_{dataset}"))
    return written


def save_figure(figure: Figure, stem: Path, suffixes: Sequence[str] = ("png", "pdf")) -> list[Path]:
    """Write ``<stem>.png`` (160 dpi) and ``.pdf``, without a date; return the paths."""
    written = []
    for suffix in suffixes:
        target = stem.with_name(f"{stem.name}.{suffix}")
        with atomic_path(target) as temporary:
            figure.savefig(temporary, format=suffix, dpi=160, metadata=_undated(suffix))
        written.append(target)
    return written


def draw_scores(
    frame: pd.DataFrame, table: ScoreTable, titles: Mapping[str, str] | None = None
) -> Figure:
    """Return one panel per group of rows: micro-F1 of each setting, one marker per source.

    ``frame`` is ``table`` as it was written; ``titles`` are other words for names of datasets.
    Bars are one standard deviation over the seeds, the published value is a black line, the
    majority class a dashed line.
    """
    groups = list(table.groups(frame))
    with sns.axes_style(*GRID_STYLE):
        figure = Figure(figsize=(9.2, 0.9 + 3.3 * len(groups)), layout="constrained")
        axes = figure.subplots(len(groups), 1, squeeze=False)
    for (names, rows), axis in zip(groups, axes[:, 0], strict=True):
        words = [(titles or {}).get(names["dataset"], names["dataset"])]
        words += [panel_words(names, each) for each in table.panel[1:]]
        _panel(axis, rows, table, plain(", ".join(words)))
    handles = {}
    for axis in axes[:, 0]:
        found, labels = axis.get_legend_handles_labels()
        handles |= dict(zip(labels, found, strict=True))
    order = [*(source.heading for source in table.sources), "published", "majority class"]
    shown = [label for label in order if label in handles]
    figure.legend(
        [handles[label] for label in shown], shown, loc="outside upper center", ncols=len(shown),
        frameon=False, handletextpad=0.9, columnspacing=1.8,
    )  # fmt: skip
    return figure


def _panel(axis: Axes, rows: pd.DataFrame, table: ScoreTable, title: str) -> None:
    records = rows[~rows["setting"].isin(BASELINES)].to_dict("records")
    for position, row in enumerate(records):
        if not is_missing(row.get("published")):
            axis.plot([position], [row["published"]], linestyle="none", zorder=2, **_PUBLISHED,
                      label="published")  # fmt: skip
        styles = _PAIR_STYLES if table.difference else _STYLES
        for place, source in enumerate(table.sources):
            shift = (place - (len(table.sources) - 1) / 2) * _STEP
            _marker(axis, position + shift, row, source, styles[place])
    majority = rows[rows["setting"] == "majority"].to_dict("records")
    level = _majority_level(majority[0], table) if majority else None
    if level is not None:
        axis.axhline(level, label="majority class", **MAJORITY_STYLE)
    _label(axis, records, title)


def _marker(
    axis: Axes, x: float, row: Mapping[str, Any], source: Source, style: Mapping[str, Any]
) -> None:
    mean, std = row[f"{source.prefix}_mean"], row[f"{source.prefix}_std"]
    if is_missing(mean):
        return
    axis.errorbar(
        [x], [mean], yerr=None if is_missing(std) else [std], linestyle="none", markersize=7,
        markeredgewidth=1.6, elinewidth=1.4, capsize=3, zorder=3, label=source.heading, **style,
    )  # fmt: skip


def _majority_level(row: Mapping[str, Any], table: ScoreTable) -> float | None:
    levels = [*(row[f"{each.prefix}_mean"] for each in reversed(table.sources)), row["published"]]
    return next((level for level in levels if not is_missing(level)), None)


def _label(axis: Axes, records: list[dict[str, Any]], title: str) -> None:
    axis.set_title(title, loc="left", fontweight="bold", fontsize=11)
    axis.set_ylabel("test micro-F1")
    axis.set_ylim(0, 1)
    axis.set_xlim(-0.6, max(len(records), 1) - 0.4)
    axis.set_xticks(range(len(records)), [OPTIMIZER_TITLES[each["optimizer"]] for each in records])
    axis.grid(axis="x", visible=False)
    axis.tick_params(axis="x", length=0)
    sns.despine(ax=axis, left=True)
    groups: dict[str, list[int]] = {}
    for position, record in enumerate(records):
        groups.setdefault(_group_title(record), []).append(position)
    # The name of a setting stands below its optimizers; thin lines part the settings.
    for name, positions in groups.items():
        centre = (positions[0] + positions[-1]) / 2
        axis.annotate(name, (centre, 0), xytext=(0, -22), xycoords=("data", "axes fraction"),
                      textcoords="offset points", ha="center", va="top", fontsize=9,
                      color="#333333")  # fmt: skip
        if positions[-1] + 1 < len(records):
            axis.axvline(positions[-1] + 0.5, color="#cccccc", linewidth=0.8, zorder=0)


def _group_title(row: Mapping[str, Any]) -> str:
    words = setting_title(row)
    return words if math.isinf(row["epsilon"]) else f"{words}\nε = {row['epsilon']:g}"


def _undated(suffix: str) -> dict[str, Any]:
    # Without a date the same table gives the same bytes.
    return {"CreationDate": None} if suffix == "pdf" else {}
