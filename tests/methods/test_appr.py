"""DP-APPR: rows and their sensitivities, published and proved noise, samples, leaks."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from doors import one_lane
from small_graphs import random_graph
from small_jobs import job_of

from private_graphs.core.errors import UserError
from private_graphs.core.streams import Streams
from private_graphs.graphs.metis import metis_partition
from private_graphs.mechanisms.door import Door
from private_graphs.methods import method_named
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu, price
from private_graphs.privacy.secret_samples import amplified_epsilon, inner_epsilon
from private_graphs.running.jobs import Job
from private_graphs.running.result import majority_score
from private_graphs.running.run import execute
from private_graphs.studies.dpappr.methods.appr import (
    ApprData,
    Sample,
    batches_of,
    sampled_nodes,
    shared_sample,
)
from private_graphs.studies.dpappr.methods.appr_attack import layer_attack
from private_graphs.studies.dpappr.methods.appr_budget import (
    PROTOCOLS,
    ApprNoise,
    ReleasePlan,
    choices_epsilon,
    events,
    proved_noise,
    published_noise,
    releases,
    row_epsilon,
)
from private_graphs.studies.dpappr.methods.appr_rows import (
    chosen_rows,
    columns_clipped,
    columns_normalised,
    gaussian_rows,
    most_rows,
    random_rows,
    truncated,
)
from private_graphs.tasks.method import Request
from private_graphs.tasks.tasks import build_task

CORA = ReleasePlan(
    kind="gaussian", rate=0.09, n_sampled=216, private_roots=70, n_roots=216, top=4, epochs=200,
    steps=800, batch=60, row_clip=0.01, entry_clip=0.001, clip_norm=1.0, others=None,
    per_batch=False, overlaps=True, delta=2e-3,
)  # fmt: skip
PUBMED = replace(CORA, rate=0.01, n_sampled=158, private_roots=60, steps=600, delta=2e-4)
ACADEMIC = replace(CORA, rate=0.03, n_sampled=440, private_roots=150, steps=1600, delta=2e-4)
SOUND = replace(CORA, n_roots=70, epochs=100, steps=100, batch=70, others=1, overlaps=False,
                delta=1e-5)  # fmt: skip
GRAPH = random_graph(3, nodes=200, features=30, classes=3, unlabelled=3)
SHORT = {"sample": 0.5, "roots": 20, "batch": 8, "epochs": 3}


def _proved(plan: ReleasePlan, noise: ApprNoise) -> float:
    (event,) = events(plan, noise)
    return price(event, "node", "replace", plan.delta).epsilon


# --- published calibration ----------------------------------------------------------------------


def test_theorems_6_and_7_and_corollary_3_as_printed():
    assert row_epsilon(44.4444, 70, 0.0111111) == pytest.approx(0.9222260, rel=1e-5)
    assert row_epsilon(400, 60, 0.01) == pytest.approx(7.9317496, rel=1e-6)
    assert choices_epsilon(0.1152783, 4, 7.94e-5) == pytest.approx(0.92222, rel=1e-5)
    assert choices_epsilon(0.1, 4, 1e-5) == pytest.approx(0.8)
    assert choices_epsilon(0.1, 100, 1e-5) == pytest.approx(11.59041, rel=1e-6)


@pytest.mark.parametrize(
    ("plan", "steps", "row_std", "choice", "released", "paper"),
    [
        (CORA, 400, 0.04767, 0.11528, 1.2626, 0.9560),
        (PUBMED, 200, 0.005529, 0.9915, 0.4799, 0.3209),
        (ACADEMIC, 600, 0.02884, 0.2090, 0.6208, 0.4654),
    ],
)
def test_noise_at_four_and_four(plan, steps, row_std, choice, released, paper):
    noise = published_noise(plan, 4, 4)
    assert noise.row_std == pytest.approx(row_std, rel=2e-4)
    assert released <= noise.multiplier + 5e-5 and noise.multiplier - released < 1.1e-3
    assert published_noise(replace(plan, kind="chosen"), 4, 4).choice == pytest.approx(
        choice, rel=2e-4
    )
    other = published_noise(replace(plan, steps=steps), 4, 4).multiplier
    assert paper <= other + 5e-5 and other - paper < 1.1e-3


# --- what is proved -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gaussian", "chosen", "chosen_values", "random", "exact"])
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_proved_noise_proves_what_was_asked_and_hardly_less(kind, epsilon):
    plan = replace(SOUND, kind=kind, per_batch=kind == "exact")
    found = _proved(plan, proved_noise(plan, epsilon))
    assert 0.9999 * epsilon < found <= epsilon


@pytest.mark.parametrize("kind, others", [("gaussian", 1), ("one_hot", 0), ("random", 4)])
@pytest.mark.parametrize("rate", [0.09, 1.0])
def test_noise_of_sampled_roots_proves_what_was_asked_and_hardly_less(kind, others, rate):
    plan = replace(SOUND, kind=kind, others=others, rate=rate, root_rate=0.2)
    noise = proved_noise(plan, 4.0)
    released = events(plan, noise)
    if rate < 1:
        (released,) = (each.releases for each in released)
    sums = released[-1]
    assert (sums.terms, sums.rate, sums.count) == (others + 1, 0.2, 100)
    if rate < 1:
        assert 0.999 * 4 < _proved(plan, noise) <= 4
    # fewer roots in a step cost less than all of them: what a step reads stays secret
    assert noise.multiplier < proved_noise(replace(plan, root_rate=None), 4.0).multiplier


def test_every_root_joins_every_step_by_itself_at_the_rate_that_is_priced():
    plan = replace(SOUND, kind="one_hot", others=0, n_roots=40, batch=40, steps=4000, root_rate=0.3)
    usable = np.arange(40) > 0
    query = releases(plan, ApprNoise(multiplier=1.0))[-1]
    descent = one_lane(query, seed=2).descent([query], coins="batches")
    batches = batches_of(plan, PROTOCOLS["sound"], usable, descent)
    joined = np.array([np.bincount(step[step >= 0], minlength=40) for step in batches])
    assert joined.max() == 1 and not joined[:, 0].any()
    assert abs(joined[:, 1:].mean(axis=0) - 0.3).max() < 4.5 * math.sqrt(0.21 / 4000)
    assert abs(np.corrcoef(joined[:, 1:].T) - np.eye(39)).max() < 5 / math.sqrt(4000)
    assert plan.divisor == pytest.approx(12)


# --- rows ---------------------------------------------------------------------------------------


def test_two_orthogonal_rows_attain_the_sensitivity_of_clipped_ones():
    pair = [
        gaussian_rows(np.eye(2)[[each]] * 5.0, 2, 0.01, one_lane(), None).toarray()
        for each in (0, 1)
    ]
    assert np.linalg.norm(pair[0] - pair[1]) == pytest.approx(math.sqrt(2) * 0.01)
    small = gaussian_rows(np.array([[1e-3, 0]]), 2, 0.01, one_lane(), None)
    assert small.toarray()[0, 0] == 1e-3


def _queries(**noise):
    """What the rows of a run release with this noise, of entries .001 and rows 1e-9 at most."""
    return releases(replace(SOUND, top=2, row_clip=1e-9), ApprNoise(multiplier=1.0, **noise))[:-1]


def test_every_coordinate_gets_noise_and_ties_are_broken_by_it_alone():
    p = np.zeros((4000, 9))
    p[:, :3] = 0.5  # all are clipped to one value
    exact = chosen_rows(p, 2, 0.001, one_lane(seed=0), None, None, "alike")
    np.testing.assert_allclose(np.bincount(exact.indices, minlength=9)[:3] / 4000, 2 / 3, atol=0.03)
    (choice,) = _queries(choice=1e-6)
    noisy = chosen_rows(p, 2, 0.001, one_lane(choice, seed=1), choice, None, "alike")
    np.testing.assert_allclose(np.bincount(noisy.indices, minlength=9) / 4000, 2 / 9, atol=0.03)
    assert set(noisy.data) == {0.5}
    (query,) = _queries(row_std=1.0)
    gaussian = gaussian_rows(p, 2, 1e-9, one_lane(query, seed=2), query)
    np.testing.assert_allclose(np.bincount(gaussian.indices, minlength=9) / 4000, 2 / 9, atol=0.03)


def test_column_rules_and_truncation():
    rows = random_rows(40, 40, 6, np.random.default_rng(2)) * 0.7
    sums = abs(columns_clipped(rows)).sum(axis=0).A1
    assert sums.max() <= 1 + 1e-12
    used = rows.sum(axis=0).A1 > 0
    np.testing.assert_allclose(abs(columns_normalised(-rows)).sum(axis=0).A1, used, atol=1e-12)
    assert most_rows(rows) > 2
    kept = truncated(rows, 2)
    assert most_rows(kept) == 2
    np.testing.assert_array_equal(kept.diagonal(), rows.diagonal())
    small = scipy.sparse.csr_matrix([[1.0, 0.1, 0], [-3, 0, 0], [2, 0, 5.0]])
    np.testing.assert_array_equal(
        truncated(small, 1).toarray(), [[1, 0.1, 0], [-3, 0, 0], [0, 0, 5]]
    )


# --- runs ---------------------------------------------------------------------------------------


def test_places_of_a_sample_are_in_the_order_of_the_draw():
    """Sorted by number, one exchanged node would shift the places of many."""
    task, _ = build_task(GRAPH, "nodes", PROTOCOLS["paper"], 1e-5)
    data = ApprData.of(task, False)
    size = sampled_nodes(0.4, int(GRAPH.train_mask.sum()))
    sample = Sample.of(data, np.arange(size)[::-1])
    nodes = np.flatnonzero(GRAPH.train_mask)[: sample.size][::-1]
    assert np.array_equal(sample.labels, task.graph.labels[nodes])
    assert abs(sample.features - data.features[nodes]).sum() == 0


@pytest.mark.parametrize("name", ["appr_gaussian", "appr_chosen_values", "appr_random"])
def test_a_run_under_sound_says_nothing_of_its_sample(name):
    result = execute(job_of(name, settings=SHORT, epsilons=(8.0,), delta=1e-5), GRAPH)
    (statement,) = result.statements.values()
    assert not {"edges_left", "own_share", "degree_rmse", "others_found"} & set(result.rows)
    assert all("secret_sample" in each["sampling"] for each in statement["mechanisms"])
    assert statement["mechanisms"][-1]["sensitivity"] == 4.0
    assert any("which nodes were sampled is secret" in each for each in statement["assumptions"])


@pytest.mark.parametrize("protocol", ["released", "paper"])
def test_published_rows_prove_nothing_at_their_own_delta(protocol):
    settings = SHORT | {"attacked": True, "training_epsilon": 2.0}
    job = job_of("appr_gaussian", protocol=protocol, settings=settings, epsilons=(8.0,), delta=0.02)
    rows = execute(job.model_copy(update={"dataset": "cora-ml"}), GRAPH).rows
    assert "degree_rmse" not in execute(job, GRAPH).rows, "nothing prices it for a user's graph"
    assert rows["epsilon_proved"].isna().all() and (rows["epsilon_claimed"] == 8).all()
    assert (rows["epsilon_rows"] == 6).all() and (rows["epsilon_training"] == 2).all()
    assert (rows["epsilon_bound"] > 20).all() and rows["degree_rmse"].notna().all()
    assert set(rows["inference"]) == {"leaks"}
    with pytest.raises(UserError, match="training_epsilon"):
        execute(job.model_copy(update={"epsilons": (2.0,)}), GRAPH)


@pytest.mark.parametrize("protocol", ["released", "paper"])
def test_rows_without_noise_are_trained_on_with_that_of_the_training_budget(protocol, monkeypatch):
    """In Figures 5.1 to 5.3 the last budget of rows is infinite, that of training is not."""
    from private_graphs.training import roots

    train, stds = roots.train, []

    def seen(shared, start, plan, descent, seed):
        stds.append(float(descent.stds[0]))
        return train(shared, start, plan, descent, seed)

    monkeypatch.setattr(roots, "train", seen)
    settings = SHORT | {"training_epsilon": 2.0}
    job = job_of("appr_gaussian", protocol=protocol, settings=settings, delta=0.02,
                 epsilons=(8.0, math.inf))  # fmt: skip
    rows = execute(job, GRAPH).rows
    assert stds[0] == stds[1] > 0 and rows["epsilon_proved"].isna().all()


@pytest.mark.parametrize(("protocol", "shared"), [("paper", True), ("sound", False)])
def test_runs_that_are_priced_have_samples_of_their_own(protocol, shared):
    """Amplified prices of several runs add up for samples that are drawn apart."""
    task = build_task(GRAPH, "nodes", PROTOCOLS[protocol], 1e-5)[0]
    data, made = ApprData.of(task, False), method_named("appr_gaussian").settings(**SHORT)
    known = np.arange(0)
    requests = [
        Request(epsilon, seed, known, Streams.of({"epsilon": str(epsilon), "seed": seed}), made)
        for epsilon, seed in ((1.0, 0), (2.0, 0), (1.0, 1))
    ]
    first, second, other = (data.sample(each, Door.of([each.streams])) for each in requests)
    assert len(first.labels) == len(second.labels) == len(other.labels)
    assert ((first.features != second.features).nnz == 0) == shared
    assert (first.features != other.features).nnz > 0
    named = [shared_sample(task, each) for each in requests]
    assert named == (["seed 0", "seed 0", "seed 1"] if shared else [""] * 3)


@pytest.mark.parametrize("protocol", ["released", "paper"])
def test_rows_of_one_seed_compose_inside_its_sample(protocol):
    settings = SHORT | {"sample": 0.05, "roots": None}
    job = job_of("appr_features", protocol=protocol, settings=settings, epsilons=(0.5, 0.6),
                 seeds=(0, 1), delta=1e-4)  # fmt: skip
    result = execute(job, GRAPH)
    one, other = (result.statements[name] for name in result.rows["statement_id"].unique())
    rate = 0.05
    mu = [
        gdp_mu(inner_epsilon(each["epsilon_proved"], rate), 1e-4 / rate) for each in (one, other)
    ]  # fmt: skip
    # of one budget two samples, one a seed; of all rows the same two, each read twice
    runs = [gdp_epsilon(each, 1e-4 / 2 / rate) for each in mu]
    assert one["epsilon_all_runs"] == pytest.approx(2 * amplified_epsilon(runs[0], rate), rel=1e-6)
    both = gdp_epsilon(math.hypot(*mu), 1e-4 / 2 / rate)
    assert one["epsilon_of_file"] == pytest.approx(2 * amplified_epsilon(both, rate), rel=1e-6)
    assert one["epsilon_of_file"] == other["epsilon_of_file"]
    assert "inside it" in one["proof_of_file"]
    alone = execute(job, GRAPH, noise_source="os_entropy")
    assert all("inside it" not in each["proof_of_file"] for each in alone.statements.values())


def test_an_attack_on_layers_that_hold_the_degrees_finds_them():
    rng = np.random.default_rng(0)
    degrees = rng.integers(4, size=300)
    layer = rng.normal(size=(300, 32))
    found = layer_attack(np.c_[layer[:, :31], degrees], degrees, degrees % 2, 0)
    assert found["degree_rmse"] < 0.2 and found["degree_auc"] > 0.95
    none = layer_attack(layer, degrees, degrees % 2, 0)
    assert none["degree_rmse"] > 0.95 and none["silhouette"] < 0.1
    assert math.isnan(layer_attack(layer, degrees * 0, degrees % 2, 0)["degree_rmse"])


def test_test_nodes_by_metis_are_those_of_all_seeds_and_nothing_is_proved():
    job = job_of("appr_features", "nodes", "released", seeds=(0, 1), metis_parts=9)
    job = job.model_copy(
        update={"settings": SHORT, "dataset": "cora-ml"}
    )  # published: all is shown
    done = execute(job, GRAPH)
    part = metis_partition(GRAPH.edge_index, GRAPH.n_nodes, 9)
    test = (part == 4) & (GRAPH.labels >= 0)
    np.testing.assert_array_equal(done.test_records, np.flatnonzero(test))
    private = [each for each in done.statements.values() if each["mechanisms"]]
    assert private and all(each["epsilon_proved"] is None for each in private)
    assert all("METIS" in each["proof"] for each in private)
    assert "epsilon_bound" not in done.rows
    train = GRAPH.labels[(part != 4) & (part != 5)]
    majority = np.bincount(train[train >= 0]).argmax()
    score = majority_score(GRAPH.labels[test], majority)
    assert set(done.rows["majority_micro_f1"]) == {score}
    with pytest.raises(ValueError, match="metis_parts"):
        Job.model_validate(job.model_dump() | {"test_share": 0.2})
    for changes, how in (({"protocol": "sound"}, {}), ({}, {"noise_source": "os_entropy"})):
        with pytest.raises(UserError, match="METIS reads every edge"):
            execute(job.model_copy(update=changes), GRAPH, **how)
    with pytest.raises(UserError, match="empty part"):
        execute(job, random_graph(3, nodes=9, features=5, classes=2))
