"""Reference engine: the GCN of LREC 2022 with PyTorch Geometric and Opacus alone.

It trains one replica after the other. A reader who knows these libraries can check it against the
paper; the compiled engine is tested and timed against it. Both share the partition and the initial
weights. Noise comes from the door (``mechanisms``), which checks that every step was planned.

Source: Igamberdiev & Habernal, LREC 2022, Sections 3 to 5; Kipf & Welling, ICLR 2017.
"""

from __future__ import annotations

import copy
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from private_graphs.core.errors import from_extra
from private_graphs.datasets.graph_dataset import GraphDataset, SparseFeatures
from private_graphs.mechanisms.descent import Descent
from private_graphs.training import engine
from private_graphs.training.blocks import parts_of, sample_training_nodes, training_labels

with from_extra("reference"):
    from opacus.optimizers import DPOptimizer
    from torch_geometric.data import Data
    from torch_geometric.nn import GCNConv
    from torch_geometric.utils import subgraph

if TYPE_CHECKING:
    from private_graphs.training.gcn_protocol import GcnProtocol


class Gcn(torch.nn.Module):
    """Two graph convolutions with ReLU and dropout between them; ``flat``: its (P,) parameters."""

    def __init__(self, sizes: Sequence[int], dropout: float, flat: np.ndarray) -> None:
        super().__init__()
        self.first, self.second = (GCNConv(*pair).double() for pair in itertools.pairwise(sizes))
        self.dropout = dropout
        parts = torch.from_numpy(flat).split([tensor.numel() for tensor in self.tensors()])
        for tensor, part in zip(self.tensors(), parts, strict=True):
            tensor.data.copy_(part.view(tensor.shape))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Return (n, K) scores of (n, d) features and (2, E) directed edges."""
        hidden = torch.relu(self.first(x, edges))
        return self.second(functional.dropout(hidden, self.dropout, self.training), edges)

    def tensors(self) -> tuple[Tensor, ...]:
        """Return W1 (d, hidden), b1, W2 (hidden, K), b2: the order of ``Trained.parameters``."""
        layers = self.first, self.second
        return tuple(part for layer in layers for part in (layer.lin.weight.T, layer.bias))

    def flat(self) -> np.ndarray:
        """Return (P,) parameters."""
        return torch.cat([tensor.reshape(-1) for tensor in self.tensors()]).detach().cpu().numpy()


class NoiseOfTheDoor(DPOptimizer):
    """Opacus's optimizer with noise from the door, drawn for all parameters at once."""

    descent: Descent

    def add_noise(self) -> None:
        """Add the planned noise to the sum of the clipped gradients."""
        sums = [weight.summed_grad for weight in self.params]
        flat = torch.cat([tensor.reshape(-1) for tensor in sums]).double().cpu()
        (noisy,) = self.descent.add(flat[None])
        for weight, part in zip(self.params, noisy.split([s.numel() for s in sums]), strict=True):
            weight.grad = part.view_as(weight).to(weight)


def visible(data: Data, nodes: np.ndarray, graph: str) -> Data:
    """Return the graph that a pass over sorted ``nodes`` sees: the whole or the induced one."""
    index = torch.from_numpy(nodes).to(data.x.device)
    if graph != "whole_graph":
        return data.subgraph(index)
    outside = torch.full_like(data.y, -1)
    return Data(data.x, data.edge_index, y=outside.index_copy(0, index, data.y[index]))


class Replica:
    """One replica. A ``Data`` is the input of a pass; y is -1 for nodes outside its loss."""

    def __init__(
        self, dataset: GraphDataset, protocol: GcnProtocol, settings: engine.EngineSettings,
        spec: engine.ReplicaSpec, descent: Descent, *, splits: int, train_fraction: float = 1.0,
        validation_graph: str,
    ) -> None:  # fmt: skip
        self.protocol, self.settings, self.descent = protocol, settings, descent
        labels = training_labels(dataset, protocol)
        sample = sample_training_nodes(dataset, protocol, train_fraction, spec.streams)
        part = parts_of(dataset, sample, splits, spec.streams, spec.parts)
        present = torch.from_numpy(np.union1d(np.flatnonzero(~dataset.train_mask), sample))
        data = dataset.to_pyg()
        x = data.x.to(getattr(torch, settings.dtype))
        x = x.to_sparse() if isinstance(dataset.features, SparseFeatures) else x
        edges, _ = subgraph(present, data.edge_index, num_nodes=dataset.n_nodes)
        data = Data(x, edges, y=torch.from_numpy(labels)).to(settings.device.removeprefix("torch-"))
        members = (sample[part == number] for number in range(splits))
        self.parts = [visible(data, nodes, protocol.message_passing) for nodes in members]
        self.validation = visible(data, np.flatnonzero(dataset.validation_mask), validation_graph)
        self.test = visible(data, np.flatnonzero(dataset.test_mask), protocol.test_graph)
        known = labels[sample][labels[sample] >= 0]
        self.majority = np.bincount(known, minlength=dataset.n_classes).argmax()
        sizes = dataset.n_features, settings.hidden, dataset.n_classes
        start = engine.initial_parameters(spec.streams, *sizes)
        self.model = Gcn(sizes, settings.dropout, start).to(data.x.device, data.x.dtype)
        torch.manual_seed(int(spec.streams.generator("dropout").integers(2**62)))
        kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[settings.optimizer]
        clips = settings.private and protocol.clipping == "global_norm"
        self.optimizer = NoiseOfTheDoor(
            kind(self.model.parameters(), spec.learning_rate, weight_decay=settings.weight_decay),
            noise_multiplier=0.0, max_grad_norm=settings.clip_norm if clips else math.inf,
            expected_batch_size=splits if protocol.visits == "epoch_sum" else 1,
        )  # fmt: skip
        self.optimizer.descent = descent

    def scored(self, held: Data) -> tuple[float, np.ndarray]:
        """Return the mean loss and the classes of the validation or the test nodes."""
        self.model.eval()
        with torch.no_grad():
            scores = self.model(held.x, held.edge_index)
        loss = functional.cross_entropy(scores, held.y, ignore_index=-1)
        return loss.item(), scores[held.y >= 0].argmax(-1).cpu().numpy()

    def gradients(self, part: Data) -> Sequence[Tensor]:
        """Return the gradients of one part; zero if not finite, or without a labelled node."""
        weights = list(self.model.parameters())
        scores = self.model(part.x, part.edge_index)
        loss = functional.cross_entropy(scores, part.y, ignore_index=-1)
        gradients = torch.autograd.grad(loss, weights)
        finite = all(gradient.isfinite().all() for gradient in gradients)
        return gradients if finite else [torch.zeros_like(weight) for weight in weights]

    def visits(self) -> Iterator[list[Data]]:
        """Yield the parts of every step of an epoch."""
        parts, visits = self.parts, self.protocol.visits
        if len(parts) == 1 or visits == "epoch_sum":
            yield parts
        elif visits == "shuffled":
            yield from ([parts[i]] for i in self.descent.orders()[0].permutation(len(parts)))
        else:  # poisson
            draws = (self.descent.join(len(parts), 1 / len(parts))[0] for _ in parts)
            yield from ([parts[i] for i in joined] for joined in draws)

    def step(self, parts: Sequence[Data]) -> None:
        """Take a step on some parts, each of which is one example for Opacus."""
        gradients = [self.gradients(part) for part in parts]
        parameters: Iterator[Any] = self.model.parameters()  # Opacus adds an attribute to them
        for index, weight in enumerate(parameters):
            grads = [gradient[index] for gradient in gradients]
            weight.grad_sample = torch.stack(grads) if grads else weight.new_zeros(0, *weight.shape)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.descent.public("parameters", [self.model.flat()])

    def train(self) -> list[float]:
        """Run all epochs; return the validation loss of each if it may stop the training."""
        settings, protocol, losses = self.settings, self.protocol, []
        lowest, best, weights = math.inf, -1, None
        for epoch in range(settings.epochs):
            self.model.train(protocol.dropout == "every_epoch" or epoch == 0)
            for parts in self.visits():
                self.step(parts)
            if settings.patience is None:
                continue
            losses.append(self.scored(self.validation)[0])
            if losses[-1] < lowest:
                lowest, best, weights = losses[-1], epoch, copy.deepcopy(self.model.state_dict())
            if epoch - best >= settings.patience:
                break
        if weights and protocol.stopped_weights == "best_validation":
            self.model.load_state_dict(weights)
        return losses


def train(
    dataset: GraphDataset, protocol: GcnProtocol, settings: engine.EngineSettings,
    replicas: Sequence[engine.ReplicaSpec], descent: Descent, *,
    progress: engine.Progress | None = None, clock: Callable[[], float] = time.perf_counter,
    **parts,
) -> engine.Trained:  # fmt: skip
    """Train ``replicas`` one after the other; ``parts`` are what ``Replica`` takes by keyword."""
    started, rows = clock(), []
    losses = np.full((settings.epochs, len(replicas)), np.nan, np.float32)
    for index, spec in enumerate(replicas):
        with torch.random.fork_rng():  # dropout is seeded for this replica alone
            run = Replica(dataset, protocol, settings, spec, descent.of_lanes([index]), **parts)
            curve = run.train()
        losses[: len(curve), index] = curve
        scores = *run.scored(run.validation), run.scored(run.test)[1]
        rows.append((run.model.flat(), len(curve) or settings.epochs, *scores, run.majority))
        if progress is not None:
            progress((index + 1) * settings.epochs, len(replicas) * settings.epochs)
    *trained, majority = map(np.array, zip(*rows, strict=True))
    return engine.Trained(*trained, losses, majority, clock() - started)  # type: ignore[call-arg]
