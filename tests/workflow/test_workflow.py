"""What a run of the workflow consists of: jobs, the files that they are made of, refusals."""

from __future__ import annotations

import dataclasses
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
from small_graphs import four_nodes

from private_graphs.core.errors import UsageError, UserError
from private_graphs.core.files import write_json
from private_graphs.core.imports import PACKAGE
from private_graphs.core.manifest import MANIFEST
from private_graphs.datasets.graph_files import keep_graph
from private_graphs.datasets.registry import DECLARED
from private_graphs.running.catalog import exhibits_by_name
from private_graphs.running.jobs import Job
from private_graphs.running.views import data_view
from private_graphs.workflow.locks import FolderLock
from private_graphs.workflow.rules import (
    Workflow,
    either,
    embeds,
    exhibit_modules,
    make_workflow,
    model_receipts,
    raw_state,
    reader_modules,
    receipt_file,
    refuse_other_checkout,
    refuse_repeated_keys,
    shown_alone,
    study_files,
    text_sources,
)

from .finished_jobs import leave_job

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
    audits = [job for job in work.jobs.values() if job.attack]
    assert len(work.jobs) - len(audits) <= 200 and len(audits) == 11
    assert len(work.batches) <= 32
    assert set(groups(work)) >= {"table1", "table2", "leak", "A", "B", "C", "audit", "frontier"}
    assert {"synthetic-planetoid", "pokec_demo"} <= set(work.datasets)


def read_by(job: Job) -> list[str]:
    """Jobs whose files a job reads."""
    return [*([job.chosen.job.id] if job.chosen else []), *job.needs.values()]


def test_every_job_is_in_one_batch_after_those_that_it_needs() -> None:
    for asked in ({}, {"scale": "full", "exhibits": "lrec2022.figure2", "batch_minutes": 30}):
        work = make_workflow(asked)
        batches = [*work.batches.values()]
        assert sorted(job.id for batch in batches for job in batch.jobs) == sorted(work.jobs)
        place = {job.id: batch.name for batch in batches for job in batch.jobs}
        for batch in batches:
            assert "," not in batch.name
            assert (
                len({(job.study, job.group, job.dataset, job.features) for job in batch.jobs}) == 1
            )
            needed = {place[other] for job in batch.jobs for other in read_by(job)}
            assert batch.name not in needed
            assert work.inputs(batch.name)["needs"] == [*map(work.marker, dict.fromkeys(
                place[other] for job in batch.jobs for other in read_by(job)))]  # fmt: skip
            seconds = [work.costs.seconds(job) for job in batch.jobs]
            assert len(seconds) == 1 or sum(seconds) <= 60 * work.run.batch_minutes
    assert any(job.chosen for job in work.jobs.values())


def test_the_cut_into_batches_is_that_of_the_plan_and_not_of_what_has_finished() -> None:
    asked = {"exhibits": "lrec2022.figure2", "protocols": "paper", "batch_minutes": 0.05}
    first = make_workflow(asked)
    assert len(first.batches) > len(make_workflow(asked | {"batch_minutes": 60}).batches)
    for job in first.jobs.values():
        leave_job(first.folder, job)
    assert make_workflow(asked).batches == first.batches


def test_a_batch_of_which_a_job_is_gone_is_open_again() -> None:
    work = make_workflow({"exhibits": "lrec2022.table1", "protocols": "paper"})
    for job in work.jobs.values():
        leave_job(work.folder, job)
    for marker in work.markers():
        write_json(marker, {})
    work.reopen()
    assert all(Path(marker).is_file() for marker in work.markers())
    (work.folder / job.id / MANIFEST).unlink()
    work.reopen()
    assert [marker for marker in work.markers() if not Path(marker).is_file()]


def test_a_batch_names_its_datasets_its_modules_and_its_noise() -> None:
    work = make_workflow(
        {"exhibits": "lrec2022.table2,lrec2022.frontier", "protocols": "released,sound"}
    )
    for batch in work.batches.values():
        built = dict(each.split(" ") for each in work.built(batch.name))
        for job in batch.jobs:
            view = f"/{job.features}/{data_view(job).name}" if job.dataset == "pokec_demo" else ""
            assert built[job.id] == f"data/processed/{job.dataset}{view}"
        assert work.inputs(batch.name)["datasets"] == list(
            dict.fromkeys(f"{folder}/manifest.json" for folder in built.values())
        )
        modules = work.modules(batch.name)
        assert modules and all(each.startswith("private_graphs.") for each in modules)
        assert work.noise_source(batch.name) == "seeded"
        assert 600 <= work.megabytes(batch.name) <= 900 and work.minutes(batch.name) >= 5
        assert ", lrec2022: " in work.title(batch.name)
    with pytest.raises(UserError, match="no batch elsewhere"):
        work.batch("elsewhere")


def test_raw_files_are_those_of_the_datasets_and_of_downloaded_models() -> None:
    demo = make_workflow({"exhibits": "lrec2022.table2"})
    assert demo.wanted_receipts() == [receipt_file("pokec_demo")], "its models are embedded"
    write_json(receipt_file("pokec_demo"), {})
    assert demo.wanted_receipts() == []
    pokec = full(exhibits="lrec2022.table2", features="bert", protocols="sound")
    (model,) = model_receipts("pokec", "bert")
    assert pokec.wanted_receipts() == sorted([receipt_file("pokec"), model])
    assert text_sources("pokec") == ["data/raw/receipts/pokec.json"]
    assert embeds("pokec", "bert") and not embeds("pokec_demo", "bert")
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
    assert work.wanted_receipts() == [] and text_sources("my_graph") == ["nodes.csv", "edges.csv"]
    assert {work.noise_source(name) for name in work.batches} == {"os_entropy"}
    assert not (place / "data").exists(), "a plan writes nothing"
    (place / "nodes.csv").unlink()
    with pytest.raises(UserError, match=r"nodes\.csv: no such file; the graph my_graph"):
        make_workflow({"datasets": [OWN], "exhibits": "lrec2022.table1"})


def test_more_splits_than_training_nodes_are_refused(place: Path) -> None:
    (place / "edges.csv").write_text("a,b\n")
    (place / "nodes.csv").write_text("a,b,c\n" * 6)
    with pytest.raises(UserError, match="10 splits asked of the about 4 training nodes of my_gr"):
        make_workflow({"datasets": [OWN], "exhibits": "lrec2022.table1", "splits": 10})


def test_exhibits_of_a_run_are_those_with_a_job_and_what_earlier_runs_made() -> None:
    asked = {"exhibits": "lrec2022.table1", "protocols": "paper", "datasets": PLANETOID}
    work = make_workflow(asked)
    assert work.shown_exhibits() == [("lrec2022", "table1")]
    figure2 = make_workflow(asked | {"exhibits": "lrec2022.figure2"})
    for job in (job for job in figure2.jobs.values() if job.id not in work.jobs):
        leave_job(work.folder, job)
    for name in ("figure2", "table5"):
        write_json(work.results / "exhibits" / "lrec2022" / f"{name}.md", {})
    later = make_workflow(asked)
    shown = later.shown_exhibits()
    assert set(shown) == {("lrec2022", name) for name in ("table1", "figure2", "table5")}
    gone = dataclasses.replace(later, jobs=work.jobs, finished={})
    assert set(gone.shown_exhibits()) == {("lrec2022", name) for name in ("table1", "table5")}
    assert "private_graphs.studies.lrec2022.scores" in exhibit_modules(shown)
    nothing = make_workflow({"exhibits": "lrec2022.table3", "scale": "full"})
    assert nothing.shown_exhibits() == [("lrec2022", "table3")]


def test_names_of_files() -> None:
    work = make_workflow({"exhibits": "lrec2022.table1"})
    files = study_files(work.plan.studies)
    named = [Path(file).parent.name for file in files if Path(file).name == "study.yaml"]
    assert named == [*work.plan.studies] and "lrec2022" in named
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


KILLED = (
    "from private_graphs.workflow.locks import FolderLock; FolderLock().begin(); "
    "import os; os._exit(1)"
)


def test_only_the_lock_of_a_killed_run_of_this_machine_is_removed(place: Path, capsys) -> None:
    lock = place / ".snakemake" / "locks" / "0.input.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    running = FolderLock()
    running.begin()
    FolderLock()
    assert lock.exists(), "a run goes on"
    running.end()
    del running
    FolderLock()
    assert lock.exists() and capsys.readouterr().err == "", "it has ended in order"
    subprocess.run([sys.executable, "-c", KILLED], cwd=place, check=False)
    host = place / ".snakemake" / "private-graphs.lock"
    assert host.read_text() == platform.node()
    host.write_text("another-login-node")
    FolderLock()
    assert re.search("another-login-node.* snakemake --unlock", capsys.readouterr().err, re.DOTALL)
    assert lock.exists()
    host.write_text(platform.node())
    FolderLock()
    assert not lock.exists() and "removed its lock" in capsys.readouterr().err


def test_a_graph_that_a_user_built_is_made_of_its_kept_files_with_noise_that_nobody_knows() -> None:
    keep_graph(four_nodes(), Path("data/own/mine"), None)
    work = full(studies="progap", datasets="mine")
    assert set(work.datasets) == {"mine"} and work.wanted_receipts() == []
    assert raw_state("mine") == "data/own/mine/manifest.json"
    assert {work.noise_source(name) for name in work.batches} == {"os_entropy"}
    assert {job.scenario for job in work.jobs.values()}.isdisjoint({"edges", "links"})
    keep_graph(four_nodes(), Path("data/own/mine"), 9)
    assert "links" in {
        job.scenario for job in full(studies="progap", datasets="mine").jobs.values()
    }
    Path("data/own/mine/manifest.json").unlink()
    with pytest.raises(UserError, match="build mine again"):
        full(studies="progap", datasets="mine")


def test_a_package_of_another_checkout_is_refused_with_both_places(place: Path) -> None:
    refuse_other_checkout(place)  # a folder without a package, as on a cluster
    (place / "src").mkdir()
    (place / "src" / "private_graphs").symlink_to(PACKAGE)
    refuse_other_checkout(place)
    other = place / "other"
    (other / "src" / "private_graphs").mkdir(parents=True)
    with pytest.raises(UserError, match=f"{other}.*{PACKAGE}"):
        refuse_other_checkout(other)
