"""Running proved methods: rows, statements and what no method may depend on."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from private_graphs.cells import MethodCell, MethodPlan
from private_graphs.methods.names import METHOD_NAMES
from private_graphs.methods.proved import METHODS, run_method
from small_graphs import random_graph

from private_graphs.errors import UserError
from private_graphs.methods import proved
from private_graphs.methods.method import Outcome, Request, choose
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu
from private_graphs.privacy.assumptions import ONLY_THIS_FILE, SECRET_SEED
from private_graphs.privacy.events import ExponentialChoice, GaussianQuery
from private_graphs.privacy.statements import PrivacyStatement, check_row
from 
from private_graphs.training.streams import Streams

CASES = [(name, setting) for name in METHODS for setting in METHOD_NAMES[name].settings]


def _plan(method: str, setting: str, **changes) -> MethodPlan:
    cell = MethodCell(
        study="lrec2022", experiment="frontier", dataset="small", method=method, setting=setting
    )
    fields = {"seeds": (0, 1), "epsilons": (1, math.inf), "validation_labels": (5, 0)}
    fields |= {"max_edges": 900}
    return MethodPlan(cell=cell, **{**fields, "validation_epsilons": (2,), **changes})


@pytest.fixture(scope="module")
def graph():
    return random_graph(3, nodes=90, features=30, classes=3)


@pytest.fixture(scope="module")
def finished(graph):
    return {case: run_method(_plan(*case), graph) for case in CASES}


def test_every_method_has_a_name_and_a_title():
    assert set(METHODS) == set(METHOD_NAMES)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_rows_follow_the_run_table_and_prove_what_was_asked(case, finished):
    runs = finished[case].runs
    assert set(runs.columns) == set(METHOD_COLUMNS)
    assert runs["replica_id"].is_unique
    private = runs[np.isfinite(runs["epsilon"])]
    assert (private["epsilon_proved"] <= private["epsilon"]).all()
    if not METHOD_NAMES[case[0]].reads_private:
        assert (runs["epsilon"] == 0).all() and (runs["epsilon_proved"] == 0).all()
        return
    assert set(runs["epsilon"]) == {1.0, 2.0, math.inf}
    assert (private["epsilon_proved"] > 0.95 * private["epsilon"]).all()
    assert runs.loc[np.isinf(runs["epsilon"]), "epsilon_proved"].isna().all()


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_every_row_has_its_statement(case, finished):
    result = finished[case]
    for row in result.runs.to_dict("records"):
        statement = result.statements[row["statement_id"]]
        expected = "proved_if_seed_secret" if row["epsilon"] else "proved"
        expected = "not_private" if math.isinf(row["epsilon"]) else expected
        assert statement["status"] == expected
        assert statement["epsilon_proved"] == (
            None if expected == "not_private" else row["epsilon_proved"]
        )
        same = (result.runs["epsilon"] == row["epsilon"]).sum()
        assert statement["n_runs_released"] == same
        assert statement["unit"] == ("edge_undirected" if case[1] == "edges" else "node")


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_scores_of_private_validation_labels_are_not_shown(case, finished):
    runs = finished[case].runs
    unknown = runs["validation_labels"] == 0
    assert unknown.any()
    assert runs.loc[unknown, ["validation_micro_f1", "majority_micro_f1"]].isna().all(axis=None)
    shown = runs.loc[~unknown, "validation_micro_f1"].notna()
    assert (shown != METHOD_NAMES[case[0]].fits_validation_labels).all()


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_test_labels_change_no_prediction(case, graph, finished):
    labels = graph.labels.copy()
    labels[graph.test_mask] = (labels[graph.test_mask] + 1) % 3
    other = dataclasses.replace(graph, labels=labels)
    object.__setattr__(other, "fingerprint", graph.fingerprint)
    plan = _plan(*case, epsilons=(1,), validation_labels=(), seeds=(0,))
    first, second = (run_method(plan, each) for each in (graph, other))
    assert np.array_equal(first.test_predictions, second.test_predictions)
    assert first.runs["validation_micro_f1"].equals(second.runs["validation_micro_f1"])


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_a_seeded_run_repeats_and_does_not_depend_on_what_runs_beside_it(case, graph, finished):
    alone = run_method(_plan(*case, epsilons=(1,), seeds=(0,), validation_labels=()), graph)
    all_of_them = finished[case]
    row = list(all_of_them.runs["replica_id"]).index(alone.runs["replica_id"].iloc[0])
    assert np.array_equal(alone.test_predictions[0], all_of_them.test_predictions[row])


def test_noise_of_the_operating_system_differs_every_time(graph):
    plan = _plan("class_sums", "text", epsilons=(0.1,), validation_labels=())
    first, second = (run_method(plan, graph, noise_source="os_entropy") for _ in range(2))
    assert set(first.runs["replica_id"]).isdisjoint(second.runs["replica_id"])
    assert not np.array_equal(first.test_predictions, second.test_predictions)
    (statement,) = first.statements.values()
    assert statement["noise_source"] == "os_entropy"


def test_no_output_of_an_unrepeatable_run_is_a_known_function_of_the_data(graph):
    """A plain hash tells a label to who knows the rest of the data and tries all classes."""
    plan = _plan("class_sums", "text", epsilons=(0.1,), validation_labels=())
    found = [run_method(plan, graph, noise_source="os_entropy") for _ in range(2)]
    told = set()
    for result in found:
        (statement,) = result.statements.values()
        assert set(result.runs["data_fingerprint"]) == {statement["data_fingerprint"]}
        assert graph.fingerprint not in json.dumps(statement)
        assert len(bytes.fromhex(statement["data_fingerprint"])) == 32
        told.add(statement["data_fingerprint"])
    assert len(told) == 2, "it depends on secret bytes"
    seeded = run_method(plan, graph)
    assert set(seeded.runs["data_fingerprint"]) == {graph.fingerprint}


def test_all_private_rows_of_a_file_compose(graph):
    budgets = {"epsilons": (0.5, 2, math.inf), "validation_epsilons": (2, 4)}
    result = run_method(_plan("class_sums", "text", **budgets), graph, noise_source="os_entropy")
    rows = result.runs[np.isfinite(result.runs["epsilon"])]
    assert len(rows) == 12 and len(result.runs) == 14
    mu = math.sqrt(sum(gdp_mu(each, 1e-5) ** 2 for each in rows["epsilon"]))
    for statement in (result.statements[name] for name in rows["statement_id"]):
        assert statement["status"] == "proved"
        assert statement["epsilon_of_file"] == pytest.approx(gdp_epsilon(mu, 1e-5), rel=1e-3)
        assert statement["epsilon_of_file"] > 1.2 * statement["epsilon_all_runs"]
        assert (statement["n_rows_counted"], statement["n_rows_not_counted"]) == (12, 0)
        assert ONLY_THIS_FILE in statement["assumptions"]
    seeded = run_method(_plan("class_sums", "text", **budgets), graph)
    for statement in seeded.statements.values():
        assert (statement["n_rows_counted"], statement["n_rows_not_counted"]) == (12, 2)


def test_who_has_the_seed_recovers_a_label_so_that_nothing_is_proved_without_secrecy(graph):
    plan = _plan("class_sums", "text", epsilons=(0.1,), validation_labels=(), seeds=tuple(range(8)))
    node = int(np.flatnonzero(graph.train_mask)[3])

    def world(label):
        labels = graph.labels.copy()
        labels[node] = label
        return run_method(plan, dataclasses.replace(graph, labels=labels))

    worlds = [world(each) for each in range(3)]
    replayed = [
        [np.mean(other.test_predictions == seen.test_predictions) for other in worlds]
        for seen in worlds
    ]
    assert np.argmax(replayed, axis=1).tolist() == [0, 1, 2]
    for result in worlds:
        (statement,) = result.statements.values()
        assert statement["status"] == "proved_if_seed_secret"
        assert statement["epsilon_proved"] <= 0.1 and SECRET_SEED in statement["assumptions"]


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_validation_labels_that_are_not_known_change_no_column(case, graph):
    plan = _plan(*case, epsilons=(), validation_labels=(5,), validation_epsilons=(2,), seeds=(0,))
    method, setting = case
    task = proved.build_task(graph, proved.SCENARIOS[setting], plan.delta, max_edges=900)
    (request,) = proved._requests(plan, task, graph, None)
    validation = np.flatnonzero(graph.validation_mask & (graph.labels >= 0))
    unknown = np.delete(validation, request.known)
    labels = graph.labels.copy()
    labels[unknown] = (labels[unknown] + 1) % 3
    other = dataclasses.replace(graph, labels=labels)
    object.__setattr__(other, "fingerprint", graph.fingerprint)
    rows = [run_method(plan, each).runs.drop(columns="seconds") for each in (graph, other)]
    pd.testing.assert_frame_equal(*rows)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_assumptions_speak_of_what_the_method_has(case, finished):
    method, setting = case
    parts = {"gcn", "gcn_poisson"}
    noisy = METHOD_NAMES[method].reads_private
    for statement in finished[case].statements.values():
        text = "; ".join(statement["assumptions"])
        private = noisy and statement["status"] != "not_private"
        assert ("partition" in text) == (private and method in parts)
        assert ("subgraph" in text) == (private and method in parts)
        assert ("joined a step" in text) == (private and method == "gcn_poisson")
        assert ("gradient of each record" in text) == (
            private and method in ("dp_linear", "dp_mlp")
        )
        assert ("number of steps" in text) == (private and "gradient" in _kinds(statement))
        assert ("number of releases" in text) == (private and _kinds(statement) != "gradient")
        assert ("noise is" in text) == (ONLY_THIS_FILE in statement["assumptions"]) == private


def _kinds(statement) -> str:
    """``gradient``, or what else is released, of all mechanisms."""
    types = {each["type"].removeprefix("gaussian_") for each in statement["mechanisms"]}
    return " and ".join(sorted(types))


def test_a_statement_says_which_claim_it_makes(finished):
    names = set()
    for (method, setting), result in finished.items():
        for row in result.runs.to_dict("records"):
            said = PrivacyStatement.model_validate(result.statements[row["statement_id"]])
            assert (said.method, said.scenario, said.study) == (method, setting, "lrec2022")
            check_row(row, said)
        names |= set(result.statements)
    assert len(names) == sum(len(each.statements) for each in finished.values())


class _Releasing:
    """A method that says it released what it is told to."""

    name = "class_sums"

    def __init__(self, noise_std: float) -> None:
        self.event = GaussianQuery(
            unit="node", relation="replace", count=1, reason="test", sensitivity=1.0,
            noise_std=noise_std,
        )  # fmt: skip

    def run(self, task, requests, progress=None):
        guess = np.zeros(task.test_features.shape[0], dtype=int)
        validation = np.zeros(len(task.validation_labels), dtype=int)
        return [Outcome(guess, validation, events=(self.event,)) for _ in requests]


def test_a_method_that_releases_more_than_it_was_asked_for_is_refused(graph, monkeypatch):
    plan = _plan("class_sums", "text", epsilons=(1,), validation_labels=())
    monkeypatch.setitem(proved.METHODS, "class_sums", _Releasing(noise_std=10.0))
    assert run_method(plan, graph).runs["epsilon_proved"].max() < 1
    monkeypatch.setitem(proved.METHODS, "class_sums", _Releasing(noise_std=1.0))
    with pytest.raises(UserError, match="may not be reported"):
        run_method(plan, graph)


def _statement_at(result, known):
    row = result.runs[(result.runs["validation_labels"] == known) & (result.runs["epsilon"] == 1)]
    return result.statements[row["statement_id"].iloc[0]]


def test_labels_that_are_private_in_some_runs_only_are_not_covered_by_all_of_them(graph):
    plan = _plan(
        "class_sums", "text", epsilons=(1,), validation_labels=(0,), validation_epsilons=(1,)
    )
    mixed = _statement_at(run_method(plan, graph), 0)
    assert proved.PUBLIC_ELSEWHERE in mixed["assumptions"]
    alone = run_method(plan.model_copy(update={"validation_labels": ()}), graph)
    size = int(alone.runs["validation_labels"].iloc[0])
    public = _statement_at(alone, size)
    assert public["n_runs_released"] == 2 and mixed["n_runs_released"] == 4
    assert proved.PUBLIC_ELSEWHERE not in public["assumptions"]
    # Four runs of one Gaussian release, whatever the choice among validation labels cost.
    twice_mu = gdp_epsilon(2 * gdp_mu(public["epsilon_proved"], 1e-5), 1e-5)
    assert mixed["epsilon_all_runs"] == pytest.approx(twice_mu, rel=1e-3)
    assert "its label" not in public["proof"] and "the label alone" in mixed["proof"]


def test_public_labels_are_drawn_without_the_data(graph):
    labels = graph.labels.copy()
    first = np.flatnonzero(graph.train_mask)[0]
    labels[first] = (labels[first] + 1) % 3
    other = dataclasses.replace(graph, labels=labels)
    assert other.fingerprint != graph.fingerprint
    plan = _plan("class_sums", "text")
    drawn = [
        [each.known for each in proved._requests(plan, problem_of(each_graph), each_graph, None)]
        for each_graph in (graph, other)
    ]
    assert all(np.array_equal(*pair) for pair in zip(*drawn, strict=True))


def test_a_sample_drawn_per_class_is_refused_at_node_level(graph):
    info = graph.info.model_copy(update={"node_sample": "stratified"})
    sampled = dataclasses.replace(graph, info=info)
    with pytest.raises(UserError, match="sampled per class"):
        run_method(_plan("class_sums", "text"), sampled)
    assert len(run_method(_plan("text_only", "edges"), sampled).runs)


def test_who_is_protected_stands_in_every_statement(finished):
    for case, result in finished.items():
        for statement in result.statements.values():
            facts = " ".join(statement["public_facts"])
            assert "who is which" in facts and "test nodes are not protected" in facts
            assert ("a bound on the number of edges" in facts) == (case[1] == "edges")
            private = statement["epsilon_proved"] not in (None, 0.0)
            assert (proved.CONSTANTS in statement["assumptions"]) == private


def test_a_delta_that_proves_nothing_is_refused(graph):
    with pytest.raises(UserError, match="delta"):
        run_method(_plan("class_sums", "text", delta=0.5), graph)


def test_a_setting_that_a_method_does_not_have_is_refused(graph):
    with pytest.raises(UserError, match="has no setting edges"):
        run_method(_plan("class_sums", "edges"), graph)


# --- the choice among candidates ---


def _request(task, known, epsilon=1.0, seed=0):
    streams = Streams.of({"seed": seed})
    return Request(epsilon, seed, np.asarray(known, dtype=int), streams)


def problem_of(graph):
    return proved.build_task(graph, proved.SCENARIOS["text"], 1e-5)


@pytest.fixture(scope="module")
def task(graph):
    return problem_of(graph)


def test_public_labels_choose_the_most_hits_and_the_first_of_equals(task):
    truth = task.validation_labels
    wrong = (truth + 1) % 3
    known = np.arange(len(truth))
    index, events, words = choose(task, _request(task, known), np.stack([wrong, truth]))
    assert (index, events) == (1, ()) and str(len(truth)) in words
    assert choose(task, _request(task, known), np.stack([truth, truth]))[0] == 0


def test_only_known_labels_are_read(task):
    truth = task.validation_labels
    half = truth.copy()
    half[5:] = (half[5:] + 1) % 3
    index, _, _ = choose(task, _request(task, [0, 1]), np.stack([half, truth]))
    assert index == 0, "both are right on the two known labels"


def test_private_labels_choose_by_the_exponential_mechanism(task):
    truth = task.validation_labels
    candidates = np.stack([(truth + 1) % 3, truth])
    index, (event,), words = choose(task, _request(task, []), candidates)
    assert isinstance(event, ExponentialChoice) and "private" in words
    assert event.bounded_range == pytest.approx(1.0)
    # P[first] = 1 / (1 + exp(hits / scale)), counted over fixed seeds.
    small = np.stack([truth, np.where(np.arange(len(truth)) < 3, (truth + 1) % 3, truth)])
    chosen = [choose(task, _request(task, [], seed=s), small)[0] for s in range(2000)]
    expected = 1 / (1 + math.exp(3 / 2))
    assert np.mean(chosen) == pytest.approx(expected, abs=3 * math.sqrt(0.25 / 2000))


def test_one_candidate_is_no_choice(task):
    assert choose(task, _request(task, []), task.validation_labels[None])[1] == ()


@pytest.mark.parametrize("epsilon", [3.74, 6.3, 0.1, 2.0, 7.77])
def test_a_choice_keeps_budgets_that_rounding_would_exceed(task, epsilon):
    asked = Request(epsilon, 0, np.arange(0), Streams.of({"choice": epsilon}))
    predictions = np.zeros((3, len(task.validation_labels)), dtype=np.int64)
    _, (event,), _ = choose(task, asked, predictions)
    assert 2 / Fraction(event.scale) <= Fraction(epsilon)
    assert epsilon * (1 - 1e-12) <= event.bounded_range <= epsilon
