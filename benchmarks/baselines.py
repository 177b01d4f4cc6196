"""What a user would write: plain loops of one replica, of PyTorch Geometric and of Opacus."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

import numpy as np
import torch
from timing import Side, seconds_of
from torch.nn import functional
from torch_geometric.nn import GCNConv
from torch_geometric.utils import subgraph

from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.training.mlp import Net, Steps


class PlainGCN(torch.nn.Module):
    """Two GCNConv layers with ReLU and dropout."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = GCNConv(features, 32), GCNConv(32, classes)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        hidden = functional.dropout(torch.relu(self.first(x, edge_index)), 0.5, self.training)
        return self.second(hidden, edge_index)


class PlainLoop:
    """One epoch at a time; validation after each.

    ``splits`` > 1 makes one step per random part: ``induced`` False runs the whole graph and
    masks the loss (as the released code does), True runs the part's induced subgraph. ``dropout``
    False is every epoch but the first of the released code, ``clips`` False all of it. Noise is
    dense: every step draws it for every parameter.
    """

    def __init__(
        self,
        dataset: GraphDataset,
        dtype: torch.dtype,
        *,
        optimizer: str = "sgd",
        noise_multiplier: float = 0.0,
        splits: int = 1,
        induced: bool = False,
        dropout: bool = True,
        clips: bool = True,
        device: torch.device | str = "cpu",
    ) -> None:
        torch.manual_seed(0)
        dense = dataset.features
        dense = dense if isinstance(dense, np.ndarray) else dense.to_scipy().toarray()
        self.x = torch.from_numpy(dense).to(device, dtype)
        half = torch.from_numpy(dataset.edge_index).to(device)
        self.edges = torch.cat([half, half.flip(0)], dim=1)
        self.y = torch.from_numpy(np.maximum(dataset.labels, 0)).to(device)
        self.validation = torch.from_numpy(dataset.validation_mask).to(device)
        train = torch.from_numpy(np.flatnonzero(dataset.train_mask))
        shuffled = train[torch.randperm(len(train))].to(device)
        self.splits = splits
        self.losses = cycle([self._part(part, induced) for part in shuffled.chunk(splits)])
        self.model = PlainGCN(self.x.shape[1], dataset.n_classes).to(device, dtype)
        kind = torch.optim.SGD if optimizer == "sgd" else torch.optim.Adam
        decay = 0.0 if noise_multiplier else 0.01
        self.optimizer = kind(self.model.parameters(), lr=0.01, weight_decay=decay)
        self.noise = noise_multiplier
        self.dropout = dropout
        self.clips = clips

    def _part(self, nodes: torch.Tensor, induced: bool) -> Callable[[], torch.Tensor]:
        """Return a function that computes the loss of one part."""
        if not induced:
            return lambda: functional.cross_entropy(
                self.model(self.x, self.edges)[nodes], self.y[nodes]
            )
        edges, _ = subgraph(nodes, self.edges, relabel_nodes=True, num_nodes=len(self.y))
        nodes = nodes.sort().values
        x, y = self.x[nodes], self.y[nodes]
        return lambda: functional.cross_entropy(self.model(x, edges), y)

    def steps(self, count: int) -> None:
        """Make the next ``count`` steps, one part each."""
        self.model.train(self.dropout)
        for _ in range(count):
            self.optimizer.zero_grad()
            next(self.losses)().backward()
            if self.noise:
                parameters = list(self.model.parameters())
                if self.clips:
                    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
                for each in parameters:
                    each.grad += self.noise * torch.randn_like(each)
            self.optimizer.step()

    def validate(self) -> float:
        """Return the validation accuracy."""
        self.model.eval()
        with torch.no_grad():
            logits = self.model(self.x, self.edges)[self.validation]
            functional.cross_entropy(logits, self.y[self.validation]).item()
            right = logits.argmax(1) == self.y[self.validation]
        return float(right.double().mean())

    def epoch(self) -> float:
        """Train one epoch and return the validation accuracy."""
        self.steps(self.splits)
        return self.validate()


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
    steps: Steps,
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
