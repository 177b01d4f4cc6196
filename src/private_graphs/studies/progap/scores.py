"""Levels, names of lines and printed numbers of ProGAP; its Tables 1 and 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from private_graphs.report.columns import arranged, beside, percent, plain, size_columns
from private_graphs.report.layout import by_level
from private_graphs.report.words import guarantee, missing, number, privacy_notes
from private_graphs.running.exhibit import NOTHING, Block, Cell, Column, Exhibit, Layout, Table

LEVELS = {"none": "without DP", "edge": "edge level", "node": "node level"}
"""The paper's levels, in its order."""
_SCENARIOS = {"links": "edge", "edges": "edge", "lists": "node", "text": "node"}
PRINTED_AS = {
    ("none", "edge_rand"): "graphsage",
    ("edge", "edge_rand"): "edgerand",
    ("node", "mlp_steps"): "dp_mlp",
}
"""Methods whose name in the paper's tables differs from that in rows, by level."""
_TITLES = {("none", "edge_rand"): "GraphSAGE"}
"""Names of methods that differ at a level."""
STAND_IN_NOTE = (
    "The paper's Facebook is the campus UIllinois20, whose file is not among those at hand: other "
    "campuses stand in for it under their own names, so that the numbers printed beside them are "
    "of another graph; those beside fb100-part are of all 100 campuses."
)


READ_OFF = 0.3
"""Tolerance in points of a number that was read off a picture, except those of FB-100."""
CHOSEN_AT = ["dataset", "group", "method", "scenario", "protocol", "epsilon"]


def choose_depth(results: Any) -> Any:
    """Return the results with the runs of the K alone that validates best, on average over the
    seeds, of each method at each ε, as the paper chooses it; runs without validation stay."""
    runs = results.runs
    keys = [runs[name] for name in CHOSEN_AT]
    scores = runs["validation_micro_f1"].groupby([*keys, runs["job"]]).transform("mean").fillna(0)
    below = scores < scores.groupby(keys).transform("max")
    return results.with_rows(results.rows.drop(index=runs.index[below]))


def points(results: Any) -> pd.DataFrame:
    """Return a row per dataset, job, protocol and ε, with ``level``, ``line`` and ``place``."""
    by = ["dataset", "group", "method", "scenario", "protocol", "job", "epsilon", "hops", "epochs"]
    rows = results.points(by, score="test_accuracy")
    settings = [_settings(row) for row in rows.to_dict("records")]
    level = rows["scenario"].map(_SCENARIOS).where(rows["epsilon"] < float("inf"), "none")
    titles = [
        _TITLES.get(key) or results.title(key[1]) for key in zip(level, rows["method"], strict=True)
    ]
    return rows.assign(
        level=level, title=titles, settings=settings, place=rows["dataset"].map(printed_place)
    )


def printed_place(dataset: str) -> str:
    """Return the paper's dataset that a graph is, or represents."""
    names = ("facebook", "fb100", "reddit-8", "amazon", "wenet")
    return next((name for name in names if dataset.startswith(name)), "")


def _settings(row: Mapping[str, Any]) -> str:
    if missing(row.get("hops")):
        return ""
    return f"K = {number(row['hops'])}" if row["hops"] else f"{number(row['epochs'])} epochs"


def printed(results: Any, name: str, *keys: str) -> dict[tuple, Mapping[str, Any]]:
    """Return the printed rows of a table or figure, by (dataset, level, method, *keys)."""
    return {
        (row["dataset"], row["level"], row["method"], *(float(row[key]) for key in keys)): row
        for row in results.published(name).to_dict("records")
    }


def printed_key(row: Mapping[str, Any]) -> tuple:
    """Return the key of the paper's number for a point."""
    method = PRINTED_AS.get((row["level"], row["method"]), row["method"])
    is_new = row["scenario"] in ("edges", "text")  # methods of this project
    return (row["place"], row["level"], "" if is_new else method)


def with_printed(
    frame: pd.DataFrame, paper: Mapping[tuple, Mapping[str, Any]], *keys: str
) -> pd.DataFrame:
    """Return points with ``percent_printed``, the paper's accuracy for their line.

    ``published``, the basis of verdicts, is its share if the graph is the paper's own.
    """
    percent = pd.Series(
        [
            paper.get((*printed_key(row), *(row[key] for key in keys)), {}).get("accuracy_percent")
            for row in frame.to_dict("records")
        ],
        index=frame.index,
        dtype=float,
    )
    mask = frame["dataset"] == frame["place"]
    return frame.assign(percent_printed=percent, published=(percent / 100).where(mask))


def printed_cell(row: Mapping[str, Any] | None) -> Cell:
    """Format a printed accuracy with its interval."""
    if row is None:
        return Cell()
    around = "" if missing(row.get("ci95")) else f" ± {number(row['ci95'])}"
    return Cell(f"{number(row['accuracy_percent'])}{around}", tone="published")


def level_words(row: Mapping[str, Any]) -> str:
    """Return the name of a row's level."""
    return LEVELS.get(row["level"], NOTHING)


# --- Tables 1 and 2 ---

# --- Table 1: sizes of the datasets, as printed and after loading ---

SIZES = {"nodes": "nodes", "entries": "directed edges", "features": "features",
         "classes": "classes"}  # fmt: skip
_PRINTED = {"entries": "edges", "features": "features_printed"}
MISSING_CLASS_NOTE = (
    "read as released, Facebook100 has a class of those without a graduation year: one raw row has "
    "a negative year, so that the number 0, which stands for no year, is no longer the smallest "
    "and is not dropped. The paper's six classes of FB-100 come from that."
)


def _sizes(results: Any) -> list[Table]:
    """Return the sizes of every built graph, a row for each view, and those that are printed."""
    at = {row["dataset"]: row for row in results.published("table1").to_dict("records")}
    rows = [
        {
            "name": entry["name"],
            "dataset": entry["name"],
            "view": entry["view"] or "",
            "synthetic": entry["synthetic"],
            "entries": 2 * entry["edges"],
            **{name: entry[name] for name in SIZES if name != "entries"},
        }
        for entry in results.statistics
        if "nodes" in entry
    ]
    here = {row["name"] for row in rows}
    rows += [{"name": name, "view": ""} for name in at if name not in here]
    for row in rows:
        paper = at.get(row["name"], {})
        row |= {f"printed_{name}": paper.get(_PRINTED.get(name, name)) for name in SIZES}
    frame = pd.DataFrame(rows).sort_values(["name", "view"], ignore_index=True)
    columns = [*plain({"dataset": "name"}), Column("data", _data), *size_columns(SIZES)]
    notes = [
        "directed edges: both directions of every friendship are stored.",
        STAND_IN_NOTE,
        *([MISSING_CLASS_NOTE] if frame["name"].str.startswith("fb100").any() else []),
        "rows without a size of ours were never read here: their files are not at hand.",
    ]
    return [Table("Table 1. Datasets: printed sizes and the sizes after loading", frame, columns,
                  notes)]  # fmt: skip


def _data(row: dict[str, Any]) -> str:
    if not isinstance(row.get("synthetic"), bool):
        return "not at hand"
    words = "synthetic" if row["synthetic"] else "real"
    return f"{words}, read as {row['view']}" if row["view"] else words


TABLE1 = Exhibit(
    "table1",
    "Datasets",
    groups=(),
    build=_sizes,
    statistics=True,
    meaning="Which graphs did the paper use, which are at hand, and what does its FB-100 really "
    "hold?",
)


# --- Table 2: accuracy without DP, at edge level and at node level ---

METHODS = {"graphsage": "GraphSAGE", "gap": "GAP", "progap": "ProGAP", "mlp": "MLP",
           "edgerand": "EdgeRand", "dp_mlp": "DP-MLP", "dp_gnn": "DP-GNN"}  # fmt: skip
GRAPHS = {"facebook": "Facebook", "reddit-8": "Reddit", "amazon": "Amazon", "fb100": "FB-100",
          "wenet": "WeNet"}  # fmt: skip
"""The paper's names."""
SHOWS = {"accuracy": percent, "ε proved": guarantee}
LINE = ["dataset", "level", "method", "settings", "scenario", "epsilon"]
UNIT_NOTES = (
    "edge level: every friendship is stored both ways, so that one of them moves two rows of a "
    "sum; the paper's ε is that of a directed edge, and what is proved for an edge is larger.",
    "node level: proved is for a node with its features, its label and the list that it draws of "
    "its own neighbours, replaced by any other; a friendship is on two lists. Nothing is proved "
    "for a node with all its edges, which is what the paper claims.",
    "accuracy in % ± standard deviation over the runs; printed: ± half of a 95 % interval.",
)


def _table2(results: Any) -> list[Block]:
    """Return the table; with all columns, a panel per dataset."""
    by = ["dataset", "level", "epsilon", "title", "settings"]
    frame = arranged(points(results), by, level=LEVELS)
    paper = printed(results, "table2")
    frame = with_printed(frame, paper)
    columns = [
        *plain("dataset"),
        Column("level", level_words, above=True),
        Column("method", lambda row: ", ".join(filter(None, (row["title"], row["settings"])))),
        *plain({"ε": "epsilon"}),
        Column("printed", lambda row: printed_cell(paper.get(printed_key(row)))),
        *beside(frame, LINE, "protocol", results.protocols, SHOWS),
    ]
    notes = (*results.protocol_notes(), *UNIT_NOTES, STAND_IN_NOTE, *privacy_notes(frame))
    return [Table("Table 2. Test accuracy", frame, columns, notes, "dataset",
                  frame.drop_duplicates(LINE), layout=_layout(results, frame))]  # fmt: skip


def _layout(results: Any, frame: pd.DataFrame) -> Layout:
    """Return the paper's table: a row per level and method, a column per graph.

    Below a printed number stands one score of every protocol; methods that the paper does not have
    are in rows of their own. Other settings and ε of its own methods are among all columns.
    """
    paper = results.published("table2")
    paper["line"] = paper["method"].map(METHODS)
    budgets, rows, taken = set(zip(paper["level"], paper["epsilon"], strict=True)), [], set()
    for row in frame.sort_values(["method", "settings", "epsilon"], kind="stable").to_dict(
        "records"
    ):
        method = METHODS.get(printed_key(row)[2])
        line = method or row["title"]
        cell = (row["dataset"], row["level"], row["epsilon"], line, row["protocol"])
        if cell not in taken and (not method or (row["level"], row["epsilon"]) in budgets):
            rows.append(row | {"line": line})
        taken.add(cell)
    return by_level(results, paper, pd.DataFrame(rows), LEVELS, GRAPHS, 1)


TABLE2 = Exhibit(
    "table2",
    "Test accuracy",
    groups=("no_noise", "friendships", "owned_lists", "read_lists"),
    build=_table2,
    meaning="How much are noisy sums along edges worth at edge and node level, how private are the "
    "printed rows really, and what do methods with a proof reach on the same data?",
)
