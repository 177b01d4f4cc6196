"""The wheel: what it holds, and that it works without the checkout and optional parts."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from private_graphs import __version__
from private_graphs.running.store import STATEMENTS

OPTIONAL = ("fasttext", "opacus", "sentence_transformers", "snakemake", "tokenizers",
            "torch_geometric", "transformers")  # fmt: skip


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout, made without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_holds_code_sources_embedded_data_and_recorded_results_alone(
    wheel: Path, root: Path
) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "private_graphs", f"private_graphs-{__version__}.dist-info"
    }  # fmt: skip
    shipped = {name.removeprefix("private_graphs/_resources/") for name in names
               if "_resources/" in name}  # fmt: skip
    recorded = {path.relative_to(root).as_posix() for path in (root / "recorded").glob("*/*")}
    embedded = {path.relative_to(root).as_posix()
                for path in (root / "data" / "embedded").rglob("*") if path.is_file()}  # fmt: skip
    assert shipped == {"data/sources.yaml"} | embedded | recorded
    assert wheel.stat().st_size < 25e6


PROGRAM = """
import sys

class Absent:
    def find_spec(self, name, *_):
        if name in {optional}:
            raise ModuleNotFoundError(f"no module {{name}}", name=name)

sys.meta_path.insert(0, Absent())
sys.path.insert(0, sys.argv.pop(1))
import private_graphs
assert private_graphs.__file__.startswith(sys.path[0]), private_graphs.__file__
from private_graphs.cli import main
main()
"""


def test_the_command_line_works_from_the_wheel_without_optional_parts(
    wheel: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    environment = {**os.environ, "PRIVATE_GRAPHS_MIRROR": "", "PYTHONDONTWRITEBYTECODE": "1"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = PROGRAM.format(optional=OPTIONAL)
        return subprocess.run(
            [sys.executable, "-I", "-c", program, tmp_path / "site", *arguments],
            cwd=tmp_path, env=environment, text=True, capture_output=True,
        )  # fmt: skip

    shipped = tmp_path / "site" / "private_graphs" / "_resources" / "recorded" / "pate"
    name = next(iter(json.loads(gzip.decompress((shipped / STATEMENTS).read_bytes()))))
    told = run("explain", "recorded/pate", "--statement", name)
    assert told.returncode == 0 and f"Statement {name}" in told.stdout, told.stderr
    refused = run("dataset", "papers", "--pyg", "CitationFull:DBLP")
    assert refused.returncode == 1, refused.stderr
    assert 'pip install ".[reference]"' in refused.stderr
