"""Audits of mechanisms pass the door's, and are sharp for noise that is 7 % too small."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from private_graphs.attacks import mechanism_audit
from private_graphs.attacks.audit import EACH_CONFIDENCE
from private_graphs.attacks.mechanism_audit import (
    GAUSSIAN,
    LAPLACE,
    MECHANISMS,
    audit_mechanism,
    tape_findings,
)
from private_graphs.attacks.small_jobs import small_dataset, small_job
from private_graphs.core.run import answer
from private_graphs.mechanisms.replay import Recording
from private_graphs.methods import method_named
from private_graphs.privacy.audits import Errors, rate_upper_bound
from private_graphs.privacy.statements import AUDIT_CONFIDENCE

FEW = 20
"""Batches: enough to see noise that is 7 % too small in 40,000 draws."""


TABLES = GAUSSIAN, LAPLACE
ORIGINAL = {name: entry for table in TABLES for name, entry in table.items()}


@cache
def drawn(name: str, seed: int) -> np.ndarray:
    """A batch of draws of a mechanism, made once for all tests."""
    return ORIGINAL[name](seed, 0.0)


def plant(monkeypatch, name: str, change) -> None:
    """Let a mechanism draw what ``change`` makes of its draws."""
    table = GAUSSIAN if name in GAUSSIAN else LAPLACE
    monkeypatch.setitem(table, name, lambda seed, exact: change(drawn(name, seed)))


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


def test_a_choice_at_half_its_scale_is_noticed(monkeypatch):
    counts, rates, epsilon = mechanism_audit.CHOICES["choose_top"](2000)
    monkeypatch.setitem(
        mechanism_audit.CHOICES, "choose_top",
        lambda draws: ([(rate**2 / (rate**2).sum() * draws).astype(int) for rate in rates],
                       rates, epsilon),
    )  # fmt: skip
    assert not audit_mechanism("choose_top", FEW).passed and counts[0].sum() == 2000


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
    assert any("repeat" in each for each in tape_findings([reused]))


def test_bounds_and_verdicts_hold_jointly():
    """Four error rates bound a pure ε; a verdict of a canary is that of two attacks."""
    tail = (1 - AUDIT_CONFIDENCE) / 4
    often, seldom = 1 - rate_upper_bound(200, 1000, tail), rate_upper_bound(100, 1000, tail)
    found = mechanism_audit._pure_epsilon(Errors(100, 1000, 200, 1000))
    assert found == pytest.approx(math.log(often / seldom))
    assert 1 - EACH_CONFIDENCE == pytest.approx((1 - AUDIT_CONFIDENCE) / 2)
