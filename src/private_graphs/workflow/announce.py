"""Messages of the workflow: the work ahead of a run, and why jobs failed after it."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from private_graphs.core.errors import counted
from private_graphs.datasets import registry
from private_graphs.report.words import duration
from private_graphs.workflow.rules import Workflow

INTERRUPTED = (
    "Interrupted. Finished jobs are kept; the same command continues where this run stopped."
)


def announcement(work: Workflow) -> list[str]:
    """Return the lines before a run: what is left out, and what has not finished yet."""
    lines = [*work.plan.left_out, *unbounded_lines(work)]
    todo = [job for job in work.jobs.values() if work.finished.get(job.id) != job]
    if todo:
        audits = sum(job.attack is not None for job in todo)
        runs = sum(job.n_replicas for job in todo if not job.attack)
        what = [f"{counted(len(todo) - audits, 'job')} with {counted(runs, 'run')}"]
        what += [counted(audits, "audit")] if audits else []
        names = {job.id for job in todo}
        batches = sum(any(job.id in names for job in batch.jobs) for batch in work.batches.values())
        seconds = sum(map(work.costs.seconds, todo))
        n_kept = len(work.jobs) - len(todo)
        lines.append(
            f"To run: {' and '.join(what)} in {counted(batches, 'batch')}, about "
            f"{duration(seconds)} of one core {work.costs.source}"
            + (f"; {counted(n_kept, 'finished job')} kept" if n_kept else "")
        )
    return lines


def summary(work: Workflow, seconds: float) -> str:
    """Return the first line after a run: what it made, and on what."""
    audits = sum(job.attack is not None for job in work.jobs.values())
    work_done = [counted(len(work.jobs) - audits, "job")]
    work_done += [counted(audits, "audit")] if audits else []
    synthetic = any(registry.dataset_spec(name).synthetic for name in work.datasets)
    data = " on synthetic data, which say nothing about a paper" if synthetic else ""
    return f"Finished: {' and '.join(work_done)}{data}. This time: {duration(seconds)}."


def worth_a_line(record: logging.LogRecord) -> bool:
    """Return whether a message of Snakemake is more than a turn of its scheduler."""
    return not re.match(r"(Select|Execute \d+) jobs", record.getMessage())


def unbounded_lines(work: Workflow) -> list[str]:
    """Return a line on graphs for which scenario edges is left out, and how to include it."""
    specs = [registry.dataset_spec(name) for name in work.datasets]
    names = [spec.name for spec in specs if spec.users and spec.max_edges is None]
    if not names:
        return []
    return [
        f"Scenario edges is left out for {', '.join(names)}: its declaration needs max_edges "
        "(private-graphs dataset: --max-edges), a public bound on the number of links, known "
        "without looking at them."
    ]


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
        if message == "interrupted":
            return [INTERRUPTED]
        reason = message if failed else "the job was ended before it could say why"
        messages.append(f"{reason}\n(log: {log})")
    return messages
