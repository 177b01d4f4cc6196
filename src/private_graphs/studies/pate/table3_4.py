"""Table 3.4: SVHN, from published votes; without the raw files the printed numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from private_graphs.report.columns import plain
from private_graphs.running.exhibit import Block, Cell, Column, Exhibit, Table
from private_graphs.studies.pate.scores import (
    FRAMEWORKS,
    LABEL_NOTES,
    in_percent,
    points,
    score_table,
)

ABSENT = "raw files absent"
TITLE = "Table 3.4. SVHN"
SOURCES_NOTE = (
    "The thesis takes the votes of 250 teachers that the authors of PATE published, and the two "
    ".mat files of SVHN. With these files in a mirror or on the network: snakemake --cores all "
    "--config scale=reduced exhibits=pate.table3_4 datasets=svhn. No other images stand in for "
    "them."
)
PRICE_NOTE = (
    "ε by data-independent analysis: σ2 = 40, which the authors' script uses, would cost "
    "12.05 for 3,000 answers alone (10.58 by exact Gaussian DP) at δ = 1e-6."
)
TEST_NOTE = (
    "Accuracy in % on the last 16,032 test images ± standard deviation over the seeds, after the "
    "last epoch. The first 10,000 test images are the student's public pool and score nothing. The "
    "votes are the same for all seeds; τ = 0.4 for PATE++."
)


def build(results: Any) -> list[Block]:
    """Return the table of runs if there are any, else of printed numbers."""
    frame = points(results)
    frame["line"] = frame["framework"].map(FRAMEWORKS)
    order = frame["framework"].map(list(FRAMEWORKS).index)
    frame = frame.assign(order=order).sort_values(["epsilon", "order"]).drop(columns="order")
    notes = (TEST_NOTE, *LABEL_NOTES, SOURCES_NOTE, PRICE_NOTE)
    table = score_table(results, TITLE, frame, "table3_4", ["epsilon", "line"], "line",
                        notes=notes)  # fmt: skip
    return [replace(_printed(results), layout=table.layout) if frame.empty else table]


def _printed(results: Any) -> Table:
    frame = results.published("table3_4").sort_values("epsilon", kind="stable")
    frame["published"] = frame["accuracy_percent"] / 100
    columns = [
        *plain({"ε": "epsilon", "δ": "delta"}),
        Column("framework", lambda row: FRAMEWORKS[row["framework"]]),
        Column("printed", lambda row: in_percent(row["published"])),
        Column("ours", lambda row: Cell(ABSENT)),
    ]
    keep = ["epsilon", "delta", "framework", "published"]
    return Table(TITLE, frame[keep], columns, (SOURCES_NOTE, PRICE_NOTE))


EXHIBIT = Exhibit(
    "table3_4",
    "SVHN",
    ("svhn_plus", "svhn_students"),
    build,
    meaning="The four frameworks learn from published votes on house numbers.",
)
