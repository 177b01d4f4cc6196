"""Figure 2 of LREC 2022: whether more training data helps under DP."""

from functools import partial

from private_graphs.report.exhibit import Exhibit
from private_graphs.studies.lrec2022 import curves

EXHIBIT = Exhibit(
    "figure2",
    "With DP, by share of the training nodes",
    groups=("B",),
    build=partial(curves.build, figure="figure2", group="B", x="train_fraction", private=True),
    meaning="Whether more training data helps under DP, on the full graph.",
)
