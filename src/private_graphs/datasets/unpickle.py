"""Reading pickles, those of Planetoid above all, without running anything that they contain.

A pickle is a program. This unpickler accepts exactly the globals that such files use and replaces
each with an inert stand-in, so that not even the constructors of NumPy and SciPy run on untrusted
arguments: what a Planetoid file can build is a list, a dict, plain values, and arrays and CSR
matrices that are checked here.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from private_graphs.datasets.arrays import checked_csr
from private_graphs.errors import UserError

MAX_BYTES = 256 * 2**20
"""Largest pickle that is read; the largest Planetoid file has 7.6 MB."""

_DTYPES = frozenset({"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"})
# Extension codes are resolved through a process-wide cache that bypasses find_class.
_REFUSED_OPCODES = frozenset({"EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID", "NEXT_BUFFER"})
_MEMO_OPCODES = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})


class Called:
    """Stand-in for an accepted global that a pickle may call, and do nothing else with."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("the file tries to change a function")


class Mentioned:
    """Stand-in for an accepted global that a pickle may only mention."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError(f"the file tries to change {self.name}")


class _DType:
    """Stand-in for ``numpy.dtype``: one of the plain number types."""

    __slots__ = ("code", "order")

    def __init__(self, code: Any, align: Any = 0, copy: Any = 0) -> None:
        if not isinstance(code, str) or code not in _DTYPES:
            raise pickle.UnpicklingError(
                f"array type {str(code)[:40]!r}, expected one of {', '.join(sorted(_DTYPES))}"
            )
        self.code, self.order = code, "<"

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) < 5 or state[1] not in ("<", ">", "|"):
            raise pickle.UnpicklingError("malformed state of a numpy.dtype")
        if any(part is not None for part in state[2:5]):
            raise pickle.UnpicklingError("a structured array type, expected plain numbers")
        self.order = state[1]

    def numpy(self) -> np.dtype:
        return np.dtype(self.order + self.code)


class _Array:
    """Stand-in for ``numpy.ndarray``: its state is checked and read as raw bytes."""

    __slots__ = ("value",)

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise pickle.UnpicklingError("malformed state of a numpy.ndarray")
        _, shape, dtype, fortran, raw = state
        raw = raw.encode("latin1") if isinstance(raw, str) else raw
        plain_shape = isinstance(shape, tuple) and all(
            type(size) is int and size >= 0 for size in shape
        )
        if not plain_shape or not isinstance(dtype, _DType) or not isinstance(raw, bytes):
            raise pickle.UnpicklingError("malformed state of a numpy.ndarray")
        expected = math.prod(shape) * dtype.numpy().itemsize
        if len(raw) != expected:
            raise pickle.UnpicklingError(
                f"an array of shape {shape} has {len(raw)} bytes, expected {expected}"
            )
        flat = np.frombuffer(raw, dtype=dtype.numpy())
        array = flat.reshape(shape, order="F" if fortran else "C")
        self.value = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


class _CsrMatrix:
    """Stand-in for ``scipy.sparse.csr_matrix``: keeps the state, which the reader checks."""

    __slots__ = ("state",)

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict):
            raise pickle.UnpicklingError("malformed state of a scipy csr_matrix")
        self.state = state


_NDARRAY = Mentioned("numpy.ndarray")


def _new_list(*arguments: Any) -> list:
    if arguments:
        raise pickle.UnpicklingError("list with arguments, expected an empty list")
    return []


_LIST = Called(_new_list)


def _new_defaultdict(*arguments: Any) -> dict:
    if arguments != (_LIST,):
        raise pickle.UnpicklingError("a defaultdict that is not one of lists")
    return {}


def _new_array(*arguments: Any) -> _Array:
    if len(arguments) != 3 or arguments[0] is not _NDARRAY or arguments[1] != (0,):
        raise pickle.UnpicklingError("malformed reconstruction of a numpy.ndarray")
    return _Array()


_RECONSTRUCT, _DTYPE = Called(_new_array), Called(_DType)
ACCEPTED_GLOBALS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _DTYPE,
    ("scipy.sparse.csr", "csr_matrix"): _CsrMatrix,
    ("scipy.sparse._csr", "csr_matrix"): _CsrMatrix,
    ("collections", "defaultdict"): Called(_new_defaultdict),
    ("__builtin__", "list"): _LIST,
    ("builtins", "list"): _LIST,
}
"""(module, name) of the globals of the Planetoid files, then and now, and their stand-ins."""


class _Restricted(pickle.Unpickler):
    def __init__(
        self,
        data: bytes,
        where: str,
        kind: str,
        accepted: Mapping[tuple[str, str], Any],
        referred: Callable[[Any], Any] | None,
    ) -> None:
        super().__init__(io.BytesIO(data), encoding="latin1")
        self._where, self._kind, self._accepted = where, kind, accepted
        self._referred = referred

    def find_class(self, module: str, name: str) -> Any:
        stand_in = self._accepted.get((module, name))
        if stand_in is None:
            asked = f"{module}.{name}"[:100]
            raise UserError(
                f"{self._where}: refused, nothing was run: the pickle asks for the global "
                f"{asked!r}, expected only those of a {self._kind} "
                f"({', '.join('.'.join(pair) for pair in self._accepted)}); "
                "delete the file and supply the original again"
            )
        return stand_in

    def persistent_load(self, pid: Any) -> Any:
        if self._referred is None:
            raise pickle.UnpicklingError("a reference to something outside the pickle")
        return self._referred(pid)


def _scan(data: bytes, refused: frozenset[str]) -> None:
    """Refuse opcodes that find_class does not see and memo ids that would exhaust memory."""
    for opcode, argument, position in pickletools.genops(data):
        if opcode.name in refused:
            raise pickle.UnpicklingError(f"forbidden opcode {opcode.name} at byte {position}")
        if opcode.name in _MEMO_OPCODES and argument > len(data):
            raise pickle.UnpicklingError(f"memo id {argument} at byte {position} is too large")
        if opcode.name == "STOP" and position + 1 != len(data):
            raise pickle.UnpicklingError(f"{len(data) - position - 1} bytes after the end")


def unpickled(
    data: bytes,
    where: str,
    kind: str,
    accepted: Mapping[tuple[str, str], Any],
    referred: Callable[[Any], Any] | None = None,
) -> Any:
    """Return the object of a pickle, built of stand-ins.

    Args:
        data: the pickle. where, kind: its file and what it should be, for error messages.
        accepted: (module, name) of the globals that may occur, and their stand-ins.
        referred: what a persistent id stands for; None: there may be none.

    Raises:
        UserError: the pickle asks for something else, or is malformed.
    """
    try:
        _scan(data, _REFUSED_OPCODES - ({"BINPERSID"} if referred else set()))
        return _Restricted(data, where, kind, accepted, referred).load()
    except UserError:
        raise
    except Exception as error:  # a malformed pickle can raise almost anything
        raise UserError(
            f"{where}: not a readable {kind} ({type(error).__name__}: {str(error)[:200]}), nothing "
            "was run; delete the file and supply the original again"
        ) from error


def _load(path: Path) -> Any:
    """Return the object of a pickle, with stand-ins for arrays and matrices."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise UserError(
                f"{path}: {size} bytes, expected at most {MAX_BYTES}; "
                "this is not a Planetoid file, supply the original again"
            )
        data = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror or error}); supply the raw file"
        ) from error
    return unpickled(data, str(path), "Planetoid file", ACCEPTED_GLOBALS)


def _wrong_kind(path: Path, found: Any, expected: str) -> UserError:
    kind = {_Array: "an array", _CsrMatrix: "a CSR matrix"}.get(type(found), type(found).__name__)
    return UserError(f"{path}: holds {kind}, expected {expected}; supply the original file again")


def _array(found: Any, path: Path, expected: str) -> np.ndarray:
    if not isinstance(found, _Array) or not hasattr(found, "value"):
        raise _wrong_kind(path, found, expected)
    return found.value


def load_array(path: Path) -> np.ndarray:
    """Read a pickled plain array.

    Raises:
        UserError: the file is missing, hostile, malformed, or holds something else.
    """
    return _array(_load(Path(path)), Path(path), "an array of numbers")


def load_csr(path: Path) -> scipy.sparse.csr_matrix:
    """Read a pickled CSR matrix (a dense array is accepted too), checked and canonical.

    Raises:
        UserError: the file is missing, hostile, malformed, or its parts contradict each other.
    """
    path = Path(path)
    found = _load(path)
    if isinstance(found, _Array):
        dense = _array(found, path, "a CSR matrix")
        if dense.ndim != 2 or not np.all(np.isfinite(dense)):
            raise UserError(f"{path}: shape {dense.shape}, expected a matrix of finite numbers")
        return scipy.sparse.csr_matrix(dense)
    if not isinstance(found, _CsrMatrix) or not hasattr(found, "state"):
        raise _wrong_kind(path, found, "a CSR matrix")
    parts = []
    for key in ("data", "indices", "indptr"):
        parts.append(_array(found.state.get(key), path, f"a CSR matrix with the array {key!r}"))
    shape = found.state.get("_shape")
    if not isinstance(shape, tuple) or not all(type(size) is int for size in shape):
        raise _wrong_kind(path, shape, "a CSR matrix with a shape of two integers")
    return checked_csr(*parts, shape, where=str(path))


def load_adjacency(path: Path) -> dict[int, list[int]]:
    """Read a pickled dict of neighbour lists, node id -> ids.

    Raises:
        UserError: the file is missing, hostile, malformed, or holds something else.
    """
    path = Path(path)
    found = _load(path)
    expected = "a dict from node ids to lists of node ids"
    if not isinstance(found, dict):
        raise _wrong_kind(path, found, expected)
    for node, neighbours in found.items():
        if type(node) is not int or not isinstance(neighbours, list):
            raise UserError(f"{path}: entry {str(node)[:40]!r} is wrong, expected {expected}")
        if not all(type(neighbour) is int for neighbour in neighbours):
            raise UserError(f"{path}: neighbours of node {node} are not all ids of nodes")
    return found
