"""ProGAP: progressive training on noisy sums over neighbours; without sums, a perceptron.

Sajadmanesh & Gatica-Perez, WSDM 2024, Section 4, Equations 7-10, Algorithms 1 and 2. Stage s trains
bases 0…s and a head on features and the noisy sums of stages 1…s; then the output of its last base
is summed over neighbours, once, with noise, for all nodes. What a stage trains after its sums is
post-processing under ``links``, and DP-SGD under ``lists``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from private_graphs.mechanisms.door import Door
from private_graphs.methods import noisy_sums
from private_graphs.tasks.method import Outcome, Request
from private_graphs.tasks.tasks import NodeTask

if TYPE_CHECKING:
    import numpy as np

    from private_graphs.core.streams import Streams
    from private_graphs.training import stacks


class ProgapSettings(noisy_sums.SumsSettings):
    """Settings of ProGAP; the defaults are the authors' at edge level."""

    layers: int = Field(default=1, ge=1, le=2)
    """Number of layers of each base."""
    curves: Literal[True] | None = None
    """Whether training and validation accuracy of every epoch are kept. Under ``lists`` no
    mechanism covers them, and ``sound`` keeps none."""


class MlpSettings(ProgapSettings):
    """Settings of a perceptron of two hidden layers: ProGAP without sums."""

    hops: int = Field(default=0, ge=0, le=0)
    layers: int = Field(default=2, ge=1, le=2)


@dataclass(frozen=True)
class Stage:
    """Network of stage s: s + 1 parallel bases, their outputs concatenated, a head."""

    number: int
    layers: int
    n_features: int
    n_classes: int
    norm: stacks.Norm
    unit_rows: bool

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Parameter shapes of one replica."""
        k, h = self.number + 1, noisy_sums.WIDTH
        shapes, normed = noisy_sums.layer("first", self.n_features, h), ["first"]
        if self.number:
            shapes |= noisy_sums.layer("sums", self.number, h, h)
        if self.layers == 2:
            shapes |= noisy_sums.layer("second", k, h, h)
            normed.append("second")
        if self.norm != "none":
            shapes |= noisy_sums.norms(normed, k, h)
        return shapes | noisy_sums.layer("head", 1, k * h, self.n_classes)

    def bases(self, forward: stacks.Forward):
        """Return (R, s + 1, n, h): the outputs of all bases."""
        outputs = forward.features("first", "sums" if self.number else None)
        outputs = forward.norm("first.norm", self.norm, outputs, after_selu=True)
        if self.layers == 2:
            outputs = forward.linear("second", outputs)
            outputs = forward.norm("second.norm", self.norm, outputs, after_selu=True)
        return outputs

    def __call__(self, forward: stacks.Forward):
        """Return logits (R, n, C)."""
        return forward.linear("head", forward.joined(self.bases(forward), self.unit_rows))[:, 0]

    def grown(self, before: stacks.Stack | None, streams: Sequence[Streams]) -> stacks.Stack:
        """Return the initial parameters of this stage: its own base and head are new."""
        from private_graphs.training.stacks import Stack, initial, running

        shapes = self.shapes()
        tensors = initial(shapes, streams, self.number)
        statistics = running(shapes, len(streams)) if self.norm == "batch" else {}
        if before is not None:
            for old, new in ((before.parameters, tensors), (before.running, statistics)):
                for name, tensor in old.items():
                    if name in ("first.weight", "first.bias"):
                        new[name] = tensor
                    elif not name.startswith("head"):
                        new[name][:, : tensor.shape[1]] = tensor
        return Stack(tensors, statistics)


def planned_budget(task: NodeTask, settings: ProgapSettings | MlpSettings) -> noisy_sums.Budget:
    """Return what a run releases: a noisy sum and its training in each of hops + 1 stages."""
    return noisy_sums.budget_of(task, settings, settings.hops + 1)


def train(data: noisy_sums.SumsData, requests: Sequence[Request], door: Door) -> list[Outcome]:
    """Train requests that differ only in ε, learning rate and seed."""
    import torch

    from private_graphs.training import stacks

    task, settings = data.task, requests[0].settings
    budget = planned_budget(task, settings)
    trainer, sums = noisy_sums.planned(data, budget, requests, door, watches=bool(settings.curves))
    stage, stack, inputs = None, None, stacks.StackInputs(data.rows)
    for number in range(settings.hops + 1):
        if stage is not None:
            rows = last_base(stage, stack, inputs)
            new = torch.from_numpy(sums.release(number, rows))[:, None]
            hops = new if inputs.hops is None else torch.cat([inputs.hops, new], dim=1)
            inputs = stacks.StackInputs(data.rows, hops)
        stage = Stage(
            number,
            settings.layers,
            task.graph.n_features,
            task.n_classes,
            "layer" if trainer.lists else "batch",
            task.protocol.unit_rows and settings.hops > 0,
        )
        stack = stage.grown(stack, [request.streams for request in requests])
        trainer.fit(stage, stack, inputs)
    return trainer.answered(stage, stack, inputs)


def last_base(stage: Stage, stack: stacks.Stack, inputs: stacks.StackInputs) -> np.ndarray:
    """Return (R, N, h): evaluation outputs of the last base for all nodes."""
    import torch

    from private_graphs.training.stacks import Forward

    with torch.no_grad():
        return stage.bases(Forward(stack, inputs.view(), training=False))[:, -1].numpy()


METHODS = (
    noisy_sums.sums_method(
        "progap",
        "ProGAP",
        train,
        ("links", "lists"),
        settings=ProgapSettings,
        named=("hops", "layers"),
        stated=noisy_sums.stated_by(planned_budget),
        summary="Training in stages, each on a noisy sum over neighbours of the stage before.",
    ),
)
