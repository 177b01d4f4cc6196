"""Model inversion: pictures of what a classifier takes for its classes, from its parameters alone.

``original``: MI-Face (Fredrikson, Jha & Ristenpart, CCS 2015). ``enhanced``: Algorithm 4 of Zhang,
Emory thesis 2021. ``prior``: ours, the picture in the space of public pictures of other classes
that the model is surest of. Nothing here sees private data; all models and all classes are attacked
as one batch, and nothing is random.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    import torch

    from private_graphs.training.picture_nets import Net

_ENOUGH = 0.01
"""Cost at which the original attack stops."""
_PATIENCE = 100
"""It also stops where it is no better than so many steps ago."""
_BETAS, _TAU = (0.9, 0.999), 1e-8
_REACH, _DECAY = 2, 0.9
"""p and α of the bilateral total variation."""
_CONTRAST = 2.0
"""Of a picture of the attack with a prior, in units of that of public pictures."""


@dataclass(frozen=True)
class Attack:
    """Which attack, and its parameters."""

    kind: Literal["original", "enhanced", "prior"]
    steps: int
    step: float
    penalty: Literal["none", "l1_sum", "l1_mean", "btv"] = "none"
    weight: float = 0.0
    """λ of the penalty."""
    box: bool = True
    """Whether pixels are ½(tanh w + 1), which keeps them in [0, 1]; else any number."""


def variation(
    pictures: torch.Tensor, reach: int = _REACH, decay: float = _DECAY
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (…,) bilateral total variation of (…, h, w) pictures and its gradient.

    Σ over l = -p…p, m = 0…p, l + m >= 0 of α^(m+l) ‖x - shifted x‖₁ (thesis, Equation 4.3); a
    shifted picture is compared where both overlap. x and y shift towards growing indices.
    """
    import torch

    total = torch.zeros(pictures.shape[:-2], dtype=pictures.dtype)
    gradient = torch.zeros_like(pictures)
    height, width = pictures.shape[-2:]
    for m in range(reach + 1):
        for shift in range(-reach, reach + 1):
            if m + shift < 0 or (m, shift) == (0, 0):
                continue
            weight = decay ** (m + shift)
            left, right = max(0, shift), width + min(0, shift)
            here = (..., slice(m, height), slice(left, right))
            there = (..., slice(0, height - m), slice(left - shift, right - shift))
            difference = pictures[here] - pictures[there]
            total += weight * difference.abs().sum((-1, -2))
            sign = weight * difference.sign()
            gradient[here] += sign
            gradient[there] -= sign
    return total, gradient


def penalty(
    kind: str, pictures: torch.Tensor, height: int, width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (R, T) penalties of (R, T, d) pictures, and their (R, T, d) gradients."""
    import torch

    if kind == "btv":
        total, gradient = variation(pictures.reshape(*pictures.shape[:2], height, width))
        return total, gradient.reshape(pictures.shape)
    if kind == "none":
        return torch.zeros(pictures.shape[:2]), torch.zeros_like(pictures)
    share = pictures.shape[-1] if kind == "l1_mean" else 1
    return pictures.abs().sum(-1) / share, pictures.sign() / share


def doubt(
    net: Net, parameters: torch.Tensor, pictures: torch.Tensor, *, logarithm: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (R, K) costs of (R, K, d) pictures and their gradients.

    The cost of picture k is 1 - p_k, or -log p_k, by each of R models.
    """
    import torch

    pictures = pictures.detach().requires_grad_()
    chances = net.logits(parameters, pictures).log_softmax(-1)
    own = chances.diagonal(dim1=1, dim2=2)
    cost = -own if logarithm else 1 - own.exp()
    (gradient,) = torch.autograd.grad(cost.sum(), pictures)
    return cost.detach(), gradient


def attack(
    net: Net,
    parameters: np.ndarray,
    chosen: Attack,
    public: tuple[np.ndarray, np.ndarray] | None = None,
    report: Callable[[int], None] = lambda step: None,
) -> np.ndarray:
    """Return (R, K, h, w) float32 pictures in [0, 1]: of every class by each of R models.

    ``parameters`` (R, P). ``public`` are (n, d) pictures and (n,) labels, which ``prior`` needs.
    """
    import torch

    flat = torch.from_numpy(np.ascontiguousarray(parameters, np.float32))
    if chosen.kind == "original":
        found = _original(net, flat, chosen, report)
    elif chosen.kind == "enhanced":
        found = _enhanced(net, flat, chosen, report)
    else:
        found = _prior(net, flat, chosen, public, report)
    shape = (len(parameters), net.n_classes, net.height, net.width)
    return found.clamp(0, 1).reshape(shape).numpy()


def _original(
    net: Net, parameters: torch.Tensor, chosen: Attack, report: Callable[[int], None]
) -> torch.Tensor:
    """Gradient descent on 1 - p from a black picture; of every picture the best one counts."""
    import torch

    pictures = torch.zeros(len(parameters), net.n_classes, net.pixels)
    best, least = pictures.clone(), torch.full(pictures.shape[:2], torch.inf)
    earlier = torch.full((_PATIENCE, *pictures.shape[:2]), torch.inf)
    running = torch.ones(len(parameters), dtype=torch.bool)
    stopped = torch.zeros(pictures.shape[:2], dtype=torch.bool)
    for step in range(chosen.steps):
        at = running.nonzero()[:, 0]
        cost, gradient = doubt(net, parameters[at], pictures[at])
        better = (cost < least[at]) & ~stopped[at]
        least[at] = torch.where(better, cost, least[at])
        best[at] = torch.where(better[..., None], pictures[at], best[at])
        place = step % _PATIENCE
        stopped[at] |= (least[at] <= _ENOUGH) | (cost >= earlier[place, at])
        earlier[place, at] = cost
        running = ~stopped.all(dim=1)
        report(step + 1)
        if not running.any():
            break
        moved = (pictures[at] - chosen.step * gradient).clamp(0, 1)
        pictures[at] = torch.where(stopped[at][..., None], pictures[at], moved)
    return best


@dataclass
class Adam:
    """Adam of Algorithm 4: no bias correction, τ inside the root."""

    step: float
    mean: torch.Tensor
    square: torch.Tensor

    @classmethod
    def of(cls, variables: torch.Tensor, step: float) -> Adam:
        """Start for variables of this shape."""
        import torch

        return cls(step, torch.zeros_like(variables), torch.zeros_like(variables))

    def move(self, gradient: torch.Tensor) -> torch.Tensor:
        """Return what is added to the variables."""
        first, second = _BETAS
        self.mean.mul_(first).add_(gradient, alpha=1 - first)
        self.square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        return -self.step * self.mean / (self.square + _TAU).sqrt()


def _enhanced(
    net: Net, parameters: torch.Tensor, chosen: Attack, report: Callable[[int], None]
) -> torch.Tensor:
    """Adam on 1 - p + λ penalty; the gradient is taken through the box by w."""
    import torch

    variables = torch.zeros(len(parameters), net.n_classes, net.pixels)
    if not chosen.box:
        variables += 0.5
    adam = Adam.of(variables, chosen.step)
    for step in range(chosen.steps):
        pictures = (variables.tanh() + 1) / 2 if chosen.box else variables
        _, gradient = doubt(net, parameters, pictures)
        if chosen.penalty != "none":
            gradient += chosen.weight * penalty(chosen.penalty, pictures, net.height, net.width)[1]
        if chosen.box:
            gradient *= 2 * pictures * (1 - pictures)  # derivative of the box
        variables += adam.move(gradient)
        report(step + 1)
    return (variables.tanh() + 1) / 2 if chosen.box else variables


def _prior(
    net: Net,
    parameters: torch.Tensor,
    chosen: Attack,
    public: tuple[np.ndarray, np.ndarray],
    report: Callable[[int], None],
) -> torch.Tensor:
    """Adam on -log p + λ‖z‖² / 2, where a picture is a public mean plus smooth detail.

    Detail is z with the square root of the public pictures' amplitude at each frequency; in the end
    its contrast is twice theirs. For class k mean and amplitudes are of public pictures of the
    other classes alone.
    """
    import torch

    pixels, labels = public
    shape = (net.height, net.width)
    means, spectra, contrasts = [], [], []
    for label in range(net.n_classes):
        others = pixels[labels != label].astype(np.float64).reshape(-1, *shape)
        mean = others.mean(axis=0)
        power = (np.abs(np.fft.fft2(others - mean, norm="ortho")) ** 2).mean(axis=0)
        spectra.append(np.sqrt(np.sqrt(power) * np.sqrt(power.max())))
        means.append(mean.ravel())
        contrasts.append((others - mean).std())
    mean, spectrum = (torch.from_numpy(np.array(each)).float() for each in (means, spectra))
    contrast = torch.tensor(contrasts, dtype=torch.float32)[:, None]

    def shaped(z: torch.Tensor) -> torch.Tensor:
        fourier = torch.fft.fft2(z.reshape(*z.shape[:2], *shape))
        return torch.fft.ifft2(fourier * spectrum).real.reshape(z.shape)

    variables = torch.zeros(len(parameters), net.n_classes, net.pixels)
    adam = Adam.of(variables, chosen.step)
    for step in range(chosen.steps):
        pictures = mean + shaped(variables)
        _, gradient = doubt(net, parameters, pictures, logarithm=True)
        variables += adam.move(shaped(gradient) + chosen.weight * variables)
        report(step + 1)
    detail = shaped(variables)
    spread = detail.std(-1, keepdim=True)
    return mean + torch.where(spread > 0, _CONTRAST * contrast / spread, 0.0) * detail


def without_model(public: np.ndarray, height: int, width: int) -> dict[str, np.ndarray]:
    """Return (h, w) pictures of an attacker who has no model: black, grey, the public mean."""
    grey = np.full((height, width), 0.5)
    mean = public.mean(axis=0).reshape(height, width)
    return {"black": np.zeros((height, width)), "grey": grey, "public mean": mean}


def sureness(net: Net, parameters: np.ndarray, pictures: np.ndarray) -> np.ndarray:
    """Return (R, K) probabilities that R models give class k at picture k of (R, K, h, w)."""
    import torch

    flat = torch.from_numpy(np.ascontiguousarray(parameters, np.float32))
    rows = torch.from_numpy(pictures.reshape(*pictures.shape[:2], -1).astype(np.float32))
    with torch.no_grad():
        chances = net.logits(flat, rows).softmax(-1)
    return chances.diagonal(dim1=1, dim2=2).numpy()
