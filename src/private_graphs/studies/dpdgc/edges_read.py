"""Edges read back from the embedding that DPDGC releases, by the number of a node's neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from private_graphs.report.columns import plain
from private_graphs.report.words import guarantee
from private_graphs.running.exhibit import Block, Chart, Column, Exhibit, Table
from private_graphs.studies.dpdgc.read_back import DEGREES

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


def build(results: Any) -> list[Block]:
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


EXHIBIT = Exhibit(
    "edges_read",
    "Edges read back from the embedding",
    groups=("edges",),
    build=build,
    meaning="Whoever has the released model and embedding reads most friendships off it; with "
    "noise of the size that the ε needs, none.",
)
