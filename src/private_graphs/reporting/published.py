"""The numbers that the papers print, as tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from private_graphs.errors import UserError, suggest
from private_graphs.files import resource

_COLUMNS: dict[str, tuple[str, ...]] = {
    "table1": ("dataset", "setting", "optimizer", "epsilon", "micro_f1"),
    "table3": ("epsilon", "noise_sgd", "noise_adam"),
    "table5": ("dataset", "classes", "test_size", "train_size"),
}


def published_table(study: str, name: str) -> pd.DataFrame:
    """Return table ``name`` of ``study`` as the paper prints it.

    ``study`` is an identifier such as ``lrec2022``; ``name`` is ``table1`` (micro-F1 in 0…1;
    ``optimizer`` is empty and ``epsilon`` NaN for the majority class; ``epsilon`` is infinite
    without DP), ``table3`` (noise multipliers) or ``table5`` (numbers of nodes).

    Raises UserError for an unknown study or table and for a file without the expected columns.
    """
    folder = resource("studies/published")
    path = _find(folder, study, name)
    frame = pd.read_csv(path, dtype={"optimizer": "object"})
    expected = _COLUMNS.get(name, tuple(frame.columns))
    missing = [column for column in expected if column not in frame.columns]
    if missing:
        raise UserError(
            f"{path}: found the columns {', '.join(map(str, frame.columns))}; expected also "
            f"{', '.join(missing)}; restore the file from the repository"
        )
    if "optimizer" in frame.columns:
        frame["optimizer"] = frame["optimizer"].fillna("")
    return frame


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
