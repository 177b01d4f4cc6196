"""Running jobs: what holds of the rows and statements of every method, choices, files."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import safetensors
import safetensors.numpy
from small_graphs import dense_features, with_parts
from small_jobs import CASES, job_of, rows_of, small_dataset, untrained

from private_graphs.core.errors import UserError
from private_graphs.core.files import sha256_of
from private_graphs.core.manifest import WITHOUT_DP
from private_graphs.mechanisms.door import ReleaseMismatch
from private_graphs.mechanisms.replay import Recording
from private_graphs.methods import all_methods, method_named
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu
from private_graphs.privacy.assumptions import ONLY_THIS_FILE, SECRET_SEED
from private_graphs.privacy.events import SecretSample
from private_graphs.privacy.queries import GaussianQuery
from private_graphs.privacy.statement_checks import check_row
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.running import job_files, settings_search
from private_graphs.running import run as run_module
from private_graphs.running.jobs import Chosen
from private_graphs.running.result import majority_score
from private_graphs.running.run import SCORES_SHOWN, execute
from private_graphs.tasks.method import Outcome
from private_graphs.tasks.tasks import SCENARIOS
from private_graphs.training import engine

COLUMNS = {
    "study", "group", "job", "dataset", "features", "view", "method", "scenario", "protocol",
    "settings", "epsilon", "delta", "seed", "validation_labels", "validation_nodes", "selected",
    "n_configurations", "noise_multiplier", "epsilon_claimed", "epsilon_proved", "unit", "relation",
    "inference", "status", "statement_id", "replica_id", "noise_source", "test_micro_f1",
    "test_macro_f1", "test_accuracy", "validation_micro_f1", "validation_macro_f1",
    "majority_micro_f1", "random_micro_f1", "seconds", "device", "data_fingerprint",
    "code_fingerprint",
}  # fmt: skip
"""Of every row; methods add what they measure."""
each_case = pytest.mark.parametrize("case", CASES, ids="-".join)
GRAPH = small_dataset("class_sums")


def is_last(case) -> bool:
    return case[2] == [*all_methods()[case[0]].protocols][-1]


@pytest.fixture(scope="module")
def finished():
    """A result of every method under each scenario and protocol: of two seeds under the last one,
    of one under the others, whose statements say the same of each."""
    return {
        case: execute(job_of(*case, **({} if is_last(case) else {"seeds": (0,)})),
                      small_dataset(case[0]))
        for case in CASES
    }  # fmt: skip


ONE = {"epsilons": (1.0,), "validation_labels": (), "seeds": (0,)}


@cache
def one_run(case):
    """A job of one private run, and its result."""
    job = job_of(*case, **ONE)
    return job, execute(job, small_dataset(case[0]))


def seen_as(dataset, original):
    """``dataset`` with the hash of ``original``, so that the draws stay."""
    object.__setattr__(dataset, "fingerprint", original.fingerprint)
    return dataset


def relabelled(dataset, records):
    """The dataset with other labels of some records that have one, and the same draws."""
    labels = dataset.labels.copy()
    records = np.asarray(records)[labels[records] >= 0]
    labels[records] = (labels[records] + 1) % dataset.n_classes
    return seen_as(replace(dataset, labels=labels), dataset)


def released(job, dataset):
    """What a run reads of private data, before noise, and its predictions; to the bit."""
    watch = Recording(term_steps=())
    _, answers = run_module.answer(job, dataset, watch)
    exact = [np.asarray(each.exact) for tape in watch.tapes.values() for each in tape]
    told = [each.outcome.test_predictions for each in answers]
    return [(each.shape, each.tobytes()) for each in (*exact, *told)]


def hides(case) -> bool:
    """Whether scores would read protected records (``Scenario.scores_are_queries``)."""
    sound = all_methods()[case[0]].protocols[case[2]].calibration == "proved"
    return SCENARIOS[case[1]].scores_are_queries and sound


def requests_of(job, dataset=GRAPH, noise_source="seeded"):
    """The requests that a job makes of its method."""
    return run_module.Runner.of(job, dataset, None, noise_source, False).requests


# --- every method ----------------------------------------------------------------------------


@each_case
def test_rows_have_the_schema_and_prove_what_was_asked(case, finished):
    rows, method = finished[case].rows, all_methods()[case[0]]
    assert set(rows.columns) >= COLUMNS and rows["replica_id"].is_unique
    assert (rows["seconds"] >= 0).all()
    assert (rows["test_micro_f1"].between(0, 1) | hides(case)).all()
    assert all(json.dumps(json.loads(text), sort_keys=True) == text for text in rows["settings"])
    private = rows[np.isfinite(rows["epsilon"])]
    if not method.reads_private:
        assert (rows["epsilon"] == 0).all() and (rows["epsilon_proved"] == 0).all()
        return
    assert {1.0, math.inf} <= set(rows["epsilon"])
    public = rows[np.isinf(rows["epsilon"])]
    assert public[["epsilon_proved", "unit", "relation"]].isna().all(axis=None)
    if method.protocols[case[2]].calibration == "published":
        assert (private["epsilon_claimed"] > 0).all()
        return
    targets = private["statement_id"].map(
        lambda name: finished[case].statements[name]["epsilon_target"]
    )
    if targets.notna().all():  # else noise was given
        assert (private["epsilon_proved"] <= private["epsilon"]).all()
        assert (private["epsilon_proved"] > 0.95 * private["epsilon"]).all()


@each_case
def test_every_row_has_its_statement(case, finished):
    result, noisy = finished[case], all_methods()[case[0]].reads_private
    assert set(result.rows["statement_id"]) == set(result.statements)
    for row in result.rows.to_dict("records"):
        statement = PrivacyStatement.model_validate(result.statements[row["statement_id"]])
        check_row(row, statement)
        assert (statement.method, statement.scenario, statement.protocol) == case
        assert row["status"] == statement.status
        assert statement.n_runs_released == (result.rows["epsilon"] == row["epsilon"]).sum()
        private = noisy and statement.status != "not_private"
        assert (ONLY_THIS_FILE in statement.assumptions) == private
        assert (SECRET_SEED in statement.assumptions) == private
        chosen = set(all_methods()[case[0]].assumptions)
        finite = statement.status != "not_private"
        assert chosen.isdisjoint(statement.assumptions) == (not chosen or not finite)
        assert finite or "among the assumptions" not in statement.selection.data


def test_no_two_claims_share_a_statement(finished):
    names = {name for result in finished.values() for name in result.statements}
    assert len(names) == sum(len(result.statements) for result in finished.values())


@each_case
def test_scores_are_those_of_the_predictions(case, finished):
    result, dataset = finished[case], small_dataset(case[0])
    labels = dataset.labels[result.test_records]
    assert result.test_records.tolist() == np.flatnonzero(dataset.test_mask).tolist()
    if hides(case):
        pytest.skip("test records are protected too")
    for row, predictions in zip(result.rows.itertuples(), result.test_predictions, strict=True):
        assert row.test_micro_f1 == pytest.approx(np.mean(predictions == labels))
        assert row.test_accuracy == pytest.approx(row.test_micro_f1)


@each_case
def test_scores_of_private_validation_labels_are_not_shown(case, finished):
    rows, method = finished[case].rows, all_methods()[case[0]]
    unknown = rows["validation_labels"] == 0
    assert unknown.any() == (SCENARIOS[case[1]].cut == "sides")
    hidden = rows.loc[unknown, ["validation_micro_f1", "validation_macro_f1", "majority_micro_f1"]]
    assert hidden.isna().all(axis=None)
    shown = rows.loc[~unknown, "validation_micro_f1"].notna()
    fits = method.fits_validation_labels and not method.validates_without_labels
    assert (shown == (not fits and not hides(case))).all()


@pytest.mark.parametrize(
    "method", ["gap", "progap", "mlp_steps", "label_sums", "list_means", "dp_gnn"]
)
def test_no_score_is_kept_that_reads_protected_nodes(method):
    """Under ``lists`` every node is a unit: its features and list decide its own prediction."""

    def seen(protocol="sound", noise_source="seeded", **changes):
        job = job_of(method, "lists", protocol, epsilons=(1.0,), seeds=(0,), **changes)
        result = execute(job, GRAPH, noise_source=noise_source)
        scores = result.rows.filter(regex="^(test|validation)_(micro_f1|macro_f1|accuracy)$")
        (statement,) = result.statements.values()
        told = SCORES_SHOWN in statement["public_facts"]
        return scores.filter(like="test").notna(), scores.filter(like="valid").notna(), told

    for changes in ({}, {"noise_source": "os_entropy"},
                    {"noise_source": "os_entropy", "dataset": "cora"}):  # fmt: skip
        test, validation, told = seen(**changes)
        assert not (test.any(axis=None) or validation.any(axis=None) or told)
    test, validation, told = seen(dataset="cora")  # published, with a published seed
    assert test.all(axis=None) and told and not validation.any(axis=None)
    if "paper" in all_methods()[method].protocols:
        test, validation, told = seen("paper")
        assert test.all(axis=None) and validation.all(axis=None) and not told


@each_case
def test_few_labelled_training_records_are_no_error_where_labels_are_private(case):
    """One, or none where not even that is public."""
    dataset, labelled = small_dataset(case[0]), int(SCENARIOS[case[1]].cut == "sides")
    labels = dataset.labels.copy()
    labels[np.flatnonzero(dataset.train_mask & (labels >= 0))[labelled:]] = -1
    dataset = replace(dataset, labels=labels)
    result = execute(job_of(*case, **ONE), dataset)
    assert result.test_predictions.shape[1] == len(result.test_records)


@each_case
def test_test_labels_change_no_prediction(case):
    protocol = all_methods()[case[0]].protocols[case[2]]
    if protocol.stops_on_test is not None:
        pytest.skip("it stops early on them, as its statements say (test_mlp_records.py)")
    dataset = small_dataset(case[0])
    job, first = one_run(case)
    second = execute(job, relabelled(dataset, np.flatnonzero(dataset.test_mask)))
    assert np.array_equal(first.test_predictions, second.test_predictions)
    assert first.rows["validation_micro_f1"].equals(second.rows["validation_micro_f1"])
    assert first.rows["statement_id"].tolist() == second.rows["statement_id"].tolist()


@each_case
def test_a_seeded_run_repeats_and_does_not_depend_on_what_runs_beside_it(case, finished):
    _, alone = one_run(case)
    everything = finished[case]
    place = list(everything.rows["replica_id"]).index(alone.rows["replica_id"].iloc[0])
    assert np.array_equal(alone.test_predictions[0], everything.test_predictions[place])
    columns = [name for name in COLUMNS if name.endswith("f1")]
    assert alone.rows.loc[0, columns].equals(everything.rows.loc[place, columns])


@each_case
def test_validation_labels_that_are_not_known_change_no_column(case):
    dataset = small_dataset(case[0])
    job = job_of(*case, epsilons=(), validation_labels=(5,), validation_epsilons=(2.0,), seeds=(0,))
    if SCENARIOS[case[1]].cut == "whole":
        with pytest.raises(UserError, match="validation_labels"):
            execute(job, dataset)
        return
    validation = np.flatnonzero(dataset.validation_mask & (dataset.labels >= 0))
    unknown = np.delete(validation, requests_of(job, dataset)[0].known)
    found = [rows_of(job, each) for each in (dataset, relabelled(dataset, unknown))]
    pd.testing.assert_frame_equal(*found)


@each_case
def test_unlabelled_training_records_add_nothing(case):
    """But where a training node reads its neighbours, labelled or not."""
    if case[1] in ("nodes", "links", "lists"):
        pytest.skip("its unlabelled nodes pass on what their neighbours have")
    if case[2] == "released":
        pytest.skip("it counts them as class 0")
    dataset = small_dataset(case[0])
    silent = dataset.train_mask & (dataset.labels < 0)
    assert silent.sum() == 3
    if hasattr(dataset, "images"):
        images = dataset.images.copy()
        images[silent] = 255 - images[silent]
        other = replace(dataset, images=images)
    else:
        features = dense_features(dataset)
        features[silent] = 1
        kept = ~silent[dataset.edge_index].any(axis=0)
        other = with_parts(dataset, features=features, edges=dataset.edge_index[:, kept].T)
    job = job_of(*case, **ONE)
    assert released(job, dataset) == released(job, seen_as(other, dataset))


@each_case
def test_noise_does_not_tell_how_many_records_have_a_label(case):
    """A label that is taken away changes no noise and no statement where labels are private."""
    method, unit = all_methods()[case[0]], SCENARIOS[case[1]].unit
    if case[2] != "sound" or not method.reads_private or unit == "edge_undirected":
        pytest.skip("labels are public, or nothing is proved")
    dataset, (job, first) = small_dataset(case[0]), one_run(case)
    labels = dataset.labels.copy()
    labels[np.flatnonzero(dataset.train_mask & (labels >= 0))[:3]] = -1
    second = execute(job, seen_as(replace(dataset, labels=labels), dataset))
    for column in ("noise_multiplier", "epsilon_proved", "statement_id"):
        assert first.rows[column].equals(second.rows[column])


# --- noise of the operating system -----------------------------------------------------------

FEW = {"epsilons": (0.1,), "validation_labels": ()}


@pytest.mark.parametrize("case", [("dp_linear", "text"), ("gcn",), ("mlp_records",)], ids="-".join)
def test_noise_of_the_operating_system_differs_every_time_and_tells_no_hash(case):
    """A plain hash tells a label to who knows the rest of the data and tries all classes."""
    told, seen, dataset = set(), [], small_dataset(case[0])
    for _ in range(2):
        result = execute(
            job_of(*case, **FEW, seeds=tuple(range(20))), dataset, noise_source="os_entropy"
        )
        (statement,) = result.statements.values()
        assert statement["noise_source"] == "os_entropy"
        assert SECRET_SEED not in statement["assumptions"]
        assert dataset.fingerprint not in json.dumps(statement)
        assert set(result.rows["data_fingerprint"]) == {statement["data_fingerprint"]}
        assert len(bytes.fromhex(statement["data_fingerprint"])) == 32
        assert result.rows["seconds"].isna().all()
        told.add(statement["data_fingerprint"])
        seen.append(result)
    assert len(told) == 2, "it depends on secret bytes"
    assert not set(seen[0].rows["replica_id"]) & set(seen[1].rows["replica_id"])
    assert not np.array_equal(seen[0].test_predictions, seen[1].test_predictions)
    seeded = execute(job_of(*case, **FEW), dataset)
    assert set(seeded.rows["data_fingerprint"]) == {dataset.fingerprint}


def test_without_a_seed_the_majority_row_is_that_of_public_labels():
    validation = GRAPH.labels[GRAPH.validation_mask]
    majority = np.bincount(validation[validation >= 0]).argmax()
    other = relabelled(GRAPH, np.flatnonzero(GRAPH.train_mask))
    for graph in (GRAPH, other):
        found = execute(job_of(settings={"epochs": 2}), graph, noise_source="os_entropy")
        truth = graph.labels[found.test_records]
        assert (found.rows["majority_micro_f1"] == np.mean(truth == majority)).all()
    seeded = execute(job_of(settings={"epochs": 2}), GRAPH)
    labels = GRAPH.labels[GRAPH.train_mask]
    most = np.bincount(labels[labels >= 0]).argmax()
    expected = majority_score(GRAPH.labels[seeded.test_records], most)
    assert (seeded.rows["majority_micro_f1"] == expected).all()


def test_all_private_rows_of_a_file_compose():
    budgets = {"epsilons": (0.5, 2, math.inf), "validation_epsilons": (2, 4)}
    job = job_of("class_sums", "text", **budgets)
    result = execute(job, GRAPH, noise_source="os_entropy")
    rows = result.rows[np.isfinite(result.rows["epsilon"])]
    assert len(rows) == 12 and len(result.rows) == 14
    mu = math.sqrt(sum(gdp_mu(epsilon, 1e-5) ** 2 for epsilon in rows["epsilon"]))
    for statement in (result.statements[name] for name in rows["statement_id"]):
        assert statement["status"] == "proved"
        assert statement["epsilon_of_file"] == pytest.approx(gdp_epsilon(mu, 1e-5), rel=1e-3)
        assert statement["epsilon_of_file"] > 1.2 * statement["epsilon_all_runs"]
        assert (statement["n_rows_counted"], statement["n_rows_not_counted"]) == (12, 0)
    for statement in execute(job, GRAPH).statements.values():
        assert (statement["n_rows_counted"], statement["n_rows_not_counted"]) == (12, 2)


# --- what is refused, and what is paid for ---------------------------------------------------


def releasing(noise_std: float, states: bool = True, apart: float = 0):
    """A method that releases a sum with this noise, and states it or nothing.

    ``apart``: the noise of another sum, about another part of the units.
    """
    event = GaussianQuery(
        unit="node", relation="replace", count=1, reason="test", sensitivity=1.0,
        noise_std=noise_std,
    )  # fmt: skip

    def run(task, requests, door, context):
        door.plan([[event] for _ in requests])
        door.gaussian(np.zeros((len(requests), 1)), [event] * len(requests))
        if apart:
            other, part = replace(event, noise_std=apart), door.part("others")
            part.plan([[other] for _ in requests])
            part.gaussian(np.zeros((len(requests), 1)), [other] * len(requests))
        guess = np.zeros(task.test_features.shape[0], dtype=int)
        validation = np.zeros(len(task.validation_labels), dtype=int)
        return [Outcome(guess, validation) for _ in requests]

    def stated(task, request, context, chosen):
        return {"events": (event,) if states else ()}

    return replace(method_named("class_sums"), run=run, stated=stated)


def test_a_method_that_releases_more_than_it_was_asked_for_is_refused(monkeypatch):
    job = job_of("class_sums", "text", epsilons=(1.0,), validation_labels=())
    monkeypatch.setattr(run_module, "method_named", lambda _: releasing(10.0))
    assert execute(job, GRAPH).rows["epsilon_proved"].max() < 1
    monkeypatch.setattr(run_module, "method_named", lambda _: releasing(1.0))
    with pytest.raises(UserError, match=job.id):
        execute(job, GRAPH)


def test_a_method_that_states_something_else_than_it_released_is_refused(monkeypatch):
    job = job_of("class_sums", "text", epsilons=(1.0,), validation_labels=())
    monkeypatch.setattr(run_module, "method_named", lambda _: releasing(10.0, states=False))
    with pytest.raises(ReleaseMismatch, match="it states"):
        execute(job, GRAPH)


def test_all_parts_of_the_units_have_the_plan_that_is_stated(monkeypatch):
    job = job_of("class_sums", "text", epsilons=(1.0,), validation_labels=())
    monkeypatch.setattr(run_module, "method_named", lambda _: releasing(10.0, apart=10.0))
    assert execute(job, GRAPH).rows["epsilon_proved"].max() < 1
    monkeypatch.setattr(run_module, "method_named", lambda _: releasing(10.0, apart=9.0))
    with pytest.raises(ReleaseMismatch, match="of others"):
        execute(job, GRAPH)


def test_what_no_price_covers_is_kept_of_published_data_alone(monkeypatch):
    base = releasing(10.0)
    more = {"curves": {"c": np.zeros(2)}, "evaluated": {"told": 7}, "artifacts": {"a": np.zeros(1)}}
    telling = replace(base, run=lambda *given: [replace(e, **more) for e in base.run(*given)])
    monkeypatch.setattr(run_module, "method_named", lambda _: telling)
    fields = {"epsilons": (1.0,), "seeds": (0,), "validation_labels": ()}
    for changes, source, names in (
        ({}, "seeded", {"a"}), ({"dataset": "cora"}, "seeded", {"a", "curve/c"}),
        ({}, "os_entropy", set()), ({"dataset": "cora"}, "os_entropy", set()),
    ):  # fmt: skip
        job = job_of("class_sums", "text", **fields, **changes)
        found = execute(job, GRAPH, noise_source=source)
        assert {name.split("/", 1)[1] for name in found.artifacts} == names
        assert ("told" in found.rows) == ("curve/c" in names)
    with pytest.raises(UserError, match="reads artifacts of other"):
        execute(job, GRAPH, artifacts={"other": {}}, noise_source="os_entropy")


def test_runs_of_a_search_are_priced_with_their_own_seeds():
    """Samples that runs of one seed share are not those of other seeds."""
    sums = GaussianQuery(unit="node", relation="replace", count=1, reason="test", sensitivity=1.0,
                         noise_std=5.0)  # fmt: skip
    named = [SecretSample((sums,), 0.1, f"seed {seed}") for seed in (0, 1)]
    method = replace(
        method_named("class_sums"),
        stated=lambda task, request, context, chosen: {"events": (named[request.seed],)},
    )
    rows = pd.DataFrame({"settings": ["{}"] * 4, "seed": [0, 1, 1, 1]})
    searched = job_of("class_sums", "text")
    found = settings_search._searched_runs(method, None, searched, 1.0, rows)
    assert [(each.events, each.n_runs) for each in found] == [((named[0],), 1), ((named[1],), 3)]


def test_public_labels_are_drawn_without_the_data():
    labels = GRAPH.labels.copy()
    first = np.flatnonzero(GRAPH.train_mask & (labels >= 0))[0]
    labels[first] = (labels[first] + 1) % 3
    other = replace(GRAPH, labels=labels)
    assert other.fingerprint != GRAPH.fingerprint
    job = job_of("class_sums", "text")
    drawn = [[request.known for request in requests_of(job, graph)] for graph in (GRAPH, other)]
    assert all(np.array_equal(*pair) for pair in zip(*drawn, strict=True))


def test_a_sample_drawn_per_class_is_refused_at_node_level():
    sampled = replace(GRAPH, info=GRAPH.info.model_copy(update={"node_sample": "stratified"}))
    with pytest.raises(UserError, match="small"):
        execute(job_of("class_sums", "text"), sampled)
    assert len(execute(job_of("text_only", "edges"), sampled).rows)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "class_sums", "scenario": "text", "delta": 0.5}, "delta"),
        ({"method": "class_sums", "scenario": "edges"}, "scenario edges"),
        ({"method": "class_sums", "protocol": "paper"}, "protocol paper"),
        ({"method": "mlp_records"}, "records"),
        ({"settings": {"splits": 46}}, "46"),
        ({"settings": {"visits": "poisson"}, "protocol": "paper"}, "visits"),
        ({"method": "edge_votes", "scenario": "edges", "max_edges": 3}, "max-edges"),
        ({"choose": {"dtype": ("float32", "float64")}}, "share their draws"),
        ({"method": "class_sums", "choose": {"rank": (1, 2)}, "validation_labels": (),
          "validation_epsilons": ()}, "not priced for a choice"),
    ],
)  # fmt: skip
def test_a_job_that_cannot_be_carried_out_names_what_is_wrong(changes, words):
    with pytest.raises(UserError, match=words):
        execute(job_of(**changes), GRAPH)


def test_delta_is_small_for_the_validation_records_too_whose_labels_are_private():
    fewer = GRAPH.train_mask & (np.cumsum(GRAPH.train_mask) <= 5)
    graph = replace(GRAPH, train_mask=fewer)
    size = int((GRAPH.validation_mask & (GRAPH.labels >= 0)).sum())
    assert graph.train_mask.sum() < size
    with pytest.raises(UserError, match=f"with {size} units"):
        execute(job_of("class_sums", "text", delta=1 / size), graph)


# --- identities ------------------------------------------------------------------------------


def identities(dataset=GRAPH, noise_source="seeded", **changes) -> list[str]:
    if "method" not in changes:
        changes["settings"] = {"splits": 1} | changes.get("settings", {})
    requests = requests_of(job_of(**changes), dataset, noise_source)
    return [request.streams.identity for request in requests]


def test_no_two_replicas_share_a_stream():
    noise = {"noise_multiplier": 7.0}
    variations = [
        {}, {"dataset": with_parts(GRAPH, features=dense_features(GRAPH) + 1)}, {"seeds": (2, 3)},
        {"epsilons": (3.0,)}, {"settings": {"learning_rate": 0.02}}, {"protocol": "paper"},
        {"protocol": "released"}, {"settings": {"optimizer": "sgd"}}, {"settings": {"splits": 2}},
        {"settings": {"train_fraction": 0.5}}, {"group": "selection"}, {"study": "other"},
        {"settings": {"splits": 2, "visits": "poisson"}}, {"settings": noise, "epsilons": (2.0,)},
        {"settings": noise | {"epochs": 5}, "epsilons": (2.0,)}, {"noise_source": "os_entropy"},
        {"settings": noise | {"clip_norm": 2.0}, "epsilons": (2.0,)},
        {"view": "with_label", "protocol": "paper"},
        *({"mask_seed": seed, "test_share": 0.2, "validation_share": 0.2} for seed in (1, 2)),
        *({"method": name, "scenario": scenario} for name in ("class_sums", "dp_linear")
          for scenario in ("text", "graph")),
    ]  # fmt: skip
    names = [name for variation in variations for name in identities(**variation)]
    assert len(set(names)) == len(names)


def test_a_replica_has_its_stream_whatever_trains_beside_it():
    together = identities(seeds=(0, 1, 2), epsilons=(math.inf, 1.0, 2.0))
    assert set(identities(seeds=(1,), epsilons=(2.0,))) < set(together)
    types = [identities(settings={"dtype": name}) for name in ("float32", "float64")]
    assert types[0] == types[1]


# --- choosing settings -----------------------------------------------------------------------

GRID = (0.01, 0.1, 1.0, 10.0)


def chosen(**changes) -> dict[float, set[float]]:
    """Selected learning rates by ε."""
    fields = {"choose": {"learning_rate": GRID}, "protocol": "paper", "settings": {"splits": 1}}
    rows = execute(job_of(**fields | changes), GRAPH).rows
    rows = rows.assign(rate=[json.loads(text)["learning_rate"] for text in rows["settings"]])
    picked = rows[rows["selected"]]
    return {epsilon: set(part["rate"]) for epsilon, part in picked.groupby("epsilon")}


def test_the_settings_of_the_highest_mean_validation_score_are_selected(monkeypatch):
    # over the seeds: .01 → 10, .1 → 10.5, 1 → 12, 10 → 11.5; the best single seed is at 10
    scores = {0.01: (10, 10), 0.1: (1, 20), 1.0: (12, 12), 10.0: (0, 22)}
    monkeypatch.setattr(engine, "train", untrained(lambda rate, place: scores[rate][place % 2]))
    assert chosen(epsilons=(math.inf, 1.0, 2.0)) == {
        math.inf: {0.01}, 1.0: {1.0}, 2.0: {1.0},
    }  # fmt: skip


def test_a_tie_goes_to_the_smaller_setting(monkeypatch):
    scores = {0.01: (3, 3), 0.1: (12, 10), 1.0: (10, 12), 10.0: (11, 11)}
    monkeypatch.setattr(engine, "train", untrained(lambda rate, place: scores[rate][place % 2]))
    assert chosen(epsilons=(2.0,)) == chosen(epsilons=(2.0,), seeds=(5, 4)) == {2.0: {0.1}}


def test_the_choice_is_made_for_each_epsilon_apart_and_without_test_scores(monkeypatch):
    wanted = [0.1, 10.0]
    for seed in range(4):
        monkeypatch.setattr(
            engine,
            "train",
            untrained(
                lambda rate, place: 20 if rate == wanted[place // 8] else 5,
                tests=lambda place, seed=seed: 100 * seed + place,
            ),
        )
        assert chosen(epsilons=(1.0, 2.0)) == {1.0: {0.1}, 2.0: {10.0}}


def searching(**changes):
    """A job that compares two rates at ε = 2."""
    fields = {"group": "selection", "seeds": (0, 1, 2), "epsilons": (2.0,), "protocol": "paper"}
    return job_of(**fields | {"choose": {"learning_rate": (0.1, 1.0)}} | changes)


def test_settings_chosen_elsewhere_are_the_only_ones_run_and_are_paid_for():
    first = searching()
    compared = execute(first, GRAPH).rows
    job = searching(
        group="B", epsilons=(math.inf, 2.0, 5.0), chosen=Chosen(job=first, epsilon=2.0),
        settings={"train_fraction": 0.5},
    )  # fmt: skip
    result = execute(job, GRAPH, chosen=compared)
    rows = result.rows
    rates = [json.loads(text)["learning_rate"] for text in rows["settings"]]
    (winner,) = {
        json.loads(text)["learning_rate"] for text in compared.loc[compared["selected"], "settings"]
    }
    assert len(rows) == job.n_replicas == 3 * 3 and rows["selected"].all()
    private = np.isfinite(rows["epsilon"])
    assert set(np.array(rates)[private]) == {winner} and set(np.array(rates)[~private]) == {0.01}
    for name in rows.loc[private, "statement_id"].unique():
        statement = result.statements[name]
        assert statement["n_runs_released"] == 3 + 6
        assert statement["selection"]["n_configs"] == 2
        assert statement["epsilon_all_runs"] > statement["epsilon_proved"]
    for name in rows.loc[~private, "statement_id"].unique():
        assert result.statements[name]["n_runs_released"] == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda job, rows: (job, None), "selection"),
        (lambda job, rows: (job.model_copy(update={"chosen": None}), rows), "run that job"),
        (lambda job, rows: (job, rows.assign(job="other")), "name of its rows is other"),
        (lambda job, rows: (job, rows.assign(selected=False)), "0 configurations"),
        (lambda job, rows: (job, rows.assign(selected=True)), "2 configurations"),
    ],
)
def test_a_choice_that_is_absent_or_of_another_job_names_it(monkeypatch, change, words):
    monkeypatch.setattr(engine, "train", untrained())
    first = searching()
    rows = execute(first, GRAPH).rows
    job = searching(group="B", chosen=Chosen(job=first, epsilon=2.0))
    job, rows = change(job, rows)
    with pytest.raises(UserError, match=words):
        execute(job, GRAPH, chosen=rows)


# --- files -----------------------------------------------------------------------------------


def test_a_saved_result_is_read_back_whole(finished, tmp_path):
    result = finished["gcn", "nodes", "sound"]
    arrays = {f"{name}/curve": np.arange(3.0) for name in result.rows["replica_id"]}
    result = replace(result, artifacts=arrays)
    result.save(tmp_path)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "runs.parquet"), result.rows)
    assert json.loads((tmp_path / "statement.json").read_text()) == json.loads(
        json.dumps(result.statements)
    )
    path = tmp_path / "predictions.safetensors"
    stored = safetensors.numpy.load_file(path)
    np.testing.assert_array_equal(stored["predictions"], result.test_predictions)
    np.testing.assert_array_equal(stored["test_records"], result.test_records)
    with safetensors.safe_open(path, "numpy") as file:
        assert json.loads(file.metadata()["replica_ids"]) == result.rows["replica_id"].tolist()
    kept = safetensors.numpy.load_file(tmp_path / "artifacts.safetensors")
    assert set(kept) == set(arrays)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["statement_ids"] == sorted(result.statements)
    names = {path.name for path in tmp_path.iterdir()} - {"manifest.json"}
    assert manifest["sha256"] == {name: sha256_of(tmp_path / name) for name in names}
    replace(result, artifacts={}).save(tmp_path)
    assert not (tmp_path / "artifacts.safetensors").exists(), "of an earlier result"


def test_rows_without_dp_of_an_unrepeatable_job_lie_in_a_folder_of_their_own(tmp_path):
    job = job_of(settings={"epochs": 2})
    found = execute(job, GRAPH, noise_source="os_entropy")
    found = replace(
        found, artifacts={f"{name}/curve": np.zeros(1) for name in found.rows["replica_id"]}
    )
    private = np.isfinite(found.rows["epsilon"])
    assert private.any() and not private.all()
    found.save(tmp_path)
    for folder, mask in ((tmp_path, private), (tmp_path / WITHOUT_DP, ~private)):
        rows = pd.read_parquet(folder / "runs.parquet")
        assert rows["replica_id"].tolist() == found.rows.loc[mask, "replica_id"].tolist()
        stored = safetensors.numpy.load_file(folder / "predictions.safetensors")
        np.testing.assert_array_equal(stored["predictions"], found.test_predictions[mask])
        kept = safetensors.numpy.load_file(folder / "artifacts.safetensors")
        assert {name.split("/")[0] for name in kept} == set(rows["replica_id"])
        statements = json.loads((folder / "statement.json").read_text())
        assert set(statements) == set(rows["statement_id"])
        for said in statements.values():
            counts = said["n_rows_counted"], said["n_rows_not_counted"]
            assert counts == ((len(rows), 0) if mask is private else (0, len(rows)))
    execute(job, GRAPH).save(tmp_path)
    assert not (tmp_path / WITHOUT_DP).exists()


@pytest.mark.parametrize("stage", ["predictions", "statement", "runs"])
def test_an_interrupted_save_leaves_no_rows_and_nothing_half_written(
    finished, tmp_path, monkeypatch, stage
):
    def half(frame, path, **_):
        path.write_bytes(b"PAR1 half")
        raise KeyboardInterrupt

    def stop(*_, **__):
        raise KeyboardInterrupt

    if stage == "runs":
        monkeypatch.setattr(pd.DataFrame, "to_parquet", half)
    else:
        target = {"predictions": safetensors.numpy, "statement": job_files}[stage]
        name = {"predictions": "save_file", "statement": "write_json"}[stage]
        monkeypatch.setattr(target, name, stop)
    with pytest.raises(KeyboardInterrupt):
        finished["gcn", "nodes", "sound"].save(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert not left & {"runs.parquet", "manifest.json"}
    assert not any("partial" in name for name in left)


# --- what a review broke ----------------------------------------------------------------------


def test_a_search_is_priced_by_what_every_run_released():
    """Noise is compared: the loudest run costs little, the quietest is paid for all the same."""
    dataset = small_dataset("gcn")
    searched = job_of(epsilons=(2.0,), choose={"noise_multiplier": (0.5, 50.0)}, protocol="paper")
    found = execute(searched, dataset).rows
    winner = found["noise_multiplier"].max()
    found["selected"] = found["noise_multiplier"] == winner
    job = job_of(epsilons=(2.0,), choose=searched.choose, protocol="paper").model_copy(
        update={"group": "other", "chosen": Chosen(job=searched, epsilon=2.0)}
    )
    follower = execute(job, dataset, chosen=found)
    (statement,) = follower.statements.values()
    alone = execute(searched, dataset).statements.values()
    spent = max(one["epsilon_proved"] for one in alone)
    assert statement["epsilon_all_runs"] > spent and statement["epsilon_of_file"] > spent


def test_given_noise_that_proves_less_than_asked_is_refused():
    job = job_of(epsilons=(2.0,), settings={"noise_multiplier": 0.5})
    with pytest.raises(UserError, match="2 was asked for"):
        execute(job, small_dataset("gcn"))


def test_a_choice_reads_all_validation_labels_so_that_fewer_cannot_be_public():
    with pytest.raises(ValueError, match="validation_labels"):
        job_of(choose={"learning_rate": (0.1, 1.0)}, validation_labels=(5,),
               validation_epsilons=(2.0,))  # fmt: skip
