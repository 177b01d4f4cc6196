"""The page of the benchmarks at full size."""

from __future__ import annotations

import pytest


@pytest.fixture
def full_size(root, monkeypatch):
    """The module of the command."""
    import full_size

    return full_size


def test_a_section_that_is_measured_again_leaves_the_others(full_size, tmp_path):
    path = tmp_path / "page.md"
    path.write_text(full_size.page({"pokec": "| a |\n\nold", "reddit": "| b |"}))
    found = full_size.printed_before(path)
    assert found == {"pokec": "| a |\n\nold", "reddit": "| b |"}
    again = full_size.page(found | {"pokec": "new"})
    assert "new" in again and "| b |" in again and "old" not in again


def test_every_section_has_a_command(full_size, root):
    for _, script, _ in full_size.SECTIONS.values():
        assert (root / "benchmarks" / script).is_file()
