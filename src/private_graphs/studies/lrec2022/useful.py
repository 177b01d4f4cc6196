"""Table 1 compared: published and trained GCNs, the best proved methods, public data alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from private_graphs.core.errors import counted
from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.report.columns import beside, plain
from private_graphs.report.words import (
    POOLED_WITH,
    bound,
    budget,
    guarantee,
    missing,
    number,
    printed,
    privacy_notes,
    score,
)
from private_graphs.running import exhibit
from private_graphs.studies.lrec2022.points import (
    chosen,
    compose,
    of_statement,
    printed_gcns,
    proved_points,
    public_row,
    trained_gcns,
    verdict,
)
from private_graphs.tasks.tasks import SCENARIOS

EPSILONS = (1.0, 2.0)
"""Budgets for which the paper prints scores on every dataset."""
WHERE = {name: SCENARIOS[name].called for name in ("text", "graph", "edges")}
VERDICTS = {"above": "beats it", "even": "even", "below": "below it"}
LINE = ["dataset", "features", "source"]
NOTES = (
    "published: the highest score that the paper prints for this ε, of either optimizer, full "
    "graph or splits.",
    "Every other choice (optimizer and splits of a GCN; the method of a best row) is by mean "
    "validation micro-F1 at the ε of the column, never by test scores. Class sums also fit the "
    "public labels: their validation score is that of the release alone.",
    "In brackets ε of all runs that the choice looked at, with its δ where it is another.",
    "public data: whether a best row beats the row that reads nothing private in the same "
    "scenario, by more than a standard error of the difference.",
    "links: training texts and labels are public there, and only the links are private: those "
    "rows do not protect what the others do.",
    "to published: this row minus published.",
)


def build(results: Any) -> list[exhibit.Block]:
    """Return a chart of all sources, a facet per dataset, and their numbers with the proved ε."""
    frame = _compare(results)
    facets = frame["dataset"].map(results.title_of)
    same = ~frame["epsilon"].isin(EPSILONS)  # one dot if ε makes no difference
    names = [*(f"ε = {number(epsilon)}" for epsilon in EPSILONS), "no DP, or nothing private"]
    line = ("ε = " + frame["asked"].map(number)).mask(same, names[-1])
    drawn = frame.assign(line=pd.Categorical(line, names), facet=facets)
    chart = exhibit.Chart(
        "Beside Table 1", drawn[~same | (drawn["asked"] == EPSILONS[0])], x="source", line="line",
        column="facet", categories=True, y_label="test micro-F1",
    )  # fmt: skip
    return [chart, _table(frame)]


def _compare(results: Any) -> pd.DataFrame:
    """Return a row per dataset, source and requested ε."""
    points = proved_points(results)
    points = points[points["all_labels"]]
    gcns = {"printed": printed_gcns(results), "trained": trained_gcns(results)}
    rows = []
    for (dataset, features), group in points.groupby(["dataset", "features"], sort=False):
        key = {"dataset": dataset, "features": features}
        printed = gcns["printed"].query("dataset == @dataset")
        trained = gcns["trained"].query("dataset == @dataset and features == @features")
        for epsilon in EPSILONS:
            here = list(_sources(results, group, printed, trained, epsilon))
            best = next((row["mean"] for row in here if row["source"] == "published"), None)
            for row in here:
                has_gap = best is not None and row["source"] != "published"
                extra = {"asked": epsilon, "to_published": row["mean"] - best if has_gap else None}
                rows.append(row | key | extra)
    return pd.DataFrame(rows, columns=list(COLUMNS))


HEADLINE, OURS = "graph", "class_sums"
"""Scenario and method of the first page: training documents are private, with their links; those to
be classified and the links among these are public, as the paper's networks read them. One method is
named and nothing is chosen: a choice would cost ε, and its scores could fall as ε grows."""
AT = EPSILONS[-1]
WORDS = "word_sums"
"""Method of documents whose words alone are read, where none is public."""


def answer(results: Any) -> exhibit.StudyAnswer | None:
    """Return whether the printed ε is true, and what to use instead, at one ε."""
    frame = _compare(results)
    frame = frame[frame["asked"] == AT]
    by_source = frame.set_index(["source", "dataset"])["mean"].unstack()
    order = [*by_source.loc["published"].dropna().index] if "published" in by_source.index else []
    scores = {labels: _with_labels(results, order, labels) for labels in (False, True)}
    if not order or not all(scores.values()):
        return None
    titles = {item["name"]: item["title"].partition(" (")[0] for item in results.statistics}
    names = [titles[name].partition(" ")[0] for name in order]

    def row(source: str) -> list[float]:
        return [float(value) for value in by_source.reindex([source])[order].iloc[0]]

    sums, public = scores[False]
    words = _of_words(results, order)
    ours_labelled, alone_labelled = scores[True]
    labels = number(max(proved_points(results)["validation_nodes"]))
    trained = frame[frame["source"] == "released GCN"]
    lower = trained["audit_epsilon_lower"].max()
    seen = {} if missing(lower) else {"attack": bound(lower)}
    epsilon = f"ε = {number(AT)}"
    struck = [
        exhibit.Cell(_two(value), tone="refuted" if seen else "") for value in row("published")
    ]
    best = [exhibit.Cell(_two(value), tone="best") for value in sums]
    return exhibit.StudyAnswer(
        question=f"LREC 2022 prints {epsilon}. Is that true?",
        answer="No." if seen else "Not proved.",
        because=[
            "The authors’ code leaves out a step (clipping)."
            + (f" An attack on it shows ε > {seen['attack']} (99.9 %)." if seen else ""),
            f"With clipping and enough noise for a true {epsilon}, their network "
            f"{_against(row('sound GCN'), row('majority class'))} always naming the largest class:",
        ],
        printed=exhibit.Comparison(names, [
            (f"printed at “{epsilon}”", struck),
            (f"their network, true {epsilon}", _cells(row("sound GCN"))),
            ("always the largest class", _cells(row("majority class"))),
        ]),
        method=OURS,
        protects="One noisy sum per class, nothing tuned. It protects a document with its label "
        f"and all its links: {epsilon} is proved." + (
            f" For your own documents, none of which is public, it is {WORDS}: "
            f"{_named(words, names)}." if words else ""
        ),
        instead=exhibit.Comparison(names, [
            (f"{OURS}, no public label", best),
            ("public data alone, no label", _cells(public)),
            (f"{OURS}, {labels} public labels", _cells(ours_labelled)),
            (f"public data alone, {labels} labels", _cells(alone_labelled)),
        ]),
        worth=f"Worth it when few labels are public: with {labels} of them the gain is "
        f"{_span(ours_labelled, alone_labelled)}, without any {_span(sums, public)}.",
        numbers={
            "sums": _named(ours_labelled, names), "public": _listed(alone_labelled),
            "sums_unlabelled": _named(sums, names), "public_unlabelled": _listed(public), **seen,
        },
    )  # fmt: skip


def _of_words(results: Any, datasets: Sequence[str]) -> list[float]:
    """Return mean scores of documents by their words alone, without public labels; or none."""
    runs = results.runs
    runs = runs[(runs["group"] == "frontier") & (runs["method"] == WORDS) & (runs["epsilon"] == AT)
                & (runs["scenario"] == "text") & (runs["validation_labels"] == 0)]  # fmt: skip
    means = runs.groupby("dataset")["test_accuracy"].mean().reindex(datasets)
    return [] if means.isna().any() else means.tolist()


def _two(value: float) -> str:
    """Return a score as pages print it: two decimals, no zero before the point."""
    return exhibit.NOTHING if missing(value) else f"{value:.2f}".removeprefix("0")


def _cells(values: Sequence[float]) -> list[exhibit.Cell]:
    return [exhibit.Cell(_two(value)) for value in values]


def _listed(values: Sequence[float]) -> str:
    return ", ".join(map(_two, values))


def _named(values: Sequence[float], names: Sequence[str]) -> str:
    return ", ".join(f"{_two(value)} {name}" for value, name in zip(values, names, strict=True))


def _span(scores: Sequence[float], rivals: Sequence[float]) -> str:
    """Return the gain over other scores, from the smallest to the largest, in points."""
    gains = [round(value, 2) - round(rival, 2) for value, rival in zip(scores, rivals, strict=True)]
    low, high = (f"{100 * gain:.0f}" for gain in (min(gains), max(gains)))
    return f"{low} points" if low == high else f"{low} to {high} points"


def _against(values: Sequence[float], rivals: Sequence[float]) -> str:
    """Return how scores compare with others, where one point is no difference."""
    better = sum(value > rival + 0.01 for value, rival in zip(values, rivals, strict=True))
    if better:
        return f"is on {better} of {len(values)} graphs better than"
    return "is no better than"


def _with_labels(
    results: Any, order: Sequence[str], all_labels: bool
) -> tuple[list[float], list[float]] | None:
    """Return the scores of ``OURS`` and of public data alone by dataset, with all public labels or
    with none; None where one of them was not run."""
    points = proved_points(results)
    points = points[points["scenario"] == HEADLINE]
    points = points[points["all_labels"] if all_labels else points["validation_labels"] == 0]
    private_means, public_means = [], []
    for name in order:
        group = points[points["dataset"] == name]
        row = group[(group["method"] == OURS) & (group["epsilon"] == AT)]
        public = None if group.empty else public_row(group, group["validation_labels"].iloc[0])
        if row.empty or public is None:
            return None
        private_means.append(float(row.iloc[0]["mean"]))
        public_means.append(float(public["mean"]))
    return private_means, public_means


def _sources(
    results: Any, points: pd.DataFrame, printed: pd.DataFrame, trained: pd.DataFrame, epsilon: float
) -> Iterator[dict[str, Any]]:
    """Yield a row per source: the best printed, trained and proved scores, and public data."""
    yield from _printed(printed, epsilon, "published")
    for protocol in PROTOCOLS:
        yield from _trained(results, trained, protocol, epsilon, f"{protocol} GCN")
    for name, group in points.groupby("scenario", sort=False):
        public = public_row(group, group["validation_labels"].iloc[0])
        fair = group[group["private"] & (group["epsilon"] == epsilon)]
        best = fair[fair["method"] == chosen(group).get(epsilon)]
        for row in best.to_dict("records"):
            yield row | {
                "source": f"best proved, {WHERE[name]}", "against_public": verdict(row, public),
            } | _compared(results, fair)  # fmt: skip
        if public is not None:
            yield public | {"source": f"nothing private, {WHERE[name]}"}
    yield {"source": "majority class", "title": "majority class", "mean": points["majority"].mean()}
    yield from _printed(printed, math.inf, "published, no DP")
    yield from _trained(results, trained, "sound", math.inf, "GCN, no DP")


def _printed(printed: pd.DataFrame, epsilon: float, source: str) -> Iterator[dict[str, Any]]:
    rows = printed[printed["epsilon"] == epsilon]
    status = "published_only" if math.isfinite(epsilon) else None
    for row in rows.nlargest(1, "published").to_dict("records"):
        yield {"source": source, "title": row["title"], "mean": row["published"],
               "epsilon": epsilon, "status": status}  # fmt: skip


def _trained(
    results: Any, trained: pd.DataFrame, protocol: str, epsilon: float, source: str
) -> Iterator[dict[str, Any]]:
    """Yield the GCN with the highest mean validation micro-F1; test scores are not used."""
    rows = trained[(trained["protocol"] == protocol) & (trained["epsilon"] == epsilon)]
    best = rows.loc[[rows["validation"].round(12).idxmax()]] if len(rows) else rows
    for row in best.to_dict("records"):
        together = _compared(results, rows) if math.isfinite(epsilon) else {}
        yield row | {"source": source, "method": "gcn"} | together


def _compared(results: Any, rows: pd.DataFrame) -> dict[str, Any]:
    """Return the joint guarantee of all runs among which a choice from ``rows`` was made."""
    parts = [of_statement(results.statement(name)) for name in rows["statement_id"]]
    together = compose(parts)
    return {"epsilon_all_runs": together.epsilon, "delta_all_runs": together.delta,
            "runs_compared": together.runs, "delta": parts[0].delta}  # fmt: skip


COLUMNS = (
    *LINE, "asked", "method", "title", "scenario", "unit", "relation", "inference", "delta",
    "status", "vacuous", "mean", "std", "n", "validation", "epsilon", "epsilon_claimed",
    "epsilon_proved", "audit_epsilon_lower", "epsilon_all_runs", "delta_all_runs",
    "runs_compared", "to_published", "against_public", "statement_id", POOLED_WITH,
)  # fmt: skip
"""``asked`` is the ε at which a row is compared, ``epsilon`` its own; ``epsilon_all_runs``
covers all ``runs_compared`` among which the row was chosen, at ``delta_all_runs``."""


def _table(frame: pd.DataFrame) -> exhibit.Table:
    """Return the numbers: a row per source, columns by ε."""
    under, words = ("to published", "public data"), "ε = {:g}".format
    columns = plain("dataset", "source")
    columns += beside(frame, LINE, "asked", EPSILONS, SHOWN, under, words)
    title = "Test micro-F1: mean ± standard deviation over the draws, and what is proved"
    used = [name for name in WHERE if (frame["scenario"] == name).any()]
    scenarios = (f"{WHERE[name]}: {SCENARIOS[name].title}." for name in used)
    notes = (*NOTES, *scenarios, *privacy_notes(frame))
    return exhibit.Table(title, frame, columns, notes, "dataset", frame.drop_duplicates(LINE))


def _score(row: dict[str, Any]) -> exhibit.Cell:
    return printed(row["mean"]) if row["source"].startswith("published") else score(row)


def _privacy(row: dict[str, Any]) -> exhibit.Cell:
    """Format the proved ε of one run, and in brackets that of all compared runs."""
    if row["source"] == "published":
        return exhibit.Cell(f"claimed {number(row['epsilon'])}", tone="published")
    cell = guarantee(row)
    if missing(row["runs_compared"]) or missing(row["epsilon_all_runs"]):
        return cell
    text = f"all {counted(int(row['runs_compared']), 'run')}: {budget(row['epsilon_all_runs'])}"
    if not math.isclose(row["delta"], row["delta_all_runs"]):
        text += f" at δ = {number(row['delta_all_runs'])}"
    return replace(cell, text=f"{cell.text} [{text}]")


SHOWN = {
    "method": lambda row: row["title"],
    "F1": _score,
    "ε proved": _privacy,
    "to published": lambda row: (
        exhibit.Cell() if missing(gain := row["to_published"]) else f"{gain:+.3f}"
    ),
    "public data": lambda row: VERDICTS.get(row["against_public"], exhibit.Cell()),
}
"""Columns of every ε."""


EXHIBIT = exhibit.Exhibit(
    "useful",
    "Private and useful, beside Table 1",
    groups=("frontier", "table1"),
    build=build,
    answer=answer,
    meaning="Which proved methods beat the published scores, and which beat public data alone?",
)
