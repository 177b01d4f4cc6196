"""Figure 2 at ε = 2 alone, for graphs on which all of experiment B takes a day."""

from functools import partial

from private_graphs.report.exhibit import Exhibit
from private_graphs.studies.lrec2022 import curves

EXHIBIT = Exhibit(
    "figure2_at_2",
    "With DP at ε = 2 on larger graphs",
    groups=("B_at_2",),
    build=partial(curves.build, figure="figure2", group="B_at_2", x="train_fraction", private=True),
    meaning="Whether more training data of a larger graph helps under DP.",
    label="Figure 2 at ε = 2",
)
