"""``private-graphs audit``: attack the training code, a proved method, or what methods release."""

from __future__ import annotations

from typing import Annotated

import typer

from private_graphs.cli_options import AsJson, Protocols, Threads, Visits
from private_graphs.cli_terminal import ProgressBar, print_json
from private_graphs.errors import UsageError, UserError
from private_graphs.limits import LARGEST_SEED, MOST_RUNS


def audit(
    protocol: Annotated[
        Protocols | None, typer.Option(help="The training code of this protocol.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A proved method in its place, such as class_sums."),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(help="With --method: what is private and what is public; by default its "
                     "first.", metavar="text|graph|edges"),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="The claim that is attacked.")] = 2.0,
    runs: Annotated[
        int | None,
        typer.Option(help="Training runs per label of the canary; more runs make the bound "
                     "sharper. Default 1000, with splits 250.", max=MOST_RUNS),
    ] = None,
    splits: Annotated[
        int, typer.Option(help="Random parts of the training graph.", max=MOST_RUNS)
    ] = 1,
    visits: Annotated[
        Visits,
        typer.Option(help="With splits, under sound: per-epoch sum (its own) or Poisson steps."),
    ] = "protocol",
    seed: Annotated[
        int,
        typer.Option(help="Of all draws: the same seed, the same answer.", min=0, max=LARGEST_SEED),
    ] = 0,
    classes: Annotated[
        int, typer.Option(help="With --method: of the tiny problem.", max=1000)
    ] = 2,
    release: Annotated[
        bool,
        typer.Option("--release", help="Audit the releases themselves: of --method, or of all."),
    ] = False,
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Attack the training code or a proved method: a lower bound on its real epsilon.

    A small graph has one isolated node, the canary, that training would reveal best. The code
    trains 100 steps of SGD again and again, with the noise that the protocol calibrates for
    --epsilon; in half of the runs the canary's label is flipped. An attacker sees the final
    parameters and guesses the label by a rule fixed in advance. Whoever is (epsilon, delta)-private
    makes the attacker err often enough; how seldom he errs is a lower bound on epsilon (node,
    replace, delta 1e-5; Clopper-Pearson, 95 %), and needs no assumption about the mechanism.

    A bound above the claimed epsilon refutes the claim. A bound below it proves nothing: it only
    says that this attack found no more. Where the proof is by exact Gaussian DP, a sharper bound
    that uses this is printed too. The verdict is passed at 99.9 %.

    With --method a proved method answers for a tiny problem again and again; the attacker sees
    what it predicts for one node. Half of the runs have another label of the canary or, in scenario
    edges, one edge more.

    With --release the noise itself is audited, with 2, 3 and 7 classes: its size and correlations,
    and how well releases of neighbouring datasets can be told apart, as a bound on mu.

    Exit code 1: more was shown than is proved, so the code has a bug. A refuted published claim
    is a finding, not an error.

    Examples:

    private-graphs audit --protocol sound --epsilon 2 --splits 10 --json

    private-graphs audit --method class_sums --scenario text --epsilon 2

    private-graphs audit --release --epsilon 2 --json
    """
    if release:
        others = (protocol, scenario, runs, splits, visits, seed, classes)
        if others != (None, None, None, 1, "protocol", 0, 2):
            raise UsageError("--release takes --method, --epsilon and --json; leave the rest out")
        _audit_releases(method, epsilon, as_json)
        return
    if (protocol is None) == (method is None):
        raise UsageError("expected either --protocol, such as released, or --method, or --release")
    from private_graphs.attacks import audit as audits

    runs = audits.default_runs(splits) if runs is None else runs
    if method is not None:
        if splits != 1 or visits != "protocol":
            raise UsageError("--splits and --visits are for --protocol; leave them out")
        design = audits.method_design(
            method, scenario, epsilon=epsilon, runs=runs, seed=seed, classes=classes
        )
        with ProgressBar("auditing", "run") as progress:
            answer = audits.run_method_audit(design, progress=progress)
    else:
        if scenario is not None or classes != 2:
            raise UsageError("--scenario and --classes are for --method; leave them out")
        design = audits.Design(protocol, epsilon, splits, visits, runs, seed=seed)
        with ProgressBar("auditing", "epoch") as progress:
            answer = audits.run_audit(design, threads=threads, progress=progress)
    if as_json:
        print_json(answer.document())
    else:
        typer.echo(audits.describe(answer))
    audits.require_unbroken(answer)


def _audit_releases(method: str | None, epsilon: float, as_json: bool) -> None:
    """Audit releases, print the findings, and raise UserError where a claim does not hold."""
    from private_graphs.attacks import release_audit

    with ProgressBar("auditing", "audit") as progress:
        answers = release_audit.audit_releases(method, epsilon, progress=progress)
    if as_json:
        print_json([answer.document() for answer in answers])
    else:
        typer.echo(release_audit.describe(answers))
    failed = [answer for answer in answers if not answer.passed]
    if failed:
        names = ", ".join(f"{answer.method} ({answer.classes} classes)" for answer in failed)
        raise UserError(
            f"releases of {names} do not keep what is proved of them: {failed[0].findings[0]}"
        )
