"""Tables 3.1 to 3.4: students beside the numbers that the thesis prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from private_graphs.report.claims import interval
from private_graphs.report.columns import arranged, beside, percent, plain
from private_graphs.report.layout import LayoutColumn, laid_out, naming, rows_of, score_lines
from private_graphs.report.words import guarantee, missing, number, privacy_notes, score_of
from private_graphs.running.exhibit import Block, Cell, Column, Exhibit, Layout, LayoutCell, Table
from private_graphs.studies.pate.methods.pate_student import FRAMEWORKS

DATASETS = {"fashion-mnist-students": "Fashion-MNIST", "svhn": "SVHN"}
"""The thesis's names."""
SYMBOLS = {"epsilon": "ε", "beta": "β", "tau": "τ", "line": "framework"}
RATIOS = ["framework", "beta", "tau"]
SETTINGS = {"beta": 0.2, "tau": 0.318}
"""Settings of the main rows of all tables."""
LABEL_NOTES = (
    "All students of a budget, protocol and seed learn from the same released labels and start "
    "from the same weights. β, τ and α are the thesis's, which chose them by a grid search on "
    "images that it does not name.",
    "Both budgets and all seeds read the same private images: releasing all of it composes "
    "(epsilon_of_file in the statements).",
)
NOTES = (
    "Accuracy in % on the last 1,000 test images (500 of the embedded digits) ± standard deviation "
    "over the seeds, after the last epoch; 1,000 images alone give a standard error of 1.2 to 1.4 "
    "points. The first 9,000 test images are the student's public pool and score nothing.",
    *LABEL_NOTES,
)


def line_of(row: Mapping[str, Any], ratios: bool = False) -> str:
    """Return the name of a framework, with β and τ unless they are the main ones."""
    name = FRAMEWORKS[row["framework"]]
    parts = [f"β = {number(row['beta'])}"] if ratios or row["beta"] != SETTINGS["beta"] else []
    if row["framework"] == "pate_plus_plus" and (ratios or row["tau"] != SETTINGS["tau"]):
        parts.append(f"τ = {number(row['tau'])}")
    return ", ".join([name, *parts])


def points(results: Any) -> pd.DataFrame:
    """Return a row per job, protocol and ε of the students, with ``line`` and ``gain``.

    ``gain`` is (mean, low, high) of the difference to PATE over the seeds that both have.
    """
    by = ["dataset", "group", "method", "protocol", "job", "epsilon", *RATIOS]
    frame = results.points(by, score="test_accuracy")
    frame = frame[frame["method"] == "pate_student"].copy()
    frame["line"] = [line_of(row) for row in frame.to_dict("records")]
    runs = results.runs.set_index(["job", "group", "epsilon", "seed"])["test_accuracy"].sort_index()
    plain = frame[frame["framework"] == "pate"]
    of = {(row["dataset"], row["protocol"], row["epsilon"]): row
          for row in plain.to_dict("records")}  # fmt: skip

    def gain(row: Mapping[str, Any]) -> Any:
        base = of.get((row["dataset"], row["protocol"], row["epsilon"]))
        if base is None or row["framework"] == "pate":
            return None
        values, reference = (
            runs.loc[point["job"], point["group"], point["epsilon"]] for point in (row, base)
        )
        return interval((100 * (values - reference)).dropna())

    frame["gain"] = [gain(row) for row in frame.to_dict("records")]
    return frame


def in_percent(value: Any) -> Cell:
    """Format a printed accuracy."""
    return Cell() if missing(value) else Cell(number(100 * value, 1), tone="published")


def gain_cell(row: Mapping[str, Any]) -> Cell:
    """Format a paired difference with its 95 % interval."""
    measured = row["gain"]
    if missing(measured):
        return Cell()
    if math.isinf(measured.low):
        return Cell(f"{measured.value:+.1f}")
    return Cell(f"{measured.value:+.1f} [{measured.low:+.1f}, {measured.high:+.1f}]")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else number(value)


def network_note(results: Any) -> str:
    """Return a note on the networks of the runs, if they are not the thesis's."""
    runs = results.runs[results.runs["method"] == "pate_student"]
    names = ("teachers", "teacher_network", "network", "epochs", "learning_rate")
    texts = ("teachers", "teachers' network", "students' network", "epochs", "learning rate")
    known = [
        f"{words} {', '.join(map(_shown, sorted(runs[name].dropna().unique())))}"
        for name, words in zip(names, texts, strict=True)
    ]
    return (
        f"Here: {'; '.join(known)}. The thesis's networks are 250 deep ones, and deep students "
        "(scale full)."
    )


def score_table(
    results: Any, title: str, frame: pd.DataFrame, name: str, listed: Sequence[str], over: str,
    *, headings: Sequence[str] | None = None, more: Sequence[Column] = (),
    placed: pd.DataFrame | None = None, notes: Sequence[str] = NOTES,
) -> Table:  # fmt: skip
    """Return students beside the numbers that are printed under ``name``, in two forms.

    Long: a line for each value of dataset and ``listed``, with ``more`` columns, and protocols side
    by side. As in the thesis: a row for each value of dataset and ``listed`` but ``over``, of which
    each value is a column; rows are named by ``headings``, by default all of them. ``placed`` are
    the points of this form, by default those of the other.
    """
    key = ["dataset", *listed]
    paper = results.published(name)
    paper = paper.assign(line=paper["framework"].map(FRAMEWORKS))
    printed = {tuple(row[k] for k in key): row["accuracy_percent"] / 100
               for row in paper.to_dict("records")}  # fmt: skip
    frame = frame.copy()
    accuracies = [printed.get(tuple(row[k] for k in key)) for row in frame.to_dict("records")]
    frame.insert(frame.columns.get_loc("gain") + 1, "published", accuracies)
    shows = {"accuracy": percent, "minus PATE": gain_cell, "ε proved": guarantee}
    columns = [
        *plain("dataset"),
        *(Column(SYMBOLS.get(name, name), lambda row, name=name: _text(row, name))
          for name in listed),
        *more,
        Column("printed", lambda row: in_percent(row["published"])),
        *beside(frame, key, "protocol", results.protocols, shows),
    ]  # fmt: skip
    numbers = frame.drop(columns="gain").assign(
        gain=[gain.value if gain else None for gain in frame["gain"]],
        gain_low=[gain.low if gain else None for gain in frame["gain"]],
        gain_high=[gain.high if gain else None for gain in frame["gain"]],
    )
    rows = [name for name in key if name != over]
    layout = _layout(paper, frame if placed is None else placed, rows, over, headings or rows[1:])
    notes = (network_note(results), *results.protocol_notes(), *notes, *privacy_notes(frame))
    lines = frame.drop_duplicates(key)
    return Table(title, numbers, columns, notes, "dataset", lines, layout=layout)


def _text(row: Mapping[str, Any], name: str) -> str:
    """Return the text of a row's value in a column that names rows or columns."""
    value = row[name]
    return number(value) if name in ("epsilon", "beta", "tau") else FRAMEWORKS.get(value, value)


def _layout(
    paper: pd.DataFrame, frame: pd.DataFrame, rows: Sequence[str], over: str,
    headings: Sequence[str],
) -> Layout:  # fmt: skip
    """Return printed and own accuracies: a row for each combination of ``rows``, a column for each
    value of ``over``."""

    def key(row: Mapping[str, Any]) -> tuple:
        return tuple(row[name] for name in (*rows, over))

    def heading(name: str) -> LayoutColumn:
        above = () if name == rows[-1] else rows[: rows.index(name) + 1]
        return LayoutColumn(SYMBOLS.get(name, name), lambda row: _text(row, name), heading=True,
                            per=above)  # fmt: skip

    scores = frame.sort_values([*rows, over], kind="stable")
    places = [
        naming("dataset", DATASETS, per=("dataset",)),
        *map(heading, headings),
        *(LayoutColumn(_text({over: value}, over),
                       lambda row, value=value: key(row | {over: value}),
                       "" if over == "line" else SYMBOLS.get(over, ""))
          for value in dict.fromkeys([*paper[over], *scores[over]])),
    ]  # fmt: skip
    printed = {key(row): LayoutCell(number(row["accuracy_percent"], 1))
               for row in paper.to_dict("records")}  # fmt: skip
    lines = score_lines(scores.to_dict("records"), key, 1, 100)
    return laid_out(rows_of(rows, paper, scores), places, printed, lines)


# --- Table 3.1: the four frameworks at two budgets, and their baselines ---

GROUPS = ("teachers", "labels", "unchecked", "clean", "plus", "students")
LINES = {
    "teachers": "plurality of the teachers",
    "labels": "classifier of the labels alone",
    "unchecked": "classifier of labels without a check",
    "clean": "classifier of as many true labels",
}
"""Baselines of the students, by run group."""
AROUND_NOTES = (
    "labels: share of the released labels that is right; of the teachers, of the plurality on the "
    "whole pool. Classifiers learn from labels alone, without a generator.",
    "2018 script: what the data-dependent analysis of Papernot et al. 2018 gives for σ2 = 40 (of "
    "250 teachers), in a run over the whole pool. It is no guarantee: the number is computed from "
    "the votes of private teachers, and itself leaks about them.",
)


def _table3_1(results: Any) -> list[Block]:
    """Return the frameworks and their baselines."""
    by = ["dataset", "epsilon", "framework", "tau"]
    frame = arranged(points(results), by, framework=FRAMEWORKS)
    title = "Table 3.1. Test accuracy of the student"
    # At 5.04 the thesis prints no τ: the printed number is next to the main one.
    return [
        score_table(results, title, frame, "table3_1", ["epsilon", "line"], "line"),
        _around(results),
    ]


def _around(results: Any) -> Table:
    runs = results.runs[results.runs["group"].isin(LINES)]
    by = ["dataset", "group", "method", "protocol", "job", "epsilon"]
    part = results.with_rows(runs)
    frame = part.points(by, "test_accuracy", right="label_accuracy", right_std="label_accuracy")
    names = ["labels", "noise_multiplier", *(n for n in runs if n.startswith("diagnostic"))]
    means = runs.groupby(by)[names].mean().reset_index()
    frame = frame.drop(columns="noise_multiplier").merge(means, on=by)
    frame["line"] = frame["group"].map(LINES)
    frame = arranged(frame, ["dataset", "group", "epsilon", "protocol"], group=LINES)
    columns = [
        *plain("dataset", {"what": "line"}),
        Column("protocol", lambda row: "" if row["group"] in ("teachers", "clean")
               else row["protocol"]),
        Column("ε", lambda row: number(row["epsilon"])),
        Column("σ2", lambda row: number(row["noise_multiplier"] or None)),
        Column("labels", lambda row: number(row["labels"], 0)),
        Column("right, %", partial(score_of, name="right", decimals=1, times=100)),
        Column("accuracy", percent),
        Column("ε by the 2018 script", _diagnostic),
    ]  # fmt: skip
    notes = (*AROUND_NOTES, *privacy_notes(frame))
    return Table("Around Table 3.1", frame, columns, notes, "dataset")


def _diagnostic(row: dict[str, Any]) -> str:
    if pd.isna(row.get("diagnostic_epsilon")):
        return ""
    return (
        f"{number(row['diagnostic_epsilon'], 2)}, no guarantee: "
        f"{number(row['diagnostic_labels'], 0)} labels of {number(row['diagnostic_queries'], 0)} "
        f"queries, {number(100 * row['diagnostic_label_accuracy'], 1)} % right"
    )


TABLE3_1 = Exhibit(
    "table3_1",
    "Accuracy of the student",
    GROUPS,
    _table3_1,
    meaning="The four frameworks learn from the same noisy labels at two budgets. Which printed "
    "gains survive paired seeds, and what is the true ε?",
)


# --- Table 3.2: accuracy against β, the share of the labels that is assumed to be wrong ---

SHOWN = ("pate_coteaching", "pate_plus")
BOLD_NOTE = (
    "The thesis prints β = 0.2 in bold; for PATE+ its own numbers at 0.3 and 0.4 are higher (77.3 "
    "and 77.4 against 76.5)."
)


def _table3_2(results: Any) -> list[Block]:
    """Return the table; β = 0.2 are runs of Table 3.1."""
    frame = points(results)
    frame = frame[frame["framework"].isin(SHOWN)]
    # The budget of the table is the one at which β varies.
    several = frame.groupby(["dataset", "epsilon"])["beta"].transform("nunique")
    frame = frame[several > 1].sort_values(["dataset", "framework", "beta"])
    shown = ["epsilon", "framework", "beta"]
    table = score_table(results, "Table 3.2. Test accuracy against β", frame, "table3_2", shown,
                        "beta", headings=["framework"])  # fmt: skip
    return [table, BOLD_NOTE]


TABLE3_2 = Exhibit(
    "table3_2",
    "Accuracy against the share of labels taken to be wrong",
    ("plus", "students", "noise_ratios"),
    _table3_2,
    meaning="Does the share of labels that co-teaching leaves out matter?",
)


# --- Table 3.3: accuracy of PATE++ against τ, the share of the labels that it removes ---

DECAY_NOTE = (
    "removed: labels that PATE++ takes away, and the share of them that is wrong. The count of "
    "suspicious epochs decays by α = 0.9 in each, so that what happened more than some 20 epochs "
    "before the end hardly counts: suspicion is that of the last stage of training, not of the "
    "second, which the thesis argues with. Read literally, line 16 of Algorithm 3 only rescales "
    "the count (setting decay)."
)


def _table3_3(results: Any) -> list[Block]:
    """Return the table; τ = 0.318 and PATE+ (τ = 0) are runs of Table 3.1."""
    frame = points(results)
    frame = frame[frame["framework"].isin(["pate_plus", "pate_plus_plus"])].copy()
    plus = frame["framework"] == "pate_plus"
    frame["tau"] = frame["tau"].where(~plus, 0.0)
    several = frame.groupby(["dataset", "epsilon"])["tau"].transform("nunique")
    frame = frame[several > 2].sort_values(["dataset", "tau"])
    runs = results.runs
    means = runs.assign(
        wrong=100 * runs["removed_wrong"] / runs["removed"]
    ).groupby(["group", "job", "epsilon"])[["removed", "wrong"]].mean()  # fmt: skip
    frame = frame.merge(means, how="left", on=["group", "job", "epsilon"])
    table = score_table(
        results, "Table 3.3. Test accuracy of PATE++ against τ", frame, "table3_3",
        ["epsilon", "tau"], "framework", more=[Column("removed", _removed)],
        placed=frame.assign(framework="pate_plus_plus"),
    )  # fmt: skip
    return [table, DECAY_NOTE]


def _removed(row: dict[str, Any]) -> str:
    if pd.isna(row["removed"]):
        return "none: PATE+"
    return f"{number(row['removed'], 0)}, {number(row['wrong'], 1)} % wrong"


TABLE3_3 = Exhibit(
    "table3_3",
    "Accuracy against the share of labels removed",
    ("plus", "students", "removal_ratios"),
    _table3_3,
    meaning="Does removing suspicious labels help, and how many of the removed labels are wrong?",
)


# --- Table 3.4: SVHN, from published votes; without the raw files the printed numbers ---

ABSENT = "raw files absent"
SVHN_TITLE = "Table 3.4. SVHN"
SOURCES_NOTE = (
    "The thesis takes the votes of 250 teachers that the authors of PATE published, and the two "
    ".mat files of SVHN. With these files in a mirror or on the network: snakemake --cores all "
    "--config scale=reduced exhibits=pate.table3_4 datasets=svhn. No other images stand in for "
    "them."
)
PRICE_NOTE = (
    "ε by data-independent analysis: σ2 = 40, which the authors' script uses, would cost "
    "12.05 for 3,000 answers alone (10.58 by exact Gaussian DP) at δ = 1e-6."
)
TEST_NOTE = (
    "Accuracy in % on the last 16,032 test images ± standard deviation over the seeds, after the "
    "last epoch. The first 10,000 test images are the student's public pool and score nothing. The "
    "votes are the same for all seeds; τ = 0.4 for PATE++."
)


def _table3_4(results: Any) -> list[Block]:
    """Return the table of runs if there are any, else of printed numbers."""
    frame = points(results)
    frame["line"] = frame["framework"].map(FRAMEWORKS)
    frame = arranged(frame, ["epsilon", "framework"], framework=FRAMEWORKS)
    notes = (TEST_NOTE, *LABEL_NOTES, SOURCES_NOTE, PRICE_NOTE)
    table = score_table(results, SVHN_TITLE, frame, "table3_4", ["epsilon", "line"], "line",
                        notes=notes)  # fmt: skip
    return [replace(_printed(results), layout=table.layout) if frame.empty else table]


def _printed(results: Any) -> Table:
    frame = results.published("table3_4").sort_values("epsilon", kind="stable")
    frame["published"] = frame["accuracy_percent"] / 100
    columns = [
        *plain({"ε": "epsilon", "δ": "delta"}),
        Column("framework", lambda row: FRAMEWORKS[row["framework"]]),
        Column("printed", lambda row: in_percent(row["published"])),
        Column("ours", lambda row: Cell(ABSENT)),
    ]
    keep = ["epsilon", "delta", "framework", "published"]
    return Table(SVHN_TITLE, frame[keep], columns, (SOURCES_NOTE, PRICE_NOTE))


TABLE3_4 = Exhibit(
    "table3_4",
    "SVHN",
    ("svhn_plus", "svhn_students"),
    _table3_4,
    meaning="The four frameworks learn from published votes on house numbers.",
)
