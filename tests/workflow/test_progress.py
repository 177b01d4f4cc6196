"""The line that says how far a run is, and what the logger plugin prints of Snakemake's events."""

from __future__ import annotations

import io
import logging
import types

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_private_graphs import LogHandler
from snakemake_logger_plugin_private_graphs.progress import Progress


def info(number: int, rule: str = "run", **wildcards: str) -> dict:
    """Fields of a job that starts."""
    return {"jobid": number, "rule_name": rule, "wildcards": wildcards, "log": [f"{number}.log"]}


def started(progress: Progress, *numbers: int, now: float = 0.0) -> None:
    """Start jobs."""
    for number in numbers:
        progress.read(LogEvent.JOB_INFO, info(number, job=f"table1/job{number}"), now)


def finished(progress: Progress, number: int, done: int, total: int, now: float) -> None:
    """Finish a job."""
    progress.read(LogEvent.JOB_FINISHED, {"job_id": number}, now)
    progress.read(LogEvent.PROGRESS, {"done": done, "total": total}, now)


def test_the_line_says_jobs_done_the_present_job_and_the_time_left() -> None:
    progress = Progress()
    progress.read(None, {"expected": {1: 100.0, 2: 100.0, 3: 100.0}, "cores": 1}, 0)
    progress.read(LogEvent.RUN_INFO, {"stats": {"run": 3, "all": 1, "total": 4}}, 0)
    assert not progress.started
    started(progress, 1, 2)
    logs = {"1.log": ["ran it", "progress: 40 %", "progress: 41 %"], "2.log": []}
    assert progress.line(50, logs.get) == (
        "0 of 4 jobs done · about 3 min left · run table1/job1 (41 %) and 1 more"
    )
    finished(progress, 1, 1, 4, now=200)
    assert progress.line(200, logs.get) == "1 of 4 jobs done · about 3 min left · run table1/job2"
    progress.read(LogEvent.JOB_ERROR, {"jobid": 2}, 210)
    assert progress.line(210, logs.get).startswith("1 of 4 jobs done")


def test_estimates_follow_what_finished_jobs_took_and_are_absent_without_any() -> None:
    progress = Progress()
    assert progress.seconds_left(0) is None
    progress.read(None, {"expected": {number: 10.0 for number in range(4)}, "cores": 1}, 0)
    for number in range(3):
        started(progress, number, now=40.0 * number)
        finished(progress, number, number + 1, 4, now=40.0 * (number + 1))
    assert 20 < progress.seconds_left(120) < 40, "each took four times as long"


@pytest.fixture
def printed() -> io.StringIO:
    """What the plugin prints."""
    return io.StringIO()


def handler(printed: io.StringIO, **settings: object) -> LogHandler:
    """The plugin as Snakemake makes it, where there is no terminal."""
    known = {"stdout": False, "quiet": None, "dryrun": False, "verbose": False}
    plugin = LogHandler(types.SimpleNamespace(**known | settings), None)
    plugin.stream, plugin.terminal = printed, False
    return plugin


def log(handler: LogHandler, message: str, level: int = logging.INFO, **fields: object) -> None:
    """Hand a record to the plugin."""
    record = logging.LogRecord("snakemake", level, "", 0, message, None, None)
    record.__dict__.update(fields)
    handler.handle(record)


def test_announcements_and_errors_are_printed_and_routine_is_not(printed: io.StringIO) -> None:
    plugin = handler(printed)
    log(plugin, "Building DAG of jobs...")
    log(plugin, "Training: 3 jobs", expected={1: 2.0}, cores=2)
    log(plugin, "Execute 1 jobs...", event=LogEvent.JOB_STARTED, jobs=[1])
    log(plugin, "rule", event=LogEvent.JOB_INFO, **info(1, job="table1/x"))
    log(plugin, "Error in rule run", logging.ERROR, event=LogEvent.JOB_ERROR, **info(1))
    log(plugin, "CalledProcessError in file run.py", logging.ERROR, event=LogEvent.ERROR)
    log(plugin, "WorkflowError: no such job", logging.ERROR, event=LogEvent.ERROR)
    log(plugin, "Nothing to be done (all requested files are present and up to date).")
    plugin.close()
    assert printed.getvalue().splitlines() == [
        "Training: 3 jobs",
        "failed: run table1/x (log: 1.log)",
        "WorkflowError: no such job",
        "Nothing to be done (all requested files are present and up to date).",
    ]


def test_after_an_interruption_nothing_more_is_printed(printed: io.StringIO) -> None:
    plugin = handler(printed)
    log(plugin, "Terminating processes on user request, this might take some time.")
    log(plugin, "Error in rule run", logging.ERROR, event=LogEvent.JOB_ERROR, **info(1))
    plugin.close()
    assert printed.getvalue() == ""


def test_a_dry_run_prints_the_numbers_of_jobs_once(printed: io.StringIO) -> None:
    plugin = handler(printed, dryrun=True)
    for _ in range(2):
        log(plugin, "Job stats: 3", event=LogEvent.RUN_INFO, stats={"total": 3})
    plugin.close()
    assert printed.getvalue() == "Job stats: 3\n"


def test_without_a_terminal_a_line_comes_now_and_then(
    printed: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("snakemake_logger_plugin_private_graphs.LINE_SECONDS", 0.01)
    plugin = handler(printed)
    log(plugin, "rule", event=LogEvent.JOB_INFO, **info(1, job="table1/x"))
    for _ in range(500):
        if "run table1/x" in printed.getvalue():
            break
        plugin.ended.wait(0.01)
    plugin.close()
    plugin.ticker.join(timeout=5)
    assert "0 of 0 jobs done · run table1/x\n" in printed.getvalue()
    assert "\r" not in printed.getvalue()
