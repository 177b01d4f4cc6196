"""Claims of the preprint's Table 2 and abstract, as rules over rows."""

from __future__ import annotations

import math

from private_graphs.report.claims import Claim, Measured, Place, interval
from private_graphs.report.results import Results
from private_graphs.studies.lrec2022.claims import (
    NOT_HERE,
    POINTS,
    UNCLIPPED,
    change,
    gain,
    runs_at,
    scores,
)

UNTUNED = "preprint2021.untuned"


def above_majority(results: Results, case: Place) -> Measured | None:
    """Score of untuned DP-Adam at ε = 2 minus the majority class."""
    runs = runs_at(results, UNTUNED, epsilon=2)
    return interval(runs["test_micro_f1"] - runs["majority_micro_f1"])


def above_sgd(results: Results, case: Place) -> Measured | None:
    """Score of untuned DP-Adam at ε = 2 minus that of DP-SGD, by seed."""
    sgd = scores(results, "table1", optimizer="sgd", epsilon=2)
    return interval(scores(results, UNTUNED, epsilon=2) - sgd)


def kept_score(results: Results, case: Place) -> Measured | None:
    """Score of DP-SGD at ε = 2 on Pokec, divided by that without DP."""
    private, plain = (
        scores(results, "table2", optimizer="sgd", features="bert", epsilon=epsilon)
        for epsilon in (2, math.inf)
    )
    return interval(private / plain)


CLAIMS = (
    Claim("sgd_alike", change("B", {"epsilon": 137}, {"epsilon": 2}), -POINTS, POINTS,
          exhibit="table2", because=UNCLIPPED),
    Claim("adam_untuned_majority", above_majority, most=0, exhibit="table2"),
    Claim("adam_untuned_sgd", above_sgd, most=0, exhibit="table2"),
    Claim("adam_untuned_noise", gain(UNTUNED, {"epsilon": 137}, {"epsilon": 2}, "adam"), least=0,
          exhibit="table2"),
    Claim("ninety_percent", kept_score, within=POINTS, exhibit="table2", because=NOT_HERE),
)  # fmt: skip
"""Rules by ``id`` of ``studies/preprint2021/published/text_claims.csv``."""
