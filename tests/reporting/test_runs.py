"""Reading finished cells."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from private_graphs.errors import UserError
from private_graphs.reporting.runs import RUN_COLUMNS, collect, find_runs


def test_collect_joins_all_cells_and_their_statements(tmp_path, cell):
    cell(tmp_path, protocol="paper", scores={2.0: [0.5, 0.6]})
    cell(tmp_path, protocol="sound", scores={2.0: [0.3], 1.0: [0.2]})
    runs, statements = collect(find_runs(tmp_path, "lrec2022"))
    assert len(runs) == 4 and len(statements) == 3
    assert set(runs["statement_id"]) == set(statements)
    assert runs["cell"].nunique() == 2


def test_nothing_finished_is_an_empty_frame_with_all_columns(tmp_path):
    runs, statements = collect(find_runs(tmp_path, "lrec2022"))
    assert runs.empty and not statements
    assert list(runs.columns) == [*RUN_COLUMNS, "cell"]


def test_a_cell_that_lacks_a_file_is_not_finished(tmp_path, cell):
    folder = cell(tmp_path, scores={2.0: [0.5]})
    (folder / "statement.json").unlink()
    assert find_runs(tmp_path, "lrec2022") == []


def test_a_missing_column_is_named_with_its_file(tmp_path, cell):
    folder = cell(tmp_path, scores={2.0: [0.5]})
    path = folder / "runs.parquet"
    pd.read_parquet(path).drop(columns="epsilon_proved").to_parquet(path)
    with pytest.raises(UserError, match=r"runs\.parquet: .*epsilon_proved"):
        collect([folder])


def test_finished_cells_from_before_there_were_views_have_none(tmp_path, cell):
    older = cell(tmp_path, scores={2.0: [0.5, 0.6]})
    path = older / "runs.parquet"
    pd.read_parquet(path).drop(columns="view").to_parquet(path)
    newer = cell(tmp_path, dataset="pokec", protocol="sound", scores={2.0: [0.5]}, view="sound")
    unviewed = cell(tmp_path, protocol="sound", scores={2.0: [0.4]})
    runs, _ = collect([older, newer, unviewed])
    assert list(runs["view"]) == [None, None, "sound", None]
    assert set(RUN_COLUMNS) <= set(runs.columns)


@pytest.mark.parametrize("changes", [{"dataset": "reddit"}, {"epsilon_proved": 0.1}])
def test_a_row_that_was_edited_is_named_with_its_statement(tmp_path, cell, changes):
    folder = cell(tmp_path, scores={2.0: [0.5]})
    path = folder / "runs.parquet"
    rows = pd.read_parquet(path).assign(**changes)
    rows.to_parquet(path)
    [column], name = changes, rows["statement_id"].iloc[0]
    with pytest.raises(UserError, match=rf"runs\.parquet: row .*{name} is about: {column} "):
        collect([folder])


def test_a_row_without_its_statement_is_an_error(tmp_path, cell):
    folder = cell(tmp_path, scores={2.0: [0.5]})
    (folder / "statement.json").write_text(json.dumps({}))
    with pytest.raises(UserError, match="no statement [0-9a-f]{12}"):
        collect([folder])


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}'])
def test_a_broken_statement_file_is_an_error_that_names_it(tmp_path, cell, text):
    folder = cell(tmp_path, scores={2.0: [0.5]})
    (folder / "statement.json").write_text(text)
    with pytest.raises(UserError, match=r"statement\.json"):
        collect([folder])


def test_a_statement_that_was_changed_after_it_was_written_is_refused(tmp_path, cell):
    folder = cell(tmp_path, scores={2.0: [0.5]})
    path = folder / "statement.json"
    path.write_text(path.read_text().replace("3.3802", "0.1"))
    with pytest.raises(UserError, match=r"statement\.json: .*was changed after it was written"):
        collect([folder])


def test_a_broken_run_table_is_an_error_that_names_it(tmp_path, cell):
    folder = cell(tmp_path, scores={2.0: [0.5]})
    (folder / "runs.parquet").write_bytes(b"half")
    with pytest.raises(UserError, match=r"runs\.parquet: not a readable run table"):
        collect([folder])
