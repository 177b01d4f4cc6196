"""The restricted unpickler: what it reads, and that hostile files are refused and run nothing."""

from __future__ import annotations

import builtins
import collections
import copyreg
import os
import pickle
import struct
import subprocess

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from private_graphs.datasets import unpickle
from private_graphs.datasets.planetoid_writer import (
    pickled_adjacency,
    pickled_array,
    pickled_csr,
)
from private_graphs.datasets.unpickle import load_adjacency, load_array, load_csr
from private_graphs.errors import UserError

LOADERS = (load_array, load_csr, load_adjacency)


class Call:
    """Pickles as a call of ``function(*arguments)``."""

    def __init__(self, function, *arguments):
        self.reduced = (function, arguments)

    def __reduce__(self):
        return self.reduced


def refused(tmp_path, content: bytes) -> str:
    """Every loader refuses the content with a message that names the file; return the message."""
    path = tmp_path / "ind.evil.x"
    path.write_bytes(content)
    messages = []
    for load in LOADERS:
        with pytest.raises(UserError) as raised:
            load(path)
        messages.append(str(raised.value))
        assert str(path) in messages[-1]
    return messages[0]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    ("function", "name"),
    [
        (os.system, "system"),
        (builtins.eval, "eval"),
        (builtins.getattr, "getattr"),
        (builtins.__import__, "__import__"),
        (subprocess.Popen, "Popen"),
    ],
)
def test_a_call_of_anything_else_is_named_and_does_not_run(tmp_path, protocol, function, name):
    victim = tmp_path / "victim"
    victim.write_text("still here")
    argument = {
        "eval": f"__import__('os').remove({str(victim)!r})",
        "exec": f"__import__('os').remove({str(victim)!r})",
        "remove": str(victim),
    }.get(name, f"rm {victim}")
    message = refused(tmp_path, pickle.dumps(Call(function, argument), protocol=protocol))
    assert name in message and "asks for the global" in message and "nothing was run" in message
    assert victim.exists()


def test_a_forbidden_global_is_found_wherever_it_hides(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("still here")
    call = Call(os.remove, str(victim))
    nests = [
        [call],
        {"graph": [0, {1: (2, call)}]},
        collections.defaultdict(list, {0: [call]}),
        Call(copyreg._reconstructor, Call, object, None),
        {call: 1},
    ]
    for nest in nests:
        message = refused(tmp_path, pickle.dumps(nest, protocol=2))
        assert "refused" in message
    assert victim.exists()


@pytest.mark.parametrize(
    "opcodes",
    [
        b"c__builtin__\nlist.__class__\n.",
        b"\x80\x04\x8c\x08builtins\x8c\x0elist.__class__\x93.",
        b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.",
        b"cnumpy.core.multiarray\nfromfile\n.",
        b"ccopy_reg\n_reconstructor\n.",
        b"cscipy.sparse.csr\ncsc_matrix\n.",
        b"cnumpy\ncore.multiarray._reconstruct\n.",
        b"(ios\nsystem\n.",
        b"(cos\nsystem\no.",
    ],
)
def test_near_misses_of_the_accepted_globals_are_refused(tmp_path, opcodes):
    assert "asks for the global" in refused(tmp_path, opcodes)


@pytest.mark.parametrize("code", [b"\x82\x01", b"\x83\x01\x00", b"\x84\x01\x00\x00\x00"])
def test_extension_codes_are_refused_even_when_registered_and_cached(tmp_path, code):
    copyreg.add_extension("os", "system", 1)
    copyreg._extension_cache[1] = os.system
    try:
        victim = tmp_path / "victim"
        victim.write_text("still here")
        argument = f"rm {victim}".encode()
        call = b"(U" + struct.pack("<B", len(argument)) + argument + b"tR."
        message = refused(tmp_path, b"\x80\x02" + code + call)
        assert "forbidden opcode EXT" in message and victim.exists()
    finally:
        copyreg.remove_extension("os", "system", 1)


CSR_CLASS, LIST = b"cscipy.sparse.csr\ncsr_matrix\n", b"c__builtin__\nlist\n"
DTYPE, NDARRAY = b"cnumpy\ndtype\n", b"cnumpy\nndarray\n"
RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
MINUS_ONES = b"J\xff\xff\xff\xff" * 2
EMPTY_ARRAY = RECONSTRUCT + NDARRAY + b"K\x00\x85U\x01b\x87R"
INT32 = DTYPE + b"U\x02i4K\x00K\x01\x87R"


@pytest.mark.parametrize(
    "opcodes",
    {
        "patching the class": CSR_CLASS + b"N}U\x05tocsrK\x01s\x86b.",
        "patching the class's dict": CSR_CLASS + b"}U\x05tocsrK\x01sb.",
        "patching a function": RECONSTRUCT + b"N}U\x0c__defaults__)s\x86b.",
        "patching ndarray": NDARRAY + b"N}U\x01xK\x01s\x86b.",
        "patching list": LIST + b"N}U\x01xK\x01s\x86b.",
        "calling ndarray": NDARRAY + b"J\xff\xff\xff\x7f\x85R.",
        "instantiating ndarray": NDARRAY + b"K\x05\x85\x81.",
        "a list of a list": LIST + b"]\x85R.",
        "a defaultdict of ndarrays": b"ccollections\ndefaultdict\n" + NDARRAY + b"\x85R.",
        "a defaultdict of nothing": b"ccollections\ndefaultdict\n)R.",
        "a matrix with arguments": CSR_CLASS + b"K\x05\x85\x81.",
        "a matrix whose state is a list": CSR_CLASS + b")\x81]b.",
        "an array of another class": RECONSTRUCT + LIST + b"K\x00\x85U\x01b\x87R.",
        "an object array": DTYPE + b"U\x02O8K\x00K\x01\x87R.",
        "a structured type": DTYPE + b"U\x05i4,i4K\x00K\x01\x87R.",
        "a type with fields": INT32 + b"(K\x03U\x01<NU\x01a}" + MINUS_ONES + b"K\x00tb.",
        "a type of unknown order": INT32 + b"(K\x03U\x01xNNN" + MINUS_ONES + b"K\x00tb.",
        "an array without state": EMPTY_ARRAY + b".",
        "an array with too few bytes": EMPTY_ARRAY + b"(K\x01K\x02\x85" + INT32 + b"\x89U\x01atb.",
        "an array of negative size": EMPTY_ARRAY
        + b"(K\x01J\xff\xff\xff\xff\x85" + INT32 + b"\x89U\x00tb.",
        "a huge array": EMPTY_ARRAY + b"(K\x01J\xff\xff\xff\x7f\x85" + INT32 + b"\x89U\x00tb.",
        "an array of true shape": EMPTY_ARRAY + b"(K\x01\x88\x85" + INT32 + b"\x89U\x04aaaatb.",
    }.items(),
    ids=lambda item: item[0],
)  # fmt: skip
def test_accepted_globals_cannot_be_misused(tmp_path, opcodes):
    refused(tmp_path, b"\x80\x02" + opcodes[1])
    assert callable(scipy.sparse.csr_matrix.tocsr)
    path = tmp_path / "good"
    path.write_bytes(pickled_csr(scipy.sparse.csr_matrix(np.eye(2))))
    assert load_csr(path).toarray().tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b".",
        b"\x80\x02K\x01",
        b"\x80\x02r\xff\xff\xff\xff.",
        b"\x80\x02]p99999999999999\n.",
        b"\x80\x02T\xff\xff\xff\x7fab.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x0fab.",
        b"\x80\x02P1\n.",
        b"\x80\x02]K\x01s.",
        b"\x80\x02K\x01K\x02R.",
        b"\x80\x02K\x01.trailing",
        b"\x80\x02" + b"(" * 100_000 + b".",
    ],
)
def test_malformed_pickles_are_errors_for_the_user(tmp_path, content):
    refused(tmp_path, content)


@settings(max_examples=300)
@given(data=st.data())
def test_damaged_pickles_never_raise_anything_but_a_user_error(tmp_path_factory, data):
    original = bytearray(pickled_csr(scipy.sparse.csr_matrix(np.eye(3))))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(original) - 1))
        original[position] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "ind.cora.x"
    path.write_bytes(bytes(original))
    try:
        load_csr(path)
    except UserError as error:
        assert str(path) in str(error)


def test_deep_nesting_does_not_break_the_interpreter(tmp_path):
    refused(tmp_path, b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".")


def test_a_file_above_the_size_limit_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(unpickle, "MAX_BYTES", 10)
    assert "expected at most 10" in refused(tmp_path, b"x" * 11)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="ind.cora.x: cannot be read"):
        load_csr(tmp_path / "ind.cora.x")


def test_the_accepted_globals_are_exactly_those_of_planetoid_then_and_now():
    assert set(unpickle.ACCEPTED_GLOBALS) == {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("scipy.sparse.csr", "csr_matrix"),
        ("scipy.sparse._csr", "csr_matrix"),
        ("collections", "defaultdict"),
        ("__builtin__", "list"),
        ("builtins", "list"),
    }


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8", "u1", "b1"])
def test_arrays_are_read_under_both_module_paths(tmp_path, modern, dtype):
    array = np.arange(12).reshape(3, 4).astype(dtype)
    path = tmp_path / "ind.good.y"
    content = pickled_array(array)
    if modern:
        content = content.replace(b"cnumpy.core.multiarray\n", b"cnumpy._core.multiarray\n")
    path.write_bytes(content)
    read = load_array(path)
    assert read.dtype == array.dtype and read.tolist() == array.tolist()


def test_fortran_order_and_big_endian_arrays_are_read(tmp_path):
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    content = pickled_array(array)
    raw = array.astype("<i4").tobytes()
    path = tmp_path / "ind.good.y"
    fortran = content.replace(b"\x89T", b"\x88T").replace(raw, array.T.tobytes())
    path.write_bytes(fortran)
    assert load_array(path).tolist() == array.tolist()
    path.write_bytes(
        content.replace(b"U\x01<", b"U\x01>").replace(raw, array.astype(">i4").tobytes())
    )
    assert load_array(path).tolist() == array.tolist()


def test_pickles_of_today_are_read_where_they_need_no_other_global(tmp_path):
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    for protocol in (3, 4):
        path = tmp_path / "ind.good.y"
        path.write_bytes(pickle.dumps(array, protocol=protocol))
        assert load_array(path).tolist() == array.tolist()
        path.write_bytes(pickle.dumps(scipy.sparse.csr_matrix(array), protocol=protocol))
        assert load_csr(path).toarray().tolist() == array.tolist()
        graph = collections.defaultdict(list, {0: [1], 1: [0]})
        path.write_bytes(pickle.dumps(graph, protocol=protocol))
        assert load_adjacency(path) == graph


def test_the_writer_is_understood_by_the_plain_unpickler():
    matrix = scipy.sparse.random(5, 7, density=0.4, format="csr", dtype=np.float32, rng=0)
    read = pickle.loads(pickled_csr(matrix), encoding="latin1")
    assert isinstance(read, scipy.sparse.csr_matrix)
    assert read.toarray().tolist() == matrix.toarray().tolist()
    graph = pickle.loads(pickled_adjacency({0: [1, 1], 1: [0, 0], 2: []}), encoding="latin1")
    assert graph == {0: [1, 1], 1: [0, 0], 2: []} and graph.default_factory is list


@settings(max_examples=50)
@given(
    rows=st.integers(1, 6), columns=st.integers(1, 6), seed=st.integers(0, 1000),
    density=st.floats(0, 1),
)  # fmt: skip
def test_any_matrix_survives_writer_and_reader(tmp_path_factory, rows, columns, seed, density):
    matrix = scipy.sparse.random(
        rows, columns, density=density, format="csr", dtype=np.float32, rng=seed
    )
    path = tmp_path_factory.mktemp("csr") / "ind.good.x"
    path.write_bytes(pickled_csr(matrix))
    assert load_csr(path).toarray().tolist() == matrix.toarray().tolist()


def csr_state(**changes) -> bytes:
    """Pickle a matrix whose state was tampered with."""
    matrix = scipy.sparse.csr_matrix(np.eye(2, dtype=np.float32))
    for name, value in changes.items():
        setattr(matrix, name, value)
    return pickle.dumps(matrix, protocol=4)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"indices": np.array([0, 2])}, "expected 0..1"),
        ({"indices": np.array([0.0, 1.0])}, "expected integers"),
        ({"indices": np.array([[0, 1]])}, "expected 1"),
        ({"indptr": np.array([0, 2, 1])}, "does not rise"),
        ({"indptr": np.array([0, 2])}, "rows \\+ 1 = 3"),
        ({"data": np.array([1.0])}, "data has 1 entries"),
        ({"data": np.array([1.0, np.nan])}, "not finite"),
        ({"_shape": (2,)}, "expected \\(rows, columns\\)"),
        ({"data": "none"}, "the array 'data'"),
    ],
)
def test_matrices_that_contradict_themselves_are_refused(tmp_path, changes, expected):
    path = tmp_path / "ind.bad.x"
    path.write_bytes(csr_state(**changes))
    with pytest.raises(UserError, match=expected) as raised:
        load_csr(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    "graph", [{"0": [1]}, {0: (1, 2)}, {0: ["1"]}, {0: [1.5]}, {0: [True]}, {True: [1]}, [1], None]
)
def test_only_dicts_of_lists_of_ids_are_graphs(tmp_path, graph):
    path = tmp_path / "ind.bad.graph"
    path.write_bytes(pickle.dumps(graph, protocol=2))
    with pytest.raises(UserError, match="ind.bad.graph"):
        load_adjacency(path)
