"""What a killed or interrupted run leaves and how it continues, and the installation before it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from .conftest import Project

GATE = """
import os, time

def main(snake, main=main):
    import private_graphs.running.run
    execute = private_graphs.running.run.execute
    def held(job, *arguments, **options):
        while os.path.exists("gate") and job.protocol == "paper":
            open(f"gate.{os.getpid()}", "w").close()
            time.sleep(0.05)
        return execute(job, *arguments, **options)
    private_graphs.running.run.execute = held
    main(snake)

main(snakemake)"""


def wait_until(
    holds: Callable[[], object], what: str, run: subprocess.Popen[str] | None = None,
    seconds: float = 300,
) -> None:  # fmt: skip
    """Wait for a condition; fail with its name, or with the output of a run that ended before."""
    end = time.monotonic() + seconds
    while not holds():
        assert run is None or run.poll() is None, run.communicate(timeout=60)[0]
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def running_scripts(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Return the scripts of batches that a run has started."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has just ended
            runs_script = any(word.endswith(".run.py") for word in child.cmdline())
            if runs_script and child.name().startswith("python"):
                found.append(child)
    return found


def held_jobs(project: Project, process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Return those that stand at the gate."""
    return [each for each in running_scripts(process)
            if (project.path / f"gate.{each.pid}").exists()]  # fmt: skip


@pytest.fixture
def held(project: Project) -> Iterator[tuple[Project, subprocess.Popen[str]]]:
    """A run whose first job has finished and whose second cannot finish while ``gate`` exists."""
    shutil.rmtree(project.path / "recorded")  # its pages take longer than the run
    script = project.path / "workflow" / "scripts" / "run.py"
    text = script.read_text()
    assert text.count("\nmain(snakemake)") == 1
    script.write_text(text.replace("\nmain(snakemake)", GATE))
    (project.path / "gate").touch()
    process = project.start()
    wait_until(lambda: held_jobs(project, process), "a job is held", process)
    yield project, process
    (project.path / "gate").unlink(missing_ok=True)  # jobs of a killed run end by themselves


@pytest.mark.long
def test_a_run_that_was_killed_or_interrupted_continues_and_repeats_nothing_else(
    held: tuple[Project, subprocess.Popen[str]],
) -> None:
    project, process = held
    orphan = held_jobs(project, process)[0]
    finished = project.job("released") / "runs.parquet"
    before = finished.stat().st_mtime_ns

    second = project.start()
    wait_until(lambda: second.poll() is not None, "the second run is refused", seconds=60)
    assert "cannot be locked" in second.communicate(timeout=60)[0]
    assert process.poll() is None

    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=20)
    again = project.start()
    wait_until(lambda: running_scripts(again), "another process has started", again)
    assert not held_jobs(project, again), "that of the first run has the batch"
    orphan.kill()
    wait_until(lambda: held_jobs(project, again), "the held job has started again", again)
    os.killpg(again.pid, signal.SIGINT)  # as a terminal does on Ctrl-C
    output = again.communicate(timeout=900)[0]
    assert again.returncode != 0, output
    assert "An earlier run was killed: removed its lock" in output
    said = "Interrupted. Finished jobs are kept; the same command continues where this run stopped."
    assert output.count(said) == 1
    assert "Traceback" not in output, output
    assert not (project.job("paper") / "manifest.json").exists()

    (project.path / "gate").unlink()
    last = project.start()
    output = last.communicate(timeout=900)[0]
    assert last.returncode == 0, output
    assert "removed its lock" not in output
    assert "To run: 1 job with 2 runs" in output and "1 finished job kept" in output
    assert finished.stat().st_mtime_ns == before
    assert "Results: results/index.html" in output
    assert (project.path / "results" / "index.html").exists()


@pytest.fixture
def stub_python(tmp_path: Path) -> Callable[..., Path]:
    """Write a stand-in for an interpreter that says which version it is."""

    def write(name: str, version: str, has_venv: bool = True) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        path = folder / name
        path.write_text(
            "#!/bin/sh\n"
            f'case "$2" in *version_info*) echo {version} ;;\n'
            f"*ensurepip*) exit {0 if has_venv else 1} ;; esac\n"
            'case "$1 $2" in "-m venv")\n'
            '  mkdir -p "$4/bin"; cp "$0" "$4/bin/python" ;;\n'
            '"-m pip") echo "$@" >>pip-calls ;; esac\n'
        )
        path.chmod(0o755)
        return path

    return write


def install(project: Project, python: str, bin_folder: Path | None = None) -> tuple[int, str]:
    """Run the installation with the interpreters named in ``python`` as the only candidates."""
    path = f"{bin_folder}:{os.environ['PATH']}" if bin_folder else os.environ["PATH"]
    done = subprocess.run(
        ["sh", "envs/install.sh", "venv"],
        cwd=project.path, env={**os.environ, "PYTHON": python, "PATH": path}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.returncode, done.stdout


@pytest.fixture
def installable(project: Project, root: Path) -> Project:
    """A project with the files that the installation reads."""
    for name in ("requirements.lock", "pyproject.toml"):
        (project.path / name).write_bytes((root / name).read_bytes())
    return project


def test_another_python_stops_at_once_and_is_named(
    installable: Project, stub_python: Callable[..., Path]
) -> None:
    old, new = stub_python("python3.10", "3.10"), stub_python("python3.13", "3.13")
    code, output = install(installable, f"{old} {new} no-such-python")
    assert code == 1
    assert "needs Python 3.11 or 3.12" in output
    assert f"{old} (3.10)" in output and f"{new} (3.13)" in output
    assert not (installable.path / "venv").exists()


def test_python_without_venv_names_the_package_to_install(
    installable: Project, stub_python: Callable[..., Path]
) -> None:
    code, output = install(installable, str(stub_python("python3.12", "3.12", has_venv=False)))
    assert code == 1 and "python3.12-venv" in output


def test_a_python_that_does_not_run_is_passed_over(
    installable: Project, stub_python: Callable[..., Path]
) -> None:
    shim = stub_python("python3.11", "3.11")
    shim.write_text("#!/bin/sh\nexit 127\n")
    code, output = install(installable, f"{shim} {stub_python('python3.12', '3.12')}")
    assert code == 0, output
    assert (installable.path / "venv" / "bin" / "python").exists()


def test_an_unchanged_lock_is_not_installed_again(
    installable: Project, stub_python: Callable[..., Path]
) -> None:
    python = str(stub_python("python3.11", "3.11"))
    calls = installable.path / "pip-calls"

    def installations() -> int:
        return calls.read_text().count("pip install")

    assert install(installable, python)[0] == 0
    assert installations() == 3
    assert "--no-deps --require-hashes -r requirements.lock" in calls.read_text()
    assert install(installable, python) == (0, "")
    assert installations() == 3
    installable.append("requirements.lock", "# changed\n")
    assert install(installable, python)[0] == 0
    assert installations() == 6
