"""The lock that a killed Snakemake leaves in its folder, and jobs that go on without it."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import psutil

STATE = Path(".snakemake")
HOST = STATE / "private-graphs.host"
"""Name of the machine on which Snakemake last started here: folders are shared on clusters, and a
machine sees its own processes alone."""


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
    """End what a killed Snakemake has left running here, and remove its lock; say so.

    A lock that a live Snakemake holds, or that one of another machine may hold, stays: who needs it
    is stopped by Snakemake itself, after a line that says who has it.
    """
    locks = sorted(STATE.glob("locks/*.lock"))
    processes = processes_here()
    if live := [process for process in processes if is_snakemake(process)]:
        if locks:
            _say(
                f"This folder is locked by a running Snakemake (process {live[0].pid}). Wait for "
                "it, or stop it; if it does not work in this folder: snakemake --unlock"
            )
        return
    here = platform.node()
    host = HOST.read_text(encoding="utf-8").strip() if HOST.is_file() else here
    if locks and host != here:
        _say(
            f"This folder is locked by a Snakemake that was started on {host}. Wait for it, or "
            "stop it there; if it is gone: snakemake --unlock"
        )
        return
    if orphans := [process for process in processes if is_job(process)]:
        for process in orphans:
            process.kill()
        psutil.wait_procs(orphans, timeout=10)
        jobs = "1 job" if len(orphans) == 1 else f"{len(orphans)} jobs"
        _say(f"Ended {jobs} that a killed run had left behind.")
    if locks:
        for lock in locks:
            lock.unlink(missing_ok=True)
        _say(
            "An earlier run was killed: removed its lock. Finished jobs are kept; only interrupted "
            "ones run again."
        )
    STATE.mkdir(exist_ok=True)
    HOST.write_text(f"{here}\n", encoding="utf-8")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
