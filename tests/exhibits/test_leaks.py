"""What the recorded attacks on trained models found."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from private_graphs.report.leaks import cells, numbers
from private_graphs.running.store import read_rows

COINS = "in or out by coins"


def recorded(root: Path, study: str, leak: str) -> pd.DataFrame:
    found = read_rows(root / "recorded" / study / "rows.parquet")
    return found[(found["source"] == "leaks") & (found["leak"] == leak)]


@pytest.mark.parametrize(
    ("study", "methods"),
    [("lrec2022", {"gcn", "class_sums"}), ("progap", {"progap", "gap"}),
     ("dpappr", {"appr_gaussian", "appr_features"}), ("pate", {"pate_labels"})],
)  # fmt: skip
def test_no_attack_on_members_exceeds_what_is_proved(study, methods, root):
    found = cells(recorded(root, study, "membership"))
    proved = found[found["epsilon_proved"].notna()]
    assert set(proved["method"]) >= methods
    for row in proved.to_dict("records"):
        for name in ("auc", "tpr_01"):
            assert row[f"{name}_low"] <= row[f"allowed_{name}"], row["job"]
        for name in ("epsilon_shown", "epsilon_shown_tiny"):
            assert not row.get(name, 0) > row["epsilon_proved"], row["job"]


@pytest.mark.parametrize("study", ["lrec2022", "progap"])
def test_no_attack_on_links_exceeds_what_is_proved(study, root):
    found = recorded(root, study, "links").query("sees == 'releases' and who == @COINS")
    for name, row in found.groupby("job"):
        measured = row.set_index("measure")
        for each in ("auc", "tpr_01"):
            assert measured.loc[each, "low"] <= measured.loc[f"allowed_{each}", "value"], name
    assert len(found)


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
