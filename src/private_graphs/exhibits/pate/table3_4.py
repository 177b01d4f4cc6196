"""Table 3.4: SVHN. Its images and the teachers' votes are not at hand."""

from __future__ import annotations

from typing import Any

from private_graphs.exhibits.pate.scores import FRAMEWORKS, in_percent
from private_graphs.report.exhibit import Block, Cell, Column, Exhibit, Table
from private_graphs.report.words import number

ABSENT = "raw files absent"
NOTES = (
    "The thesis uses the votes of 250 teachers that the authors of PATE published "
    "(https://storage.googleapis.com/pate-votes/votes.gz, svhn_250_teachers.npy) and the two .mat "
    "files of SVHN (http://ufldl.stanford.edu/housenumbers/). Neither is at hand, and no other "
    "images stand in for them.",
    "ε by data-independent analysis: σ2 = 40, which the authors' script uses, would cost "
    "12.05 for 3,000 answers alone (10.58 by exact Gaussian DP) at δ = 1e-6.",
)


def build(results: Any) -> list[Block]:
    """Return the printed numbers."""
    frame = results.published("table3_4").sort_values("epsilon", kind="stable")
    frame["published"] = frame["accuracy_percent"] / 100
    columns = [
        Column("ε", lambda row: number(row["epsilon"])),
        Column("framework", lambda row: FRAMEWORKS[row["framework"]]),
        Column("printed", lambda row: in_percent(row["published"])),
        Column("ours", lambda row: Cell(ABSENT)),
    ]
    columns[1:1] = [Column("δ", lambda row: number(row["delta"]))]
    keep = ["epsilon", "delta", "framework", "published"]
    return [Table("Table 3.4. SVHN", frame[keep], columns, NOTES)]


EXHIBIT = Exhibit(
    "table3_4",
    "SVHN",
    groups=(),
    build=build,
    meaning="What the thesis prints for SVHN. The number stays open until the files are at hand.",
)
