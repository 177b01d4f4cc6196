"""Claims of a source: a rule reads rows and decides whether each claim holds.

The claims are in the CSV that the study file lists as ``published: {claims: …}``: an ``id``, the
claim, ``where`` it stands in the source, the ``data`` that it is about, and the printed value, if
it has one. ``studies/<study>/claims.py`` ends with ``CLAIMS``, a rule for every id. A run that
differs from what the source speaks of, in data, network, settings or protocol, decides nothing
about it. A rule with a ``question`` answers a question of this project, which no source is held to.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from private_graphs.core.errors import UserError
from private_graphs.core.files import write_text
from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.report.results import Results
from private_graphs.report.table import csv
from private_graphs.report.words import missing, number
from private_graphs.running.catalog import claims_module
from private_graphs.running.exhibit import Cell, Column, Table
from private_graphs.running.study import Study

PUBLISHED = "claims"
"""Name of the published claims in a study file."""
CONFIDENCE = 0.95
VERDICTS = {
    "holds": "holds", "fails": "fails", "undecided": "inconclusive", "other_data": "other data",
    "other_network": "other network", "not_printed": "settings not printed",
    "not_asked": "not asked", "not_run": "not run",
}  # fmt: skip
"""Verdicts, with their words for readers."""
ANSWERS = {"holds": "yes", "fails": "no"}
"""Words for the first two as answers to questions."""
SOURCES = {"text": "What the text says", "project": "What we asked"}
"""Sources of a verdict's claim, with their headings."""
COLUMNS = ("id", "source", "claim", "printed", "protocol", "measured", "low", "high", "verdict",
           "command")  # fmt: skip
_WHOLE = "full"
"""Scale with the networks of the papers."""


@dataclass(frozen=True)
class Measured:
    """Measurement of a claim, with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Place:
    """Graph and protocol under which a claim is tested."""

    said: Mapping[str, Any]
    """Published row of the claim: dataset, value, and other columns; of a question its ``at``."""
    dataset: str
    protocol: str
    """Protocol; empty for a claim that no run decides."""


@dataclass(frozen=True)
class Claim:
    """A claim of a source, or a question about it: the measurement, and the bounds within which
    the claim holds, or the answer is yes."""

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
    about: Literal["scores", "prices"] = "scores"
    """``prices``: ε, δ or noise, which are the same on other data and with smaller networks."""
    not_printed: str = ""
    """Settings that it depends on and the source does not print: a run that chose them decides
    nothing about what is printed."""
    question: str = ""
    """Question of this project, which has no published row."""
    at: Mapping[str, Any] = field(default_factory=dict)
    """Of a question: values that the rule reads, such as ``dataset`` and ``value``."""

    @property
    def source(self) -> str:
        """One of ``SOURCES``."""
        return "project" if self.question else "text"

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
    values = [value, *of_seeds]
    if len(values) < 3:
        return Measured(value, -math.inf, math.inf)
    return Measured(value, float(min(values)), float(max(values)))


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
    bounds = [
        [(interval(part, level / len(panels)), interval(part, level / len(parts)))
         for part in map(list, parts)]
        for parts in panels
    ]  # fmt: skip
    if not bounds or any(None in pair for parts in bounds for pair in parts) or not all(bounds):
        return None
    return Measured(
        max(min(all_.value for all_, _ in parts) for parts in bounds),
        max(min(all_.low for all_, _ in parts) for parts in bounds),
        max(min(one.high for _, one in parts) for parts in bounds),
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
    above = (interval(frame["test_micro_f1"] - frame["majority_micro_f1"]) for frame in runs)
    return any(gain is not None and gain.low > 0 for gain in above)


def exact(value: float | None, tolerance: float = 0.0) -> Measured | None:
    """Return a number that is no estimate; ``tolerance`` is that of numbers read off a picture."""
    if missing(value):
        return None
    return Measured(float(value), float(value - tolerance), float(value + tolerance))


def shown_to_proved(statement: Mapping[str, Any]) -> Measured:
    """Return the interval of a statement's ε: from the attack's lower bound to the proved ε."""
    lower = (statement["audit"] or {"epsilon_lower": 0.0})["epsilon_lower"]
    proved = math.inf if statement["epsilon_proved"] is None else statement["epsilon_proved"]
    return Measured(lower if math.isinf(proved) else proved, lower, proved)


def verdict(measured: Measured | None, least: float, most: float) -> str:
    """Return one of ``VERDICTS``: whether all, none or part of the interval is in bounds."""
    if measured is None:
        return "not_run"
    if least <= measured.low and measured.high <= most:
        return "holds"
    return "fails" if measured.high < least or measured.low > most else "undecided"


def claims_of(study_id: str) -> tuple[Claim, ...]:
    """Return the claims of a study: those of ``studies/<study_id>/claims.py``."""
    module = claims_module(study_id)
    return importlib.import_module(module).CLAIMS if module else ()


def judged(claims: Sequence[Claim], results: Results) -> pd.DataFrame:
    """Return ``COLUMNS`` and ``because``: one row per claim, graph and protocol.

    A claim that names no graph is tested on each available graph, with the id ``<id>.<graph>``.

    Raises:
        UserError: rules and published claims do not match, or a published claim does not say where
            it stands or which data it is about.
    """
    published = {row["id"]: row for row in results.published(PUBLISHED).to_dict("records")}
    _check(claims, published, results.study.id)
    at = _at_places(results)
    rows = [
        row
        for claim in claims
        for row in _rows(claim, claim.at if claim.question else published[claim.id], results, at)
    ]
    return pd.DataFrame(rows, columns=[*COLUMNS, "because"])


def _check(claims: Sequence[Claim], published: Mapping[str, Mapping[str, Any]], study: str) -> None:
    where = f"studies/*/published: claims of {study}: "
    strays = sorted(set(published) ^ {claim.id for claim in claims if not claim.question})
    if strays:
        raise UserError(
            f"{where}{', '.join(strays)} has a rule or is published, not both; expected a rule in "
            "studies/<study>/claims.py for every id; a rule that answers a question of ours has a "
            "question and no published row"
        )
    for claim in claims:
        if claim.question:
            if not claim.question.endswith("?"):
                raise UserError(f"{where}{claim.id}: {claim.question!r}; expected a question")
            continue
        row = published[claim.id]
        if missing(row.get("where")) or not row["where"]:
            raise UserError(
                f"{where}{claim.id} has no where; expected the section, table or figure of the "
                "source that says it, or a question in claims.py in place of the published row"
            )
        if _is_measured(claim) and not _data(row):
            raise UserError(
                f"{where}{claim.id} has no data; expected the names of the datasets that the "
                "source speaks of there: a run on others decides nothing about it"
            )


def _is_measured(claim: Claim) -> bool:
    """Return whether runs on data decide it: it is neither a calculation nor about prices."""
    return any(claim.protocols) and claim.about == "scores"


def _data(row: Mapping[str, Any]) -> set[str]:
    """Return the datasets that a claim is about."""
    named = row.get("data"), row.get("dataset")
    return {name for text in named if not missing(text) for name in text.split()}


def _elsewhere(claim: Claim, case: Place, results: Results) -> str:
    """Return the verdict on a run that is not what the source speaks of; empty if it is.

    A question without a printed value is about the runs themselves.
    """
    if not case.protocol or claim.question and missing(case.said.get("value")):
        return ""
    if PROTOCOLS[case.protocol].calibration == "proved":
        return "not_asked"  # the noise is not the source's, but made for a proof
    if claim.about == "prices":
        return ""
    graphs = {case.dataset} if case.dataset else set(results.runs["dataset"])
    if not graphs <= _data(case.said):
        return "other_data"
    if _scale(results) != _WHOLE:
        return "other_network"
    return "not_printed" if claim.not_printed else ""


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
    claim: Claim, row: Mapping[str, Any], results: Results, at: Callable[[str, str], Results]
) -> Iterator[dict[str, Any]]:
    printed = None if missing(row.get("value")) else row["value"]
    named = None if missing(row.get("dataset")) else row["dataset"]
    measurements = [
        (dataset, name, claim.measure(at(dataset, name), Place(row, dataset, name)))
        for dataset in ([named or ""] if named or not claim.per_graph else results.datasets)
        for name in claim.protocols
    ]
    if not named:  # only graphs with runs that decide it are named
        nowhere = [("", name, None) for name in claim.protocols]
        measurements = [entry for entry in measurements if entry[2]] or nowhere
    for dataset, protocol, measured in measurements:
        command = f"snakemake --cores all --config scale={_scale(results)}"
        option = f" exhibits={results.study.id}.{claim.exhibit}" if claim.exhibit else ""
        graph = dataset or ",".join(_requested(results.study, claim.exhibit))
        graph = f" datasets={graph}" if graph and option else ""
        decided = verdict(measured, *claim.bounds(printed))
        if measured:
            case = Place(row, dataset, protocol)
            decided = _elsewhere(claim, case, at(dataset, protocol)) or decided
        yield {
            "id": claim.id if named or not dataset else f"{claim.id}.{dataset}",
            "source": claim.source, "claim": claim.question or row["claim"],
            "printed": printed, "protocol": protocol,
            "measured": measured and measured.value,
            "low": measured and measured.low, "high": measured and measured.high,
            "verdict": decided,
            "command": f"{command}{option}{graph}", "because": _because(claim),
        }  # fmt: skip


def _requested(study: Study, exhibit: str) -> list[str]:
    """Return the datasets without whose names nothing of an exhibit is made."""
    from private_graphs.running.catalog import (
        exhibits_by_name,  # which imports the modules of claims
    )

    return study.requested(exhibits_by_name(study.id)[exhibit].groups) if exhibit else []


def _because(claim: Claim) -> str:
    """Return the reason of a claim, with the settings that its source does not print."""
    absent = f"Not printed: {claim.not_printed}." if claim.not_printed else ""
    return " ".join(filter(None, (claim.because, absent)))


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
    because = {claim.id: _because(claim) for claim in claims}
    return frame.assign(because=[because.get(name.partition(".")[0], "") for name in frame["id"]])


def claims_table(frame: pd.DataFrame, title: str) -> Table:
    """Return verdicts for display: a row per claim, a column per protocol; what the text says and
    what this project asked are two panels."""
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
        "choice, what an attack shows and what is proved of an ε, or the tolerance of numbers read "
        "off a picture. holds, fails: all or nothing "
        "of it is what the claim allows; inconclusive: the interval overlaps. no bound: of one "
        "run, or of runs that do not meet the premise of the claim: models that learned nothing, "
        "or that are not of equal accuracy."
    )
    elsewhere = (
        "other data, other network, settings not printed: the run is not what the text speaks of, "
        "and neither confirms nor refutes it. not asked: the text says nothing of corrected noise."
    )
    lines = frame.drop_duplicates("id").drop(columns="protocol")  # a row covers all protocols
    lines = lines.assign(heading=lines["source"].map(SOURCES))
    return Table(
        title, frame[list(COLUMNS)], columns, (note, elsewhere), panel="heading", lines=lines,
        stacked=True,
    )  # fmt: skip


def reasons(frame: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield (claim, why it is an artefact or was not run), with links relative to docs/."""
    for row in frame[frame["because"] != ""].drop_duplicates("claim").itertuples():
        yield row.claim, row.because


def _graph(row: dict[str, Any]) -> str:
    name = row["id"].partition(".")[2]
    return f" ({name})" if name else ""


def _found(row: dict[str, Any] | None) -> Cell:
    """Format verdict and measurement; only what the text says can be refuted."""
    if row is None:
        return Cell()
    is_question = row["source"] == "project"
    word = {**VERDICTS, **(ANSWERS if is_question else {})}[row["verdict"]]
    if missing(row["measured"]):
        return Cell(word)
    value, low, high = (_short(row[name]) for name in ("measured", "low", "high"))
    around = "" if row["low"] == row["high"] else f" [{low}, {high}]"
    if math.isinf(row["low"]):
        around = " [no bound]"
    refuted = row["verdict"] == "fails" and not is_question
    return Cell(f"{word}: {value}{around}", tone="refuted" if refuted else "")


def _short(value: float) -> str:
    """Format with at most three decimals, fewer for large numbers."""
    whole = math.isinf(value) or value == round(value)
    text = number(value) if whole else number(value, 1 if abs(value) > 10 else 3)
    return "0.000" if text == "-0.000" else text
