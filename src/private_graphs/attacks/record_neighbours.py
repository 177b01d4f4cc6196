"""Neighbours of a dataset of any framework: one record is replaced, removed or never joins."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, TensorDataset

from private_graphs.core.errors import UsageError

RELATIONS = ("replace", "zero_out", "add_remove")
_MANY = 64
"""Most records that ``far_data`` replaces: each takes a copy of the data."""
FAR = 100.0
"""How many times the largest value an extreme number is."""


@dataclass
class Change:
    """A neighbouring dataset: ``data``, the ``place`` of the record that differs, and ``how``."""

    data: Any
    place: int
    how: str


class ChangedDataset(Dataset[Any]):
    """A map-style dataset with one item replaced, or left out if there is no other."""

    def __init__(self, data: Any, index: int, item: Any = None) -> None:
        self.data, self.place, self.item = data, index, item

    def __len__(self) -> int:
        return len(self.data) - (self.item is None)

    def __getitem__(self, index: int) -> Any:
        if self.item is None:
            return self.data[index + (index >= self.place)]
        return self.item if index == self.place else self.data[index]


def size_of(data: Any) -> int:
    """Return the number of records: nodes of a PyG graph, else the length."""
    nodes = getattr(data, "num_nodes", None)
    return int(len(data) if nodes is None else nodes)


def record_neighbours(data: Any, count: int, relation: str, seed: int = 0) -> Iterator[Change]:
    """Yield ``count`` neighbours of ``data``, at places drawn with ``seed``.

    ``replace``: by turns an *extreme* record (numbers ``FAR`` times the largest, another label, a
    long sequence or text) and *another record*; ``zero_out``: the record never joins, and n is
    public; ``add_remove``: the record is removed. Data: tensors, arrays, lists, map-style
    datasets, or a graph of PyG.

    Raises:
        UsageError: the relation is none of these, or there is no record.
    """
    if relation not in RELATIONS:
        raise UsageError(f"relation is {relation!r}; expected one of {', '.join(RELATIONS)}")
    if not (hasattr(data, "__len__") and size_of(data)):
        raise UsageError(
            f"the data ({type(data).__name__}) have no records; expected a tensor, array, list, "
            "dataset with a length or graph of one or more"
        )
    n, draws = size_of(data), np.random.default_rng(seed)
    places = draws.permutation(n)[:count] if count <= n else draws.integers(n, size=count)
    for number, index in enumerate(map(int, places)):
        if relation == "add_remove":
            yield Change(_removed(data, index), index, "removed")
        elif relation == "zero_out":
            yield Change(data, index, "left out")
        else:
            how = ("extreme", "other")[number % 2]
            yield Change(_replaced(data, index, int(draws.integers(n)), how), index, how)


def far_data(data: Any, seed: int = 0) -> Any:
    """Return ``data`` with many records replaced, by turns extreme and another record.

    What is equal to the bit for all neighbours is so for data that a chain of neighbours reaches.
    """
    n, draws = size_of(data), np.random.default_rng([seed, 1])
    original = data
    for number, index in enumerate(map(int, draws.permutation(n)[:_MANY])):
        how = ("other", "extreme")[number % 2]
        donor = int(draws.integers(size_of(original)))
        data = _replaced(data, index, donor, how)
    return data


def _replaced(data: Any, index: int, donor: int, how: str) -> Any:
    if isinstance(data, TensorDataset):
        columns = [column.clone() for column in data.tensors]
        for column in columns:
            column[index] = column[donor] if how == "other" else _extreme(column, column[index])
        return TensorDataset(*columns)
    if hasattr(data, "edge_index"):
        return _rewired(data, index, donor, how)
    if isinstance(data, np.ndarray):
        rows = data.copy()
        rows[index] = data[donor] if how == "other" else -FAR * np.abs(data).max()
        return rows
    item = copy.deepcopy(data[donor]) if how == "other" else _odd(data[index], data[donor])
    if isinstance(data, list | tuple):
        return type(data)([*data[:index], item, *data[index + 1 :]])
    return ChangedDataset(data, index, item)


def _rewired(graph: Any, node: int, donor: int, how: str) -> Any:
    """Replace a node of a PyG graph: its columns, and its edges; an extreme node is a hub."""
    graph, nodes = graph.clone(), graph.num_nodes
    for name, column in graph:
        if torch.is_tensor(column) and column.shape[:1] == (nodes,) and "mask" not in name:
            column[node] = column[donor] if how == "other" else _extreme(column, column[node])
    friends = torch.arange(nodes)[:50] if how == "extreme" else torch.tensor([donor])
    edges = torch.stack([friends, torch.full_like(friends, node)])
    others = graph.edge_index[:, (graph.edge_index != node).all(0)]
    graph.edge_index = torch.cat([others, edges, edges.flip(0)], 1)
    return graph


def _extreme(column: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    """Return values far from ``row``; whole numbers stay between those of ``column``."""
    if column.is_floating_point():
        largest = column.abs().max().clamp(min=1)
        return -FAR * largest * torch.where(row == 0, 1, row.sign())
    low, high = column.min(), column.max()
    return torch.where(row == high, low, high).to(row.dtype)


def _odd(row: Any, donor: Any) -> Any:
    """Return an odd record of the type of ``row``: far, or long; a label is that of ``donor``."""
    if isinstance(row, str):
        return "zzzzqq " * 200 + donor
    if isinstance(row, torch.Tensor):
        if row.is_floating_point():
            return row * -FAR
        return torch.cat([row] * 5) if row.ndim == 1 else donor
    if isinstance(row, np.ndarray) and np.issubdtype(row.dtype, np.floating):
        return row * -FAR
    if isinstance(row, float):
        return -FAR * (row or 1.0)
    if isinstance(row, list | tuple):
        return type(row)(_odd(*pair) for pair in zip(row, donor, strict=False))
    if isinstance(row, dict):
        return {name: _odd(value, donor[name]) for name, value in row.items()}
    return donor


def _removed(data: Any, index: int) -> Any:
    if isinstance(data, TensorDataset):
        return TensorDataset(
            *(torch.cat([column[:index], column[index + 1 :]]) for column in data.tensors)
        )
    if hasattr(data, "edge_index"):
        return data.subgraph(torch.arange(data.num_nodes) != index)
    if isinstance(data, np.ndarray):
        return np.delete(data, index, 0)
    if isinstance(data, list | tuple):
        return type(data)([*data[:index], *data[index + 1 :]])
    return ChangedDataset(data, index)
