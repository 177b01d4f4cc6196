"""``private-graphs``: datasets, privacy accounting and training without Snakemake.

JSON goes to standard output, everything else to standard error. Exit codes: 0 done, 1 failed,
2 wrong usage.
"""

from __future__ import annotations

import math
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from private_graphs.cells import Cell, CellPlan
from private_graphs.cli_audit import audit
from private_graphs.cli_classify import classify
from private_graphs.cli_options import (
    DEVICES,
    Accountant,
    AnyAccountant,
    Citation,
    DataFolder,
    Delta,
    Device,
    EdgeSource,
    EdgeTarget,
    FeatureKind,
    FirstSeed,
    Licence,
    MaxEdges,
    Mirror,
    ProgressBar,
    ProtocolName,
    Rate,
    Relation,
    Steps,
    Threads,
    Title,
    Visits,
    budget,
    choice,
    compiled,
    early_stopping,
    prepare_folder,
)
from private_graphs.cli_shared import DATA, load_graph, print_json, say
from private_graphs.errors import UsageError, UserError
from private_graphs.privacy.calibration import PRINTED_EPOCHS, epsilon_for, noise_for
from private_graphs.protocols import PROTOCOLS

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


INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
PROTOCOL_NAMES = ("released", "paper", "sound")


def _declaration(options: dict[str, Any], data: Path):
    """Check the flags of a graph of one's own; return its declaration, or None without --nodes."""
    from private_graphs.datasets import registry
    from private_graphs.datasets.own import anchored, declare

    given = {key: value for key, value in options.items() if value is not None}
    if "nodes" not in given:
        flags = [f"--{key.replace('_', '-')}" for key in given if key not in ("name", "features")]
        if flags:
            raise UsageError(
                f"{', '.join(flags)} without --nodes; give --nodes, --edges, --text and --label "
                "too: a change needs the whole declaration again"
            )
        return None
    missing = [f"--{key}" for key in ("edges", "text", "label") if key not in given]
    if missing:
        raise UsageError(f"--nodes also needs {', '.join(missing)}; see 'dataset --help'")
    if given["name"] in registry.DATASETS:
        raise UsageError(f"{given['name']!r} is a built-in dataset; choose another name")
    columns = tuple(column.strip() for column in given["text"].split(","))
    if "" in columns:
        raise UsageError(
            f"--text is {given['text']!r}: a comma without a column on both sides; expected names "
            "such as title,body: remove the comma"
        )
    spec = declare({**given, "text": columns}, "dataset", flags=True)
    return spec if data == DATA else anchored(spec)


def _remember(spec, nodes: int, data: Path) -> None:
    """Keep the declaration of a graph that was built, and say what it replaces."""
    from private_graphs.datasets.own import (
        OWN_FOLDER,
        declarations,
        differences,
        read_declaration,
        remember,
    )

    folder = data.parent / OWN_FOLDER
    before = declarations(folder).get(spec.name)
    replaced = ""
    if before is not None:
        try:
            replaced = ", ".join(differences(read_declaration(before), spec))
        except UserError:
            replaced = "it could not be read"
    path = remember(spec, folder)
    if replaced:
        say(
            f"replaces the declaration of {spec.name}: {replaced}; what an earlier version cost "
            "in privacy still counts"
        )
    say(f"{spec.name}: {nodes:,} nodes read, declared in {path}")


def _show(graph) -> None:
    """Print the statistics of a dataset, and warnings about a graph of one's own."""
    from private_graphs.datasets.own_warnings import warnings_about
    from private_graphs.datasets.registry import DATASETS

    statistics = graph.statistics()
    if graph.info.name not in DATASETS:
        for each in warnings_about(statistics):
            say(f"warning: {each}")
    print_json({**statistics, "public_facts": graph.info.public_facts})


@app.command()
def dataset(
    name: Annotated[str, typer.Argument(help="Such as cora, or a name for a graph of your own.")],
    nodes: Annotated[
        Path | None, typer.Option(help="Your own graph: CSV or Parquet, one row per node.")
    ] = None,
    edges: Annotated[
        Path | None, typer.Option(help="CSV or Parquet with the columns source and target.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Columns with text, such as title,body.", metavar="A,B")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Column with the class to predict.", metavar="COLUMN")
    ] = None,
    id: Annotated[
        str | None, typer.Option(help="Column with the ids; default id.", metavar="COLUMN")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Column with train, validation or test; default: 80/10/10 by a keyed "
                     "permutation of the ids.", metavar="COLUMN"),
    ] = None,
    features: FeatureKind = None,
    model: Annotated[
        str | None,
        typer.Option(help="Folder of a BERT or sentence model, a fastText .bin file, or "
                     "'embedded': a tiny one for trying things out."),
    ] = None,
    min_count: Annotated[
        int | None, typer.Option(help="bow: words occur more often than this; default 2.")
    ] = None,
    max_count: Annotated[
        int | None, typer.Option(help="bow: words occur at most this often; default 15000.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the 80/10/10 masks, which are public; default 0.")
    ] = None,
    max_edges: MaxEdges = None,
    source: EdgeSource = None,
    target: EdgeTarget = None,
    title: Title = None,
    licence: Licence = None,
    citation: Citation = None,
    protocol: ProtocolName = "sound",
    mirror: Mirror = None,
    data: DataFolder = DATA,
    device: Device = "auto",
    threads: Threads = 1,
) -> None:  # fmt: skip
    """Build a dataset and print its statistics as JSON; with --nodes, a graph of your own.

    Raw files that are not there yet are taken from --mirror or downloaded, and checked by sha256.
    A graph of your own is remembered by its name: train and every experiment then accept it. All
    its validation and test nodes are public by declaration: read docs/your-own-graph.md first.

    Examples:

    private-graphs dataset synthetic-planetoid

    private-graphs dataset pokec_demo --features fasttext --protocol paper

    private-graphs dataset my_graph --nodes nodes.csv --edges edges.csv --text title,body
    --label topic --features bow
    """
    own = ("name", "nodes", "edges", "text", "label", "id", "split", "features", "model")
    own += ("min_count", "max_count", "seed", "max_edges", "source", "target", "title")
    own += ("licence", "citation")
    given = locals()
    options = {key: given[key] for key in own}
    view = PROTOCOLS[choice("--protocol", protocol, PROTOCOL_NAMES)].data
    declared = _declaration(options, data)
    choice("--device", device, DEVICES)
    graph = load_graph(name, features, view, mirror, data, device, threads, declared)
    if declared is not None:
        _remember(declared, graph.n_nodes, data)
    _show(graph)


@app.command()
def epsilon(
    noise_multiplier: Annotated[
        float, typer.Option(help="Standard deviation of the noise in units of the clip norm.")
    ],
    steps: Steps,
    accountant: AnyAccountant = "pld",
    sampling_rate: Rate = 1.0,
    delta: Delta = 1e-5,
    relation: Relation = "add_remove",
) -> None:
    """Print the epsilon of noisy, clipped gradient steps as JSON.

    Example: private-graphs epsilon --accountant gdp --noise-multiplier 112 --steps 2000
    --relation replace
    """
    value = epsilon_for(accountant, noise_multiplier, steps, sampling_rate, delta, relation)
    print_json({"epsilon": value})


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
    print_json({"noise_multiplier": value})


def _plan(options: dict[str, Any]) -> CellPlan:
    """Turn the flags of ``train`` into a checked plan."""
    from private_graphs.methods.budgets import epsilon_of_noise
    from private_graphs.methods.gcn import protocol_of

    optimizer = choice("--optimizer", options["optimizer"], ("sgd", "adam"))
    for flag in ("seeds", "splits", "epochs", "threads"):
        if options[flag] is not None and options[flag] < 1:
            raise UsageError(f"--{flag} is {options[flag]}; expected at least 1")
    if not 0 < options["delta"] < 1:
        raise UsageError(f"--delta is {options['delta']}; expected a number between 0 and 1")
    requested = budget(options["epsilon"], options["noise_multiplier"])
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
            method=choice("--method", options["method"], ("gcn",)),
            optimizer=optimizer,
            protocol=choice("--protocol", options["protocol"], PROTOCOL_NAMES),
            visits=choice("--visits", options["visits"], ("protocol", "epoch_sum", "poisson")),
            splits=options["splits"],
        ),
        seeds=tuple(range(start, start + options["seeds"])),
        epsilons=(requested or 1.0,),
        learning_rates=(rate or 0.01,),
        private_learning_rates=(rate,) if rate else PRIVATE_LEARNING_RATES[optimizer],
        epochs=options["epochs"] or PRINTED_EPOCHS[optimizer],
        noise_multiplier=options["noise_multiplier"],
        delta=options["delta"],
        patience=early_stopping(options["early_stopping"], private),
        dtype=choice("--dtype", options["dtype"], ("float32", "float64")),
    )
    protocol = protocol_of(plan.cell)
    if requested is None:
        value = epsilon_of_noise(plan, protocol, options["noise_multiplier"])
        plan = plan.model_copy(update={"epsilons": (value,)})
    return plan


def _trained(plan: CellPlan, graph, device: str, threads: int, noise_source: str):
    """Say what will be trained, and train it with a progress bar."""
    from private_graphs.imports import code_fingerprint
    from private_graphs.methods.gcn import train_cell

    say(f"{plan.cell.cell_id}: {plan.n_replicas} runs of at most {plan.epochs} epochs")
    if device == "cpu" and not compiled():
        say("compiling kernels, once per machine (about half a minute)")
    with ProgressBar("training", "epoch", timed=noise_source == "seeded") as progress:
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
    from private_graphs.privacy.statements import PrivacyStatement
    from private_graphs.report.statement import terminal

    runs = result.runs[result.runs["selected"]]
    statement = result.statements[runs["statement_id"].iloc[0]]
    if as_json:
        columns = ["seed", "lr", "test_micro_f1", "validation_micro_f1", "epochs"]
        secret = result.runs["seconds"].isna().any()  # Poisson steps: their time tells who joined
        seconds = float(result.runs["seconds"].sum() / result.runs["epochs"].sum())
        print_json(
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
    typer.echo(terminal(PrivacyStatement.model_validate(statement)))


@app.command()
def train(
    dataset: Annotated[
        str,
        typer.Option(help="Such as cora, synthetic-planetoid (offline), or a graph of your own."),
    ],
    features: FeatureKind = None,
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
    data: DataFolder = DATA,
    device: Device = "auto",
    dtype: Annotated[str, typer.Option(metavar="float32|float64")] = "float32",
    threads: Threads = 1,
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

    private-graphs train --dataset my_graph --epsilon 2 --splits 100 --lr 0.01

    private-graphs train --dataset cora --optimizer adam --protocol paper --epsilon 2 --splits 10
    --seeds 5 --seed 0 --mirror DIR --out results/cora
    """
    options = dict(locals())
    from private_graphs.methods.gcn import device_of

    plan = _plan(options)
    choice("--device", device, DEVICES)
    secret = plan.cell.protocol == "sound" and seed is None
    noise_source = "os_entropy" if secret else "seeded"
    trained_on = device_of(plan, device, noise_source)
    if out is not None:
        prepare_folder(out)
    graph = load_graph(dataset, features, plan.cell.data_view, mirror, data, device, threads)
    cell = plan.cell.model_copy(update={"features": graph.info.features})
    plan = plan.model_copy(update={"cell": cell})
    result = _trained(plan, graph, trained_on, threads, noise_source)
    if out is not None:
        result.save(out)
        say(f"saved in {out}")
    _report(result, as_json)


app.command()(classify)


def _explained(run: Path, statement: str | None) -> list[tuple[str, dict[str, Any], str]]:
    """What each statement of ``run`` belongs to, its parts, and its paragraph."""
    from private_graphs.privacy.explain import explain, paragraph
    from private_graphs.reporting.explained import statements_of

    return [
        (each.belongs_to, explain(each.statement), paragraph(each.statement))
        for each in statements_of(run, statement)
    ]


@app.command()
def explain(
    run: Annotated[
        Path,
        typer.Argument(help="Folder of --out (of classify also its release), or a statement.json."),
    ],
    statement: Annotated[
        str | None,
        typer.Option(help="Identifier of one statement; default: those of the selected runs.",
                     metavar="ID"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the parts as JSON.")] = False,
) -> None:  # fmt: skip
    """Say in plain words what a finished run promises, to whom, and what it does not cover.

    Examples:

    private-graphs explain results/cora

    private-graphs explain results/cora/statement.json --statement 0123456789ab --json
    """
    found = _explained(run, statement)
    if as_json:
        print_json([{"belongs_to": owner, **parts} for owner, parts, _ in found])
        return
    for number, (owner, parts, text) in enumerate(found):
        heading = f"Statement {parts['statement_id']} ({parts['status'].replace('_', ' ')})"
        typer.echo(("\n" if number else "") + heading + (f": {owner}" if owner else ""))
        typer.echo(textwrap.fill(text, 88))


app.command()(audit)


def main(arguments: list[str] | None = None) -> None:
    """Entry point: turns errors and Ctrl-C into one message and an exit code."""
    try:
        app(args=arguments, prog_name="private-graphs")
    except UserError as error:
        say(f"error: {error}")
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except (KeyboardInterrupt, SystemExit) as error:
        if isinstance(error, SystemExit) and error.code != INTERRUPTED:
            raise
        say("interrupted; no result was saved")
        sys.exit(INTERRUPTED)
