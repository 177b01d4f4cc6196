"""What the recorded attacks on edges and on words found."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from private_graphs.running.store import read_rows

COINS, PAIRS = "in or out by coins", "all pairs"


@pytest.fixture(scope="module")
def rows(root: Path) -> pd.DataFrame:
    studies = [root / "recorded" / name / "rows.parquet" for name in ("lrec2022", "progap")]
    found = pd.concat([read_rows(path) for path in studies], ignore_index=True)
    return found[(found["source"] == "leaks") & found["leak"].isin(["links", "words"])]


def value(rows: pd.DataFrame, **where) -> float:
    for name, wanted in where.items():
        rows = rows[rows[name] == wanted]
    return rows["value"].item()


def test_models_that_answer_on_the_private_graph_show_its_edges_whatever_epsilon_says(rows):
    for epsilon, least in ((math.inf, (0.99, 0.6, 0.95)), (2.0, (0.99, 0.55, 0.9))):
        where = {"leak": "links", "method": "gcn", "protocol": "released", "epsilon": epsilon}
        influence = where | {"sees": "queries", "score": "influence"}
        assert value(rows, **influence, who=PAIRS, measure="auc") >= least[0]
        assert value(rows, **influence, who=PAIRS, measure="precision") >= least[1]
        assert value(rows, **influence, who=COINS, measure="auc") >= least[2]
        texts = value(rows, **where, sees="texts", who=PAIRS, measure="auc")
        assert 0.75 < texts < 0.9, "resemblance alone"


def test_releases_at_epsilon_1_show_at_most_what_is_proved_and_nearly_that(rows):
    where = {"who": COINS, "sees": "releases"}
    for name, row in rows[(rows["sees"] == "releases") & (rows["who"] == COINS)].groupby("job"):
        found = row.set_index("measure")
        assert found.loc["auc", "low"] <= found.loc["allowed_auc", "value"], name
        assert found.loc["tpr_01", "low"] <= found.loc["allowed_tpr_01", "value"], name
    assert value(rows, method="label_counts", dataset="cora", measure="auc", **where) > 0.7
    hubs = {"method": "label_counts", "dataset": "cora", "who": "all 10 to 19 edges of a node"}
    assert value(rows, measure="auc", **hubs) > 0.95, "d edges are d times epsilon"


def test_rare_words_are_seen_without_dp_and_hardly_at_epsilon_1(rows):
    where = {"leak": "words", "measure": "auc", "who": "all"}
    assert value(rows, method="gcn", score="online", **where) > 0.9
    assert value(rows, method="class_sums", epsilon=math.inf, score="decoding", **where) > 0.95
    assert value(rows, method="class_sums", epsilon=1.0, score="decoding", **where) < 0.52
    assert value(rows, method="dp_linear", epsilon=1.0, score="online", **where) < 0.52
