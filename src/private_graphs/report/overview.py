"""Summaries of many rows: verdicts, guarantees, and how numbers were made."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.protocols import PROTOCOLS
from private_graphs.report.exhibit import NOTHING, Block, Cell, Column, Exhibit, Table
from private_graphs.report.shelf import Shelf
from private_graphs.report.statement import headline, said, words
from private_graphs.report.words import bound, budget, missing, number

NOISE_SOURCES = {
    "seeded": "from seeds, so that a run can be repeated; every proved ε supposes that the seeds "
    "were secret",
    "os_entropy": "from the operating system",
}
"""Descriptions of noise sources."""


@dataclass(frozen=True)
class Verdict:
    """Verdict on the printed numbers of an exhibit, under one protocol."""

    protocol: str
    scores: int
    """Number of printed scores whose setting was run."""
    met: int
    """Number of these within two standard deviations of the seeds, as rounded in print."""
    budgets: int
    """Number of printed ε whose setting was run."""
    hold: int
    refuted: int
    shown: float | None
    """Largest ε that an attack shows where the printed one is refuted."""
    larger: float | None
    """Largest proved ε where the printed one is not proved."""

    @property
    def unproved(self) -> int:
        """Number of printed ε that neither hold nor are refuted."""
        return self.budgets - self.hold - self.refuted

    @property
    def answer(self) -> Cell:
        """Return whether the printed ε are true, in words."""
        if not self.budgets:
            return Cell("no ε is printed")
        if self.hold == self.budgets:
            return Cell(f"yes, all {self.budgets} are proved")
        parts = [f"{self.hold} of {self.budgets} hold" if self.hold else "no"]
        if self.refuted:
            seen = "" if self.shown is None else f": an attack shows ε > {bound(self.shown)}"
            parts.append(f"{self.refuted} of {self.budgets} refuted{seen}")
        if self.unproved:
            more = "" if self.larger is None else f": what is proved is up to {budget(self.larger)}"
            parts.append(f"{self.unproved} of {self.budgets} not proved{more}")
        return Cell(", ".join(parts), tone="refuted" if self.refuted else "none")


VERDICT_WORDS = {"holds": "hold", "fails": "fail", "undecided": "undecided"}
"""Plural verbs for the verdicts on claims."""


def finding(shelf: Shelf, claims: pd.DataFrame | None = None) -> str:
    """Return one line on the verdicts of a study's runs on its paper's ε and claims.

    A claimed ε holds if the proved ε is not larger; ``claims`` are the verdicts of
    ``claims.judged``, if the study has any.
    """
    study = shelf.results.study.id
    private = [each for each in shelf.statements.values()
               if each.study == study and each.status != "not_private"]  # fmt: skip
    parts = []
    for protocol in PROTOCOLS:
        own = [each for each in private if each.protocol == protocol]
        claimed = [each for each in own if each.epsilon_published is not None]
        proved = sum(each.epsilon_proved is not None for each in own)
        if claimed:
            hold = sum(map(_holds, claimed))
            refuted = sum(each.status == "refuted" for each in claimed)
            attacked = f" ({refuted} refuted by an attack)" if refuted else ""
            parts.append(f"{protocol}: {hold} of {len(claimed)} claimed ε hold{attacked}")
        elif own:
            parts.append(f"{protocol}: {proved} of {len(own)} ε proved")
    if claims is not None:
        counts = claims["verdict"].value_counts()
        found = [f"{counts[name]} {word}" for name, word in VERDICT_WORDS.items() if name in counts]
        parts.append(f"claims of the text: {', '.join(found) or 'none was run'}")
    return f"{study}: {'; '.join(parts) or 'nothing private was run'}"


def _holds(statement: PrivacyStatement) -> bool:
    """Return whether the published ε is proved."""
    proved, published = statement.epsilon_proved, statement.epsilon_published
    held = proved is not None and proved <= published * (1 + 1e-9)
    return held and statement.status != "refuted"


_PRINTED = {"protocol", "published", "mean", "std", "epsilon", "status", "epsilon_proved"}
"""Columns of a table's frame that compares printed scores with ours."""


def verdicts(blocks: Iterable[Block]) -> list[Verdict]:
    """Return verdicts, by protocol, on the numbers that the tables of an exhibit print."""
    frames = [block.frame for block in blocks
              if isinstance(block, Table) and set(block.frame) >= _PRINTED]  # fmt: skip
    if not frames:
        return []
    rows = pd.concat(frames).dropna(subset=["published", "mean"])
    digits = 0.005 - 0.0045 * (rows["published"].round(2) != rows["published"])
    spread = 2 * rows["std"].fillna(0) + digits + 1e-9
    rows = rows.assign(met=(rows["mean"] - rows["published"]).abs() <= spread)
    order = [name for name in PROTOCOLS if name in set(rows["protocol"])]
    return [_verdict(name, rows[rows["protocol"] == name]) for name in order]


def _verdict(protocol: str, rows: pd.DataFrame) -> Verdict:
    private = rows[_private(rows["epsilon"])]
    refuted = private["status"] == "refuted"
    hold = ~refuted & (private["epsilon_proved"] <= private["epsilon"] * (1 + 1e-9))
    shown = private.loc[refuted].get("audit_epsilon_lower", pd.Series(dtype=float)).max()
    larger = private.loc[~refuted & ~hold, "epsilon_proved"].max()
    return Verdict(
        protocol, len(rows), int(rows["met"].sum()), len(private), int(hold.sum()),
        int(refuted.sum()), None if missing(shown) else shown, None if missing(larger) else larger,
    )  # fmt: skip


def truth(found: Sequence[Verdict]) -> Table:
    """Return verdicts as a table: whether the printed ε is true, and the printed scores are met."""
    columns = [
        Column("as in", lambda row: PROTOCOLS[row["protocol"]].name),
        Column("printed scores met", lambda row: f"{row['met']} of {row['scores']}"),
        Column("is the printed ε true?", lambda row: row["answer"]),
    ]
    rows = [{"protocol": each.protocol, "met": each.met, "scores": each.scores,
             "answer": each.answer} for each in found]  # fmt: skip
    note = (
        "met: within two standard deviations of our seeds, after rounding as printed. Each ε is "
        "per node or record, as its statement says."
    )
    return Table("What is true of the printed numbers", pd.DataFrame(rows), columns, (note,))


def _private(epsilon: pd.Series) -> pd.Series:
    return (epsilon > 0) & (epsilon < math.inf)


def guarantees(shelf: Shelf, method: str = "") -> Table:
    """Return score and privacy of every requested ε: claimed, proved, and attacked.

    One row per dataset, method, scenario, protocol and ε, of one method or of all; if statements
    differ, the weakest counts.
    """
    keys, runs = ["dataset", "method", "scenario", "protocol", "epsilon"], shelf.own.runs
    if method:
        runs = runs[runs["method"] == method]
    score = "test_micro_f1" if runs["test_micro_f1"].notna().any() else "test_accuracy"
    setting = ["group", "job", "validation_labels"]
    rows = runs[runs["selected"].fillna(True).astype(bool)]
    scores = rows.groupby([*keys, *setting], dropna=False)[score].mean().groupby(keys)
    low, high = scores.min(), scores.max()
    found = []
    for place, group in runs.groupby(keys, sort=True):
        held = shelf.statements_of(group)
        weakest = max(held, key=lambda each: _weakness(each.epsilon_proved))
        shown = [each.audit.epsilon_lower for each in held if each.audit is not None]
        refuted = any(each.status == "refuted" for each in held)
        private = weakest.status != "not_private"
        found.append(dict(zip(keys, place, strict=True)) | {
            "low": low.get(place), "high": high.get(place),
            "statement": weakest.statement_id, "private": private,
            "tone": "refuted" if refuted else headline(weakest).tone,
            "unit": f"{words(weakest.unit)}, {words(weakest.relation)}",
            "claimed": max(each.epsilon_published or 0 for each in held) or None,
            "proved": weakest.epsilon_proved,
            "together": max((each.epsilon_all_runs for each in held), key=_weakness),
            "shown": max(shown, default=None), "runs": len(group),
        })  # fmt: skip
    title = shelf.results.title
    heads = {"dataset": str, "method": title, "scenario": str, "protocol": str}
    columns = [
        *(Column(head, lambda row, head=head, say=say: say(row[head]))
          for head, say in heads.items() if head != "method" or not method),
        Column("ε asked", lambda row: number(row["epsilon"])),
        Column("micro-F1" if score == "test_micro_f1" else "accuracy", _range),
        Column("ε claimed", lambda row: _said(row["claimed"], budget)),
        Column("ε proved", lambda row: Cell(
            _said(row["proved"], budget, "none") if row["private"] else "no DP",
            row["statement"], row["tone"])),
        Column("all runs", lambda row: _said(row["together"], budget,
                                             "none" if row["private"] else NOTHING)),
        Column("an attack shows", lambda row: _said(row["shown"], lambda e: f"> {bound(e)}")),
        Column("per", lambda row: row["unit"] if row["private"] else NOTHING),
        Column("runs", lambda row: number(row["runs"])),
    ]  # fmt: skip
    note = (
        "ε proved is that of one run with settings fixed in advance, at its largest; all runs: of "
        "all seeds and settings that were compared. Both are rounded up. Scores are means over the "
        "seeds, from the lowest to the highest of all settings."
    )
    return Table("Score and privacy of every ε", pd.DataFrame(found), columns, notes=(note,))


def _range(row: Mapping[str, Any]) -> str:
    if missing(row["low"]):
        return NOTHING
    low, high = number(row["low"], 2), number(row["high"], 2)
    return low if low == high else f"{low} to {high}"


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


def command(shelf: Shelf, exhibit: Exhibit) -> str:
    """Return the command that makes an exhibit from the runs that a set of results has."""
    study, rows = shelf.results.study, shelf.rows_of(exhibit)
    scale = study.recorded_scale if shelf.made else shelf.name
    keys = {"scale": scale, "exhibits": f"{study.id}.{exhibit.name}"}
    keys["datasets"] = ",".join(sorted(rows["dataset"].unique()))
    protocols = [name for name in PROTOCOLS if name in set(rows["protocol"])]
    keys["protocols"] = ",".join(protocols) if len(protocols) < len(PROTOCOLS) else ""
    seeds = sorted(rows["seed"].unique())
    if 0 < len(seeds) < study.seeds:
        first = seeds == list(range(len(seeds)))
        keys["seeds"] = str(len(seeds)) if first else ",".join(map(str, seeds))
    given = " ".join(f"{name}={value}" for name, value in keys.items() if value)
    return f"snakemake --cores all --config {given}"


def _settings(rows: pd.DataFrame) -> str:
    """Describe the values of a method's settings; of chosen settings, the chosen values."""
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
