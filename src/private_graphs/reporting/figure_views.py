"""What the site shows of a figure, as plain values for the templates: no markup here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from private_graphs.config import Study
from private_graphs.protocols import PROTOCOLS
from private_graphs.reporting.claims import claims
from private_graphs.reporting.curves import FIGURES, Curves, experiment_of
from private_graphs.reporting.formats import is_missing, number, read_table
from private_graphs.reporting.readable import (
    OPTIMIZER_TITLES,
    leaks,
    position_title,
    printed,
    proved_units,
    refuting_bound,
    score,
    together,
    under_protocol,
)
from private_graphs.reporting.views import Notes, command, downloads, notes


@dataclass(frozen=True)
class PointCell:
    """One point of a line."""

    score: str
    privacy: str
    """What is proved for it, in words; the text of the link to its statement."""
    href: str
    """Address of the statement, from the folder of ``index.html``, as are all addresses here."""
    vacuous: bool
    together: str
    """ε of all runs behind it, in words; empty where nothing is proved and for one run."""
    published: str
    """Empty where the paper prints nothing."""


@dataclass(frozen=True)
class LineRow:
    """One line of a panel: its points by position, None where a cell has not been run."""

    name: str
    cells: tuple[PointCell | None, ...]


@dataclass(frozen=True)
class PanelRow:
    """The lines of one protocol on one dataset."""

    protocol: str
    privacy: str
    tone: str
    lines: tuple[LineRow, ...]


@dataclass(frozen=True)
class Picture:
    """A figure on one dataset."""

    name: str
    """Name of the dataset, which is also the anchor of its section."""
    dataset: str
    """Title of the dataset."""
    synthetic: bool
    png: str | None
    pdf: str | None
    alt: str
    panels: tuple[PanelRow, ...]


@dataclass(frozen=True)
class FigureView:
    """Everything that the site shows of one figure of a study at one scale."""

    name: str
    label: str
    title: str
    caption: str
    claims: tuple[str, ...]
    """What the paper says about the whole figure, and what the points say to it."""
    x_label: str
    private: bool
    positions: tuple[str, ...]
    address: str
    pictures: tuple[Picture, ...]
    downloads: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    notes: Notes
    command: str

    @property
    def number(self) -> str:
        """The figure's number in the paper."""
        return self.name.removeprefix("figure")

    @property
    def synthetic(self) -> tuple[str, ...]:
        """Titles of the datasets that are synthetic."""
        return tuple(each.dataset for each in self.pictures if each.synthetic)


def figure_views(
    results_root: Path,
    scale: str,
    study: Study,
    statistics: Mapping[str, Mapping[str, Any]],
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
) -> tuple[FigureView, ...]:
    """Return a view of every figure of ``study`` whose table has been written at this scale."""
    found = []
    for (owner, name), curves in FIGURES.items():
        path = results_root / scale / "tables" / f"{study.id}_{name}.csv"
        if owner != study.id or not path.exists():
            continue
        frame = read_table(path)
        experiment = experiment_of(study, name)
        mine = runs[runs["experiment"] == experiment]
        # Experiment C has runs with and without DP; a figure shows one kind.
        mine = mine[(mine["epsilon"] < float("inf")) == curves.private]
        datasets = sorted(frame["dataset"].unique())
        positions = sorted(frame[curves.x].unique())
        found.append(
            FigureView(
                name=name,
                label=curves.label,
                title=curves.title,
                caption=curves.caption,
                claims=claims(study.id, curves, frame),
                x_label=curves.x_label,
                private=curves.private,
                positions=tuple(position_title(curves.x, each) for each in positions),
                address=f"{scale}/{study.id}_{name}.html",
                pictures=tuple(
                    _picture(results_root, scale, study.id, curves, each, frame, statistics)
                    for each in datasets
                ),
                downloads=downloads(results_root, scale, study.id, [name]),
                notes=notes(mine, statements),
                command=command(study, scale, [experiment], datasets),
            )
        )
    return tuple(found)


def _picture(
    results_root: Path,
    scale: str,
    study: str,
    curves: Curves,
    dataset: str,
    frame: pd.DataFrame,
    statistics: Mapping[str, Mapping[str, Any]],
) -> Picture:
    points = frame[frame["dataset"] == dataset]
    known = statistics.get(dataset, {})
    stem = f"{scale}/figures/{study}_{curves.name}_{dataset}"
    files = {
        suffix: f"{stem}.{suffix}"
        for suffix in ("png", "pdf")
        if (results_root / f"{stem}.{suffix}").exists()
    }
    title = known.get("title", dataset)
    positions = sorted(frame[curves.x].unique())
    panels = (
        _panel_row(points[points["protocol"] == name], curves, positions, f"{scale}/statements")
        for name in PROTOCOLS
        if name in set(points["protocol"])
    )
    return Picture(
        name=dataset,
        dataset=title,
        synthetic=bool(known.get("synthetic", False)),
        png=files.get("png"),
        pdf=files.get("pdf"),
        alt=_alt(points, curves, title),
        panels=tuple(panels),
    )


def _alt(points: pd.DataFrame, curves: Curves, title: str) -> str:
    protocols = [each for each in PROTOCOLS if each in set(points["protocol"])]
    optimizers = [
        OPTIMIZER_TITLES[each] for each in OPTIMIZER_TITLES if each in set(points["optimizer"])
    ]
    lines = [number(each) for each in sorted(points["epsilon"].unique())]
    what = f"one line per ε ({', '.join(lines)})" if curves.private else "one line per optimizer"
    return (
        f"{curves.label} on {title}: micro-F1 on the test nodes by {curves.x_label}, {what}, for "
        f"{' and '.join(optimizers)}, one panel row for each protocol ({', '.join(protocols)}). "
        "The page of the figure has the numbers in a table."
    )


def _panel_row(
    points: pd.DataFrame, curves: Curves, positions: list[float], statements: str
) -> PanelRow:
    rows = []
    for (optimizer, epsilon), line in points.groupby(["optimizer", "epsilon"], sort=False):
        at = {row[curves.x]: row for row in line.to_dict("records")}
        name = OPTIMIZER_TITLES[optimizer]
        if curves.private:
            name += f", ε = {number(epsilon)}"
        rows.append(LineRow(name, tuple(_cell(at.get(each), statements) for each in positions)))
    privacy, tone = _privacy(points, curves)
    return PanelRow(points["protocol"].iloc[0], privacy, tone, tuple(rows))


def _privacy(points: pd.DataFrame, curves: Curves) -> tuple[str, str]:
    if not curves.private:
        return "no DP: nothing is claimed", "plain"
    if points["epsilon_proved"].isna().all():
        return "no finite ε is proved", "none"
    words = f"ε proved per {proved_units(points)} and run"
    if leaks(points):
        words += ", model only: the scored predictions reveal more"
    return words, "proved"


def _cell(point: Mapping[str, Any] | None, statements: str) -> PointCell | None:
    if point is None:
        return None
    proved = point["epsilon_proved"]
    if point["status"] == "not_private":
        privacy = "no DP"
    else:
        privacy = "none proved" if is_missing(proved) else f"proved ε {number(proved, 2)}"
    if point["status"] == "refuted":
        shown = refuting_bound(under_protocol(point), point["protocol"], ": {}")
        privacy += f", claim refuted{shown}"
    published = ""
    if not is_missing(point["published"]):
        published = f"{printed(point['published'])}, {point['published_where']}"
    return PointCell(
        score=score(under_protocol(point), point["protocol"]),
        privacy=privacy,
        href=f"{statements}/{point['statement_id']}.html",
        vacuous=point["vacuous"] is True and not is_missing(proved),
        together=together(under_protocol(point), point["protocol"]),
        published=published,
    )
