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
from private_graphs.protocols import PROTOCOLS
from private_graphs.reporting.curve_figures import GRID_STYLE, MAJORITY_STYLE, draw_curves
from private_graphs.reporting.curves import curves_of
from private_graphs.reporting.formats import is_missing, read_table
from private_graphs.reporting.readable import OPTIMIZER_TITLES, setting_title
from private_graphs.reporting.tables import read_statistics

# Shapes differ as well as colours, and the colours differ in lightness, so that grey print works.
_STYLES: dict[str, dict[str, Any]] = {
    "released": {"marker": "o", "color": "#d9822b", "markerfacecolor": "white"},
    "paper": {"marker": "s", "color": "#3b7dd8"},
    "sound": {"marker": "^", "color": "#14532d"},
}
_PUBLISHED = {"marker": "_", "color": "black", "markersize": 30, "markeredgewidth": 2.4}
_OFFSETS = dict(zip(PROTOCOLS, (-0.24, 0.0, 0.24), strict=True))


def write_figures(
    scale_folder: Path, study: str, wanted: Mapping[str, Sequence[str]]
) -> list[Path]:
    """Draw figures from the tables of ``scale_folder``; return the paths of PNG and PDF.

    ``wanted`` maps ``table1`` or a figure to datasets. Figures have a picture per dataset,
    ``figures/<study>_figure2_<dataset>.{png,pdf}``; Table 1 has one of all datasets in the table,
    ``figures/<study>_table1.{png,pdf}``. The same table gives the same bytes.

    Raises UserError where a table has not been written yet, or has no point of a dataset.
    """
    scale_folder = Path(scale_folder)
    statistics = read_statistics(scale_folder)
    written: list[Path] = []
    for name, datasets in wanted.items():
        path = scale_folder / "tables" / f"{study}_{name}.csv"
        if not path.exists():
            raise UserError(
                f"{path} is missing; write the tables before the figures (snakemake tables)"
            )
        frame = read_table(path)
        stem = scale_folder / "figures" / f"{study}_{name}"
        if name == "table1":
            written += save_figure(draw_table1(frame), stem)
            continue
        for dataset in datasets:
            points = frame[frame["dataset"] == dataset]
            if points.empty:
                raise UserError(
                    f"{path}: no point of {dataset!r}; found {', '.join(frame['dataset'].unique())}"
                    "; train its cells and write the tables before the figures"
                )
            title = statistics.get(dataset, {}).get("title", dataset)
            picture = draw_curves(points, curves_of(study, name), title)
            written += save_figure(picture, stem.with_name(f"{stem.name}_{dataset}"))
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


def draw_table1(frame: pd.DataFrame) -> Figure:
    """Return one panel per dataset: micro-F1 of each setting, one marker per protocol.

    ``frame`` is Table 1. Bars are one standard deviation over the seeds, the published value is a
    black line, the majority class a dashed line.
    """
    datasets = list(dict.fromkeys(frame["dataset"]))
    with sns.axes_style(*GRID_STYLE):
        figure = Figure(figsize=(9.2, 0.9 + 3.3 * len(datasets)), layout="constrained")
        axes = figure.subplots(len(datasets), 1, squeeze=False)
    for dataset, axis in zip(datasets, axes[:, 0], strict=True):
        _panel(axis, frame[frame["dataset"] == dataset], dataset)
    handles = {}
    for axis in axes[:, 0]:
        found, labels = axis.get_legend_handles_labels()
        handles |= dict(zip(labels, found, strict=True))
    order = [*PROTOCOLS, "published", "majority class"]
    shown = [label for label in order if label in handles]
    figure.legend(
        [handles[label] for label in shown], shown, loc="outside upper center", ncols=len(shown),
        frameon=False, handletextpad=0.9, columnspacing=1.8,
    )  # fmt: skip
    return figure


def _panel(axis: Axes, rows: pd.DataFrame, title: str) -> None:
    trained = rows[~rows["setting"].isin(["majority", "random"])]
    records = trained.to_dict("records")
    for position, row in enumerate(records):
        if not is_missing(row["published"]):
            axis.plot([position], [row["published"]], linestyle="none", zorder=2, **_PUBLISHED,
                      label="published")  # fmt: skip
        for protocol, style in _STYLES.items():
            _marker(axis, position + _OFFSETS[protocol], row, protocol, style)
    majority = rows[rows["setting"] == "majority"].to_dict("records")
    level = _majority_level(majority[0]) if majority else None
    if level is not None:
        axis.axhline(level, label="majority class", **MAJORITY_STYLE)
    _label(axis, records, title)


def _marker(
    axis: Axes, x: float, row: Mapping[str, Any], protocol: str, style: Mapping[str, Any]
) -> None:
    mean, std = row[f"{protocol}_mean"], row[f"{protocol}_std"]
    if is_missing(mean):
        return
    axis.errorbar(
        [x], [mean], yerr=None if is_missing(std) else [std], linestyle="none", markersize=7,
        markeredgewidth=1.6, elinewidth=1.4, capsize=3, zorder=3, label=protocol, **style,
    )  # fmt: skip


def _majority_level(row: Mapping[str, Any]) -> float | None:
    levels = [row["published"], *(row[f"{protocol}_mean"] for protocol in reversed(PROTOCOLS))]
    measured = [level for level in levels[1:] if not is_missing(level)]
    return measured[0] if measured else (None if is_missing(levels[0]) else levels[0])


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
