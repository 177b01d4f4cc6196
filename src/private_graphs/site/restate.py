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
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.core.errors import UserError
from private_graphs.datasets.outline import outline_of
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
    noises = [[_noise(event) for event in document["mechanisms"]] for document in (old, new)]
    if differing(*noises):
        raise UserError(
            f"{job}: its runs had the noise {noises[0]}, and the present code says {noises[1]}; "
            "expected the same: record the job again"
        )


def _noise(mechanism: Mapping[str, Any]) -> dict[str, Any]:
    """Kind, number of releases and standard deviation of a mechanism; None where none is stated,
    which is not the same as no noise."""
    unit = mechanism["sensitivity"] if mechanism["clip_norm"] is None else mechanism["clip_norm"]
    noise = mechanism["noise_multiplier"]
    std = None if noise is None or unit is None else unit * noise
    return {"type": mechanism["type"], "count": mechanism["count"], "noise": std}


@dataclass(frozen=True)
class Restated:
    """Statements of finished runs, made again by the current code."""

    statements: list[PrivacyStatement]
    """One statement per run."""
    artifacts: dict[str, np.ndarray]
    """Artifacts that the method states for jobs that need them, as in ``JobResult.artifacts``."""


@dataclass(eq=False)
class Statements:
    """The statements of the jobs of a recorded study, made anew.

    A recorded row keeps the noise and the settings of its run. Everything else that a statement
    says is said by the present study file, scenario, protocol and method (``Method.stated``): its
    events with their sensitivities and reasons, its assumptions and its public facts.
    """

    recorded: Recorded
    scale: str = ""
    """Of its jobs; by default the one that is recorded."""
    _made: dict[str, Restated] = field(default_factory=dict)

    def of(self, name: str) -> Restated:
        """Return those of the runs of ``<group>/<job>``, in their order.

        Raises UserError for a job or a run that the study file does not plan.
        """
        if name not in self._plan:
            raise UserError(
                f"{self.recorded.rows['study'].iloc[0]}/{name}: recorded, and no job of its study "
                "file; expected one: record the results again into an empty folder"
            )
        if name not in self._made:
            self._made[name] = self._restated(self._plan[name], self._jobs[name])
        return self._made[name]

    def _restated(self, job: Job, rows: pd.DataFrame) -> Restated:
        runner = self._runner(job, rows.iloc[0])
        needed = {key: name.partition("/")[2] for key, name in job.needs.items()}
        artifacts = {key: self.of(name).artifacts if name in self._jobs else {}
                     for key, name in needed.items()}  # fmt: skip
        requests = {request.streams.public_id: request for request in runner.requests}
        runs, arrays = [], {}
        for row in rows.to_dict("records"):
            name, chosen = row["replica_id"], json.loads(row["settings"])
            if name not in requests:
                raise UserError(
                    f"{job.id}: its run {name} (epsilon = {row['epsilon']:g}, seed {row['seed']}, "
                    f"settings {row['settings']}) is none that is planned; expected one for every "
                    "row: record the job again"
                )
            if not pd.isna(row["noise_multiplier"]):
                chosen["noise_multiplier"] = row["noise_multiplier"]
            context = Context(device=row["device"], artifacts=artifacts)
            fields = runner.method.stated(runner.task, requests[name], context, chosen)
            arrays |= {f"{name}/{key}": arr for key, arr in fields.get("artifacts", {}).items()}
            fields = {"n_configurations": row["n_configurations"]} | fields
            outcome = Outcome(_NOBODY, _NOBODY, **fields)
            runs.append(runner.run_of(Answer(requests[name], outcome, outcome.events or ())))
        statements = {run: runner.statement(run, runs) for run in dict.fromkeys(runs)}
        return Restated([statements[run] for run in runs], arrays)

    def _runner(self, job: Job, row: pd.Series) -> Runner:
        """Return the runner of a job, with a dataset of which the sizes alone are known."""
        uncut = job.model_copy(update={"metis_parts": None})  # the sizes are those after the cut
        search = job.chosen and job.chosen.job
        chosen = search and self._jobs.get(f"{search.group}/{search.name}")
        if search and chosen is None:
            raise UserError(f"{search.id}: not recorded, though it chose settings: record it too")
        chosen = search and chosen.assign(job=search.name)
        runner = Runner.of(uncut, self._outline(job, row), chosen, "seeded", False)
        return replace(runner, job=job)

    @cached_property
    def _jobs(self) -> dict[str, pd.DataFrame]:
        return dict(iter(self.recorded.runs.groupby("job")))

    @cached_property
    def _plan(self) -> dict[str, Job]:
        return planned_jobs(self.recorded, self.scale)

    def _outline(self, job: Job, row: pd.Series) -> Any:
        """The sizes of the dataset of a job; as METIS cut it, how many train stands in the
        statement, and how many are tested beside it."""
        sizes = self.recorded.datasets.get(row["data_fingerprint"])
        if sizes is None:
            raise UserError(
                f"{job.id}: nothing recorded tells the sizes of {dataset_of(row)} as its runs saw "
                "it; expected them: record the job again where the dataset is built"
            )
        if job.metis_parts:
            train = self.recorded.statements[row["statement_id"]]["n_units"]
            test = len(self.recorded.test_records[records_of(row.to_frame().T)[0]])
            sizes = {**sizes, "masks": {"train": train, "validation": 0, "test": test}}
        return outline_of(sizes)


_NOBODY = np.empty(0, np.int64)


def planned_jobs(recorded: Recorded, scale: str = "") -> dict[str, Job]:
    """Return the jobs of the study file on the recorded datasets by ``<group>/<job>``, those that
    choose settings too; ``scale`` is by default the one that is recorded."""
    name = recorded.rows["study"].iloc[0]
    scale = scale or load_study(name).recorded_scale
    study, used = load_study(name, scale), sorted(set(recorded.runs["dataset"]))
    jobs = [job for dataset in used for group in study.groups
            for job in group_jobs(study, group, Run(scale=scale, datasets=(dataset,)))]  # fmt: skip
    choosing = (job.chosen.job for job in jobs if job.chosen)
    return {f"{job.group}/{job.name}": job for job in (*choosing, *jobs)}
