"""Table 1 of LREC 2022: published micro-F1 compared with the three protocols."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Cell, Column, Exhibit, Table
from private_graphs.report.words import number, privacy_notes
from private_graphs.studies.lrec2022.scores import (
    KEY,
    TITLE,
    by_key,
    heads,
    key,
    lines,
    points,
    printed,
    score_chart,
    source,
    with_baselines,
)


def score_table(results: Any, name: str, title: str, *, features: bool = False) -> Table:
    """Return the scores of every protocol next to those that table ``name`` prints."""
    ours, theirs = with_baselines(results, points(results)), printed(results, name)
    at = by_key(theirs)

    def published(row: dict[str, Any]) -> Cell:
        return Cell(number(at.get(key(row), {}).get("published"), 2), tone="published")

    columns = [*heads(features=features), Column("published", published)]
    for protocol in results.protocols:
        columns += source(protocol, ours[ours["protocol"] == protocol])
    return Table(
        TITLE.format(title),
        ours.merge(theirs, how="outer", on=KEY).sort_values([*KEY, "protocol"]),
        columns,
        (*results.protocol_notes(), *privacy_notes(ours)),
        panel="dataset",
        lines=lines(ours, theirs),
    )


def build(results: Any) -> list[Block]:
    """Return the table and its chart."""
    table = score_table(results, "table1", "Table 1. Micro-F1 on the test nodes")
    return [table, score_chart(results, table.frame, "Table 1")]


EXHIBIT = Exhibit(
    "table1",
    "Micro-F1 on the test nodes",
    groups=("table1",),
    build=build,
    meaning="Whether the printed scores can be met, and what privacy the runs really have: by the "
    "authors' code, by the text of the paper, and where the ε asked for is proved.",
)
