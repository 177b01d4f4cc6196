"""``private-graphs``: datasets, privacy accounting and training without Snakemake.

JSON goes to standard output, everything else to standard error. Exit codes: 0 done, 1 failed,
2 wrong usage.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from private_graphs.cells import Cell, CellPlan
from private_graphs.errors import UsageError, UserError, suggest
from private_graphs.privacy.calibration import PRINTED_EPOCHS, epsilon_for, noise_for
from private_graphs.privacy.checks import SMALLEST_NOISE

app = typer.Typer(
    help="Differentially private graph learning: data, accounting, training, with a privacy "
    "statement on every result.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

PRIVATE_LEARNING_RATES = {"sgd": (0.01,), "adam": (0.01, 0.1, 1.0, 10.0, 50.0, 100.0)}
"""Grids of the LREC 2022 paper for private training; the choice is made on validation nodes."""

Mirror = Annotated[
    str | None, typer.Option(help="Folder (or URL) with the raw files, tried before the network.")
]
DataFolder = Annotated[
    Path, typer.Option(help="Where raw files are kept and looked for first.", metavar="DIR")
]
_ACCOUNTANT_HELP = (
    "moments: the published formula (add_remove only); gdp: exact Gaussian, sampling rate 1; "
    "pld: privacy loss distribution, any sampling rate and relation."
)
Accountant = Annotated[str, typer.Option(help=_ACCOUNTANT_HELP, metavar="moments|gdp|pld")]
Steps = Annotated[int, typer.Option(help="Number of noisy steps.")]
Rate = Annotated[float, typer.Option(help="Poisson sampling rate; 1 means every step sees all.")]
Delta = Annotated[float, typer.Option(help="The delta of (epsilon, delta)-DP.")]
Relation = Annotated[
    str, typer.Option(help="What a neighbour is.", metavar="add_remove|zero_out|replace")
]

ProtocolName = Annotated[
    str,
    typer.Option(
        metavar="released|paper|sound",
        help="released: what the authors' code does; paper: what the text says; sound: what can "
        "be proved.",
    ),
]
Visits = Annotated[
    str,
    typer.Option(
        metavar="protocol|epoch_sum|poisson",
        help="With splits, under sound: per-epoch sum (its own) or Poisson steps.",
    ),
]
FirstSeed = Annotated[
    int | None,
    typer.Option(
        help="First seed; makes the run repeatable, and the guarantee suppose that the seed stays "
        "secret."
    ),
]


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def _say(message: str) -> None:
    typer.echo(message, err=True)


def _load(name: str, mirror: str | None, data: Path):
    """Supply the raw files of a dataset and read them."""
    from private_graphs.datasets import registry, sources

    registry.dataset_spec(name)
    sources.supply([name], data, mirror)
    return registry.build(name, data)


@app.command()
def dataset(
    name: Annotated[str, typer.Argument(help="Such as cora, citeseer, pubmed.")],
    mirror: Mirror = None,
    data: DataFolder = Path("data/raw"),
) -> None:
    """Print the statistics of a dataset as JSON.

    Raw files that are not there yet are taken from --mirror or downloaded, and checked by sha256.

    Example: private-graphs dataset synthetic-planetoid
    """
    _print_json(_load(name, mirror, data).statistics())


@app.command()
def epsilon(
    noise_multiplier: Annotated[
        float, typer.Option(help="Standard deviation of the noise in units of the clip norm.")
    ],
    steps: Steps,
    accountant: Accountant = "pld",
    sampling_rate: Rate = 1.0,
    delta: Delta = 1e-5,
    relation: Relation = "add_remove",
) -> None:
    """Print the epsilon of noisy, clipped gradient steps as JSON.

    Example: private-graphs epsilon --accountant gdp --noise-multiplier 112 --steps 2000
    --relation replace
    """
    value = epsilon_for(accountant, noise_multiplier, steps, sampling_rate, delta, relation)
    _print_json({"epsilon": value})


@app.command()
def noise(
    epsilon: Annotated[float, typer.Option(help="Privacy budget to keep.")],
    steps: Steps,
    accountant: Accountant = "pld",
    sampling_rate: Rate = 1.0,
    delta: Delta = 1e-5,
    relation: Relation = "add_remove",
) -> None:
    """Print the smallest noise multiplier (up to three decimals, rounded up) as JSON.

    Example: private-graphs noise --accountant gdp --epsilon 2 --steps 500 --relation replace
    """
    value = noise_for(accountant, epsilon, steps, sampling_rate, delta, relation)
    _print_json({"noise_multiplier": value})


def _choice(flag: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise UsageError(
            f"{flag} is {value!r}; expected one of {', '.join(choices)}{suggest(value, choices)}"
        )
    return value


def _early_stopping(asked: bool | None, private: bool) -> int | None:
    """Patience of a run; asking for early stopping of a private run is an error."""
    if private and asked:
        raise UsageError(
            "--early-stopping is for runs without DP: the stopping epoch of a private run would "
            "be a further query; leave the flag out and fix --epochs"
        )
    return None if asked is False else 20


def _budget(epsilon: str | None, noise_multiplier: float | None) -> float | None:
    """Requested ε (infinity without DP), or None where a noise is given instead."""
    if epsilon is not None and noise_multiplier is not None:
        raise UsageError("--epsilon and --noise-multiplier exclude each other: give one of them")
    if noise_multiplier is not None:
        if not (math.isfinite(noise_multiplier) and noise_multiplier >= SMALLEST_NOISE):
            raise UsageError(
                f"--noise-multiplier is {noise_multiplier}; expected at least {SMALLEST_NOISE}"
            )
        return None
    if epsilon is None:
        raise UsageError("give --epsilon (a number, or inf for no DP) or --noise-multiplier")
    try:
        value = float(epsilon)
    except ValueError:
        raise UsageError(f"--epsilon is {epsilon!r}; expected a number or inf") from None
    if not value > 0:
        raise UsageError(f"--epsilon is {epsilon}; expected a number above 0, or inf for no DP")
    return value


def _plan(options: dict[str, Any]) -> CellPlan:
    """Turn the flags of ``train`` into a checked plan."""
    from private_graphs.methods.budgets import epsilon_of_noise
    from private_graphs.methods.gcn import protocol_of

    optimizer = _choice("--optimizer", options["optimizer"], ("sgd", "adam"))
    for flag in ("seeds", "splits", "epochs", "threads"):
        if options[flag] is not None and options[flag] < 1:
            raise UsageError(f"--{flag} is {options[flag]}; expected at least 1")
    if not 0 < options["delta"] < 1:
        raise UsageError(f"--delta is {options['delta']}; expected a number between 0 and 1")
    requested = _budget(options["epsilon"], options["noise_multiplier"])
    private = requested is None or not math.isinf(requested)
    rate = options["lr"]
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise UsageError(f"--lr is {rate}; expected a positive number")
    start = options["seed"] or 0
    plan = CellPlan(
        cell=Cell(
            study="command-line",
            experiment="train",
            dataset=options["dataset"],
            method=_choice("--method", options["method"], ("gcn",)),
            optimizer=optimizer,
            protocol=_choice("--protocol", options["protocol"], ("released", "paper", "sound")),
            visits=_choice("--visits", options["visits"], ("protocol", "epoch_sum", "poisson")),
            splits=options["splits"],
        ),
        seeds=tuple(range(start, start + options["seeds"])),
        epsilons=(requested or 1.0,),
        learning_rates=(rate or 0.01,),
        private_learning_rates=(rate,) if rate else PRIVATE_LEARNING_RATES[optimizer],
        epochs=options["epochs"] or PRINTED_EPOCHS[optimizer],
        noise_multiplier=options["noise_multiplier"],
        delta=options["delta"],
        patience=_early_stopping(options["early_stopping"], private),
        dtype=_choice("--dtype", options["dtype"], ("float32", "float64")),
    )
    protocol = protocol_of(plan.cell)
    if requested is None:
        value = epsilon_of_noise(plan, protocol, options["noise_multiplier"])
        plan = plan.model_copy(update={"epsilons": (value,)})
    return plan


def _prepare_folder(out: Path) -> None:
    """Make the folder of --out before training rather than find out after it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        writable = os.access(out, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise UserError(
            f"--out is {out}, which cannot be made or written; expected a folder: choose another"
        )


class _ProgressBar:
    """A bar on standard error that opens when training starts, and only on a terminal."""

    def __init__(self) -> None:
        self.bar = None

    def __call__(self, done: int, total: int) -> None:
        from tqdm import tqdm

        if self.bar is None:
            self.bar = tqdm(
                total=total, unit="epoch", desc="training", file=sys.stderr, leave=False,
                disable=None,
            )  # fmt: skip
        self.bar.update(done - self.bar.n)

    def __enter__(self) -> _ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()


def _trained(plan: CellPlan, graph, device: str, threads: int, noise_source: str):
    """Say what will be trained, and train it with a progress bar."""
    from private_graphs.imports import code_fingerprint
    from private_graphs.methods.gcn import train_cell

    _say(f"{plan.cell.cell_id}: {plan.n_replicas} runs of at most {plan.epochs} epochs")
    with _ProgressBar() as progress:
        return train_cell(
            plan,
            graph,
            device=device,
            threads=threads,
            noise_source=noise_source,
            progress=progress,
            code_fingerprint=code_fingerprint("private_graphs.methods.gcn"),
        )


def _report(result, as_json: bool) -> None:
    from private_graphs.privacy.statements import PrivacyStatement, render_text

    runs = result.runs[result.runs["selected"]]
    statement = result.statements[runs["statement_id"].iloc[0]]
    if as_json:
        columns = ["seed", "lr", "test_micro_f1", "validation_micro_f1", "epochs"]
        secret = result.runs["seconds"].isna().any()  # Poisson steps: their time tells who joined
        seconds = float(result.runs["seconds"].sum() / result.runs["epochs"].sum())
        _print_json(
            {
                "scores": runs[columns].to_dict("records"),
                "epochs": int(runs["max_epochs"].iloc[0]),
                "noise_multiplier": float(runs["noise_multiplier"].iloc[0]),
                "seconds_per_epoch": None if secret else seconds,
                "statement": statement,
            }
        )
        return
    for row in runs.itertuples():
        typer.echo(
            f"seed {row.seed}: test micro-F1 {row.test_micro_f1:.3f}, validation "
            f"{row.validation_micro_f1:.3f} (lr {row.lr:g}, {row.epochs} epochs)"
        )
    spread = runs["test_micro_f1"].std(ddof=1) if len(runs) > 1 else 0.0
    typer.echo(
        f"mean {runs['test_micro_f1'].mean():.3f} ± {spread:.3f}; majority "
        f"{runs['majority_micro_f1'].mean():.3f}\n"
    )
    typer.echo(render_text(PrivacyStatement.model_validate(statement)))


@app.command()
def train(
    dataset: Annotated[str, typer.Option(help="Such as cora, or synthetic-planetoid (offline).")],
    optimizer: Annotated[str, typer.Option(metavar="sgd|adam")] = "adam",
    protocol: ProtocolName = "sound",
    epsilon: Annotated[
        str | None, typer.Option(help="Privacy budget, or inf for training without DP.")
    ] = None,
    noise_multiplier: Annotated[
        float | None, typer.Option(help="Noise in place of --epsilon.")
    ] = None,
    method: Annotated[str, typer.Option(metavar="gcn")] = "gcn",
    splits: Annotated[int, typer.Option(help="Random parts of the training graph.")] = 1,
    visits: Visits = "protocol",
    seeds: Annotated[int, typer.Option(help="Number of replicas.")] = 1,
    seed: FirstSeed = None,
    lr: Annotated[
        float | None,
        typer.Option(help="Learning rate. Default .01; Adam with DP: best of .01 … 100 on the "
                     "validation nodes."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Default 2000 for sgd, 500 for adam.")
    ] = None,
    delta: Delta = 1e-5,
    early_stopping: Annotated[
        bool | None,
        typer.Option("--early-stopping/--no-early-stopping", help="Only without DP; there the "
                     "default."),
    ] = None,
    mirror: Mirror = None,
    data: DataFolder = Path("data/raw"),
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda")] = "auto",
    dtype: Annotated[str, typer.Option(metavar="float32|float64")] = "float32",
    threads: Annotated[int, typer.Option(help="CPU threads; they share out the replicas.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for runs.parquet, predictions.safetensors, statement.json.",
                     metavar="DIR"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:  # fmt: skip
    """Train one cell; print its scores and what privacy they really have.

    Examples:

    private-graphs train --dataset synthetic-planetoid --protocol sound --epsilon 2

    private-graphs train --dataset cora --optimizer adam --protocol paper --epsilon 2 --splits 10
    --seeds 5 --seed 0 --mirror DIR --out results/cora
    """
    options = dict(locals())
    plan = _plan(options)
    _choice("--device", device, ("auto", "cpu", "cuda"))
    if out is not None:
        _prepare_folder(out)
    graph = _load(dataset, mirror, data)
    secret = plan.cell.protocol == "sound" and seed is None
    result = _trained(plan, graph, device, threads, "os_entropy" if secret else "seeded")
    if out is not None:
        result.save(out)
        _say(f"saved in {out}")
    _report(result, as_json)


def main(arguments: list[str] | None = None) -> None:
    """Entry point: turns errors into one message and an exit code."""
    try:
        app(args=arguments, prog_name="private-graphs")
    except UserError as error:
        _say(f"error: {error}")
        sys.exit(2 if isinstance(error, UsageError) else 1)
