"""One noisy sum of non-negative rows of words by class, and a classifier under a fitted prior.

Under ``text`` a training node has the row of its own features, negative ones set to 0, square roots
taken, scaled to norm 1, and a constant. Nothing public is needed; documents whose labels are public
are a second observation where they resemble the private ones. No edge is read. ``word_prior`` has
the classifier, docs/privacy.md §16 ("Word sums") the proof.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from private_graphs.mechanisms.door import Door
from private_graphs.methods.lattice import NOISE_GENERATOR, LatticeGaussian
from private_graphs.methods.word_prior import (
    COLUMNS,
    CONSTANT_SHARE,
    REASON,
    Totals,
    weights_of,
)
from private_graphs.privacy.queries import GaussianQuery
from private_graphs.tasks.graph_task import GraphTask, unit_rows
from private_graphs.tasks.method import Canary, Context, Method, Outcome, Request

CONSTANTS = (
    "the constants of the method were set by its authors with experiments on Cora, PubMed and "
    "invented letters; on these graphs that choice is not priced"
)


def rows_of(features: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Return (nodes, columns) non-negative rows of norm 1 or zero; each reads its own alone."""
    rows = scipy.sparse.csr_matrix(features.maximum(0))
    if rows.shape[1] > COLUMNS:
        folded = (rows.data, rows.indices % COLUMNS, rows.indptr)
        rows = scipy.sparse.csr_matrix(folded, (rows.shape[0], COLUMNS))
        rows.sum_duplicates()
    return unit_rows(rows.sqrt())


def class_totals(task: GraphTask, lattice: LatticeGaussian) -> np.ndarray:
    """Return the (columns + 1, K) int64 sum of the nodes' rounded terms, in spacings."""
    lattice.check_total(task.n_units)
    rows = rows_of(task.train_features)
    constant = np.full((rows.shape[0], 1), math.sqrt(CONSTANT_SHARE))
    terms = scipy.sparse.hstack([rows * math.sqrt(1 - CONSTANT_SHARE), constant], format="csr")
    terms = scipy.sparse.csr_matrix(
        (lattice.rounded(terms.data), terms.indices, terms.indptr), terms.shape
    )
    return np.asarray(terms.T @ np.eye(task.n_classes, dtype=np.int64)[task.train_labels])


def calibrated(task: GraphTask, epsilon: float) -> LatticeGaussian:
    """Return the noise of the one release at ``epsilon``."""
    size = (min(task.n_features, COLUMNS) + 1) * task.n_classes
    return LatticeGaussian.calibrate(
        epsilon, task.delta, math.sqrt(2), dimension=size, entries=size, contributions=2
    )


def _queries(task: GraphTask, lattice: LatticeGaussian) -> tuple[GaussianQuery, ...]:
    words = {"unit": task.scenario.unit, "relation": task.scenario.relation}
    query = lattice.query(**words, reason=REASON, clipping="row")
    return (query,) if query else ()


def run(
    task: GraphTask, requests: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Answer every request by one release and one read-out."""
    lattices = [calibrated(task, request.epsilon) for request in requests]
    plans = [_queries(task, lattice) for lattice in lattices]
    door.plan(plans)
    totals = {lattice.spacing: class_totals(task, lattice) for lattice in lattices}
    validation = rows_of(task.validation_features)
    asked = [validation, rows_of(task.test_features)]
    if context.asked is not None:
        asked.append(rows_of(context.asked.train_features))
    rows, ends = scipy.sparse.vstack(asked, format="csr"), np.cumsum([x.shape[0] for x in asked])
    outcomes = []
    for place, (request, lattice, plan) in enumerate(zip(requests, lattices, plans, strict=True)):
        own = door.of_lanes([place])
        [total] = own.gaussian(
            totals[lattice.spacing][None], [plan[0] if plan else None], stream="word_sums"
        )
        noisy, known = Totals.of(total, lattice.noise_std), None
        alone = weights = weights_of(noisy, task.n_units)
        if len(request.known):
            codes = np.eye(task.n_classes)[task.validation_labels[request.known]]
            sums = validation[request.known].T @ codes
            known = Totals(sums, codes.sum(axis=0))
            weights = weights_of(noisy, task.n_units, known)
        scores = rows @ weights.weights[:-1] + weights.weights[-1]
        by_release = validation @ alone.weights[:-1] + alone.weights[-1]
        outcomes.append(Outcome(
            test_predictions=scores[ends[0] : ends[1]].argmax(axis=1),
            # of the release alone: a known label does not predict itself
            validation_predictions=by_release.argmax(axis=1),
            settings={"columns": rows.shape[1], "known_labels_used": weights.reads_known},
            logits=None if context.asked is None else scores[ends[1] :],
        ))  # fmt: skip
        context.report(len(outcomes), len(requests))
    return outcomes


def stated(task: GraphTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    """See ``Method.stated``."""
    events = _queries(task, calibrated(task, request.epsilon))
    return {"events": events, "noise_generator": NOISE_GENERATOR}


METHODS = (
    Method(
        "word_sums",
        "word sums",
        run,
        ("text",),
        stated=stated,
        fits_validation_labels=True,
        validates_without_labels=True,
        prepares="negative features are 0, square roots are taken, and every row is scaled to norm "
        "1 by itself",
        assumptions=(CONSTANTS,),
        canary=Canary(words=64, units=1000),
        summary="Noisy sums of words by class, and weights under a prior that is fitted to them.",
    ),
)
