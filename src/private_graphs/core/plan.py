"""Plan of a run: its exhibits, and the jobs that these read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from private_graphs.core.errors import UsageError, suggest
from private_graphs.core.jobs import Job
from private_graphs.core.study import Run, Study, group_jobs, left_out, load_study
from private_graphs.report.exhibit import Exhibit
from private_graphs.studies import exhibits_by_name, named


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
        made = {}
        for name, study in self.studies.items():
            there = exhibits_by_name(name)
            order = [*study.exhibits, *(each for each in there if each not in study.exhibits)]
            made[name] = [
                there[each]
                for each in order
                if ((name, each) in chosen if chosen is not None else each in study.exhibits)
            ]
        return made

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
            job
            for study_id, group in self.groups
            for job in group_jobs(load_study(study_id, self.run.scale), group, self.run)
        ]
        self._refuse_empty(read)
        jobs: dict[str, Job] = {}
        for job in read:
            if job.chosen is not None:
                jobs.setdefault(job.chosen.job.id, job.chosen.job)
            self._add_needed(job, jobs)
            jobs[job.id] = job
        return list(jobs.values())

    def _add_needed(self, job: Job, jobs: dict[str, Job]) -> None:
        """Add the jobs whose artifacts ``job`` reads, whatever protocols the run names."""
        every = self.run.model_copy(update={"protocols": None})
        for identifier in job.needs.values():
            if identifier in jobs:
                continue
            study_id, group, _ = identifier.split("/", 2)
            for other in group_jobs(load_study(study_id, self.run.scale), group, every):
                if other.id == identifier:
                    self._add_needed(other, jobs)
                    jobs[identifier] = other

    def _without_jobs(self, jobs: list[Job]) -> list[str]:
        """Return the exhibits without jobs, except those that are made only on request."""
        there = {(job.study, job.group) for job in jobs}
        return [
            f"{owner}.{exhibit.name}"
            for owner, exhibits in self.exhibits.items()
            for exhibit in exhibits
            if exhibit.groups
            and there.isdisjoint(exhibit.reads(owner))
            and not self.studies[owner].on_request(exhibit.groups)
        ]

    def _refuse_empty(self, jobs: list[Job]) -> None:
        """Raise UsageError for exhibits without jobs, and for numbers of splits without a run."""
        empty = self._without_jobs(jobs)
        if empty and (self.run.exhibits is not None or not jobs):
            raise UsageError(f"configuration: {self._why_empty(*empty[0].split('.'))}")
        there = {job.settings["splits"] for job in jobs if "splits" in job.settings}
        if unused := sorted(set(self.run.numbers_of_splits) - there):
            raise UsageError(
                f"configuration: splits: no run has {', '.join(map(str, unused))}; leave it out, "
                "or name others"
            )

    def _why_empty(self, owner: str, name: str) -> str:
        """Return why an exhibit has no jobs: the named values, and the available ones."""
        reads = next(each for each in self.exhibits[owner] if each.name == name).reads(owner)
        studies = {study_id: load_study(study_id, self.run.scale) for study_id, _ in reads}
        values: dict[str, Callable[[Job], object]] = {
            "datasets": lambda job: job.dataset,
            "protocols": lambda job: job.protocol,
            "features": lambda job: job.features,
            "splits": lambda job: job.settings.get("splits"),
        }
        reasons = []
        for key, value in values.items():
            if not (given := getattr(self.run, key)):
                continue
            free = self.run.model_copy(update={key: None})
            jobs = (
                job for study, group in reads for job in group_jobs(studies[study], group, free)
            )
            there = [str(each) for each in dict.fromkeys(map(value, jobs)) if each is not None]
            if there:
                others = self.studies[owner].other_datasets if key == "datasets" else ()
                more = set(others) - set(map(str, given))
                reasons.append(
                    f"{key}: {owner}.{name} has no run of {', '.join(map(str, given))}; expected "
                    f"{' or '.join(there)}{suggest(str(given[0]), [*there, *more])}"
                )
        return "; ".join(reasons) or (
            f"{owner}.{name} has no run with all of the datasets, features, protocols and splits "
            "that are named; name others, or leave it out of exhibits"
        )

    @property
    def left_out(self) -> list[str]:
        """Lines about named datasets that a study does not use, and about exhibits without jobs."""
        lines = [line for study in self.studies.values() for line in left_out(study, self.run)]
        empty = self._without_jobs(self.jobs)
        words = f"No run of these exhibits is among those asked for: {', '.join(empty)}"
        return [*lines, *([words] if empty else [])]
