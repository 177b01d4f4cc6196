"""Recorded statements say what the present code says of their rows, sentence by sentence."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from golden import golden
from prices import read, remembered

from private_graphs.core.errors import UserError
from private_graphs.methods import all_methods
from private_graphs.running.run import statement_columns
from private_graphs.site.record import read_recorded
from private_graphs.site.restate import Statements, differing, with_statements

FOLDER = Path(__file__).parents[2] / "recorded"
STUDIES = sorted(path.parent.name for path in FOLDER.glob("*/rows.parquet"))


@pytest.fixture(scope="module")
def prices(request):
    """Slow prices from a table; ``--demo`` computes them."""
    all_methods()
    with nullcontext() if request.config.getoption("--demo") else remembered(read()):
        yield


def jobs_of(runs: pd.DataFrame, every: bool = False):
    """One job of each kind, or all jobs, with their rows."""
    seen = set()
    for job, rows in runs.groupby("job"):
        names = sorted(json.loads(rows["settings"].iloc[0]))
        kind = (*rows[["group", "method", "scenario", "protocol", "features"]].iloc[0], *names)
        if every or kind not in seen:
            seen.add(kind)
            yield job, rows


SLOW = ("progap", "dpdgc", "dpappr")
"""Studies whose accountants compose Rényi moments for long."""


@pytest.mark.parametrize("study", [
    pytest.param(name, marks=pytest.mark.long if name in SLOW else ()) for name in STUDIES
])  # fmt: skip
def test_every_sentence_and_number_of_a_statement_is_the_present_codes(study, prices, request):
    """Of one job of each kind; of all jobs with ``--demo``."""
    recorded = read_recorded(FOLDER / study)
    made, pairs, wrong = Statements(recorded), {}, []
    for job, rows in jobs_of(recorded.runs, request.config.getoption("--demo")):
        for place, name, new in zip(
            rows.index, rows["statement_id"], made.of(job).statements, strict=True
        ):
            pairs[name, new.statement_id] = job, place, new
    for (name, _), (job, place, new) in pairs.items():
        fields = differing(recorded.statements[name], new.model_dump(mode="json"))
        told = statement_columns(new, np.isfinite(recorded.rows.at[place, "epsilon"]))
        row = {key: recorded.rows.at[place, key] for key in told} | {"statement_id": name}
        row = {key: None if pd.isna(value) else value for key, value in row.items()}
        wrong += [f"{job}: {field}" for field in (*fields, *differing(row, told))]
    assert wrong == [], "run: private-graphs restate, then make docs"


def test_what_real_runs_say_is_what_is_made_of_their_rows_alone(prices):
    """Of the golden demo, whose statements the runs wrote: one job of each kind."""
    for study, recorded in golden().items():
        made = Statements(recorded, "demo")
        for job, rows in jobs_of(recorded.runs):
            for name, new in zip(rows["statement_id"], made.of(job).statements, strict=True):
                old = recorded.statements[name]
                assert differing(old, new.model_dump(mode="json")) == [], f"{study}/{job}"


@pytest.fixture(scope="module")
def small():
    return read_recorded(FOLDER / "preprint2021")


def changed(recorded, **fields):
    """``recorded`` with other ``fields`` in all statements; identifiers are left as they are."""
    return replace(recorded, statements={k: v | fields for k, v in recorded.statements.items()})


def test_what_was_said_otherwise_is_made_anew_and_what_says_the_same_stays(small, prices):
    again = with_statements(small)
    assert again.statements == small.statements and again.rows.equals(small.rows)
    made = with_statements(changed(small, preprocessing="Nothing.", statement_id=""))
    pairs = zip(small.runs["statement_id"], made.runs["statement_id"], strict=True)
    for before, after in set(pairs):
        assert differing(small.statements[before], made.statements[after]) == []


def test_a_run_with_another_noise_is_not_restated(small, prices):
    rows = small.rows.assign(noise_multiplier=small.rows["noise_multiplier"] * 1.01)
    with pytest.raises(UserError, match=r"had the noise .*record the job again"):
        with_statements(replace(small, rows=rows))


def test_a_run_that_no_job_plans_is_not_restated(small, prices):
    rows = small.rows.assign(replica_id=small.rows["replica_id"].str[::-1])
    with pytest.raises(UserError, match=r"its run \w+ .* is none that is planned"):
        with_statements(replace(small, rows=rows))


def test_statements_differ_in_words_and_in_numbers_that_no_rounding_explains():
    statement = {"proof": "4 releases at 2.5e-1", "epsilon": 1.0, "mechanisms": [{"count": 3}]}
    rounded = {"proof": "4 releases at 0.2500001", "epsilon": 1.0 + 1e-9}
    assert differing(statement, statement | rounded) == []
    assert differing(statement, statement | {"proof": "4 rounds at 2.5e-1"}) == ["proof"]
    assert differing(statement, statement | {"proof": "5 releases at 2.5e-1"}) == ["proof"]
    assert differing(statement, statement | {"epsilon": None}) == ["epsilon"]
    assert differing(statement, statement | {"epsilon": 1.001}) == ["epsilon"]
    assert differing(statement, statement | {"mechanisms": []}) == ["mechanisms"]
    assert differing(statement, statement | {"mechanisms": [{"count": 4}]}) == [
        "mechanisms[0].count"
    ]
