"""What Snakemake prints: at a terminal one line that is kept up to date, else a line every 30 s.

Snakemake finds a logger plugin by the name of its package. What it would print of every job stays
in its own log (``.snakemake/log``) and in the logs of the jobs; announcements, warnings and errors
are printed as they come.
"""

from __future__ import annotations

import logging
import shutil
import sys
import threading
import time

from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_private_graphs.progress import Progress, last_lines

TERMINAL_SECONDS = 0.5
LINE_SECONDS = 30.0
INTERRUPTED = "Terminating processes on user request"
"""How Snakemake begins to end a run after Ctrl-C."""
_QUIET_EVENTS = {
    LogEvent.WORKFLOW_STARTED, LogEvent.RESOURCES_INFO, LogEvent.SHELLCMD, LogEvent.DEBUG_DAG,
    LogEvent.RULEGRAPH, LogEvent.JOB_STARTED, LogEvent.GROUP_INFO,
}  # fmt: skip
_ROUTINE = (
    "Building DAG", "Assuming unrestricted", "Using shell", "host:", "Select jobs",
    "Waiting at most", "Conda environments: ignored", "Singularity containers: ignored",
    "Group jobs: inactive",
    "Using workflow specific profile", "Using profile", "Removing output files of failed job",
    "Complete log(s)", "Elapsed time", "Full Traceback", "Unlocking", "Job ",
)  # fmt: skip
"""Beginnings of messages that say what Snakemake always does."""
_OF_A_JOB = (
    "CalledProcessError",
    "At least one job did not complete",
    "Exiting because a job",
    "Shutting down",
)
"""Parts of errors that repeat that a job failed, which was printed with its reason by then."""


class LogHandler(LogHandlerBase):
    """The handler that Snakemake asks for: prints messages and says how far the run is."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        self.stream = sys.stdout if self.common_settings.stdout else sys.stderr
        self.terminal = self.stream.isatty()
        self.silent = Quietness.ALL in (self.common_settings.quiet or ())
        self.progress = Progress()
        self.shown = ""
        self.stats = ""
        self.interrupted = False
        self.ended = threading.Event()
        self.ticker = threading.Thread(target=self._tick, daemon=True)
        if not (self.common_settings.dryrun or self.silent):
            self.ticker.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Take note of a record, and print what people should read of it."""
        try:
            if record.getMessage().startswith(INTERRUPTED):
                self.interrupted = True
            text = self._text(record)
            if text and not self.silent and not self.interrupted:
                self.write(text)
        except Exception:
            self.handleError(record)

    def _text(self, record: logging.LogRecord) -> str:
        """Return what is printed of a record; nothing for what only moves the progress on."""
        fields, event = record.__dict__, getattr(record, "event", None)
        self.progress.read(event, fields, time.monotonic())
        message = record.getMessage() if record.msg else ""
        if event == LogEvent.RUN_INFO:
            return self._once(message) if self.common_settings.dryrun else ""
        if event == LogEvent.JOB_ERROR:
            logs = list(fields["log"] or ())
            place = f" (log: {', '.join(logs)})" if logs else ""
            return f"failed: {self.progress.title(fields['jobid'])}{place}"
        if record.levelno >= logging.WARNING:
            return "" if any(part in message for part in _OF_A_JOB) else message
        if event in _QUIET_EVENTS or event is not None or message.startswith(_ROUTINE):
            return message if self.common_settings.verbose else ""
        return message

    def _once(self, stats: str) -> str:
        """The numbers of jobs, which a dry run logs twice."""
        stats, self.stats = ("" if stats == self.stats else stats), stats
        return stats

    def write(self, text: str) -> None:
        """Print lines above the line of the progress."""
        self.stream.write(f"{self._clear()}{text}\n{self._line()}")
        self.stream.flush()

    def _tick(self) -> None:
        wait = TERMINAL_SECONDS if self.terminal else LINE_SECONDS
        while not self.ended.wait(wait):
            if self.interrupted or not self.progress.started:
                continue
            with self.lock:
                if self.terminal:
                    self.stream.write(f"{self._clear()}{self._line()}")
                else:
                    self.stream.write(f"{self.progress.line(time.monotonic(), last_lines)}\n")
                self.stream.flush()

    def _line(self) -> str:
        if not self.terminal or not self.progress.started or self.interrupted:
            return ""
        width = shutil.get_terminal_size().columns - 1
        self.shown = self.progress.line(time.monotonic(), last_lines)[:width]
        return self.shown

    def _clear(self) -> str:
        shown, self.shown = self.shown, ""
        return "\r\033[K" if shown else ""

    def close(self) -> None:
        """End the ticker and leave the cursor on an empty line."""
        self.ended.set()
        with self.lock:
            self.stream.write(self._clear())
            self.stream.flush()
        super().close()
