"""Reader of the GraphSAGE Reddit graph (Hamilton, Ying & Leskovec, NeurIPS 2017), in two ways.

``reddit.zip`` holds two archives of NumPy arrays: ``reddit_data.npz`` (features, labels, node
types) and ``reddit_graph.npz`` (a SciPy sparse matrix in coordinates). The readers keep either all
validation and test nodes and a fixed share of the training nodes, or the largest classes. The graph
has 114,615,892 entries, so arrays are read in blocks, and dropped rows are never in memory; the
weights, all one, are not read.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from private_graphs.core.errors import UserError
from private_graphs.datasets.arrays import (
    check_range,
    kept_rows,
    keyed_order,
    require,
    undirected_edges,
)
from private_graphs.datasets.graph_dataset import ParsedGraph
from private_graphs.datasets.prepared import class_sentence, large_classes, prepared
from private_graphs.datasets.views import DataView
from private_graphs.datasets.zipped import member, opened, readable
from private_graphs.graphs.sample import hashed_coin_sample, induced_subgraph

DATA_FILE, GRAPH_FILE = "reddit_data.npz", "reddit_graph.npz"
N_CLASSES = 41
TRAIN, VALIDATION, TEST = 1, 2, 3
"""Values of ``node_types``."""

TRAIN_FRACTION = 0.1
SAMPLE_KEY = b"private-graphs reddit 1"
"""Public constant; the coins and the order of the training nodes depend on it and on ids alone."""

BLOCK_NUMBERS = 1 << 22
"""Numbers of one array held in memory at a time."""


def read_reddit(path: Path, view: DataView, fraction: float = TRAIN_FRACTION) -> ParsedGraph:
    """Read ``reddit.zip``: all validation and test nodes and ``fraction`` of the training nodes.

    ``view.node_sample`` decides how training nodes are drawn: ``stratified`` keeps floor(count ·
    fraction) of each class, as many as the published script does; ``keyed_coin`` tosses a coin per
    node that depends on a public constant and the node's number alone (docs/privacy.md §3). Both
    are deterministic and described in ``preprocessing``. Kept nodes stay in order and are
    renumbered. Reading needs free disk space of up to the unpacked size next to the file.

    Raises:
        UserError: the file is missing or malformed, or its parts contradict each other.
    """
    path = Path(path)
    if not 0 < fraction <= 1:
        raise UserError(f"fraction: found {fraction}, expected more than 0 and at most 1")
    with _unpacked(path) as (data_path, graph_path):
        with _ArchiveBlocks(data_path, f"{path}: {DATA_FILE}") as data:
            labels, kinds = _labels_and_kinds(data)
            keep = kept_nodes(labels, kinds, view, fraction)
            features = _kept_features(data, keep)
        with _ArchiveBlocks(graph_path, f"{path}: {GRAPH_FILE}") as graph:
            entries = _kept_entries(graph, keep)
    edges = undirected_edges(*entries, n_nodes=len(features))
    kinds = kinds[keep]
    return ParsedGraph(
        **vars(edges),
        features=features,
        labels=labels[keep],
        train_mask=kinds == TRAIN,
        validation_mask=kinds == VALIDATION,
        test_mask=kinds == TEST,
        n_classes=N_CLASSES,
        node_sample=view.node_sample if fraction < 1 else None,
        preprocessing=_sentences(view, fraction),
    )


def read_reddit_classes(path: Path, smallest: int = 10_000) -> ParsedGraph:
    """Read ``reddit.zip`` as ProGAP does: classes of ``smallest`` nodes or more, with its split.

    ``node_types``, the published split, is not used. Disk space as in :func:`read_reddit`.

    Raises:
        UserError: as in :func:`read_reddit`, or fewer than two classes are left.
    """
    path = Path(path)
    with _unpacked(path) as (data_path, graph_path):
        with _ArchiveBlocks(graph_path, f"{path}: {GRAPH_FILE}") as graph:
            with _ArchiveBlocks(data_path, f"{path}: {DATA_FILE}") as data:
                labels, _ = _labels_and_kinds(data)
                labels, n_classes = large_classes(labels, smallest, data.where)
                keep = labels >= 0
                edges = undirected_edges(*_kept_entries(graph, keep), n_nodes=len(labels))
                raw = np.flatnonzero(keep)
                return prepared(
                    labels,
                    n_classes,
                    replace(edges, edge_index=raw[edges.edge_index]),
                    partial(_kept_features, data),
                    (class_sentence("posts", smallest), _MADE),
                    graph.where,
                )


_MADE = (
    "the features were made from the posts by those who published the graph; how, and from "
    "which posts, is outside every guarantee"
)


def _sentences(view: DataView, fraction: float) -> tuple[str, ...]:
    """Return sentences for the privacy statement: decisions made before neighbours are defined."""
    if fraction == 1:
        return (_MADE,)
    if view.node_sample == "keyed_coin":
        drawn = (
            f"each training node was kept by an independent coin of probability {fraction:g}, "
            "drawn by a public key from its number: labels, features and edges have no part in it"
        )
    else:
        drawn = (
            f"of the training nodes of each class a share of {fraction:g} was kept, the first in a "
            "keyed order of their numbers: which nodes are kept depends on private labels, and one "
            "relabelled node can swap two others, which the price of several parts takes in"
        )
    return drawn, _MADE


def kept_nodes(
    labels: np.ndarray, kinds: np.ndarray, view: DataView, fraction: float
) -> np.ndarray:
    """Return (N,) bool: all nodes except training nodes left out by the view's sample.

    ``labels`` and ``kinds`` are (N,) integers.
    """
    train = np.flatnonzero(kinds == TRAIN)
    if view.node_sample == "keyed_coin":
        sample = hashed_coin_sample(train, fraction, SAMPLE_KEY)
    else:
        sample = _hashed_stratified_sample(train, labels[train], fraction)
    keep = kinds != TRAIN
    keep[sample] = True
    return keep


def _hashed_stratified_sample(nodes: np.ndarray, labels: np.ndarray, fraction: float) -> np.ndarray:
    """Return the first floor(count · fraction) of ``nodes`` of each label, by a hash of their ids.

    Under a public seed in place of the hash, one changed label would redraw its whole class. The
    hash order ignores labels, so a relabelled node changes the fate of at most two others.
    """
    order = keyed_order(nodes, SAMPLE_KEY, digest_size=8)
    nodes, labels = nodes[order], labels[order]
    parts = [nodes[:0]]
    for label in np.unique(labels):
        members = nodes[labels == label]
        parts.append(members[: int(len(members) * fraction + 1e-9)])  # floor, tolerant of 2.999…
    return np.sort(np.concatenate(parts))


@contextlib.contextmanager
def _unpacked(path: Path) -> Iterator[tuple[Path, Path]]:
    """Unpack both archives next to ``path`` while the context lasts.

    Reading an archive inside an archive in place would unpack it several times over. Members are
    chosen by name and written under fixed names; others are not touched.
    """
    with contextlib.ExitStack() as stack:
        outer = stack.enter_context(opened(path))
        members = [member(outer, name, str(path)) for name in (DATA_FILE, GRAPH_FILE)]
        try:
            prefix = f".{path.name}."
            folder = tempfile.TemporaryDirectory(prefix=prefix, dir=path.parent)
            places = [Path(stack.enter_context(folder)) / entry.filename for entry in members]
            for entry, target in zip(members, places, strict=True):
                with readable(f"{path}: {entry.filename}"), outer.open(entry) as packed:
                    with open(target, "wb") as unpacked:
                        shutil.copyfileobj(packed, unpacked, 1 << 20)
        except OSError as error:
            raise UserError(
                f"{path}: cannot be unpacked in its folder ({error}); make room for "
                f"{sum(entry.file_size for entry in members):,} bytes there"
            ) from error
        yield places[0], places[1]


class _ArchiveBlocks:
    """The arrays of an ``.npz`` file, read in blocks of rows and never unpickled."""

    def __init__(self, path: Path, where: str) -> None:
        self.where = where
        with readable(where):
            self._archive = zipfile.ZipFile(path)

    def __enter__(self) -> _ArchiveBlocks:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    @contextlib.contextmanager
    def _open(self, key: str) -> Iterator[tuple[IO[bytes], tuple[int, ...], np.dtype]]:
        """Yield the stream of an array after its header, its shape and its type."""
        entry = member(self._archive, f"{key}.npy", self.where)
        with readable(f"{self.where}: {key}"), self._archive.open(entry) as stream:
            version = np.lib.format.read_magic(stream)
            read_header = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            shape, by_columns, dtype = read_header(stream)
            where, kind = f"{self.where}: {key}", "objects" if dtype.hasobject else "columns"
            plain = not dtype.hasobject and (not by_columns or len(shape) < 2)
            require(plain, where, kind, "numbers, row by row")
            size = int(np.prod([*shape, dtype.itemsize], dtype=object))
            length = entry.file_size - stream.tell()
            require(
                size == length, where, f"{length} bytes", f"{size} for {dtype} of shape {shape}"
            )
            yield stream, shape, dtype

    def shape(self, key: str, kinds: str, n_dimensions: int) -> tuple[int, ...]:
        """Return the shape of an array whose type is one of ``kinds`` (``np.dtype.kind``)."""
        with self._open(key) as (_, shape, dtype):
            fits = dtype.kind in kinds and len(shape) == n_dimensions
            expected = f"{'integers' if kinds == 'iu' else 'numbers'} in {n_dimensions} dimensions"
            require(fits, f"{self.where}: {key}", f"{dtype} of shape {shape}", expected)
            return shape

    def blocks(self, key: str, rows: int) -> Iterator[np.ndarray]:
        """Yield the array, ``rows`` rows at a time."""
        with self._open(key) as (stream, shape, dtype):
            for start in range(0, shape[0], rows):
                part = (min(rows, shape[0] - start), *shape[1:])
                content = stream.read(int(np.prod(part, dtype=object)) * dtype.itemsize)
                yield np.frombuffer(content, dtype).reshape(part)

    def vector(self, key: str) -> np.ndarray:
        """Return an array of integers (entries,) as int64."""
        self.shape(key, "iu", 1)
        return np.concatenate(
            [np.zeros(0, np.int64), *self.blocks(key, BLOCK_NUMBERS)], dtype=np.int64
        )

    def text(self, key: str) -> str:
        """Return a single string."""
        with self._open(key) as (stream, shape, dtype):
            fits = dtype.kind in "SU" and shape == ()
            require(fits, f"{self.where}: {key}", f"{dtype} of shape {shape}", "a text")
            value = np.frombuffer(stream.read(dtype.itemsize), dtype)[0]
            return value.decode("ascii") if dtype.kind == "S" else str(value)


def _labels_and_kinds(data: _ArchiveBlocks) -> tuple[np.ndarray, np.ndarray]:
    """Return the checked labels and kinds of the nodes, (N,) int64 each."""
    labels, kinds = data.vector("label"), data.vector("node_types")
    actual = f"{len(labels)} entries of label and {len(kinds)} of node_types"
    require(len(labels) == len(kinds) > 0, data.where, actual, "one of each per node")
    check_range(labels, N_CLASSES, f"{data.where}: label")
    check_range(kinds, TEST + 1, f"{data.where}: node_types", TRAIN)
    return labels, kinds


def _kept_features(data: _ArchiveBlocks, keep: np.ndarray) -> np.ndarray:
    """Return the features of the kept nodes (kept, F) float32."""
    n_nodes, width = data.shape("feature", "fiu", 2)
    fits = n_nodes == len(keep) and width
    require(fits, f"{data.where}: feature", f"shape ({n_nodes}, {width})",
            f"a row for each of the {len(keep)} nodes and at least one column")  # fmt: skip
    blocks = data.blocks("feature", max(1, BLOCK_NUMBERS // width))
    return kept_rows(blocks, keep, width, f"{data.where}: feature")


def _kept_entries(graph: _ArchiveBlocks, keep: np.ndarray) -> np.ndarray:
    """Return the entries of the adjacency between kept nodes, renumbered: (2, entries) int64."""
    layout, size = graph.text("format"), graph.vector("shape").tolist()
    square = [len(keep)] * 2
    require(layout == "coo" and size == square, graph.where,
            f"a matrix of shape {size} in the format {layout!r}", f"{square} in 'coo'")  # fmt: skip
    shapes = [graph.shape(key, "iu", 1) for key in ("row", "col")]
    actual = f"row of shape {shapes[0]} and col of {shapes[1]}"
    require(shapes[0] == shapes[1], graph.where, actual, "the same")
    parts = [np.zeros((2, 0), dtype=np.int64)]
    blocks = (graph.blocks(key, BLOCK_NUMBERS) for key in ("row", "col"))
    for sources, targets in zip(*blocks, strict=True):
        for ends in (sources, targets):
            check_range(ends, len(keep), f"{graph.where}: row and col")
        parts.append(induced_subgraph(sources, targets, keep))
    return np.concatenate(parts, axis=1)
