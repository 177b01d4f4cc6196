"""Class sums by one rule: sensitivities, what is read, the linear model, known labels."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tasks import graph_task, make_task, request, run

from private_graphs.attacks.replay_audit import audit
from private_graphs.attacks.small_data import small_dataset
from private_graphs.attacks.small_jobs import small_job
from private_graphs.mechanisms.door import UNSEEN
from private_graphs.methods import class_sums, method_named
from private_graphs.methods.class_sums import (
    KnownLabels,
    Posterior,
    Public,
    Released,
)
from private_graphs.methods.exact_sums import CLIP_NORM, clipped_residuals
from private_graphs.methods.public_rows import bias_square, class_codes, with_constant
from private_graphs.privacy.query_losses import composed, loss_of
from private_graphs.running.run import answer

MANY = 2000.0
"""An ε at which small tasks have the signal for residual steps."""
each_scenario = pytest.mark.parametrize("scenario", ["text", "graph"])


def _term(vector, label, n_classes):
    norm = np.linalg.norm(vector)
    unit = np.asarray(vector) / norm if norm else np.zeros(3)
    row = with_constant(unit[None], n_classes)[0]
    return np.outer(row, class_codes(n_classes)[label])


@pytest.mark.parametrize("n_classes", range(2, 12))
def test_the_sensitivity_is_attained(n_classes):
    bound = class_sums.sensitivity(n_classes)
    assert bound == pytest.approx(math.sqrt(2), abs=1e-12)
    relabelled = _term([1, 0, 0], 0, n_classes) - _term([1, 0, 0], 1, n_classes)
    assert np.linalg.norm(relabelled) == pytest.approx(bound, abs=1e-12)
    opposite = _term([1, 0, 0], 0, n_classes) - _term([-1, 0, 0], 0, n_classes)
    assert np.linalg.norm(opposite) <= bound + 1e-12
    if n_classes > 2:  # the constant takes no more than it must
        expected = max(0.1, (n_classes - 2) / (2 * (n_classes - 1)))
        assert bias_square(n_classes) == pytest.approx(expected)


def _sums(task, epsilon, weights=None):
    """Exact sums in their units: the class sum, or the residuals at ``weights``."""
    released = Released(Public(task), epsilon)
    if weights is None:
        return released.sums * released.first.spacing, released.first.sensitivity
    found = released.residuals.at(weights[None, : released.rows.size + 1])[0]
    return found * released.step.spacing, released.step.sensitivity


@settings(max_examples=25, deadline=None)
@given(graph=st.booleans(), steps=st.booleans(), node=st.integers(0, 79), data=st.data())
def test_replacing_a_training_node_moves_a_sum_by_at_most_the_sensitivity(graph, steps, node, data):
    task = make_task("graph" if graph else "text")
    weights = np.random.default_rng(node).normal(0, 9, (60, 3)) if steps else None
    features, labels = task.train_features.tolil(), task.train_labels.copy()
    features[node] = data.draw(
        st.lists(st.floats(-1e3, 1e3), min_size=task.n_features, max_size=task.n_features)
    )
    labels[node] = data.draw(st.integers(0, task.n_classes - 1))
    changed = replace(task, train_features=features.tocsr(), train_labels=labels)
    if graph:
        edges = task.train_to_public.tolil()
        edges[node] = data.draw(
            st.lists(st.integers(0, 1), min_size=edges.shape[1], max_size=edges.shape[1])
        )
        changed = replace(changed, train_to_public=edges.tocsr())
    (before, bound), (after, _) = (_sums(each, MANY, weights) for each in (task, changed))
    assert np.linalg.norm(after - before) <= bound


@each_scenario
def test_relabelling_a_node_attains_both_sensitivities(scenario):
    """The last factor is what rounding of a row towards zero takes."""
    task = make_task(scenario, n_classes=2)
    labels = task.train_labels.copy()
    labels[3] = 1 - labels[3]
    changed = replace(task, train_labels=labels)
    for weights in (None, np.zeros((60, 2))):  # even shares: residuals (.5, -.5), before clipping
        (before, bound), (after, _) = (_sums(each, MANY, weights) for each in (task, changed))
        assert bound * (1 - 1e-4) < np.linalg.norm(after - before) <= bound


def test_terms_of_the_steps_are_clipped_and_read_their_own_row():
    draws = np.random.default_rng(0)
    logits, labels = draws.normal(0, 3, (50, 2, 4)), draws.integers(4, size=50)
    norms = draws.random(50)
    found = clipped_residuals(logits, labels, norms)
    sizes = np.linalg.norm(found, axis=2) * norms[:, None]
    assert (sizes <= CLIP_NORM * (1 + 1e-12)).all() and (sizes > 0.499).any()
    alone = [clipped_residuals(logits[i : i + 1], labels[i : i + 1], norms[i : i + 1])
             for i in range(50)]  # fmt: skip
    np.testing.assert_allclose(found, np.concatenate(alone), rtol=1e-14)


@each_scenario
@pytest.mark.parametrize("epsilon", [1.0, MANY])
def test_releases_prove_what_was_asked(scenario, epsilon):
    task = replace(make_task(scenario), n_units=80 if epsilon > 1 else 20_000)
    (outcome,) = run("class_sums", task, [request(task, epsilon)])
    first, steps = outcome.events
    assert (first.count, steps.count) == (1, class_sums.STEPS)
    shares = [e.count * (e.sensitivity / e.noise_std) ** 2 for e in outcome.events]
    assert shares[0] / sum(shares) == pytest.approx(class_sums.FIRST_SHARE, rel=1e-4)
    if epsilon == 1:
        together = composed(tuple(map(loss_of, outcome.events)), 1e-5)[0]
        assert 0.999 < together <= 1


@each_scenario
def test_a_replay_with_residual_steps_finds_nothing(scenario):
    method = method_named("class_sums")
    job = small_job(method, scenario, "sound", epsilons=(8000.0,), seeds=(0,))
    job = job.model_copy(update={"validation_epsilons": (8000.0,)})
    dataset = small_dataset(method)
    assert all(each.outcome.settings["residual_steps"] for each in answer(job, dataset, UNSEEN)[1])
    found = audit(job, dataset, 4)
    assert found.passed and found.replay.rest_equal and found.replay.largest_ratio > 0.5


@each_scenario
def test_a_node_adds_the_same_whatever_the_others_are(scenario):
    """Exact sums depend neither on the order of nodes nor on who stands beside them."""
    task = make_task(scenario)
    weights = np.random.default_rng(1).normal(0, 4, (60, 3))
    order = np.random.default_rng(0).permutation(task.n_train)
    edges = task.train_to_public
    mixed = replace(
        task,
        train_features=task.train_features[order],
        train_labels=task.train_labels[order],
        train_to_public=None if edges is None else edges[order],
    )
    for each in (None, weights):
        np.testing.assert_array_equal(_sums(task, MANY, each)[0], _sums(mixed, MANY, each)[0])
    rows = Released(Public(task), MANY).rows
    few, all_ = (rows.training(task.training(slice(end))) for end in (7, task.n_train))
    np.testing.assert_array_equal(few, all_[:7])


def test_the_sum_of_one_replica_does_not_depend_on_the_weights_of_others():
    residuals = Released(Public(make_task("text")), MANY).residuals
    sets = np.random.default_rng(1).normal(0, 4, (3, len(residuals._kept[0][0].T), 3))
    alone = residuals.at(sets[:1])
    sets[1:] *= [[[0.0]], [[1e6]]]
    np.testing.assert_array_equal(residuals.at(sets)[0], alone[0])


def test_the_posterior_is_the_mean_given_sums_and_known_labels():
    draws = np.random.default_rng(1)
    rows, known = draws.normal(size=(40, 3)), draws.normal(size=(5, 3))
    moment, prior, s2 = rows.T @ rows, np.diag([0.1, 0.1, 1.0]), 7.0
    v0 = 0.25  # two classes
    sums, codes = draws.normal(size=(3, 2)) * 5, draws.normal(size=(5, 2))
    inner = np.linalg.inv(1.5 * v0 * moment + s2 * np.eye(3))
    precision = np.linalg.inv(prior) + moment @ inner @ moment
    found = Posterior.of(moment, s2, 0.5, 2)
    mean = found.mean(sums)
    np.testing.assert_allclose(mean, np.linalg.solve(precision, moment @ inner @ sums), rtol=1e-6)
    both = precision + known.T @ known / v0
    expected = np.linalg.solve(both, moment @ inner @ sums + known.T @ codes / v0)
    update = KnownLabels.of(known, np.arange(5), found)
    np.testing.assert_allclose(mean + update.change(codes - known @ mean), expected, rtol=1e-6)


def test_public_scores_are_added_where_labels_suffice_and_their_weight_is_fitted():
    task = make_task("graph", n_validation=100)
    few, many, none = run("class_sums", task, [request(task, 1.0, known=k) for k in (89, 90, 0)])
    assert few.settings["weight_of_public_scores"] == 0 == none.settings["weight_of_public_scores"]
    assert many.settings["weight_of_public_scores"] > 0.1
    labels = replace(task, validation_labels=(task.validation_labels + 1) % 3)
    (again,) = run("class_sums", labels, [request(task, 1.0, known=0)])
    np.testing.assert_array_equal(again.test_predictions, none.test_predictions)


def test_a_graph_without_public_edges_is_classified_by_texts():
    task = graph_task()
    public, across = (sp.csr_matrix(each.shape) for each in (task.public_adjacency,
                                                             task.train_to_public))  # fmt: skip
    bare = replace(task, public_adjacency=public, train_to_public=across)
    (outcome,) = run("class_sums", bare, [request(bare, 8.0)])
    assert outcome.settings["rank"] == outcome.settings["text_axes"]
    assert not outcome.settings["neighbours_in_rows"]
