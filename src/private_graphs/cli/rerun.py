"""``private-graphs rerun``: recorded jobs, computed again and compared row by row."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from typer import Option

from private_graphs.cli.options import DATA, AsJson, DataFolder, Mirror, Seed, Threads
from private_graphs.cli.results import RECORDED, Recorded, recorded_folder
from private_graphs.cli.terminal import ProgressBar, print_json, print_text, say
from private_graphs.core.errors import UsageError, UserError, counted, refuse_idle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from private_graphs.running.jobs import Job
    from private_graphs.workflow.rerun import JobComparison, Repetition


def rerun(
    names: list[str] | None = None,
    *,
    seeds: str | None = None,
    sample: Annotated[int | None, Option(min=1)] = None,
    minutes: Annotated[float, Option(min=0)] = 10,
    seed: Seed = 0,
    mirror: Mirror = None,
    data: DataFolder = DATA,
    recorded: Recorded = RECORDED,
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Compute recorded jobs again, and say of every row whether it is equal.

    A row is equal if each of its predictions and numbers is. On another machine than the recording
    one a test score may differ by .01 (measured: docs/expected.md). Other noise, another proved
    epsilon or other draws are always a difference. Rows that were recorded on a GPU are compared,
    and not judged. The data come from data/processed, or are built from raw files.

    Exit code 1: a row differs by more.

    Examples:

    private-graphs rerun pate/teachers --mirror DIR

    private-graphs rerun --sample 20 --minutes 5 --mirror DIR

    Args:
        names (list of str): recorded jobs, STUDY/GROUP/..., or what several of them begin with.
        seeds (str): N: seeds 0 to N-1; or 0,3,7. Default: all that are recorded; of a sample one
            for each job, drawn at random.
        sample (int): draw so many of the named jobs at random, or of all.
        minutes (float): with --sample: draw jobs that take no longer together.
    """
    from private_graphs.workflow.rerun import Repetition, summary

    if not names and sample is None:
        raise UsageError(
            "expected the name of a recorded job, such as STUDY/GROUP/..., or --sample N"
        )
    if sample is None:
        refuse_idle("no --sample is drawn", minutes=minutes != 10, seed=seed != 0)
    again = Repetition(recorded_folder(recorded), data, mirror, threads)
    jobs = _jobs(again, names, seeds, seed if sample else None)
    seconds = again.seconds(jobs)
    if sample is not None:
        jobs = _sampled(jobs, sample, minutes, seconds, seed)
    total = sum(seconds[job.id] for job in jobs)
    say(f"{counted(len(jobs), 'job')}, about {max(1, round(total))} s on the recording machine")
    repeats = []
    started = time.monotonic()
    for number, job in enumerate(jobs, 1):
        if sample and time.monotonic() - started > 60 * minutes:
            say(f"{minutes:g} minutes are over: {counted(len(jobs) - number + 1, 'job')} left out")
            break
        say(f"[{number}/{len(jobs)}] {job.id}")
        with ProgressBar(job.method, "step") as progress:
            repeats.append(again.compare(job, progress))
        if not as_json:
            _print(repeats[-1])
    machines = [again.machine(study) for study in dict.fromkeys(job.study for job in jobs)]
    if as_json:
        print_json(summary(repeats, machines))
    elif len(repeats) > 1:
        print_text(_sum(repeats))
    if broken := [repeat.job.id for repeat in repeats if repeat.verdict == "differs"]:
        raise UserError(f"{', '.join(broken)}: rows differ by more than is expected")


def _jobs(
    again: Repetition, names: list[str] | None, seeds: str | None, draws: int | None
) -> list[Job]:
    """Return the jobs of ``names``, or all, with the seeds that are asked for.

    ``draws``: without seeds each job gets one of its own, by this seed of a sample.
    """
    import numpy as np

    from private_graphs.running.study import Run
    from private_graphs.workflow.rerun import narrowed

    jobs = [again.job(name) for name in (again.named(names) if names else again.names)]
    if seeds is not None:
        numbers = Run.parse({"seeds": seeds}).seeds or ()
        if unrecorded := {*numbers} - {seed for job in jobs for seed in job.seeds}:
            raise UsageError(f"--seeds is {seeds}: {min(unrecorded)} is recorded for none of "
                             "these jobs; leave it out")  # fmt: skip
        jobs_with = [job for job in jobs if not numbers or {*numbers} & {*job.seeds}]
        if missing := len(jobs) - len(jobs_with):
            say(f"{counted(missing, 'job')} left out, recorded with none of these seeds")
        jobs = [narrowed(job, numbers or job.seeds) for job in jobs_with]
    elif draws is not None:
        generator = np.random.default_rng(draws)
        jobs = [narrowed(job, [generator.choice(job.seeds)]) for job in jobs]
    return jobs


def _sampled(
    jobs: list[Job], count: int, minutes: float, seconds: dict[str, float], seed: int
) -> list[Job]:
    from private_graphs.workflow.rerun import drawn

    sample = drawn(jobs, count, minutes, seconds, seed)
    if not sample:
        raise UsageError(
            f"--minutes is {minutes:g}: the shortest job takes about "
            f"{min(seconds.values()) / 60:.2g} minutes; allow more"
        )
    if long := sum(duration > 60 * minutes for duration in seconds.values()):
        say(f"{long} of {counted(len(jobs), 'job')} take longer than --minutes and are never drawn")
    return sample


def _print(repeat: JobComparison) -> None:
    print_text(f"{repeat.job.id}")
    for row in repeat.rows:
        mark = {"within": "equal within tolerance", "unjudged": "not judged"}
        print_text(f"  {row.name}  {mark.get(row.verdict, row.verdict)}  {row.words}")


def _sum(repeats: Iterable[JobComparison]) -> str:
    """Return a line with the numbers of rows by verdict."""
    from collections import Counter

    counts = Counter(row.verdict for repeat in repeats for row in repeat.rows)
    return f"rows: {', '.join(f'{count} {name}' for name, count in counts.items())}"
