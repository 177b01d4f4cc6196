"""Shelves: results of one study that belong together, the reader's own or recorded ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from private_graphs.report.results import Results

from private_graphs.datasets.registry import declared_graphs
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.report.exhibit import Exhibit
from private_graphs.report.record import Made

_WORDS = {"full": "your runs, full scale", "demo": "your runs, demo"}


@dataclass(frozen=True)
class Shelf:
    """Results of one study that belong together."""

    name: str
    """``full``, ``demo`` or ``recorded``: the folder below ``results``."""
    results: Results
    exhibits: Sequence[Exhibit]
    made: Made | None = None
    missing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What an exhibit lacks, in sentences, by its name."""

    @property
    def words(self) -> str:
        """What a reader calls it."""
        return f"recorded, {self.made.date}" if self.made else _WORDS.get(self.name, self.name)

    @cached_property
    def synthetic(self) -> tuple[str, ...]:
        """Titles of its synthetic datasets."""
        return tuple(each["title"] for each in self._statistics if each.get("synthetic"))

    @cached_property
    def private(self) -> tuple[str, ...]:
        """Names of users' own graphs among its datasets."""
        return declared_graphs(each["name"] for each in self._statistics)

    @property
    def _statistics(self) -> list[Mapping[str, Any]]:
        used = set(self.results.datasets)
        return [each for each in self.results.statistics if each["name"] in used]

    @cached_property
    def statements(self) -> dict[str, PrivacyStatement]:
        """Statements of its rows by identifier, with their audits."""
        names = self.results.runs["statement_id"].dropna().unique()
        return {name: PrivacyStatement.model_validate(self.results.statement(name))
                for name in names}  # fmt: skip

    def statements_of(self, rows: pd.DataFrame) -> list[PrivacyStatement]:
        """Return the statements of some of its rows, in their order."""
        return [self.statements[name] for name in rows["statement_id"].dropna().unique()]

    def rows_of(self, exhibit: Exhibit) -> pd.DataFrame:
        """Runs of the run groups that an exhibit reads."""
        study, runs = self.results.study.id, self.results.runs
        groups = {name if "." in name else f"{study}.{name}" for name in exhibit.groups}
        return runs[(runs["study"] + "." + runs["group"]).isin(groups)]


def exhibit_files(root: Path, shelf: Shelf, exhibit: Exhibit) -> list[Path]:
    """Return the files of an exhibit below ``root`` in order: tables, then pictures by number."""
    folder = root / shelf.name / "exhibits" / shelf.results.study.id
    name = re.compile(rf"{re.escape(exhibit.name)}(_(\d+))?$")
    found = [(path, name.match(path.stem)) for path in folder.glob(f"{exhibit.name}*")]
    return [
        path for path, _ in sorted(
            ((path, match) for path, match in found if match),
            key=lambda pair: (int(pair[1][2] or 1), pair[0].suffix),
        )
    ]  # fmt: skip


def title_of(exhibit: Exhibit) -> str:
    """Return the title with the name, such as ``table1``, if it does not begin with it."""
    label = exhibit.name.replace("_", " ")
    begins = exhibit.title.lower().replace(" ", "").startswith(label.replace(" ", "").lower())
    return exhibit.title if begins else f"{label}: {exhibit.title}"
