"""The event of a private run from what its training did, held against what was planned.

A statement is priced for the planned event, before training. Here the event is built anew from the
counts of the engine (``training.engine.Released``); where the two differ the price is of something
else than what was released, and the run must not be reported.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from private_graphs.errors import UserError
from private_graphs.privacy.events import FullBatch, NoisyGradients, Poisson, Sampling, Shuffled

if TYPE_CHECKING:
    from private_graphs.training.dpsgd import Released as Records
    from private_graphs.training.engine import Released


class ReleaseMismatch(RuntimeError):
    """Training released something else than its statement is priced for: a bug, not a user's."""


def _sampling(released: Released) -> Sampling:
    """How the parts joined the steps, from the kind of schedule and the parts that steps saw."""
    sizes = {
        "epoch_sum": (released.parts, released.parts),
        "shuffled": (1, 1),
        "poisson": (released.fewest, released.most),
    }[released.visits]
    if (released.fewest, released.most) != sizes or released.most > released.parts:
        raise ReleaseMismatch(
            f"steps of the schedule {released.visits} saw {released.fewest} to {released.most} of "
            f"{released.parts} parts; expected {sizes[0]} to {sizes[1]}: the price does not hold"
        )
    if released.visits == "epoch_sum":
        return FullBatch(parts=released.parts)
    if released.visits == "shuffled":
        return Shuffled(parts=released.parts)
    return Poisson(rate=1 / released.parts)


def emitted_event(released: Released, unit_norm: float, relabel_touches: int) -> NoisyGradients:
    """Return the event that one replica's training made.

    ``unit_norm`` is the norm in which the noise is told where nothing was clipped;
    ``relabel_touches`` how many parts one node can touch, which the choice of training nodes
    decides, not the training. Raises ReleaseMismatch for steps without noise and for counts that no
    event describes.
    """
    if released.bare_steps:
        raise ReleaseMismatch(
            f"{released.bare_steps} steps were taken without noise; expected none: the price does "
            "not hold"
        )
    clipped = math.isfinite(released.clip_norm)
    norm = released.clip_norm if clipped else unit_norm
    try:
        return NoisyGradients(
            clipping="gradient_global" if clipped else "none",
            clip_norm=norm,
            noise_multiplier=released.noise_std / norm,
            releases=released.noisy_steps,
            epochs=released.epochs,
            sampling=_sampling(released),
            relabel_touches=relabel_touches,
        )
    except UserError as error:
        raise ReleaseMismatch(f"no event describes what training did: {error}") from error


def check_released(planned: NoisyGradients, released: Released) -> NoisyGradients:
    """Return the event that training made; ReleaseMismatch unless it is the planned one.

    Poisson steps are one for each part and epoch in the plan, so that their number is compared like
    any other.
    """
    return _as_planned(planned, emitted_event(released, planned.clip_norm, planned.relabel_touches))


def _as_planned(planned: NoisyGradients, made: NoisyGradients) -> NoisyGradients:
    """Return ``made``; ReleaseMismatch unless it is ``planned``."""
    if math.isclose(made.noise_multiplier, planned.noise_multiplier, rel_tol=1e-12):
        made = replace(made, noise_multiplier=planned.noise_multiplier)
    differing = [
        f"{field.name} is {getattr(made, field.name)}, planned {getattr(planned, field.name)}"
        for field in fields(NoisyGradients)
        if getattr(made, field.name) != getattr(planned, field.name)
    ]
    if differing:
        raise ReleaseMismatch(
            f"training released something else than was priced: {'; '.join(differing)}"
        )
    return made


def check_records(
    planned: NoisyGradients, released: Records, may_stop: bool = False
) -> NoisyGradients:
    """As ``check_released`` for per-record training; its Poisson draws are held against their rate.

    With ``may_stop`` training may end after any epoch, and is priced for all that were planned. The
    largest and smallest lots are compared with what independent coins give, six standard
    deviations allowed.
    """
    if released.bare_steps:
        raise ReleaseMismatch(
            f"{released.bare_steps} steps were taken without noise; expected none: the price does "
            "not hold"
        )
    steps, n_groups, rate = released.noisy_steps, released.n_groups, released.rate
    spread = math.sqrt(n_groups * rate * (1 - rate))
    if released.lots == "poisson":
        drawn = abs(released.joined - steps * n_groups * rate) <= 6 * spread * math.sqrt(steps)
        fits = drawn and (released.most > released.fewest or spread * steps < 30)
        sampling: Sampling = Poisson(rate)
    else:
        fits = released.visits == {1}
        full = released.lots == "full"
        sampling = FullBatch(n_groups) if full else Shuffled(steps // max(1, released.epochs))
    if not fits:
        raise ReleaseMismatch(
            f"lots of {released.fewest} to {released.most} of {n_groups}, {released.joined} in "
            f"{steps} steps, {sorted(released.visits)} visits an epoch, are not {released.lots}: "
            "the price does not hold"
        )
    clipped = math.isfinite(released.clip_norm)
    norm = released.clip_norm if clipped else planned.clip_norm
    made = NoisyGradients(
        clipping="none"
        if not clipped
        else "per_record"
        if released.microbatch == 1
        else "per_group",
        clip_norm=norm,
        noise_multiplier=released.noise_std / norm,
        releases=steps,
        epochs=released.epochs,
        sampling=sampling,
    )
    if may_stop and made.epochs < planned.epochs:
        per_epoch = planned.releases // planned.epochs
        _as_planned(replace(planned, epochs=made.epochs, releases=per_epoch * made.epochs), made)
        return planned
    return _as_planned(planned, made)
