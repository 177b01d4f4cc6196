"""The plan of a run: which exhibits it makes, and which jobs these read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from private_graphs.errors import UsageError
from private_graphs.exhibits import exhibits_by_name, named
from private_graphs.jobs import Job
from private_graphs.report.exhibit import Exhibit
from private_graphs.study import Run, Study, group_jobs, left_out, load_study, with_choices


@dataclass(frozen=True)
class Plan:
    """What one run asks for."""

    run: Run

    @cached_property
    def studies(self) -> dict[str, Study]:
        """Studies whose exhibits are made, by name."""
        return {name: load_study(name, self.run.scale) for name in self.run.study_names()}

    @cached_property
    def exhibits(self) -> dict[str, list[Exhibit]]:
        """Exhibits that are made, by study, in the order of the study file."""
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

    def groups(self, study_id: str) -> list[str]:
        """Run groups of a study that exhibits read, of its own or of other studies."""
        read = [
            group if "." in group else f"{owner}.{group}"
            for owner, exhibits in self.exhibits.items()
            for exhibit in exhibits
            for group in exhibit.groups
        ]
        wanted = [name.split(".", 1)[1] for name in read if name.split(".", 1)[0] == study_id]
        return list(dict.fromkeys(wanted))

    @cached_property
    def jobs(self) -> list[Job]:
        """Every job that the exhibits read, and those that choose settings for them.

        Raises UsageError where nothing is left of exhibits that were named.
        """
        jobs: list[Job] = []
        foreign = {
            group.split(".", 1)[0]
            for exhibits in self.exhibits.values()
            for exhibit in exhibits
            for group in exhibit.groups
            if "." in group
        }
        for name in dict.fromkeys([*self.studies, *sorted(foreign)]):
            study = load_study(name, self.run.scale)
            own = [job for group in self.groups(name) for job in group_jobs(study, group, self.run)]
            jobs += with_choices(study, own, self.run)
        self._refuse_empty(jobs)
        return jobs

    def _refuse_empty(self, jobs: list[Job]) -> None:
        """UsageError for an exhibit that a run names and that has no job with all that it names."""
        if self.run.exhibits is None:
            return
        for owner, exhibits in self.exhibits.items():
            for exhibit in exhibits:
                groups = {
                    tuple(group.split(".", 1)) if "." in group else (owner, group)
                    for group in exhibit.groups
                }
                if groups and not any((job.study, job.group) in groups for job in jobs):
                    raise UsageError(
                        f"configuration: exhibit {owner}.{exhibit.name} has no run with the "
                        "datasets, features, protocols and splits that are named; leave it out, "
                        "or name others"
                    )

    @property
    def left_out(self) -> list[str]:
        """A line for every dataset that is named and a study does not use."""
        return [line for study in self.studies.values() for line in left_out(study, self.run)]
