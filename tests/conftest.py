"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


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
