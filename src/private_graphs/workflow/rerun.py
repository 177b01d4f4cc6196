"""Recorded jobs computed again, and held row by row against what is recorded.

On the machine that recorded a row it is equal to the bit. Another processor may order sums in other
ways, so that a few records are classified otherwise: ``TOLERANCE``.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from private_graphs.core.errors import UsageError, UserError, suggest
from private_graphs.core.manifest import MANIFEST
from private_graphs.core.models import fields_of
from private_graphs.datasets.registry import build_name, load_built
from private_graphs.features.load import load_dataset
from private_graphs.methods import method_named
from private_graphs.report.audits import audit_row
from private_graphs.report.leaks import leak_rows
from private_graphs.running.jobs import Job
from private_graphs.running.result import JobResult
from private_graphs.running.run import execute
from private_graphs.running.store import ROWS
from private_graphs.running.study import load_study
from private_graphs.running.views import data_view
from private_graphs.site.record import Recorded, machine_words, read_recorded
from private_graphs.site.restate import planned_jobs
from private_graphs.tasks.method import Progress
from private_graphs.workflow.cost import Costs, recorded_times
from private_graphs.workflow.replays import missing_replay

TOLERANCE = 0.01
"""Largest difference of a test micro-F1 between two machines."""
_ROUNDING = 2e-6
"""Relative difference of other numbers that machines round differently."""
_FITTED = 0.002
"""Relative difference of a setting that a method fits, such as the weight of public scores: 0.0009
was seen between two processors."""
_JUDGED = ("noise_multiplier", "epsilon_proved", "epsilon_claimed", "epsilon_lower")
"""Numbers that say how private a run is: none may differ by more than rounding."""
_APART = {"source", "seconds", "device", "code_fingerprint", "noise_source", "statement_id",
          "selected"}  # fmt: skip
"""Columns that say when and where a row was made, or depend on the other rows of its job."""
Pair = tuple[str, dict[str, Any], dict[str, Any] | None, int]
"""Name, recorded row, row that was computed again or None, predictions that differ."""
_LEAK = ("sees", "score", "measure", "who")
"""Columns that tell the rows of a leak apart."""

Verdict = Literal["equal", "within", "differs", "unjudged"]


@dataclass(frozen=True)
class RowComparison:
    """A recorded row beside the one that was computed again."""

    name: str
    """``replica_id``; of attacks what is measured."""
    verdict: Verdict
    words: str
    test_difference: float = 0.0
    """Of the test micro-F1, absolute."""
    predictions: int = 0
    """Test records that are classified otherwise."""


@dataclass(frozen=True)
class JobComparison:
    """A recorded job beside its repetition."""

    job: Job
    rows: tuple[RowComparison, ...]
    seconds: float
    recorded_on: str
    """Device of the recorded rows."""

    @property
    def verdict(self) -> Verdict:
        """That of the row that is worst."""
        order: tuple[Verdict, ...] = ("differs", "within", "unjudged", "equal")
        return next(grade for grade in order if any(row.verdict == grade for row in self.rows))

    def document(self) -> dict[str, Any]:
        """Return JSON-able fields."""
        return {
            "job": self.job.id,
            **fields_of(self.job, "method", "kind", "dataset"),
            "recorded_on": self.recorded_on,
            "verdict": self.verdict,
            "rows": len(self.rows),
            "equal": sum(row.verdict == "equal" for row in self.rows),
            "test_difference": max(row.test_difference for row in self.rows),
            "predictions": max(row.predictions for row in self.rows),
            "seconds": round(self.seconds, 1),
            "differing": {row.name: row.words for row in self.rows if row.verdict != "equal"},
        }


@dataclass(frozen=True)
class Repetition:
    """The recorded results of all studies, and where their datasets come from."""

    recorded: Path
    data: Path
    """Folder of raw files; built datasets are looked for in ``processed`` beside it."""
    mirror: str | None = None
    threads: int = 1
    _datasets: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def names(self) -> list[str]:
        """Identifiers of all recorded jobs, in order."""
        parts = ["study", "group", "job"]
        frames = [pd.read_parquet(path, columns=parts)
                  for path in sorted(self.recorded.glob(f"*/{ROWS}"))]  # fmt: skip
        if not frames:
            raise UserError(
                f"{self.recorded}: nothing is recorded there; expected STUDY/{ROWS}, as "
                "'private-graphs record' writes it: name the folder with --recorded"
            )
        rows = pd.concat(frames).drop_duplicates()
        return sorted(rows["study"] + "/" + rows["group"] + "/" + rows["job"])

    def named(self, names: Sequence[str]) -> list[str]:
        """Return the recorded jobs of some names, each a job or the folders that it begins with.

        Raises UsageError for a name that is not recorded.
        """
        matches: dict[str, None] = {}
        for name in (text.rstrip("/") for text in names):
            those = [key for key in self.names if key == name or key.startswith(f"{name}/")]
            if not those:
                depth = name.count("/") + 1
                hints = dict.fromkeys("/".join(key.split("/")[:depth]) for key in self.names)
                raise UsageError(f"{name}: not recorded in {self.recorded}{suggest(name, hints)}")
            matches |= dict.fromkeys(those)
        return list(matches)

    def job(self, name: str) -> Job:
        """Return the plan of a recorded job, with the seeds that are recorded."""
        study, key = name.split("/", 1)
        if key not in self._plan(study):
            raise UserError(
                f"{name}: recorded, and no job of its study file; expected one: record the "
                "results again into an empty folder"
            )
        rows = self._study(study).rows
        seeds = rows.loc[rows["group"] + "/" + rows["job"] == key, "seed"]
        return narrowed(self._plan(study)[key], sorted(set(seeds.dropna())))

    def machine(self, study: str) -> str:
        """Return the machines that recorded a study, in words."""
        return self._study(study).made.machine

    def _study(self, study: str) -> Recorded:
        return self._kept(f"{study} rows", lambda: read_recorded(self.recorded / study))

    def _plan(self, study: str) -> dict[str, Job]:
        return self._kept(f"{study} plan", lambda: planned_jobs(self._study(study)))

    def _kept(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._datasets:
            self._datasets[name] = make()
        return self._datasets[name]

    def seconds(self, jobs: Sequence[Job]) -> dict[str, float]:
        """Return about how long jobs take, with those that they need, by identifier."""
        by_id = {part.id: part for job in jobs for part in self._with_needed(job)}
        times: list[tuple[Job, float]] = []
        for study in {job.study for job in by_id.values()}:
            study_jobs = [job for job in by_id.values() if job.study == study]
            times += recorded_times(study_jobs, self.recorded, load_study(study).recorded_scale)
        known, costs = {job.id: seconds for job, seconds in times}, Costs(times)
        return {job.id: sum(known.get(part.id) or costs.seconds(part)
                            for part in self._with_needed(job)) for job in jobs}  # fmt: skip

    def _with_needed(self, job: Job) -> list[Job]:
        needed = (narrowed(self.job(job_id), job.seeds) for job_id in job.needs.values())
        return [job, *(part for source in needed for part in self._with_needed(source))]

    def compare(self, job: Job, progress: Progress | None = None) -> JobComparison:
        """Compute ``job``, which may have some of its seeds, and compare its recorded rows.

        Raises UserError where its data are not at hand.
        """
        started = time.perf_counter()
        rows = self._study(job.study).rows
        old = rows[(rows["group"] == job.group) & (rows["job"] == job.name)]
        on = "; ".join(sorted(set(old["device"].dropna()))) or "cpu"
        if job.kind != "run":
            pairs = self._attacked(job, old, progress)
        else:
            result = self._computed(job, progress)
            pairs = self._runs(job, old[old["seed"].isin(job.seeds)], result)
        compared = [_compared(*pair, judged=on == "cpu") for pair in pairs]
        return JobComparison(job, tuple(compared), time.perf_counter() - started, on)

    def _computed(self, job: Job, progress: Progress | None = None) -> JobResult:
        chosen = None
        if job.chosen is not None:
            runs = self._study(job.study).runs
            name = job.chosen.job.id.split("/", 1)[1]
            chosen = runs[runs["job"] == name].assign(job=job.chosen.job.name)
        artifacts = {
            name: self._computed(narrowed(self.job(job_id), job.seeds), progress).artifacts
            for name, job_id in job.needs.items()
        }
        return execute(
            job, self._dataset(job), chosen=chosen, artifacts=artifacts, threads=self.threads,
            progress=progress, missing_replay=missing_replay(),
        )  # fmt: skip

    def _dataset(self, job: Job) -> Any:
        view = data_view(job)
        name = build_name(job.dataset, job.features, view)
        built = self.data.parent / "processed" / name

        def load() -> Any:
            for key in [key for key in self._datasets if key.startswith("data ")]:
                del self._datasets[key]  # a large one is enough
            if (built / MANIFEST).is_file():
                return load_built(built)
            features = None if job.features == "raw" else job.features
            return load_dataset(job.dataset, features, view, self.data, self.mirror,
                                threads=self.threads, device="cpu")  # fmt: skip

        return self._kept(f"data {name} {view.name}", load)

    def _runs(self, job: Job, old: pd.DataFrame, result: JobResult) -> Iterator[Pair]:
        """Yield name, recorded row, new row or None, and how many predictions differ."""
        recorded = self._study(job.study)
        key = f"{job.group}/{job.name}"
        answers = dict(zip(recorded.order[key], recorded.predictions[key], strict=True))
        rows = result.rows.to_dict("records")
        pairs = zip(rows, result.test_predictions, strict=True)
        new = {row["replica_id"]: (row, classes) for row, classes in pairs}
        for row in old.to_dict("records"):
            name = row["replica_id"]
            if name not in new:
                yield name, row, None, 0
                continue
            again, classes = new[name]
            yield name, row, again, int((answers[name] != classes).sum())

    def _attacked(self, job: Job, old: pd.DataFrame, progress: Progress | None) -> Iterator[Pair]:
        rows: list[dict[str, Any]]
        by: tuple[str, ...]
        if job.kind == "audit":
            from private_graphs.attacks.audit import run_job as audit_job

            audit = audit_job(job, threads=self.threads, progress=progress)
            rows, by = [audit_row(job, audit.document())], ("design",)
        else:
            from private_graphs.attacks.leaks import run_job

            document = run_job(job, self._dataset(job), threads=self.threads, progress=progress)
            rows, by = leak_rows(job, document), _LEAK
        again = {tuple(row[name] for name in by): row for row in rows}
        for row in old.to_dict("records"):
            key = tuple(row[name] for name in by)
            yield " ".join(map(str, key)), row, again.get(key), 0


def narrowed(job: Job, seeds: Sequence[int]) -> Job:
    """Return ``job`` with those of its seeds that are among ``seeds``, or as it is: with none of
    them, where all its runs are one, and where it is an attack."""
    subset = tuple(seed for seed in job.seeds if seed in set(seeds))
    if job.kind != "run" or not subset or not method_named(job.method).reads_private:
        return job
    return job.model_copy(update={"seeds": subset})


def drawn(
    jobs: Sequence[Job], count: int, minutes: float, seconds: Mapping[str, float], seed: int
) -> list[Job]:
    """Draw at most ``count`` of ``jobs`` that take at most ``minutes`` together, without order."""
    spent = 0.0
    sample: list[Job] = []
    for index in np.random.default_rng(seed).permutation(len(jobs)):
        job = jobs[index]
        if len(sample) < count and spent + seconds[job.id] <= 60 * minutes:
            sample.append(job)
            spent += seconds[job.id]
    return sample


def _compared(
    name: str,
    old: Mapping[str, Any],
    new: Mapping[str, Any] | None,
    predictions: int,
    *,
    judged: bool,
) -> RowComparison:
    """Compare two rows; one that is not ``judged``, as a GPU made it, is only described."""
    label = f"epsilon {old['epsilon']:g}, seed {old['seed']}"
    if new is None:
        return RowComparison(
            name, "differs", f"{label}: not computed: its draws, which depend on the data "
            f"({str(old['data_fingerprint'])[:12]} when it was recorded), are others now"
        )  # fmt: skip
    old, new = _settings_apart(old), _settings_apart(new)
    columns = [column for column in old if column not in _APART and not _missing(old[column])]
    changes: list[str] = []
    broken, difference = False, 0.0
    for column in columns:
        was, now = old[column], new.get(column)
        if was == now or (_missing(now) and column not in new):
            continue
        if isinstance(was, bool) or not (
            isinstance(was, int | float) and isinstance(now, int | float)
        ):
            broken, changes = True, [*changes, f"{column} {was!r} is {now!r} now"]
            continue
        apart = abs(now - was)
        close = math.isclose(was, now, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
        if column == "test_micro_f1":
            broken, difference = broken or not apart <= TOLERANCE, apart
        elif column in _JUDGED:
            broken |= not close
        elif column.startswith("settings "):
            fitted = isinstance(was, float) and math.isclose(was, now, rel_tol=_FITTED)
            broken |= not fitted
        if not close or column.startswith("test_"):
            changes.append(f"{column} by {apart:.3g}")
    changes += [f"{predictions} predictions"] if predictions else []
    verdict: Verdict = "differs" if broken else "within" if changes else "equal"
    words = f"{label}: {', '.join(changes) or 'equal'}"
    return RowComparison(
        name, verdict if judged or verdict == "equal" else "unjudged",
        words if judged else f"{words} (recorded on a GPU)", difference, predictions,
    )  # fmt: skip


def _settings_apart(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row in which each setting is a column."""
    settings = json.loads(row.get("settings") or "{}")
    apart = {f"settings {key}": value for key, value in settings.items()}
    return {key: value for key, value in row.items() if key != "settings"} | apart


def _missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def summary(comparisons: Sequence[JobComparison], recorded: Sequence[str]) -> dict[str, Any]:
    """Return what ``rerun --json`` prints; ``recorded`` are the machines of the recorded rows."""
    return {
        "machine": machine_words(),
        "recorded_machines": list(dict.fromkeys(recorded)),
        "tolerance": TOLERANCE,
        "jobs": [comparison.document() for comparison in comparisons],
    }
