"""Class sums by one rule: rows from public data, noisy sums of training nodes, a linear model.

A training node has a row z of norm at most 1, a function of its own text, under ``graph`` of its
own edges to public nodes too, and of public data (``public_rows``). Released are the noisy sum of
z (e_y - 1/K)^T and, where the signal n·μ/K is at least 1,000, four noisy sums of clipped softmax
residuals, each at weights computed from what was released before. Everything else is
post-processing: the posterior mean of a linear model under the known noise, with the known public
labels as observations without noise; under ``graph`` an average over public neighbours; with at
least 30 known labels per class, a sum with the scores of public data alone. No setting is chosen by
a comparison. docs/privacy.md ("Class sums by one rule") has the proof and the constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse

from private_graphs.core.errors import UserError
from private_graphs.mechanisms.door import Door
from private_graphs.methods.exact_sums import (
    CLIP_NORM,
    RESIDUAL_BITS,
    ROW_BITS,
    bounded,
    clipped_residuals,
    on_grid,
    to_lattice,
)
from private_graphs.methods.fusion import fit_weights
from private_graphs.methods.lattice import NOISE_GENERATOR, LatticeGaussian
from private_graphs.methods.public_only import PublicFit, folds, public_fits
from private_graphs.methods.public_rows import (
    RowMap,
    averages_texts,
    bias_square,
    class_codes,
    smoother,
    spectral_coordinates,
    with_constant,
)
from private_graphs.methods.public_text import MAX_RANK, PublicText, propagated
from private_graphs.privacy.calibration import gdp_noise
from private_graphs.privacy.queries import GaussianQuery
from private_graphs.tasks.graph_task import UNIT_ROWS, GraphTask, Records
from private_graphs.tasks.method import Canary, Context, Method, Outcome, Request, in_batches

MANY = 1000.0
"""Signal n·μ/K from which residual steps follow the class sum."""
STEPS = 4
FIRST_SHARE = 0.3
"""Share of the class sum in μ² if steps follow."""
PRIOR_VARIANCE = 0.1
START = 4.0
"""Factor from the posterior mean, fitted to codes, to the logits at which steps start."""
RIDGE, MOMENT_RIDGE = 0.1, 1e-3
PROPAGATION = 2
"""Averaging steps over public neighbours, under ``graph``."""
PER_CLASS = 30
"""Known labels per class from which scores of public data alone are added."""
CONSTANTS = (
    "the constants of the method were set by its authors with experiments on Cora, PubMed, "
    "Facebook Cornell5 and synthetic graphs; on these graphs that choice is not priced"
)
_BLOCK = 4096
"""Rows whose products are summed in float64: integers below 2^53, hence exact in any order."""
_KEPT = 50_000_000
"""Numbers in the rows of training nodes up to which they are computed once."""
BATCH = 10
_SUM_REASON = (
    "a node moves one term z(e_y - 1/K)^T; z = (sqrt(1-b^2) u, b) with |u| <= 1 and "
    "b^2 >= (K-2)/(2(K-1)): two terms of one class differ by at most 2 sqrt((1-1/K)(1-b^2)) <= "
    "sqrt 2, of two classes by at most sqrt 2"
)
_STEP_REASON = (
    "a node moves one term, its softmax residual times its row, of norm at most C before and after"
)


def sensitivity(n_classes: int) -> float:
    """Return the L2 sensitivity of the class sum when one node is replaced: sqrt 2, attained.

    Terms z c_y with c_y = e_y - 1/K and z = (sqrt(1-b²) u, b), |u| <= 1, so |z| <= 1 and
    z·z' >= 2b² - 1. Same class: |z - z'|² |c_y|² <= 4 (1-b²)(1 - 1/K) <= 2 by the choice of b².
    Classes y ≠ y': (1 - 1/K)(|z|² + |z'|²) + (2/K) z·z' <= 2, attained by equal rows of norm 1.
    No label: the term is zero, at distance at most sqrt(1 - 1/K).
    """
    same = 2 * math.sqrt((1 - 1 / n_classes) * (1 - bias_square(n_classes)))
    return max(math.sqrt(2.0), same)


def signal(task: GraphTask, epsilon: float) -> float:
    """Return n·μ/K, the mean size of a class times the inverse noise; infinite without DP."""
    if math.isinf(epsilon):
        return math.inf
    return task.n_units / gdp_noise(epsilon, 1, task.delta, "add_remove") / task.n_classes


def fixed_rank(task: GraphTask, epsilon: float) -> int:
    """Return the number of axes of each kind, before it is cut to those there are.

    Half the signal, at least K: the largest rank whose axes hold more signal than noise if rows
    were spread evenly, as a class then has n/K rows with 1/r of their squared norm on each axis.
    """
    half = min(float(MAX_RANK), signal(task, epsilon) / 2)
    return max(task.n_classes, round(half))


def n_steps(task: GraphTask, epsilon: float) -> int:
    """Return the number of residual steps.

    None for shards, which are read once, nor without DP: without noise their ridge would vanish.
    """
    private = math.isfinite(epsilon) and task.shards is None
    return STEPS if private and signal(task, epsilon) >= MANY else 0


def lattices(
    task: GraphTask, epsilon: float, steps: int
) -> tuple[LatticeGaussian, LatticeGaussian | None]:
    """Return the noise of the class sum and of each step's sum; None without steps.

    Together they keep ε: the class sum has FIRST_SHARE of μ², the steps equal parts of the rest.
    The lattice is fine enough for as many columns as the rule allows; if public data have fewer
    axes, the noise, and so the statement, is the same.
    """
    kinds = 2 if task.scenario.name == "graph" else 1
    size = (kinds * fixed_rank(task, epsilon) + 1) * task.n_classes
    sizes = {"dimension": size, "entries": size, "contributions": 2, "releases": 1 + steps}
    if not steps:
        sums = LatticeGaussian.calibrate(epsilon, task.delta, sensitivity(task.n_classes), **sizes)
        return sums, None
    first, rest = (
        LatticeGaussian.calibrate(epsilon, task.delta, moved, share=share, **sizes)
        for moved, share in (
            (sensitivity(task.n_classes), FIRST_SHARE),
            (2 * CLIP_NORM, (1 - FIRST_SHARE) / steps),
        )
    )
    return first, rest


# --- exact sums over training nodes --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SumQuery:
    """Query of the training nodes, all of it public: the sum of their rows by class."""

    rows: RowMap
    n_classes: int
    ROUNDS: ClassVar[int] = 1
    READS: ClassVar[str] = "documents"

    def zeros(self) -> np.ndarray:
        """Return the (size + 1, K) sum of no nodes."""
        return np.zeros((self.rows.size + 1, self.n_classes), np.int64)

    def add(self, total: np.ndarray, records: Records) -> None:
        """Add the rows of some nodes, in units of 2^-20, to the columns of their classes."""
        rows = grid_rows(self.rows, records, self.n_classes)
        total += (rows.T @ np.eye(self.n_classes)[records.train_labels]).astype(np.int64)


def grid_rows(rows: RowMap, records: Records, n_classes: int) -> np.ndarray:
    """Return (nodes, size + 1) rows with their constant, whole numbers in units of 2^-20."""
    return on_grid(with_constant(rows.training(records), n_classes), ROW_BITS)


def class_sums(task: GraphTask, rows: RowMap, lattice: LatticeGaussian) -> np.ndarray:
    """Return the (size + 1, K) int64 sum of the terms z (e_y - 1/K)^T, in spacings.

    It is never released without noise.
    """
    lattice.check_total(task.n_units * task.n_classes)
    query = SumQuery(rows.for_training(), task.n_classes)
    if task.shards is not None:
        total = task.shards.total(query)
    else:
        total = query.zeros()
        for start in range(0, task.n_train, _BLOCK):
            query.add(total, task.training(slice(start, start + _BLOCK)))
    return centred_sums(total, lattice)


def centred_sums(total: np.ndarray, lattice: LatticeGaussian) -> np.ndarray:
    """Return (..., m, K) sums of rows by class as sums of z (e_y - 1/K)^T, in spacings."""
    n_classes = total.shape[-1]
    centred = n_classes * total - total.sum(axis=-1, keepdims=True)
    return to_lattice(centred, n_classes, ROW_BITS, lattice)


def member_sums(
    grid: np.ndarray, labels: np.ndarray, members: np.ndarray, lattice: LatticeGaussian, k: int
) -> np.ndarray:
    """Return the (R, m, K) sums of :func:`class_sums` over the ``members`` (R, n) of each run.

    ``grid`` (n, m) are the ``grid_rows`` of the nodes, whose products are exact in any order.
    """
    lattice.check_total(len(labels) * k)
    total = np.stack([(members * (labels == y)) @ grid for y in range(k)], axis=-1)
    return centred_sums(total.astype(np.int64), lattice)


@dataclass(frozen=True, eq=False)
class Residuals:
    """Exact sums of clipped residuals of the training nodes, at given weights."""

    task: GraphTask
    rows: RowMap
    lattice: LatticeGaussian

    @cached_property
    def _kept(self) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(z.astype(np.float32), norms) for z, norms in self._computed()]

    def _computed(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, self.task.n_train, _BLOCK):
            records = self.task.training(slice(start, start + _BLOCK))
            z = grid_rows(self.rows, records, self.task.n_classes)
            yield z, np.linalg.norm(z, axis=1) / 2.0**ROW_BITS

    def at(self, weights: np.ndarray) -> np.ndarray:
        """Return (R, m, K) int64 sums of the terms at weights (R, m, K), in spacings.

        A node's term depends on no other row, to the bit: rows and weights are whole numbers whose
        products and sums are exact in float64.
        """
        n_sets, columns, n_classes = weights.shape
        weights = bounded(weights)
        # each set has its own grid: one for all would tell one replica of another one's release
        longest = np.maximum(1.0, np.linalg.norm(weights, axis=1).max(axis=1))  # (R,)
        grids = 2.0 ** (53 - ROW_BITS - 1 - np.ceil(np.log2(longest)))[:, None, None]
        joined = np.rint(weights * grids).transpose(1, 0, 2).reshape(columns, -1)
        total, start = np.zeros(joined.shape, np.int64), 0
        small = self.task.n_train * columns <= _KEPT
        for z, norms in self._kept if small else self._computed():
            z = z.astype(np.float64)
            logits = (z @ joined * 2.0**-ROW_BITS).reshape(len(z), n_sets, n_classes)
            logits /= grids[None, :, 0]
            labels = self.task.train_labels[start : start + len(z)]
            terms = clipped_residuals(logits, labels, norms)
            total += (z.T @ on_grid(terms, RESIDUAL_BITS).reshape(len(z), -1)).astype(np.int64)
            start += len(z)
        sums = to_lattice(total, 1, ROW_BITS + RESIDUAL_BITS, self.lattice)
        return sums.reshape(columns, n_sets, n_classes).transpose(1, 0, 2)


# --- what follows from the releases --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior of linear weights W given noisy sums S, for one moment, noise and prior.

    Model: codes Y = Z W + E, S = Zᵀ Y + noise, Zᵀ Z = G (``second_moment``, scaled from public
    rows), so S = G W + N(0, N) with N = v G + s² I; W has prior variance T, 1 for the constant.
    """

    factor: np.ndarray
    """(m, m) lower Cholesky factor of the precision T⁻¹ + G N⁻¹ G."""
    gain: np.ndarray
    """(m, m) N⁻¹ G."""
    noise: float
    """v0: variance of a code about its mean, the noise of a known label."""

    @classmethod
    def of(
        cls, second_moment: np.ndarray, noise_variance: float, scale: float, n_classes: int
    ) -> Posterior:
        """Return the posterior; ``scale`` is n/P.

        v is v0 (1 + n/P): the second moment of P public rows deviates from that of n training rows
        by about as much as n/P as much noise in the codes would.
        """
        v0 = (1 - 1 / n_classes) / n_classes
        prior = np.full(len(second_moment), PRIOR_VARIANCE)
        prior[-1] = 1.0
        spread = v0 * (1 + scale) * second_moment
        jitter = 1e-9 * np.trace(spread) / len(spread)
        spread[np.diag_indices_from(spread)] += noise_variance + jitter
        gain = scipy.linalg.solve(spread, second_moment, assume_a="pos")
        precision = second_moment @ gain
        precision = (precision + precision.T) / 2 + np.diag(1 / prior)
        return cls(scipy.linalg.cholesky(precision, lower=True), gain, v0)

    def mean(self, sums: np.ndarray) -> np.ndarray:
        """Return the posterior mean (m, columns) given ``sums`` (m, columns)."""
        rhs = np.nan_to_num(self.gain.T @ sums)
        return scipy.linalg.cho_solve((self.factor, True), rhs)


@dataclass(frozen=True, eq=False)
class KnownLabels:
    """Known public labels of some nodes as observations of the released linear model.

    Weights W become W + B (κ Yᵀ Y + ν I)⁻¹ (residuals of the known labels at W).
    """

    known: np.ndarray
    back: np.ndarray
    """(m, k) B."""
    factor: np.ndarray
    """(k, k) lower Cholesky factor."""

    @classmethod
    def of(cls, rows: np.ndarray, known: np.ndarray, posterior: Posterior | None) -> KnownLabels:
        """Return the update; without a ``posterior`` it is a ridge about iterated weights."""
        design = rows[known].T
        if posterior is None:
            back, scale, noise = design, 0.5, 0.02 * len(known) + 10.0
        else:
            design = scipy.linalg.solve_triangular(posterior.factor, design, lower=True)
            back = scipy.linalg.solve_triangular(posterior.factor, design, lower=True, trans="T")
            scale, noise = 1.0, posterior.noise
        inner = scale * (design.T @ design) + noise * np.eye(len(known))
        return cls(known, back, scipy.linalg.cholesky(inner, lower=True))

    def change(self, residuals: np.ndarray) -> np.ndarray:
        """Return the (m, K) change of weights for (V, K) residuals of all validation labels."""
        return self.back @ scipy.linalg.cho_solve((self.factor, True), residuals[self.known])


@dataclass(eq=False)
class Public:
    """Public side of a task: maps, coordinates, spreading, and fits on known labels."""

    task: GraphTask

    def __post_init__(self) -> None:
        self.text = PublicText.of(self.task, int(averages_texts(self.task)))

    @cached_property
    def fits(self) -> Callable[[np.ndarray], PublicFit]:
        """Function from known labels to a classifier of public data alone."""
        return public_fits(self.task, self.coordinates)

    @cached_property
    def coordinates(self) -> np.ndarray | None:
        """Coordinates in the public graph; None under ``text``."""
        if self.task.public_adjacency is None:
            return None
        return spectral_coordinates(self.task.public_adjacency)

    @cached_property
    def near(self) -> scipy.sparse.csr_matrix:
        """Means over links and similar texts."""
        return smoother(self.task, self.text)

    def spread(self, scores: np.ndarray, steps: int) -> np.ndarray:
        """Average (V + M, columns) scores over public nodes, under ``graph``."""
        if self.text.smoothing is None:
            return scores
        return propagated(scores, self.text.smoothing if steps else self.near, PROPAGATION)


class Released:
    """Releases of several requests at one ε, and scores computed from them."""

    sums: np.ndarray
    """(m, K) int64 sum of the training nodes; for an attack (R, m, K), of those of each request."""
    asked: np.ndarray | None = None
    """(A, m) rows of the records whose logits an attack asks for."""

    def __init__(self, public: Public, epsilon: float) -> None:
        task = public.task
        self.public, self.task = public, task
        self.rows = RowMap.of(task, public.text, public.coordinates, fixed_rank(task, epsilon))
        self.steps = n_steps(task, epsilon)
        self.first, self.step = lattices(task, epsilon, self.steps)
        self.evaluated = with_constant(self.rows.evaluated(task), task.n_classes)
        side = self.evaluated[: public.text.public.shape[0]]
        scale = task.n_units / len(side)
        self.moment = side.T @ side * scale
        self.posterior = Posterior.of(self.moment, self.first.noise_std**2, scale, task.n_classes)
        self._updates: dict[bytes, KnownLabels] = {}
        self.sums = class_sums(task, self.rows, self.first)
        if self.steps:
            self.residuals = Residuals(task, self.rows, self.step)

    def weights(self, door: Door) -> np.ndarray:
        """Release the sums once per replica of ``door``; return the (R, m, K) weights."""
        plan = queries(self.task, self.first, self.step, self.steps)
        door.plan([plan] * len(door.lanes))
        first, step = plan if self.steps and plan else (plan[0] if plan else None, None)
        exact = np.broadcast_to(self.sums, (len(door.lanes), *self.sums.shape[-2:]))
        noisy = door.gaussian(exact, [first] * len(door.lanes), stream="class_sums")
        current = np.stack([self.posterior.mean(release) for release in noisy])
        door.public("weights", current)
        if not self.steps:
            return current
        current, total = START * current, 0.0
        inverse, count = self._preconditioner(), 0
        for turn in range(self.steps):
            sums = self.residuals.at(current)
            noisy = door.gaussian(sums, [step] * len(door.lanes), stream="residuals")
            current = np.nan_to_num(current + inverse @ noisy)
            door.public("weights", current)
            if turn >= self.steps // 2:
                total, count = total + current, count + 1
        return total / count

    def _preconditioner(self) -> np.ndarray:
        """Return (m, m): the inverse of a bound on the curvature, with the noise as its ridge."""
        n_classes, size = self.task.n_classes, len(self.moment)
        ridge = self.step.noise_std * math.sqrt(size) + MOMENT_RIDGE * self.task.n_units / size
        curve = 2 * (1 - 1 / n_classes) / n_classes * self.moment
        return np.linalg.inv(curve + RIDGE * ridge * np.eye(size))

    def answer(self, requests: Sequence[Request], door: Door) -> list[Outcome]:
        """Release once per request and predict."""
        weights, n_classes = self.weights(door), self.task.n_classes
        labels = self.task.validation_labels
        changed = []
        for request, coef in zip(requests, weights, strict=True):
            rest = [part for _, part in folds(request.known)] if self._adds(request) else []
            residuals = self._residuals(coef) if len(request.known) else None
            sets = [request.known, *rest]
            changed += [coef, *(coef + self._update(part).change(residuals) if len(part) else coef
                               for part in sets)]  # fmt: skip
        joined = np.hstack(changed)
        spread = self.public.spread(self._centred(self.evaluated @ joined), self.steps)
        scores = iter(spread.reshape(len(spread), -1, n_classes).transpose(1, 0, 2))
        outcomes = []
        for request, coef in zip(requests, weights, strict=True):
            base, final, weight = next(scores), next(scores), 0.0
            if self._adds(request):
                fit = self.public.fits(request.known)
                held = np.zeros((len(request.known), n_classes))
                for places, _ in folds(request.known):
                    held[places] = levelled(next(scores), len(labels))[request.known[places]]
                final, weight = added(final, held, fit, labels)
            outcome = self._outcome(base, final, weight)
            if self.asked is not None:
                outcome = replace(outcome, logits=self.asked @ coef)
            outcomes.append(outcome)
        return outcomes

    def _adds(self, request: Request) -> bool:
        return len(request.known) >= PER_CLASS * self.task.n_classes

    def _centred(self, scores: np.ndarray) -> np.ndarray:
        cut = scores.reshape(len(scores), -1, self.task.n_classes)
        return (cut - cut.mean(axis=2, keepdims=True)).reshape(scores.shape)

    def _residuals(self, weights: np.ndarray) -> np.ndarray:
        """Return (V, K) residuals of the validation labels; only those of known ones are read."""
        labels = self.task.validation_labels
        scores = self.evaluated[: len(labels)] @ weights
        if not self.steps:
            return class_codes(self.task.n_classes)[labels] - scores
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.eye(self.task.n_classes)[labels] - shares / shares.sum(axis=1, keepdims=True)

    def _update(self, known: np.ndarray) -> KnownLabels:
        key = known.tobytes()
        if key not in self._updates:
            posterior = None if self.steps else self.posterior
            self._updates[key] = KnownLabels.of(self.evaluated, known, posterior)
        return self._updates[key]

    def _outcome(self, base: np.ndarray, scores: np.ndarray, weight: float) -> Outcome:
        n_validation = len(self.task.validation_labels)
        return Outcome(
            test_predictions=scores[n_validation:].argmax(axis=1),
            # of the release alone: a known label does not predict itself
            validation_predictions=base[:n_validation].argmax(axis=1),
            settings={
                "rank": self.rows.size,
                "text_axes": self.rows.rank,
                "residual_steps": self.steps,
                "neighbours_in_rows": self.public.text.hops > 0,
                "weight_of_public_scores": weight,
            },
        )


def levelled(scores: np.ndarray, n_validation: int) -> np.ndarray:
    """Return the scores divided by their mean magnitude on the validation nodes."""
    return scores / max(float(np.abs(scores[:n_validation]).mean()), 1e-12)


def added(
    scores: np.ndarray, held_out: np.ndarray, fit: PublicFit, labels: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return the scores plus those of public data alone, and the weight of the latter.

    Weights minimise the log loss of the known labels under scores that were fitted without them.
    """
    n_validation = len(labels)
    public = np.abs(fit.scores[:n_validation]).mean()
    pair = np.stack([held_out, fit.held_out / max(float(public), 1e-12)])
    first, second = fit_weights(pair, labels[fit.known])
    total = first * levelled(scores, n_validation) + second * levelled(fit.scores, n_validation)
    return total, round(float(second / max(first, 1e-12)), 6)


def run(
    task: GraphTask, requests: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Answer every request, in order; UserError for fewer than two classes."""
    if task.n_classes < 2:
        raise UserError(f"class sums of {task.n_classes} class; expected at least two classes")
    public = Public(task)

    def answer(batch: list[Request], door: Door, context: Context) -> list[Outcome]:
        released, outcomes = Released(public, batch[0].epsilon), []
        for start in range(0, len(batch), BATCH):  # few at a time, to bound memory
            places = range(len(batch))[start : start + BATCH]
            outcomes += released.answer([batch[index] for index in places], door.of_lanes(places))
            context.report(len(outcomes), len(batch))
        return outcomes

    return in_batches(requests, door, context, lambda request: request.epsilon, answer)


def queries(
    task: GraphTask, first: LatticeGaussian, step: LatticeGaussian | None, steps: int
) -> tuple[GaussianQuery, ...]:
    """Return the releases of one run: the class sum and, if there are steps, their sums."""
    words = {"unit": task.scenario.unit, "relation": task.scenario.relation}
    plan = [first.query(**words, reason=_SUM_REASON, clipping="row")]
    if step is not None:
        plan.append(step.query(**words, reason=_STEP_REASON, clipping="per_record", count=steps))
    return tuple(query for query in plan if query is not None)


def stated(task: GraphTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    """See ``Method.stated``; ``chosen`` has the number of steps."""
    steps = int(chosen["residual_steps"])
    noise = lattices(task, request.epsilon, steps)
    return {"events": queries(task, *noise, steps), "noise_generator": NOISE_GENERATOR}


METHODS = (
    Method(
        "class_sums",
        "class sums",
        run,
        ("text", "graph"),
        query=SumQuery,
        stated=stated,
        fits_validation_labels=True,
        validates_without_labels=True,
        prepares=UNIT_ROWS,
        assumptions=(CONSTANTS,),
        canary=Canary(words=2, units=3),
        summary="Noisy class averages of texts and places in the public graph, and a linear "
        "classifier computed from them.",
    ),
)
