"""DP-APPR: noise for a budget, as published and as proved, and the resulting events.

Zhang (2021), Section 5.3: rows of M target nodes are private vectors (Theorems 6 and 7, Corollary
3), then DP-SGD on the targets (Theorem 8); a sample of a share q′ of the nodes "amplifies" each
part to q′·ε. What is proved instead: docs/privacy.md §9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from scipy.optimize import brentq

from private_graphs.datasets.protocols import Protocol, by_name
from private_graphs.privacy.accountants import gdp_mu
from private_graphs.privacy.events import Event, SecretSample
from private_graphs.privacy.queries import (
    ExponentialChoice,
    GaussianQuery,
    LaplaceQuery,
    PoissonSums,
    Query,
)
from private_graphs.privacy.query_calibration import renyi_scale, scale_noise
from private_graphs.privacy.renyi import Releases, classic_renyi_epsilon
from private_graphs.privacy.secret_samples import inner_epsilon
from private_graphs.privacy.zcdp import zcdp_epsilon, zcdp_epsilon_library
from private_graphs.tasks.method import PrintedEpsilon

Kind = Literal["gaussian", "chosen", "chosen_values", "one_hot", "random", "exact"]
"""Content of the rows."""
SAMPLED_KINDS = ("gaussian", "one_hot", "random")
"""Row kinds that allow Poisson sampling of targets: Poisson sums have no zCDP bound with which
choices could compose, and with exact rows every term of a step may change."""
_UP = 1 + 1e-9
"""Factor by which noise is rounded up, so that the privacy cost stays below the request."""


@dataclass(frozen=True, kw_only=True)
class ApprProtocol(Protocol):
    """Construction of rows, batches and noise."""

    unrooted: Literal["one_hot", "absent"]
    """Sampled nodes beyond the M targets: train on their own features, or are left out."""
    columns: Literal["normalise", "clip"]
    """Column sums of rows: all scaled to 1, or reduced to 1 if larger."""
    batches: Literal["fixed_cycle", "shuffled", "full"]
    """Batches: the first epoch's partition in every epoch, its last batch filled from the one
    before; a new order every epoch; or all targets in every step."""
    dropout: float
    """Dropout of inputs and hidden units, also at prediction: the authors' code never turns it
    off."""
    truncates: bool
    """Whether the number of other nodes' rows that contain a node is bounded."""
    shows_sample: bool
    """Whether rows are published with facts about the sampled graph: edges, degrees, rows'
    members."""


PROTOCOLS = by_name(
    ApprProtocol(
        name="released",
        summary="what the authors' later code does: batches that never change, sampled nodes "
        "beyond the roots as one-hot rows, columns normalised, dropout at prediction; test "
        "nodes are the text's uniform ones, but where METIS is named",
        calibration="published",
        inference="leaks",
        unrooted="one_hot",
        columns="normalise",
        batches="fixed_cycle",
        dropout=0.1,
        truncates=False,
        shows_sample=True,
    ),
    ApprProtocol(
        name="paper",
        summary="Algorithm 9 as written, with the thesis's accounting; Adam, without which "
        "nothing is learned at its learning rate",
        calibration="published",
        inference="leaks",
        unrooted="absent",
        columns="clip",
        batches="shuffled",
        dropout=0.0,
        truncates=False,
        shows_sample=True,
    ),
    ApprProtocol(
        name="sound",
        summary="what can be proved: a node stays in few rows, every step reads all roots, the "
        "secret sample amplifies rows and training together, once",
        unrooted="absent",
        columns="clip",
        batches="full",
        dropout=0.0,
        truncates=True,
        shows_sample=False,
    ),
)


@dataclass(frozen=True)
class ReleasePlan:
    """Releases of runs of one kind with equal settings, without noise scales."""

    kind: Kind
    rate: float
    """Sampled share of the training nodes, q′."""
    n_sampled: int
    private_roots: int
    """Number M of target nodes with multi-node rows."""
    n_roots: int
    """Number of all target nodes that train."""
    top: int
    epochs: int
    steps: int
    batch: int
    row_clip: float
    entry_clip: float
    clip_norm: float
    others: int | None
    """Maximum number R of other nodes' rows that contain a node; None: no bound."""
    per_batch: bool
    """Whether the noise multiplier is in units of B·C, because the whole step may change."""
    overlaps: bool
    """Whether a target can be in two batches of an epoch."""
    delta: float
    root_rate: float | None = None
    """Probability with which a target joins a step; None: batches partition the targets."""

    @property
    def divisor(self) -> float:
        """Return the public divisor of a step's noisy sum."""
        return self.batch if self.root_rate is None else self.root_rate * self.n_roots

    @property
    def has_rows(self) -> bool:
        """Whether rows that read private edges are released."""
        return self.kind in ("gaussian", "chosen", "chosen_values")

    @property
    def inner_delta(self) -> float:
        """δ of the mechanisms inside the secret sample."""
        return self.delta / self.rate


@dataclass(frozen=True)
class ApprNoise:
    """Noise of rows and of training; None: no noise."""

    row_std: float | None = None
    """Noise standard deviation of each entry of a row."""
    choice: float | None = None
    """ε of Algorithm 8, whose entries have Gumbel(C2/ε) noise."""
    values: float | None = None
    """ε of all K values of a row."""
    multiplier: float | None = None
    """Noise multiplier of a step, in units of C or of B·C."""


def row_epsilon(epsilon: float, rows: int, delta: float) -> float:
    """Return the ε of each of ``rows`` rows that compose to (ε, δ) by Theorems 6 and 7."""
    return epsilon / (2 * math.sqrt(rows * math.log(math.e + epsilon / delta)))


def choices_epsilon(epsilon: float, top: int, delta: float) -> float:
    """Return the total ε of ``top`` choices in one row by Corollary 3."""
    factor = math.sqrt(2 * top * -math.log(delta))
    return 2 * min(top * epsilon, top * epsilon * math.tanh(epsilon) + epsilon * factor)


def classical_std(epsilon: float, delta: float, clip: float) -> float:
    """Return the thesis's noise of a row: sqrt(2 ln(1.25/δ))·C1/ε, for any ε."""
    return math.sqrt(2 * math.log(1.25 / delta)) * clip / epsilon


@lru_cache(maxsize=1024)
def published_noise(
    plan: ReleasePlan, rows: float, training: float, multiplier: float | None = None
) -> ApprNoise:
    """Return the thesis's noise for ε of the rows and of training; infinity: no noise.

    Each part has δ/2, and is calibrated inside the sample at ε/q′ and δ/q′; ``multiplier`` is the
    steps' multiplier, if known.
    """
    delta = plan.inner_delta / 2
    if math.isfinite(training) and multiplier is None:
        rate = min(1.0, plan.batch / plan.n_sampled)  # the text divides by the whole sample
        multiplier = renyi_scale(
            training / plan.rate,
            delta,
            lambda noise: (Releases(noise, plan.steps, rate),),
            classic_renyi_epsilon,
        )
    if not plan.has_rows or math.isinf(rows):
        return ApprNoise(multiplier=multiplier)
    one = row_epsilon(rows / plan.rate, plan.private_roots, delta)
    one_delta = delta / (2 * plan.private_roots)
    if plan.kind == "gaussian":
        return ApprNoise(classical_std(one, one_delta, plan.row_clip), multiplier=multiplier)
    values = one / 2 if plan.kind == "chosen_values" else None
    left = one - (values or 0.0)
    choice = brentq(
        lambda eps: choices_epsilon(eps, plan.top, one_delta) - left, 1e-12, left, xtol=1e-15
    )
    return ApprNoise(choice=float(choice), values=values, multiplier=multiplier)


def claim(plan: ReleasePlan, rows: float, training: float) -> PrintedEpsilon:
    """Return the ε that the thesis prints: the sum of the parts, each times q′."""
    words = f"q′·ε of {plan.steps} steps by Rényi DP at q = B/m"
    total = training
    if plan.has_rows:
        total += rows
        words = f"q′·ε of {plan.private_roots} rows by Theorems 6 and 7, plus {words}"
    return PrintedEpsilon(total, words)


@lru_cache(maxsize=1024)
def proved_noise(plan: ReleasePlan, epsilon: float, multiplier: float | None = None) -> ApprNoise:
    """Return the noise for which all releases together prove ε: halves for rows and training.

    Halves of μ² if all noise is Gaussian, else of ρ; ``multiplier`` is the steps' multiplier, if
    known.
    """
    inner = inner_epsilon(epsilon, plan.rate) if plan.rate < 1 else epsilon
    if plan.kind in ("chosen", "chosen_values"):
        rho = _rho(inner, plan.inner_delta) / _UP
        choices = plan.private_roots * plan.top
        share = rho / (4 if plan.kind == "chosen_values" else 2)
        values = None
        if plan.kind == "chosen_values":
            values = math.sqrt(2 * share / plan.private_roots)
        return ApprNoise(
            choice=math.sqrt(2 * share / choices),
            values=values,
            multiplier=multiplier or _multiplier(plan, math.sqrt(rho)),
        )
    mu, std = gdp_mu(inner, plan.inner_delta) / _UP, None
    if plan.kind == "gaussian":
        mu /= math.sqrt(2)
        std = math.sqrt(2 * plan.private_roots) * plan.row_clip / mu
    if plan.root_rate is None:
        return ApprNoise(std, multiplier=multiplier or _multiplier(plan, mu))
    if multiplier is None:
        multiplier = scale_noise(
            inner / _UP,
            plan.inner_delta,
            lambda scale: releases(plan, ApprNoise(std, multiplier=scale)),
        )
    return ApprNoise(std, multiplier=multiplier)


def _rho(epsilon: float, delta: float) -> float:
    """Return the largest ρ whose zCDP implies ε at delta, by both conversions."""

    def excess(log_rho: float) -> float:
        rho = math.exp(log_rho)
        return max(zcdp_epsilon(rho, delta), zcdp_epsilon_library(rho, delta)) - epsilon

    # dp-accounting's grid of orders is coarse: stay below it
    return math.exp(brentq(excess, -25, math.log(epsilon + 1), xtol=1e-9)) * (1 - 1e-7)


def _multiplier(plan: ReleasePlan, mu: float) -> float:
    moved, count = _training(plan)
    return moved * math.sqrt(count) / mu / (plan.batch if plan.per_batch else 1)


def _training(plan: ReleasePlan) -> tuple[float, int]:
    """Return how far a replaced node changes an epoch's batches, in units of C, and how often.

    At most t = R + 1 clipped gradients change, k of them in a batch: 2k, with k <= min(t, B) and Σk
    = t over the batches that visit each target once, so that Σ(2k)² <= 4t·min(t, B); twice that if
    batches overlap. If all of a batch may change the sensitivity is 2B, in every step.
    """
    if plan.per_batch:
        return 2.0 * plan.batch, plan.steps
    terms = plan.n_roots if plan.others is None else min(plan.others + 1, plan.n_roots)
    return 2 * math.sqrt(terms * min(terms, plan.batch)), plan.epochs * (1 + plan.overlaps)


_WORDS = {"unit": "node", "relation": "replace"}


def events(plan: ReleasePlan, noise: ApprNoise, shared: str = "") -> tuple[Event, ...]:
    """Return the events of a run, with the sensitivity to one replaced node.

    ``shared`` names the sample if other runs also read it.
    """
    queries = releases(plan, noise)
    return queries if plan.rate == 1 else (SecretSample(queries, plan.rate, shared),)


def releases(plan: ReleasePlan, noise: ApprNoise) -> tuple[Query, ...]:
    """Return the releases about the sampled nodes."""
    queries: list[Query] = []
    rows, top = plan.private_roots, plan.top
    if noise.row_std is not None:
        queries.append(
            GaussianQuery(
                count=1,
                sensitivity=math.sqrt(2 * rows) * plan.row_clip,
                noise_std=noise.row_std,
                dimension=rows * plan.n_sampled,
                reason=f"one node may move each of {rows} rows, which have no negative entry and "
                f"norm {plan.row_clip:g} at most: each by sqrt 2 times that",
                clipping="row",
                **_WORDS,
            )
        )
    if noise.choice is not None:
        queries.append(
            ExponentialChoice(
                count=rows * top,
                calls=1,
                sensitivity=plan.entry_clip,
                scale=plan.entry_clip / noise.choice,
                reason=f"one node may move all entries of each of {rows} rows, clipped to "
                f"{plan.entry_clip:g}, in either direction; {top} are chosen one after the other",
                clipping="entry",
                **_WORDS,
            )
        )
    if noise.values is not None:
        queries.append(
            LaplaceQuery(
                count=rows,
                calls=1,
                sensitivity=top * plan.entry_clip,
                scale=top * plan.entry_clip / noise.values,
                dimension=top,
                reason=f"each of the {top} chosen entries of a row lies between 0 and "
                f"{plan.entry_clip:g}",
                clipping="entry",
                **_WORDS,
            )
        )
    return (*queries, _steps(plan, noise))


def _steps(plan: ReleasePlan, noise: ApprNoise) -> GaussianQuery | PoissonSums:
    words = {"reason": _training_reason(plan), "clipping": "per_record", **_WORDS}
    if plan.root_rate is not None:
        return PoissonSums(
            count=plan.steps,
            noise_multiplier=noise.multiplier,
            clip_norm=plan.clip_norm,
            rate=plan.root_rate,
            terms=min(plan.others + 1, plan.n_roots),
            **words,
        )
    moved, count = _training(plan)
    unit = plan.clip_norm * (plan.batch if plan.per_batch else 1)
    return GaussianQuery(
        count=count,
        calls=plan.steps,
        sensitivity=moved * plan.clip_norm,
        noise_std=noise.multiplier * unit,
        **words,
    )


def _training_reason(plan: ReleasePlan) -> str:
    if plan.others is None:
        return (
            "nothing bounds in how many rows a node stands: it may move the clipped gradients of "
            "all roots, batch by batch"
        )
    if not plan.others:
        return "a root reads its own node alone, and moves its own clipped gradient"
    return (
        f"given the rows, which are released, a node changes its own root and the {plan.others} "
        "others at most that hold it: so many clipped gradients"
    )
