"""What is kept of the proved methods on a dataset: their tables, pictures and times."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from private_graphs.cells import MethodPlan
from private_graphs.config import MethodsExperiment, RunConfig, Study
from private_graphs.cost.finished import job_seconds
from private_graphs.errors import UserError
from private_graphs.files import write_text
from private_graphs.grids import method_plans
from private_graphs.methods.names import METHOD_NAMES
from private_graphs.reporting.method_tables import NAMES

METHOD_TIMES_FILE = "methods_times.csv"
_TIME_COLUMNS = (
    "experiment", "dataset", "features", "method", "setting", "runs", "run_seconds", "job_seconds",
)  # fmt: skip


@dataclass(frozen=True)
class MethodHoldings:
    """The finished cells of the proved methods on one dataset at one scale."""

    folder: Path
    """Of the scale: ``results/full``."""
    study: Study
    dataset: str
    runs: pd.DataFrame
    """Theirs alone: rows with ``METHOD_COLUMNS`` and ``cell``."""

    @property
    def remedy(self) -> str:
        """The command that makes all of them, their tables and their pictures."""
        seeds = len(self._seeds())
        words = f"scale={self.folder.name} datasets={self.dataset} experiments={NAMES[0]}"
        usual = self._experiment()
        return f"snakemake figures --config {words}" + (
            "" if usual and usual.draws == seeds else f" seeds={seeds}"
        )

    def _experiment(self) -> MethodsExperiment | None:
        found = self.study.scales[self.folder.name].experiments.get(NAMES[0])
        return found if isinstance(found, MethodsExperiment) else None

    def _seeds(self) -> tuple[int, ...]:
        return tuple(sorted(map(int, self.runs["seed"].unique())))

    def cells(self) -> list[Path]:
        """Return the folders of the finished cells."""
        return [Path(each) for each in sorted(self.runs["cell"].unique())]

    def planned(self) -> dict[str, frozenset[int]]:
        """Return the seeds of every cell that a run with the seeds of these would make."""
        if self._experiment() is None:
            return {}
        run = RunConfig(
            scale=self.folder.name,
            datasets=(self.dataset,),
            experiments=(NAMES[0],),
            seeds=self._seeds(),
        )
        plans = method_plans(self.study, run)
        return {plan.cell.cell_id: frozenset(_drawn(plan)) for plan in plans}

    def check(self) -> None:
        """Raise UserError where a cell, a draw, a table or a picture is missing or out of date."""
        root = self.folder / "methods" / self.study.id
        seeds = self.runs.groupby("cell")["seed"].agg(set).to_dict()
        plans = self.planned()
        missing = [
            cell
            for cell, needed in plans.items()
            if not needed <= seeds.get((root / cell).as_posix(), set())
        ]
        if missing:
            raise UserError(
                f"{self.folder}: {len(missing)} of {len(plans)} cells of the proved methods on "
                f"{self.dataset} are not finished ({missing[0]}); expected a finished run: "
                f"{self.remedy}"
            )
        tables = [self.folder / "tables" / f"{self.study.id}_{name}.csv" for name in NAMES]
        self._fresh(tables, [each / "runs.parquet" for each in self.cells()])
        self._fresh([self._picture(NAMES[0])], tables[:1])

    def _fresh(self, files: Iterable[Path], sources: Iterable[Path]) -> None:
        newest = max(sources, key=lambda path: path.stat().st_mtime)
        for path in files:
            if not path.is_file():
                raise UserError(f"{path} is missing; expected a finished run: {self.remedy}")
            if newest.stat().st_mtime > path.stat().st_mtime:
                raise UserError(
                    f"{path} is older than {newest}; expected it to be made of what is there now: "
                    f"{self.remedy}"
                )

    def _picture(self, name: str) -> Path:
        return self.folder / "figures" / f"{self.study.id}_{name}_{self.dataset}.png"

    def pictures(self) -> dict[str, Path]:
        """Return the pictures that are there: of the frontier, of fewer public labels."""
        found = {name: self._picture(name) for name in NAMES}
        return {name: path for name, path in found.items() if path.is_file()}

    def times(self) -> pd.DataFrame:
        """Return a row per job: its runs, their seconds (NaN where secret) and those of the job."""
        rows = []
        for cell, group in self.runs.groupby("cell", sort=True):
            place = Path(cell).relative_to(self.folder / "methods")
            benchmark = self.folder / "benchmarks" / "method" / f"{place.as_posix()}.tsv"
            seconds = group["seconds"].sum(min_count=len(group))
            first = group.iloc[0]
            row = {name: first[name] for name in _TIME_COLUMNS[:5]}
            taken = job_seconds(benchmark, None if pd.isna(seconds) else seconds)
            if first["noise_source"] == "os_entropy":
                seconds = taken = None  # docs/privacy.md §5
            rows.append(row | {"runs": len(group), "run_seconds": seconds, "job_seconds": taken})
        return pd.DataFrame(rows, columns=list(_TIME_COLUMNS))


def write_method_times(times: pd.DataFrame, path: Path) -> None:
    """Write one line per job; seconds have two decimals, secret and unknown ones are empty."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(times.columns)
    for row in times.itertuples(index=False):
        last = ("" if pd.isna(each) else f"{each:.2f}" for each in row[-2:])
        writer.writerow([*row[:-2], *last])
    write_text(path, stream.getvalue())


def method_lines(holdings: MethodHoldings, times: pd.DataFrame) -> list[str]:
    """Return the part of the page about the runs that is about proved methods, as Markdown."""
    lines = [
        "## Proved methods",
        "",
        f"Made by `{holdings.remedy}`. Every job is in [{METHOD_TIMES_FILE}]({METHOD_TIMES_FILE}).",
        "",
        "| method | setting | runs | minutes of the job | settings used |",
        "|---|---|---:|---:|---|",
    ]
    for row in times.to_dict("records"):
        mine = holdings.runs[
            (holdings.runs["method"] == row["method"])
            & (holdings.runs["setting"] == row["setting"])
            & (holdings.runs["features"] == row["features"])
        ]
        minutes = "" if pd.isna(row["job_seconds"]) else f"{row['job_seconds'] / 60:.2f}"
        lines.append(
            f"| {row['method']} | {row['setting']} | {row['runs']} | {minutes} | "
            f"{_settings(mine)} |"
        )
    return [*lines, ""]


def _settings(runs: pd.DataFrame) -> str:
    """Return the values that each setting took in ``runs``: ``rank 64 to 256; steps 20``."""
    values: dict[str, set] = {}
    for text in runs["configuration"].unique():
        for name, value in json.loads(text).items():
            values.setdefault(name, set()).add(json.dumps(value))
    return "; ".join(f"{name} {_several(found)}" for name, found in values.items())


def _several(found: set[str]) -> str:
    read = [json.loads(each) for each in found]
    if any(isinstance(each, list | dict) for each in read):
        return f"of {max(map(len, read))} settings together, {len(read)} different choices"
    if all(isinstance(each, int | float) for each in read):
        low, high = f"{min(read):.4g}", f"{max(read):.4g}"
        return low if low == high else f"{low} to {high}"
    words = sorted(str(each) for each in read)
    shown = ", ".join(words[:4]) + (", …" if len(words) > 4 else "")
    return shown.replace("|", "\\|")


def _drawn(plan: MethodPlan) -> tuple[int, ...]:
    """Seeds that a finished cell holds: one where nothing is drawn, all tuning labels being known
    and nothing private read (as ``methods.proved`` makes requests)."""
    draws = METHOD_NAMES[plan.cell.method].reads_private or plan.tuning_labels
    return plan.seeds if draws else plan.seeds[:1]
