"""Results of earlier runs and their effect on a run: seeds are kept, choices are followed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from private_graphs.core.manifest import finished_folders
from private_graphs.running.jobs import JOB_FILE, Chosen, Job, read_job


def finished_jobs(folder: Path) -> dict[str, Job]:
    """Return the finished jobs below ``results/<scale>/jobs``, by identifier."""
    jobs = {name: read_job(path / JOB_FILE) for name, path in finished_folders(folder).items()}
    return {name: job for name, job in jobs.items() if job is not None and job.id == name}


def widened(job: Job, earlier: Job | None, budgets: bool = False) -> Job:
    """Return ``job`` with the seeds of ``earlier`` added, if the two are otherwise equal.

    ``budgets``: with its budgets, too, as the run asks for some of them alone. A run never removes
    what has finished; a run for a part of it finds its job finished. This is exact: a replica's
    draws do not depend on the other replicas.
    """
    keys = ("seeds", *(("epsilons", "validation_epsilons") if budgets else ()))
    if earlier is None or _without(earlier, keys) != _without(job, keys):
        return job
    wider = {
        key: tuple(dict.fromkeys([*getattr(earlier, key), *getattr(job, key)])) for key in keys
    }
    return job.model_copy(update={**wider, "seeds": tuple(sorted(wider["seeds"]))})


def _without(job: Job, keys: Collection[str]) -> Job:
    chosen = job.chosen
    if chosen is not None:
        chosen = chosen.model_copy(update={"job": _without(chosen.job, keys)})
    return job.model_copy(update={**dict.fromkeys(keys, ()), "chosen": chosen})


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
