"""Public data alone: ridge regression on the known validation labels.

This is the baseline of every private method that assumes a public validation set: no training node
is read, so ε is 0. Cross-validation on the same known labels chooses the settings. Representations:
principal coordinates of the public texts, under ``graph`` averaged over public neighbours (Wu et
al. 2019, simplified graph convolutions) or together with spectral coordinates of the public graph
(``public_rows``, the rows of the class sums); scores may also be propagated there, with the known
labels inserted (Huang et al. 2021, correct and smooth).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from private_graphs.mechanisms.door import Door
from private_graphs.methods.public_rows import (
    RowMap,
    averages_texts,
    class_codes,
    spectral_coordinates,
)
from private_graphs.methods.public_text import (
    PublicText,
    inverse_document_weights,
    mean_of_neighbours,
    principal_axes,
    propagated,
    public_rows,
    reweighted,
)
from private_graphs.tasks.graph_task import UNIT_ROWS, GraphTask, unit_rows
from private_graphs.tasks.method import Context, Method, Outcome, Request

RIDGES = (1.0, 0.1, 10.0)
RANKS = (512, 64, 16)
HOPS = (2, 1, 0)
PROPAGATIONS = ((0, False), (2, False), (10, False), (2, True), (10, True))
"""(steps, whether known labels replace the scores of their nodes)."""
ENSEMBLE = 8
"""Number of best candidates that vote together: cross-validation on few labels cannot
distinguish them."""
_FOLDS = 5
_CONSTANT = 0.5


def ridge_weights(rows: np.ndarray, targets: np.ndarray, strengths: Sequence[float]) -> np.ndarray:
    """Return (r, strengths · K): for each strength the minimiser of |ZW - Y|² + strength |W|².

    ``rows`` Z is (k, r), ``targets`` Y (k, K). One decomposition of the smaller Gram matrix.
    """
    wide = rows.shape[0] <= rows.shape[1]
    gram = rows @ rows.T if wide else rows.T @ rows
    values, vectors = scipy.linalg.eigh(gram)
    turned = vectors.T @ (targets if wide else rows.T @ targets)
    solved = np.hstack([turned / (values + strength)[:, None] for strength in strengths])
    return rows.T @ (vectors @ solved) if wide else vectors @ solved


def _with_constant(rows: np.ndarray) -> np.ndarray:
    return np.hstack([rows, np.full((len(rows), 1), _CONSTANT)])


@dataclass(frozen=True, eq=False)
class Representation:
    """Rows of the validation, then the test nodes; the last column is constant."""

    hops: int
    rank: int
    """Number of text axes."""
    rows: np.ndarray
    """(V + M, r + 1)"""
    structure: int = 0
    """Number of coordinates in the public graph."""


@dataclass(frozen=True)
class Choice:
    """One candidate setting."""

    representation: int
    hops: int
    rank: int
    structure: int
    propagation: tuple[int, bool]
    ridge: float

    def describe(self) -> dict[str, float]:
        """Return the settings as JSON-able values."""
        steps, put_in = self.propagation
        structure = {"structure": self.structure} if self.structure else {}
        return structure | {
            "hops": self.hops,
            "rank": self.rank,
            "ridge": self.ridge,
            "propagation": steps,
            "known_labels_put_in": put_in,
        }


@dataclass(frozen=True, eq=False)
class Places:
    """Nodes whose scores are asked, and what averaging brings to them from all nodes."""

    nodes: np.ndarray
    reach: dict[int, np.ndarray]
    """Steps -> (nodes, V + M): the linear map of so many averaging steps, at the nodes."""

    def some(self, positions: np.ndarray) -> Places:
        """Return a part of the nodes."""
        reach = {steps: matrix[positions] for steps, matrix in self.reach.items()}
        return Places(self.nodes[positions], reach)

    def of(self, start: np.ndarray, steps: int) -> np.ndarray:
        """Return (nodes, columns) of ``start`` (V + M, columns) after averaging."""
        return self.reach[steps] @ start if steps else start[self.nodes]


@dataclass(frozen=True, eq=False)
class PublicSide:
    """Representations of a task, and its public graph."""

    representations: list[Representation]
    smoothing: scipy.sparse.csr_matrix | None
    codes: np.ndarray
    """(V, K): codes of all validation nodes; only rows with known labels are read."""

    @classmethod
    def of(cls, task: GraphTask, coordinates: np.ndarray | None = None) -> PublicSide:
        """Learn the representations from the public texts of ``task``.

        ``coordinates``: those in the public graph; None: they are computed here.
        """
        plain = public_rows(task)
        weights = inverse_document_weights(plain)
        public, smoothing = reweighted(plain, weights), None
        if task.public_adjacency is not None:
            smoothing = mean_of_neighbours(task.public_adjacency)
            if coordinates is None:
                coordinates = spectral_coordinates(task.public_adjacency)
        textual, structured = [], []
        for hops in sorted(HOPS) if smoothing is not None else (0,):
            axes = principal_axes(public)
            for rank in sorted({min(rank, axes.rank) for rank in RANKS}, reverse=True):
                rows = axes.unit(public, rank)
                if smoothing is None:
                    test = axes.unit(reweighted(task.test_features, weights), rank)
                    rows = np.vstack([rows, test])
                textual.append(Representation(hops, rank, _with_constant(rows)))
                if coordinates is not None and hops == averages_texts(task):
                    text = PublicText(weights, axes, public, None, smoothing, hops)
                    map_ = RowMap.of(task, text, coordinates, rank)
                    rows = _with_constant(map_.evaluated(task))
                    structured.append(Representation(hops, rank, rows, map_.size - map_.rank))
            if smoothing is not None:
                public = unit_rows(smoothing @ public)
        textual.sort(key=lambda view: HOPS.index(view.hops))
        codes = class_codes(task.n_classes)[task.validation_labels]
        return cls(textual + structured, smoothing, codes)

    def choices(self) -> list[Choice]:
        """Every candidate, from the most to the least likely."""
        propagations = PROPAGATIONS if self.smoothing is not None else PROPAGATIONS[:1]
        settings = list(itertools.product(propagations, RIDGES))
        return [
            Choice(index, view.hops, view.rank, view.structure, *values)
            for index, view in enumerate(self.representations)
            for values in settings
        ]

    def places(self, nodes: np.ndarray) -> Places | None:
        """Return where the scores of few nodes come from; None where all are faster to average.

        Averaging is linear, so that its transpose, applied to each node once, serves all folds.
        """
        columns = len(self.representations) * len(RIDGES) * self.codes.shape[1]
        if len(nodes) > _FOLDS * columns:
            return None
        reach, done = {}, 0
        if self.smoothing is not None:
            back = scipy.sparse.csr_matrix(self.smoothing.T)
            picked = np.zeros((back.shape[0], len(nodes)))
            picked[nodes, np.arange(len(nodes))] = 1.0
            current = picked
            for steps in sorted({steps for steps, _ in PROPAGATIONS if steps}):
                current = propagated(picked, back, steps - done, current)
                reach[steps], done = np.ascontiguousarray(current.T), steps
        return Places(nodes, reach)

    def scores(
        self, known: np.ndarray, choices: Sequence[Choice], places: Places | None = None
    ) -> Iterator[np.ndarray]:
        """Yield (V + M, K) scores of each choice, fitted only on the labels of ``known``.

        Each representation is fitted once, and all scores are propagated together. ``places``:
        only the scores there.
        """
        n_classes, targets = self.codes.shape[1], self.codes[known]
        used = sorted({choice.representation for choice in choices})
        fitted = [self._fitted(self.representations[index].rows, known, targets) for index in used]
        spread = self._propagated(
            np.hstack(fitted), known, {choice.propagation for choice in choices}, places
        )
        for choice in choices:
            column = used.index(choice.representation) * len(RIDGES) + RIDGES.index(choice.ridge)
            start = column * n_classes
            yield spread[choice.propagation][:, start : start + n_classes]

    def _fitted(self, rows: np.ndarray, known: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return (V + M, ridges · K) scores of one representation."""
        return rows @ ridge_weights(rows[known], targets, RIDGES)

    def _propagated(
        self, scores: np.ndarray, known: np.ndarray, propagations: Set[tuple[int, bool]],
        places: Places | None,
    ) -> dict[tuple[int, bool], np.ndarray]:  # fmt: skip
        """Average (V + M, columns) over neighbours, optionally with known labels inserted first."""
        averages = {}
        for put_in in {flag for _, flag in propagations}:
            start = scores
            if put_in:
                start = scores.copy()
                start[known] = np.tile(self.codes[known], scores.shape[1] // self.codes.shape[1])
            current, done = start, 0
            for steps in sorted(steps for steps, flag in propagations if flag == put_in):
                if places is not None:
                    averages[steps, put_in] = places.of(start, steps)
                    continue
                current = propagated(start, self.smoothing, steps - done, current)
                averages[steps, put_in], done = current, steps
        return averages

    def levelled(self, scores: np.ndarray) -> np.ndarray:
        """Return the scores divided by their mean magnitude on the validation nodes."""
        return scores / max(np.abs(scores[: len(self.codes)]).mean(), 1e-12)


@dataclass(frozen=True, eq=False)
class PublicFit:
    """The best candidates by cross-validation on the known labels, and their scores."""

    best: list[Choice]
    n_choices: int
    scores: np.ndarray
    """(V + M, K): the sum of their levelled scores, fitted on all known labels."""
    side: PublicSide
    known: np.ndarray

    @classmethod
    def of(cls, side: PublicSide, known: np.ndarray) -> PublicFit:
        """Rank all choices by hits on held-out known labels; keep the first ENSEMBLE."""
        choices, places = side.choices(), side.places(known)

        def held_out(held: np.ndarray, rest: np.ndarray) -> Iterator[np.ndarray]:
            if places is not None:
                return side.scores(rest, choices, places.some(held))
            return (scores[known[held]] for scores in side.scores(rest, choices))

        ranked = cross_validated(side, known, held_out)
        best = [choices[i] for i in sorted(ranked[:ENSEMBLE])]
        return cls(best, len(choices), _added(side, known, best), side, known)

    @cached_property
    def held_out(self) -> np.ndarray:
        """Return (k, K) scores at each known node, fitted without the labels of its fold."""
        scores = np.zeros((len(self.known), self.side.codes.shape[1]))
        for held, rest in folds(self.known):
            scores[held] = _added(self.side, rest, self.best)[self.known[held]]
        return scores


def _added(side: PublicSide, known: np.ndarray, choices: Sequence[Choice]) -> np.ndarray:
    """Return the sum of the levelled scores of ``choices``, fitted on ``known``."""
    return np.sum([side.levelled(scores) for scores in side.scores(known, choices)], axis=0)


def folds(known: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield up to five pairs (held-out positions, nodes to fit on); none for a single label."""
    fold_of = np.arange(len(known)) % _FOLDS
    for fold in range(min(_FOLDS, len(known)) if len(known) > 1 else 0):
        yield np.flatnonzero(fold_of == fold), known[fold_of != fold]


def cross_validated(
    side: PublicSide, known: np.ndarray,
    scores: Callable[[np.ndarray, np.ndarray], Iterator[np.ndarray]],
) -> list[int]:  # fmt: skip
    """Return the candidates by decreasing hits on held-out known labels.

    ``scores(held, rest)`` yields the (held, K) scores of every candidate fitted on ``rest``. Five
    folds by position, or as many as labels if fewer; ties go to the smaller squared error, then to
    the first. With a single known label nothing is compared and the order stays.
    """
    codes = side.codes[known]
    hits: dict[int, int] = {}
    errors: dict[int, float] = {}
    for held, rest in folds(known):
        for index, estimate in enumerate(scores(held, rest)):
            truth = codes[held]
            right = int((estimate.argmax(axis=1) == truth.argmax(axis=1)).sum())
            hits[index] = hits.get(index, 0) + right
            errors[index] = errors.get(index, 0.0) + float(((estimate - truth) ** 2).sum())
    if not hits:
        return list(range(len(side.choices())))
    return sorted(hits, key=lambda index: (-hits[index], errors[index], index))


def run(
    task: GraphTask, requests: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Answer every request, in order, with one fit per set of known labels."""
    fits = public_fits(task)
    outcomes = []
    for done, request in enumerate(requests, start=1):
        if len(request.known):
            outcomes.append(_outcome(task, request, fits(request.known)))
        else:
            outcomes.append(_uniform(task, request))
        context.report(done, len(requests))
    return outcomes


def public_fits(
    task: GraphTask, coordinates: np.ndarray | None = None
) -> Callable[[np.ndarray], PublicFit]:
    """Return a function from known labels to their fit; each set is fitted once."""
    side = PublicSide.of(task, coordinates)
    fitted: dict[bytes, PublicFit] = {}

    def fit(known: np.ndarray) -> PublicFit:
        key = known.tobytes()
        if key not in fitted:
            fitted[key] = PublicFit.of(side, known)
        return fitted[key]

    return fit


def _uniform(task: GraphTask, request: Request) -> Outcome:
    """Guess uniformly: without a known label, public data do not distinguish the classes."""
    draw = request.streams.generator("guess").integers
    return Outcome(
        test_predictions=draw(task.n_classes, size=task.test_features.shape[0]),
        validation_predictions=draw(task.n_classes, size=len(task.validation_labels)),
        settings={"guess": "uniform"},
    )


def _outcome(task: GraphTask, request: Request, fit: PublicFit) -> Outcome:
    """Predict by the ensemble."""
    return Outcome.of(
        task,
        fit.scores.argmax(axis=1),
        settings={"ensemble": [choice.describe() for choice in fit.best]},
        n_configurations=fit.n_choices,
    )


def stated(task: GraphTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    """See ``Method.stated``."""
    return {"chosen_by": cross_validation_words(request)} if len(request.known) else {}


def cross_validation_words(request: Request) -> str:
    """Describe the data on which the settings were compared."""
    return f"cross-validation on {len(request.known)} public validation labels"


METHODS = (
    Method(
        "public_only",
        "public only",
        run,
        ("text", "graph"),
        prepares=UNIT_ROWS,
        reads_private=False,
        stated=stated,
        fits_validation_labels=True,
        summary="Baseline: ridge regression on the public labels; nothing private is read.",
    ),
)
