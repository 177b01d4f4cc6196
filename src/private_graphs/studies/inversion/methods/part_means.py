"""Linear classifier from one noisy sum of part means, along axes of the public images.

A part of a class (subclass) is named by a keyed hash of the record's number. Every part gives one
row: the mean of its images' features, clipped to norm C. The rows of each class are added up and
the sums get Gaussian noise, once: all images of one part together change one row by at most 2C. The
sums are then divided by the second moments of the public images: linear discriminants (Fisher
1936), whose directions the covariance of all images gives as well as that within classes. Features:
``methods.scattering``, only the strongest principal coordinates, because each adds noise. Proof:
docs/studies/inversion.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from private_graphs.mechanisms.door import Door
from private_graphs.methods.scattering import ScatteringAxes
from private_graphs.methods.unit_gradients import hashed_parts
from private_graphs.privacy.calibration import gdp_noise, refuse_large_delta
from private_graphs.privacy.events import Event
from private_graphs.privacy.queries import GaussianQuery
from private_graphs.tasks.image_task import ImageTask
from private_graphs.tasks.method import Context, Method, Outcome, Request, Settings, picture_memory

RANK = 50
"""Number of principal coordinates of the public images."""
RIDGE = 0.03
"""Ridge added to second moments."""
_MARGIN = 1 - 1e-12
"""Safety margin: rounding leaves no norm above the bound."""
CONSTANTS = (
    "parts by numbers were compared with parts by public centroids, and bounds of the norm with "
    "each other, on test images of MNIST; rank and ridge on training images of MNIST and "
    "Fashion-MNIST that the others did not learn from; on these datasets the choice is not priced"
)


class PartSettings(Settings):
    """Settings of a release of part means."""

    parts: int = Field(default=50, ge=1)
    """Number of parts of a class."""


def run(
    task: ImageTask, requests: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Answer every request with one release; features are computed once for all."""
    import torch

    torch.set_num_threads(context.threads)
    axes = ScatteringAxes.of(task)
    variances, directions = np.linalg.eigh(axes.moments)
    variances, directions = variances[-RANK:], directions[:, -RANK:]
    public = axes.rows @ directions
    rows, test = (
        axes.rows_of(task, pixels) @ directions for pixels in (task.train_pixels, task.test_pixels)
    )
    bound = public_norm(public, task.n_classes)
    sums_of = {
        parts: class_sums_of(rows, task.train_labels, task.n_classes, parts, bound)
        for parts in {request.settings.parts for request in requests}
    }
    outcomes = []
    for request in context.in_turn(requests):
        chosen = {"norm": bound, "rank": rows.shape[1]}
        fields = stated(task, request, context, chosen)
        sums, events = sums_of[request.settings.parts], fields["events"]
        if request.private:
            refuse_large_delta(task.delta, fields["n_units"])
        lane = door.batch([request])
        lane.plan([events])
        (sums,) = lane.gaussian(sums[None].copy(), events or [None])
        weights = (sums / (variances + RIDGE)).T.astype(np.float32)
        lane.public("weights", [weights])
        outcomes.append(
            Outcome(
                test_predictions=(test @ weights).argmax(axis=1),
                validation_predictions=(public @ weights).argmax(axis=1),
                settings=chosen,
                measured={"noise_multiplier": sum(e.noise_std / bound for e in events)},
            )
        )
    return outcomes


def stated(task: ImageTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    """See ``Method.stated``; ``chosen`` has the clip norm of means, and the rank."""
    events: tuple[Event, ...] = ()
    if request.private:
        events = (
            GaussianQuery(
                unit=task.scenario.unit,
                relation=task.scenario.relation,
                count=1,
                sensitivity=2 * chosen["norm"],
                noise_std=chosen["norm"] * gdp_noise(request.epsilon, 1, task.delta, "replace"),
                dimension=chosen["rank"] * task.n_classes,
                clipping="per_class",
                reason="the mean of one part of one class, of bounded norm, becomes any other",
            ),
        )
    return {"events": events, "n_units": task.n_classes * request.settings.parts}


def public_norm(public: np.ndarray, n_classes: int) -> float:
    """Return C: the average norm of the means of as many clusters of public rows (V, r)."""
    from sklearn.cluster import KMeans

    fitted = KMeans(min(n_classes, len(public)), n_init=1, random_state=0).fit(public)
    return float(np.linalg.norm(fitted.cluster_centers_, axis=1).mean())


def class_sums_of(
    rows: np.ndarray, labels: np.ndarray, n_classes: int, parts: int, bound: float
) -> np.ndarray:
    """Return (K, r) sums, over each class's parts, of mean rows clipped to norm ``bound``.

    ``rows`` (n, r), ``labels`` (n,), -1 for an image that is left out.
    """
    part = hashed_parts(len(labels), parts)
    indices = np.flatnonzero(labels >= 0)
    unit = labels[indices] * parts + part[indices]
    means = np.zeros((n_classes * parts, rows.shape[1]))
    np.add.at(means, unit, rows[indices])
    means /= np.maximum(np.bincount(unit, minlength=len(means)), 1)[:, None]
    norms = np.linalg.norm(means, axis=1, keepdims=True)
    means *= np.minimum(1, bound * _MARGIN / np.maximum(norms, np.finfo(float).tiny))
    return means.reshape(n_classes, parts, -1).sum(axis=1)


METHODS = (
    Method(
        "part_means",
        "means of parts",
        run,
        ("subclasses",),
        settings=PartSettings,
        data="images",
        stated=stated,
        assumptions=(CONSTANTS,),
        prepares="scattering of each image, in coordinates of the public images, scaled to norm 1 "
        "by itself",
        memory=picture_memory,
        summary="One noisy release of the averages of parts of classes, and a linear classifier.",
    ),
)
