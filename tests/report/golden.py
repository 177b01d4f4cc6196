"""Golden results: tidy rows of the demo, its statements, hashes of predictions, exhibits, verdicts.

``answers.npz`` has the predictions themselves of the jobs that exhibits look at record by record.

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

import numpy as np
import pandas as pd
import safetensors

from private_graphs.exhibits import claims_of, exhibits_by_name
from private_graphs.jobs import JOB_FILE, finished_folders, read_job
from private_graphs.report.claims import COLUMNS, judged
from private_graphs.report.exhibit import Chart
from private_graphs.report.results import Results
from private_graphs.report.rows import Answers, collect, read_statistics, tidy, write_rows
from private_graphs.report.table import csv
from private_graphs.report.write import markdown
from private_graphs.study import load_study

GOLDEN = Path(__file__).parents[1] / "golden"
STUDY = "lrec2022"
STUDIES = (STUDY, "preprint2021")
LOOKED_AT = ("A", "B", "table1")
"""Run groups whose runs of SGD on the full graph exhibits look at record by record."""
OF_THE_MACHINE = ["seconds", "device", "data_fingerprint", "code_fingerprint"]
OF_TORCH = "bert"
"""Features that torch computes with the instructions of the processor: no two are alike."""
OF_STATEMENTS = ["statement_id"]
"""Columns that follow from the words of statements too."""


@cache
def results(study: str = STUDY) -> Results:
    """Return the golden rows as results of the demo."""
    rows = tidy([pd.read_parquet(GOLDEN / "rows.parquet")])
    texts = pd.read_parquet(GOLDEN / "statements.parquet")["text"]
    statements = {value["statement_id"]: value for value in map(json.loads, texts)}
    statistics = json.loads((GOLDEN / "statistics.json").read_text(encoding="utf-8"))
    arrays = dict(np.load(GOLDEN / "answers.npz"))
    order = rows.groupby(rows["study"] + "/" + rows["group"] + "/" + rows["job"])["replica_id"]
    answers = {
        job: Answers(list(names), arrays[job], arrays[f"labels/{job.split('/')[2]}"])
        for job, names in order
        if job in arrays
    }
    study = load_study(study, "demo")
    return Results.of(study, "demo", rows, statements, statistics, answers.get)


def golden_exhibits() -> list[str]:
    """Return the exhibits of the demo that read no run group, or one with golden rows.

    Those of other studies than the first are called ``STUDY.name``.
    """
    rows = results().rows
    groups = set(rows.loc[rows["source"] != "published", "group"])
    found = []
    for study in STUDIES:
        for name in load_study(study, "demo").exhibits:
            read = {group.split(".")[-1] for group in exhibits_by_name(study)[name].groups}
            if not read or groups & read:
                found.append(name if study == STUDY else f"{study}.{name}")
    return found


def exhibit_texts(name: str) -> dict[str, str]:
    """Return the Markdown of an exhibit and the data of its charts, by file name."""
    study, _, own = name.rpartition(".")
    exhibit = exhibits_by_name(study or STUDY)[own]
    blocks = results(study or STUDY).build(exhibit)
    texts = {f"{name}.md": markdown(exhibit, blocks)}
    charts = [block for block in blocks if isinstance(block, Chart)]
    for number, chart in enumerate(charts, 1):
        texts[f"{name}_chart{number}.csv"] = csv(chart.frame.round(6))
    return texts


def verdicts(study: str) -> str:
    """Return the verdicts on the claims of a study as CSV."""
    frame = judged(claims_of(study), results(study))[list(COLUMNS)]
    return csv(frame.round(6))


def answers_of(scale_folder: Path) -> dict[str, np.ndarray]:
    """Return predictions of the jobs that exhibits look at, and the labels of their datasets."""
    arrays = {}
    for name, folder in finished_folders(Path(scale_folder) / "jobs").items():
        job = read_job(folder / JOB_FILE)
        looked_at = job.group in LOOKED_AT and job.settings.get("optimizer") == "sgd"
        if job.study != STUDY or not looked_at or job.settings.get("splits", 1) != 1:
            continue
        with safetensors.safe_open(folder / "predictions.safetensors", "numpy") as stored:
            arrays[name] = stored.get_tensor("predictions").astype(np.uint8)
            labels = stored.get_tensor("test_labels").astype(np.int16)
            arrays[f"labels/{job.dataset}"] = labels
    return arrays


def predictions_of(scale_folder: Path) -> dict[str, str]:
    """Return the sha256 of the predicted classes of every job of ``STUDIES``."""
    hashes = {}
    for name, folder in finished_folders(scale_folder / "jobs").items():
        path = folder / "predictions.safetensors"
        if path.is_file() and name.startswith(STUDIES):
            with safetensors.safe_open(path, "numpy") as stored:
                classes = stored.get_tensor("predictions").astype("<i4")
            hashes[name] = hashlib.sha256(classes.tobytes()).hexdigest()
    return hashes


def golden_rows(scale_folder: Path) -> pd.DataFrame:
    """Return the tidy rows of a scale without what differs between machines."""
    rows, _ = collect(scale_folder)
    return rows[rows["study"].isin(STUDIES)].drop(columns=OF_THE_MACHINE).reset_index(drop=True)


def differences(scale_folder: Path) -> list[str]:
    """Return what a scale has otherwise than the golden results, in words."""
    hashes = json.loads((GOLDEN / "predictions.json").read_text(encoding="utf-8"))
    ours = predictions_of(scale_folder)
    wrong = [f"{name}: other predictions" for name in hashes
             if ours.get(name) != hashes[name] and f"/{OF_TORCH}/" not in name]  # fmt: skip
    golden = pd.read_parquet(GOLDEN / "rows.parquet").drop(columns=OF_STATEMENTS)
    rows = golden_rows(scale_folder)
    rows = rows[(rows["group"].isin(golden["group"]))].reset_index(drop=True)
    if len(rows) != len(golden):
        return [*wrong, f"{len(rows)} rows, golden are {len(golden)}"]
    golden = tidy([golden])[[name for name in rows if name in golden]]
    for name in golden:
        same = (rows[name] == golden[name]) | (rows[name].isna() & golden[name].isna())
        if pd.api.types.is_float_dtype(rows[name]):  # last bits of SciPy are the machine's
            same |= np.isclose(rows[name], golden[name], rtol=1e-8, atol=0)
        same |= (rows["features"] == OF_TORCH) & (golden["features"] == OF_TORCH)
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
        _, statements = collect(scale_folder)
        rows = golden_rows(scale_folder)
        write_rows(rows, GOLDEN / "rows.parquet")
        told = sorted(rows["statement_id"].dropna().unique())
        texts = [json.dumps(statements[name], sort_keys=True) for name in told]
        write_rows(pd.DataFrame({"text": texts}), GOLDEN / "statements.parquet")
        np.savez_compressed(GOLDEN / "answers.npz", **answers_of(scale_folder))
        used = set(rows["dataset"])
        sizes = [each for each in read_statistics(scale_folder) if each["name"] in used]
        about = {"statistics.json": sizes,
                 "predictions.json": predictions_of(scale_folder)}  # fmt: skip
        for name, value in about.items():
            (GOLDEN / name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    texts = {}
    for name in golden_exhibits():
        texts |= exhibit_texts(name)
    texts |= {f"{study}.claims.csv": verdicts(study) for study in STUDIES}
    folder = GOLDEN / "exhibits"
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    renew(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
