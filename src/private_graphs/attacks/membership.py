"""Membership inference at node level: which training nodes did a model learn from?

Every training node with a label takes part in a model by an independent fair coin; each model is a
target once, with the others as its shadows. A node's score is its margin; the attacker compares it
with the margins of the shadows that saw the node and of those that did not (likelihood ratio,
Carlini et al. 2022). Where a release is linear in the coins, it is decoded instead. docs/leaks.md
has the settings and what the numbers do not say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import rankdata

from private_graphs.attacks import shadow_models
from private_graphs.attacks.leaks import (
    CONFIDENCE,
    FALSE_POSITIVES,
    TINY_DELTA,
    Guarantee,
    Guesses,
    Measurement,
)
from private_graphs.attacks.views import FEATURES, PUBLISHED, TOGETHER, WHOLE
from private_graphs.core.limits import PUBLISHED_AT_ONCE
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.running.jobs import Job
from private_graphs.tasks.method import Context
from private_graphs.tasks.tasks import SCENARIOS

PER_NODE_FROM = 32
"""Shadows from which each node has its own variances; with fewer, all nodes share two."""
RESAMPLES = 100
"""Draws of models and nodes for an interval."""
NAMED, GUESSES = 100, 10
"""Fixed design of the bound: nodes that the shadows name, and guesses about each target."""
SUREST = 0.02
"""Second design: share of all nodes that is guessed at either end."""
_BINS, _TAIL = 10_000, 0.01
_PRIOR = 2.0
"""Shadows that the frequencies of all nodes count for, in those of published classes."""


# --- scores --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shadows:
    """Margins (R, n) of models whose coins (R, n) the attacker knows."""

    margins: np.ndarray
    coins: np.ndarray

    def ratios(self, margins: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Return (T, n) scores of targets by kind; without targets, each shadow by the others."""
        leave_one_out = margins is None
        shift = self.margins.mean(axis=0)
        shadows = self.margins - shift
        targets = shadows if leave_one_out else margins - shift
        moments = {}
        for side, mask in (("in", self.coins), ("out", ~self.coins)):
            weight = mask if leave_one_out else 0  # what a target adds to the sums of all
            count = mask.sum(axis=0) - weight
            total = (mask * shadows).sum(axis=0) - weight * targets
            square = (mask * shadows**2).sum(axis=0) - weight * targets**2
            moments[side] = self._normal(count, total, square)
        (at_in, spread_in), (at_out, spread_out) = moments["in"], moments["out"]
        distance = (targets - at_out) / np.sqrt(spread_out)
        return {
            "online": (
                distance**2 - (targets - at_in) ** 2 / spread_in + np.log(spread_out / spread_in)
            ) / 2,
            "offline": distance,
            "plain": targets + shift,
        }  # fmt: skip

    def _normal(
        self, count: np.ndarray, total: np.ndarray, square: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances from sums; a node without shadows gets what all have."""
        counted = np.maximum(count, 1)
        mean = np.where(count > 0, total / counted, 0.0)
        spread = np.maximum(square - counted * mean**2, 0)
        shared = spread.sum(axis=-1, keepdims=True) / np.maximum(
            np.maximum(count - 1, 0).sum(axis=-1, keepdims=True), 1
        )
        floor = 1e-6 * shared + 1e-12
        if len(self.coins) < PER_NODE_FROM:
            return mean, np.broadcast_to(shared + floor, mean.shape)
        variance = np.where(count > 1, spread / np.maximum(count - 1, 1), shared)
        return mean, variance + floor


def class_ratios(
    classes: np.ndarray, coins: np.ndarray, targets: np.ndarray, n_classes: int, reach: np.ndarray
) -> np.ndarray:
    """Return (T, n) log-likelihood ratios of published classes (T, M), ``targets``.

    ``classes`` (R, M) and ``coins`` (R, n) are those of the shadows; ``reach`` (n, M) says which
    published records the attacker looks at for a node. They count as independent (naive Bayes),
    each with the frequencies of its classes among the shadows.
    """
    seen = np.eye(n_classes, dtype=np.float32)[classes].reshape(len(classes), -1)
    size = max(1, PUBLISHED_AT_ONCE // seen.shape[1])
    if coins.shape[1] > size:  # nodes by nodes
        return np.hstack([
            class_ratios(classes, coins[:, block], targets, n_classes, reach[block])
            for block in (slice(at, at + size) for at in range(0, coins.shape[1], size))
        ])  # fmt: skip
    prior = seen.mean(axis=0) + 0.01  # both sides are drawn towards the same frequencies
    total, logs = 1 + 0.01 * n_classes, {}
    for side in (True, False):
        mask = (coins == side).astype(np.float32)
        counts = mask.T @ seen + _PRIOR * prior
        logs[side] = np.log(counts / (mask.sum(axis=0)[:, None] + _PRIOR * total))
    one_hot = np.eye(n_classes, dtype=np.float32)[targets].reshape(len(targets), -1)
    weights = (logs[True] - logs[False]) * np.repeat(reach, n_classes, axis=1)
    return (one_hot @ weights.T).astype(np.float64)


# --- rates ---------------------------------------------------------------------------------------


def _bins(scores: np.ndarray) -> np.ndarray:
    """Return the place of every score among at most about 12,000 ordered bins."""
    flat = scores.ravel()
    tail = np.linspace(0, _TAIL, _BINS // 10)
    levels = np.unique(np.concatenate([np.linspace(0, 1, _BINS), tail, 1 - tail]))
    edges = np.unique(np.sort(flat)[np.rint(levels * (len(flat) - 1)).astype(np.int64)])
    return np.searchsorted(edges, flat).astype(np.int64)


def _rates(inside: np.ndarray, outside: np.ndarray) -> dict[str, float]:
    """Return AUC and rates from histograms of the scores of members and of others."""
    inside, outside = inside / max(inside.sum(), 1e-12), outside / max(outside.sum(), 1e-12)
    below = np.cumsum(outside) - outside / 2
    metrics = {"auc": float(inside @ below)}
    up = [np.concatenate([[0.0], np.cumsum(histogram[::-1])]) for histogram in (inside, outside)]
    down = [np.concatenate([[0.0], np.cumsum(histogram)]) for histogram in (inside, outside)]
    for name, rate in FALSE_POSITIVES.items():
        metrics[f"tpr_{name}"] = float(np.interp(rate, up[1], up[0]))
        metrics[f"tnr_{name}"] = float(np.interp(rate, down[0], down[1]))
    return metrics


def rates(
    scores: np.ndarray, coins: np.ndarray, resamples: int = 40
) -> dict[str, tuple[float, float, float]]:
    """Return AUC and rates, each with an interval, of (T, n) scores against (T, n) coins.

    Thresholds are common to all targets. Intervals resample targets and nodes: pairs of one target
    or of one node depend on each other.
    """
    bins = _bins(scores)
    size = int(bins.max()) + 1
    places = bins + size * coins.ravel()

    def at(weights: np.ndarray | None) -> dict[str, float]:
        counts = np.bincount(places, weights, minlength=2 * size)
        return _rates(counts[size:], counts[:size])

    generator, (n_targets, n) = np.random.default_rng(0), scores.shape
    drawn = [
        at(np.multiply.outer(_times(generator, n_targets), _times(generator, n)).ravel())
        for _ in range(resamples)
    ]
    metrics = at(None)
    tail = (1 - CONFIDENCE) / 2
    return {
        name: (value, *np.quantile([sample[name] for sample in drawn], [tail, 1 - tail]).tolist())
        for name, value in metrics.items()
    }


def _times(generator: np.random.Generator, n: int) -> np.ndarray:
    """Return how often each of n is drawn, with replacement."""
    return np.bincount(generator.integers(n, size=n), minlength=n).astype(np.float64)


def node_aucs(scores: np.ndarray, coins: np.ndarray) -> np.ndarray:
    """Return the AUC (n,) of each node over the models; .5 where one side is empty."""
    ranks = rankdata(scores, axis=0)
    inside = coins.sum(axis=0)
    outside = len(coins) - inside
    pairs = inside * outside
    above = (ranks * coins).sum(axis=0) - inside * (inside + 1) / 2
    return np.where(pairs > 0, above / np.maximum(pairs, 1), 0.5)


# --- a bound on ε --------------------------------------------------------------------------------


@dataclass(frozen=True)
class FixedDesign:
    """Which nodes are guessed at which end: all of it chosen on shadows, before any target."""

    nodes: np.ndarray
    says: bool
    """Whether the guesses say that a node is a member."""

    @classmethod
    def of(cls, scores: np.ndarray, coins: np.ndarray) -> FixedDesign:
        """Take the nodes that the shadows tell apart best, and the end at which they err least."""
        nodes = np.sort(np.argsort(-node_aucs(scores, coins), kind="stable")[:NAMED])
        ends = [cls(nodes, side) for side in (False, True)]
        return max(ends, key=lambda design: design.guess(scores, coins).right)

    def guess(self, scores: np.ndarray, coins: np.ndarray) -> Guesses:
        """Guess the coins of the surest nodes of every target from its scores (T, n)."""
        scores, coins = scores[:, self.nodes], coins[:, self.nodes]
        number = min(GUESSES, len(self.nodes))
        sure = np.argsort(-scores if self.says else scores, axis=1, kind="stable")[:, :number]
        right = np.take_along_axis(coins, sure, axis=1) == self.says
        return Guesses(coins.size, right.size, int(right.sum()))


def surest(scores: np.ndarray, coins: np.ndarray) -> Guesses:
    """Guess the surest members and the surest non-members of every target among all nodes.

    No node is guessed twice: a node alone is guessed by the sign of its score.
    """
    n = scores.shape[1]
    if n == 1:
        return Guesses(coins.size, coins.size, int(((scores > 0) == coins).sum()))
    number = max(1, round(SUREST * n))
    order = np.argsort(scores, axis=1, kind="stable")
    ends = ((order[:, :number], False), (order[:, -number:], True))
    right = sum(int((np.take_along_axis(coins, at, axis=1) == side).sum()) for at, side in ends)
    return Guesses(coins.size, 2 * number * len(scores), right)


# --- the attack ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scored:
    """Scores of shadows and of fresh targets by (view, score)."""

    shadows: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    targets: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)

    def fixed_in_advance(self) -> tuple[str, str]:
        """Return what the bounds read, fixed in advance: the decoded release, else all views."""
        keys = [key for key in self.shadows if key[1] == "decoding"]
        keys += [key for key in self.shadows if key == (TOGETHER, "online")]
        return (keys + [key for key in self.shadows if key[1] == "online"])[0]


def scored(shadows: shadow_models.Models, targets: shadow_models.Models | None) -> Scored:
    """Score every model by every view: the shadows by each other, the targets by the shadows."""
    results = Scored()
    for models, scores in ((shadows, results.shadows), (targets, results.targets)):
        if models is None:
            continue
        sums = []
        for view, margins in shadows.margins.items():
            known = Shadows(margins, shadows.coins)
            ratios = known.ratios(None if models is shadows else models.margins[view])
            scores |= {(view, kind): ratio for kind, ratio in ratios.items()}
            sums.append(ratios["online"])
        if len(sums) > 1:
            scores[TOGETHER, "online"] = np.sum(sums, axis=0)
        scores |= {(view, "decoding"): estimates for view, estimates in models.decoded.items()}
        scores[PUBLISHED, "online"] = _published(shadows, models)
    return results


def _published(shadows: shadow_models.Models, models: shadow_models.Models) -> np.ndarray:
    """Score published classes; each half of the shadows by the other half."""
    looks_at = (shadows.n_classes, shadows.near)
    if models is not shadows:
        return class_ratios(shadows.classes, shadows.coins, models.classes, *looks_at)
    scores = np.empty(shadows.coins.shape)
    half = np.arange(len(scores)) % 2 == 0
    for part in (half, ~half):
        scores[part] = class_ratios(
            shadows.classes[~part], shadows.coins[~part], shadows.classes[part], *looks_at
        )
    return scores


def attack(
    job: Job, dataset: GraphDataset, guarantee: Guarantee, context: Context
) -> list[Measurement]:
    """Train shadows and targets of a job, and measure how well their coins can be guessed.

    Raises:
        UserError: the guesses contradict what is proved.
    """
    design, total = job.leaks, job.leaks.shadows + job.leaks.targets
    train = shadow_models.trainer(job, dataset, context)
    shadows = train(range(design.shadows))
    targets = train(range(design.shadows, total)) if design.targets else None
    scores = scored(shadows, targets)
    measurements = [Measurement("", "", "accuracy_of_halves", float(shadows.accuracy.mean())),
             Measurement("", "", "majority", shadows.majority)]  # fmt: skip
    measurements += [
        Measurement("", "", f"allowed_{name}", value) for name, value in guarantee.allowed().items()
    ]
    for (view, kind), ratios in scores.shadows.items():
        for name, (value, low, high) in rates(ratios, shadows.coins, RESAMPLES).items():
            measurements.append(Measurement(view, kind, name, value, low, high))
    view = WHOLE if (WHOLE, "online") in scores.shadows else FEATURES
    if (view, "online") in scores.shadows:
        measurements += exposed(
            scores.shadows[view, "online"], shadows.coins, parts_of(dataset, shadows.nodes), view
        )
    if targets is not None:
        measurements += bounds(scores, shadows.coins, targets.coins, guarantee)
    if SCENARIOS[job.scenario].unit == "node_out_list" and guarantee.events:
        from private_graphs.attacks.links import informed_of_lists  # which imports this module

        measurements += informed_of_lists(job, dataset, guarantee, context)
    return measurements


def bounds(
    scores: Scored, shadow_coins: np.ndarray, coins: np.ndarray, guarantee: Guarantee
) -> list[Measurement]:
    """Return the ε that two fixed designs show on fresh targets; UserError above a proved one."""
    view, kind = key = scores.fixed_in_advance()
    design = FixedDesign.of(scores.shadows[key], shadow_coins)
    tests = (
        ("epsilon_shown", design.guess(scores.targets[key], coins), guarantee.delta),
        ("epsilon_shown_tiny", surest(scores.targets[key], coins), TINY_DELTA),
    )
    measurements = []
    for name, guesses, delta in tests:
        proved = guarantee.held_against(guesses, delta)
        shares = {"right": guesses.right / guesses.guesses, "guesses": float(guesses.guesses),
                  "canaries": float(guesses.canaries)}  # fmt: skip
        measurements += [Measurement(view, kind, name, guesses.epsilon(delta)),
                  *(Measurement(view, kind, f"{name}_{what}", share)
                    for what, share in shares.items())]  # fmt: skip
        if proved is not None:
            measurements.append(Measurement(view, kind, f"{name}_proved", proved))
    return measurements


# --- who is exposed ------------------------------------------------------------------------------


def parts_of(dataset: GraphDataset, nodes: np.ndarray) -> dict[str, np.ndarray]:
    """Return masks (n,) of the nodes by degree, and by the share of neighbours of their class; of
    pictures none."""
    if not isinstance(dataset, GraphDataset):
        return {}
    source, target = (np.r_[a, b] for a, b in (dataset.edge_index, dataset.edge_index[::-1]))
    degree = np.bincount(source, minlength=dataset.n_nodes)
    same = dataset.labels[source] == dataset.labels[target]
    n_same = np.bincount(source, same, minlength=dataset.n_nodes)[nodes]
    degree = degree[nodes]
    limits = {"0": (0, 0), "1": (1, 1), "2": (2, 2), "3": (3, 3), "4 to 5": (4, 5),
              "6 to 9": (6, 9), "10 and more": (10, math.inf)}  # fmt: skip
    parts = {
        f"degree {name}": (degree >= low) & (degree <= high) for name, (low, high) in limits.items()
    }
    linked, share = degree > 0, n_same / np.maximum(degree, 1)
    parts |= {
        "no neighbour of its class": linked & (share == 0),
        "under half of its class": linked & (share > 0) & (share < 0.5),
        "half or more of its class": linked & (share >= 0.5) & (share < 1),
        "all of its class": linked & (share == 1),
    }
    return {name: mask for name, mask in parts.items() if mask.any()}


def exposed(
    scores: np.ndarray, coins: np.ndarray, parts: Mapping[str, np.ndarray], view: str
) -> Iterator[Measurement]:
    """Yield true positive rates of parts of the nodes at one common threshold, and the cross-check.

    Exposure of single nodes is chosen on even-numbered models and measured on odd ones.
    """
    threshold = np.quantile(scores[~coins], 1 - FALSE_POSITIVES["01"])
    for name, mask in parts.items():
        members = coins[:, mask]
        rate = float((scores[:, mask] > threshold)[members].mean()) if members.any() else math.nan
        yield Measurement(view, "online", "tpr_01", rate, who=name)
        yield Measurement(view, "online", "nodes", float(mask.sum()), who=name)
    yield Measurement(view, "online", "auc", cross_checked(scores, coins, 20),
                      who="the 20 most exposed by the even models, on the odd ones")  # fmt: skip


def cross_checked(scores: np.ndarray, coins: np.ndarray, number: int) -> float:
    """Return the mean AUC, on the odd models, of the ``number`` units that the even models expose
    most."""
    even, odd = (node_aucs(scores[half::2], coins[half::2]) for half in (0, 1))
    most = np.argsort(-even, kind="stable")[:number]
    return float(odd[most].mean())
