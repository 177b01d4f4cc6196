"""Figure 4 of LREC 2022: whether training on random splits helps under DP."""

from __future__ import annotations

from typing import Any

import pandas as pd

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.lrec2022 import curves


def build(results: Any) -> list[Block]:
    """Return the figure, and the text's claim about it compared with the noise of its points."""
    blocks = curves.build(results, "figure4", "C", x="splits", private=True)
    claims = results.published("claims").query("figure == 'figure4'")
    noise = curves.curve_points(results, "figure4", "C", private=True).query("protocol == 'paper'")
    noise = noise.pivot_table("noise_multiplier", ["dataset", "optimizer", "epsilon"], "splits")
    factors = [
        f"{ratios.min():.2f} to {ratios.max():.2f} for {splits:g} splits"
        for splits, ratios in noise.rdiv(noise.get(1.0, pd.NA), axis=0).items()
        if splits > 1 and ratios.notna().any()
    ]
    return [
        *blocks,
        *(f"The paper (Section 6.3): {claim}, {value:g}. Its formula asks for less noise at the "
          f"same ε, by a factor of {', '.join(factors)}, because it takes shuffled visits for "
          "Poisson samples. They justify no such factor: a node takes part once in every epoch, "
          "and the noise that a proved ε needs is the same for every number of splits "
          "(docs/privacy.md §3)."
          for claim, value in zip(claims["claim"], claims["value"], strict=True)),
    ]  # fmt: skip


EXHIBIT = Exhibit(
    "figure4",
    "With DP, by number of random splits",
    groups=("C",),
    build=build,
    meaning="Whether training on random splits helps under DP; 1 split is the full graph.",
)
