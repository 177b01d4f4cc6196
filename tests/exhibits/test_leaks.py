"""What the recorded attacks on trained models found."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from private_graphs.report.leaks import cells, numbers
from private_graphs.running.store import read_rows


@pytest.fixture(scope="module")
def rows(root: Path) -> pd.DataFrame:
    return recorded(root, "lrec2022")


def recorded(root: Path, study: str) -> pd.DataFrame:
    found = read_rows(root / "recorded" / study / "rows.parquet")
    return found[(found["source"] == "leaks") & (found["leak"] == "membership")]


def of(rows: pd.DataFrame, **where) -> pd.DataFrame:
    where = {"dataset": "cora", "left_out": "absent", "who": "all"} | where
    for name, value in where.items():
        rows = rows[rows[name] == value]
    return rows[~rows["settings"].str.contains('"sgd"')]


def value(rows: pd.DataFrame, **where) -> float:
    return of(rows, **where)["value"].item()


def test_without_dp_likelihood_ratios_name_many_members(rows):
    where = {"method": "gcn", "protocol": "released", "epsilon": math.inf, "measure": "tpr_01"}
    for dataset, sees, least in (("cora", "whole", 0.2), ("cora", "features", 0.28),
                                 ("citeseer", "features", 0.28)):  # fmt: skip
        found = {"dataset": dataset, "sees": sees}
        assert value(rows, score="online", **where, **found) >= least
        assert value(rows, score="plain", **where, **found) < 0.05  # confidence alone sees little


def test_the_printed_budget_of_the_authors_code_is_refuted_on_the_papers_own_models(rows):
    where = {"method": "gcn", "protocol": "released", "epsilon": 2.0}
    assert value(rows, measure="epsilon_shown", **where) >= 2.3
    assert of(rows, **where)["accuracy"].iloc[0] > 0.5


@pytest.mark.parametrize(("protocol", "epsilon"), [("paper", 2.0), ("sound", 1.0)])
def test_clipped_gcns_are_at_chance_and_so_is_what_they_learned(rows, protocol, epsilon):
    found = of(rows, method="gcn", protocol=protocol, epsilon=epsilon)
    aucs = found[found["measure"] == "auc"]
    assert len(aucs) and aucs["value"].between(0.49, 0.51).all()
    assert found["accuracy"].iloc[0] < 0.35


def test_a_good_attack_on_noisy_sums_comes_close_to_what_is_proved(rows):
    where = {"method": "class_sums", "scenario": "text", "score": "decoding", "measure": "auc"}
    assert 0.535 <= value(rows, epsilon=1.0, **where) <= 0.55
    assert value(rows, epsilon=math.inf, **where) > 0.99


@pytest.mark.parametrize(
    ("study", "methods"),
    [("lrec2022", {"gcn", "class_sums"}), ("progap", {"progap", "gap"}),
     ("dpappr", {"appr_gaussian", "appr_features"}), ("pate", {"pate_labels"})],
)  # fmt: skip
def test_nothing_exceeds_what_is_proved(study, methods, root):
    found = cells(recorded(root, study))
    proved = found[found["epsilon_proved"].notna()]
    assert set(proved["method"]) >= methods
    for row in proved.to_dict("records"):
        for name in ("auc", "tpr_01"):
            assert row[f"{name}_low"] <= row[f"allowed_{name}"], row["job"]
        for name in ("epsilon_shown", "epsilon_shown_tiny"):
            assert not row.get(name, 0) > row["epsilon_proved"], row["job"]


def test_an_epsilon_is_compared_with_what_is_shown_and_proved_at_its_own_delta():
    common = {"leak": "membership", "study": "x", "group": "g", "method": "gcn", "dataset": "cora",
              "scenario": "nodes", "protocol": "released", "settings": "{}", "left_out": "absent",
              "epsilon": 1.0, "epsilon_claimed": 1.0, "sees": "together", "score": "online",
              "who": "all", "low": 0.5, "high": 0.5, "accuracy": 0.5}  # fmt: skip

    def found(proved: float | None, **measured: float) -> dict[str, str]:
        fixed = {"auc": 0.5, "tpr_01": 0.01, "allowed_auc": 0.7, "allowed_tpr_01": 0.6}
        rows = pd.DataFrame([
            common | {"job": "j", "epsilon_proved": proved, "measure": name, "value": each}
            for name, each in (fixed | measured).items()
        ])  # fmt: skip
        return numbers(SimpleNamespace(leaks=rows, title=str))

    tiny = {"epsilon_shown_tiny": 1.5, "epsilon_shown_tiny_proved": 1.8}
    other = found(None, epsilon_shown=0.8, epsilon_shown_tiny=1.5)
    assert other == {"found": "1.0 %", "found printed": "1"}, "at another delta"
    assert found(None, epsilon_shown=1.2, epsilon_shown_tiny=1.5)["leaking shown"] == "1.20"
    assert found(1.0, epsilon_shown=0.8, epsilon_shown_proved=1.0, **tiny)["within"] == "1"
    assert "within" not in found(1.0, epsilon_shown=1.1, epsilon_shown_proved=1.0, **tiny)
    assert "within" not in found(1.0, allowed_auc=0.4, **tiny), "its interval is above"
    tiny["epsilon_shown_tiny_proved"] = 1.4
    assert "within" not in found(1.0, **tiny)


def test_noisy_sums_show_people_of_long_lists_and_the_models_answers_hardly_do(root):
    found = recorded(root, "progap")
    found = found[(found["measure"] == "auc") & (found["who"] == "all")]
    found = found[found["epsilon"] == 8].pivot_table("value", "job", "score")
    assert (found["likelihood"] > found["online"] + 0.1).all() and (found["online"] < 0.53).all()
