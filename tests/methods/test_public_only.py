"""Public data only: what it reads, its regression, its cross-validation."""

from __future__ import annotations

import numpy as np
import pytest
from small_tasks import make_task, request, run

from private_graphs.methods import public_only
from private_graphs.methods.public_only import PublicFit, PublicSide, ridge_weights


def test_without_labels_the_guess_is_uniform_and_of_the_stream():
    task = make_task("text", n_test=3000)
    first, again, other = run(
        "public_only", task, [request(task, 0, seed, known=0) for seed in (0, 0, 1)]
    )
    np.testing.assert_array_equal(first.test_predictions, again.test_predictions)
    assert (first.test_predictions != other.test_predictions).any()
    shares = np.bincount(first.test_predictions) / 3000
    np.testing.assert_allclose(shares, np.full(3, 1 / 3), atol=0.04)


@pytest.mark.parametrize("shape", [(20, 6), (6, 20)])
def test_ridge_solves_the_normal_equations(shape):
    rng = np.random.default_rng(0)
    rows, targets = rng.normal(size=shape), rng.normal(size=(shape[0], 2))
    expected = [
        np.linalg.solve(rows.T @ rows + strength * np.eye(shape[1]), rows.T @ targets)
        for strength in (0.7, 3.0)
    ]
    found = ridge_weights(rows, targets, (0.7, 3.0))
    np.testing.assert_allclose(found, np.hstack(expected), atol=1e-10)


def test_known_labels_take_the_place_of_scores_before_propagation():
    task = make_task("graph")
    side, known = PublicSide.of(task), np.arange(10)
    choices = [c for c in side.choices() if c.representation == 0 and c.ridge == 0.1]
    assert [c.propagation for c in choices] == list(public_only.PROPAGATIONS)
    plain, two, _, put_in, _ = side.scores(known, choices)
    replaced = plain.copy()
    replaced[known] = side.codes[known]
    np.testing.assert_allclose(two, public_only.propagated(plain, side.smoothing, 2))
    np.testing.assert_allclose(put_in, public_only.propagated(replaced, side.smoothing, 2))
    places = side.places(np.arange(25)).some(np.arange(5, 15))
    for there, everywhere in zip(side.scores(known, choices, places), side.scores(known, choices),
                                 strict=True):  # fmt: skip
        np.testing.assert_allclose(there, everywhere[5:15], atol=1e-12)


def test_cross_validation_takes_the_most_hits_then_the_smaller_error():
    side = PublicSide.of(make_task("text", n_validation=10))
    truth = np.vstack([side.codes, np.zeros((40, 3))])
    wrong, right, closer = -truth, 0.5 * truth, 0.9 * truth

    def ranked(*scores, known=10):
        def held_out(held, rest):
            return (each[held] for each in scores)

        return public_only.cross_validated(side, np.arange(known), held_out)

    assert ranked(wrong, right) == [1, 0]
    assert ranked(wrong, right, closer) == [2, 1, 0]
    assert ranked(right, right) == [0, 1]
    assert ranked(wrong, right, known=1) == list(range(len(side.choices())))


def test_cross_validation_leaves_the_scored_labels_out():
    side, seen = PublicSide.of(make_task("text", n_validation=11)), []

    def fitted(held, rest):
        np.testing.assert_array_equal(np.setdiff1d(np.arange(11), rest), held)
        seen.append(held)
        return iter([np.zeros((len(held), 3))])

    public_only.cross_validated(side, np.arange(11), fitted)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(11))


def test_the_fit_adds_the_scores_of_its_members():
    task = make_task("graph")
    side, known = PublicSide.of(task), np.arange(20)
    fit = PublicFit.of(side, known)
    assert len(fit.best) == public_only.ENSEMBLE == len(set(fit.best))
    expected = sum(side.levelled(next(side.scores(known, [each]))) for each in fit.best)
    np.testing.assert_allclose(fit.scores, expected)
    held = np.arange(0, 20, 5)
    rest = np.setdiff1d(known, held)
    left_out = sum(side.levelled(next(side.scores(rest, [each]))) for each in fit.best)
    np.testing.assert_allclose(fit.held_out[held], left_out[held])
    assert (fit.held_out.argmax(axis=1) == task.validation_labels[:20]).mean() > 0.6
