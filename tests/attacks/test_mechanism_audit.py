"""Audits of mechanisms pass the door's, and are sharp for noise that is 7 % too small."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

from private_graphs.attacks import mechanism_audit
from private_graphs.attacks.audit import EACH_CONFIDENCE
from private_graphs.attacks.mechanism_audit import (
    GAUSSIAN,
    LAPLACE,
    LONG,
    MECHANISMS,
    Size,
    audit_mechanism,
    tape_findings,
)
from private_graphs.attacks.noise_tests import NoiseSample, NoiseValues
from private_graphs.attacks.small_data import small_dataset
from private_graphs.attacks.small_jobs import small_job
from private_graphs.core.streams import Streams
from private_graphs.mechanisms.door import Door
from private_graphs.mechanisms.replay import Recording
from private_graphs.methods import method_named
from private_graphs.privacy.audits import Errors, rate_upper_bound
from private_graphs.privacy.queries import GaussianQuery
from private_graphs.privacy.statements import AUDIT_CONFIDENCE
from private_graphs.running.run import answer

FEW = 20
"""Batches: enough to see noise that is 7 % too small in 40,000 draws."""


TABLES = GAUSSIAN, LAPLACE
ORIGINAL = {name: entry for table in TABLES for name, entry in table.items()}


@cache
def drawn(name: str, seed: int, size: Size) -> np.ndarray:
    """A batch of draws of a mechanism, made once for all tests."""
    return ORIGINAL[name](seed, 0.0, size)


def plant(monkeypatch, name: str, change) -> None:
    """Let a mechanism draw what ``change`` makes of its draws."""
    table = GAUSSIAN if name in GAUSSIAN else LAPLACE
    monkeypatch.setitem(table, name, lambda seed, exact, size: change(drawn(name, seed, size)))


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms_are_as_claimed(name, monkeypatch):
    if name in ORIGINAL:
        plant(monkeypatch, name, lambda draws: draws)
    found = audit_mechanism(name, FEW)
    assert found.passed, found.findings
    assert 0 < found.mu_lower <= found.mu_proved


@pytest.mark.parametrize("name", ORIGINAL)
def test_noise_that_is_a_little_too_small_is_noticed(name, monkeypatch):
    plant(monkeypatch, name, lambda draws: 0.93 * draws)
    found = audit_mechanism(name, FEW)
    assert not found.passed and found.std_ratio_high < 1


@pytest.mark.parametrize("name", ["gaussian", "steps", "laplace"])
@pytest.mark.parametrize("axis", [0, 1, 2], ids=["lanes", "rounds", "rows"])
def test_noise_that_is_used_twice_is_noticed(name, axis, monkeypatch):
    def broken(draws: np.ndarray) -> np.ndarray:
        """One entry along an axis repeats the one before it; of lanes, each second one."""
        places = np.arange(draws.shape[axis])
        places[1 : None if axis == 0 else 2 : 2] -= 1
        return draws.take(places, axis)

    plant(monkeypatch, name, broken)
    assert not audit_mechanism(name, FEW).passed


LAWS = {
    "repeats after 64 numbers": lambda row: np.resize(row[:64], row.shape),
    "repeats in every block of 4,096": lambda row: np.resize(row[:4096], row.shape),
    "is cut off at 4 sigma": lambda row: np.clip(row, -4, 4),
    "is drawn again beyond 4 sigma": lambda row: np.where(np.abs(row) > 4, row / 9, row),
    "sums to zero": lambda row: row - row.mean(),
    "changes its sign in the second half": lambda row: np.r_[row[: len(row) // 2],
                                                             -row[: len(row) // 2]],
    "is reordered in the second half": lambda row: np.r_[row[: len(row) // 2],
                                                         np.sort(row[: len(row) // 2])],
    "leans on the number 777 before": lambda row: row + 0.02 * np.roll(row, 777),
}  # fmt: skip
"""Bugs of long values alone: noise that ..."""


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", ["gaussian_float32", "laplace_lattice", "root_steps"])
def test_noise_of_another_law_is_noticed(name, law, monkeypatch):
    """In long values alone, whose standard deviation stays what it was."""

    def broken(draws: np.ndarray) -> np.ndarray:
        if draws.shape[-1] < LONG.columns:
            return draws
        values = draws.reshape(-1, LONG.numbers)
        return np.stack([LAWS[law](value) for value in values]).reshape(draws.shape)

    plant(monkeypatch, name, broken)
    found = audit_mechanism(name, FEW)
    assert not found.passed and found.std_ratio_low < 1 < found.std_ratio_high


def test_the_audit_of_true_noise_alarms_as_seldom_as_it_says():
    """At an alarm of one fifth, of short and long values, of equal and unequal length."""
    generator, runs = np.random.default_rng(0), 60
    for sizes in ((2, 5), (40, 60), (1, 999)):
        alarms = sum(
            bool(NoiseValues([generator.standard_normal(n) for n in sizes], 2.0**-30).found(0.2))
            for _ in range(runs)
        )
        assert alarms < 0.2 * runs + 2 * math.sqrt(0.16 * runs)
    for shape, batch in (((20, 3, 4, 10), 1), ((40, 1, 2, 3), 4)):
        samples = (generator.standard_normal(shape) for _ in range(runs))
        alarms = sum(bool(NoiseSample(each, batch).found(0.2)) for each in samples)
        assert alarms <= binom.isf(1e-3, runs, 0.2)


SCALES = {
    "exponential": lambda generator, n: generator.exponential(size=n),
    "mean exactly one": lambda generator, n: np.r_[u := generator.uniform(0, 2, n // 2), 2 - u],
    "two values": lambda generator, n: generator.choice([0.7, 1.3], n),
}
"""Squares of a scale that all coordinates of a release share, drawn anew for each release."""


@pytest.mark.parametrize("scale", SCALES)
def test_a_scale_that_coordinates_share_is_noticed_in_few_releases(scale):
    """Each coordinate has the claimed variance, and none is correlated with another."""
    generator, n = np.random.default_rng(0), 60
    for _ in range(10):
        squares = SCALES[scale](generator, n).reshape(n, 1, 1, 1)
        noise = generator.standard_normal((n, 1, 4, 20)) * np.sqrt(squares)
        assert NoiseSample(noise, 1).found(1e-3)
        assert NoiseValues(list(noise.reshape(n, -1)), 2.0**-30).found(1e-3)


def recorded(name: str, scenario: str) -> Recording:
    method, watch = method_named(name), Recording()
    answer(small_job(method, scenario, "sound"), small_dataset(method), watch)
    return watch


def test_the_noise_of_recorded_tapes_is_fresh_and_as_large_as_planned():
    tapes = [recorded("class_sums", "text"), recorded("dp_linear", "graph"),
             recorded("gap", "links"), recorded("part_means", "subclasses")]  # fmt: skip
    assert tape_findings(tapes) == []
    reused = recorded("class_sums", "text")
    for tape in reused.tapes.values():
        one = next(each for each in tape if each.kind == "gaussian")
        place = tape.index(one)
        first = next(iter(reused.tapes.values()))
        noise = next(e for e in first if e.kind == "gaussian")
        tape[place] = replace(one, exact=noise.exact, noisy=noise.noisy)
    assert any("equal pairs" in each for each in tape_findings([reused]))


def changed(watch: Recording, change) -> Recording:
    """The recording, with ``change`` made to the noise of its Gaussian values."""
    for tape in watch.tapes.values():
        for place, one in enumerate(tape):
            if one.kind == "gaussian" and one.query is not None:
                unit = one.query.spacing if np.issubdtype(one.exact.dtype, np.integer) else 1.0
                noise = one.noisy - one.exact * unit
                noisy = one.exact * unit + change(noise.ravel()).reshape(noise.shape)
                tape[place] = replace(one, noisy=noisy)
    return watch


@pytest.mark.parametrize(
    "change",
    [lambda noise: np.resize(noise[:16], noise.shape),
     lambda noise: np.r_[noise[:8], np.resize(noise[8:20], len(noise) - 8)],
     lambda noise: noise - noise.mean()],
    ids=["repeats after 16", "repeats after the first 8", "sums to zero"],
)  # fmt: skip
def test_all_numbers_of_all_values_of_a_tape_are_compared(change):
    assert tape_findings([changed(recorded("class_sums", "text"), change)])


def test_a_method_that_may_draw_the_noise_of_its_release_is_noticed(monkeypatch):
    """Who subtracts a public stream: the tape's noise is held against all that are open."""

    def either(streams: Streams, name: str, by_door: bool) -> bytes:
        return streams._digest(name)

    monkeypatch.setattr(Streams, "_claimed", either)
    watch = Recording()
    query = GaussianQuery(unit="node", relation="replace", reason="test", count=1, sensitivity=1.0,
                          noise_std=2.0)  # fmt: skip
    streams = Streams.of({"replica": 0})
    door = Door.of([streams], watch)
    door.plan([(query,)])
    noisy = door.gaussian(np.zeros((1, 500)), [query])
    assert not (noisy - 2 * streams.public.generator("diagnostic").standard_normal(500)).any()
    assert any("the public stream noise" in each for each in tape_findings([watch]))


def test_bounds_and_verdicts_hold_jointly():
    """Four error rates bound a pure ε; a verdict of a canary is that of two attacks."""
    tail = (1 - AUDIT_CONFIDENCE) / 4
    often, seldom = 1 - rate_upper_bound(200, 1000, tail), rate_upper_bound(100, 1000, tail)
    found = mechanism_audit._pure_epsilon(Errors(100, 1000, 200, 1000), 1 - AUDIT_CONFIDENCE)
    assert found == pytest.approx(math.log(often / seldom))
    assert 1 - EACH_CONFIDENCE == pytest.approx((1 - AUDIT_CONFIDENCE) / 2)
