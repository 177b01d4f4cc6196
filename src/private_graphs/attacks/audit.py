"""Audits from end to end: calibrate, attack, and compare the lower bound with the claims.

The displayed bound has a confidence of 95 %. The verdict has a joint confidence of 99.9 %: the
attack of many runs and that of one run each get half of the error probability (docs/privacy.md §10,
§11).
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any, Literal

from private_graphs.attacks.canary import RING, Design, OneRun, label_errors, one_run
from private_graphs.attacks.method_canary import MethodDesign, method_errors, noise_of
from private_graphs.core.errors import UsageError, UserError, suggest
from private_graphs.core.models import fields_of
from private_graphs.methods import all_methods, method_named
from private_graphs.methods.gcn_protocols import (
    RELATION,
    UNIT,
    GcnSettings,
    claim,
    noise_multiplier,
    training_event,
)
from private_graphs.privacy.accountants import gdp_delta, price
from private_graphs.privacy.audits import (
    Errors,
    gaussian_epsilon,
    one_run_epsilon,
    refutes_profile,
    two_point_epsilon,
)
from private_graphs.privacy.checks import check_epsilon
from private_graphs.privacy.rounding import at_least, at_most
from private_graphs.privacy.statements import AUDIT_CONFIDENCE
from private_graphs.running.jobs import Job
from private_graphs.tasks.method import Canary
from private_graphs.training.engine import Progress

Verdict = Literal["proof_broken", "refuted", "refuted_if_gaussian", "not_refuted"]

SHOWN_CONFIDENCE = 0.95
EACH_CONFIDENCE = 1 - (1 - AUDIT_CONFIDENCE) / 2
"""Confidence of either attack, so that both hold jointly at ``AUDIT_CONFIDENCE``."""
RUNS, RUNS_WITH_SPLITS = 1000, 250
"""Runs per label of the canary that finish within 45 seconds, including compilation."""
ASSUMPTION = "none"
"""Assumption of ``epsilon_lower`` about the mechanism."""
GAUSSIAN_ASSUMPTION = "what is released is Gaussian, as the proof by exact Gaussian DP says"


@dataclass(frozen=True)
class CanaryAudit:
    """Result of an audit; every ε is at the design's δ, unit and relation."""

    design: Design | MethodDesign
    noise_multiplier: float
    epsilon_published: float | None
    epsilon_proved: float | None
    mu_proved: float | None
    """μ of exact Gaussian DP; None for other proofs, and without one."""
    errors: Errors
    single: OneRun | None
    """Result of the one-run attack, on the full graph only."""
    seconds: float
    epochs: int
    """Number of passes over all private data per result."""

    @property
    def delta(self) -> float:
        """δ of every ε."""
        return self.design.delta

    def lower(self, confidence: float = SHOWN_CONFIDENCE) -> float:
        """Return the lower bound on ε of many runs, without assumptions."""
        return two_point_epsilon(self.errors, self.delta, confidence)

    def lower_gaussian(self, confidence: float = SHOWN_CONFIDENCE) -> float | None:
        """Return the same for Gaussian mechanisms; None if nothing shows that this is one."""
        if self.mu_proved is None:
            return None
        return gaussian_epsilon(self.errors, self.delta, confidence)

    def lower_one_run(self, confidence: float = SHOWN_CONFIDENCE) -> float | None:
        """Return the lower bound of one run with many canaries, under ``add_remove``."""
        if self.single is None:
            return None
        run = self.single
        return one_run_epsilon(run.canaries, run.guesses, run.right, self.delta, confidence)

    @property
    def breaks_proof(self) -> bool:
        """Whether the proved guarantee is refuted at ``AUDIT_CONFIDENCE``, which is a bug.

        Proofs by exact Gaussian DP are tested against their whole privacy profile.
        """
        if self.epsilon_proved is None:
            return False
        bounds = (self.lower(EACH_CONFIDENCE), self.lower_one_run(EACH_CONFIDENCE) or 0.0)
        if max(bounds) > self.epsilon_proved:
            return True
        mu = self.mu_proved
        return mu is not None and refutes_profile(
            self.errors, lambda epsilon: gdp_delta(mu, epsilon), EACH_CONFIDENCE
        )

    @property
    def verdict(self) -> Verdict:
        """Return the verdict at a joint confidence of ``AUDIT_CONFIDENCE``."""
        if self.breaks_proof:
            return "proof_broken"
        claimed = self.design.epsilon
        if max(self.lower(EACH_CONFIDENCE), self.lower_one_run(EACH_CONFIDENCE) or 0.0) > claimed:
            return "refuted"
        if (self.lower_gaussian(EACH_CONFIDENCE) or 0.0) > claimed:
            return "refuted_if_gaussian"
        return "not_refuted"

    def document(self) -> dict[str, Any]:
        """Return all results as JSON-able fields, for the command line and for tables."""
        design, run = self.design, self.single
        gaussian = self.lower_gaussian()
        return {
            **design.facts(),
            **fields_of(self, "delta", "epochs", "noise_multiplier"),
            "epsilon_claimed": design.epsilon,
            **fields_of(self, "epsilon_published", "epsilon_proved"),
            "epsilon_lower": self.lower(),
            "assumption": ASSUMPTION,
            "epsilon_lower_gaussian": gaussian,
            "gaussian_assumption": None if gaussian is None else GAUSSIAN_ASSUMPTION,
            "confidence": SHOWN_CONFIDENCE,
            "runs": self.errors.first_runs + self.errors.second_runs,
            "errors": self.errors.first + self.errors.second,
            "one_run": run
            and {
                "relation": "add_remove",
                **asdict(run),
                "epsilon_lower": self.lower_one_run(),
            },
            "verdict": self.verdict,
            "verdict_confidence": AUDIT_CONFIDENCE,
            "verdict_epsilon_lower": self.lower(EACH_CONFIDENCE),
            "seed": design.seed,
            "seconds": round(self.seconds, 1),
        }


def default_runs(splits: int) -> int:
    """Return the default number of runs per label of the canary."""
    return RUNS if splits == 1 else RUNS_WITH_SPLITS


def _checked(design: Design) -> Design:
    check_epsilon(design.epsilon)
    for name in ("runs", "splits", "epochs"):
        if getattr(design, name) < 1:
            raise UsageError(f"{name} is {getattr(design, name)}; expected at least 1")
    if design.splits > RING + 1:
        raise UsageError(
            f"splits is {design.splits}; expected at most {RING + 1}, the training nodes"
        )
    _check_runs(design.runs)
    return design


def _check_runs(runs: int) -> None:
    if runs < 10:
        raise UsageError(
            f"runs is {runs}; expected at least 10 per label of the canary, or no attack "
            "can show anything"
        )


def run_audit(design: Design, *, threads: int = 1, progress: Progress | None = None) -> CanaryAudit:
    """Calibrate the noise as the protocol does, attack the training, and count the errors.

    Raises:
        UsageError: the design cannot be carried out.
    """
    started = time.perf_counter()
    settings, rules = _checked(design).settings, design.rules
    noise = noise_multiplier(design.epsilon, settings, rules, design.delta)
    published = claim(settings, rules, noise, design.delta)
    priced = price(training_event(settings, rules, noise), UNIT, RELATION, design.delta)
    return CanaryAudit(
        design=design,
        epochs=design.epochs,
        noise_multiplier=noise,
        epsilon_published=published and published.epsilon,
        epsilon_proved=priced.epsilon,
        mu_proved=priced.mu,
        errors=label_errors(design, noise, threads=threads, progress=progress),
        single=one_run(design, noise) if design.splits == 1 else None,
        seconds=time.perf_counter() - started,
    )


def method_design(method: str, scenario: str | None, **fields: Any) -> MethodDesign:
    """Return the design for a method and a scenario, as a user names them.

    The default scenario is the method's first one.

    Raises:
        UsageError: a name is unknown.
    """
    audited = [entry.name for entry in all_methods().values() if isinstance(entry.canary, Canary)]
    if method not in audited:
        raise UsageError(
            f"no audit of method {method!r}; expected {', '.join(audited)}"
            f"{suggest(method, audited)}"
        )
    scenarios = method_named(method).scenarios
    if scenario is not None and scenario not in scenarios:
        raise UsageError(
            f"{method} has no scenario {scenario!r}; expected {' or '.join(scenarios)}"
            f"{suggest(scenario, scenarios)}"
        )
    return MethodDesign(method, scenario or scenarios[0], **fields)


def run_method_audit(design: MethodDesign, *, progress: Progress | None = None) -> CanaryAudit:
    """Attack a proved method at the requested ε, and count the errors.

    Raises:
        UsageError: ε is not positive, or there are fewer than ten runs per neighbour, or one class.
    """
    started = time.perf_counter()
    check_epsilon(design.epsilon)
    _check_runs(design.runs)
    if design.classes < 2:
        raise UsageError(f"classes is {design.classes}; expected at least 2")
    errors, event = method_errors(design, progress)
    noise, releases = noise_of(event)
    priced = price(event, design.unit, design.relation, design.delta)
    return CanaryAudit(
        design=design,
        epochs=releases,
        noise_multiplier=noise,
        epsilon_published=None,
        epsilon_proved=priced.epsilon,
        mu_proved=priced.mu,
        errors=errors,
        single=None,
        seconds=time.perf_counter() - started,
    )


def run_job(job: Job, *, threads: int = 1, progress: Progress | None = None) -> CanaryAudit:
    """Carry out a study's planned audit: ``job.attack`` has the number of runs and the seed."""
    (epsilon,), attack, method = job.epsilons, job.attack, method_named(job.method)
    if isinstance(method.canary, Canary):
        design = MethodDesign(
            job.method, job.scenario, epsilon, attack.runs, attack.seed, job.delta
        )
        return run_method_audit(design, progress=progress)
    settings = GcnSettings.model_validate(job.settings)
    design = Design(
        job.protocol, epsilon, settings.splits, settings.visits, attack.runs, attack.seed,
        settings.epochs, job.delta,
    )  # fmt: skip
    return run_audit(design, threads=threads, progress=progress)


def describe(audit: CanaryAudit) -> str:
    """Return the finding as sentences for a terminal."""
    document = audit.document()
    where = "full graph" if document["n_splits"] == 1 else f"{document['n_splits']} splits"
    head = f"{document['protocol']}, {where}: ", f"{document['epochs']} epochs"
    if isinstance(audit.design, MethodDesign):
        unit = document["unit"].replace("_", " ")
        passes = "1 release" if audit.epochs == 1 else f"{audit.epochs} releases"
        head = f"{audit.design.title} ({unit}, {document['relation']}): ", passes
    lines = [
        f"{head[0]}noise multiplier {audit.noise_multiplier:g}, {head[1]}",
        f"claimed       epsilon {document['epsilon_claimed']:g}",
        f"proved        {_value(document['epsilon_proved'])}",
        f"shown         epsilon > {at_least(document['epsilon_lower'], 4)}  (95 %, no assumption; "
        f"{document['errors']} errors in {document['runs']} runs)",
    ]
    if document["epsilon_lower_gaussian"] is not None:
        lines.append(
            f"if Gaussian   epsilon > {at_least(document['epsilon_lower_gaussian'], 4)}  (95 %)"
        )
    if document["one_run"]:
        single = document["one_run"]
        lines.append(
            f"one run       epsilon > {at_least(single['epsilon_lower'], 4)}  (95 %, add_remove; "
            f"{single['right']} of {single['guesses']} guesses right)"
        )
    lines.append(f"verdict       {VERDICTS[audit.verdict]}")
    return "\n".join(lines)


VERDICTS: dict[str, str] = {
    "proof_broken": "the code reveals more than is proved: mend it before any release",
    "refuted": "the claimed epsilon does not hold",
    "refuted_if_gaussian": "the claimed epsilon does not hold, the noise being Gaussian; what is "
    "proved stands",
    "not_refuted": "nothing here contradicts the claim",
}
"""Text of each verdict; all at a joint confidence of 99.9 %."""


def _value(epsilon: float | None) -> str:
    return "nothing" if epsilon is None else f"epsilon {at_most(epsilon, 4)}"


def require_unbroken(audit: CanaryAudit) -> None:
    """Raise UserError if the audit's lower bound exceeds the proved ε."""
    if audit.breaks_proof:
        bound = max(audit.lower(EACH_CONFIDENCE), audit.lower_gaussian(EACH_CONFIDENCE) or 0.0)
        raise UserError(
            f"the audit of {audit.design.title} shows epsilon >= {at_least(bound, 4)} where "
            f"{at_most(audit.epsilon_proved, 4)} is proved ({audit.design.unit}, "
            f"{audit.design.relation}, delta {audit.delta:g}): the training code breaks its "
            "proof; mend it before publishing any result"
        )
