"""Table 5.1: sizes of the datasets, as printed and after loading."""

from __future__ import annotations

from typing import Any

import pandas as pd

from private_graphs.report.layout import LayoutColumn, laid_out, naming, rows_of
from private_graphs.report.words import number
from private_graphs.running.exhibit import Column, Exhibit, Layout, LayoutCell, Line, Table

SIZES = {"nodes": "nodes", "edges": "edges", "features": "features", "classes": "classes"}
NAMES = {"cora-ml": "Cora-ML", "pubmed": "PubMed", "ms-academic": "MS Academic"}
"""The thesis's names."""
_PRINTED = {"features": "features_printed"}


def build(results: Any) -> list[Table]:
    """Return the sizes of every built graph and those that are printed."""
    at = {row["dataset"]: row for row in results.published("table1").to_dict("records")}
    rows = []
    for entry in results.statistics:
        if "nodes" not in entry:
            continue
        row = at.get(entry["name"], {})
        sizes = {name: entry[name] for name in SIZES}
        printed = {f"printed_{name}": row.get(_PRINTED.get(name, name)) for name in SIZES}
        # each edge once, and again if both directions are stored
        one_way = entry.get("one_way_edges")
        stored = None if one_way is None else 2 * entry["edges"] - one_way
        rows.append({"dataset": entry["name"], "synthetic": entry["synthetic"], "entries": stored}
                    | sizes | printed)  # fmt: skip
    columns = [Column("dataset", lambda row: row["dataset"])]
    for name, words in SIZES.items():
        columns += [
            Column("printed", lambda row, name=f"printed_{name}": number(row[name]), words),
            Column("ours", lambda row, name=name: number(row[name]), words, under=True),
        ]
    columns.append(Column("entries stored", lambda row: number(row["entries"])))
    note = (
        "entries stored: directed ones of the raw adjacency. The thesis's 8416 edges of Cora-ML "
        "are these: its file has most edges in one direction alone; its code uses them as stored, "
        "here every edge is undirected."
    )
    frame = pd.DataFrame(rows).sort_values("dataset", ignore_index=True)
    return [Table("Table 5.1. Datasets: printed sizes and those after loading", frame, columns,
                  (note,), layout=_layout(results, frame))]  # fmt: skip


def _layout(results: Any, frame: pd.DataFrame) -> Layout:
    """Return the thesis's table: a row per graph; ours are the sizes after loading."""
    published = results.published("table1").rename(columns={"features_printed": "features"})
    sizes = ("classes", "features", "nodes", "edges")
    printed = {(row["dataset"], name): LayoutCell(number(row[name]))
               for row in published.to_dict("records") for name in sizes}  # fmt: skip
    lines = {(row["dataset"], name): [Line("here", number(row[name]))]
             for row in frame.to_dict("records") for name in sizes}  # fmt: skip
    kinds = published.set_index("dataset")["type"]
    places = [
        naming("dataset", NAMES, "dataset", ("dataset",)),
        LayoutColumn(
            "type", lambda row: kinds.get(row["dataset"], ""), heading=True, per=("dataset",)
        ),
        *(LayoutColumn(name, lambda row, name=name: (row["dataset"], name)) for name in sizes),
    ]
    return laid_out(rows_of(["dataset"], published, frame), places, printed, lines)


EXHIBIT = Exhibit(
    "table1",
    "Datasets",
    label="Table 5.1",
    groups=(),
    build=build,
    statistics=True,
    meaning="Did the thesis use the graphs at hand, and what do its numbers of edges count?",
)
