"""Embedded dataset in the Planetoid raw format: protocol-2 pickles with the originals' globals.

Pickles are written opcode by opcode, because the bytes of ``pickle.dumps`` depend on the versions
of NumPy and SciPy; the files must have the sha256 that ``data/embedded/SHA256SUMS`` lists.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import scipy.sparse
from citations import CitationModel, draw

N_TEST = 1000
LABELLED_PER_CLASS = 20


def _global(module: str, name: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{name}\n".encode("ascii")


def _value(value: Any) -> bytes:
    """Return the opcodes that push a small plain value, a tuple of such, an array or a dict."""
    if value is None:
        return pickle.NONE
    if isinstance(value, bool):
        return pickle.NEWTRUE if value else pickle.NEWFALSE
    if isinstance(value, int):
        return pickle.BININT + struct.pack("<i", value)
    if isinstance(value, str):
        raw = value.encode("ascii")
        return pickle.SHORT_BINSTRING + struct.pack("<B", len(raw)) + raw
    if isinstance(value, bytes):
        return pickle.BINSTRING + struct.pack("<i", len(value)) + value
    if isinstance(value, np.ndarray):
        return _array(value)
    return pickle.MARK + b"".join(_value(item) for item in value) + pickle.TUPLE


def _call(function: bytes, *arguments: Any) -> bytes:
    packed = [item if isinstance(item, _Opcodes) else _value(item) for item in arguments]
    return function + pickle.MARK + b"".join(packed) + pickle.TUPLE + pickle.REDUCE


class _Opcodes(bytes):
    """Opcodes that push one object, in contrast to bytes that are the object."""


def _array(array: np.ndarray) -> bytes:
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    code = f"{array.dtype.kind}{array.dtype.itemsize}"
    dtype = _call(_global("numpy", "dtype"), code, 0, 1)
    dtype += _value((3, "<", None, None, None, -1, -1, 0)) + pickle.BUILD
    empty = _call(
        _global("numpy.core.multiarray", "_reconstruct"),
        _Opcodes(_global("numpy", "ndarray")),
        (0,),
        "b",
    )
    state = _value(1) + _value(array.shape) + dtype + _value(False) + _value(array.tobytes())
    return empty + pickle.MARK + state + pickle.TUPLE + pickle.BUILD


def _pickle(body: bytes) -> bytes:
    return pickle.PROTO + b"\x02" + body + pickle.STOP


def pickled_array(array: np.ndarray) -> bytes:
    """Pickle an array of numbers."""
    return _pickle(_array(array))


def pickled_csr(matrix: scipy.sparse.csr_matrix) -> bytes:
    """Pickle a CSR matrix with float32 values and int32 indices."""
    state = {
        "format": "csr",
        "_shape": tuple(int(size) for size in matrix.shape),
        "maxprint": 50,
        "indptr": matrix.indptr.astype(np.int32),
        "indices": matrix.indices.astype(np.int32),
        "data": matrix.data.astype(np.float32),
    }
    items = b"".join(_value(key) + _value(value) for key, value in state.items())
    body = _global("scipy.sparse.csr", "csr_matrix") + pickle.EMPTY_TUPLE + pickle.NEWOBJ
    body += pickle.EMPTY_DICT + pickle.MARK + items + pickle.SETITEMS + pickle.BUILD
    return _pickle(body)


def pickled_adjacency(neighbours: Mapping[int, Iterable[int]]) -> bytes:
    """Pickle a ``defaultdict(list)`` from node ids to neighbour ids."""
    body = _call(_global("collections", "defaultdict"), _Opcodes(_global("__builtin__", "list")))
    items = []
    for node, others in neighbours.items():
        pushed = b"".join(_value(int(other)) for other in others)
        items.append(_value(int(node)) + pickle.EMPTY_LIST + pickle.MARK + pushed + pickle.APPENDS)
    return _pickle(body + pickle.MARK + b"".join(items) + pickle.SETITEMS)


def _planetoid_order(labels: np.ndarray) -> np.ndarray:
    """Return old ids in new order: 20 labelled nodes per class first, 1,000 test nodes last."""
    candidates = np.arange(len(labels) - N_TEST)
    first = [
        candidates[labels[candidates] == label][:LABELLED_PER_CLASS]
        for label in range(labels.max() + 1)
    ]
    labelled = np.concatenate(first)
    rest = np.setdiff1d(np.arange(len(labels)), labelled)
    return np.concatenate([labelled, rest])


def planetoid_bytes(model: CitationModel) -> dict[str, bytes]:
    """Return the eight files ``ind.synthetic.*`` of a graph in the Planetoid raw format."""
    graph = draw(model)
    order = _planetoid_order(graph.labels)
    new_id = np.argsort(order)
    features, labels = graph.features[order], graph.labels[order]
    one_hot = np.eye(len(model.class_weights), dtype=np.int32)[labels]
    n_labelled, n_known = LABELLED_PER_CLASS * one_hot.shape[1], model.nodes - N_TEST
    # As in the original files, the rows of tx are not in the order of the ids.
    test_index = n_known + np.random.RandomState(model.seed + 1).permutation(N_TEST)
    neighbours: dict[int, list[int]] = {node: [] for node in range(model.nodes)}
    for citing, cited in zip(new_id[graph.citing], new_id[graph.cited], strict=True):
        neighbours[int(citing)].append(int(cited))
        neighbours[int(cited)].append(int(citing))
    return {
        "ind.synthetic.x": pickled_csr(features[:n_labelled]),
        "ind.synthetic.y": pickled_array(one_hot[:n_labelled]),
        "ind.synthetic.tx": pickled_csr(features[test_index]),
        "ind.synthetic.ty": pickled_array(one_hot[test_index]),
        "ind.synthetic.allx": pickled_csr(features[:n_known]),
        "ind.synthetic.ally": pickled_array(one_hot[:n_known]),
        "ind.synthetic.graph": pickled_adjacency(neighbours),
        "ind.synthetic.test.index": "".join(f"{node}\n" for node in test_index).encode(),
    }
