"""Table 4 of LREC 2022: its rows by both branches of the authors' code, and rules about them."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest
from small_jobs import job_of, small_images

from private_graphs.report.claims import Place
from private_graphs.report.results import Results
from private_graphs.report.rows import tidy
from private_graphs.run import execute
from private_graphs.studies.lrec2022 import claims, table4
from private_graphs.study import load_study

EPSILONS = (1.26, 4.24, 15.13, 0.98, 0.5)


def results(*rows: tuple[float, str | None, list[float]]):
    """Results with the scores of rows (ε, what gets the noise) by seed."""
    frame = [
        {"source": "own", "study": "lrec2022", "group": "table4", "epsilon": epsilon,
         "noise_on": branch, "seed": seed, "test_micro_f1": score}
        for epsilon, branch, scores in rows
        for seed, score in enumerate(scores)
    ]  # fmt: skip
    return Results(load_study("lrec2022"), "demo", pd.DataFrame(frame), {})


def place(epsilon: float = math.nan) -> Place:
    return Place({"epsilon": epsilon}, "mnist", "released")


def test_a_row_is_that_of_its_branch() -> None:
    both = results((1.26, None, [0.1, 0.2]), (1.26, "record", [0.8, 1.0]), (0.5, None, [0.3, 0.3]))
    assert claims.mnist_point("", both, place(1.26)).value == pytest.approx(0.15)
    assert claims.mnist_point("record", both, place(1.26)).value == pytest.approx(0.9)
    assert claims.mnist_point("record", both, place(0.5)) is None
    old = replace(both, rows=both.rows[both.rows["noise_on"].isna()].drop(columns="noise_on"))
    assert claims.mnist_point("", old, place(0.5)).value == pytest.approx(0.3)
    assert claims.mnist_point("record", old, place(0.5)) is None


def test_a_fall_is_the_least_of_all_steps_of_a_seed() -> None:
    found = results((1.26, None, [0.9, 0.8]), (4.24, None, [0.7, 0.7]), (15.13, None, [0.6, 0.3]))
    assert claims.mnist_fall("", EPSILONS[:3], found, place()).value == pytest.approx(0.1)
    rises = results((1.26, None, [0.9, 0.9]), (4.24, None, [0.3, 0.3]), (15.13, None, [0.5, 0.5]))
    assert claims.mnist_fall("", EPSILONS[:3], rises, place()).high < 0
    assert claims.mnist_fall("", EPSILONS[2:], rises, place()) is None, "not all rows were run"


def test_the_branches_stand_beside_each_other_with_their_epochs_and_no_epsilon() -> None:
    kinds = (("released", {}), ("released", {"noise_on": "record"}), ("sound", {}))
    made = []
    for protocol, more in kinds:
        settings = {"lot_size": 30, "noise_multiplier": 30.0, "epochs": 40, **more}
        job = job_of("mlp_records", protocol=protocol, settings=settings, epsilons=(1.0,))
        made.append(execute(job.model_copy(update={"group": "table4"}), small_images()))
    for number, each in enumerate(made):
        each.rows["job"] = f"job{number}"
    rows = tidy([each.rows.assign(source="own") for each in made])
    statements = {name: text for each in made for name, text in each.statements.items()}
    (table,) = Results.of(load_study("lrec2022"), "demo", rows, statements).build(table4.EXHIBIT)
    (row,) = table.rows
    cells = {(each.group, each.head): each.show(row) for each in table.columns}
    for group, result in zip(("released", "released, noise on every record"), made, strict=False):
        assert cells[group, "ε proved"].text.startswith("none")
        epochs = sorted(set(result.rows["epochs"]))
        assert cells[group, "epochs"].text == " to ".join(f"{each:.0f}" for each in epochs)
    assert "per record" in cells["sound", "ε proved"].text
    assert ("sound", "epochs") not in cells
    assert {"", "record"} == set(table.data["noise_on"])
    notes = " ".join(table.notes)
    assert "stop early on test images" in notes and "choice that was made on them" in notes
