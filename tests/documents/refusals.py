"""Classifies documents in copies of this process that ``refusals.c`` disturbs at one system call.

Run with that library in LD_PRELOAD: ``refusals.py FOLDER SAMPLE``; prints one JSON line for each
disturbance: what it was, what the command said, and what was wrong (nothing, if all is well).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import random
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from document_tables import declared, rows_of, write

import private_graphs
from private_graphs import cli
from private_graphs.core.manifest import changed_file
from private_graphs.documents.ledger import BudgetLedger

SIGNALS = ("SIGKILL", "SIGTERM", "SIGINT")
CALLS = ("open", "write", "fsync", "chmod", "rename", "flock", "mkdir", "unlink", "read", "close",
         "rmdir")  # fmt: skip
ERRORS = {"write": errno.ENOSPC, "fsync": errno.EIO, "chmod": errno.EPERM, "flock": errno.ENOLCK,
          "read": errno.EIO, "close": errno.EDQUOT}  # fmt: skip
ANY = len(CALLS)
COMMAND = ("classify", "g", "--epsilon", "1", "--out", "o")
EARLIER_RUN, WHOLE, SPENT = "earlier run", "has made its release whole", "is spent"
NAMELESS = ("does not name", "a defect of")
"""Parts of messages without a file."""
LIBRARY = ctypes.CDLL(None)


@dataclass(frozen=True)
class Disturbance:
    """What happens to a process, and before which of its calls."""

    call: str
    """Name of a system call, or of the signal that the process gets before any of them."""
    number: int
    lasts: bool = False
    """Whether all later calls are refused too."""

    def begin(self) -> None:
        """Disturb this process from now on."""
        known = self.call in CALLS
        LIBRARY.refuse(
            os.getcwd().encode(), CALLS.index(self.call) if known else ANY, self.number,
            ERRORS.get(self.call, errno.EACCES), self.lasts,
            0 if known else signal.Signals[self.call],
        )  # fmt: skip


def copied(disturbance: Disturbance | None, said: Path) -> int:
    """Classify in a copy of this process; return its exit code, less than 0 for a signal."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 99
    try:
        output = os.open(said, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if disturbance:
            disturbance.begin()
        cli.main(list(COMMAND))
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        Path("../calls").write_text(
            " ".join(str(LIBRARY.calls_made(each)) for each in range(ANY + 1))
        )
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the files of a run that have their final names."""
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*") if path.is_file() and path.name[0] != "."}  # fmt: skip


def wrongs(code: int, said: str, again: Path) -> list[str]:
    """Return what is wrong after a disturbance, and after the same command once more."""
    found = []
    spent, left = private_graphs.ledger("g"), files_in(Path("o"))
    states = [each["state"] for each in spent.releases]
    if states not in ([], ["started"], ["finished"]):
        found.append(f"the ledger has {states}")
    if code > 0 and (SPENT in said) != bool(states):
        found.append(f"what is spent is not what is said: {states}")
    if any(words in said for words in NAMELESS):
        found.append("the message names no file")
    if code == 0 and states != ["finished"]:
        found.append("the command says that it is done")
    repeated = copied(None, again)
    finished = states == ["finished"]
    if repeated != (2 if finished else 0) or finished != any(
        words in again.read_text() for words in (EARLIER_RUN, WHOLE)
    ):
        found.append(f"the same command ends with {repeated}: {again.read_text()}")
    after, entries = private_graphs.ledger("g"), BudgetLedger(Path("data/raw")).entries()
    if [each.finished for each in entries] != [True] or not 0.99 < after.spent <= 1:
        found.append("the release is not finished at its own cost")
    if why := changed_file(Path("o/release"), ["model.safetensors", "statement.json"]):
        found.append(f"the release is not whole: {why}")
    if not Path("o/release/manifest.json").exists():
        found.append("the release has no manifest")
    whole = files_in(Path("o"))
    if changed := [name for name, data in left.items() if whole.get(name) != data]:
        found.append(f"another release than before: {', '.join(changed)}")
    if hidden := [each.name for each in Path("o/release").glob(".*")]:
        found.append(f"{', '.join(hidden)} would be given away")
    if any(Path("data/ledgers/noise").glob("*")):
        found.append("the key of the noise is there")
    return found


def fresh() -> None:
    """Begin with a declaration and nothing else."""
    shutil.rmtree(".", ignore_errors=True)
    shutil.copytree("../start", ".", dirs_exist_ok=True)


def disturbances(most: int) -> list[Disturbance]:
    """Return one for each call that a classification makes; ``most`` > 0: at most so many of each,
    at random."""
    said, chance = Path("../said"), random.Random(most)
    assert copied(Disturbance("open", 10**9), said) == 0, said.read_text()
    made = dict(zip((*CALLS, "any"), map(int, Path("../calls").read_text().split()), strict=True))
    chosen = []
    for name in (*CALLS, *SIGNALS):
        numbers = range(1, made.get(name, made["any"]) + 1)
        some = chance.sample(numbers, min(most, len(numbers))) if most else numbers
        chosen += [Disturbance(name, number, name == "write") for number in some]
    return chosen


def main(folder: Path, most: int) -> None:
    """Disturb one classification after the other."""
    (folder / "work").mkdir()
    os.chdir(folder / "work")
    declared("g", write(Path("n.csv"), rows_of(60)), budget=3)
    shutil.copytree(".", "../start")
    private_graphs.classify("g", epsilon=1, out="o")  # what it has loaded serves all copies
    said, again = Path("../said"), Path("../again")
    fresh()
    for each in disturbances(most):
        fresh()
        code = copied(each, said)
        line = {"call": each.call, "number": each.number, "code": code, "said": said.read_text()}
        print(json.dumps(line | {"wrong": wrongs(code, said.read_text(), again)}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
