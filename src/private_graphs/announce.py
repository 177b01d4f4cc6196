"""Messages of the workflow: the work ahead of a run, and why jobs failed after it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from private_graphs.cost import counted, duration, duration_on
from private_graphs.datasets import registry
from private_graphs.jobs import Job
from private_graphs.kept import outdated
from private_graphs.repairs import Repairs
from private_graphs.studies import exhibits_by_name
from private_graphs.workflow import Workflow

INTERRUPTED = (
    "\nInterrupted. Finished jobs are kept; the same command continues where this run stopped."
)


def announcement(work: Workflow, repairs: Repairs, needed: Iterable[str], cores: int) -> list[str]:
    """Return the lines before a run: the number of jobs, and an estimate of their duration."""
    todo = [work.jobs[name] for name in needed]
    lines = [*work.plan.left_out, *unbounded_lines(work)]
    if todo:
        audits = sum(job.attack is not None for job in todo)
        runs = sum(job.n_replicas for job in todo if not job.attack)
        what = [f"{counted(len(todo) - audits, 'job')} with {counted(runs, 'run')}"]
        what += [counted(audits, "audit")] if audits else []
        cores = max(1, min(cores, len(todo)))
        seconds = duration_on(map(work.costs.seconds, todo), cores)
        kept = len(work.finished.keys() & work.jobs.keys() - {job.id for job in todo})
        lines.append(
            f"To run: {' and '.join(what)}, about "
            f"{duration(seconds)} on {counted(cores, 'core')}"
            + (f"; {counted(kept, 'finished job')} kept" if kept else "")
        )
        lines.append(f"The time is estimated {work.costs.source}.")
    if follow := sorted({job.group for job in todo if job.id in work.following}):
        number = sum(job.id in work.following for job in todo)
        lines.append(
            f"Among them: {counted(number, 'job')} of {', '.join(follow)} from earlier runs, "
            "whose settings were chosen in jobs that run again."
        )
    return [*lines, *damage_lines(work, repairs), *outdated_lines(work), *kept_seeds_lines(work)]


def damage_lines(work: Workflow, repairs: Repairs) -> list[str]:
    """Return lines that name results to be made again or left out, and why."""
    lines = [f"{reason}: it is made again" for reason in repairs.again.values()]
    for name, reason in repairs.left_out.items():
        remedy = _command([work.finished[name]], work) if name in work.finished else "remove it"
        lines.append(f"{reason}: {name} is left out. {remedy}")
    return lines


def outdated_lines(work: Workflow) -> list[str]:
    """Return a line on earlier jobs whose settings were chosen again since they ran."""
    jobs = outdated(work.folder, work.finished, work.jobs)
    if not jobs:
        return []
    return [
        f"Older than the choice of their settings: {counted(len(jobs), 'finished job')}. "
        + _command(jobs, work)
    ]


def unbounded_lines(work: Workflow) -> list[str]:
    """Return a line on graphs for which scenario edges is left out, and how to include it."""
    specs = [registry.dataset_spec(name) for name in work.datasets]
    names = [spec.name for spec in specs if spec.own and spec.max_edges is None]
    if not names:
        return []
    return [
        f"Scenario edges is left out for {', '.join(names)}: its declaration needs max_edges, a "
        "public bound on the number of links, known without looking at them."
    ]


def kept_seeds_lines(work: Workflow) -> list[str]:
    """Return a line if jobs hold more seeds than requested: exhibits use all of them."""
    asked = set(work.run.seeds or ())
    wider = [job for job in work.jobs.values() if asked and set(job.seeds) - asked]
    if not wider:
        return []
    return [
        f"{counted(len(wider), 'job')} keep further seeds from earlier runs; the exhibits use "
        "all of them"
    ]


def _command(jobs: Iterable[Job], work: Workflow) -> str:
    """Return the command that runs earlier jobs again, as a sentence."""
    keys: dict[str, set[str]] = defaultdict(set)
    for job in jobs:
        if not job.attack:
            keys["datasets"].add(job.dataset)
        keys["protocols"].add(job.protocol)
        for name, exhibit in exhibits_by_name(job.study).items():
            if (job.study, job.group) in exhibit.reads(job.study):
                keys["exhibits"].add(f"{job.study}.{name}")
    settings = " ".join(f"{key}={','.join(sorted(values))}" for key, values in keys.items())
    return f"To run them again: snakemake --config scale={work.run.scale} {settings}"


def failures(logs: Path, since: float) -> list[str]:
    """Return why jobs failed: the ends of logs since a time that report an error or break off."""
    messages = []
    for log in sorted(logs.rglob("*.log")):
        if log.stat().st_mtime < since:
            continue
        text = f"\n{log.read_text(encoding='utf-8', errors='replace').strip()}"
        if text.rpartition("\n")[2].startswith("finished"):
            continue
        _, failed, message = text.rpartition("\nfailed: ")
        reason = message if failed else "the job was ended before it could say why"
        messages.append(f"{reason}\n(log: {log})")
    return messages
