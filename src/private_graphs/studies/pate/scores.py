"""Shared code of the study's tables: points with line names, printed numbers, gains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from private_graphs.report.claims import interval
from private_graphs.report.columns import beside, percent, plain
from private_graphs.report.layout import LayoutColumn, laid_out, naming, rows_of, score_lines
from private_graphs.report.words import guarantee, missing, number, privacy_notes
from private_graphs.running.exhibit import Cell, Column, Layout, LayoutCell, Table
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
