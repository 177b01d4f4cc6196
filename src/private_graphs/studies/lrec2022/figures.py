"""Figures 1 to 6 of LREC 2022, and what leaks in practice."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd

from private_graphs.report.leaks import leak_exhibit
from private_graphs.running.exhibit import Block, Exhibit
from private_graphs.studies.lrec2022 import curves, hard

FIGURE1 = Exhibit(
    "figure1",
    "Without DP, by share of the training nodes",
    groups=("A",),
    build=partial(curves.build, figure="figure1", group="A", x="train_fraction", private=False),
    meaning="How much training data does a graph convolutional network need when nothing is "
    "private? SGD and Adam train on random shares of the training nodes.",
)

FIGURE2 = Exhibit(
    "figure2",
    "With DP, by share of the training nodes",
    groups=("B",),
    build=partial(curves.build, figure="figure2", group="B", x="train_fraction", private=True),
    meaning="Does more training data help under DP, on the full graph?",
)

FIGURE2_AT_2 = Exhibit(
    "figure2_at_2",
    "With DP at ε = 2 on larger graphs",
    groups=("B_at_2",),
    build=partial(curves.build, figure="figure2", group="B_at_2", x="train_fraction", private=True),
    meaning="Does more training data of a larger graph help under DP?",
    label="Figure 2 at ε = 2",
)

FIGURE3 = Exhibit(
    "figure3",
    "Without DP, by number of random splits",
    groups=("C",),
    build=partial(curves.build, figure="figure3", group="C", x="splits", private=False),
    meaning="How much accuracy does training on random splits cost, compared with the full graph "
    "(1 split)?",
)

FIGURE3_WITHOUT_DP = Exhibit(
    "figure3_without_dp",
    "SGD on random splits of larger graphs",
    groups=("C_without_dp",),
    build=partial(curves.build, figure="figure3", group="C_without_dp", x="splits", private=False),
    meaning="PubMed in Figure 3, as the text describes it: SGD without DP on the full graph and on "
    "random splits.",
    label="Figure 3, SGD",
)


def _figure4(results: Any) -> list[Block]:
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


FIGURE4 = Exhibit(
    "figure4",
    "With DP, by number of random splits",
    groups=("C",),
    build=_figure4,
    meaning="Does training on random splits help under DP? 1 split is the full graph.",
)

FIGURE5 = Exhibit(
    "figure5",
    "Hard cases, by share of the training nodes",
    groups=("A",),
    build=partial(hard.build, figure="figure5", group="A", x="train_fraction"),
    meaning="Do the same test nodes stay wrong when SGD has fewer training nodes? The share of "
    "all wrong nodes stands beside it.",
)

FIGURE6 = Exhibit(
    "figure6",
    "Hard cases under DP, by ε",
    groups=("A", "B"),
    build=partial(hard.build, figure="figure6", group="B", x="epsilon"),
    meaning="Do the test nodes that SGD gets wrong without DP stay wrong under it? The share of "
    "all wrong nodes stands beside it.",
)

WHAT_LEAKS = leak_exhibit(
    "what_leaks",
    (
        "leaks_without_dp", "leaks_unlabelled", "leaks_pubmed", "leaks_refuted", "leaks_private",
        "leaks_sgd", "leaks_proved", "leaks_links", "leaks_edges", "leaks_noisy_graph",
        "leaks_words",
    ),
    "An attacker guesses who was a training node, which edges there are, and who used a rare word, "
    "beside the printed and the proved ε.",
)  # fmt: skip
