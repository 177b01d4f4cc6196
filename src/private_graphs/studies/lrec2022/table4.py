"""Table 4 of LREC 2022: a perceptron on MNIST with given noise, and its proved ε."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from private_graphs.methods import method_named
from private_graphs.report.columns import beside, plain
from private_graphs.report.words import (
    budget,
    guarantee,
    missing,
    number,
    printed,
    privacy_notes,
    score,
)
from private_graphs.running.exhibit import NOTHING, Cell, Column, Exhibit, Table

KEY = ["dataset", "lot_size", "noise_multiplier_setting", "epsilon"]
BRANCH = "noise_on"
"""Setting that distinguishes the branches of the authors' code; null: the protocol's own."""
BRANCHES = {"": "", "record": ", noise on every record"}
RELATIONS = {"add_remove": "added or removed", "zero_out": "left out"}
MEANING = (
    "The printed ε are those of lots drawn by independent coins. The released code shuffles and "
    "clips nothing, so that nothing is proved for either of its branches, and its scores are of "
    "epochs that were chosen on the test images; the text's shuffled lots are not amplified "
    "by sampling; with coins, a smaller ε than the printed one holds where a record is added or "
    "removed."
)
NOTES = (
    "ε formula: the noise is given, and this is the moments accountant's ε for it, with which the "
    "printed one agrees but in the last row: a numerical cancellation in the authors' accountant.",
    "ε proved is for a record that is replaced by any other; behind it, for one that is added or "
    "removed, or left out of lots of a fixed size.",
    "The authors' code has two branches. Its flag selects noise on the mean gradient of a lot; the "
    "other adds such a noise to the gradient of every record and then takes the mean, where its "
    "standard deviation is lower by the root of the lot.",
    "Both stop early on test images: once the loss of the last batch of them has not fallen for 20 "
    "epochs. These scores are of a choice that was made on them. Under paper and sound every run "
    "has all its epochs.",
)


def build(results: Any) -> list[Table]:
    """Return one table: a row per minibatch size and noise, columns by protocol and branch."""
    runs = results.runs
    branches = runs[BRANCH].fillna("") if BRANCH in runs else ""
    runs, by = runs.assign(**{BRANCH: branches}), [*KEY, "protocol", BRANCH]
    points = results.with_rows(runs).points(by)
    epochs = runs.groupby(by)["epochs"].agg(["min", "max"])
    points["epochs_fewest"], points["epochs_most"] = epochs.loc[
        pd.MultiIndex.from_frame(points[by])
    ].to_numpy().T  # fmt: skip
    also = [results.statement(name)["also_proved"] for name in points["statement_id"]]
    points["epsilon_vanishing"] = [a[0]["epsilon"] if a else None for a in also]
    points["relation_vanishing"] = [a[0]["relation"] if a else "" for a in also]
    paper = {_key(row)[2:]: row for row in results.published("table4").to_dict("records")}
    formula = points.groupby(KEY)["epsilon_claimed"].first().to_dict()
    lines = (
        points[KEY]
        .drop_duplicates()
        .sort_values(KEY, ascending=[True, True, True, False], ignore_index=True)
    )

    columns = [
        *plain("dataset", {"lot": "lot_size"}),
        Column("noise", lambda row: NOTHING if math.isinf(row["epsilon"]) else number(row[KEY[2]])),
        Column("ε formula", lambda row: number(formula.get(_key(row)), 4)),
        Column("ε", lambda row: number(row["epsilon"]), "printed for MNIST"),
        Column("F1", lambda row: _printed(paper.get(_key(row)[2:])), "printed for MNIST"),
    ]
    for protocol in results.protocols:
        part = points[points["protocol"] == protocol]
        stops = method_named("mlp_records").protocols[protocol].stops_on_test is not None
        shows = {"F1": score, **({"epochs": _epochs} if stops else {}), "ε proved": _proved}
        branches = {name: f"{protocol}{words}" for name, words in BRANCHES.items()
                    if name in set(part[BRANCH])}  # fmt: skip
        columns += beside(part, KEY, BRANCH, branches, shows, [*shows][1:], branches.__getitem__)
    notes = (*NOTES, *results.protocol_notes(), *privacy_notes(points))
    title = "Table 4. Micro-F1 on the test images: mean ± standard deviation over the seeds"
    return [Table(title, points, columns, notes, panel="dataset", lines=lines)]


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in KEY)


def _printed(row: Mapping[str, Any] | None) -> Cell:
    if row is None:
        return Cell()
    cell = printed(row["test_micro_f1"])
    return Cell(f"{cell.text} ± {number(row['f1_std'], 2)}", tone=cell.tone)


def _epochs(point: Mapping[str, Any]) -> Cell:
    fewest, most = number(point["epochs_fewest"]), number(point["epochs_most"])
    return Cell(fewest if fewest == most else f"{fewest} to {most}")


def _proved(point: Mapping[str, Any]) -> Cell:
    cell = guarantee(point)
    if missing(point["epsilon_vanishing"]):
        return cell
    words = f"{budget(point['epsilon_vanishing'])} {RELATIONS[point['relation_vanishing']]}"
    return Cell(f"{cell.text}; {words}", cell.statement, cell.tone)


EXHIBIT = Exhibit("table4", "MNIST: given noise and lots", ["table4"], build, meaning=MEANING)
