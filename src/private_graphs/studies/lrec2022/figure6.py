"""Figure 6 of LREC 2022: whether hard cases stay hard under DP."""

from functools import partial

from private_graphs.report.exhibit import Exhibit
from private_graphs.studies.lrec2022 import hard

EXHIBIT = Exhibit(
    "figure6",
    "Hard cases under DP, by ε",
    groups=("A", "B"),
    build=partial(hard.build, figure="figure6", group="B", x="epsilon"),
    meaning="Whether what SGD gets wrong without DP stays wrong under it, beside how much is wrong "
    "at all.",
)
