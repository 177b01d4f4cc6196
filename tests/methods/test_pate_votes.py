"""Confident-GNMax: prices by two routes, caps, neighbours, and the 2018 script's diagnostic."""

from __future__ import annotations

import numpy as np
import pytest
from doors import one_lane

from private_graphs.attacks.neighbours import neighbours
from private_graphs.attacks.small_data import small_dataset
from private_graphs.attacks.small_jobs import small_job
from private_graphs.mechanisms.door import UNSEEN
from private_graphs.methods import method_named
from private_graphs.privacy.accountants import compose_groups, gdp_epsilon, gdp_mu, price
from private_graphs.privacy.renyi import simple_epsilon, simple_mu
from private_graphs.running.run import answer
from private_graphs.studies.pate.methods.pate_votes import (
    REFUSED,
    VoteNoise,
    dependent_answers,
    log_miss,
    noise_for,
    released_labels,
    simulated_labels,
)
from private_graphs.training.image_nets import Ensemble

VOTES = np.random.default_rng(0).multinomial(250, [0.7] + [0.3 / 9] * 9, size=400)


def released(votes: np.ndarray, noise: VoteNoise, seed: int, planned: VoteNoise | None = None):
    """Labels that pass a door, of the plan of ``noise`` or another one."""
    events = (planned or noise).events("record", "replace")
    generator = np.random.default_rng(seed)
    *check, answer = events
    door = one_lane(*events, seed=generator)
    labels = released_labels(
        votes,
        noise,
        lambda exact, asked: door.rows(exact, check[0] if check else None, asked),
        lambda exact, asked: door.rows(exact, answer, asked),
    )
    door.close()
    return labels


def votes(*counts: int) -> np.ndarray:
    return np.array([[*counts, *[0] * (10 - len(counts))]])


@pytest.mark.parametrize(
    ("queries", "answers", "check", "answer", "delta", "by_renyi", "exact"),
    [
        (10_000, 3_000, 200, 40, 1e-6, 12.513044, 10.997151),
        (2_200, 2_200, 200, 40, 1e-5, 9.439136, 8.051004),
        (8_500, 3_098, 200, 40, 1e-6, 12.666657, 11.137869),
        (640, 286, 150, 40, 1e-5, 3.174029, 2.542602),
        (2_200, 2_200, 0, 40, 1e-5, 9.332448, 7.955247),
        (3_000, 3_000, 0, 40, 1e-6, 12.054210, 10.577200),
        (4_500, 2_200, 150, 78.585, 1e-5, 5.03998, 4.15149),
        (4_500, 2_200, 150, 103.692, 1e-5, 4.05, 3.29306),
        (9_000, 2_200, 150, 78.585, 1e-5, 5.61745, 4.65632),
        (9_000, 2_200, 150, 103.692, 1e-5, 4.72122, 3.87405),
    ],
)
def test_prices_at_the_caps(queries, answers, check, answer, delta, by_renyi, exact):
    noise = VoteNoise(200, check, answer, queries, answers)
    assert simple_epsilon(noise.mu, delta) == pytest.approx(by_renyi, abs=1e-5)
    assert gdp_epsilon(noise.mu, delta) == pytest.approx(exact, abs=1e-5)
    priced = [
        price(event, "record", "replace", delta) for event in noise.events("record", "replace")
    ]
    assert compose_groups([(priced, 1)], delta) == pytest.approx(exact, abs=1e-5)
    plain = [each for each in priced if each.second_route]
    assert all(abs(each.second_route - each.epsilon) < 2e-4 * each.epsilon for each in plain)


@pytest.mark.parametrize(
    ("epsilon", "delta", "answers", "sound", "theorem", "unchecked", "unchecked_sound"),
    [
        (5.04, 1e-5, 2_200, 63.993, 78.585, 69.441, 58.758),
        (4.05, 1e-5, 2_200, 80.789, 103.692, 84.985, 70.948),
        (4.93, 1e-6, 3_000, 85.767, 104.374, 89.397, 76.860),
        (3.96, 1e-6, 3_000, 110.705, 141.810, 109.725, 93.279),
    ],
)
def test_noise_for_a_budget(epsilon, delta, answers, sound, theorem, unchecked, unchecked_sound):
    of = {
        (of, check): noise_for(of(epsilon, delta), 200, check, 4_500, answers)
        for of in (gdp_mu, simple_mu) for check in (150, 0)
    }  # fmt: skip
    assert of[gdp_mu, 150].answer_std == sound and of[simple_mu, 150].answer_std == theorem
    assert of[simple_mu, 0].answer_std == unchecked
    assert of[gdp_mu, 0].answer_std == unchecked_sound
    for (accountant, _), noise in of.items():
        proved = {gdp_mu: gdp_epsilon, simple_mu: simple_epsilon}[accountant](noise.mu, delta)
        assert 0.999 * epsilon < proved <= epsilon


def test_caps_hold_in_every_draw_and_refusals_take_draws():
    noise = VoteNoise(150, 30, 20, 100, 40)
    other = VOTES.copy()
    other[3] = np.eye(10, dtype=int)[0] * 250  # surely passes
    for seed in range(50):
        labels = released(VOTES, noise, seed)
        got = np.flatnonzero(labels != REFUSED)
        assert len(got) <= 40 and (not len(got) or got[-1] < 100)
        changed = released(other, noise, seed)
        both = (labels != REFUSED) & (changed != REFUSED)
        both[3] = False
        assert np.array_equal(labels[both], changed[both])


@pytest.mark.parametrize("check", [30, 0])
def test_the_diagnostic_of_a_run_without_dp_simulates_what_is_released(check):
    noise = VoteNoise(150, check, 20, 100, 40)
    if check:
        simulated = simulated_labels(VOTES, noise, np.random.default_rng(3))
        assert np.array_equal(simulated, released(VOTES, noise, 3))
    labels = simulated_labels(VOTES, VoteNoise(150, check, 1e-9, 100, 40), np.random.default_rng(3))
    got = labels != REFUSED
    assert got.sum() == 40 and np.array_equal(labels[got], VOTES[got].argmax(1))


@pytest.mark.parametrize(
    ("row", "std", "log_q", "costs"),
    [
        ((250,), 40, -10.019228, (1.52736e-5, 2.05891e-5, 2.03455e-4)),
        ((200, 50), 40, -5.179152, (0.00125, 0.00165488, 0.00617548)),
        ((150, 100), 40, None, (0.00125, 0.005, 0.02)),
        ((250,), 85, -1.777986, (2.76817e-4, 1.10727e-3, 4.42907e-3)),
    ],
)
def test_the_data_dependent_diagnostic_is_that_of_the_authors_script(row, std, log_q, costs):
    if log_q is not None:
        assert log_miss(votes(*row), std)[0] == pytest.approx(log_q, abs=1e-6)
    found = [dependent_answers(votes(*row), std, order)[0] for order in (2, 8, 32)]
    assert found == pytest.approx(costs, rel=2e-5)


def test_which_records_a_teacher_has_follows_from_no_record(monkeypatch):
    """Else one record moves the votes of more than one teacher; few images show it."""
    parts, votes_of = [], Ensemble.votes

    def remember(ensemble, own, *others):
        parts.append(own)
        return votes_of(ensemble, own, *others)

    monkeypatch.setattr(Ensemble, "votes", remember)
    method = method_named("pate_labels")
    job = small_job(method, "records", "sound", seeds=(0,))
    task, _ = answer(job, small_dataset(method), UNSEEN)
    for other in neighbours(task, 5, 0):
        answer(job, small_dataset(method), UNSEEN, other.task)
    assert len(parts) == 6 and all(np.array_equal(each, parts[0]) for each in parts)
