"""Figure 1 of LREC 2022: how much training data a GCN needs when nothing is private."""

from functools import partial

from private_graphs.report.exhibit import Exhibit
from private_graphs.studies.lrec2022 import curves

EXHIBIT = Exhibit(
    "figure1",
    "Without DP, by share of the training nodes",
    groups=("A",),
    build=partial(curves.build, figure="figure1", group="A", x="train_fraction", private=False),
    meaning="How much training data a graph convolutional network needs when nothing is private: "
    "SGD and Adam on random shares of the training nodes.",
)
