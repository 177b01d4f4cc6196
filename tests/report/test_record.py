"""Recording finished jobs: files that pages and later versions are made of and compared with."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
import safetensors.numpy

from private_graphs.core.errors import UserError, system_error_text
from private_graphs.core.files import write_json
from private_graphs.datasets.registry import build
from private_graphs.running import store
from private_graphs.running.jobs import Job
from private_graphs.running.result import CURVE
from private_graphs.running.run import execute
from private_graphs.running.store import dataset_of, packed, readable, remedy, unpacked
from private_graphs.site.record import read_recorded, record
from private_graphs.workflow.verify import finish

GRAPH = "synthetic-planetoid"
FILES = ["README.md", "predictions.safetensors", "rows.parquet", "statements.json.gz"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two jobs as the workflow saves them: (their folder, results by group and name)."""
    base, results = tmp_path_factory.mktemp("finished"), {}
    graph = build(GRAPH, base / "raw")
    graph.save(base / "processed" / GRAPH)
    write_json(base / "processed" / GRAPH / "statistics.json", graph.statistics())
    given = {"study": "lrec2022", "dataset": GRAPH}
    trained = Job(**given, group="table1", name=f"{GRAPH}/raw/gcn/nodes/sound/splits=1",
                  method="gcn", scenario="nodes", settings={"epochs": 3, "optimizer": "adam"},
                  seeds=(0, 1), epsilons=(2.0, float("inf")))  # fmt: skip
    proved = Job(**given, group="frontier", name=f"{GRAPH}/raw/class_sums/text/sound",
                 method="class_sums", scenario="text", seeds=(0, 1, 2),
                 epsilons=(1.0, 2.0))  # fmt: skip
    for job in (trained, proved):
        folder = base / "full" / "jobs" / job.id
        result = execute(job, graph)
        result.save(folder)
        finish(folder, job, ())
        results[f"{job.group}/{job.name}"] = result
    return base, results


def test_seeds_that_draw_their_own_test_nodes_come_back_with_them(finished, tmp_path):
    base, _ = finished
    graph = build(GRAPH, base / "raw")
    fields = {"study": "lrec2022", "dataset": GRAPH, "group": "frontier", "scenario": "text",
              "test_share": 0.2, "validation_share": 0.1, "epsilons": (1.0,)}  # fmt: skip
    jobs = [
        Job(**fields, name="a", method="class_sums", seeds=(0, 1)),
        Job(**fields, name="b", method="dp_linear", seeds=(1,)),
    ]
    made = []
    for job in jobs:
        made.append(execute(job, graph))
        made[-1].save(tmp_path / "full" / "jobs" / job.id)
        finish(tmp_path / "full" / "jobs" / job.id, job, ())
    first, second = (each.test_records for each in made)
    assert first.shape == (2, round(0.2 * graph.n_nodes))
    assert not np.array_equal(first[0], first[1]) and np.array_equal(first[1], second[0])
    scored = (made[0].test_predictions == graph.labels[first]).mean(axis=1)
    np.testing.assert_allclose(made[0].rows["test_accuracy"], scored)
    record(tmp_path / "full", tmp_path, processed=base / "processed", commands=["x"],
           day="2026-01-02", machine="a machine")  # fmt: skip
    recorded = read_recorded(tmp_path / "lrec2022")
    assert recorded.check_scores(lambda row: graph.labels) == 3
    np.testing.assert_array_equal(recorded.answers("lrec2022/frontier/a").labels,
                                  graph.labels[first])  # fmt: skip


@pytest.fixture
def results(finished, tmp_path):
    """A copy of the finished jobs that a test may change."""
    return shutil.copytree(finished[0] / "full", tmp_path / "full")


def test_rows_statements_and_predictions_come_back_as_the_jobs_saved_them(finished, tmp_path):
    base, jobs = finished
    record(base / "full", tmp_path, processed=base / "processed", commands=["snakemake --x"],
           day="2026-01-02", machine="a machine")  # fmt: skip
    recorded = read_recorded(tmp_path / "lrec2022")
    assert len(recorded.rows) == sum(len(job.rows) for job in jobs.values()) == 10
    assert set(recorded.rows["source"]) == {"recorded"}
    assert recorded.made.commands == ("snakemake --x",) and recorded.made.date == "2026-01-02"
    for name, job in jobs.items():
        rows = recorded.runs[recorded.runs["job"] == name]
        np.testing.assert_array_equal(recorded.predictions[name], job.test_predictions)
        records = recorded.test_records[dataset_of(rows.iloc[0])]
        np.testing.assert_array_equal(records, job.test_records)
        answers = recorded.answers(f"lrec2022/{name}")
        assert answers.replicas == job.rows["replica_id"].tolist()
        np.testing.assert_array_equal(answers.labels, job.test_labels)
        for column in ("replica_id", "test_macro_f1", "epsilon", "seed", "settings"):
            assert rows[column].tolist() == job.rows[column].tolist()
        assert {key: recorded.statements[key] for key in job.statements} == job.statements
    labels = build(GRAPH, base / "raw").labels
    assert recorded.check_scores(lambda row: labels) == 10
    assert set(recorded.datasets) == set(recorded.rows["data_fingerprint"])
    page = (tmp_path / "lrec2022" / "README.md").read_text(encoding="utf-8")
    assert "snakemake --x" in page and f"| {GRAPH} | frontier | 1 | 6 |" in page


def test_jobs_that_were_recorded_before_stay(finished, results, tmp_path):
    """On another machine an earlier job is not at hand; one that is takes the place of its rows."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    told = {"day": "2000-01-01", "machine": "a machine", "commands": ["snakemake"]}
    record(results, whole, **told)
    table1 = results / "jobs" / "lrec2022" / "table1"
    table1.rename(tmp_path / "table1")
    record(results, parts, **told)
    assert set(read_recorded(parts / "lrec2022").rows["group"]) == {"frontier"}
    (tmp_path / "table1").rename(table1)
    shutil.rmtree(results / "jobs" / "lrec2022" / "frontier")
    verdicts = parts / "lrec2022" / "claims.csv"  # of other rows
    verdicts.touch()
    for _ in range(2):
        record(results, parts, **told)
        assert not verdicts.exists()
        for name in FILES:
            same = [folder / "lrec2022" / name for folder in (whole, parts)]
            assert same[0].read_bytes() == same[1].read_bytes(), name


def test_a_job_whose_files_were_changed_is_not_recorded(finished, results, tmp_path):
    (path,) = (results / "jobs").glob("lrec2022/frontier/**/runs.parquet")
    pd.read_parquet(path).assign(test_micro_f1=0.99).to_parquet(path)
    with pytest.raises(UserError, match="frontier"):
        record(results, tmp_path / "out", processed=finished[0] / "processed")
    assert not (tmp_path / "out").exists()


def test_runs_with_secret_seeds_are_refused(finished, tmp_path):
    base, _ = finished
    job = Job.model_validate_json(
        next((base / "full" / "jobs").glob("lrec2022/frontier/**/job.json")).read_text()
    )
    graph = build(GRAPH, base / "raw")
    folder = tmp_path / "full" / "jobs" / job.id
    result = execute(job, graph, noise_source="os_entropy")
    assert result.test_labels is None
    mine = job.model_copy(update={"dataset": "mine", "epsilons": (1.0,), "seeds": (0,)})
    assert execute(mine, graph).test_labels is None, "labels of a user's data are never kept"
    result.save(folder)
    finish(folder, job, ())
    with pytest.raises(UserError, match="os_entropy"):
        record(tmp_path / "full", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def _change(path, change) -> None:
    with safetensors.safe_open(path, "numpy") as stored:
        metadata = stored.metadata()
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}
    change(tensors, metadata)
    safetensors.numpy.save_file(tensors, path, metadata=metadata)


def _without_a_job(tensors, metadata) -> None:
    del tensors[next(name for name in tensors if name.startswith("frontier/"))]


def _without_test_records(tensors, metadata) -> None:
    del tensors[f"test_records/{GRAPH}"]


def _in_another_order(tensors, metadata) -> None:
    order = json.loads(metadata["replica_ids"])
    metadata["replica_ids"] = json.dumps({job: names[::-1] for job, names in order.items()})


def test_a_recorded_folder_that_was_changed_is_refused(finished, tmp_path):
    record(finished[0] / "full", tmp_path)
    folder = tmp_path / "lrec2022"
    rows, statements, predictions = (
        folder / name for name in ("rows.parquet", "statements.json.gz", "predictions.safetensors")
    )

    def refused(file, words: str) -> None:
        with pytest.raises(UserError, match=f"{words}.*; record again"):
            read_recorded(folder)
        file.write_bytes(contents[file])

    contents = {file: file.read_bytes() for file in (rows, statements, predictions)}
    told = json.loads(gzip.decompress(contents[statements]))
    first, *_ = told
    for changed, words in (
        ({name: told[name] for name in told if name != first}, "is not among those beside it"),
        (told | {first: told[first] | {"epsilon_proved": 0.125}}, "was changed after it was"),
    ):
        statements.write_bytes(gzip.compress(json.dumps(changed).encode()))
        refused(statements, words)
    for change, words in (
        (_without_a_job, "not readable .*frontier/"),
        (_without_test_records, "has shape"),
        (_in_another_order, "other runs than those of"),
    ):
        _change(predictions, change)
        refused(predictions, rf"predictions\.safetensors: .*{words}")
    for file in contents:
        file.write_bytes(contents[file][:-9])
        refused(file, f"{file.name}: not readable ")
    table = pyarrow.parquet.read_table(rows)
    place = table.column_names.index("unit")
    other = table.set_column(place, "unit", [["record"] * len(table)])
    pyarrow.parquet.write_table(other, rows)
    refused(rows, r"rows\.parquet: row .*unit")
    about = json.loads(table.schema.metadata[b"private_graphs"]) | {"schema": 2}
    table = table.replace_schema_metadata({"private_graphs": json.dumps(about)})
    pyarrow.parquet.write_table(table, rows)
    refused(rows, r"rows\.parquet: found results of schema 2, expected 1")
    read_recorded(folder)


def test_artifacts_are_recorded_but_for_curves_and_those_that_another_job_needs(finished, tmp_path):
    base, jobs = finished
    names = list(jobs)
    folder = shutil.copytree(base / "full", tmp_path / "full")
    needing = Job.model_validate_json(
        (folder / "jobs/lrec2022" / names[1] / "job.json").read_text()
    )
    needing = needing.model_copy(update={"needs": {"model": f"lrec2022/{names[0]}"}})
    for name, job in jobs.items():
        place = folder / "jobs" / "lrec2022" / name
        plan = Job.model_validate_json((place / "job.json").read_text())
        first = job.rows["replica_id"].iloc[0]
        arrays = {f"{first}/picture": np.arange(4), f"{first}/{CURVE}validation_loss": np.ones(2)}
        replace(job, artifacts=arrays).save(place)
        finish(place, needing if name == names[1] else plan, ())
    record(folder, tmp_path / "recorded", processed=base / "processed")
    recorded = read_recorded(tmp_path / "recorded" / "lrec2022")
    first = jobs[names[1]].rows["replica_id"].iloc[0]
    assert list(recorded.artifacts) == [f"{names[1]}/{first}/picture"]
    kept = recorded.answers(f"lrec2022/{names[1]}").artifacts
    assert kept[f"{first}/picture"].tolist() == [0, 1, 2, 3]
    assert recorded.answers(f"lrec2022/{names[0]}").artifacts == {}


def test_packed_predictions_come_back_and_others_are_refused(monkeypatch):
    classes = np.arange(12, dtype=np.uint8).reshape(3, 4)
    np.testing.assert_array_equal(unpacked(packed(classes), 3), classes)
    damaged = packed(classes).copy()
    damaged[5] ^= 1
    for data, runs in ((damaged, 3), (packed(classes)[:-1], 3), (packed(classes), 5), (classes, 3)):
        with pytest.raises(ValueError):
            unpacked(data, runs)
    monkeypatch.setattr(store, "_MOST_BYTES", 11)
    with pytest.raises(ValueError, match="more than 11 bytes"):
        unpacked(packed(classes), 3)


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE, errno.EACCES])
def test_an_error_of_the_system_is_no_damaged_file(tmp_path, code):
    with (
        pytest.raises(OSError) as told,
        remedy("take the folder anew"),
        readable(tmp_path / "s.json"),
    ):
        raise OSError(code, os.strerror(code))
    assert re.match(r"\S*s.json: cannot be .* \(.*\); \w+", system_error_text(told.value))
