"""The published exhibits and verdicts are those of the recorded rows, byte by byte."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from private_graphs.report.claims import write_claims
from private_graphs.report.publish import write_all_texts
from private_graphs.report.shelf import recorded_shelves
from private_graphs.studies import claims_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "results"
STUDIES = sorted(path.parent.name for path in (ROOT / "recorded").glob("*/rows.parquet"))
PUBLISH = "run: private-graphs publish"


@cache
def shelves():
    return {shelf.results.study.id: shelf for shelf in recorded_shelves(ROOT / "recorded")}


def texts(folder: Path) -> dict[str, bytes]:
    """The tables of a folder, by name."""
    files = [path for kind in ("*.md", "*.csv") for path in folder.glob(kind)]
    return {path.name: path.read_bytes() for path in files if path.name != "README.md"}


@pytest.mark.parametrize("study", STUDIES)
def test_every_table_is_that_of_the_recorded_rows(study, tmp_path):
    write_all_texts(tmp_path, shelves()[study], ("csv", "md", "svg", "png"))
    ours, theirs = texts(tmp_path), texts(DOCS / study)
    assert set(ours) == set(theirs), PUBLISH
    assert [name for name in ours if ours[name] != theirs[name]] == [], PUBLISH


@pytest.mark.parametrize("study", STUDIES)
def test_every_verdict_is_that_of_the_recorded_rows(study, tmp_path):
    if claims := claims_of(study):
        path = write_claims(claims, shelves()[study].results, tmp_path)
        assert path.read_bytes() == (DOCS / "claims" / path.name).read_bytes(), PUBLISH
    else:
        assert not (DOCS / "claims" / f"{study}.csv").exists()
