"""Audits of releases: the code as it is passes, and noise a little too small does not."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

from private_graphs.attacks import release_audit
from private_graphs.attacks.noise_tests import Noise
from private_graphs.attacks.release_audit import CLASSES, METHODS, Size, audit_release
from private_graphs.attacks.release_tasks import TASKS, GradientTask, make_requests
from private_graphs.methods import all_methods
from private_graphs.tasks import SCENARIOS
from private_graphs.training import engine

FEW = Size(noise=4_000, scores=4_000, choices=2_000)
CASES = [(method, classes) for method in METHODS for classes in CLASSES]


def test_every_method_of_the_sides_of_a_graph_that_reads_private_data_is_audited():
    assert set(TASKS) == {
        name
        for name, method in all_methods().items()
        if method.reads_private and {SCENARIOS[each].cut for each in method.scenarios} == {"sides"}
    }


@pytest.mark.parametrize(("method", "classes"), CASES, ids=[f"{m}-{k}" for m, k in CASES])
def test_releases_are_as_claimed(method, classes):
    found = audit_release(method, classes, 2.0, FEW)
    assert found.passed, found.findings


@pytest.mark.parametrize("method", ["dp_linear", "dp_mlp"])
def test_the_noise_of_two_steps_adds_up(method):
    task = GradientTask(method, 3, 2.0, steps=2)
    requests = make_requests(method, 3, 2.0, 0, 0, 2 * task.batch)
    assert Noise(task.release(0, requests).noise, 2 * task.batch).found(1e-3) == []


@pytest.mark.parametrize("method", [each for each in TASKS if each != "label_counts"])
def test_neighbours_are_as_far_apart_as_is_proved(method):
    """The middle of the scores of either arm lies at the proved μ, in units of the noise."""
    task = TASKS[method](method, 3, 2.0)
    means, spreads, count = [], [], 0
    for arm in (0, 1):
        requests = make_requests(method, 3, 2.0, arm, 0, max(task.batch, 4000 // task.canaries))
        scores = task.release(arm, requests, False).scores
        means.append(scores.mean())
        spreads.append(scores.std())
        count = len(scores)
    apart = (means[1] - means[0]) / np.mean(spreads)
    assert apart == pytest.approx(task.mu, abs=4 * math.sqrt(2 / count))


# --- what the tests of noise see ----------------------------------------------------------------

SHAPE = (20_000, 3, 4, 3)


def standard(seed: int = 0, shape=SHAPE) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def test_noise_as_claimed_raises_no_alarm():
    assert sum(bool(Noise(standard(seed), 100).found(1e-3)) for seed in range(5)) == 0
    ratio, low, high = Noise(standard(), 100).std_ratio(0.999)
    assert low < 1 < high and ratio == pytest.approx(1, abs=0.01)


def test_alarms_are_as_rare_as_is_said():
    """At one alarm in five, of 200 audits between 20 and 60 raise one."""
    noisy = [bool(Noise(standard(seed, (200, 2, 3, 2)), 10).found(0.2)) for seed in range(200)]
    assert stats.binom.cdf(sum(noisy), 200, 0.2) > 1e-4 and sum(noisy) > 10


def scaled(place, factor: float) -> np.ndarray:
    noise = standard()
    noise[place] *= factor
    return noise


every = slice(None)


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ((every, every, every, every), "all entries"),
        ((every, 1), "round 1"),
        ((every, every, 2), "row 2"),
        ((every, every, every, 0), "column 0"),
        ((every, 2, 3, 1), "coordinate 34"),
    ],
)
def test_noise_of_factor_93_is_seen_wherever_it_is(place, name):
    found = Noise(scaled(place, 0.93), 100).found(1e-3 / 27)
    assert any(name in each.name for each in found)


def shared(kind: str) -> np.ndarray:
    noise = standard()
    if kind == "rounds":
        noise[:, 2] = noise[:, 0]
    elif kind == "columns":
        noise[..., 1] = -noise[..., 0]
    elif kind == "coordinates":
        noise[:, 0, 1, 0] = noise[:, 2, 3, 1]
    else:  # the first release of each batch and its fortieth
        noise[39::100] = noise[::100]
        noise[41::100] = noise[2::100]
        for place in range(50, 100):
            noise[place::100] = noise[49::100]
    return noise


@pytest.mark.parametrize("kind", ["rounds", "columns", "coordinates", "batch"])
def test_noise_that_is_used_twice_is_seen(kind):
    assert any(kind in each.name for each in Noise(shared(kind), 100).found(1e-3 / 27))


# --- what the bound on mu sees ------------------------------------------------------------------


@pytest.mark.parametrize(("factor", "seen"), [(1.0, False), (0.93, True)])
def test_both_audits_notice_noise_of_factor_93(monkeypatch, factor, seen):
    honest = engine._Batch._state
    monkeypatch.setattr(
        engine._Batch,
        "_state",
        lambda batch: (state := honest(batch))._replace(noise_std=factor * state.noise_std),
    )
    found = audit_release("gcn_epoch_sum", 2, 2.0, Size(noise=4_000, scores=200_000))
    assert found.draws >= 200_000
    assert (found.mu_lower > found.mu_proved) is seen
    assert (found.std_ratio_high < 1) is seen
    assert found.passed is not seen
    assert found.std_ratio == pytest.approx(factor, abs=0.01)


# --- command line -------------------------------------------------------------------------------


def test_the_command_prints_one_entry_for_each_number_of_classes(run, monkeypatch):
    monkeypatch.setattr(
        release_audit, "_in_order",
        lambda jobs, epsilon, size, _: (audit_release(*job, epsilon, FEW) for job in jobs),
    )  # fmt: skip
    ended = run("audit", "--release", "--method", "gcn_epoch_sum", "--json")
    found = json.loads(ended.out)
    assert ended.code == 0 and [each["classes"] for each in found] == [2, 3, 7]
    assert set(found[0]) == {
        "method", "classes", "draws", "std_ratio", "std_ratio_low", "std_ratio_high", "mu_lower",
        "mu_proved", "confidence", "passed", "findings",
    }  # fmt: skip
    monkeypatch.setattr(engine._Batch, "_rule", broken_rule(engine._Batch._rule))
    ended = run("audit", "--release", "--method", "gcn_epoch_sum")
    assert ended.code == 1 and "FAILED" in ended.out and "mu is at least" in ended.err


def broken_rule(honest):
    """Return a rule without a clip norm."""
    return lambda batch: honest(batch)._replace(clip=np.inf)


@pytest.mark.parametrize("more", [("--method", "text_only"), ("--runs", 20), ("--setting", "text")])
def test_other_options_are_refused(run, more):
    assert run("audit", "--release", *more).code == 2
