"""Reader of ogbn-products (Hu et al., Open Graph Benchmark, NeurIPS 2020), as ProGAP prepares it.

``products.zip`` holds gzipped tables without a header in ``products/raw``: ``edge.csv.gz`` (each
undirected edge once), ``node-feat.csv.gz``, ``node-label.csv.gz``, and the numbers of their rows in
``num-node-list.csv.gz`` and ``num-edge-list.csv.gz``. With 61,859,140 edges and 244,902,900
features they are parsed in pieces; features of dropped nodes are never in memory.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from tqdm import tqdm

from private_graphs.datasets.arrays import (
    UndirectedEdges,
    check_range,
    kept_rows,
    require,
    undirected_edges,
)
from private_graphs.datasets.graph_dataset import ParsedGraph
from private_graphs.datasets.prepared import class_sentence, large_classes, prepared
from private_graphs.datasets.zipped import member, opened, readable

RAW = "products/raw"
N_CLASSES, N_FEATURES, SMALLEST = 47, 100, 100_000
MOST_NODES, MOST_EDGES = 5_000_000, 200_000_000
"""Largest accepted sizes; the published graph has 2,449,029 nodes and 61,859,140 edges."""
BLOCK_BYTES = 1 << 22
"""Bytes of a table's text that are parsed at a time."""


def read_products(
    path: Path, smallest: int = SMALLEST, n_features: int = N_FEATURES, n_classes: int = N_CLASSES
) -> ParsedGraph:
    """Read ``products.zip``: classes of at least ``smallest`` nodes, with ProGAP's own split.

    ``n_features`` and ``n_classes`` describe the raw file. The published split is not used.

    Raises:
        UserError: the file is missing or malformed, its parts contradict each other, or fewer than
            two classes are left.
    """
    path = Path(path)
    with opened(path) as archive:
        tables = _Tables(archive, path)
        labels = tables.labels(n_classes)
        labels, left = large_classes(labels, smallest, f"{path}: {RAW}/node-label.csv.gz")
        return prepared(
            labels,
            left,
            tables.edges(labels >= 0),
            partial(tables.features, width=n_features),
            (
                class_sentence("products", smallest),
                "the features were made from descriptions of the products by those who published "
                "the graph; how is outside every guarantee",
            ),
            f"{path}: {RAW}/edge.csv.gz",
        )


class _Tables:
    """The gzipped tables of an archive, parsed in blocks of rows."""

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self._archive, self._path = archive, path
        self.n_nodes = self._count("num-node-list", MOST_NODES)
        self.n_edges = self._count("num-edge-list", MOST_EDGES)

    def _where(self, table: str) -> str:
        return f"{self._path}: {RAW}/{table}.csv.gz"

    def _blocks(self, table: str, columns: int, dtype: str) -> Iterator[np.ndarray]:
        """Yield the rows (some, columns) of a table without a header, in order."""
        import pyarrow
        import pyarrow.csv  # the import takes a tenth of a second

        entry = member(self._archive, f"{RAW}/{table}.csv.gz", str(self._path))
        names = [str(number) for number in range(columns)]
        types = dict.fromkeys(names, pyarrow.from_numpy_dtype(dtype))
        how = {
            "read_options": pyarrow.csv.ReadOptions(
                use_threads=False, block_size=BLOCK_BYTES, column_names=names
            ),
            "parse_options": pyarrow.csv.ParseOptions(quote_char=False),
            "convert_options": pyarrow.csv.ConvertOptions(column_types=types, null_values=[]),
        }
        with readable(self._where(table)), self._archive.open(entry) as packed:
            stream = pyarrow.CompressedInputStream(pyarrow.PythonFile(packed, "r"), "gzip")
            for batch in pyarrow.csv.open_csv(stream, **how):
                yield np.column_stack([column.to_numpy() for column in batch.columns])

    def _rows(self, table: str, columns: int, dtype: str, expected: int) -> Iterator[np.ndarray]:
        """Yield blocks of a table with ``expected`` rows, and report progress."""
        rows = 0
        with tqdm(total=expected, desc=table, unit=" rows", unit_scale=True) as bar:
            for block in self._blocks(table, columns, dtype):
                rows += len(block)
                bar.update(len(block))
                if rows > expected:
                    break
                yield block
        count = f"more than {expected:,}" if rows > expected else f"{rows:,}"
        require(rows == expected, self._where(table), f"{count} rows",
                f"{expected:,}, as the numbers beside it say")  # fmt: skip

    def _count(self, table: str, most: int) -> int:
        """Return the single number in a table."""
        numbers = np.zeros((0, 1), np.int64)
        for block in self._blocks(table, 1, "int64"):
            numbers = np.concatenate([numbers, block])
            if len(numbers) > 1:
                break
        fits = len(numbers) == 1 and 1 <= numbers[0, 0] <= most
        require(fits, self._where(table), numbers.ravel().tolist()[:5],
                f"one number from 1 to {most:,}")  # fmt: skip
        return int(numbers[0, 0])

    def labels(self, n_classes: int) -> np.ndarray:
        """Return the labels (N,) int64 of all nodes."""
        blocks = self._rows("node-label", 1, "int64", self.n_nodes)
        labels = np.concatenate([block[:, 0] for block in blocks])
        check_range(labels, n_classes, self._where("node-label"))
        return labels

    def edges(self, keep: np.ndarray) -> UndirectedEdges:
        """Return the edges between the nodes of a mask (N,), by raw numbers."""
        parts = [np.zeros((0, 2), np.int32)]
        for block in self._rows("edge", 2, "int32", self.n_edges):
            check_range(block, self.n_nodes, self._where("edge"))
            parts.append(block[keep[block].all(axis=1)])
        ends = np.concatenate(parts)
        del parts
        return undirected_edges(ends[:, 0], ends[:, 1], self.n_nodes)

    def features(self, nodes: np.ndarray, width: int) -> np.ndarray:
        """Return the features (kept, width) float32 of the nodes of a mask (N,)."""
        blocks = self._rows("node-feat", width, "float32", self.n_nodes)
        return kept_rows(blocks, nodes, width, f"{self._where('node-feat')}:")
