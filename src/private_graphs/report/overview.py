"""What can be said of all rows of a shelf at once: scores, claims, and how numbers were made."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pandas as pd

from private_graphs.report.exhibit import NOTHING, Cell, Column, Exhibit, Table
from private_graphs.report.shelf import Shelf
from private_graphs.report.statement import headline, said, words
from private_graphs.report.words import bound, budget, guarantees, missing, number

NOISE_SOURCES = {
    "seeded": "from seeds, so that a run can be repeated; every proved ε supposes that the seeds "
    "were secret",
    "os_entropy": "from the operating system",
}
"""Words for where the noise comes from."""


def glance(shelf: Shelf) -> Table:
    """Return the range of the scores and of the proved ε, by dataset, scenario and protocol."""
    runs, keys = shelf.own.runs, ["dataset", "scenario", "protocol"]
    score = "test_micro_f1" if runs["test_micro_f1"].notna().any() else "test_accuracy"
    setting = ["method", "features", "group", "job", "epsilon", "validation_labels"]
    points = shelf.own.points(by=[*keys, *setting], score=score)
    found = []
    for place, group in points.groupby(keys, sort=True):
        private = _private(group["epsilon"])
        found.append(dict(zip(keys, place, strict=True)) | {
            "with DP": _range(group.loc[private, "mean"]),
            "nothing private read": _range(group.loc[group["epsilon"] == 0, "mean"]),
            "without DP": _range(group.loc[group["epsilon"] == math.inf, "mean"]),
            "privacy": guarantees(group[private]) if private.any() else Cell(),
        })  # fmt: skip
    heads = (*keys, "with DP", "nothing private read", "without DP")
    columns = [Column(head, lambda row, head=head: row[head]) for head in heads]
    columns.append(Column("ε proved with DP", lambda row: row["privacy"]))
    name = "Micro-F1" if score == "test_micro_f1" else "Accuracy"
    title = f"{name} on the test records, from the lowest to the highest of all settings"
    return Table(title, pd.DataFrame(found), columns)


def _private(epsilon: pd.Series) -> pd.Series:
    return (epsilon > 0) & (epsilon < math.inf)


def _range(values: pd.Series) -> str:
    known = values.dropna()
    if known.empty:
        return NOTHING
    low, high = f"{known.min():.2f}", f"{known.max():.2f}"
    return low if low == high else f"{low} to {high}"


def claims(shelf: Shelf) -> Table:
    """Return what was asked for and claimed, what is proved, and what an attack shows.

    One row per dataset, method, scenario, protocol and ε; where statements differ the weakest
    counts.
    """
    keys = ["dataset", "method", "scenario", "protocol", "epsilon"]
    runs, found = shelf.own.runs, []
    for place, group in runs[_private(runs["epsilon"])].groupby(keys, sort=True):
        held = shelf.statements_of(group)
        weakest = max(held, key=lambda each: _weakness(each.epsilon_proved))
        shown = [each.audit.epsilon_lower for each in held if each.audit is not None]
        refuted = any(each.status == "refuted" for each in held)
        found.append(dict(zip(keys, place, strict=True)) | {
            "statement": weakest.statement_id,
            "tone": "refuted" if refuted else headline(weakest).tone,
            "unit": f"{words(weakest.unit)}, {words(weakest.relation)}",
            "claimed": max(each.epsilon_published or 0 for each in held) or None,
            "proved": weakest.epsilon_proved,
            "together": max((each.epsilon_all_runs for each in held), key=_weakness),
            "shown": max(shown, default=None), "runs": len(group),
        })  # fmt: skip
    columns = [
        *(Column(head, lambda row, head=head: row[head]) for head in keys[:-1]),
        Column("ε asked", lambda row: number(row["epsilon"])),
        Column("runs", lambda row: number(row["runs"])),
        Column("ε claimed", lambda row: _said(row["claimed"], budget)),
        Column("ε proved", lambda row: Cell(
            _said(row["proved"], budget, "none"), row["statement"], row["tone"])),
        Column("all runs", lambda row: _said(row["together"], budget, "none")),
        Column("an attack shows", lambda row: _said(row["shown"], lambda e: f"> {bound(e)}")),
        Column("for", lambda row: row["unit"]),
    ]  # fmt: skip
    note = (
        "ε proved is that of one run with settings fixed in advance, at its largest; all runs: of "
        "all seeds and settings that were compared. Both are rounded up."
    )
    return Table("Claims and what holds of them", pd.DataFrame(found), columns, notes=(note,))


def _weakness(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon


def _said(value: float | None, say: Callable[[float], str], nothing: str = NOTHING) -> str:
    return nothing if missing(value) else say(value)


def notes(shelf: Shelf, exhibit: Exhibit) -> list[tuple[str, str]]:
    """Return how the numbers of an exhibit were made, as (heading, text)."""
    rows = shelf.rows_of(exhibit)
    if rows.empty:
        return []
    held = shelf.statements_of(rows)
    choices: dict[str, set[str]] = {}
    for each in held:
        if each.selection.n_configs > 1:
            text = f"{each.selection.n_configs} by {each.selection.data}; {each.selection.cost}"
            choices.setdefault(text, set()).add(f"{each.method}, {each.protocol}")
    texts = [
        ("Command", f"snakemake --cores all --config {_asked(shelf, rows, exhibit)}"),
        ("Seeds", f"{_several(rows['seed'])}; means and standard deviations (n - 1) are over them"),
        *((f"Settings of {name}", _settings(group)) for name, group in rows.groupby("method")),
        *(("Chosen among", f"{text} ({'; '.join(sorted(who))})") for text, who in choices.items()),
        ("δ", _several(rows.loc[_private(rows["epsilon"]), "delta"])),
        ("Noise", "; ".join(NOISE_SOURCES[each] for each in sorted(rows["noise_source"].unique()))),
        *(("Data", text) for text in sorted({each.preprocessing for each in held})),
        ("Device", _several(rows["device"])),
        ("Version", ", ".join(sorted({each.package_version for each in held}))),
        ("Code fingerprint", _several(rows["code_fingerprint"])),
    ]
    return [(name, text) for name, text in texts if text]


def _asked(shelf: Shelf, rows: pd.DataFrame, exhibit: Exhibit) -> str:
    study, scale = shelf.results.study.id, "full" if shelf.made else shelf.name
    datasets = ",".join(sorted(rows["dataset"].unique()))
    return f"scale={scale} exhibits={study}.{exhibit.name} datasets={datasets}"


def _settings(rows: pd.DataFrame) -> str:
    """Say which values the settings of a method have; the chosen ones, where some were chosen."""
    values: dict[str, set[str]] = {}
    for text in rows.loc[rows["selected"].fillna(True).astype(bool), "settings"].dropna().unique():
        for name, value in json.loads(text).items():
            values.setdefault(name, set()).add(said(name, value))
    return "; ".join(f"{words(name)} {_several(pd.Series(sorted(known)))}"
                     for name, known in sorted(values.items()))  # fmt: skip


def _several(values: pd.Series, most: int = 12) -> str:
    known = sorted(values.dropna().unique())
    listed = ", ".join(number(each) if isinstance(each, int | float) else str(each)
                       for each in known[:most])  # fmt: skip
    return f"{listed} and {len(known) - most} more" if len(known) > most else listed
