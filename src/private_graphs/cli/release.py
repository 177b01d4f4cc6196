"""Files of ``private-graphs classify --out``: a folder that may be shared, and a private one."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from private_graphs.cli.run import prepare_folder, save
from private_graphs.core.files import write_json, write_text
from private_graphs.core.private_files import private_folder
from private_graphs.core.spreadsheets import table_text

if TYPE_CHECKING:
    from private_graphs.running.jobs import Job
    from private_graphs.running.result import JobResult

RELEASE, PRIVATE = "release", "private"
"""Subfolders of ``--out``: files that may be shared, and files for the owner of the data."""
_RELEASED = ("predictions.csv", "statement.json", "README.md", "manifest.json")
"""Files in ``release``, with the manifest of the others last; all others are in ``private``."""
_KEEP = """# Not to be shared

No privacy statement covers this folder. It is for the owner of the data: scores on the test labels,
the job of the run, and the same of public data alone. What may be shared is in `release`, which a
run without DP or with a kept seed does not have.
"""
_SHARE = """# Predictions of {method} on {dataset}

`predictions.csv` has the predicted class of every test node (`node`: row of the data, from 0).
`statement.json` says what is guaranteed, number by number. `manifest.json` has the sha256 of the
files: it finds mistakes, not forgers. `private-graphs explain FOLDER` checks the files of this
folder and says in words what follows.
"""


def save_run(result: JobResult, job: Job, classes: list[str], out: Path) -> None:
    """Write ``release`` (may be shared) and ``private`` below ``out`` (docs/privacy.md §5)."""
    for name in _RELEASED:  # files of an earlier run: a release is complete or absent
        (out / RELEASE / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        (out / RELEASE).rmdir()
    (statement,) = result.statements.values()
    # With the seed the noise can be removed, and a plain hash of the data confirms guesses.
    unsafe = statement["status"] == "not_private" or statement["noise_source"] == "seeded"
    with private_folder(out / PRIVATE):
        save(result, job, out / PRIVATE)
        write_text(out / PRIVATE / "README.md", _KEEP)
        (out / PRIVATE / "predictions.csv").unlink(missing_ok=True)
        if unsafe:
            _save_predictions(result, classes, out / PRIVATE)
    if not unsafe:
        _save_release(result, job, classes, out / RELEASE)


def save_public(result: JobResult, job: Job, classes: list[str], out: Path) -> None:
    """Write the result of public data alone, unshared: its scores read test labels."""
    folder = out / PRIVATE / job.method
    with private_folder(folder):
        save(result, job, folder)
        _save_predictions(result, classes, folder)


def _save_predictions(result: JobResult, classes: list[str], folder: Path) -> None:
    """Write the predictions as CSV."""
    pairs = zip(result.test_records, result.test_predictions[0], strict=True)
    rows = ((int(node), classes[predicted]) for node, predicted in pairs)
    write_text(folder / "predictions.csv", table_text(["node", "predicted"], rows))


def _save_release(result: JobResult, job: Job, classes: list[str], folder: Path) -> None:
    """Write the files that the statement covers, and nothing else."""
    from private_graphs.core.manifest import write_manifest
    from private_graphs.core.markup import markdown_text
    from private_graphs.privacy.statements import PrivacyStatement
    from private_graphs.report.statement import paragraphs

    prepare_folder(folder)
    _save_predictions(result, classes, folder)
    write_json(folder / "statement.json", result.statements)
    (statement,) = map(PrivacyStatement.model_validate, result.statements.values())
    about = _SHARE.format(method=job.method, dataset=markdown_text(job.dataset))
    promised = [f"## {heading}\n\n{markdown_text(' '.join(map(str, sentences)))}\n"
                for heading, sentences in paragraphs(statement)]  # fmt: skip
    write_text(folder / "README.md", "\n".join([about, *promised]))
    code = result.rows["code_fingerprint"].iloc[0]
    write_manifest(folder, _RELEASED[:-1], result.statements, code)
