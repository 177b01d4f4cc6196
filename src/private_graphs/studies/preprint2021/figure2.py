"""Figure 2 of the preprint: whether more training data helps under DP; Adam untuned."""

from __future__ import annotations

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.report.results import Results
from private_graphs.studies.lrec2022 import curves
from private_graphs.studies.preprint2021.table2 import UNTUNED_NOTE, printed_points


def build(results: Results) -> list[Block]:
    """Return the figure: SGD of the second version's experiment B, and untuned Adam."""
    rows = results.rows
    tuned = (rows["group"] == "B") & (rows["optimizer"] == "adam")
    blocks = curves.build(
        results.with_rows(rows[~tuned]), "figure2", "B,untuned", "train_fraction", True,
        printed_points,
    )  # fmt: skip
    return [*blocks, UNTUNED_NOTE]


EXHIBIT = Exhibit(
    "figure2",
    "With DP, by share of the training nodes",
    groups=("lrec2022.B", "untuned"),
    build=build,
    meaning="Whether more training data helps under DP, where nobody chooses a learning rate.",
)
