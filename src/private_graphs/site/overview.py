"""Summaries of many rows: verdicts, guarantees, and how numbers were made."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from private_graphs.core.errors import UserError, counted
from private_graphs.core.models import fields_of
from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.report.statement import said, tone, words
from private_graphs.report.words import bound, budget, enumeration, missing, number, unit
from private_graphs.running.exhibit import NOTHING, Block, Cell, Chart, Column, Exhibit, Table
from private_graphs.running.study import Counted, Number
from private_graphs.site.shelf import Shelf
from private_graphs.tasks.tasks import SCENARIOS

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
        if PROTOCOLS[self.protocol].calibration == "proved":
            return Cell("not asked: the noise is not the paper's, but made for a proof")
        if self.hold == self.budgets:
            return Cell(f"yes, each of the {self.budgets} is proved by itself")
        parts = [f"{self.hold} of {self.budgets} hold" if self.hold else "no"]
        if self.refuted:
            seen = "" if self.shown is None else f": an attack shows ε > {bound(self.shown)}"
            parts.append(f"{self.refuted} of {self.budgets} refuted{seen}")
        if self.unproved:
            note = "" if self.larger is None else f": what is proved is up to {budget(self.larger)}"
            parts.append(f"{self.unproved} of {self.budgets} not proved{note}")
        return Cell(", ".join(parts), tone="refuted" if self.refuted else "none")


VERDICT_WORDS = {
    "holds": ("holds", "hold"), "fails": ("fails", "fail"),
    "undecided": ("is undecided", "are undecided"),
    "other_data": ("was checked on other data", "were checked on other data"),
    "other_network": ("was checked with another network", "were checked with other networks"),
    "not_printed": ("depends on settings not printed", "depend on settings not printed"),
}  # fmt: skip
"""What is said of one claim with a verdict, and of several."""


@dataclass(frozen=True)
class StudyVerdict:
    """What pages and the terminal say about a paper, in the sentences of its study file."""

    prints: str
    truth: str
    instead: str
    scores: str
    """How many of the printed scores were reproduced."""
    data: str
    """Datasets with runs, and those of the paper without."""
    called: str = ""
    """Name of the papers, where they are not the study's."""

    @property
    def verdict(self) -> str:
        """The answer to "Is that true?" in a few words."""
        return self.truth.partition(": ")[0]

    @property
    def because(self) -> str:
        """The reason of that answer."""
        return self.truth.partition(": ")[2]

    @property
    def tone(self) -> str:
        """CSS class of that answer."""
        first = self.verdict.partition(" ")[0]
        return {"No": "refuted", "Yes": "e1", "Open": "soft"}.get(first, "e20")

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """The three sentences, with their heads."""
        return (("It prints", self.prints), ("Is that true?", self.truth),
                ("What can be had instead?", self.instead))  # fmt: skip

    def line(self, name: str) -> str:
        """Return the verdict in one line, for the terminal."""
        return f"{name}: {self.prints} is printed. True? {self.verdict}."


def study_verdict(
    shelf: Shelf, checks: Sequence[Verdict], of_study: Mapping[str, str]
) -> StudyVerdict:
    """Return the verdict on a study's paper; all parameters as in ``numbers``."""
    known, texts = numbers(shelf, checks, of_study), shelf.results.study.says
    unknown = {*_FIELD.findall(str(texts.truth))} - known.keys()
    for exhibit in shelf.exhibits:
        known |= _counts(shelf, exhibit, unknown)
    parts = (filled(text, known) for text in (texts.prints, texts.truth, texts.instead))
    scores = filled("{met} of {scores} printed scores (within 2 s.d.)", known)
    return StudyVerdict(*parts, scores or _why_no_scores(shelf), _data(shelf))  # type: ignore[call-arg]


def finding(
    shelf: Shelf, exhibit: Exhibit, checks: Sequence[Verdict], of_study: Mapping[str, str]
) -> str:
    """Return what a table or figure shows, in one sentence: its title; empty if nothing is known.

    The sentence is one of the study file, or counts printed ε or printed scores. ``checks``
    are the verdicts on its tables.
    """
    known = numbers(shelf, checks, of_study)
    if exhibit.numbers and not shelf.synthetic:
        known |= exhibit.numbers(shelf.results.read_by(exhibit))
    texts = shelf.results.study.says
    known |= _counts(shelf, exhibit, texts.counted.get(exhibit.name, {}))
    return filled(texts.findings.get(exhibit.name, ()), known) or filled(_FINDINGS, known)


def _counts(shelf: Shelf, exhibit: Exhibit, names: Collection[str]) -> dict[str, str]:
    """Return those of the ``names`` that are numbers of an exhibit's points, and there are some."""
    specs = {} if shelf.synthetic else shelf.results.study.says.counted.get(exhibit.name, {})
    counts = {name: _counted(shelf, exhibit, specs[name]) for name in names if name in specs}
    return {name: text for name, text in counts.items() if text}


def _counted(shelf: Shelf, exhibit: Exhibit, spec: Counted) -> str:
    """Return a number of the points of an exhibit as text; empty if it has no such point."""
    name = spec.exhibit or exhibit.name
    frames = [block.frame for part in shelf.exhibits if part.name == name
              for block in shelf.blocks(part)
              if isinstance(block, Chart if spec.charts else Table | Chart)]  # fmt: skip
    if not frames:
        return ""
    rows = pd.concat(frames) if spec.charts else frames[-1]
    rows = rows.query(spec.where, engine="python") if spec.where else rows
    if not spec.of:
        return str(len(rows))
    values = rows.eval(spec.of, engine="python").dropna()
    ends = [f"{value:,.{spec.decimals}f}" for value in (values.min(), values.max())]
    return " to ".join(dict.fromkeys(ends)) if len(values) else ""


def other_papers(shelf: Shelf, of_study: Mapping[str, str]) -> list[tuple[Exhibit, StudyVerdict]]:
    """Return the lines on papers that tables of a study compare; of synthetic data, none."""
    lines = []
    for exhibit in shelf.exhibits if not shelf.synthetic else ():
        texts = shelf.results.study.says.others.get(exhibit.name)
        if texts is not None and exhibit.numbers:
            known = {**of_study, **exhibit.numbers(shelf.results.read_by(exhibit))}
            parts = [filled(text, known) for text in (texts.prints, texts.truth, texts.called)]
            if all(parts):
                prints, truth, called = parts
                lines.append((exhibit, StudyVerdict(prints, truth, "", "", "", called)))
    return lines


_FINDINGS = (
    "None of the {none} printed ε that were run holds",
    "{hold} of {budgets} printed ε that were run hold",
    "{met} of {scores} printed scores reproduced (within 2 s.d.)",
)
"""Findings of a table or figure of any study, in the order of what is said first."""


def filled(texts: str | Sequence[str], known: Mapping[str, str]) -> str:
    """Return the first text whose numbers are all known, filled in; empty if there is none."""
    for text in [texts] if isinstance(texts, str) else texts:
        if all(name in known for name in _FIELD.findall(text)):
            return _FIELD.sub(lambda match: known[match[1]], text)
    return ""


_FIELD = re.compile(r"\{([^{}]+)\}")


def numbers(shelf: Shelf, checks: Sequence[Verdict], of_study: Mapping[str, str]) -> dict[str, str]:
    """Return all numbers that sentences about a study may name, as text.

    ``printed``: the printed ε, ``printed table1``: those of a table; ``budgets``, ``hold``,
    ``refuted``, ``unproved``, ``shown``, ``larger``, ``scores``, ``met``: of the verdicts
    ``checks``, where not 0, and ``none`` for ``budgets`` if none holds; ``fails ID``, ``holds ID``
    (any of ``VERDICT_WORDS``): measured by a claim with that verdict wherever it is decided;
    ``most ID``: the largest of what is measured, rounded up; ``printed ID``: what the claim prints;
    the study's own ``Sentences.numbers``, and those of its ``Exhibit.answer``. Rows of synthetic
    data say nothing of a paper: of these, calculations and attacks alone count. ``of_study`` is the
    value of ``study_numbers``.
    """
    return ({} if shelf.synthetic else _of_verdicts(checks)) | dict(of_study)


def study_numbers(shelf: Shelf, claims: pd.DataFrame | None) -> dict[str, str]:
    """Return the ``numbers`` that are not those of verdicts."""
    study, known = shelf.results.study, {}
    printed = shelf.results.rows
    groups = ["claims", *(name for name, table in study.published.items() if table.by_others)]
    printed = printed[(printed["source"] == "published") & (printed["study"] == study.id)
                      & ~printed["group"].isin(groups)]  # fmt: skip
    printed = printed[_private(printed["epsilon"])]
    for where, rows in [("", printed), *printed.groupby("group")]:
        if epsilons := sorted(rows["epsilon"].unique()):
            known[f"printed {where}".strip()] = _ends(list(map(number, epsilons)))
    if claims is not None:
        known |= _of_claims(claims[claims["protocol"] == ""] if shelf.synthetic else claims)
    if not shelf.synthetic:
        known |= shelf.answer.numbers if shelf.answer else {}
    for name, spec in study.says.numbers.items():
        if (spec.show == "shown" or not shelf.synthetic) and (text := _number(shelf, spec)):
            known[name] = text
    return known


def _ends(texts: Sequence[str]) -> str:
    return f"{texts[0]} to {texts[-1]}" if len(texts) > 3 else enumeration(texts)


def _of_claims(claims: pd.DataFrame) -> dict[str, str]:
    known = {}
    decided = claims[~claims["verdict"].isin(["not_run", "not_asked"])]
    for name, rows in decided.groupby(decided["id"].str.partition(".")[0]):
        values = sorted({round(value, 2) or value for value in rows["measured"].dropna()})
        if len(kinds := set(rows["verdict"])) == 1 and values:
            ends = dict.fromkeys(number(float(f"{end:.3g}")) for end in (values[0], values[-1]))
            known[f"{kinds.pop()} {name}"] = " to ".join(ends)
        if (most := rows["measured"].max()) < math.inf:
            known[f"most {name}"] = budget(most)
        if not missing(rows["printed"].iloc[0]):
            known[f"printed {name}"] = number(rows["printed"].iloc[0])
    return known


def verdict_counts(counts: Mapping[str, int]) -> list[str]:
    """Return how many claims have each verdict: ``["2 hold", "1 is undecided"]``."""
    return [f"{counts[name]} {words[int(counts[name] > 1)]}"
            for name, words in VERDICT_WORDS.items() if name in counts]  # fmt: skip


def _of_verdicts(verdicts: Iterable[Verdict]) -> dict[str, str]:
    """Return the counts of the first protocol whose noise follows the paper's formula."""
    printed = [entry for entry in verdicts if PROTOCOLS[entry.protocol].calibration == "published"]
    counted = [entry for entry in printed if entry.budgets] or printed
    if not counted:
        return {}
    first = counted[0]
    counts = {name: getattr(first, name) for name in ("budgets", "hold", "refuted", "unproved")}
    counts |= {"none": 0 if first.hold else first.budgets, "scores": first.scores}
    known = {name: str(count) for name, count in counts.items() if count}
    known |= {"met": str(first.met) if first.met else "None"} if first.scores else {}
    known |= {} if first.shown is None else {"shown": bound(first.shown)}
    return known | ({} if first.larger is None else {"larger": budget(first.larger)})


def _number(shelf: Shelf, spec: Number) -> str:
    """Return a number of a study's sentences as text; empty if no row has it."""
    rows = shelf.results.runs[shelf.results.mask(**spec.where)]
    rows = rows[rows["selected"].fillna(True).astype(bool)]
    if rows.empty:
        return ""
    if spec.show in ("score", "percent"):
        column = "test_micro_f1" if rows["test_micro_f1"].notna().any() else "test_accuracy"
        pool = rows.assign(point=rows["dataset"])
        pool = pd.concat([pool, shelf.results.equal_runs(pool)], ignore_index=True)
        means = pool.groupby("dataset")[column].mean().dropna()
        percent = spec.show == "percent"
        texts = [f"{100 * mean:.1f} %" if percent else f"{mean:.2f}" for mean in means]
        if len(means) > 1:
            called = shelf.called(means.index).values()
            texts = [f"{text} ({name})" for text, name in zip(texts, called, strict=True)]
        return ", ".join(texts)
    held = [PrivacyStatement.model_validate(shelf.results.statements[name])
            for name in rows["statement_id"].dropna().unique()]  # fmt: skip
    if spec.show == "shown":
        bounds = [entry.audit.epsilon_lower for entry in held if entry.status == "refuted"]
        return bound(max(bounds)) if bounds else ""
    proved = [entry.epsilon_proved for entry in held]
    if None in proved:
        return ""
    return budget(max(proved) if spec.show == "proved" else _together(held))


def _together(held: Sequence[PrivacyStatement]) -> float:
    """Return the ε of one run of each of several guarantees by Gaussian DP, whose μ² add up."""
    for part in held:
        kinds = {(event.type, event.sampling) for event in part.mechanisms}
        if not kinds <= {("gaussian", "none"), ("gaussian_gradient", "none")}:
            raise UserError(
                f"study.yaml of {part.study}: show: together of {part.method}, whose releases are "
                "not all Gaussian without sampling; expected such guarantees"
            )
    mu = math.hypot(*(gdp_mu(part.epsilon_proved, part.delta) for part in held))
    return gdp_epsilon(mu, held[0].delta)


def _why_no_scores(shelf: Shelf) -> str:
    """Return why no printed score stands beside one of these runs."""
    run, paper = _datasets(shelf)
    apart = shelf.synthetic or (paper and not {*run} & {*paper})
    return "not on the data of the paper" if apart else "no table of scores is printed"


def _datasets(shelf: Shelf) -> tuple[list[str], list[str]]:
    """Return the datasets with runs, and those of which the paper prints something."""
    rows = shelf.results.rows
    run = dict.fromkeys(shelf.own.runs["dataset"]) or dict.fromkeys(shelf.runs["dataset"])
    printed = rows[(rows["source"] == "published") & (rows["study"] == shelf.results.study.id)]
    return [*run], list(printed["dataset"].dropna().unique())


def _data(shelf: Shelf) -> str:
    """Return the datasets with runs, the paper's own by name, and those that were not run."""
    run, paper = _datasets(shelf)
    absent = [name for name in paper if name not in run]
    called = shelf.called([*run, *absent])
    names = [name for name in run if name in paper] or run
    text = ", ".join(called[name] for name in names)
    if len(names) < len(run):
        text += f" and {counted(len(run) - len(names), 'other graph')}"
    return f"{text} (not run: {', '.join(called[name] for name in absent)})" if absent else text


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
    lower = private.loc[refuted].get("audit_epsilon_lower", pd.Series(dtype=float)).max()
    larger = private.loc[~refuted & ~hold, "epsilon_proved"].max()
    return Verdict(
        protocol, len(rows), int(rows["met"].sum()), len(private), int(hold.sum()),
        int(refuted.sum()), None if missing(lower) else lower, None if missing(larger) else larger,
    )  # fmt: skip


def truth(verdicts: Sequence[Verdict]) -> Table:
    """Return verdicts as a table: whether printed ε are true, and printed scores reproduced."""
    columns = [
        Column("as in", lambda row: PROTOCOLS[row["protocol"]].title),
        Column("printed scores reproduced", lambda row: f"{row['met']} of {row['scores']}"),
        Column("is the printed ε true?", lambda row: row["answer"]),
    ]
    rows = [fields_of(verdict, "protocol", "met", "scores", "answer") for verdict in verdicts]
    note = (
        "reproduced: within two standard deviations of our seeds, after rounding as printed. Each "
        "ε is per node or record, as its statement says."
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
    rows = rows.assign(point=rows.groupby([*keys, *setting], dropna=False).ngroup())
    pool = pd.concat([rows, shelf.results.equal_runs(rows)], ignore_index=True)
    means = rows["point"].map(pool.groupby("point")[score].mean())
    scores = means.groupby([rows[name] for name in keys])
    low, high = scores.min(), scores.max()
    records = []
    for key, names in runs.groupby(keys, sort=True)["statement_id"]:
        held = [shelf.statements[name] for name in names.dropna().unique()]
        weakest = max(held, key=lambda entry: _weakness(entry.epsilon_proved))
        bounds = [entry.audit.epsilon_lower for entry in held if entry.audit is not None]
        refuted = any(entry.status == "refuted" for entry in held)
        private = weakest.status != "not_private"
        records.append(dict(zip(keys, key, strict=True)) | {
            "low": low.get(key), "high": high.get(key),
            "statement": weakest.statement_id, "private": private,
            "tone": "refuted" if refuted else tone(weakest),
            "unit": f": {unit(weakest.unit)}, {_RELATIONS.get(weakest.relation, weakest.relation)}"
                    if private else "",
            "claimed": max(entry.epsilon_published or 0 for entry in held) or None,
            "proved": weakest.epsilon_proved,
            "together": max((entry.epsilon_all_runs for entry in held), key=_weakness),
            "shown": max(bounds, default=None), "runs": len(names),
        })  # fmt: skip
    frame = pd.DataFrame(records)
    if len(frame):  # at one ε of one unit the best score first
        order = frame.assign(
            public=~frame["private"].astype(bool), score=-frame["high"].astype(float).fillna(-1)
        ).sort_values(["dataset", "public", "unit", "epsilon", "score"], kind="stable")
        frame = frame.loc[order.index]
    called = [] if method else [Column("method", lambda row: shelf.results.title(row["method"]))]
    columns = [
        Column("dataset", lambda row: row["dataset"]),
        *called,
        Column("scenario", lambda row: f"{SCENARIOS[row['scenario']].called}{row['unit']}",
               under=not method),
        Column("protocol", lambda row: row["protocol"]),
        Column("ε asked", lambda row: number(row["epsilon"])),
        Column("micro-F1" if score == "test_micro_f1" else "accuracy", lambda row: Cell(
            _range(row), accuracy=(row["dataset"], row["high"]))),
        Column("ε proved", lambda row: Cell(
            _said(row["proved"], budget, "none") if row["private"] else "no DP",
            row["statement"], row["tone"])),
        Column("ε claimed", lambda row: _said(row["claimed"], budget)),
        Column("all runs of a job", lambda row: _said(
            row["together"], budget, "none" if row["private"] else NOTHING)),
        Column("an attack shows", lambda row: _said(row["shown"], lambda e: f"> {bound(e)}")),
        Column("runs", lambda row: number(row["runs"])),
    ]  # fmt: skip
    note = (
        "ε proved is that of one run with settings fixed in advance, at its largest; all runs of a "
        "job: of all its seeds and the settings that it compared, at its largest; several jobs of "
        "a row cost more together. Both are rounded up. Scores are means over the seeds, from the "
        "lowest to the highest of all settings."
    )
    return Table("All privacy guarantees", frame, columns, notes=(note,), panel="dataset")


_RELATIONS = {"replace": "replaced", "add_remove": "added or removed", "zero_out": "emptied"}


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
    for entry in held:
        if entry.selection.n_configs > 1:
            text = f"{entry.selection.n_configs} by {entry.selection.data}; {entry.selection.cost}"
            choices.setdefault(text, set()).add(
                f"{shelf.results.title(entry.method)}, {PROTOCOLS[entry.protocol].title}"
            )
    texts = [
        ("Seeds", f"{_several(rows['seed'])}; means and standard deviations (n - 1) are over them"),
        *_settings(rows, shelf.results.title),
        *(("Chosen among", f"{text} ({'; '.join(sorted(who))})") for text, who in choices.items()),
        ("δ", _several(rows.loc[_private(rows["epsilon"]), "delta"])),
        ("Noise", "; ".join(NOISE_SOURCES[name] for name in sorted(rows["noise_source"].unique()))),
        *(("Data", text) for text in sorted({entry.preprocessing for entry in held})),
        ("Device", _several(rows["device"])),
        ("Version", ", ".join(sorted({entry.package_version for entry in held}))),
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


def _settings(rows: pd.DataFrame, title: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return (heading, values) of the settings that all methods share, and of those of each; of
    chosen settings, the chosen values."""
    values: dict[str, dict[str, str]] = {}
    for method, group in rows[rows["selected"].fillna(True).astype(bool)].groupby("method"):
        known: dict[str, set[str]] = {}
        for text in group["settings"].dropna().unique():
            for name, value in json.loads(text).items():
                known.setdefault(words(name), set()).add(said(value))
        values[title(method)] = {name: _several(pd.Series(sorted(held)))
                                 for name, held in sorted(known.items())}  # fmt: skip
    shared = set.intersection(*(set(held.items()) for held in values.values())) if values else set()
    lists = {"all methods": sorted(shared)} if len(values) > 1 else {}
    lists |= {name: [item for item in held.items() if len(values) == 1 or item not in shared]
              for name, held in values.items()}  # fmt: skip
    return [(f"Settings of {name}", "; ".join(map(" ".join, held)))
            for name, held in lists.items()]  # fmt: skip


def _several(values: pd.Series, most: int = 12) -> str:
    known = sorted(values.dropna().unique())
    enumeration = ", ".join(number(value) if isinstance(value, int | float) else str(value)
                       for value in known[:most])  # fmt: skip
    return f"{enumeration} and {len(known) - most} more" if len(known) > most else enumeration
