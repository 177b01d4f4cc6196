"""Figure 1 of the preprint: how much training data a GCN needs when nothing is private."""

from functools import partial

from private_graphs.report.exhibit import Exhibit
from private_graphs.studies.lrec2022 import curves
from private_graphs.studies.preprint2021.table2 import printed_points

EXHIBIT = Exhibit(
    "figure1",
    "Without DP, by share of the training nodes",
    groups=("lrec2022.A",),
    build=partial(
        curves.build, figure="figure1", group="A", x="train_fraction", private=False,
        printed=printed_points,
    ),
    meaning="How much training data a graph convolutional network needs when nothing is private.",
)  # fmt: skip
