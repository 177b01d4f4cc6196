"""Every exhibit of every study's demo, built from golden rows, is what it was, byte by byte."""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from golden import EXHIBITS, golden, results, texts_of

from private_graphs.core.errors import UserError
from private_graphs.report.words import missing
from private_graphs.running.catalog import exhibits_by_name
from private_graphs.running.plan import Plan
from private_graphs.running.study import Run, load_study, study_ids

RENEW = "if intended: make golden, or for exhibits alone python tests/report/golden.py"


@pytest.mark.parametrize("study", study_ids())
def test_the_demo_makes_every_printed_table_and_figure(study):
    names = exhibits_by_name(study)
    printed = {name for name in names if re.fullmatch(r"(table|figure)[\d_]+", name)}
    assert printed <= set(load_study(study, "demo").exhibits)


def test_every_study_has_a_golden_demo_of_all_its_jobs():
    assert sorted(golden()) == study_ids()
    planned = {job.id for job in Plan(Run(scale="demo")).jobs}
    runs = pd.concat([each.rows for each in golden().values()])
    assert set(runs["study"] + "/" + runs["group"] + "/" + runs["job"]) == planned


@pytest.mark.parametrize("study", sorted(golden()))
def test_exhibits_and_verdicts_are_what_they_were(study):
    texts = texts_of(study)
    kept = {path.name: path.read_text(encoding="utf-8") for path in (EXHIBITS / study).iterdir()}
    assert set(texts) == set(kept), RENEW
    assert [name for name, text in texts.items() if text != kept[name]] == [], RENEW


def test_the_golden_results_are_small():
    files = [path for path in EXHIBITS.parent.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 1_850_000


def test_an_audit_stands_in_every_statement_of_its_claim():
    """Proved methods too, and without another identifier."""
    statements = results().statements
    attacked = {(value["method"], value["protocol"])
                for value in statements.values() if value["audit"]}  # fmt: skip
    audits = results().audits
    assert attacked == set(zip(audits["method"], audits["protocol"], strict=True))
    released = [value for value in statements.values() if value["protocol"] == "released"]
    assert {value["status"] for value in released if value["audit"]} == {"refuted"}
    splits = {value["mechanisms"][0]["parts"] for value in released if value["audit"]}
    assert splits == {1, 10}, "an audit of other splits attacks other code"
    for name, value in statements.items():
        assert value["statement_id"] == name


def test_points_are_means_over_the_seeds_of_selected_runs():
    runs = results().runs
    runs = runs[(runs["group"] == "table1") & runs["selected"]]
    rows = results().rows[results().rows["group"] == "table1"]
    table = replace(results(), rows=rows, pool=None)
    points = table.points(["job", "epsilon"])
    assert len(points) == len(runs.drop_duplicates(["job", "epsilon"]))
    seeds = set()
    for row in points.to_dict("records"):
        scores = runs[(runs["job"] == row["job"]) & (runs["epsilon"] == row["epsilon"])]
        seeds.add(len(scores))
        assert math.isclose(row["mean"], sum(scores["test_micro_f1"]) / len(scores))
        if len(scores) == 1:
            assert math.isnan(row["std"]), "one run says nothing of the spread"
        else:
            assert math.isclose(row["std"], statistics.stdev(scores["test_micro_f1"]))
        nothing = row["status"] in ("not_private", "refuted") or "released" in row["job"]
        assert missing(row["epsilon_proved"]) == nothing
        statement = table.statement(row["statement_id"])
        assert row["n"] == len(scores) and statement["dataset"] == row["job"].split("/")[0]
    assert seeds == {1, 3}
    other = table.points(["job", "epsilon"], spread="ci95")["ci95"]
    widths = (other / (4.302652729911275 * points["std"] / math.sqrt(3)))[points["n"] == 3]
    assert len(widths) >= 30 and np.allclose(widths, 1)


def test_one_place_for_several_claims_is_refused():
    with pytest.raises(UserError, match="several values of job"):
        results().points(["study", "group", "epsilon"])
    with pytest.raises(UserError, match="several values of statement_id"):
        results().points(
            ["study", "group", "job", "epsilon"]
        )  # the number of public labels is missing
    twice = results().runs.query("group == 'table1'")
    twice = replace(results(), rows=pd.concat([twice, twice]))
    with pytest.raises(UserError, match="a seed twice"):
        twice.points(["job", "epsilon"])
