"""Table 2 of DPDGC, and the edges that are read back from the embedding that it releases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from private_graphs.report.columns import arranged, beside, percent, plain
from private_graphs.report.layout import by_level
from private_graphs.report.words import guarantee, missing, number, privacy_notes
from private_graphs.running.exhibit import Block, Cell, Chart, Column, Exhibit, Layout, Table
from private_graphs.studies.dpdgc.read_back import DEGREES

# --- Table 2: accuracy without DP, at edge level, for N_k and at node level ---

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
LEVEL_NOTES = (
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


def _table2(results: Any) -> list[Block]:
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
    notes = (*results.protocol_notes(), *LEVEL_NOTES, *privacy_notes(frame))
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


TABLE2 = Exhibit(
    "table2",
    "Test accuracy",
    groups=("no_noise", "edges", "neighbours", "nodes"),
    build=_table2,
    meaning="What the embedding of the adjacency adds to the same classifier, as released without "
    "noise that counts and with the noise that the ε needs, beside what is printed.",
)


# --- edges read back from a released embedding, by the number of a node's neighbours ---

WORDS = {"1_2": "1–2", "3_4": "3–4", "5_8": "5–8", "9_16": "9–16", "17_": "17 and more"}
"""Names of columns -> numbers of neighbours."""
KEY = ["dataset", "protocol", "epsilon"]
NOTES = (
    "An embedding Z = A W with the weights W, which leave with the model: a row of Z is decoded by "
    "orthogonal matching pursuit, and counts if every weight of the decoding is 1 and nothing but "
    "noise is left.",
    "moved by one edge: what a friendship changes in the embedding, in standard deviations of its "
    "noise, at the node with the largest weights. Means over the runs.",
)


def counts(results: Any) -> pd.DataFrame:
    """Return a row per dataset and protocol: means over the runs, with the guarantee."""
    rows = results.runs
    if "edges_read" not in rows:
        return pd.DataFrame()
    rows = rows[(rows["group"] == "edges") & rows["edges_read"].notna()]
    names = ["edges", "edges_read", "edges_wrong", "edge_shift",
             *(f"{side}_{name}" for name in DEGREES for side in ("nodes", "read"))]  # fmt: skip
    points = results.with_rows(rows).points([*KEY, "method"], score="test_accuracy")
    return points.merge(rows.groupby(KEY, as_index=False)[names].mean(), on=KEY)


def _edges_read(results: Any) -> list[Block]:
    """Return a picture by degree for each graph, and the counts."""
    frame = counts(results)
    if frame.empty:
        return ["No run has read edges back."]
    charts = []
    for dataset, part in frame.groupby("dataset"):
        shares = pd.DataFrame([
            {name: row[name] for name in ("protocol", "epsilon", "status", "statement_id")}
            | {"neighbours": WORDS[name], "share": 100 * row[f"read_{name}"] / row[f"nodes_{name}"]}
            for row in part.to_dict("records") for name in DEGREES if row[f"nodes_{name}"]
        ])  # fmt: skip
        shares["neighbours"] = pd.Categorical(shares["neighbours"], list(WORDS.values()))
        charts.append(Chart(
            f"Rows of the adjacency that are read back exactly: {results.title_of(dataset)}",
            shares, x="neighbours", y="share", spread="", line="protocol", categories=True,
            x_label="nodes, by number of neighbours", y_label="read back, %",
        ))  # fmt: skip
    columns = [
        *plain("dataset", "protocol", "edges"),
        *plain({"read back": "edges_read", "claimed wrongly": "edges_wrong"}),
        *(Column(words, lambda row, name=name: _share(row, name), "rows read back exactly, by "
                 "number of neighbours") for name, words in WORDS.items()),
        Column("moved by one edge", lambda row: f"{row['edge_shift']:.3g}"),
        Column("ε proved", guarantee),
    ]  # fmt: skip
    table = Table("Edges read back from the embedding", frame, columns, NOTES, "dataset")
    return [*charts, table]


def _share(row: Mapping[str, Any], name: str) -> str:
    return f"{row[f'read_{name}']:,.0f} of {row[f'nodes_{name}']:,.0f}"


EDGES_READ = Exhibit(
    "edges_read",
    "Edges read back from the embedding",
    groups=("edges",),
    build=_edges_read,
    meaning="Whoever has the released model and embedding reads most friendships off it; with "
    "noise of the size that the ε needs, none.",
)
