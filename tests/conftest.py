"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command_line import Outcome
from hypothesis import settings

# a busy machine is no fault of an example; what a commit is judged by is the same every time
settings.register_profile("untimed", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("long", deadline=None, max_examples=3200)  # --hypothesis-profile=long
settings.load_profile("untimed")
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # on small arrays threads only wait
    os.environ.setdefault(_name, "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or every child process compiles the package
# Snakemake's plugin asks a Slurm that is installed for its configuration at every start, and waits
# nine seconds where no daemon answers.
os.environ.setdefault("SLURM_CONF", os.devnull)
ROOT = Path(__file__).resolve().parents[1]


def pytest_addoption(parser) -> None:
    """Options of this project's tests."""
    parser.addoption(
        "--all-mutants", action="store_true", help="plant every bug of tests/mutants, not a few"
    )
    parser.addoption(
        "--all-faults",
        action="store_true",
        help="kill a run at 50 places, not at five, and disturb classify at each system call",
    )
    parser.addoption(
        "--demo", action="store_true", help="compute the whole demo and compare it with golden rows"
    )
    parser.addoption(
        "--long", action="store_true", help="run the tests that take longest, marked `long`, too"
    )
    parser.addoption(
        "--renew", action="store_true", help="compute the whole demo and write the golden results"
    )


def pytest_collection_modifyitems(config, items) -> None:
    """Leave the longest tests to ``make test-all``."""
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="takes long: make test-all, or --long"))


def pytest_make_parametrize_id(config, val, argname: str) -> str | None:
    """Name a parameter of bytes by its place: compressed content holds the second it was made.

    Workers of one run that name a test in two ways end it before its first test.
    """
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def root() -> Path:
    """Root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def mirror() -> Path:
    """Folder with the real raw files; tests that need it are skipped where there is none."""
    named = os.environ.get("PRIVATE_GRAPHS_MIRROR")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not (folder / "planetoid").is_dir():
        pytest.skip(
            f"no mirror of the real datasets at {folder}; set PRIVATE_GRAPHS_MIRROR to a folder "
            "with planetoid/ind.cora.x and its siblings"
        )
    return folder.resolve()


@pytest.fixture
def run(capsys):
    """Call the command line in this process."""
    from private_graphs import cli

    def call(*arguments: object) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(each) for each in arguments])
        captured = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), captured.out, captured.err)

    return call
