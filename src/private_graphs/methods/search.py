"""The learning rate that one cell chose, for the cells that use it at other ε and fractions.

Source: Igamberdiev & Habernal, LREC 2022, Section 5: the rate of private Adam is not searched
anew for every budget. What the search released is kept, because the choice is paid for
(docs/privacy.md §5).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from private_graphs.cells import RateChoice
from private_graphs.errors import UserError


@dataclass(frozen=True)
class Search:
    """A finished choice among learning rates, and what its runs released."""

    choice: RateChoice
    learning_rate: float
    """The rate that was chosen."""
    n_rates: int
    n_runs: int
    """Runs that were compared: seeds × learning rates."""
    noise_multiplier: float
    epochs: int


def read_search(choice: RateChoice, runs_file: str | os.PathLike[str]) -> Search:
    """Read the rate that ``choice`` names from the ``runs.parquet`` of its cell.

    Raises UserError where the file is absent, is of another cell, or has not chosen one rate.
    """
    path = Path(runs_file)
    remedy = f"train {choice.cell.cell_id} again (delete {path.parent})"
    try:
        runs = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not a readable run table ({error}); {remedy}") from None
    cell = choice.cell
    identity = {
        "study": cell.study, "experiment": cell.experiment, "dataset": cell.dataset,
        "features": cell.features, "method": cell.method, "optimizer": cell.optimizer,
        "protocol": cell.protocol, "n_splits": cell.splits, "train_fraction": cell.train_fraction,
    }  # fmt: skip
    for name, expected in identity.items():
        if name not in runs or not (runs[name] == expected).all():
            found = sorted(map(str, runs[name].unique())) if name in runs else "no such column"
            raise UserError(f"{path}: {name} is {found}; expected {expected}: {remedy}")
    compared = runs[runs["epsilon"] == choice.epsilon]
    chosen = sorted(compared.loc[compared["selected"].astype(bool), "lr"].unique())
    if len(chosen) != 1:
        raise UserError(
            f"{path}: {len(chosen)} learning rates are selected at epsilon = {choice.epsilon:g}; "
            f"expected one: {remedy}"
        )
    return Search(
        choice=choice,
        learning_rate=float(chosen[0]),
        n_rates=compared["lr"].nunique(),
        n_runs=len(compared),
        noise_multiplier=float(compared["noise_multiplier"].iloc[0]),
        epochs=int(compared["max_epochs"].iloc[0]),
    )
