"""Files of a set of results: tables and pictures of all its exhibits in one folder."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from private_graphs.site.shelf import Shelf
from private_graphs.site.write import FORMS, Drawing, draw, drawings_of, wait, write_texts


def write_all(folder: Path, shelf: Shelf, forms: Collection[str] = FORMS) -> list[Path]:
    """Write a set of results' exhibits; remove other files in ``folder``; return the paths."""
    written, drawings = write_all_texts(folder, shelf, forms)
    wait(draw(drawings, -1))
    return written


def write_all_texts(
    folder: Path, shelf: Shelf, forms: Collection[str]
) -> tuple[list[Path], list[Drawing]]:
    """``write_all`` without drawing: the pictures to draw are returned."""
    written, drawings = [], []
    for exhibit in shelf.exhibits:
        blocks, missing = shelf.blocks(exhibit), shelf.missing.get(exhibit.name, ())
        written += write_texts(exhibit, blocks, folder, forms, missing)
        drawings += drawings_of(exhibit, blocks, folder, forms)
    written += [path for drawing in drawings for path in drawing.paths]
    for path in {path for path in folder.glob("*") if path.is_file()} - set(written):
        path.unlink()
    return written, drawings
