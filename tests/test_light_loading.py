"""A verb of the command line loads the part of the package that it uses, and no more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_COUNT = """
import runpy, sys
from pathlib import Path
sys.argv = ["private-graphs", *sys.argv[1:]]
try:
    runpy.run_module("private_graphs", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
files = {getattr(module, "__file__", None) for name, module in [*sys.modules.items()]
         if name.split(".")[0] == "private_graphs"} - {None}
print("lines", sum(len(Path(file).read_text(encoding="utf-8").splitlines()) for file in files))
"""


def lines_loaded(folder: Path, *flags: str) -> int:
    """Run a verb in ``folder``, and return the lines of the modules that it loaded."""
    done = subprocess.run(
        [sys.executable, "-c", _COUNT, *flags], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory, root: Path) -> tuple[Path, int]:
    folder = tmp_path_factory.mktemp("light")
    nodes = root / "examples" / "my_graph" / "nodes.csv"
    flags = ("--nodes", str(nodes), "--text", "title,body", "--label", "topic",
             "--classes", "bicycles,gardens,radios", "--budget", "4")  # fmt: skip
    return folder, lines_loaded(folder, "declare", "posts", *flags)


def test_declare_loads_no_release(declared):
    assert declared[1] <= 7_400


def test_classify_loads_no_graph_method(declared):
    assert lines_loaded(declared[0], "classify", "posts", "--epsilon", "2", "--out", "a") <= 10_500


def test_train_loads_no_method_of_another_name(tmp_path):
    flags = ("train", "--dataset", "synthetic-npz", "--method", "class_sums", "--epsilon", "2")
    assert lines_loaded(tmp_path, *flags) <= 11_100


def test_help_loads_the_command_line_alone(tmp_path):
    assert lines_loaded(tmp_path, "--help") <= 700
