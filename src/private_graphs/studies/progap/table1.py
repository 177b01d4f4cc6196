"""Table 1 of ProGAP: sizes of the datasets, as printed and after loading."""

from __future__ import annotations

from typing import Any

import pandas as pd

from private_graphs.report.words import number
from private_graphs.running.exhibit import Column, Exhibit, Table
from private_graphs.studies.progap.scores import STAND_IN_NOTE

SIZES = {"nodes": "nodes", "entries": "directed edges", "features": "features",
         "classes": "classes"}  # fmt: skip
_PRINTED = {"entries": "edges", "features": "features_printed"}
MISSING_CLASS_NOTE = (
    "read as released, Facebook100 has a class of those without a graduation year: one raw row has "
    "a negative year, so that the number 0, which stands for no year, is no longer the smallest "
    "and is not dropped. The paper's six classes of FB-100 come from that."
)


def build(results: Any) -> list[Table]:
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
    columns = [
        Column("dataset", lambda row: row["name"]),
        Column("data", _data),
    ]
    for name, words in SIZES.items():
        columns += [
            Column("printed", lambda row, name=f"printed_{name}": number(row[name]), words),
            Column("ours", lambda row, name=name: number(row[name]), words, under=True),
        ]
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


EXHIBIT = Exhibit(
    "table1",
    "Datasets",
    groups=(),
    build=build,
    statistics=True,
    meaning="Which graphs did the paper use, which are at hand, and what does its FB-100 really "
    "hold?",
)
