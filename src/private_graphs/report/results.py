"""What exhibits are made of: tidy rows, points over seeds, statements, printed numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from private_graphs.core.errors import UserError
from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.datasets.registry import declared_graphs
from private_graphs.methods import all_methods
from private_graphs.report.audits import audited
from private_graphs.report.equal_jobs import JOB_NUMBER, RUN_NUMBER, number_jobs, select_shared
from private_graphs.report.published import published_rows
from private_graphs.report.rows import with_settings
from private_graphs.report.words import POOLED_WITH, RANDOM_MODEL, random_features
from private_graphs.running.exhibit import Block, Chart, Exhibit, Table
from private_graphs.running.store import Answers, tidy
from private_graphs.running.study import Study

POINT_COLUMNS = (
    "mean", "n", "status", "epsilon_claimed", "authors_epsilon", "epsilon_proved",
    "epsilon_all_runs", "n_runs_released", "unit", "relation", "inference", "vacuous",
    "noise_multiplier", "statement_id", "audit_epsilon_lower",
)  # fmt: skip
"""Columns of ``Results.points`` beside its keys and the spread.

``epsilon_proved`` is of one run with settings fixed in advance, ``epsilon_all_runs`` of the
``n_runs_released`` runs together: all seeds and compared settings. ``audit_epsilon_lower`` is what
an attack on the same code at the same claim shows at 99.9 % (docs/privacy.md §11).
"""
RANDOM_NOTE = (
    f"{RANDOM_MODEL}: no trained model read these texts, but a small one with random weights, in "
    "its place where nothing is downloaded; its scores say nothing of the trained one's."
)
POOL_NOTE = (
    "A cell that names its number of runs counts those of the same job in all run groups that make "
    "it, each with random streams of its own; its statement is of the runs of one group."
)
KEEP = "a graph of your own. This table holds scores and counts on private data: keep it."
_CONSTANT = 1e-12
"""A deviation below it is rounding."""


@dataclass(frozen=True)
class Results:
    """Results of a study at one scale, or those that are recorded."""

    study: Study
    scale: str
    """``demo``, ``full`` or ``recorded``."""
    rows: pd.DataFrame
    """Tidy rows of every source, those of other studies among them; a column for every setting."""
    statements: Mapping[str, Mapping[str, Any]]
    """By identifier, with the audits of their claims."""
    statistics: Sequence[Mapping[str, Any]] = ()
    """Of the datasets, one for each view of their raw files."""
    answers: Callable[[str], Answers] | None = None
    """From a job, ``<study>/<group>/<job>``, to what its runs predict."""
    pool: pd.DataFrame | None = None
    """Runs of jobs that several run groups made (``equal_jobs``), whatever ``rows`` has."""

    @classmethod
    def of(
        cls,
        study: Study,
        scale: str,
        rows: pd.DataFrame,
        statements: Mapping[str, Mapping[str, Any]],
        statistics: Sequence[Mapping[str, Any]] = (),
        answers: Callable[[str], Answers] | None = None,
    ) -> Results:
        """Join tidy ``rows`` with what the study's sources print, and statements with audits."""
        # a copy lies in few blocks: without it, a selection of rows takes half as long again
        whole = number_jobs(with_settings(tidy([rows, published_rows(study)])), statements).copy()
        datasets = {*study.datasets, *study.other_datasets}
        datasets |= {name for group in study.groups.values() for name in group.datasets or ()}
        datasets |= set(rows.loc[rows["study"] == study.id, "dataset"])
        about = [entry for entry in statistics if entry["name"] in datasets]
        documents = audited(rows, statements)
        return cls(study, scale, whole, documents, about, answers, select_shared(whole))

    def build(self, exhibit: Exhibit) -> list[Block]:
        """Return the blocks of an exhibit, made of the run groups that it reads.

        Raises UserError where none of these has a finished job.
        """
        if exhibit.statistics and not self.statistics:
            raise UserError(
                f"{self.study.id}.{exhibit.name}: no dataset has been built at scale {self.scale}; "
                f"run snakemake --config scale={self.scale} exhibits={self.study.id}.{exhibit.name}"
            )
        results = self.read_by(exhibit)
        nothing = results.runs.empty and results.audits.empty and results.leaks.empty
        if nothing and not self.study.on_request(exhibit.groups):
            raise UserError(
                f"{self.study.id}.{exhibit.name}: no finished job of "
                f"{' or '.join(exhibit.groups)}; "
                f"run some first (snakemake --config scale={self.scale} "
                f"exhibits={self.study.id}.{exhibit.name})"
            )
        blocks = [replace(block, colours=self.study.colours) if isinstance(block, Chart) else block
                  for block in exhibit.build(results)]  # fmt: skip
        return [_with_pool(_with_models(_marked_private(block))) for block in blocks]

    def title_of(self, dataset: str) -> str:
        """Return the displayed name of a dataset; of one that was not built, the name itself."""
        return {entry["name"]: entry["title"] for entry in self.statistics}.get(dataset, dataset)

    def with_rows(self, rows: pd.DataFrame) -> Results:
        """Return the results with other rows: some of these, say."""
        return replace(self, rows=rows)

    def read_by(self, exhibit: Exhibit) -> Results:
        """Return these results with the rows alone that an exhibit reads."""
        read = exhibit.rows_of(self.rows, self.study.id)
        return self.with_rows(self.rows[read | self._is("published")])

    def _is(self, *sources: str) -> pd.Series:
        return self.rows["source"].isin(sources)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """Rows that were run: neither printed nor audits."""
        return self.rows[self._is("own", "recorded")]

    def mask(self, **where: Any) -> np.ndarray:
        """Return which runs have the values ``where`` in their columns.

        A tuple or list has several values; None is no value, as in a column that is not there.
        """
        same = np.ones(len(self.runs), bool)
        for name, value in where.items():
            if name not in self.runs:
                same &= value is None
            elif value is None or isinstance(value, tuple | list):
                same &= self.runs[name].isin(value or (None, math.nan)).to_numpy()
            else:
                same &= (self.runs[name] == value).to_numpy(bool)
        return same

    def at(self, **where: Any) -> pd.DataFrame:
        """Return the runs with the values ``where`` in their columns (``mask``)."""
        return self.runs[self.mask(**where)]

    def scores(self, score: str = "test_accuracy", **where: Any) -> pd.Series:
        """Return a column of the runs at ``where`` by seed; empty without runs or column."""
        if score not in self.runs:
            return pd.Series(dtype=float)
        same = self.mask(**where)
        return self.runs[score][same].set_axis(self.runs["seed"][same]).sort_index()

    @cached_property
    def audits(self) -> pd.DataFrame:
        """Rows of audits."""
        return self.rows[self._is("audit")]

    @cached_property
    def leaks(self) -> pd.DataFrame:
        """Rows of attacks on trained models."""
        return self.rows[self._is("leaks")]

    def published(self, name: str) -> pd.DataFrame:
        """Return what the study's sources print under a name of the study file; columns with
        values alone."""
        printed = self.rows[self._is("published") & (self.rows["group"] == name)]
        return printed[printed["study"] == self.study.id].dropna(axis=1, how="all")

    @property
    def datasets(self) -> list[str]:
        """Datasets with runs, by name."""
        return sorted(self.runs["dataset"].unique())

    @property
    def protocols(self) -> list[str]:
        """Protocols with runs, in their order."""
        used = set(self.runs["protocol"])
        return [name for name in PROTOCOLS if name in used]

    def title(self, method: str) -> str:
        """Return a method's name in tables and legends."""
        known = all_methods()
        return known[method].title if method in known else method

    def statement(self, statement_id: str) -> Mapping[str, Any]:
        """Return a privacy statement with the audit of its claim."""
        return self.statements[statement_id]

    def points(
        self, by: Sequence[str], score: str = "test_micro_f1", spread: str = "std", **also: str
    ) -> pd.DataFrame:
        """Return one row per combination of ``by``: keys, ``POINT_COLUMNS`` and the spread.

        Runs with selected settings alone count; ``mean`` is NaN where none has the score.
        ``spread`` over the runs is ``std`` (n - 1; NaN for one run) or ``ci95``, half of Student's
        95 % interval of the mean. ``also`` names columns with the means of further scores,
        or with their deviations if a name ends with ``_std``. A column of ``by`` that is not there
        has no value. The runs of equal
        jobs of other run groups count too, unless ``by`` tells seeds apart: a column
        ``pooled_with`` then names these groups. Raises UserError where the runs of a point are of
        several jobs or statements, or repeat a seed: ``by`` then lacks a column, or finished jobs
        contradict each other.
        """
        rows = self.runs[self.runs["selected"].fillna(True).astype(bool)]
        rows = rows.assign(**{name: None for name in by if name not in rows})
        columns = [*by, *(name for name in (*POINT_COLUMNS, spread) if name not in by)]
        if rows.empty:
            return pd.DataFrame(columns=columns)
        groups = rows.groupby(list(by), dropna=False, sort=True)
        point = groups.ngroup()
        _check_points(rows, point, by)
        counted = rows.assign(point=point)
        extra = self.equal_runs(counted)
        if "seed" in by or score not in extra:
            extra = extra.iloc[:0]
        runs = pd.concat([counted, extra]) if len(extra) else counted
        scores = _moments(runs[score], runs["point"], spread)
        first = rows.loc[point[~point.duplicated()].sort_values().index]
        fields = {name: self._told(name) for name in first["statement_id"].unique()}
        frame = pd.DataFrame([
            row | fields[row["statement_id"]] | moments
            for row, moments in zip(
                first[list(dict.fromkeys([*by, "statement_id", "noise_multiplier"]))].to_dict(
                    "records"
                ),
                scores.to_dict("records"), strict=True,
            )
        ])  # fmt: skip
        if len(extra):
            names = (extra["study"] + "." + extra["group"]).groupby(extra["point"])
            frame[POOLED_WITH] = pd.Series(names.agg(lambda group: ", ".join(sorted({*group}))))
            columns.append(POOLED_WITH)
        if "noise_multiplier" not in by:
            private = frame["status"] != "not_private"
            frame["noise_multiplier"] = frame["noise_multiplier"].where(private)
        frame = frame[columns]
        for name, column in also.items():
            moments = _moments(runs[column], runs["point"], "std")
            frame = frame.assign(**{name: moments["std" if name.endswith("_std") else "mean"]})
        return frame

    def equal_runs(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the runs of equal jobs that are not among ``rows``, of each ``point`` of these."""
        if self.pool is None:
            return rows.iloc[:0]
        jobs = rows[[JOB_NUMBER, "point"]].drop_duplicates()
        places = self.pool[[JOB_NUMBER, RUN_NUMBER]].assign(place=np.arange(len(self.pool)))
        runs = places.merge(jobs, on=JOB_NUMBER)
        known = pd.MultiIndex.from_frame(rows[[RUN_NUMBER, "point"]])
        runs = runs[~pd.MultiIndex.from_frame(runs[[RUN_NUMBER, "point"]]).isin(known)]
        return self.pool.iloc[runs["place"]].set_axis(runs.index).assign(point=runs["point"])

    def _told(self, statement_id: str) -> dict[str, Any]:
        """Return the columns of a point that its statement tells."""
        statement = self.statements[statement_id]
        private = statement["status"] != "not_private"
        values = {
            "epsilon_claimed": statement["epsilon_published"],
            "authors_epsilon": statement["authors_accountant_epsilon"],
            **{name: statement[name] for name in (
                "epsilon_proved", "epsilon_all_runs", "n_runs_released", "unit", "relation")},
            "audit_epsilon_lower": statement["audit"] and statement["audit"]["epsilon_lower"],
        }  # fmt: skip
        return {name: value if private else None for name, value in values.items()} | {
            name: statement[name] for name in ("status", "inference", "vacuous")
        }

    def predictions(self, rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Return (R, M) classes that R ``rows`` predict on one dataset, and its (M,) labels.

        Raises UserError where the labels of the test records were not kept.
        """
        jobs, answers = self._answers_of(rows)
        for job, answer in answers.items():
            if answer is None or answer.labels is None:
                raise UserError(
                    f"{job}: no labels of its test records; expected those that a run with a kept "
                    "seed leaves beside its predictions: run the job again, or leave out the "
                    "exhibits that look at single records"
                )
        classes = [
            answers[job].classes[answers[job].replicas.index(replica)]
            for job, replica in zip(jobs, rows["replica_id"], strict=True)
        ]
        return np.array(classes), answers[jobs.iloc[0]].labels

    def _answers_of(self, rows: pd.DataFrame) -> tuple[pd.Series, dict[str, Answers | None]]:
        """Return the job of each row, and the answers of these jobs."""
        jobs = rows["study"] + "/" + rows["group"] + "/" + rows["job"]
        return jobs, {job: self.answers(job) if self.answers else None for job in jobs.unique()}

    def artifacts(self, rows: pd.DataFrame, name: str) -> list[np.ndarray | None]:
        """Return what the run of each row keeps under ``name``; None where it keeps nothing."""
        jobs, answers = self._answers_of(rows)
        return [
            answers[job] and answers[job].artifacts.get(f"{replica}/{name}")
            for job, replica in zip(jobs, rows["replica_id"], strict=True)
        ]

    def baseline(self, by: Sequence[str], score: str, spread: str = "std") -> pd.DataFrame:
        """Return keys, mean, n and spread of a baseline that every run carries, once per seed.

        ``score`` is such as ``majority_micro_f1``. A baseline that is the same for all seeds has
        no spread. Where the draws of runs differ, the first job at the smallest ε counts.
        """
        order = ["features", "job", "epsilon", "settings", "replica_id"]
        once = self.runs.sort_values(order).drop_duplicates([*by, "seed"])
        point = once.groupby(list(by), sort=True).ngroup()
        places = once.loc[point[~point.duplicated()].sort_values().index, list(by)]
        frame = places.reset_index(drop=True).join(_moments(once[score], point, spread))
        return frame.assign(**{spread: frame[spread].where(frame[spread] > _CONSTANT)})

    def protocol_notes(self) -> list[str]:
        """Return a line for each protocol: what it stands for in the methods that ran."""
        known, notes = all_methods(), []
        for name in self.protocols:
            methods = self.runs.loc[self.runs["protocol"] == name, "method"].unique()
            summaries = {known[method].protocols[name].summary for method in methods}
            summary = summaries.pop() if len(summaries) == 1 else PROTOCOLS[name].summary
            notes.append(f"{name}: {summary}.")
        return notes


def _check_points(rows: pd.DataFrame, point: pd.Series, by: Sequence[str]) -> None:
    """Raise UserError for points (by number) whose runs are of several jobs, or repeat a seed."""

    def of(number: int) -> tuple[pd.DataFrame, str]:
        same = rows[point == number]
        return same, ", ".join(f"{name} {same[name].iloc[0]}" for name in by)

    for name in ("study", "group", "job", "statement_id", "noise_multiplier"):
        several = rows[name].groupby(point).nunique(dropna=False) > 1
        if several.any():
            same, key = of(several.idxmax())
            raise UserError(
                f"one place for {key}, but its runs have several values of {name}: "
                f"{', '.join(sorted(map(str, same[name].unique())))}; tell them apart, or remove "
                "the jobs that do not belong there"
            )
    twice = pd.DataFrame({"point": point, "seed": rows["seed"]}).duplicated()
    if twice.any():
        same, key = of(point[twice].min())
        first = same.iloc[0]
        raise UserError(
            f"{first['study']}/{first['group']}/{first['job']}: a seed twice for {key}; tell "
            "the runs apart, or remove the job and run it again"
        )


def _moments(values: pd.Series, point: pd.Series, spread: str) -> pd.DataFrame:
    """Return mean, n and spread of the values of every point, in the order of its number."""
    order = np.argsort(point.to_numpy(), kind="stable")
    ends = np.cumsum(np.bincount(point.to_numpy()))[:-1]
    rows = []
    for part in np.split(values.to_numpy(dtype=float)[order], ends):
        known = part[~np.isnan(part)]
        n, std = len(known), known.std(ddof=1) if len(known) > 1 else math.nan
        half = stdtrit(n - 1, 0.975) * std / n**0.5 if spread == "ci95" and n > 1 else std
        rows.append({"mean": known.mean() if n else math.nan, "n": n, spread: half})
    return pd.DataFrame(rows, columns=["mean", "n", spread])


def _with_pool(block: Block) -> Block:
    """Say what it means that some cells count the runs of several run groups."""
    if not isinstance(block, Table | Chart) or POOLED_WITH not in block.frame:
        return block
    if block.frame[POOLED_WITH].notna().any():
        return replace(block, notes=(*block.notes, POOL_NOTE))
    return replace(block, frame=block.frame.drop(columns=POOLED_WITH))


def _marked_private(block: Block) -> Block:
    """Say first which rows are of users' own graphs: no statement covers their scores."""
    if not isinstance(block, Table) or "dataset" not in block.frame:
        return block
    notes = (f"{name}: {KEEP}" for name in declared_graphs(block.frame["dataset"].dropna()))
    return replace(block, notes=(*notes, *block.notes))


def _with_models(block: Block) -> Block:
    """Say of features which model made them where it is one with random weights."""
    if not isinstance(block, Table) or not {"dataset", "features"} <= {*block.frame}:
        return block
    columns = block.frame[["features", "dataset"]].fillna("")
    places = list(columns.itertuples(index=False, name=None))
    is_random = {pair: all(pair) and random_features(*pair) for pair in set(places)}
    if not any(is_random.values()):
        return block
    frame = block.frame.assign(model=[RANDOM_MODEL if is_random[pair] else "" for pair in places])
    return replace(block, frame=frame, notes=(*block.notes, RANDOM_NOTE))
