"""DP-SGD on records, on whole classes, or on parts of classes; what it releases can be attacked.

Zhang, Emory thesis 2021, ch. 4: Algorithm 5 clips the mean gradient of each class, or of each
subclass (k-means within the class), that joins a step. Section numbers refer to
``docs/privacy.md``; proofs are in ``docs/studies/inversion.md``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from private_graphs.core.errors import UserError
from private_graphs.datasets.protocols import Protocol, by_name
from private_graphs.mechanisms.door import Door
from private_graphs.privacy.assumptions import HIDDEN_DRAWS
from private_graphs.privacy.calibration import pld_noise, refuse_large_delta
from private_graphs.privacy.events import Event, NoisyGradients, Poisson
from private_graphs.privacy.queries import PoissonSums
from private_graphs.tasks.image_task import ImageTask
from private_graphs.tasks.method import (
    Context,
    Method,
    Outcome,
    PrintedEpsilon,
    Request,
    Settings,
    picture_memory,
)

if TYPE_CHECKING:
    from private_graphs.training.picture_nets import PictureNet
    from private_graphs.training.unit_sgd import UnitTraining

_PUBLIC_SEED = 20216
"""Seed of public rules: hashed parts, and initial centroids of k-means."""
_LLOYD = 30
"""Maximum number of k-means rounds."""
_PRIVATE = "the pictures of parts are means of private images: no guarantee covers them"


class UnitSettings(Settings):
    """Settings of DP-SGD on units."""

    network: Literal["softmax", "cnn"] = "softmax"
    learning_rate: float = Field(default=0.3, gt=0)
    clip_norm: float = Field(default=1.0, gt=0)
    rate: float = Field(default=0.2, gt=0, le=1)
    """Probability with which a unit joins a private step."""
    steps: int = Field(default=100, ge=1)
    """Private steps, if no printed noise determines their number."""
    plain_steps: int = Field(default=1500, ge=1)
    """Number of steps without DP."""
    plain_lot: int = Field(default=256, ge=1)
    """Average number of records of a step without DP."""
    printed: dict[str, tuple[float, int] | tuple[float, int, Literal["undoubled"]]] = {}
    """Printed ε → noise multiplier, and the steps at which the thesis' accountant gives this ε;
    ``undoubled``: computed without the doubled shift of the thesis' Lemma 3."""
    draws: int = Field(default=0, ge=0)
    """Number of records drawn from each class or part that joins a step; 0: all of them."""
    parts: int = Field(default=50, ge=1)
    """Number of parts of a class (subclasses)."""
    cells: Literal["centroids", "hash"] = "centroids"
    """Rule of public parts: nearest public centroid, or a keyed hash of the record's number."""
    copies: int = Field(default=1, ge=1)
    """Number of copies of each photograph, including itself, if the data contain photographs
    only."""
    replaced: bool = False
    """Whether the images of one class (the seed modulo the number of classes) are replaced by
    public ones of the next class: the neighbour that audits class level
    (``docs/studies/inversion.md``)."""
    examples: bool = False
    """Whether a picture of each part is stored: its k-means centroid."""


@dataclass(frozen=True, kw_only=True)
class UnitProtocol(Protocol):
    """How a model was trained."""

    standardise: bool
    """Whether the network sees centred pictures scaled to norm 1."""
    makes_copies: bool
    """Whether varied copies are made of training photographs, a record being a photograph with
    its copies; otherwise the data contain copies already."""
    parts: Literal["fitted", "public"]
    """Parts of classes by k-means on private images, or by a public rule."""


PROTOCOLS = (
    UnitProtocol(
        name="paper",
        summary="what the thesis says: its noise, its accountant, k-means on private images",
        calibration="published",
        standardise=False,
        makes_copies=False,
        parts="fitted",
    ),
    UnitProtocol(
        name="sound",
        summary="what can be proved: noise for the ε that is asked, parts by a public rule",
        standardise=True,
        makes_copies=True,
        parts="public",
        prepares="each picture is taken less its own mean and scaled to norm 1; where the settings "
        "ask for copies of a photograph, they are made of it alone and count as one record with it",
    ),
)


# --- what is private ---------------------------------------------------------------------------


def n_units(task: ImageTask, settings: UnitSettings) -> int:
    """Return the number of units: records, classes or parts of classes."""
    parts = settings.parts if task.scenario.unit == "subclass" else 1
    return task.n_units * parts


def unit_of_records(task: ImageTask, settings: UnitSettings, known: np.ndarray) -> np.ndarray:
    """Return (n,) the unit of each record; -1 for one without a label at class level.

    ``known`` are the validation records whose labels are public.
    """
    n, unit = len(task.train_labels), task.scenario.unit
    if unit == "record":
        return np.arange(n)
    if unit == "class":
        return task.train_labels
    if _hashed(task, settings):
        parts = hashed_parts(n, settings.parts)
    else:
        parts = np.zeros(n, dtype=np.int64)
        for label, centroids in _centroids_of(task, settings, known).items():
            members = np.flatnonzero(task.train_labels == label)
            parts[members] = _nearest(task.train_pixels[members], centroids)
    return np.where(task.train_labels >= 0, task.train_labels * settings.parts + parts, -1)


def by_centroids(task: ImageTask, settings: Any) -> bool:
    """Return whether an image's nearest public centroid determines its part."""
    public = getattr(task.protocol, "parts", "fitted") == "public"
    return public and getattr(settings, "cells", "hash") == "centroids"


def _hashed(task: ImageTask, settings: UnitSettings) -> bool:
    return task.protocol.parts == "public" and settings.cells == "hash"


def _centroids_of(
    task: ImageTask, settings: UnitSettings, known: np.ndarray
) -> dict[int, np.ndarray]:
    """Return (at most parts, d) centroids of each class, of private or of public images."""
    pixels, labels = task.train_pixels, task.train_labels
    if task.protocol.parts == "public":
        pixels, labels = task.validation_pixels[known], task.validation_labels[known]
    return {
        int(label): _centroids(pixels[labels == label], settings.parts)
        for label in np.unique(labels[labels >= 0])
    }


def hashed_parts(count: int, parts: int) -> np.ndarray:
    """Return (count,) the part of each record, which depends on the record's number alone."""
    return np.random.RandomState(_PUBLIC_SEED).randint(0, parts, size=count)


def _centroids(pixels: np.ndarray, parts: int) -> np.ndarray:
    """Return (at most parts, d) k-means centroids (Lloyd), initialised with random images."""
    from sklearn.cluster import KMeans

    means = KMeans(
        min(parts, len(pixels)), init="random", n_init=1, max_iter=_LLOYD, random_state=_PUBLIC_SEED
    )
    return means.fit(_grey(pixels)).cluster_centers_


def _nearest(pixels: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Return (n,) the number of the nearest centroid."""
    distances = np.square(centroids).sum(axis=1) - 2 * _grey(pixels) @ centroids.T
    return distances.argmin(axis=1)


def _grey(pixels: np.ndarray) -> np.ndarray:
    return pixels.astype(np.float32) / np.float32(255)


# --- noise and events --------------------------------------------------------------------------


def _plan(task: ImageTask, request: Request) -> UnitTraining:
    """Return how the replica of a request trains."""
    from private_graphs.training.unit_sgd import UnitTraining

    settings: UnitSettings = request.settings
    if not request.private:
        records = len(task.train_labels) * _copies(task, settings)
        rate = min(1.0, settings.plain_lot / records)
        return UnitTraining(settings.plain_steps, rate, settings.learning_rate)
    _, steps = _noise(task, request)
    return UnitTraining(
        steps, settings.rate, settings.learning_rate, settings.clip_norm,
        _draws(task, settings),
    )  # fmt: skip


def _draws(task: ImageTask, settings: UnitSettings) -> int:
    """Return the number of records that a private step draws from each unit; 0: all of them."""
    return 0 if task.scenario.unit == "record" else settings.draws


def _noise(task: ImageTask, request: Request, noise: float | None = None) -> tuple[float, int]:
    """Return noise multiplier and steps: the printed ones, or calibrated for the requested ε.

    ``noise`` is the multiplier of a run that was calibrated before.
    """
    settings: UnitSettings = request.settings
    if task.protocol.calibration == "proved":
        steps = settings.steps
        refuse_large_delta(task.delta, n_units(task, settings))
        if noise is None:
            noise = pld_noise(request.epsilon, steps, settings.rate, task.delta, "replace")
        return noise, steps
    key = f"{request.epsilon:g}"
    if key not in settings.printed:
        raise UserError(
            f"printed: no noise for epsilon = {key}; expected one of "
            f"{', '.join(settings.printed) or 'none: name noise and steps'}"
        )
    return settings.printed[key][:2]


def _event(task: ImageTask, settings: UnitSettings, noise: float, steps: int) -> Event:
    """Return the event of private training."""
    unit = task.scenario.unit
    if unit == "record":
        return NoisyGradients(
            clipping="per_group" if _copies(task, settings) > 1 else "per_record",
            clip_norm=settings.clip_norm,
            noise_multiplier=noise,
            releases=steps,
            epochs=max(1, round(steps * settings.rate)),
            sampling=Poisson(settings.rate),
        )
    words = {"class": "a class", "subclass": "one part of one class"}[unit]
    return PoissonSums(
        unit=unit,
        relation=task.scenario.relation,
        count=steps,
        reason=f"the mean gradient of {words} is clipped as one and reads no other record",
        clipping="per_class",
        noise_multiplier=noise,
        clip_norm=settings.clip_norm,
        rate=settings.rate,
        fitted_terms=unit == "subclass" and task.protocol.parts == "fitted",
    )


def stated(task: ImageTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    """See ``Method.stated``; ``artifacts`` are what an attack gets besides the parameters."""
    settings, private = request.settings, request.private
    published = task.protocol.calibration == "published"
    noise, steps = 0.0, settings.plain_steps
    if private:
        noise, steps = _noise(task, request, chosen.get("noise_multiplier"))
    events = (_event(task, settings, noise, steps),) if private else ()
    claim = None
    if private and published:
        undoubled = len(settings.printed[f"{request.epsilon:g}"]) > 2
        words = f"as printed; T = {steps} gives it by {_BY}{_UNDOUBLED * undoubled}"
        claim = PrintedEpsilon(request.epsilon, words)
    drawn = private and _draws(task, settings) > 0 and not request.streams.secret
    net = network(task, settings)
    about = {
        "epsilon": "inf" if math.isinf(request.epsilon) else request.epsilon,
        "seed": request.seed,
        "network": net.name,
        "height": net.height,
        "width": net.width,
        "n_classes": net.n_classes,
        "standardise": net.standardise,
        "noise_multiplier": noise,
        "n_units": n_units(task, settings),
        "claim": asdict(claim) if claim else None,
        "event": {type(event).__name__: asdict(event) for event in events},
    }
    return {
        "events": events,
        "assumptions": (HIDDEN_DRAWS,) if drawn else (),
        "claim": claim,
        "artifacts": {"about": np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)},
        "public_facts": (
            (_PRIVATE,) if settings.examples and task.protocol.parts == "fitted" else ()
        ),
        "n_units": n_units(task, settings),
        "calibrated_for": None if published else "asked",
    }


# --- training ----------------------------------------------------------------------------------


def _copies(task: ImageTask, settings: UnitSettings) -> int:
    return settings.copies if task.protocol.makes_copies else 1


def network(task: ImageTask, settings: UnitSettings) -> PictureNet:
    """Return the network for the pictures of a task; UserError for colour pictures."""
    from private_graphs.training.picture_nets import NETS

    channels, height, width = task.shape
    if channels != 1:
        raise UserError(f"pictures have {channels} channels; expected grey pictures, with one")
    kind = NETS[settings.network]
    return kind(height, width, task.n_classes, task.protocol.standardise)


def run(
    task: ImageTask, requests: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Train every request separately; data that all requests share are prepared once."""
    from private_graphs.training.unit_sgd import Units, train

    prepared: dict[tuple[str, bytes], _Prepared] = {}
    plans = [_plan(task, request) for request in requests]
    events = [stated(task, request, context, {})["events"] for request in requests]
    door.plan(events)
    total, done = sum(plan.count for plan in plans), [0] * len(requests)

    def one(index: int) -> Outcome:
        request, steps = requests[index], plans[index]
        ready = prepared[_key(request)]
        labels, unit = ready.labels, ready.unit
        if request.settings.replaced:
            labels, unit = with_replaced(labels, unit, task.n_classes, request.seed)
        if request.private:
            units = Units.of(unit, n_units(task, request.settings))
        else:  # every record is a unit of its own
            units = Units.of(np.where(unit >= 0, np.arange(len(unit)), -1), len(unit))

        def report(step: int) -> None:
            done[index] = step
            context.report(sum(done), total)

        lane_door = door.of_lanes([index])
        descent = lane_door.descent([*events[index][:1]] or [None], coins="joins")
        parameters = train(
            ready.net, steps, ready.rows, labels, units, request.streams, descent, report
        )
        return _outcome(task, request, ready, steps, parameters)

    for request in requests:
        if _key(request) not in prepared:
            prepared[_key(request)] = _prepared(task, request)
    with ThreadPoolExecutor(max(1, context.threads)) as pool:
        return list(pool.map(one, range(len(requests))))


def _key(request: Request) -> tuple[str, bytes]:
    return request.settings.model_dump_json(), request.known.tobytes()


@dataclass(frozen=True)
class _Prepared:
    """Data that all replicas share. If a class is to be replaced, public records follow the n
    private ones, in no unit and with labels below -1."""

    net: PictureNet
    rows: np.ndarray
    """(n, d) rows as the network sees them."""
    labels: np.ndarray
    unit: np.ndarray
    """(n,) the private unit of each record; -1: in no unit."""
    examples: np.ndarray | None
    """(K, parts, h, w) uint8 centroids of the parts, padded with black pictures."""


def _prepared(task: ImageTask, request: Request) -> _Prepared:
    from private_graphs.datasets.photographs import varied

    settings: UnitSettings = request.settings
    net, copies, shape = network(task, settings), _copies(task, settings), task.shape[1:]

    def copied(pixels: np.ndarray) -> np.ndarray:
        if copies == 1:
            return pixels
        return varied(pixels.reshape(-1, *shape), copies).reshape(len(pixels) * copies, -1)

    pixels, labels = copied(task.train_pixels), task.train_labels
    unit = unit_of_records(task, settings, request.known)
    if settings.replaced:
        if task.scenario.unit != "class":
            raise UserError(f"replaced: a {task.scenario.unit} is no class; expected false, or "
                            "scenario: classes")  # fmt: skip
        public, known = task.validation_pixels[request.known], request.known
        pixels = np.concatenate([pixels, copied(public)])
        labels = np.concatenate([labels, -2 - task.validation_labels[known]])
        unit = np.concatenate([unit, np.full(len(known), -1)])
    examples = None
    if settings.examples:
        if task.scenario.unit != "subclass" or _hashed(task, settings):
            raise UserError("examples: only parts by centroids have one; expected scenario: "
                            "subclasses and cells: centroids")  # fmt: skip
        examples = np.zeros((task.n_classes, settings.parts, *shape), np.uint8)
        for label, centroids in _centroids_of(task, settings, request.known).items():
            examples[label, : len(centroids)] = np.round(255 * centroids).reshape(-1, *shape)
    return _Prepared(
        net, net.prepared(pixels), np.repeat(labels, copies), np.repeat(unit, copies), examples
    )


def with_replaced(
    labels: np.ndarray, unit: np.ndarray, n_classes: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (n,) labels and units after the records of class ``seed`` modulo K were replaced.

    The new ones are the public records of the next class, whose label k is given as -2 - k.
    """
    label = seed % n_classes
    fresh = labels == -2 - (label + 1) % n_classes
    gone = (labels == label) | ((labels < -1) & ~fresh)
    labels, unit = (np.where(fresh, label, np.where(gone, -1, array)) for array in (labels, unit))
    return labels, unit


def _outcome(
    task: ImageTask, request: Request, ready: _Prepared, steps: UnitTraining, parameters: np.ndarray
) -> Outcome:
    net = ready.net
    pixels = np.concatenate([task.validation_pixels, task.test_pixels])
    classes = net.predict(parameters, pixels)
    noise = _noise(task, request)[0] if request.private else 0.0
    extras = {} if ready.examples is None else {"examples": ready.examples}
    return Outcome.of(
        task,
        classes,
        measured={"noise_multiplier": noise, "steps_taken": steps.count},
        artifacts={"parameters": parameters, **extras},
    )


_BY = "a Rényi accountant of the thesis' pair"
_UNDOUBLED = ", its shift not doubled"


@dataclass(frozen=True)
class TrainedModel:
    """A trained model as its artifacts describe it: what an attack gets."""

    net: PictureNet
    parameters: np.ndarray
    """(P,) parameters."""
    epsilon: float
    seed: int
    noise_multiplier: float
    n_units: int
    events: tuple[Event, ...]
    claim: PrintedEpsilon | None


def models(artifacts: Mapping[str, np.ndarray]) -> list[TrainedModel]:
    """Return the models among the artifacts of a job of this method.

    They have no parameters if only the artifacts of ``stated`` exist.
    """
    none = np.empty(0, np.float32)
    return [
        _model(json.loads(bytes(array)), artifacts.get(name.replace("/about", "/parameters"), none))
        for name, array in artifacts.items()
        if name.endswith("/about")
    ]


def _model(about: Mapping[str, Any], parameters: np.ndarray) -> TrainedModel:
    from private_graphs.training.picture_nets import NETS

    net = NETS[about["network"]](
        about["height"], about["width"], about["n_classes"], about["standardise"]
    )
    events = []
    for kind, fields in about["event"].items():
        if kind == "PoissonSums":
            events.append(PoissonSums(**fields))
        else:
            sampling = Poisson(**fields.pop("sampling"))
            events.append(NoisyGradients(**fields, sampling=sampling))
    return TrainedModel(
        net=net,
        parameters=parameters,
        epsilon=float(about["epsilon"]),
        seed=about["seed"],
        noise_multiplier=about["noise_multiplier"],
        n_units=about["n_units"],
        events=tuple(events),
        claim=PrintedEpsilon(**about["claim"]) if about["claim"] else None,
    )


METHODS = (
    Method(
        "unit_gradients",
        "DP-SGD by units",
        run,
        ("records", "classes", "subclasses"),
        settings=UnitSettings,
        protocols=by_name(*PROTOCOLS),
        data="images",
        memory=picture_memory,
        stated=stated,
        prepares="pixels are divided by 255",
        summary="DP-SGD for records, for whole classes, or for parts of classes.",
    ),
)
