"""What a run of the workflow consists of: jobs, the files that they are made of, refusals."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from private_graphs.datasets.registry import DECLARED
from private_graphs.errors import UsageError, UserError
from private_graphs.locks import release_stale_lock
from private_graphs.methods import data_view
from private_graphs.studies import exhibits_by_name
from private_graphs.workflow import (
    Workflow,
    either,
    embeds,
    make_workflow,
    model_receipts,
    reader_modules,
    receipt_file,
    refuse_repeated_keys,
    shown_alone,
    study_files,
    text_sources,
)

from .finished_jobs import leave_job

pytestmark = pytest.mark.usefixtures("hollow_results")

PLANETOID = "synthetic-planetoid"
OWN = {"name": "my_graph", "nodes": "nodes.csv", "edges": "edges.csv", "text": ["title"],
       "label": "topic"}  # fmt: skip


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder; graphs that a test declares are forgotten."""
    monkeypatch.chdir(tmp_path)
    before = dict(DECLARED)
    yield tmp_path
    DECLARED.clear()
    DECLARED.update(before)


def full(**raw: object) -> Workflow:
    """The workflow of a run at full scale."""
    return make_workflow({"scale": "full"} | raw)


def groups(work: Workflow) -> dict[str, int]:
    """Number of jobs by run group."""
    names = [job.group for job in work.jobs.values()]
    return {name: names.count(name) for name in dict.fromkeys(names)}


def test_the_shipped_demo_is_small_and_has_every_group() -> None:
    work = make_workflow({"studies": "lrec2022"})
    assert len(work.made_by(audits=False)) <= 125 and len(work.made_by(audits=True)) == 12
    assert set(groups(work)) >= {"table1", "table2", "leak", "A", "B", "C", "audit", "frontier"}
    assert {"synthetic-planetoid", "pokec_demo"} <= set(work.datasets)
    texts = [folder for folder in work.data_folders() if "/texts/" in folder]
    assert len(texts) == 4, "a view for each protocol, and one with the label"


def test_the_whole_grid_of_three_graphs_is_planned() -> None:
    asked = {"exhibits": "lrec2022.table1,lrec2022.figure1,lrec2022.figure2,lrec2022.figure3"}
    assert groups(full(**asked)) == {
        "table1": 3 * 12, "A": 3 * 60, "B": 3 * 24, "C": 3 * 36, "selection": 3 * 12,
    }  # fmt: skip
    assert groups(full(exhibits="lrec2022.table1")) == {"table1": 36}
    assert groups(full(exhibits="lrec2022.figure1", datasets="cora")) == {"A": 60}
    assert (
        groups(full(exhibits="lrec2022.table3")) == {}
        and full(exhibits="lrec2022.table3").datasets == ()
    )
    assert full(exhibits="lrec2022.table5").datasets == ("citeseer", "cora", "pubmed")


def test_the_job_of_a_choice_comes_along_and_is_an_input() -> None:
    work = make_workflow({"exhibits": "lrec2022.figure2", "protocols": "paper"})
    choosing = {job.chosen.job.id for job in work.jobs.values() if job.chosen}
    assert choosing and choosing <= set(work.jobs)
    for job in work.jobs.values():
        expected = [f"results/demo/jobs/{job.chosen.job.id}/manifest.json"] if job.chosen else []
        assert work.choice(job.id) == expected
        assert work.needs(job.id) == []


def test_a_job_names_its_dataset_its_module_and_its_noise() -> None:
    work = make_workflow(
        {"exhibits": "lrec2022.table2,lrec2022.frontier", "protocols": "released,sound"}
    )
    for job in work.made_by(audits=False):
        manifest = work.dataset(job.id)
        if job.dataset == "pokec_demo":
            assert manifest == (
                f"data/processed/pokec_demo/{job.features}/{data_view(job).name}/manifest.json"
            )
        else:
            assert manifest == f"data/processed/{job.dataset}/manifest.json"
        (module,) = work.modules(job.id)
        assert module.startswith("private_graphs.methods.")
        assert work.noise_source(job.id) == "seeded"
        assert work.megabytes(job.id) >= 4000 and work.minutes(job.id) >= 5
    with pytest.raises(UserError, match="no job elsewhere"):
        work.job("elsewhere")


def test_raw_files_are_those_of_the_datasets_and_of_downloaded_models() -> None:
    demo = make_workflow({"exhibits": "lrec2022.table2"})
    assert demo.receipted() == ["pokec_demo"], "its models are embedded"
    pokec = full(exhibits="lrec2022.table2", features="bert", protocols="sound")
    (model,) = model_receipts("pokec", "bert")
    assert [receipt_file(name) for name in pokec.receipted()] == sorted(
        [receipt_file("pokec"), model]
    )
    assert text_sources("pokec") == ["data/raw/receipts/pokec.json"]
    assert embeds("pokec", "bert") and not embeds("pokec_demo", "bert")
    assert pokec.data_folders() == [
        "data/processed/pokec/texts/sound", "data/processed/pokec/bert/sound",
    ]  # fmt: skip
    assert shown_alone("cora", (), ("released", "sound")) == ["cora"]
    assert shown_alone("pokec", ("fasttext",), ("released",)) == ["pokec/fasttext/sound"]
    views = ["fb100/raw/released", "fb100/raw/sound"]
    assert shown_alone("fb100", (), ("released", "sound")) == views


def test_sizes_are_shown_of_one_build_of_texts() -> None:
    work = make_workflow({"exhibits": "lrec2022.table2,lrec2022.table1"})
    assert len(work.builds["pokec_demo"]) == 9
    shown = [build for build in work.shown_builds() if build.startswith("pokec_demo")]
    assert len(shown) == 1 and shown[0].endswith("/sound")
    assert PLANETOID in work.shown_builds()


def test_finished_seeds_stay_and_jobs_that_follow_a_choice_take_part() -> None:
    first = make_workflow({"exhibits": "lrec2022.figure2", "protocols": "paper", "seeds": 5})
    for job in first.jobs.values():
        leave_job(first.folder, job)
    again = make_workflow({"exhibits": "lrec2022.figure2", "protocols": "paper", "seeds": 2})
    assert again.jobs == first.jobs and not again.following
    other = make_workflow({"exhibits": "lrec2022.table1", "protocols": "paper"})
    followed = {name for name, job in first.jobs.items() if job.chosen}
    chosen_there = {name for name in followed if first.jobs[name].chosen.job.id in other.jobs}
    assert other.following == chosen_there
    for name in other.following:
        assert other.jobs[name].seeds == (0, 1, 2, 3, 4)


def test_a_users_graph_is_private_and_read_from_its_tables(place: Path) -> None:
    for name, lines in {"nodes.csv": 40, "edges.csv": 30}.items():
        (place / name).write_text("a,b,c\n" * lines)
    work = make_workflow(
        {"datasets": [OWN], "exhibits": "lrec2022.table1,lrec2022.table5", "splits": 1}
    )
    assert {job.dataset for job in work.jobs.values()} == {"my_graph"} == set(work.datasets)
    assert work.receipted() == [] and text_sources("my_graph") == ["nodes.csv", "edges.csv"]
    assert {work.noise_source(name) for name in work.jobs} == {"os_entropy"}
    assert not (place / "data").exists(), "a plan writes nothing"
    (place / "nodes.csv").unlink()
    with pytest.raises(UserError, match=r"nodes\.csv: no such file; the graph my_graph"):
        make_workflow({"datasets": [OWN], "exhibits": "lrec2022.table1"})


def test_more_splits_than_training_nodes_are_refused(place: Path) -> None:
    (place / "edges.csv").write_text("a,b\n")
    (place / "nodes.csv").write_text("a,b,c\n" * 6)
    with pytest.raises(UserError, match="10 splits asked of the about 4 training nodes of my_gr"):
        make_workflow({"datasets": [OWN], "exhibits": "lrec2022.table1", "splits": 10})


def test_names_of_files() -> None:
    work = make_workflow({"exhibits": "lrec2022.table1"})
    files = study_files(work.plan.studies)
    yamls = [Path(file).parent.name for file in files if Path(file).name == "study.yaml"]
    assert yamls == [*work.plan.studies] and "lrec2022" in yamls
    assert {path.name for path in map(Path, files)} >= {"study.yaml", "table1.csv"}
    assert all(Path(file).is_file() for file in files)
    assert re.fullmatch(either(["a+b", "c"]), "a+b") and not re.match(either([]), "")
    exhibit = exhibits_by_name("lrec2022")["table1"]
    assert exhibit.reads("lrec2022") == [("lrec2022", "table1")]
    foreign = dataclasses.replace(exhibit, groups=("table1", "another.B"))
    assert foreign.reads("lrec2022") == [("lrec2022", "table1"), ("another", "B")]
    (module,) = reader_modules("digits")
    assert module == "private_graphs.datasets.readers.digits"
    assert reader_modules("cora/x") and not reader_modules("somebody_s_own")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config", "datasets=cora", "datasets=pubmed"], "datasets=cora,pubmed"),
        (["all", "-C", "seeds=1", "scale=full", "seeds=2", "--cores", "1"], "seeds is given twice"),
        (
            ["--config", "datasets=cora", "--cores", "1", "--config", "seeds=2"],
            "after one --config",
        ),
        (["--config=datasets=cora", "-C", "seeds=2"], "after one --config"),
        (["--config", "seeds=2", "datasets=a", "seeds=2", "-j1"], None),
        (["--config", "seeds=2", "--set-threads", "run=2", "seeds=4"], None),
        (["--set-resources", "run:a=1", "run:a=2", "--config", "seeds=2"], None),
    ],
)
def test_a_key_that_is_given_two_values_is_named_before_one_is_dropped(arguments, words):
    if words is None:
        refuse_repeated_keys(arguments)
        return
    with pytest.raises(UsageError, match=words):
        refuse_repeated_keys(arguments)


def test_only_a_lock_of_this_machine_is_taken_for_stale(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    release_stale_lock()
    assert capsys.readouterr().err == "" and Path(".snakemake/private-graphs.host").is_file()
    lock = Path(".snakemake/locks/0.input.lock")
    lock.parent.mkdir()
    lock.touch()
    host = Path(".snakemake/private-graphs.host")
    here = host.read_text()
    host.write_text("another-login-node\n")
    release_stale_lock()
    assert re.search("another-login-node.* snakemake --unlock", capsys.readouterr().err, re.DOTALL)
    assert lock.exists() and host.read_text() == "another-login-node\n"
    host.write_text(here)
    release_stale_lock()
    assert not lock.exists() and "removed its lock" in capsys.readouterr().err
