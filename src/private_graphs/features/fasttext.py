"""Mean fastText word vectors, pre-trained or trained on the texts of the graph itself."""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Iterable
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from private_graphs.core.errors import UserError, from_extra, require_system
from private_graphs.core.files import atomic_path, sha256_of
from private_graphs.datasets.labelled import RawFile
from private_graphs.datasets.text_graph import TextGraph
from private_graphs.datasets.views import DataView
from private_graphs.features.embedding import working_folder
from private_graphs.features.fasttext_files import check_sizes, unpacked
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
    lengths: int
    """Number of lengths that its subwords have; a word has as many subwords for each letter."""

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


def load_model(path: Path) -> WordVectors:
    """Load a fastText binary model.

    Raises:
        UserError: the file is missing, cut off or no fastText model.
    """
    fasttext = _library()
    sizes = check_sizes(path) if path.is_file() else (0, 0)
    try:
        with redirect_stderr(io.StringIO()):  # the library warns on every load
            return WordVectors(fasttext.load_model(str(path)), *sizes)
    except (ValueError, MemoryError, RuntimeError) as error:
        require_system(error, path)
        raise UserError(
            f"{path}: cannot be read as a fastText model ({error}); expected a binary model such "
            "as cc.sk.300.bin: delete the file and fetch it again"
        ) from error


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
