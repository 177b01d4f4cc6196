"""How far a run is: jobs done, what runs now, and how long the rest may take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.common import LogEvent

from private_graphs.cost import duration

PROGRESS = "progress: "
"""How a line of a job's log begins that says how far the job is."""
_TAIL = 400
"""Bytes at the end of a log that hold its last lines."""


@dataclass
class Running:
    """A job that has started."""

    title: str
    started: float
    log: str


@dataclass
class Progress:
    """The state of a run, moved on by Snakemake's log events."""

    total: int = 0
    done: int = 0
    cores: int = 1
    expected: dict[int, float] = field(default_factory=dict)
    """Seconds that jobs are expected to take, by their numbers; ``extra`` of an announcement."""
    running: dict[int, Running] = field(default_factory=dict)
    titles: dict[int, str] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    spent: float = 0.0
    """Seconds that finished jobs took of which an estimate was there."""

    @property
    def started(self) -> bool:
        """Whether any job has started."""
        return bool(self.titles)

    def title(self, number: int) -> str:
        """Return what a job is called."""
        return self.titles.get(number, f"job {number}")

    def read(self, event: LogEvent | None, fields: Mapping[str, Any], now: float) -> None:
        """Take note of a record: its event and its fields."""
        if "expected" in fields:
            self.expected, self.cores = dict(fields["expected"]), fields["cores"]
        if event == LogEvent.RUN_INFO:
            self.total = int(fields["stats"].get("total", 0))
        elif event == LogEvent.JOB_INFO:
            number, log = fields["jobid"], list(fields["log"] or ())
            names = [str(value) for value in dict(fields["wildcards"]).values()]
            self.titles[number] = " ".join([fields["rule_name"], "/".join(names)]).strip()
            self.running[number] = Running(self.titles[number], now, log[0] if log else "")
        elif event == LogEvent.JOB_FINISHED:
            job = self.running.pop(fields["job_id"], None)
            self.finished.add(fields["job_id"])
            if job and fields["job_id"] in self.expected:
                self.spent += now - job.started
        elif event == LogEvent.JOB_ERROR:
            self.running.pop(fields["jobid"], None)
        elif event == LogEvent.PROGRESS:
            self.done, self.total = fields["done"], fields["total"]

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds that the rest may take; None where nothing is expected.

        Estimates are corrected by what finished jobs took, the more so the more have finished. A
        job that takes longer than expected may take a quarter of its time more.
        """
        past = sum(self.expected.get(number, 0) for number in self.finished)
        whole = sum(self.expected.values())
        if not whole:
            return None
        weight = past / whole
        factor = weight * (self.spent / past if past else 1) + (1 - weight)
        rest = 0.0
        for number, seconds in self.expected.items():
            if number in self.running:
                elapsed = now - self.running[number].started
                rest += max(seconds * factor - elapsed, elapsed / 4)
            elif number not in self.finished:
                rest += seconds * factor
        return rest / self.cores

    def line(self, now: float, read: Callable[[str], list[str]]) -> str:
        """Return the line that says it; ``read`` gives the last lines of a log."""
        parts = [f"{self.done} of {self.total} jobs done"]
        left = self.seconds_left(now)
        if left is not None and self.done < self.total:
            parts.append(f"about {duration(left)} left")
        if self.running:
            oldest = min(self.running.values(), key=lambda job: job.started)
            more = f" and {len(self.running) - 1} more" if len(self.running) > 1 else ""
            inside = [line for line in read(oldest.log) if line.startswith(PROGRESS)]
            share = f" ({inside[-1].removeprefix(PROGRESS)})" if inside else ""
            parts.append(f"{oldest.title}{share}{more}")
        return " · ".join(parts)


def last_lines(log: str) -> list[str]:
    """Return the last lines of a file; none where it cannot be read."""
    try:
        with Path(log).open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - _TAIL))
            return stream.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []
