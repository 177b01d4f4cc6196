"""One-shot release of each class's appearance: the number of a public picture, or a noisy mean.

Class level leaves no budget for iterative training: one small budget must distinguish the mean of a
class from any other. Both releases select a cell of a public codebook (the pictures of the
validation side without their labels), whose picture then represents the class.

``codes``: every class reports the cell nearest to its images by k-ary randomised response over B
cells, the true one with probability e^ε / (e^ε + B - 1) (Kairouz, Oh & Viswanath 2016). All images
of a class together change one report, whose probability then changes by a factor of at most e^ε.
``means``: the mean of a class in d public dimensions, of norm at most 1, gets Gaussian noise; all
images of a class together change one mean by at most 2. Proofs: docs/studies/inversion.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from private_graphs.datasets.photographs import varied
from private_graphs.mechanisms.door import Door
from private_graphs.privacy.calibration import gdp_noise
from private_graphs.privacy.queries import GaussianQuery, PureQuery
from private_graphs.tasks.image_task import ImageTask
from private_graphs.tasks.method import Context, Method, Outcome, Request, Settings
from private_graphs.training.picture_nets import standardised

COMPARED = (
    "features and ridge were compared on pictures of AT&T faces that were held out, test pictures "
    "among them; on these faces that choice is not priced"
)
_RIDGE = 0.1
"""Ridge of the whitening, in units of the largest variance."""
_COPIES = 16
"""Number of varied copies of each public picture, so that a shifted or brighter one is also
near."""


class CodeSettings(Settings):
    """Settings of a one-shot release of classes."""

    release: Literal["codes", "means"] = "codes"
    dimensions: int = Field(default=8, ge=1)
    """Number of public dimensions of ``means``."""
    replaced: bool = False
    """Whether the images of one class (the seed modulo the number of classes) are replaced by
    public ones of the next class: the neighbour that measures how certain anyone can be about a
    class (``docs/studies/inversion.md``). One class still changes one report."""


def with_replaced(
    rows: np.ndarray, labels: np.ndarray, public: tuple[np.ndarray, np.ndarray],
    n_classes: int, seed: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return (n, d) rows and (n,) labels after class ``seed`` modulo K was replaced.

    The new images are the ``public`` (V, d) rows, with (V,) labels, of the next class.
    """
    label = seed % n_classes
    images = public[0][public[1] == (label + 1) % n_classes]
    mask = labels != label
    return (
        np.concatenate([rows[mask], images]),
        np.concatenate([labels[mask], np.full(len(images), label)]),
    )


def run(
    task: ImageTask, requests: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Answer every request with one release."""
    book = Codebook.of(task.validation_pixels.reshape(-1, *task.shape[1:]))
    everyone = np.concatenate([task.validation_pixels, task.test_pixels])
    nearness = book.nearness(book.features(everyone))
    rows_of, public_of = (
        {"codes": book.nearness(features), "means": features}
        for features in map(book.features, (task.train_pixels, task.validation_pixels))
    )
    outcomes = []
    for request in context.in_turn(requests):
        rows, labels = rows_of[request.settings.release], task.train_labels
        if request.settings.replaced:
            public = public_of[request.settings.release], task.validation_labels
            rows, labels = with_replaced(rows, labels, public, task.n_classes, request.seed)
        query, lane = _event(task, request) if request.private else None, door.batch([request])
        lane.plan([(query,) if query else ()])
        cells = _released(task, request, book, rows, labels, lane, query)
        classes = nearness[:, cells].argmax(axis=1)
        outcomes.append(Outcome.of(task, classes, measured={"noise_multiplier": _noise(query)}))
    return outcomes


@dataclass(frozen=True)
class Codebook:
    """B public pictures, each with varied copies, in features that distinguish them.

    Features are whitened by the differences between copies of a picture, with a ridge, and have
    norm 1.
    """

    centre: np.ndarray
    axes: np.ndarray
    """(r, d) directions in which copies differ."""
    scales: np.ndarray
    """(r,) factor of each direction, minus that of all others."""
    cells: np.ndarray
    """(B, copies, d) features."""

    @classmethod
    def of(cls, pictures: np.ndarray) -> Codebook:
        """Build from (B, h, w) bytes."""
        copies = varied(pictures, _COPIES)
        rows = standardised(copies.reshape(*copies.shape[:2], -1) / 255)
        centre = rows.mean(axis=(0, 1))
        within = (rows - rows.mean(axis=1, keepdims=True)).reshape(-1, rows.shape[-1])
        _, spread, axes = np.linalg.svd(within, full_matrices=False)
        variances = spread**2 / len(within)
        ridge = _RIDGE * variances.max()
        scales = np.sqrt(ridge / (variances + ridge)) - 1
        bare = cls(centre, axes, scales, np.zeros(0))
        return replace(bare, cells=bare._whitened(rows))

    def _whitened(self, rows: np.ndarray) -> np.ndarray:
        rows = rows - self.centre
        rows = rows + ((rows @ self.axes.T) * self.scales) @ self.axes
        norms = np.linalg.norm(rows, axis=-1, keepdims=True)
        return rows / np.where(norms > 0, norms, 1)

    def features(self, pixels: np.ndarray) -> np.ndarray:
        """Return (n, d) features of (n, d) bytes, each computed from its picture alone."""
        return self._whitened(standardised(pixels / 255))

    def nearness(self, rows: np.ndarray) -> np.ndarray:
        """Return (n, B) largest cosine of a picture with the copies of each cell."""
        flat = self.cells.reshape(-1, self.cells.shape[-1])
        return (rows @ flat.T).reshape(len(rows), *self.cells.shape[:2]).max(axis=-1)


def _by_class(rows: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Return (K, …) mean row of each class; zeros for a class without rows."""
    means = np.zeros((n_classes, rows.shape[1]))
    for label in range(n_classes):
        if np.any(labels == label):
            means[label] = rows[labels == label].mean(axis=0)
    return means


def _dimensions(task: ImageTask, settings: CodeSettings) -> int:
    """Return the number of coordinates of a mean."""
    n_features = math.prod(task.shape[1:])
    return min(settings.dimensions, len(task.validation_pixels) - 1, n_features)


def stated(task: ImageTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    """See ``Method.stated``."""
    codes = request.settings.release == "codes"
    return {
        "events": (_event(task, request),) if request.private else (),
        "noise_generator": "choices" if codes else "argmax",
    }


def _event(task: ImageTask, request: Request) -> PureQuery | GaussianQuery:
    scenario, n_cells = task.scenario, len(task.validation_pixels)
    claim = {"unit": scenario.unit, "relation": scenario.relation, "count": 1}
    if request.settings.release == "codes":
        reason = f"each class reports one of {n_cells} public cells by randomised response"
        return PureQuery(epsilon=request.epsilon, reason=reason, **claim)
    return GaussianQuery(
        sensitivity=2.0,
        noise_std=2 * gdp_noise(request.epsilon, 1, task.delta, "zero_out"),
        dimension=task.n_classes * _dimensions(task, request.settings),
        clipping="per_class",
        reason="the mean of one class, of norm at most 1, becomes any other",
        **claim,
    )


def _released(
    task: ImageTask,
    request: Request,
    book: Codebook,
    rows: np.ndarray,
    labels: np.ndarray,
    door: Door,
    query: Any,
) -> np.ndarray:
    """Return the (K,) cells of the classes.

    ``rows`` of n training pictures: nearness to the cells for ``codes``, features for ``means``.
    """
    if request.settings.release == "codes":
        nearest = _by_class(rows, labels, task.n_classes).argmax(axis=1)
        return door.respond([nearest], len(book.cells), [query])[0]
    public = book.cells.mean(axis=1)
    centre = public.mean(axis=0)
    count = _dimensions(task, request.settings)
    axes = np.linalg.svd(public - centre, full_matrices=False)[2][:count]
    scale = np.linalg.norm((public - centre) @ axes.T, axis=1).mean()
    means = _by_class(rows, labels, task.n_classes)
    cut, cells = (_in_ball((points - centre) @ axes.T / scale) for points in (means, public))
    (cut,) = door.gaussian(cut[None], [query])
    distances = np.square(cut[:, None] - cells).sum(axis=-1)
    door.public("distances", [distances])
    return distances.argmin(axis=1)


def _in_ball(rows: np.ndarray) -> np.ndarray:
    """Return rows clipped to norm at most 1."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)


def _noise(query: PureQuery | GaussianQuery | None) -> float:
    """Return the noise of a mean in units of its sensitivity; 0 for reports."""
    return query.noise_std / query.sensitivity if isinstance(query, GaussianQuery) else 0


METHODS = (
    Method(
        "class_codes",
        "codes of classes",
        run,
        ("classes",),
        settings=CodeSettings,
        data="images",
        stated=stated,
        fits_validation_labels=True,
        named=("release", "replaced"),
        assumptions=(COMPARED,),
        prepares="each picture is taken less its mean, scaled, and whitened by public pictures",
        summary="One noisy release of each class’s appearance; pictures are named by the nearest.",
    ),
)
