"""Tables whose cells have types: Parquet, sheets, JSON lines and data frames."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from private_graphs.core.errors import UsageError, UserError
from private_graphs.core.limits import LONGEST_BLOCK, MOST_TABLE_BYTES
from private_graphs.datasets.table_columns import columns_of, require_readable

BLOCK_BYTES = 2**24
"""Bytes of text that are read at once."""
_CELL_BYTES = 8
"""Memory that a cell takes beside its text."""
_FEW_ROWS, _MOST_ROWS = 2**22, 4
"""Rows that are read however well they are packed; most rows for each byte of a larger table: ids
differ."""


def read_typed(
    path: Path, data: bytes, roles: Mapping[str, str], encoding: str
) -> pa.Table | None:  # fmt: skip
    """Return the columns of the ``roles``; None where no reader is installed."""
    if data[:4] == b"PAR1":
        return _read_parquet(path, data, roles)
    frame = _read_frame(path, data, encoding)
    return None if frame is None else from_frame(path, frame, roles)


def names_in(path: Path, data: bytes, encoding: str) -> list[str] | None:
    """Return the column names; None where no reader is installed."""
    if data[:4] == b"PAR1":
        return pyarrow.parquet.ParquetFile(pa.BufferReader(data)).schema_arrow.names
    frame = _read_frame(path, data, encoding)
    return None if frame is None else [str(name) for name in frame.columns]


def _read_frame(path: Path, data: bytes, encoding: str) -> Any | None:
    """Return a sheet or JSON lines as a DataFrame; None without the reader."""
    try:
        import pandas as pd

        if path.suffix == ".xlsx":
            return pd.read_excel(io.BytesIO(data), dtype=str, keep_default_na=False)
        return pd.read_json(io.BytesIO(data), lines=True, dtype=False, convert_dates=False,
                            encoding=encoding)  # fmt: skip
    except ImportError:
        return None
    except (ValueError, TypeError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path}: cannot be read as {path.suffix} ({str(error).splitlines()[0]}); write it "
            "again, or as CSV or Parquet"
        ) from error


def from_frame(path: Path, frame: Any, roles: Mapping[str, str]) -> pa.Table:
    """Return the columns of the ``roles`` of a DataFrame of pandas."""
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    columns = {}
    for name, column in columns_of(path, list(frame.columns), roles).items():
        try:
            table = pa.Table.from_pandas(frame[[column]], preserve_index=False)
        except (pa.ArrowException, OverflowError) as error:  # it quotes private values
            raise UserError(
                f"{path}: column {column!r} is no text or 64-bit whole number; write it as text"
            ) from error
        columns[name] = table.column(0)
    return pa.table(columns)


def _read_parquet(path: Path, data: bytes, roles: Mapping[str, str]) -> pa.Table:
    try:
        file = pyarrow.parquet.ParquetFile(pa.BufferReader(data))
        meant = columns_of(path, file.schema_arrow.names, roles)
        names = list(meant.values())
        for name in names:  # the library asks for the parts of lists under other names
            require_readable(path, name, file.schema_arrow.field(name).type)
        # texts that repeat or are empty take no room in the file, but in memory
        most = min(MOST_TABLE_BYTES // (_CELL_BYTES * max(1, len(names))),
                   max(_FEW_ROWS, _MOST_ROWS * len(data)))  # fmt: skip
        if file.metadata.num_rows > most:
            raise UsageError(
                f"{path}: declares {file.metadata.num_rows:,} rows, expected at most {most:,} of "
                f"{len(names)} columns in {len(data):,} bytes; give a smaller table"
            )
        # repeated texts are kept once until their size is known
        file = pyarrow.parquet.ParquetFile(pa.BufferReader(data), read_dictionary=names)
        table = file.read(columns=names, use_threads=False).select(names)
        if (size := sum(map(_unpacked_bytes, table.columns))) > MOST_TABLE_BYTES:
            raise UsageError(
                f"{path}: unpacks to {size:,} bytes of text, expected at most "
                f"{MOST_TABLE_BYTES:,}; give a smaller table"
            )
        # in parts, as the text of one array is bounded
        return pa.concat_tables(parts(path, table.rename_columns(list(meant))))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(
            f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]}); write it again"
        ) from error


def parts(path: Path, table: pa.Table) -> Iterator[pa.Table]:
    """Yield a table in parts that have the text of a block, or one row."""
    size = sum(map(_unpacked_bytes, table.columns))
    if size <= BLOCK_BYTES or table.num_rows < 2:
        if size > LONGEST_BLOCK:
            raise UsageError(
                f"{path}: a row has {size:,} bytes, expected at most {LONGEST_BLOCK:,}; split the "
                "document, or leave it out"
            )
        yield table
        return
    middle = table.num_rows // 2
    yield from parts(path, table.slice(0, middle))
    yield from parts(path, table.slice(middle))


def _unpacked_bytes(column: pa.ChunkedArray) -> int:
    """Return the bytes of the values of a column, those that a dictionary keeps once repeated."""
    import pyarrow.compute as pc

    size = 0
    for chunk in column.chunks:
        if not pa.types.is_dictionary(chunk.type):
            size += chunk.nbytes
        elif len(chunk.dictionary):
            counts = pc.value_counts(chunk.indices.drop_null())
            lengths = pc.cast(pc.binary_length(chunk.dictionary), pa.float64())
            size += int(
                pc.sum(
                    pc.multiply(
                        pc.take(lengths, counts.field("values")),
                        pc.cast(counts.field("counts"), pa.float64()),
                    )
                ).as_py()
                or 0
            )
    return size
