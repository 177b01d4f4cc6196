"""Membership inference with lists, sampled nodes and pictures: coins, and what is seen."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from private_graphs.attacks import links, membership, shadow_models
from private_graphs.attacks.leaks import Guarantee, run_job
from private_graphs.attacks.neighbours import with_edges, with_members
from private_graphs.attacks.small_data import small_dataset
from private_graphs.attacks.small_jobs import small_job
from private_graphs.core.errors import UserError
from private_graphs.mechanisms.door import Door
from private_graphs.methods import method_named
from private_graphs.methods.noisy_sums import adjacency_of
from private_graphs.running.jobs import LeakAttack
from private_graphs.running.run import planned
from private_graphs.tasks.method import Context

METHODS = {"lists": "gap", "nodes": "appr_exact", "records": "pate_labels"}
LEARNS = {
    "lists": {"epochs": 40},
    "nodes": {"epochs": 60, "sample": 1, "roots": None, "learning_rate": 0.05},
    "records": {"teachers": 3, "teacher_epochs": 60},
}
"""Settings with which models fit some labels."""


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr(membership, "RESAMPLES", 3)


def made(scenario: str, epsilon: float = 8.0, method: str | None = None, models: int = 4, **more):
    """Return a short job that is attacked, and its dataset."""
    method = method_named(method or METHODS[scenario])
    job = small_job(method, scenario, "sound", (epsilon,), (0,), more)
    leaks = LeakAttack(attack="membership", shadows=models)
    return job.model_copy(update={"leaks": leaks, "delta": 1e-4}), small_dataset(method)


def changed(task, out: np.ndarray):
    """Return the task in which the training records ``out`` are others altogether."""
    if task.scenario.cut == "images":
        pixels, labels = task.train_pixels.copy(), task.train_labels.copy()
        pixels[out] = 255 - pixels[out]
        labels[out] = (labels[out] + 1) % task.n_classes
        return replace(task, train_pixels=pixels, train_labels=labels)
    graph = task.graph
    labels, features = graph.labels.copy(), graph.features.to_scipy().tolil()
    labels[out] = (labels[out] + 1) % task.n_classes
    features[out] = features[out[::-1]]
    edges = graph.edge_index[:, ~np.isin(graph.edge_index, out).any(axis=0)]
    features = type(graph.features).from_scipy(features)
    return replace(task, graph=with_edges(replace(graph, labels=labels, features=features), edges))


@pytest.mark.parametrize("scenario", METHODS)
def test_whoever_is_left_out_changes_no_answer_and_stays_a_unit(scenario):
    job, dataset = made(scenario)
    task, requests = planned(job, dataset)
    labels = task.train_labels if scenario == "records" else task.graph.labels
    trains = True if scenario == "records" else task.graph.train_mask
    mine = np.flatnonzero(trains & (labels >= 0))
    kept = np.arange(len(mine)) % 3 > 0

    def answered(task):
        door = Door.of([each.streams for each in requests])
        [found] = method_named(job.method).answers(task, requests, door, Context())
        door.close()
        return found

    some = with_members(task, kept)
    other = with_members(changed(task, mine[~kept]), kept)
    assert some.n_units == other.n_units == task.n_units
    found = [answered(each) for each in (some, other, task)]
    for name in ("test_predictions", "validation_predictions"):
        first, second, _ = (getattr(each, name) for each in found)
        assert np.array_equal(first, second)
    assert found[0].events == found[2].events
    if scenario == "nodes":
        assert not np.isin(some.graph.edge_index, mine[~kept]).any(), "who is absent has no edge"
    if scenario == "lists":
        lengths, before = (np.diff(adjacency_of(task.graph).indptr if each is None else each.indptr)
                           for each in (some.lists, task.lists))  # fmt: skip
        before[mine[~kept]] = 0
        assert np.array_equal(lengths, before), "who is left out keeps no list, all others theirs"


@pytest.mark.parametrize("scenario", METHODS)
def test_models_on_halves_are_asked_about_every_candidate(scenario):
    job, dataset = made(scenario, math.inf, **LEARNS[scenario])
    document = run_job(job, dataset)
    found = {(each["sees"], each["score"], each["measure"]): each["value"]
             for each in document["measured"] if each["who"] == "all"}  # fmt: skip
    view = "whole" if scenario == "lists" else "features"
    assert found[view, "plain", "auc"] > 0.5
    assert 0 <= found["published", "online", "auc"] <= 1
    assert document["guarantee"]["epsilon_proved"] is None


def test_all_models_have_the_test_nodes_of_one_seed(monkeypatch):
    (job, dataset), seen = made("nodes"), []

    def noted(task, kept):
        seen.append(task)
        return with_members(task, kept)

    monkeypatch.setattr(shadow_models, "with_members", noted)
    run_job(job.model_copy(update={"test_share": 0.2, "validation_share": 0.1}), dataset)
    masks = [each.graph.test_mask for each in seen]
    assert len(masks) == 4 and masks[0].sum() == round(0.2 * dataset.n_nodes)
    assert all(np.array_equal(each, masks[0]) for each in masks)
    assert not np.array_equal(masks[0], dataset.test_mask)


def test_sums_over_lists_show_members_as_much_as_their_noise_lets_them():
    job, dataset = made("lists", method="label_sums", models=60, degree=6)
    attacked = links.InformedOfLists.of(job, dataset, np.random.default_rng(0))
    members = np.flatnonzero(dataset.train_mask & (dataset.labels >= 0))[attacked.group >= 0]
    length = np.bincount(dataset.edge_index.ravel(), minlength=dataset.n_nodes)[members]
    assert len(members) > 2 and (length >= 3).all() and (length <= 6).all()
    assert (attacked.rows >= 0).sum() == length.sum()  # nobody is on two of the lists
    guarantee = Guarantee.of(job, dataset, Context())
    found = {each.measure: each.value
             for each in links.informed_of_lists(job, dataset, guarantee, Context())}  # fmt: skip
    sums = next(each for each in guarantee.events if hasattr(each, "noise_std"))
    expected = norm.cdf(np.sqrt(length) / sums.noise_std / math.sqrt(2)).mean()
    assert expected > 0.6 and found["auc"] == pytest.approx(expected, abs=0.1)
    assert found["epsilon_shown_tiny"] < guarantee.at(1e-12)


def test_an_attack_that_reads_no_noisy_value_is_no_attack(monkeypatch):
    job, dataset = made("lists", method="label_sums", degree=6)
    attacked = links.InformedOfLists.of(job, dataset, np.random.default_rng(0))
    monkeypatch.setattr(links, "released_nodes", lambda *_: {})
    with pytest.raises(UserError, match="would look like privacy"):
        attacked.runs(1, Context())


def test_published_classes_of_many_nodes_are_read_part_by_part(monkeypatch):
    generator = np.random.default_rng(0)
    classes, coins = generator.integers(3, size=(20, 7)), generator.random((20, 11)) < 0.5
    given = classes[:10], coins[:10], classes[10:], 3, generator.random((11, 7)) < 0.5
    whole = membership.class_ratios(*given)
    monkeypatch.setattr(membership, "PUBLISHED_AT_ONCE", 50)
    assert membership.class_ratios(*given) == pytest.approx(whole, abs=1e-6)


def test_no_coins_where_the_unit_is_an_edge_or_a_method_answers_no_attack():
    job, dataset = made("links", method="gap")
    with pytest.raises(UserError, match="unit is a node"):
        shadow_models.trainer(job, dataset, Context())
    train = shadow_models.trainer(*made("records", method="mlp_records"), Context())
    with pytest.raises(UserError, match="shows no class scores"):
        train(range(1))
