"""Noisy sums of neighbours' labels, then a small network on them and on features by DP-SGD.

Each training node sends its label, as a one-hot row, to at most D receivers on its own list; the
sums are released once, with noise. One-hot rows are non-negative, so a replaced node changes the
sums by sqrt(2D), not by the 2·sqrt D of unit rows with any sign. A network that starts as "the
class of most neighbours" then learns what features add; sums and steps share one budget.
docs/methods.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from private_graphs.mechanisms.door import Door
from private_graphs.methods.noisy_sums import (
    PROTOCOLS,
    WIDTH,
    Budget,
    SumsData,
    SumsSettings,
    budget_of,
    layer,
    norms,
    planned,
    started,
    stated_by,
    sums_method,
)
from private_graphs.privacy.events import Event
from private_graphs.privacy.queries import GaussianQuery, PoissonSums
from private_graphs.tasks.method import Outcome, Request
from private_graphs.tasks.tasks import NodeTask

if TYPE_CHECKING:
    from private_graphs.training import stacks

RATIO = 0.25
"""Noise of the sums, in units of their sensitivity, divided by the noise multiplier of a step."""
_START = 1.0
"""Initial weight of a sum for its class, in units of the noise."""
_WITHOUT_NOISE = 0.6
"""Divisor of the sums without DP, in units of the sensitivity."""


class LabelSettings(SumsSettings):
    """Settings of the network: one sum, large minibatches, few epochs."""

    hops: int = Field(default=1, ge=1, le=1)
    epochs: int = Field(default=10, ge=1)
    lot: int = Field(default=1024, ge=1)


@dataclass(frozen=True)
class _LabelBudget(Budget):
    """Budget of one sum of labels and the steps of one training run."""

    @property
    def sensitivity(self) -> float:
        """Sensitivity of the sum: D receivers each lose one unit of a class, gain one, or both."""
        return math.sqrt(2 * self.degree)

    def noise_std(self, scale: float) -> float:
        """Noise standard deviation of the sum."""
        return scale * RATIO * self.sensitivity

    def events(self, scale: float) -> tuple[Event, ...]:
        """See ``Budget``."""
        words = {"unit": self.unit, "relation": "replace"}
        return (
            GaussianQuery(
                count=self.hops,
                sensitivity=self.sensitivity,
                noise_std=self.noise_std(scale),
                reason=f"a training node adds one to a class of the {self.degree} receivers at "
                "most that it listed itself; replaced, it takes these away and adds others, in "
                "other classes perhaps; no other list depends on it",
                clipping="row",
                **words,
            ),
            PoissonSums(
                count=self.steps,
                noise_multiplier=scale,
                clip_norm=1.0,
                rate=self.rate,
                reason="one training node changes its own clipped gradient alone, which reads its "
                "features, its label and the noisy sums",
                clipping="per_record",
                **words,
            ),
        )


@dataclass(frozen=True)
class Network:
    """A hidden layer on features, concatenated with the sums, and a linear layer on both."""

    n_features: int
    n_classes: int
    norm: stacks.Norm = "layer"

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Parameter shapes of one replica."""
        classes = self.n_classes
        shapes = layer("first", self.n_features, WIDTH) | norms(["first"], 1, WIDTH)
        return shapes | layer("head", 1, WIDTH + classes, classes)

    def __call__(self, forward: stacks.Forward):
        """Return logits (R, n, C)."""
        import torch

        inner = forward.norm("first.norm", self.norm, forward.features("first"), after_selu=True)
        return forward.linear("head", torch.cat([inner, forward.view.hops], dim=-1))[:, 0]

    def started(self, streams: Sequence) -> stacks.Stack:
        """Return parameters that predict the class of most neighbours."""
        import torch

        stack = started(self, streams)
        head = stack.parameters["head.weight"]  # a view
        head.zero_()
        head[:, 0, WIDTH:] = _START * torch.eye(self.n_classes)
        stack.parameters["head.bias"].zero_()
        return stack


def _budget(task: NodeTask, settings: LabelSettings) -> _LabelBudget:
    return _LabelBudget(**vars(budget_of(task, settings, 1)))


def _train(data: SumsData, requests: Sequence[Request], door: Door) -> list[Outcome]:
    """Train requests that differ only in ε, learning rate and seed."""
    import torch

    from private_graphs.training import stacks

    task, settings = data.task, requests[0].settings
    budget = _budget(task, settings)
    trainer, sums = planned(data, budget, requests, door)
    sent = np.zeros((len(requests), task.graph.n_nodes, task.n_classes), np.float32)
    sent[:, data.train, task.graph.labels[data.train]] = 1
    noisy = torch.from_numpy(sums.release(1, sent))
    divisors = [
        budget.noise_std(scale) if scale else _WITHOUT_NOISE * budget.sensitivity
        for scale in trainer.scales
    ]
    noisy /= torch.tensor(divisors, dtype=torch.float32)[:, None, None]
    inputs = stacks.StackInputs(data.rows, noisy[:, None])
    network = Network(task.graph.n_features, task.n_classes)
    stack = network.started([request.streams for request in requests])
    trainer.fit(network, stack, inputs)
    return trainer.answered(network, stack, inputs)


METHODS = (
    sums_method(
        "label_sums",
        "label sums",
        _train,
        ("lists",),
        settings=LabelSettings,
        protocols={"sound": PROTOCOLS["sound"]},
        stated=stated_by(_budget),
        summary="Noisy sums of the neighbours’ labels, then a small network on them by DP-SGD.",
    ),
)
