"""Tables whose cells have types: Parquet, JSON lines and data frames."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from private_graphs.core.bounded_files import unique_names
from private_graphs.core.errors import UsageError, UserError, require_system
from private_graphs.core.limits import LONGEST_BLOCK, MOST_TABLE_BYTES
from private_graphs.datasets.spelling import looks
from private_graphs.datasets.table_columns import columns_of, require_readable

BLOCK_BYTES = 2**24
"""Bytes of text that are read at once."""
_CELL_BYTES = 8
"""Memory that a cell takes beside its text."""
_MOST_DIGITS = 20
"""Digits of a whole number of 64 bits, with its sign."""
_UNPACKED, _MOST_PACKED = 2**28, 200
"""Bytes of a column to which any packing may unpack, and most bytes for each one that is packed."""
_MOST_FOOTER, _MOST_GROUPS = 2**24, 10_000
"""Bytes of the list of row groups of a Parquet file, and most row groups."""
_FEW_ROWS, _MOST_ROWS = 2**22, 4
"""Rows that are read however well they are packed; most rows for each byte of a larger table: ids
differ."""


def read_typed(path: Path, data: bytes, roles: Mapping[str, str], encoding: str) -> pa.Table:
    """Return the columns of the ``roles`` of Parquet or JSON lines."""
    reads_lines = data[:4] != b"PAR1"
    return _read_json_lines(path, data, roles, encoding) if reads_lines else _read_parquet(
        path, data, roles)  # fmt: skip


def names_in(path: Path, data: bytes, encoding: str) -> list[str]:
    """Return the column names."""
    if data[:4] == b"PAR1":
        refuse_long_footer(path, data[-8:])
        return pyarrow.parquet.ParquetFile(pa.BufferReader(data)).schema_arrow.names
    return _names_of_lines(path, data, encoding)


def from_frame(path: Path, frame: Any, roles: Mapping[str, str]) -> pa.Table:
    """Return the columns of the ``roles`` of a DataFrame of pandas."""
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    columns = {}
    for name, column in columns_of(path, list(frame.columns), roles).items():
        with _one_type(path, column, frame[column]):
            table = pa.Table.from_pandas(frame[[column]], preserve_index=False)
        columns[name] = table.column(0)
    return pa.table(columns)


@contextmanager
def _one_type(path: Path, column: str, values: Iterable[Any]) -> Iterator[None]:
    """Turn an error about the values of a column, which it quotes, into one without them."""
    try:
        yield
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        kinds = [(at, type(value)) for at, value in enumerate(values, 1) if value is not None]
        other = next((at for at, kind in kinds if kind != kinds[0][1]), 0)
        where = f": value {other:,} has another type than those before it" if other else ""
        raise UserError(
            f"{path}: column {column!r} is no text or 64-bit whole number{where}; write it as text"
        ) from error


def _read_json_lines(
    path: Path, data: bytes, roles: Mapping[str, str], encoding: str
) -> pa.Table:  # fmt: skip
    """Return the columns of the ``roles``; a name that a line leaves out is null there, and one
    that it spells in another way is an error."""
    names = _names_of_lines(path, data, encoding)
    meant = columns_of(path, names, roles)
    variants = {column: [name for name in names if name != column and looks(name) == looks(column)]
              for column in meant.values()}  # fmt: skip
    values: dict[str, list[Any]] = {name: [] for name in meant}
    for number, row in enumerate(_objects(path, data, encoding), start=1):
        for name, column in meant.items():
            values[name].append(row.get(column))
            if column not in row and (wrong := [key for key in variants[column] if key in row]):
                raise UserError(
                    f"{path}: object {number}: has the name {wrong[0]!r}, and others {column!r}; "
                    "write it in one way"
                )
    columns = {}
    for name, column in meant.items():
        with _one_type(path, column, values[name]):
            columns[name] = pa.array(values[name])
    return pa.table(columns)


def _names_of_lines(path: Path, data: bytes, encoding: str) -> list[str]:
    """Return the names that some line has, in the order in which they are met."""
    return [*dict.fromkeys(name for row in _objects(path, data, encoding) for name in row)]


def _objects(path: Path, data: bytes, encoding: str) -> Iterator[dict[str, Any]]:
    """Yield the object of each line that is not blank; UserError, with the number of the line, for
    another value, a name that stands twice, or half a character."""
    from private_graphs.datasets.own_tables import text_codec

    try:
        text = data.decode(text_codec(encoding).name).removeprefix("\ufeff")
    except (UnicodeError, LookupError) as error:
        raise UserError(
            f"{path}: is not in the encoding {encoding} ({error}); name another with --encoding"
        ) from None
    for number, line in enumerate(io.StringIO(text), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=unique_names, parse_constant=_refuse,
                             parse_int=_whole)  # fmt: skip
            if not isinstance(row, dict):
                raise ValueError("no object of names and values")
            if "\\u" in line:
                json.dumps(row, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            why = str(error)
            if isinstance(error, json.JSONDecodeError):  # its text has a line number of its own
                why = error.msg
            elif isinstance(error, UnicodeError):
                why = "half a character: \\u of a pair without the other one"
            elif isinstance(error, RecursionError):
                why = "nested too deeply"
            raise UserError(
                f"{path}: line {number}: cannot be read as {path.suffix} ({why}); expected one "
                "object of names and values: write it again, or as CSV or Parquet"
            ) from error
        yield row


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits):,} digits")
    return int(digits)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no value of JSON")


def _read_parquet(path: Path, data: bytes, roles: Mapping[str, str]) -> pa.Table:
    refuse_long_footer(path, data[-8:])
    try:
        file = pyarrow.parquet.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        meant = columns_of(path, file.schema_arrow.names, roles)
        names = list(meant.values())
        for name in names:  # the library asks for the parts of lists under other names
            require_readable(path, name, file.schema_arrow.field(name).type)
        refuse_packed(path, file.metadata, names)
        # texts that repeat or are empty take no room in the file, but in memory
        most = min(MOST_TABLE_BYTES // (_CELL_BYTES * max(1, len(names))),
                   max(_FEW_ROWS, _MOST_ROWS * len(data)))  # fmt: skip
        if file.metadata.num_rows > most:
            raise UsageError(
                f"{path}: declares {file.metadata.num_rows:,} rows, expected at most {most:,} of "
                f"{len(names)} columns in {len(data):,} bytes; give a smaller table"
            )
        most = min(MOST_TABLE_BYTES, max(_UNPACKED, _MOST_PACKED * len(data)))
        groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
        size = sum(column.total_uncompressed_size for group in groups
                   for column in map(group.column, range(group.num_columns))
                   if column.path_in_schema in names)  # fmt: skip
        if size > most:
            raise _too_large(path, data, size, most)
        # repeated texts are kept once until their size is known
        file = pyarrow.parquet.ParquetFile(pa.BufferReader(data), read_dictionary=names,
                                           page_checksum_verification=True)  # fmt: skip
        table = file.read(columns=names, use_threads=False).select(names)
        if (size := sum(map(_unpacked_bytes, table.columns))) > most:
            raise _too_large(path, data, size, most)
        # in parts, as the text of one array is bounded
        return pa.concat_tables(parts(path, table.rename_columns(list(meant))))
    except (pa.ArrowException, OSError, ValueError) as error:
        require_system(error, path)
        raise UserError(
            f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]}); write it again"
        ) from error


def _too_large(path: Path, data: bytes, size: int, most: int) -> UsageError:
    return UsageError(
        f"{path}: {len(data):,} bytes unpack to {size:,} bytes of text, expected at most {most:,}; "
        "give a smaller table"
    )


def refuse_long_footer(path: Path, end: bytes) -> None:
    """Raise UserError where the last 8 bytes of a Parquet file say that its list of row groups and
    columns, which takes thirty times its bytes in memory, is longer than that of any table."""
    size = int.from_bytes(end[:4], "little")
    if end[4:] == b"PAR1" and size > _MOST_FOOTER:
        raise UserError(
            f"{path}: its list of row groups has {size:,} bytes, expected at most "
            f"{_MOST_FOOTER:,}; write it with fewer"
        )


def refuse_packed(path: Path, about: pyarrow.parquet.FileMetaData, names: list[str]) -> None:
    """Raise UserError for a column that unpacks to far more than any text does: the library unpacks
    a page, which may be all of it, at once; and for more row groups than any table has."""
    if about.num_row_groups > _MOST_GROUPS:
        raise UserError(f"{path}: has {about.num_row_groups:,} row groups, expected at most "
                        f"{_MOST_GROUPS:,}; write it with fewer")  # fmt: skip
    for group in map(about.row_group, range(about.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            size, packed = column.total_uncompressed_size, column.total_compressed_size
            if column.path_in_schema in names and size > max(_UNPACKED, _MOST_PACKED * packed):
                raise UserError(
                    f"{path}: {packed:,} bytes of the column {column.path_in_schema!r} unpack to "
                    f"{size:,}, expected at most {_MOST_PACKED} times as many; write it as CSV"
                )


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
