"""The GCN of LREC 2022 with PyTorch Geometric and Opacus alone, one replica after the other.

``GCNConv`` twice, ``subgraph`` for every part, the clipping and the optimizer of Opacus: what a
reader who knows these libraries checks against the paper, and what the compiled engine
(``engine``) is tested and timed against. Only the partition, the coins of sampling and first
weights come from the streams of the compiled engine; dropout and noise are drawn by the libraries
and by the door.

Source: Igamberdiev & Habernal, LREC 2022, Sections 3 to 5; Kipf & Welling, ICLR 2017.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from opacus.optimizers import DPOptimizer
from torch.nn import functional
from torch_geometric.nn import GCNConv
from torch_geometric.utils import subgraph, to_undirected

from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.mechanisms.door import Descent
from private_graphs.training.blocks import parts_of, sample_training_nodes, training_labels
from private_graphs.training.engine import (
    Progress,
    ReplicaSpec,
    Settings,
    Trained,
    initial_parameters,
)

if TYPE_CHECKING:
    from private_graphs.methods.gcn_protocols import GcnProtocol


class Gcn(torch.nn.Module):
    """Two graph convolutions with ReLU and dropout between them."""

    def __init__(self, features: int, hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.first, self.second = GCNConv(features, hidden), GCNConv(hidden, classes)
        self.dropout = dropout

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Return (N, K) scores of (N, d) features and (2, E) directed edges."""
        hidden = torch.relu(self.first(x, edges))
        return self.second(functional.dropout(hidden, self.dropout, self.training), edges)

    def flat(self) -> np.ndarray:
        """Return (P,) parameters: W1 (features, hidden), b1, W2 (hidden, classes), b2."""
        first, second = self.first, self.second
        parts = (first.lin.weight.T, first.bias, second.lin.weight.T, second.bias)
        return torch.cat([each.reshape(-1) for each in parts]).detach().cpu().numpy()

    def start(self, flat: np.ndarray) -> None:
        """Set the parameters from (P,)."""
        first, second = self.first, self.second
        targets = (first.lin.weight.T, first.bias, second.lin.weight.T, second.bias)
        parts = torch.from_numpy(flat).split([each.numel() for each in targets])
        with torch.no_grad():
            for target, part in zip(targets, parts, strict=True):
                target.copy_(part.view(target.shape))


class _Noisy(DPOptimizer):
    """The optimizer of Opacus, whose noise is the door's."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, descent: Descent, clip: float, divisor: int
    ) -> None:
        super().__init__(
            optimizer, noise_multiplier=0.0, max_grad_norm=clip, expected_batch_size=divisor
        )
        self.descent = descent

    def add_noise(self) -> None:
        """Let the sum of all clipped gradients pass the door as one."""
        sums = [each.summed_grad for each in self.params]
        flat = torch.cat([each.reshape(-1) for each in sums]).double().cpu()
        (noisy,) = self.descent.add(flat[None])
        for each, part in zip(self.params, noisy.split([s.numel() for s in sums]), strict=True):
            each.grad = part.view_as(each).to(each)


Part = tuple[torch.Tensor, torch.Tensor]
"""The edges that the steps of a part see, and its labelled training nodes."""


def _induced(nodes: torch.Tensor, edges: torch.Tensor, n_nodes: int) -> torch.Tensor:
    return subgraph(nodes, edges, num_nodes=n_nodes)[0]


class _Replica:
    """One replica: its graph, its model and its optimizer; float64 throughout."""

    def __init__(
        self, dataset: GraphDataset, protocol: GcnProtocol, settings: Settings, spec: ReplicaSpec,
        descent: Descent, splits: int, train_fraction: float, validation_graph: str,
    ) -> None:  # fmt: skip
        self.protocol, self.settings, self.descent = protocol, settings, descent
        device, n = settings.device.removeprefix("torch-"), dataset.n_nodes
        dense = dataset.features
        dense = dense if isinstance(dense, np.ndarray) else dense.to_scipy().toarray()
        labels = training_labels(dataset, protocol)
        self.x = torch.from_numpy(dense).to(device, torch.float64)
        self.labels = torch.from_numpy(labels).to(device)
        kept = sample_training_nodes(dataset, protocol, train_fraction, spec.streams)
        part = parts_of(dataset, kept, splits, spec.streams)
        present = torch.from_numpy(np.union1d(np.flatnonzero(~dataset.train_mask), kept))
        edges = to_undirected(torch.from_numpy(dataset.edge_index), num_nodes=n)
        whole = _induced(present, edges, n)

        def seen(nodes: np.ndarray, graph: str) -> torch.Tensor:
            cut = graph in ("induced", "evaluated_mask")
            return (_induced(torch.from_numpy(nodes), whole, n) if cut else whole).to(device)

        def labelled(nodes: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(nodes[labels[nodes] >= 0]).to(device)

        counts = np.bincount(labels[kept][labels[kept] >= 0], minlength=dataset.n_classes)
        self.majority = int(counts.argmax())
        members = [kept[part == number] for number in range(splits)]
        self.parts = [(seen(each, protocol.message_passing), labelled(each)) for each in members]
        held = (validation_graph, dataset.validation_mask), (protocol.test_graph, dataset.test_mask)
        held = [(graph, np.flatnonzero(mask)) for graph, mask in held]
        self.held = [(seen(nodes, graph), labelled(nodes)) for graph, nodes in held]
        sizes = dataset.n_features, settings.hidden, dataset.n_classes
        self.model = Gcn(*sizes, settings.dropout).to(self.x)
        self.model.start(initial_parameters(spec.streams, *sizes))
        torch.manual_seed(int(spec.streams.generator("dropout").integers(2**62)))
        kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[settings.optimizer]
        plain = kind(
            self.model.parameters(), lr=spec.learning_rate, weight_decay=settings.weight_decay
        )
        clips = settings.private and protocol.clipping == "global_norm"
        divisor = splits if protocol.visits == "epoch_sum" else 1
        clip = settings.clip_norm if clips else math.inf
        self.optimizer = _Noisy(plain, descent, clip, divisor)

    def scored(self, place: int) -> tuple[float, np.ndarray]:
        """Return the mean loss and the classes of the validation (0) or test nodes (1)."""
        edges, nodes = self.held[place]
        self.model.eval()
        with torch.no_grad():
            scores = self.model(self.x, edges)[nodes]
        loss = functional.cross_entropy(scores, self.labels[nodes]).item()
        return loss, scores.argmax(-1).cpu().numpy()

    def gradients(self, part: Part) -> list[torch.Tensor]:
        """Return the gradients of one part; zero where not finite and where nobody has a label."""
        edges, nodes = part
        weights = list(self.model.parameters())
        if len(nodes):
            scores = self.model(self.x, edges)[nodes]
            loss = functional.cross_entropy(scores, self.labels[nodes])
            found = torch.autograd.grad(loss, weights)
            if all(each.isfinite().all() for each in found):
                return list(found)
        return [torch.zeros_like(each) for each in weights]

    def visits(self) -> Iterator[list[Part]]:
        """Yield the parts of every step of an epoch."""
        parts, visits = self.parts, self.protocol.visits
        if len(parts) == 1 or visits == "epoch_sum":
            yield parts
        elif visits == "shuffled":
            yield from ([parts[i]] for i in self.descent.orders()[0].permutation(len(parts)))
        else:
            for _ in parts:
                yield [parts[i] for i in self.descent.join(len(parts), 1 / len(parts))[0]]

    def step(self, parts: Sequence[Part]) -> None:
        """Take a step on some parts, whose gradients are those of examples to Opacus."""
        per_part = [self.gradients(part) for part in parts]
        for place, parameter in enumerate(self.model.parameters()):
            empty = parameter.new_zeros(0, *parameter.shape)
            own = [each[place] for each in per_part]
            parameter.grad_sample = torch.stack(own) if own else empty
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.descent.public("parameters", [self.model.flat()])

    def train(self) -> tuple[int, list[float]]:
        """Run all epochs; return their number and their validation losses."""
        settings, protocol = self.settings, self.protocol
        best, stale, losses, epoch = (math.inf, None), 0, [], 0
        for epoch in range(1, settings.epochs + 1):
            self.model.train(protocol.dropout == "every_epoch" or epoch == 1)
            for parts in self.visits():
                self.step(parts)
            if settings.patience is None:
                continue
            losses.append(self.scored(0)[0])
            stale += 1
            if losses[-1] < best[0]:
                best, stale = (losses[-1], copy.deepcopy(self.model.state_dict())), 0
            if stale >= settings.patience:
                break
        if best[1] is not None and protocol.stopped_weights == "best_validation":
            self.model.load_state_dict(best[1])
        return epoch, losses


def train(
    dataset: GraphDataset,
    protocol: GcnProtocol,
    settings: Settings,
    replicas: Sequence[ReplicaSpec],
    descent: Descent,
    *,
    splits: int,
    train_fraction: float,
    validation_graph: str,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Trained:
    """Train ``replicas`` one after the other, as ``engine.train`` does all at once."""
    started, epochs, scored, parameters, majority = clock(), [], [], [], []
    losses = np.full((settings.epochs, len(replicas)), np.nan, np.float32)
    for place, spec in enumerate(replicas):
        with torch.random.fork_rng():  # dropout is seeded for this replica alone
            own = _Replica(
                dataset, protocol, settings, spec, descent.of_lanes([place]), splits,
                train_fraction, validation_graph,
            )  # fmt: skip
            count, found = own.train()
        losses[: len(found), place] = found
        epochs.append(count)
        scored.append([own.scored(mask) for mask in (0, 1)])
        parameters.append(own.model.flat())
        majority.append(own.majority)
        if progress is not None:
            progress((place + 1) * settings.epochs, len(replicas) * settings.epochs)
    validation, test = zip(*scored, strict=True)
    return Trained(
        parameters=np.stack(parameters),
        epochs=np.array(epochs),
        validation_loss=np.array([loss for loss, _ in validation]),
        validation_predictions=np.stack([classes for _, classes in validation]),
        test_predictions=np.stack([classes for _, classes in test]),
        validation_losses=losses,
        majority=np.array(majority),
        seconds=clock() - started,
    )
