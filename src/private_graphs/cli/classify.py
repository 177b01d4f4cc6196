"""``private-graphs classify``: one run of a proved method, compared with public data alone."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from private_graphs.cli.options import (
    DATA,
    NEEDS_EPSILON,
    AsJson,
    DataFolder,
    Delta,
    Epsilon,
    FeatureKind,
    FirstSeed,
    MaxEdges,
    Mirror,
    checked_epsilon,
)
from private_graphs.cli.release import save_public, save_run
from private_graphs.cli.run import (
    DEFAULT_METHODS,
    PUBLIC_METHODS,
    STUDY,
    carry_out,
    declared_bound,
    load_data,
    named,
    prepare_folder,
    refuse_without_memory,
    statement_text,
)
from private_graphs.cli.terminal import json_text, number, print_json, print_text, report, say
from private_graphs.core.errors import UsageError, counted, suggest

if TYPE_CHECKING:
    import numpy as np

    from private_graphs.running.jobs import Job
    from private_graphs.running.result import JobResult

_VERDICTS = {
    "gain": "Private data were worth it",
    "none": "No clear gain: use public data alone, which cost nobody anything",
    "loss": "Private data were not worth it: use public data alone, which cost nobody anything",
}
_CLEAR = 0.01
"""Significance level of the comparison with public data alone."""


class WithMethods(TyperCommand):
    """Command whose help ends with the methods of every scenario; they take time to import."""

    def format_epilog(self, ctx, formatter) -> None:
        from private_graphs.documents.release import METHODS, training_of
        from private_graphs.methods import methods_of

        formatter.write_paragraph()
        with formatter.indentation():
            summary = "; ".join(f"{name} ({training_of(name).LINE})" for name in METHODS)
            formatter.write_text(f"Methods of declared documents: {summary}.")
        for scenario in DEFAULT_METHODS:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(f"Methods of {scenario}: {', '.join(methods_of(scenario))}.")


COMMAND_CLASS = WithMethods


def classify(
    dataset: Annotated[
        str, typer.Argument(help="Such as cora, synthetic-npz (offline), or a graph of your own.")
    ],
    method: Annotated[
        str | None,
        typer.Option(help="Default class_sums, for the words of declared documents word_sums; with "
                     "--scenario edges, edge_votes.", metavar="NAME"),
    ] = None,
    scenario: Annotated[
        Literal["text", "graph", "edges"],
        typer.Option(help="What is protected and what is public."),
    ] = "text",
    epsilon: Epsilon = None,
    validation_labels: Annotated[
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
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        typer.Option(help="Where models read texts; the methods train on the CPU."),
    ] = "auto",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Declared documents: show what would be spent; use "
                           "no private label, draw nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Declared documents: overwrite an earlier run in --out; "
                           "what it has spent stays in the ledger.")
    ] = False,
    contact: Annotated[
        str, typer.Option(help="Declared documents: whom the page of the release names.")
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for release (predictions.csv, statement.json: may be shared; "
                     "node is the row of the data, from 0) and private (scores, job, what public "
                     "data alone give: not to be shared).", metavar="DIR"),
    ] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Train one classifier with a proved guarantee; say whether private data were worth it.

    Your own documents, which 'declare' names: one private release within their budget. The ledger
    is written first; over the budget nothing is drawn, and the exit code is 3. --out gets release
    (may be given away: model, statement, one page) and private (predictions of your documents).

    Built-in datasets are public, and taken as if they were private. --scenario text protects a
    training node with its text, label and edges, and the validation texts are public; graph makes
    public the test texts too, and the edges among public nodes; edges protects edges alone. Test
    labels are read for scores alone. Validation labels are public.

    Every call is a further release of the private data: fix the settings beforehand. Without --seed
    the noise comes from the operating system.

    Examples:

    private-graphs classify letters --epsilon 2 --out results

    private-graphs classify cora --scenario edges --epsilon 4 --json
    """
    flags = locals()
    from private_graphs.documents.declaration import known_names

    names = known_names(data)
    if dataset in names:
        _classify_documents(flags)
        return
    hint = suggest(dataset, names)
    if dry_run or force or contact:
        raise UsageError(
            f"--dry-run, --force and --contact are for declared documents, and {dataset!r} is not "
            f"declared{hint}"
        )
    from private_graphs.datasets.own import OWN_FOLDER
    from private_graphs.datasets.registry import dataset_names
    from private_graphs.documents.declaration import folder_of

    folder = data.parent / OWN_FOLDER
    known = dataset_names([dataset], folder)
    if dataset not in known:
        raise UsageError(
            f"{dataset!r} is neither declared in {folder_of(data)} (there: "
            f"{', '.join(names) or 'nothing'}) nor a dataset{suggest(dataset, [*names, *known])}; "
            "declare your documents with 'private-graphs declare', or name one of "
            f"{', '.join(known)}"
        )
    _classify_dataset(flags)


def _classify_dataset(flags: dict[str, Any]) -> None:
    """Run a proved method on a dataset, then public data alone, and compare."""
    from private_graphs.running.views import data_view

    job = planned(flags)
    out, data = flags["out"], flags["data"]
    if out is not None:
        prepare_folder(out)
    if job.scenario == "edges" and job.max_edges is None:
        job = job.model_copy(update={"max_edges": declared_bound(job.dataset, data)})
    refuse_without_memory(job, flags["features"], data)
    built = load_data(job.dataset, flags["features"], data_view(job), flags["mirror"], data,
                      flags["device"], 1)  # fmt: skip
    job = _with_labels(named(job, built.info.features), flags["validation_labels"], built)
    noise_source = "os_entropy" if flags["seed"] is None else "seeded"
    result = carry_out(job, built, noise_source, "run")
    if out is not None:  # before anything can fail: its privacy is spent
        save_run(result, job, built.info.classes, out)
    free = _public_job(job)
    public = free and carry_out(free, built, noise_source, "run")
    if out is not None:
        if public:
            save_public(public, free, built.info.classes, out)
        say(f"saved in {out}")
    compared = public and Compared.of(result, public, built.labels)
    _report(result, public, compared, flags["as_json"])


def _classify_documents(flags: dict[str, Any]) -> None:
    """Classify declared documents; UsageError for flags of built-in datasets."""
    from private_graphs.documents.release import classify as release

    defaults = {"validation_labels": None, "max_edges": None, "features": None, "seed": None,
              "mirror": None, "delta": 1e-5}  # fmt: skip
    given = [f"--{key.replace('_', '-')}" for key, value in defaults.items() if flags[key] != value]
    if flags["scenario"] == "graph":
        raise UsageError(
            "--scenario graph reads links of private documents to train: it is for datasets that "
            "are published. Of declared documents, text protects documents, whose public "
            "neighbours vote when they are predicted (declare --edges with public documents, then "
            "predict --edges), and edges the links between public ones"
        )
    if given:
        raise UsageError(
            f"{', '.join(given)}: not for declared documents, whose delta, classes, public side "
            "and bound on the links stand in the declaration. Leave it out, or declare again"
        )
    result = release(
        flags["dataset"],
        epsilon=checked_epsilon(flags["epsilon"], "give --epsilon: a number"),
        method=flags["method"],
        scenario=flags["scenario"],
        out=flags["out"],
        dry_run=flags["dry_run"],
        force=flags["force"],
        data=flags["data"],
        contact=flags["contact"],
        device=flags["device"],
        say=say,
        command="private-graphs classify",
    )
    done = f"the release in {flags['out']} is whole and paid for: there is nothing to repeat"

    def text() -> str:
        if flags["as_json"]:
            return json_text(json.loads(json.dumps(dataclasses.asdict(result), default=str)))
        return "\n".join(result.lines())

    report(text, "nothing was spent" if result.plan else done)


def planned(flags: dict[str, Any]) -> Job:
    """Turn the flags into a validated job of one run with all validation labels public."""
    from private_graphs.methods import all_methods, method_named, methods_of
    from private_graphs.running.jobs import Job

    scenario = flags["scenario"]
    name = flags["method"] or DEFAULT_METHODS[scenario]
    if not _runs_under(name, scenario):
        fitting = methods_of(scenario)
        elsewhere = suggest(name, fitting)
        if name in all_methods():
            cases = [case for case in method_named(name).scenarios if case in DEFAULT_METHODS]
            needs = f"--scenario {' or '.join(cases)}" if cases else "'private-graphs train'"
            elsewhere = f"; {name} needs {needs}"
        raise UsageError(
            f"--method is {name!r}; with --scenario {scenario} there are "
            f"{', '.join(fitting)}{elsewhere}"
        )
    epsilon = math.inf  # unused: methods on public data alone have epsilon 0
    if method_named(name).reads_private:
        epsilon = checked_epsilon(flags["epsilon"], NEEDS_EPSILON)
    elif flags["epsilon"] is not None:
        raise UsageError(f"--epsilon: {name} reads nothing private; leave the flag out")
    if flags["validation_labels"] is not None and scenario == "edges":
        raise UsageError(
            "--validation-labels: under --scenario edges all labels but those of the test nodes "
            "are public; leave the flag out"
        )
    if flags["max_edges"] is not None and scenario != "edges":
        raise UsageError("--max-edges is for --scenario edges; leave the flag out")
    return Job(
        study=STUDY,
        group="classify",
        name="",
        dataset=flags["dataset"],
        method=name,
        scenario=scenario,
        epsilons=(epsilon,),
        seeds=(flags["seed"] or 0,),
        delta=flags["delta"],
        max_edges=flags["max_edges"],
    )


def _runs_under(name: str, scenario: str) -> bool:
    """Return whether there is such a method, by its module alone."""
    from private_graphs.methods import method_named

    try:
        return scenario in method_named(name).scenarios
    except UsageError:
        return False


def _with_labels(job: Job, known: int | None, built: Any) -> Job:
    """Return ``job`` with only ``known`` public validation labels; None: all of them."""
    size = int((built.validation_mask & (built.labels >= 0)).sum())
    if known is None or known == size:
        return job
    if not 0 <= known < size:
        raise UsageError(
            f"--validation-labels is {known}; expected 0 to {size}, the labelled validation nodes"
        )
    fewer = {"epsilons": (), "validation_labels": (known,), "validation_epsilons": job.epsilons}
    return job.model_copy(update=fewer)


def _public_job(job: Job) -> Job | None:
    """Return the job with the scenario's public-data method; None if it is this job."""
    from private_graphs.methods import method_named

    if not method_named(job.method).reads_private:
        return None
    return named(job.model_copy(update={"method": PUBLIC_METHODS[job.scenario]}), job.features)


@dataclass(frozen=True)
class Compared:
    """Comparison of a run with the public-data method of its scenario, on the same test nodes."""

    won: int
    """Labelled test nodes that only the run classifies correctly."""
    lost: int
    """Labelled test nodes that only public data classify correctly."""
    n_nodes: int
    """Number of labelled test nodes."""

    @classmethod
    def of(cls, result: JobResult, public: JobResult, labels: np.ndarray) -> Compared:
        """Compare two results of one run each; ``labels`` (N,) are the labels of all nodes."""
        truth = labels[result.test_records]
        hits = [(one.test_predictions[0] == truth)[truth >= 0] for one in (result, public)]
        won, lost = (int((one & ~other).sum()) for one, other in (hits, hits[::-1]))
        return cls(won, lost, len(hits[0]))

    @property
    def gain(self) -> float:
        """Difference in test micro-F1."""
        return (self.won - self.lost) / self.n_nodes

    @property
    def error(self) -> float | None:
        """Standard error of the gain, if the test nodes are a sample.

        None where it cannot be estimated: one node, or the same difference at every node, where the
        sample variance is 0.
        """
        differ = self.won + self.lost
        variance = differ / self.n_nodes - self.gain**2
        if {self.won, self.lost, self.n_nodes - differ} & {self.n_nodes}:
            return None
        return math.sqrt(variance / self.n_nodes)

    @property
    def verdict(self) -> str:
        """``gain``, ``loss`` or ``none``, by the exact test of McNemar (1947) at 1 %.

        If both are equally good, each node that exactly one of them classifies correctly is a fair
        coin. The test is also valid for few nodes, and if all of them differ in the same direction.
        """
        from scipy.stats import binomtest

        differ = self.won + self.lost
        if not differ or binomtest(self.won, differ).pvalue > _CLEAR:
            return "none"
        return "gain" if self.gain > 0 else "loss"

    @property
    def sentence(self) -> str:
        """Verdict in words, with its numbers."""
        tested = counted(self.n_nodes, "test node")
        if self.error is None:
            why = "too few" if self.n_nodes == 1 else "each differs alike"
            error = f"standard error unknown, {tested}: {why}"
        else:
            error = f"standard error {100 * self.error:.1f}, {tested}"
        points = f"{100 * self.gain:+.1f} points of test micro-F1"
        return f"{_VERDICTS[self.verdict]} ({points}, {error})."


def _report(
    result: JobResult, public: JobResult | None, compared: Compared | None, as_json: bool
) -> None:
    (statement,) = result.statements.values()
    majority = number(result.rows["majority_micro_f1"].iloc[0])
    scores = [_score(run) for run in (result, public) if run is not None]
    if as_json:
        print_json(
            {
                "scores": scores,
                "majority_micro_f1": majority,
                "gain": compared and compared.gain,
                "standard_error": compared and compared.error,
                "verdict": compared and compared.verdict,
                "statement": statement,
            }
        )
        return
    lines = [_line(**score) for score in scores]
    if majority is not None:
        lines.append(f"{'majority':<32}test micro-F1 {majority:.3f}")
    lines += ["", compared.sentence] if compared else []
    print_text("\n".join([*lines, "", statement_text(statement)]))


def _score(result: JobResult) -> dict[str, Any]:
    from private_graphs.methods import method_named

    row = result.rows.iloc[0]
    return {
        "method": row["method"],
        "scenario": row["scenario"],
        "epsilon": "inf" if math.isinf(row["epsilon"]) else row["epsilon"],
        "test_micro_f1": float(row["test_micro_f1"]),
        "validation_micro_f1": number(row["validation_micro_f1"]),
        "fits_validation_labels": method_named(row["method"]).fits_validation_labels,
        "validation_labels": int(row["validation_labels"]),
    }


def _line(
    method: str,
    epsilon: float | str,
    test_micro_f1: float,
    validation_micro_f1: float | None,
    fits_validation_labels: bool,
    validation_labels: int,
    **_: str,
) -> str:
    if not validation_labels:
        seen = "no public validation label"
    elif fits_validation_labels:
        seen = f"fitted on {validation_labels} public validation labels"
    else:
        seen = f"validation {validation_micro_f1:.3f} on {validation_labels} public labels"
    return f"{method:<18}epsilon {float(epsilon):<5g} test micro-F1 {test_micro_f1:.3f}, {seen}"
