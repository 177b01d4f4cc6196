"""Jobs without the seconds that imports take: a process that has imported everything copies itself
for every job.

A run with many jobs on one machine starts it (``rules/common.smk``) and names its socket in the
environment of the jobs. A job's own process then waits for the copy that does the work, and ends as
it ends. Without such a process, or where it cannot be reached, a job runs in its own process.
"""

import contextlib
import importlib
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

SOCKET = "PRIVATE_GRAPHS_WARM"
"""Variable of the environment with the path of the socket."""
_STARTED = b"+"
_INTERRUPTED = 130
_GRACE = 10.0
_WAITING = 64
_ENGINE = "private_graphs.methods.gcn"
"""Most of the kernels are of this method."""
_PRELOADED = (
    "dp_accounting.pld.privacy_loss_distribution",
    "private_graphs.attacks.audit",
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


def serve(address: str, modules: list[str]) -> None:
    """Import ``modules`` and others, then copy this process for every job until stdin closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the jobs
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(_WAITING)  # jobs that come early wait
        for name in (*_PRELOADED, *modules):
            __import__(name)
        with contextlib.suppress(Exception):  # a job that needs what is wrong here says so
            _begin(modules)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while sys.stdin not in (ready := select.select([listener, sys.stdin], [], [])[0]):
            line = ready[0].accept()[0]
            if not os.fork():
                listener.close()
                _run(line)
            line.close()


def _begin(modules: list[str]) -> None:
    """Do what every job would do first: find the code that it reaches, load compiled kernels.

    In a fresh clone they are compiled here once, and not in several jobs at a time.
    """
    from private_graphs.imports import code_fingerprint

    for name in ("private_graphs.run", *modules):
        code_fingerprint(name)
    if _ENGINE in modules:  # by a computed name: the jobs do not depend on this code
        canary = importlib.import_module("private_graphs.attacks.canary")
        canary.label_scores(canary.Design("released", 2.0, runs=1, epochs=1), noise=1.0, label=1)


def _run(line: socket.socket) -> None:
    """Run the job that is asked for on ``line``, answer with its exit status, and end."""
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


def _end_with(line: socket.socket) -> None:
    """Interrupt this copy when the process of its job is gone."""
    watched = select.poll()
    watched.register(line, select.POLLHUP)
    watched.poll()
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_GRACE)
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
