"""Recording finished cells: three files that later runs are compared with."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy

from private_graphs.cells import Cell, CellPlan, MethodCell, MethodPlan
from private_graphs.datasets.registry import build
from private_graphs.errors import UserError
from private_graphs.methods.gcn import train_cell
from private_graphs.methods.proved import run_method
from private_graphs.reporting.record import main, read_recorded, record

GRAPH = "synthetic-planetoid"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A training and a proved method as their jobs save them: (scale folder, built datasets)."""
    base = tmp_path_factory.mktemp("finished")
    graph = build(GRAPH, base / "raw")
    graph.save(base / "processed" / GRAPH)
    cell = Cell(study="lrec2022", experiment="table1", dataset=GRAPH, optimizer="adam",
                protocol="sound", splits=1)  # fmt: skip
    plan = CellPlan(cell=cell, seeds=(0, 1), epsilons=(2.0, float("inf")), epochs=3)
    trained = train_cell(plan, graph, device="cpu")
    trained.save(base / "full" / "runs" / "lrec2022" / cell.cell_id)
    cell = MethodCell(study="lrec2022", experiment="frontier", dataset=GRAPH, method="class_sums",
                      setting="text")  # fmt: skip
    plan = MethodPlan(cell=cell, seeds=(0, 1, 2), epsilons=(1.0, 2.0))
    proved = run_method(plan, graph)
    proved.save(base / "full" / "methods" / "lrec2022" / cell.cell_id)
    return base, (trained, proved)


@pytest.fixture
def results(finished, tmp_path):
    """A copy of the finished cells that a test may change."""
    return shutil.copytree(finished[0] / "full", tmp_path / "full")


def test_rows_statements_and_predictions_come_back_as_the_cells_saved_them(finished, tmp_path):
    base, cells = finished
    record(base / "full", tmp_path, processed=base / "processed", commands=["snakemake --x"])
    found = read_recorded(tmp_path / "lrec2022")
    assert len(found.rows) == sum(len(each.runs) for each in cells) == 10
    assert set(found.test_nodes) == {GRAPH}
    for each in cells:
        rows = found.rows[found.rows["replica_id"].isin(each.runs["replica_id"])]
        (cell,) = set(rows["cell"])
        np.testing.assert_array_equal(found.predictions[cell], each.test_predictions)
        np.testing.assert_array_equal(found.test_nodes[found.graph_of(cell)], each.test_nodes)
        for column in ("replica_id", "test_macro_f1", "epsilon", "seed"):
            assert rows[column].tolist() == each.runs[column].tolist()
        assert {name: found.statements[name] for name in each.statements} == each.statements
    page = (tmp_path / "lrec2022" / "README.md").read_text(encoding="utf-8")
    assert "snakemake --x" in page and "test scores of 10 rows were computed" in page


def test_equal_results_give_equal_bytes(finished, tmp_path):
    base, _ = finished
    for name in ("a", "b"):
        call = [str(base / "full"), str(tmp_path / name), "--processed", str(base / "processed")]
        main([*call, "--day", "2000-01-01", "--machine", "a machine"])
    files = [sorted((tmp_path / name / "lrec2022").iterdir()) for name in ("a", "b")]
    assert len(files[0]) == 4
    for one, other in zip(*files, strict=True):
        assert one.name == other.name and one.read_bytes() == other.read_bytes()


def test_predictions_that_do_not_give_the_scores_of_their_row_are_refused(
    finished, results, tmp_path
):
    (path,) = results.glob("methods/**/predictions.safetensors")
    with safetensors.safe_open(path, "numpy") as stored:
        metadata = stored.metadata()
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}
    tensors["predictions"] = np.roll(tensors["predictions"], 1, axis=1)
    safetensors.numpy.save_file(tensors, path, metadata=metadata)
    with pytest.raises(UserError, match="says test_micro_f1 .* predictions score"):
        record(results, tmp_path / "out", processed=finished[0] / "processed")
    record(results, tmp_path / "out", processed=tmp_path)  # no labels there to compare with


def test_runs_with_secret_seeds_are_refused(results, tmp_path):
    (path,) = results.glob("methods/**/runs.parquet")
    pd.read_parquet(path).assign(noise_source="os_entropy").to_parquet(path)
    with pytest.raises(UserError, match="os_entropy"):
        record(results, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_predictions_of_other_runs_are_refused(results, tmp_path):
    (path,) = results.glob("methods/**/runs.parquet")
    pd.read_parquet(path).iloc[::-1].to_parquet(path)
    with pytest.raises(UserError, match="predictions of other runs"):
        record(results, tmp_path / "out")


def test_nothing_finished_is_an_error(tmp_path):
    with pytest.raises(UserError, match="no finished cell"):
        record(tmp_path, tmp_path / "out")


def test_a_recorded_folder_that_was_changed_is_refused(finished, tmp_path):
    record(finished[0] / "full", tmp_path)
    folder = tmp_path / "lrec2022"
    statements = folder / "statements.json"
    text = statements.read_text(encoding="utf-8")
    found = json.loads(text)
    found.pop(next(iter(found)))
    statements.write_text(json.dumps(found), encoding="utf-8")
    with pytest.raises(UserError, match="one statement for every row"):
        read_recorded(folder)
    statements.write_text(text, encoding="utf-8")
    rows = folder / "rows.parquet"
    pd.read_parquet(rows).iloc[1:].to_parquet(rows)
    with pytest.raises(UserError, match="holds other runs than rows.parquet"):
        read_recorded(folder)
    (folder / "predictions.safetensors").unlink()
    with pytest.raises(UserError, match=r"predictions\.safetensors: no such file"):
        read_recorded(folder)
