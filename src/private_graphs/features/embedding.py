"""Mean text vectors over the columns of a node; every distinct text is embedded once.

A mean depends bit for bit on the texts of its own node alone: batches have fixed shapes, and sums
are exact in any order (docs/privacy.md §5).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np

from private_graphs.datasets.labelled import RawFile
from private_graphs.datasets.text_graph import TextGraph
from private_graphs.datasets.views import DataView
from private_graphs.features.matrix import FeatureMatrix
from private_graphs.features.shards import ShardStore, text_keys
from private_graphs.features.texts import DistinctTexts, coverage, distinct_texts, fitted_on_words

if TYPE_CHECKING:
    from private_graphs.features.make import FeatureOptions

SHARD_TEXTS = 2_000
"""Texts per shard: the most work that a killed run repeats."""

LADDER = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096, 8192)
"""Padded lengths in tokens."""

_UNIT = 2.0**-30
"""Vectors are rounded to multiples of this (a float32 near 1 has steps of 2^-23), so that float64
sums of up to 2^23 in magnitude are exact, whatever their order."""

EmptyTexts = Literal["counted", "masked"]


def fixed_batches(
    lengths: np.ndarray, longest: int, tokens_per_batch: int
) -> Iterator[tuple[np.ndarray, int, int]]:
    """Yield (indices of texts, rows, padded length) so that shapes depend on no other text.

    The padded length is the next value of :data:`LADDER` above the length of the text (n,) itself,
    and all batches of that length have equally many rows, about ``tokens_per_batch`` tokens: the
    caller adds dummy texts. Every text has padding, because libraries drop a mask that hides
    nothing in a batch; only texts of ``longest`` tokens, the most that the model reads, form
    batches without padding.
    """
    ladder = np.array([*(rung for rung in LADDER if rung < longest), longest])
    steps = np.searchsorted(ladder, lengths, side="right")
    for step in np.unique(steps):
        padded = int(ladder[min(step, len(ladder) - 1)])
        rows = max(1, tokens_per_batch // padded)
        chosen = np.flatnonzero(steps == step)
        for start in range(0, len(chosen), rows):
            yield chosen[start : start + rows], rows, padded


class TextEncoder(Protocol):
    """Encoder that maps texts to vectors."""

    fingerprint: str
    """Hash of model, precision, shapes and pooling: equal hashes mean equal vectors."""
    width: int
    """Length of a vector."""
    pooled: dict[EmptyTexts, str]
    """Name of the array in :meth:`encode` with the vectors, for each treatment of empty texts."""
    means: dict[EmptyTexts, str]
    """Sentence for each treatment of empty texts."""
    made: ClassVar[str]
    """What the vectors are, in words."""
    embedded: ClassVar[str]
    """What the embedded model is called."""
    tiny: ClassVar[Callable[[TextGraph, DataView, Path], Path]]
    """Callable: text graph, view, folder → folder of an embedded model with random weights."""
    files: list[RawFile]
    """Files that determine the vectors."""

    def __init__(self, folder: Path, device: str) -> None: ...

    @property
    def longest(self) -> int | None:
        """Most tokens that the model reads per text; None for no limit."""
        ...

    def lost(self, texts: list[str]) -> dict[str, int]:
        """Count the parts of texts that are not read."""
        ...

    def encode(self, texts: list[str]) -> dict[str, np.ndarray]:
        """Return arrays with one row per text, (n, width) float32, and ``filled`` (n,) bool.

        A row depends bit for bit on its own text alone.
        """
        ...


def text_means(
    graph: TextGraph, view: DataView, options: FeatureOptions, kind: type[TextEncoder]
) -> FeatureMatrix:
    """Return (N, width) float32: mean vectors over the columns of each node's texts.

    Texts are cut at the model's longest input, and a node without words gets zeros where empty
    texts are "masked". Without a model in the ``options`` the kind makes a tiny one with random
    weights, whose vocabulary comes from the texts of the nodes that ``view.vocabulary`` names.

    Raises:
        UserError: the model folder is incomplete or broken, or the device is missing.
    """
    with working_folder(options.cache) as folder, limited_threads(options.threads):
        if options.model is None:
            model, files = kind.tiny(graph, view, folder), ()
            origin = (
                f"The features are {kind.made} of a small, randomly initialised {kind.embedded} "
                f"whose vocabulary comes from the texts of {fitted_on_words(view)}; "
                f"{coverage(view)}."
            )
        else:
            model, files = options.model, options.model_files
            origin = (
                f"The features are {kind.made} of {options.model_name or model.name}, trained on "
                "other texts; nothing was fitted on the texts of this graph."
            )
        encoder, distinct = kind(model, options.device), distinct_texts(graph.texts)
        values = column_means(distinct, encoder, view.empty_texts, folder, options.progress)
        counts = encoder.lost(distinct.texts)
    sentences = [origin, encoder.means[view.empty_texts]]
    if encoder.longest is not None:
        sentences.append(
            f"Of a text the first {encoder.longest:,} tokens are read, special ones included."
        )
    return FeatureMatrix(values, tuple(sentences), tuple(files or encoder.files), counts)


def column_means(
    distinct: DistinctTexts,
    encoder: TextEncoder,
    empty_texts: EmptyTexts,
    cache: Path | None,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """Return (N, width) float32: the mean of the text vectors over the columns of each node.

    ``counted``: all columns, empty ones as the encoder embeds them. ``masked``: columns with words;
    a node without words gets zeros. Vectors are kept in shards in ``cache``: only texts in no shard
    are embedded.
    """
    total = len(distinct.texts)
    ids = {key: number for number, key in enumerate(text_keys(distinct.texts))}
    sums = np.zeros((distinct.uses.shape[0], encoder.width))
    n_columns = np.zeros((distinct.uses.shape[0], 1))
    missing = np.ones(total, dtype=bool)

    def add(texts: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
        uses = distinct.uses_of(texts).astype(np.float64)
        nodes = np.flatnonzero(np.diff(uses.indptr))  # few nodes: most texts belong to one node
        uses = uses[nodes]
        weights = arrays["filled"] if empty_texts == "masked" else np.ones(len(texts))
        vectors = arrays[encoder.pooled[empty_texts]].astype(np.float64) * weights[:, None]
        sums[nodes] += uses @ np.rint(vectors / _UNIT)
        n_columns[nodes, 0] += uses @ weights.astype(np.float64)
        missing[texts] = False
        if progress:
            progress(total - int(missing.sum()), total)

    with working_folder(cache) as folder:
        store = ShardStore(folder, encoder.fingerprint)
        for keys, arrays in store.shards():
            indices = np.array([ids.get(key, -1) for key in keys], dtype=np.int64)
            # Two concurrent runs may both have embedded a text.
            rows = np.flatnonzero((indices >= 0) & missing[indices])
            if len(rows):
                add(indices[rows], {name: array[rows] for name, array in arrays.items()})
        for texts in _chunks(distinct.texts, np.flatnonzero(missing)):
            chosen = [distinct.texts[i] for i in texts]
            arrays = encoder.encode(chosen)
            store.write(text_keys(chosen), arrays)
            add(texts, arrays)
    return (sums * _UNIT / np.maximum(n_columns, 1)).astype(np.float32)


def _chunks(texts: list[str], ids: np.ndarray) -> Iterator[np.ndarray]:
    """Yield ids of texts by shard, longest first, so that batches have similar lengths."""
    lengths = np.array([len(texts[i]) for i in ids], dtype=np.int64)
    order = ids[np.argsort(-lengths, kind="stable")]
    for start in range(0, len(order), SHARD_TEXTS):
        yield order[start : start + SHARD_TEXTS]


@contextmanager
def working_folder(cache: Path | None) -> Iterator[Path]:
    """Yield ``cache``, or a temporary folder if it is None."""
    if cache is not None:
        yield Path(cache)
    else:
        with tempfile.TemporaryDirectory(prefix="private-graphs-") as name:
            yield Path(name)


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Limit PyTorch to ``threads`` threads, and restore the number afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
