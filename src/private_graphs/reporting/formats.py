"""One table in three formats: CSV for programs, Markdown and LaTeX for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from private_graphs.files import write_text

NOTHING = "–"
"""What a reader sees where there is no value."""

_TEXT_COLUMNS = (
    "dataset", "setting", "optimizer", "title", "licence", "fingerprint", "unit", "relation",
    "inference", "status", "statement_id", "protocol", "published_where",
    "features_kind", "view", "visits", "verdict", "method", "source",
)  # fmt: skip
_FLAG_COLUMNS = ("vacuous", "synthetic", "fits_tuning_labels", "above_public", "chosen")
_FOUR_DECIMALS = (
    "mean",
    "std",
    "epsilon_published",
    "epsilon_proved",
    "epsilon_all_runs",
    "epsilon_lower",
    "epsilon_lower_gaussian",
    "authors_epsilon",
    "difference_points",
    "published_difference",
)

_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "ε": r"$\varepsilon$", "δ": r"$\delta$", "σ": r"$\sigma$", "±": r"$\pm$", "≤": r"$\leq$",
    "∞": r"$\infty$", "–": "--", "’": "'", "·": r"$\cdot$", "“": "``", "”": "''",
}  # fmt: skip
_MARKDOWN = {each: f"\\{each}" for each in "\\`*_[]|"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


@dataclass(frozen=True)
class Readable:
    """A table for people: text cells below headings of two levels."""

    caption: str
    columns: tuple[tuple[str, str], ...]
    """(group, heading) of each column; columns of one group stand together, ``""`` is no group."""
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    legend: tuple[str, ...] = ()
    """Notes that a page with several tables says once."""
    findings: tuple[str, ...] = ()
    """What the table shows, in sentences."""
    strong: frozenset[tuple[int, int]] = frozenset()
    """(row, column) of the cells that stand out, from 0."""


def write_table(frame: pd.DataFrame, readable: Readable, stem: Path) -> list[Path]:
    """Write ``frame`` as ``<stem>.csv`` and ``readable`` as ``.md`` and ``.tex``; return the paths.

    Scores and privacy budgets have four decimals in the CSV; an empty field means that there is
    no value, ``inf`` a run without DP.
    """
    texts = {".csv": csv_text(frame), ".md": markdown(readable), ".tex": tex(readable)}
    paths = [stem.with_name(stem.name + suffix) for suffix in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        write_text(path, text)
    return paths


def read_table(path: Path) -> pd.DataFrame:
    """Read a CSV that ``write_table`` wrote; absent numbers are NaN, absent text is ``""``."""
    # Everything is read as text first: a statement_id such as 123e45678901 is no number.
    frame = pd.read_csv(path, dtype="object", keep_default_na=False)
    for column in frame.columns:
        if _is(column, _FLAG_COLUMNS):
            frame[column] = frame[column].map({"true": True, "false": False})
        elif not _is(column, _TEXT_COLUMNS):
            frame[column] = frame[column].map(lambda text: float(text or "nan"))
    return frame


def csv_text(frame: pd.DataFrame) -> str:
    """Return ``frame`` as CSV with the rounding that ``write_table`` describes."""
    texts = {name: [_plain(name, value) for value in frame[name]] for name in frame.columns}
    return pd.DataFrame(texts, columns=frame.columns).to_csv(index=False, lineterminator="\n")


def markdown(table: Readable) -> str:
    """Return a GitHub table with its caption above and its notes below."""
    heads = [markdown_cell(f"{group} {name}".strip()) for group, name in table.columns]
    lines = [
        f"**{_escape(table.caption, _MARKDOWN)}**",
        "",
        _row(heads),
        _row(["---"] * len(heads)),
    ]
    for index, row in enumerate(table.rows):
        cells = [markdown_cell(cell) for cell in row]
        lines.append(_row([f"**{cell}**" if (index, place) in table.strong else cell
                           for place, cell in enumerate(cells)]))  # fmt: skip
    notes = (*table.findings, *table.legend, *table.notes)
    if notes:
        lines += [""] + [f"- {_escape(note, _MARKDOWN)}" for note in notes]
    return "\n".join(lines) + "\n"


def tex(table: Readable) -> str:
    """Return a ``table*`` environment with a booktabs ``tabular``; all text is escaped."""
    width = len(table.columns)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table*}",
        r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
        rf"\caption{{{_escape(table.caption, _TEX)}}}",
        rf"\begin{{tabular}}{{{'l' * width}}}",
        r"\toprule",
        *_tex_groups([group for group, _ in table.columns]),
        _tex_row([name for _, name in table.columns]),
        r"\midrule",
        *(_tex_row(row, index, table.strong) for index, row in enumerate(table.rows)),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    notes = (*table.findings, *table.legend, *table.notes)
    if notes:
        lines += ["", r"\smallskip"]
        lines += [_escape(note, _TEX) + r"\par" for note in notes]
    return "\n".join([*lines, r"\end{table*}"]) + "\n"


def markdown_cell(text: str) -> str:
    """Return ``text`` as it stands in a cell of ``markdown``."""
    return _escape(text, _MARKDOWN)


def is_missing(value: Any) -> bool:
    """Return whether ``value`` stands for no value (None, NaN, NA or empty text)."""
    return value is None or value is pd.NA or value == "" or (value != value)


def number(value: Any, decimals: int | None = None) -> str:
    """Return a number for people: ``inf`` as ∞, at most ``decimals`` decimals, none as a dash."""
    if is_missing(value):
        return NOTHING
    if math.isinf(value):
        return "∞"
    text = f"{value:.{decimals}f}" if decimals is not None else f"{value:.10g}"
    return text.replace("e-0", "e-")


def _is(column: str, names: Sequence[str]) -> bool:
    return any(column == name or column.endswith(f"_{name}") for name in names)


def _plain(column: str, value: Any) -> str:
    if is_missing(value):
        return ""
    if _is(column, _TEXT_COLUMNS):
        return str(value)
    if _is(column, _FLAG_COLUMNS):
        return "true" if value else "false"
    if math.isinf(value):
        return "inf"
    return f"{value:.4f}" if column.endswith(_FOUR_DECIMALS) else f"{value:.10g}"


def _escape(text: str, table: dict[str, str]) -> str:
    return "".join(table.get(each, each) for each in " ".join(str(text).split()))


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _tex_row(
    cells: Sequence[str], index: int = 0, strong: frozenset[tuple[int, int]] = frozenset()
) -> str:
    texts = [_escape(cell, _TEX) for cell in cells]
    marked = (
        rf"\textbf{{{text}}}" if (index, place) in strong else text
        for place, text in enumerate(texts)
    )
    return " & ".join(marked) + r" \\"


def _tex_groups(groups: Sequence[str]) -> list[str]:
    if not any(groups):
        return []
    heads, rules, start = [], [], 1
    for group, members in groupby(groups):
        span = len(list(members))
        heads.append(rf"\multicolumn{{{span}}}{{c}}{{{_escape(group, _TEX)}}}" if group else "")
        heads[-1] = heads[-1] or " & ".join([""] * span)
        if group:
            rules.append(rf"\cmidrule(lr){{{start}-{start + span - 1}}}")
        start += span
    return [" & ".join(heads) + r" \\", " ".join(rules)]
