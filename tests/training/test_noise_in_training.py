"""The noise that reaches the parameters has the variance that the accounting supposes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from small_graphs import fit, random_graph, start

from private_graphs.methods.gcn_protocols import PAPER, RELEASED, SOUND, SOUND_POISSON

SIGMA, CLIP, LR = 3.0, 0.4, 0.05


@pytest.fixture(scope="module")
def silent():
    """A graph without training labels: every gradient is zero, what moves is noise."""
    dataset = random_graph(0, features=300)
    return replace(dataset, labels=np.where(dataset.train_mask, -1, dataset.labels))


def moved(dataset, protocol, **how) -> np.ndarray:
    """Displacement (R, P) of the parameters, in units of lr."""
    seeds = how.setdefault("seeds", (0,))
    trained = fit(dataset, protocol, lr=LR, clip_norm=CLIP, **how)
    before = np.stack([start(dataset, seed) for seed in seeds])
    return (trained.parameters - before) / LR


def assert_normal(sample: np.ndarray, std: float) -> None:
    """Two-sided chi-square and Kolmogorov-Smirnov tests at 1e-4 each."""
    n = sample.size
    tail = stats.chi2.cdf(float(np.sum(sample**2)) / std**2, n)
    assert 1e-4 < tail < 1 - 1e-4, f"std {sample.std()} where {std} is stated"
    assert stats.kstest(sample.ravel() / std, "norm").pvalue > 1e-4


@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("protocol", "splits", "std_of_an_epoch"),
    [
        (PAPER, 1, SIGMA * CLIP),
        (SOUND, 1, SIGMA * CLIP),
        (SOUND, 10, SIGMA * CLIP / 10),  # one draw per epoch, divided by the number of parts
        (PAPER, 10, SIGMA * CLIP * np.sqrt(10)),  # ten steps, each with its own full draw
        (SOUND_POISSON, 10, SIGMA * CLIP * np.sqrt(10)),
    ],
    ids=["full-graph", "full-graph-sound", "epoch-sum", "shuffled", "poisson"],
)
def test_the_noise_of_an_epoch_has_the_stated_variance(
    silent, protocol, splits, std_of_an_epoch, dtype, device
):
    sample = moved(silent, protocol, splits=splits, noise=SIGMA, dtype=dtype, device=device)
    assert sample.size > 9_000
    assert_normal(sample, std_of_an_epoch)


@pytest.mark.parametrize("protocol", [PAPER, SOUND, SOUND_POISSON], ids=lambda each: each.visits)
def test_noise_and_dropout_under_a_secret_are_the_same_in_both_backends(protocol):
    """More rows than the kernels take at once: dropout of a block is drawn in several calls."""
    dataset, rows = random_graph(1, nodes=1400, degree=2.0), []
    for secret, device in ((b"1", "cpu"), (b"1", "torch-cpu"), (b"2", "cpu")):
        rows.append(
            fit(
                dataset, protocol, seeds=(secret,), splits=2, epochs=2, noise=SIGMA, dropout=0.5,
                clip_norm=CLIP, device=device, lazy_noise=False,
            ).parameters
        )  # fmt: skip
    np.testing.assert_allclose(rows[0], rows[1], rtol=0, atol=1e-9)
    assert np.abs(rows[0] - rows[2]).max() > 0.1


def test_every_coordinate_of_every_tensor_is_noised():
    for classes in (3, 4, 5, 6):  # the number of parameters leaves every rest modulo 4
        dataset = random_graph(0, classes=classes)
        unlabelled = replace(dataset, labels=np.where(dataset.train_mask, -1, dataset.labels))
        assert np.all(moved(unlabelled, SOUND, noise=SIGMA) != 0)


def test_each_replica_has_its_own_noise_multiplier_and_zero_adds_none(silent):
    sample = moved(silent, PAPER, seeds=(0, 1, 2), noise=(0.0, 1.0, 5.0))
    assert np.all(sample[0] == 0)
    assert_normal(sample[1], CLIP)
    assert_normal(sample[2], 5 * CLIP)


def test_the_released_protocol_adds_its_noise_to_the_unclipped_gradient():
    dataset = random_graph(1, features=300)
    with_noise = moved(dataset, RELEASED, noise=SIGMA)
    without = moved(dataset, RELEASED, noise=0.0, private=True)
    assert_normal(with_noise - without, SIGMA * CLIP)
