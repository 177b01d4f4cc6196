"""What the pages of the site show, as plain values for the templates: no markup here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from private_graphs.protocols import PROTOCOLS
from private_graphs.reporting.formats import NOTHING, is_missing, number
from private_graphs.reporting.readable import (
    OPTIMIZER_TITLES,
    score,
    setting_title,
    together,
    warnings,
)

Notes = tuple[tuple[str, str], ...]
"""How numbers were made, as (heading, text)."""


@dataclass(frozen=True)
class ScoreCell:
    """One protocol's place in a row of Table 1."""

    score: str
    privacy: str
    tone: str
    """``proved``, ``none``, ``plain`` (no privacy is at stake) or ``absent`` (not run)."""
    warnings: tuple[str, ...] = ()
    together: str = ""
    """ε of all runs of the row, in words."""
    href: str | None = None
    """Address of the statement, from the folder of ``index.html``."""


@dataclass(frozen=True)
class ScoreRow:
    """A row of Table 1."""

    setting: str
    optimizer: str
    epsilon: str
    published: str
    cells: Mapping[str, ScoreCell]


@dataclass(frozen=True)
class DatasetScores:
    """The rows of Table 1 for one dataset."""

    name: str
    title: str
    synthetic: bool
    rows: tuple[ScoreRow, ...]


@dataclass(frozen=True)
class Glance:
    """One source of numbers (published, or a protocol) in the summary of a scale."""

    name: str
    summary: str
    scores: tuple[tuple[str, str, str], ...]
    """(dataset, without DP, with DP) as ranges over the rows."""
    privacy: str
    tone: str


def dataset_scores(
    frame: pd.DataFrame, statistics: Mapping[str, Mapping[str, Any]], statements: str
) -> tuple[DatasetScores, ...]:
    """Return Table 1 by dataset; ``statements`` is the address of the folder of statements."""
    found = []
    for name, rows in frame.groupby("dataset", sort=True):
        known = statistics.get(name, {})
        found.append(
            DatasetScores(
                name=name,
                title=known.get("title", name),
                synthetic=bool(known.get("synthetic", False)),
                rows=tuple(_score_row(row, statements) for row in rows.to_dict("records")),
            )
        )
    return tuple(found)


def _score_row(row: Mapping[str, Any], statements: str) -> ScoreRow:
    return ScoreRow(
        setting=setting_title(row),
        optimizer=OPTIMIZER_TITLES[row["optimizer"]],
        epsilon=number(row["epsilon"]),
        published=number(row["published"], 2),
        cells={protocol: _score_cell(row, protocol, statements) for protocol in PROTOCOLS},
    )


def _score_cell(row: Mapping[str, Any], protocol: str, statements: str) -> ScoreCell:
    if is_missing(row[f"{protocol}_mean"]):
        return ScoreCell("not run", "", "absent")
    text = score(row, protocol)
    status = row[f"{protocol}_status"]
    if is_missing(status):
        return ScoreCell(text, "", "plain")
    href = f"{statements}/{row[f'{protocol}_statement_id']}.html"
    if status == "not_private":
        return ScoreCell(text, "no privacy claimed", "plain", href=href)
    limits = tuple(warnings(row, protocol))
    proved = row[f"{protocol}_epsilon_proved"]
    if is_missing(proved):
        words = "claim refuted" if status == "refuted" else "none proved"
        return ScoreCell(text, words, "none", limits, href=href)
    unit = row[f"{protocol}_unit"].replace("_", " ")
    words = f"proved ε {number(proved, 2)} per {unit}"
    return ScoreCell(text, words, "proved", limits, together(row, protocol), href)


def glance(frame: pd.DataFrame, titles: Mapping[str, str]) -> tuple[Glance, ...]:
    """Return the summary of Table 1: published, then each protocol that was run."""
    private = frame[frame["setting"].isin(["dp_full", "dp_split"])]
    found = []
    if frame["published"].notna().any():
        claimed = private.loc[private["published"].notna(), "epsilon"]
        words = f"claimed: ε {_range(claimed, '{:g}')}" if len(claimed) else NOTHING
        scores = _ranges(frame, "published", titles, 2)
        found.append(Glance("published", "what the paper prints", scores, words, "plain"))
    for protocol in PROTOCOLS.values():
        if frame[f"{protocol.name}_mean"].isna().all():
            continue
        scores = _ranges(frame, f"{protocol.name}_mean", titles, 2)
        words, tone = _privacy_summary(private, protocol.name)
        found.append(Glance(protocol.name, protocol.summary, scores, words, tone))
    return tuple(found)


def _ranges(
    frame: pd.DataFrame, column: str, titles: Mapping[str, str], decimals: int
) -> tuple[tuple[str, str, str], ...]:
    found = []
    for dataset, rows in frame.groupby("dataset", sort=True):
        kinds = (
            rows["setting"].isin(["non_private", "non_private_split"]),
            rows["setting"].isin(["dp_full", "dp_split"]),
        )
        without, within = (_range(rows.loc[kind, column], f"{{:.{decimals}f}}") for kind in kinds)
        found.append((titles.get(dataset, dataset), without, within))
    return tuple(found)


def _range(values: pd.Series, form: str) -> str:
    known = values.dropna()
    if known.empty:
        return NOTHING
    low, high = form.format(known.min()), form.format(known.max())
    return low if low == high else f"{low}–{high}"


def _privacy_summary(private: pd.DataFrame, protocol: str) -> tuple[str, str]:
    ran = private[private[f"{protocol}_mean"].notna()]
    proved = ran[ran[f"{protocol}_epsilon_proved"].notna()]
    if ran.empty:
        return "no DP row was run", "plain"
    if proved.empty:
        return f"none proved, for any of {len(ran)} DP settings", "none"
    units = " or ".join(sorted(proved[f"{protocol}_unit"].unique())).replace("_", " ")
    words = f"proved: ε {_range(proved[f'{protocol}_epsilon_proved'], '{:.2f}')} per {units}"
    words += " and run"
    if len(proved) < len(ran):
        words += f", for {len(proved)} of {len(ran)} DP settings"
    together = proved[f"{protocol}_epsilon_all_runs"].max()
    if not is_missing(together):
        words += f"; all runs of a row together: up to {together:.2f}"
    limits = {each for row in proved.to_dict("records") for each in warnings(row, protocol)}
    return "; ".join([words, *sorted(limits)]), "proved"


_NOISE_SOURCES = {
    "seeded": "from seeds, so that a run can be repeated; every proved ε supposes secret seeds",
    "os_entropy": "from the operating system",
}


def notes(runs: pd.DataFrame, statements: Mapping[str, Mapping[str, Any]]) -> Notes:
    """Return how the numbers of ``runs`` were made."""
    if runs.empty:
        return ()
    finite = runs["epsilon"].map(math.isfinite)
    private = runs[finite]
    rates = (_per_optimizer(runs[~finite], "lr"), _per_optimizer(private, "lr"))
    kinds = [_NOISE_SOURCES.get(each, each) for each in sorted(runs["noise_source"].unique())]
    machines = runs[["dtype", "device"]].drop_duplicates().itertuples()
    found = [
        ("Seeds", _seeds(runs)),
        ("Epochs", f"{_per_optimizer(runs, 'max_epochs')} at most; ε is charged for all of them."),
        ("Learning rate", f"without DP: {rates[0] or NOTHING}. With DP: {rates[1] or NOTHING}."),
        *(("Selection", line) for line in _selections(private, statements)),
        ("δ", _joined(number(each) for each in sorted(private["delta"].unique()))),
        ("Noise", f"{'; '.join(kinds)}."),
        ("Arithmetic", _joined(f"{each.dtype} on {each.device}" for each in machines)),
        ("Code fingerprint", _joined(sorted(runs["code_fingerprint"].unique()))),
    ]
    return tuple((name, text) for name, text in found if text)


def _seeds(runs: pd.DataFrame) -> str:
    seeds = sorted(map(int, runs["seed"].unique()))
    listed = f"{seeds[0]} to {seeds[-1]}" if seeds == list(range(len(seeds))) else _joined(seeds)
    per_cell = runs.groupby("cell")["seed"].nunique()
    uneven = "" if per_cell.nunique() == 1 else f"; a cell has {per_cell.min()} to {per_cell.max()}"
    spread = "means and standard deviations (n - 1) are over the seeds"
    return f"{len(seeds)} ({listed}){uneven}; {spread}."


def _per_optimizer(runs: pd.DataFrame, column: str) -> str:
    values = runs.groupby("optimizer")[column].unique()
    order = [each for each in OPTIMIZER_TITLES if each in values.index]
    return _joined(
        f"{OPTIMIZER_TITLES[each]} {' or '.join(number(value) for value in sorted(values[each]))}"
        for each in order
    )


def _selections(
    private: pd.DataFrame, statements: Mapping[str, Mapping[str, Any]]
) -> Iterable[str]:
    chosen = private[private["selected"].astype(bool)]
    protocols: dict[str, list[str]] = {}
    for protocol in PROTOCOLS:
        identifiers = chosen.loc[chosen["protocol"] == protocol, "statement_id"]
        for text in sorted({_selection(statements[each]["selection"]) for each in identifiers}):
            protocols.setdefault(text, []).append(protocol)
    return (f"{_joined(names)}: {text}" for text, names in protocols.items())


def _selection(selection: Mapping[str, Any]) -> str:
    count = selection["n_configs"]
    if count == 1:
        return "one configuration, fixed in advance"
    return f"{count} configurations by {selection['data']}. Cost: {selection['cost']}."


def record_text(value: Any) -> str:
    """Return a small record as text: ``n configs: 6; data: …``; other values as they are."""
    if isinstance(value, Mapping):
        return "; ".join(
            f"{name.replace('_', ' ')}: {record_text(each)}" for name, each in value.items()
        )
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    return NOTHING if is_missing(value) else str(value)


def _joined(values: Iterable[Any]) -> str:
    return ", ".join(str(value) for value in values)


def downloads(
    results_root: Path, scale: str, study: str, names: Sequence[str]
) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Return (what, ((format, address), …)) for every table, or points of a figure, that exists."""
    forms = {"csv": "CSV", "md": "Markdown", "tex": "LaTeX"}
    found = []
    for name in names:
        base = f"{scale}/tables/{study}_{name}"
        files = {form: f"{base}.{suffix}" for suffix, form in forms.items()}
        if name == "table1":
            pictures = f"{scale}/figures/{study}_{name}"
            files |= {"figure, PNG": f"{pictures}.png", "figure, PDF": f"{pictures}.pdf"}
        there = tuple(each for each in files.items() if (results_root / each[1]).exists())
        if there:
            found.append((name.replace("table", "Table ").replace("figure", "Figure "), there))
    return tuple(found)
