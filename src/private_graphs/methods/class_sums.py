"""One Gaussian release of class sums, and a linear classifier computed from it.

Each training node adds one matrix z (e_y - 1/K)^T to a sum S, with a row z of norm at most 1 that
is a function of its own text (under ``graph``: and of its own edges to public nodes), rounded to a
public lattice. S plus discrete Gaussian noise is the only release about training nodes. Everything
that determines z is public (:mod:`private_graphs.methods.public_text`) or a rule of n, K and the
budget. The noisy sum yields the posterior mean of a linear model under the known noise, and under
``graph`` scores that are averaged over public neighbours: post-processing, chosen among on public
validation labels. docs/privacy.md §0.1 and §0.6 give the privacy cost; :func:`sensitivity` proves
the sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse

from private_graphs.errors import UserError
from private_graphs.mechanisms.door import Door
from private_graphs.methods.choice import CONSTANTS, choice_of, choose
from private_graphs.methods.lattice import NOISE_GENERATOR, LatticeGaussian
from private_graphs.methods.method import Canary, Context, Method, Outcome, Request, in_batches
from private_graphs.methods.public_text import PublicText
from private_graphs.privacy.calibration import gdp_noise
from private_graphs.privacy.events import GaussianQuery
from private_graphs.tasks import UNIT_ROWS, GraphTask, Records

PRIOR_VARIANCES = (0.1, 0.03, 0.3)
"""Candidate prior variances of the weights, from the most to the least likely."""
PROPAGATIONS = (2, 0, 10)
"""Candidate numbers of averaging steps over public neighbours, under ``graph``."""
RESTART = 0.2
"""Weight of the initial scores in every averaging step (Gasteiger et al. 2019, personalised
propagation)."""
_BLOCK = 4096
_BATCH = 10
_SCORES = 2_000_000
_REASON = (
    "a node moves one term z(e_y - 1/K)^T; z = (sqrt(1-b^2) u, b) with |u| <= 1 and "
    "b^2 >= (K-2)/(2(K-1)): two terms of one class differ by at most 2 sqrt((1-1/K)(1-b^2)) <= "
    "sqrt 2, of two classes by at most sqrt 2"
)


def class_codes(n_classes: int) -> np.ndarray:
    """Return (K, K): row y is e_y - 1/K, of norm sqrt(1 - 1/K)."""
    return np.eye(n_classes) - 1.0 / n_classes


def bias_square(n_classes: int) -> float:
    """Return b², the share of the constant coordinate in the squared norm of a row.

    (K-2)/(2(K-1)) is the least with which the sensitivity is sqrt 2 instead of
    2 sqrt(1 - 1/K): what the constant takes from the text it gives back in noise, and it counts
    the classes for free. At least 1/10, for two classes.
    """
    return max(0.1, (n_classes - 2) / (2 * (n_classes - 1)))


def sensitivity(n_classes: int) -> float:
    """Return the L2 sensitivity of the sum when one node is replaced: sqrt 2, attained.

    Terms z c_y with c_y = e_y - 1/K and z = (sqrt(1-b²) u, b), |u| <= 1, so |z| <= 1 and
    z·z' >= 2b² - 1. Same class: |z - z'|² |c_y|² <= 4 (1-b²)(1 - 1/K) <= 2 by the choice of b².
    Classes y ≠ y': (1 - 1/K)(|z|² + |z'|²) + (2/K) z·z' <= 2, attained by equal rows of norm 1.
    No label: the term is zero, at distance at most sqrt(1 - 1/K).
    """
    same = 2 * math.sqrt((1 - 1 / n_classes) * (1 - bias_square(n_classes)))
    return max(math.sqrt(2.0), same)


def with_constant(unit: np.ndarray, n_classes: int) -> np.ndarray:
    """Return (rows, r + 1): (sqrt(1-b²) u, b) for rows u of norm at most 1."""
    share = bias_square(n_classes)
    constant = np.full((len(unit), 1), math.sqrt(share))
    return np.hstack([math.sqrt(1 - share) * unit, constant])


def fixed_rank(task: GraphTask, epsilon: float, available: int) -> int:
    """Return the number of released axes: n μ / (2K), at least K, at most those available.

    The rule is the largest rank whose axes hold more signal than noise if rows were spread evenly:
    a class then has n/K rows with 1/r of their squared norm on each axis.
    """
    if math.isinf(epsilon):
        return available
    mu = 1.0 / gdp_noise(epsilon, 1, task.delta, "add_remove")
    wanted = round(task.n_units * mu / (2 * task.n_classes))
    return min(available, max(task.n_classes, wanted))


def calibrated(task: GraphTask, epsilon: float, rank: int) -> LatticeGaussian:
    """Return the noise of one release of the (rank + 1, K) sum at ``epsilon``."""
    size = (rank + 1) * task.n_classes
    return LatticeGaussian.calibrate(
        epsilon,
        task.delta,
        sensitivity(task.n_classes),
        dimension=size,
        entries=size,
        contributions=2,
    )


@dataclass(frozen=True, eq=False)
class SumQuery:
    """Query of the training nodes, all of it public: the sum of their rounded terms."""

    text: PublicText
    rank: int
    n_classes: int
    lattice: LatticeGaussian
    ROUNDS: ClassVar[int] = 1
    READS: ClassVar[str] = "documents"

    def zeros(self) -> np.ndarray:
        """Return the (rank + 1, K) sum of no nodes."""
        return np.zeros((self.rank + 1, self.n_classes), np.int64)

    def add(self, total: np.ndarray, some: Records) -> None:
        """Add the terms of some training nodes to ``total``, in spacings.

        A node's term z c_y has two kinds of entries, z_j (1 - 1/K) in the column of its class and
        -z_j/K in the others; both are rounded before they are added.
        """
        texts = self.text.axes.unit(self.text.training_rows(some, slice(None)), self.rank)
        rows = with_constant(texts, self.n_classes)
        elsewhere = self.lattice.rounded(rows / -self.n_classes)
        more = self.lattice.rounded(rows * (1 - 1 / self.n_classes)) - elsewhere
        total += elsewhere.sum(axis=0)[:, None]
        for label in range(self.n_classes):
            total[:, label] += more[some.train_labels == label].sum(axis=0)


def class_sums(
    task: GraphTask, text: PublicText, rank: int, lattice: LatticeGaussian
) -> np.ndarray:
    """Return the (rank + 1, K) int64 sum of training nodes' rounded terms, in spacings.

    It is never released without noise.
    """
    lattice.check_total(task.n_units)
    query = SumQuery(text.for_training(), rank, task.n_classes, lattice)
    if task.shards is not None:
        return task.shards.total(query)
    total = query.zeros()
    for start in range(0, task.n_train, _BLOCK):
        query.add(total, task.training(slice(start, start + _BLOCK)))
    return total


def posterior_weights(
    sums: np.ndarray,
    second_moment: np.ndarray,
    noise_variance: float,
    prior_variance: float,
    code_variance: float,
) -> np.ndarray:
    """Return the posterior mean of linear weights W given noisy sums S, both (r + 1, columns).

    Model: codes Y = Z W + E, S = Zᵀ Y + noise, Zᵀ Z = G (``second_moment``, scaled from public
    rows), so S = G W + N(0, v G + s² I) with v = ``code_variance``; W has prior variance
    ``prior_variance``, in its last row (the constant) 1. With prior T the mean is
    T G (G T G + v G + s² I)⁻¹ S: axes with more noise than signal are shrunk.
    """
    prior = np.full(len(second_moment), prior_variance)
    prior[-1] = 1.0
    spread = (second_moment * prior) @ second_moment + code_variance * second_moment
    jitter = 1e-9 * np.trace(spread) / len(spread)
    spread[np.diag_indices_from(spread)] += noise_variance + jitter
    solved = scipy.linalg.solve(spread, sums, assume_a="pos")
    return prior[:, None] * (second_moment @ solved)


def propagated(
    scores: np.ndarray,
    smoothing: scipy.sparse.csr_matrix,
    steps: int,
    current: np.ndarray | None = None,
) -> np.ndarray:
    """Return scores (P, columns) after ``steps`` of (1-RESTART) averaging + RESTART · scores.

    ``current``: the result of earlier steps on ``scores``, to which ``steps`` more are applied.
    """
    current = scores if current is None else current
    restart = RESTART * scores if steps else scores
    for _ in range(steps):
        current = smoothing @ current
        current *= 1 - RESTART
        current += restart
    return current


@dataclass(frozen=True, eq=False)
class Candidate:
    """Scores of validation and test nodes under one choice of settings, for several requests."""

    prior_variance: float
    propagation: int
    scores: np.ndarray
    """(requests, V + M, K)"""


@dataclass(frozen=True, eq=False)
class Released:
    """Noisy sums of several requests at one ε, and results computed from them."""

    rank: int
    candidates: list[Candidate]


@dataclass(frozen=True, eq=False)
class Ranked:
    """Data shared by all requests at one ε, hence at one rank."""

    lattice: LatticeGaussian
    sums: np.ndarray
    """(rank + 1, K) int64 sums without noise: private."""
    rows: np.ndarray
    """(V + M, rank + 1) rows of validation and test nodes."""
    second_moment: np.ndarray
    """(rank + 1, rank + 1) second moments of the public rows, scaled to n."""
    code_variance: float
    """Variance of an entry of the codes, (1-1/K)/K, times 1 + n/P: the second moment of P public
    rows deviates from that of n training rows by about as much as n/P as much noise in the codes
    would."""

    @classmethod
    def of(cls, task: GraphTask, text: PublicText, epsilon: float) -> Ranked:
        """Compute the shared data at ``epsilon``, which determines the rank."""
        n_classes, rank = task.n_classes, fixed_rank(task, epsilon, text.axes.rank)
        rows = with_constant(text.axes.unit(text.evaluated_rows(task), rank), n_classes)
        public = rows[: text.public.shape[0]]
        scale = task.n_units / len(public)
        moment = public.T @ public * scale
        variance = (1 - 1 / n_classes) / n_classes * (1 + scale)
        lattice = calibrated(task, epsilon, rank)
        return cls(lattice, class_sums(task, text, rank, lattice), rows, moment, variance)


def noisy_sums(task: GraphTask, shared: Ranked, door: Door) -> np.ndarray:
    """Return (R, rank + 1, K): one release per replica, and nothing else is ever released."""
    query = _query(task, shared.lattice)
    queries = [query] * len(door.lanes)
    door.plan([(each,) if each else () for each in queries])
    exact = np.broadcast_to(shared.sums, (len(queries), *shared.sums.shape))
    return door.gaussian(exact, queries, stream="class_sums")


def release(task: GraphTask, text: PublicText, shared: Ranked, door: Door) -> Released:
    """Release the sums once per replica, all at one ε, and score nodes."""
    noisy = np.hstack(list(noisy_sums(task, shared, door)))
    candidates = []
    for prior in PRIOR_VARIANCES:
        weights = posterior_weights(
            noisy, shared.second_moment, shared.lattice.noise_std**2, prior, shared.code_variance
        )
        for steps in PROPAGATIONS if text.smoothing is not None else (0,):
            scores = shared.rows @ weights
            if text.smoothing is not None:
                scores = propagated(scores, text.smoothing, steps)
            cut = scores.reshape(len(scores), len(door.lanes), task.n_classes)
            candidates.append(Candidate(prior, steps, cut.transpose(1, 0, 2)))
    return Released(len(shared.sums) - 1, candidates)


Finish = Callable[[Request, Released, int, Outcome], Outcome]
"""Callable: (request, release, row of the request in it, outcome) → outcome."""


def run(
    task: GraphTask,
    requests: Sequence[Request],
    door: Door,
    context: Context,
    *,
    neighbours: bool,
    finish: Finish = lambda request, released, row, outcome: outcome,
) -> list[Outcome]:
    """Answer every request, in order; UserError for fewer than two classes.

    ``neighbours``, under ``graph``: rows also contain the texts of a training node's public
    neighbours.
    """
    if task.n_classes < 2:
        raise UserError(f"class sums of {task.n_classes} class; expected at least two classes")
    text = PublicText.of(task, hops=int(neighbours))

    def answer(alike: list[Request], door: Door, context: Context) -> list[Outcome]:
        shared, outcomes = Ranked.of(task, text, alike[0].epsilon), []
        size = max(1, min(_BATCH, _SCORES // (len(shared.rows) * task.n_classes)))
        for start in range(0, len(alike), size):  # few at a time, to bound memory
            places = range(len(alike))[start : start + size]
            released = release(task, text, shared, door.of_lanes(places))
            for row, place in enumerate(places):
                request, own = alike[place], door.of_lanes([place])
                outcome = choose_outcome(task, text, request, released, row, own)
                outcomes.append(finish(request, released, row, outcome))
            context.report(len(outcomes), len(alike))
        return outcomes

    return in_batches(requests, door, context, lambda request: request.epsilon, answer)


def choose_outcome(
    task: GraphTask, text: PublicText, request: Request, released: Released, row: int, door: Door
) -> Outcome:
    """Choose among the candidates of the ``row``-th request of one release; ``door`` is its own."""
    predictions = np.stack([c.scores[row].argmax(axis=1) for c in released.candidates])
    index = choose(task, request, predictions[:, : len(task.validation_labels)], door)
    best = released.candidates[index]
    settings = {
        "rank": released.rank,
        "prior_variance": best.prior_variance,
        "propagation": best.propagation,
        "neighbours_in_rows": text.hops > 0,
    }
    return Outcome.of(
        task, predictions[index], settings=settings, n_configurations=len(predictions)
    )


def stated(task: GraphTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    """See ``Method.stated``; ``chosen`` has the rank."""
    query = _query(task, calibrated(task, request.epsilon, chosen["rank"]))
    events, words = choice_of(task, request)
    return {
        "events": (query,) if query else (),
        "validation_events": events,
        "chosen_by": words,
        "noise_generator": NOISE_GENERATOR,
    }


def _query(task: GraphTask, lattice: LatticeGaussian) -> GaussianQuery | None:
    return lattice.query(
        unit=task.scenario.unit, relation=task.scenario.relation, reason=_REASON, clipping="row"
    )


def _method(
    name: str, title: str, scenarios: tuple[str, ...], neighbours: bool, summary: str
) -> Method:
    return Method(
        name,
        title,
        partial(run, neighbours=neighbours),
        scenarios,
        query=SumQuery,
        stated=stated,
        prepares=UNIT_ROWS,
        assumptions=(CONSTANTS,),
        canary=Canary(words=2, units=3),
        summary=summary,
    )


METHODS = (
    _method(
        "class_sums",
        "class sums",
        ("text", "graph"),
        True,
        "Noisy class averages: one Gaussian release, and a linear classifier computed from it.",
    ),
    _method(
        "class_sums_text",
        "class sums, no edges",
        ("graph",),
        False,
        "Noisy class averages of texts alone, without the neighbours’ texts.",
    ),
)
