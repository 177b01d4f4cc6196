"""``private-graphs audit``: attacks on the training code, a proved method, or released values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Option

from private_graphs.cli.kinds import refuse_others
from private_graphs.cli.options import AsJson, Seed, Threads
from private_graphs.cli.run import Delta, Protocols, Visits
from private_graphs.cli.terminal import ProgressBar, print_json, print_text
from private_graphs.core.errors import UsageError, UserError, refuse_idle
from private_graphs.core.limits import MOST_RUNS

_DELTA = 1e-5
Relation = Literal["replace", "zero_out", "add_remove"]


def audit(
    *,
    script: str | None = None,
    data: str | None = None,
    relation: Relation = "replace",
    protocol: Protocols | None = None,
    method: str | None = None,
    scenario: str | None = None,
    epsilon: float = 2.0,
    runs: Annotated[int | None, Option(max=MOST_RUNS)] = None,
    splits: Annotated[int, Option(max=MOST_RUNS)] = 1,
    visits: Visits = "protocol",
    seed: Seed = 0,
    classes: Annotated[int, Option(max=1000)] = 2,
    replay: bool = False,
    neighbours: Annotated[int, Option(min=1, max=10_000)] = 20,
    mechanisms: bool = False,
    score_files: Annotated[tuple[Path, Path] | None, Option("--scores")] = None,
    canaries: bool = False,
    claim: float | None = None,
    delta: Delta = _DELTA,
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Audit a training of your own, the training code of a paper, or a proved method.

    --script runs your own train(data) unchanged, and again on neighbours of its data with the
    noisy sums of the first run. The clipped sums of Opacus may then move by what is priced, and
    everything else that is returned must be equal to the bit; code without Opacus marks the line of
    its noise. Verdicts: NOT REPEATABLE, LEAKS, WRONG EPSILON, INCONCLUSIVE, no leak found; exit
    code 1 on all but the last.

    --protocol attacks the training code and bounds the real epsilon from below. A small graph has
    one isolated node, the canary; in half of many runs its label is flipped. An attacker sees the
    final parameters and guesses the label by a rule fixed in advance. A low error rate bounds
    epsilon (node, replace, delta 1e-5; Clopper-Pearson, 95 %) without assumptions about the
    mechanism. A bound above the claim refutes it; a bound below it proves nothing. The verdict
    uses a confidence of 99.9 %.

    --method attacks a proved method on a tiny problem in the same way; the attacker sees its
    prediction for one node. --replay gives the noisy values of a run to the same run on
    neighbouring data. --mechanisms audits the noise: its size, correlations, and how well two
    neighbouring values can be distinguished.

    --scores bounds epsilon at 99.9 % from your own attack on any code: the threshold is chosen on
    every other run, and the errors are counted on the rest.

    Exit code 1: the lower bound exceeds the proof, so the code has a bug. A refuted published claim
    is a finding, not an error.

    Examples:

    private-graphs audit --script train.py:train --data train.py:data

    private-graphs audit --protocol sound --epsilon 2 --splits 10 --json

    private-graphs audit --method class_sums --scenario text --epsilon 2

    private-graphs audit --replay --method class_sums --json

    private-graphs audit --mechanisms

    private-graphs audit --scores with.csv without.csv --delta 1e-5 --claim 2

    Args:
        script (FILE:NAME): your own training: a function of the data, which a Python file defines,
            such as train.py:train.
        data (FILE:NAME): with --script: its data, or a function that returns them.
        relation (str): with --script: how neighbours differ; zero_out: a record never joins, and
            their number is public.
        protocol (str): the training code of this protocol.
        method (NAME): a proved method in its place, such as class_sums.
        scenario (text|graph|edges): with --method: what is private and what is public; by default
            its first.
        epsilon (float): the claim that is attacked.
        runs (int): training runs per label of the canary; more runs make the bound sharper. Default
            1000, with splits 250.
        splits (int): random parts of the training graph.
        classes (int): with --method: of the tiny problem.
        replay (bool): replay the noise of runs on neighbouring data: of --method and --protocol, or
            of all.
        neighbours (int): with --replay or --script: neighbours of each run.
        mechanisms (bool): audit the noise of every mechanism.
        score_files (WITH WITHOUT): attack scores of anybody's code: one number a line, of runs with
            and without a record.
        canaries (bool): with --scores: they are of canaries of one run, each of which was in it or
            not by a fair coin.
        claim (float): with --scores or --script: epsilon that is claimed.
    """
    flags = dict(locals())
    kind = next((name for name in _USED if flags[name] not in (None, False)), "")
    if not kind:
        raise UsageError(
            "expected --script and --data, --scores, --mechanisms, --replay, --protocol, such as "
            "released, or --method"
        )
    reason = f"--{kind.replace('score_files', 'scores')} takes no such option"
    refuse_others(audit, flags, f"{kind} as_json {_USED[kind]}", reason)
    if kind in ("script", "data"):
        _replay_script(flags)
    elif score_files is not None:
        _bound_of_scores(score_files, delta, claim, as_json, canaries)
    elif kind == "mechanisms":
        _audit_mechanisms(as_json)
    elif kind == "replay":
        _replay(method, protocol, neighbours, as_json)
    else:
        _attack(flags)


_USED = {
    "script": "data relation neighbours seed claim delta", "data": "",
    "score_files": "canaries claim delta", "mechanisms": "",
    "replay": "method protocol neighbours", "method": "scenario epsilon runs seed classes",
    "protocol": "epsilon runs splits visits seed threads",
}  # fmt: skip
"""Option of a kind of audit, the first that is given -> the other options that it reads."""


def _replay_script(flags: dict[str, Any]) -> None:
    """Replay a training of the user, print the report, and end with code 1 if it does not pass."""
    from private_graphs.attacks.training_files import script_names
    from private_graphs.attacks.training_replay import replay_training

    if flags["script"] is None or flags["data"] is None:
        raise UsageError("expected both, as in --script train.py:train --data train.py:data")
    if flags["claim"] is None:
        refuse_idle("no --claim is given", delta=flags["delta"] != _DELTA)
    with script_names(flags["script"], flags["data"]) as (train, data):
        with ProgressBar("replaying", "neighbour") as progress:
            report = replay_training(
                train, data, flags["neighbours"], relation=flags["relation"], seed=flags["seed"],
                claim=flags["claim"], progress=progress,
                delta=None if flags["claim"] is None else flags["delta"],
            )  # fmt: skip
    print_json(report.document()) if flags["as_json"] else print_text(str(report))
    if not report.passed:
        raise typer.Exit(1)


def _bound_of_scores(
    files: tuple[Path, Path], delta: float, claim: float | None, as_json: bool, canaries: bool
) -> None:
    """Print the lower bound that follows from two files of attack scores."""
    from private_graphs.attacks.scores import bound_of, one_run_bound

    if canaries:
        if claim is not None:
            raise UsageError("--canaries prints a bound; leave --claim out and compare")
        print_json(one_run_bound(*files, delta))
        return
    bound = bound_of(*files, delta, claim)
    print_json(bound.document()) if as_json else print_text(bound.sentence)


def _attack(flags: dict[str, Any]) -> None:
    """Attack the training code of a protocol or a proved method, and print the bound."""
    from private_graphs.attacks import audit as audits

    splits, runs = flags["splits"], flags["runs"]
    runs = audits.default_runs(splits) if runs is None else runs
    if flags["method"] is not None:
        design = audits.method_design(
            flags["method"], flags["scenario"], epsilon=flags["epsilon"], runs=runs,
            seed=flags["seed"], classes=flags["classes"],
        )  # fmt: skip
        with ProgressBar("auditing", "run") as progress:
            answer = audits.run_method_audit(design, progress=progress)
    else:
        design = audits.Design(
            flags["protocol"], flags["epsilon"], splits, flags["visits"], runs, seed=flags["seed"]
        )
        with ProgressBar("auditing", "epoch") as progress:
            answer = audits.run_audit(design, threads=flags["threads"], progress=progress)
    print_json(answer.document()) if flags["as_json"] else print_text(audits.describe(answer))
    audits.require_unbroken(answer)


def _audit_mechanisms(as_json: bool) -> None:
    """Audit all mechanisms, print the findings, and raise UserError for a failed claim."""
    from private_graphs.attacks import mechanism_audit

    with ProgressBar("auditing", "mechanism") as progress:
        audits = list(mechanism_audit.audit_mechanisms(progress))
    documents = [audit.document() for audit in audits]
    print_json(documents) if as_json else print_text(mechanism_audit.describe(audits))
    failed = [audit for audit in audits if not audit.passed]
    if failed:
        names = ", ".join(audit.mechanism for audit in failed)
        raise UserError(f"{names}: {failed[0].findings[0]}")


def _replay(method: str | None, protocol: str | None, neighbours: int, as_json: bool) -> None:
    """Replay runs, print the findings, and raise UserError for a failed proof."""
    from private_graphs.attacks import replay_audit
    from private_graphs.core.files import shipped
    from private_graphs.running.store import recorded_rows

    rows = recorded_rows(shipped(Path("recorded")))
    with ProgressBar("replaying", "method") as progress:
        audits = replay_audit.audit_methods(rows, method, protocol, neighbours, progress=progress)
    documents = [audit.document() for audit in audits]
    print_json(documents) if as_json else print_text(replay_audit.describe(audits))
    failed = [audit for audit in audits if not audit.passed]
    if failed:
        names = ", ".join(f"{audit.method} {audit.scenario} {audit.protocol}" for audit in failed)
        what = failed[0].replay
        apart = [*what.not_repeatable, *what.differs, f"{what.largest_ratio:.6g} sensitivities"]
        holds = "a proof does not hold" if what.verdict == "LEAKS" else what.verdict
        raise UserError(f"{names}: {holds}: {apart[0]}")
