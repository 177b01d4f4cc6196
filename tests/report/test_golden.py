"""Every exhibit of the demo, built from golden rows, is what it was, byte by byte."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pandas as pd
import pytest
from golden import (
    GOLDEN,
    STUDIES,
    STUDY,
    exhibit_texts,
    golden_exhibits,
    results,
    verdicts,
)

from private_graphs.errors import UserError
from private_graphs.exhibits import exhibits_by_name
from private_graphs.report.words import missing
from private_graphs.study import load_study

FILES = GOLDEN / "exhibits"


def test_every_exhibit_of_the_study_has_a_golden_text():
    assert set(load_study(STUDY, "demo").exhibits) <= set(exhibits_by_name(STUDY))
    assert {f"{name}.md" for name in golden_exhibits()} == {
        path.name for path in FILES.glob("*.md")
    }


@pytest.mark.parametrize("name", [path.stem for path in sorted(FILES.glob("*.md"))])
def test_an_exhibit_is_what_it_was(name):
    texts = exhibit_texts(name)
    charts = {path.name for path in FILES.glob(f"{name}_chart*.csv")}
    assert set(texts) == {f"{name}.md", *charts}
    for file, text in texts.items():
        golden = (FILES / file).read_text(encoding="utf-8")
        assert text == golden, f"{file} differs: if intended, python tests/report/golden.py"


@pytest.mark.parametrize("study", STUDIES)
def test_the_verdicts_are_what_they_were(study):
    golden = (FILES / f"{study}.claims.csv").read_text(encoding="utf-8")
    assert verdicts(study) == golden, "if intended, python tests/report/golden.py"


def test_golden_rows_and_hashes_are_of_the_same_jobs():
    hashes = json.loads((GOLDEN / "predictions.json").read_text(encoding="utf-8"))
    runs = results().runs
    assert set(hashes) == set(runs["study"] + "/" + runs["group"] + "/" + runs["job"])


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
    table = replace(results(), rows=results().rows[results().rows["group"] == "table1"])
    points = table.points(["job", "epsilon"])
    assert len(points) == len(runs) / 3
    for row in points.to_dict("records"):
        scores = runs[(runs["job"] == row["job"]) & (runs["epsilon"] == row["epsilon"])]
        mean = sum(scores["test_micro_f1"]) / 3
        variance = sum((score - mean) ** 2 for score in scores["test_micro_f1"]) / 2
        assert math.isclose(row["mean"], mean) and math.isclose(row["std"], math.sqrt(variance))
        nothing = row["status"] in ("not_private", "refuted") or "released" in row["job"]
        assert missing(row["epsilon_proved"]) == nothing
        statement = table.statement(row["statement_id"])
        assert row["n"] == 3 and statement["dataset"] == row["job"].split("/")[0]
    other = table.points(["job", "epsilon"], spread="ci95")["ci95"]
    assert math.isclose(other[0], 4.302652729911275 * points["std"][0] / math.sqrt(3))


def test_one_place_for_several_claims_is_refused():
    with pytest.raises(UserError, match="several values of job"):
        results().points(["group", "epsilon"])
    with pytest.raises(UserError, match="several values of statement_id"):
        results().points(["group", "job", "epsilon"])  # the number of public labels is missing
    twice = results().runs.query("group == 'table1'")
    twice = replace(results(), rows=pd.concat([twice, twice]))
    with pytest.raises(UserError, match="a seed twice"):
        twice.points(["job", "epsilon"])


def test_an_exhibit_without_runs_or_datasets_says_what_to_run():
    nothing = replace(results(), rows=results().rows[:0], statistics=())
    for name in ("table1", "table5"):
        with pytest.raises(UserError, match=f"exhibits={STUDY}.{name}"):
            nothing.build(exhibits_by_name(STUDY)[name])
