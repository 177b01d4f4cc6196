"""``private-graphs train``: one job of any method, by default the GCN of LREC 2022."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from private_graphs.cli import run
from private_graphs.cli.comparison import PUBLIC_METHODS, Compared
from private_graphs.cli.options import DATA, AsJson, DataFolder, Mirror, Threads
from private_graphs.cli.run import (
    NEEDS_EPSILON,
    STUDY,
    carry_out,
    checked_epsilon,
    declared_bound,
    load_data,
    named,
    refuse_without_memory,
    save,
    statement_text,
)
from private_graphs.cli.terminal import number, print_json, print_text, say
from private_graphs.core.errors import UsageError, counted, refuse_idle, suggest
from private_graphs.core.files import make_writable
from private_graphs.core.limits import LARGEST_SEED, MOST_SEEDS
from private_graphs.privacy.checks import check_noise

if TYPE_CHECKING:
    import pandas as pd

    from private_graphs.running.jobs import Job
    from private_graphs.running.result import JobResult
    from private_graphs.tasks.method import Method

_SETTINGS = {
    "optimizer": "--optimizer", "splits": "--splits", "visits": "--visits", "epochs": "--epochs",
    "learning_rate": "--lr", "noise_multiplier": "--noise-multiplier", "dtype": "--dtype",
    "engine": "--engine", "patience": "--early-stopping",
}  # fmt: skip
"""Method settings that have a flag of their own."""


def train(
    *,
    dataset: str,
    features: run.FeatureKind = None,
    optimizer: str | None = None,
    protocol: run.ProtocolName = "sound",
    epsilon: str | None = None,
    noise_multiplier: float | None = None,
    method: str = "gcn",
    scenario: str | None = None,
    max_edges: run.MaxEdges = None,
    splits: int | None = None,
    visits: run.Visits = None,
    seeds: Annotated[int, Option(min=1, max=MOST_SEEDS)] = 1,
    seed: Annotated[int | None, Option(min=0, max=LARGEST_SEED)] = None,
    lr: float | None = None,
    epochs: int | None = None,
    delta: run.Delta = 1e-5,
    early_stopping: bool | None = None,
    more: Annotated[list[str] | None, Option("--set")] = None,
    mirror: Mirror = None,
    data: DataFolder = DATA,
    device: run.Device = "auto",
    dtype: str | None = None,
    engine: str | None = None,
    threads: Threads = 1,
    out: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """Train one job; print its scores and the privacy that is proved for it.

    Datasets are public, and taken as if they were private. --scenario text protects a training node
    with its text, label and edges, and the validation texts are public; graph makes public the test
    texts too, and the edges among public nodes; edges protects edges alone. These three also print
    what public data alone give. Validation labels are public.

    Examples:

    \b
    private-graphs train --dataset cora --method class_sums --scenario text \\
      --epsilon 2

    private-graphs train --dataset synthetic-planetoid --protocol sound --epsilon 2

    private-graphs train --dataset my_graph --epsilon 2 --splits 100 --lr 0.01

    \b
    private-graphs train --dataset cora --optimizer adam --protocol paper \\
      --epsilon 2 --splits 10 --seeds 5 --seed 0 --mirror DIR --out results/cora

    Args:
        dataset (str): such as cora, synthetic-planetoid (offline), or a graph of your own.
        optimizer (sgd|adam): default adam.
        epsilon (str): privacy budget, or inf for a run without DP.
        noise_multiplier (float): noise in place of ``epsilon``.
        method (NAME): such as class_sums; an unknown name lists them.
        scenario (NAME): what is protected and what is public; default: the method's first.
        splits (int): random parts of the training graph; default 1.
        seeds (int): number of replicas.
        seed (int): first seed; makes the run repeatable, and the guarantee suppose that the seed
            stays secret.
        lr (float): learning rate. Default .01; Adam with DP: best of .01 … 100 on the validation
            nodes.
        epochs (int): default 2000 for sgd, 500 for adam.
        early_stopping (bool): only without DP; there the default.
        more (NAME=VALUE): a further setting of the method, such as hidden=64; may be given several
            times.
        dtype (float32|float64): default float32.
        engine (str): reference: PyTorch Geometric and Opacus alone, one run after the other, in
            place of the compiled engine.
        out (folder): folder for runs.parquet, predictions.safetensors, statement.json, job.json,
            and those of public data alone.
    """
    flags = dict(locals())
    _report(*_trained(planned(flags), flags), as_json)


def _trained(job: Job, flags: dict[str, Any]) -> tuple[JobResult, Compared | None]:
    """Run a job and its rival on public data alone, save them, and return both."""
    from private_graphs.core.devices import resolve_device
    from private_graphs.methods import method_named
    from private_graphs.running.views import data_view
    from private_graphs.tasks.tasks import SCENARIOS

    data, device, threads, out = (flags[name] for name in ("data", "device", "threads", "out"))
    proved = method_named(job.method).protocols[job.protocol].calibration == "proved"
    noise_source = "os_entropy" if proved and flags["seed"] is None else "seeded"
    used = resolve_device(device)
    if out is not None:
        make_writable(out)  # errors appear before the training
    if SCENARIOS[job.scenario].unit == "edge_undirected" and job.max_edges is None:
        job = job.model_copy(update={"max_edges": declared_bound(job.dataset, data)})
    refuse_without_memory(job, flags["features"], data)
    built = load_data(job.dataset, flags["features"], data_view(job), flags["mirror"], data, device,
                      threads)  # fmt: skip
    job = named(job, built.info.features)
    say(f"{job.name}: {counted(job.n_replicas, 'run')}")
    result = carry_out(job, built, noise_source, used, threads)
    if out is not None:  # before anything can fail: its privacy is spent
        save(result, job, out)
    compared = None
    if free := _public_job(job):
        public = carry_out(free, built, noise_source, used, threads)
        compared = Compared.of(result, public, built.labels)
        if out is not None:
            save(public, free, out / free.method)
    if out is not None:
        say(f"saved in {out}")
    return result, compared


def planned(flags: dict[str, Any]) -> Job:
    """Turn the flags of ``train`` into a validated job, without its features and name."""
    from private_graphs.methods import method_named
    from private_graphs.running.jobs import Job
    from private_graphs.tasks.tasks import SCENARIOS

    method, protocol = method_named(flags["method"]), flags["protocol"]
    scenario = flags["scenario"] or method.scenarios[0]
    if method.noise_is_given:
        raise UsageError(
            f"--method is {method.name!r}, whose noise is given and whose epsilon follows from it "
            "and the data; a study runs it: snakemake"
        )
    if scenario not in method.scenarios:
        raise UsageError(
            f"--scenario is {scenario!r}; {method.name} has {', '.join(method.scenarios)}"
            f"{_fitting(scenario)}"
        )
    if flags["max_edges"] is not None and SCENARIOS[scenario].unit != "edge_undirected":
        raise UsageError(f"--max-edges: {scenario} protects no edge; leave the flag out")
    if protocol not in method.protocols:
        raise UsageError(
            f"--protocol is {protocol!r}; {method.name} has {', '.join(method.protocols)}"
        )
    settings, choose = _settings(method, flags)
    epsilon = _epsilon(method, settings, flags)
    refuse_idle("this run is without DP", delta=math.isinf(epsilon) and flags["delta"] != 1e-5)
    if flags["early_stopping"] and math.isfinite(epsilon):
        raise UsageError(
            "--early-stopping is for runs without DP: the stopping epoch of a private run would "
            "be a further query; leave the flag out and fix --epochs"
        )
    start = flags["seed"] or 0
    return Job(
        study=STUDY, group="train", name="", dataset=flags["dataset"], method=method.name,
        scenario=scenario, protocol=protocol, settings=settings, epsilons=(epsilon,),
        seeds=tuple(range(start, start + flags["seeds"])), delta=flags["delta"], choose=choose,
        max_edges=flags["max_edges"],
    )  # fmt: skip


def _fitting(scenario: str) -> str:
    """Return the methods of a scenario in words; nothing for a scenario that there is not."""
    from private_graphs.methods import methods_of

    names = methods_of(scenario)
    return f", and {scenario} is for {', '.join(names)}" if names else ""


def _public_job(job: Job) -> Job | None:
    """Return the job on public data alone that ``job`` is compared with, if there is one."""
    from private_graphs.methods import method_named

    if job.scenario not in PUBLIC_METHODS or not method_named(job.method).reads_private:
        return None
    changes = {"method": PUBLIC_METHODS[job.scenario], "settings": {}, "choose": {}}
    return named(job.model_copy(update=changes), job.features)


def _epsilon(method: Method, settings: dict[str, Any], flags: dict[str, Any]) -> float:
    """Return the requested ε, or the one that the protocol assigns to the given noise."""
    noise, epsilon = settings.get("noise_multiplier"), flags["epsilon"]
    if not method.reads_private:
        if epsilon is not None:
            raise UsageError(f"--epsilon: {method.name} reads nothing private; leave the flag out")
        return math.inf  # unused: methods on public data alone have epsilon 0
    if noise is not None:
        check_noise(noise)
    if noise is None or method.epsilon_of is None:
        either = " or --noise-multiplier" if method.epsilon_of else ""
        return checked_epsilon(epsilon, f"{NEEDS_EPSILON}{either}")
    if epsilon is not None:
        raise UsageError("--epsilon and --noise-multiplier exclude each other: give one of them")
    config = method.settings.model_validate(settings)
    cost = method.epsilon_of(config, method.protocols[flags["protocol"]], flags["delta"])
    if not cost > 0:
        raise UsageError(
            f"--noise-multiplier is {noise:g}, so large that delta alone covers the run; expected "
            "less noise"
        )
    return cost


def _settings(method: Method, flags: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of flags, completed as in the source, and those that runs choose from."""
    from pydantic import ValidationError

    of_flags = {name: flags.get(flag[2:].replace("-", "_")) for name, flag in _SETTINGS.items()}
    given = {name: value for name, value in of_flags.items() if value is not None}
    if given.pop("patience", None) is False:
        given["patience"] = None
    for entry in flags["more"] or ():
        name, equals, value = entry.partition("=")
        if not equals:
            raise UsageError(f"--set is {entry!r}; expected NAME=VALUE, such as hidden=64")
        if name in given:
            raise UsageError(f"--set is {entry!r}, and {name} is given before; give it once")
        given[name] = _read(value)
    try:
        read = method.settings.model_validate(given).model_dump(mode="json")
    except ValidationError as error:
        raise UsageError(_message(method, error.errors()[0])) from None
    given = {name: read[name] for name in given}
    return method.completed(given) if method.completed else (given, {})


def _read(value: str) -> Any:
    """Return the value of ``--set``: a list or a mapping is JSON, all else stays text."""
    if not value.startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise UsageError(f"--set is {value!r}; expected JSON for a list or a mapping") from None


def _message(method: Method, error: Any) -> str:
    """Return the error message for a setting, with the name of its flag."""
    name = str(error["loc"][0])
    flag = _SETTINGS.get(name, f"--set {name}")
    if error["type"] == "extra_forbidden":
        names = list(method.settings.model_fields)
        return (
            f"{flag}: {method.name} has no setting {name}; it has {', '.join(names)}"
            f"{suggest(name, names)}"
        )
    expected = error["msg"].replace("Value error, ", "Input ").removeprefix("Input should be ")
    nearest = suggest(error["input"], re.findall(r"'([^']+)'", expected))
    return f"{flag} is {str(error['input'])!r}; expected {expected}{nearest}"


def _report(result: JobResult, compared: Compared | None, as_json: bool) -> None:
    """Print scores and statement; what a method has no value of is null, or is not said."""
    rows = result.rows[result.rows["selected"]]
    statement = result.statements[rows["statement_id"].iloc[0]]
    scores = [_score(row) for row in rows.to_dict("records")]
    if as_json:
        epochs = result.rows["epochs"].sum() if "epochs" in result.rows else math.nan
        seconds = result.rows["seconds"].sum(skipna=False)
        print_json(
            {
                "scores": scores,
                "epochs": json.loads(rows["settings"].iloc[0]).get("epochs"),
                "noise_multiplier": number(rows["noise_multiplier"].iloc[0]),
                "seconds_per_epoch": number(seconds / epochs),  # None where timing is secret
                "public_alone": compared and compared.numbers(),
                "statement": statement,
            }
        )
        return
    for score in scores:
        print_text(_line(**score))
    means = _means(rows)
    print_text(f"{means}\n" if means else "")
    if compared:
        print_text(f"{compared.sentence}\n")
    print_text(statement_text(statement))


def _score(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is printed of a run; learning rate and epochs are None where it has none."""
    settings, epochs = json.loads(row["settings"]), row.get("epochs", math.nan)
    return {
        "seed": row["seed"],
        "lr": settings.get("learning_rate"),
        "test_micro_f1": number(row["test_micro_f1"]),
        "validation_micro_f1": number(row["validation_micro_f1"]),
        "epochs": settings.get("epochs") if math.isnan(epochs) else int(epochs),
    }


def _line(
    seed: int, lr: float | None, test_micro_f1: float | None, validation_micro_f1: float | None,
    epochs: int | None,
) -> str:  # fmt: skip
    """Return a run in words, without scores that would read protected nodes."""
    seen = {"test micro-F1": test_micro_f1, "validation": validation_micro_f1}
    parts = [f"{name} {value:.3f}" for name, value in seen.items() if value is not None]
    if test_micro_f1 is None:
        parts.append("no test score: it would read nodes that are protected")
    steps = [] if lr is None else [f"lr {lr:g}"]
    steps += [] if epochs is None else [f"{epochs} epochs"]
    settings = f" ({', '.join(steps)})" if steps else ""
    return f"seed {seed}: {', '.join(parts)}{settings}"


def _means(rows: pd.DataFrame) -> str:
    """Return the mean and spread of the test score over several runs, and the majority's score."""
    test, majority = rows["test_micro_f1"], number(rows["majority_micro_f1"].mean())
    parts = [] if len(rows) > 1 else ["one run"]
    if len(rows) > 1 and test.notna().all():
        parts.append(f"mean {test.mean():.3f} ± {test.std(ddof=1):.3f}")
    if majority is not None:
        parts.append(f"majority {majority:.3f}")
    return "; ".join(parts)
