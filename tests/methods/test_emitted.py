"""Events come from what training did: a step, a clip or a noise that is missing stops the run."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from small_graphs import fit, random_graph
from small_jobs import job_of

from private_graphs.jobs import Job
from private_graphs.methods.emitted import ReleaseMismatch, check_released, emitted_event
from private_graphs.methods.gcn_budget import GcnSettings, protocol_of, training_event
from private_graphs.methods.gcn_protocols import PROTOCOLS, SOUND_POISSON
from private_graphs.privacy.events import FullBatch, Poisson, Shuffled
from private_graphs.run import execute
from private_graphs.training import engine

DATASET = random_graph(0, nodes=90, classes=3)
KINDS = {
    "full": ("sound", "protocol", 1, "sgd"),
    "epoch_sum": ("sound", "protocol", 5, "adam"),
    "poisson": ("sound", "poisson", 5, "sgd"),
    "shuffled": ("paper", "protocol", 5, "sgd"),
    "unclipped": ("released", "protocol", 5, "adam"),
}


def job_of_kind(kind: str, epochs: int = 6, **changes: object) -> Job:
    protocol, visits, splits, optimizer = KINDS[kind]
    settings = {"visits": visits, "splits": splits, "optimizer": optimizer, "epochs": epochs}
    settings |= {"clip_norm": 0.3, "learning_rate": 0.1}
    return job_of(protocol=protocol, settings=settings, **({"epsilons": (2.0,)} | changes))


@pytest.fixture
def counted(monkeypatch):
    """Run a job; return it and what the engine counted."""
    results = []
    original = engine.train

    def spied(*arguments, **named):
        results.append(original(*arguments, **named))
        return results[-1]

    monkeypatch.setattr(engine, "train", spied)

    def call(kind: str, threads: int = 1, **changes: object):
        job = job_of_kind(kind, **changes)
        execute(job, DATASET, threads=threads)
        return job, results[-1].released

    return call


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_the_event_is_that_of_the_steps_taken(counted, kind: str, threads: int) -> None:
    job, released = counted(kind, threads=threads)
    settings = GcnSettings(**job.settings)
    parts = KINDS[kind][2]
    steps = 6 if kind in ("full", "epoch_sum") else 6 * parts
    sampling = {"full": FullBatch(), "epoch_sum": FullBatch(5), "poisson": Poisson(0.2)}
    assert len(released) == 2
    for each in released:
        assert (each.noisy_steps, each.bare_steps, each.epochs) == (steps, 0, 6)
        event = emitted_event(each, settings.clip_norm, 1)
        assert event.sampling == sampling.get(kind, Shuffled(5))
        assert event.clipping == ("none" if kind == "unclipped" else "gradient_global")
        protocol = protocol_of(settings, PROTOCOLS[job.protocol])
        planned = training_event(settings, protocol, event.noise_multiplier)
        assert check_released(planned, each) == event


def test_steps_without_noise_are_counted_apart(counted) -> None:
    _, released = counted("full", epsilons=(math.inf,))
    for each in released:
        assert each.noisy_steps == 0 and each.bare_steps == each.epochs
        with pytest.raises(ReleaseMismatch, match="without noise"):
            emitted_event(each, 1.0, 1)


def _without_one_step(monkeypatch) -> None:
    original = engine._Batch._schedule

    def shorter(self, active):
        steps = original(self, active)
        return steps[:-1] if self.steps > 3 and len(steps) > 1 else steps

    monkeypatch.setattr(engine._Batch, "_schedule", shorter)


def _without_empty_steps(monkeypatch) -> None:
    """No noise where no part joined: what is released then tells that nobody did."""
    original = engine._Batch._schedule

    def skipping(self, active):
        return [each for each in original(self, active) if sum(map(len, each))]

    monkeypatch.setattr(engine._Batch, "_schedule", skipping)


def _one_part_more(monkeypatch) -> None:
    original = engine._Batch._schedule

    def doubled(self, active):
        return [[np.append(row, row) for row in step] for step in original(self, active)]

    monkeypatch.setattr(engine._Batch, "_schedule", doubled)


def _one_part_less(monkeypatch) -> None:
    original = engine._Batch._schedule

    def fewer(self, active):
        return [[row[:-1] for row in step] for step in original(self, active)]

    monkeypatch.setattr(engine._Batch, "_schedule", fewer)


def _noise(factor: float):
    def plant(monkeypatch) -> None:
        original = engine._Batch._state

        def weaker(self):
            state = original(self)
            return state._replace(noise_std=factor * state.noise_std)

        monkeypatch.setattr(engine._Batch, "_state", weaker)

    return plant


def _noise_of_one_replica(monkeypatch) -> None:
    original = engine._Batch._state

    def partly(self):
        state = original(self)
        return state._replace(noise_std=state.noise_std * np.array([1.0, 0.0]))

    monkeypatch.setattr(engine._Batch, "_state", partly)


def _clip(bound: float):
    def plant(monkeypatch) -> None:
        original = engine._Batch._rule
        monkeypatch.setattr(
            engine._Batch, "_rule", lambda self: original(self)._replace(clip=bound)
        )

    return plant


def _one_epoch_more(monkeypatch) -> None:
    original = engine._Batch.run

    def longer(self, report):
        self.settings = replace(self.settings, epochs=self.settings.epochs + 1)
        original(self, report)

    monkeypatch.setattr(engine._Batch, "run", longer)


@pytest.mark.parametrize(
    ("plant", "kind", "message"),
    [
        (_without_one_step, "shuffled", "releases"),
        (_without_one_step, "poisson", "releases is 25, planned 30"),
        (_without_empty_steps, "poisson", "releases"),
        (_one_part_more, "shuffled", "saw 2 to 2 of 5 parts; expected 1 to 1"),
        (_one_part_less, "epoch_sum", "saw 4 to 4 of 5 parts"),
        (_noise(0.5), "full", "noise_multiplier is"),
        (_noise(0.999), "poisson", "noise_multiplier is"),
        (_noise(0.0), "full", "6 steps were taken without noise"),
        (_noise_of_one_replica, "epoch_sum", "without noise"),
        (_clip(np.inf), "full", "clipping is none, planned gradient_global"),
        (_clip(0.6), "full", "clip_norm is 0.6, planned 0.3"),
        (_one_epoch_more, "epoch_sum", "epochs is 7, planned 6"),
    ],
)
def test_a_planted_bug_stops_the_run(monkeypatch, plant, kind: str, message: str) -> None:
    job = job_of_kind(kind)
    if plant is _without_empty_steps:  # there are steps that nobody joins
        job = job_of_kind(kind, epochs=30, seeds=(0,))
        execute(job, DATASET)
    plant(monkeypatch)
    with pytest.raises(ReleaseMismatch, match=message):
        execute(job, DATASET)


def test_the_counts_are_those_of_every_device() -> None:
    how = dict(seeds=(0, 1), splits=5, epochs=6, noise=(3.0, 1.0))
    first, second = (
        fit(DATASET, SOUND_POISSON, device=device, **how).released
        for device in ("cpu", "torch-cpu")
    )
    assert first == second
    assert [each.noise_std for each in first] == [3.0, 1.0]
