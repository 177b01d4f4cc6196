"""The moment at which a release is charged: what is tried before it, and what is said after it."""

from __future__ import annotations

import hashlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from traceback import clear_frames
from typing import Any, NoReturn

import numpy as np

from private_graphs.core.errors import UserError, naming, system_error_text
from private_graphs.core.files import atomic_path, sync
from private_graphs.core.private_files import private_folder
from private_graphs.documents.ledger import BudgetLedger
from private_graphs.documents.noise import NoiseKey
from private_graphs.mechanisms.door import Lane, Watch

_ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU, signal.SIGALRM, signal.SIGUSR1,
         signal.SIGUSR2)  # fmt: skip
"""Signals by which shells, terminals and schedulers end a process."""
_RESERVED = ".room"
_FILES = 12
"""Most files of a folder of a release; a file system may lack inodes alone."""
_PAGES = 2**16
"""Most bytes of the statement, pages and manifest of a release, and of what lies beside them."""


class AnswerDigest(Watch):
    """Digest of everything that passed a door."""

    active = True

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def passed(self, lane: Lane, part: str, kind: str, query: Any, exact: Any, noisy: Any) -> Any:
        """Add a released value."""
        values = np.ascontiguousarray(noisy)
        self._digest.update(f"{part}\0{kind}\0{values.dtype.str}{values.shape}\0".encode())
        self._digest.update(values.tobytes())
        return noisy

    def mark(self, key: NoiseKey) -> str:
        """Return the digest under the key of the release."""
        return key.derived(f"answers {self._digest.hexdigest()}").hex()


@contextmanager
def rehearsed(folder: Path, room: Sequence[int]) -> Iterator[None]:
    """Try what writing a release needs: its folders, modes, room on the disk, and all modules.

    ``room`` are the bytes of ``release`` and, where there is one, of ``private``. Files of that
    size hold the room while the block runs; ``write_run`` begins by freeing it.

    Raises:
        OSError, UserError: something is refused, with its path.
    """
    _load()
    parts = [folder / name for name in ("release", "private")[: len(room)]]
    try:
        for part, size in zip(parts, room, strict=True):
            closed = part.name == "private"
            with private_folder(part) if closed else nullcontext():
                with atomic_path(part / _RESERVED) as temporary:
                    temporary.write_bytes(bytes(size + _PAGES))
                    sync(temporary)
                for file in (part / f"{_RESERVED}{number}" for number in range(_FILES)):
                    with naming(file):
                        file.touch()
            sync(part)
        yield
    finally:
        for part in parts:
            with suppress(OSError):  # not empty: something was written
                free(folder)
                ignored = part / ".gitignore"
                if [*part.iterdir()] == [ignored]:
                    ignored.unlink()
                part.rmdir()


def free(folder: Path) -> None:
    """Give back the room that ``rehearsed`` holds, and what killed processes have left."""
    for part in ("release", "private"):
        for path in [*(folder / part).glob(f"{_RESERVED}*"), *(folder / part).glob(".*.partial")]:
            if not path.is_dir():  # a folder is none of ours
                path.unlink()


def _load() -> None:
    """Import and compile all that a release needs after the charge."""
    from private_graphs.core import markup  # noqa: F401
    from private_graphs.core.entropy import fresh_bytes
    from private_graphs.core.streams import Streams
    from private_graphs.mechanisms.door import Door
    from private_graphs.privacy.queries import LATTICE_RATIO, GaussianQuery

    query = GaussianQuery(unit="document", relation="replace", count=1, reason="nothing is read",
                          sensitivity=1.0, noise_std=1.0, spacing=LATTICE_RATIO)  # fmt: skip
    door = Door.of([Streams.of({"graph": "rehearsal"}, fresh_bytes())])
    door.plan([(query,)])
    door.gaussian(np.zeros((1, 1), np.int64), [query])


@dataclass(eq=False)
class Payment:
    """A release, and where it stands whether it was charged."""

    name: str
    epsilon: float = 0.0
    ledger: BudgetLedger | None = None
    """Ledger, once a release may be charged."""
    release: Callable[[], str] = str
    """Returns the name in the ledger; empty before the charge."""
    folder: Path | None = None
    """Folder of the files; None where the line of the ledger is all that is written."""
    debt: str | None = None
    """What is paid for and unfinished since an earlier run; None: nothing."""

    def words(self) -> str | None:
        """Return what became of a release that was charged; None if none was."""
        if self.ledger is None:
            return self.debt
        if not self.release():
            return None
        spent = f"epsilon {self.epsilon:g} of {self.name!r} is spent"
        whole, what = f"the release in {self.folder} is", "release"
        anew = ", into this or another --out,"
        if self.folder is None:
            whole, what, anew = "its entry in the ledger is", "entry", ""
        try:
            state = self.ledger.state_of(self.release())
        except (OSError, UserError) as error:
            why = system_error_text(error) if isinstance(error, OSError) else error
            return (
                f"the ledger cannot be read ({why}): ask 'private-graphs ledger {self.name}' once "
                f"it can be. If {spent}, the same command continues this {what} at no further "
                "cost, or refuses, where the ledger says 'finished': then nothing is left to do"
            )
        if state == "finished":
            key = self.ledger.key_of(self.release())
            left = f"; remove {key}, with which the noise can be taken off" * key.exists()
            return f"{spent}, and {whole} whole: there is nothing to repeat{left}"
        if state == "started":
            return (
                f"{spent}, and not lost: the same command{anew} continues this {what} at no "
                "further cost, unless a program is upgraded"
            )
        return None


@contextmanager
def paid(name: str, data: Path) -> Iterator[Payment]:
    """Add to every error what is spent, and how to go on; a signal is such an error too.

    It is the outermost block, since what lets locks go at the end of a release may fail as well.
    """
    payment = Payment(name)
    with raised_signals():
        try:
            payment.debt = (
                "whether an earlier run has paid for something is known once the ledger is read"
            )
            payment.debt = BudgetLedger(data).debt(name)
            yield payment
        except BaseException as error:
            clear_frames(error.__traceback__)  # a lock that a signal kept open is let go
            if words := _after_signals(payment.words):
                error.add_note(words)
            raise


@contextmanager
def raised_signals() -> Iterator[None]:
    """Turn signals that end a process into SystemExit, so that files of a block are removed."""
    here = threading.current_thread() is threading.main_thread()
    signals = [code for code in _ENDS if here and signal.getsignal(code) == signal.SIG_DFL]
    for code in signals:
        signal.signal(code, _terminated)
    try:
        yield
    finally:
        for code in signals:
            signal.signal(code, signal.SIG_DFL)


def _after_signals(words: Callable[[], str | None]) -> str | None:
    """Return words, read again where another signal ends the reading, as a second Ctrl-C does."""
    while True:
        try:
            return words()
        except (KeyboardInterrupt, SystemExit):
            continue


def _terminated(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)
