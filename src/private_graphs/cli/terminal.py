"""Output of ``private-graphs`` commands: results as JSON, messages, a progress bar."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

import typer

from private_graphs.core.errors import naming

UNTIMED = "{l_bar}{bar}| {n_fmt}/{total_fmt}"
"""Format of a tqdm bar without times and rates."""


def print_text(text: str) -> None:
    """Print a result on standard output; an error names it."""
    with naming("standard output"):
        typer.echo(text)


def print_json(value: Any) -> None:
    """Print a result as JSON on standard output."""
    print_text(json_text(value))


def json_text(value: Any) -> str:
    """Return a result as JSON."""
    return json.dumps(value, indent=2, allow_nan=False)


def say(message: str) -> None:
    """Print a message on standard error; what nobody can read ends no run."""
    try:
        typer.echo(message, err=True)
    except OSError:
        _close(sys.stderr)


def report(text: Callable[[], str], done: str) -> None:
    """Print a result of a command whose work is done: where it cannot be printed, say so."""
    try:
        typer.echo(text())
    except OSError as error:
        _close(sys.stdout)
        say(f"standard output cannot be written ({error.strerror}); {done}")
    except BaseException as error:
        error.add_note(done)
        raise


def _close(stream: TextIO) -> None:
    """Send what a stream still holds nowhere, or Python fails with it at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def number(value: float) -> float | None:
    """Convert a number of a row for JSON: NaN becomes None."""
    return None if math.isnan(value) else float(value)


class ProgressBar:
    """Progress bar on standard error that opens when work starts; off a terminal, now and then a
    line.

    ``timed`` False leaves out times, rates and lines: how long work takes can be secret
    (docs/privacy.md §0.2). Ctrl-C also ends the work of other threads, at their next report.
    """

    SECONDS = 10
    """Between two lines off a terminal."""

    def __init__(self, work: str, unit: str, timed: bool = True) -> None:
        self.work, self.unit = work, unit
        self.bar: Any = None
        self.format = None if timed else UNTIMED
        self.interrupted = False
        self.next_line = time.monotonic() + self.SECONDS
        self.lines = timed and not sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        from tqdm import tqdm

        if self.interrupted:  # the only way to stop other threads on Ctrl-C
            raise KeyboardInterrupt
        if self.bar is None:
            self.bar = tqdm(
                total=total, unit=self.unit, desc=self.work, file=sys.stderr, leave=False,
                disable=None, bar_format=self.format,
            )  # fmt: skip
        if self.bar.total != total or done < self.bar.n:
            self.bar.reset(total)
        self.bar.update(done - self.bar.n)
        if self.lines and time.monotonic() >= self.next_line:
            self.next_line = time.monotonic() + self.SECONDS
            say(f"{self.work}: {100 * done // max(total, 1)} %")

    def _interrupt(self, *_: object) -> None:
        self.interrupted = True
        raise KeyboardInterrupt

    def __enter__(self) -> ProgressBar:
        self._handler = None
        if threading.current_thread() is threading.main_thread():
            self._handler = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
        if self.bar is not None:
            self.bar.close()
