"""Tables as they were written: read back, cut by dataset, and written elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from private_graphs.errors import UserError
from private_graphs.files import write_text
from private_graphs.reporting.formats import csv_text, markdown_cell, read_table


@dataclass(frozen=True)
class WrittenTable:
    """A table as it was written: for programs, and for people as lines of Markdown.

    The lines are kept as they are: those of a frame that was read have been rounded twice.
    """

    frame: pd.DataFrame
    head: list[str]
    rows: list[str]
    notes: list[str]

    def of(self, dataset: str) -> WrittenTable:
        """Return the rows of one dataset, which is the first column, and what is said of it."""
        mine = self.frame["dataset"] == dataset
        start = f"| {markdown_cell(dataset)} |"
        others = tuple(f"- {markdown_cell(each)}: " for each in self.frame["dataset"][~mine])
        return replace(
            self,
            frame=self.frame[mine].reset_index(drop=True),
            rows=[row for row in self.rows if row.startswith(start)],
            notes=[line for line in self.notes if not line.startswith(others)],
        )

    def write(self, stem: Path) -> list[Path]:
        """Write ``<stem>.csv`` and ``<stem>.md``; return the paths."""
        lines = "\n".join([*self.head, *self.rows, *self.notes]) + "\n"
        paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in ("csv", "md")]
        for path, text in zip(paths, (csv_text(self.frame), lines), strict=True):
            write_text(path, text)
        return paths


def read_written(
    place: Path,
    name: str,
    remedy: str = "run snakemake with this scale first",
    *,
    joint: str = "_",
) -> WrittenTable:
    """Read ``<place><joint><name>.csv`` and ``.md``; UserError with ``remedy`` if one is absent."""
    csv, page = (Path(f"{place}{joint}{name}.{suffix}") for suffix in ("csv", "md"))
    for path in (csv, page):
        if not path.is_file():
            raise UserError(f"{path} is missing; expected the tables of a finished run: {remedy}")
    lines = page.read_text(encoding="utf-8").splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("| ---")) + 1
    end = next((i for i in range(start, len(lines)) if not lines[i].startswith("| ")), len(lines))
    return WrittenTable(read_table(csv), lines[:start], lines[start:end], lines[end:])
