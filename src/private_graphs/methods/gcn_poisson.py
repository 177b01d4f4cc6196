"""Two-layer GCN with splits, tuned: Poisson-sampled splits, and the code shared with epoch sums.

Engine, clipping and privacy cost are those of the ``sound`` protocol (Igamberdiev & Habernal, LREC
2022, Section 3; docs/privacy.md §3): each part is the graph that its training nodes induce, no edge
joins training and public nodes, and predictions use the graph of all public nodes. A fixed rule
derives the settings from public numbers; no label of a public node is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse

from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.mechanisms.door import Door
from private_graphs.methods.gcn import memory_of_run
from private_graphs.methods.gcn_protocols import SOUND_POISSON, GcnSettings
from private_graphs.methods.text_gradients import signal
from private_graphs.privacy.calibration import gdp_noise, pld_noise
from private_graphs.privacy.events import FullBatch, NoisyGradients, Poisson
from private_graphs.tasks.graph_task import UNIT_ROWS, GraphTask
from private_graphs.tasks.method import CONSTANTS, Context, Method, Outcome, Request, in_batches
from private_graphs.training.gcn_protocol import GcnProtocol

if TYPE_CHECKING:
    from private_graphs.datasets.spec import GraphSize
    from private_graphs.training.blocks import Structure

_HIDDEN = 32
_TYPE: Literal["float32"] = "float32"
_CLIP_NORM = 1.0
LITTLE_SIGNAL = 120.0
"""Signal n·μ/K below which more epochs only require more noise."""
_CHOSEN_BY = "nothing: the settings follow from the public sizes and the budget by a fixed rule"
_PARTITION = "the partition into parts, drawn without looking at the graph"


@dataclass(frozen=True)
class Tuning:
    """Training settings of one method's replicas; no dropout, clip norm 1."""

    splits: int
    epochs: int
    optimizer: Literal["sgd", "adam"]
    learning_rate: float


@dataclass(frozen=True)
class ProvedGcn:
    """Trainer of the GCN of one protocol with the settings of ``rule``."""

    protocol: GcnProtocol
    rule: Callable[[int, float], Tuning]
    """Callable: (number of training nodes, signal n·μ/K of ``text_gradients``) → settings."""

    def run(
        self, task: GraphTask, requests: Sequence[Request], door: Door, context: Context
    ) -> list[Outcome]:
        """Answer every request, in order; requests with equal settings train as one batch."""
        return in_batches(
            requests, door, context, partial(self._tuning, task), partial(self._train, task),
            lambda request: self._tuning(task, request).epochs,
        )  # fmt: skip

    def _tuning(self, task: GraphTask, request: Request) -> Tuning:
        size = signal(task.n_units, task.n_classes, request.epsilon, task.delta)
        return self.rule(task.n_units, size)

    def _train(
        self, task: GraphTask, requests: Sequence[Request], door: Door, context: Context
    ) -> list[Outcome]:
        """Answer requests with equal settings, as one batch."""
        from private_graphs.training import engine

        tuning = self._tuning(task, requests[0])
        structure = self.structure(task, tuning, requests)
        planned = [self._event(tuning, request, task.delta) for request in requests]
        door.plan([(event,) if event else () for event in planned])
        replicas = [engine.ReplicaSpec(each.streams, tuning.learning_rate) for each in requests]
        batch = engine.EngineSettings(
            optimizer=tuning.optimizer,
            epochs=tuning.epochs,
            private=True,  # clipped at every epsilon, also without noise
            clip_norm=_CLIP_NORM,
            hidden=_HIDDEN,
            dropout=0.0,
            dtype=_TYPE,
        )
        descent = door.descent(planned, coins="order")
        trained = engine.train(
            structure, self.protocol, batch, replicas, descent, progress=context.progress
        )
        settings = {**asdict(tuning), "clip_norm": _CLIP_NORM, "hidden": _HIDDEN}
        return [
            Outcome.of(task, each.astype(np.int64), settings=settings)
            for each in trained.test_predictions
        ]

    def memory(self, settings: Any, size: GraphSize, runs: int) -> int:
        """See ``Method.memory``."""
        own = GcnSettings(hidden=_HIDDEN, dtype=_TYPE, splits=2)
        return runs * memory_of_run(own, size)

    def stated(
        self, task: GraphTask, request: Request, context: Context, chosen: Mapping
    ) -> dict[str, Any]:
        """See ``Method.stated``."""
        event = self._event(self._tuning(task, request), request, task.delta)
        return {
            "events": (event,) if event else (),
            "chosen_by": _CHOSEN_BY,
            "public_facts": (_PARTITION,),
            "noise_generator": f"philox_{_TYPE}",
        }

    def structure(self, task: GraphTask, tuning: Tuning, requests: Sequence[Request]) -> Structure:
        """Return the blocks of all replicas; replicas share them if every node is its own part."""
        from private_graphs.training.blocks import build_structure

        alone = tuning.splits == task.n_units
        streams = [request.streams for request in (requests[:1] if alone else requests)]
        built = build_structure(
            as_dataset(task),
            self.protocol,
            splits=tuning.splits,
            train_fraction=1.0,
            validation_graph="evaluated_mask",
            streams=streams,
            hidden=_HIDDEN,
            dtype=np.dtype(_TYPE),
        )
        rows = np.zeros(len(requests), dtype=np.int64) if alone else np.arange(len(requests))
        return replace(
            built,
            parts=built.parts[rows],
            validation=built.validation[rows],
            test=built.test[rows],
            majority=built.majority[rows],
        )

    def _event(self, tuning: Tuning, request: Request, delta: float) -> NoisyGradients | None:
        """Return the planned event of a request; None without DP."""
        if not request.private:
            return None
        splits, epochs = tuning.splits, tuning.epochs
        if self.protocol.visits == "poisson":
            sampling, releases = Poisson(rate=1 / splits), splits * epochs
            noise = pld_noise(request.epsilon, releases, 1 / splits, delta, "replace")
        else:
            sampling, releases = FullBatch(parts=splits), epochs
            noise = gdp_noise(request.epsilon, releases, delta, "replace")
        return NoisyGradients(
            clipping="gradient_global",
            clip_norm=_CLIP_NORM,
            noise_multiplier=noise,
            releases=releases,
            epochs=epochs,
            sampling=sampling,
        )


def as_dataset(task: GraphTask) -> GraphDataset:
    """Return training, then validation and test nodes as one graph; no edge joins the two sides.

    Training nodes without a label are included, without words and edges, so that the number of
    parts does not reveal how many there are. All public nodes are ``test`` nodes, so that
    predictions use the whole public graph; their labels are 0 and enter no training.
    """
    missing = task.n_units - task.n_train
    blank = scipy.sparse.csr_matrix((missing, task.n_features))
    features = scipy.sparse.vstack(
        [task.train_features, blank, task.validation_features, task.test_features]
    )
    alone = scipy.sparse.csr_matrix((missing, missing))
    edges = scipy.sparse.block_diag([task.train_adjacency, alone, task.public_adjacency])
    upper = scipy.sparse.triu(edges, 1).tocsr()
    upper.sort_indices()
    source, target = upper.nonzero()
    public = np.arange(features.shape[0]) >= task.n_units
    labels = np.where(public, 0, -1)
    labels[: task.n_train] = task.train_labels
    return GraphDataset.generated(
        "task", [f"class {number}" for number in range(task.n_classes)], features,
        np.stack([source, target]), labels, (~public, np.zeros_like(public), public),
    )  # fmt: skip


def _few_nodes_sampled(n: int, size: float) -> Tuning:
    """Return the tuning with parts of 12 nodes, at most 300 parts.

    With more parts, noise no longer falls with the rate.
    """
    return Tuning(min(300, -(-n // 12)), 5, "sgd", 0.03)


POISSON = ProvedGcn(SOUND_POISSON, _few_nodes_sampled)
"""Parts that join each step with probability 1/s (docs/privacy.md §3 B)."""
METHODS = (
    Method(
        "gcn_poisson",
        "GCN, Poisson parts",
        POISSON.run,
        ("graph",),
        stated=POISSON.stated,
        memory=POISSON.memory,
        prepares=UNIT_ROWS,
        assumptions=(CONSTANTS,),
        summary="Two-layer GCN on Poisson-sampled parts of the graph, by DP-SGD.",
    ),
)
