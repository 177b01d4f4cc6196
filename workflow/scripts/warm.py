"""Jobs without the seconds that imports take: a process that has imported everything copies itself
for every job. Its first copy compiles kernels, for which jobs that may need them wait.

A run with many jobs on one machine starts it (``rules/common.smk``) and names its socket in the
environment of the jobs. A job's own process then waits for the copy that does the work, and ends as
it ends. Without such a process, or where it cannot be reached, a job runs in its own process.
"""

import contextlib
import importlib
import logging
import os
import pickle
import runpy
import select
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TextIO

SOCKET = "PRIVATE_GRAPHS_WARM"
"""Variable of the environment with the path of the socket."""
_STARTED = b"+"
_INTERRUPTED = 130
_GRACE = 10.0
_WAITING = 64
_WAIT_FOR_KERNELS = ("audit", "run")
"""Rules of jobs that may need them."""
_TALKING = ("transformers", "sentence_transformers")
"""Libraries whose loggers keep the stderr that there is when they are imported."""
_PRELOADED = (
    "dp_accounting.pld.privacy_loss_distribution",
    "private_graphs.attacks.audit",
    "private_graphs.datasets.registry",
    "private_graphs.features.load",
    "private_graphs.run",
    "private_graphs.training.engine",
    "private_graphs.training.exact",
    "private_graphs.verify",
    "scipy.stats",
    "snakemake.iocontainers",
    "torch",
)


# --- in the process of a job -----------------------------------------------------------------


def handed_over(snake) -> bool:
    """Have a copy of the warm process run a job; False where there is none.

    Ends this process where the job fails, with its exit status.
    """
    if SOCKET not in os.environ or snake.threads != 1:  # its libraries compute with one thread
        return False
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(os.environ[SOCKET])
        except OSError:
            return False
        request = {"snake": snake, "environment": dict(os.environ), "folder": os.getcwd()}
        try:
            line.sendall(pickle.dumps(request))
            line.shutdown(socket.SHUT_WR)
            if line.recv(1) != _STARTED:
                return False
            answer = line.recv(1)
        except KeyboardInterrupt:
            raise SystemExit(_INTERRUPTED) from None
        except OSError:
            return False
    status = answer[0] if answer else 1  # no answer: the copy was killed
    if status:
        raise SystemExit(status)
    return True


# --- in the warm process ---------------------------------------------------------------------


def serve(address: str, modules: list[str], libraries: list[str]) -> None:
    """Import what jobs need, then copy this process for every job until stdin closes.

    ``modules`` are of the package; ``libraries`` are imported after all else.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the jobs
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{address}.new")
        listener.listen(_WAITING)  # jobs that come early wait
        os.rename(f"{address}.new", address)  # who sees it can connect
        for name in (*_PRELOADED, *modules):
            __import__(name)
        with contextlib.suppress(Exception):  # a job that needs what is wrong here says so
            _read_code(modules)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        compiled = _compile(modules, listener)
        for name in libraries:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        for name in {*_TALKING} & {*sys.modules}:  # to the log of the job, not past it
            logging.getLogger(name).handlers = [logging.lastResort]
        watched = [listener, sys.stdin, compiled]
        while sys.stdin not in (ready := select.select(watched, [], [])[0]):
            if compiled in ready:
                watched.remove(compiled)
                with contextlib.suppress(Exception):
                    _load_kernels(modules)
            if listener in ready:
                line = listener.accept()[0]
                if not os.fork():
                    listener.close()
                    _run(line, compiled)
                line.close()


def _read_code(modules: list[str]) -> None:
    """Find the code that jobs reach, which is part of what they say of themselves."""
    from private_graphs.imports import code_fingerprint

    for name in ("private_graphs.run", *modules):
        code_fingerprint(name)


def _compile(modules: list[str], listener: socket.socket) -> int:
    """Have a copy of this process compile kernels; return a pipe that ends when they are on disk.

    Where they are already, this takes seconds; in a fresh clone a minute, once and not in several
    jobs at a time.
    """
    compiled, begun = os.pipe()
    if not os.fork():
        listener.close()
        for number in (signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        threading.Thread(target=_end_with, args=(sys.stdin,), daemon=True).start()
        with contextlib.suppress(Exception):
            _load_kernels(modules)
        os._exit(0)
    os.close(begun)
    return compiled


def _load_kernels(modules: list[str]) -> None:
    """Run the slowest kernels once. By computed names: jobs do not depend on this code."""
    import numpy as np
    import scipy.sparse

    if "private_graphs.methods.gcn" in modules:
        canary = importlib.import_module("private_graphs.attacks.canary")
        canary.label_scores(canary.Design("released", 2.0, runs=1, epochs=1), noise=1.0, label=1)
    if "private_graphs.studies.dpappr.methods.appr" in modules:
        roots = importlib.import_module("private_graphs.training.roots")
        door = importlib.import_module("private_graphs.mechanisms.door").Door
        streams = importlib.import_module("private_graphs.training.streams").Streams
        one = scipy.sparse.csr_matrix(np.ones((1, 1)))
        plan = roots.Plan(np.zeros((1, 1), np.int64), 1.0, 1.0, 1.0)
        for dtype in (np.float32, np.float64):
            found = roots.Roots.of(one, one, np.zeros(1, np.int64), dtype)
            steps = door.of([streams.of({})]).descent([None])
            roots.train(found, np.zeros(2 * roots.HIDDEN), plan, steps, 0)


def _run(line: socket.socket, compiled: int) -> None:
    """Run the job that is asked for on ``line``, answer with its exit status, and end.

    ``compiled``: the pipe of ``_compile``.
    """
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        with line.makefile("rb") as stream:
            request = pickle.load(stream)
        line.sendall(_STARTED)
        os.environ.clear()
        os.environ.update(request["environment"])
        del os.environ[SOCKET]
        os.chdir(request["folder"])
        threading.Thread(target=_end_with, args=(line,), daemon=True).start()
        snake = request["snake"]
        if snake.rule in _WAIT_FOR_KERNELS:
            os.read(compiled, 1)  # nobody writes: it returns when the pipe ends
        script = Path(__file__).with_name(f"{snake.rule}.py")
        runpy.run_path(str(script), {"snakemake": snake})
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        status = _INTERRUPTED
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        with contextlib.suppress(OSError):
            line.sendall(bytes([status]))
        os._exit(status)


def _end_with(line: socket.socket | TextIO) -> None:
    """Interrupt this copy when the process at the other end is gone."""
    watched = select.poll()
    watched.register(line, select.POLLHUP)
    watched.poll()
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_GRACE)
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2].split(), sys.argv[3].split())
