"""Printed numbers: the CSVs that a study file names, as tidy rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from private_graphs.core.errors import UserError
from private_graphs.core.imports import STUDIES
from private_graphs.methods import method_named
from private_graphs.running.store import ROW_COLUMNS, tidy
from private_graphs.running.study import Study


def published_rows(study: Study, folder: Path | None = None) -> pd.DataFrame:
    """Return the printed numbers of a study's sources as tidy rows.

    ``group`` is the name in the study file. Columns of a CSV are renamed as the study file says,
    and must then be columns of rows or settings of the method; every other column must be renamed
    too, if only to itself. ``folder`` replaces ``studies/<id>/published``.

    Raises:
        UserError: a file or column is missing, or the method has no such setting.
    """
    folder = folder or STUDIES / study.id / "published"
    return tidy(
        _published(folder / printed.file, study.id, name, printed.rename, printed.set)
        for name, printed in study.published.items()
    )


def _published(
    path: Path, study: str, name: str, rename: Mapping[str, str], constant: Mapping[str, Any]
) -> pd.DataFrame:
    where = f"studies/{study}/study.yaml: published.{name}"
    if not path.is_file():
        raise UserError(f"{where}.file: no file {path.name} in {path.parent.name}; add it")
    frame = pd.read_csv(path)
    absent = [column for column in rename if column not in frame]
    if absent:
        raise UserError(
            f"{where}.rename: {path.name} has no column {', '.join(absent)}; expected some of "
            f"{', '.join(frame)}"
        )
    frame = frame.rename(columns=dict(rename)).assign(**constant)
    fields = method_named(constant["method"]).settings.model_fields if "method" in constant else {}
    unknown = [column for column in frame
               if column not in {*ROW_COLUMNS, *fields, *rename.values()}]  # fmt: skip
    if unknown:
        raise UserError(
            f"{where}: column {', '.join(unknown)} of {path.name} is neither a column of rows nor "
            "a setting of its method; rename it, or name it under rename as itself"
        )
    settings = [column for column in frame if column in fields]
    frame["settings"] = [
        _settings(where, fields, dict(zip(settings, values, strict=True)))
        for values in frame[settings].itertuples(index=False, name=None)
    ]
    return frame.drop(columns=settings).assign(source="published", study=study, group=name)


def _settings(where: str, fields: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """Return printed settings as text, in the types that the method declares."""
    typed = {}
    for name, value in values.items():
        if pd.isna(value):
            continue
        try:
            typed[name] = TypeAdapter(fields[name].annotation).validate_python(value)
        except ValidationError as error:
            raise UserError(f"{where}: {name}: {value!r}: {error.errors()[0]['msg']}") from None
    return json.dumps(typed, sort_keys=True)
