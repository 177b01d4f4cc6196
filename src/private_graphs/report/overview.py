"""What can be said of all rows of a shelf at once: scores, claims, and how numbers were made."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence

import pandas as pd
from private_graphs.report.words import number

from private_graphs.privacy.explain import at_least, at_most
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.report.exhibit import NOTHING, Cell, Column, Exhibit, Table
from private_graphs.report.shelf import Shelf
from private_graphs.report.statement import said, words

NOISE_SOURCES = {
    "seeded": "from seeds, so that a run can be repeated; every proved ε supposes that the seeds "
    "were secret",
    "os_entropy": "from the operating system",
}
"""Words for where the noise comes from."""


def glance(shelf: Shelf) -> Table:
    """Return the range of the scores and of the proved ε, by dataset, scenario and protocol."""
    rows = shelf.rows[chosen(shelf.rows)]
    name = "test_micro_f1" if rows["test_micro_f1"].notna().any() else "test_accuracy"
    keys, setting = ["dataset", "scenario", "protocol"], ["method", "settings", "validation_labels"]
    found = []
    for place, group in rows.groupby(keys, sort=True):
        means = group.groupby([*setting, "epsilon"], dropna=False)[name].mean().reset_index()
        epsilon, score = means["epsilon"], means[name]
        found.append(dict(zip(keys, place, strict=True)) | {
            "with DP": _range(score[_private(epsilon)]),
            "nothing private read": _range(score[epsilon == 0]),
            "without DP": _range(score[epsilon == math.inf]),
            **_privacy(shelf.statements_of(group[_private(group["epsilon"])])),
        })  # fmt: skip
    columns = [Column(head, lambda row, head=head: row[head])
               for head in (*keys, "with DP", "nothing private read", "without DP")]  # fmt: skip
    columns.append(
        Column("privacy of the DP rows", lambda row: Cell(row["words"], "", row["tone"]))
    )
    title = "Micro-F1" if name == "test_micro_f1" else "Accuracy"
    return Table(f"{title} on the test records, from the lowest to the highest of all settings",
                 pd.DataFrame(found), columns)  # fmt: skip


def chosen(rows: pd.DataFrame) -> pd.Series:
    """Return which rows have settings that were chosen, or that nothing was compared with."""
    return rows["selected"].isna() | (rows["selected"] == True)  # noqa: E712 - null is neither


def _private(epsilon: pd.Series) -> pd.Series:
    return (epsilon > 0) & (epsilon < math.inf)


def _range(values: pd.Series) -> str:
    known = values.dropna()
    if known.empty:
        return NOTHING
    low, high = f"{known.min():.2f}", f"{known.max():.2f}"
    return low if low == high else f"{low} to {high}"


def _privacy(held: Sequence[PrivacyStatement]) -> dict[str, str]:
    """Say what is proved in statements, and how many of the claims were refuted."""
    if not held:
        return {"words": NOTHING, "tone": ""}
    proved = [each for each in held if each.epsilon_proved is not None]
    refuted = sum(each.status == "refuted" for each in held)
    text = "none proved"
    if proved:
        low, high = (at_most(pick(each.epsilon_proved for each in proved)) for pick in (min, max))
        units = " or ".join(sorted({words(each.unit) for each in proved}))
        text = f"ε {low if low == high else f'{low} to {high}'} proved per {units}"
        text += f", for {len(proved)} of {len(held)}" if len(proved) < len(held) else ""
        text += ", model only" if any(each.inference == "leaks" for each in proved) else ""
    text += f"; {refuted} of {len(held)} claims refuted" if refuted else ""
    tone = "refuted" if refuted else "proved" if len(proved) == len(held) else "unproved"
    return {"words": text, "tone": tone}


def claims(shelf: Shelf) -> Table:
    """Return what was asked for and claimed, what is proved, and what an attack shows.

    One row per dataset, method, scenario, protocol and ε; where statements differ the weakest
    counts.
    """
    keys = ["dataset", "method", "scenario", "protocol", "epsilon"]
    found = []
    for place, group in shelf.rows[_private(shelf.rows["epsilon"])].groupby(keys, sort=True):
        held = shelf.statements_of(group)
        weakest = max(held, key=lambda each: _weakness(each.epsilon_proved))
        shown = [each.audit.epsilon_lower for each in held if each.audit is not None]
        found.append(dict(zip(keys, place, strict=True)) | {
            "statement": weakest.statement_id,
            "unit": f"{words(weakest.unit)}, {words(weakest.relation)}",
            "claimed": max(each.epsilon_published or 0 for each in held) or None,
            "proved": weakest.epsilon_proved,
            "together": max((each.epsilon_all_runs for each in held), key=_weakness),
            "shown": max(shown, default=None), "runs": len(group), **_privacy(held),
        })  # fmt: skip
    columns = [
        *(Column(head, lambda row, head=head: row[head]) for head in keys[:-1]),
        Column("ε asked", lambda row: number(row["epsilon"])),
        Column("runs", lambda row: number(row["runs"])),
        Column("ε claimed", lambda row: _budget(row["claimed"], at_most)),
        Column("ε proved", lambda row: Cell(
            _budget(row["proved"], at_most, "none"), row["statement"], row["tone"])),
        Column("all runs", lambda row: _budget(row["together"], at_most, "none")),
        Column("an attack shows", lambda row: _budget(row["shown"], lambda e: f"> {at_least(e)}")),
        Column("for", lambda row: row["unit"]),
        Column("in words", lambda row: row["words"]),
    ]  # fmt: skip
    note = (
        "ε proved is that of one run with settings fixed in advance, at its largest; all runs: of "
        "all seeds and settings that were compared. Both are rounded up."
    )
    return Table("Claims and what holds of them", pd.DataFrame(found), columns, notes=(note,))


def _weakness(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon


def _budget(value: float | None, rounded: Callable[[float], str], nothing: str = NOTHING) -> str:
    return nothing if value is None or math.isnan(value) else rounded(value)


def notes(shelf: Shelf, exhibit: Exhibit) -> list[tuple[str, str]]:
    """Return how the numbers of an exhibit were made, as (heading, text)."""
    rows = shelf.rows_of(exhibit)
    if rows.empty:
        return []
    held = shelf.statements_of(rows)
    choices: dict[str, set[str]] = {}
    for each in held:
        if each.selection.n_configs > 1:
            text = f"{each.selection.n_configs} by {each.selection.data}. {each.selection.cost}"
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
    study, scale = shelf.results.study.id, shelf.results.scale
    datasets = ",".join(sorted(rows["dataset"].unique()))
    return f"scale={scale} exhibits={study}.{exhibit.name} datasets={datasets}"


def _settings(rows: pd.DataFrame) -> str:
    """Say which values the settings of a method have; the chosen ones, where some were chosen."""
    values: dict[str, set[str]] = {}
    for text in rows.loc[chosen(rows), "settings"].dropna().unique():
        for name, value in json.loads(text).items():
            values.setdefault(name, set()).add(said(name, value))
    return "; ".join(f"{words(name)} {_several(pd.Series(sorted(known)))}"
                     for name, known in sorted(values.items()))  # fmt: skip


def _several(values: pd.Series, most: int = 12) -> str:
    known = sorted(values.dropna().unique())
    listed = ", ".join(number(each) if isinstance(each, int | float) else str(each)
                       for each in known[:most])  # fmt: skip
    return f"{listed} and {len(known) - most} more" if len(known) > most else listed
