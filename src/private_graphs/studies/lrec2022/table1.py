"""Table 1 of LREC 2022: published micro-F1 compared with the three protocols."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from private_graphs.report.layout import LayoutColumn, naming
from private_graphs.report.words import OPTIMIZERS, number, privacy_notes
from private_graphs.running.exhibit import Block, Cell, Column, Exhibit, Table
from private_graphs.studies.lrec2022.scores import (
    KEY,
    PAPERS,
    TITLE,
    by_key,
    heads,
    in_layout,
    key,
    lines,
    points,
    printed,
    score_place,
    sources,
    with_baselines,
)


def score_table(
    results: Any,
    name: str,
    title: str,
    names: Sequence[str],
    places: Sequence[LayoutColumn],
    *,
    features: bool = False,
) -> Table:
    """Return the scores of every protocol next to those that table ``name`` prints.

    The paper's layout has a row for each combination of ``names``, and columns ``places``.
    """
    runs, table = with_baselines(results, points(results)), printed(results, name)
    paper = table[table["dataset"].isin(results.datasets)]
    at = by_key(paper)

    def published(row: dict[str, Any]) -> Cell:
        return Cell(number(at.get(key(row), {}).get("published"), 2), tone="published")

    columns = [*heads(features=features), Column("published", published),
               *sources(runs, "protocol", {name: name for name in results.protocols})]  # fmt: skip
    return Table(
        TITLE.format(title),
        runs.merge(paper, how="outer", on=KEY).sort_values([*KEY, "protocol"]),
        columns,
        (*results.protocol_notes(), *privacy_notes(runs)),
        panel="dataset",
        lines=lines(runs, paper),
        layout=in_layout(runs, table, names, places),
    )


def places(baselines: Mapping[str, str], settings: Mapping[str, str]) -> list[LayoutColumn]:
    """Return the columns of a table by dataset and ε: baselines, no DP, and groups of DP.

    Both mappings are from heads to settings.
    """
    once, optimizers = ("dataset",), list(OPTIMIZERS.items())
    return [
        naming("dataset", PAPERS, per=once),
        *(score_place(head, "", once, setting=of, features="", epsilon=math.nan)
          for head, of in baselines.items()),
        *(score_place(head, "Non-DP", once, setting="no DP", optimizer=name, epsilon=math.inf)
          for name, head in optimizers),
        LayoutColumn("ε", lambda row: number(row["epsilon"]), heading=True),
        *(score_place(head, group, setting=of, optimizer=name)
          for group, of in settings.items() for name, head in optimizers),
    ]  # fmt: skip


def build(results: Any) -> list[Block]:
    """Return the table."""
    groups = {"DP": "DP, full graph", "DP split (10)": "DP, 10 splits"}
    columns = places({"Maj.": "majority class"}, groups)
    title = "Table 1. Micro-F1 on the test nodes"
    return [score_table(results, "table1", title, ["dataset", "epsilon"], columns)]


EXHIBIT = Exhibit(
    "table1",
    "Micro-F1 on the test nodes",
    groups=("table1",),
    build=build,
    meaning="Can the scores be reproduced, and how private are they really?",
)
