"""Study files and runs: what is accepted, what is refused by name, which jobs follow."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import jsonschema
import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

from private_graphs.core.errors import UsageError, UserError
from private_graphs.datasets import declared as declarations
from private_graphs.datasets import registry
from private_graphs.methods import all_methods, method_named
from private_graphs.running.jobs import Epsilon, Job
from private_graphs.running.plan import Plan
from private_graphs.running.study import (
    SCALES,
    SELECTION,
    Run,
    Study,
    group_jobs,
    left_out,
    load_study,
    read_study,
    schema_text,
    study_ids,
)


def run_of(**raw: object) -> Run:
    return Run.parse(raw)


def jobs(**raw: object) -> list[Job]:
    """All jobs of a run."""
    return Plan(run_of(**raw)).jobs


def of_group(group: str, **raw: object) -> list[Job]:
    """Jobs of one run group of the LREC study."""
    run = run_of(**raw)
    return group_jobs(load_study("lrec2022", run.scale), group, run)


def axes(found: list[Job], *names: str) -> list[tuple]:
    """Values of settings, or of fields, of each job."""

    def value(job: Job, name: str):
        full = method_named(job.method).settings.model_validate(job.settings).model_dump()
        return full[name] if name in full else getattr(job, name)

    return [tuple(value(job, name) for name in names) for job in found]


# --- what people write -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", ["cora,pubmed", "[cora,pubmed]", " [cora, pubmed] ", ["cora", "pubmed"]]
)
def test_lists_are_read_in_every_form(given: object) -> None:
    assert run_of(datasets=given).datasets == ("cora", "pubmed")


@pytest.mark.parametrize("key", ["studies", "datasets", "exhibits", "protocols", "seeds", "splits"])
@pytest.mark.parametrize("nothing", ["all", None])
def test_all_means_what_the_study_says(key: str, nothing: object) -> None:
    assert getattr(run_of(**{key: nothing}), key) is None


@pytest.mark.parametrize("given", [20210101, "20210101", 10_001, 10**30])
def test_so_many_seeds_are_one_seed_without_its_brackets(given: object) -> None:
    with pytest.raises(UsageError, match=rf"that would be .* seeds=\[{given}\]"):
        run_of(seeds=given)
    if int(given) < 2**62:
        assert run_of(seeds=f"[{given}]").seeds == run_of(seeds=f"{given},").seeds == (int(given),)


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        (2, (0, 1)), ("2", (0, 1)), ("0,3,7", (0, 3, 7)), ("[0,3]", (0, 3)), ([4], (4,)),
        ("[4]", (4,)), ("4,", (4,)),
    ],
)  # fmt: skip
def test_seeds_are_a_number_or_a_list(given: object, seeds: tuple[int, ...]) -> None:
    assert run_of(seeds=given).seeds == seeds


@pytest.mark.parametrize("given", [0, -1, "-1,2", "many", 1.5, True, "", ","])
def test_seeds_that_are_no_seeds_are_refused(given: object) -> None:
    with pytest.raises(UsageError, match="seeds"):
        run_of(seeds=given)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"dataset": "cora"}, "'dataset'.*'datasets'"), ({"scale": "ful"}, "scale.*'ful'.*'full'"),
        ({"studies": "lrec2021"}, "studies.*'lrec2021'.*'lrec2022'"),
        ({"datasets": "coral"}, "datasets.*'coral'.*'cora'"),
        ({"experiments": "table1"}, "experiments.*exhibits"), ({"splits": "0"}, "splits"),
        ({"splits": "1,"}, "splits"), ({"mirror": "no/such/folder"}, "mirror.*'no/such/folder'"),
    ],
)  # fmt: skip
def test_unknown_keys_and_values_are_named_with_the_nearest_name(raw: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run_of(**raw)


def test_the_shipped_configuration_is_the_default_one_and_fits_its_schema(root: Path) -> None:
    raw = yaml.safe_load((root / "config.yaml").read_text())
    assert Run.parse(raw) == Run()
    jsonschema.validate(raw, json.loads(schema_text("config")))


@pytest.mark.parametrize("name", study_ids())
def test_shipped_studies_fit_their_schema(root: Path, name: str) -> None:
    raw = yaml.safe_load((root / "src/private_graphs/studies" / name / "study.yaml").read_text())
    jsonschema.validate(raw, json.loads(schema_text("study")))


@pytest.mark.parametrize("written", ["1e400", "1" + 400 * "0", "+1E999"])
def test_a_budget_that_overflows_is_no_run_without_dp(written: str) -> None:
    assert TypeAdapter(Epsilon).validate_python("inf") == math.inf
    with pytest.raises(ValidationError, match="too large for a number"):
        TypeAdapter(Epsilon).validate_python(written)


# --- study files -----------------------------------------------------------------------------

SMALL = """
id: small
title: A small study
citation: nobody
url: https://example.org
datasets: [cora, citeseer]
seeds: 4
delta: 1.0e-5
exhibits: [table1]
configurations:
  adam: {method: gcn, settings: {optimizer: adam, epochs: 500}, choose: {learning_rate: [0.1, 1]}}
  plain: {method: gcn, protocols: [paper, sound]}
groups:
  first:
    jobs: [{use: [adam], vary: {splits: [1, 10]}, epsilons: [.inf, 2]}]
  second:
    datasets: [pubmed]
    jobs:
      - {use: [plain], epsilons: [1], seeds: 2}
      - {methods: [class_sums], scenario: graph, epsilons: [1], validation_labels: [5, 0],
         validation_epsilons: [2]}
scales:
  demo:
    datasets: [synthetic-planetoid]
    seeds: 2
    configurations: {adam: {settings: {epochs: 3}}}
    groups:
      second: null
"""


@pytest.fixture
def small(tmp_path: Path):
    """Read the small study at a scale, with changes made to its file."""
    number = iter(range(100))

    def read(scale: str = "full", change=lambda raw: None) -> Study:
        raw = yaml.safe_load(SMALL)
        change(raw)
        path = tmp_path / str(next(number)) / "small" / "study.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(yaml.safe_dump(raw))
        return read_study(path, scale)

    return read


def test_a_scale_changes_what_it_names_and_leaves_the_rest(small) -> None:
    full, demo = small(), small("demo")
    assert (full.datasets, demo.datasets) == (("cora", "citeseer"), ("synthetic-planetoid",))
    assert (full.seeds, demo.seeds) == (4, 2)
    adam = demo.configurations["adam"]
    assert adam.settings == {"optimizer": "adam", "epochs": 3}
    assert adam.choose == full.configurations["adam"].choose
    assert list(full.groups) == ["first", "second"] and list(demo.groups) == ["first"]
    assert full.delta == demo.delta and full.title == demo.title


def test_a_group_expands_to_every_combination(small) -> None:
    study = small()
    first = group_jobs(study, "first", Run(scale="full"))
    wanted = Counter(
        (dataset, protocol, splits)
        for dataset in ("cora", "citeseer")
        for protocol in ("released", "paper", "sound")
        for splits in (1, 10)
    )
    assert Counter(axes(first, "dataset", "protocol", "splits")) == wanted
    assert len({job.id for job in first}) == len(first)
    for job in first:
        assert job.seeds == (0, 1, 2, 3) and job.epsilons == (math.inf, 2)
        assert job.choose == {"learning_rate": (0.1, 1)} and job.n_replicas == 4 * (1 + 2)
    assert first[0].id == (
        "small/first/cora/raw/gcn/nodes/released/optimizer=adam,splits=1,train_fraction=1"
    )
    second = group_jobs(study, "second", Run(scale="full"))
    assert axes(second, "dataset", "method", "scenario", "protocol", "seeds") == [
        ("pubmed", "gcn", "nodes", "paper", (0, 1)), ("pubmed", "gcn", "nodes", "sound", (0, 1)),
        ("pubmed", "class_sums", "graph", "sound", (0, 1, 2, 3)),
    ]  # fmt: skip
    assert second[-1].n_replicas == 4 * (1 + 2) and not second[-1].choose


def test_a_job_is_plain_data_and_keeps_its_budgets(small) -> None:
    for job in group_jobs(small(), "first", Run(scale="full")):
        assert Job.model_validate_json(job.model_dump_json()) == job


@pytest.mark.parametrize(
    "changes", [{"epsilons": ()}, {"seeds": ()}, {"seeds": (1, 1)}, {"epsilons": (1, 1)},
                {"choose": {"learning_rate": (1, 1)}}, {"epsilons": (-1,)},
                {"metis_parts": 9, "test_share": 0.2},
                {"metis_parts": 9, "leaks": {"attack": "membership", "shadows": 4}}],
)  # fmt: skip
def test_a_job_without_runs_or_with_repeated_ones_is_refused(changes: dict) -> None:
    fields = {"study": "s", "group": "g", "name": "n", "dataset": "d", "method": "m"}
    fields |= {"scenario": "text", "epsilons": (1,)}
    Job(**fields)
    with pytest.raises(ValidationError):
        Job(**fields | changes)


def change_entry(**changes):
    return lambda raw: raw["groups"]["first"]["jobs"][0].update(changes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw.update(dleta=1), "dleta.*'delta'"),
        (lambda raw: raw.pop("seeds"), "seeds"),
        (lambda raw: raw.update(id="other"), "'other'.*'small'"),
        (lambda raw: raw.update(datasets=["coral"]), "'coral'.*'cora'"),
        (lambda raw: raw["groups"].update(selection=raw["groups"]["first"]), "selection"),
        (lambda raw: raw["scales"]["demo"].update(epoch=3), "epoch"),
        (change_entry(use=["adma"]), "groups.first.*'adma'.*'adam'"),
        (change_entry(methods=["gcn"]), "use or methods"),
        (change_entry(scenario="graph"), "groups.first.*scenario of gcn.*'graph'"),
        (change_entry(use=None, methods=["class_sums"], protocols=["paper"]), "class_sums.*paper"),
        (change_entry(vary={"split": [1]}), "groups.first.*split"),
        (change_entry(vary={"splits": [0]}), "groups.first.*splits.*0"),
        (change_entry(epsilons=[-1]), "epsilons.*-1"),
        (change_entry(needs={"teacher": "thirst"}), "'thirst'.*'first'"),
    ],
)
def test_mistakes_in_a_study_name_file_and_key(small, change, words: str) -> None:
    with pytest.raises(UserError, match=f"(?s){words}") as caught:
        small("demo" if "epoch" in words else "full", change)
    assert "studies/small/study.yaml" in str(caught.value)


def test_a_job_needs_the_job_of_another_group_with_its_place(small) -> None:
    def change(raw):
        raw["groups"]["third"] = {
            "jobs": [{"use": ["plain"], "epsilons": [1], "needs": {"teacher": "base"}}]
        }
        raw["groups"]["base"] = {"jobs": [{"use": ["plain"], "epsilons": [2]}]}

    study = small("full", change)
    for job in group_jobs(study, "third", Run(scale="full")):
        (needed,) = [
            other for other in group_jobs(study, "base", Run(scale="full"))
            if (other.dataset, other.protocol) == (job.dataset, job.protocol)
        ]  # fmt: skip
        assert job.needs == {"teacher": needed.id}

    def twice(raw):
        change(raw)
        raw["groups"]["base"]["jobs"][0]["vary"] = {"splits": [1, 2]}

    with pytest.raises(UserError, match="third.*base"):
        group_jobs(small("full", twice), "third", Run(scale="full"))


# --- the LREC study --------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
def test_no_job_is_planned_twice_and_choices_come_first(scale: str) -> None:
    exhibits = "table1,table2,leak,figure1,figure2,figure3,figure4,audit"
    found = jobs(scale=scale, studies="lrec2022", exhibits=exhibits)
    places = {job.id: place for place, job in enumerate(found)}
    assert len(places) == len(found)
    for job in found:
        method = all_methods()[job.method]
        method.settings.model_validate(job.settings)
        assert job.scenario in method.scenarios and job.protocol in method.protocols
        if job.chosen is not None:
            assert places[job.chosen.job.id] < places[job.id]
            assert found[places[job.chosen.job.id]] == job.chosen.job


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"exhibits": "table9"}, "exhibits.*'table9'.*table"),
        ({"exhibits": "lrec2022.tabel1"}, "exhibits.*tabel1.*did you mean 'table1'"),
        ({"exhibits": "pat.table3_1"}, "'pat'.*did you mean 'pate.table3_1'"),
        ({"exhibits": "pate.tabel3_1"}, "of pate; expected figure3_3.*'table3_1'"),
        ({"scale": "full", "exhibits": "table3_1"}, "studies=pate"),
        ({"studies": "pate", "datasets": "mnist"}, "datasets: .*mnist.*'mnist-students'"),
        ({"studies": "inversion", "protocols": "released"}, "released; expected paper"),
        (
            {"exhibits": "lrec2022.table2", "datasets": "synthetic-npz"},
            "datasets: lrec2022.table2 has no run of synthetic-npz; expected",
        ),
        ({"exhibits": "lrec2022.figure1", "splits": "4,10"}, "lrec2022.figure1"),
        ({"splits": "1,7"}, "no run has 7; expected some of 1, 10"),
        (
            {"scale": "full", "features": "sbert"},
            "features: no run has sbert; expected some of raw",
        ),
        (
            {"exhibits": "lrec2022.table1", "epsilons": "2,3"},
            "epsilons: no run has 3; expected some of inf, 1, 2",
        ),
        ({"exhibits": "lrec2022.table1", "methods": "gcn,gap"}, "methods: no run has gap"),
        ({"methods": "gnc"}, "methods: unknown name 'gnc'.*'gcn'"),
        ({"exhibits": "lrec2022.audit", "seeds": 3}, "seeds: no run has seeds"),
        ({"exhibits": "lrec2022.table3", "datasets": "cora"}, "no run has cora; leave it out"),
        (
            {
                "scale": "full",
                "exhibits": "lrec2022.frontier",
                "datasets": "cora,cora-ml",
                "methods": "word_sums",
            },
            "datasets: no run has cora-ml; expected some of cora, citeseer, pubmed$",
        ),
        (
            {"scale": "full", "studies": "lrec2022,pate", "datasets": "cora"},
            "studies: pate has no run",
        ),
        (
            {"scale": "full", "exhibits": "lrec2022.table1", "datasets": "mnist"},
            "lrec2022.table1 has no run of mnist; expected cora",
        ),
    ],
)
def test_an_exhibit_that_is_not_there_or_has_no_run_is_named(raw: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        jobs(**raw)


def test_a_dataset_that_a_study_does_not_list_is_left_out_with_a_line(small) -> None:
    run = run_of(datasets="cora,reddit")
    (line,) = left_out(small(), run)
    assert "small" in line and "reddit" in line
    assert {job.dataset for job in group_jobs(small(), "first", run)} == {"cora"}
    assert left_out(load_study("lrec2022"), run) == [], "others may be listed as further ones"
    assert Plan(run_of(datasets="cora", scale="full")).left_out == []
    (line,) = Plan(run_of(datasets="cora", studies="lrec2022")).left_out
    assert "lrec2022.table2" in line and "table1" not in line, "Pokec's tables have no run"


def test_budgets_and_methods_narrow_a_run_and_what_it_needs_stays_complete() -> None:
    asked = {"scale": "full", "exhibits": "lrec2022.table1,lrec2022.figure2", "datasets": "cora"}
    found = {job.id: job for job in jobs(**asked, epsilons="inf,5", protocols="paper")}
    every = {job.id: job for job in jobs(**asked, protocols="paper")}
    assert found.keys() <= every.keys()
    choosing = {job.chosen.job.id for job in found.values() if job.chosen}
    assert choosing, "Adam's learning rate is chosen at another budget"
    for name, job in found.items():
        if name in choosing:
            assert job == every[name] and 2 in job.epsilons
        else:
            assert set(job.epsilons) == {*every[name].epsilons} & {math.inf, 5}
    only = jobs(exhibits="lrec2022.frontier", methods="class_sums", epsilons="1")
    assert {job.method for job in only} == {"class_sums"}
    assert {each for job in only for each in (*job.epsilons, *job.validation_epsilons)} == {1}


def test_what_no_study_of_a_run_lists_is_taken_by_each_that_reads_its_kind() -> None:
    campus = {"scale": "full", "datasets": "facebook-yale4"}
    assert {job.study for job in jobs(**campus, studies="progap,dpappr")} == {"progap", "dpappr"}
    assert {job.group for job in jobs(**campus, exhibits="lrec2022.table1")} == {"table1"}
    mixed = jobs(scale="full", studies="lrec2022,progap", datasets="cora,facebook-cornell5")
    places = {(job.study, job.dataset) for job in mixed}
    assert ("progap", "cora") not in places, "lrec2022 lists it"
    assert {("lrec2022", "cora"), ("progap", "facebook-cornell5")} <= places
    with pytest.raises(UsageError, match="datasets: unknown name 'facebook-yale5'"):
        jobs(datasets="facebook-yale5")


def test_a_group_that_stands_in_for_another_one_shares_no_dataset_with_it() -> None:
    found = jobs(scale="full", exhibits="lrec2022.all_graphs", datasets="cora,cora-ml")
    places = {(job.group, job.dataset) for job in found if job.study == "lrec2022"}
    assert ("frontier", "cora") in places and ("other_citations", "cora-ml") in places
    assert (
        not {("frontier", "cora-ml"), ("other_citations", "cora"), ("all_edges", "cora")} & places
    )


def test_other_graphs_than_the_studys_own_are_attacked_where_exhibits_are_named() -> None:
    alone = jobs(scale="full", datasets="reddit")
    assert alone and not any(job.leaks for job in alone)
    named = jobs(scale="full", datasets="reddit", exhibits="lrec2022.what_leaks")
    assert any(job.leaks for job in named)
    assert any(job.leaks for job in jobs(scale="full", datasets="cora"))


def test_one_private_learning_rate_per_graph_protocol_and_splits_is_chosen_at_epsilon_2() -> None:
    found = jobs(
        scale="full", exhibits="lrec2022.figure2,lrec2022.figure3", datasets="cora", seeds=2
    )
    by_id = {job.id: job for job in found}
    for job, (optimizer,) in zip(found, axes(found, "optimizer"), strict=True):
        if job.group in ("table1", SELECTION) or optimizer == "sgd":
            assert job.chosen is None
            continue
        assert job.chosen.epsilon == 2
        searched = by_id[job.chosen.job.id]
        same = ("dataset", "features", "protocol", "optimizer", "splits", "epochs", "seeds")
        assert axes([searched], *same) == axes([job], *same)
        assert 2 in searched.epsilons and axes([searched], "train_fraction") == [(1,)]
        assert searched.choose == job.choose and searched.seeds == (0, 1)
        assert job.n_replicas == len(job.seeds) * len(job.epsilons)
        assert all(job.candidates(epsilon) == [{}] for epsilon in job.epsilons)


# --- audits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["public_only"])
def test_an_audit_of_a_method_without_a_canary_is_refused(small, method: str) -> None:
    def change(raw):
        raw["groups"]["second"] = {
            "attack": {"runs": 20}, "jobs": [{"methods": [method], "epsilons": [2]}]
        }  # fmt: skip

    with pytest.raises(UserError, match=method):
        small("full", change)


# --- graphs of users -------------------------------------------------------------------------

OWN = {"nodes": "nodes.csv", "edges": "edges.csv", "text": ["title"], "label": "topic"}


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict:
    """A working folder without graphs of users, and what the configuration declares."""
    monkeypatch.chdir(tmp_path)
    found: dict = {}
    monkeypatch.setattr(registry, "DECLARED", found)
    monkeypatch.setattr(declarations, "DECLARED", found)
    return found


@pytest.mark.parametrize(
    "entries", [["cora", {"name": "my_graph", **OWN}], {"cora": {}, "my_graph": OWN}]
)
def test_an_entry_of_datasets_may_declare_a_graph(entries: object, declared: dict) -> None:
    raw = declarations.declare_graphs({"scale": "full", "datasets": entries})
    assert raw == {"scale": "full", "datasets": ["cora", "my_graph"]}
    assert Run.parse(raw).datasets == ("cora", "my_graph")
    path = Path("data/own/my_graph.json")
    assert not path.exists(), "reading a configuration writes nothing"
    assert declarations.keep_declarations() == [] and path.exists()
    before = path.stat().st_mtime_ns
    assert declarations.keep_declarations() == []
    assert path.stat().st_mtime_ns == before, "an unchanged declaration is not written again"


def test_a_users_graph_runs_with_its_declared_features_unless_others_are_asked_for(
    declared: dict,
) -> None:
    declarations.declare_graphs({"datasets": [{"name": "my_graph", **OWN, "features": "fasttext"}]})
    kinds = {
        asked: {job.features for job in of_group("table1", datasets="my_graph", features=asked)}
        for asked in ("all", "bow,fasttext")
    }
    assert kinds == {"all": {"fasttext"}, "bow,fasttext": {"bow", "fasttext"}}


def test_metis_never_cuts_a_users_graph_and_no_attack_is_made_on_it(declared: dict) -> None:
    declarations.declare_graphs({"datasets": [{"name": "my_graph", **OWN}]})
    for study, mine, others in (("dpappr", "appr_edges", "appr_metis"),
                                ("lrec2022", "table1", "leaks_without_dp")):  # fmt: skip
        run = Run(scale="full", datasets=("my_graph", "cora-ml" if study == "dpappr" else "cora"))
        jobs = {group: {job.dataset for job in group_jobs(load_study(study, "full"), group, run)}
                for group in (mine, others)}  # fmt: skip
        assert jobs == {mine: set(run.datasets), others: {run.datasets[1]}}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"name": "my_graph", **OWN, "lable": "x"}, "datasets: lable"),
        ({"name": "My Graph", **OWN}, "datasets: name.*'My Graph'"),
        ("nodes.csv", "datasets: nodes.*'nodes.csv'"),
    ],
)
def test_a_wrong_declaration_names_its_key(entry: object, words: str, declared: dict) -> None:
    entries = [entry] if isinstance(entry, dict) else {"nodes": entry, "label": "topic"}
    with pytest.raises(UsageError, match=words):
        declarations.declare_graphs({"datasets": entries})
    assert not Path("data").exists() and declared == {}
