"""Statements of recorded results as the present code says them.

A recorded statement is a claim of the code that wrote it. When the code mends its words or its
prices, ``restate`` makes all statements anew from the recorded rows: rows keep their scores and
predictions, and get what follows from their statements. No record of a dataset is read: its sizes
and the settings say how much a run released.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.core.errors import UserError
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.outline import masks_of, outline_of
from private_graphs.privacy.statement_checks import with_replay
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.running.jobs import Job
from private_graphs.running.run import Answer, Runner, statement_columns
from private_graphs.running.store import ROW_COLUMNS, ROWS, dataset_of, records_of
from private_graphs.running.study import Run, group_jobs, load_study
from private_graphs.site.record import Recorded, read_recorded
from private_graphs.tasks.method import Context, Outcome


def restate(recorded: str | Path = "recorded") -> list[Path]:
    """Make the statements of every recorded study anew; return the paths that were written.

    Raises UserError for a job that its study file does not plan, and for results that are damaged.
    """
    written = []
    for path in sorted(Path(recorded).glob(f"*/{ROWS}")):
        written += with_statements(read_recorded(path.parent)).save(path.parent)
        read_recorded(path.parent)
    return written


def with_statements(recorded: Recorded) -> Recorded:
    """Return ``recorded`` with the statements, and the columns that follow, of the present code.

    A statement that says the same stays as it is: other machines compute other last digits. Raises
    UserError where the present code says another noise than a run had.
    """
    runs, source, statements = recorded.runs, Statements(recorded), {}
    columns: dict[int, dict[str, Any]] = {}
    for job, rows in runs.groupby("job"):
        current = source.of(job).statements
        for index, epsilon, name, new in zip(
            rows.index, rows["epsilon"], rows["statement_id"], current, strict=True
        ):
            old = recorded.statements[name]
            new = with_replay(new, old.get("not_replayed", ""))
            document = new.model_dump(mode="json")
            _refuse_other_noise(job, old, document)
            old = old | {"dp_events": document["dp_events"]}  # no identifier covers them
            if not differing(old, document):
                new = PrivacyStatement.model_validate(old)
            statements[new.statement_id] = new.model_dump(mode="json")
            columns[index] = statement_columns(new, np.isfinite(epsilon))
    rows = recorded.rows.copy()
    for name, column in pd.DataFrame.from_dict(columns, orient="index", dtype="object").items():
        values = rows[name].astype("object")
        values[column.index] = column
        rows[name] = values.where(values.notna(), None).astype(ROW_COLUMNS[name])
    return replace(recorded, rows=rows, statements=dict(sorted(statements.items())))


def differing(first: Any, second: Any, field: str = "") -> list[str]:
    """Return the fields in which two statements, as JSON, say different things.

    Numbers, those in texts too, may differ by what machines round differently. The version of the
    program says who made a statement, not what it says.
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        names = [name for name in {**first, **second} if name not in _MADE]
        return [path for name in names for path in
                differing(first.get(name), second.get(name), f"{field}.{name}".strip("."))
        ]  # fmt: skip
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        pairs = enumerate(zip(first, second, strict=True))
        return [path for index, pair in pairs for path in differing(*pair, f"{field}[{index}]")]
    if isinstance(first, str) and isinstance(second, str):
        numbers = ([float(digits) for digits in _NUMBER.findall(text)] for text in (first, second))
        same = _NUMBER.sub("#", first) == _NUMBER.sub("#", second)
        same = same and all(map(_close, *numbers))
    elif isinstance(first, float) and isinstance(second, float):
        same = _close(first, second)
    else:
        same = first == second
    return [] if same else [field]


_MADE = ("statement_id", "package_version")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_ROUNDING = 2e-6
"""Texts have six digits."""


def _close(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=_ROUNDING)


def _refuse_other_noise(job: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """UserError where mechanisms of two statements of one run differ in their noise."""
    noises = [_noises(statement) for statement in (old, new)]
    if differing(*noises):
        raise UserError(
            f"{job}: its runs had the noise {noises[0]}, and the present code says {noises[1]}; "
            "expected the same: record the job again"
        )


def _noises(statement: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Kind, number of releases and standard deviation of each mechanism of a statement."""
    noises = []
    for event in statement["mechanisms"]:
        unit = event["sensitivity"] if event["clip_norm"] is None else event["clip_norm"]
        noise = event["noise_multiplier"]
        std = None if noise is None or unit is None else noise * unit
        noises.append({"type": event["type"], "count": event["count"], "noise": std})
    return noises


@dataclass(frozen=True)
class Restated:
    """Statements of finished runs, made again by the current code."""

    statements: list[PrivacyStatement]
    """One statement per run."""
    artifacts: dict[str, np.ndarray]
    """Artifacts that the method states for jobs that need them, as in ``JobResult.artifacts``."""


@dataclass(eq=False)
class Statements:
    """The statements of the jobs of a recorded study, made anew."""

    recorded: Recorded
    scale: str = ""
    """Of its jobs; by default the one that is recorded."""
    _made: dict[str, Restated] = field(default_factory=dict)

    def of(self, name: str) -> Restated:
        """Return those of the runs of ``<group>/<job>``, in their order."""
        if name not in self._made:
            job = self._planned(name)
            chosen = job.chosen and self._rows(job.chosen.job)
            self._made[name] = _restated(
                job, self._outline(name, job), self._jobs[name], chosen=chosen,
                artifacts=self._artifacts(job),
            )  # fmt: skip
        return self._made[name]

    def _artifacts(self, job: Job) -> dict[str, Mapping[str, np.ndarray]]:
        names = {key: needed.split("/", 1)[1] for key, needed in job.needs.items()}
        return {key: self.of(name).artifacts if name in self._jobs else {}
                for key, name in names.items()}  # fmt: skip

    def _rows(self, job: Job) -> pd.DataFrame:
        name = job.id.split("/", 1)[1]
        rows = self._jobs.get(name)
        if rows is None:
            raise UserError(f"{job.id}: not recorded, though it chose settings: record it too")
        return rows.assign(job=job.name)

    @cached_property
    def _jobs(self) -> dict[str, pd.DataFrame]:
        return dict(iter(self.recorded.runs.groupby("job")))

    def _planned(self, name: str) -> Job:
        if name not in self._plan:
            raise UserError(
                f"{self._study}/{name}: recorded, and no job of its study file; expected one: "
                "record the results again into an empty folder"
            )
        return self._plan[name]

    @cached_property
    def _study(self) -> str:
        return self.recorded.rows["study"].iloc[0]

    @cached_property
    def _plan(self) -> dict[str, Job]:
        return planned_jobs(self.recorded, self.scale)

    @cached_property
    def _outlines(self) -> dict[str, Any]:
        return {}

    def _outline(self, name: str, job: Job) -> Any:
        """The sizes of the dataset of a job."""
        row = self._jobs[name].iloc[0]
        dataset = row["data_fingerprint"]
        if dataset not in self.recorded.datasets:
            raise UserError(
                f"{job.id}: nothing recorded tells the sizes of {dataset_of(row)} as its runs saw "
                "it; expected them: record the job again where the dataset is built"
            )
        if dataset not in self._outlines:
            self._outlines[dataset] = outline_of(self.recorded.datasets[dataset])
        outline = self._outlines[dataset]
        return self._cut(outline, row) if job.metis_parts else outline

    def _cut(self, outline: GraphDataset, row: pd.Series) -> GraphDataset:
        """As METIS cut it: how many train stands in the statement, how many are tested beside."""
        train = self.recorded.statements[row["statement_id"]]["n_units"]
        test = len(self.recorded.test_records[records_of(row.to_frame().T)[0]])
        sizes = {"train": train, "validation": 0, "test": test}
        return replace(outline, **masks_of(outline.n_nodes, sizes))


def planned_jobs(recorded: Recorded, scale: str = "") -> dict[str, Job]:
    """Return the jobs of the study file on the recorded datasets by ``<group>/<job>``, those that
    choose settings too; ``scale`` is by default the one that is recorded."""
    name = recorded.rows["study"].iloc[0]
    scale = scale or load_study(name).recorded_scale
    study, used = load_study(name, scale), sorted(set(recorded.runs["dataset"]))
    runs = (Run(scale=scale, datasets=(dataset,)) for dataset in used)
    return dict(_listed(job for run in runs for group in study.groups
                        for job in group_jobs(study, group, run)))  # fmt: skip


def _listed(jobs: Iterable[Job]) -> Iterable[tuple[str, Job]]:
    """Pairs of name and job; before each the job that chooses its settings."""
    for job in jobs:
        for member in (job.chosen.job, job) if job.chosen else (job,):
            yield f"{member.group}/{member.name}", member


def _restated(
    job: Job,
    dataset: GraphDataset,
    rows: pd.DataFrame,
    *,
    chosen: pd.DataFrame | None = None,
    artifacts: Mapping[str, Mapping[str, np.ndarray]] | None = None,
) -> Restated:
    """Make the statements of the finished, seeded runs of ``job`` again, without records.

    ``rows`` are all rows that count as its file, ``dataset`` has the right sizes
    (``datasets.outline``; with ``metis_parts`` after the cut by METIS), ``chosen`` are the rows of
    ``job.chosen.job``, ``artifacts`` the artifacts of the jobs in ``job.needs``. Raises UserError
    for a row that the job does not plan.
    """
    cut_already = job.model_copy(update={"metis_parts": None})
    runner = replace(Runner.of(cut_already, dataset, chosen, "seeded", False), job=job)
    compared = tuple(job.choose)
    requests = {
        (request.epsilon, request.seed, len(request.known),
         *(getattr(request.settings, name) for name in compared)): request
        for request in runner.requests
    }  # fmt: skip
    nobody = np.empty(0, np.int64)
    runs = []
    arrays: dict[str, np.ndarray] = {}
    needed = ["epsilon", "seed", "validation_labels", "settings", "noise_multiplier", "device",
              "n_configurations"]  # fmt: skip
    for row in rows[needed].to_dict("records"):
        settings = json.loads(row["settings"])
        had = settings if pd.isna(row["noise_multiplier"]) else (
            settings | {"noise_multiplier": row["noise_multiplier"]}
        )  # fmt: skip
        key = (row["epsilon"], row["seed"], row["validation_labels"],
               *(settings[name] for name in compared))  # fmt: skip
        if key not in requests:
            raise UserError(
                f"{job.id}: no run with epsilon, seed, public validation labels"
                f"{''.join(f', {name}' for name in compared)} = {', '.join(map(str, key))} is "
                "planned; expected one for every row: record the job again"
            )
        context = Context(device=row["device"], artifacts=artifacts or {})
        fields = runner.method.stated(runner.task, requests[key], context, had)
        public_id = requests[key].streams.public_id
        arrays |= {f"{public_id}/{name}": arr for name, arr in fields.get("artifacts", {}).items()}
        fields = {"n_configurations": row["n_configurations"]} | fields
        outcome = Outcome(nobody, nobody, **fields)
        runs.append(runner.run_of(Answer(requests[key], outcome, outcome.events or ())))
    statements = {run: runner.statement(run, runs) for run in dict.fromkeys(runs)}
    return Restated([statements[run] for run in runs], arrays)
