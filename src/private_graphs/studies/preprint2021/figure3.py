"""Figure 3 of the preprint: whether hard cases stay hard with less training data."""

from functools import partial

from private_graphs.report.exhibit import Exhibit
from private_graphs.studies.lrec2022 import hard

EXHIBIT = Exhibit(
    "figure3",
    "Hard cases, by share of the training nodes",
    groups=("lrec2022.A",),
    build=partial(hard.build, figure="figure3", group="A", x="train_fraction"),
    meaning="Whether what SGD gets wrong with all training nodes stays wrong with fewer.",
)
