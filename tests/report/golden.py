"""Golden results: the demo of every study as ``record`` keeps it, its exhibits and its verdicts.

``tests/golden/<study>`` has rows and statements, less what differs between machines, and of the
jobs that exhibits look at record by record the predictions and artifacts; ``hashes.json`` has those
of every job, ``exhibits/<study>`` the Markdown of every exhibit, the data of its charts, and
``claims.csv``. ``make golden`` computes the demo and writes all of it; after a change of exhibits
alone, ``python tests/report/golden.py`` writes these from the golden rows. The difference belongs
in the changelog.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from private_graphs.core.files import write_text
from private_graphs.report.claims import COLUMNS, claims_of, judged
from private_graphs.report.results import Results
from private_graphs.report.table import csv
from private_graphs.running.catalog import exhibits_by_name
from private_graphs.running.exhibit import Block, Chart
from private_graphs.running.store import ROWS, Answers, tidy
from private_graphs.running.study import load_study
from private_graphs.site.record import Recorded, machine_words, read_recorded, record
from private_graphs.site.restate import differing
from private_graphs.site.write import markdown

GOLDEN = Path(__file__).parents[1] / "golden"
EXHIBITS = GOLDEN / "exhibits"
HASHES = GOLDEN / "hashes.json"
"""sha256 of predictions and artifacts by job, its first 16 digits."""
STUDY = "lrec2022"
SETTINGS = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NUMBA_CPU_NAME": "generic",
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
}
"""With which golden results are made: NumPy, SciPy and Numba then compute the same bits on every
machine, PyTorch on every machine with the same processor."""
EXACT = ("lrec2022", "preprint2021")
"""Studies whose demo is the same on every machine, but for ``OF_TORCH``: it trains without PyTorch.
Of the others it is on the processor that made the golden results; elsewhere scores differ by
``ONE_RUN`` at most, and by ``ALL_RUNS`` on average."""
OF_TORCH = "bert"
"""Features that PyTorch computes, on which no two processors agree."""
ONE_RUN, ALL_RUNS = 0.25, 0.03
SCORES = ("test_micro_f1", "test_macro_f1", "test_accuracy")
SAME = (
    "group", "job", "dataset", "features", "method", "scenario", "protocol", "epsilon", "delta",
    "seed", "validation_labels", "noise_multiplier", "epsilon_claimed", "epsilon_proved", "unit",
    "relation", "inference", "status", "verdict",
)  # fmt: skip
"""Columns that no training decides."""


_looked_at: set[str] = set()
"""Identifiers of jobs whose answers exhibits have read."""

# --- what is kept -----------------------------------------------------------------------------


@cache
def golden() -> dict[str, Recorded]:
    """Return the golden results by study."""
    return {path.parent.name: read_recorded(path.parent)
            for path in sorted(GOLDEN.glob(f"*/{ROWS}"))}  # fmt: skip


@cache
def results(study: str = STUDY) -> Results:
    """Return the golden results of a study, among the rows of all studies as after a run of all."""
    kept = golden()

    def answers(job: str) -> Answers:
        _looked_at.add(job)
        return kept[job.split("/", 1)[0]].answers(job)

    rows = tidy(each.rows for each in kept.values())
    rows["source"] = rows["source"].replace("recorded", "own")
    statements = {name: value for each in kept.values() for name, value in each.statements.items()}
    statistics = {(each["name"], each.get("view")): each
                  for one in kept.values() for each in one.statistics}  # fmt: skip
    return Results.of(
        load_study(study, "demo"), "demo", rows, statements, list(statistics.values()), answers
    )


def recorded_demo(scale_folder: Path, target: Path) -> dict[str, Recorded]:
    """Record a finished demo in ``target``, without what differs between machines."""
    record(scale_folder, target, processed=scale_folder.parents[1] / "data" / "processed")
    found = {}
    for path in sorted(target.glob(f"*/{ROWS}")):
        kept = read_recorded(path.parent)
        rows = kept.rows.assign(seconds=np.nan, code_fingerprint="")
        made = replace(kept.made, date="2000-01-01", machine=processor(), hours=0.0)
        kept = replace(kept, rows=tidy([rows]), made=made)
        kept.save(path.parent)
        found[path.parent.name] = kept
    return found


def hashes_of(study: str, kept: Recorded) -> dict[str, str]:
    """Return the hash of what each job predicts, and of its artifacts, by its identifier."""
    found = {}
    for job, classes in kept.predictions.items():
        content = hashlib.sha256(classes.tobytes())
        for name, array in sorted(kept.artifacts.items()):
            if name.startswith(f"{job}/"):
                content.update(name.encode() + array.tobytes())
        found[f"{study}/{job}"] = content.hexdigest()[:16]
    return found


def thinned(study: str, kept: Recorded) -> Recorded:
    """Return ``kept`` with zeros for the predictions of jobs that no exhibit has looked at, and
    without their artifacts."""
    names = {job.split("/", 1)[1] for job in _looked_at if job.startswith(f"{study}/")}
    return replace(
        kept,
        predictions={job: classes if job in names else np.zeros_like(classes)
                     for job, classes in kept.predictions.items()},
        artifacts={name: array for name, array in kept.artifacts.items()
                   if name.rsplit("/", 2)[0] in names},
    )  # fmt: skip


def processor() -> str:
    """Return the name of the processor."""
    return machine_words().rpartition(", ")[0]


# --- what is made of it -----------------------------------------------------------------------


@cache
def blocks_of(study: str, name: str) -> list[Block]:
    """Return the blocks of an exhibit of golden results."""
    return results(study).build(exhibits_by_name(study)[name])


def exhibit_texts(study: str, name: str) -> dict[str, str]:
    """Return the Markdown of an exhibit, its tables in the paper's layout and with all columns, and
    the data of its charts, by file name."""
    exhibit, blocks = exhibits_by_name(study)[name], blocks_of(study, name)
    both = [each for block in blocks for each in (
        (block, replace(block, layout=None)) if getattr(block, "layout", None) else (block,)
    )]  # fmt: skip
    texts = {f"{name}.md": markdown(exhibit, both)}
    charts = [block for block in blocks if isinstance(block, Chart)]
    for number, chart in enumerate(charts, 1):
        texts[f"{name}_chart{number}.csv"] = csv(chart.frame.round(6))
    return texts


def verdicts(study: str) -> str:
    """Return the verdicts on the claims of a study as CSV."""
    frame = judged(claims_of(study), results(study))[list(COLUMNS)]
    return csv(frame.round(6))


def texts_of(study: str) -> dict[str, str]:
    """Return all golden texts of a study by file name."""
    texts = {}
    for name in load_study(study, "demo").exhibits:
        texts |= exhibit_texts(study, name)
    return texts | ({"claims.csv": verdicts(study)} if claims_of(study) else {})


# --- comparison -------------------------------------------------------------------------------


def differences(scale_folder: Path) -> list[str]:
    """Return what a finished demo has otherwise than the golden results, in words."""
    with tempfile.TemporaryDirectory() as folder:
        found = recorded_demo(scale_folder, Path(folder))
    if set(found) != set(golden()):
        return [f"studies {', '.join(found)}; golden are {', '.join(golden())}"]
    return [f"{study}: {each}" for study, ours in found.items()
            for each in _differences(study, ours, golden()[study])]  # fmt: skip


def _differences(study: str, ours: Recorded, theirs: Recorded) -> Iterator[str]:
    keys = ["source", "group", "job", "epsilon", "seed", "validation_labels", "settings"]
    if len(ours.rows) != len(theirs.rows) or set(ours.predictions) != set(theirs.predictions):
        yield f"{len(ours.rows)} rows; golden are {len(theirs.rows)}"
        return
    exact = study in EXACT or ours.made.machine == theirs.made.machine
    of_torch = ours.rows["features"] == OF_TORCH
    columns = [name for name in theirs.rows if exact or name in (*keys[:-1], *SAME)]
    for name in columns:
        same = _same(ours.rows[name], theirs.rows[name])
        if not (same | of_torch).all():
            place = int((~(same | of_torch)).to_numpy().argmax())
            yield (
                f"{name} in {int((~same).sum())} rows, first {ours.rows['job'][place]}: "
                f"{ours.rows[name][place]!r}, golden {theirs.rows[name][place]!r}"
            )
    runs = ours.rows["statement_id"].notna() & ~of_torch
    texts = [each.rows.loc[runs, "statement_id"] for each in (ours, theirs)]
    for first, second in sorted(set(zip(*texts, strict=True))):
        fields = differing(ours.statements[first], theirs.statements[second])
        yield from (f"statement {second}: other {field}" for field in fields)
    for name in ("test_records", "test_labels"):
        for key, array in getattr(theirs, name).items():
            if not np.array_equal(getattr(ours, name).get(key), array):
                yield f"{key}: other {name}"
    if exact:
        known = json.loads(HASHES.read_text(encoding="utf-8"))
        for job, content in hashes_of(study, ours).items():
            if content != known[job] and f"/{OF_TORCH}/" not in job:
                yield f"{job}: other predictions or artifacts"
    else:
        yield from _far(ours.rows, theirs.rows)


def _same(first: pd.Series, second: pd.Series) -> pd.Series:
    """Equal, or both missing; the last bits of SciPy are the machine's."""
    same = (first == second) | (first.isna() & second.isna())
    if pd.api.types.is_float_dtype(first):
        same |= np.isclose(first, second, rtol=1e-8, atol=0)
    return same.fillna(False).astype(bool)


def _far(ours: pd.DataFrame, theirs: pd.DataFrame) -> Iterator[str]:
    """Scores that are farther from golden ones than another processor explains."""
    for name in SCORES:
        apart = (ours[name] - theirs[name]).abs()
        if not (apart.dropna() <= ONE_RUN).all() or apart.mean() > ALL_RUNS:
            yield f"{name}: {apart.max():.3f} from golden in one run, {apart.mean():.3f} on average"


# --- renewal ----------------------------------------------------------------------------------


def renew(scale_folder: Path | None = None) -> None:
    """Write the golden files of a finished demo, or those of exhibits alone."""
    if scale_folder is not None:
        for path in GOLDEN.glob(f"*/{ROWS}"):
            for file in path.parent.iterdir():
                file.unlink()
        kept, hashes = recorded_demo(scale_folder, GOLDEN), {}
        golden.cache_clear()
        results.cache_clear()
        texts = {study: texts_of(study) for study in kept}
        for study, each in kept.items():
            hashes |= hashes_of(study, each)
            thinned(study, each).save(GOLDEN / study)
        write_text(HASHES, json.dumps(hashes, indent=0, sort_keys=True) + "\n")
        golden.cache_clear()
        results.cache_clear()
    else:
        texts = {study: texts_of(study) for study in golden()}
    for file in EXHIBITS.rglob("*.*"):
        file.unlink()
    for study, files in texts.items():
        for file, text in files.items():
            write_text(EXHIBITS / study / file, text)


if __name__ == "__main__":
    renew()
