"""``private-graphs audit``: attack the training code, a proved method, or what methods release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from private_graphs.cli_options import (
    AuditedMethod,
    AuditedProtocol,
    AuditedSetting,
    ProgressBar,
    Threads,
    Visits,
    choice,
)
from private_graphs.cli_shared import print_json
from private_graphs.errors import UsageError, UserError
from private_graphs.protocols import PROTOCOLS

if TYPE_CHECKING:
    from private_graphs.attacks.audit import Audit


def audit(
    protocol: AuditedProtocol = None,
    method: AuditedMethod = None,
    setting: AuditedSetting = None,
    epsilon: Annotated[float, typer.Option(help="The claim that is attacked.")] = 2.0,
    runs: Annotated[
        int | None,
        typer.Option(help="Training runs per label of the canary; more runs make the bound "
                     "sharper. Default 1000, with splits 250."),
    ] = None,
    splits: Annotated[int, typer.Option(help="Random parts of the training graph.")] = 1,
    visits: Visits = "protocol",
    seed: Annotated[int, typer.Option(help="Of all draws: the same seed, the same answer.")] = 0,
    classes: Annotated[int, typer.Option(help="With --method: of the tiny problem.")] = 2,
    release: Annotated[
        bool,
        typer.Option("--release", help="Audit the releases themselves: of --method, or of all."),
    ] = False,
    threads: Threads = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
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
    what it predicts for one node. Half of the runs have another label of the canary or, in setting
    edges, one edge more.

    With --release the noise itself is audited, with 2, 3 and 7 classes: its size and correlations,
    and how well releases of neighbouring datasets can be told apart, as a bound on mu.

    Exit code 1: more was shown than is proved, so the code has a bug. A refuted published claim
    is a finding, not an error.

    Examples:

    private-graphs audit --protocol sound --epsilon 2 --splits 10 --json

    private-graphs audit --method class_sums --setting text --epsilon 2

    private-graphs audit --release --epsilon 2 --json
    """
    if threads < 1:
        raise UsageError(f"--threads is {threads}; expected at least 1")
    others = (protocol, setting, runs, splits, visits, seed, classes)
    if release:
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
        found = _audit_method(method, setting, epsilon, runs, seed, classes)
    else:
        if setting is not None or classes != 2:
            raise UsageError("--setting and --classes are for --method; leave them out")
        checked = choice("--visits", visits, ("protocol", "epoch_sum", "poisson"))
        found = _audit_protocol(protocol, epsilon, splits, checked, runs, seed, threads)
    if as_json:
        print_json(found.document())
    else:
        typer.echo(audits.describe(found))
    audits.require_unbroken(found)


def _audit_protocol(
    protocol: str | None,
    epsilon: float,
    splits: int,
    visits: str,
    runs: int,
    seed: int,
    threads: int,
) -> Audit:
    from private_graphs.attacks import audit as audits

    name = choice("--protocol", protocol, tuple(PROTOCOLS))
    design = audits.Design(name, epsilon, splits, visits, runs, seed=seed)
    with ProgressBar("auditing", "epoch") as progress:
        return audits.run_audit(design, threads=threads, progress=progress)


def _audit_method(
    method: str, setting: str | None, epsilon: float, runs: int, seed: int, classes: int
) -> Audit:
    from private_graphs.attacks import audit as audits

    design = audits.method_design(
        method, setting, epsilon=epsilon, runs=runs, seed=seed, classes=classes
    )
    with ProgressBar("auditing", "run") as progress:
        return audits.run_method_audit(design, progress=progress)


def _audit_releases(method: str | None, epsilon: float, as_json: bool) -> None:
    """Audit releases, print what was found, and raise UserError where a claim does not hold."""
    from private_graphs.attacks import release_audit

    with ProgressBar("auditing", "audit") as progress:
        found = release_audit.audit_releases(method, epsilon, progress=progress)
    if as_json:
        print_json([each.document() for each in found])
    else:
        typer.echo(release_audit.describe(found))
    failed = [f"{each.method} ({each.classes} classes)" for each in found if not each.passed]
    if failed:
        raise UserError(
            f"releases of {', '.join(failed)} do not keep what is proved of them: "
            f"{next(each.findings[0] for each in found if not each.passed)}"
        )
