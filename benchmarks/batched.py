"""The project's own side: batches of replicas of the engine, and the pieces of their epochs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from timing import Side

from private_graphs.core.streams import Streams
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.mechanisms.door import Door
from private_graphs.methods.gcn_protocols import PAPER, GcnSettings, training_event
from private_graphs.training import engine
from private_graphs.training.blocks import build_structure
from private_graphs.training.gcn_protocol import GcnProtocol
from private_graphs.training.kernels import n_parameters

HIDDEN = 32
WHOLE_GRAPH_DP = replace(PAPER, message_passing="whole_graph")
"""Clipped training on the whole graph: the yardstick of the per-epoch sum."""


@dataclass(frozen=True)
class Training:
    """How the replicas of a case train."""

    protocol: GcnProtocol
    optimizer: str
    noise: float
    """Noise multiplier; 0: not private."""
    splits: int

    @property
    def title(self) -> str:
        """Name of the case: setting, protocol, optimizer."""
        setting = "DP full graph" if self.noise else "non-private"
        if self.splits > 1:
            setting = f"{'DP' if self.noise else 'non-private'}, {self.splits} splits"
        optimizer = {"sgd": "SGD", "adam": "Adam"}[self.optimizer]
        return f"{setting}, {self.protocol.name}, {optimizer}"


class Batched:
    """R replicas of one case in one batch, ready to run epochs and pieces of epochs."""

    def __init__(
        self, dataset: GraphDataset, training: Training, replicas: int, device: str = "cpu"
    ) -> None:
        self.training, self.replicas = training, replicas
        self.everyone = np.arange(replicas)
        streams = [Streams.of({"benchmark": seed}) for seed in range(replicas)]
        protocol, private = training.protocol, training.noise > 0
        settings = engine.EngineSettings(
            optimizer=training.optimizer,
            epochs=1,
            private=private,
            weight_decay=0.0 if private else 0.01,
            hidden=HIDDEN,
            validate_every_epoch=True,
            device=device,
        )
        self.structure = build_structure(
            dataset, protocol, splits=training.splits, train_fraction=1.0,
            validation_graph=protocol.private_selection_graph if private else protocol.test_graph,
            streams=[each.public for each in streams], hidden=HIDDEN, dtype=np.float32,
            join_validation=engine.joins_validation(protocol, settings, training.splits, 1.0),
        )  # fmt: skip
        given = GcnSettings(splits=training.splits, epochs=settings.epochs)
        event = training_event(given, protocol, training.noise) if private else None
        door = Door.of(streams)
        door.plan([(event,) if event else ()] * replicas)
        self.batch = engine._Batch(
            self.structure, protocol, settings,
            [engine.ReplicaSpec(each.public, 0.01) for each in streams],
            self.everyone, door.descent([event] * replicas, coins="order"),
        )  # fmt: skip
        self.batch.backend.prepare()
        self._always = np.full(replicas, np.nan)
        self._never = np.full(replicas, -np.inf)

    @property
    def side(self) -> Side:
        """Epochs with validation, as one side of a comparison."""
        return Side(((self.epoch, 1.0),), divisor=self.replicas)

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return 1 if self.batch.visits == "epoch_sum" else self.training.splits

    def epoch(self) -> None:
        """One epoch of all replicas, scored on the validation nodes."""
        self.train()
        self.validate()

    def train(self) -> None:
        """The steps of one epoch, any but the first (which alone drops out under ``released``)."""
        self.batch._epoch(self.everyone, 1, self._always)

    def visit(self) -> None:
        """The same without noise and update: a loss limit that no loss is below stops each step."""
        noise, kept = self.batch.backend.state.noise_std, self.batch.backend.state.noise_std.copy()
        noise[:] = 0  # else rows of weights that are read would get the noise they owe
        self.batch._epoch(self.everyone, 1, self._never)
        noise[:] = kept

    def forward(self) -> None:
        """The forward passes of one epoch alone, without dropout, all in one call."""
        parts = self.structure.parts
        self.batch.backend.evaluate(np.repeat(self.everyone, parts.shape[1]), parts.ravel())

    def validate(self) -> None:
        """Score the validation nodes, unless the epoch's own forward pass has done so."""
        if not self.structure.joined:
            self.batch.score(self.structure.validation)

    @property
    def parameters(self) -> int:
        """Parameters of one replica."""
        inputs = self.structure.inputs
        return n_parameters(inputs.n_features, inputs.n_hidden, inputs.n_classes)

    @property
    def updates(self) -> int:
        """Parameters that an epoch of one replica updates, counted once per step; mean replica.

        With noise each of them takes one Gaussian draw. Where noise waits until it is read, a step
        updates what it reads, and the validation after the epoch reads everything.
        """
        if not self.batch.rule.lazy:
            return self.steps * self.parameters
        inputs, blocks = self.structure.inputs, self.structure.blocks
        parts, weights = self.structure.parts.ravel(), inputs.n_features * HIDDEN
        rows = int((blocks.words_start[parts + 1] - blocks.words_start[parts]).sum())
        behind_w1 = self.steps * (self.parameters - weights)
        return rows * HIDDEN // self.replicas + behind_w1 + weights
