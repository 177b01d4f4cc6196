"""Plan of a run: its exhibits, and the jobs that these read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from private_graphs.core.errors import UsageError, suggest
from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.datasets.registry import dataset_spec
from private_graphs.running.catalog import exhibits_by_name, named
from private_graphs.running.exhibit import Exhibit
from private_graphs.running.jobs import Job
from private_graphs.running.study import (
    COMPLETE,
    Run,
    Study,
    group_jobs,
    left_out,
    listed,
    load_study,
    shown_datasets,
    splits_of,
)

VALUES: dict[str, Callable[[Job], list[Any]]] = {
    "datasets": lambda job: [] if job.attack else [job.dataset],
    "protocols": lambda job: [job.protocol],
    "features": lambda job: [job.features],
    "methods": lambda job: [job.method],
    "epsilons": lambda job: [*job.epsilons, *job.validation_epsilons],
    "splits": splits_of,
}
"""Key of a run -> the values that a job has of it."""


@dataclass(frozen=True)
class Plan:
    """Exhibits and jobs of one run."""

    run: Run

    @cached_property
    def studies(self) -> dict[str, Study]:
        """Studies whose exhibits are made, by name."""
        return {name: load_study(name, self.run.scale) for name in self.run.study_names()}

    @cached_property
    def exhibits(self) -> dict[str, list[Exhibit]]:
        """Exhibits to make, by study, in the order of the study file."""
        chosen = None
        if self.run.exhibits is not None:
            chosen = named(self.run.exhibits, list(self.studies))
        exhibits = {}
        for name, study in self.studies.items():
            by_name = exhibits_by_name(name)
            order = [*study.exhibits, *(key for key in by_name if key not in study.exhibits)]
            exhibits[name] = [
                by_name[key]
                for key in order
                if ((name, key) in chosen if chosen is not None else key in study.exhibits)
            ]
        return exhibits

    @property
    def groups(self) -> list[tuple[str, str]]:
        """(study, run group) pairs that the exhibits read, in their own and other studies."""
        read = [
            pair
            for owner, exhibits in self.exhibits.items()
            for exhibit in exhibits
            for pair in exhibit.reads(owner)
        ]
        return list(dict.fromkeys(read))

    @cached_property
    def jobs(self) -> list[Job]:
        """All jobs that the exhibits read, each after the jobs that it needs.

        Raises UsageError if no job is left for exhibits that were named.
        """
        read = [
            job for study_id, group in self.groups for job in self._read(study_id, group, self.run)
        ]
        self._refuse_empty(read)
        jobs: dict[str, Job] = {}
        for job in read:
            if job.chosen is not None:
                _add(job.chosen.job, jobs)
            self._add_needed(job, jobs)
            _add(job, jobs)
        return list(jobs.values())

    def _read(self, study_id: str, group: str, run: Run) -> list[Job]:
        return group_jobs(load_study(study_id, self.run.scale), group, run)

    def _add_needed(self, job: Job, jobs: dict[str, Job]) -> None:
        """Add the jobs whose artifacts ``job`` reads, whatever the run narrows."""
        run = self.run.model_copy(update=COMPLETE)
        for identifier in job.needs.values():
            study_id, group, _ = identifier.split("/", 2)
            for candidate in self._read(study_id, group, run):
                if candidate.id == identifier:
                    self._add_needed(candidate, jobs)
                    _add(candidate, jobs)

    def _without_jobs(self, jobs: list[Job]) -> list[str]:
        """Return the exhibits without jobs, except those that are made only on request."""
        groups = {(job.study, job.group) for job in jobs}
        return [
            f"{owner}.{exhibit.name}"
            for owner, exhibits in self.exhibits.items()
            for exhibit in exhibits
            if exhibit.groups
            and groups.isdisjoint(exhibit.reads(owner))
            and not self.studies[owner].on_request(exhibit.groups)
        ]

    def _refuse_empty(self, jobs: list[Job]) -> None:
        """Raise UsageError for exhibits without jobs, and for values of keys that reach none."""
        empty = self._without_jobs(jobs)
        if empty and (self.run.exhibits is not None or not jobs):
            raise UsageError(f"configuration: {self._why_empty(*empty[0].split('.'))}")
        for name, exhibits in self.exhibits.items():
            if self.run.studies and {f"{name}.{exhibit.name}" for exhibit in exhibits} <= {*empty}:
                raise UsageError(
                    f"configuration: studies: {name} has no run of what else is named; leave it "
                    "out, or name others"
                )
        if self.run.seeds and not any(job.seeds == self.run.seeds for job in jobs):
            raise UsageError(
                "configuration: seeds: no run has seeds, as an attack has one of its own; leave "
                "them out"
            )
        for key in VALUES:
            given = self.run.numbers_of_splits if key == "splits" else getattr(self.run, key) or ()
            reached = self._reached(key, jobs)
            if unused := [value for value in given if value not in reached]:
                free = self.run.model_copy(update={key: None})
                read = [job for pair in self.groups for job in self._read(*pair, free)]
                choices = _words(self._reached(key, read))
                expected = f"expected some of {choices}" if choices else "leave it out"
                raise UsageError(
                    f"configuration: {key}: no run has {_words(unused)}; {expected}"
                    f"{self._suggested(key, unused[0])}"
                )

    def _reached(self, key: str, jobs: list[Job]) -> list[Any]:
        """Return the values of a key that the jobs have, or the datasets whose sizes are shown."""
        datasets = [
            name
            for owner, exhibits in self.exhibits.items()
            if any(exhibit.statistics for exhibit in exhibits)
            for name in shown_datasets(self.studies[owner], self.run)
        ]
        of_shown: dict[str, list[Any]] = {
            "datasets": datasets,
            "protocols": [*PROTOCOLS] if datasets else [],
            "features": [kind for name in datasets for kind in dataset_spec(name).features],
        }
        values = (value for job in jobs for value in VALUES[key](job))
        return list(dict.fromkeys([*values, *of_shown.get(key, ())]))

    def _suggested(self, key: str, value: object) -> str:
        names = [name for study in self.studies.values() for name in listed(study)]
        return suggest(str(value), names) if key == "datasets" and value not in names else ""

    def _why_empty(self, owner: str, name: str) -> str:
        """Return why an exhibit has no jobs: the named values, and the available ones."""
        reads = next(entry for entry in self.exhibits[owner] if entry.name == name).reads(owner)
        reasons = []
        for key, values in VALUES.items():
            if not (given := getattr(self.run, key)):
                continue
            free = self.run.model_copy(update={key: None})
            jobs = (job for pair in reads for job in self._read(*pair, free))
            if choices := dict.fromkeys(value for job in jobs for value in values(job)):
                reasons.append(
                    f"{key}: {owner}.{name} has no run of {_words(given)}; expected "
                    f"{_words(choices, ' or ')}{self._suggested(key, given[0])}"
                )
        return "; ".join(reasons) or (
            f"{owner}.{name} has no run with all of the values that are named; name others, or "
            "leave it out of exhibits"
        )

    @property
    def left_out(self) -> list[str]:
        """Lines about named datasets that a study does not use, and about exhibits without jobs."""
        lines = [line for study in self.studies.values() for line in left_out(study, self.run)]
        empty = self._without_jobs(self.jobs)
        words = f"No run of these exhibits is among those asked for: {', '.join(empty)}"
        return [*lines, *([words] if empty else [])]


def _add(job: Job, jobs: dict[str, Job]) -> None:
    """Add a job, or put it in place of one with fewer runs: what others need is complete."""
    if job.id not in jobs or jobs[job.id].n_replicas < job.n_replicas:
        jobs[job.id] = job


def _words(values: Iterable[object], between: str = ", ") -> str:
    """Return values of a key as the configuration writes them."""
    return between.join(f"{term:g}" if isinstance(term, float) else str(term) for term in values)
