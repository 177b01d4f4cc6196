"""Tables of a user's own graph: CSV or Parquet read as text, with line numbers for errors.

CSV is text (UTF-8 with or without BOM, or another encoding that the caller names) with a header
and fields between commas, semicolons or tabs; a field that contains a separator, a quote or a line
break is enclosed in double quotes, and a quote inside it is doubled (RFC 4180).
"""

from __future__ import annotations

import codecs
import csv
import errno
import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from private_graphs.core.bounded_files import read_bounded
from private_graphs.core.errors import UsageError, UserError, naming
from private_graphs.core.limits import LONGEST_BLOCK, MOST_LINE_BYTES, MOST_TABLE_BYTES
from private_graphs.datasets.spelling import NOT_SEEN
from private_graphs.datasets.table_columns import columns_of, require_readable

_BOM = b"\xef\xbb\xbf"
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)
"""System errors of a path that leads to no file."""
ENDS = (".csv", ".parquet", ".jsonl")
"""Ends of files that are tables."""
_DELIMITERS = (",", ";", "\t")
NAMED_ROWS = 3
"""Most rows that an error message lists; beyond that it only counts."""
_JSON = re.compile(rb"\s*[\[{]\s*[\[{\"]")
_FOREIGN = (
    ((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"), "is compressed; unpack it first"),
    ((b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"ARROW1\0"), "is no text; save it as CSV UTF-8"),
    ((b"\xff\xfe", b"\xfe\xff"), "is UTF-16; save it as UTF-8"),
)
"""First bytes of files that are mistaken for CSV, and the advice for each."""


@dataclass(frozen=True, eq=False)
class OwnTable:
    """Columns of one file as text; an empty cell is null."""

    path: Path
    sha256: str
    columns: Mapping[str, pa.ChunkedArray]
    """Column name -> (rows,) strings; an empty string is null."""
    n_rows: int
    content: bytes | None = field(repr=False)
    """Content of a CSV file in UTF-8, without BOM; None for Parquet."""
    delimiter: str = ","
    joins: int = 0
    """Number of rows of a block that join others (``rows_that_join``)."""

    def cells(self, name: str) -> list[str]:
        """Return the strings of a column, "" for null."""
        return [cell or "" for cell in self.columns[name].to_pylist()]

    def trimmed(self, *names: str) -> OwnTable:
        """Return the table with invisible characters around the values of these columns removed."""
        import pyarrow.compute as pc

        columns = dict(self.columns)
        for name in names:
            text = pc.utf8_trim(columns[name], characters=NOT_SEEN)
            columns[name] = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
        return replace(self, columns=columns)

    def error(self, rows: int | Iterable[int], message: str) -> UserError:
        """Return a UserError that names the file and the lines (Parquet: rows from 1)."""
        indices = [rows] if isinstance(rows, int | np.integer) else [int(row) for row in rows]
        if self.content is None:
            places, unit = [row + 1 for row in indices], "row"
        else:
            from private_graphs.datasets.wrong_rows import lines_of

            places, unit = lines_of(self.content, indices, self.delimiter), "line"
        named = " and ".join(str(number) for number in places[-2:])
        named = ", ".join([*(str(number) for number in places[:-2]), named])
        return UserError(f"{self.path}: {unit}{'s' if len(places) > 1 else ''} {named}: {message}")


def relative_to(path: Path) -> str:
    """Return where a relative path was looked for."""
    return "" if path.is_absolute() else f", which is relative to {Path.cwd()}"


def read_table(
    path: Path | Any, roles: Mapping[str, str], *, may_be_empty: bool = False,
    encoding: str = "utf-8",
) -> OwnTable:  # fmt: skip
    """Read the named columns of a CSV or Parquet file as text.

    JSON lines (.jsonl) are read too.

    Args:
        path: the file, or a DataFrame of pandas.
        roles: role -> column name, such as ``label`` -> ``topic``; the role is for messages.
        may_be_empty: whether a header without rows will do.
        encoding: encoding of a CSV file.

    Raises:
        UserError: the file cannot be read, is empty, is not in ``encoding``, has a row with a
            wrong number of fields, or lacks a column; names the file and, for CSV, the line.
    """
    if is_frame(path):
        from private_graphs.datasets.typed_tables import from_frame

        return text_table(Path("DataFrame"), "", from_frame(Path("DataFrame"), path, roles))
    try:
        data = _content(Path(path))
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        raise UserError(
            f"{path}: cannot be read ({error.strerror or error}); expected a table in CSV, Parquet "
            f"or JSON lines: check the path{relative_to(Path(path))}"
        ) from error
    sha256 = hashlib.sha256(data).hexdigest()
    if not data.removeprefix(_BOM).strip():
        raise UserError(f"{path}: is empty, expected a header and rows")
    delimiter, text = ",", None
    if is_typed(path, data):
        from private_graphs.datasets.typed_tables import read_typed

        table = read_typed(Path(path), data, roles, encoding)
    else:
        text = checked_text(path, data, encoding)
        delimiter = delimiter_of(text, roles)
        table = read_csv(path, text, roles, delimiter)
    if table.num_rows == 0 and not may_be_empty:
        raise UserError(f"{path}: has a header but no row, expected at least one")
    return text_table(Path(path), sha256, table, text, delimiter)


def is_frame(table: Any) -> bool:
    """Return whether a table is a DataFrame, without loading pandas."""
    return hasattr(table, "iloc") and hasattr(table, "columns")


def is_typed(path: Path, data: bytes) -> bool:
    """Return whether a table has cells with types: Parquet or JSON lines."""
    return data[:4] == b"PAR1" or has_json_lines(path)


def has_json_lines(path: Path) -> bool:
    """Return whether the name of a table says that it has JSON lines."""
    return Path(path).suffix.lower() == ".jsonl"


def text_codec(encoding: str) -> codecs.CodecInfo:
    """Return a codec of text; LookupError for an unknown one, or one of bytes such as hex or of
    names of hosts, which takes time quadratic in a text."""
    if codecs.lookup(encoding).name in ("punycode", "idna"):
        raise LookupError(f"{encoding} is for names of hosts")
    io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    return codecs.lookup(encoding)


def text_table(
    path: Path, sha256: str, table: pa.Table, text: bytes | None = None, delimiter: str = ","
) -> OwnTable:
    """Return an Arrow table as text, with the content of its CSV file; UserError for a column that
    is no text, number or date."""
    columns = {name: _as_text(path, name, table.column(name)) for name in table.column_names}
    return OwnTable(path, sha256, columns, table.num_rows, text, delimiter)


def column_names(path: Path, encoding: str = "utf-8") -> list[str]:
    """Return the column names of a table; none if it cannot be read."""
    if is_frame(path):
        return [str(name) for name in path.columns]  # type: ignore[attr-defined]
    try:
        data = _content(Path(path))
        if is_typed(path, data):
            from private_graphs.datasets.typed_tables import names_in

            return names_in(Path(path), data, encoding)
        text = checked_text(path, data, encoding)
        return max(
            (next(csv_rows(text, delimiter), (0, []))[1] for delimiter in _DELIMITERS), key=len
        )
    except (UserError, OSError, ValueError, csv.Error, pa.ArrowException):
        return []


def _content(path: Path) -> bytes:
    """Return the bytes of a table; UsageError for one that is too large or has a line that is."""
    size = path.stat().st_size if path.is_file() else 0
    if MOST_LINE_BYTES < size <= MOST_TABLE_BYTES:
        # a piece at a time, as the whole may not fit
        with naming(path), open(path, "rb") as stream:
            head = stream.peek(4)[:4]
            while head != b"PAR1" and len(piece := stream.read(MOST_LINE_BYTES)) == MOST_LINE_BYTES:
                require_line_end(path, piece)
    return read_bounded(path, MOST_TABLE_BYTES)


def require_line_end(path: Path, piece: bytes) -> None:
    """Raise UsageError for a piece that is longer than any line may be, without a line end."""
    if len(piece) >= MOST_LINE_BYTES and b"\n" not in piece and b"\r" not in piece:
        raise UsageError(
            f"{path}: a line has more than {MOST_LINE_BYTES:,} bytes; expected CSV with a line for "
            "every row, or Parquet"
        )


def delimiter_of(data: bytes, roles: Mapping[str, str]) -> str:
    """Return the separator under which the header has most of the columns, else most fields."""
    names = {name.strip(NOT_SEEN) for name in roles.values()}

    def found(delimiter: str) -> tuple[int, int]:
        header = next((row for _, row in csv_rows(data, delimiter)), [])
        return len(names & {name.strip(NOT_SEEN) for name in header}), len(header)

    return max(_DELIMITERS, key=found)


def checked_text(path: Path, data: bytes, encoding: str = "utf-8") -> bytes:
    """Return a CSV file in UTF-8 without BOM; UserError unless it is in ``encoding``."""
    if encoding not in ("utf-8", "utf_8"):
        if data.startswith(_BOM) and not encoding.lower().startswith("utf"):
            raise UsageError(
                f"{path}: begins with the mark of UTF-8, and --encoding says {encoding}; leave "
                "--encoding out"
            )
        try:
            return data.decode(text_codec(encoding).name).removeprefix("\ufeff").encode()
        except UnicodeError as error:
            raise UserError(
                f"{path}: is not in the encoding {encoding} ({error}); name another with --encoding"
            ) from None
        except LookupError:
            raise UsageError(
                f"--encoding is {encoding!r}, which is no known encoding of text; expected one "
                "such as utf-8, latin-1 or cp1252"
            ) from None
    for starts, advice in _FOREIGN:
        if data.startswith(starts):
            raise UserError(f"{path}: {advice}; expected CSV in UTF-8, or Parquet")
    data = data.removeprefix(_BOM)
    first = data.split(b"\n", 1)[0]
    if b"\0" in first:
        raise UserError(f"{path}: has bytes of 0, as UTF-16 has; expected CSV in UTF-8")
    if _JSON.match(data):
        raise UserError(f"{path}: is JSON, expected CSV, Parquet or JSON lines (.jsonl)")
    if first.lower().startswith(b"sep="):
        raise UserError(
            f"{path}: line 1: {first.decode(errors='replace').strip()[:10]!r} is for spreadsheets "
            "alone, expected the header; remove that line"
        )
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = len(re.findall(rb"\r\n|\r|\n", data[: error.start])) + 1
        raise UserError(
            f"{path}: line {line}: byte 0x{data[error.start]:02x} is not UTF-8; save the file as "
            "UTF-8 (in a spreadsheet: 'CSV UTF-8'), or name its encoding, such as latin-1, with "
            "--encoding of 'declare' or 'predict'"
        ) from None
    return data


def read_csv(path: Path, data: bytes, roles: Mapping[str, str], delimiter: str) -> pa.Table:
    """Return the columns of the ``roles`` of a checked CSV text, in UTF-8 and with its header;
    UserError for a row with a wrong number of fields, named by its line."""
    from pyarrow import csv as arrow_csv

    header = next(row for _, row in csv_rows(data, delimiter))
    meant = columns_of(path, header, roles)
    names = list(meant.values())
    ends = rb"%s\r\n" % re.escape(delimiter.encode())  # a field is quoted as a whole, or not at all
    field = rb'(?:"[^"]*+(?:""[^"]*+)*+"|[^"%s][^%s]*+)?+(?:[%s]|\Z)' % (ends, ends, ends)
    if (whole := re.compile(rb"(?:%s)*+" % field).match(data)) and whole.end() < len(data):
        from private_graphs.datasets.wrong_rows import refuse_quotes

        refuse_quotes(path, data, len(header), delimiter, whole.end())
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(
                block_size=min(len(data), LONGEST_BLOCK),
                use_threads=False,  # a thread pool that is busy at exit can abort the process
            ),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True, delimiter=delimiter),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=names,
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
        return table.rename_columns(list(meant))
    except pa.ArrowException as error:
        from private_graphs.datasets.wrong_rows import check_rows

        check_rows(path, data, len(header), delimiter)
        raise UserError(
            f"{path}: cannot be read as CSV ({str(error).splitlines()[0]}); expected a header and "
            "rows of fields between commas, semicolons or tabs"
        ) from error


def csv_rows(data: bytes, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yield (first line, fields) of the header and of every row; blank lines are skipped."""
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    before = csv.field_size_limit(2**31 - 1)
    try:
        reader = csv.reader(text, delimiter=delimiter)
        start = 1
        for row in reader:
            if row:
                yield start, row
            start = reader.line_num + 1
    finally:
        csv.field_size_limit(before)


def _as_text(path: Path, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as strings; missing values and empty strings are null."""
    import pyarrow.compute as pc

    require_readable(path, name, column.type)
    try:
        column = column.cast(pa.string())
        column.validate(full=True)  # Parquet declares bytes as UTF-8 without a check
    except pa.ArrowException as error:
        raise UserError(
            f"{path}: column {name!r} cannot be read as text ({error}); write it as UTF-8"
        ) from error
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


def first_rows(wrong: np.ndarray) -> tuple[list[int], str]:
    """Return the first rows of (rows,) bool, and ``" (12 in all)"`` if there are more."""
    rows = np.flatnonzero(wrong)
    suffix = f" ({len(rows):,} in all)" if len(rows) > NAMED_ROWS else ""
    return rows[:NAMED_ROWS].tolist(), suffix


def is_blank(column: pa.ChunkedArray) -> np.ndarray:
    """Return (rows,) bool: null, or only invisible characters."""
    import pyarrow.compute as pc

    written = pc.greater(pc.utf8_length(pc.utf8_trim(column, characters=NOT_SEEN)), 0)
    return ~np.asarray(pc.fill_null(written, False))


def distinct_ids(table: OwnTable, name: str) -> list[str]:
    """Return the ids, checked to be distinct."""
    import pyarrow.compute as pc

    column = table.columns[name]
    blank = is_blank(column)
    if blank.any():
        rows, suffix = first_rows(blank)
        raise table.error(
            rows,
            f"no id in the column {name!r}{suffix}; give every node an id, or remove empty lines",
        )
    encoded = pc.dictionary_encode(column.combine_chunks())
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    codes = np.asarray(encoded.indices)
    if len(encoded.dictionary) < len(codes):
        from private_graphs.datasets.wrong_rows import refuse_repeated

        refuse_repeated(table, column, codes)
    return column.to_pylist()


def text_roles(names: Iterable[str]) -> dict[str, str]:
    """Return role -> column of the columns with text."""
    return {f"text {number}": name for number, name in enumerate(names, start=1)}
