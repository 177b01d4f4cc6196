"""The engine of PyTorch Geometric and Opacus against the compiled one, and as a run."""

from __future__ import annotations

import numpy as np
import pytest
from small_graphs import (
    HIDDEN,
    descent_of,
    fit,
    random_graph,
    replicas_of,
    streams,
)

from private_graphs.attacks.small_jobs import small_graph
from private_graphs.jobs import Job
from private_graphs.mechanisms.door import Door
from private_graphs.methods.gcn_protocols import PAPER, RELEASED, SOUND, SOUND_POISSON
from private_graphs.run import execute
from private_graphs.training.engine import Settings

reference = pytest.importorskip("private_graphs.training.reference")
PROTOCOLS = {"released": RELEASED, "paper": PAPER, "sound": SOUND, "poisson": SOUND_POISSON}


def by_reference(dataset, protocol, *, splits=1, train_fraction=1.0, seeds=(0, 1), **how):
    chosen = Settings(**{"dropout": 0.0, "hidden": HIDDEN, "dtype": "float64"} | how)
    given = {"splits": splits, "seeds": seeds}
    return reference.train(
        dataset, protocol, chosen, replicas_of(seeds), descent_of(protocol, chosen, **given),
        splits=splits, train_fraction=train_fraction, validation_graph=protocol.test_graph,
    )  # fmt: skip


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("splits", [1, 4])
@pytest.mark.parametrize("name", PROTOCOLS)
def test_without_noise_both_engines_take_the_same_steps(name, splits, optimizer, private):
    dataset, protocol = random_graph(unlabelled=3), PROTOCOLS[name]
    how = {"optimizer": optimizer, "epochs": 5, "private": private, "clip_norm": 0.3}
    mine = by_reference(dataset, protocol, splits=splits, train_fraction=0.8, **how)
    theirs = fit(
        dataset, protocol, seeds=(0, 1), splits=splits, train_fraction=0.8, dropout=0.0, **how
    )
    # Opacus divides by the norm + 1e-6.
    np.testing.assert_allclose(mine.parameters, theirs.parameters, atol=2e-5)
    np.testing.assert_allclose(mine.validation_loss, theirs.validation_loss, atol=1e-4)
    assert mine.test_predictions.tolist() == theirs.test_predictions.tolist()


@pytest.mark.parametrize("name", ["released", "paper"])
def test_training_stops_early_where_the_compiled_one_does(name):
    how = {"optimizer": "adam", "epochs": 60, "private": False, "patience": 3}
    dataset = random_graph(unlabelled=3)
    mine = by_reference(dataset, PROTOCOLS[name], **how)
    theirs = fit(dataset, PROTOCOLS[name], seeds=(0, 1), dropout=0.0, **how)
    assert mine.epochs.tolist() == theirs.epochs.tolist() and mine.epochs.max() < 60
    np.testing.assert_allclose(mine.parameters, theirs.parameters, atol=1e-6)


def test_the_noise_is_that_of_the_plan_and_dropout_is_drawn():
    dataset, how = random_graph(), {"optimizer": "sgd", "epochs": 1, "private": True}
    chosen = Settings(dropout=0.5, hidden=HIDDEN, dtype="float64", clip_norm=0.5, **how)
    seeds = tuple(range(30))
    runs = [
        reference.train(
            dataset, SOUND, chosen, replicas_of(seeds, lr=1.0),
            descent_of(SOUND, chosen, seeds=seeds, splits=1, noise=noise), splits=1,
            train_fraction=1.0, validation_graph=SOUND.test_graph,
        ).parameters
        for noise in (8.0, 0.0)
    ]  # fmt: skip
    added = runs[0] - runs[1]
    assert added.std() == pytest.approx(4.0, rel=0.05)
    assert len(np.unique(added[:, 0])) == len(seeds)


@pytest.mark.parametrize("protocol", ["released", "paper", "sound"])
def test_a_run_by_the_reference_engine_has_the_price_of_the_compiled_one(protocol):
    fields = {
        "study": "s", "group": "g", "name": "n", "dataset": "small", "method": "gcn",
        "scenario": "nodes", "protocol": protocol, "seeds": (0,), "epsilons": (2.0,),
    }  # fmt: skip
    settings = {"splits": 3, "epochs": 4, "optimizer": "sgd"}
    mine, theirs = (
        execute(Job(**fields, settings=settings | engine), small_graph())
        for engine in ({"engine": "reference"}, {})
    )
    assert mine.rows["epsilon_proved"].equals(theirs.rows["epsilon_proved"])
    assert mine.rows["replica_id"].tolist() != theirs.rows["replica_id"].tolist()
    (statement,) = mine.statements.values()
    told = [line for line in statement["assumptions"] if "NumPy" in line]
    assert told and all("float64 parameters" in line for line in told)


def test_a_plan_that_is_not_kept_is_refused():
    from private_graphs.mechanisms.door import ReleaseMismatch
    from private_graphs.methods.gcn_budget import GcnSettings, training_event

    chosen = Settings("sgd", 2, True, hidden=HIDDEN, dropout=0.0)
    [spec], own = replicas_of((0,)), streams(0)
    event = training_event(GcnSettings(splits=1, epochs=3), SOUND, 1.0)
    door = Door.of(own)
    door.plan([[event]])
    reference.train(
        random_graph(), SOUND, chosen, [spec], door.descent([event], coins="order"), splits=1,
        train_fraction=1.0, validation_graph=SOUND.test_graph,
    )  # fmt: skip
    with pytest.raises(ReleaseMismatch, match="2 releases"):
        door.close()
