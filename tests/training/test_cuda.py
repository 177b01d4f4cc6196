"""What only a GPU shows: that it agrees with the CPU and repeats itself."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from small_graphs import by_reference, fit, random_graph

from private_graphs.methods.gcn_protocols import PAPER, RELEASED, SOUND
from private_graphs.training import torch_backend

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="PyTorch finds no usable GPU on this machine"
)

train = partial(fit, random_graph(), SOUND, splits=4, private=True)


@pytest.mark.parametrize("secret", [False, True], ids=["Philox", "ChaCha20"])
def test_the_gpu_agrees_with_the_compiled_kernels_and_repeats_itself(secret):
    how = dict(seeds=[b"1", b"2"] if secret else range(3), epochs=3, noise=3.0, dropout=0.5)
    on_cpu = train(**how, lazy_noise=False).parameters
    on_gpu, again = (train(**how, device="cuda").parameters for _ in range(2))
    assert np.abs(on_gpu - on_cpu).max() < 1e-9
    assert (on_gpu == again).all()


def test_on_the_gpu_a_replica_draws_the_same_whatever_trains_beside_it():
    together = train(seeds=range(5), epochs=3, noise=3.0, dropout=0.5, device="cuda").parameters
    alone = train(seeds=[3], epochs=3, noise=3.0, dropout=0.5, device="cuda").parameters
    assert np.abs(together[3] - alone[0]).max() < 1e-9
    assert np.abs(together[3] - together[4]).max() > 1e-3


def test_on_the_gpu_the_noise_of_a_step_has_the_stated_variance():
    noisy = train(seeds=range(40), noise=50.0, lr=1.0, device="cuda").parameters
    drawn = noisy - train(seeds=range(40), lr=1.0, device="cuda").parameters
    expected = 50.0 / 4  # noise multiplier times clip norm, divided by the number of parts
    assert abs(drawn.std() / expected - 1) < 5 / np.sqrt(2 * drawn.size)


@pytest.mark.parametrize(
    ("protocol", "splits", "how"),
    [
        (RELEASED, 4, {"noise": 3.0}),
        (PAPER, 4, {"noise": 3.0, "optimizer": "adam"}),
        (SOUND, 4, {"noise": 3.0}),
        (PAPER, 1, {"patience": 2, "lr": 3.0}),
    ],
    ids=str,
)
def test_steps_that_are_one_cuda_graph_agree_with_the_compiled_kernels(
    protocol, splits, how, monkeypatch
):
    captured, capture = [], torch_backend._captured
    monkeypatch.setattr(torch_backend, "_CAPTURE_AT", 2)
    monkeypatch.setattr(torch_backend, "_captured", lambda *of: captured.append(1) or capture(*of))
    on_cpu, on_gpu = (
        fit(
            random_graph(), protocol, seeds=range(3), splits=splits, epochs=12, dropout=0.5,
            lazy_noise=False, device=device, **how,
        ).parameters
        for device in ("cpu", "cuda")
    )  # fmt: skip
    assert captured
    assert np.abs(on_gpu - on_cpu).max() < 1e-8


@pytest.mark.parametrize("protocol", [RELEASED, PAPER, SOUND], ids=lambda each: each.name)
def test_the_reference_engine_takes_the_same_noisy_steps_on_the_gpu(protocol):
    how = dict(splits=4, epochs=3, noise=3.0, optimizer="adam", seeds=range(2))
    on_cpu, on_gpu = (
        by_reference(random_graph(), protocol, device=device, **how) for device in ("cpu", "cuda")
    )
    assert np.abs(on_gpu.parameters - on_cpu.parameters).max() < 1e-9
    assert on_gpu.test_predictions.tolist() == on_cpu.test_predictions.tolist()
