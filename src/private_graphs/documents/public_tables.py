"""Tables of public documents beside the table of an owner."""

from __future__ import annotations

from pathlib import Path

from private_graphs.core.errors import UserError
from private_graphs.core.files import sha256_of
from private_graphs.datasets import own_tables
from private_graphs.datasets.spelling import seen

_MOST_FILES = 1000


def public_tables(folder: Path) -> list[Path]:
    """Return the tables in the folder of public documents, sorted by their content."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; expected one with tables of public documents")
    paths = (path for path in folder.iterdir() if path.name[0] != ".")
    files = [path for path in paths if path.suffix.lower() in own_tables.ENDS]
    if len(files) > _MOST_FILES:
        raise UserError(
            f"{folder}: has {len(files):,} tables, expected at most {_MOST_FILES:,}; put several "
            "into one"
        )
    files.sort(key=sha256_of)  # another name of a table makes no other release
    if not files:
        raise UserError(
            f"{folder}: no {' or '.join(own_tables.ENDS)}; expected tables of public documents"
        )
    return files


def refuse_known(table: own_tables.OwnTable, ids: list[str], known: dict[str, str]) -> None:
    """Refuse a public table with ids of another table: of the owner's, they would be published.

    ``known`` is visible form of an id -> file.
    """
    for row, key in enumerate(ids):
        if file := known.get(seen(key)):
            raise table.error(
                row,
                f"the id {key!r} is in {file} too, and would be public here; take the table out of "
                "the folder of public files, or rename the ids of public documents",
            )
