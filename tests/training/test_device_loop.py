"""What runs on a device: its steps neither wait nor transfer, its draws are those of the CPU, and
what does not fit into memory is cut into pieces that do.

Tensors of PyTorch's device ``meta`` hold no numbers: whatever reads one, or mixes it with a tensor
of the CPU, raises an error. A transfer that is asked for is noticed apart.
"""

from __future__ import annotations

import gc
import sys
import types
import weakref
from functools import partial

import numpy as np
import pytest
import torch
from small_graphs import HIDDEN, descent_of, fit, random_graph, replicas_of, structure_of
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from private_graphs import training
from private_graphs.core.errors import UserError
from private_graphs.methods.gcn_protocols import PAPER, RELEASED, SOUND, SOUND_POISSON
from private_graphs.training import engine, noise, torch_backend, torch_noise
from private_graphs.training.torch_backend import TorchBackend, chunks_that_fit

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


class NoTransfer(TorchDispatchMode):
    """Raises an error where a number is read or a tensor changes its device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if "_local_scalar_dense" in str(func) or (kwargs or {}).get("pin_memory"):
            raise AssertionError(f"{func} waits")
        found = func(*args, **(kwargs or {}))
        if "copy" in str(func) and args[0].device != found.device:
            raise AssertionError(f"{func} from {args[0].device} to {found.device}")
        return found


def batch(protocol, *, splits: int = 3, optimizer: str = "adam", device: str = "torch-meta"):
    """Five replicas with noise and dropout."""
    seeds = range(5)
    structure = structure_of(random_graph(), protocol, seeds=seeds, splits=splits, dtype="float32")
    settings = engine.EngineSettings(
        optimizer=optimizer, epochs=1, private=True, hidden=HIDDEN, device=device
    )
    descent = descent_of(protocol, settings, seeds=seeds, splits=splits, noise=2.0)
    rows = np.arange(len(seeds))
    return engine._Batch(structure, protocol, settings, replicas_of(seeds), rows, descent)


def take_steps(chosen) -> int:
    """Announce the steps of an epoch, then make them under watch; return how many."""
    backend, announced, taken = chosen.backend, [], 0
    send = backend.begin

    def begin(steps):
        send(steps)
        announced.extend(steps)

    chosen.backend.begin, step_of = begin, backend.train_step

    def watched(step):
        nonlocal taken
        with NoTransfer():
            step_of(step)
        taken += 1

    backend.train_step = watched
    chosen._epoch(np.arange(5), 0, np.full(5, np.nan))
    assert len(announced) == taken
    return taken


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize(
    ("protocol", "splits", "steps"), [(PAPER, 1, 1), (PAPER, 3, 3), (SOUND, 3, 1)], ids=str
)
def test_steps_neither_wait_nor_transfer(protocol, splits, steps, optimizer):
    assert take_steps(batch(protocol, splits=splits, optimizer=optimizer)) == steps


def test_steps_of_poisson_samples_neither_wait_nor_transfer():
    assert take_steps(batch(SOUND_POISSON)) == 3


FAULTS = {
    "a number is read": (lambda backend: backend.theta.sum().item(), "_local_scalar_dense.* waits"),
    "a condition is read": (
        lambda backend: bool((backend.noise_std > 0).any()), "_local_scalar_dense.* waits"
    ),
    "a mask is counted": (lambda backend: backend.theta[backend.theta > 0], "torch.nonzero"),
    "an array is sent": (lambda backend: backend._sent(np.zeros(3)), "copy.* from cpu to meta"),
    "an array is fetched": (lambda backend: backend.theta.cpu(), "copy out of meta tensor"),
}  # fmt: skip
"""What a fault does in a step, and what the watch or the device ``meta`` says to it."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_step_that_waits_or_transfers_is_noticed(fault, monkeypatch):
    honest = TorchBackend._noisy
    plant, said = FAULTS[fault]

    def planted(backend, *rest):
        plant(backend)
        return honest(backend, *rest)

    monkeypatch.setattr(TorchBackend, "_noisy", planted)
    # NotImplementedError: the device has no numbers to count or to fetch
    with pytest.raises((AssertionError, NotImplementedError), match=said):
        take_steps(batch(PAPER))


def test_an_unchanged_epoch_sends_nothing_and_makes_no_shelf(monkeypatch):
    chosen = batch(SOUND, device="torch-cpu")
    everyone, always = np.arange(5), np.full(5, np.nan)
    chosen._epoch(everyone, 0, always)
    monkeypatch.setattr(TorchBackend, "_sent", None)
    monkeypatch.setattr(TorchBackend, "_shelf", None)
    before = chosen.backend.theta.clone()
    chosen._epoch(everyone, 1, always)
    assert (chosen.backend.theta != before).any()


def test_chunks_are_consecutive_whole_and_as_large_as_fits():
    assert chunks_that_fit([3, 3, 3, 9, 1, 1], 6) == [
        slice(0, 2), slice(2, 3), slice(3, 4), slice(4, 6),
    ]  # fmt: skip
    assert chunks_that_fit([1, 2], 100) == [slice(0, 2)]
    sizes = np.random.default_rng(0).integers(0, 50, 200)
    chunks = chunks_that_fit(sizes, 90)
    assert np.concatenate([sizes[chunk] for chunk in chunks]).tolist() == sizes.tolist()
    assert max(sizes[chunk].sum() for chunk in chunks) <= 90


@pytest.mark.parametrize("protocol", [PAPER, SOUND, SOUND_POISSON], ids=lambda each: each.visits)
def test_replicas_in_little_memory_train_and_score_the_same(protocol, monkeypatch):
    def trained():
        return fit(
            random_graph(), protocol, seeds=range(4), splits=3, epochs=3, noise=1.0, dropout=0.5,
            device="torch-cpu",
        )  # fmt: skip

    whole = trained()
    monkeypatch.setattr(torch_backend, "free_bytes", lambda device: 0)
    pieces, kept = [], torch_backend.chunks_that_fit
    monkeypatch.setattr(
        torch_backend, "chunks_that_fit", lambda *a: pieces.append(len(kept(*a))) or kept(*a)
    )
    cut = trained()
    assert max(pieces) == 4  # a replica without a visit joins another
    np.testing.assert_allclose(cut.parameters, whole.parameters, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(cut.test_predictions, whole.test_predictions)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("width", [4, 8], ids=["Philox", "ChaCha20"])
def test_words_bytes_and_normals_on_tensors_are_those_of_the_compiled_code(width, device):
    generator = np.random.default_rng(0)
    keys = generator.integers(0, 2**32, (3, width), dtype=np.uint32)
    tensor = torch.from_numpy(keys.astype(np.int64)).to(device)
    first, count = np.array([0, 5, 70]), 333
    units, steps = torch.tensor(first, device=device), torch.tensor([9, 2**33 + 9], device=device)
    drawn = torch_noise.random_bytes(tensor, steps[0], units, count).cpu().numpy()
    quarter = -(-count // 4)
    for row, key in enumerate(keys):
        words = np.empty(4 * -(-count // 16), np.uint32)
        noise.fill_flat_words(key, 9, first[row], words)
        assert drawn[row].tolist() == words.view(np.uint8)[:count].tolist()
        for dtype, limit in ((np.float64, 1e-14), (np.float32, 5e-6)):
            scratch = np.empty((2, quarter), np.float32)
            out = np.empty(4 * quarter, dtype)
            noise.fill_normals(key, 2**33 + 9, 0, out, np.empty((4, quarter), np.uint32), *scratch)
            kind = torch.from_numpy(out).dtype
            found = torch_noise.normals(tensor, steps[1], count, kind)[row].cpu().numpy()
            assert np.abs(found - out[:count]).max() < limit


@pytest.mark.parametrize("wrong", [None, 4, 8], ids=["right", "Philox", "ChaCha20"])
def test_a_gpu_draws_nothing_before_it_drew_what_is_expected(wrong, monkeypatch):
    def kernels(keys, step, units):
        drawn = torch_noise.words(keys, step, units)
        if keys.shape[1] == wrong:
            drawn[3][1, 599] ^= 1  # one bit of one word
        return drawn

    module = types.SimpleNamespace(words=kernels)
    monkeypatch.setitem(sys.modules, "private_graphs.training.cuda_words", module)
    monkeypatch.setattr(training, "cuda_words", module, raising=False)
    ask = partial(torch_noise._kernels.__wrapped__, torch.device("cpu"))
    if wrong is None:
        assert ask() is kernels
    else:
        with pytest.raises(UserError, match="--device cpu"):
            ask()


@pytest.mark.parametrize(("protocol", "splits"), [(PAPER, 1), (PAPER, 3), (SOUND, 3)], ids=str)
def test_how_matrices_are_stored_changes_nothing(protocol, splits, monkeypatch):
    def trained(dense_from: float, filled: int):
        monkeypatch.setattr(torch_backend, "_DENSE", dense_from)
        monkeypatch.setattr(torch_backend, "_FILLED", filled)
        how = dict(seeds=range(3), splits=splits, epochs=3, dropout=0.5, device="torch-cpu")
        return fit(random_graph(), protocol, noise=1.0, **how).parameters

    dense = trained(0.0, 64)
    for filled in (1, 2, 64):
        np.testing.assert_allclose(trained(2.0, filled), dense, rtol=0, atol=1e-12)


def traced(pool, function, inputs):
    """What a CUDA graph does, by tracing: everything but tensors stays what it is now."""
    backend = function.func.__self__
    state = backend.theta, backend.m, backend.v
    before = [each.clone() for each in state]
    graph = make_fx(function)(*inputs)
    for each, was in zip(state, before, strict=True):
        each.copy_(was)  # capturing computes nothing
    pool.append(graph)
    return lambda: graph(*inputs)


@pytest.mark.parametrize(
    ("protocol", "splits", "how"),
    [
        (RELEASED, 4, {"noise": 1.0}), (PAPER, 4, {"noise": [1.0, 2.0, 3.0], "optimizer": "adam"}),
        (PAPER, 1, {"noise": 1.0}), (SOUND, 4, {"noise": 1.0}),
        (PAPER, 1, {"patience": 2, "lr": 3.0}), (SOUND, 1, {"patience": 2, "lr": 3.0}),
    ],
    ids=str,
)  # fmt: skip
def test_steps_that_are_captured_and_repeated_are_those_that_are_not(
    protocol, splits, how, monkeypatch
):
    def trained():
        return fit(
            random_graph(), protocol, seeds=range(3), splits=splits, epochs=12, dropout=0.5,
            device="torch-cpu", **how,
        )  # fmt: skip

    expected, graphs = trained(), []
    monkeypatch.setattr(torch_backend, "_graph_pool", lambda clock: graphs)
    monkeypatch.setattr(torch_backend, "_captured", traced)
    monkeypatch.setattr(torch_backend, "_CAPTURE_AT", 2)
    found = trained()
    assert graphs
    np.testing.assert_allclose(found.parameters, expected.parameters, rtol=0, atol=1e-12)
    for name in ("test_predictions", "validation_predictions", "epochs"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_allclose(found.validation_loss, expected.validation_loss, atol=1e-12)


def test_nothing_of_a_finished_batch_waits_for_the_collector_of_cycles():
    gc.collect()
    gc.disable()
    try:
        chosen = batch(PAPER, device="torch-cpu")
        chosen._epoch(np.arange(5), 0, np.full(5, np.nan))
        chosen.score(chosen.structure.validation)
        backend = weakref.ref(chosen.backend)
        del chosen
        assert backend() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("dense_from", [0.0, 2.0], ids=["dense", "sparse"])
def test_a_node_that_is_not_finite_moves_its_own_part_alone(dense_from, monkeypatch):
    monkeypatch.setattr(torch_backend, "_DENSE", dense_from)
    graph = random_graph()
    structure = structure_of(graph, SOUND, seeds=(0,), splits=4, dtype="float64")
    x = structure.inputs.x_values
    x[structure.inputs.x_pointers[0] : structure.inputs.x_pointers[1]] = np.nan
    settings = engine.EngineSettings(
        optimizer="sgd", epochs=1, private=True, hidden=HIDDEN, device="torch-cpu",
        dtype="float64", dropout=0.0,
    )  # fmt: skip
    descent = descent_of(SOUND, settings, seeds=(0,), splits=4, noise=1.0)
    replicas, seen = replicas_of((0,)), []
    chosen = engine._Batch(structure, SOUND, settings, replicas, np.arange(1), descent)
    honest = TorchBackend._clipped

    def watched(backend, *rest):
        seen.append(honest(backend, *rest))
        return seen[-1]

    monkeypatch.setattr(TorchBackend, "_clipped", watched)
    chosen._epoch(np.arange(1), 0, np.full(1, np.nan))
    blocks, parts = structure.blocks, structure.parts[0]
    reads = [0 in blocks.rows0[blocks.rows0_start[p] : blocks.rows0_start[p + 1]] for p in parts]
    assert any(reads) and (seen[0].norm(dim=1) == 0).tolist() == reads
