"""Audits of what is released: the noise itself, and how well it hides one unit.

For each method and 2, 3 and 7 classes, small tasks (``release_tasks``) answer two questions:

1. Is the noise what is claimed? Standard deviations per row, column, round and coordinate and
   correlations between them and between the releases of a batch (``noise_tests``).
2. Does it hide one unit as well as is proved? Releases of two neighbouring datasets are told apart
   along the difference of their exact sums, by a threshold fixed in advance; the errors bound the
   mechanism's μ from below (``privacy.audits.gaussian_mu``), which may not exceed the proved one.

The end-to-end audits (``method_canary``) see predictions alone; these see every number that leaves
the noise. Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
from scipy.stats import binom, chisquare
from threadpoolctl import threadpool_limits

from private_graphs.attacks.noise_tests import Noise
from private_graphs.attacks.release_tasks import (
    DELTA,
    SECRET,
    TASKS,
    ChoiceTask,
    LabelCountsTask,
    Task,
    make_requests,
)
from private_graphs.errors import UsageError, suggest
from private_graphs.privacy.accountants import price
from private_graphs.privacy.audits import Errors, gaussian_mu, rate_upper_bound
from private_graphs.privacy.checks import check_epsilon
from private_graphs.privacy.statements import AUDIT_CONFIDENCE

CLASSES = (2, 3, 7)
CHOICE = "noisy_choice"
METHODS = (*TASKS, CHOICE)
"""What ``audit --release`` can be asked for."""
NOISE_DRAWS = 20_000
"""Releases whose noise is tested, at least."""
DRAWS = 200_000
"""Canaries of each neighbour; where parts toss coins, only those that join every step count."""
CHOICES = 20_000
"""Noisy choices of each neighbour."""
_AUDITS = len(METHODS) * len(CLASSES)
_ALARM = (1 - AUDIT_CONFIDENCE) / _AUDITS
"""Probability of a false alarm of all tests of noise of one audit: together .1 %."""


@dataclass(frozen=True)
class Size:
    """How many draws an audit makes."""

    noise: int = NOISE_DRAWS
    scores: int = DRAWS
    choices: int = CHOICES


@dataclass(frozen=True)
class ReleaseAudit:
    """What the releases of one method with one number of classes showed."""

    method: str
    classes: int
    draws: int
    """Scores of each neighbour."""
    std_ratio: float | None
    """Standard deviation of all noise over what is claimed, with two-sided bounds; None for the
    noisy choice, which adds none."""
    std_ratio_low: float | None
    std_ratio_high: float | None
    mu_lower: float | None
    """Lower bound on μ of Gaussian DP; None where nothing Gaussian is claimed."""
    mu_proved: float | None
    confidence: float
    findings: tuple[str, ...]
    """Whatever contradicts the claim, in words."""

    @property
    def passed(self) -> bool:
        """Whether nothing contradicts the claim."""
        return not self.findings

    def document(self) -> dict[str, Any]:
        """JSON-able fields."""
        fields = (
            "method", "classes", "draws", "std_ratio", "std_ratio_low", "std_ratio_high",
            "mu_lower", "mu_proved", "confidence", "passed",
        )  # fmt: skip
        return {name: getattr(self, name) for name in fields} | {"findings": list(self.findings)}


def _of_price(task: Task | ChoiceTask) -> list[str]:
    """What is wrong with the price of what the method says that it releases."""
    found = []
    for event in task.events:
        edge = getattr(event, "unit", "node") == "edge_undirected"
        unit, relation = ("edge_undirected", "add_remove") if edge else ("node", "replace")
        epsilon, asked = price(event, unit, relation, DELTA).epsilon, task.epsilon
        if not epsilon <= asked * (1 + 1e-9):
            found.append(f"what is released proves epsilon {epsilon:.4f}, asked for {asked:g}")
    return found


def _of_coins(joined: np.ndarray) -> list[str]:
    """What contradicts that every part tosses its own fair coin in each of two steps."""
    found = []
    for part, counts in enumerate(joined.T):
        seen = np.bincount(counts, minlength=3)
        expected = binom.pmf(np.arange(3), 2, 0.5) * len(counts)
        if len(seen) > 3 or chisquare(seen, expected).pvalue < _ALARM:
            found.append(f"part {part} joined 0, 1, 2 steps {seen.tolist()} times, not by coins")
    together = np.corrcoef(joined.T)[0, 1]
    if not abs(math.atanh(together)) * math.sqrt(len(joined) - 3) < 5:
        found.append(f"the coins of two parts have correlation {together:.4f}")
    return found


def audit_noise(task: Task, size: Size) -> ReleaseAudit:
    """Draw releases of both neighbours, test the noise and bound μ."""
    runs = math.ceil(size.scores / task.canaries / task.batch) * task.batch
    kept = min(runs, math.ceil(size.noise / 2 / task.batch) * task.batch)
    noise, joined, wrong, scored = [], [], [], []
    for arm in (0, 1):
        errors = total = 0
        for first in range(0, runs, task.batch):
            # Noise is tested of both generators in turn, scores mostly of the faster one.
            secret = SECRET if first < kept and first // task.batch % 2 else None
            requests = make_requests(
                task.method, task.classes, task.epsilon, arm, first, task.batch, secret=secret
            )
            released = task.release(arm, requests, first < kept)
            if first < kept:
                noise.append(released.noise)
                if released.joined is not None:
                    joined.append(released.joined)
            errors += int(np.sum((released.scores > 0) != bool(arm)))
            total += len(released.scores)
        wrong.append(errors)
        scored.append(total)
    tested = Noise(np.concatenate(noise), task.batch)
    findings = [*_of_price(task), *map(str, tested.found(_ALARM))]
    if joined:
        findings += _of_coins(np.concatenate(joined))
    ratio, low, high = tested.std_ratio(AUDIT_CONFIDENCE)
    mu = gaussian_mu(Errors(wrong[0], scored[0], wrong[1], scored[1]), AUDIT_CONFIDENCE)
    if mu > task.mu:
        findings.append(f"mu is at least {mu:.4f}, proved {task.mu:.4f}")
    return ReleaseAudit(
        method=task.method,
        classes=task.classes,
        draws=min(scored),
        std_ratio=ratio,
        std_ratio_low=low,
        std_ratio_high=high,
        mu_lower=mu,
        mu_proved=task.mu,
        confidence=AUDIT_CONFIDENCE,
        findings=tuple(findings),
    )


def audit_choice(task: ChoiceTask | LabelCountsTask, size: Size) -> ReleaseAudit:
    """Compare how often each answer is given with its exact probability, and neighbours."""
    findings = _of_price(task)
    counts = [task.counts(arm, size.choices) for arm in (0, 1)]
    draws = int(counts[0].sum())
    for arm in (0, 1):
        expected = task.probabilities(arm) * draws
        if chisquare(counts[arm], expected).pvalue < _ALARM:
            findings.append(f"chosen {counts[arm].tolist()}, expected {expected.round(1).tolist()}")
    tail = (1 - AUDIT_CONFIDENCE) / 2 / (2 * len(counts[0]))
    for first, second in ((0, 1), (1, 0)):
        for option in range(len(counts[0])):
            seldom = rate_upper_bound(int(counts[second][option]), draws, tail)
            often = 1 - rate_upper_bound(draws - int(counts[first][option]), draws, tail)
            if often > 0 and math.log(often / seldom) > task.epsilon:
                findings.append(f"epsilon of option {option} is at least {often / seldom:.4f}")
    return ReleaseAudit(
        task.method, task.classes, draws, None, None, None, None, None, AUDIT_CONFIDENCE,
        tuple(findings),
    )  # fmt: skip


def audit_release(
    method: str, classes: int, epsilon: float, size: Size | None = None
) -> ReleaseAudit:
    """Audit one method with one number of classes."""
    size = size or Size()
    with threadpool_limits(limits=1):
        if method == CHOICE:
            return audit_choice(ChoiceTask(classes, epsilon), size)
        task = TASKS[method](method, classes, epsilon)
        audit = audit_choice if isinstance(task, LabelCountsTask) else audit_noise
        return audit(task, size)


def audit_releases(
    method: str | None,
    epsilon: float,
    size: Size | None = None,
    *,
    processes: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> list[ReleaseAudit]:
    """Audit one method, or all, with 2, 3 and 7 classes; ``processes`` share them out.

    Raises UsageError for an unknown method and UserError for ε that is not positive.
    """
    check_epsilon(epsilon)
    if method is not None and method not in METHODS:
        raise UsageError(
            f"no release audit of method {method!r}; expected {', '.join(METHODS)}"
            f"{suggest(method, METHODS)}"
        )
    jobs = [(name, k) for name in ([method] if method else METHODS) for k in CLASSES]
    found = []
    for audit in _in_order(jobs, epsilon, size, processes):
        found.append(audit)
        if progress is not None:
            progress(len(found), len(jobs))
    return found


def _in_order(
    jobs: Sequence[tuple[str, int]], epsilon: float, size: Size | None, processes: int
) -> Iterator[ReleaseAudit]:
    if processes == 1:
        for job in jobs:
            yield audit_release(*job, epsilon, size)
        return
    # Spawned, since forked children would inherit the threads of numerical libraries.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(audit_release, *job, epsilon, size) for job in jobs]
        yield from (each.result() for each in waiting)


def describe(audits: Sequence[ReleaseAudit]) -> str:
    """Return a table for a terminal, and what was found."""
    head = ("method", "classes", "draws", "std ratio", "bounds", "mu shown", "proved", "")
    lines = [f"{head[0]:18} {head[1]:>7} {head[2]:>7} {head[3]:>9} {head[4]:^15} {head[5]:>8} "
             f"{head[6]:>7}"]  # fmt: skip
    for each in audits:
        numbers = " " * 43
        if each.std_ratio is not None:
            numbers = (
                f"{each.std_ratio:9.4f} {each.std_ratio_low:7.4f}-{each.std_ratio_high:7.4f} "
                f"{each.mu_lower:8.4f} {each.mu_proved:7.4f}"
            )
        verdict = "passed" if each.passed else "FAILED"
        lines.append(f"{each.method:18} {each.classes:7} {each.draws:7} {numbers:43} {verdict}")
        lines += [f"    {finding}" for finding in each.findings[:5]]
        if len(each.findings) > 5:
            lines.append(f"    and {len(each.findings) - 5} more")
    return "\n".join(lines)
