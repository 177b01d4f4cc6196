"""Tables of scores: what stands in their rows and columns, and their numbers from finished runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from private_graphs.datasets.views import SOUND_WITH_LABEL
from private_graphs.protocols import PROTOCOLS
from private_graphs.reporting.formats import is_missing
from private_graphs.reporting.scores import SCORE_COLUMNS, score_values

BASELINES = ("majority", "random")
"""Settings without training; they have neither features nor optimizer nor epsilon."""

SETTINGS = (*BASELINES, "non_private", "non_private_split", "dp_full", "dp_split")
"""Settings in the order of the rows."""

OPTIMIZERS = ("", "sgd", "adam")
"""Optimizers in the order of the rows; baselines have none."""

FEATURES = ("", "raw", "bow", "fasttext", "bert", "sbert")
"""Kinds of features in the order of the rows."""

SOURCE_COLUMNS = SCORE_COLUMNS
"""Columns of a table of scores for each source, behind its prefix: ``released_mean``, …"""

_SETTING_KEY = ("setting", "optimizer", "epsilon")


@dataclass(frozen=True)
class Source:
    """A column group of a table: the runs that fill it."""

    prefix: str
    """Of its columns in the CSV."""
    heading: str
    experiment: str
    protocol: str
    view: str | None = None
    """Only runs on this view of the raw files; None: whichever the experiment was trained on."""

    def runs(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return those of ``runs`` that belong here."""
        mine = (runs["experiment"] == self.experiment) & (runs["protocol"] == self.protocol)
        return runs[mine if self.view is None else mine & (runs["view"] == self.view)]


@dataclass(frozen=True)
class ScoreTable:
    """A table of micro-F1 scores of a study."""

    name: str
    """Also of the experiment that it is made for, and of its files."""
    label: str
    title: str
    sources: tuple[Source, ...]
    panel: tuple[str, ...] = ("dataset",)
    """Columns that name a group of rows: a panel of the picture, a table of the page."""
    difference: bool = False
    """Compares its two sources: the second minus the first, in points. It has neither published
    values nor baselines."""
    published_dataset: str | None = None
    """The paper's dataset, where what it prints does not name one."""
    meaning: str = ""
    """What a reader may conclude, in a sentence or two."""

    @property
    def key(self) -> tuple[str, ...]:
        """What names a row."""
        return (*self.panel, *_SETTING_KEY)

    @property
    def lead(self) -> str:
        """The column of numbers that stands before the sources."""
        return "difference_points" if self.difference else "published"

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of its CSV.

        ``released_authors_epsilon`` is what the authors' own accountant prints where it differs
        from the formula.
        """
        found = [*self.key, "splits", self.lead]
        for source in self.sources:
            found += [f"{source.prefix}_{name}" for name in SOURCE_COLUMNS]
            if source.protocol == "released":
                found.append(f"{source.prefix}_authors_epsilon")
        return tuple(found)

    def groups(self, frame: pd.DataFrame) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
        """Yield the values of ``panel`` and the rows of every group, its baselines first."""
        baseline = frame["setting"].isin(BASELINES)
        keys = frame.loc[~baseline, list(self.panel)].drop_duplicates()
        for values in keys.to_dict("records"):
            same = pd.Series(True, index=frame.index)
            for name, value in values.items():
                same &= frame[name] == value
            yield values, frame[same | baseline & (frame["dataset"] == values["dataset"])]


def _by_protocol(experiment: str) -> tuple[Source, ...]:
    return tuple(Source(name, name, experiment, name) for name in PROTOCOLS)


SCORE_TABLES: dict[tuple[str, str], ScoreTable] = {
    ("lrec2022", each.name): each
    for each in (
        ScoreTable(
            "table1",
            "Table 1",
            "Micro-F1 on the test nodes",
            _by_protocol("table1"),
        ),
        ScoreTable(
            "table2",
            "Table 2",
            "Micro-F1 on the test nodes by kind of text features",
            _by_protocol("table2"),
            panel=("dataset", "features_kind"),
            published_dataset="pokec",
        ),
        ScoreTable(
            "leak",
            "The leak",
            "What the text column that defines the label is worth",
            (
                Source("without", "without pets", "table2", "sound"),
                Source("with", "with pets", "leak", "sound", SOUND_WITH_LABEL.name),
            ),
            panel=("dataset", "features_kind"),
            difference=True,
            meaning=(
                "The label is made from the column pets, so pets is the label's own definition: "
                "the points that are gained with it are read off the answer, and nothing of them "
                "is learned from the rest of the profile. The protocols released and paper keep "
                "the column, as the paper does; sound drops it. A gain within the deviations of "
                "its two scores is noise, as under DP where both score like guessing."
            ),
        ),
    )
}
"""The tables of scores of each study; ``studies/*.yaml`` says what their experiments train."""


def score_tables_of(study: str) -> tuple[ScoreTable, ...]:
    """Return the tables of scores of ``study`` in the order of the page."""
    return tuple(each for (owner, _), each in SCORE_TABLES.items() if owner == study)


def score_table(
    table: ScoreTable,
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
    published: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return the rows of ``table`` with the columns ``table.columns``.

    ``runs`` and ``statements`` are those of all finished cells, ``published`` the table as the
    paper prints it. There is a row for every place that is published for, or was trained on, a
    dataset that the experiment of the table has runs of. Scores are micro-F1 (0…1) on the test
    nodes; means and standard deviations (ddof 1, NaN for one seed) are over the seeds of the
    selected replicas.

    Raises UserError where two different cells, learning rates or noises claim one place.
    """
    datasets = set(runs.loc[runs["experiment"] == table.name, "dataset"])
    places: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in _published_rows(table, published, datasets):
        places.setdefault(_key(table, row), {})["published"] = row["micro_f1"]
    for source in table.sources:
        mine = source.runs(runs[runs["dataset"].isin(datasets)])
        for row, values in _filled(table, mine, statements):
            place = places.setdefault(_key(table, row), {})
            place |= {"splits": row["splits"]} if "splits" in row else {}
            place |= {f"{source.prefix}_{name}": value for name, value in values.items()}
    if table.difference:
        for place in places.values():
            place["difference_points"] = _difference(table, place)
    rows = [
        dict(zip(table.key, key, strict=True)) | places[key]
        for key in sorted(places, key=lambda each: _order(table, each))
    ]
    return pd.DataFrame(rows, columns=list(table.columns))


def published_rows(table: ScoreTable, published: pd.DataFrame) -> pd.DataFrame:
    """Return what the paper prints with the columns ``table.key`` and ``micro_f1``."""
    found = published.rename(columns={"features": "features_kind"})
    if table.published_dataset:
        found = found.assign(dataset=table.published_dataset)
    if "setting" not in found:
        found = found.assign(setting=[_setting(1, each) for each in found["epsilon"]])
    return found[[*table.key, "micro_f1"]]


def _published_rows(
    table: ScoreTable, published: pd.DataFrame | None, datasets: set[str]
) -> list[dict[str, Any]]:
    if published is None:
        return []
    found = published_rows(table, published)
    return found[found["dataset"].isin(datasets)].to_dict("records")


def _filled(
    table: ScoreTable, runs: pd.DataFrame, statements: Mapping[str, Mapping[str, Any]]
) -> Iterable[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the place and ``score_values`` of every row of ``table`` that ``runs`` fill."""
    runs = runs.rename(columns={"features": "features_kind"})
    names = [*table.panel, "n_splits", "optimizer", "epsilon"]
    chosen = runs[runs["selected"].astype(bool)] if len(runs) else runs
    for values, group in chosen.groupby(names, sort=True):
        row = dict(zip(names, values, strict=True))
        splits = int(row.pop("n_splits"))
        row |= {"splits": splits, "setting": _setting(splits, row["epsilon"])}
        where = " ".join(str(each) for each in _key(table, row))
        yield row, score_values(group, statements, f"{table.label} has one place for {where}")
    if not table.difference:
        yield from _baselines(runs)


def _baselines(runs: pd.DataFrame) -> Iterable[tuple[dict[str, Any], dict[str, Any]]]:
    order = ["features_kind", "optimizer", "n_splits", "epsilon", "lr", "replica_id"]
    # Every replica carries the baselines of its seed; one per seed counts.
    once = runs.sort_values(order).drop_duplicates(["dataset", "seed"])
    for dataset, group in once.groupby("dataset", sort=True):
        for setting in BASELINES:
            scores = group[f"{setting}_micro_f1"]
            row = {"dataset": dataset, "setting": setting}
            yield row, {"mean": scores.mean(), "std": scores.std(ddof=1), "seeds": len(scores)}


def _setting(splits: int, epsilon: float) -> str:
    kind = "non_private" if math.isinf(epsilon) else "dp"
    return kind + ("_split" if splits > 1 else ("_full" if kind == "dp" else ""))


def _key(table: ScoreTable, row: Mapping[str, Any]) -> tuple[Any, ...]:
    epsilon = row.get("epsilon")
    words = ("" if is_missing(row.get(name)) else row[name] for name in table.key[:-1])
    return (*words, None if is_missing(epsilon) else float(epsilon))


def _difference(table: ScoreTable, place: Mapping[str, Any]) -> float | None:
    first, second = (place.get(f"{source.prefix}_mean") for source in table.sources)
    return None if first is None or second is None else 100 * (second - first)


def _order(table: ScoreTable, key: tuple[Any, ...]) -> tuple[Any, ...]:
    row = dict(zip(table.key, key, strict=True))
    features = row.get("features_kind", "")
    return (
        row["dataset"], rank(FEATURES, features), features, SETTINGS.index(row["setting"]),
        row["epsilon"] or 0, OPTIMIZERS.index(row["optimizer"]),
    )  # fmt: skip


def rank(order: Sequence[str], name: str) -> int:
    """Return the position of ``name`` in ``order``; what is not there comes last."""
    return order.index(name) if name in order else len(order)
