"""Figure 3 without its private runs, for graphs on which all of experiment C takes a day."""

from functools import partial

from private_graphs.report.exhibit import Exhibit
from private_graphs.studies.lrec2022 import curves

EXHIBIT = Exhibit(
    "figure3_without_dp",
    "SGD on random splits of larger graphs",
    groups=("C_without_dp",),
    build=partial(curves.build, figure="figure3", group="C_without_dp", x="splits", private=False),
    meaning="What the text says of PubMed in Figure 3: SGD without DP on the full graph and on "
    "random splits.",
    label="Figure 3, SGD",
)
