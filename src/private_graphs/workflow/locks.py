"""The lock that a killed Snakemake leaves in its folder, removed by the next one."""

from __future__ import annotations

import fcntl
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import IO


class FolderLock:
    """A lock that the operating system releases when its process ends, however it ends.

    ``is_ours`` says whether no other run goes on here.

    Its file names the machine of a run while the run lasts. Whoever finds the file free and the
    name of its own machine in it knows that this run was killed, and that Snakemake's lock is
    stale. Folders are shared on clusters: of another machine's run nobody knows here.
    """

    def __init__(self, path: Path = Path(".snakemake/private-graphs.lock")) -> None:
        """Take the lock if it is free, and remove what a killed run left locked."""
        self.is_ours = False
        path.parent.mkdir(exist_ok=True)
        self._file: IO[str] = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # a run goes on, or the file system has no locks: Snakemake has its own
            return
        self._file.seek(0)
        host = self._file.read().strip()
        if host == platform.node():
            unlock()
            self._write("")
        self.is_ours = host in ("", platform.node())
        if not self.is_ours:
            _say(
                f"The last run in this folder was started on {host} and has not ended. If it was "
                "killed: snakemake --unlock"
            )

    def begin(self) -> None:
        """Note that a run goes on, once Snakemake has its own lock; a dry run may have this one."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except OSError:
            return
        self._write(platform.node())

    def end(self) -> None:
        """Note that the run has ended in order."""
        self._write("")

    def _write(self, text: str) -> None:
        self._file.truncate(0)
        self._file.write(text)
        self._file.flush()


def unlock() -> None:
    """Remove Snakemake's lock of this folder."""
    arguments = ["--unlock", "--snakefile", os.devnull, "--workflow-profile", "none"]
    command = [sys.executable, "-m", "snakemake", *arguments]
    done = subprocess.run(  # noqa: S603 (constant words)
        command, capture_output=True, text=True, check=False
    )
    if done.returncode:
        _say(f"The lock of a killed run could not be removed: {done.stderr.strip()}")
        return
    _say(
        "An earlier run was killed: removed its lock. Finished jobs are kept; only interrupted "
        "ones run again."
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
