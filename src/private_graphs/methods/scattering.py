"""Softmax regression on scattering features, by a few noisy Newton steps with public curvature.

Each step clips the gradient of every private image, adds one Gaussian noise to the sum (Abadi et
al., CCS 2016, with every record in every step), and multiplies it by the inverse second moments of
the public images: a Newton step whose curvature has no privacy cost. Features:
``training.scattering``, in principal coordinates of the public images, partly whitened and scaled
to norm 1. Labels of public images are read only by methods that say so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg

from private_graphs.mechanisms.descent import Descent
from private_graphs.mechanisms.door import Door
from private_graphs.methods.node_gradients import Linear, clipped_total, full_batches, predict
from private_graphs.privacy.accountants import gdp_mu
from private_graphs.privacy.calibration import refuse_large_delta
from private_graphs.tasks import method
from private_graphs.tasks.image_task import ImageTask
from private_graphs.training.dpsgd import Sgd, descend

STEPS = 8
CLIP_NORM = 0.5
RATE = 15.0
RANK = 800
"""Maximum number of principal coordinates."""
_WHITENING = 0.35
"""Coordinates are divided by their variance to this power; 0.5 would whiten."""
_SMALLEST = 1e-2
"""Number added to variances, of features whose channels have a mean square of 1."""
_RIDGE = 120.0
"""Ridge added to second moments, divided by n·μ, so that noise changes weak directions little."""
_LEAST_RIDGE = 1e-3
"""Smallest ridge, also without DP."""
_LOT = 100
_PUBLIC_STEPS = 30
CONSTANTS = (
    "the constants of the method were set by its authors with experiments on 10,000 training "
    "images of Fashion-MNIST that the others did not learn from; on that dataset the choice is not "
    "priced"
)


@dataclass(frozen=True, eq=False)
class ScatteringAxes:
    """Coordinates that public images determine."""

    scale: np.ndarray
    """(d,) factors of features, equal within a channel."""
    mean: np.ndarray
    """(d,) mean of the scaled features."""
    directions: np.ndarray
    """(d, r) directions, partly whitened."""
    moments: np.ndarray
    """(r, r) second moments of the public rows."""
    rows: np.ndarray
    """(V, r) public rows of norm 1."""

    @classmethod
    def of(cls, task: ImageTask) -> ScatteringAxes:
        """Compute the coordinates from the public images of a task."""
        features = np.concatenate(list(_features(task, task.validation_pixels)))  # (V, c, s)
        size = np.square(features, dtype=np.float64).mean(axis=(0, 2))
        scale = np.repeat(1 / np.sqrt(size + 1e-12), features.shape[2]).astype(np.float32)
        flat = features.reshape(len(features), -1) * scale
        mean = flat.mean(axis=0)
        flat -= mean
        rank = min(RANK, len(flat) - 1, flat.shape[1])
        covariance = flat.T @ flat / len(flat)
        count = len(covariance)
        variances, directions = scipy.linalg.eigh(
            covariance, subset_by_index=[count - rank, count - 1]
        )
        weights = (np.maximum(variances, 0) + _SMALLEST) ** -_WHITENING
        directions = (directions * weights).astype(np.float32)
        rows = _unit(flat @ directions)
        moments = rows.T.astype(np.float64) @ rows / len(rows)
        return cls(scale, mean, directions, moments, rows)

    def rows_of(
        self,
        task: ImageTask,
        pixels: np.ndarray,
        report: method.Progress = lambda done, total: None,
    ) -> np.ndarray:
        """Return (n, r) float32 rows of norm 1 of (n, c·h·w) images, each of its image alone."""
        rows = np.empty((len(pixels), self.directions.shape[1]), np.float32)
        done = 0
        for part in _features(task, pixels):
            flat = part.reshape(len(part), -1) * self.scale - self.mean
            rows[done : done + len(part)] = _unit(flat @ self.directions)
            done += len(part)
            report(done, len(pixels))
        return rows


def _features(task: ImageTask, pixels: np.ndarray):
    """Yield (b, channels, places) scattering of images, chunk by chunk."""
    from private_graphs.training.image_nets import images_of
    from private_graphs.training.scattering import scattered

    for first in range(0, len(pixels), _LOT):
        maps = scattered(images_of(pixels[first : first + _LOT], task.shape))
        yield maps.flatten(2).numpy()


def _unit(rows: np.ndarray) -> np.ndarray:
    """Return rows of norm 1; zero rows stay zero."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)


def run(
    task: ImageTask,
    requests: Sequence[method.Request],
    door: Door,
    context: method.Context,
    *,
    private: bool = True,
    labels: bool = False,
) -> list[method.Outcome]:
    """Answer every request; features are computed once for all.

    Requests with the same public labels train as one batch. ``private``: whether private images are
    read; ``labels``: whether known public labels are read.
    """
    import torch

    torch.set_num_threads(context.threads)
    if private:
        refuse_large_delta(task.delta, task.n_units)
    axes = ScatteringAxes.of(task)
    pixels = task.train_pixels if private else task.train_pixels[:0]
    labels_read = task.train_labels[: len(pixels)]
    labelled = labels_read >= 0
    # of all images, since progress is seen and the number of those with a label is private
    rows = axes.rows_of(task, pixels, context.report)[labelled]
    truth = labels_read[labelled]
    test = axes.rows_of(task, task.test_pixels)
    model = Linear(axes.rows.shape[1], task.n_classes, bias=0.0)

    def answer(batch: list[method.Request], door: Door, _: method.Context) -> list[method.Outcome]:
        known = batch[0].known if labels else batch[0].known[:0]
        public = axes.rows[known], task.validation_labels[known]
        queries = [
            full_batches(task, request, STEPS, CLIP_NORM) if private else None for request in batch
        ]
        door.plan([(query,) if query else () for query in queries])
        descent = door.descent(queries) if private else None
        weights = _descend(task, batch, axes, model, (rows, truth), public, descent)
        return [
            method.Outcome(
                test_predictions=on_test,
                validation_predictions=on_validation,
                measured={"noise_multiplier": query.noise_multiplier if query else 0.0},
            )
            for on_test, on_validation, query in zip(
                predict(model, weights, test), predict(model, weights, axes.rows), queries,
                strict=True,
            )
        ]  # fmt: skip

    return method.in_batches(
        requests, door, context, lambda request: request.known.tobytes() if labels else b"", answer
    )


def _inverse(task: ImageTask, request: method.Request, moments: np.ndarray) -> np.ndarray:
    """Return the inverse of the (r, r) second moments, with the ridge for the budget."""
    signal = task.n_units * gdp_mu(request.epsilon, task.delta) if request.private else np.inf
    return np.linalg.inv(moments + max(_LEAST_RIDGE, _RIDGE / signal) * np.eye(len(moments)))


def _descend(
    task: ImageTask,
    requests: Sequence[method.Request],
    axes: ScatteringAxes,
    model: Linear,
    private: tuple[np.ndarray, np.ndarray],
    public: tuple[np.ndarray, np.ndarray],
    descent: Descent | None,
) -> np.ndarray:
    """Return (R, P) weights after all steps; the model has no constant column.

    ``descent`` adds the noise of every step; None if no private data are read.
    """
    inverses = [_inverse(task, request, axes.moments) for request in requests]
    divisor = (task.n_units if descent else 0) + len(public[0])
    shape = (model.n_columns + 1, task.n_classes)
    weights = np.zeros((len(requests), math.prod(shape)), np.float32)
    optimizer = Sgd(RATE / max(divisor, 1))

    def clipped(pair: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        return clipped_total(model, weights, *pair, CLIP_NORM)

    def with_public(totals: np.ndarray) -> np.ndarray:
        totals += clipped(public)
        for gradient, inverse in zip(totals.reshape(-1, *shape), inverses, strict=True):
            gradient[:-1] = inverse @ gradient[:-1]
            gradient[-1] = 0.0
        return totals

    if descent is None:
        for _ in range(_PUBLIC_STEPS):
            optimizer.step(weights, with_public(np.zeros(weights.shape)))
        return weights
    for _ in descend(
        weights, lambda _: clipped(private), descent, optimizer, STEPS, public=with_public
    ):
        pass
    return weights


def stated(
    task: ImageTask, request: method.Request, context: method.Context, chosen: Mapping
) -> dict[str, Any]:
    """See ``Method.stated``."""
    query = full_batches(task, request, STEPS, CLIP_NORM)
    return {"events": (query,)} if query else {}


def _method(name: str, title: str, **fields: Any) -> method.Method:
    return method.Method(
        name,
        title,
        scenarios=("records",),
        data="images",
        stated=stated,
        memory=method.picture_memory,
        prepares="scattering of each image, in coordinates of the public images, scaled to "
        "norm 1 by itself",
        assumptions=(CONSTANTS,),
        **fields,
    )


METHODS = (
    _method(
        "scattering",
        "scattering, noisy steps",
        run=run,
        summary="Softmax regression on scattering features, by a few noisy Newton steps.",
    ),
    _method(
        "scattering_labels",
        "scattering, noisy steps and public labels",
        run=partial(run, labels=True),
        summary="The same noisy Newton steps, with the labels of public images beside.",
        fits_validation_labels=True,
    ),
    _method(
        "scattering_public",
        "scattering, public labels alone",
        run=partial(run, private=False, labels=True),
        summary="Baseline: the same regression on public images and labels alone.",
        reads_private=False,
        fits_validation_labels=True,
    ),
)
