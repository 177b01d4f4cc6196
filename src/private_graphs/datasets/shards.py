"""A graph whose private part lies in Parquet files, read in blocks (docs/cluster.md).

``graph.json`` lists every file with its sha256; ``public/*.npy`` are the arrays of the public part;
``shards/*.parquet`` contain the private part. Under ``text`` and ``graph`` a row is a training
node: ``label`` (-1: none), ``columns`` and ``values`` of its features (no values: ones), and under
``graph`` ``neighbours``, the positions of its public neighbours. Under ``edges`` a row is an edge,
``source`` < ``target``, in increasing order; a shard holds the edges of its own range of sources,
so that no edge can occur twice. Nodes are numbered training, validation, test.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from pydantic import ValidationError, model_validator

from private_graphs.core.errors import UserError
from private_graphs.core.files import atomic_path, sha256_of, write_json
from private_graphs.core.models import Strict

GRAPH_FILE = "graph.json"
_ROWS = 4096
_EDGES = 2**18
_CSR = ("data", "indices", "indptr")


class Shard(Strict):
    """One Parquet file of the private part."""

    file: str
    sha256: str
    first: int = 0
    """First source of the shard's range, under ``edges``."""
    end: int = 0
    """End of the shard's range of sources (exclusive), under ``edges``."""


class ShardsInfo(Strict):
    """Content of ``graph.json``."""

    name: str
    scenario: str
    classes: tuple[str, ...]
    n_features: int
    n_train: int
    """Number of training nodes, labelled or not; under ``edges`` labelled ones only."""
    features: str = "raw"
    preprocessing: tuple[str, ...] = ()
    first: dict[str, Any] = {}
    """Statement fields about ``public/first.npy``, the (n+V+M, K) class probabilities of a text
    model (``methods.text_only.TextModel``), under ``edges``."""
    fingerprint: str
    """Identity of the data when random streams are drawn (``run.identity``)."""
    public: dict[str, str]
    """sha256 by file of the folder ``public``."""
    shards: tuple[Shard, ...]

    @model_validator(mode="after")
    def _nothing_twice(self) -> ShardsInfo:
        ranges = sorted((shard.first, shard.end) for shard in self.shards)
        overlap = any(end > first for (_, end), (first, _) in pairwise(ranges))
        if len({shard.file for shard in self.shards}) < len(self.shards) or overlap:
            raise ValueError("shards: expected distinct files with ranges that do not overlap")
        return self


def _nobody(query: Any) -> np.ndarray:
    raise UserError("a graph in shards is read by workflow/shards.smk alone")


@dataclass(frozen=True)
class ShardedGraph:
    """A graph in shards, none of which is in memory."""

    folder: Path
    info: ShardsInfo
    total: Callable[[Any], np.ndarray] = _nobody
    """Callback that answers a query on the private part; a loaded graph's raises UserError."""

    @classmethod
    def load(cls, folder: str | Path) -> ShardedGraph:
        """Read ``graph.json``; other files are checked when they are read."""
        folder = Path(folder)
        try:
            info = ShardsInfo.model_validate_json((folder / GRAPH_FILE).read_bytes())
        except (OSError, ValidationError) as error:
            raise UserError(f"{folder / GRAPH_FILE}: not a graph in shards: {error}") from None
        return cls(folder, info)

    def check_public(self) -> None:
        """Raise UserError unless the public files are unchanged since they were written."""
        for name, expected in self.info.public.items():
            self._check(f"public/{name}.npy", expected)

    def _check(self, name: str, expected: str) -> None:
        path = self.folder / name
        if not path.is_file() or sha256_of(path) != expected:
            raise UserError(f"{path}: is gone, or not the file that {GRAPH_FILE} names")

    @property
    def fingerprint(self) -> str:
        """Identity of the data."""
        return self.info.fingerprint

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.info.classes)

    def file(self, shard: int) -> Path:
        """Return the path of a shard."""
        return self.folder / self.info.shards[shard].file

    def public(self, name: str) -> np.ndarray:
        """Return a public array, memory-mapped."""
        return np.load(self.folder / "public" / f"{name}.npy", mmap_mode="r")

    def public_matrix(self, name: str, shape: tuple[int, int]) -> scipy.sparse.csr_matrix:
        """Return a public sparse matrix."""
        parts = (np.array(self.public(f"{name}.{part}")) for part in _CSR)
        return scipy.sparse.csr_matrix(tuple(parts), shape)

    def batches(self, shard: int) -> Iterator[Any]:
        """Yield the record batches of a shard, after a check of its sha256."""
        import pyarrow.parquet  # the import takes a third of a second

        about = self.info.shards[shard]
        self._check(about.file, about.sha256)
        size = _EDGES if self.info.scenario == "edges" else _ROWS
        with pyarrow.parquet.ParquetFile(self.file(shard)) as file:
            for batch in file.iter_batches(size):
                if any(column.null_count for column in batch.columns):
                    self._refuse(shard, "a value is null")
                yield batch

    def _refuse(self, shard: int, reason: str) -> None:
        """Raise UserError; the message reveals no private value."""
        raise UserError(f"{self.file(shard)}: {reason}")

    def documents(
        self, shard: int, n_public: int
    ) -> Iterator[tuple[scipy.sparse.csr_matrix, np.ndarray, scipy.sparse.csr_matrix | None]]:
        """Yield blocks of features (n, d), labels (n,) and public neighbours (n, ``n_public``).

        Raises UserError for an unknown label, a column that is repeated or out of range, or a value
        that is not finite.
        """
        for batch in self.batches(shard):
            labels = batch["label"].to_numpy().astype(np.int64)
            if len(labels) and not -1 <= labels.min() <= labels.max() < self.n_classes:
                self._refuse(shard, f"a label is not one of -1..{self.n_classes - 1}")
            values = (
                batch["values"].flatten().to_numpy() if "values" in batch.schema.names else None
            )
            features = self._rows(shard, batch["columns"], self.info.n_features, values)
            neighbours = None
            if self.info.scenario == "graph":
                neighbours = self._rows(shard, batch["neighbours"], n_public, None)
            yield features, labels, neighbours

    def _rows(
        self, shard: int, lists: Any, width: int, values: np.ndarray | None
    ) -> scipy.sparse.csr_matrix:
        """Return lists of columns as the rows of a matrix, with these values or ones."""
        offsets = lists.offsets.to_numpy().astype(np.int64)
        places, columns = offsets - offsets[0], lists.flatten().to_numpy(zero_copy_only=False)
        values = np.ones(len(columns)) if values is None else values
        if len(values) != len(columns) or not np.isfinite(values).all():
            self._refuse(shard, "values are not finite numbers, one for each column")
        if len(columns):
            row = np.repeat(np.arange(len(lists)), np.diff(places))
            keys = np.sort(row * width + columns)
            if not 0 <= columns.min() <= columns.max() < width or (keys[1:] == keys[:-1]).any():
                self._refuse(shard, f"columns of a row are not distinct numbers below {width}")
        return scipy.sparse.csr_matrix((values, columns, places), (len(lists), width))

    def edges(self, shard: int, n_nodes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the ends (E,), (E,) of blocks of edges.

        Raises UserError unless edges are in increasing order, with source < target and sources in
        the shard's range.
        """
        about, last = self.info.shards[shard], (-1, -1)
        for batch in self.batches(shard):
            source, target = (batch[name].to_numpy().astype(np.int64) for name in _ENDS)
            if not len(source):
                continue
            before = np.r_[last[0], source[:-1]], np.r_[last[1], target[:-1]]
            later = (source > before[0]) | ((source == before[0]) & (target > before[1]))
            inside = about.first <= source[0] and source[-1] < about.end
            if not (later & (source < target)).all() or not inside or target.max() >= n_nodes:
                self._refuse(
                    shard,
                    f"edges are not in increasing order, source < target < {n_nodes}, with sources "
                    f"from {about.first} to {about.end - 1}",
                )
            last = source[-1], target[-1]
            yield source, target


_ENDS = ("source", "target")


def write_graph(
    folder: str | Path,
    about: Mapping[str, Any],
    public: Mapping[str, np.ndarray | scipy.sparse.csr_matrix],
    shards: Sequence[Mapping[str, Any]],
) -> ShardedGraph:
    """Write the public arrays and, last, ``graph.json``; ``shards`` are files already written.

    ``about`` and ``shards`` are fields of ``ShardsInfo`` and ``Shard`` without those that follow
    from the files; a missing ``fingerprint`` becomes the sha256 of all hashes.
    """
    folder, arrays = Path(folder), {}
    for name, value in public.items():
        if scipy.sparse.issparse(value):
            arrays |= {f"{name}.{part}": getattr(value, part) for part in _CSR}
        else:
            arrays[name] = value
    hashes = {}
    for name, array in arrays.items():
        with atomic_path(folder / "public" / f"{name}.npy") as temporary:
            with temporary.open("wb") as stream:
                np.save(stream, array)
        hashes[name] = sha256_of(folder / "public" / f"{name}.npy")
    files = [{**shard, "sha256": sha256_of(folder / shard["file"])} for shard in shards]
    whole = hashlib.sha256(json.dumps([about["name"], hashes, files]).encode()).hexdigest()
    info = ShardsInfo(**{"fingerprint": whole, **about}, public=hashes, shards=files)
    write_json(folder / GRAPH_FILE, info.model_dump(mode="json"))
    return ShardedGraph(folder, info)
