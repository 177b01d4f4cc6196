"""Figure 3 of LREC 2022: the loss from training on random splits when nothing is private."""

from functools import partial

from private_graphs.report.exhibit import Exhibit
from private_graphs.studies.lrec2022 import curves

EXHIBIT = Exhibit(
    "figure3",
    "Without DP, by number of random splits",
    groups=("C",),
    build=partial(curves.build, figure="figure3", group="C", x="splits", private=False),
    meaning="What it costs to train on random splits in place of the full graph (1 split).",
)
