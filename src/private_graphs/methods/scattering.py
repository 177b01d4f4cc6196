"""Softmax regression on scattering, by a few noisy steps along axes of the public images.

Each step takes the gradient of every private image, clips its norm, adds one Gaussian noise to the
sum (Abadi et al., CCS 2016, with every record in every step), and multiplies it by the inverse of
the second moments of the public images: a Newton step whose curvature costs nothing. Features:
``training.scattering``, in principal coordinates of the public images, partly whitened and scaled
to norm 1. Labels of public images are read where the method says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.linalg

from private_graphs.methods.method import ALONE, Context, Method, Outcome, Request
from private_graphs.methods.node_gradients import Linear, clipped_total, predict
from private_graphs.privacy.accountants import gdp_mu
from private_graphs.privacy.calibration import gdp_noise, refuse_large_delta
from private_graphs.privacy.events import FullBatch, NoisyGradients
from private_graphs.tasks import ImageTask

STEPS = 8
CLIP_NORM = 0.5
RATE = 15.0
RANK = 800
"""Principal coordinates at most."""
_WHITENING = 0.35
"""Coordinates are divided by their variance to this power; 0.5 would whiten."""
_SMALLEST = 1e-2
"""Added to variances, of features whose channels have a mean square of 1."""
_RIDGE = 120.0
"""Added to second moments: this over n·μ, so that noise moves weak directions little."""
_LEAST_RIDGE = 1e-3
"""At least, also without DP."""
_LOT = 100
_PUBLIC_STEPS = 30
CONSTANTS = (
    "the constants of the method were set by its authors with experiments on 10,000 training "
    "images of Fashion-MNIST that the others did not learn from; on that dataset the choice is not "
    "priced"
)
CHOSEN_BY = "nothing: the settings follow from the public sizes and the budget by a fixed rule"


@dataclass(frozen=True, eq=False)
class Axes:
    """Coordinates that public images define."""

    scale: np.ndarray
    """(d,) factors of features: one for each channel."""
    mean: np.ndarray
    """(d,) of the scaled features."""
    directions: np.ndarray
    """(d, r), partly whitened."""
    moments: np.ndarray
    """(r, r) second moments of the public rows."""
    rows: np.ndarray
    """(V, r) public rows of norm 1."""

    @classmethod
    def of(cls, task: ImageTask) -> Axes:
        """Learn them from the public images of a task."""
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

    def rows_of(self, task: ImageTask, pixels: np.ndarray) -> np.ndarray:
        """Return (n, r) float32 rows of norm 1 of (n, c·h·w) images, each of its image alone."""
        if not len(pixels):
            return np.zeros((0, self.directions.shape[1]), np.float32)
        parts = [
            _unit((part.reshape(len(part), -1) * self.scale - self.mean) @ self.directions)
            for part in _features(task, pixels)
        ]
        return np.concatenate(parts)


def _features(task: ImageTask, pixels: np.ndarray):
    """Yield (b, channels, places) scattering of images, part by part."""
    from private_graphs.training.image_nets import images_of
    from private_graphs.training.scattering import scattered

    for first in range(0, len(pixels), _LOT):
        found = scattered(images_of(pixels[first : first + _LOT], task.shape))
        yield found.flatten(2).numpy()


def _unit(rows: np.ndarray) -> np.ndarray:
    """Return rows of norm 1; rows of zeros stay."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)


def run(
    task: ImageTask,
    requests: Sequence[Request],
    context: Context = ALONE,
    *,
    private: bool = True,
    labels: bool = False,
) -> list[Outcome]:
    """Answer every request; features are computed once for all.

    ``private``: whether private images are read, ``labels``: whether known public labels are.
    """
    import torch

    torch.set_num_threads(context.threads)
    if private:
        refuse_large_delta(task.delta, task.n_units)
    axes = Axes.of(task)
    labelled = task.train_labels >= 0
    rows = axes.rows_of(task, task.train_pixels[labelled]) if private else axes.rows[:0]
    truth = task.train_labels[labelled] if private else task.train_labels[:0]
    test = axes.rows_of(task, task.test_pixels)
    outcomes = []
    for request in requests:
        known = request.known if labels else request.known[:0]
        public = axes.rows[known], task.validation_labels[known]
        noise = gdp_noise(request.epsilon, STEPS, task.delta, "replace") if request.private else 0.0
        model = Linear(axes.rows.shape[1], task.n_classes, bias=0.0)
        weights = _descend(task, request, axes, model, (rows, truth), public, noise, private)
        outcomes.append(
            Outcome(
                test_predictions=predict(model, weights, test)[0],
                validation_predictions=predict(model, weights, axes.rows)[0],
                events=_events(task, noise),
                chosen_by=CHOSEN_BY,
                measured={"noise_multiplier": noise},
            )
        )
        context.report(len(outcomes), len(requests))
    return outcomes


def _descend(
    task: ImageTask,
    request: Request,
    axes: Axes,
    model: Linear,
    private: tuple[np.ndarray, np.ndarray],
    public: tuple[np.ndarray, np.ndarray],
    noise: float,
    reads_private: bool,
) -> np.ndarray:
    """Return (1, P) weights after all steps; the constant column of the model has none."""
    count = len(axes.moments)
    signal = task.n_units * gdp_mu(request.epsilon, task.delta) if request.private else np.inf
    ridge = max(_LEAST_RIDGE, _RIDGE / signal)
    inverse = np.linalg.inv(axes.moments + ridge * np.eye(count))
    generator = request.streams.generator("noise")
    divisor = (task.n_units if reads_private else 0) + len(public[0])
    weights = np.zeros((1, (count + 1) * task.n_classes), np.float32)
    for _ in range(STEPS if reads_private else _PUBLIC_STEPS):
        total = clipped_total(model, weights, *private, CLIP_NORM)
        total += noise * CLIP_NORM * generator.standard_normal(total.shape)
        total += clipped_total(model, weights, *public, CLIP_NORM)
        gradient = total.reshape(count + 1, -1)
        gradient[:-1] = inverse @ gradient[:-1]
        gradient[-1] = 0.0
        weights -= (RATE / max(divisor, 1) * gradient).reshape(1, -1).astype(np.float32)
    return weights


def _events(task: ImageTask, noise: float) -> tuple[NoisyGradients, ...]:
    """One noisy sum per step, in which each image is a part of its own."""
    if noise == 0:
        return ()
    return (
        NoisyGradients(
            clipping="per_record",
            clip_norm=CLIP_NORM,
            noise_multiplier=noise,
            releases=STEPS,
            epochs=STEPS,
            sampling=FullBatch(parts=task.n_units),
        ),
    )


_PREPARES = (
    "scattering of each image, in coordinates of the public images, scaled to norm 1 by itself"
)
METHODS = (
    Method(
        "scattering",
        "scattering, noisy steps",
        run,
        ("records",),
        data="images",
        prepares=_PREPARES,
        assumptions=(CONSTANTS,),
    ),
    Method(
        "scattering_labels",
        "scattering, noisy steps and public labels",
        partial(run, labels=True),
        ("records",),
        data="images",
        fits_validation_labels=True,
        prepares=_PREPARES,
        assumptions=(CONSTANTS,),
    ),
    Method(
        "scattering_public",
        "scattering, public labels alone",
        partial(run, private=False, labels=True),
        ("records",),
        data="images",
        reads_private=False,
        fits_validation_labels=True,
        prepares=_PREPARES,
    ),
)
