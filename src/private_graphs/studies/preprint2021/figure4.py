"""Figure 4 of the preprint: whether hard cases stay hard under DP."""

from functools import partial

from private_graphs.report.exhibit import Exhibit
from private_graphs.studies.lrec2022 import hard

EXHIBIT = Exhibit(
    "figure4",
    "Hard cases under DP, by ε",
    groups=("lrec2022.A", "lrec2022.B"),
    build=partial(hard.build, figure="figure4", group="B", x="epsilon"),
    meaning="Whether what SGD gets wrong without DP stays wrong under it.",
)
