"""Golden results: tidy rows of the demo, its statements, hashes of predictions, and exhibits.

They were made with ``OPENBLAS_CORETYPE=Haswell NUMBA_CPU_NAME=generic``. To renew them after an
intended change: ``python tests/report/golden.py results/demo`` (all), or without an argument the
exhibits alone, from the golden rows; the difference belongs in the changelog.
"""

from __future__ import annotations

import hashlib
import json
import sys
from functools import cache
from pathlib import Path

import pandas as pd
import safetensors

from private_graphs.exhibits import exhibits_by_name
from private_graphs.jobs import finished_folders
from private_graphs.report.exhibit import Chart
from private_graphs.report.results import Results
from private_graphs.report.rows import collect, read_statistics, tidy, write_rows
from private_graphs.report.table import csv
from private_graphs.report.write import markdown
from private_graphs.study import load_study

GOLDEN = Path(__file__).parents[1] / "golden"
STUDY = "lrec2022"
OF_THE_MACHINE = ["seconds", "device", "data_fingerprint", "code_fingerprint"]
OF_STATEMENTS = ["statement_id"]
"""Columns that follow from the words of statements too."""


@cache
def results() -> Results:
    """Return the golden rows as results of the demo."""
    rows = tidy([pd.read_parquet(GOLDEN / "rows.parquet")])
    texts = pd.read_parquet(GOLDEN / "statements.parquet")["text"]
    statements = {value["statement_id"]: value for value in map(json.loads, texts)}
    statistics = json.loads((GOLDEN / "statistics.json").read_text(encoding="utf-8"))
    return Results.of(load_study(STUDY, "demo"), "demo", rows, statements, statistics)


def golden_exhibits() -> list[str]:
    """Return the exhibits of the demo that read no run group, or one with golden rows."""
    rows = results().rows
    groups = set(rows.loc[rows["source"] != "published", "group"])
    exhibits = exhibits_by_name(STUDY)
    names = load_study(STUDY, "demo").exhibits
    return [name for name in names
            if not exhibits[name].groups or groups & set(exhibits[name].groups)]  # fmt: skip


def exhibit_texts(name: str) -> dict[str, str]:
    """Return the Markdown of an exhibit and the data of its charts, by file name."""
    exhibit = exhibits_by_name(STUDY)[name]
    blocks = results().build(exhibit)
    texts = {f"{name}.md": markdown(exhibit, blocks)}
    charts = [block for block in blocks if isinstance(block, Chart)]
    for number, chart in enumerate(charts, 1):
        texts[f"{name}_chart{number}.csv"] = csv(chart.frame.round(6))
    return texts


def predictions_of(scale_folder: Path) -> dict[str, str]:
    """Return the sha256 of the predicted classes of every job."""
    hashes = {}
    for name, folder in finished_folders(scale_folder / "jobs").items():
        path = folder / "predictions.safetensors"
        if path.is_file():
            with safetensors.safe_open(path, "numpy") as stored:
                classes = stored.get_tensor("predictions").astype("<i4")
            hashes[name] = hashlib.sha256(classes.tobytes()).hexdigest()
    return hashes


def golden_rows(scale_folder: Path) -> pd.DataFrame:
    """Return the tidy rows of a scale without what differs between machines."""
    rows, _ = collect(scale_folder)
    return rows[rows["study"] == STUDY].drop(columns=OF_THE_MACHINE).reset_index(drop=True)


def differences(scale_folder: Path) -> list[str]:
    """Return what a scale has otherwise than the golden results, in words."""
    hashes = json.loads((GOLDEN / "predictions.json").read_text(encoding="utf-8"))
    ours = predictions_of(scale_folder)
    wrong = [f"{name}: other predictions" for name in hashes if ours.get(name) != hashes[name]]
    golden = pd.read_parquet(GOLDEN / "rows.parquet").drop(columns=OF_STATEMENTS)
    rows = golden_rows(scale_folder)
    rows = rows[(rows["group"].isin(golden["group"]))].reset_index(drop=True)
    if len(rows) != len(golden):
        return [*wrong, f"{len(rows)} rows, golden are {len(golden)}"]
    golden = tidy([golden])[[name for name in rows if name in golden]]
    for name in golden:
        same = (rows[name] == golden[name]) | (rows[name].isna() & golden[name].isna())
        if not same.all():
            place = int((~same.fillna(False)).to_numpy().argmax())
            wrong.append(
                f"{name} in {int((~same).sum())} rows, first {rows['job'][place]}: "
                f"{rows[name][place]!r}, golden {golden[name][place]!r}"
            )
    return wrong


def renew(scale_folder: Path | None) -> None:
    """Write the golden files of a finished demo, or those of exhibits alone."""
    if scale_folder is not None:
        rows, statements = collect(scale_folder)
        write_rows(golden_rows(scale_folder), GOLDEN / "rows.parquet")
        texts = [json.dumps(statements[name], sort_keys=True) for name in sorted(statements)]
        write_rows(pd.DataFrame({"text": texts}), GOLDEN / "statements.parquet")
        about = {"statistics.json": read_statistics(scale_folder),
                 "predictions.json": predictions_of(scale_folder)}  # fmt: skip
        for name, value in about.items():
            (GOLDEN / name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    texts = {}
    for name in load_study(STUDY, "demo").exhibits:
        texts |= exhibit_texts(name)
    folder = GOLDEN / "exhibits"
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    renew(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
