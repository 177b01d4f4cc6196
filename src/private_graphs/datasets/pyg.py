"""Conversion to and from ``torch_geometric.data.Data``; the datasets of PyTorch Geometric."""

from __future__ import annotations

import fnmatch
import inspect
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch

from private_graphs.core.errors import UsageError, UserError, from_extra, suggest
from private_graphs.core.files import sha256_of
from private_graphs.datasets.arrays import require, undirected_edges
from private_graphs.datasets.graph_dataset import GraphDataset, SparseFeatures
from private_graphs.datasets.graph_files import split_masks, users_graph
from private_graphs.datasets.labelled import FILE_MASKS, RawFile
from private_graphs.datasets.planetoid import listed

with from_extra("reference"):
    import torch_geometric
    from torch_geometric.data import Data, InMemoryDataset
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

FOLDER = "pyg"
"""Folder, below the raw folder, of the raw files that PyTorch Geometric downloads."""


_MOST_REPEATED = 100
"""How often a tensor of a file may repeat the numbers that the file has."""


def to_pyg(dataset: GraphDataset) -> Data:
    """Return a graph as a ``Data``.

    x is dense (N, F) float32, edge_index (2, 2E) has both directions of every edge, y is (N,) int64
    with -1 for no label; the masks are ``train_mask``, ``val_mask`` and ``test_mask``.
    """
    features = dataset.features
    dense = features if isinstance(features, np.ndarray) else features.to_scipy().toarray()
    half = torch.from_numpy(dataset.edge_index)
    masks = (dataset.train_mask, dataset.validation_mask, dataset.test_mask)
    return Data(
        torch.from_numpy(dense.copy()), torch.cat([half, half.flip(0)], dim=1),
        y=torch.from_numpy(dataset.labels.copy()),
        **{key: torch.from_numpy(mask.copy()) for key, mask in zip(FILE_MASKS, masks, strict=True)},
    )  # fmt: skip


def from_pyg(data: Data, name: str, **fields: Any) -> GraphDataset:
    """Return the graph in a ``Data`` with x, edge_index and y.

    Masks are those of ``graph_files.split_masks``. Features of which less than a third is non-zero
    are stored as CSR. ``fields``: fields of
    ``DatasetInfo``.

    Raises:
        UserError: an edge without its reverse, edge attributes, or missing labels.
    """
    where = f"dataset {name!r}"
    for key in ("x", "edge_index", "y", *FILE_MASKS):
        if data.get(key) is not None:
            _check_tensor(data[key], key, where)
        elif key not in FILE_MASKS:
            raise UserError(f"{where}: {key}: none in the Data, expected x, edge_index and y")
    lost = [key for key in data.edge_attrs() if key != "edge_index"]
    require(not lost, f"{where}: {', '.join(lost)}", "attributes of edges, which would be lost",
            "none", "remove them from the Data")  # fmt: skip
    n, labels = data.num_nodes, data.y.reshape(-1)
    fits = n and len(labels) == n and 0 <= int(labels.max()) < n
    largest = max(labels.tolist(), default=-1)
    require(fits, f"{where}: y", f"{data.y.dtype} of shape {tuple(data.y.shape)} up to {largest}",
            f"one whole number below {n} for each of {n} nodes", "-1: no label")  # fmt: skip
    edges = undirected_edges(*data.edge_index.numpy().astype(np.int64), n)  # type: ignore[call-arg]
    require(not edges.one_way, f"{where}: edge_index", f"{edges.one_way} edges of one direction",
            "both of each", "apply torch_geometric.transforms.ToUndirected() first")  # fmt: skip
    given = {key: data.get(key) for key in FILE_MASKS}
    arrays = {key: None if mask is None else mask.numpy() for key, mask in given.items()}
    masks, split = split_masks(arrays, n, where)
    return users_graph(
        name, _features(data.x), edges, labels.numpy(), masks,
        **fields | {"preprocessing": [*fields.get("preprocessing", []), split]},
    )  # fmt: skip


_KINDS = {"x": "numbers", "edge_index": "whole numbers", "y": "whole numbers"}
"""What a tensor holds, by key; masks hold true and false."""


def _check_tensor(value: Any, key: str, where: str) -> None:
    """Raise UserError for what is no tensor of numbers in memory, of the kind that ``key`` has."""
    kind = _KINDS.get(key, "true and false")
    actual = type(value).__name__
    if isinstance(value, torch.Tensor):
        actual = f"{value.dtype} of shape {tuple(value.shape)} on {value.device}"
        dense = value.layout == torch.strided or key == "x"
        plain = value.device.type == "cpu" and dense and not value.is_quantized
        number = not value.is_complex() and value.dtype != torch.bool
        fits = {
            "numbers": number and value.dim() == 2 and value.numel() > 0,
            "whole numbers": number and not value.is_floating_point(),
            "true and false": value.dtype == torch.bool and value.dim() == 1,
        }[kind]
        if plain and fits and (key != "edge_index" or value.dim() == 2 and len(value) == 2):
            return
    raise UserError(f"{where}: {key}: found {actual}, expected a tensor of {kind} in memory")


def _features(x: torch.Tensor) -> SparseFeatures | np.ndarray:
    """Return (N, F) features in the smaller of the two formats."""
    x = x.detach().to(torch.float32)
    if x.layout != torch.strided:
        x = x.to_sparse_coo().coalesce()
        entries = (x.values().numpy(), tuple(x.indices().numpy()))
        return SparseFeatures.from_scipy(scipy.sparse.coo_matrix(entries, shape=tuple(x.shape)))
    if 3 * int(torch.count_nonzero(x)) < x.numel():
        return SparseFeatures.from_scipy(scipy.sparse.csr_matrix(x.numpy()))
    return x.numpy().astype(np.float32)


def read(name: str, spec: str, raw_dir: Path) -> GraphDataset:
    """Build a node-level dataset of PyTorch Geometric, such as ``CitationFull:DBLP``.

    PyTorch Geometric downloads what is missing below ``raw_dir/pyg``, and reads it. Pickles are
    refused unless this project lists their sha256; files that an earlier run processed are not
    read.

    Raises:
        UserError: no such dataset, several graphs, pickles that are not listed, or a graph that
            ``from_pyg`` refuses.
    """
    kind, _, part = spec.partition(":")
    offered = [entry for entry in torch_geometric.datasets.__all__ if _is_offered(entry)]
    if kind not in offered:
        raise UsageError(
            f"--pyg is {spec!r}; expected a class of torch_geometric.datasets and, after a colon, "
            f"the name that it takes, such as Planetoid:Cora{suggest(kind, offered)}"
        )
    parent: Any = getattr(torch_geometric.datasets, kind)
    takes = inspect.signature(parent).parameters
    if bool(part) != ("name" in takes):
        raise UsageError(
            f"--pyg is {spec!r}; {kind} takes {'a' if 'name' in takes else 'no'} name: expected "
            f"{kind}{':NAME' if 'name' in takes else ''}"
        )
    sources: list[RawFile] = []
    with tempfile.TemporaryDirectory() as empty:

        class Checked(parent):
            """The dataset, processed again in an empty folder."""

            processed_dir = empty

            def process(self) -> None:
                for path in map(Path, self.raw_paths):
                    file = path.relative_to(raw_dir).as_posix()
                    sources.append(RawFile(file=file, sha256=sha256_of(path), url=None))
                pinned = {source.sha256 for source in sources} <= listed()
                with nullcontext() if pinned else _without_pickles(spec):
                    super().process()

        given = {"root": str(raw_dir / FOLDER / kind), "name": part}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                graphs = Checked(**{key: option for key, option in given.items() if key in takes})
        except UserError:
            raise
        except Exception as error:  # readers and downloads raise errors of many kinds
            raise UserError(
                f"--pyg {spec}: PyTorch Geometric cannot download or read it "
                f"({type(error).__name__}: {error}); check the name, or supply its raw files below "
                f"{given['root']}"
            ) from error
    if len(graphs) != 1:
        raise UserError(f"--pyg {spec}: found {len(graphs)} graphs, expected one of labelled nodes")
    data = graphs[0]
    splits = first_split(data)
    return from_pyg(
        data, name, title=f"{spec} of PyTorch Geometric", sources=sources,
        preprocessing=[f"graph: {spec} of PyTorch Geometric, as it is read there", *splits],
        citation=f"torch_geometric.datasets.{kind}",
    )  # fmt: skip


def first_split(data: Data) -> list[str]:
    """Keep the first of several splits, and return sentences that say so."""
    sentences = []
    for key in FILE_MASKS:
        mask = data.get(key)
        if isinstance(mask, torch.Tensor) and mask.dim() == 2 and mask.shape[1]:
            data[key] = mask[:, 0]
            sentences.append(f"{key}: the first of {mask.shape[1]}")
    return sentences


def saved_graph(path: Path) -> Data:
    """Return the graph that PyTorch Geometric saved: a ``Data``, or a dataset of one graph.

    PyTorch builds tensors, plain values and the classes of a graph alone, and refuses all else of
    the pickle before it runs.

    Raises:
        UserError: the file is missing, hostile or malformed, or holds several graphs.
    """
    try:
        _require_sizes(path)
        with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a malformed file can raise almost anything
        raise _unreadable(path, error) from error
    if isinstance(content, tuple) and any(part is not None for part in content[1:2]):
        raise UserError(f"{path}: holds several graphs, expected one of labelled nodes")
    try:
        if isinstance(content, tuple):  # of an InMemoryDataset: graph, where graphs begin, class
            content = content[0]
        if isinstance(content, dict):
            content = Data.from_dict(content)
        for key, value in content.to_dict().items():  # a tensor may lack its storage
            held = isinstance(value, torch.Tensor) and value.layout == torch.strided
            if held and value.nbytes > _MOST_REPEATED * value.untyped_storage().nbytes():
                raise ValueError(f"{key} repeats its numbers {tuple(value.shape)}")
    except Exception as error:
        raise _unreadable(path, error) from error
    return content


def _require_sizes(path: Path) -> None:
    """Raise ValueError for a file that would take far more memory than it has bytes."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
                raise ValueError("it unpacks to more bytes than it has")
            pickles = b"".join(map(archive.read, fnmatch.filter(archive.namelist(), "*.pkl")))
    else:  # as PyTorch wrote before 1.6
        pickles = path.read_bytes()
    if b"bytearray" in pickles:  # of any length, in a few bytes
        raise ValueError("it asks for memory that holds no tensor")


def _unreadable(path: Path, error: Exception) -> UserError:
    reason = str(error.__context__ or error).partition(". ")[0]  # without PyTorch's advice
    return UserError(
        f"{path}: cannot be read as a graph of PyTorch Geometric ({type(error).__name__}: "
        f"{reason}), nothing of it was run; supply the original file"
    )


def _is_offered(kind: str) -> bool:
    parent = getattr(torch_geometric.datasets, kind)
    from_files = inspect.isclass(parent) and issubclass(parent, InMemoryDataset)
    return from_files and "root" in inspect.signature(parent).parameters


@cache
def _watched() -> list[str]:
    """Return the mutable list of datasets now being read, whose pickles are refused."""
    reading: list[str] = []

    def refuse(event: str, _: tuple) -> None:
        if reading and event == "pickle.find_class":
            raise UserError(
                f"--pyg {reading[0]}: its raw files are pickles, which can run code; expected "
                "those whose sha256 data/sources.yaml lists"
            )

    sys.addaudithook(refuse)  # hooks cannot be removed, so there is only one, added when needed
    return reading


@contextmanager
def _without_pickles(spec: str) -> Iterator[None]:
    """Refuse every pickle that imports a name, as every pickle that can run code does."""
    _watched().append(spec)
    try:
        yield
    finally:
        _watched().remove(spec)
