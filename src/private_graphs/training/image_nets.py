"""Networks on images, and ensembles of them that train as one batch.

Networks: softmax regression, one hidden layer, a small convolutional network, and the deep one of
PATE (Papernot et al. 2017; Zhang, Emory thesis 2021, Section 3.4.1). Each returns class scores and
the activations of its last hidden layer, of which feature matching takes the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.functional import cross_entropy
from torch.optim.adam import adam

Kind = Literal["softmax", "mlp", "small", "deep"]
Shape = tuple[int, int, int]
"""Channels, height and width."""

_NUMBERS = 2**25
"""Maximum number of parameters of teachers that train together."""
_DEEP = ((96, 3, 1), (96, 3, 1), (96, 3, 2), (192, 3, 1), (192, 3, 1), (192, 3, 2), (192, 5, 1))
"""(channels, kernel, stride) of the convolutions of the deep network."""
_SMALL = ((16, 5, 2), (32, 5, 2))


class _Product(torch.autograd.Function):
    """x Wᵀ + b, whose weight gradient is computed in the memory layout of W.

    For stacked weights autograd computes the transpose and copies it, which takes a third of a
    step.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        by_x = gradient @ weight if ctx.needs_input_grad[0] else None
        return by_x, gradient.mT @ x, gradient.sum(-2)


class _PictureLinear(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Product.apply(x, self.weight, self.bias)


class Classifier(nn.Module):
    """Network with hidden layers and K class scores."""

    def __init__(self, hidden: nn.Module, width: int, n_classes: int):
        super().__init__()
        self.hidden, self.scores = hidden, _PictureLinear(width, n_classes)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (b, K) class scores and (b, width) hidden activations of (b, c, h, w) images."""
        hidden = self.hidden(images)
        return self.scores(hidden), hidden


def _dense(widths: Sequence[int]) -> list[nn.Module]:
    pairs = zip(widths[:-1], widths[1:], strict=True)
    return [layer for pair in pairs for layer in (_PictureLinear(*pair), nn.ReLU())]


def _convolutions(shape: Shape, layers: Sequence[tuple[int, int, int]]) -> tuple[list, int]:
    """Return convolutions with ReLU (same size up to the stride), and their number of outputs."""
    channels, height, width = shape
    modules: list[nn.Module] = []
    for out, kernel, stride in layers:
        modules += [nn.Conv2d(channels, out, kernel, stride, kernel // 2), nn.ReLU()]
        channels, height, width = out, -(-height // stride), -(-width // stride)
    return [*modules, nn.Flatten()], channels * height * width


def network(kind: Kind, shape: Shape, n_classes: int, seed: int) -> Classifier:
    """Return a network whose initial weights are determined by ``seed``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if kind == "softmax":
            return Classifier(nn.Flatten(), prod(shape), n_classes)
        if kind == "mlp":
            layers = [nn.Flatten(), *_dense((prod(shape), 64))]
            return Classifier(nn.Sequential(*layers), 64, n_classes)
        layers, width = _convolutions(shape, _SMALL if kind == "small" else _DEEP)
        dense = (128,) if kind == "small" else (192, 192)
        return Classifier(nn.Sequential(*layers, *_dense((width, *dense))), dense[-1], n_classes)


class PlainAdam:
    """Adam (Kingma & Ba 2015), because importing ``torch.optim`` takes a second."""

    def __init__(self, weights: Iterable[torch.Tensor], rate: float, decay: float = 0.9):
        """``decay`` is β1, the decay of the mean gradient."""
        self.weights, self.rate, self.decay = list(weights), rate, decay
        self.first, self.second = (
            [torch.zeros_like(weight) for weight in self.weights] for _ in range(2)
        )
        self.steps = [torch.zeros((), device=weight.device) for weight in self.weights]

    def step(self, loss: torch.Tensor) -> None:
        """Update the weights, and no other tensors, against the gradient of ``loss``."""
        # The fused step reads memory in order, whatever the strides say.
        gradients = [gradient.contiguous() for gradient in torch.autograd.grad(loss, self.weights)]
        with torch.no_grad():
            adam(
                self.weights, gradients, self.first, self.second, [], self.steps,
                fused=True, amsgrad=False, beta1=self.decay, beta2=0.999, lr=self.rate,
                weight_decay=0.0, eps=1e-8, maximize=False,
            )  # fmt: skip


def images_of(pixels: np.ndarray, shape: Shape, device: str = "cpu") -> torch.Tensor:
    """Return (n, c, h, w) float32 images in 0..1 of (n, c·h·w) bytes."""
    return torch.from_numpy(pixels.reshape(-1, *shape)).to(device).float() / 255


def class_scores(net: Classifier, images: torch.Tensor, lot: int = 1000) -> torch.Tensor:
    """Return the (n, K) class scores of images."""
    with torch.no_grad():
        return torch.cat([net(part)[0] for part in images.split(lot)])


def predicted(net: Classifier, images: torch.Tensor, lot: int = 1000) -> torch.Tensor:
    """Return the (n,) classes with the highest scores."""
    return class_scores(net, images, lot).argmax(-1)


@dataclass(frozen=True)
class Ensemble:
    """Training settings of teachers: each is trained by Adam on its own records only."""

    kind: Kind
    shape: Shape
    n_classes: int
    epochs: int
    batch: int
    """Records of a step; at most the number of a teacher's records."""
    learning_rate: float

    def votes(
        self,
        parts: np.ndarray,
        pixels: np.ndarray,
        labels: np.ndarray,
        inputs: np.ndarray,
        generator: np.random.Generator,
        device: str = "cpu",
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> np.ndarray:
        """Return the (Q, K) vote counts of T teachers on the Q images ``inputs``.

        ``parts`` (T, m): each teacher's records, as indices into ``pixels`` (n, c·h·w) and
        ``labels`` (n,); a record without a label enters no loss. ``generator`` draws initial
        weights and orders.
        """
        seeds = generator.integers(2**62, size=len(parts))
        queries = images_of(inputs, self.shape, device)
        votes = np.zeros((len(inputs), self.n_classes), np.int64)
        size = sum(tensor.numel() for tensor in network(self.kind, self.shape, self.n_classes, 0)
                   .parameters())  # fmt: skip
        together = max(1, _NUMBERS // size)
        lot = 1000 if self.kind in ("softmax", "mlp") else 100
        for start in range(0, len(parts), together):
            part = parts[start : start + together]
            images = images_of(pixels[part].reshape(-1, pixels.shape[1]), self.shape, device)
            images = images.view(*part.shape, *self.shape)
            truth = torch.from_numpy(labels[part]).to(device)
            ensemble = self._train(images, truth, seeds[start : start + together], generator)
            for first in range(0, len(inputs), lot):
                rows = slice(first, first + lot)
                votes[rows] += self._counts(ensemble, queries[rows])
            progress(min(start + together, len(parts)), len(parts))
        return votes

    def _forward(self) -> Callable:
        net = network(self.kind, self.shape, self.n_classes, 0)
        return lambda weights, images: functional_call(net, weights, (images,))[0]

    def _train(
        self, images: torch.Tensor, labels: torch.Tensor, seeds: np.ndarray,
        generator: np.random.Generator,
    ) -> dict[str, torch.Tensor]:  # fmt: skip
        """Return stacked weights of teachers trained on (T, m, c, h, w) images, (T, m) labels."""
        nets = [network(self.kind, self.shape, self.n_classes, int(seed)) for seed in seeds]
        weights, _ = stack_module_state(nets)
        weights = {
            name: value.detach().to(images.device).requires_grad_()
            for name, value in weights.items()
        }
        optimizer = PlainAdam(weights.values(), self.learning_rate)
        forward, n_records = vmap(self._forward()), labels.shape[1]
        batch = min(self.batch, n_records)
        for _ in range(self.epochs):
            order = generator.permutation(n_records) if batch < n_records else np.arange(n_records)
            for first in range(0, n_records, batch):
                chosen = torch.from_numpy(order[first : first + batch]).to(images.device)
                inputs = images if batch == n_records else images[:, chosen]
                truth = labels if batch == n_records else labels[:, chosen]
                scores = forward(weights, inputs)  # (T, b, K)
                loss = cross_entropy(
                    scores.transpose(1, 2), truth, reduction="none", ignore_index=-1
                )
                optimizer.step((loss.sum(1) / (truth >= 0).sum(1).clamp(min=1)).sum())
        return {name: value.detach() for name, value in weights.items()}

    def _counts(self, weights: dict[str, torch.Tensor], images: torch.Tensor) -> np.ndarray:
        """Return (Q, K) numbers of teachers that predict each class."""
        forward = vmap(self._forward(), in_dims=(0, None))
        with torch.no_grad():
            answers = forward(weights, images).argmax(-1)  # (T, Q)
        one_hot = nn.functional.one_hot(answers, self.n_classes)
        return one_hot.sum(0).cpu().numpy()
