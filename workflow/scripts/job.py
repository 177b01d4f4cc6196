"""What every script of the workflow shares: where it reports, and how it fails."""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

# In an environment without the package (snakemake --software-deployment-method conda) the
# sources of the repository, which is the working directory of every job, are used.
sys.path.append(str(Path.cwd() / "src"))

from private_graphs.errors import UserError
from private_graphs.files import write_text

FINISHED = "finished"
FAILED = "failed:"


def terminal():
    """Return the stream for progress bars: a log keeps the last line alone."""
    return sys.__stderr__


@contextlib.contextmanager
def reported(
    title: str, log: str, *, times: str | None = None, secret: bool = False
) -> Iterator[Callable[[str], None]]:
    """Run the body of a job; yield a function that adds a line to its log.

    All output goes to ``log``; the terminal gets one line when the job has finished. How long it
    took is written to ``times``, if any, as in a benchmark file of Snakemake; a ``secret`` job
    tells nobody, and leaves no times of an earlier one (docs/privacy.md §5). On an error
    the log ends with ``failed:`` and the message, which the workflow prints last, and the job
    exits with 1; the traceback of an unexpected error is in the log alone.
    """
    started = time.monotonic()
    path = Path(log)
    path.parent.mkdir(parents=True, exist_ok=True)
    if times is not None:
        Path(times).unlink(missing_ok=True)
    with path.open("w", encoding="utf-8", buffering=1) as stream:
        notes: list[str] = []

        def note(line: str) -> None:
            notes.append(line)
            print(line, file=stream)

        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            try:
                yield note
            except UserError as error:
                print(f"{FAILED} {error}", file=stream)
                raise SystemExit(1) from None
            except Exception as error:
                traceback.print_exc(file=stream)
                print(f"{FAILED} {title}: {type(error).__name__}: {error}", file=stream)
                raise SystemExit(1) from None
        seconds = time.monotonic() - started
        print(FINISHED if secret else f"{FINISHED} in {seconds:.1f} s", file=stream)
    if times is not None and not secret:
        write_text(times, f"s\n{seconds:.4f}\n")
    detail = f": {notes[-1]}" if notes else ""
    took = "" if secret else f" ({seconds:.1f} s)"
    print(f"{title}{detail}{took}", file=sys.stderr, flush=True)
