"""Image classifiers: softmax regression in closed form, and a small convolutional network.

Both take rows of pixels in [0, 1] and parameters as one flat vector, and compute the sum of clipped
mean gradients of groups of records: what class-level DP-SGD releases (``unit_sgd``).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from private_graphs.training.dpsgd import clip_factors

if TYPE_CHECKING:
    import torch

_SMALL = 20
"""Side length, in pixels, below which the network gets every pixel doubled in both directions."""
_FLAT = 1e-4
"""Norm of a centred picture below which the picture counts as uniform."""
_TOGETHER = 512
"""Approximate number of records of a step whose arrays are in memory at a time."""
_MARGIN = 2.0**-30
"""Relative safety margin of clipped norms below the clip norm, against rounding."""


def standardised(rows: np.ndarray) -> np.ndarray:
    """Return (n, d) rows minus their own mean, scaled to norm 1; uniform rows are not scaled."""
    rows = rows - rows.mean(axis=-1, keepdims=True)
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows / np.where(norms > _FLAT, norms, 1)


Cost = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Callable: (R, K, K) logits → (R, K) costs and the (R, K, K) gradients of their sum."""


@dataclass(frozen=True)
class Groups:
    """J groups of at most m records, as a step samples them."""

    records: np.ndarray
    """(J, m) int64; padding entries hold any record."""
    weights: np.ndarray
    """(J, m): 1 / number of records of the group; 0 for padding."""

    def parts(self) -> Iterator[Groups]:
        """Yield the groups in parts that fit into the cache."""
        count = max(1, _TOGETHER // self.records.shape[1])
        for begin in range(0, len(self.records), count):
            part = slice(begin, begin + count)
            yield Groups(self.records[part], self.weights[part])


@dataclass(frozen=True)
class PictureNet(ABC):
    """Interface of both networks: picture size, classes, and whether each row is standardised
    (by its own mean and norm) before the network sees it."""

    height: int
    width: int
    n_classes: int
    standardise: bool = False
    name: ClassVar[str]

    @property
    def pixels(self) -> int:
        """Number of pixels of a picture."""
        return self.height * self.width

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Length P of the flat vector of parameters."""

    @abstractmethod
    def start(self, generator: np.random.Generator) -> np.ndarray:
        """Return (P,) float32 parameters before training."""

    def prepared(self, pixels: np.ndarray) -> np.ndarray:
        """Convert (n, d) bytes to float rows."""
        rows = pixels.astype(np.float32) / np.float32(255)
        return standardised(rows) * np.float32(self.norm) if self.standardise else rows

    @property
    def norm(self) -> float:
        """Norm of a standardised row."""
        return 1.0

    def gradient_sum(
        self, parameters: np.ndarray, rows: np.ndarray, labels: np.ndarray, groups: Groups,
        clip_norm: float = math.inf,
    ) -> np.ndarray:  # fmt: skip
        """Return (P,) float64: the sum of the groups' clipped mean gradients.

        ``rows`` (n, d) are prepared. A record with label -1 contributes nothing, nor does a group
        with a non-finite gradient.
        """
        total = np.zeros(self.n_parameters)
        for part in groups.parts():
            total += self._part_sum(parameters, rows, labels, part, clip_norm)
        return total if np.isfinite(total).all() else np.zeros_like(total)

    @abstractmethod
    def _part_sum(
        self, parameters: np.ndarray, rows: np.ndarray, labels: np.ndarray, part: Groups,
        clip_norm: float,
    ) -> np.ndarray:  # fmt: skip
        """``gradient_sum`` of groups whose arrays fit into memory together."""

    @abstractmethod
    def logits(self, parameters: np.ndarray, pictures: np.ndarray) -> np.ndarray:
        """Return (R, T, K) logits of (R, P) parameters on (R, T, d) pictures in [0, 1]."""

    @abstractmethod
    def pulled(
        self, parameters: np.ndarray, pictures: np.ndarray, cost: Cost
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (R, K) costs of (R, K, d) pictures, one per class, and gradients by pixels.

        ``cost`` maps (R, K, K) logits to costs and gradients by the logits.
        """

    def predict(self, parameters: np.ndarray, pixels: np.ndarray) -> np.ndarray:
        """Return (n,) classes of (n, d) bytes."""
        parts = np.array_split(pixels, max(1, len(pixels) // 2000))
        return np.concatenate([
            self.logits(parameters[None], part[None] / np.float32(255))[0].argmax(-1)
            for part in parts
        ])  # fmt: skip


@dataclass(frozen=True)
class Softmax(PictureNet):
    """Multinomial logistic regression that starts at zero."""

    name = "softmax"

    @property
    def n_parameters(self) -> int:
        """Weights (d, K), then biases (K,)."""
        return (self.pixels + 1) * self.n_classes

    def start(self, generator: np.random.Generator) -> np.ndarray:
        """Return zeros."""
        return np.zeros(self.n_parameters, np.float32)

    def _part_sum(
        self, parameters: np.ndarray, rows: np.ndarray, labels: np.ndarray, part: Groups,
        clip_norm: float,
    ) -> np.ndarray:  # fmt: skip
        """Return the sum in closed form: the gradient of a group is Σ w x ⊗ (p - y).

        For groups of few records the squared norm is Σ (x·x′ + 1)(e·e′) over pairs of records, with
        e = w (p - y): no record's (d, K) gradient is ever stored. Scores are float32; norms and
        sums, on which the sensitivity depends, are float64.
        """
        matrix = np.asarray(parameters, np.float32).reshape(self.pixels + 1, self.n_classes)
        inputs, errors = self._pulls(matrix, rows, labels, part)
        if math.isfinite(clip_norm):
            errors *= clip_factors(_squared(inputs, errors), clip_norm, _MARGIN)[:, None, None]
        flat = errors.reshape(-1, self.n_classes)
        return np.r_[inputs.reshape(len(flat), -1).T @ flat, flat.sum(axis=0)[None]].ravel()

    def _pulls(
        self, matrix: np.ndarray, rows: np.ndarray, labels: np.ndarray, groups: Groups
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (J, m, d) records of groups and (J, m, K) weighted errors of their scores."""
        flat = groups.records.ravel()
        inputs = rows[flat]
        errors = (inputs @ matrix[:-1] + matrix[-1]).astype(np.float64)
        usable = np.isfinite(errors).all(axis=1) & (labels[flat] >= 0)
        errors[~usable] = 0.0
        errors -= errors.max(axis=1, keepdims=True)
        np.exp(errors, out=errors)
        errors /= errors.sum(axis=1, keepdims=True)
        errors[np.arange(len(flat)), np.maximum(labels[flat], 0)] -= 1
        errors *= np.where(usable, groups.weights.ravel(), 0.0)[:, None]
        shape = groups.records.shape
        return inputs.astype(np.float64).reshape(*shape, -1), errors.reshape(*shape, -1)

    def _matrix(self, parameters: np.ndarray) -> np.ndarray:
        return parameters.reshape(len(parameters), self.pixels + 1, self.n_classes)

    def logits(self, parameters: np.ndarray, pictures: np.ndarray) -> np.ndarray:
        """Return (R, T, K)."""
        matrix = self._matrix(parameters)
        rows = standardised(pictures) if self.standardise else pictures
        return rows @ matrix[:, :-1] + matrix[:, -1:]

    def pulled(
        self, parameters: np.ndarray, pictures: np.ndarray, cost: Cost
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute the gradient in closed form: the gradient by logits times the weights."""
        matrix = self._matrix(parameters)
        costs, by_logits = cost(self.logits(parameters, pictures))
        gradient = by_logits @ matrix[:, :-1].transpose(0, 2, 1)
        if self.standardise:  # (I - u uᵀ)(I - 11ᵀ/d) / norm, with u the standardised picture
            norms = np.linalg.norm(
                pictures - pictures.mean(-1, keepdims=True), axis=-1, keepdims=True
            )
            unit = standardised(pictures)
            gradient = gradient - (gradient * unit).sum(-1, keepdims=True) * unit
            gradient -= gradient.mean(-1, keepdims=True)
            gradient = np.where(norms > _FLAT, gradient / np.maximum(norms, _FLAT), gradient)
        return costs, gradient


@dataclass(frozen=True)
class Cnn(PictureNet):
    """Two convolutions and two linear layers with tanh, the network of the DP-SGD tutorials.

    16 filters of 8 x 8 (stride 2, padding 3), maximum of 2 x 2 (stride 1), 32 filters of 4 x 4
    (stride 2), maximum of 2 x 2 (stride 1), 32 units, K outputs. The thesis gives no sizes.
    """

    name = "cnn"

    @property
    def norm(self) -> float:
        """The norm that gives pixels variance 1."""
        return math.sqrt(self.pixels)

    @property
    def _scale(self) -> int:
        return 2 if min(self.height, self.width) < _SMALL else 1

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        sides = []
        for side in (self.height, self.width):
            after = (side * self._scale + 6 - 8) // 2 + 1 - 1
            sides.append((after - 4) // 2 + 1 - 1)
        flat = 32 * sides[0] * sides[1]
        return {
            "first.weight": (16, 1, 8, 8), "first.bias": (16,),
            "second.weight": (32, 16, 4, 4), "second.bias": (32,),
            "hidden.weight": (32, flat), "hidden.bias": (32,),
            "head.weight": (self.n_classes, 32), "head.bias": (self.n_classes,),
        }  # fmt: skip

    @property
    def n_parameters(self) -> int:
        """Number of entries of all tensors."""
        return sum(math.prod(shape) for shape in self._shapes().values())

    def start(self, generator: np.random.Generator) -> np.ndarray:
        """Return (P,) uniform within 1/sqrt(inputs), as PyTorch's layers start."""
        parts, bound = [], 0.0
        for name, shape in self._shapes().items():
            if name.endswith("weight"):
                bound = 1 / math.sqrt(math.prod(shape[1:]))
            parts.append(generator.uniform(-bound, bound, size=math.prod(shape)))
        return np.concatenate(parts).astype(np.float32)

    def _layers(self, parameters: torch.Tensor, pictures: torch.Tensor) -> list[torch.Tensor]:
        """Return inputs and outputs of the four layers, for (R, P) models, (R, n, d) pictures.

        Inputs and outputs alternate: (n, R, h, w), (n, R·16, …), (n, R·16, …), (n, R·32, …), (R, n,
        flat), (R, n, 32), (R, n, 32), (R, n, K). Each model is one group of a convolution.
        """
        import torch
        from torch.nn.functional import conv2d, max_pool2d

        models, n = pictures.shape[:2]
        tensors, begin = [], 0
        for shape in self._shapes().values():
            end = begin + math.prod(shape)
            tensors.append(parameters[:, begin:end].reshape(models, *shape))
            begin = end
        images = pictures.transpose(0, 1).reshape(n, models, self.height, self.width)
        if self._scale > 1:
            images = images.repeat_interleave(self._scale, -1).repeat_interleave(self._scale, -2)
        states, seen = [], images
        for number, padding in ((0, 3), (2, 0)):
            filters, biases = (tensor.flatten(0, 1) for tensor in tensors[number : number + 2])
            scores = conv2d(seen, filters, biases, 2, padding, groups=models)
            scores = scores.contiguous(memory_format=torch.channels_last)  # max pooling is faster
            states += [seen, scores]
            seen = max_pool2d(scores.tanh(), 2, 1)
        seen = seen.reshape(n, models, -1).transpose(0, 1)
        for number in (4, 6):
            weights, biases = tensors[number : number + 2]
            scores = torch.baddbmm(biases[:, None], seen, weights.transpose(1, 2))
            states += [seen, scores]
            seen = scores.tanh()
        return states

    def _ready(self, pictures: torch.Tensor) -> torch.Tensor:
        """Return pictures in the form that the network sees; differentiable."""
        if not self.standardise:
            return pictures
        centred = pictures - pictures.mean(-1, keepdim=True)
        norms = centred.detach().square().sum(-1, keepdim=True).sqrt()
        flat = norms <= _FLAT  # uniform picture: no division, and a finite gradient
        norms = (centred.square().sum(-1, keepdim=True) + flat).sqrt()
        return self.norm * centred / norms

    def logits(self, parameters: np.ndarray, pictures: np.ndarray) -> np.ndarray:
        """Return (R, T, K)."""
        import torch

        with torch.no_grad():
            ready = self._ready(torch.from_numpy(pictures))
            return self._layers(torch.from_numpy(parameters), ready)[-1].numpy()

    def pulled(
        self, parameters: np.ndarray, pictures: np.ndarray, cost: Cost
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute the gradient by automatic differentiation, for all models at once."""
        import torch

        inputs = torch.from_numpy(pictures).requires_grad_()
        logits = self._layers(torch.from_numpy(parameters), self._ready(inputs))[-1]
        costs, by_logits = cost(logits.detach().numpy())
        (gradient,) = torch.autograd.grad(logits, inputs, torch.from_numpy(by_logits))
        return costs, gradient.numpy()

    def _part_sum(
        self, parameters: np.ndarray, rows: np.ndarray, labels: np.ndarray, part: Groups,
        clip_norm: float,
    ) -> np.ndarray:  # fmt: skip
        """Return the sum by autograd down to the layers' outputs, then by matrix products.

        Gradients of the convolutions are one product per group, whose norms and sums are float64;
        those of the other layers are never stored (as in ``Softmax``).
        """
        import torch

        flat = torch.from_numpy(np.asarray(parameters, np.float32))[None].requires_grad_()
        records = part.records.ravel()
        layers = self._layers(flat, torch.from_numpy(rows[records])[None])
        truth = torch.from_numpy(labels[records])
        weights = part.weights.ravel() * (truth.numpy() >= 0)
        errors = layers[-1].detach().softmax(-1)[0]
        errors[torch.arange(len(truth)), truth.clamp(min=0)] -= 1
        errors *= torch.from_numpy(weights)[:, None]
        if not math.isfinite(clip_norm):
            return torch.autograd.grad(layers[-1], flat, errors[None])[0][0].double().numpy()
        pulls = torch.autograd.grad(layers[-1], layers[1:7:2], errors[None])
        seen = [layer.detach() for layer in layers[::2]]
        return self._clipped(seen, [*pulls, errors[None]], len(part.records), clip_norm)

    def _clipped(
        self, seen: list[torch.Tensor], pulls: list[torch.Tensor], n_groups: int, clip_norm: float
    ) -> np.ndarray:
        """Return the (P,) sum of clipped gradients, from layer inputs and output gradients."""
        from torch.nn.functional import pad

        products, squared = [], 0.0
        images_of = pad(seen[0], (3, 3, 3, 3)), seen[1]
        shapes = (*self._shapes().values(),)[:4:2]
        for images, pull, shape in zip(images_of, pulls[:2], shapes, strict=True):
            side = shape[-1]
            patches = images.permute(0, 2, 3, 1).unfold(1, side, 2).unfold(2, side, 2)
            patches = patches.permute(0, 1, 2, 4, 5, 3).reshape(n_groups, -1, math.prod(shape[1:]))
            pull = pull.permute(0, 2, 3, 1).reshape(n_groups, -1, shape[0])
            product = (pull.transpose(1, 2) @ patches).flatten(1)  # (J, out·h·w·in)
            parts = [tensor.double().numpy() for tensor in (product, pull.sum(1))]
            squared = squared + sum(np.einsum("jp,jp->j", part, part) for part in parts)
            products.append((*parts, side))
        dense = [
            tuple(part[0].double().numpy().reshape(n_groups, -1, part.shape[2]) for part in pair)
            for pair in zip(seen[2:], pulls[2:], strict=True)
        ]
        squared = squared + sum(_squared(*pair) for pair in dense)
        factors = clip_factors(squared, clip_norm, _MARGIN)
        mask = factors > 0  # 0 times a non-finite value stays non-finite
        factors, total = factors[mask], []
        for product, biases, side in products:
            summed = np.tensordot(factors, product[mask], 1).reshape(len(biases[0]), side, side, -1)
            total += [summed.transpose(0, 3, 1, 2), factors @ biases[mask]]
        for inputs, errors in dense:
            errors = errors[mask] * factors[:, None, None]
            total += [
                np.tensordot(errors, inputs[mask], ((0, 1), (0, 1))), errors.sum(axis=(0, 1))
            ]  # fmt: skip
        return np.concatenate([array.ravel() for array in total])


def _squared(inputs: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Return (J,) squared norms of Σ x ⊗ e and Σ e over a group, for (J, m, d) and (J, m, K)."""
    m, k = errors.shape[1:]
    if m == 1:
        norms = np.einsum("jmd,jmd->j", inputs, inputs) + 1
        return norms * np.square(errors).sum(axis=(1, 2))
    if m > k:  # the gradient of a group is smaller than its matrix of pairs
        gradients = inputs.transpose(0, 2, 1) @ errors
        return np.square(gradients).sum(axis=(1, 2)) + np.square(errors.sum(axis=1)).sum(1)
    pairs = (inputs @ inputs.transpose(0, 2, 1) + 1) * (errors @ errors.transpose(0, 2, 1))
    # cancellation leaves rounding errors: never underestimate the norm
    return np.maximum(pairs.sum(axis=(1, 2)), 0.0) + np.abs(pairs).sum(axis=(1, 2)) * 2.0**-40


NETS: dict[str, type[PictureNet]] = {net.name: net for net in (Softmax, Cnn)}
