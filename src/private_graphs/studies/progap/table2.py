"""Table 2 of ProGAP: accuracy without DP, at edge level and at node level, with the proved ε."""

from __future__ import annotations

from typing import Any

import pandas as pd

from private_graphs.report.columns import beside, percent, plain
from private_graphs.report.layout import by_level
from private_graphs.report.words import guarantee, privacy_notes
from private_graphs.running.exhibit import Block, Column, Exhibit, Layout, Table
from private_graphs.studies.progap import scores

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


def build(results: Any) -> list[Block]:
    """Return the table; with all columns, a panel per dataset."""
    frame = scores.points(results)
    frame = frame.assign(order=frame["level"].map(list(scores.LEVELS).index))
    frame = frame.sort_values(["dataset", "order", "epsilon", "title", "settings"])
    paper = scores.printed(results, "table2")
    frame = scores.with_printed(frame, paper)
    columns = [
        *plain("dataset"),
        Column("level", scores.level_words, above=True),
        Column("method", lambda row: ", ".join(filter(None, (row["title"], row["settings"])))),
        *plain({"ε": "epsilon"}),
        Column("printed", lambda row: scores.printed_cell(paper.get(scores.printed_key(row)))),
        *beside(frame, LINE, "protocol", results.protocols, SHOWS),
    ]
    notes = (*results.protocol_notes(), *UNIT_NOTES, scores.STAND_IN_NOTE, *privacy_notes(frame))
    lines = frame.drop_duplicates(LINE)
    long, layout = frame.drop(columns="order"), _layout(results, frame)
    return [Table("Table 2. Test accuracy", long, columns, notes, "dataset", lines, layout=layout)]


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
        method = METHODS.get(scores.printed_key(row)[2])
        line = method or row["title"]
        cell = (row["dataset"], row["level"], row["epsilon"], line, row["protocol"])
        if cell not in taken and (not method or (row["level"], row["epsilon"]) in budgets):
            rows.append(row | {"line": line})
        taken.add(cell)
    return by_level(results, paper, pd.DataFrame(rows), scores.LEVELS, GRAPHS, 1)


EXHIBIT = Exhibit(
    "table2",
    "Test accuracy",
    groups=("no_noise", "friendships", "owned_lists", "read_lists"),
    build=build,
    meaning="How much are noisy sums along edges worth at edge and node level, how private are the "
    "printed rows really, and what do methods with a proof reach on the same data?",
)
