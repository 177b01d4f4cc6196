"""Noise that waits until its row is read: the same distribution, from draws that are used once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy import stats
from small_graphs import (
    HIDDEN,
    clipped,
    fit,
    four_nodes,
    part_gradients,
    parts_of,
    random_graph,
    start,
    streams,
)

from private_graphs.methods.gcn_protocols import PAPER, SOUND_POISSON
from private_graphs.training import noise
from private_graphs.training.kernels import row_length

SIGMA, CLIP, LR = 1.5, 0.2, 0.5


def drawn(key, step: int, begin: int, count: int) -> np.ndarray:
    """The first ``count`` normals of the counters from ``begin`` on."""
    n = -(-count // 4)
    out, words = np.empty(4 * n), np.empty((4, n), np.uint32)
    noise.fill_normals(key, step, begin, out, words, *np.empty((2, n), np.float32))
    return out[:count]


def replay(dataset, protocol, splits: int, epochs: int, scored: bool, seed) -> np.ndarray:
    """Train a replica in plain NumPy and PyTorch: rows of W1 get their noise when they are read.

    ``scored``: after every epoch all rows are read.
    """
    stream, parts = streams(seed)[0], parts_of(dataset, splits, seed)
    order, key = stream.of_door.generator("order"), stream.of_door.key("noise")
    theta, n_weights = start(dataset, seed), dataset.n_features * HIDDEN
    stored = row_length(dataset.n_features, HIDDEN, dataset.n_classes)
    w1 = theta[:n_weights].reshape(-1, HIDDEN)
    noised = np.zeros(dataset.n_features, dtype=int)
    scale, words_of = LR * SIGMA * CLIP, dataset.features.to_scipy()
    used: set[tuple[int, int]] = set()

    def take(step: int, begin: int, count: int) -> tuple[np.ndarray, int]:
        end = begin + -(-count // 4)
        counters = {(step, counter) for counter in range(begin, end)}
        assert not counters & used, "a draw is used twice"
        used.update(counters)
        return drawn(key, step, begin, count), end

    def catch_up(words, step: int, begin: int) -> int:
        late = [word for word in words if noised[word] < step]
        if not late:
            return begin
        normals, end = take(step, begin, len(late) * HIDDEN)
        for word, row in zip(late, normals.reshape(-1, HIDDEN), strict=True):
            w1[word] -= scale * np.sqrt(step - noised[word]) * row
            noised[word] = step
        return end

    step, begin = 0, 0
    for _ in range(epochs):
        if protocol is PAPER:
            chosen = np.eye(splits, dtype=bool)[order.permutation(splits)]
        else:
            chosen = order.random((splits, splits)) < 1 / splits
        for row in chosen:
            visited = [part for part, use in zip(parts, row, strict=True) if use]
            for part in visited:
                if (dataset.labels[part] >= 0).any():
                    begin = catch_up(np.unique(words_of[part].indices), step, begin)
            gradients = clipped(part_gradients(dataset, parts, theta), CLIP)
            theta -= LR * gradients[torch.from_numpy(row)].sum(0).numpy()
            normals, _ = take(step, begin, stored - n_weights)
            theta[n_weights:] -= scale * normals[: len(theta) - n_weights]
            step, begin = step + 1, 0
        if scored:
            begin = catch_up(range(dataset.n_features), step, begin)
    catch_up(range(dataset.n_features), step, begin)
    return theta


@pytest.mark.parametrize("scored", [False, True], ids=["scored-at-the-end", "scored-every-epoch"])
@pytest.mark.parametrize("protocol", [PAPER, SOUND_POISSON], ids=lambda each: each.visits)
def test_training_is_the_plain_loop_in_which_unread_rows_wait_for_their_noise(protocol, scored):
    dataset = random_graph(3, features=40)  # sparse enough that steps leave rows unread
    kept = dataset.features.to_scipy().toarray() * (np.arange(40) % 7 == 0)
    kept[:, :3] = 1.0
    dataset = replace(
        dataset, features=type(dataset.features).from_scipy(sp.csr_matrix(kept.astype(np.float32)))
    )
    trained = fit(
        dataset, protocol, splits=4, epochs=3, lr=LR, noise=SIGMA, clip_norm=CLIP,
        validate_every_epoch=scored, seeds=(0,),
    ).parameters[0]  # fmt: skip
    expected = replay(dataset, protocol, 4, 3, scored, seed=0)
    np.testing.assert_allclose(trained, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("protocol", [PAPER, SOUND_POISSON], ids=lambda each: each.visits)
def test_no_noise_waits_where_the_random_numbers_are_secret(protocol):
    how = dict(splits=4, epochs=3, lr=LR, noise=SIGMA, clip_norm=CLIP, seeds=(b"secret",))
    waiting, dense = (
        fit(random_graph(3, features=40), protocol, lazy_noise=each, **how).parameters
        for each in (True, False)
    )
    np.testing.assert_array_equal(waiting, dense)


def test_lazy_and_dense_noise_have_one_distribution_where_later_gradients_read_earlier_noise():
    """Two-sample tests over 1,500 runs each, of single weights, of norms and of predictions."""
    dataset, seeds = four_nodes(), tuple(range(1500))
    how = dict(splits=2, epochs=3, noise=0.8, clip_norm=1.0, lr=0.6)
    samples = []
    for lazy in (True, False):
        shifted = seeds if lazy else tuple(10_000 + seed for seed in seeds)
        rows = fit(dataset, PAPER, seeds=shifted, lazy_noise=lazy, **how).parameters
        moved = rows - np.stack([start(dataset, seed) for seed in shifted])
        samples.append(moved)
    lazy, dense = samples
    direction = np.random.default_rng(0).normal(size=(lazy.shape[1], 8))
    pairs = [(lazy @ direction, dense @ direction)]
    pairs += [(np.linalg.norm(lazy, axis=1)[:, None], np.linalg.norm(dense, axis=1)[:, None])]
    pairs += [(lazy[:, -8:], dense[:, -8:])]  # biases: they see every gradient
    # products of two rows' weights: what one step's noise does to the next step's gradient
    pairs += [(lazy[:, :8] * lazy[:, 32:40], dense[:, :8] * dense[:, 32:40])]
    for left, right in pairs:
        for column in range(left.shape[1]):
            assert stats.ks_2samp(left[:, column], right[:, column]).pvalue > 1e-4


def test_weight_decay_and_adam_keep_dense_noise():
    """Both move rows that no step reads; a row's own history would matter."""
    for how in (dict(optimizer="adam"), dict(weight_decay=0.1)):
        lazy, dense = (
            fit(
                random_graph(1), PAPER, splits=4, epochs=2, noise=SIGMA, lazy_noise=each, **how
            ).parameters
            for each in (True, False)
        )
        np.testing.assert_array_equal(lazy, dense)


def test_where_replicas_stop_early_none_gets_noise_of_steps_that_only_others_take():
    how = dict(splits=4, epochs=12, noise=SIGMA, clip_norm=CLIP, lr=LR, patience=2)
    together = fit(random_graph(1), PAPER, seeds=(0, 1, 2, 3, 4, 5), **how)
    assert len(set(together.epochs.tolist())) > 1
    for seed in range(6):
        alone = fit(random_graph(1), PAPER, seeds=(seed,), **how).parameters[0]
        np.testing.assert_array_equal(together.parameters[seed], alone)
