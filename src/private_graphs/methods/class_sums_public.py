"""Class sums combined with a classifier on the known validation labels, as in practice.

The scores of public data alone (:mod:`private_graphs.methods.public_only`) and those of the noisy
class sums (:mod:`private_graphs.methods.class_sums`) are added with a weight that cross-validation
on the known labels chooses. Everything after the release is post-processing, so ε is that of the
class sums. The method fits parameters on the known validation labels, unlike other private methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from private_graphs.mechanisms.door import Door
from private_graphs.methods import class_sums
from private_graphs.methods.choice import CONSTANTS
from private_graphs.methods.class_sums import Released, SumQuery
from private_graphs.methods.method import Context, Method, Outcome, Request
from private_graphs.methods.public_only import PublicFit, cross_validation_words, public_fits
from private_graphs.tasks import UNIT_ROWS, GraphTask

WEIGHTS = (1.0, 2.0, 0.5, 4.0, 0.25, 0.0)
"""Candidate weights of the private scores; both kinds of scores have mean magnitude 1."""


def chosen_weight(private: np.ndarray, public: np.ndarray, labels: np.ndarray) -> float:
    """Return the weight of ``private`` with the most hits; ties to the first of WEIGHTS.

    Both are scores (k, K) of the nodes with ``labels`` (k,), fitted without them.
    """
    hits = [((weight * private + public).argmax(axis=1) == labels).sum() for weight in WEIGHTS]
    return WEIGHTS[int(np.argmax(hits))]


def _mean_size(scores: np.ndarray) -> float:
    return max(float(np.abs(scores).mean()), 1e-12)


def _combined(
    task: GraphTask, request: Request, released: Released, row: int, alone: Outcome, fit: PublicFit
) -> Outcome:
    """Add public scores to those of the class sums with the settings that ``alone`` chose."""
    n_validation, known = len(task.validation_labels), request.known
    chosen = (alone.settings["prior_variance"], alone.settings["propagation"])
    (private,) = (
        each.scores[row]
        for each in released.candidates
        if (each.prior_variance, each.propagation) == chosen
    )
    private = private / _mean_size(private[:n_validation])
    weight = chosen_weight(
        private[known], fit.held_out / _mean_size(fit.held_out), task.validation_labels[known]
    )
    scores = weight * private + fit.scores / _mean_size(fit.scores[:n_validation])
    predictions = scores.argmax(axis=1)
    return replace(
        alone,
        test_predictions=predictions[n_validation:],
        validation_predictions=predictions[:n_validation],
        settings=alone.settings | {"weight_of_private_scores": weight},
        n_configurations=alone.n_configurations + fit.n_choices + len(WEIGHTS),
    )


def stated(task: GraphTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    """See ``Method.stated``; ``chosen`` has the rank."""
    told = class_sums.stated(task, request, context, chosen)
    if len(request.known):
        told["chosen_by"] += f"; {cross_validation_words(request)}"
    return told


def run(
    task: GraphTask, requests: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Answer every request, in order; UserError for fewer than two classes.

    Without a known validation label the method is ``class_sums``.
    """
    fits = public_fits(task)

    def finish(request: Request, released: Released, row: int, outcome: Outcome) -> Outcome:
        if not len(request.known):
            return outcome
        return _combined(task, request, released, row, outcome, fits(request.known))

    return class_sums.run(task, requests, door, context, neighbours=True, finish=finish)


METHODS = (
    Method(
        "class_sums_public",
        "class sums and public labels",
        run,
        ("text", "graph"),
        fits_validation_labels=True,
        query=SumQuery,
        stated=stated,
        prepares=UNIT_ROWS,
        assumptions=(CONSTANTS,),
        summary="Noisy class averages, combined with a classifier on the public labels.",
    ),
)
