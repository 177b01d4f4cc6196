"""``private-graphs classify``: one run of a proved method, beside what public data alone gives."""

from __future__ import annotations

import contextlib
import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from private_graphs.cells import MethodCell, MethodPlan
from private_graphs.cli_options import (
    DEVICES,
    DataFolder,
    Delta,
    Device,
    FeatureKind,
    FirstSeed,
    MaxEdges,
    Mirror,
    ProgressBar,
    budget,
    choice,
    prepare_folder,
)
from private_graphs.cli_shared import DATA, load_graph, print_json, say
from private_graphs.errors import UsageError, suggest
from private_graphs.methods.names import METHOD_NAMES

DEFAULT_METHODS = {"text": "class_sums", "graph": "class_sums", "edges": "edge_votes"}
"""The method of a setting where none is named."""
RELEASED = ("predictions.csv", "statement.json", "README.md", "manifest.json")
"""Files of ``release``, the manifest of the others last; ``private`` has all the rest."""
_KEEP = """# Not to be shared

No privacy statement covers this folder. It is for the owner of the data: scores on the test labels,
the plan of the run, and the same of public data alone. What may be shared is in `release`, which a
run without DP or with a kept seed does not have.
"""
CLEAR = 2.0
"""A difference of fewer standard errors is called none."""


def fitting(setting: str) -> list[str]:
    """Return the methods that can be run in ``setting``."""
    return [name for name, each in METHOD_NAMES.items() if setting in each.settings]


def public_row(setting: str) -> str:
    """Return the method of ``setting`` that reads nothing private."""
    return next(name for name in fitting(setting) if not METHOD_NAMES[name].reads_private)


def plan_of(options: dict[str, Any]) -> MethodPlan:
    """Turn the flags into a checked plan of one run with all tuning labels public."""
    setting = choice("--setting", options["setting"], tuple(DEFAULT_METHODS))
    method = options["method"] or DEFAULT_METHODS[setting]
    if method not in fitting(setting):
        raise UsageError(
            f"--method is {method!r}; with --setting {setting} there are "
            f"{', '.join(fitting(setting))}{_elsewhere(method, setting)}"
        )
    if METHOD_NAMES[method].reads_private:
        if options["epsilon"] is None:
            raise UsageError("give --epsilon: a number, or inf for a run without DP")
        epsilon = budget(options["epsilon"], None)
    elif options["epsilon"] is not None:
        raise UsageError(f"--epsilon: {method} reads nothing private; leave the flag out")
    else:
        epsilon = math.inf  # of no run: methods of public data alone have epsilon 0
    if not 0 < options["delta"] < 1:
        raise UsageError(f"--delta is {options['delta']}; expected a number between 0 and 1")
    if options["tuning_labels"] is not None and setting == "edges":
        raise UsageError(
            "--tuning-labels: under --setting edges all labels but those of the test nodes are "
            "public; leave the flag out"
        )
    if options["max_edges"] is not None and setting != "edges":
        raise UsageError("--max-edges is for --setting edges; leave the flag out")
    return MethodPlan(
        cell=MethodCell(
            study="command-line",
            experiment="classify",
            dataset=options["dataset"],
            method=method,
            setting=setting,
        ),
        seeds=(options["seed"] or 0,),
        epsilons=(epsilon,),
        delta=options["delta"],
        max_edges=options["max_edges"],
    )


def _elsewhere(method: str, setting: str) -> str:
    if method in METHOD_NAMES:
        settings = " or ".join(METHOD_NAMES[method].settings)
        return f"; {method} needs --setting {settings}"
    return suggest(method, fitting(setting))


def with_bound(plan: MethodPlan, data: Path) -> MethodPlan:
    """Return ``plan`` with the bound on the edges that was declared with the dataset, if needed."""
    from private_graphs.datasets.own import OWN_FOLDER
    from private_graphs.datasets.registry import dataset_spec

    if plan.cell.setting != "edges" or plan.max_edges is not None:
        return plan
    bound = dataset_spec(plan.cell.dataset, data.parent / OWN_FOLDER).max_edges
    return plan.model_copy(update={"max_edges": bound})


def with_labels(plan: MethodPlan, known: int | None, graph) -> MethodPlan:
    """Return ``plan`` with only ``known`` public tuning labels; None: all that there are."""
    size = int(np.count_nonzero(graph.validation_mask & (graph.labels >= 0)))
    if known is None or known == size:
        return plan
    if not 0 <= known < size:
        raise UsageError(
            f"--tuning-labels is {known}; expected 0 to {size}, the labelled validation nodes"
        )
    fewer = {"epsilons": (), "tuning_labels": (known,), "tuning_epsilons": plan.epsilons}
    return plan.model_copy(update=fewer)


@dataclass(frozen=True)
class Compared:
    """A run and the row of its setting that needs no private data, on the same test nodes."""

    gain: float
    """Difference of the test micro-F1."""
    error: float
    """Its standard error, if the test nodes are a sample."""
    sentence: str
    """What follows from it."""

    @classmethod
    def of(cls, found, public, labels: np.ndarray) -> Compared:
        """Compare two results of one run each; ``labels`` (N,) are those of all nodes."""
        truth = labels[found.test_nodes]
        labelled = truth >= 0
        truth = truth[labelled]
        hits = (found.test_predictions[0][labelled] == truth).astype(float)
        difference = hits - (public.test_predictions[0][labelled] == truth)
        error = float(difference.std() / math.sqrt(len(truth)))
        gain = float(difference.mean())
        return cls(gain, error, _verdict(gain, error, len(truth)))


def _verdict(gain: float, error: float, size: int) -> str:
    points = (
        f"{abs(100 * gain):.1f} points of test micro-F1 "
        f"(standard error {100 * error:.1f}, {size:,} test nodes)"
    )
    if gain > CLEAR * error:
        return f"Private data were worth it: they add {points} to what public data alone give."
    if gain < -CLEAR * error:
        return (
            f"Private data were not worth it: public data alone are better by {points}, and cost "
            "nobody anything. Use that classifier."
        )
    side = "more" if gain > 0 else "less" if gain < 0 else "more or less"
    return (
        f"No clear gain: private data gave {points} {side} than public data alone, which cost "
        "nobody anything."
    )


def _run(plan: MethodPlan, graph, noise_source: str):
    from private_graphs.imports import code_fingerprint
    from private_graphs.methods.proved import run_method

    with ProgressBar(plan.cell.method, "run", timed=noise_source == "seeded") as progress:
        return run_method(
            plan,
            graph,
            noise_source=noise_source,
            progress=progress,
            code_fingerprint=code_fingerprint("private_graphs.methods.proved"),
            unlabelled=True,
        )


def _save(result, plan: MethodPlan, classes: list[str], out: Path) -> None:
    """Write ``release`` (may be shared) and ``private`` below ``out`` (docs/privacy.md §5)."""
    from private_graphs.files import write_text
    from private_graphs.reporting.explained import PRIVATE, RELEASE

    for name in RELEASED:  # of an earlier run: a release is whole or not there
        (out / RELEASE / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        (out / RELEASE).rmdir()
    _save_run(result, plan, out / PRIVATE)
    write_text(out / PRIVATE / "README.md", _KEEP)
    (out / PRIVATE / "predictions.csv").unlink(missing_ok=True)
    (statement,) = result.statements.values()
    if statement["status"] == "not_private" or statement["noise_source"] == "seeded":
        # Who has the seed takes the noise off, and the plain hash of the data confirms guesses.
        _save_predictions(result, classes, out / PRIVATE)
    else:
        _save_release(result, plan, classes, out / RELEASE)


def _save_run(result, plan: MethodPlan, folder: Path) -> None:
    """Write the files of a cell and its plan."""
    from private_graphs.files import write_text

    prepare_folder(folder)
    result.save(folder)
    write_text(folder / "plan.json", plan.model_dump_json(indent=2) + "\n")


def _save_predictions(result, classes: list[str], folder: Path) -> None:
    """Write the predictions as a table for people."""
    from private_graphs.files import write_text

    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["node", "predicted"])
    for node, predicted in zip(result.test_nodes, result.test_predictions[0], strict=True):
        writer.writerow([int(node), classes[predicted]])
    write_text(folder / "predictions.csv", table.getvalue())


def _save_release(result, plan: MethodPlan, classes: list[str], folder: Path) -> None:
    """Write what the statement covers, and nothing else."""
    from private_graphs.files import write_json, write_text
    from private_graphs.methods.result import write_manifest

    prepare_folder(folder)
    _save_predictions(result, classes, folder)
    write_json(folder / "statement.json", result.statements)
    write_text(folder / "README.md", _released_words(result, plan))
    files, code = RELEASED[:-1], result.runs["code_fingerprint"].iloc[0]
    write_manifest(folder, files, result.statements, code)


def _released_words(result, plan: MethodPlan) -> str:
    """Return the README of a release: what it is and what is promised, in plain words."""
    from private_graphs.privacy.explain import TEXTS, explain
    from private_graphs.privacy.statements import PrivacyStatement

    cell, (statement,) = plan.cell, result.statements.values()
    texts = explain(PrivacyStatement.model_validate(statement))
    promised = "\n\n".join(texts[name] for name in TEXTS[:-1] if texts[name])
    return f"""# Predictions of {cell.method} on {cell.dataset}

`predictions.csv` has the predicted class of every test node (`node`: row of the data, from 0).
`statement.json` says what is guaranteed, number by number. `manifest.json` has the sha256 of the
files: it finds mistakes, not forgers.

## What is promised

{promised}

## What is not covered

{texts["not_covered"]}

`private-graphs explain FOLDER` checks the files of this folder and says this again.
"""


def _score(result) -> dict[str, Any]:
    row = result.runs.iloc[0]
    validation = row["validation_micro_f1"]
    return {
        "method": row["method"],
        "setting": row["setting"],
        "epsilon": "inf" if math.isinf(row["epsilon"]) else row["epsilon"],
        "test_micro_f1": float(row["test_micro_f1"]),
        "validation_micro_f1": None if math.isnan(validation) else float(validation),
        "fits_tuning_labels": bool(row["fits_tuning_labels"]),
        "tuning_labels": int(row["tuning_labels"]),
    }


def _line(score: dict[str, Any]) -> str:
    known = score["tuning_labels"]
    if not known:
        seen = "no public validation label"
    elif score["fits_tuning_labels"]:
        seen = f"fitted on {known} public validation labels"
    else:
        seen = f"validation {score['validation_micro_f1']:.3f} on {known} public labels"
    return (
        f"{score['method']:<18}epsilon {float(score['epsilon']):<5g} "
        f"test micro-F1 {score['test_micro_f1']:.3f}, {seen}"
    )


def _report(result, public, compared: Compared | None, as_json: bool) -> None:
    from private_graphs.privacy.statements import PrivacyStatement
    from private_graphs.report.statement import terminal

    (statement,) = result.statements.values()
    majority = result.runs["majority_micro_f1"].iloc[0]
    scores = [_score(each) for each in (result, public) if each is not None]
    if as_json:
        print_json(
            {
                "scores": scores,
                "majority_micro_f1": None if math.isnan(majority) else float(majority),
                "gain": compared and compared.gain,
                "standard_error": compared and compared.error,
                "verdict": compared and compared.sentence,
                "statement": statement,
            }
        )
        return
    for each in scores:
        typer.echo(_line(each))
    if not math.isnan(majority):
        typer.echo(f"{'majority':<32}test micro-F1 {majority:.3f}")
    if compared is not None:
        typer.echo(f"\n{compared.sentence}")
    typer.echo(f"\n{terminal(PrivacyStatement.model_validate(statement))}")


def _beside_public(
    plan: MethodPlan, graph: Any, noise_source: str, out: Path | None
) -> tuple[Any, Any, Compared | None]:
    """Run the plan, then what public data alone gives, if that is another; save both to ``out``."""
    from private_graphs.reporting.explained import PRIVATE

    result, public, compared, cell = _run(plan, graph, noise_source), None, None, plan.cell
    if out is not None:
        _save(result, plan, graph.info.classes, out)
    if METHOD_NAMES[cell.method].reads_private:
        free = cell.model_copy(update={"method": public_row(cell.setting)})
        plan = plan.model_copy(update={"cell": free})
        public = _run(plan, graph, noise_source)
        compared = Compared.of(result, public, graph.labels)
        if out is not None:
            folder = out / PRIVATE / free.method
            _save_run(public, plan, folder)
            _save_predictions(public, graph.info.classes, folder)
    if out is not None:
        say(f"saved in {out}")
    return result, public, compared


def classify(
    dataset: Annotated[
        str, typer.Argument(help="Such as cora, synthetic-npz (offline), or a graph of your own.")
    ],
    method: Annotated[
        str | None,
        typer.Option(help="Default class_sums; with --setting edges, edge_votes. "
                     + " ".join(f"{each}: {', '.join(fitting(each))}." for each in DEFAULT_METHODS),
                     metavar="NAME"),
    ] = None,
    setting: Annotated[
        str, typer.Option(help="What is protected and what is public.", metavar="text|graph|edges")
    ] = "text",
    epsilon: Annotated[
        str | None, typer.Option(help="Privacy budget, or inf for a run without DP.")
    ] = None,
    tuning_labels: Annotated[
        int | None,
        typer.Option(help="Number of validation labels that are public; default all. 0: none, and "
                     "a choice among settings is paid for."),
    ] = None,
    max_edges: MaxEdges = None,
    features: FeatureKind = None,
    delta: Delta = 1e-5,
    seed: FirstSeed = None,
    mirror: Mirror = None,
    data: DataFolder = DATA,
    device: Device = "auto",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for release (predictions.csv, statement.json: may be shared; "
                     "node is the row of the data, from 0) and private (scores, plan, what public "
                     "data alone give: not to be shared).", metavar="DIR"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:  # fmt: skip
    """Classify texts by one run of a proved method; say whether private data were worth it.

    Every method here proves the requested epsilon, at a noise that leaves something to learn. The
    GCN of the papers, with its three protocols, is 'train'; the method gcn of this command is the
    same model with many parts, and with settings fixed in advance.

    --setting text. Protected: each training node with its text, its label and all its edges; a
    neighbour has another node in its place. Public: the texts of the validation nodes. Test texts
    are read one by one, to predict; no edge is read at all. But features made of texts are made
    beforehand, of public texts, test texts among them: bow and fasttext count the words of
    validation and test texts, and models that are not given are trained on them.

    --setting graph. Protected: the same. Public: the texts of validation and test nodes, and the
    edges among them. Edges from a training node to public ones are that node's, and as protected.

    --setting edges. Protected: whether two nodes are linked, one edge more or less. Public: all
    texts, and all labels but those of the test nodes. Protects no text and no label. The number
    of edges is private too: a bound stands in its place (--max-edges).

    Test nodes without a label are predicted too. Validation labels are public in each setting
    (--tuning-labels). Without --seed the noise comes from the operating system. Every call releases
    the private data again: fix the settings beforehand.

    Examples:

    private-graphs classify synthetic-npz --epsilon 2

    private-graphs classify my_graph --method dp_linear --setting graph --epsilon 2 --out DIR

    private-graphs classify cora --setting edges --epsilon 4 --json
    """
    plan = with_bound(plan_of(dict(locals())), data)
    choice("--device", device, DEVICES)
    if out is not None:
        prepare_folder(out)
    graph = load_graph(dataset, features, plan.cell.data_view, mirror, data, device, 1)
    cell = plan.cell.model_copy(update={"features": graph.info.features})
    plan = with_labels(plan.model_copy(update={"cell": cell}), tuning_labels, graph)
    _report(*_beside_public(plan, graph, "os_entropy" if seed is None else "seeded", out), as_json)
