"""Mean fastText word vectors, pre-trained or trained on the texts of the graph itself."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import struct
import tempfile
import zlib
from collections.abc import Iterable
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import scipy.sparse

from private_graphs.core.bounded_files import parsed_json
from private_graphs.core.errors import UserError, from_extra, naming, require_memory
from private_graphs.core.files import atomic_path, sha256_of, write_json
from private_graphs.datasets.labelled import RawFile
from private_graphs.datasets.text_graph import TextGraph
from private_graphs.datasets.views import DataView
from private_graphs.features.embedding import working_folder
from private_graphs.features.matrix import FeatureMatrix
from private_graphs.features.texts import coverage, distinct_texts, fitted_on, fitted_on_words
from private_graphs.features.words import texts_not_split, tokens, vocabulary

if TYPE_CHECKING:
    from private_graphs.features.make import FeatureOptions

EMBEDDED_TRAINING = {
    "model": "skipgram",
    "dim": 64,
    "epoch": 5,
    "minCount": 1,
    "minn": 3,
    "maxn": 4,
    "ws": 4,
    "neg": 3,
    # There are few texts. The defaults, made for large corpora (a rate of 0.05, and words above
    # one in 10,000 dropped the more often, the more frequent they are), give nearly equal vectors;
    # at a rate of 0.5, vectors grow without bound.
    "lr": 0.15,
    "t": 0.0002,
    # The default of 2,000,000 subword buckets makes every model hundreds of megabytes large.
    "bucket": 20_000,
    # One thread: several would race for the same weights, so that trainings would differ.
    "thread": 1,
    "verbose": 0,
}
"""Training options of the embedded model."""
_MAGIC, _VERSION = 793712314, 12
"""First two numbers of a fastText binary file."""
_FEW_BYTES, _MOST_PACKED = 2**26, 20
"""Bytes that an archive may unpack to however small it is; most for each byte of a larger one."""
_MOST_COUNT = 10**15
"""What the library takes for more than all words together; their tree ends it otherwise."""
_MOST_SUBWORDS, _LONGEST, _LONGEST_WORD = 2**28, 100, 10_000
"""Most subwords of all words of a dictionary (two million words have 2^25), and most letters of a
subword."""
_LEAST_ENTRY = 10
"""Bytes of an entry of the dictionary with an empty word: its end, a count, a kind."""
_CENTROIDS = 256
"""Centroids of a quantised matrix, in each dimension."""
_LARGEST = 1e30
"""Numbers of a matrix stay below it, so that sums of them are finite."""
_AT_ONCE = 2**22
"""Numbers of a matrix that are checked at once."""


def fasttext_means(graph: TextGraph, view: DataView, options: FeatureOptions) -> FeatureMatrix:
    """Return (N, dim) float32: the mean word vector over all tokens of a node's texts.

    Tokens and thresholds are those of the bag of words (Igamberdiev & Habernal, LREC 2022, §5),
    repeated tokens count each time, and a node without tokens gets zeros. The model is a fastText
    binary file, ``.bin`` or ``.bin.gz`` (unpacked beside itself); without one a small skip-gram
    model is trained on the texts of the nodes that ``view.vocabulary`` names and kept in the cache.

    Raises:
        UserError: no word is left, or the model cannot be read.
    """
    model = options.model
    words, sentence = vocabulary(graph, view, options.counts)
    with working_folder(options.cache) as folder:
        if model is None:
            path = trained_model(graph, view, folder)
            files = (RawFile(file=path.name, sha256=sha256_of(path), url=None),)
            origin = (
                "The word vectors are those of a small fastText model trained on the texts of "
                f"{fitted_on_words(view)}; {coverage(view)}."
            )
        else:
            path = unpacked(model)
            record = RawFile(file=model.name, sha256=sha256_of(model), url=None)
            files, name = options.model_files or (record,), options.model_name or path.stem
            origin = f"The word vectors are those of {name}, trained on other texts."
        vectors = word_vectors(load_model(path), words.words)
    lost = {"texts_not_split": texts_not_split(graph.texts)}
    return FeatureMatrix(_row_means(words.counts, vectors), (sentence, origin), files, lost)


def _row_means(counts: scipy.sparse.csr_matrix, vectors: np.ndarray) -> np.ndarray:
    """Return (N, dim) float32 means of ``vectors`` (V, dim) weighted by ``counts`` (N, V)."""
    totals = np.asarray(counts.sum(axis=1), dtype=np.float64).reshape(-1, 1)
    sums = counts.astype(np.float64) @ vectors.astype(np.float64)
    return (sums / np.maximum(totals, 1)).astype(np.float32)


@dataclass(frozen=True)
class WordVectors:
    """Vectors of a fastText model."""

    model: Any
    n_words: int
    """Number of words in its dictionary; the labels of a classifier follow them."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self.model.get_dimension()

    def of(self, word: str) -> np.ndarray:
        """Return the (dim,) vector of a word; one that is unknown is composed of subwords.

        A word that is the name of a label has zeros: the library would read a row that no word has,
        or that is behind its matrix.
        """
        if self.model.get_word_id(word) >= self.n_words:
            return np.zeros(self.dimension, np.float32)
        return self.model.get_word_vector(word)


def word_vectors(vectors: WordVectors, words: Iterable[str]) -> np.ndarray:
    """Return (V, dim) float32 vectors of words."""
    return np.stack([vectors.of(word) for word in words]).astype(np.float32)


def check_sizes(path: Path) -> int:
    """Hold the sizes that a fastText file declares against its size, before the library reads it.

    The library believes them: of a file that was cut off it takes memory without end, or reads
    zeros; some numbers end the process. The format is that of ``FastText::saveModel``, fastText
    0.9, quantised matrices (.ftz) included; versions before 12 are laid out alike. Return the
    number of words.

    Raises:
        UserError: the file is shorter than what it declares, or has numbers that no model has.
    """
    with naming(path), open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        try:
            return _check_parts(stream, size)
        except (struct.error, _Short) as error:
            why = error if isinstance(error, _Short) else "it ends in its header"
            raise UserError(
                f"{path}: is not a whole fastText model of {size:,} bytes: {why}; it was cut off "
                "or is another file: delete it and fetch it again"
            ) from error


class _Short(Exception):
    """A part declares more bytes than follow, or what no model has; the message says which."""


def _check_parts(stream: BinaryIO, size: int) -> int:
    """Return the number of words; raise _Short or struct.error for a file of ``size`` bytes that
    lacks what it declares."""

    def numbers(form: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{form}", stream.read(struct.calcsize(f"<{form}")))

    def require(part: str, count: int, least: int) -> None:
        left = size - stream.tell()
        if count < 0 or count * least > left:
            raise _Short(f"its {part} needs {count * least:,} bytes, and {left:,} follow")

    magic, version = numbers("ii")
    if magic != _MAGIC or version > _VERSION:
        return 0  # the library refuses it
    dimension, *_, loss, kind, buckets, shortest, longest, _, _ = numbers("12id")
    if dimension < 1 or buckets < 0 or (longest > 0 and not buckets):
        # the library would divide by zero, or read before its matrix
        raise _Short(f"it has {dimension} dimensions and {buckets} buckets of subwords")
    if not (1 <= loss <= 4 and 1 <= kind <= 3):
        raise _Short(f"its loss is number {loss}, and it is a model of kind {kind}")
    entries, words, labels, _, pruned = numbers("iiiqq")
    require("dictionary", entries, _LEAST_ENTRY)
    if words < 1:  # the library would divide by zero
        raise _Short("its dictionary has no word")
    if entries != words + labels or labels < 0 or pruned < -1:
        raise _Short(f"its dictionary has {entries:,} entries, of {words:,} words and labels")
    letters = total = 0
    for number in range(entries):
        begun = letters
        while (letter := stream.read(1)) != b"\0":
            if not letter:
                raise _Short("it ends in its dictionary")
            letters += 1
        if letters - begun > _LONGEST_WORD:
            raise _Short(f"entry {number:,} of its dictionary has {letters - begun:,} letters")
        count, is_label = numbers("qb")
        total += count
        if count < 0 or total >= _MOST_COUNT:
            raise _Short(f"entry {number:,} of its dictionary is counted {count:,} times")
        if is_label != (number >= words):
            raise _Short(
                f"entry {number:,} of its dictionary is no {('word', 'label')[not is_label]}"
            )
    subwords = (letters + 2 * entries) * max(0, longest - max(shortest, 1) + 1)
    if longest > _LONGEST or subwords > _MOST_SUBWORDS:
        raise _Short(f"its {letters:,} letters have subwords of up to {longest:,} letters")
    require("table of subwords", max(pruned, 0), 8)
    targets = np.fromfile(stream, "<i4", 2 * max(pruned, 0)).reshape(-1, 2)[:, 1]
    if ((targets < 0) | (targets >= len(targets))).any():
        raise _Short("its table of subwords leads to rows that its matrix has not")
    # the library reads these rows, whatever the matrix has
    sizes = {"input matrix": words + (buckets if pruned < 0 else pruned)}

    def skip(part: str, count: int, least: int) -> None:
        require(part, count, least)
        stream.seek(count * least, os.SEEK_CUR)

    def require_numbers(part: str, count: int) -> float:
        """Return the largest of the numbers; raise _Short for one that is too large, or none."""
        require(part, count, 4)
        largest = 0.0
        while count:
            values = np.fromfile(stream, "<f4", min(count, _AT_ONCE))
            if not (np.abs(values) < _LARGEST).all():
                raise _Short(f"its {part} has values that are no finite numbers, or too large")
            largest = max(largest, float(np.abs(values).max()))
            count -= len(values)
        return largest

    def require_size(part: str, rows: int, columns: int) -> None:
        expected = sizes.get(part, rows), dimension
        if (rows, columns) != expected:
            raise _Short(f"its {part} has {rows:,} rows of {columns:,}, expected "
                         f"{expected[0]:,} of {expected[1]:,} as its header says")  # fmt: skip

    def skip_quantiser(part: str, width: int) -> tuple[int, float]:
        columns, parts, size, last = numbers("4i")
        parted = parts >= 1 and 1 <= last <= size and (parts - 1) * size + last == width
        if columns != width or not parted:
            raise _Short(
                f"the quantiser of its {part} is for {columns:,} columns in {parts:,} parts of "
                f"{size:,}, expected {width:,}"
            )
        return parts, require_numbers(f"centroids of the {part}", columns * _CENTROIDS)

    quantised = True
    for part in ("input matrix", "output matrix"):
        [flag] = numbers("?")
        if flag and not quantised:  # the library would read it as numbers
            raise _Short(f"its {part} is quantised, and its input matrix is not")
        if quantised := flag:
            has_norms, rows, columns, codes = numbers("?qqi")
            require_size(part, rows, columns)
            skip(part, codes, 1)
            parts, largest = skip_quantiser(part, columns)
            if codes != rows * parts:
                raise _Short(f"its {part} has {codes:,} codes of {rows:,} rows")
            if has_norms:
                skip(f"norms of the {part}", rows, 1)
                if largest * skip_quantiser(part, 1)[1] >= _LARGEST:
                    raise _Short(f"the norms of its {part} are too large")
        else:
            rows, columns = numbers("qq")
            require_size(part, rows, columns)
            require_numbers(part, rows * columns if rows >= 0 <= columns else -1)
    return words


def load_model(path: Path) -> WordVectors:
    """Load a fastText binary model.

    Raises:
        UserError: the file is missing, cut off or no fastText model.
    """
    fasttext = _library()
    n_words = check_sizes(path) if path.is_file() else 0
    try:
        with redirect_stderr(io.StringIO()):  # the library warns on every load
            return WordVectors(fasttext.load_model(str(path)), n_words)
    except (ValueError, MemoryError, RuntimeError) as error:
        require_memory(error, path)
        raise UserError(
            f"{path}: cannot be read as a fastText model ({error}); expected a binary model such "
            "as cc.sk.300.bin: delete the file and fetch it again"
        ) from error


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


def trained_model(graph: TextGraph, view: DataView, folder: Path) -> Path:
    """Train a small skip-gram model on the texts of the fitted nodes and return its file.

    Equal texts give the same file name and, on the same machine, the same vectors.
    """
    fitted = graph.texts.filter(fitted_on(graph, view))
    distinct = distinct_texts(fitted)
    repeats = np.asarray(distinct.uses.sum(axis=0)).ravel()
    lines = [" ".join(tokens(text)) for text in distinct.texts]
    corpus = "".join(f"{line}\n" * int(n) for line, n in zip(lines, repeats, strict=True) if line)
    digest = hashlib.sha256(f"{EMBEDDED_TRAINING}\n{corpus}".encode())
    target = folder / f"fasttext-{digest.hexdigest()[:16]}.bin"
    if target.is_file():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fasttext-", dir=folder) as working:
        texts = Path(working) / "texts.txt"
        texts.write_text(corpus, encoding="utf-8")
        model = _library().train_unsupervised(str(texts), **EMBEDDED_TRAINING)
        with atomic_path(target) as temporary:
            model.save_model(str(temporary))
    return target


def _library() -> Any:
    with from_extra("fasttext"):
        import fasttext
    return fasttext
