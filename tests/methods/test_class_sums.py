"""Class sums: the sensitivity, what is read, the linear model, a graph by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import four_nodes
from small_tasks import make_task, request, run, task_of

from private_graphs.methods import class_sums
from private_graphs.methods.public_text import PublicText
from private_graphs.privacy.accountants import price
from private_graphs.privacy.calibration import lattice_noise

NAMES = [("text", "class_sums"), ("graph", "class_sums"), ("graph", "class_sums_text")]
each_method = pytest.mark.parametrize(("scenario", "name"), NAMES)


def public_text(task, name):
    return PublicText.of(task, hops=int(name == "class_sums"))


def _exact_sums(task, text, rank):
    """(rank + 1, K) sums on the finest lattice, which has no noise."""
    lattice = class_sums.calibrated(task, math.inf, rank)
    return class_sums.class_sums(task, text, rank, lattice) * lattice.spacing


def _term(vector, label, n_classes):
    norm = np.linalg.norm(vector)
    unit = np.asarray(vector) / norm if norm else np.zeros(3)
    row = class_sums.with_constant(unit[None], n_classes)[0]
    return np.outer(row, class_sums.class_codes(n_classes)[label])


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
        assert class_sums.bias_square(n_classes) == pytest.approx(expected)


@settings(max_examples=60)
@given(case=st.integers(0, 2), node=st.integers(0, 79), rank=st.integers(1, 20), data=st.data())
def test_replacing_a_training_node_moves_the_sum_by_at_most_the_sensitivity(case, node, rank, data):
    scenario, name = NAMES[case]
    task = make_task(scenario)
    text = public_text(task, name)
    lattice = class_sums.calibrated(task, 2.0, rank)
    before = class_sums.class_sums(task, text, rank, lattice)
    features, labels = task.train_features.tolil(), task.train_labels.copy()
    features[node] = data.draw(
        st.lists(st.floats(-1e3, 1e3), min_size=task.n_features, max_size=task.n_features)
    )
    labels[node] = data.draw(st.integers(0, task.n_classes - 1))
    changed = replace(task, train_features=features.tocsr(), train_labels=labels)
    if scenario == "graph":
        edges = task.train_to_public.tolil()
        edges[node] = data.draw(
            st.lists(st.integers(0, 1), min_size=edges.shape[1], max_size=edges.shape[1])
        )
        changed = replace(changed, train_to_public=edges.tocsr())
    same_text = public_text(changed, name)
    after = class_sums.class_sums(changed, same_text, rank, lattice)
    assert np.linalg.norm(after - before) * lattice.spacing <= lattice.sensitivity


@each_method
def test_relabelling_a_node_attains_what_the_event_says(scenario, name):
    task = make_task(scenario)
    labels = task.train_labels.copy()
    labels[3] = (labels[3] + 1) % task.n_classes
    changed = replace(task, train_labels=labels)
    text = public_text(task, name)
    moved = _exact_sums(task, text, 9) - _exact_sums(changed, text, 9)
    (outcome,) = run(name, task, [request(task, epsilon=2.0)])
    (event,) = outcome.events
    assert np.linalg.norm(moved) == pytest.approx(event.sensitivity, rel=1e-7)
    assert event.sensitivity >= math.sqrt(2)  # what rounding adds is in it
    noise = lattice_noise(2.0, 1, 1e-5, event.dimension) * event.sensitivity
    assert noise <= event.noise_std <= noise * (1 + 1e-8)
    assert (event.unit, event.relation, event.count) == ("node", "replace", 1)
    assert 1.99 < price(event, "node", "replace", 1e-5).epsilon <= 2.0


def test_the_posterior_is_the_mean_given_the_sums():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(40, 3))
    moment, prior, v, s2 = rows.T @ rows, np.diag([0.5, 0.5, 1.0]), 0.3, 7.0
    sums = rng.normal(size=(3, 1)) * 5
    # information form: W | S has precision T^-1 + G C^-1 G, C the covariance of S given W
    inner = np.linalg.inv(v * moment + s2 * np.eye(3))
    precision = np.linalg.inv(prior) + moment @ inner @ moment
    expected = np.linalg.solve(precision, moment @ inner @ sums)
    found = class_sums.posterior_weights(sums, moment, s2, 0.5, v)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_four_nodes_by_hand():
    """0 - 1, 1 - 2, 1 - 3, 2 - 3; training 0 and 1, public 2 and 3."""
    task = task_of(four_nodes(), "graph")
    text = PublicText.of(task, hops=1)
    x = {
        0: np.array([1, 0, 2]) / math.sqrt(5),
        1: np.array([0, 1, 0]),
        2: np.array([1, 0, 2]) / math.sqrt(5),
        3: np.array([0, 3, 1]) / math.sqrt(10),
    }
    np.testing.assert_array_equal(text.weights, np.ones(3))  # entries differ: weighted already
    both = x[2] + x[3]
    np.testing.assert_allclose(text.public.toarray(), [both / np.linalg.norm(both)] * 2)
    rows = text.training_rows(task, slice(0, 2)).toarray()
    np.testing.assert_allclose(rows[0], x[0])  # no public neighbour; node 1 is not read
    np.testing.assert_allclose(rows[1], (x[1] + both) / np.linalg.norm(x[1] + both))
    own = PublicText.of(task, hops=0)
    np.testing.assert_allclose(own.public.toarray(), [x[2], x[3]])
    np.testing.assert_allclose(own.training_rows(task, slice(0, 2)).toarray(), [x[0], x[1]])
    # own text: centre (x2 + x3)/2, one axis along x2 - x3, so rows are +-1 along it, and b² = .1
    axis = own.axes.directions[:, 0]
    signs = [np.sign((x[i] - both / 2) @ axis) for i in (0, 1)]
    terms = [np.outer([sign * math.sqrt(0.9), math.sqrt(0.1)], code)
             for sign, code in zip(signs, [[0.5, -0.5], [-0.5, 0.5]], strict=True)]  # fmt: skip
    np.testing.assert_allclose(_exact_sums(task, own, 1), sum(terms), atol=1e-11)
    scores = np.array([[1.0], [0.0]])
    np.testing.assert_allclose(  # the mean over both public nodes is .5
        class_sums.propagated(scores, own.smoothing, 1), [[0.8 * 0.5 + 0.2], [0.8 * 0.5]]
    )


@each_method
def test_a_node_adds_the_same_whatever_the_others_are(scenario, name):
    """Sums of rounded terms: exact, so that they neither depend on their order nor on blocks."""
    task = make_task(scenario)
    text = public_text(task, name)
    lattice = class_sums.calibrated(task, 1.0, 6)
    total = class_sums.class_sums(task, text, 6, lattice)
    alone = np.zeros_like(total)
    for node in range(task.n_train):
        edges = task.train_to_public
        one = replace(
            task,
            train_features=task.train_features[[node]],
            train_labels=task.train_labels[[node]],
            train_to_public=None if edges is None else edges[[node]],
        )
        alone += class_sums.class_sums(one, text, 6, lattice)
    np.testing.assert_array_equal(total, alone)
