"""What every script of the workflow shares: where it reports, and how it fails."""

from __future__ import annotations

import contextlib
import fcntl
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

# In an environment without the package (snakemake --software-deployment-method conda) the
# sources of the repository, which is the working directory of every job, are used.
sys.path.append(str(Path.cwd() / "src"))

from private_graphs.core.errors import UserError

FINISHED = "finished"
FAILED = "failed:"
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


def end_quietly(kind, error, trace) -> None:
    """End without a traceback where Ctrl-C comes before or after the body of a job."""
    if issubclass(kind, KeyboardInterrupt):
        raise SystemExit(INTERRUPTED)
    sys.__excepthook__(kind, error, trace)


sys.excepthook = end_quietly


def say(line: str) -> None:
    """Print a line at the terminal, whatever goes to the log."""
    print(line, file=sys.__stderr__, flush=True)


class Log:
    """The log of a running job: lines, and how far it is."""

    def __init__(self, stream, secret: bool) -> None:
        self._stream, self._secret, self._percent = stream, secret, -1

    def note(self, line: str) -> None:
        """Add a line."""
        self._percent = -1
        print(line, file=self._stream)

    def progress(self, *counts) -> None:
        """Add a line for every hundredth of the work.

        ``counts`` end with the work done and all work. A secret job tells nothing of time.
        """
        done, total = counts[-2:]
        percent = 100 * done // max(total, 1)
        if percent > self._percent and not self._secret:
            self._percent = percent
            print(f"progress: {percent} %", file=self._stream)


@contextlib.contextmanager
def reported(title: str, log: str, *, secret: bool = False) -> Iterator[Log]:
    """Run the body of a job; yield its log, to which all output goes.

    A ``secret`` job tells nobody how long it took (docs/privacy.md §5). On an error the log ends
    with ``failed:`` and the message, which the workflow prints last, and the job exits with 1; the
    traceback of an unexpected error is in the log alone. The log is locked: where a killed run has
    left a process that still does the same, this one waits for it.
    """
    started = time.monotonic()
    path = Path(log)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8", buffering=1) as stream:
        wait_for_others(stream, title)
        stream.truncate(0)
        print(title, file=stream)
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            try:
                yield Log(stream, secret)
            except UserError as error:
                print(f"{FAILED} {error}", file=stream)
                raise SystemExit(1) from None
            except KeyboardInterrupt:
                print(f"{FAILED} interrupted", file=stream)
                raise SystemExit(INTERRUPTED) from None
            except Exception as error:
                traceback.print_exc(file=stream)
                print(f"{FAILED} {title}: {type(error).__name__}: {error}", file=stream)
                raise SystemExit(1) from None
        seconds = time.monotonic() - started
        print(FINISHED if secret else f"{FINISHED} in {seconds:.1f} s", file=stream)


def wait_for_others(stream, title: str) -> None:
    """Lock the log of a job; wait for the process that holds it, if any."""
    with contextlib.suppress(OSError):  # a file system without locks
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{title}: waiting for a process of an earlier run that is still at it")
            fcntl.flock(stream, fcntl.LOCK_EX)
