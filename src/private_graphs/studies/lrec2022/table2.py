"""Table 2 of LREC 2022: micro-F1 on Pokec by kind of text features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from private_graphs.report.layout import naming
from private_graphs.report.words import FEATURES, OPTIMIZERS, number
from private_graphs.running.exhibit import Block, Exhibit
from private_graphs.studies.lrec2022.scores import PAPERS, score_place, setting
from private_graphs.studies.lrec2022.table1 import score_table

DATASET = "pokec"
"""The paper's dataset."""


def build(results: Any) -> list[Block]:
    """Return the table."""
    title = "Table 2. Micro-F1 on the test nodes by kind of text features"
    *epsilons, infinite = sorted(results.published("table2")["epsilon"].unique())
    columns = [
        naming("dataset", PAPERS, per=("dataset",)),
        naming("features", FEATURES, "features", ("dataset", "features")),
        naming("optimizer", OPTIMIZERS),
        score_place("Non-DP", "", setting=setting(1, infinite), epsilon=infinite),
        *(score_place(number(epsilon), "DP, ε =", setting=setting(1, epsilon), epsilon=epsilon)
          for epsilon in epsilons),
    ]  # fmt: skip
    names = ["dataset", "features", "optimizer"]
    table = score_table(results, "table2", title, names, columns, features=True)
    notes = [
        *table.notes,
        f"published: the paper's values, on {DATASET} alone; of "
        "Sentence-BERT it says that it performs worse, without a number.",
    ]
    return [replace(table, notes=notes)]


EXHIBIT = Exhibit(
    "table2",
    "Micro-F1 on the test nodes by kind of text features",
    groups=("table2", "sentence_bert"),
    build=build,
    meaning="Which text features are best on Pokec, with DP and without?",
)
