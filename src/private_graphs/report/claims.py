"""Claims of a source: a rule reads rows and decides whether each claim holds.

The claims are in the CSV that the study file lists as ``published: {claims: …}``: an ``id``, the
claim, and the printed value, if it has one. ``studies/<study>/claims.py`` ends with ``CLAIMS``, a
rule for every id.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from private_graphs.core.errors import UserError
from private_graphs.core.files import write_text
from private_graphs.core.protocols import PROTOCOLS
from private_graphs.core.study import Study
from private_graphs.report.exhibit import Cell, Column, Table
from private_graphs.report.results import Results
from private_graphs.report.table import csv
from private_graphs.report.words import missing, number

PUBLISHED = "claims"
"""Name of the published claims in a study file."""
CONFIDENCE = 0.95
VERDICTS = {"holds": "holds", "fails": "fails", "undecided": "inconclusive", "not_run": "not run"}
"""Verdicts, with their words for readers."""
COLUMNS = ("id", "claim", "printed", "protocol", "measured", "low", "high", "verdict", "command")


@dataclass(frozen=True)
class Measured:
    """Measurement of a claim, with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Place:
    """Graph and protocol under which a claim is tested."""

    said: dict[str, Any]
    """Published row of the claim: dataset, value, and other columns."""
    dataset: str
    protocol: str
    """Protocol; empty for a claim that no run decides."""


@dataclass(frozen=True)
class Claim:
    """A claim of a source: the measurement, and the bounds within which the claim holds."""

    id: str
    """Identifier of its published row."""
    measure: Callable[[Results, Place], Measured | None]
    """Callable: runs on one graph under one protocol → measurement; None if no run decides it."""
    least: float = -math.inf
    most: float = math.inf
    within: float | None = None
    """Alternative to both bounds: the largest distance from the printed value."""
    exhibit: str = ""
    """Exhibit that shows it and makes the command."""
    protocols: Sequence[str] = tuple(PROTOCOLS)
    per_graph: bool = True
    """Whether it is tested on every graph, if the claim names none."""
    because: str = ""
    """Why it is an artefact, or was not run: a sentence, with a link to the evidence."""

    def bounds(self, printed: float | None) -> tuple[float, float]:
        """Return the bounds within which the claim holds."""
        if self.within is None:
            return self.least, self.most
        return printed - self.within, printed + self.within


def interval(values: Iterable[float], level: float = 1 - CONFIDENCE) -> Measured | None:
    """Return the mean over runs with Student's interval; all numbers for a single run."""
    known = np.array([value for value in values if not math.isnan(value)])
    if not len(known):
        return None
    mean = float(known.mean())
    if len(known) == 1:
        return Measured(mean, -math.inf, math.inf)
    quantile = stdtrit(len(known) - 1, 1 - level / 2)
    around = quantile * known.std(ddof=1) / len(known) ** 0.5
    return Measured(mean, mean - float(around), mean + float(around))


def correlation(values: Iterable[float], n: int) -> Measured | None:
    """Return the mean of correlations of ``n`` points each, with an interval inside [-1, 1].

    This is Student's 95 % interval on Fisher's scale, arctanh, where a correlation beyond 1 - 1/n
    is set to that: for few points, order alone proves little. A single correlation has the interval
    [-1, 1].
    """
    known = np.array([value for value in values if not math.isnan(value)])
    if not len(known):
        return None
    mean, most = float(known.mean()), 1 - 1 / n
    around = interval(np.arctanh(np.clip(known, -most, most)))
    return Measured(mean, min(mean, math.tanh(around.low)), max(mean, math.tanh(around.high)))


def choice(value: float, of_seeds: Iterable[float]) -> Measured:
    """Return a chosen setting and the range of single seeds' choices; all numbers for one seed."""
    found = [value, *of_seeds]
    if len(found) < 3:
        return Measured(value, -math.inf, math.inf)
    return Measured(value, float(min(found)), float(max(found)))


def lowest(parts: Sequence[Iterable[float]], level: float = 1 - CONFIDENCE) -> Measured | None:
    """Return the interval of the lowest of several differences, each given as values by run.

    For a claim that all are positive: that all are needs no correction; that one is below needs a
    correction for their number (Bonferroni). None if a part has no value.
    """
    return highest([parts], level) if parts else None


def highest(
    panels: Sequence[Sequence[Iterable[float]]], level: float = 1 - CONFIDENCE
) -> Measured | None:
    """Return the interval of the highest panel; a panel is as high as its lowest part.

    For a claim that all parts of some panel are positive: that one panel is needs a correction for
    the number of panels (Bonferroni); that none is needs no correction.
    """
    found = [
        [(interval(part, level / len(panels)), interval(part, level / len(parts)))
         for part in map(list, parts)]
        for parts in panels
    ]  # fmt: skip
    if not found or any(None in pair for parts in found for pair in parts) or not all(found):
        return None
    return Measured(
        max(min(all_.value for all_, _ in parts) for parts in found),
        max(min(all_.low for all_, _ in parts) for parts in found),
        max(min(one.high for _, one in parts) for parts in found),
    )


def provided(measured: Measured | None, premise: bool) -> Measured | None:
    """Return the measurement if the premise of its claim is met, else all numbers.

    A claim about models of equal accuracy does not apply to others, and "nothing changes" is true
    of any two models that learned nothing.
    """
    return Measured(measured.value, -math.inf, math.inf) if measured and not premise else measured


def alike(one: pd.Series, other: pd.Series, within: float) -> bool:
    """Return whether values by seed differ by at most ``within``, for the whole interval."""
    return verdict(interval((one - other).dropna()), -within, within) == "holds"


def learned(*runs: pd.DataFrame) -> bool:
    """Return whether some runs score above the majority class."""
    above = (interval(each["test_micro_f1"] - each["majority_micro_f1"]) for each in runs)
    return any(each is not None and each.low > 0 for each in above)


def exact(value: float | None) -> Measured | None:
    """Return a measurement with an interval of width zero."""
    return None if missing(value) else Measured(float(value), float(value), float(value))


def shown_to_proved(statement: Mapping[str, Any]) -> Measured:
    """Return the interval of a statement's ε: from the attack's lower bound to the proved ε."""
    shown = (statement["audit"] or {"epsilon_lower": 0.0})["epsilon_lower"]
    proved = math.inf if statement["epsilon_proved"] is None else statement["epsilon_proved"]
    return Measured(shown if math.isinf(proved) else proved, shown, proved)


def verdict(measured: Measured | None, least: float, most: float) -> str:
    """Return one of ``VERDICTS``: whether all, none or part of the interval is in bounds."""
    if measured is None:
        return "not_run"
    if least <= measured.low and measured.high <= most:
        return "holds"
    return "fails" if measured.high < least or measured.low > most else "undecided"


def judged(claims: Sequence[Claim], results: Results) -> pd.DataFrame:
    """Return ``COLUMNS`` and ``because``: one row per claim, graph and protocol.

    A claim that names no graph is tested on each available graph, with the id ``<id>.<graph>``.

    Raises:
        UserError: rules and published claims do not match.
    """
    said = {row["id"]: row for row in results.published(PUBLISHED).to_dict("records")}
    alone = sorted(set(said) ^ {claim.id for claim in claims})
    if alone:
        raise UserError(
            f"studies/*/published: claims of {results.study.id}: {', '.join(alone)} has a rule or "
            "is published, not both; expected a rule in studies/<study>/claims.py for every id"
        )
    at = _at_places(results)
    rows = [row for claim in claims for row in _rows(claim, said[claim.id], results, at)]
    return pd.DataFrame(rows, columns=[*COLUMNS, "because"])


def _at_places(results: Results) -> Callable[[str, str], Results]:
    """Return a function that selects the runs on one graph under one protocol.

    Without a graph it selects those on all graphs; without runs, the printed values.
    """
    runs, printed = results.runs, results.rows[results.rows["source"] == "published"]
    parts = dict(iter(runs.groupby(["dataset", "protocol"])))
    parts |= {("", name): part for name, part in runs.groupby("protocol")}
    return cache(
        lambda dataset, protocol: results.with_rows(parts.get((dataset, protocol), printed))
    )


def _rows(
    claim: Claim, said: dict[str, Any], results: Results, at: Callable[[str, str], Results]
) -> Iterator[dict[str, Any]]:
    printed = None if missing(said.get("value")) else said["value"]
    named = None if missing(said.get("dataset")) else said["dataset"]
    found = [
        (dataset, name, claim.measure(at(dataset, name), Place(said, dataset, name)))
        for dataset in ([named or ""] if named or not claim.per_graph else results.datasets)
        for name in claim.protocols
    ]
    if not named:  # only graphs with runs that decide it are named
        nowhere = [("", name, None) for name in claim.protocols]
        found = [each for each in found if each[2]] or nowhere
    for dataset, protocol, measured in found:
        command = f"snakemake --cores all --config scale={_scale(results)}"
        shown = f" exhibits={results.study.id}.{claim.exhibit}" if claim.exhibit else ""
        graph = dataset or ",".join(_requested(results.study, claim.exhibit))
        graph = f" datasets={graph}" if graph and shown else ""
        yield {
            "id": claim.id if named or not dataset else f"{claim.id}.{dataset}",
            "claim": said["claim"], "printed": printed, "protocol": protocol,
            "measured": measured and measured.value,
            "low": measured and measured.low, "high": measured and measured.high,
            "verdict": verdict(measured, *claim.bounds(printed)),
            "command": f"{command}{shown}{graph}", "because": claim.because,
        }  # fmt: skip


def _requested(study: Study, exhibit: str) -> list[str]:
    """Return the datasets without whose names nothing of an exhibit is made."""
    from private_graphs.studies import exhibits_by_name  # which imports the modules of claims

    return study.requested(exhibits_by_name(study.id)[exhibit].groups) if exhibit else []


def _scale(results: Results) -> str:
    return results.study.recorded_scale if results.scale == "recorded" else results.scale


def write_claims(claims: Sequence[Claim], results: Results, path: Path) -> Path:
    """Write the verdicts as CSV; return the path."""
    write_text(path, csv(judged(claims, results)[list(COLUMNS)]))
    return path


def read_claims(claims: Sequence[Claim], path: Path) -> pd.DataFrame:
    """Read the result of ``judged`` that ``write_claims`` wrote to ``path``."""
    numbers = dict.fromkeys(("printed", "measured", "low", "high"), [""])
    frame = pd.read_csv(path, keep_default_na=False, na_values=numbers)
    because = {claim.id: claim.because for claim in claims}
    return frame.assign(because=[because.get(name.partition(".")[0], "") for name in frame["id"]])


def claims_table(frame: pd.DataFrame, title: str) -> Table:
    """Return verdicts for display: a row per claim, a column per protocol."""
    at = {(row["id"], row["protocol"]): row for row in frame.to_dict("records")}
    protocols = [name for name in (*PROTOCOLS, "") if name in set(frame["protocol"])]
    columns = [
        Column("claim", lambda row: f"{row['claim']}{_graph(row)}"),
        Column("printed", lambda row: Cell(number(row["printed"]), tone="published")),
        *(
            Column(
                PROTOCOLS[name].title if name else "by calculation",
                lambda row, name=name: _found(at.get((row["id"], name))),
            )
            for name in protocols
        ),
    ]
    note = (
        "In brackets: the 95 % interval of the mean over the seeds, the range over the seeds of a "
        "choice, or what an attack shows and what is proved of an ε. holds, fails: all or nothing "
        "of it is what the claim allows; inconclusive: the interval overlaps. no bound: of one "
        "run, or of runs that do not meet the premise of the claim: models that learned nothing, "
        "or that are not of equal accuracy."
    )
    lines = frame.drop_duplicates("id").drop(columns="protocol")  # a row covers all protocols
    return Table(title, frame[list(COLUMNS)], columns, (note,), lines=lines, stacked=True)


def reasons(frame: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield (claim, why it is an artefact or was not run), with links relative to docs/."""
    for row in frame[frame["because"] != ""].drop_duplicates("claim").itertuples():
        yield row.claim, row.because


def _graph(row: dict[str, Any]) -> str:
    name = row["id"].partition(".")[2]
    return f" ({name})" if name else ""


def _found(row: dict[str, Any] | None) -> Cell:
    """Format verdict and measurement."""
    if row is None or missing(row["measured"]):
        return Cell() if row is None else Cell(VERDICTS[row["verdict"]])
    value, low, high = (_short(row[name]) for name in ("measured", "low", "high"))
    around = "" if row["low"] == row["high"] else f" [{low}, {high}]"
    if math.isinf(row["low"]):
        around = " [no bound]"
    return Cell(
        f"{VERDICTS[row['verdict']]}: {value}{around}",
        tone="refuted" if row["verdict"] == "fails" else "",
    )


def _short(value: float) -> str:
    """Format with at most three decimals, fewer for large numbers."""
    whole = math.isinf(value) or value == round(value)
    text = number(value) if whole else number(value, 1 if abs(value) > 10 else 3)
    return "0.000" if text == "-0.000" else text
