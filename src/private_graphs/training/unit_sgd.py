"""DP-SGD on units of records: a class, a part of a class, a photograph with its copies, a record.

Zhang, Emory thesis 2021, Algorithm 5: in every step each unit joins by an independent coin; the
mean gradient of a joined unit's records is clipped; the sum gets Gaussian noise and is divided by a
public number. A unit without records contributes zero, and a step without a joined unit is noise
alone. Units of one record each give DP-SGD of Abadi et al. (2016).

Sums are float64, and noise is added before anything is rounded to float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from private_graphs.core.streams import PublicStreams
from private_graphs.mechanisms.descent import Descent
from private_graphs.training.dpsgd import Sgd, descend, minibatches
from private_graphs.training.picture_nets import Groups, PictureNet


@dataclass(frozen=True)
class Units:
    """Assignment of n records to U units."""

    records: np.ndarray
    """(n,) records, grouped by unit."""
    begins: np.ndarray
    """(U + 1,) where each unit's records begin."""

    @classmethod
    def of(cls, unit: np.ndarray, n_units: int) -> Units:
        """Build from (n,) unit numbers of records; -1: in no unit."""
        order = np.argsort(unit, kind="stable")
        order = order[unit[order] >= 0]
        counts = np.bincount(unit[order], minlength=n_units)
        return cls(order, np.concatenate([[0], np.cumsum(counts)]))

    @property
    def count(self) -> int:
        """Number of units U."""
        return len(self.begins) - 1

    def groups(self, joined: np.ndarray, drawn: np.ndarray | None = None) -> Groups:
        """Return the records of the units ``joined``: all of each, or a sample from each.

        ``drawn`` (joined units, sample) are uniform numbers in [0, 1). Sampling is with
        replacement, so that all groups have equal size; the draws do not depend on the records'
        contents, and the clipped mean still depends on its own unit alone.
        """
        begins = self.begins[joined]
        sizes = self.begins[joined + 1] - begins
        mask = sizes > 0
        if drawn is not None:
            offsets = (drawn * sizes[:, None]).astype(np.int64)
            weights = np.where(mask[:, None], np.full(offsets.shape, 1 / drawn.shape[1]), 0.0)
        else:
            most = int(sizes.max(initial=1))
            offsets = np.tile(np.arange(most), (len(joined), 1))
            weights = np.where(offsets < sizes[:, None], 1 / np.maximum(sizes, 1)[:, None], 0.0)
            offsets = np.minimum(offsets, np.maximum(sizes - 1, 0)[:, None])
        records = self.records if len(self.records) else np.zeros(1, np.int64)  # with weight 0
        places = np.minimum(begins[:, None] + offsets, len(records) - 1)
        return Groups(records[places], weights)


@dataclass(frozen=True)
class UnitTraining:
    """Training settings of one replica."""

    count: int
    rate: float
    """Probability with which each unit joins a step."""
    learning_rate: float
    clip_norm: float = math.inf
    """Clip norm of mean gradients; infinity: no clipping."""
    draws: int = 0
    """Number of records sampled from each joined unit; 0: all of them."""

    def divisor(self, n_units: int) -> float:
        """Return the public divisor of sums: the expected number of units that join."""
        return self.rate * n_units


def train(
    net: PictureNet,
    steps: UnitTraining,
    rows: np.ndarray,
    labels: np.ndarray,
    units: Units,
    streams: PublicStreams,
    descent: Descent,
    report: Callable[[int], None] = lambda step: None,
) -> np.ndarray:
    """Train one replica on n prepared rows; return its (P,) float32 parameters.

    ``labels`` (n,) int64, -1 for a record without a label. ``descent`` tosses the coins of units
    and adds the noise; ``streams`` draw initial weights, and records from units.
    """
    descent.check_clip(steps.clip_norm)
    records, parameters = streams.generator("records"), net.start(streams.generator("initial"))
    of_all: np.ndarray | None = None

    def sampled(joined: np.ndarray) -> np.ndarray:
        """Return uniform numbers (joined units, draws); of each unit its own if places are public.

        A replay computes a step more than once: it draws the numbers of a step once.
        """
        nonlocal of_all
        if not descent.public_places:
            return records.random((len(joined), steps.draws))
        if of_all is None:
            of_all = records.random((units.count, steps.draws))
        return of_all[joined]

    def clipped(joined: Sequence[np.ndarray]) -> np.ndarray:
        [members] = joined
        numbers = sampled(members) if steps.draws else None  # so many, whoever joins
        if not len(members):
            return np.zeros((1, net.n_parameters))
        groups = units.groups(members, numbers)
        return net.gradient_sum(parameters, rows, labels, groups, steps.clip_norm)[None]

    drawn = minibatches(descent, units.count, 0, "poisson", steps.rate)
    optimizer = Sgd(steps.learning_rate / steps.divisor(units.count))
    for step in descend(
        parameters[None], clipped, descent, optimizer, steps.count, drawn, units.count
    ):
        of_all = None
        report(step + 1)
    return parameters
