"""The files of a fastText model: what a binary declares, and a packed one."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from private_graphs.core.bounded_files import parsed_json
from private_graphs.core.errors import UserError, naming
from private_graphs.core.files import atomic_path, sha256_of, write_json

_MAGIC, _VERSION = 793712314, 12
"""First two numbers of a fastText binary file."""
_FEW_BYTES, _MOST_PACKED = 2**26, 20
"""Bytes that an archive may unpack to however small it is; most for each byte of a larger one."""
_MOST_COUNT = 10**15
"""What the library takes for more than all words together; their tree ends it otherwise."""
_MOST_SUBWORDS, _MOST_HASHED, _LONGEST, _LONGEST_WORD = 2**28, 2**30, 100, 10_000
"""Most subwords of all words of a dictionary and most bytes of these (two million words of Russian
have 2^27 and 2^30), most letters of a subword, and bytes of a word."""
_LEAST_ENTRY = 10
"""Bytes of an entry of the dictionary with an empty word: its end, a count, a kind."""
_HIERARCHICAL, _CLASSIFIER = 1, 3
"""Numbers of the hierarchical softmax among losses, and of classifiers among models."""
_CONTINUED, _CONTINUES = bytes(range(0x80, 0xC0)), re.compile(rb"[\x80-\xbf]+")
"""Bytes of UTF-8 that continue a letter."""
_CENTROIDS = 256
"""Centroids of a quantised matrix, in each dimension."""
_LARGEST = 1e30
"""Numbers of a matrix stay below it, so that sums of them are finite."""
_AT_ONCE = 2**22
"""Numbers of a matrix that are checked at once."""


def check_sizes(path: Path) -> tuple[int, int]:
    """Hold the sizes that a fastText file declares against its size, before the library reads it.

    The library believes them: of a file that was cut off it takes memory without end, or reads
    zeros; some numbers end the process. The format is that of ``FastText::saveModel``, fastText
    0.9, quantised matrices (.ftz) included; versions before 12 are laid out alike. Return the
    number of words, and of the lengths that subwords have.

    Raises:
        UserError: the file is shorter than what it declares, or has numbers that no model has.
    """
    with naming(path), open(path, "rb") as stream:
        model = _Stream(stream, os.fstat(stream.fileno()).st_size)
        try:
            magic, version = model.numbers("ii")
            if magic != _MAGIC or version > _VERSION:
                return 0, 0  # the library refuses it
            if version < 1:
                raise _Short(f"it is of version {version}")
            sizes = _header(model)
            _check_dictionary(model, sizes)
            _check_matrices(model, sizes)
            if more := model.size - stream.tell():
                raise _Short(f"{more:,} bytes follow its last matrix")
        except (struct.error, _Short) as error:
            why = error if isinstance(error, _Short) else "it ends in its header"
            raise UserError(
                f"{path}: is not a whole fastText model of {model.size:,} bytes: {why}; it was cut "
                "off or is another file: delete it and fetch it again"
            ) from error
    return sizes.words, len(sizes.lengths)


class _Short(Exception):
    """A part declares more bytes than follow, or what no model has; the message says which."""


@dataclass(frozen=True)
class _Stream:
    """A file of ``size`` bytes; reading what it lacks raises _Short or struct.error."""

    stream: io.BufferedReader
    size: int

    def numbers(self, form: str) -> tuple[Any, ...]:
        """Return the next numbers, of the formats of ``struct``."""
        return struct.unpack(f"<{form}", self.stream.read(struct.calcsize(f"<{form}")))

    def word(self) -> bytes:
        """Return the bytes up to the next zero."""
        parts = []
        while (end := (ahead := self.stream.peek()).find(b"\0")) < 0:
            if not ahead:
                raise _Short("it ends in its dictionary")
            parts.append(self.stream.read(len(ahead)))
        parts.append(self.stream.read(end))
        self.stream.read(1)
        return b"".join(parts)

    def require(self, part: str, count: int, least: int) -> None:
        """Refuse a part of ``count`` entries of ``least`` bytes where fewer bytes follow."""
        left = self.size - self.stream.tell()
        if count < 0 or count * least > left:
            raise _Short(f"its {part} needs {count * least:,} bytes, and {left:,} follow")

    def skip(self, part: str, n_bytes: int) -> None:
        """Go behind a part whose bytes need no check."""
        self.require(part, n_bytes, 1)
        self.stream.seek(n_bytes, os.SEEK_CUR)

    def largest(self, part: str, count: int) -> float:
        """Return the largest of the next float32; raise _Short for one too large, or no number."""
        self.require(part, count, 4)
        largest = 0.0
        while count:
            values = np.fromfile(self.stream, "<f4", min(count, _AT_ONCE))
            if not (np.abs(values) < _LARGEST).all():
                raise _Short(f"its {part} has values that are no finite numbers, or too large")
            largest = max(largest, float(np.abs(values).max()))
            count -= len(values)
        return largest


@dataclass(frozen=True)
class _Sizes:
    """What the header of a model declares."""

    dimension: int
    tree: slice
    """Entries whose counts make the tree of a hierarchical softmax; empty under another loss."""
    buckets: int
    shortest: int
    longest: int
    """Letters of the shortest and the longest subword."""
    words: int
    labels: int
    pruned: int
    """Buckets of subwords that a pruned dictionary has left; -1 where none was pruned."""

    @property
    def lengths(self) -> range:
        """Return the numbers of letters that subwords have."""
        return range(max(self.shortest, 1), self.longest + 1)


def _header(model: _Stream) -> _Sizes:
    dimension, *_, loss, kind, buckets, shortest, longest, _, _ = model.numbers("12id")
    if dimension < 1 or buckets < 0 or (longest > 0 and not buckets):
        # the library would divide by zero, or read before its matrix
        raise _Short(f"it has {dimension} dimensions and {buckets} buckets of subwords")
    if not 0 <= longest <= _LONGEST:  # the library takes a negative one for one without end
        raise _Short(f"its subwords have up to {longest:,} letters, expected at most {_LONGEST}")
    if not (1 <= loss <= 4 and 1 <= kind <= 3):
        raise _Short(f"its loss is number {loss}, and it is a model of kind {kind}")
    entries, words, labels, _, pruned = model.numbers("iiiqq")
    model.require("dictionary", entries, _LEAST_ENTRY)
    if words < 1:  # the library would divide by zero
        raise _Short("its dictionary has no word")
    if entries != words + labels or labels < 0 or pruned < -1:
        raise _Short(f"its dictionary has {entries:,} entries, of {words:,} words and labels")
    classes = slice(words, entries) if kind == _CLASSIFIER else slice(0, words)
    tree = classes if loss == _HIERARCHICAL else slice(0, 0)
    return _Sizes(dimension, tree, buckets, shortest, longest, words, labels, pruned)


def _check_dictionary(model: _Stream, sizes: _Sizes) -> None:
    counts = np.zeros(sizes.words + sizes.labels, np.int64)
    lengths = sizes.lengths
    subwords = n_bytes = 0
    for number in range(len(counts)):
        word = model.word()
        if len(word) > _LONGEST_WORD:
            raise _Short(f"entry {number:,} of its dictionary has {len(word):,} letters")
        counts[number], is_label = model.numbers("qb")
        if is_label != (number >= sizes.words):
            raise _Short(
                f"entry {number:,} of its dictionary is no {('word', 'label')[not is_label]}"
            )
        # a letter is what no byte of 0x80 to 0xbf continues; words stand between two marks
        letters, widest = len(word) + 2, 1
        if not word.isascii():
            letters = len(word.translate(None, _CONTINUED)) + 2
            widest = 1 + max(map(len, _CONTINUES.findall(word)), default=0)
        subwords += letters * len(lengths)
        n_bytes += letters * widest * sum(lengths)
        if subwords > _MOST_SUBWORDS or n_bytes > _MOST_HASHED:
            raise _Short(f"its words have subwords of up to {sizes.longest:,} letters, too many")
    if (counts < 0).any() or counts.sum(dtype=np.float64) >= _MOST_COUNT:
        number = counts.argmin() if counts.min() < 0 else counts.argmax()
        raise _Short(f"entry {number:,} of its dictionary is counted {counts[number]:,} times")
    leaves = counts[sizes.tree]
    if (leaves < 1).any() or (np.diff(leaves) > 0).any():
        # the library takes memory quadratic in them for the paths of such a tree
        raise _Short("the counts of its hierarchical softmax do not decrease, or are zero")
    left = max(sizes.pruned, 0)
    model.require("table of subwords", left, 8)
    targets = np.fromfile(model.stream, "<i4", 2 * left).reshape(-1, 2)[:, 1]
    if ((targets < 0) | (targets >= left)).any():
        raise _Short("its table of subwords leads to rows that its matrix has not")


def _check_matrices(model: _Stream, sizes: _Sizes) -> None:
    # the library reads these rows, whatever the matrix has
    rows = sizes.words + (sizes.buckets if sizes.pruned < 0 else sizes.pruned)
    [quantised] = model.numbers("?")
    _check_matrix(model, "input matrix", rows, sizes.dimension, quantised)
    [output_quantised] = model.numbers("?")
    if output_quantised and not quantised:  # the library would read it as numbers
        raise _Short("its output matrix is quantised, and its input matrix is not")
    _check_matrix(model, "output matrix", None, sizes.dimension, output_quantised)


def _check_matrix(
    model: _Stream, part: str, rows: int | None, columns: int, quantised: bool
) -> None:
    """``rows`` is None where a matrix may have any number of them."""
    has_norms = quantised and model.numbers("?")[0]
    n_rows, n_columns = model.numbers("qq")
    expected = max(n_rows, 0) if rows is None else rows
    if (n_rows, n_columns) != (expected, columns):
        raise _Short(f"its {part} has {n_rows:,} rows of {n_columns:,}, expected "
                     f"{expected:,} of {columns:,} as its header says")  # fmt: skip
    if not quantised:
        model.largest(part, n_rows * n_columns)
        return
    [codes] = model.numbers("i")
    model.skip(part, codes)
    parts, largest = _check_quantiser(model, part, n_columns)
    if codes != n_rows * parts:
        raise _Short(f"its {part} has {codes:,} codes of {n_rows:,} rows")
    if has_norms:
        model.skip(f"norms of the {part}", n_rows)
        if largest * _check_quantiser(model, part, 1)[1] >= _LARGEST:
            raise _Short(f"the norms of its {part} are too large")


def _check_quantiser(model: _Stream, part: str, width: int) -> tuple[int, float]:
    """Return its number of parts, and the largest of its centroids."""
    columns, parts, size, last = model.numbers("4i")
    parted = parts >= 1 and 1 <= last <= size and (parts - 1) * size + last == width
    if columns != width or not parted:
        raise _Short(
            f"the quantiser of its {part} is for {columns:,} columns in {parts:,} parts of "
            f"{size:,}, expected {width:,}"
        )
    return parts, model.largest(f"centroids of the {part}", columns * _CENTROIDS)


def unpacked(model: Path) -> Path:
    """Return the ``.bin`` file of ``model``; a ``.gz`` is unpacked beside itself.

    The unpacked file is reused only while it and the archive have the sha256 recorded in
    ``<name>.bin.unpacked.json``; otherwise the archive is unpacked again.

    Raises:
        UserError: the file is missing or is not what its name says.
    """
    model = Path(model)
    if not model.is_file():
        raise UserError(f"{model}: there is no such file, expected a fastText model (.bin)")
    if model.suffix != ".gz":
        return model
    target = model.with_suffix("")
    receipt = target.with_name(f"{target.name}.unpacked.json")
    archive = sha256_of(model)
    if target.is_file():
        if not receipt.is_file():
            raise UserError(
                f"{target}: is there, and {model.name} would be unpacked in its place; move it "
                "away, or give it in place of the archive"
            )
        if _noted(receipt) == {"archive": archive, "sha256": sha256_of(target)}:
            return target
    digest, left = hashlib.sha256(), max(_FEW_BYTES, _MOST_PACKED * model.stat().st_size)
    try:
        with gzip.open(model, "rb") as packed, atomic_path(target) as temporary:
            with open(temporary, "wb") as stream:
                if packed.peek(4)[:4] != struct.pack("<i", _MAGIC):
                    raise UserError(f"{model}: does not unpack to a fastText model; fetch it again")
                while piece := packed.read(1 << 22):
                    if (left := left - len(piece)) < 0:
                        raise UserError(f"{model}: unpacks to far more than a fastText model that "
                                        "was packed; fetch it again")  # fmt: skip
                    digest.update(piece)
                    stream.write(piece)
        write_json(receipt, {"archive": archive, "sha256": digest.hexdigest()})
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(
            f"{model}: cannot be unpacked to {target.name} ({error}); check the free space, or "
            "delete the file and fetch it again"
        ) from error
    return target


def _noted(receipt: Path) -> Any:
    """Return the content of a receipt, or None if it is missing or unreadable."""
    try:
        return parsed_json(receipt.read_bytes())
    except (OSError, ValueError):
        return None
