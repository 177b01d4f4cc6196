"""MATLAB 5 files: the same arrays as SciPy reads, and damage that ends SciPy's process."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import loadmat, savemat

from private_graphs.core.errors import UserError
from private_graphs.datasets.matlab import read_array

RNG = np.random.default_rng(0)
ARRAYS = {
    "text": "abc", "cell": np.array([[{"a": 1}, "x"]], object), "complex": np.array([[1j]]),
    "X": RNG.integers(9, size=(3, 4, 2, 5), dtype=np.uint8), "small": np.array([[-7]], np.int16),
    "s": sp.random(7, 4, 0.3, "csc", random_state=RNG), "none": sp.csc_matrix((3, 2)),
    "flag": np.array([[True, False]]), "long": RNG.random((9, 999)).astype(np.float32),
}  # fmt: skip


def dense(array) -> np.ndarray:
    return array.toarray() if sp.issparse(array) else array


@pytest.mark.parametrize("packed", [False, True])
def test_arrays_are_those_that_scipy_reads(packed, tmp_path: Path):
    path = tmp_path / "x.mat"
    savemat(path, ARRAYS, do_compression=packed)
    for name, expected in loadmat(path, variable_names=list(ARRAYS)).items():
        if name in ("text", "cell", "complex"):
            with pytest.raises(UserError, match=r"x\.mat: .*expected those of real numbers"):
                read_array(path, name)
        elif name in ARRAYS:
            found = read_array(path, name)
            assert found.dtype == expected.dtype and sp.issparse(found) == sp.issparse(expected)
            assert np.array_equal(dense(found), dense(expected)), name
    assert read_array(path, "absent") is None


def test_the_other_byte_order(tmp_path: Path):
    def element(kind: int, values: np.ndarray) -> bytes:
        content = values.astype(values.dtype.newbyteorder(">")).tobytes()
        return np.array([kind, len(content)], ">u4").tobytes() + content + bytes(-len(content) % 8)

    parts = (
        (6, np.array([6, 0], np.uint32)), (5, np.array([2, 3], np.int32)),
        (1, np.frombuffer(b"X", np.int8)), (4, np.arange(250, 256, dtype=np.uint16)),
    )  # fmt: skip
    whole = b"".join(element(*part) for part in parts)
    (tmp_path / "x.mat").write_bytes(
        bytes(124) + b"\1\0MI" + element(14, np.frombuffer(whole, np.uint8))
    )
    assert read_array(tmp_path / "x.mat", "X").tolist() == [[250, 252, 254], [251, 253, 255]]


@pytest.mark.parametrize("packed", [False, True])
def test_damage_is_refused_or_changes_numbers_alone(packed, tmp_path: Path):
    """At some of these bytes SciPy 1.17 ends the interpreter by a segmentation fault."""
    stream, path = io.BytesIO(), tmp_path / "x.mat"
    content = {"info": np.ones((4, 7), np.uint16), "A": sp.eye_array(4, format="csc")}
    savemat(stream, content, do_compression=packed)
    whole = stream.getvalue()
    for place in range(126, len(whole)):
        path.write_bytes(whole[:place] + b"\x08" + whole[place + 1 :])
        for name in content:
            try:
                read_array(path, name)
            except UserError as error:
                assert str(error).startswith(str(path))
    path.write_bytes(whole[:-60])
    with pytest.raises(UserError, match=r"x\.mat: cannot be read as a MATLAB 5 file"):
        read_array(path, "A")
