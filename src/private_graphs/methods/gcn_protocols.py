"""The three protocols of the LREC 2022 GCN as values, and the noise, events and claims that follow.

Trainer and noise depend on a protocol's fields, never on its name. Source: Igamberdiev & Habernal,
LREC 2022, Table 3 (noise) and Section 4 (accounting). Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from private_graphs.core.errors import UsageError
from private_graphs.privacy.accountants import price
from private_graphs.privacy.calibration import gdp_noise, pld_noise
from private_graphs.privacy.events import FullBatch, NoisyGradients, Poisson, Sampling, Shuffled
from private_graphs.tasks.method import PrintedEpsilon, Settings
from private_graphs.training.gcn_protocol import GcnProtocol

RELEASED = GcnProtocol(
    name="released",
    summary="what the authors' published code does: nothing is clipped, edges cross the splits",
    clipping="none",
    message_passing="whole_graph",
    visits="shuffled",
    test_graph="whole_graph",
    private_selection_graph="whole_graph",
    dropout="first_epoch",
    stopped_weights="last",
    unlabelled="class_zero",
    calibration="published",
    subsampling="stratified",
    random_baseline="without_last_class",
    inference="leaks",
)

PAPER = GcnProtocol(
    name="paper",
    summary="what the paper's text says: one global clip, induced parts, the paper's accounting",
    clipping="global_norm",
    message_passing="induced",
    visits="shuffled",
    test_graph="whole_graph",
    private_selection_graph="evaluated_mask",
    dropout="every_epoch",
    stopped_weights="best_validation",
    unlabelled="ignored",
    calibration="published",
    subsampling="stratified",
    random_baseline="all_classes",
    inference="leaks",
)

SOUND = GcnProtocol(
    name="sound",
    summary="what can be proved: node-level replace, calibrated and scored without leaks",
    clipping="global_norm",
    message_passing="induced",
    visits="epoch_sum",
    test_graph="evaluated_mask",
    private_selection_graph="evaluated_mask",
    dropout="every_epoch",
    stopped_weights="best_validation",
    unlabelled="ignored",
    calibration="proved",
    subsampling="keyed_coin",
    random_baseline="all_classes",
    inference="inductive_disjoint",
)

SOUND_POISSON = replace(
    SOUND, summary="as sound, with Poisson-sampled parts in place of the per-epoch sum",
    visits="poisson",
)  # fmt: skip

PROTOCOLS: dict[str, GcnProtocol] = {rules.name: rules for rules in (RELEASED, PAPER, SOUND)}

UNIT, RELATION = "node", "replace"
PRINTED_EPOCHS = {"sgd": 2000, "adam": 500}
"""Number of epochs in the paper, by optimizer."""
LEARNING_RATES = {"sgd": (0.01,), "adam": (0.01, 0.1, 1.0, 10.0, 50.0, 100.0)}
"""The paper's grids for private training; validation nodes choose."""
PRINTED_NOISE = {
    "sgd": {2: 112, 5: 48, 10: 26, 137: 4},
    "adam": {2: 56, 5: 24, 10: 13, 137: 2},
}
"""Noise printed in Table 3 of the paper (full graph, delta 1e-5), by nominal ε."""
PRINTED_DELTA = 1e-5
NOMINAL = {137: 136.51}
"""Rounded ε in the paper, with the value for which noise is calibrated."""
_DIFFERS = 1e-6
_RELABEL_TOUCHES = (1, 3, 4)
"""Parts that one relabelled node can touch after 0, 1 or 2 draws per class (§3)."""


class GcnSettings(Settings):
    """Settings of the paper's GCN."""

    optimizer: Literal["sgd", "adam"] = "adam"
    splits: int = Field(default=1, ge=1)
    """Number of random parts of the training graph."""
    train_fraction: float = Field(default=1.0, gt=0, le=1)
    visits: Literal["protocol", "epoch_sum", "poisson"] = "protocol"
    """``protocol``: the protocol's own; the others are the two choices of ``sound`` with splits."""
    learning_rate: float = Field(default=0.01, gt=0)
    epochs: int = Field(default=500, ge=1)
    noise_multiplier: float | None = Field(default=None, gt=0)
    """Given noise, which replaces calibration."""
    clip_norm: float = Field(default=1.0, gt=0)
    weight_decay: float = Field(default=0.01, ge=0)
    """Weight decay, in non-private runs only."""
    hidden: int = Field(default=32, ge=1)
    dropout: float = Field(default=0.5, ge=0, lt=1)
    patience: int | None = Field(default=20, ge=1)
    """Epochs without a better validation loss before a non-private run stops; None: never."""
    dtype: Literal["float32", "float64"] = "float32"
    engine: Literal["reference"] | None = None
    """``reference``: PyTorch Geometric and Opacus alone, one replica after the other; None: the
    compiled engine."""
    partition: str | None = None
    """Hash of a partition that somebody gave (``core.splits``); None: random parts."""


def protocol_of(settings: GcnSettings, protocol: GcnProtocol) -> GcnProtocol:
    """Return the protocol with the visits of the settings; UsageError without a choice."""
    if settings.visits != "protocol" and protocol.calibration != "proved":
        raise UsageError(
            f"visits: {settings.visits!r} asked of the protocol {protocol.name!r}, whose own are "
            f"{protocol.visits!r}; only sound has a choice: leave visits out"
        )
    if settings.visits != "protocol" and settings.splits == 1:
        raise UsageError(
            f"visits: {settings.visits!r} of one part; leave visits out, or give splits"
        )
    if settings.visits == "poisson":
        return SOUND_POISSON
    return protocol


def calibrated_for(epsilon: float) -> float:
    """Return the ε for which noise is calibrated: 136.51 for the nominal 137, else ``epsilon``."""
    return NOMINAL.get(epsilon, epsilon)


def printed_noise(epsilon: float, settings: GcnSettings, delta: float) -> float | None:
    """Return the noise of Table 3 for these settings on the full graph; None without one."""
    whole = settings.splits == 1 and delta == PRINTED_DELTA
    if not whole or settings.epochs != PRINTED_EPOCHS[settings.optimizer]:
        return None
    noise = PRINTED_NOISE[settings.optimizer].get(epsilon)
    return None if noise is None else float(noise)


def noise_multiplier(
    epsilon: float, settings: GcnSettings, protocol: GcnProtocol, delta: float
) -> float:
    """Return the noise multiplier of one step, in units of the clip norm; 0 without DP.

    Published protocols use the value in Table 3 if there is one, else the moments formula with q =
    1/s and T = s·E.
    """
    if math.isinf(epsilon):
        return 0.0
    if settings.noise_multiplier is not None:
        return settings.noise_multiplier
    splits, epochs, target = settings.splits, settings.epochs, calibrated_for(epsilon)
    if protocol.calibration == "published":
        printed = printed_noise(epsilon, settings, delta)
        if printed is not None:
            return printed
        from private_graphs.privacy.moments import moments_noise

        return moments_noise(target, splits * epochs, 1 / splits, delta)
    if protocol.visits == "poisson" and splits > 1:
        return pld_noise(target, splits * epochs, 1 / splits, delta, RELATION)
    return gdp_noise(target, epochs, delta, RELATION)


def training_event(
    settings: GcnSettings, protocol: GcnProtocol, noise: float, node_sample: str | None = None
) -> NoisyGradients:
    """Return the event of a private run: noisy gradients, one release per step.

    ``node_sample`` is how the training nodes of the dataset itself were sampled, if they were
    (``DatasetInfo.node_sample``).
    """
    splits, epochs = settings.splits, settings.epochs
    sampling: Sampling
    if splits == 1 or protocol.visits == "epoch_sum":
        sampling, releases = FullBatch(parts=splits), epochs
    elif protocol.visits == "shuffled":
        sampling, releases = Shuffled(parts=splits), splits * epochs
    else:
        sampling, releases = Poisson(rate=1 / splits), splits * epochs
    draws = (node_sample == "stratified") + (
        protocol.subsampling == "stratified" and settings.train_fraction < 1
    )
    return NoisyGradients(
        clipping="gradient_global" if protocol.clipping == "global_norm" else "none",
        clip_norm=settings.clip_norm,
        noise_multiplier=noise,
        releases=releases,
        epochs=epochs,
        sampling=sampling,
        relabel_touches=_RELABEL_TOUCHES[draws] if splits > 1 else 1,
    )


def completed(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return settings with the paper's epochs, and the learning rates to choose among."""
    optimizer = GcnSettings.model_validate(settings).optimizer
    rates = LEARNING_RATES[optimizer]
    several = len(rates) > 1 and "learning_rate" not in settings
    epochs = {"epochs": PRINTED_EPOCHS[optimizer]}
    return {**epochs, **settings}, {"learning_rate": rates} if several else {}


def epsilon_of_noise(settings: GcnSettings, protocol: GcnProtocol, delta: float) -> float:
    """Return the ε that the protocol assigns to the noise of ``settings``: published or proved."""
    protocol, noise = protocol_of(settings, protocol), settings.noise_multiplier
    if protocol.calibration == "published":
        from private_graphs.privacy.moments import moments_epsilon

        rate, steps = 1 / settings.splits, settings.splits * settings.epochs
        return moments_epsilon(noise, steps, rate, delta)
    return price(training_event(settings, protocol, noise), UNIT, RELATION, delta).epsilon


def claim(
    settings: GcnSettings, protocol: GcnProtocol, noise: float, delta: float
) -> PrintedEpsilon | None:
    """Return the published ε of a noise; for unclipped training also the ε of the authors' code.

    None if the protocol claims only what is proved.
    """
    if protocol.calibration != "published":
        return None
    from private_graphs.privacy import moments

    rate, steps = 1 / settings.splits, settings.splits * settings.epochs
    published = moments.moments_epsilon(noise, steps, rate, delta)
    authors: dict[str, Any] = {}
    if protocol.clipping == "none":
        printed = moments.cancelling_moments_epsilon(noise, steps, rate, delta)
        if math.isfinite(printed) and abs(printed - published) > _DIFFERS:
            authors = {"authors_epsilon": printed}
    return PrintedEpsilon(published, moments.moments_formula(rate, steps), **authors)
