"""The tables of proved methods, made of all finished cells of a scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from private_graphs.errors import UserError
from private_graphs.reporting import label_table
from private_graphs.reporting.formats import Readable
from private_graphs.reporting.frontier import frontier_table, readable_frontier
from private_graphs.reporting.method_points import method_points
from private_graphs.reporting.published import published_table
from private_graphs.reporting.runs import METHOD_COLUMNS, collect, find_runs
from private_graphs.reporting.useful import readable_useful, useful_table

NAMES = ("frontier", "labels", "useful")
"""The tables, in the order of the page; the first is also the experiment that fills them."""


@dataclass(frozen=True)
class MethodTables:
    """What the tables of a study are made of."""

    points: pd.DataFrame
    """``method_points`` of all finished methods."""
    published: pd.DataFrame
    runs: pd.DataFrame
    """Of finished trainings."""
    statements: Mapping[str, Mapping[str, Any]]
    """Of methods and trainings."""

    def table(self, name: str) -> tuple[pd.DataFrame, Readable]:
        """Return table ``name`` of ``NAMES`` for programs and for people."""
        given = (self.points, self.published, self.runs, self.statements)
        if name == "frontier":
            frame = frontier_table(*given)
            return frame, readable_frontier(frame)
        if name == "labels":
            frame = label_table.label_table(self.points)
            said = label_table.sentences(self.points)
            return frame, label_table.readable_labels(frame, said)
        frame = useful_table(*given)
        return frame, readable_useful(frame)


def read(
    scale_folder: Path,
    study: str,
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
) -> MethodTables:
    """Read the finished methods of a scale; ``runs`` and ``statements`` are of its trainings.

    Raises UserError where no method has finished.
    """
    rows, said = collect(find_runs(scale_folder, study, "methods"), METHOD_COLUMNS)
    points = method_points(rows, said, NAMES[0])
    if points.empty:
        raise UserError(
            f"{Path(scale_folder) / 'methods' / study}: no finished cell of experiment {NAMES[0]}; "
            "make some first (snakemake --config "
            f"scale={Path(scale_folder).name} experiments={NAMES[0]})"
        )
    published = published_table(study, "table1")
    return MethodTables(points, published, runs, {**statements, **said})
