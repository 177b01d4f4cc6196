"""Model inversion as a method: attacks the models of another job, and measures the reconstructions.

The attack reads only released parameters (``unit_gradients.TrainedModel``) and public pictures, so
its row has the privacy cost of the attacked model. Distances to private pictures evaluate the
attack: no guarantee covers them, and under ``sound`` pictures are compared with public ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from private_graphs.core.errors import UserError
from private_graphs.datasets.protocols import Protocol, by_name
from private_graphs.mechanisms.door import Door
from private_graphs.methods.unit_gradients import TrainedModel, models
from private_graphs.tasks.image_task import ImageTask
from private_graphs.tasks.method import Context, Method, Outcome, Request, Settings, picture_memory

_SHOWN = 10
"""Number of stored pictures, of the first classes."""
_TOGETHER = 250_000
"""Approximate number of pixels that are attacked as one batch: what fits into a cache."""
_JUDGE_COPIES = 16
"""Number of copies of each public picture for the judge, if there are few."""
_MANY = 20
"""Number of public pictures of a class above which the judge needs no copies."""
_KERNEL, _RIDGE = 4.0, 0.01
"""Settings of the judge: exponent of the kernel on unit rows, and the ridge."""
_COMPARED = (
    "exponent and contrast of the attack with a prior were compared on models without DP of AT&T's "
    "faces; on these faces that choice is not priced"
)
_SAME_MODEL = (
    "the model that is attacked may be released beside: a picture is computed from it and public "
    "pictures alone, and reveals nothing more"
)
_PRIVATE = (
    "distances to private training pictures evaluate the attack: they are a query that no "
    "guarantee covers"
)


class InversionSettings(Settings):
    """Settings of an attack; the defaults are those of Algorithm 4 on faces."""

    attack: Literal["original", "enhanced", "prior"] = "enhanced"
    attack_steps: int = Field(default=100, ge=1)
    step: float = Field(default=0.05, gt=0)
    penalty: Literal["none", "l1_sum", "l1_mean", "btv"] = "btv"
    weight: float = Field(default=0.001, ge=0)
    """λ of the penalty."""
    box: bool = True
    """Whether pixels are ½(tanh w + 1), which keeps them in [0, 1]; otherwise any number."""
    metric: Literal["euclidean", "ssim"] = "ssim"
    parts: int | None = Field(default=None, ge=1)
    """Parts of a class in the attacked model, if the needed group has several; the attack does
    not read it."""


@dataclass(frozen=True, kw_only=True)
class InversionProtocol(Protocol):
    """Pictures with which reconstructions are compared."""

    compared: Literal["training", "held out"]


PROTOCOLS = (
    InversionProtocol(
        name="paper",
        summary="distances to private training images, as printed: an evaluation, not private",
        calibration="published",
        compared="training",
    ),
    InversionProtocol(
        name="sound",
        summary="distances to public images of the class that no model has seen",
        compared="held out",
    ),
)


def run(
    task: ImageTask, requests: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Attack the model of every request; UserError if the needed job has none for it."""
    known, attacked = _models(context), []
    for request in requests:
        if len(request.known) < len(task.validation_labels):
            raise UserError(
                "model inversion reads the labels of all validation pictures; expected no "
                "validation_labels in its run group"
            )
        attacked.append(_model_of(known, request))
    pairs = zip(requests, attacked, strict=True)
    door.inherit([model.events if request.private else () for request, model in pairs])
    scale = _Scale.of(task, requests[0].settings)
    outcomes: list[Outcome] = []
    size = max(1, _TOGETHER // (task.n_classes * task.train_pixels.shape[1]))
    for begin in range(0, len(requests), size):
        part = slice(begin, begin + size)
        outcomes += _attacked(task, requests[part], attacked[part], scale)
        context.report(len(outcomes), len(requests))
    seed = min(request.seed for request in requests)
    return [
        outcome if request.seed == seed else _without_pictures(outcome)
        for request, outcome in zip(requests, outcomes, strict=True)
    ]


def _models(context: Context) -> dict[tuple[float, int], TrainedModel]:
    """Return the models of the needed jobs by ε and seed."""
    return {
        (model.epsilon, model.seed): model
        for artifacts in context.artifacts.values()
        for model in models(artifacts)
    }


def _model_of(known: Mapping[tuple[float, int], TrainedModel], request: Request) -> TrainedModel:
    model = known.get((request.epsilon, request.seed))
    if model is None:
        raise UserError(
            f"no model at epsilon = {request.epsilon:g}, seed {request.seed} among the jobs "
            "that this one needs; expected needs: {model: GROUP}, whose runs have the same "
            "epsilons and seeds"
        )
    return model


def stated(task: ImageTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    """See ``Method.stated``; the release is the model of the needed job."""
    model = _model_of(_models(context), request)
    prior = request.settings.attack == "prior"
    return {
        "events": model.events if request.private else (),
        "claim": model.claim,
        "public_facts": (_PRIVATE,) if task.protocol.compared == "training" else (),
        "assumptions": (_SAME_MODEL, *([_COMPARED] if prior else [])) if request.private else (),
        "n_units": model.n_units,
        "calibrated_for": None if task.protocol.calibration == "published" else "asked",
    }


def _without_pictures(outcome: Outcome) -> Outcome:
    return replace(outcome, artifacts={"distances": outcome.artifacts["distances"]})


def _attacked(
    task: ImageTask, requests: Sequence[Request], attacked: Sequence[TrainedModel], scale: _Scale
) -> list[Outcome]:
    """Attack some models as one batch; all requests have equal settings."""
    from private_graphs.studies.inversion.methods.reconstruct import attack, sureness

    settings: InversionSettings = requests[0].settings
    net = attacked[0].net
    parameters = np.stack([model.parameters for model in attacked])
    public = task.validation_pixels.astype(np.float32) / 255, task.validation_labels
    pictures = attack(net, parameters, settings, public)
    sure = sureness(net, parameters, pictures)
    outcomes = []
    for model, images, confidence in zip(attacked, pictures, sure, strict=True):
        pixels = np.concatenate([task.validation_pixels, task.test_pixels])
        classes = net.predict(model.parameters, pixels)
        measured, distances = scale.measure(images)
        outcomes.append(
            Outcome.of(
                task,
                classes,
                measured={
                    "noise_multiplier": model.noise_multiplier,
                    "confidence": float(confidence.mean()),
                    "mean_pixel": float(images.mean()),
                    "compared": task.protocol.compared,
                    **measured,
                },
                artifacts={
                    "distances": distances.astype(np.float32),
                    "pictures": np.round(255 * images[:_SHOWN]).astype(np.uint8),
                    "real": scale.real[:_SHOWN],
                },
            )
        )
    return outcomes


@dataclass(frozen=True)
class _Scale:
    """Measures of reconstructions for a task."""

    references: Any
    judge: Any
    nothing: np.ndarray
    """(3, K) distances of black, grey and the public mean to each class."""
    real: np.ndarray
    """(K, h, w) uint8: a picture of each class that no model has seen."""

    @classmethod
    def of(cls, task: ImageTask, settings: InversionSettings) -> _Scale:
        from private_graphs.studies.inversion.methods.reconstruct import without_model
        from private_graphs.studies.inversion.methods.similarity import References

        shape = task.shape[1:]
        public = task.validation_pixels.reshape(-1, *shape)
        pixels, labels = task.validation_pixels, task.validation_labels
        absent = sorted(set(range(task.n_classes)) - set(labels))
        if absent:
            raise UserError(
                f"classes {', '.join(map(str, absent))} have no validation image; expected one of "
                "each class, to compare reconstructions with"
            )
        if task.protocol.compared == "training":
            pixels, labels = task.train_pixels, task.train_labels
        references = References(settings.metric, pixels.reshape(-1, *shape) / 255, labels)
        models = without_model(public.reshape(len(public), -1) / 255, *shape)
        nothing = [
            references.nearest(np.broadcast_to(picture, (task.n_classes, *shape)))
            for picture in models.values()
        ]
        first = [np.flatnonzero(task.validation_labels == k)[0] for k in range(task.n_classes)]
        judge = _judge(public, task.validation_labels)
        return cls(references, judge, np.array(nothing), public[first])

    def measure(self, pictures: np.ndarray) -> tuple[dict[str, float], np.ndarray]:
        """Return means over the classes, and (2, K) distances: with and without a model."""
        distances = self.references.nearest(pictures)
        named = self.judge(pictures)
        nothing = self.nothing.min(axis=0)
        return {
            "distance": float(distances.mean()),
            "no_model_distance": float(nothing.mean()),
            "advantage": float((nothing - distances).mean()),
            "black_distance": float(self.nothing[0].mean()),
            "re_identification": float(self.references.identified(pictures).mean()),
            "judge_accuracy": float((named == np.arange(len(named))).mean()),
        }, np.stack([distances, nothing, self.nothing[0]])


def _judge(public: np.ndarray, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return an independent classifier of pictures, fitted on public ones (varied copies if few).

    Kernel ridge regression on the classes, of centred pictures scaled to norm 1.
    """
    from private_graphs.datasets.photographs import varied
    from private_graphs.training.picture_nets import standardised

    classes = np.arange(labels.max() + 1)
    if len(labels) < _MANY * len(classes):
        public = varied(public, _JUDGE_COPIES).reshape(-1, *public.shape[1:])
        labels = np.repeat(labels, _JUDGE_COPIES)
    rows = standardised(public.reshape(len(public), -1) / 255)

    def kernel(points: np.ndarray) -> np.ndarray:
        return np.exp(_KERNEL * (points @ rows.T - 1))

    ridge = kernel(rows) + _RIDGE * np.eye(len(rows))
    weights = np.linalg.solve(ridge, (labels[:, None] == classes) - 1 / len(classes))
    return lambda pictures: (
        kernel(standardised(pictures.reshape(len(pictures), -1))) @ weights
    ).argmax(axis=1)


METHODS = (
    Method(
        "model_inversion",
        "model inversion",
        run,
        ("records", "classes", "subclasses"),
        settings=InversionSettings,
        protocols=by_name(*PROTOCOLS),
        data="images",
        memory=picture_memory,
        stated=stated,
        named=("attack", "penalty"),
        prepares="pictures are shown to the model as those that it was trained on",
        summary="Attack: makes pictures of each class from a trained model.",
    ),
)
