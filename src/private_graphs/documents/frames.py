"""DataFrames that are declared: a copy that their owner alone can read is kept for releases."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from private_graphs.core.errors import UserError
from private_graphs.core.private_files import hide_from_git, make_folder, private_path
from private_graphs.datasets.graph_names import free_name
from private_graphs.documents.declaration import folder_of


@contextmanager
def copy_of(table: Any, name: str, role: str, data: Path) -> Iterator[Path]:
    """Keep a copy of a DataFrame of ``nodes`` or ``edges``; it goes if it is new and the block
    fails, whose errors name the DataFrame."""
    content = io.BytesIO()
    try:
        table.to_parquet(content, index=False, write_page_checksum=True)
    except (ValueError, TypeError, NotImplementedError, OverflowError) as error:
        # the last part of an error of Arrow names the column, the first one quotes private values
        raise UserError(
            f"DataFrame of {role}: cannot be kept as a table ({error.args[-1]}); expected columns "
            "of text or whole numbers, each with a name of its own: convert others with "
            ".astype(str), or leave them out"
        ) from error
    digest = hashlib.sha256(content.getvalue()).hexdigest()[:12]
    folder = folder_of(data)
    make_folder(folder)
    hide_from_git(folder)
    path = folder / f"{free_name(name)}.{role}.{digest}.parquet"
    old = path.exists()
    with private_path(path) as temporary:
        temporary.write_bytes(content.getvalue())
    try:
        yield path
    except BaseException as error:
        if not old:
            path.unlink(missing_ok=True)
        if not isinstance(error, UserError):
            raise
        text = str(error).replace(str(path), f"DataFrame of {role}")
        raise type(error)(text) from error
