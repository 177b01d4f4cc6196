"""Recorded results: the rows, statements and predictions of a finished scale, kept small.

``record`` copies the finished jobs of ``results/<scale>`` to ``recorded/<study>/``:
``rows.parquet`` (tidy rows, audits among them; its metadata say how they were made),
``statements.json.gz``, ``predictions.safetensors`` (class of every test record, and its label),
``artifacts.safetensors.gz`` (pictures and other arrays of jobs that no other job needs, if there
are any) and ``README.md``. What was recorded before and has not run again stays. ``claims.csv``,
the verdicts on the claims of the text, goes with the rows that it is about: ``make docs`` writes
it. Equal results give equal bytes. ``read_recorded`` reads them back and holds the files against
each other.
"""

from __future__ import annotations

import gzip
import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import safetensors.numpy

from private_graphs.core.bounded_files import parsed_json
from private_graphs.core.errors import UserError, counted
from private_graphs.core.files import atomic_path, write_json, write_text
from private_graphs.core.manifest import SCHEMA, finished_folders, other_schema
from private_graphs.core.version import __version__
from private_graphs.datasets.outline import sizes_of
from private_graphs.report.rows import collect, read_statistics
from private_graphs.running.jobs import JOB_FILE, read_job
from private_graphs.running.result import CURVE
from private_graphs.running.store import (
    ARTIFACTS,
    ATTACKS,
    LABELS,
    PREDICTIONS,
    RECORDS,
    ROWS,
    STATEMENTS,
    Store,
    packed,
    read_store,
    read_unchecked,
    readable,
    remedy,
    tidy,
)

CLAIMS = "claims.csv"
_MOST_CLASSES = 256
_ABOUT = b"private_graphs"
"""Key of the metadata of ``rows.parquet``: how the results came about, and the datasets."""


@dataclass(frozen=True)
class Made:
    """How recorded results came about."""

    version: str
    date: str
    machine: str
    hours: float
    """Of all jobs together."""
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Recorded(Store):
    """The recorded results of one study, and how they came about; rows are tidy."""

    made: Made
    statistics: list[dict[str, Any]]
    """Of the datasets."""
    datasets: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Sizes of what runs were made with (``datasets.outline``), by ``data_fingerprint``."""

    def save(self, folder: str | Path) -> list[Path]:
        """Write the files; return their paths."""
        folder = Path(folder)
        about = {"schema": SCHEMA, "made": asdict(self.made), "statistics": self.statistics,
                 "datasets": self.datasets}  # fmt: skip
        table = pyarrow.Table.from_pandas(self.rows, preserve_index=False)
        text = json.dumps(about, sort_keys=True, allow_nan=False)
        table = table.replace_schema_metadata({_ABOUT: text})
        with atomic_path(folder / ROWS) as temporary:
            pyarrow.parquet.write_table(table, temporary, compression="zstd", compression_level=19)
        write_json(folder / STATEMENTS, dict(sorted(self.statements.items())))
        tensors = {f"{RECORDS}/{name}": value for name, value in self.test_records.items()}
        tensors |= {f"{LABELS}/{name}": value for name, value in self.test_labels.items()}
        # one entry: the library writes several in an order that changes from run to run
        order = {"replica_ids": json.dumps(self.order, sort_keys=True)}
        with atomic_path(folder / PREDICTIONS) as temporary:
            tensors |= {name: packed(classes) for name, classes in self.predictions.items()}
            safetensors.numpy.save_file(tensors, temporary, metadata=order)
        for name in (ARTIFACTS, CLAIMS):
            (folder / name).unlink(missing_ok=True)
        if self.artifacts:
            with atomic_path(folder / ARTIFACTS) as temporary:
                data = safetensors.numpy.save(dict(sorted(self.artifacts.items())))
                temporary.write_bytes(gzip.compress(data, mtime=0))
        write_text(folder / "README.md", "\n".join([*_page(self), ""]))
        names = (ROWS, STATEMENTS, PREDICTIONS, "README.md", *([ARTIFACTS] * bool(self.artifacts)))
        return [folder / name for name in names]


def record(
    scale_folder: str | Path,
    target: str | Path,
    *,
    processed: str | Path = "data/processed",
    commands: Sequence[str] = (),
    day: str = "",
    machine: str = "",
) -> list[Path]:
    """Write ``target/<study>/`` of every study that has finished jobs; return the paths.

    Jobs that were recorded there before and are not among the finished ones stay.
    ``processed`` is the folder of the built datasets: where that of a row is there, its scores are
    computed from its predictions and compared. ``commands`` made the results; ``day`` and
    ``machine`` are by default today and this machine. Raises UserError where nothing is finished,
    a job lacks a file or contradicts itself, or its seeds are secret.
    """
    scale_folder, target = Path(scale_folder), Path(target)
    rows, statements = collect(scale_folder, Path(processed))
    if rows.empty:
        raise UserError(
            f"{scale_folder}: no finished job in jobs/; expected the results of a scale, such as "
            "results/full: run snakemake first"
        )
    _refuse_secret_seeds(rows)
    statistics = read_statistics(scale_folder)
    written = []
    for study, part in rows.groupby("study", sort=True):
        part = part.assign(source=part["source"].replace("own", "recorded")).reset_index(drop=True)
        hours = round(float(part["seconds"].sum()) / 3600, 2)
        used = sorted(set(part["statement_id"].dropna()))
        recorded = Recorded(
            made=Made(__version__, day or date.today().isoformat(), machine or machine_words(),
                      hours, tuple(commands)),
            rows=part,
            statements={name: statements[name] for name in used},
            statistics=[entry for entry in statistics if entry["name"] in set(part["dataset"])],
            datasets=_datasets(statistics, Path(processed), {*part["data_fingerprint"].dropna()}),
            **_arrays(scale_folder / "jobs" / str(study), part[~part["source"].isin(ATTACKS)]),
        )  # fmt: skip
        if (target / str(study) / ROWS).is_file():
            recorded = _with_earlier(recorded, read_recorded(target / str(study)))
        written += recorded.save(target / str(study))
        read_recorded(target / str(study))
    return written


def _with_earlier(new: Recorded, earlier: Recorded) -> Recorded:
    """Return ``new`` with the jobs that ``earlier`` alone has, in one order.

    Raises UserError where the two know other test records of a dataset.
    """
    if dataset := _other_records(earlier.test_records, new.test_records):
        raise UserError(
            f"{dataset}: other test records than those of the jobs that were recorded before; "
            "record all jobs of it again, into an empty folder"
        )
    ran = set(new.rows["group"] + "/" + new.rows["job"])
    old_rows = earlier.rows[~(earlier.rows["group"] + "/" + earlier.rows["job"]).isin(ran)]
    rows = tidy([old_rows, new.rows])
    order = [rows["source"].map({name: n for n, name in enumerate(ATTACKS, 1)}).fillna(0),
             rows["group"] + "/" + rows["job"]]  # fmt: skip
    rows = rows.iloc[np.lexsort(order[::-1])].reset_index(drop=True)
    known = earlier.statements | new.statements
    used = set(rows["statement_id"].dropna())
    jobs = set(rows.loc[~rows["source"].isin(ATTACKS), "group"] + "/" + rows["job"])
    predictions = earlier.predictions | new.predictions
    graphs = {(entry["name"], entry.get("view") or ""): entry
              for entry in (*earlier.statistics, *new.statistics)}  # fmt: skip
    machines = dict.fromkeys((*earlier.made.machine.split("; "), new.made.machine))
    origin = replace(
        new.made, machine="; ".join(machines),
        hours=round(float(rows["seconds"].sum()) / 3600, 2),
        commands=tuple(dict.fromkeys((*earlier.made.commands, *new.made.commands))),
    )  # fmt: skip
    return Recorded(
        made=origin,
        rows=rows,
        statements={name: known[name] for name in sorted(used)},
        statistics=[graphs[key] for key in sorted(graphs)],
        predictions={name: value for name, value in sorted(predictions.items()) if name in jobs},
        test_records=earlier.test_records | new.test_records,
        test_labels=earlier.test_labels | new.test_labels,
        datasets={name: sizes for name, sizes in (earlier.datasets | new.datasets).items()
                  if name in set(rows["data_fingerprint"])},
        artifacts={key: array for key, array in earlier.artifacts.items()
                   if key.rsplit("/", 2)[0] not in ran} | new.artifacts,
    )  # fmt: skip


def read_recorded(folder: str | Path) -> Recorded:
    """Return what ``record`` wrote to ``recorded/<study>``, with the checks of ``read_store``."""
    folder = Path(folder)
    with remedy("record again (private-graphs record results/full recorded)"):
        store = read_store(folder, artifacts=True)
        with readable(folder / ROWS) as path:
            about = parsed_json(pyarrow.parquet.read_metadata(path).metadata[_ABOUT])
            if reason := other_schema(about.get("schema", SCHEMA)):
                raise UserError(f"{path}: {reason}")
            origin = about["made"] | {"commands": tuple(about["made"]["commands"])}
    return Recorded(
        **{field.name: getattr(store, field.name) for field in fields(store)}, made=Made(**origin),
        statistics=about["statistics"], datasets=about.get("datasets", {}),
    )  # fmt: skip


def _arrays(folder: Path, runs: pd.DataFrame) -> dict[str, dict[str, np.ndarray]]:
    """Return predictions, test records, labels and artifacts of all jobs of ``runs``.

    Artifacts that another job needs stay out; so do learning curves, partitions and the parameters
    of models, which no exhibit reads.
    """
    plans = {name: read_job(path / JOB_FILE) for name, path in finished_folders(folder).items()}
    needed = {job_id for job in plans.values() if job for job_id in job.needs.values()}
    arrays = {kind: {} for kind in ("predictions", "test_records", "test_labels", "artifacts")}
    for name in sorted(set(runs["group"] + "/" + runs["job"])):
        part = read_unchecked(folder / name)[0]  # collect has checked it
        path, classes = folder / name / PREDICTIONS, part.predictions[name]
        if classes.min(initial=0) < 0 or classes.max(initial=0) >= _MOST_CLASSES:
            raise UserError(
                f"{path}: classes {classes.min()} to {classes.max()}; expected 0 to "
                f"{_MOST_CLASSES - 1}, which one byte holds: such a dataset cannot be recorded"
            )
        if dataset := _other_records(arrays["test_records"], part.test_records):
            raise UserError(
                f"{path}: other test records than those of an earlier job on {dataset}; expected "
                f"one set of them per dataset: delete {path.parent} and run the job again"
            )
        arrays["predictions"][name] = classes.astype(np.uint8)
        arrays["test_records"] |= part.test_records
        arrays["test_labels"] |= {key: array.astype(np.int16)
                                 for key, array in part.test_labels.items()}  # fmt: skip
        if plans[name].id not in needed:
            arrays["artifacts"] |= {
                key: array for key, array in part.artifacts.items()
                if f"/{CURVE}" not in key and not key.endswith(("/parameters", "/partition"))
            }  # fmt: skip
    return arrays


def _other_records(known: Mapping[str, np.ndarray], new: Mapping[str, np.ndarray]) -> str | None:
    """Return the name of test records that differ between the two, if any."""
    names = (name for name in new if name in known)
    return next((name for name in names if not np.array_equal(known[name], new[name])), None)


def _datasets(
    statistics: Sequence[dict[str, Any]], processed: Path, fingerprints: Set[str]
) -> dict[str, dict[str, Any]]:
    """Return the sizes of datasets, built or told in ``statistics``, by fingerprint."""
    built = [parsed_json(path.read_bytes()) for path in sorted(processed.rglob("statistics.json"))]
    return {entry["fingerprint"]: sizes_of(entry) for entry in (*statistics, *built)
            if entry["fingerprint"] in fingerprints}  # fmt: skip


def _refuse_secret_seeds(rows: pd.DataFrame) -> None:
    secret = rows[rows["noise_source"].notna() & (rows["noise_source"] != "seeded")]
    if len(secret):
        raise UserError(
            f"{secret['job'].iloc[0]}: noise source {secret['noise_source'].iloc[0]}; expected "
            "seeded: nobody can repeat runs with secret seeds, and their rows without DP and their "
            "scores are private; record a scale without them"
        )


def machine_words() -> str:
    """Return processor and cores: ``Intel(R) Xeon(R) Processor, 2 cores``."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        pass
    return f"{' '.join(name.split())}, {counted(os.cpu_count() or 1, 'core')}"


def _page(recorded: Recorded) -> Iterable[str]:
    """Return the lines of README.md."""
    runs, origin = recorded.runs, recorded.made
    audits, leaks = (int((recorded.rows["source"] == name).sum()) for name in ATTACKS)
    also = f"; {leaks} numbers that attacks on models measured" if leaks else ""
    counts = runs.groupby(["dataset", "group"]).agg(jobs=("job", "nunique"), rows=("job", "size"))
    return [
        f"# Recorded results of {runs['study'].iloc[0]}",
        "",
        f"private-graphs {origin.version}, {origin.date}. Machine: {origin.machine}. All jobs: "
        f"{origin.hours:.2f} hours.",
        "",
        *(["```", *origin.commands, "```", ""] if origin.commands else []),
        "| dataset | run group | jobs | rows |",
        "|---|---|---:|---:|",
        *(
            f"| {name} | {group} | {row.jobs} | {row.rows} |"
            for (name, group), row in zip(counts.index, counts.itertuples(), strict=True)
        ),
        "",
        f"- `{ROWS}`: {len(runs)} runs and {audits} audits, a row each{also}.",
        f"- `{STATEMENTS}`: {len(recorded.statements)} privacy statements by identifier.",
        f"- `{PREDICTIONS}`: of each job the uint8 classes of its rows, in their order, as bytes "
        "of zlib; of each dataset the numbers and labels of its test records.",
        "",
        "Every run has a published seed: these files show what the code does on public data, and "
        "protect nobody. `private_graphs.site.record.read_recorded` reads them and checks that "
        "they belong together.",
    ]
