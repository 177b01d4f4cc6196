"""What a user would write: plain loops of one replica, of PyTorch Geometric and of Opacus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, islice, repeat

import numpy as np
import torch
from batched import Training
from timing import Side, seconds_of
from torch.nn import functional
from torch_geometric.data import Data

from private_graphs.core.streams import Streams
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.mechanisms.door import Door
from private_graphs.training.engine import EngineSettings, ReplicaSpec
from private_graphs.training.mlp import MlpTraining, Net
from private_graphs.training.reference import Replica


class PlainLoop(Replica):
    """The reference engine without door and Opacus, one epoch at a time; validation after each.

    With parts there is one step per part: ``induced`` False runs the whole graph and masks the loss
    (as the released code does), True runs the part's induced subgraph. Features are dense, and so
    is noise: every step draws it for every parameter.
    """

    def __init__(
        self, dataset: GraphDataset, training: Training, dtype: str, *, induced: bool = False,
        device: str = "cpu",
    ) -> None:  # fmt: skip
        features = dataset.features
        if not isinstance(features, np.ndarray):
            info = dataset.info.model_copy(update={"feature_kind": "dense"})
            dataset = replace(dataset, features=features.to_scipy().toarray(), info=info)
        protocol = replace(
            training.protocol, visits="shuffled", test_graph="whole_graph",
            message_passing="induced" if induced else "whole_graph",
        )  # fmt: skip
        settings = EngineSettings(
            training.optimizer, 1, training.noise > 0, dtype=dtype, device=device,
            weight_decay=0.0 if training.noise else 0.01,
        )  # fmt: skip
        streams = Streams.of({"benchmark": 0})
        super().__init__(
            dataset, protocol, settings, ReplicaSpec(streams.public, 0.01),
            Door.of([streams]).descent([None]), splits=training.splits,
            validation_graph="whole_graph",
        )  # fmt: skip
        self.splits, self.noise = training.splits, training.noise
        self.rest = chain.from_iterable(each() for each in repeat(self.visits))

    def step(self, parts: Sequence[Data]) -> None:
        """Take a step of plain PyTorch on one part."""
        [part], optimizer = parts, self.optimizer.original_optimizer
        optimizer.zero_grad()
        scores = self.model(part.x, part.edge_index)
        functional.cross_entropy(scores, part.y, ignore_index=-1).backward()
        if self.noise:
            if self.protocol.clipping == "global_norm":
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            for each in self.model.parameters():
                each.grad += self.noise * torch.randn_like(each)
        optimizer.step()

    def steps(self, count: int) -> None:
        """Make the next ``count`` steps, one part each."""
        self.model.train(self.protocol.dropout == "every_epoch")
        for parts in islice(self.rest, count):
            self.step(parts)

    def validate(self) -> None:
        """Score the validation nodes."""
        self.scored(self.validation)

    def epoch(self) -> None:
        """Train one epoch and score the validation nodes."""
        self.steps(self.splits)
        self.validate()


def plain_side(loop: PlainLoop, longest: float) -> Side:
    """A plain loop to time, warmed up.

    Where an epoch would take more than ``longest`` seconds, a tenth of its steps is timed and
    scaled: all its steps do the same work.
    """
    loop.steps(1)
    loop.validate()
    if loop.splits < 10 or loop.splits * seconds_of(lambda: loop.steps(1)) <= longest:
        return Side(((loop.epoch, 1.0),))
    count = loop.splits // 10
    pieces = ((lambda: loop.steps(count), loop.splits / count), (loop.validate, 1.0))
    return Side(pieces, note=f"{count} of {loop.splits} steps, scaled")


def opacus_epoch(
    net: Net,
    steps: MlpTraining,
    noise_multiplier: float,
    rows: np.ndarray,
    labels: np.ndarray,
    device: str,
) -> Callable[[], object]:
    """Return an epoch of DP-SGD as users of Opacus write it, of one replica."""
    from opacus import GradSampleModule  # takes seconds to import
    from opacus.optimizers import DPOptimizer

    pixels = torch.from_numpy(rows).to(device).float() / 255
    classes = torch.from_numpy(labels).to(device)
    d, hidden, k = net.sizes
    layers = (torch.nn.Linear(d, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, k))
    model = GradSampleModule(torch.nn.Sequential(*layers).to(device))
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=steps.learning_rate),
        noise_multiplier=noise_multiplier, max_grad_norm=steps.clip_norm,
        expected_batch_size=steps.lot_size,
    )  # fmt: skip
    share = steps.lot_size / len(rows)

    def epoch() -> None:
        for _ in range(len(rows) // steps.lot_size):
            lot = torch.rand(len(rows), device=device).lt(share).nonzero()[:, 0]
            optimizer.zero_grad()
            functional.cross_entropy(model(pixels[lot]), classes[lot]).backward()
            optimizer.step()

    return epoch
