"""Table 2 of DPDGC: accuracy without DP, at edge level, for N_k and at node level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from private_graphs.report.columns import arranged, beside, percent, plain
from private_graphs.report.layout import by_level
from private_graphs.report.words import guarantee, missing, number, privacy_notes
from private_graphs.running.exhibit import Block, Cell, Column, Exhibit, Layout, Table

LEVELS = {"none": "without DP", "edge": "edge level", "n1": "N₁", "n5": "N₅", "n25": "N₂₅",
          "node": "node level"}  # fmt: skip
"""The paper's levels: of N_k a node and at most k neighbours may change."""
METHODS = {"dpdgc": "DPDGC", "gap": "GAP", "sage": "SAGE", "mlp": "MLP",
           "edge_rand": "RandEdge+SAGE", "dp_mlp": "DP-MLP", "dp_sage": "DP-SAGE"}  # fmt: skip
PRINTED_AS = {("none", "edge_rand"): "sage", ("edge", "mlp"): "dp_mlp",
              ("node", "mlp_steps"): "dp_mlp"}  # fmt: skip
"""Methods whose name in the paper's table differs from that in rows, by level."""
GRAPHS = {"squirrel": "Squirrel", "chameleon": "Chameleon", "facebook": "Facebook",
          "pubmed": "PubMed", "amazon-computers": "Computers", "cora": "Cora",
          "amazon-photo": "Photo"}  # fmt: skip
"""The paper's names."""
SHOWS = {"accuracy": percent, "ε proved": guarantee}
LINE = ["dataset", "level", "method", "scenario", "epsilon"]
NOTES = (
    "No text beyond the abstract was read: the protocols are readings of the code. released: the "
    "embedding has no effective noise; paper: the noise is really added, to weights of norm 1.",
    "edge level: printed for one directed entry; proved is for a friendship, which is two.",
    "N_k and node level: under sound a node with the list that it owns, of at most k or D = 100 "
    "others; nothing is proved under released and paper.",
    "GAP, RandEdge+SAGE, MLP and DP-MLP are those of study progap, with its networks. Its "
    "classifier, no adjacency: DPDGC’s own classifier, to which the embedding is zero.",
    "The split is that of the authors’ code (75/10/15, seed 12345): one split, ± over the runs "
    "alone. printed: ± half of a 95 % interval. The paper’s Facebook (UIllinois20) was not run; "
    "campuses stand under their own names.",
)  # fmt: skip


def level_of(row: Mapping[str, Any]) -> str:
    """Return the paper's level of a run."""
    if row["epsilon"] == float("inf"):
        return "none"
    if row["scenario"] in ("links", "edges"):
        return "edge"
    return "node" if missing(row.get("neighbours")) else f"n{row['neighbours']:.0f}"


def points(results: Any) -> pd.DataFrame:
    """Return a row per dataset, job, protocol and ε, with its level and title."""
    by = ["dataset", "group", "method", "scenario", "protocol", "job", "epsilon", "neighbours"]
    rows = results.points(by, score="test_accuracy")
    levels = [level_of(row) for row in rows.to_dict("records")]
    return rows.assign(level=levels, title=rows["method"].map(results.title))


def key_of(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the key of the paper's number for a point."""
    name = PRINTED_AS.get((row["level"], row["method"]), row["method"])
    return row["dataset"], row["level"], name


def build(results: Any) -> list[Block]:
    """Return the table; with all columns, a panel per dataset."""
    paper = {key_of(row): row for row in results.published("table2").to_dict("records")}
    frame = points(results)
    percent = [
        paper.get(key_of(row), {}).get("accuracy_percent") for row in frame.to_dict("records")
    ]
    frame = frame.assign(published=pd.Series(percent, frame.index, float) / 100)
    frame = arranged(frame, ["dataset", "level", "title", "protocol"], level=LEVELS)

    def printed(row: dict[str, Any]) -> Cell:
        if (entry := paper.get(key_of(row))) is None:
            return Cell()
        text = f"{number(entry['accuracy_percent'], 2)} ± {number(entry['ci95'], 2)}"
        return Cell(text, tone="published")

    columns = [
        *plain("dataset"),
        Column("level", lambda row: LEVELS[row["level"]]),
        *plain({"method": "title", "ε": "epsilon"}),
        Column("printed", printed),
        *beside(frame, LINE, "protocol", results.protocols, SHOWS),
    ]
    notes = (*results.protocol_notes(), *NOTES, *privacy_notes(frame))
    return [Table("Table 2. Test accuracy", frame, columns, notes, "dataset",
                  frame.drop_duplicates(LINE), layout=_layout(results, frame))]  # fmt: skip


def _layout(results: Any, frame: pd.DataFrame) -> Layout:
    """Return the paper's table: a row per level and method, a column per graph."""
    paper = results.published("table2")
    paper["line"] = paper["method"].map(METHODS)
    named = [METHODS.get(key_of(row)[2], row["title"]) for row in frame.to_dict("records")]
    # the perceptron reads no edge: its ε is 0, and its line that of the level
    budgets = {"none": float("inf"), "edge": 1.0}
    epsilon = frame["level"].map(budgets).fillna(16.0)
    scores = frame.assign(line=named, budget=epsilon)
    paper = paper.assign(budget=paper["epsilon"])
    return by_level(results, paper, scores, LEVELS, GRAPHS, 2, "budget")


EXHIBIT = Exhibit(
    "table2",
    "Test accuracy",
    groups=("no_noise", "edges", "neighbours", "nodes"),
    build=build,
    meaning="What the embedding of the adjacency adds to the same classifier, as released without "
    "noise that counts and with the noise that the ε needs, beside what is printed.",
)
