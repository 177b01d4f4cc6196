"""The privacy notes show the numbers that the code computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from private_graphs.errors import UserError
from private_graphs.privacy import document


def test_tables_of_the_privacy_notes_are_in_step(root: Path) -> None:
    text = (root / "docs" / "privacy.md").read_text(encoding="utf-8")
    assert document.refresh(text) == text, (
        "run: python -m private_graphs.privacy.document docs/privacy.md"
    )


def test_sections_that_code_cites_exist(root: Path) -> None:
    text = (root / "docs" / "privacy.md").read_text(encoding="utf-8")
    for section in (0, 1, 2, 3, 4, 5, 10, 11, 12):
        assert f"\n## {section}. " in text


def test_a_document_without_markers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("no tables\n", encoding="utf-8")
    with pytest.raises(UserError, match="expected each exactly once"):
        document.main(str(path))
    assert path.read_text(encoding="utf-8") == "no tables\n"
    assert list(tmp_path.iterdir()) == [path]
