"""Reading finished jobs: what comes back, and how damaged files are named."""

from __future__ import annotations

import json
import math
import os
import shutil

import numpy as np
import pandas as pd
import pytest
from small_graphs import random_graph

from private_graphs.core.errors import UserError
from private_graphs.core.files import sha256_of, write_json, write_text
from private_graphs.core.manifest import MANIFEST
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.report.audits import audited
from private_graphs.report.rows import collect
from private_graphs.running.jobs import Attack, Job
from private_graphs.running.run import execute
from private_graphs.running.store import ROW_COLUMNS, read_rows, tidy, write_rows
from private_graphs.workflow.verify import finish

PLAN = {"study": "lrec2022", "dataset": "small", "method": "class_sums", "scenario": "text"}
JOB = Job(**PLAN, group="frontier", name="small/raw/class_sums/text/sound", seeds=(0, 1),
          epsilons=(2.0, math.inf))  # fmt: skip
OTHER = JOB.model_copy(update={"name": "small/raw/class_sums/graph/sound", "scenario": "graph"})
AUDIT = Job(**PLAN, group="audit", name="canary/raw/class_sums/text/sound/epsilon=2",
            epsilons=(2.0,), attack=Attack(runs=10))  # fmt: skip
DOCUMENT = {
    "protocol": "sound", "method": "class_sums", "setting": "text", "n_splits": 1,
    "visits": "full_graph", "design": "canary", "unit": "node", "relation": "replace",
    "delta": 1e-5, "epochs": 1, "noise_multiplier": 2.0, "epsilon_claimed": 2.0,
    "epsilon_published": None, "epsilon_proved": 1.9, "epsilon_lower": 0.3,
    "epsilon_lower_gaussian": None, "confidence": 0.95, "runs": 20, "errors": 3, "one_run": None,
    "verdict": "not_refuted", "verdict_confidence": 0.999, "verdict_epsilon_lower": 0.1, "seed": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    base = tmp_path_factory.mktemp("finished")
    graph = random_graph(nodes=120, features=30, classes=2)
    graph.save(base / "processed" / "small")
    write_json(base / "processed" / "small" / "statistics.json",
               {"name": "small", "fingerprint": graph.fingerprint})  # fmt: skip
    for job in (JOB, OTHER):
        folder = base / "demo" / "jobs" / job.id
        execute(job, graph).save(folder)
        finish(folder, job, ())
    leave_audit(base / "demo", DOCUMENT)
    return base


def leave_audit(scale, document):
    folder = scale / "jobs" / AUDIT.id
    write_json(folder / "audit.json", document)
    write_text(folder / "job.json", AUDIT.model_dump_json())
    vouch(folder, ["audit.json", "job.json"])


def vouch(folder, names=()):
    """Write new hashes, as somebody who edits files might."""
    path = folder / MANIFEST
    names = names or json.loads(path.read_text())["sha256"]
    write_json(path, {"sha256": {name: sha256_of(folder / name) for name in names}})


@pytest.fixture
def scale(finished, tmp_path):
    """A copy that a test may change."""
    return shutil.copytree(finished / "demo", tmp_path / "demo")


@pytest.fixture
def folder(scale):
    return scale / "jobs" / JOB.id


def read(scale, finished):
    return collect(scale, finished / "processed")


def refused(scale, finished, *words):
    with pytest.raises(UserError) as error:
        read(scale, finished)
    for word in (*words, f"delete {scale / 'jobs' / JOB.id} and run the job again"):
        assert str(word) in str(error.value)


def test_rows_have_one_schema_and_survive_a_round_trip(finished, tmp_path):
    rows, statements = read(finished / "demo", finished)
    assert rows["source"].tolist() == ["own"] * 8 + ["audit"]
    assert list(rows)[: len(ROW_COLUMNS)] == list(ROW_COLUMNS)
    assert {name: str(kind) for name, kind in rows.dtypes.items()}.items() >= ROW_COLUMNS.items()
    assert set(rows["statement_id"].dropna()) == set(statements)
    for name in ("a", "b"):
        write_rows(rows, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    pd.testing.assert_frame_equal(read_rows(tmp_path / "a"), rows)
    pd.testing.assert_frame_equal(tidy([rows]), rows)
    assert len(collect(finished / "demo", jobs=[JOB.id])[0]) == 4
    assert tidy([]).empty and list(tidy([])) == list(ROW_COLUMNS)


def test_an_audit_joins_every_run_of_its_claim_and_no_other(finished):
    rows, statements = read(finished / "demo", finished)
    joined = audited(rows, statements)
    assert all(value["audit"] is None for value in statements.values())
    told = {name for name, value in joined.items() if value["audit"]}
    same = rows[(rows["scenario"] == "text") & (rows["epsilon"] == 2) & (rows["source"] == "own")]
    assert told == set(same["statement_id"])
    for name in told:  # the identifier stays
        assert PrivacyStatement.model_validate(joined[name]).statement_id == name


def test_an_audit_above_a_proved_budget_ends_the_report(scale, finished):
    leave_audit(scale, DOCUMENT | {"verdict_epsilon_lower": 2.5})
    with pytest.raises(UserError, match="breaks its proof"):
        audited(*read(scale, finished))


def test_an_audit_between_its_budget_and_another_says_nothing_of_the_other(scale, finished):
    leave_audit(scale, DOCUMENT | {"epsilon_proved": 2.5, "verdict_epsilon_lower": 2.2})
    joined = audited(*read(scale, finished))
    assert all(value["audit"] is None for value in joined.values())


def edited(path, change):
    """Change a file and leave its dates as they were."""
    times = path.stat()
    change(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def set_score(path, column="test_micro_f1", value=0.99):
    rows = pd.read_parquet(path)
    rows.loc[0, column] = value
    rows.to_parquet(path, index=False)


def flip(path):
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


FILES = ("runs.parquet", "predictions.safetensors", "statement.json")


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_with_its_old_date_is_named(scale, folder, finished, name):
    edited(folder / name, flip)
    refused(scale, finished, folder / name)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_job_is_named(scale, folder, finished, name):
    edited(folder / name, lambda path: shutil.copy(scale / "jobs" / OTHER.id / name, path))
    refused(scale, finished, folder / name)
    vouch(folder)
    refused(scale, finished, folder)


def test_an_edited_score_is_found_by_its_predictions_though_hashes_agree(scale, folder, finished):
    edited(folder / "runs.parquet", set_score)
    vouch(folder)
    refused(scale, finished, folder / "runs.parquet", "test_micro_f1 0.99", "predictions score")
    collect(scale)  # without labels nobody can tell


@pytest.mark.parametrize(
    ("column", "value"),
    [("epsilon_proved", 0.1), ("status", "proved"), ("unit", "record"), ("epsilon", 0.5),
     ("dataset", "cora"), ("statement_id", "0123456789ab")],
)  # fmt: skip
def test_a_row_that_contradicts_its_statement_is_named(scale, folder, finished, column, value):
    set_score(folder / "runs.parquet", column, value)
    vouch(folder)
    refused(scale, finished, folder / "runs.parquet", column.replace("statement_id", "statement"))


def test_a_changed_statement_and_a_wrong_plan_are_named(scale, folder, finished):
    path = folder / "statement.json"
    told = json.loads(path.read_text())
    name = next(name for name, value in told.items() if value["epsilon_proved"])
    whole = path.read_text()
    path.write_text(whole.replace(str(told[name]["epsilon_proved"]), "0.125"))
    vouch(folder)
    refused(scale, finished, path, name, "was changed after it was written")
    path.write_text(whole)
    shutil.copy(scale / "jobs" / OTHER.id / "job.json", folder)
    vouch(folder)
    refused(scale, finished, folder / "job.json", OTHER.id)


def test_scores_count_only_records_with_a_label(finished):
    from private_graphs.running.store import check_scores

    row = {"method": "class_sums", "protocol": "sound", "job": "j", "replica_id": "r",
           **dict.fromkeys(("test_micro_f1", "test_macro_f1", "test_accuracy"), 0.5)}  # fmt: skip
    truth, predicted = np.array([0, 1, 0, 1, -1]), np.array([[0, 1, 1, 0, 0]])
    check_scores(pd.DataFrame([row]), predicted, truth)
    hidden = row | dict.fromkeys(("test_micro_f1", "test_macro_f1", "test_accuracy"), np.nan)
    check_scores(pd.DataFrame([hidden | {"noise_source": "os_entropy"}]), predicted, truth)
    with pytest.raises(UserError, match="test_micro_f1 nan"):
        check_scores(pd.DataFrame([hidden | {"noise_source": "seeded"}]), predicted, truth)
    with pytest.raises(UserError, match="test_micro_f1"):
        check_scores(
            pd.DataFrame([row | {"method": "gcn", "protocol": "released"}]), predicted, truth
        )
