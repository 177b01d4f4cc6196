"""A working folder of its own for every test of documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from private_graphs.documents import unit_words
from private_graphs.methods import word_prior


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    """The folder of raw data below it; word sums of few columns take a sixtieth of the time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(unit_words, "COLUMNS", 64)
    monkeypatch.setattr(word_prior, "ROUNDS", 6)
    return tmp_path / "data" / "raw"
