"""The numbers that the papers print, as tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from private_graphs.errors import UserError, suggest
from private_graphs.files import resource

PLACE = ("dataset", "optimizer", "splits", "train_fraction", "epsilon")
"""What names a trained setting: a point of a figure, but for the protocol."""

_COLUMNS: dict[str, tuple[str, ...]] = {
    "table1": ("dataset", "setting", "optimizer", "epsilon", "micro_f1"),
    "table2": ("features", "optimizer", "epsilon", "micro_f1"),
    "table3": ("epsilon", "noise_sgd", "noise_adam"),
    "table5": ("dataset", "classes", "test_size", "train_size"),
    "text_claims": ("where", "claim", "value", "figure", *PLACE),
}

_TABLE1_SPLITS = {"non_private": 1, "dp_full": 1, "dp_split": 10}
"""Number of subgraphs behind a setting of Table 1 (LREC 2022, Section 6.3)."""

_SAME = 0.005 + 1e-9
"""Two printed values are the same where two decimals cannot tell them apart."""


def published_table(study: str, name: str) -> pd.DataFrame:
    """Return table ``name`` of ``study`` as the paper prints it.

    ``study`` is an identifier such as ``lrec2022``; ``name`` is ``table1`` (micro-F1 in 0…1;
    ``optimizer`` is empty and ``epsilon`` NaN for the majority class; ``epsilon`` is infinite
    without DP), ``table2`` (the same by kind of features, on Pokec), ``table3`` (noise
    multipliers), ``table5`` (numbers of nodes) or ``text_claims`` (see ``published_claims``).

    Raises UserError for an unknown study or table and for a file without the expected columns.
    """
    return _read(_find(resource("studies/published"), study, name), name)


def _read(path: Path, name: str) -> pd.DataFrame:
    text = ("optimizer", "where", "claim", "figure", "dataset")
    frame = pd.read_csv(path, dtype=dict.fromkeys(text, "object"))
    expected = _COLUMNS.get(name, tuple(frame.columns))
    missing = [column for column in expected if column not in frame.columns]
    if missing:
        raise UserError(
            f"{path}: found the columns {', '.join(map(str, frame.columns))}; expected also "
            f"{', '.join(missing)}; restore the file from the repository"
        )
    return frame.assign(**{each: frame[each].fillna("") for each in text if each in frame.columns})


def published_claims(study: str, path: Path | None = None) -> pd.DataFrame:
    """Return what the running text of the paper prints about its figures, one row per value.

    Columns: ``where`` (``fig1``, ``sec6.1``), ``claim`` (in words), ``value``, ``figure``, and
    ``PLACE``. A claim with all of ``PLACE`` is the micro-F1 (0…1) of that setting; one that lacks
    some is about several settings, or no score. ``path`` is another file than the study's own.

    Raises UserError, with the line, for a value that is no number or has an impossible place.
    """
    path = path or _find(resource("studies/published"), study, "text_claims")
    frame = _read(path, "text_claims")
    for name in ("value", *PLACE[2:]):
        numbers = pd.to_numeric(frame[name], errors="coerce")
        _refuse(path, frame, name, numbers.isna() & frame[name].notna(), "expected a number")
        frame[name] = numbers.astype("float64")
    fraction, splits = frame["train_fraction"], frame["splits"]
    placed = frame[list(PLACE)].replace("", None).notna().all(axis=1)
    known = frame["optimizer"].isin(["", "sgd", "adam"])
    _refuse(path, frame, "optimizer", ~known, "expected sgd, adam or nothing")
    _refuse(path, frame, "train_fraction", ~fraction.between(0, 1, "right") & fraction.notna(),
            "expected a share above 0 and at most 1")  # fmt: skip
    whole = (splits >= 1) & (splits % 1 == 0)
    _refuse(path, frame, "splits", ~whole & splits.notna(), "expected a whole number from 1")
    _refuse(path, frame, "epsilon", frame["epsilon"] <= 0, "expected a positive number or inf")
    score = frame["value"].between(0, 1)
    _refuse(path, frame, "value", frame["value"].isna(), "expected a number")
    _refuse(path, frame, "value", placed & ~score, "expected micro-F1 in 0 to 1")
    _refuse(path, frame, "figure", placed & (frame["figure"] == ""), "expected a figure")
    again = frame.duplicated(["figure", *PLACE]) & placed
    _refuse(path, frame, "figure", again, "expected one value for a place of a figure")
    return frame


def _refuse(path: Path, frame: pd.DataFrame, name: str, wrong: pd.Series, expected: str) -> None:
    if wrong.any():
        line = int(wrong.to_numpy().argmax())
        raise UserError(
            f"{path}: line {line + 2}: {name}: found {frame[name].iloc[line]!r}; {expected}"
        )


def published_points(study: str, figure: str) -> pd.DataFrame:
    """Return the printed micro-F1 of points of ``figure``: ``PLACE``, ``published``, where.

    A point has what the text says about this figure, else what Table 1 prints for the same setting
    (all training nodes; one graph, or ten subgraphs). ``published_where`` names the source, and
    Table 1's value where the paper contradicts itself.
    """
    claims = published_claims(study)
    claims = claims[(claims["figure"] == figure) & claims[list(PLACE)].notna().all(axis=1)]
    rows = {
        _place(row): (row["value"], words_for_place(row["where"]))
        for row in claims.to_dict("records")
        if row["dataset"] and row["optimizer"]
    }
    table = published_table(study, "table1")
    table = table.assign(splits=table["setting"].map(_TABLE1_SPLITS), train_fraction=1.0)
    for row in table[table["splits"].notna()].to_dict("records"):
        value, where = rows.get(_place(row), (row["micro_f1"], ""))
        agrees = abs(value - row["micro_f1"]) < _SAME
        also = "Table 1" if agrees else f"(Table 1: {row['micro_f1']:g})"
        join = ", " if where and agrees else " "
        rows[_place(row)] = (value, f"{where}{join}{also}".strip())
    values = [(*place, *value) for place, value in rows.items()]
    return pd.DataFrame(values, columns=[*PLACE, "published", "published_where"])


def _place(row: dict) -> tuple[str, str, int, float, float]:
    dataset, optimizer, splits, fraction, epsilon = (row[name] for name in PLACE)
    return dataset, optimizer, int(splits), float(fraction), float(epsilon)


def words_for_place(where: str) -> str:
    """Return the words for a place in the paper: ``sec6.3`` is ``Section 6.3``."""
    if where.startswith("fig"):
        return f"text on Figure {where.removeprefix('fig')}"
    return f"Section {where.removeprefix('sec')}"


def _find(folder: Path, study: str, name: str) -> Path:
    # A file is named after its study and table, with a free word behind: lrec2022_table3_noise.csv.
    stems = {path.stem: path for path in sorted(folder.glob("*.csv"))}
    for stem, path in stems.items():
        if stem == f"{study}_{name}" or stem.startswith(f"{study}_{name}_"):
            return path
    known = sorted({"_".join(stem.split("_")[:2]) for stem in stems})
    wanted = f"{study}_{name}"
    raise UserError(
        f"no published table {wanted!r} in {folder}; there are {', '.join(known)}"
        f"{suggest(wanted, known)}"
    )
