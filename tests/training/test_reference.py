"""The engine of PyTorch Geometric and Opacus against the compiled one, and as a run."""

from __future__ import annotations

import numpy as np
import pytest
from small_graphs import (
    HIDDEN,
    by_reference,
    fit,
    four_nodes,
    random_graph,
    replicas_of,
    start,
    streams,
)

from private_graphs.attacks.small_data import small_graph
from private_graphs.datasets import registry
from private_graphs.mechanisms.door import Door
from private_graphs.methods.gcn_protocols import PAPER, RELEASED, SOUND, SOUND_POISSON
from private_graphs.running.jobs import Job
from private_graphs.running.run import execute
from private_graphs.training.engine import EngineSettings

reference = pytest.importorskip("private_graphs.training.reference")
PROTOCOLS = {"released": RELEASED, "paper": PAPER, "sound": SOUND, "poisson": SOUND_POISSON}


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("splits", [1, 4])
@pytest.mark.parametrize("name", PROTOCOLS)
def test_without_noise_both_engines_take_the_same_steps(name, splits, optimizer, private):
    dataset, protocol = random_graph(unlabelled=3), PROTOCOLS[name]
    how = dict(
        optimizer=optimizer, epochs=5, private=private, clip_norm=0.3, splits=splits,
        train_fraction=0.8, seeds=(0, 1),
    )  # fmt: skip
    mine, theirs = by_reference(dataset, protocol, **how), fit(dataset, protocol, **how)
    close = 2e-5 if private else 1e-9  # Opacus divides by the norm + 1e-6
    np.testing.assert_allclose(mine.parameters, theirs.parameters, atol=close)
    np.testing.assert_allclose(mine.validation_loss, theirs.validation_loss, atol=5 * close)
    assert mine.test_predictions.tolist() == theirs.test_predictions.tolist()


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    return registry.build("synthetic-planetoid", tmp_path_factory.mktemp("raw"))


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("graph", ["embedded", "four"])
def test_fifty_epochs_are_those_of_pytorch_geometric(graph, optimizer, request):
    dataset = four_nodes() if graph == "four" else request.getfixturevalue("embedded")
    how = dict(optimizer=optimizer, lr=0.05, weight_decay=0.01, epochs=50)
    trained, oracle = fit(dataset, RELEASED, **how), by_reference(dataset, RELEASED, **how)
    assert np.abs(oracle.parameters - start(dataset)).max() > 1e-2  # training moved something
    assert np.abs(trained.parameters - oracle.parameters).max() <= 1e-9
    assert abs(trained.validation_loss - oracle.validation_loss).item() <= 1e-9
    for name in ("validation_predictions", "test_predictions"):
        assert getattr(trained, name).tolist() == getattr(oracle, name).tolist()
    single = fit(dataset, RELEASED, dtype="float32", **how).parameters
    assert single.dtype == np.float32
    assert np.linalg.norm(single - oracle.parameters) <= 1e-3 * np.linalg.norm(oracle.parameters)


@pytest.mark.parametrize("name", ["released", "paper"])
def test_training_stops_early_where_the_compiled_one_does(name):
    how = {"optimizer": "adam", "epochs": 60, "patience": 3, "seeds": (0, 1)}
    dataset = random_graph(unlabelled=3)
    mine, theirs = (
        by_reference(dataset, PROTOCOLS[name], **how),
        fit(dataset, PROTOCOLS[name], **how),
    )
    assert mine.epochs.tolist() == theirs.epochs.tolist() and mine.epochs.max() < 60
    np.testing.assert_allclose(mine.parameters, theirs.parameters, atol=1e-6)


def test_the_noise_is_that_of_the_plan_and_dropout_is_drawn():
    seeds = tuple(range(30))
    how = dict(seeds=seeds, private=True, clip_norm=0.5, dropout=0.5, lr=1.0)
    runs = [by_reference(random_graph(), SOUND, noise=each, **how).parameters for each in (8, 0)]
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
    from private_graphs.methods.gcn_protocols import GcnSettings, training_event

    chosen = EngineSettings("sgd", 2, True, hidden=HIDDEN, dropout=0.0)
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
