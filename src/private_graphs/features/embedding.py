"""Means of text vectors over the columns of a node: every distinct text is embedded once."""

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
"""Texts per shard: what a killed run embeds again at most."""

EmptyTexts = Literal["counted", "masked"]


class TextEncoder(Protocol):
    """Turns texts into vectors."""

    fingerprint: str
    """Of model, precision and pooling: equal ones give the same vectors."""
    width: int
    """Length of a vector."""
    pooled: dict[EmptyTexts, str]
    """Which array of :meth:`encode` holds the vectors for each treatment of empty texts."""

    def encode(self, texts: list[str]) -> dict[str, np.ndarray]:
        """Return arrays with one row per text, (n, width) float32, and ``filled`` (n,) bool."""
        ...


def column_means(
    distinct: DistinctTexts,
    encoder: TextEncoder,
    empty_texts: EmptyTexts,
    cache: Path | None,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """Return (N, width) float32: the mean of the text vectors over the columns of each node.

    ``counted``: all columns, empty ones as the encoder embeds them. ``masked``: columns with a
    word in them; a node without any gets zeros. Vectors are kept in shards in ``cache`` and are
    read from there: only texts that no shard holds are embedded.
    """
    total = len(distinct.texts)
    ids = {key: number for number, key in enumerate(text_keys(distinct.texts))}
    sums = np.zeros((distinct.uses.shape[0], encoder.width))
    n_columns = np.zeros((distinct.uses.shape[0], 1))
    missing = np.ones(total, dtype=bool)

    def add(texts: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
        uses = distinct.uses_of(texts).astype(np.float64)
        nodes = np.flatnonzero(np.diff(uses.indptr))  # few: most texts have one user
        uses = uses[nodes]
        weights = arrays["filled"] if empty_texts == "masked" else np.ones(len(texts))
        vectors = arrays[encoder.pooled[empty_texts]] * weights[:, None]
        sums[nodes] += uses @ vectors.astype(np.float64)
        n_columns[nodes, 0] += uses @ weights.astype(np.float64)
        missing[texts] = False
        if progress:
            progress(total - int(missing.sum()), total)

    with working_folder(cache) as folder:
        store = ShardStore(folder, encoder.fingerprint)
        for keys, arrays in store.shards():
            found = np.array([ids.get(key, -1) for key in keys], dtype=np.int64)
            # Two runs at the same time may both have embedded a text.
            wanted = np.flatnonzero((found >= 0) & missing[found])
            if len(wanted):
                add(found[wanted], {name: array[wanted] for name, array in arrays.items()})
        for texts in _chunks(distinct.texts, np.flatnonzero(missing)):
            chosen = [distinct.texts[i] for i in texts]
            arrays = encoder.encode(chosen)
            store.write(text_keys(chosen), arrays)
            add(texts, arrays)
    return (sums / np.maximum(n_columns, 1)).astype(np.float32)


def _chunks(texts: list[str], wanted: np.ndarray) -> Iterator[np.ndarray]:
    """Yield ids of texts, a shard at a time, longest first: neighbours have similar lengths."""
    lengths = np.array([len(texts[i]) for i in wanted], dtype=np.int64)
    order = wanted[np.argsort(-lengths, kind="stable")]
    for start in range(0, len(order), SHARD_TEXTS):
        yield order[start : start + SHARD_TEXTS]


@contextmanager
def working_folder(cache: Path | None) -> Iterator[Path]:
    """Yield ``cache``, or a folder that vanishes afterwards where it is None."""
    if cache is not None:
        yield Path(cache)
    else:
        with tempfile.TemporaryDirectory(prefix="private-graphs-") as name:
            yield Path(name)
