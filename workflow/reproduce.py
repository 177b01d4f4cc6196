"""Run Snakemake so that a run that was killed continues.

A killed Snakemake leaves a lock, and perhaps jobs that go on without it. Where no live process
holds the lock, those jobs are ended and the lock is removed; Snakemake then repeats the
interrupted jobs and keeps the finished ones. Arguments are passed on to Snakemake.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil

STATE = Path(".snakemake")
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


def processes_here() -> list[psutil.Process]:
    """Return the live processes that work in this folder, without this one and its parents."""
    mine = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid in mine or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if Path(process.cwd()) == Path.cwd():
                found.append(process)
        except (psutil.Error, OSError):  # it has ended, or belongs to somebody else
            continue
    return found


def command_of(process: psutil.Process) -> list[str]:
    """Return the command line of a process, empty if it has just ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def is_snakemake(process: psutil.Process) -> bool:
    """Return whether a process is Snakemake itself, started by any of its names."""
    names = [Path(word).name for word in command_of(process)[:4]] or [""]
    program = names[0].startswith(("python", "snakemake"))
    return program and bool({"snakemake", "reproduce.py"} & set(names))


def is_job(process: psutil.Process) -> bool:
    """Return whether a process is a job of this folder: Snakemake runs a copy of its script."""
    scripts = str(STATE.resolve() / "scripts")
    return any(word.startswith(scripts) for word in command_of(process))


def release_stale_lock() -> None:
    """Remove a lock that no live process holds; exit with 1 where one does."""
    locks = sorted(STATE.glob("locks/*.lock"))
    processes = processes_here()
    if live := [process for process in processes if is_snakemake(process)]:
        if locks:
            sys.exit(
                f"This folder is locked by a running Snakemake (process {live[0].pid}). Wait for "
                "it, or stop it; if it does not work in this folder: snakemake --unlock"
            )
        return
    if orphans := [process for process in processes if is_job(process)]:
        for process in orphans:
            process.kill()
        psutil.wait_procs(orphans, timeout=10)
        jobs = "1 job" if len(orphans) == 1 else f"{len(orphans)} jobs"
        print(f"Ended {jobs} that a killed run had left behind.", flush=True)
    if locks:
        for lock in locks:
            lock.unlink(missing_ok=True)
        print(
            "An earlier run was killed: removed its lock. Finished jobs are kept; "
            "only interrupted ones run again.",
            flush=True,
        )


def main(arguments: list[str]) -> int:
    """Release a stale lock, run Snakemake in this process and say where the results are."""
    os.chdir(Path(__file__).resolve().parents[1])
    release_stale_lock()
    from snakemake.cli import main as snakemake

    try:
        snakemake(arguments)
    except SystemExit as end:
        if end.code not in (0, None):
            return end.code if isinstance(end.code, int) else 1
    except KeyboardInterrupt:  # before the first job; later the workflow itself says so
        print("\nInterrupted before anything ran.", file=sys.stderr)
        return INTERRUPTED
    print("Done. Open results/index.html in a browser; the files are in results/*/exhibits/.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
