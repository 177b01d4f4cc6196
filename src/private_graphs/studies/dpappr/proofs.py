"""Proved ε of published rows: from their own noise, at a δ that does not allow releasing a node."""

from __future__ import annotations

from typing import Any

from private_graphs.report.columns import plain
from private_graphs.report.words import budget, missing, number
from private_graphs.running.exhibit import Column, Exhibit, Table
from private_graphs.studies.dpappr.points import title_of

_BY = ["dataset", "protocol", "method", "top", "training_epsilon", "epsilon"]
_SHOWN = ["epsilon_claimed", "noise_multiplier", "others_found", "epsilon_bound"]


def build(results: Any) -> list[Table]:
    """Return a row per dataset, protocol, method, K and ε: the largest of the seeds."""
    runs = results.runs
    runs = runs[runs["epsilon_bound"].notna()]
    if "training_epsilon" not in runs:
        runs = runs.assign(training_epsilon=None)
    frame = runs.groupby(_BY, dropna=False)[_SHOWN].max().reset_index()
    frame = frame.assign(title=[title_of(results, row) for row in frame.to_dict("records")])
    columns = [
        *plain("dataset", "protocol", {"rows": "title", "K": "top"}),
        *plain({"ε of training": "training_epsilon"}),
        Column("ε claimed", lambda row: number(row["epsilon_claimed"], 2)),
        Column("noise of a step", lambda row: number(row["noise_multiplier"], 3)),
        Column("most other rows of a node", lambda row: number(row["others_found"])),
        Column("ε proved at δ = 1e-5", _bound),
    ]
    notes = (
        "a node replaced, amplified by the secret sample once: the most that the printed noise can "
        "be proved to give, of the seed where that is most. Claims are at the thesis's δ, at which "
        "δ times the training nodes is above 1: nothing is proved there.",
        "GM and EM release rows first; how many other rows a node stands in is read from them.",
    )
    return [Table("What the noise of the published rows proves", frame, columns, notes, "dataset")]


def _bound(row: dict[str, Any]) -> str:
    value = row["epsilon_bound"]
    return number(None) if missing(value) else budget(value)


EXHIBIT = Exhibit(
    "proofs",
    "What the noise of the published rows proves",
    groups=("appr_budgets",),
    build=build,
    meaning="The distance between the ε that is claimed and what the same noise proves.",
)
