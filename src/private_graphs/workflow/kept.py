"""Results of earlier runs and their effect on a run: seeds are kept, choices are followed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from private_graphs.core.jobs import JOB_FILE, Chosen, Job
from private_graphs.core.manifest import finished_folders, read_job


def finished_jobs(folder: Path) -> dict[str, Job]:
    """Return the finished jobs below ``results/<scale>/jobs``, by identifier."""
    jobs = {name: read_job(place / JOB_FILE) for name, place in finished_folders(folder).items()}
    return {name: job for name, job in jobs.items() if job is not None and job.id == name}


def widened(job: Job, earlier: Job | None) -> Job:
    """Return ``job`` with the seeds of ``earlier`` added, if the two are otherwise equal.

    A run never removes finished seeds; a run for some of them finds its job finished. This is
    exact: a replica's draws do not depend on the other replicas.
    """
    if earlier is None or _without_seeds(earlier) != _without_seeds(job):
        return job
    seeds = tuple(sorted({*earlier.seeds, *job.seeds}))
    return job.model_copy(update={"seeds": seeds})


def _without_seeds(job: Job) -> Job:
    chosen = job.chosen
    if chosen is not None:
        chosen = chosen.model_copy(update={"job": _without_seeds(chosen.job)})
    return job.model_copy(update={"seeds": (0,), "chosen": chosen})


def linked(job: Job, planned: Mapping[str, Job]) -> Job:
    """Return ``job`` with its choosing job replaced by the one now planned."""
    if job.chosen is None or job.chosen.job.id not in planned:
        return job
    chosen = Chosen(job=planned[job.chosen.job.id], epsilon=job.chosen.epsilon)
    return job.model_copy(update={"chosen": chosen})


def followers(
    planned: Mapping[str, Job], finished: Mapping[str, Job], studies: Collection[str]
) -> dict[str, Job]:
    """Return earlier jobs whose settings are chosen in a ``planned`` job.

    The run did not request these jobs. They are included, with their seeds, because otherwise their
    scores and statements would refer to an outdated choice once the choosing job has run again.
    """
    return {
        job.id: linked(job, planned)
        for job in finished.values()
        if job.id not in planned
        and job.study in studies
        and job.chosen is not None
        and job.chosen.job.id in planned
    }
