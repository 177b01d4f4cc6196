"""GAP: an encoder of features, noisy sums of its normalised rows, a classifier on all of them.

Sajadmanesh, Shamsabadi, Bellet & Gatica-Perez, USENIX Security 2023, Section 5, with the networks
and the grid of ProGAP's code. Rows are scaled to norm 1 after the noise too, for the classifier.
Both trainings are post-processing under ``links``, and DP-SGD under ``lists``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from private_graphs.mechanisms.door import Door
from private_graphs.methods.noisy_sums import (
    WIDTH,
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
from private_graphs.tasks.method import Outcome, Request

if TYPE_CHECKING:
    from private_graphs.training import stacks

_budget = partial(budget_of, stages=2)


@dataclass(frozen=True)
class Encoder:
    """Two layers on the features, whose normalised output is the embedding; then a head."""

    n_features: int
    n_classes: int
    norm: stacks.Norm

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Parameter shapes of one replica."""
        shapes = layer("first", self.n_features, WIDTH) | layer("second", 1, WIDTH, WIDTH)
        if self.norm != "none":
            shapes |= norms(["first", "second"], 1, WIDTH)
        return shapes | layer("head", 1, WIDTH, self.n_classes)

    def embedding(self, forward: stacks.Forward):
        """Return (R, 1, n, h) unit rows."""
        from torch.nn.functional import normalize

        inner = forward.norm("first.norm", self.norm, forward.features("first"), after_selu=True)
        return normalize(forward.linear("second", inner), dim=-1)

    def __call__(self, forward: stacks.Forward):
        """Return logits (R, n, C)."""
        from torch.nn.functional import selu

        inner = selu(forward.norm("second.norm", self.norm, self.embedding(forward)))
        return forward.linear("head", inner)[:, 0]


@dataclass(frozen=True)
class GapClassifier:
    """A linear layer for each hop, concatenated, a head."""

    n_hops: int
    """Number of hops, including the embedding itself."""
    n_classes: int
    norm: stacks.Norm

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Parameter shapes of one replica."""
        joined, shapes = self.n_hops * WIDTH, layer("sums", self.n_hops, WIDTH, WIDTH)
        if self.norm != "none":
            shapes |= norms(["joined"], 1, joined)
        return shapes | layer("head", 1, joined, self.n_classes)

    def __call__(self, forward: stacks.Forward):
        """Return logits (R, n, C)."""
        from torch.nn.functional import selu

        side = forward.joined(forward.linear("sums", forward.view.hops), normalise=True)
        return forward.linear("head", selu(forward.norm("joined.norm", self.norm, side)))[:, 0]


def _unit(rows: np.ndarray) -> np.ndarray:
    norms = np.sqrt(np.square(rows).sum(-1, keepdims=True))
    return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)


def _train(data: SumsData, requests: Sequence[Request], door: Door) -> list[Outcome]:
    """Train requests that differ only in ε, learning rate and seed."""
    import torch

    from private_graphs.training import stacks

    task, settings = data.task, requests[0].settings
    trainer, sums = planned(data, _budget(task, settings), requests, door)
    streams = [request.streams for request in requests]
    norm = "none" if trainer.lists else "batch"
    encoder = Encoder(task.graph.n_features, task.n_classes, norm)
    stack, inputs = started(encoder, streams, 0), stacks.StackInputs(data.rows)
    trainer.fit(encoder, stack, inputs)
    with torch.no_grad():
        forward = stacks.Forward(stack, inputs.view(), training=False)
        rows = [encoder.embedding(forward)[:, 0].numpy()]
    for hop in range(1, settings.hops + 1):
        rows.append(_unit(sums.release(hop, rows[-1])))
    inputs = stacks.StackInputs(data.rows, torch.from_numpy(np.stack(rows, axis=1)))
    classifier = GapClassifier(settings.hops + 1, task.n_classes, norm)
    stack = started(classifier, streams, 1)
    trainer.fit(classifier, stack, inputs)
    return trainer.answered(classifier, stack, inputs)


METHODS = (
    sums_method(
        "gap",
        "GAP",
        _train,
        ("links", "lists"),
        settings=SumsSettings,
        named=("hops",),
        stated=stated_by(_budget),
        summary="Noisy sums over neighbours, hop by hop, and a classifier on all of them.",
    ),
)
