"""Reading the tensors of a PyTorch file without running anything that it contains.

``torch.save`` writes a zip archive: a pickle, and the numbers of each tensor as a member of its
own. The pickle goes through the restricted unpickler; PyTorch is not asked.
"""

from __future__ import annotations

import math
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from private_graphs.datasets.unpickle import MAX_BYTES, Called, Mentioned, unpickled
from private_graphs.datasets.zipped import MAX_MEMBER_BYTES, member, opened, readable
from private_graphs.errors import UserError

_TYPES = {
    "FloatStorage": "<f4", "DoubleStorage": "<f8", "BoolStorage": "|b1", "ByteStorage": "|u1",
    "CharStorage": "|i1", "ShortStorage": "<i2", "IntStorage": "<i4", "LongStorage": "<i8",
}  # fmt: skip
_STORAGES = {name: Mentioned(f"torch.{name}") for name in _TYPES}


class _Object:
    """Stand-in for the graph and its parts: keeps the state, which is looked through."""

    __slots__ = ("state",)

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict):
            raise pickle.UnpicklingError("malformed state of a graph")
        self.state = state


class _Tensor:
    """Stand-in for a tensor."""

    __slots__ = ("value",)

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("the file tries to change a tensor")


class _Numbers:
    """Stand-in for a storage: the numbers of one tensor, or of several."""

    __slots__ = ("value",)

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("the file tries to change the numbers of a tensor")


def _naturals(values: Any) -> bool:
    return isinstance(values, tuple) and all(type(each) is int and each >= 0 for each in values)


def _rebuilt(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> _Tensor:
    """Stand-in for ``_rebuild_tensor_v2``: a view of numbers that are all in the storage."""
    if not (
        isinstance(storage, _Numbers)
        and _naturals((offset,))
        and _naturals(shape)
        and _naturals(strides)
        and len(shape) == len(strides)
    ):
        raise pickle.UnpicklingError("malformed tensor")
    size, numbers = math.prod(shape), storage.value
    last = offset + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    if size > len(numbers) or (size and last >= len(numbers)):
        raise pickle.UnpicklingError(
            f"a tensor of shape {shape} does not fit into its {len(numbers)} numbers"
        )
    if not size:
        return _Tensor(np.zeros(shape, numbers.dtype))
    steps = [stride * numbers.itemsize for stride in strides]
    return _Tensor(np.lib.stride_tricks.as_strided(numbers[offset:], shape, steps, writeable=False))


def _no_hooks(*arguments: Any) -> dict:
    if arguments:
        raise pickle.UnpicklingError("hooks of a tensor, expected none")
    return {}


_GRAPH = "torch_geometric.data"
ACCEPTED: dict[tuple[str, str], Any] = {
    (f"{_GRAPH}.data", "Data"): _Object,
    (f"{_GRAPH}.storage", "GlobalStorage"): _Object,
    (f"{_GRAPH}.data", "DataEdgeAttr"): Mentioned("DataEdgeAttr"),
    (f"{_GRAPH}.data", "DataTensorAttr"): Mentioned("DataTensorAttr"),
    ("torch._utils", "_rebuild_tensor_v2"): Called(_rebuilt),
    ("collections", "OrderedDict"): Called(_no_hooks),
    **{("torch", name): stand_in for name, stand_in in _STORAGES.items()},
}
"""(module, name) of the globals of a graph that PyTorch Geometric saved, and their stand-ins."""


class _Storages:
    """The members of an archive that hold numbers, each read once."""

    def __init__(self, archive: zipfile.ZipFile, folder: str, where: str) -> None:
        self._archive, self._folder, self._where = archive, folder, where
        self._read: dict[tuple[str, str], _Numbers] = {}
        self._left = MAX_MEMBER_BYTES  # of all members together

    def __call__(self, reference: Any) -> _Numbers:
        """Return what a reference ('storage', type, key, device, count) stands for."""
        kinds = {id(stand_in): name for name, stand_in in _STORAGES.items()}
        if not isinstance(reference, tuple) or len(reference) != 5 or reference[0] != "storage":
            raise pickle.UnpicklingError("malformed reference to numbers")
        _, kind, key, _, count = reference
        name = kinds.get(id(kind))
        if name is None or not isinstance(key, str) or not key.isdecimal():
            raise pickle.UnpicklingError("malformed reference to numbers")
        if (name, key) not in self._read:
            dtype = np.dtype(_TYPES[name])
            found = member(self._archive, f"{self._folder}data/{key}", self._where)
            if type(count) is not int or found.file_size != count * dtype.itemsize:
                raise pickle.UnpicklingError(
                    f"{found.filename} has {found.file_size} bytes, expected {count} numbers of "
                    f"{dtype.itemsize} bytes"
                )
            self._left -= found.file_size
            if self._left < 0:
                raise pickle.UnpicklingError(f"more than {MAX_MEMBER_BYTES} bytes of numbers")
            self._read[name, key] = _Numbers(np.frombuffer(self._archive.read(found), dtype))
        return self._read[name, key]


def graph_tensors(path: Path) -> dict[str, np.ndarray]:
    """Return the tensors of a graph that PyTorch Geometric saved, by name.

    Raises:
        UserError: the file is missing, hostile or malformed, or holds something else.
    """
    path = Path(path)
    with opened(path) as archive:
        pickles = [each for each in archive.namelist() if each.split("/")[1:] == ["data.pkl"]]
        if len(pickles) != 1:
            raise UserError(
                f"{path}: holds {len(pickles)} files NAME/data.pkl, expected one, as torch.save "
                "writes; supply the authors' file"
            )
        found = member(archive, pickles[0], str(path))
        if found.file_size > MAX_BYTES:
            raise UserError(
                f"{path}: {found.filename} has {found.file_size} bytes, expected at most "
                f"{MAX_BYTES}; supply the authors' file"
            )
        folder = pickles[0].removesuffix("data.pkl")
        if f"{folder}byteorder" in archive.namelist():
            told = member(archive, f"{folder}byteorder", str(path))
            with readable(str(path)), archive.open(told) as stream:
                order = stream.read(16)
            if order != b"little":
                raise UserError(f"{path}: numbers are in the order {order!r}, expected b'little'")
        with readable(str(path)):
            graph = unpickled(
                archive.read(found), str(path), "graph of PyTorch Geometric", ACCEPTED,
                _Storages(archive, folder, str(path)),
            )  # fmt: skip
    # A graph of version 2 keeps its tensors in a storage; before that, they were its own state.
    state = getattr(graph, "state", None) if isinstance(graph, _Object) else None
    inner = (state or {}).get("_store")
    if isinstance(inner, _Object):
        state = getattr(inner, "state", {}).get("_mapping")
    if not isinstance(state, dict):
        raise UserError(f"{path}: holds no graph of PyTorch Geometric; supply the authors' file")
    return {key: each.value for key, each in state.items() if isinstance(each, _Tensor)}
