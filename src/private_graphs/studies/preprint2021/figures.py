"""Figures 1 to 4 of the preprint."""

from __future__ import annotations

from functools import partial

from private_graphs.report.results import Results
from private_graphs.running.exhibit import Block, Exhibit
from private_graphs.studies.lrec2022.figures import curves, hard_exhibits
from private_graphs.studies.preprint2021.table2 import UNTUNED_NOTE, printed_points

FIGURE1 = Exhibit(
    "figure1",
    "Without DP, by share of the training nodes",
    groups=("lrec2022.A",),
    build=partial(
        curves, figure="figure1", group="A", x="train_fraction", private=False,
        printed=printed_points,
    ),
    meaning="How much training data does a graph convolutional network need when nothing is "
    "private?",
)  # fmt: skip


def _figure2(results: Results) -> list[Block]:
    """Return the figure: SGD of the second version's experiment B, and untuned Adam."""
    rows = results.rows
    tuned = (rows["group"] == "B") & (rows["optimizer"] == "adam")
    blocks = curves(
        results.with_rows(rows[~tuned]), "figure2", "B,untuned", "train_fraction", True,
        printed_points,
    )  # fmt: skip
    return [*blocks, UNTUNED_NOTE]


FIGURE2 = Exhibit(
    "figure2",
    "With DP, by share of the training nodes",
    groups=("lrec2022.B", "untuned"),
    build=_figure2,
    meaning="Does more training data help under DP, with an untuned learning rate?",
)

HARD_CASES = hard_exhibits(("figure3", "figure4"), "lrec2022.")
