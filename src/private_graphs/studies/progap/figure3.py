"""Figure 3 of ProGAP: training and validation accuracy by epoch, stage after stage, of one run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.report.columns import plain
from private_graphs.report.words import guarantee, number, privacy_notes
from private_graphs.running.exhibit import Block, Chart, Column, Exhibit, Table
from private_graphs.studies.progap.scores import LEVELS, points

SIDES = {"training_accuracy": "training nodes", "validation_accuracy": "validation nodes"}
PLACE = ["dataset", "level", "protocol"]
_OF_A_RUN = (
    *PLACE, "epsilon", "title", "status", "statement_id", "epsilon_proved", "unit", "relation",
    "inference", "vacuous", "audit_epsilon_lower",
)  # fmt: skip
_DRAWN = 60
"""Maximum number of epochs of a line, in addition to the last epochs of the stages."""
NOTES = (
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


def build(results: Any) -> list[Block]:
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
    notes = (*NOTES, *privacy_notes(frame))
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


EXHIBIT = Exhibit(
    "figure3",
    "Convergence",
    groups=("friendship_epochs", "list_epochs"),
    build=build,
    meaning="How fast do the stages of one run learn, and how far is training accuracy above that "
    "of other nodes?",
)
