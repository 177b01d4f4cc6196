"""The files of recorded results: made of rows, with what is missing, and nothing stale."""

from __future__ import annotations

import re

import pytest
from small_shelves import TABLE, shelf

from private_graphs.site.publish import write_all
from private_graphs.site.shelf import label_of, recorded_shelf, title_of
from private_graphs.site.site import findings, write_site

STUDY = "lrec2022"
PICTURE = re.compile(r"<svg.*?</svg>", re.DOTALL)


def test_what_is_not_recorded_is_said_with_the_command_that_makes_it(root):
    shelf = recorded_shelf(root / "recorded" / STUDY)
    there = {exhibit.name for exhibit in shelf.exhibits}
    assert {"table1", "figure1", "frontier"} <= there and "table2" not in there
    command = "snakemake --cores all --config scale=full exhibits=lrec2022.figure3 datasets=pubmed"
    assert any(command in text for text in shelf.missing["figure3"])
    assert any("pokec" in text for text in shelf.missing["table2"])


def test_files_that_nothing_writes_any_more_are_removed(tmp_path):
    write_all(tmp_path, shelf("recorded"))
    assert (tmp_path / "figure1_2.svg").is_file()
    write_all(tmp_path, shelf("recorded", exhibits=(TABLE,)), ("md", "csv"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table1.csv", "table1.md"]


def test_labels_and_titles_say_the_name_once():
    assert label_of("table1") == "Table 1" and label_of("useful") == "Useful"
    assert title_of(TABLE) == "Table 1. Scores of all settings"


@pytest.mark.long
def test_the_site_of_a_fresh_clone_shows_the_recorded_results(root, tmp_path, monkeypatch):
    """Of the smallest study; the other ones have more pages of the same kinds."""
    monkeypatch.chdir(tmp_path)  # no guides are built there
    recorded, study = tmp_path / "recorded_before", "preprint2021"
    recorded.mkdir()
    (recorded / study).symlink_to(root / "recorded" / study)
    pages = write_site(tmp_path / "out", recorded)
    folder = tmp_path / "out"
    assert folder / "site" / study / "table2.html" in pages
    assert "recorded, 2026" in (folder / "site" / study / "index.html").read_text()
    assert "<svg" in (folder / "site" / study / "figure2.html").read_text()
    (line,) = findings(folder)
    assert "ε = 2 to 137 per person is printed. True?" in line
    kept = folder / "recorded" / "exhibits" / study
    assert "**Table 2" in (kept / "table2.md").read_text() and not [*kept.glob("*.svg")]
    told = [page for page in pages if page.parent == folder / "site" / study / "recorded"]
    statements = sum(page.read_text().count('<p id="') for page in told)
    assert statements == len(recorded_shelf(recorded / study).statements) > 40
    files = [path for path in folder.rglob("*") if path.is_file()]
    whole = sum(path.stat().st_size for path in files)
    pictures = [text for page in pages for text in PICTURE.findall(page.read_text())]
    drawn = sum(len(text.encode()) for text in pictures)
    assert whole - drawn < 100_000 + 6_000 * statements, (whole, drawn, statements)
