"""A run that is killed anywhere, or meets a full disk or read-only folders, and what follows.

``docs/faults.csv`` lists every fault with its test.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import random
import runpy
import shutil
import signal
import subprocess
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_graphs import random_graph

from private_graphs.core.files import write_json
from private_graphs.methods import module_of
from private_graphs.running import run as runner
from private_graphs.running.jobs import Job
from private_graphs.site import site, write  # noqa: F401  (before the forks)
from private_graphs.workflow.verify import write_build

STEPS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir")
"""Audit events of the file system between which a process is killed."""
NOT_PERMITTED = 77
DATASET = "synthetic-planetoid"
JOBS = [
    Job(
        study="lrec2022", group="frontier", dataset=DATASET, method=method, scenario="text",
        name=f"{DATASET}/raw/{method}/text/sound", epsilons=epsilons, seeds=(0, 1),
        validation_labels=(5,), validation_epsilons=(1.0,),
    )
    for method, epsilons in (("class_sums", (1.0, 4.0)), ("public_only", (1.0,)))
]  # fmt: skip


def _script(root: Path, name: str, **fields) -> None:
    """Run a script of the workflow as Snakemake would."""
    snake = {
        "threads": 1,
        "resources": {"mem_mb": 1},
        "log": [f"results/demo/logs/{name}.log"],
    } | fields
    spaces = {
        key: types.SimpleNamespace(**value) if isinstance(value, dict) else value
        for key, value in snake.items()
    }
    scripts = str(root / "workflow" / "scripts")
    if scripts not in sys.path:
        sys.path.insert(0, scripts)
    snake = types.SimpleNamespace(config={}, **spaces)
    runpy.run_path(f"{scripts}/{name}.py", {"snakemake": snake})


class Output(list):
    """Outputs by place and by name."""

    def __init__(self, **names: str) -> None:
        super().__init__(names.values())
        self.__dict__ |= names


BUILT = f"data/processed/{DATASET}"


def batch(root: Path) -> None:
    """Compute two jobs in the working folder."""
    _script(
        root, "run", output=Output(marker="results/demo/batches/one.json"),
        params={
            "title": "one", "noise_source": "seeded", "folder": "results/demo/jobs",
            "code": [f"{module_of(job.method)} hash" for job in JOBS],
            "jobs": [job.model_dump_json() for job in JOBS],
            "built": [f"{job.id} {BUILT}" for job in JOBS],
        },
    )  # fmt: skip


def work(root: Path) -> None:
    """The end of a run: a batch, exhibits, pages."""
    batch(root)
    exhibits = "results/demo/exhibits/manifest.json"
    _script(
        root, "exhibits", output=Output(rows="results/demo/rows.parquet", manifest=exhibits),
        params={"exhibits": ["lrec2022.labels"], "jobs": [job.id for job in JOBS]},
        input={"statistics": [f"{BUILT}/statistics.json"]},
    )  # fmt: skip
    pages = Output(page="results/index.html", shown="results/demo/report",
                   crate="results/demo/ro-crate-metadata.json")  # fmt: skip
    _script(root, "site", output=pages, input={"exhibits": exhibits})


class Operations:
    """Operations of a process on files below its folder, before one of which it is killed."""

    process = done = fatal = 0

    def start(self, fatal: int = 0) -> None:
        self.process, self.done, self.fatal = os.getpid(), 0, fatal

    def count(self, event: str, arguments: tuple) -> None:
        if event not in STEPS or os.getpid() != self.process:
            return
        reads = event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if isinstance(arguments[0], str) and not reads:
            if os.path.abspath(arguments[0]).startswith(os.getcwd()):
                self.done += 1
                if self.done == self.fatal:
                    os.kill(self.process, signal.SIGKILL)


operations = Operations()
sys.addaudithook(operations.count)  # a hook stays: it counts only what is started


def forked(action: Callable[[], object], limit: int = 0) -> int:
    """Do something in a copy of this process; return its exit status.

    It is killed before its operation on the file system with the number ``limit``.
    """
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    status = 1
    try:
        for name in ("stdout", "stderr"):
            setattr(sys, f"__{name}__", open(os.devnull, "w"))
        operations.start(limit)
        action()
        status = 0
    except BaseException:
        Path("why").write_text(traceback.format_exc())
    finally:
        os._exit(status)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of the results but logs."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "logs" not in path.parts
    }


@pytest.fixture(scope="module")
def whole(root, tmp_path_factory) -> Path:
    """A run that nothing disturbed, with the number of its steps."""
    place = tmp_path_factory.mktemp("faults") / "whole"
    folder = place / "data" / "processed" / DATASET
    graph = random_graph(nodes=90, features=20, classes=2)
    info = graph.info.model_copy(update={"name": DATASET})
    type(graph)(**{**vars(graph), "info": info}).save(folder)
    write_json(folder / "statistics.json", graph.statistics() | {"name": DATASET})
    write_build(folder, [])
    shutil.copytree(place, place.parent / "start")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(place)
        operations.start()
        batch(root)  # here: what it has imported serves all copies of this process
        jobs = operations.done
        work(root)
        # a run that goes on makes fewer folders
        (place / "steps").write_text(f"{jobs} {(operations.done - jobs) * 9 // 10}")
    return place


@pytest.fixture(autouse=True, scope="module")
def timeless() -> Iterator[None]:
    """Rows say how long they took, and nothing judges sentences of a paper."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runner.time, "perf_counter", lambda: 0.0)
        patched.setattr(runner.time, "process_time", lambda: 0.0)
        patched.setattr(write, "claims_of", lambda _: ())
        yield


def test_a_run_killed_anywhere_is_continued_by_the_same_command(
    root, whole, tmp_path, monkeypatch, pytestconfig
):
    """Each run is killed at five random places, one after the other."""
    jobs, rest = map(int, (whole / "steps").read_text().split())
    expected = contents(whole / "results")
    kinds = {Path(name).suffix for name in expected}
    assert kinds >= {".parquet", ".safetensors", ".json", ".md", ".svg", ".html"}
    chance = random.Random(5)  # the first two kills end jobs, the others pages
    for number in range(10 if pytestconfig.getoption("--all-faults") else 1):
        place = tmp_path / str(number)
        shutil.copytree(whole.parent / "start", place)
        monkeypatch.chdir(place)
        for most in (jobs, jobs, rest, rest, rest):  # finished jobs are kept, and end no more
            assert forked(lambda: work(root), chance.randint(1, most)) == signal.SIGKILL
        assert forked(lambda: work(root)) == 0, Path("why").read_text()
        found = contents(place / "results")
        half = {name for name in found if name.endswith(".partial")}
        assert {name: found[name] for name in found if name not in half} == expected


def _alone(*mounts: str) -> None:
    """Give this process file systems of its own, mounted by shell commands."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(0x20000 | (0x10000000 if user else 0)):
        os._exit(NOT_PERMITTED)
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    for command in ("mount --make-rprivate /", *mounts):
        if subprocess.run(command, shell=True, stderr=subprocess.DEVNULL).returncode:
            os._exit(NOT_PERMITTED)


def mounted(place: Path, action: Callable[[], object], *mounts: str) -> None:
    """Do something in a process with file systems of its own; skip where none may be mounted."""
    shutil.copytree(place.parent / "start", place, dirs_exist_ok=True)
    os.chdir(place)

    def isolated() -> None:
        _alone(*mounts)
        action()

    status = os.waitstatus_to_exitcode(forked(isolated))
    if status == NOT_PERMITTED:
        pytest.skip("file systems cannot be mounted here")
    assert status == 0, Path("why").read_text()


def test_a_full_disk_ends_a_run_in_one_sentence_and_room_continues_it(root, whole, monkeypatch):
    monkeypatch.chdir(whole)
    expected = contents(whole / "results")

    def fill_and_mend() -> None:
        for size in (40, 200):  # kilobytes: too little for a job, then for the exhibits
            subprocess.run(f"mount -o remount,size={size}k results", shell=True, check=True)
            with pytest.raises(SystemExit):
                work(root)
            said = "".join(path.read_text() for path in Path("results/demo/logs").glob("*.log"))
            assert "failed: " in said and "No space left" in said
        subprocess.run("mount -o remount,size=50m results", shell=True, check=True)
        work(root)
        assert contents(Path("results")) == expected

    (whole.parent / "full" / "results").mkdir(parents=True)
    mounted(whole.parent / "full", fill_and_mend, "mount -t tmpfs -o size=40k none results")


def test_data_source_and_home_may_be_read_only(root, whole, monkeypatch):
    monkeypatch.chdir(whole)
    expected = contents(whole / "results")
    home = whole.parent / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))

    def run() -> None:
        with pytest.raises(OSError):
            Path("data/x").touch()
        work(root)
        assert contents(Path("results")) == expected

    only = [f"mount --bind {each} {each} && mount -o remount,ro,bind {each}"
            for each in ("data", root / "src", root / "workflow", home)]  # fmt: skip
    mounted(whole.parent / "only", run, *only)


def test_no_result_depends_on_a_clock(root, whole, tmp_path, monkeypatch):
    place = tmp_path / "clock"
    shutil.copytree(whole.parent / "start", place)
    monkeypatch.chdir(place)
    for path in place.rglob("*"):
        os.utime(path, (4e9, 4e9))  # in a hundred years
    jumps = itertools.cycle([4e9, 0.0, 1e9])
    monkeypatch.setattr(runner.time, "time", lambda: next(jumps))
    expected = contents(whole / "results")
    assert forked(lambda: work(root)) == 0, Path("why").read_text()
    assert contents(place / "results") == expected
    rows = place / "results" / "demo" / "jobs" / JOBS[0].id / "runs.parquet"
    for path in (place / "results").rglob("*"):
        os.utime(path, (1, 1))  # long before the data that they are made of
    assert forked(lambda: batch(root)) == 0, Path("why").read_text()
    assert rows.stat().st_mtime == 1, "a finished job is kept whatever the dates say"
