"""Parts of ``train``: options of a run, running a job on a dataset, and saving its files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from private_graphs.cli.comparison import PUBLIC_METHODS
from private_graphs.cli.terminal import ProgressBar, say
from private_graphs.core.errors import UsageError, counted
from private_graphs.core.files import make_writable
from private_graphs.core.limits import MOST_EDGES
from private_graphs.privacy.checks import check_delta

if TYPE_CHECKING:
    from private_graphs.running.jobs import Job
    from private_graphs.running.result import JobResult

NEEDS_EPSILON = "give --epsilon: a number, or inf for a run without DP"
STUDY = "command-line"
"""Study name of command-line jobs; their group is the command."""


def checked_delta(delta: float) -> float:
    """Return ``delta``; UsageError unless it is one."""
    check_delta(delta, "--delta")
    return delta


Protocols = Literal["released", "paper", "sound"]
Visits = Annotated[
    Literal["protocol", "epoch_sum", "poisson"] | None,
    Option(help="With splits, under sound: per-epoch sum (its own) or Poisson steps."),
]
FeatureKind = Annotated[
    str | None, Option(metavar="bow|fasttext|bert|sbert", help="Features made of texts; default: "
                       "those the dataset was declared with, else its own.")
]  # fmt: skip
MaxEdges = Annotated[
    int | None, Option(min=1, max=MOST_EDGES, metavar="N", help="Public bound on the number of "
                       "links, which --scenario edges needs of a graph of your own: any that is "
                       "known without looking at them.")
]  # fmt: skip
Device = Annotated[
    Literal["auto", "cpu", "cuda"], Option(help="Where models read texts and train.")
]
ProtocolName = Annotated[
    Protocols, Option(help="released: what the authors' code does; paper: what the text says; "
                      "sound: what can be proved.")
]  # fmt: skip
Delta = Annotated[float, Option(help="The delta of (epsilon, delta)-DP.", callback=checked_delta)]


def checked_epsilon(epsilon: str | None, needed: str = NEEDS_EPSILON) -> float:
    """Return the budget (inf: no DP); UsageError with the text ``needed`` if it is missing."""
    if epsilon is None:
        raise UsageError(needed)
    try:
        value = float(epsilon)
    except ValueError:
        raise UsageError(f"--epsilon is {epsilon!r}; expected a number or inf") from None
    if not value > 0:
        raise UsageError(f"--epsilon is {epsilon}; expected a number above 0, or inf for no DP")
    if math.isinf(value) and any(sign.isdigit() for sign in str(epsilon)):
        raise UsageError(
            f"--epsilon is {epsilon}, which is too large for a number; expected inf for no DP"
        )
    return value


def load_data(
    name: str, features: str | None, view: Any, mirror: str | None, data: Path, device: str,
    threads: int,
):  # fmt: skip
    """Supply the raw files of a dataset, make its features, and return it."""
    from private_graphs.core.devices import resolve_device
    from private_graphs.features.load import load_dataset

    if device == "cuda":  # features that count words would not check for a GPU
        resolve_device(device)
    with ProgressBar("features", "text") as progress:
        return load_dataset(
            name, features, view, data, mirror,
            threads=threads, device=device, progress=progress,
        )  # fmt: skip


def declared_bound(dataset: str, data: Path) -> int | None:
    """Return the declared bound on the edges of a dataset."""
    from private_graphs.datasets.registry import OWN_FOLDER, dataset_spec

    return dataset_spec(dataset, data.parent / OWN_FOLDER.name).max_edges


def refuse_without_memory(job: Job, features: str | None, data: Path) -> None:
    """Raise UsageError for a job that needs more memory than there is."""
    from private_graphs.datasets.registry import OWN_FOLDER, dataset_spec, features_of
    from private_graphs.running.memory import megabytes, refuse_large_job

    spec = dataset_spec(job.dataset, data.parent / OWN_FOLDER.name)
    needed = megabytes(job, spec.size_with(features_of(spec, features)))
    refuse_large_job(needed, f"{counted(job.n_replicas, 'run')} of {job.method} on {job.dataset}")


def named(job: Job, features: str) -> Job:
    """Return ``job`` with the features of its dataset, and the name that follows."""
    from private_graphs.methods import method_named
    from private_graphs.running.jobs import job_name

    method = method_named(job.method)
    settings = method.settings.model_validate(job.settings).model_dump(mode="json")
    options = {name: settings[name] for name in sorted({*method.named, *job.settings})
            if name in job.settings or settings[name] is not None}  # fmt: skip
    parts = (job.dataset, features, job.method, job.scenario, job.protocol)
    return job.model_copy(update={"features": features, "name": job_name(parts, options, job.view)})


def carry_out(
    job: Job, dataset: Any, noise_source: str, device: str = "cpu", threads: int = 1
) -> JobResult:
    """Run a job with a progress bar; test records without a label are predicted too."""
    from private_graphs.core.imports import code_fingerprint
    from private_graphs.methods import module_of
    from private_graphs.running.run import execute
    from private_graphs.workflow.replays import missing_replay

    if job.scenario not in PUBLIC_METHODS and device == "cpu" and not _compiled():
        say("compiling kernels, once per machine (about half a minute)")
    with ProgressBar(job.method, "step", timed=noise_source == "seeded") as progress:
        return execute(
            job, dataset, noise_source=noise_source, device=device, threads=threads,
            progress=progress, unlabelled=True, missing_replay=missing_replay(),
            code_fingerprint=code_fingerprint("private_graphs.running.run", module_of(job.method)),
        )  # fmt: skip


def _compiled() -> bool:
    """Return whether the CPU training kernels are already compiled on this machine."""
    import numba

    import private_graphs.core.compiled  # noqa: F401  (it sets the cache folder)

    return any(Path(numba.config.CACHE_DIR).rglob("kernels.train_step-*.nbi"))


def save(result: JobResult, job: Job, folder: Path) -> None:
    """Write the files of a result, with the job."""
    from private_graphs.workflow.verify import finish

    make_writable(folder)
    result.save(folder)
    finish(folder, job, [])


def statement_text(statement: dict[str, Any]) -> str:
    """Return a privacy statement as a few lines for a terminal."""
    from private_graphs.privacy.explain import terminal
    from private_graphs.privacy.statements import PrivacyStatement

    return terminal(PrivacyStatement.model_validate(statement))
