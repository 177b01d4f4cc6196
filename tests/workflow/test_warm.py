"""The process that jobs are copies of: jobs end as they would alone, and with their own process."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

WARM = Path(__file__).parents[2] / "workflow/scripts/warm.py"
SCRIPTS = {
    "run": "import os\nassert os.path.exists('compiled')\n",
    "told": "import os, warm\n"
    "assert not warm.handed_over(snakemake)\n"
    "open('told', 'w').write(f'{os.getppid()} {os.environ[\"COLOUR\"]} {snakemake.threads}')\n",
    "refused": "raise SystemExit(3)\n",
    "broken": "raise ValueError\n",
    "killed": "import os\nos.kill(os.getpid(), 9)\n",
    "slow": "import time\nopen('begun', 'w')\n"
    "try:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    open('interrupted', 'w')\n",
}


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def warm(tmp_path, monkeypatch):
    """The module, with a warm process that has imported nothing more and scripts of its own."""
    shutil.copy(WARM, tmp_path)
    for name, text in SCRIPTS.items():
        (tmp_path / f"{name}.py").write_text(text)
    address = str(tmp_path / "socket")
    # a job that may need kernels waits for them, any other does not
    begins = "warm._PRELOADED = (); warm._load_kernels = lambda names: kernels()"
    kernels = "import pathlib, time\ndef kernels():\n"
    kernels += "    while not pathlib.Path('compiled').exists():\n        time.sleep(0.01)"
    start = f"import warm\n{kernels}\n{begins}\nwarm.serve({address!r}, [], [])"
    process = subprocess.Popen([sys.executable, "-c", start], cwd=tmp_path, stdin=subprocess.PIPE)
    spec = importlib.util.spec_from_file_location("warm", WARM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.process = process
    monkeypatch.setenv(module.SOCKET, address)
    monkeypatch.chdir(tmp_path)
    until(lambda: os.path.exists(address))
    yield module
    process.stdin.close()
    assert process.wait(10) == 0


def job(rule, threads=1):
    return SimpleNamespace(rule=rule, threads=threads)


def test_a_job_runs_in_a_copy_with_its_own_environment(warm, monkeypatch, tmp_path):
    monkeypatch.setenv("COLOUR", "green")
    assert warm.handed_over(job("told"))
    assert Path("told").read_text() == f"{warm.process.pid} green 1"
    assert not warm.handed_over(job("told", threads=2))


def test_a_job_that_may_need_kernels_waits_until_they_are_compiled(warm, monkeypatch):
    monkeypatch.setenv("COLOUR", "green")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(warm.handed_over, job("run"))
        assert warm.handed_over(job("told"))
        assert not waiting.done()
        Path("compiled").touch()
        assert waiting.result(10)
    assert warm.handed_over(job("run"))


@pytest.mark.parametrize(
    ("module", "kernel", "count"),
    [
        ("methods.gcn", "training.kernels.train_step", 1),
        ("methods.appr", "training.roots._train", 2),  # float32 and float64
    ],
)
def test_it_begins_with_what_jobs_would_load(module, kernel, count):
    file, name = kernel.rsplit(".", 1)
    begun = (
        f"import warm\nfrom private_graphs.{file} import {name} as kernel\n"
        f"before = len(kernel.signatures)\nwarm._load_kernels(['private_graphs.{module}'])\n"
        "print(before, len(kernel.signatures))"
    )
    own = [sys.executable, "-c", begun]
    done = subprocess.run(own, cwd=WARM.parent, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", str(count)]


def test_the_copy_that_compiles_ends_with_the_process_that_it_is_a_copy_of(tmp_path):
    shutil.copy(WARM, tmp_path)
    slow = "warm._PRELOADED = (); warm._load_kernels = lambda names: time.sleep(60)"
    start = f"import time, warm\n{slow}\nwarm.serve('socket', [], [])"
    own = subprocess.Popen([sys.executable, "-c", start], cwd=tmp_path, stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE)  # fmt: skip
    until((tmp_path / "socket").exists)
    began = time.monotonic()
    own.communicate()  # closes stdin, and reads until nobody has stdout
    assert time.monotonic() - began < 8


@pytest.mark.parametrize(("rule", "status"), [("refused", 3), ("broken", 1), ("killed", 1)])
def test_a_job_that_fails_ends_its_own_process(warm, rule, status):
    with pytest.raises(SystemExit) as ended:
        warm.handed_over(job(rule))
    assert ended.value.code == status
    assert warm.process.poll() is None


def test_a_copy_is_interrupted_when_the_process_of_its_job_is_killed(warm):
    ask = f"import sys; sys.path.insert(0, {str(WARM.parent)!r})\n" + (
        "import warm\nfrom types import SimpleNamespace\n"
        "warm.handed_over(SimpleNamespace(rule='slow', threads=1))"
    )
    own = subprocess.Popen([sys.executable, "-c", ask])
    until(lambda: Path("begun").exists())
    own.send_signal(signal.SIGKILL)
    own.wait()
    until(lambda: Path("interrupted").exists())


def test_without_the_warm_process_a_job_is_left_to_its_own(warm):
    warm.process.stdin.close()
    warm.process.wait(10)
    assert not warm.handed_over(job("told"))
