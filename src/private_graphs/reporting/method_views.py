"""What the site shows of the proved methods, as plain values for the templates: no markup here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from private_graphs.config import Study
from private_graphs.methods.problem import SETTINGS
from private_graphs.reporting import label_table
from private_graphs.reporting.figure_views import LineRow, PanelRow, Picture, PointCell
from private_graphs.reporting.formats import Readable, is_missing, number, read_table
from private_graphs.reporting.frontier import REFERENCE
from private_graphs.reporting.label_table import mean_words
from private_graphs.reporting.method_points import (
    method_points,
    method_title,
    setting_words,
    unit_words,
)
from private_graphs.reporting.method_tables import NAMES
from private_graphs.reporting.readable import feature_title
from private_graphs.reporting.useful import readable_useful
from private_graphs.reporting.views import NOISE_SOURCES, Notes, command, downloads

_LABELS_ALT = (
    "Micro-F1 on the test nodes of {} by number of public tuning labels: a line for each ε of the "
    "method with the highest validation score, and one of the row that reads nothing private. The "
    "numbers are in the table of fewer public labels."
)
_FRONTIER_ALT = (
    "Micro-F1 on the test nodes of {} by ε, a panel for each setting ({}), a line for each proved "
    "method, lines across for the row that reads nothing private, the majority class and graph "
    "convolutional networks without DP. The page of the numbers has them in a table."
)


@dataclass(frozen=True)
class MethodSection:
    """Everything that the site shows of the proved methods of a study at one scale."""

    settings: tuple[tuple[str, str], ...]
    """(unit, what is public) of every setting that was run."""
    pictures: tuple[Picture, ...]
    """The frontier on each dataset, with its numbers."""
    label_pictures: tuple[Picture, ...]
    tables: tuple[Readable, ...]
    """Beside Table 1, then fewer public labels."""
    positions: tuple[str, ...]
    """Heads of the columns of numbers: 0, the ε, ∞."""
    address: str
    """Of the page with the numbers and their statements."""
    downloads: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    notes: Notes
    command: str

    @property
    def synthetic(self) -> tuple[str, ...]:
        """Titles of the datasets that are synthetic."""
        return tuple(each.dataset for each in self.pictures if each.synthetic)


def method_section(
    results_root: Path,
    scale: str,
    study: Study,
    statistics: Mapping[str, Mapping[str, Any]],
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
) -> MethodSection | None:
    """Return the section of the proved methods; None where their frontier has not been written.

    ``runs`` and ``statements`` are those of all finished methods.
    """
    path = results_root / scale / "tables" / f"{study.id}_{NAMES[0]}.csv"
    if not path.exists():
        return None
    frame = read_table(path)
    datasets = list(dict.fromkeys(frame["dataset"]))
    epsilons = _positions(frame)
    stem = f"{scale}/figures/{study.id}"
    given = (results_root, stem, statistics)
    shown = [each for each in SETTINGS if (frame["setting"] == each).any()]
    labels = (_picture(*given, "labels", each, _LABELS_ALT) for each in datasets)
    return MethodSection(
        settings=tuple(setting_words(each) for each in shown),
        pictures=tuple(
            _picture(
                *given, NAMES[0], each, _FRONTIER_ALT,
                _panels(frame[frame["dataset"] == each], epsilons, f"{scale}/statements"),
            )
            for each in datasets
        ),
        label_pictures=tuple(each for each in labels if each.png),
        tables=_tables(path, runs, statements),
        positions=tuple(number(each) for each in epsilons),
        address=f"{scale}/{study.id}_{NAMES[0]}.html",
        downloads=downloads(results_root, scale, study.id, NAMES),
        notes=_notes(runs),
        command=command(study, scale, [NAMES[0]], datasets),
    )  # fmt: skip


def _positions(frame: pd.DataFrame) -> list[float]:
    mine = frame.loc[frame["setting"] != REFERENCE, "epsilon"]
    return sorted(mine.unique())


def _tables(
    path: Path, runs: pd.DataFrame, statements: Mapping[str, Mapping[str, Any]]
) -> tuple[Readable, ...]:
    useful, labels = (
        path.with_name(path.name.replace(f"_{NAMES[0]}", f"_{name}"))
        for name in ("useful", "labels")
    )
    found = [readable_useful(read_table(useful))] if useful.exists() else []
    if labels.exists():
        said = label_table.sentences(method_points(runs, statements, NAMES[0]))
        found.append(label_table.readable_labels(read_table(labels), said))
    return tuple(found)


def _picture(
    results_root: Path,
    stem: str,
    statistics: Mapping[str, Mapping[str, Any]],
    name: str,
    dataset: str,
    alt: str,
    panels: tuple[PanelRow, ...] = (),
) -> Picture:
    files = {suffix: f"{stem}_{name}_{dataset}.{suffix}" for suffix in ("png", "pdf")}
    there = {each: file for each, file in files.items() if (results_root / file).exists()}
    known = statistics.get(dataset, {})
    title = known.get("title", dataset)
    return Picture(
        name=dataset,
        dataset=title,
        synthetic=bool(known.get("synthetic", False)),
        png=there.get("png"),
        pdf=there.get("pdf"),
        alt=alt.format(title, "; ".join(each.protocol for each in panels)),
        panels=panels,
    )


def _panels(
    frame: pd.DataFrame, epsilons: Sequence[float], statements: str
) -> tuple[PanelRow, ...]:
    found = []
    methods = frame[frame["setting"] != REFERENCE]
    for (kind, setting), group in methods.groupby(["features_kind", "setting"], sort=False):
        unit, public = setting_words(setting)
        title = unit if kind == "raw" else f"{unit}, {feature_title(kind)}"
        lines = []
        for name, line in group.groupby("title", sort=False):
            at = {row["epsilon"]: row for row in line.to_dict("records")}
            cells = (_cell(at.get(each), statements) for each in epsilons)
            lines.append(LineRow(name, tuple(cells)))
        found.append(
            PanelRow(
                f"{title} ({public})",
                f"ε proved per {unit_words(group['unit'].iloc[0])} and run",
                "proved",
                tuple(lines),
            )
        )
    return tuple(found)


def _cell(point: Mapping[str, Any] | None, statements: str) -> PointCell | None:
    if point is None:
        return None
    proved, together = point["epsilon_proved"], ""
    if math.isinf(point["epsilon"]):
        privacy = "no DP"
    elif is_missing(proved):
        privacy = "none proved"
    elif proved == 0:
        privacy = "nothing private is read"
    else:
        privacy = f"proved ε {number(proved, 2)}"
        if not is_missing(point["epsilon_all_runs"]) and point["runs_released"] > 1:
            count = int(point["runs_released"])
            together = f"all {count} runs: ε {number(point['epsilon_all_runs'], 2)}"
    return PointCell(
        score=mean_words(point["mean"], point["std"]),
        privacy=privacy,
        href=f"{statements}/{point['statement_id']}.html",
        vacuous=point["vacuous"] is True and not is_missing(proved),
        together=together,
        published="",
    )


def _notes(runs: pd.DataFrame) -> Notes:
    if runs.empty:
        return ()
    seeds, deltas = sorted(runs["seed"].unique()), sorted(runs["delta"].dropna().unique())
    kinds = [NOISE_SOURCES.get(each, each) for each in sorted(runs["noise_source"].unique())]
    found = [
        (
            "Draws",
            f"{len(seeds)} of the noise at every ε; means and standard deviations (n - 1) are over "
            "them.",
        ),
        ("δ", _joined(number(each) for each in deltas)),
        ("Noise", f"{'; '.join(kinds)}."),
        ("Arithmetic", f"float64 on {_joined(sorted(runs['device'].unique()))}"),
        ("Code fingerprint", _joined(sorted(runs["code_fingerprint"].unique()))),
    ]
    return tuple((name, text) for name, text in found if text)


def _joined(values: Iterable[Any]) -> str:
    return ", ".join(str(value) for value in values)


def method_uses(rows: pd.DataFrame) -> tuple[str, ...]:
    """Return which runs of proved methods ``rows`` are, in words, a line per setting and ε."""
    names = [
        "dataset", "features", "view", "method", "setting", "epsilon", "tuning_labels",
        "tuning_nodes", "experiment",
    ]  # fmt: skip
    found = []
    for values, group in rows.groupby(names, sort=True, dropna=False):
        row = dict(zip(names, values, strict=True))
        labels, every = int(row["tuning_labels"]), int(row["tuning_nodes"])
        count = f"all {every}" if labels == every else f"{labels} of {every}"
        parts = [
            row["dataset"],
            None if row["features"] == "raw" else feature_title(row["features"]),
            None if is_missing(row["view"]) else f"read as {row['view']}",
            method_title(row["method"]), *setting_words(row["setting"]),
            f"ε = {number(row['epsilon'])}", f"{count} tuning labels public",
            f"{len(group)} run" + ("s" if len(group) > 1 else "")
            + f" of experiment {row['experiment']}",
        ]  # fmt: skip
        found.append(", ".join(part for part in parts if not is_missing(part)))
    return tuple(found)
