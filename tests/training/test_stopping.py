"""Early stopping against a plain simulation, and the weights that are kept."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import fit, random_graph, structure_of

from private_graphs.methods.gcn_protocols import PAPER, RELEASED, SOUND
from private_graphs.training.engine import EngineSettings, _Patience, joins_validation

EPOCHS, PATIENCE = 40, 4


def simulate(losses, patience: int) -> tuple[int, int]:
    """Epochs run, and the epoch (from 1) of the best loss among them."""
    best, best_epoch = math.inf, 0
    for epoch, loss in enumerate(losses, start=1):
        if loss < best:
            best, best_epoch = loss, epoch
        elif epoch - best_epoch == patience:
            return epoch, best_epoch
    return len(losses), best_epoch


@pytest.mark.parametrize(("splits", "device"), [(1, "cpu"), (3, "cpu"), (1, "torch-cpu")], ids=str)
@pytest.mark.parametrize("protocol", [RELEASED, PAPER, SOUND], ids=lambda each: each.name)
def test_a_run_stops_where_a_plain_simulation_stops_and_keeps_the_right_weights(
    protocol, splits, device
):
    dataset = random_graph(1)
    how = dict(optimizer="adam", lr=0.02, dropout=0.5, splits=splits, device=device)
    whole = fit(dataset, protocol, epochs=EPOCHS, validate_every_epoch=True, **how)
    stopped, best = simulate(whole.validation_losses[:, 0], PATIENCE)
    assert best < stopped < EPOCHS
    found = fit(dataset, protocol, epochs=EPOCHS, patience=PATIENCE, **how)
    assert found.epochs.tolist() == [stopped]
    length = stopped if protocol is RELEASED else best
    kept = fit(dataset, protocol, epochs=length, validate_every_epoch=True, **how)
    np.testing.assert_array_equal(found.parameters, kept.parameters)
    assert found.validation_loss[0] == kept.validation_loss[0]
    np.testing.assert_array_equal(found.test_predictions, kept.test_predictions)


@pytest.mark.parametrize("patience", [1, 4])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_scoring_inside_the_training_pass_changes_no_result(optimizer, patience):
    """The released full graph scores validation nodes on the way; the same run, scored apart."""
    dataset, seeds = random_graph(2, nodes=90), tuple(range(6))
    how = dict(
        seeds=seeds, optimizer=optimizer, dropout=0.0, epochs=EPOCHS, patience=patience,
        lr=np.geomspace(0.005, 2.0, 6), weight_decay=0.01,
    )  # fmt: skip
    chosen = EngineSettings(optimizer, EPOCHS, False, patience=patience)
    assert joins_validation(RELEASED, chosen, splits=1, train_fraction=1.0)
    inside = fit(dataset, RELEASED, **how)
    apart = fit(dataset, RELEASED, structure=structure_of(dataset, RELEASED, seeds=seeds), **how)
    assert len(set(apart.epochs.tolist())) > 2
    assert inside.epochs.tolist() == apart.epochs.tolist()
    np.testing.assert_allclose(inside.parameters, apart.parameters, atol=1e-12)
    np.testing.assert_allclose(inside.validation_loss, apart.validation_loss, atol=1e-12)
    np.testing.assert_array_equal(inside.test_predictions, apart.test_predictions)


def test_training_and_scoring_share_a_pass_only_where_that_is_exact():
    def joins(protocol=RELEASED, splits=1, train_fraction=1.0, **settings) -> bool:
        chosen = EngineSettings(
            **(dict(optimizer="sgd", epochs=1, private=False, patience=1) | settings)
        )
        return joins_validation(protocol, chosen, splits, train_fraction)

    assert joins()
    for protocol in (PAPER, SOUND):
        assert not joins(protocol)
    assert not joins(splits=2) and not joins(train_fraction=0.5)
    assert not joins(private=True) and not joins(patience=None) and not joins(device="cuda")


@given(
    st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.4, math.nan, math.inf]), min_size=1, max_size=30),
    st.integers(1, 6),
)
def test_any_sequence_of_losses_stops_as_simulated(losses, patience):
    watch, active = _Patience(1, patience), np.array([0])
    stopped, best = len(losses), 0
    for epoch, loss in enumerate(losses, start=1):
        improved, ended = watch.update(active, np.array([loss]))
        best = epoch if len(improved) else best
        if len(ended):
            stopped = epoch
            break
    assert (stopped, best) == simulate(losses, patience)


@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
def test_a_replica_that_diverges_does_not_touch_the_one_beside_it(device):
    dataset = random_graph(3)
    how = dict(epochs=30, patience=5, dtype="float32", device=device)
    alone = fit(dataset, PAPER, seeds=(0,), lr=0.1, **how)
    beside = fit(dataset, PAPER, seeds=(0, 1), lr=(0.1, 1e30), **how)
    assert np.isnan(beside.validation_losses[: beside.epochs[1], 1]).all()
    assert beside.epochs[0] == alone.epochs[0]
    np.testing.assert_allclose(beside.parameters[0], alone.parameters[0], rtol=1e-5, atol=1e-6)
    losses = [each.validation_losses[:, 0] for each in (beside, alone)]  # of later weights too
    np.testing.assert_allclose(*losses, rtol=1e-5)
