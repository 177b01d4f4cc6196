"""Configuration: what is accepted, what is refused and with which words, what grids expand to."""

from __future__ import annotations

import json
import math
from pathlib import Path

import jsonschema
import pytest
import yaml
from pydantic import ValidationError

from private_graphs import config
from private_graphs.cells import read_audit_plan
from private_graphs.config import RunConfig, Study, load_study, schema_text
from private_graphs.datasets import registry
from private_graphs.errors import UsageError, UserError
from private_graphs.grids import audit_plans, plans


@pytest.fixture(scope="module")
def study() -> Study:
    """The LREC study."""
    return load_study("lrec2022")


@pytest.mark.parametrize(
    "given", ["cora,pubmed", "[cora,pubmed]", " [cora, pubmed] ", ["cora", "pubmed"]]
)
def test_lists_are_read_in_every_form(given: object) -> None:
    assert RunConfig.parse({"datasets": given}).datasets == ("cora", "pubmed")


def test_one_name_is_a_list_and_repeated_names_count_once() -> None:
    assert RunConfig.parse({"protocols": "paper"}).protocols == ("paper",)
    assert RunConfig.parse({"protocols": "paper,paper"}).protocols == ("paper",)


@pytest.mark.parametrize("key", ["datasets", "experiments", "protocols", "seeds"])
@pytest.mark.parametrize("nothing", ["all", None])
def test_all_means_what_the_study_says(key: str, nothing: object) -> None:
    assert getattr(RunConfig.parse({key: nothing}), key) is None


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        (2, (0, 1)), ("2", (0, 1)), ("0,3,7", (0, 3, 7)), ("[0,3]", (0, 3)), ([4], (4,)),
        ("[4]", (4,)), ("5,", None),
    ],
)  # fmt: skip
def test_seeds_are_a_number_or_a_list(given: object, seeds: tuple[int, ...] | None) -> None:
    if seeds is None:
        with pytest.raises(UsageError, match="seeds"):
            RunConfig.parse({"seeds": given})
    else:
        assert RunConfig.parse({"seeds": given}).seeds == seeds


@pytest.mark.parametrize("given", [0, -1, "-1,2", "many", 1.5, True, ""])
def test_seeds_that_are_no_seeds_are_refused(given: object) -> None:
    with pytest.raises(UsageError, match="seeds: found"):
        RunConfig.parse({"seeds": given})


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"dataset": "cora"}, "unknown key 'dataset'.*did you mean 'datasets'"),
        ({"scale": "ful"}, "scale: unknown name 'ful'.*did you mean 'full'"),
        ({"datasets": "coral"}, "datasets: unknown name 'coral'.*did you mean 'cora'"),
        ({"experiments": "table4"}, "experiments: unknown name 'table4'.*did you mean 'table"),
        ({"features": "bertt"}, "features: unknown name 'bertt'.*did you mean 'bert'"),
        (
            {"experiments": "table2", "datasets": "synthetic-npz"},
            "table2 needs features bow,fasttext,bert.*datasets=pokec_demo",
        ),
        (
            {"experiments": "table2", "features": "sbert"},
            "table2 needs features.*pokec_demo has with features sbert",
        ),
        ({"protocols": "papers"}, "protocols: unknown name 'papers'.*did you mean 'paper'"),
        ({"datasets": "cora,,pubmed"}, "datasets: found 'cora,,pubmed'; expected names"),
        ({"mirror": "no/such/folder"}, "mirror 'no/such/folder' is not a folder"),
    ],
)
def test_unknown_keys_and_values_are_named_with_the_nearest_name(
    raw: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        RunConfig.parse(raw)


def test_default_configuration_is_the_demo_scale(root: Path) -> None:
    run = RunConfig.parse(yaml.safe_load((root / "config.yaml").read_text()))
    assert run == RunConfig()


def test_demo_trains_every_protocol_optimizer_and_split_in_few_jobs(study: Study) -> None:
    found = plans(study, RunConfig())
    cells = {plan.cell.cell_id for plan in found}
    assert len(cells) == len(found) <= 110
    assert all(len(plan.seeds) >= 3 for plan in found)
    table1 = [plan for plan in found if plan.cell.experiment == "table1"]
    for plan in table1:
        assert {1.0, 2.0} <= set(plan.epsilons)
        assert (math.inf in plan.epsilons) == (plan.cell.splits == 1)
    axes = {(p.cell.dataset, p.cell.optimizer, p.cell.protocol, p.cell.splits) for p in table1}
    assert len(axes) == len(table1) == 2 * 2 * 3 * 2


@pytest.mark.parametrize("scale", ["demo", "full"])
def test_every_curve_has_three_points(study: Study, scale: str) -> None:
    found = plans(study, RunConfig.parse({"scale": scale, "experiments": "A,B,C"}))
    for experiment, axis in (("A", "train_fraction"), ("B", "train_fraction"), ("C", "splits")):
        cells = [plan.cell for plan in found if plan.cell.experiment == experiment]
        points = {getattr(cell, axis) for cell in cells}
        lines = {cell.model_copy(update={axis: 1}) for cell in cells}
        assert len(points) >= 3 and 1 in points
        assert len(cells) == len(points) * len(lines), "every line has every point"


def test_full_scale_has_the_grids_of_the_paper(study: Study) -> None:
    run = RunConfig.parse({"scale": "full", "datasets": "cora", "protocols": "sound"})
    by_cell = {(p.cell.optimizer, p.cell.splits): p for p in plans(study, run)}
    assert set(by_cell) == {("sgd", 1), ("sgd", 10), ("adam", 1), ("adam", 10)}
    adam, sgd = by_cell["adam", 10], by_cell["sgd", 1]
    assert adam.epochs == 500 and sgd.epochs == 2000
    assert adam.private_learning_rates == (0.01, 0.1, 1, 10, 50, 100)
    assert sgd.private_learning_rates == sgd.learning_rates == (0.01,)
    assert adam.epsilons == (1, 2) and sgd.epsilons == (math.inf, 2)
    assert adam.seeds == (0, 1, 2, 3, 4) and adam.n_replicas == 5 * 2 * 6


def test_experiments_at_full_scale_have_the_points_of_the_paper(study: Study) -> None:
    run = RunConfig.parse({"scale": "full", "experiments": "A,B,C", "datasets": "cora"})
    found = plans(study, run)

    def values(experiment: str, axis: str) -> set[float]:
        return {getattr(p.cell, axis) for p in found if p.cell.experiment == experiment}

    def budgets(experiment: str) -> set[tuple[float, ...]]:
        return {p.epsilons for p in found if p.cell.experiment == experiment}

    assert values("A", "train_fraction") == {n / 10 for n in range(1, 11)}
    assert values("B", "train_fraction") == {0.25, 0.5, 0.75, 1}
    assert values("C", "splits") == {1, 4, 6, 8, 10, 100}
    assert values("A", "splits") == values("B", "splits") == values("C", "train_fraction") == {1}
    assert budgets("A") == {(math.inf,)} and budgets("B") == {(2, 5, 10, 137)}
    assert budgets("C") == {(math.inf, 1, 2, 5, 10, 137)}


def test_experiments_that_take_hours_run_only_where_they_are_named(study: Study) -> None:
    def made(experiments: str) -> list[str]:
        run = RunConfig.parse({"scale": "full", "experiments": experiments})
        return list(config.experiments_of(study, run))

    assert made("all") == ["table1", "table3", "table5", "audit", "frontier"]
    assert made("all,A") == ["table1", "A", "table3", "table5", "audit", "frontier"]
    assert made("A,B,C") == ["A", "B", "C"]
    assert list(config.experiments_of(study, RunConfig())) == [
        "table1", "table2", "leak", "A", "B", "C", "table3", "table5", "audit", "frontier",
    ]  # fmt: skip


def test_a_run_of_some_splits_keeps_those_points_and_the_experiments_that_have_them(study) -> None:
    raw = {"scale": "full", "experiments": "all,C", "datasets": "cora"}
    few = RunConfig.parse(raw | {"splits": "4, 10"})
    assert {p.cell.splits for p in plans(study, few)} == {4, 10}
    others = ["table3", "table5", "audit", "frontier"]
    assert list(config.experiments_of(study, few)) == ["table1", "C", *others]
    full_graph = {p.cell.experiment for p in plans(study, RunConfig.parse(raw | {"splits": 1}))}
    assert full_graph == {"table1", "C"}
    by_default = {"scale": "full", "splits": 4}
    assert list(config.experiments_of(study, RunConfig.parse(by_default))) == others
    assert plans(study, RunConfig.parse(raw | {"splits": "all"})) == plans(
        study, RunConfig.parse(raw)
    )
    for wrong in ("3", "ten", "0", "1,"):
        with pytest.raises(UsageError, match="splits"):
            RunConfig.parse(raw | {"splits": wrong})


@pytest.mark.parametrize("experiments", ["A", "A,C", "all,A"])
def test_an_experiment_that_is_named_has_to_have_one_of_the_splits(experiments: str) -> None:
    raw = {"scale": "full", "experiments": experiments}
    message = "splits 4,10: experiment A has none of them, only 1; name some of these, or leave A"
    with pytest.raises(UsageError, match=message):
        RunConfig.parse(raw | {"splits": "4,10"})
    assert RunConfig.parse(raw | {"splits": "1,10"}).splits == (1, 10)


def test_datasets_of_an_experiment_hold_where_the_run_names_none(study: Study) -> None:
    def trained(**raw: str) -> set[str]:
        return {p.cell.dataset for p in plans(study, RunConfig.parse({"experiments": "A"} | raw))}

    assert trained() == {"synthetic-planetoid"}
    assert trained(datasets="synthetic-npz,cora") == {"synthetic-npz", "cora"}
    assert trained(scale="full") == {"cora", "citeseer", "pubmed"}
    assert config.datasets_of(study, RunConfig.parse({"experiments": "A,table5"})) == [
        "synthetic-planetoid", "synthetic-npz", "pokec_demo",
    ]  # fmt: skip


def test_one_private_learning_rate_per_graph_protocol_and_splits_is_chosen_at_epsilon_2(
    study: Study,
) -> None:
    run = RunConfig.parse({"scale": "full", "experiments": "B,C", "datasets": "cora", "seeds": 2})
    by_id = {plan.cell.cell_id: plan for plan in plans(study, run)}
    for plan in by_id.values():
        cell = plan.cell
        if cell.experiment in ("table1", "selection"):
            assert plan.chosen_in is None
            continue
        if cell.optimizer == "sgd":  # one rate is tried: nothing is chosen
            assert plan.chosen_in is None
            continue
        assert plan.chosen_in.epsilon == 2
        searched = by_id[plan.chosen_in.cell.cell_id]
        assert searched.cell.model_copy(
            update={"experiment": cell.experiment, "train_fraction": cell.train_fraction}
        ) == cell  # fmt: skip
        assert 2 in searched.epsilons and searched.cell.train_fraction == 1
        assert searched.private_learning_rates == plan.private_learning_rates
        assert (searched.seeds, searched.epochs) == (plan.seeds, plan.epochs) == ((0, 1), 500)
        private = [epsilon for epsilon in plan.epsilons if not math.isinf(epsilon)]
        assert plan.n_replicas == len(plan.seeds) * len(plan.epsilons)
        assert [plan.n_learning_rates(epsilon) for epsilon in private] == [1] * len(private)


def test_the_table_is_searched_where_it_holds_the_choice_and_a_cell_of_its_own_elsewhere(
    study: Study,
) -> None:
    run = RunConfig.parse({"scale": "full", "experiments": "C", "datasets": "cora"})
    found = plans(study, run)
    searched = {
        plan.chosen_in.cell.splits: plan.chosen_in.cell.experiment
        for plan in found
        if plan.chosen_in
    }
    assert searched == {n: "selection" for n in (4, 6, 8, 100)} | {1: "table1", 10: "table1"}
    alone = [plan for plan in found if plan.cell.experiment == "selection"]
    assert len(alone) == 4 * 3 and {plan.epsilons for plan in alone} == {(2.0,)}
    assert all(plan.n_replicas == 5 * 6 for plan in alone)
    table1 = plans(study, RunConfig.parse({"scale": "full", "datasets": "cora"}))
    assert {p.cell: p for p in found if p.cell.experiment == "table1"}.items() <= {
        plan.cell: plan for plan in table1
    }.items()


def test_no_cell_is_planned_twice(study: Study) -> None:
    run = RunConfig.parse({"scale": "full", "experiments": "all,A,B,C"})
    cells = [plan.cell.cell_id for plan in plans(study, run)]
    assert len(set(cells)) == len(cells) == 3 * (12 + 60 + 24 + 36 + 12)


def test_selection_keeps_to_the_protocols_of_the_run(study: Study) -> None:
    found = plans(study, RunConfig.parse({"experiments": "C", "protocols": "paper"}))
    assert {plan.cell.protocol for plan in found} == {"paper"}


def test_without_dp_nothing_is_searched(study: Study) -> None:
    found = plans(study, RunConfig.parse({"experiments": "A"}))
    assert {plan.cell.experiment for plan in found} == {"A"}
    assert not any(plan.chosen_in for plan in found)


def shown(study: Study, earlier: set[tuple[str, str]] = frozenset(), **raw: str) -> dict:
    """Tables and figures of a run by name, where ``earlier`` cells are there."""
    run = RunConfig.parse(raw)
    planned = {(plan.cell.experiment, plan.cell.dataset) for plan in plans(study, run)}
    return {each.name: each for each in config.exhibits(study, run, planned | earlier)}


def test_figures_and_tables_follow_from_the_experiments(study: Study) -> None:
    found = shown(study, scale="full", experiments="all,C", datasets="cora")
    assert list(found) == ["table1", "figure3", "figure4", "table3", "table5", "audit"]
    assert [each.name for each in found.values() if each.picture_per_dataset] == [
        "figure3", "figure4",
    ]  # fmt: skip
    assert found["figure3"].datasets == ("cora",)
    assert found["table3"].datasets == found["audit"].datasets == ()


def test_a_run_shows_the_experiment_in_which_it_chooses_a_learning_rate(study: Study) -> None:
    asked = {"scale": "full", "datasets": "cora", "experiments": "B"}
    assert list(shown(study, **asked)) == ["table1", "figure2"]
    asked |= {"experiments": "C", "splits": "4"}
    assert list(shown(study, **asked)) == ["figure3", "figure4"], "selection is no exhibit"


def test_a_run_shows_the_experiments_and_datasets_of_earlier_runs(study: Study) -> None:
    earlier = {("B", "pubmed"), ("A", "cora"), ("selection", "pubmed"), ("gone", "cora")}
    found = shown(study, earlier, scale="full", datasets="citeseer", experiments="A,table5")
    assert list(found) == ["figure1", "figure2", "table5"]
    assert found["figure1"].datasets == ("citeseer", "cora")
    assert found["figure2"].datasets == ("pubmed",) and found["table5"].datasets == ("citeseer",)


def test_noise_table_alone_needs_no_dataset(study: Study) -> None:
    run = RunConfig.parse({"experiments": "table3"})
    assert plans(study, run) == [] and config.datasets_of(study, run) == []
    assert config.datasets_of(study, RunConfig.parse({"experiments": "table5"}))


def test_table2_is_every_protocol_on_every_feature_and_the_leak_is_sound_alone(
    study: Study,
) -> None:
    found = plans(study, RunConfig.parse({"experiments": "table2,leak"}))
    cells = {plan.cell for plan in found}
    assert {cell.dataset for cell in cells} == {"pokec_demo"}
    for experiment, protocols, views in (
        ("table2", {"released", "paper", "sound"}, {"released", "paper", "sound"}),
        ("leak", {"sound"}, {"sound-with-label"}),
    ):
        own = [cell for cell in cells if cell.experiment == experiment]
        axes = {(cell.features, cell.optimizer, cell.protocol) for cell in own}
        assert len(axes) == len(own) == 3 * 2 * len(protocols)
        assert {cell.protocol for cell in own} == protocols
        assert {cell.data_view.name for cell in own} == views
    assert all(plan.epsilons == (math.inf, 2, 5, 10, 137) for plan in found)


def test_features_narrow_a_run_and_datasets_without_texts_keep_their_own(study: Study) -> None:
    run = RunConfig.parse({"features": "bow", "datasets": "pokec_demo,synthetic-npz"})
    kinds = {(plan.cell.dataset, plan.cell.features) for plan in plans(study, run)}
    assert kinds == {("pokec_demo", "bow"), ("synthetic-npz", "raw")}
    default = RunConfig.parse({"datasets": "pokec_demo", "experiments": "table1"})
    assert {plan.cell.features for plan in plans(study, default)} == {"bert"}


def test_a_cell_keeps_its_draws_unless_its_view_is_another(study: Study) -> None:
    with_label, *_ = plans(study, RunConfig.parse({"experiments": "leak"}))
    own = with_label.cell.model_copy(update={"view": "protocol"})
    assert "view" not in own.identity() and with_label.cell.identity()["view"] == "with_label"
    assert own.cell_id.replace("/sound/", "/sound-with_label/") == with_label.cell.cell_id


OWN = {"nodes": "nodes.csv", "edges": "edges.csv", "text": ["title"], "label": "topic"}


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict:
    """A working folder without graphs of users, and what the configuration declares."""
    monkeypatch.chdir(tmp_path)
    found: dict = {}
    monkeypatch.setattr(registry, "DECLARED", found)
    monkeypatch.setattr(config, "DECLARED", found)
    return found


@pytest.mark.parametrize(
    "entries", [["cora", {"name": "my_graph", **OWN}], {"cora": {}, "my_graph": OWN}]
)
def test_an_entry_of_datasets_may_declare_a_graph(entries: object, declared: dict) -> None:
    raw = config.declare_graphs({"scale": "full", "datasets": entries})
    assert raw == {"scale": "full", "datasets": ["cora", "my_graph"]}
    assert RunConfig.parse(raw).datasets == ("cora", "my_graph")
    path = Path("data/own/my_graph.json")
    assert not path.exists(), "reading a configuration writes nothing"
    assert config.keep_declarations() == [] and path.exists()
    before = path.stat().st_mtime_ns
    assert config.keep_declarations() == []
    assert path.stat().st_mtime_ns == before, "an unchanged declaration is not written again"


def test_a_single_entry_needs_no_list_and_another_declaration_is_replaced_aloud(
    declared: dict,
) -> None:
    assert config.declare_graphs({"datasets": {"name": "my_graph", **OWN}}) == {
        "datasets": ["my_graph"]
    }
    config.keep_declarations()
    config.declare_graphs({"datasets": [{"name": "my_graph", **OWN, "seed": 3, "split": "part"}]})
    (line,) = config.keep_declarations()
    assert "my_graph is replaced: split, seed" in line and "still counts" in line


def test_a_users_graph_runs_with_its_declared_features_unless_others_are_asked_for(
    declared: dict, study: Study
) -> None:
    config.declare_graphs({"datasets": [{"name": "my_graph", **OWN, "features": "fasttext"}]})
    kinds = {
        asked: {
            plan.cell.features
            for plan in plans(study, RunConfig.parse({"datasets": "my_graph", "features": asked}))
        }
        for asked in ("all", "bow,fasttext")
    }
    assert kinds == {"all": {"fasttext"}, "bow,fasttext": {"bow", "fasttext"}}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"name": "my_graph", **OWN, "lable": "x"}, "datasets: lable: unknown key"),
        ({"name": "my_graph", "nodes": "nodes.csv"}, "datasets: edges: missing"),
        ({"name": "cora", **OWN, "split": "x"}, "'cora' is the name of a built-in dataset"),
        ({"name": "My Graph", **OWN}, "datasets: name: found 'My Graph'"),
    ],
)
def test_a_wrong_declaration_names_its_key(entry: dict, message: str, declared: dict) -> None:
    with pytest.raises(UsageError, match=message):
        config.declare_graphs({"datasets": [entry]})
    assert not Path("data").exists() and declared == {}


def test_a_mapping_that_is_neither_an_entry_nor_entries_says_how_to_write_it(
    declared: dict,
) -> None:
    with pytest.raises(UsageError, match="datasets: nodes: found 'nodes.csv'; expected a list"):
        config.declare_graphs({"datasets": {"nodes": "nodes.csv", "label": "topic"}})


def _study_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: object) -> None:
    raw = yaml.safe_load(config.resource("studies/lrec2022.yaml").read_text())
    change(raw)
    (tmp_path / "lrec2022.yaml").write_text(yaml.safe_dump(raw))
    monkeypatch.setattr(
        config, "resource", lambda name: tmp_path / Path(name).relative_to("studies")
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda raw: raw["scales"]["demo"]["training"].update(epoch=3),
            r"scales.demo.training.epoch: unknown key; did you mean 'epochs'",
        ),
        (
            lambda raw: raw["scales"]["demo"]["training"].update(delta=1.5),
            r"scales.demo.training.delta: found 1.5",
        ),
        (lambda raw: raw["scales"]["demo"].pop("seeds"), r"scales.demo.seeds: missing"),
        (
            lambda raw: raw["scales"]["demo"]["training"]["epochs"].pop("sgd"),
            r"training.epochs lacks sgd",
        ),
        (
            lambda raw: raw["scales"]["demo"].update(datasets=["synthetic-planetoit"]),
            r"did you mean 'synthetic-planetoid'",
        ),
        (
            lambda raw: raw["scales"]["demo"]["experiments"]["table1"]["grid"].append(
                {"splits": 1, "epsilons": [5]}
            ),
            r"two grid points have the same splits",
        ),
        (
            lambda raw: raw["scales"]["demo"]["experiments"]["A"].update(
                datasets=["synthetic-nps"]
            ),
            r"did you mean 'synthetic-npz'",
        ),
        (
            lambda raw: raw["scales"]["demo"]["experiments"].update(selection={"kind": "datasets"}),
            r"selection has a meaning of its own",
        ),
    ],
)
def test_mistakes_in_a_study_name_file_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: object, message: str
) -> None:
    _study_with(tmp_path, monkeypatch, change)
    with pytest.raises(UserError, match=message) as caught:
        load_study("lrec2022")
    assert "studies/lrec2022.yaml" in str(caught.value)


def test_unknown_study_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(UserError, match="did you mean 'lrec2022'"):
        load_study("lrec2021")


@pytest.mark.parametrize("name", list(config.SCHEMAS))
def test_schemas_are_in_step_with_the_models(root: Path, name: str) -> None:
    path = root / "workflow" / "schemas" / f"{name}.schema.json"
    assert path.read_text() == schema_text(name), "run: make schemas"


def test_shipped_files_fit_the_published_schemas(root: Path) -> None:
    for name, path in (("config", "config.yaml"), ("study", "studies/lrec2022.yaml")):
        schema = json.loads((root / "workflow" / "schemas" / f"{name}.schema.json").read_text())
        jsonschema.validate(yaml.safe_load((root / path).read_text()), schema)


def test_audits_cover_every_protocol_and_both_schedules_of_sound(study: Study) -> None:
    found = audit_plans(study, RunConfig())
    assert [each.name for each in found] == [
        "released_s1_e2", "released_s10_e2", "paper_s1_e2", "paper_s10_e2", "sound_s1_e2",
        "sound_s10_e2", "sound_poisson_s10_e2", "class_sums_text_e2", "dp_linear_text_e2",
        "dp_mlp_text_e2", "class_sums_graph_e2", "edge_votes_edges_e2",
    ]  # fmt: skip
    assert [read_audit_plan(each.model_dump_json()) for each in found] == found
    assert {each.seed for each in found} == {0}, "fixed in advance"
    narrow = RunConfig.parse({"protocols": "paper", "experiments": "audit"})
    assert [each.name for each in audit_plans(study, narrow)] == ["paper_s1_e2", "paper_s10_e2"]
    assert plans(study, narrow) == []
    assert audit_plans(study, RunConfig.parse({"experiments": "table1"})) == []
    assert (
        config.experiment_datasets(study, narrow, study.scales["demo"].experiments["audit"]) == []
    )
    full = audit_plans(study, RunConfig(scale="full"))
    assert len(full) == 24 and len({each.name for each in full}) == 24


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({"text": ["clas_sums"]}, "did you mean 'class_sums'"),
        ({"text": ["public_only"]}, "is no method of this setting that an audit attacks"),
        ({"edges": ["dp_mlp"]}, "expected edge_votes"),
    ],
)
def test_an_audit_of_a_method_without_a_canary_is_refused(methods: dict, words: str) -> None:
    fields = {"kind": "audit", "epsilons": [2], "splits": [1], "runs": 20, "methods": methods}
    with pytest.raises(ValidationError, match=words):
        config.AuditExperiment.model_validate(fields)
