"""The points of the figures of a study: scores along an axis, one row per point."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from private_graphs.config import Study, TrainingExperiment
from private_graphs.errors import UserError, suggest
from private_graphs.protocols import PROTOCOLS
from private_graphs.reporting.published import PLACE, published_points
from private_graphs.reporting.scores import SCORE_COLUMNS, score_values

POINT_KEY = ("dataset", "protocol", "optimizer", "splits", "train_fraction", "epsilon")
"""What names a point; ``epsilon`` is infinite without DP."""

POINT_COLUMNS = (
    *POINT_KEY, *SCORE_COLUMNS, "authors_epsilon", "n_units", "majority_mean", "random_mean",
    "published", "published_where",
)  # fmt: skip
"""Columns of the table behind a figure.

``n_units`` is the number of training nodes that the fraction is drawn from; the baselines are
means over the seeds of the point.
"""

OPTIMIZERS = ("sgd", "adam")
"""Optimizers in the order of the rows and lines."""


@dataclass(frozen=True)
class Curves:
    """What a figure draws of its experiment."""

    name: str
    """As in ``figures`` of the study: ``figure2``."""
    title: str
    x: Literal["train_fraction", "splits"]
    private: bool
    """Runs with DP, one line per ε; or without, one line per optimizer."""
    caption: str
    """What is drawn, in a sentence or two."""

    @property
    def label(self) -> str:
        """``Figure 2``."""
        return self.name.replace("figure", "Figure ")

    @property
    def x_label(self) -> str:
        """Words for the horizontal axis."""
        if self.x == "splits":
            return "number of subgraphs"
        return "share of the training nodes"


FIGURES: dict[tuple[str, str], Curves] = {
    ("lrec2022", each.name): each
    for each in (
        Curves(
            "figure1",
            "Without DP, by share of the training nodes",
            "train_fraction",
            False,
            "Experiment A: how much training data a graph convolutional network needs when nothing "
            "is private. SGD and Adam on random shares of the training nodes.",
        ),
        Curves(
            "figure2",
            "With DP, by share of the training nodes",
            "train_fraction",
            True,
            "Experiment B: whether more training data helps under DP. The full graph, one line for "
            "each ε that is asked for.",
        ),
        Curves(
            "figure3",
            "Without DP, by number of random subgraphs",
            "splits",
            False,
            "Experiment C without DP: what it costs to train on random subgraphs in place of the "
            "full graph (1 subgraph).",
        ),
        Curves(
            "figure4",
            "With DP, by number of random subgraphs",
            "splits",
            True,
            "Experiment C with DP: whether training on random subgraphs helps. One line for each ε "
            "that is asked for; 1 subgraph is the full graph.",
        ),
    )
}
"""How the figures of each study are drawn; ``studies/*.yaml`` says which experiment fills them."""


def curves_of(study: str, name: str) -> Curves:
    """Return how figure ``name`` of ``study`` is drawn; UserError where nobody has said it."""
    try:
        return FIGURES[study, name]
    except KeyError:
        known = [figure for owner, figure in FIGURES if owner == study]
        raise UserError(
            f"studies/{study}.yaml: unknown figure {name!r}; expected "
            f"{', '.join(known) or 'no figure'}{suggest(name, known)}"
        ) from None


def experiment_of(study: Study, name: str) -> str:
    """Return the experiment that fills figure ``name``: the one whose ``figures`` list it.

    Raises UserError where the study has no such experiment, or several.
    """
    found = {
        experiment
        for scale in study.scales.values()
        for experiment, settings in scale.experiments.items()
        if isinstance(settings, TrainingExperiment) and name in settings.figures
    }
    if len(found) != 1:
        raise UserError(
            f"studies/{study.id}.yaml: {name} is in the figures of "
            f"{', '.join(sorted(found)) or 'no experiment'}; expected one experiment"
        )
    return found.pop()


def points(
    runs: pd.DataFrame, statements: Mapping[str, Mapping[str, Any]], study: Study, name: str
) -> pd.DataFrame:
    """Return the points of figure ``name`` with the columns ``POINT_COLUMNS``, one row each.

    ``runs`` and ``statements`` are those of all finished cells; every finished cell of the
    figure's experiment has its points. Rows are sorted by dataset, protocol, optimizer, ε and
    position on the axis. Raises UserError where two cells claim one point, and where there is none.
    """
    curves, experiment = curves_of(study.id, name), experiment_of(study, name)
    mine = runs[(runs["experiment"] == experiment) & runs["selected"].astype(bool)]
    mine = mine[mine["epsilon"].map(math.isfinite) == curves.private]
    if mine.empty:
        raise UserError(
            f"{curves.label}: no finished cell of experiment {experiment} "
            f"{'with' if curves.private else 'without'} DP; train some first "
            f"(snakemake --config experiments={experiment})"
        )
    printed = {
        tuple(row[column] for column in PLACE): row
        for row in published_points(study.id, name).to_dict("records")
    }
    rows = []
    names = [each if each != "splits" else "n_splits" for each in POINT_KEY]
    for key, group in mine.groupby(names, sort=True):
        row = dict(zip(POINT_KEY, key, strict=True))
        place = ", ".join(f"{column} {value}" for column, value in row.items())
        row |= score_values(group, statements, f"{curves.label} has one point for {place}")
        row["n_units"] = statements[row["statement_id"]]["n_units"]
        row["majority_mean"] = group["majority_micro_f1"].mean()
        row["random_mean"] = group["random_micro_f1"].mean()
        known = printed.get(tuple(row[column] for column in PLACE), {})
        row |= {column: known.get(column) for column in ("published", "published_where")}
        rows.append(row)
    rows.sort(key=lambda row: _order(row, curves.x))
    return pd.DataFrame(rows, columns=list(POINT_COLUMNS))


def _order(row: Mapping[str, Any], x: str) -> tuple[Any, ...]:
    return (
        row["dataset"], list(PROTOCOLS).index(row["protocol"]),
        OPTIMIZERS.index(row["optimizer"]), row["epsilon"], row[x],
    )  # fmt: skip
