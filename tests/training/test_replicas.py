"""A replica trains the same alone, in a batch, on any thread; and no two share a stream."""

from __future__ import annotations

import numpy as np
import pytest
from small_graphs import fit, random_graph

from private_graphs.core.streams import Streams
from private_graphs.methods.gcn_protocols import PAPER, RELEASED, SOUND, SOUND_POISSON

PROTOCOLS = {"released": RELEASED, "paper": PAPER, "sound": SOUND, "poisson": SOUND_POISSON}
BATCH = tuple(range(30))
DATASET = random_graph(nodes=40, features=12, unlabelled=2)
NOISE = np.linspace(0.5, 4.0, len(BATCH))
RATES = np.geomspace(0.01, 1.0, len(BATCH))


def train(seeds, protocol, **how):
    """Fifty steps of the replicas of ``seeds``, each with its own noise and learning rate."""
    rows = [int(seed) for seed in seeds]
    defaults = dict(optimizer="adam", epochs=50 // how.get("steps_per_epoch", 1), dropout=0.5)
    how.pop("steps_per_epoch", None)
    return fit(
        DATASET, protocol, seeds=rows, noise=NOISE[rows], lr=RATES[rows],
        **(defaults | how),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("device", "optimizer"), [("cpu", "sgd"), ("cpu", "adam"), ("torch-cpu", "adam")]
)
@pytest.mark.parametrize("splits", [1, 5])
@pytest.mark.parametrize("name", PROTOCOLS)
def test_alone_and_in_a_batch_of_thirty_a_replica_trains_the_same(name, splits, optimizer, device):
    protocol = PROTOCOLS[name]
    steps = splits if protocol.visits != "epoch_sum" else 1
    how = dict(splits=splits, optimizer=optimizer, device=device, steps_per_epoch=steps)
    double = train(BATCH, protocol, **how).parameters
    single = train(BATCH, protocol, dtype="float32", **how).parameters
    for seed in (0, 13, 29) if device == "cpu" else (13,):
        alone = train([seed], protocol, **how).parameters[0]
        assert np.abs(alone - double[seed]).max() <= 1e-9
        alone = train([seed], protocol, dtype="float32", **how).parameters[0]
        distance = np.linalg.norm(alone.astype(np.float64) - single[seed])
        assert distance <= 1e-3 * np.linalg.norm(alone)


def assert_same(found, expected, order=slice(None)) -> None:
    for name in ("parameters", "epochs", "validation_loss", "test_predictions"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name)[order])


@pytest.mark.parametrize("name", PROTOCOLS)
def test_threads_and_the_order_of_replicas_change_nothing(name):
    protocol, seeds = PROTOCOLS[name], BATCH[:7]
    expected = train(seeds, protocol, splits=3, epochs=6)
    assert_same(train(seeds, protocol, splits=3, epochs=6, threads=2), expected)
    assert_same(train(seeds, protocol, splits=3, epochs=6, threads=50), expected)
    order = np.array([4, 0, 6, 2, 1, 5, 3])
    assert_same(train(order, protocol, splits=3, epochs=6), expected, order)


@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
def test_replicas_that_stop_early_leave_the_others_as_they_are(device):
    how = dict(noise=0.0, private=False, optimizer="adam", epochs=60, patience=5, dropout=0.5)
    how |= dict(lr=0.005, splits=2, device=device)
    together = fit(DATASET, PAPER, seeds=BATCH[:8], **how)
    assert len(set(together.epochs.tolist())) > 2
    for seed in BATCH[:8]:
        alone = fit(DATASET, PAPER, seeds=[seed], **how)
        assert alone.epochs[0] == together.epochs[seed]
        assert np.abs(alone.parameters[0] - together.parameters[seed]).max() <= 1e-9


def test_streams_are_told_apart_by_every_field_purpose_and_secret():
    fields = {"data": "ab", "cell": {"splits": 1}, "noise": 2.0, "learning_rate": 0.1, "seed": 0}
    changed = [
        {"data": "ac"}, {"cell": {"splits": 11}}, {"noise": 2.001}, {"learning_rate": 0.10001},
        {"seed": 1}, {"extra": 1},
    ]  # fmt: skip
    found = [Streams.of(fields), Streams.of(fields, b"x"), Streams.of(fields, b"y")]
    found += [Streams.of(fields | change) for change in changed]
    keys = {each.key("dropout").tobytes() for each in found}
    keys |= {each.of_door.key("noise").tobytes() for each in found}
    assert len(keys) == 2 * len(found)
    public, secret = ("initial", "partition", "random_baseline"), ("order", "sample")
    draws = {each.generator(p).integers(2**62) for each in found for p in public}
    draws |= {each.of_door.generator(p).integers(2**62) for each in found for p in secret}
    assert len(draws) == len(public + secret) * len(found)


def test_streams_are_the_same_in_every_process_and_whatever_the_order_of_fields():
    stream = Streams.of({"seed": 3, "cell": "a"})
    assert stream == Streams.of({"cell": "a", "seed": 3})
    assert stream.of_door.key("noise").tolist() == [3269187504, 4292466639, 1601834844, 1994685525]
    assert stream.of_door.generator("order").integers(10**9) == 976480747
