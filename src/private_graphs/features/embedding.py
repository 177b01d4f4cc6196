"""Mean text vectors over the columns of a node; every distinct text is embedded once.

A mean depends bit for bit on the texts of its own node alone: batches have fixed shapes, and sums
are exact in any order (docs/privacy.md §5).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from private_graphs.features.shards import ShardStore, text_keys
from private_graphs.features.texts import DistinctTexts

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
    ladder = np.array([*(each for each in LADDER if each < longest), longest])
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

    def encode(self, texts: list[str]) -> dict[str, np.ndarray]:
        """Return arrays with one row per text, (n, width) float32, and ``filled`` (n,) bool.

        A row depends bit for bit on its own text alone.
        """
        ...


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
            found = np.array([ids.get(key, -1) for key in keys], dtype=np.int64)
            # Two concurrent runs may both have embedded a text.
            wanted = np.flatnonzero((found >= 0) & missing[found])
            if len(wanted):
                add(found[wanted], {name: array[wanted] for name, array in arrays.items()})
        for texts in _chunks(distinct.texts, np.flatnonzero(missing)):
            chosen = [distinct.texts[i] for i in texts]
            arrays = encoder.encode(chosen)
            store.write(text_keys(chosen), arrays)
            add(texts, arrays)
    return (sums * _UNIT / np.maximum(n_columns, 1)).astype(np.float32)


def _chunks(texts: list[str], wanted: np.ndarray) -> Iterator[np.ndarray]:
    """Yield ids of texts by shard, longest first, so that batches have similar lengths."""
    lengths = np.array([len(texts[i]) for i in wanted], dtype=np.int64)
    order = wanted[np.argsort(-lengths, kind="stable")]
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
