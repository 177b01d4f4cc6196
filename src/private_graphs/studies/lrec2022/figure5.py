"""Figure 5 of LREC 2022: whether hard cases stay hard with less training data."""

from functools import partial

from private_graphs.report.exhibit import Exhibit
from private_graphs.studies.lrec2022 import hard

EXHIBIT = Exhibit(
    "figure5",
    "Hard cases, by share of the training nodes",
    groups=("A",),
    build=partial(hard.build, figure="figure5", group="A", x="train_fraction"),
    meaning="Whether what SGD gets wrong with all training nodes stays wrong with fewer, beside "
    "how much is wrong at all.",
)
