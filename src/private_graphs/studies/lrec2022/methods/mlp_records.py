"""Perceptron on single records by DP-SGD with given noise, as in Table 4 of LREC 2022.

Igamberdiev & Habernal, LREC 2022, Table 4: 512 hidden units, dropout, plain SGD; the noise is given
and determines ε. Per-record clipping is Abadi et al., CCS 2016, Algorithm 1, and microbatches are
McMahan et al. 2018. Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from pydantic import Field

from private_graphs.core.errors import UsageError
from private_graphs.datasets.protocols import Protocol, by_name
from private_graphs.mechanisms.door import Door
from private_graphs.privacy.assumptions import HIDDEN_MASKS
from private_graphs.privacy.calibration import refuse_large_delta
from private_graphs.privacy.events import FullBatch, NoisyGradients, Poisson, Shuffled
from private_graphs.privacy.moments import (
    cancelling_moments_epsilon,
    moments_epsilon,
    moments_formula,
)
from private_graphs.tasks import method
from private_graphs.tasks.image_task import ImageTask
from private_graphs.training import mlp
from private_graphs.training.dpsgd import Watched

_DIFFERS = 5e-3
"""Difference from the formula at which the authors' accountant's value is reported too."""


class MlpRecordsSettings(method.Settings):
    """Settings of the perceptron; the defaults are the paper's."""

    lot_size: int = Field(default=600, ge=1)
    """Records of a minibatch; under Poisson sampling the average, and the public divisor of the
    sum."""
    noise_multiplier: float = Field(default=4.0, gt=0)
    """Noise of a step, in units of the clip norm."""
    epochs: int = Field(default=100, ge=1)
    hidden: int = Field(default=512, ge=1)
    learning_rate: float = Field(default=0.01, gt=0)
    dropout: float = Field(default=0.5, ge=0, lt=1)
    clip_norm: float = Field(default=1.0, gt=0)
    microbatch: int = Field(default=1, ge=1)
    """Number of records of a fixed public group whose mean gradient is clipped as one."""
    noise_on: Literal["lot", "record"] | None = None
    """Value that gets noise: the two branches of the authors' code (§4.9); None: the protocol's
    own."""


@dataclass(frozen=True, kw_only=True)
class MlpProtocol(Protocol):
    """How a perceptron was trained."""

    clipping: Literal["none", "per_record"]
    """``none``: the mean gradient of a minibatch is one sample, and is not clipped (§4.1)."""
    lots: Literal["shuffled", "poisson"]
    noise_on: Literal["lot", "record"] = "lot"
    """``record``: noise on every record's gradient, which is not clipped, then their mean."""
    hidden_layers: int
    dropout_epochs: int | None
    """Number of initial epochs with dropout; None: all."""


RELEASED = MlpProtocol(
    name="released",
    summary=(
        "what the authors' code does: noise on the mean gradient of a shuffled lot, not clipped; "
        "it stops early on test images"
    ),
    calibration="published",
    clipping="none",
    lots="shuffled",
    hidden_layers=2,
    dropout_epochs=1,
    stops_on_test=20,
)
RELEASED_RECORDS = replace(
    RELEASED,
    summary=(
        "the branch of the authors' code that its flag leaves out: noise on the gradient of every "
        "record of a shuffled lot, not clipped, then their mean; it stops early on test images"
    ),
    noise_on="record",
)

_PROTOCOLS = (
    RELEASED,
    MlpProtocol(
        name="paper",
        summary="what the paper's text says: clipped records in shuffled lots",
        calibration="published",
        clipping="per_record",
        lots="shuffled",
        hidden_layers=1,
        dropout_epochs=None,
    ),
    MlpProtocol(
        name="sound",
        summary="what can be proved: clipped records, each in a lot by a coin of its own",
        clipping="per_record",
        lots="poisson",
        hidden_layers=1,
        dropout_epochs=None,
    ),
)


def protocol_of(settings: MlpRecordsSettings, protocol: MlpProtocol) -> MlpProtocol:
    """Return the protocol with the noise of the settings; UsageError if it allows no choice."""
    if settings.noise_on in (None, protocol.noise_on):
        return protocol
    if protocol.clipping != "none":
        raise UsageError(
            f"noise_on: {settings.noise_on!r} asked of the protocol {protocol.name!r}, whose noise "
            f"is on a {protocol.noise_on}; only released has a choice: leave noise_on out"
        )
    return RELEASED_RECORDS


def planned(task: ImageTask, request: method.Request) -> tuple[NoisyGradients, ...]:
    """Return the planned event of a request."""
    if not request.private:
        return ()
    settings: MlpRecordsSettings = request.settings
    protocol, n_lots = protocol_of(settings, task.protocol), _n_lots(task, settings)
    noise = settings.noise_multiplier
    if protocol.noise_on == "record":
        noise /= math.sqrt(settings.lot_size)  # on the mean of a minibatch
    groups = -(-task.n_units // settings.microbatch)
    clipping = protocol.clipping
    if clipping == "per_record" and settings.microbatch > 1:
        clipping = "per_group"
    if n_lots == 1:
        sampling = FullBatch(groups)
    elif protocol.lots == "shuffled":
        sampling = Shuffled(n_lots)
    else:
        sampling = Poisson(settings.lot_size / task.n_units)
    return (
        NoisyGradients(
            clipping=clipping,
            clip_norm=settings.clip_norm,
            noise_multiplier=noise,
            releases=n_lots * settings.epochs,
            epochs=settings.epochs,
            sampling=sampling,
        ),
    )


def _n_lots(task: ImageTask, settings: MlpRecordsSettings) -> int:
    """Return the minibatches of an epoch; UsageError if the records cannot be divided so."""
    size, group = settings.lot_size, settings.microbatch
    if size > task.n_units or size % group:
        raise UsageError(
            f"lot_size is {size} with microbatch {group} and {task.n_units} training records; "
            "expected a multiple of microbatch, and at most as many as there are records"
        )
    return -(-task.n_units // size)


def claim(task: ImageTask, settings: MlpRecordsSettings) -> method.PrintedEpsilon | None:
    """Return the published ε of the noise: the moments formula with the paper's q and T.

    None if the protocol claims only what is proved.
    """
    if task.protocol.calibration != "published":
        return None
    rate, steps = settings.lot_size / task.n_units, _n_lots(task, settings) * settings.epochs
    noise, delta = settings.noise_multiplier, task.delta
    formula = moments_epsilon(noise, steps, rate, delta)
    printed = cancelling_moments_epsilon(noise, steps, rate, delta)
    differs = math.isfinite(printed) and abs(printed - formula) > _DIFFERS
    return method.PrintedEpsilon(
        formula, moments_formula(rate, steps), printed if differs else None
    )


def stated(
    task: ImageTask, request: method.Request, context: method.Context, chosen: Mapping
) -> dict[str, Any]:
    """See ``Method.stated``."""
    return {
        "events": planned(task, request),
        "claim": claim(task, request.settings) if request.private else None,
        "calibrated_for": None,
        "noise_generator": "numpy" if context.device == "cpu" else "philox_float64",
        "assumptions": (HIDDEN_MASKS,) if _hides_masks(task, request) else (),
        **_stopped(request.settings, task.protocol.stops_on_test),
    }


def _hides_masks(task: ImageTask, request: method.Request) -> bool:
    """Return whether a record's masks follow from who else joins a step, by secret coins."""
    settings: MlpRecordsSettings = request.settings
    coins = task.protocol.lots == "poisson" and _n_lots(task, settings) > 1
    return request.private and settings.dropout > 0 and coins and not request.streams.secret


def run(
    task: ImageTask, requests: Sequence[method.Request], door: Door, context: method.Context
) -> list[method.Outcome]:
    """Train every request; requests with equal settings train as one batch.

    Raises:
        UsageError: the records cannot be divided into minibatches of this size.
        UserError: the protocol claims a proof, and delta · records >= 1.
    """
    if task.protocol.calibration == "proved":
        refuse_large_delta(task.delta, task.n_units)
    answer, epochs = partial(_train, task), lambda request: request.settings.epochs
    return method.in_batches(
        requests, door, context, lambda request: (request.private, request.settings), answer, epochs
    )


def _train(
    task: ImageTask, requests: Sequence[method.Request], door: Door, context: method.Context
) -> list[method.Outcome]:
    """Answer requests with equal settings that are all private, or all non-private."""
    settings: MlpRecordsSettings = requests[0].settings
    private, protocol = requests[0].private, protocol_of(settings, task.protocol)
    _n_lots(task, settings)
    steps = _steps(settings, protocol, private)
    evaluated = np.concatenate([task.validation_pixels, task.test_pixels])
    patience = protocol.stops_on_test
    watched = patience and Watched(evaluated, task.stopping_labels, patience)
    hidden = (settings.hidden,) * protocol.hidden_layers
    net = mlp.Net((task.train_pixels.shape[1], *hidden, task.n_classes))
    events = [planned(task, request) for request in requests]
    door.plan(events)
    trained = mlp.train(
        net, steps, task.train_pixels, task.train_labels,
        [request.streams for request in requests],
        door.descent([plan[0] if plan else None for plan in events]), watched=watched,
        threads=context.threads, device=context.device, progress=context.progress,
    )  # fmt: skip
    outcomes = []
    for replica in trained:
        classes = mlp.predict(net, replica.parameters, evaluated)
        outcomes.append(
            method.Outcome.of(
                task,
                classes,
                measured={
                    "epochs": replica.epochs,
                    "noise_multiplier": settings.noise_multiplier if private else 0.0,
                },
            )
        )
    return outcomes


def _steps(settings: MlpRecordsSettings, protocol: MlpProtocol, private: bool) -> mlp.MlpTraining:
    """Return how a run trains."""
    clips = private and protocol.clipping == "per_record"
    return mlp.MlpTraining(
        epochs=settings.epochs,
        lot_size=settings.lot_size,
        lots=protocol.lots,
        learning_rate=settings.learning_rate,
        clip_norm=settings.clip_norm if clips else math.inf,
        dropout=settings.dropout,
        dropout_epochs=protocol.dropout_epochs,
        microbatch=settings.microbatch,
    )


def _stopped(settings: MlpRecordsSettings, patience: int | None) -> dict[str, Any]:
    """Return a statement's text on a number of epochs that labels of test images determine."""
    if patience is None:
        return {}
    return {
        "n_configurations": settings.epochs,
        "chosen_by": (
            "the loss of the last batch of test images, with their labels: the configurations are "
            f"the numbers of epochs, and training stops after {patience} in a row that do not "
            "lower it, so that scores on the same images are of a choice made on them"
        ),
        "public_facts": (
            "the labels of validation and test images, on which training stops early",
        ),
    }


METHODS = (
    method.Method(
        "mlp_records",
        "MLP, DP-SGD",
        run,
        ("records",),
        settings=MlpRecordsSettings,
        protocols=by_name(*_PROTOCOLS),
        data="images",
        noise_is_given=True,
        prepares="pixels are divided by 255",
        stated=stated,
        summary="Perceptron on single records by DP-SGD with given noise (MNIST).",
    ),
)
