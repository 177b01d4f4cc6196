"""Public map from a text to a row by a given model: sentence vectors, or means of word vectors.

The model is public and frozen, and was fitted on other texts. A row depends on its own text and on
the model alone, to the bit: encoders use batches of fixed shapes (``features.embedding``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import scipy.sparse

from private_graphs.core.errors import UserError, from_extra, require_system
from private_graphs.datasets.spelling import seen
from private_graphs.documents.hashing import tokens
from private_graphs.features.models import MAIN_FILES

MOST_MODEL_BYTES = 2**35
"""Largest file of a model: word vectors have up to 8 GiB."""
_MOST_TEXT_BYTES = 2**26
"""Largest configuration, vocabulary or tokenizer of a model, which is parsed whole."""
_MOST_WIDTH = 2**14
"""Most numbers of a vector; those of the largest models have 2^12 or 2^13."""
_COPIES_AT_ONCE = 8
"""Dense arrays of float64 whose memory rows take while they are computed."""
_AT_ONCE = 4_096
"""Texts that are encoded at once."""
_TRIAL = "A text by which a model is tried."
_LONGEST_TRIAL = 1024
"""Tokens of a long text by which a model is tried."""
_LONG_TEXT, _SUBWORD_BYTES = 2**16, 12
"""Letters of a text whose words may need much memory, and memory that a subword takes: its number,
while their list grows."""
_FEWEST_TOKENS = 3
"""Tokens of the shortest text: one between those that begin and end it."""
_VERSION = 1
"""Version in the digest of a model: raise it when the same model gives other rows."""


@dataclass(frozen=True, eq=False)
class TextReader:
    """A model that was loaded."""

    encode: Callable[[list[str]], np.ndarray]
    """Return (texts, width) vectors; zeros for a text without words."""
    width: int
    count: Callable[[list[str]], np.ndarray] | None = None
    """Return (texts,) numbers of tokens; None for a model that reads texts of any length."""
    longest: int | None = None
    """Most tokens that are read of a text."""
    mismatch: str = ""
    """What of the model's files may not belong together; empty: nothing."""
    letter_bytes: int = 0
    """Memory that reading a word takes for each of its letters, where words are read whole."""


@dataclass(frozen=True, eq=False)
class ModelVectors:
    """Map of texts to vectors of a model, scaled to norm 1; it is loaded at the first text."""

    name: str
    digest: str
    """sha256 of the model's files."""
    path: Path | None
    """Folder or file of the model; None if it is not at hand."""
    device: str = "auto"
    words: ClassVar[tuple[str, ...]] = ()
    _kept: dict[str, np.ndarray] = field(default_factory=dict)
    """Text -> vector: a text is read once."""
    _loaded: list[TextReader] = field(default_factory=list)

    @classmethod
    def find(
        cls, model: str, data: Path, expected: str | None = None, device: str = "auto"
    ) -> ModelVectors:
        """Return the model in a folder or file, or of a name in ``data/sources.yaml``.

        ``expected`` is the digest that it has to have.

        Raises:
            UserError: no model, or one that differs from the ``expected`` one.
        """
        path = _path_of(model, data)
        name, digest = path.name, _digest(path)
        if expected is not None and digest != expected:
            raise UserError(
                f"{path}: the sha256 of its files is {digest[:16]}…, expected {expected[:16]}…: "
                f"another model than the one that read the documents; give that one"
            )
        return cls(name, digest, path, device)

    @classmethod
    def released(cls, name: str, digest: str, model: str | Path | None, data: Path) -> ModelVectors:
        """Return the model that a release names: ``model``, or a downloaded one, or not at hand."""
        from private_graphs.datasets.sources import load_models

        if model is None and name not in load_models():
            return cls(name, digest, None)
        return cls.find(str(model or name), data, digest)

    @property
    def columns(self) -> int:
        """Length of a vector."""
        return self._reader.width

    @property
    def _reader(self) -> TextReader:
        if not self._loaded:
            if self.path is None:
                raise UserError(
                    f"texts are read by the model {self.name!r} (sha256 {self.digest[:16]}…), "
                    "which is not at hand: give its folder or file with --model (model= in Python)"
                )
            self._loaded.append(_loaded_reader(self.path, self.device))
        return self._loaded[0]

    def read(self, texts: Sequence[str]) -> None:
        """Compute and keep the vectors of texts; UserError for a text that the model fails at."""
        new = [text for text in dict.fromkeys(texts) if text not in self._kept]
        self._refuse_long_words(new)
        for start in range(0, len(new), _AT_ONCE):
            part = new[start : start + _AT_ONCE]
            with self._reading():
                self._kept.update(zip(part, self._means(part), strict=True))

    def rows(self, texts: Sequence[str]) -> scipy.sparse.csr_matrix:
        """Return (texts, columns) rows of norm 1 or zero."""
        self.read(texts)
        vectors = np.array([self._kept[text] for text in texts]).reshape(len(texts), self.columns)
        return scipy.sparse.csr_matrix(vectors)

    weighted = rows

    def word_counts(self, texts: Sequence[str]) -> np.ndarray:
        """Return (texts, 2) ones for a text of which the model reads something: it is not blank,
        and the vector not zero, as that of a text is at which the model fails."""
        self.read(texts)
        read = np.array([bool(seen(text)) and self._kept[text].any() for text in texts], bool)
        return np.stack([read, read], axis=1).astype(np.int64)

    def require_memory(self, texts: Sequence[str], at_once: int, copies: float) -> None:
        """Refuse texts whose rows need more memory than there is: ``copies`` of all, and those of
        ``at_once`` texts dense and sparse, before and after they are scaled."""
        from private_graphs.core.memory import refuse_too_large

        self._refuse_long_words(texts)
        numbers = copies * len(set(texts)) + _COPIES_AT_ONCE * min(len(texts), at_once)
        refuse_too_large(
            int(8 * self.columns * numbers) // 2**20,
            f"{self.path}: reading {len(texts):,} documents as {self.columns:,} numbers each",
            "give a model of shorter vectors or fewer documents",
        )

    def _refuse_long_words(self, texts: Sequence[str]) -> None:
        """Refuse a word whose parts need more memory than there is."""
        from private_graphs.core.memory import refuse_too_large

        long = (text for text in texts if self._reader.letter_bytes and len(text) > _LONG_TEXT)
        longest = max((len(word) for text in long for word in tokens(text)), default=0)
        if longest:
            refuse_too_large(
                self._reader.letter_bytes * longest // 2**20,
                f"{self.path}: reading a word of {longest:,} letters",
                "split the word, or leave its document out",
            )

    def longer(self, texts: Sequence[str]) -> tuple[int, int]:
        """Return how many texts are longer than the model reads, and how many tokens it reads."""
        reader = self._reader
        if reader.count is None or reader.longest is None or not texts:
            return 0, 0
        with self._reading():
            return int((reader.count(list(texts)) > reader.longest).sum()), reader.longest

    @property
    def mismatch(self) -> str:
        """See ``TextReader``."""
        return self._reader.mismatch

    def _reading(self) -> AbstractContextManager[None]:
        return _reading(self.path or Path(self.name))

    def _means(self, texts: list[str]) -> np.ndarray:
        """Return (texts, columns) vectors of norm 1 or 0: of long texts the mean over windows."""
        reader = self._reader
        means = np.zeros((len(texts), reader.width))
        left = list(enumerate(texts))
        while left:
            places, parts = zip(*left, strict=True)
            sizes = np.ones(len(parts)) if reader.count is None else reader.count(list(parts))
            cut = sizes > (reader.longest or np.inf)
            cut &= np.array([len(part) > 1 for part in parts])
            whole = np.flatnonzero(~cut)
            vectors = reader.encode([parts[at] for at in whole]) if len(whole) else means[:0]
            np.add.at(means, np.array(places)[whole],
                      sizes[whole, None] * vectors.astype(np.float64))  # fmt: skip
            again = np.flatnonzero(cut)
            left = [(places[at], half) for at in again for half in _halves(parts[at])]
        means[~np.isfinite(means).all(axis=1)] = 0.0
        norms = np.sqrt(np.einsum("ij,ij->i", means, means))[:, None]
        return np.divide(means, norms, out=np.zeros_like(means), where=norms > 0)


def _loaded_reader(path: Path, device: str) -> TextReader:
    """Load a model that gives finite numbers for a text; UserError for another one, which would
    fail when its release is paid for."""
    with _reading(path):
        reader = _READERS[_kind(path)](path, device)
        vectors = reader.encode([_TRIAL])
        if reader.longest is not None and reader.longest < _FEWEST_TOKENS:
            raise ValueError(f"it reads at most {reader.longest} tokens")
        if reader.count is not None:
            more = min(reader.longest or 0, _LONGEST_TRIAL) - int(reader.count(["a"])[0])
            reader.encode([" ".join("a" * (1 + max(more, 0)))])
    if reader.width > _MOST_WIDTH:
        raise UserError(f"{path}: gives {reader.width:,} numbers for a text, expected at most "
                        f"{_MOST_WIDTH:,}; give another model")  # fmt: skip
    if not np.isfinite(vectors).all():
        raise UserError(
            f"{path}: gives values for a text that are no finite numbers; fetch it again, or give "
            "another model"
        )
    return reader


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what a model fails with into an error that names it."""
    try:
        yield
    except (UserError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # errors of no common kind, and panics of compiled code
        require_system(error, path)
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"{path}: fails to read a text ({reason}); what its .json files say does not fit its "
            "weights or words: fetch it again, or give another model"
        ) from error


def _halves(text: str) -> tuple[str, str]:
    """Cut a text at the blank nearest to its middle, or in the middle."""
    middle = len(text) // 2
    before, after = text.rfind(" ", 1, middle), text.find(" ", middle, len(text) - 1)
    blanks = [at for at in (before, after) if at > 0]
    at = min(blanks, key=lambda blank: abs(blank - middle), default=middle)
    return text[:at], text[at:]


def _path_of(model: str, data: Path) -> Path:
    """Return where a model lies; one of the download rules is fetched, if it is not there."""
    from private_graphs.datasets.sources import load_models, raw_records, supply

    path = Path(model).expanduser()
    if not path.exists() and model in load_models():
        supply([model], data)
        files = [data / record.file for record in raw_records(model, data)]
        path = files[0] if len(files) == 1 else data / "models" / model
    if not _kind(path):
        what = "is no" if path.exists() else "no such"
        raise UserError(
            f"{model}: {what} model; expected a folder with modules.json (a sentence model) or "
            "config.json (BERT), a fastText .bin file, or one of "
            f"{', '.join(load_models())}: check --model, or declare again with its place of now"
        )
    return path


def _kind(path: Path) -> str:
    """Return the kind of features that a model makes; "" for something else."""
    if path.is_file() and path.name.endswith((".bin", ".bin.gz")):
        return "fasttext"
    return next((kind for kind in ("sbert", "bert") if (path / MAIN_FILES[kind]).is_file()), "")


def _digest(path: Path) -> str:
    """Return the sha256 of the files that determine the vectors, wherever they lie."""
    from private_graphs.core.files import sha256_of
    from private_graphs.features.bert_files import files_of_model
    from private_graphs.features.fasttext_files import unpacked
    from private_graphs.features.sbert import files_of_sentence_model

    for file in [path] if path.is_file() else path.rglob("*"):
        most = _MOST_TEXT_BYTES if file.suffix in (".json", ".txt") else MOST_MODEL_BYTES
        if file.is_file() and (size := file.stat().st_size) > most:
            raise UserError(
                f"{file}: has {size:,} bytes, expected at most {most:,} in such a file of a model"
            )
    kind = _kind(path)
    if kind == "fasttext":
        parts = [sha256_of(unpacked(path))]
    else:
        files = {"bert": files_of_model, "sbert": files_of_sentence_model}[kind](path)
        parts = [f"{record.file} {record.sha256}" for record in files]
    text = "\n".join([f"private-graphs vectors {_VERSION} {kind}", *parts])
    return hashlib.sha256(text.encode()).hexdigest()


def _bert(folder: Path, device: str) -> TextReader:
    with from_extra("bert"):
        import transformers  # noqa: F401
    from private_graphs.features.bert import BertEncoder, token_counts

    encoder = BertEncoder(folder, device)
    sizes = len(encoder.tokenizer), encoder.model.config.vocab_size
    return TextReader(
        lambda texts: encoder.encode(texts)["words"], encoder.width,
        lambda texts: token_counts(texts, encoder.tokenizer), encoder.longest,
        _lack_of(*sizes, "vocab.txt", 1),
    )  # fmt: skip


def _lack_of(tokens: int, vectors: int, of: str, least: float) -> str:
    """Return what may be wrong where vectors have no token, which some models leave room for."""
    return (
        f"{of} has {tokens:,} different tokens, and the model vectors for {vectors:,}: if a "
        "line is missing, words are read as others, or not at all"
    ) if tokens < least * vectors else ""  # fmt: skip


def _sentence(folder: Path, device: str) -> TextReader:
    with from_extra("bert"):
        import sentence_transformers  # noqa: F401
    from private_graphs.features.sbert import SentenceEncoder

    encoder = SentenceEncoder(folder, device)

    def encode(texts: list[str]) -> np.ndarray:
        output = encoder.encode(texts)
        return output["sentence"] * output["filled"][:, None]

    return TextReader(encode, encoder.width, encoder.token_counts, encoder.longest,
                      _lack_of(*encoder.sizes, "the tokenizer", 0.99))  # fmt: skip


def _words(file: Path, device: str) -> TextReader:
    from private_graphs.features.fasttext import load_model
    from private_graphs.features.fasttext_files import unpacked

    vectors = load_model(unpacked(file))
    width = vectors.dimension

    def encode(texts: list[str]) -> np.ndarray:
        sums = np.zeros((len(texts), width))
        for row, text in enumerate(texts):
            for word in tokens(text):
                sums[row] += vectors.of(word)
        return sums

    return TextReader(encode, width, letter_bytes=_SUBWORD_BYTES * vectors.lengths)


_READERS: dict[str, Callable[[Path, str], TextReader]] = {
    "bert": _bert, "sbert": _sentence, "fasttext": _words,
}  # fmt: skip
