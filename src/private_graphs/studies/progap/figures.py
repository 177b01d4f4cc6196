"""Figures 2 to 4 of ProGAP, and what leaks in practice."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.report.columns import percent, plain
from private_graphs.report.leaks import leak_exhibit
from private_graphs.report.words import guarantee, number, privacy_notes
from private_graphs.running.exhibit import Block, Cell, Chart, Column, Exhibit, Table
from private_graphs.studies.progap.scores import (
    LEVELS,
    READ_OFF,
    STAND_IN_NOTE,
    choose_depth,
    points,
    printed,
    with_printed,
)

# --- Figure 3: training and validation accuracy by epoch, stage after stage, of one run ---

SIDES = {"training_accuracy": "training nodes", "validation_accuracy": "validation nodes"}
PLACE = ["dataset", "level", "protocol"]
_OF_A_RUN = (
    *PLACE, "epsilon", "title", "status", "statement_id", "epsilon_proved", "unit", "relation",
    "inference", "vacuous", "audit_epsilon_lower",
)  # fmt: skip
_DRAWN = 60
"""Maximum number of epochs of a line, in addition to the last epochs of the stages."""
EPOCH_NOTES = (
    "one run with settings that are fixed in advance; the paper shows the best of four by its "
    "validation accuracy, and prints no numbers.",
    "accuracy after each epoch, as in evaluation; at the end of a stage its first best epoch is "
    "restored.",
    "node level: nothing that is proved covers the accuracies, which read private nodes; under "
    "sound none are kept.",
)


def epochs(results: Any) -> pd.DataFrame:
    """Return a row per run and epoch: stage from 0, epoch from 1, accuracies in percent."""
    rows = results.runs[results.runs["selected"].fillna(True).astype(bool)]
    at = {(row["group"], row["job"]): row for row in points(results).to_dict("records")}
    arrays = {name: results.artifacts(rows, name) for name in (*SIDES, "stages")}
    parts = []
    for index, run in enumerate(rows.to_dict("records")):
        stages, point = arrays["stages"][index], at[run["group"], run["job"]]
        if stages is None:
            continue
        accuracies = {name: 100.0 * arrays[name][index] for name in SIDES}
        part = pd.DataFrame({"stage": np.repeat(np.arange(len(stages)), stages), **accuracies})
        part["epoch"] = np.arange(1, len(part) + 1)
        parts.append(part.assign(seed=run["seed"], **{name: point[name] for name in _OF_A_RUN}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["dataset"])


def _figure3(results: Any) -> list[Block]:
    """Return a chart per dataset and level, and the accuracies at the ends of the stages."""
    frame = epochs(results)
    if frame.empty:
        return ["No run has kept its accuracies by epoch."]
    charts = [
        _chart(f"{LEVELS[level]}: {results.title_of(dataset)}", part)
        for (dataset, level), part in frame.groupby(["dataset", "level"])
    ]
    last = frame["epoch"] == frame.groupby([*PLACE, "seed", "stage"])["epoch"].transform("max")
    columns = [
        *plain("dataset"),
        Column("level", lambda row: LEVELS[row["level"]]),
        *plain("protocol", "stage", "epoch"),
        *(
            Column(words, lambda row, name=name: number(row[name], 1), "accuracy, %")
            for name, words in SIDES.items()
        ),
        Column("ε proved", guarantee),
    ]
    notes = (*EPOCH_NOTES, *privacy_notes(frame))
    table = Table("Figure 3: the last epoch of every stage", frame, columns, notes, "dataset",
                  frame[last])  # fmt: skip
    return [*charts, table]


def _chart(title: str, frame: pd.DataFrame) -> Chart:
    apart = math.ceil(frame["epoch"].max() / _DRAWN)
    ends = frame.groupby([*PLACE, "seed", "stage"])["epoch"].transform("max")
    drawn = frame[(frame["epoch"] % apart == 0) | (frame["epoch"] == ends)]
    long = drawn.melt(
        ["epoch", "protocol", "status", "statement_id"], list(SIDES), "side", "percent"
    )
    return Chart(
        f"Figure 3. ProGAP epoch by epoch, {title}",
        long.assign(
            side=pd.Categorical(long["side"].map(SIDES), list(SIDES.values())),
            protocol=pd.Categorical(long["protocol"], list(PROTOCOLS)),
        ),
        x="epoch", y="percent", spread="", line="side", row="protocol",
        x_label="epochs of all stages, one after the other", y_label="accuracy, %",
    )  # fmt: skip


FIGURE3 = Exhibit(
    "figure3",
    "Convergence",
    groups=("friendship_epochs", "list_epochs"),
    build=_figure3,
    meaning="How fast do the stages of one run learn, and how far is training accuracy above that "
    "of other nodes?",
)


# --- Figures 2 and 4: accuracy against ε, or against the number of noisy sums; leaks ---

PICTURES_NOTE = (
    "printed: the paper prints these curves as pictures alone. The numbers are read from the "
    f"pictures in the notebook of its code (results.ipynb), to {READ_OFF:g} points, on FB-100 to "
    f"{2 * READ_OFF:g}. Those "
    "of Facebook have not been read: at ε = 1 (edge level) and 8 (node level) Figure 2 has what "
    "Table 2 prints for it, Figure 4 has none."
)


DEPTH_NOTE = (
    "K: the paper chooses among one to five sums at each ε, by validation. Against ε, ProGAP and "
    "GAP under the authors’ code and as the paper describes it have the better of two, 1 and the "
    "authors’ best on Facebook."
)


_OF_THE_PAPER = ("progap", "gap")
"""Methods whose curves the paper prints."""


_X_LABELS = {"epsilon": "ε asked for", "hops": "K, noisy sums along edges"}


def _curve_blocks(results: Any, name: str, title: str, x: str) -> list[Block]:
    """Return a grid for each level, of graphs and protocols, and the numbers.

    Graphs on which methods of this project alone ran have a grid of their own. ``x`` is epsilon,
    with a line for each method, or hops, with one for each ε. The paper's numbers are next to
    points of the same dataset.
    """
    line = "title" if x == "epsilon" else "epsilon"
    frame = points(choose_depth(results) if x == "epsilon" else results)
    without = frame[(frame["level"] == "none") & (frame["method"] == "progap")]
    reference = without.groupby("dataset")["mean"].max()
    frame = frame[frame["level"] != "none"]
    paper = printed(results, name, *dict.fromkeys(("epsilon", x)))
    frame = with_printed(frame, paper, *dict.fromkeys(("epsilon", x))).assign(
        protocol=pd.Categorical(frame["protocol"], list(PROTOCOLS)),
        heading=frame["level"].map(LEVELS),
        percent=100 * frame["mean"],
        without=100 * frame["dataset"].map(reference),
        graph=[results.title_of(name) for name in frame["dataset"]],
    )
    by_paper = frame[frame["method"].isin(_OF_THE_PAPER)]
    compared = [pair in {*zip(by_paper["dataset"], by_paper["level"], strict=True)}
                for pair in zip(frame["dataset"], frame["level"], strict=True)]  # fmt: skip
    frame = frame.assign(
        more=["" if known else ", further graphs" for known in compared],
        order=frame["level"].map(list(LEVELS).index),
    ).sort_values(["more", "order", "dataset", line, x, "protocol"])
    if line == "title":  # a method has one colour in all grids
        frame[line] = pd.Categorical(frame[line], list(dict.fromkeys(frame[line])))
    charts = [
        Chart(
            f"{title}, {heading}{group}",
            part.assign(std=100 * part["std"]),
            x=x,
            y="percent",
            line=line,
            line_label="" if x == "epsilon" else "ε asked for:",
            row="graph",
            column="" if group else "protocol",
            printed="percent_printed",
            references={"ProGAP without DP": "without"} if part["without"].notna().any() else {},
            x_label=_X_LABELS[x],
            y_label="test accuracy, %",
            steps=True,
        )
        for (heading, group), part in frame.groupby(["heading", "more"], sort=False)
    ]
    frame = frame.drop(columns=["graph", "more"]).sort_values(["dataset", "order"], kind="stable")
    return [*charts, _table(results, title, frame)]


def _table(results: Any, title: str, frame: pd.DataFrame) -> Table:
    columns = [
        *plain("dataset", {"level": "heading", "method": "title", "K": "hops", "ε": "epsilon"}),
        *plain("protocol"),
        Column("printed", lambda row: Cell(number(row["percent_printed"]), tone="published")),
        Column("accuracy", percent),
        Column("ε proved", guarantee),
    ]
    notes = (*results.protocol_notes(), PICTURES_NOTE, STAND_IN_NOTE, DEPTH_NOTE,
             *privacy_notes(frame))  # fmt: skip
    frame = frame.drop(columns="order")
    return Table(f"{title}: the numbers", frame, columns, notes, "dataset", unfolded=0)


def best_depths(results: Any) -> dict[str, str]:
    """Return what the finding of Figure 4 names, per link under ``released``, on one ``graph``.

    ``best at smallest`` and ``best at largest``: the K with the largest score at the ε ``smallest``
    and ``largest``.
    """
    frame = points(results)
    frame = frame[(frame["level"] == "edge") & (frame["protocol"] == "released")]
    frame = frame[frame["dataset"] == frame["dataset"].min()]
    best = frame.loc[frame.groupby("epsilon")["mean"].idxmax()].set_index("epsilon")
    if len(best) < 2:
        return {}
    known = {"graph": results.title_of(best["dataset"].iloc[0])}
    for name, epsilon in (("smallest", best.index.min()), ("largest", best.index.max())):
        known |= {name: number(epsilon), f"best at {name}": number(best["hops"][epsilon])}
    return known


FIGURE2 = Exhibit(
    "figure2",
    "Accuracy against ε",
    groups=("friendship_budgets", "list_budgets", "read_lists", "no_noise"),
    build=partial(_curve_blocks, name="figure2", title="Figure 2. Accuracy against ε", x="epsilon"),
    meaning="How much accuracy does a budget buy, under the published accounting and where ε is "
    "proved?",
)

FIGURE4 = Exhibit(
    "figure4",
    "Accuracy against the number of noisy sums",
    groups=("friendship_hops", "list_hops"),
    build=partial(_curve_blocks, name="figure4", title="Figure 4. Accuracy against K", x="hops"),
    numbers=best_depths,
    meaning="Are deeper models better at a large budget, and shallower ones at a small budget?",
)

WHAT_LEAKS = leak_exhibit(
    "what_leaks",
    ("leaks_lists", "leaks_lists_without_dp", "leaks_friendships"),
    "An attacker guesses who was a training node; another, who knows all other friendships, "
    "guesses one of them; the printed and the proved ε stand beside them.",
)
