"""What a training cost: its noise and its sampling against what its accountant was told."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from scipy.stats import chi2

from private_graphs.attacks.training_runs import NoisySum, TrainingRun
from private_graphs.core.errors import UserError
from private_graphs.privacy.accountants import gdp_epsilon
from private_graphs.privacy.calibration import mu_of
from private_graphs.privacy.losses import SampledGaussian, pld_of

_CLOSE = 0.02
"""Relative difference of two accountants that is no finding."""
_SELDOM = 1e-9
"""Probability of noise of the right size whose draws are taken for smaller, and for larger."""


def accounting(run: TrainingRun) -> Iterator[str]:
    """Yield what differs between what ran and what the accountant of Opacus was told."""
    steps, history = _steps(run), run.history
    if run.poisson is None:
        return
    if len(history) != len(steps):
        yield f"steps: {len(steps)} noisy steps, the accountant counts {len(history)}"
    for step, (entry, (sigma, _)) in enumerate(zip(steps, history, strict=False), 1):
        if not entry.adaptive and abs(entry.std / entry.bound - sigma) > 1e-6 * sigma:
            yield (
                f"noise: step {step} has sigma {entry.std / entry.bound:.4g}, the "
                "accountant was told "
                f"{sigma:.4g}"
            )
    odd = [pair for pair in run.sizes if pair[0] and pair[0] != pair[1]]
    if not run.poisson or not run.samplers:
        yield (
            "sampling is not Poisson: the accountant supposes that each record joins each "
            "step by an own coin"
        )
    elif any(joined == 0 for _, joined in odd):
        yield (
            "a batch of nobody is skipped: it gets no noise and is not counted, so that "
            "the number of steps "
            "tells that nobody joined"
        )
    elif odd:
        drawn = "no" if odd[0][1] < 0 else odd[0][1]
        yield (
            f"batches are not those of the Poisson sampler: a step sums {odd[0][0]} "
            f"gradients, {drawn} records "
            "were drawn for it"
        )
    if run.samplers and history and abs(run.samplers[0][1] - history[0][1]) > 1e-9:
        yield (
            f"rate: records are drawn at q = {run.samplers[0][1]:.6g}, the accountant was told "
            f"{history[0][1]:.6g}"
        )
    yield from _noise(steps)


def _noise(steps: list[NoisySum]) -> Iterator[str]:
    """Yield what is wrong with the noise itself: its size, and steps that have the same."""
    noisy = [entry for entry in steps if entry.std]
    noises = [(entry.noisy.astype(float) - entry.exact) / entry.std for entry in noisy]
    for number, (size, factor) in enumerate(_by_parameter(noisy, noises), 1):
        low, high = np.sqrt(chi2.ppf((_SELDOM, 1 - _SELDOM), size) / size)
        if not low - 1e-3 <= factor <= high + 1e-3:
            yield (f"noise is not as large as its sigma: in parameter {number}, of all steps: by a "
                   f"factor {factor:.3f}")  # fmt: skip
    for step, noise in enumerate(noises, 1):
        if abs(noise.std() - 1) > 6 / math.sqrt(2 * noise.size) + 1e-3:
            yield f"noise is not as large as its sigma: step {step}: by a factor {noise.std():.3f}"
        same = [
            at
            for at, other in enumerate(noises[: step - 1], 1)
            if noise.size == other.size and abs(noise @ other) > 7 * math.sqrt(noise.size)
        ]
        if same:
            yield f"noise repeats: step {step} has that of step {same[0]} (a seed set in the loop?)"


def _by_parameter(steps: list[NoisySum], noises: list[np.ndarray]) -> Iterator[tuple[int, float]]:
    """Yield the number of draws of each parameter in all steps, and how large they are."""
    kinds = Counter(tuple(entry.ends) for entry in steps)
    for ends, _ in kinds.most_common(1):
        parts = [np.split(noise, ends) for entry, noise in zip(steps, noises, strict=True)
                 if tuple(entry.ends) == ends]  # fmt: skip
        for of_one in zip(*parts, strict=True):
            draws = np.concatenate(of_one)
            yield draws.size, float(np.sqrt(np.mean(draws**2)))


def claims(
    run: TrainingRun, delta: float | None, claim: float | None
) -> list[tuple[str, float, float]]:
    """Return who states which ε at which δ: the caller, the script, and what it asked for."""
    stated = [("you claim", claim, delta or _delta(run))]
    stated += [("the script prints", *answer) for answer in run.printed[-1:]]
    stated += [("the target was", *run.target)] if run.target else []
    return [(name, epsilon, at) for name, epsilon, at in stated if epsilon is not None and at]


def _delta(run: TrainingRun) -> float | None:
    return run.printed[-1][1] if run.printed else run.target[1] if run.target else None


def priced(
    run: TrainingRun, relation: str, delta: float | None, claim: float | None
) -> tuple[list[str], list[str]]:
    """Return the claims of ε that what ran does not prove, and a note of what it proves."""
    asked = claims(run, delta, claim)
    deltas = dict.fromkeys([*([delta] if delta else []), *(at for *_, at in asked)])
    if not deltas:
        return [], ["no delta was asked for: epsilon is not checked"]
    relations = ("add_remove", "replace") if run.poisson is not None else (relation,)
    try:
        prices = {(at, name): epsilon(run, name, at) for at in deltas for name in relations}
    except UserError as error:
        return [], [f"epsilon is not checked: {error}"]
    wrong = [
        f"epsilon: {name} {value:.3f}; what ran proves {prices[at, relations[0]]:.3f} "
        f"({_words(relations[0])}, "
        f"delta {at:g})"
        for name, value, at in asked
        if not value >= prices[at, relations[0]] * (1 - _CLOSE) - 0.01  # NaN claims nothing
    ]
    at = next(iter(deltas))
    answers = ", ".join(f"{prices[at, name]:.3f} ({_words(name)})" for name in relations)
    printed = [
        f"; the script printed {value:.3f}"
        for value, asked_at in run.printed[-1:]
        if asked_at == at
    ]
    return wrong, [f"epsilon at delta {at:g}: {answers}{''.join(printed)}"]


def _words(relation: str) -> str:
    return {
        "add_remove": "a record added or removed, the relation of Opacus, where n is public",
        "replace": "a record replaced",
        "zero_out": "a record left out, n public",
    }[relation]


def epsilon(run: TrainingRun, relation: str, delta: float) -> float:
    """Return the ε that the noise and the sampling of a run prove.

    Sums of Opacus are sampled at the rate that its accountant was told, if batches are those of
    its Poisson sampler; else each record joins once in an epoch. Sums that a script marks are not
    sampled.

    Raises:
        UserError: some sum has no noise, or δ is too small for the accountant.
    """
    steps, marked = (
        _steps(run),
        [entry for entry in run.sums if entry.marked and not entry.adaptive],
    )
    if not run.sums or not all(entry.std for entry in run.sums):
        raise UserError("some sum has no noise; expected noise in every step")
    alike = all(not size or size == joined for size, joined in run.sizes)
    if run.poisson and run.samplers and alike:
        counts = [entry.std for entry in run.sums if entry.marked and entry.adaptive]
        kinds: Counter[tuple[float, float]] = Counter()
        for place, (entry, (_, rate)) in enumerate(zip(steps, run.history, strict=False)):
            share = 0.0
            if entry.adaptive:  # the count of clipped records moves by 1, the sum by C or 2C
                share = (0.5 if relation == "replace" else 1.0) / counts[place]
            kinds[round(1 / math.hypot(entry.bound / entry.std, share), 9), rate] += 1
        sampled = [
            SampledGaussian(sigma, count, rate, relation) for (sigma, rate), count in kinds.items()
        ]
        alone = [SampledGaussian(entry.std / entry.bound, 1, 1.0, "add_remove") for entry in marked]
        return _composed((*sampled, *alone), delta)
    epochs = (
        max(1, math.ceil(sum(rate for _, rate in run.history) - 1e-9))
        if run.history
        else len(steps)
    )
    least = min((entry.std / entry.bound for entry in steps), default=math.inf)
    mu = mu_of(least, epochs, relation) if steps else 0.0
    return gdp_epsilon(math.hypot(mu, *(entry.bound / entry.std for entry in marked)), delta)


@lru_cache(64)
def _composed(losses: tuple[SampledGaussian, ...], delta: float) -> float:
    """Compute ``pld_of`` once for each training and δ: it takes a second."""
    return pld_of(losses, delta)


def _steps(run: TrainingRun) -> list[NoisySum]:
    return [entry for entry in run.sums if not entry.marked]
