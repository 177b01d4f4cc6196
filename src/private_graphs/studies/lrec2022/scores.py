"""Tables 1 and 2 of LREC 2022, and the leak: a row per setting, a pair of columns per source."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from private_graphs.report.columns import beside, plain
from private_graphs.report.layout import LayoutColumn, laid_out, naming, rows_of, score_lines, short
from private_graphs.report.words import (
    FEATURES,
    OPTIMIZERS,
    guarantee,
    number,
    privacy_notes,
    score,
)
from private_graphs.report.words import features as features_words
from private_graphs.running.exhibit import (
    NOTHING,
    Block,
    Cell,
    Column,
    Exhibit,
    Layout,
    LayoutCell,
    Table,
)

KEY = ["dataset", "features", "setting", "optimizer", "epsilon"]
"""Columns that identify a row; ``setting`` is a name."""
BASELINES = {"majority class": "majority_micro_f1", "uniform random": "random_micro_f1"}
"""Settings without training: they have no features, optimizer or ε."""
PRINTED_BASELINES = {"majority": "majority class", "random": "uniform random"}
"""Names of the settings for printed baselines."""
SETTINGS = [*BASELINES, "no DP", "no DP, graph splits", "DP, full graph"]
"""Settings in row order; ``DP, 10 splits`` comes last."""
PRINTED_SPLITS = {"non_private": 1, "dp_full": 1, "dp_split": 10}
"""Number of splits behind a setting that Table 1 prints (Section 6.3)."""
PAPERS = {"citeseer": "CiteSeer", "cora": "Cora", "pubmed": "PubMed", "pokec": "Pokec",
          "reddit": "Reddit"}  # fmt: skip
"""The paper's names of its datasets."""
TITLE = "{}: mean ± standard deviation over the seeds"


def setting(splits: float, epsilon: float) -> str:
    """Return the name of a training: ``DP, 10 splits``."""
    if math.isinf(epsilon):
        return "no DP" if splits == 1 else "no DP, graph splits"
    return "DP, full graph" if splits == 1 else f"DP, {splits:.0f} splits"


def points(results: Any) -> pd.DataFrame:
    """Return the points of all trainings by run group, protocol and ``KEY``."""
    by = ["group", "protocol", "dataset", "features", "optimizer", "splits", "epsilon"]
    frame = results.points(by)
    return frame.assign(setting=list(map(setting, frame["splits"], frame["epsilon"])))


def with_baselines(results: Any, trained: pd.DataFrame) -> pd.DataFrame:
    """Return ``trained`` and the baselines of every dataset."""
    keys = ["group", "protocol", "dataset"]
    baselines = [
        results.baseline(keys, column).assign(setting=words, features="", optimizer="")
        for words, column in BASELINES.items()
    ]
    return pd.concat([*baselines, trained], ignore_index=True)[trained.columns]


def printed(results: Any, name: str) -> pd.DataFrame:
    """Return the printed values of a table in its order: ``KEY`` and ``published``."""
    rows = results.published(name).rename(columns={"test_micro_f1": "published"})
    names = rows["setting"] if "setting" in rows else ["dp_full"] * len(rows)
    words = [
        PRINTED_BASELINES.get(name) or setting(PRINTED_SPLITS[name], epsilon)
        for name, epsilon in zip(names, rows["epsilon"], strict=True)
    ]
    features = rows["features"] if "features" in rows else "raw"
    rows = rows.assign(setting=words, features=features)
    rows.loc[rows["setting"].isin(list(BASELINES)), ["features", "optimizer"]] = ""
    return rows[[*KEY, "published"]]


def lines(*frames: pd.DataFrame) -> pd.DataFrame:
    """Return the displayed rows: every ``KEY`` of the frames once, in order."""
    rows = pd.concat([frame[KEY] for frame in frames], ignore_index=True).drop_duplicates()
    return rows.sort_values(KEY[:3] + ["epsilon", "optimizer"], key=_rank, ignore_index=True)


def _rank(column: pd.Series) -> pd.Series:
    """Return the places of a column's values in the order of tables."""
    orders = {"features": ["", *FEATURES], "setting": SETTINGS, "optimizer": ["", *OPTIMIZERS]}
    names = orders.get(str(column.name))
    if names is None:
        return column.fillna(0)
    return column.map(lambda name: names.index(name) if name in names else len(names))


def score_place(head: str, group: str, per: Sequence[str] = (), **at: Any) -> LayoutColumn:
    """Return the column of a layout with the scores at some of ``KEY``; the row has the others."""
    fixed = {"features": "raw", "optimizer": ""} | at
    return LayoutColumn(head, lambda row: key(fixed | row | at), group, per=per)


def in_layout(
    runs: pd.DataFrame, paper: pd.DataFrame, names: Sequence[str], places: Sequence[LayoutColumn]
) -> Layout:
    """Return printed and own scores with a row for each combination of ``names``.

    A printed ε is refuted if an attack refutes the claim of the authors' code, which is one for
    every dataset and optimizer (docs/privacy.md §10, "In the statements").
    """
    refuted = runs[(runs["protocol"] == "released") & (runs["status"] == "refuted")]
    claims = set(zip(refuted["setting"], refuted["epsilon"], strict=True))
    rows = [frame[frame["epsilon"] < math.inf] for frame in (paper, runs)]
    rows = [rows[0], rows[1].sort_values(list(KEY), key=_rank)]
    return laid_out(
        rows_of(names, *rows),
        places,
        {
            key(row): LayoutCell(
                short(number(row["published"], 2)),
                refuted=(row["setting"], row["epsilon"]) in claims,
            )
            for row in paper.to_dict("records")
        },
        score_lines(runs.to_dict("records"), key),
    )


def by_key(frame: pd.DataFrame) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the rows of a frame by ``key``."""
    return {key(row): row for row in frame.to_dict("records")}


def key(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the key of a row."""
    return tuple(str(row[name]) for name in KEY)


def _features(row: Mapping[str, Any]) -> str:
    return features_words(row["features"], row["dataset"]) if row["features"] else NOTHING


def heads(*, features: bool) -> list[Column]:
    """Return the columns that identify a row."""
    columns = [
        *plain("dataset", "setting"),
        Column("optimizer", lambda row: OPTIMIZERS.get(row["optimizer"], NOTHING)),
        Column("ε", lambda row: number(row["epsilon"])),
    ]
    if features:
        columns.insert(1, Column("features", _features))
    return columns


def sources(frame: pd.DataFrame, over: str, words: Mapping[str, str]) -> list[Column]:
    """Return score and proved ε of the points by ``over``, of which ``words`` names some values."""
    shows = {"F1": score, "ε proved": guarantee}
    return beside(frame, KEY, over, words, shows, ("ε proved",), words.__getitem__)


# --- Table 1: published micro-F1 beside the three protocols ---


def score_table(
    results: Any,
    name: str,
    title: str,
    names: Sequence[str],
    places: Sequence[LayoutColumn],
    *,
    features: bool = False,
) -> Table:
    """Return the scores of every protocol next to those that table ``name`` prints.

    The paper's layout has a row for each combination of ``names``, and columns ``places``.
    """
    runs, table = with_baselines(results, points(results)), printed(results, name)
    paper = table[table["dataset"].isin(results.datasets)]
    at = by_key(paper)

    def published(row: dict[str, Any]) -> Cell:
        return Cell(number(at.get(key(row), {}).get("published"), 2), tone="published")

    columns = [*heads(features=features), Column("published", published),
               *sources(runs, "protocol", {name: name for name in results.protocols})]  # fmt: skip
    return Table(
        TITLE.format(title),
        runs.merge(paper, how="outer", on=KEY).sort_values([*KEY, "protocol"]),
        columns,
        (*results.protocol_notes(), *privacy_notes(runs)),
        panel="dataset",
        lines=lines(runs, paper),
        layout=in_layout(runs, table, names, places),
    )


def places(baselines: Mapping[str, str], settings: Mapping[str, str]) -> list[LayoutColumn]:
    """Return the columns of a table by dataset and ε: baselines, no DP, and groups of DP.

    Both mappings are from heads to settings.
    """
    once, optimizers = ("dataset",), list(OPTIMIZERS.items())
    return [
        naming("dataset", PAPERS, per=once),
        *(score_place(head, "", once, setting=of, features="", epsilon=math.nan)
          for head, of in baselines.items()),
        *(score_place(head, "Non-DP", once, setting="no DP", optimizer=name, epsilon=math.inf)
          for name, head in optimizers),
        LayoutColumn("ε", lambda row: number(row["epsilon"]), heading=True),
        *(score_place(head, group, setting=of, optimizer=name)
          for group, of in settings.items() for name, head in optimizers),
    ]  # fmt: skip


def _table1(results: Any) -> list[Block]:
    """Return the table."""
    groups = {"DP": "DP, full graph", "DP split (10)": "DP, 10 splits"}
    columns = places({"Maj.": "majority class"}, groups)
    title = "Table 1. Micro-F1 on the test nodes"
    return [score_table(results, "table1", title, ["dataset", "epsilon"], columns)]


TABLE1 = Exhibit(
    "table1",
    "Micro-F1 on the test nodes",
    groups=("table1",),
    build=_table1,
    meaning="Can the scores be reproduced, and how private are they really?",
)


# --- Table 2: micro-F1 on Pokec by kind of text features ---

DATASET = "pokec"
"""The paper's dataset."""


def _table2(results: Any) -> list[Block]:
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


TABLE2 = Exhibit(
    "table2",
    "Micro-F1 on the test nodes by kind of text features",
    groups=("table2", "sentence_bert"),
    build=_table2,
    meaning="Which text features are best on Pokec, with DP and without?",
)


# --- the leak: the gain from the text column that defines the label of Pokec ---

WITHOUT, WITH = "without pets", "with pets"


def _leak(results: Any) -> list[Table]:
    """Return scores under ``sound`` without and with the column, and the gain in points."""
    rows = points(results)
    rows = rows[(rows["protocol"] == "sound") & rows["dataset"].isin(_datasets(rows))]
    without, with_it = (rows[rows["group"] == group] for group in ("table2", "leak"))
    before, after = by_key(without), by_key(with_it)

    def gain(row: dict[str, Any]) -> str:
        pair = before.get(key(row)), after.get(key(row))
        return NOTHING if None in pair else f"{100 * (pair[1]['mean'] - pair[0]['mean']):+.1f}"

    columns = [*heads(features=True), Column("gain in points", gain),
               *sources(rows, "group", {"table2": WITHOUT, "leak": WITH})]  # fmt: skip
    frame = rows.sort_values([*KEY, "group"])
    notes = [
        *(note for note in results.protocol_notes() if note.startswith("sound")),
        LEAK_MEANING,
        f"gain in points: micro-F1 {WITH} minus {WITHOUT}, times 100.",
        *privacy_notes(rows),
    ]
    title = "The leak. What the text column that defines the label is worth"
    return [Table(TITLE.format(title), frame, columns, notes, "dataset", lines(rows))]


def _datasets(rows: pd.DataFrame) -> pd.Series:
    return rows.loc[rows["group"] == "leak", "dataset"]


LEAK_MEANING = (
    "The label is made from the column pets, so pets is the label's own definition: the points "
    "that are gained with it are read off the answer, and nothing of them is learned from the rest "
    "of the profile. The protocols released and paper keep the column, as the paper does; sound "
    "drops it. A gain within the deviations of its two scores is noise, as under DP where both "
    "score like guessing."
)
LEAK = Exhibit(
    "leak",
    "What the text column that defines the label is worth",
    groups=("table2", "leak"),
    build=_leak,
    meaning=LEAK_MEANING,
)
