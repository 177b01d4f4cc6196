"""Tables in blocks of rows: memory is that of a block, whatever the length of a file."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from private_graphs.core.bounded_files import opened
from private_graphs.core.errors import UsageError, UserError, naming, refuse_idle, system_code
from private_graphs.core.limits import LONGEST_BLOCK, MOST_TABLE_BYTES
from private_graphs.datasets import own_tables, typed_tables
from private_graphs.datasets.joined_rows import rows_that_join
from private_graphs.datasets.own_tables import OwnTable
from private_graphs.datasets.table_columns import columns_of, require_readable

_BLOCK_ROWS = 2**14
"""Rows of a Parquet file that are read at once, at most."""
_PAGE_BYTES = 2**20
"""Bytes of a column of Parquet that are read from the disk at once."""


def require_codec(encoding: str, tables: Iterable[Path | Any]) -> None:
    """Raise UsageError for an encoding that none of these tables is read with: DataFrames and
    Parquet say their own."""
    for table in tables:
        if own_tables.is_frame(table):
            continue
        if not Path(table).is_file() or read_head(Path(table)) != b"PAR1":
            return
    refuse_idle("no CSV file is read", encoding=encoding)


def read_head(path: Path) -> bytes:
    """Return the first four bytes of a file, which tell Parquet."""
    with naming(path), open(path, "rb") as stream:
        return stream.read(4)


def read_blocks(
    path: Path | Any, roles: Mapping[str, str], encoding: str = "utf-8"
) -> Iterator[tuple[OwnTable, float]]:
    """Yield a table in blocks of rows, each with the share of the file that is read by then.

    Memory is that of a block, whatever the length of a CSV or Parquet file. See ``read_table``.
    """
    with nullcontext() if own_tables.is_frame(path) else naming(path):
        before = 0.0
        for block, done in _blocks(path, roles, encoding):
            rows, joins = block.n_rows, len(rows_that_join(block))
            for part in typed_tables.parts(block.path, pa.table(dict(block.columns))):
                rows -= part.num_rows
                share = done - (done - before) * rows / max(1, block.n_rows)
                table = own_tables.text_table(block.path, block.sha256, part)
                yield replace(table, joins=joins), share
                joins = 0
            before = done


def _blocks(
    path: Path | Any, roles: Mapping[str, str], encoding: str
) -> Iterator[tuple[OwnTable, float]]:
    size = 0 if own_tables.is_frame(path) or not Path(path).is_file() else Path(path).stat().st_size
    if size and read_head(Path(path)) == b"PAR1":
        yield from _parquet_blocks(Path(path), roles)
    elif size <= typed_tables.BLOCK_BYTES or own_tables.has_json_lines(path):
        yield own_tables.read_table(path, roles, encoding=encoding), 1.0
    else:
        try:
            yield from _csv_blocks(Path(path), roles, encoding, size)
        except (UserError, UnicodeError, LookupError):
            if size <= MOST_TABLE_BYTES:  # a longer one is refused for its length alone
                own_tables.read_table(
                    path, roles, encoding=encoding
                )  # names the line in the whole file
            raise


def _parquet_blocks(path: Path, roles: Mapping[str, str]) -> Iterator[tuple[OwnTable, float]]:
    with opened(path) as stream:
        stream.seek(-min(8, os.fstat(stream.fileno()).st_size), os.SEEK_END)
        typed_tables.refuse_long_footer(path, stream.read())
    try:
        file = pyarrow.parquet.ParquetFile(path, buffer_size=_PAGE_BYTES,
                                           page_checksum_verification=True)  # fmt: skip
        meant = columns_of(path, file.schema_arrow.names, roles)
        names = list(meant.values())
        for name in names:
            require_readable(path, name, file.schema_arrow.field(name).type)
        typed_tables.refuse_packed(path, file.metadata, names)
        coded = pyarrow.parquet.ParquetFile(path, buffer_size=_PAGE_BYTES, read_dictionary=names)
        done, total = 0, file.metadata.num_rows
        if not total:
            raise UserError(f"{path}: has a header but no row, expected at least one")
        for group in range(file.num_row_groups):
            for batch in file.iter_batches(_rows_at_once(coded, group, names), [group], names,
                                           use_threads=False):  # fmt: skip
                done += batch.num_rows
                table = pa.Table.from_batches([batch]).select(names).rename_columns(list(meant))
                for part in typed_tables.parts(path, table):
                    yield own_tables.text_table(path, "", part), done / total
    except (pa.ArrowException, OSError, ValueError) as error:
        if system_code(error):
            raise
        raise UserError(
            f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]}); write it again"
        ) from error


def _rows_at_once(coded: pyarrow.parquet.ParquetFile, group: int, names: list[str]) -> int:
    """Return how many rows of a group have the text of a block, were each as long as the mean and
    the longest text that is stored once for all rows that have it."""
    import pyarrow.compute as pc

    about = coded.metadata.row_group(group)
    longest = about.total_byte_size / max(1, about.num_rows)
    for batch in itertools.islice(coded.iter_batches(1, [group], names, use_threads=False), 1):
        for column in filter(lambda each: pa.types.is_dictionary(each.type), batch.columns):
            longest += pc.max(pc.binary_length(column.dictionary)).as_py() or 0
    return max(1, min(_BLOCK_ROWS, int(typed_tables.BLOCK_BYTES / max(1, longest))))


def _csv_blocks(
    path: Path, roles: Mapping[str, str], encoding: str, size: int
) -> Iterator[tuple[OwnTable, float]]:
    """Yield the rows of a CSV file between line ends outside of quotes, each under the header."""
    header, delimiter, tail = b"", ",", b""
    codec = own_tables.text_codec(encoding)
    with open(path, "rb") as stream:
        decoded = codec.incrementaldecoder()
        while True:
            piece = stream.read(typed_tables.BLOCK_BYTES)
            own_tables.require_line_end(path, piece)
            tail += decoded.decode(piece, final=not piece).encode()
            tail, whole = (b"", tail) if not piece else _cut(tail)
            if len(tail) > LONGEST_BLOCK:
                raise UsageError(
                    f"{path}: {len(tail):,} bytes follow without the end of a row, expected at "
                    f"most {LONGEST_BLOCK:,}; end each row with a line feed, and close "
                    "each quote"
                )
            if not header and whole:
                whole = own_tables.checked_text(path, whole)
                delimiter = own_tables.delimiter_of(whole, roles)
                header, whole = whole[: (end := _header_end(whole))], whole[end:]
            if whole.strip():
                table = own_tables.read_csv(path, header + whole, roles, delimiter)
                text = header + whole
                yield own_tables.text_table(path, "", table, text, delimiter), stream.tell() / size
            if not piece:
                return


def _header_end(data: bytes) -> int:
    """Return where the first line ends that is outside of quotes."""
    quotes = end = 0
    while quotes % 2 or not end:
        before, end = end, data.find(b"\n", end) + 1
        if not end:
            return len(data)
        quotes += data.count(b'"', before, end)
    return end


def _cut(data: bytes) -> tuple[bytes, bytes]:
    """Return what comes after the last line end outside of quotes, and what comes before it."""
    quotes, end = data.count(b'"'), len(data)
    while (start := data.rfind(b"\n", 0, end)) >= 0:
        quotes -= data.count(b'"', start, end)  # those after a later line end are counted
        end = start
        if quotes % 2 == 0:
            return data[end + 1 :], data[: end + 1]
    return data, b""
