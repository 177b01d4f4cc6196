"""What the text of a paper claims about a whole figure, beside what its points give."""

from __future__ import annotations

import pandas as pd

from private_graphs.protocols import PROTOCOLS
from private_graphs.reporting.curves import Curves
from private_graphs.reporting.formats import number
from private_graphs.reporting.published import published_claims, words_for_place


def claims(study: str, curves: Curves, frame: pd.DataFrame) -> tuple[str, ...]:
    """Return a sentence or more for each claim about a figure that is at none of its points.

    ``frame`` holds the points of the figure. A claim about privacy by splits is answered with the
    noise that the paper's formula asks for, as far as the points have it.
    """
    known = published_claims(study)
    known = known[(known["figure"] == curves.name) & (known["dataset"] == "")]
    answer = _noise_by_splits(frame) if curves.private and curves.x == "splits" else ""
    return tuple(
        f"The paper ({words_for_place(row['where'])}): {row['claim']} {row['value']:g}. "
        f"{answer}".strip()
        for row in known.to_dict("records")
    )


def _noise_by_splits(frame: pd.DataFrame) -> str:
    """Say how much less noise the paper's formula asks for with splits, and that it may not."""
    published = [each.name for each in PROTOCOLS.values() if each.calibration == "published"]
    noise = frame[frame["protocol"].isin(published)].pivot_table(
        index=["dataset", "protocol", "optimizer", "epsilon"], columns="splits",
        values="noise_multiplier",
    )  # fmt: skip
    factors = []
    for splits in noise.columns:
        ratios = (noise[1] / noise[splits]).dropna() if splits > 1 and 1 in noise else pd.Series()
        if len(ratios):
            low, high = number(ratios.min(), 2), number(ratios.max(), 2)
            factors.append(f"{low if low == high else f'{low} to {high}'} at {int(splits)}")
    less = "For the same ε its formula asks for less noise the more subgraphs there are"
    if factors:
        less += f", by a factor of {', '.join(factors)}"
    return (
        f"{less}, because it takes shuffled visits for Poisson samples. Shuffled visits justify no "
        "such factor: a node takes part once in every epoch, and the noise that a proved ε needs "
        "is the same for every number of subgraphs (docs/privacy.md §3)."
    )
