"""Classifiers of pictures: softmax regression in closed form, and a small convolutional network.

Both take rows of pixels in [0, 1] and parameters as one flat vector, and give the sum of clipped
mean gradients of groups of records: what class-level DP-SGD releases (``unit_sgd``).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

if TYPE_CHECKING:
    import torch

_SMALL = 20
"""Pixels of a side below which the network sees every pixel twice, in both directions."""
_FLAT = 1e-4
"""Norm of a picture less its mean below which it counts as one grey."""
_SAFE = 1 - 2.0**-30
"""Clipped norms stay that far below the clip norm, whatever rounding does."""


def standardised(rows: np.ndarray) -> np.ndarray:
    """Return (n, d) rows less their own mean, scaled to norm 1; rows of one grey are not."""
    rows = rows - rows.mean(axis=-1, keepdims=True)
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows / np.where(norms > _FLAT, norms, 1)


Cost = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From (R, K, K) logits to (R, K) costs and the (R, K, K) gradients of their sum."""


@dataclass(frozen=True)
class Groups:
    """J groups of at most m records, as a step draws them."""

    records: np.ndarray
    """(J, m) int64; numbers without a record hold any."""
    weights: np.ndarray
    """(J, m): 1 / records of the group, 0 where there is none."""


@dataclass(frozen=True)
class Net(ABC):
    """What both kinds have: the size of pictures, the classes, and whether rows are standardised
    one by one (their own mean and norm) before the network sees them."""

    height: int
    width: int
    n_classes: int
    standardise: bool = False
    name: ClassVar[str]

    @property
    def pixels(self) -> int:
        """Of a picture."""
        return self.height * self.width

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Length P of the flat vector of parameters."""

    @abstractmethod
    def start(self, generator: np.random.Generator) -> np.ndarray:
        """Return (P,) float32 parameters before training."""

    def prepared(self, pixels: np.ndarray) -> np.ndarray:
        """Return float rows of (n, d) bytes."""
        rows = pixels.astype(np.float32) / np.float32(255)
        return standardised(rows) * np.float32(self.norm) if self.standardise else rows

    @property
    def norm(self) -> float:
        """Of a standardised row."""
        return 1.0

    @abstractmethod
    def gradient_sum(
        self,
        parameters: np.ndarray,
        rows: np.ndarray,
        labels: np.ndarray,
        groups: Groups,
        clip_norm: float = math.inf,
    ) -> np.ndarray:
        """Return (P,) float64: the sum of the groups' mean gradients, each clipped to a norm.

        ``rows`` (n, d) are prepared; a record with label -1, and a group whose gradient is not
        finite, contribute nothing.
        """

    @abstractmethod
    def logits(self, parameters: np.ndarray, pictures: np.ndarray) -> np.ndarray:
        """Return (R, T, K) of (R, P) parameters and (R, T, d) pictures with pixels in [0, 1]."""

    @abstractmethod
    def pulled(
        self, parameters: np.ndarray, pictures: np.ndarray, cost: Cost
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (R, K) costs of (R, K, d) pictures, one for each class, and their gradients.

        ``cost`` maps (R, K, K) logits to costs and the gradients by logits.
        """

    def predict(self, parameters: np.ndarray, pixels: np.ndarray) -> np.ndarray:
        """Return (n,) classes of (n, d) bytes."""
        parts = np.array_split(pixels, max(1, len(pixels) // 2000))
        return np.concatenate([
            self.logits(parameters[None], part[None] / np.float32(255))[0].argmax(-1)
            for part in parts
        ])  # fmt: skip


@dataclass(frozen=True)
class Softmax(Net):
    """Multinomial logistic regression; starts at zero."""

    name = "softmax"

    @property
    def n_parameters(self) -> int:
        """Weights (d, K), then biases (K,)."""
        return (self.pixels + 1) * self.n_classes

    def start(self, generator: np.random.Generator) -> np.ndarray:
        """Return zeros."""
        return np.zeros(self.n_parameters, np.float32)

    def gradient_sum(
        self,
        parameters: np.ndarray,
        rows: np.ndarray,
        labels: np.ndarray,
        groups: Groups,
        clip_norm: float = math.inf,
    ) -> np.ndarray:
        """Closed form: the gradient of a group is Σ w x ⊗ (p - y).

        Of few records its squared norm is Σ (x·x′ + 1)(e·e′) over their pairs, with e = w (p - y):
        no record's (d, K) gradient is ever stored.
        """
        n_groups, m = groups.records.shape
        flat, k = groups.records.ravel(), self.n_classes
        matrix = np.asarray(parameters, np.float64).reshape(self.pixels + 1, k)
        inputs = rows[flat].astype(np.float64)
        errors = inputs @ matrix[:-1]
        errors += matrix[-1]
        usable = np.isfinite(errors).all(axis=1) & (labels[flat] >= 0)
        errors[~usable] = 0.0
        errors -= errors.max(axis=1, keepdims=True)
        np.exp(errors, out=errors)
        errors /= errors.sum(axis=1, keepdims=True)
        errors[np.arange(len(flat)), np.maximum(labels[flat], 0)] -= 1
        errors *= np.where(usable, groups.weights.ravel(), 0.0)[:, None]
        if math.isfinite(clip_norm):
            a = inputs.reshape(n_groups, m, -1)
            e = errors.reshape(n_groups, m, k)
            if m > k:  # the gradient of a group is smaller than its matrix of pairs
                gradients = a.transpose(0, 2, 1) @ e
                squared = np.square(gradients).sum(axis=(1, 2)) + np.square(e.sum(axis=1)).sum(1)
            else:
                pairs = (a @ a.transpose(0, 2, 1) + 1) * (e @ e.transpose(0, 2, 1))
                # what cancels in the sum leaves rounding errors: the norm is never too small
                squared = np.maximum(pairs.sum(axis=(1, 2)), 0.0)
                squared += np.abs(pairs).sum(axis=(1, 2)) * 2.0**-40
            errors *= np.repeat(_factors(np.sqrt(squared), clip_norm), m)[:, None]
        total = np.concatenate([inputs.T @ errors, errors.sum(axis=0, keepdims=True)])
        return total.ravel() if np.isfinite(total).all() else np.zeros(self.n_parameters)

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
        """Closed form: the gradient by logits times the weights."""
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
class Cnn(Net):
    """Two convolutions and two linear layers with tanh, the network of the DP-SGD tutorials.

    16 filters of 8 x 8 (stride 2, padding 3), maximum of 2 x 2 (stride 1), 32 filters of 4 x 4
    (stride 2), maximum of 2 x 2 (stride 1), 32 units, K outputs. The thesis gives no sizes.
    """

    name = "cnn"

    @property
    def norm(self) -> float:
        """Pixels have variance 1."""
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
        """Of all tensors."""
        return sum(math.prod(shape) for shape in self._shapes().values())

    def start(self, generator: np.random.Generator) -> np.ndarray:
        """Return (P,) uniform within 1/sqrt(inputs), as PyTorch's layers start."""
        parts, bound = [], 0.0
        for name, shape in self._shapes().items():
            if name.endswith("weight"):
                bound = 1 / math.sqrt(math.prod(shape[1:]))
            parts.append(generator.uniform(-bound, bound, size=math.prod(shape)))
        return np.concatenate(parts).astype(np.float32)

    def _one(self, flat: torch.Tensor, pictures: torch.Tensor) -> torch.Tensor:
        """(m, K) logits of (m, d) ready pictures by one model."""
        from torch.nn.functional import conv2d, linear, max_pool2d

        tensors, begin = [], 0
        for shape in self._shapes().values():
            end = begin + math.prod(shape)
            tensors.append(flat[begin:end].reshape(shape))
            begin = end
        images = pictures.reshape(-1, 1, self.height, self.width)
        if self._scale > 1:
            images = images.repeat_interleave(self._scale, -1).repeat_interleave(self._scale, -2)
        hidden = conv2d(images, tensors[0], tensors[1], stride=2, padding=3).tanh()
        hidden = max_pool2d(hidden, 2, 1)
        hidden = conv2d(hidden, tensors[2], tensors[3], stride=2).tanh()
        hidden = max_pool2d(hidden, 2, 1).flatten(1)
        hidden = linear(hidden, tensors[4], tensors[5]).tanh()
        return linear(hidden, tensors[6], tensors[7])

    def _ready(self, pictures: torch.Tensor) -> torch.Tensor:
        """Pictures as the network sees them; differentiable."""
        if not self.standardise:
            return pictures
        centred = pictures - pictures.mean(-1, keepdim=True)
        norms = centred.detach().square().sum(-1, keepdim=True).sqrt()
        flat = norms <= _FLAT  # of one grey: no division, and a finite gradient
        norms = (centred.square().sum(-1, keepdim=True) + flat).sqrt()
        return self.norm * centred / norms

    def logits(self, parameters: np.ndarray, pictures: np.ndarray) -> np.ndarray:
        """Return (R, T, K), model by model."""
        import torch

        with torch.no_grad():
            return np.stack([
                self._one(torch.from_numpy(one), self._ready(torch.from_numpy(rows))).numpy()
                for one, rows in zip(parameters, pictures, strict=True)
            ])  # fmt: skip

    def pulled(
        self, parameters: np.ndarray, pictures: np.ndarray, cost: Cost
    ) -> tuple[np.ndarray, np.ndarray]:
        """By automatic differentiation, model by model."""
        import torch

        costs, gradients = [], []
        for one, rows in zip(parameters, pictures, strict=True):
            inputs = torch.from_numpy(rows).requires_grad_()
            logits = self._one(torch.from_numpy(one), self._ready(inputs))
            found, by_logits = cost(logits.detach().numpy()[None])
            (gradient,) = torch.autograd.grad(logits, inputs, torch.from_numpy(by_logits[0]))
            costs.append(found[0])
            gradients.append(gradient.numpy())
        return np.stack(costs), np.stack(gradients)

    def gradient_sum(
        self,
        parameters: np.ndarray,
        rows: np.ndarray,
        labels: np.ndarray,
        groups: Groups,
        clip_norm: float = math.inf,
    ) -> np.ndarray:
        """By automatic differentiation, all groups of a step at once (padded to one size)."""
        import torch
        from torch.nn.functional import cross_entropy

        weights = torch.from_numpy(groups.weights * (labels[groups.records] >= 0)).float()
        truth = torch.from_numpy(np.maximum(labels[groups.records], 0))
        pictures = torch.from_numpy(rows[groups.records])
        flat = torch.from_numpy(np.asarray(parameters, np.float32))

        def loss(flat: torch.Tensor, x: torch.Tensor, y: torch.Tensor, w: torch.Tensor):
            return (cross_entropy(self._one(flat, x), y, reduction="none") * w).sum()

        if not math.isfinite(clip_norm):
            x, y, w = pictures.flatten(0, 1), truth.flatten(), weights.flatten()
            return torch.func.grad(loss)(flat, x, y, w).double().numpy()
        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0, 0))
        gradients = each(flat, pictures, truth, weights).double().numpy()
        factors = _factors(np.linalg.norm(gradients, axis=1), clip_norm)
        if not factors.all():  # what is not finite stays so times 0
            gradients = np.where(factors[:, None] > 0, gradients, 0.0)
        return factors @ gradients


def _factors(norms: np.ndarray, clip_norm: float) -> np.ndarray:
    """min(1, C / norm); 0 where not finite."""
    with np.errstate(divide="ignore"):
        factors = np.minimum(1.0, clip_norm * _SAFE / norms)
    return np.where(np.isfinite(norms), factors, 0.0)


NETS: dict[str, type[Net]] = {each.name: each for each in (Softmax, Cnn)}
