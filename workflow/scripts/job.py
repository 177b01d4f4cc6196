"""What every script of the workflow shares: where it reports, and how it fails."""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

# In an environment without the package (snakemake --software-deployment-method conda) the
# sources of the repository, which is the working directory of every job, are used.
sys.path.append(str(Path.cwd() / "src"))

from private_graphs.errors import UserError
from private_graphs.files import write_text

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


class Log:
    """The log of a running job: lines, and how far it is."""

    def __init__(self, stream, secret: bool) -> None:
        self._stream, self._secret, self._percent = stream, secret, -1

    def note(self, line: str) -> None:
        """Add a line."""
        print(line, file=self._stream)

    def progress(self, *counts) -> None:
        """Add a line for every hundredth of the work, of which the terminal shows the last.

        ``counts`` end with the work done and all work. A secret job tells nothing of time.
        """
        done, total = counts[-2:]
        percent = 100 * done // max(total, 1)
        if percent > self._percent and not self._secret:
            self._percent = percent
            print(f"progress: {percent} %", file=self._stream)


@contextlib.contextmanager
def reported(
    title: str, log: str, *, times: str | None = None, secret: bool = False
) -> Iterator[Log]:
    """Run the body of a job; yield its log, to which all output goes.

    How long it took is written to ``times``, if any, as in a benchmark file of Snakemake; a
    ``secret`` job tells nobody, and leaves no times of an earlier one (docs/privacy.md §5). On an
    error the log ends with ``failed:`` and the message, which the workflow prints last, and the job
    exits with 1; the traceback of an unexpected error is in the log alone.
    """
    started = time.monotonic()
    path = Path(log)
    path.parent.mkdir(parents=True, exist_ok=True)
    if times is not None:
        Path(times).unlink(missing_ok=True)
    with path.open("w", encoding="utf-8", buffering=1) as stream:
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
    if times is not None and not secret:
        write_text(times, f"s\n{seconds:.4f}\n")
