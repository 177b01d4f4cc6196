"""Dropout: when it acts, how many units it drops, and that no two masks are alike.

Every training node is isolated and has a word of its own, so the row of W1 of that word gets a
gradient exactly at the hidden units of this node that ReLU and dropout let pass.
"""

from __future__ import annotations

import numpy as np
import pytest
from small_graphs import by_tensor, fit, make_graph, start

from private_graphs.methods.gcn_protocols import PAPER, RELEASED, SOUND

NODES = 200
LR = 1e-6  # small: ReLU lets the same units pass from the start to the end


@pytest.fixture(scope="module")
def isolated():
    features = np.zeros((NODES + 2, NODES + 1))
    features[range(NODES), range(NODES)] = 1.0
    features[NODES:, NODES] = 1.0
    labels = np.arange(NODES + 2) % 2
    return make_graph(
        [], features, labels, train=range(NODES), validation=[NODES], test=[NODES + 1]
    )


def weights(dataset, protocol, epochs: int, seed: int = 0, **how) -> np.ndarray:
    """W1 (NODES, hidden) after some epochs, 0 for the start."""
    flat = start(dataset, seed)
    if epochs:
        how = dict(lr=LR, dropout=0.5) | how
        flat = fit(dataset, protocol, seeds=(seed,), epochs=epochs, **how).parameters[0]
    return by_tensor(flat, dataset)[0][:NODES]


def passed(dataset, protocol, epoch: int = 1, **how) -> tuple[np.ndarray, np.ndarray]:
    """Which units an epoch let pass, and which of them ReLU would have (NODES, hidden)."""
    before = weights(dataset, protocol, epoch - 1, **how)
    after = weights(dataset, protocol, epoch, **how)
    return after != before, before > 0


@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
@pytest.mark.parametrize(("dropout", "kept"), [(0.5, 0.5), (0.25, 0.75), (0.0, 1.0)])
def test_the_stated_fraction_of_the_active_units_is_kept(isolated, dropout, kept, device):
    moved, active = passed(isolated, PAPER, dropout=dropout, device=device)
    assert not moved[~active].any()
    n = int(active.sum())
    assert n > 2500
    assert abs(moved[active].mean() - kept) <= 4.5 * np.sqrt(kept * (1 - kept) / n)
    for axis in (0, 1):  # no unit and no node is favoured
        share = moved.sum(axis) / np.maximum(active.sum(axis), 1)
        bound = 5 * np.sqrt(kept * (1 - kept) / active.sum(axis).clip(min=1))
        assert np.all(np.abs(share - kept) <= bound + 1e-12)


def test_kept_units_are_scaled_so_that_the_expectation_stays():
    """A single unit's gradient doubles: compared through two backends and by its size."""
    features = np.eye(3)
    dataset = make_graph([], features, [0, 1, 0], train=[0], validation=[1], test=[2])
    with_dropout = weights_of_one(dataset, 0.5)
    without = weights_of_one(dataset, 0.0)
    ratio = with_dropout[with_dropout != 0] / without[with_dropout != 0]
    assert 0 < len(ratio) < np.sum(without != 0)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)  # one common factor …
    assert 1.5 < ratio[0] < 2.7  # … of 2, but for the changed output of the network


def weights_of_one(dataset, dropout: float) -> np.ndarray:
    after = fit(dataset, PAPER, lr=1e-6, dropout=dropout).parameters[0]
    return by_tensor(after - start(dataset), dataset)[0][0]


@pytest.mark.parametrize("splits", [1, 4])
def test_released_drops_out_in_the_first_epoch_only_and_the_others_in_every_epoch(isolated, splits):
    how = dict(splits=splits)
    for protocol in (RELEASED, PAPER, SOUND):
        for epoch in (1, 2, 3):
            moved, active = passed(isolated, protocol, epoch, **how)
            share = moved[active].mean()
            if protocol is RELEASED and epoch > 1:
                assert share == 1.0
            else:
                assert abs(share - 0.5) < 0.05


@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
def test_replicas_epochs_and_parts_draw_different_masks(isolated, device):
    """Masks of different nodes, epochs and replicas agree in half of the units, not in more."""
    masks = []
    for seed in (0, 1):
        for epoch in (1, 2):
            moved, active = passed(isolated, SOUND, epoch, seed=seed, splits=4, device=device)
            masks.append(np.where(active, moved, np.nan))
    rows = np.concatenate(masks)[::3]
    agreed = [row[None] == rows[number + 1 :: 7] for number, row in enumerate(rows[:-1])]
    known = [~np.isnan(row[None] + rows[number + 1 :: 7]) for number, row in enumerate(rows[:-1])]
    share = np.concatenate(agreed)[np.concatenate(known)].mean()
    assert abs(share - 0.5) < 0.01
    for i in range(4):
        for j in range(i):
            both = ~np.isnan(masks[i]) & ~np.isnan(masks[j])
            n = both.sum()
            assert abs(np.mean(masks[i][both] == masks[j][both]) - 0.5) < 5 * 0.5 / np.sqrt(n)
