"""Tidy rows: finished jobs, audits and printed numbers as one frame of one schema.

What is read is held against what belongs to it: files against the hashes of their manifest, rows
against their statements, scores against the predictions that they were computed from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import safetensors
from pydantic import TypeAdapter, ValidationError

from private_graphs.errors import UserError
from private_graphs.files import MANIFEST, WITHOUT_DP, atomic_path, check_manifest, resource
from private_graphs.jobs import JOB_FILE, Job
from private_graphs.methods import method_named
from private_graphs.privacy.statements import Audit, PrivacyStatement, check_row, with_audit
from private_graphs.study import Study
from private_graphs.training.metrics import scores

TEXT, NUMBER, COUNT, FLAG = "object", "float64", "Int64", "boolean"
RUN_COLUMNS: dict[str, str] = {
    **dict.fromkeys(("study", "group", "job", "dataset", "features", "view", "method", "scenario",
                     "protocol", "settings"), TEXT),
    **dict.fromkeys(("epsilon", "delta"), NUMBER),
    **dict.fromkeys(("seed", "validation_labels", "validation_nodes"), COUNT),
    "selected": FLAG, "n_configurations": COUNT,
    **dict.fromkeys(("noise_multiplier", "epsilon_claimed", "epsilon_proved"), NUMBER),
    **dict.fromkeys(("unit", "relation", "inference", "status", "statement_id", "replica_id",
                     "noise_source"), TEXT),
    **dict.fromkeys(("test_micro_f1", "test_macro_f1", "test_accuracy", "validation_micro_f1",
                     "validation_macro_f1", "majority_micro_f1", "random_micro_f1", "seconds"),
                    NUMBER),
    **dict.fromkeys(("device", "data_fingerprint", "code_fingerprint"), TEXT),
}  # fmt: skip
"""Columns of every ``runs.parquet``, one row per replica; methods add what they measure.

``settings`` is a JSON object with sorted keys; ``epsilon`` is infinite without DP and 0 where
nothing private is read.
"""
AUDIT_COLUMNS: dict[str, str] = {
    **dict.fromkeys(("epsilon_lower", "epsilon_lower_gaussian", "one_run_epsilon_lower",
                     "confidence", "runs", "errors", "verdict_epsilon_lower",
                     "verdict_confidence", "n_classes"), NUMBER),
    **dict.fromkeys(("verdict", "design"), TEXT),
}  # fmt: skip
"""What an audit shows; its ``epsilon`` is the claim that it attacks."""
ROW_COLUMNS: dict[str, str] = {"source": TEXT, **RUN_COLUMNS, **AUDIT_COLUMNS}
"""Columns of tidy rows with their types. ``source``: own, recorded, published or audit."""

_AGAIN = "delete {} and run the job again"


def tidy(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all frames with ``ROW_COLUMNS``, then what methods measure by name."""
    frames = [frame for frame in frames if len(frame)]
    measured = sorted({name for frame in frames for name in frame} - set(ROW_COLUMNS))
    types = ROW_COLUMNS | {
        name: NUMBER
        if all(pd.api.types.is_numeric_dtype(frame[name]) for frame in frames if name in frame)
        else TEXT
        for name in measured
    }
    if not frames:
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in types.items()})
    rows = pd.concat([frame.astype("object") for frame in frames], ignore_index=True)
    rows = rows.reindex(columns=list(types))
    return rows.where(rows.notna(), None).astype(types)


def write_rows(rows: pd.DataFrame, path: Path) -> None:
    """Write tidy rows as parquet; equal rows give equal bytes."""
    table = pyarrow.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None)
    with atomic_path(path) as temporary:
        pyarrow.parquet.write_table(table, temporary, compression="zstd", compression_level=19)


def read_rows(path: Path) -> pd.DataFrame:
    """Read what ``write_rows`` wrote; UserError for a file that is damaged or lacks columns."""
    rows = _read_frame(path, "write it again (run snakemake)")
    return tidy([_with_columns(path, rows, ROW_COLUMNS, "write it again (run snakemake)")])


# --- finished jobs ----------------------------------------------------------------------------


def find_jobs(scale_folder: Path) -> list[Path]:
    """Return the folders of finished jobs below ``<scale_folder>/jobs``, sorted.

    A manifest is written last: a job that was killed has none.
    """
    manifests = (Path(scale_folder) / "jobs").rglob(MANIFEST)
    return sorted(path.parent for path in manifests if path.parent.name != WITHOUT_DP)


def collect(
    scale_folder: Path, processed: Path | None = None, jobs: Collection[str] | None = None
) -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
    """Read all finished jobs below a folder such as ``results/full``: tidy rows, and statements.

    ``jobs`` are the identifiers of those that count, None: all that have finished.
    Runs come first (``source`` is own), then audits. Statements are as they were written, without
    the audits of ``audited``. With the folder of built datasets (``data/processed``), scores are
    computed again where the dataset is there. Raises UserError for a file that is damaged, naming
    it, what is wrong and what to do.
    """
    runs, audits, statements = [], [], {}
    labels = _labels_of(processed)
    for folder in find_jobs(scale_folder):
        name = folder.relative_to(Path(scale_folder) / "jobs").as_posix()
        if jobs is not None and name not in jobs:
            continue
        job = read_job(folder)
        if folder != Path(scale_folder) / "jobs" / job.id:
            raise UserError(
                f"{folder / JOB_FILE}: the plan of {job.id}; expected a plan of this folder: "
                f"{_AGAIN.format(folder)}"
            )
        if job.attack is not None:
            _check_hashes(folder)
            audits.append(audit_row(job, _read_json(folder / "audit.json")))
            continue
        for place in (folder, folder / WITHOUT_DP):
            if place == folder or place.is_dir():
                rows, own = read_runs(place, labels)
                _check_plan(place, job, rows)
                runs.append(rows.assign(source="own"))
                statements |= own
    attacks = pd.DataFrame(audits)
    if len(attacks):
        attacks = attacks.sort_values(["study", "group", "job"], kind="stable")
    return tidy([*runs, attacks]), statements


def read_job(folder: Path) -> Job:
    """Return the plan of a finished job; UserError where it is not readable."""
    path = folder / JOB_FILE
    try:
        return Job.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: not the plan of a job ({_first_line(error)}); {_AGAIN.format(folder)}"
        ) from None


def read_runs(
    folder: Path, labels: Callable[[Mapping[str, Any]], np.ndarray | None] = lambda row: None
) -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
    """Return rows and statements of one folder after all checks.

    ``labels`` gives the (N,) labels of the dataset of a row, or None. A folder without a manifest
    passes the check of hashes alone. Raises UserError as ``collect``.
    """
    _check_hashes(folder)
    path, remedy = folder / "runs.parquet", _AGAIN.format(folder)
    rows = _with_columns(path, _read_frame(path, remedy), RUN_COLUMNS, remedy)
    statements = read_statements(folder / "statement.json")
    absent = sorted(set(rows["statement_id"]) - set(statements))
    if absent:
        raise UserError(
            f"{folder / 'statement.json'}: no statement {', '.join(map(str, absent))}, which "
            f"runs.parquet refers to; {remedy}"
        )
    try:
        check_statements(rows, statements)
        _check_predictions(folder, rows, labels)
    except UserError as error:
        raise UserError(f"{path}: {error}; {remedy}") from None
    return rows, statements


def check_statements(rows: pd.DataFrame, statements: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise UserError where a row says something else than its statement."""
    told = {
        name: (PrivacyStatement.model_validate(value), _alone(value)["status"])
        for name, value in statements.items()
    }
    for row in rows.astype("object").where(rows.notna(), None).to_dict("records"):
        statement, status = told[row["statement_id"]]
        check_row(row, statement)
        if row["status"] != status:
            raise UserError(
                f"row {row['replica_id']}: status is {row['status']!r}, its statement "
                f"{statement.statement_id} says {status!r}: one of the two was changed after they "
                "were written"
            )


def _alone(statement: Mapping[str, Any]) -> dict[str, Any]:
    """A statement as it was written, before audits."""
    if statement["audit"] is None:
        return dict(statement)
    proved = statement["epsilon_proved"] is not None
    hidden = statement["noise_source"] == "os_entropy" or not statement["mechanisms"]
    status = ("proved" if hidden else "proved_if_seed_secret") if proved else "published_only"
    return {**statement, "audit": None, "status": status}


def check_scores(rows: pd.DataFrame, predictions: np.ndarray, truth: np.ndarray) -> None:
    """Raise UserError where test scores are not those of the predictions.

    ``predictions`` (R, M) are classes in the order of ``rows``; ``truth`` (M,) labels, -1 where
    there is none: such records count as class 0 where the protocol says so, else not at all.
    """
    for row, predicted in zip(rows.to_dict("records"), predictions, strict=True):
        protocol = method_named(row["method"]).protocols[row["protocol"]]
        labels = np.maximum(truth, 0) if protocol.unlabelled == "class_zero" else truth
        scored = labels >= 0
        for name, value in scores(labels[scored], predicted[scored].astype(np.int64)).items():
            if not np.isclose(row[f"test_{name}"], value, rtol=0, atol=1e-9):
                raise UserError(
                    f"row {row['replica_id']} says test_{name} {row[f'test_{name}']:.6g}, its "
                    f"predictions score {value:.6g}"
                )


def _check_predictions(
    folder: Path, rows: pd.DataFrame, labels: Callable[[Mapping[str, Any]], np.ndarray | None]
) -> None:
    path = folder / "predictions.safetensors"
    try:
        with safetensors.safe_open(path, "numpy") as stored:
            order = json.loads(stored.metadata()["replica_ids"])
            classes, records = (stored.get_tensor(name) for name in ("predictions", "test_records"))
    except (OSError, KeyError, TypeError, ValueError, safetensors.SafetensorError) as error:
        raise UserError(f"{path.name} is not readable ({_first_line(error)})") from None
    if order != rows["replica_id"].tolist() or classes.shape != (len(rows), len(records)):
        raise UserError(f"the runs are not those of {path.name}")
    truth = labels(rows.iloc[0].to_dict())
    if truth is not None:
        check_scores(rows, classes, truth[records])


def _labels_of(processed: Path | None) -> Callable[[Mapping[str, Any]], np.ndarray | None]:
    """Return a function from a row to the labels of its dataset, None where that is not built."""
    from private_graphs.datasets.registry import load_built

    read: dict[Path, np.ndarray] = {}

    def labels(row: Mapping[str, Any]) -> np.ndarray | None:
        if processed is None:
            return None
        folder = Path(processed) / row["dataset"]
        if row["view"] is not None:
            folder = folder / row["features"] / row["view"]
        if not (folder / "dataset.json").is_file():
            return None
        if folder not in read:
            dataset = load_built(folder)
            if row["data_fingerprint"] != dataset.fingerprint and row["noise_source"] == "seeded":
                return None  # made of other data
            read[folder] = dataset.labels
        return read[folder]

    return labels


def _check_plan(folder: Path, job: Job, rows: pd.DataFrame) -> None:
    for name in ("study", "group", "job", "dataset", "method", "scenario", "protocol"):
        value = job.name if name == "job" else getattr(job, name)
        others = set(rows[name]) - {value}
        if others:
            raise UserError(
                f"{folder / 'runs.parquet'}: {name} is {', '.join(map(str, others))}; its job.json "
                f"says {value}: {_AGAIN.format(folder)}"
            )


def _check_hashes(folder: Path) -> None:
    try:
        check_manifest(folder)
    except UserError as error:
        raise UserError(f"{error}; {_AGAIN.format(folder)}") from None


def _read_frame(path: Path, remedy: str) -> pd.DataFrame:
    try:
        return pyarrow.parquet.ParquetFile(path).read(use_threads=False).to_pandas()
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not readable rows ({_first_line(error)}); {remedy}") from None


def _with_columns(
    path: Path, rows: pd.DataFrame, columns: Iterable[str], remedy: str
) -> pd.DataFrame:
    missing = [name for name in columns if name not in rows]
    if missing:
        raise UserError(f"{path}: no column {', '.join(missing)}; expected those of rows; {remedy}")
    return rows


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: not readable ({_first_line(error)}); {_AGAIN.format(path.parent)}"
        ) from None


def read_statements(path: Path) -> dict[str, dict[str, Any]]:
    """Return the statements of a file by identifier.

    Raises UserError for one with a wrong field, or whose content does not give its identifier.
    """
    values = _read_json(path)
    if not isinstance(values, dict):
        raise UserError(
            f"{path}: expected an object from statement_id to statement; "
            f"{_AGAIN.format(path.parent)}"
        )
    statements = {}
    for name, value in values.items():
        try:
            statement = PrivacyStatement.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, (name, *first["loc"])))
            raise UserError(
                f"{path}: {key}: {first['msg']}; {_AGAIN.format(path.parent)}"
            ) from None
        if statement.statement_id != name:
            raise UserError(
                f"{path}: {name} holds the statement {statement.statement_id}; "
                f"{_AGAIN.format(path.parent)}"
            )
        statements[name] = statement.model_dump(mode="json")
    return statements


def read_statistics(scale_folder: Path) -> list[dict[str, Any]]:
    """Return the statistics of the datasets that exhibits of a scale were made with, sorted."""
    values = [_read_json(path) for path in (Path(scale_folder) / "datasets").glob("*.json")]
    return sorted(values, key=lambda value: (value["name"], value.get("view") or ""))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


# --- audits -----------------------------------------------------------------------------------


def audit_row(job: Job, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a finished audit (``attacks.audit.Audit.document``).

    Raises UserError for a document that lacks a field.
    """
    try:
        settings = {**job.settings, "epochs": document["epochs"]}
        if "splits" in method_named(job.method).settings.model_fields:
            settings |= {"splits": document["n_splits"], "visits": document["visits"]}
        one_run = document["one_run"] and document["one_run"]["epsilon_lower"]
        copied = ("delta", "seed", "unit", "relation", "noise_multiplier", "epsilon_proved",
                  "epsilon_lower", "epsilon_lower_gaussian", "confidence", "runs", "errors",
                  "verdict", "verdict_epsilon_lower", "verdict_confidence", "design")  # fmt: skip
        return {
            "source": "audit", "study": job.study, "group": job.group, "job": job.name,
            "method": job.method, "scenario": job.scenario, "protocol": job.protocol,
            "settings": json.dumps(settings, sort_keys=True),
            "epsilon": document["epsilon_claimed"],
            "epsilon_claimed": document["epsilon_published"],
            "one_run_epsilon_lower": one_run, "n_classes": document.get("n_classes"),
            **{name: document[name] for name in copied},
        }  # fmt: skip
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{job.id}/audit.json: an audit without {error}; expected what audits write: delete "
            "its folder and run the job again"
        ) from None


def audited(
    rows: pd.DataFrame, statements: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the statements with the audits among ``rows`` that speak of their claims.

    An audit attacks a tiny task of its own. What it shows may be set against the claim of another
    run where both claims are one: the same code (method, scenario, protocol, visits, splits), the
    same ε asked for, the same unit and δ, and an equal or stronger relation. A claim is about
    every dataset and about all noisy gradients, which an optimizer only processes further, so that
    dataset, train fraction and optimizer may differ; another number of steps, and with it another
    noise, is another mechanism under the same rule, so that ``design`` names what was attacked
    (docs/privacy.md §11). Identifiers stay. Raises UserError where an audit breaks a proof.
    """
    audits = rows[rows["source"] == "audit"].to_dict("records")
    joined = dict(statements)
    if not audits:
        return joined
    runs = rows[rows["statement_id"].isin(list(statements))].drop_duplicates("statement_id")
    for row in runs.to_dict("records"):
        statement = PrivacyStatement.model_validate(statements[row["statement_id"]])
        if statement.epsilon_target is None or statement.audit is not None:
            continue
        bounds = [_as_audit(audit) for audit in audits if _same_claim(audit, row, statement)]
        strongest = max(bounds, key=lambda audit: audit.epsilon_lower, default=None)
        if strongest is not None:
            document = with_audit(statement, strongest).model_dump(mode="json")
            joined[statement.statement_id] = document
    return joined


def _same_claim(
    audit: Mapping[str, Any], row: Mapping[str, Any], statement: PrivacyStatement
) -> bool:
    attacked, settings = json.loads(audit["settings"]), json.loads(row["settings"])
    same = ("method", "scenario", "protocol", "epsilon")
    return (
        all(audit[name] == row[name] for name in same)
        and all(
            attacked[name] == settings[name]
            for name in ("visits", "splits")
            if name in attacked and name in settings
        )
        and (audit["unit"], audit["delta"]) == (statement.unit, statement.delta)
        and statement.relation in ("replace", audit["relation"])
        and _falls_alike(audit, audit["epsilon_claimed"], statement.epsilon_published)
        and _falls_alike(audit, audit["epsilon_proved"], statement.epsilon_proved)
    )


def _falls_alike(audit: Mapping[str, Any], theirs: float, ours: float | None) -> bool:
    """Return whether the bound is on one side of both values of a budget.

    The same ε asked for gives slightly different budgets at different steps: between the two an
    audit would refute a claim that was not attacked.
    """
    lower = audit["verdict_epsilon_lower"]
    return ours is None or np.isnan(theirs) or (lower > theirs) == (lower > ours)


def _as_audit(audit: Mapping[str, Any]) -> Audit:
    attacked = json.loads(audit["settings"])
    named = [f"{name.replace('_', ' ')} {value}" for name, value in attacked.items()]
    return Audit(
        design=(
            f"{audit['design']} of the same code at the same claim, not of these runs: "
            f"{', '.join(named)}, noise multiplier {audit['noise_multiplier']:g}"
        ),
        unit=audit["unit"],
        relation=audit["relation"],
        delta=audit["delta"],
        runs=int(audit["runs"]),
        epsilon_lower=audit["verdict_epsilon_lower"],
        confidence=audit["verdict_confidence"],
    )


# --- printed numbers --------------------------------------------------------------------------


def published_rows(study: Study, folder: Path | None = None) -> pd.DataFrame:
    """Return what a study's sources print as tidy rows: ``group`` is the name in the study file.

    Columns of a CSV are renamed as the study file says, and must then be columns of rows or
    settings of the method; others have to be renamed too, if only to themselves. ``folder`` is
    another one than ``studies/published``. Raises UserError for a file or column that there is
    not, and for a setting that the method does not take.
    """
    folder = folder or resource("studies/published")
    return tidy(
        _published(folder / printed.file, study.id, name, printed.rename, printed.set)
        for name, printed in study.published.items()
    )


def _published(
    path: Path, study: str, name: str, rename: Mapping[str, str], constant: Mapping[str, Any]
) -> pd.DataFrame:
    where = f"studies/{study}.yaml: published.{name}"
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
    """Return printed settings as text, in the types that the method gives them."""
    typed = {}
    for name, value in values.items():
        if pd.isna(value):
            continue
        try:
            typed[name] = TypeAdapter(fields[name].annotation).validate_python(value)
        except ValidationError as error:
            raise UserError(f"{where}: {name}: {value!r}: {error.errors()[0]['msg']}") from None
    return json.dumps(typed, sort_keys=True)


def with_settings(rows: pd.DataFrame) -> pd.DataFrame:
    """Return ``rows`` with a column for every setting.

    A setting whose name a column has already is called ``<name>_setting``: ``epochs`` are those
    that were trained, ``epochs_setting`` the most that were allowed.
    """
    texts = rows["settings"].fillna("{}")
    values = {text: json.loads(text) for text in texts.unique()}
    names: Sequence[str] = sorted({name for settings in values.values() for name in settings})
    columns = {
        f"{name}_setting" if name in rows else name: pd.Series(
            [values[text].get(name) for text in texts], index=rows.index, dtype="object"
        ).infer_objects()
        for name in names
    }
    return pd.concat([rows, pd.DataFrame(columns, index=rows.index)], axis=1)
