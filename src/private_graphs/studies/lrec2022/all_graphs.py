"""All graphs at ε = 1: what is printed, what is proved, and what public data alone give."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pandas as pd

from private_graphs.report.columns import plain
from private_graphs.report.words import missing, number, printed, score, tone
from private_graphs.running.exhibit import Block, Cell, Chart, Column, Exhibit, Table
from private_graphs.studies.lrec2022.points import printed_gcns, proved_points, trained_gcns

EPSILON = 1.0
METHODS = {
    "text": "class_sums", "graph": "class_sums", "lists": "list_means", "edges": "label_counts",
}  # fmt: skip
"""Scenario -> the proved method that is shown, named in advance and chosen by no score."""
PROTECTS = {
    "text": "a document, links unread", "graph": "a node with all its edges",
    "lists": "a node with its own list", "edges": "one edge",
}  # fmt: skip
LABELS = (0.0, 20.0, 100.0)
ALL = "all"
PUBLIC = {"text": "public_only", "graph": "public_only", "edges": "text_only"}
NOTES = (
    "± the standard error over the draws of the noise, then that of a test set of its size: draws "
    "share the test nodes.",
    "printed: the highest score that LREC 2022 prints for ε = 1 on this graph; an attack disproves "
    "the ε of the authors’ code, and their unit is a node with its text and label. On the other "
    "graphs no paper recorded here prints a score at ε = 1 as a number; what newer papers print "
    "has a page of its own.",
    "proved: without any public label, but at edge level, where all training labels are public. "
    "Do not compare rows: they protect different things.",
    "public data alone: by number of known public labels; at edge level, texts alone.",
    "* the proved score is above public data alone with 20 labels (at edge level: texts alone) by "
    "more than two standard errors of the draws.",
)


def build(results: Any) -> list[Block]:
    """Return a chart and a table, a row per graph and protected unit."""
    groups = ",".join(group.rpartition(".")[2] for group in GROUPS[1:])
    mask = results.rows["method"].isin([*METHODS.values(), *PUBLIC.values()])
    at = results.rows["epsilon"].isin([0.0, EPSILON])
    printed_rows = results.rows["source"] == "published"
    points = proved_points(results.with_rows(results.rows[mask & at | printed_rows]), groups)
    titles = {item["name"]: item["title"].partition(" (")[0] for item in results.statistics}
    tested = {item["name"]: item["labelled"]["test"] for item in results.statistics}
    released = trained_gcns(results)
    attacked = released[released["epsilon"] == EPSILON]
    refuted = (attacked["status"] == "refuted").any()  # for every graph (docs/privacy.md §10)
    published = printed_gcns(results)
    published = published[published["epsilon"] == EPSILON].groupby("dataset")["published"].max()
    rows = []
    for (dataset, scenario), group in points.groupby(["dataset", "scenario"], sort=False):
        proved = group[group["private"] & (group["method"] == METHODS.get(scenario))]
        if proved.empty or dataset not in titles:
            continue
        row = proved.loc[proved["validation_labels"].idxmin()].to_dict()
        public = group[(group["epsilon"] == 0) & (group["method"] == PUBLIC.get(scenario))]
        baselines = {
            number(count): _mean(public[public["validation_labels"] == count]) for count in LABELS
        } | {ALL: _mean(public[public["all_labels"]])}
        against = public[public["validation_labels"] == LABELS[1]]
        against = public if scenario == "edges" else against
        rows.append(row | {
            "graph": titles[dataset], "protects": PROTECTS[scenario],
            "error": row["std"] / math.sqrt(row["n"]),
            "test_error": math.sqrt(row["mean"] * (1 - row["mean"]) / tested[dataset]),
            "printed": published.get(dataset) if scenario in ("text", "graph") else None,
            "refuted": refuted and dataset in published,
            **{f"public_{name}": value for name, value in baselines.items()},
            "above": _above(row, against),
        })  # fmt: skip
    order = list(PROTECTS)
    rows.sort(key=lambda row: (row["graph"], order.index(row["scenario"])))
    frame = pd.DataFrame(rows)
    if frame.empty:
        return []
    return [_chart(frame), _table(frame)]


def _mean(points: pd.DataFrame) -> float | None:
    return None if points.empty else float(points["mean"].iloc[0])


def _above(row: dict[str, Any], public: pd.DataFrame) -> bool:
    """Whether the proved score exceeds that of public data by two standard errors."""
    if public.empty or row["n"] < 2:
        return False
    base = public.iloc[0]
    spread = 0.0 if missing(base["std"]) else base["std"] / math.sqrt(base["n"])
    return row["mean"] - base["mean"] > 2 * math.hypot(row["std"] / math.sqrt(row["n"]), spread)


def _chart(frame: pd.DataFrame) -> Chart:
    """Return the scores by graph, a panel per protected unit."""
    sources = {
        "printed at ε = 1": "printed", "proved at ε = 1": "mean",
        "public data alone, 20 labels": "public_20", "public data alone, all labels": "public_all",
    }  # fmt: skip
    parts = [
        frame.assign(line=name, mean=frame[column].astype(float), std=float("nan"),
                     **({} if column == "mean" else {"statement_id": None}))
        for name, column in sources.items()
    ]  # fmt: skip
    drawn = pd.concat(parts).dropna(subset=["mean"])
    return Chart(
        "All graphs at ε = 1", drawn.assign(line=pd.Categorical(drawn["line"], list(sources))),
        x="graph", line="line", column="protects", categories=True, y_label="test micro-F1",
    )  # fmt: skip


def _table(frame: pd.DataFrame) -> Table:
    columns = [
        *plain("graph", "protects"),
        Column("printed", _printed),
        Column("proved", _proved),
        Column("by", lambda row: row["title"]),
        *(Column(name, lambda row, name=name: _plain(row[f"public_{name}"]), "public data alone")
          for name in (*map(number, LABELS), ALL)),
    ]  # fmt: skip
    return Table("Test micro-F1 at ε = 1 on every graph", frame, columns, NOTES, "graph")


def _printed(row: dict[str, Any]) -> Cell:
    if missing(row["printed"]):
        return Cell()
    cell = printed(row["printed"])
    return (
        replace(cell, text=f"{cell.text}, ε disproved", tone="refuted") if row["refuted"] else cell
    )


def _proved(row: dict[str, Any]) -> Cell:
    mean = score({**row, "std": row["error"]}, 3).text
    text = f"{mean} ± {row['test_error']:.3f}{' *' if row['above'] else ''}"
    return Cell(text, row["statement_id"], tone(row))


def _plain(value: float | None) -> Cell:
    return Cell() if missing(value) else Cell(f"{value:.3f}")


GROUPS = (
    "table1", "frontier", "all_edges", "other_citations", "progap.friendships", "progap.read_lists",
)  # fmt: skip
EXHIBIT = Exhibit(
    "all_graphs",
    "Proved at ε = 1 on every graph",
    groups=GROUPS,
    build=build,
    meaning="Printed scores, proved scores and public data alone, on every graph at hand; each row "
    "names what it protects.",
)
