"""One cell: replicas and their identity, selection, the run table, files."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import safetensors
import safetensors.numpy
import torch
from private_graphs.cells import Cell, CellPlan, RateChoice
from private_graphs.methods.result import new_secret
from private_graphs.methods.search import read_search
from small_graphs import dense_features, random_graph, with_parts

from private_graphs.errors import UserError
from private_graphs.files import WITHOUT_DP, sha256_of
from private_graphs.methods import gcn
from private_graphs.methods import result as result_module
from private_graphs.methods.gcn import device_of, protocol_of, train_cell
from private_graphs.methods.gcn_protocols import PROTOCOLS, SOUND_POISSON
from private_graphs.reporting.runs import RUN_COLUMNS, collect
from private_graphs.training import engine
from private_graphs.training.metrics import majority_score

DATASET = random_graph(0, nodes=90, classes=3)


def plan_of(**changes) -> CellPlan:
    fields = dict(
        study="lrec2022", experiment="table1", dataset="small", optimizer="adam", protocol="paper",
        splits=1,
    )  # fmt: skip
    cell = Cell(**{key: changes.pop(key, value) for key, value in fields.items()}, **{
        key: changes.pop(key) for key in ("visits", "train_fraction") if key in changes
    })  # fmt: skip
    settings = dict(
        seeds=(0, 1), epsilons=(math.inf, 2.0), private_learning_rates=(0.1, 1.0), epochs=4,
        dtype="float64",
    )  # fmt: skip
    return CellPlan(cell=cell, **(settings | changes))


def train(dataset=DATASET, **changes):
    how = {key: changes.pop(key) for key in ("noise_source", "threads") if key in changes}
    return train_cell(plan_of(**changes), dataset, device="cpu", **how)


@pytest.mark.parametrize("gpu", [False, True])
def test_secret_noise_is_for_the_cpu(monkeypatch, gpu):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    with pytest.raises(UserError, match="cryptographic.*--device cpu.*--seed"):
        train_cell(plan_of(), DATASET, device="cuda", noise_source="os_entropy")
    assert device_of(plan_of(), "auto", "os_entropy") == "cpu"
    without_noise = plan_of(epsilons=(math.inf,))
    for plan, source in ((plan_of(), "seeded"), (without_noise, "os_entropy")):
        assert device_of(plan, "auto", source) == ("cuda" if gpu else "cpu")


@pytest.fixture(scope="module")
def result():
    return train(splits=3)


def test_the_run_table_has_one_row_per_replica_in_the_agreed_columns(result):
    runs = result.runs
    assert set(runs.columns) == {*RUN_COLUMNS, "visits"}
    assert len(runs) == plan_of().n_replicas == 2 * (1 + 2)
    assert runs["replica_id"].is_unique
    assert set(runs["statement_id"]) == set(result.statements)
    private = runs[np.isfinite(runs["epsilon"])]
    public = runs[np.isinf(runs["epsilon"])]
    assert (private["clip"] == 1.0).all() and public["clip"].isna().all()
    assert (public["noise_multiplier"] == 0).all() and (private["noise_multiplier"] > 0).all()
    assert private["epsilon_proved"].notna().all() and public["epsilon_proved"].isna().all()
    assert (private["epsilon"] == 2).all() and (private["unit"] == "node").all()
    assert (runs["max_epochs"] == 4).all() and (runs["epochs"] <= 4).all()
    assert (runs["data_fingerprint"] == DATASET.fingerprint).all()
    assert (runs["seconds"] > 0).all()
    assert runs["test_micro_f1"].between(0, 1).all()
    assert sorted(private["lr"].unique()) == [0.1, 1.0] and (public["lr"] == 0.01).all()


def test_predictions_have_the_scores_of_the_run_table(result):
    labels = DATASET.labels[result.test_nodes]
    assert result.test_nodes.tolist() == np.flatnonzero(DATASET.test_mask).tolist()
    for index, row in result.runs.iterrows():
        predictions = result.test_predictions[index]
        assert row["test_micro_f1"] == pytest.approx(np.mean(predictions == labels))
        assert row["test_accuracy"] == pytest.approx(row["test_micro_f1"])
    majority = np.bincount(DATASET.labels[DATASET.train_mask]).argmax()
    assert (result.runs["majority_micro_f1"] == majority_score(labels, majority)).all()


def test_a_saved_cell_is_read_back_whole(result, tmp_path):
    result.save(tmp_path / "cell")
    frame, statements = collect([tmp_path / "cell"])
    columns = list(RUN_COLUMNS)
    for name in columns:
        assert frame[name].fillna("none").tolist() == result.runs[name].fillna("none").tolist()
    assert statements == result.statements
    path = tmp_path / "cell" / "predictions.safetensors"
    stored = safetensors.numpy.load_file(path)
    np.testing.assert_array_equal(stored["predictions"], result.test_predictions)
    np.testing.assert_array_equal(stored["test_nodes"], result.test_nodes)
    with safetensors.safe_open(path, "numpy") as file:
        order = json.loads(file.metadata()["replica_ids"])
    assert order == result.runs["replica_id"].tolist()
    names = sorted(each.name for each in (tmp_path / "cell").iterdir())
    assert names == [
        "manifest.json", "predictions.safetensors", "runs.parquet", "statement.json"
    ]  # fmt: skip
    manifest = json.loads((tmp_path / "cell" / "manifest.json").read_text())
    assert manifest["statement_ids"] == sorted(result.statements)
    assert manifest["sha256"] == {
        name: sha256_of(tmp_path / "cell" / name) for name in names if name != "manifest.json"
    }


def test_rows_without_dp_of_an_unrepeatable_cell_lie_in_a_file_of_their_own(tmp_path):
    found = train(noise_source="os_entropy", protocol="sound", epochs=2)
    private = np.isfinite(found.runs["epsilon"])
    assert private.any() and not private.all()
    found.save(tmp_path)
    assert np.isfinite(pd.read_parquet(tmp_path / "runs.parquet")["epsilon"]).all()
    aside = pd.read_parquet(tmp_path / WITHOUT_DP / "runs.parquet")
    assert np.isinf(aside["epsilon"]).all()
    stored = safetensors.numpy.load_file(tmp_path / WITHOUT_DP / "predictions.safetensors")
    np.testing.assert_array_equal(stored["predictions"], found.test_predictions[~private])
    frame, statements = collect([tmp_path])
    assert statements == found.statements and set(frame["cell"]) == {tmp_path.as_posix()}
    assert sorted(frame["replica_id"]) == sorted(found.runs["replica_id"])
    for name, rows in found.runs.groupby("statement_id"):
        said = statements[name]
        kinds = (said["n_rows_counted"], said["n_rows_not_counted"])
        assert kinds == ((len(rows), 0) if np.isfinite(rows["epsilon"]).all() else (0, len(rows)))
    train(noise_source="seeded", protocol="sound", epochs=2).save(tmp_path)
    assert not (tmp_path / WITHOUT_DP).exists()


@pytest.mark.parametrize("stage", ["predictions", "statement", "runs"])
def test_an_interrupted_save_leaves_no_run_table_and_nothing_half_written(
    result, tmp_path, monkeypatch, stage
):
    def half(frame, path, **_):
        path.write_bytes(b"PAR1 half")
        raise KeyboardInterrupt

    def stop(*_, **__):
        raise KeyboardInterrupt

    if stage == "runs":
        monkeypatch.setattr(pd.DataFrame, "to_parquet", half)
    else:
        target = {"predictions": safetensors.numpy, "statement": result_module}[stage]
        name = {"predictions": "save_file", "statement": "write_json"}[stage]
        monkeypatch.setattr(target, name, stop)
    with pytest.raises(KeyboardInterrupt):
        result.save(tmp_path)
    left = {each.name for each in tmp_path.iterdir()}
    assert "runs.parquet" not in left and not any("partial" in name for name in left)


def fake_engine(monkeypatch, quality):
    """Make training return predictions: ``quality(lr, seed position)`` right validation nodes."""

    def fake(structure, protocol, settings, specs, **_):
        nodes = structure.validation_nodes
        labels = structure.inputs.labels
        rows = []
        for index, spec in enumerate(specs):
            right = np.arange(len(nodes)) < quality(spec.learning_rate, index)
            rows.append(np.where(right, labels[nodes], (labels[nodes] + 1) % 3))
        tests = np.stack([test_rows[index % len(test_rows)] for index in range(len(specs))])
        return engine.Trained(
            np.zeros((len(specs), 1)), np.full(len(specs), 4), np.zeros(len(specs)),
            np.stack(rows), tests[:, : len(structure.test_nodes)],
            tuple(
                engine.Released(
                    noisy_steps=4, bare_steps=0, epochs=4, visits="epoch_sum", parts=1, fewest=1,
                    most=1, clip_norm=settings.clip_norm,
                    noise_std=spec.noise_multiplier * settings.clip_norm,
                )
                for spec in specs
            ),
            1.0,
        )  # fmt: skip

    test_rows = [np.random.default_rng(i).integers(0, 3, 1000) for i in range(60)]
    monkeypatch.setattr(gcn.engine, "train", fake)
    return test_rows


GRID = (0.01, 0.1, 1.0, 10.0)


def chosen(**changes) -> dict[float, set[float]]:
    runs = train(private_learning_rates=GRID, **changes).runs
    picked = runs[runs["selected"]]
    return {epsilon: set(part["lr"]) for epsilon, part in picked.groupby("epsilon")}


def test_the_learning_rate_of_the_highest_mean_validation_score_is_selected(monkeypatch):
    # over the seeds: .01 → 10, .1 → 10.5, 1 → 12, 10 → 11.5; the best single seed is at 10
    scores = {0.01: (10, 10), 0.1: (1, 20), 1.0: (12, 12), 10.0: (0, 23)}
    fake_engine(monkeypatch, lambda lr, index: scores[lr][index % 2])
    assert chosen(epsilons=(math.inf, 1.0, 2.0)) == {
        math.inf: {0.01}, 1.0: {1.0}, 2.0: {1.0},
    }  # fmt: skip


def test_a_tie_goes_to_the_smaller_learning_rate(monkeypatch):
    scores = {0.01: (3, 3), 0.1: (12, 10), 1.0: (10, 12), 10.0: (11, 11)}
    fake_engine(monkeypatch, lambda lr, index: scores[lr][index % 2])
    assert chosen(epsilons=(2.0,)) == {2.0: {0.1}}
    assert chosen(epsilons=(2.0,), seeds=(5, 4)) == {2.0: {0.1}}


def test_the_choice_is_made_for_each_epsilon_apart(monkeypatch):
    best = iter([0.1, 10.0])
    wanted = [next(best), next(best)]
    fake_engine(monkeypatch, lambda lr, index: 20 if lr == wanted[index // 8] else 5)
    assert chosen(epsilons=(1.0, 2.0)) == {1.0: {0.1}, 2.0: {10.0}}


def test_test_scores_play_no_part_in_the_choice(monkeypatch):
    test_rows = fake_engine(monkeypatch, lambda lr, index: int(12 - abs(lr - 1)))
    found = chosen(epsilons=(2.0,))
    generator = np.random.default_rng(1)
    for _ in range(5):
        generator.shuffle(test_rows)
        assert chosen(epsilons=(2.0,)) == found == {2.0: {1.0}}


@pytest.fixture
def finished_search(tmp_path) -> tuple[RateChoice, object]:
    """A cell that compared two rates at ε = 2, and the choice made in it."""
    plan = plan_of(experiment="selection", seeds=(0, 1, 2), epsilons=(2.0,))
    train_cell(plan, DATASET, device="cpu").save(tmp_path)
    return RateChoice(cell=plan.cell, epsilon=2), tmp_path / "runs.parquet"


def test_a_rate_chosen_elsewhere_is_the_only_one_trained_and_is_paid_for(finished_search):
    choice, path = finished_search
    searched = pd.read_parquet(path)
    search = read_search(choice, path)
    assert {search.learning_rate} == set(searched.loc[searched["selected"], "lr"])
    assert (search.n_runs, search.n_rates, search.epochs) == (6, 2, 4)
    plan = plan_of(
        experiment="B", train_fraction=0.5, epsilons=(math.inf, 2.0, 5.0), chosen_in=choice
    )
    result = train_cell(plan, DATASET, device="cpu", search=search)
    runs = result.runs
    assert len(runs) == plan.n_replicas == 2 * 3 and runs["selected"].all()
    private = runs[np.isfinite(runs["epsilon"])]
    assert set(private["lr"]) == {search.learning_rate}
    assert set(runs.loc[np.isinf(runs["epsilon"]), "lr"]) == {0.01}
    for name in private["statement_id"].unique():
        statement = result.statements[name]
        assert statement["n_runs_released"] == 2 + 6
        assert statement["selection"]["n_configs"] == 2
        assert statement["epsilon_all_runs"] > statement["epsilon_proved"]


def test_a_rate_that_is_still_to_be_chosen_is_an_error(finished_search):
    choice, path = finished_search
    with pytest.raises(UserError, match="train that cell first"):
        train(chosen_in=choice)
    with pytest.raises(UserError, match="to be chosen in None"):
        train_cell(plan_of(), DATASET, device="cpu", search=read_search(choice, path))


def test_a_search_that_is_absent_or_of_another_cell_names_what_is_wrong(finished_search):
    choice, path = finished_search
    with pytest.raises(UserError, match="not a readable run table"):
        read_search(choice, path.with_name("absent.parquet"))
    other = choice.model_copy(update={"cell": choice.cell.model_copy(update={"splits": 4})})
    with pytest.raises(UserError, match=r"n_splits is \['1'\]; expected 4: train selection"):
        read_search(other, path)
    with pytest.raises(UserError, match="0 learning rates are selected at epsilon = 5"):
        read_search(choice.model_copy(update={"epsilon": 5.0}), path)
    pd.read_parquet(path).assign(selected=True).to_parquet(path)
    with pytest.raises(UserError, match="2 learning rates are selected at epsilon = 2"):
        read_search(choice, path)


def test_identical_replicas_of_two_cells_share_no_draw():
    first, second = (
        identities(experiment=name, epsilons=(2.0,), seeds=(0,)) for name in ("selection", "C")
    )
    assert not set(first) & set(second)


def identities(dataset=DATASET, noise_source="seeded", **changes) -> list[str]:
    plan = plan_of(**changes)
    replicas = gcn._replicas(plan, protocol_of(plan.cell), dataset, new_secret(noise_source), "cpu")
    return [each.streams.identity for each in replicas]


def test_no_two_replicas_share_a_stream():
    other = with_parts(DATASET, features=dense_features(DATASET) + 1)
    variations = [
        {}, {"dataset": other}, {"seeds": (2, 3)}, {"epsilons": (3.0,)},
        {"learning_rates": (0.02,), "private_learning_rates": (0.2,)}, {"protocol": "sound"},
        {"protocol": "released"}, {"optimizer": "sgd"}, {"splits": 2}, {"train_fraction": 0.5},
        {"experiment": "table2"}, {"study": "other"}, {"protocol": "sound", "visits": "poisson"},
        {"protocol": "sound", "splits": 2}, {"noise_multiplier": 7.0, "epsilons": (2.0,)},
        {"noise_multiplier": 7.0, "epsilons": (2.0,), "epochs": 5},
        {"noise_multiplier": 7.0, "epsilons": (2.0,), "clip_norm": 2.0},
        {"protocol": "sound", "splits": 2, "visits": "poisson"}, {"noise_source": "os_entropy"},
    ]  # fmt: skip
    found = [identity for each in variations for identity in identities(**each)]
    assert len(set(found)) == len(found)


def test_a_replica_has_its_stream_whatever_trains_beside_it():
    together = identities(seeds=(0, 1, 2), epsilons=(math.inf, 1.0, 2.0))
    assert set(identities(seeds=(1,), epsilons=(2.0,))) < set(together)
    assert identities(dtype="float32") == identities(dtype="float64")


def same(first, second) -> bool:
    columns = [name for name in RUN_COLUMNS if name != "seconds"]
    return first.runs[columns].equals(second.runs[columns]) and np.array_equal(
        first.test_predictions, second.test_predictions
    )


def test_seeded_runs_repeat_to_the_last_bit_and_runs_of_entropy_never():
    how = dict(protocol="sound", splits=3, epochs=6)
    seeded = [train(**how) for _ in range(2)]
    assert same(*seeded)
    assert same(seeded[0], train(threads=2, **how))
    drawn = [train(noise_source="os_entropy", **how) for _ in range(2)]
    losses = [result.runs["validation_loss"].to_numpy() for result in (*drawn, seeded[0])]
    for i in range(3):
        for j in range(i):
            assert not np.any(losses[i] == losses[j])
    assert (drawn[0].runs["noise_source"] == "os_entropy").all()


def test_without_a_seed_the_majority_row_is_that_of_public_labels():
    rest = DATASET.labels.copy()
    rest[DATASET.train_mask] = (rest[DATASET.train_mask] + 1) % DATASET.n_classes
    other = replace(DATASET, labels=rest)
    validation = DATASET.labels[DATASET.validation_mask]
    majority = np.bincount(validation[validation >= 0]).argmax()
    for graph in (DATASET, other):
        found = train_cell(
            plan_of(protocol="sound", epochs=2), graph, device="cpu", noise_source="os_entropy"
        )
        truth = graph.labels[found.test_nodes]
        assert (found.runs["majority_micro_f1"] == np.mean(truth == majority)).all()


def test_a_cell_trained_alone_has_the_rows_it_has_beside_others():
    many = train(seeds=(0, 1, 2), epsilons=(math.inf, 1.0, 2.0)).runs.set_index("replica_id")
    few = train(seeds=(1,), epsilons=(2.0,)).runs.set_index("replica_id")
    columns = ["validation_loss", "test_micro_f1", "noise_multiplier", "lr", "seed"]
    pd.testing.assert_frame_equal(few[columns], many.loc[few.index, columns])


def test_non_private_replicas_alone_stop_early_and_decay(monkeypatch):
    seen = []
    original = engine.train

    def watch(structure, protocol, settings, specs, **how):
        seen.append((settings, [spec.noise_multiplier for spec in specs]))
        return original(structure, protocol, settings, specs, **how)

    monkeypatch.setattr(gcn.engine, "train", watch)
    train(patience=3, weight_decay=0.02)
    (public, no_noise), (private, noise) = seen
    assert not public.private and public.patience == 3 and public.weight_decay == 0.02
    assert private.private and private.patience is None and private.weight_decay == 0.0
    assert set(no_noise) == {0.0} and min(noise) > 0
    assert private.clip_norm == 1.0


@pytest.mark.parametrize("name", ["released", "paper", "sound"])
def test_private_scores_that_choose_are_computed_on_the_graph_of_the_protocol(monkeypatch, name):
    graphs = []
    original = gcn.build_structure

    def watch(*arguments, **how):
        graphs.append(how["validation_graph"])
        return original(*arguments, **how)

    monkeypatch.setattr(gcn, "build_structure", watch)
    train(protocol=name)
    protocol = PROTOCOLS[name]
    assert graphs == [protocol.test_graph, protocol.private_selection_graph]


def test_more_splits_than_training_nodes_are_an_error():
    with pytest.raises(UserError, match="46 parts asked of 45 training nodes"):
        train(splits=46)


@pytest.mark.parametrize("protocol", ["released", "paper"])
@pytest.mark.parametrize("visits", ["poisson", "epoch_sum"])
def test_only_sound_has_a_choice_of_visits(protocol, visits):
    with pytest.raises(UserError, match="only sound has a choice: leave visits out"):
        train(protocol=protocol, visits=visits, splits=3)


def test_poisson_visits_turn_sound_into_the_protocol_of_that_name():
    found = protocol_of(plan_of(protocol="sound", visits="poisson").cell)
    assert found.visits == "poisson"
    summary = {"summary": found.summary}
    assert found == type(found)(**(SOUND_POISSON.__dict__ | summary))


def test_the_table_says_how_parts_were_visited():
    for changes, visits in (
        (dict(splits=1), "full_graph"), (dict(splits=3), "shuffled"),
        (dict(splits=3, protocol="sound"), "epoch_sum"),
        (dict(splits=3, protocol="sound", visits="poisson"), "poisson"),
    ):  # fmt: skip
        assert set(train(epsilons=(2.0,), **changes).runs["visits"]) == {visits}


def test_progress_ends_at_the_number_of_replica_epochs():
    calls = []
    plan = plan_of(patience=1, epochs=30)
    train_cell(
        plan, DATASET, device="cpu", progress=lambda done, total: calls.append((done, total))
    )
    assert calls[-1] == (6 * 30, 6 * 30)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
