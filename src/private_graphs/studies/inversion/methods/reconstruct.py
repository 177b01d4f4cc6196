"""Model inversion: pictures that a classifier assigns to its classes, from its parameters alone.

``original``: MI-Face (Fredrikson, Jha & Ristenpart, CCS 2015). ``enhanced``: Algorithm 4 of Zhang,
Emory thesis 2021. ``prior``: this project's, the picture with the highest confidence in a space of
public pictures of other classes. Nothing here reads private data; all models and all classes are
attacked as one batch, and nothing is random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.fft import irfft2, rfft2
from scipy.special import log_softmax, softmax

if TYPE_CHECKING:
    from private_graphs.studies.inversion.methods.model_inversion import InversionSettings
    from private_graphs.training.picture_nets import PictureNet

_ENOUGH = 0.01
"""Cost at which the original attack stops."""
_PATIENCE = 100
"""It also stops if the cost is no lower than this many steps before."""
_BETAS, _TAU = (0.9, 0.999), 1e-8
_REACH, _DECAY = 2, 0.9
"""p and α of the bilateral total variation."""
_CONTRAST = 2.0
"""Contrast of a picture of the attack with a prior, in units of the public pictures' contrast."""


def variation(
    pictures: np.ndarray, reach: int = _REACH, decay: float = _DECAY
) -> tuple[np.ndarray, np.ndarray]:
    """Return (…,) bilateral total variation of (…, h, w) pictures and its gradient.

    Σ over l = -p…p, m = 0…p, l + m >= 0 of α^(m+l) ‖x - shifted x‖₁ (thesis, Equation 4.3); a
    shifted picture is compared where both overlap. x and y shift towards growing indices.
    """
    total = np.zeros(pictures.shape[:-2], pictures.dtype)
    gradient = np.zeros_like(pictures)
    height, width = pictures.shape[-2:]
    for m in range(reach + 1):
        for shift in range(-reach, reach + 1):
            if m + shift < 0 or (m, shift) == (0, 0):
                continue
            weight = decay ** (m + shift)
            left, right = max(0, shift), width + min(0, shift)
            here = (..., slice(m, height), slice(left, right))
            shifted = (..., slice(0, height - m), slice(left - shift, right - shift))
            difference = pictures[here] - pictures[shifted]
            total += weight * np.abs(difference).sum((-1, -2))
            sign = weight * np.sign(difference)
            gradient[here] += sign
            gradient[shifted] -= sign
    return total, gradient


def penalty(
    kind: str, pictures: np.ndarray, height: int, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (R, T) penalties of (R, T, d) pictures, and their (R, T, d) gradients."""
    if kind == "btv":
        total, gradient = variation(pictures.reshape(*pictures.shape[:2], height, width))
        return total, gradient.reshape(pictures.shape)
    if kind == "none":
        return np.zeros(pictures.shape[:2]), np.zeros_like(pictures)
    share = pictures.shape[-1] if kind == "l1_mean" else 1
    return np.abs(pictures).sum(-1) / share, np.sign(pictures) / share


def doubt(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (R, K) 1 - p_k at picture k of each class, and the (R, K, K) gradients by logits."""
    chances = softmax(logits, axis=-1)
    p = np.diagonal(chances, axis1=1, axis2=2)
    return 1 - p, p[..., None] * (chances - np.eye(logits.shape[-1], dtype=logits.dtype))


def surprise(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (R, K) -log p_k and its gradient in the same way."""
    chances = log_softmax(logits, axis=-1)
    log_p = np.diagonal(chances, axis1=1, axis2=2)
    return -log_p, np.exp(chances) - np.eye(logits.shape[-1], dtype=logits.dtype)


def attack(
    net: PictureNet,
    parameters: np.ndarray,
    settings: InversionSettings,
    public: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """Return (R, K, h, w) float32 pictures in [0, 1]: of every class by each of R models.

    ``parameters`` (R, P). ``public`` are (n, d) pictures and (n,) labels, which ``prior`` needs.
    """
    flat = np.ascontiguousarray(parameters, np.float32)
    if settings.attack == "original":
        pictures = _original(net, flat, settings)
    elif settings.attack == "enhanced":
        pictures = _enhanced(net, flat, settings)
    else:
        pictures = _prior(net, flat, settings, public)
    shape = (len(parameters), net.n_classes, net.height, net.width)
    return pictures.clip(0, 1).reshape(shape)


def _original(net: PictureNet, parameters: np.ndarray, settings: InversionSettings) -> np.ndarray:
    """Gradient descent on 1 - p from a black picture; returns the best picture of each descent."""
    pictures = np.zeros((len(parameters), net.n_classes, net.pixels), np.float32)
    best, least = pictures.copy(), np.full(pictures.shape[:2], np.inf, np.float32)
    earlier = np.full((_PATIENCE, *pictures.shape[:2]), np.inf, np.float32)
    stopped = np.zeros(pictures.shape[:2], dtype=bool)
    for step in range(settings.attack_steps):
        at = np.flatnonzero(~stopped.all(axis=1))
        if not len(at):
            break
        cost, gradient = net.pulled(parameters[at], pictures[at], doubt)
        better = (cost < least[at]) & ~stopped[at]
        least[at] = np.where(better, cost, least[at])
        best[at] = np.where(better[..., None], pictures[at], best[at])
        slot = step % _PATIENCE
        stopped[at] |= (least[at] <= _ENOUGH) | (cost >= earlier[slot, at])
        earlier[slot, at] = cost
        moved = (pictures[at] - np.float32(settings.step) * gradient).clip(0, 1)
        pictures[at] = np.where(stopped[at][..., None], pictures[at], moved)
    return best


@dataclass
class UncorrectedAdam:
    """Adam of Algorithm 4: no bias correction, τ inside the root."""

    step: float
    mean: np.ndarray
    square: np.ndarray

    @classmethod
    def of(cls, variables: np.ndarray, step: float) -> UncorrectedAdam:
        """Return the initial state for variables of this shape."""
        return cls(step, np.zeros_like(variables), np.zeros_like(variables))

    def move(self, gradient: np.ndarray) -> np.ndarray:
        """Return the update to add to the variables."""
        first, second = _BETAS
        self.mean = first * self.mean + (1 - first) * gradient
        self.square = second * self.square + (1 - second) * gradient**2
        return -self.step * self.mean / np.sqrt(self.square + _TAU)


def _enhanced(net: PictureNet, parameters: np.ndarray, settings: InversionSettings) -> np.ndarray:
    """Adam on 1 - p + λ penalty; the gradient is by w, through the box."""
    variables = np.zeros((len(parameters), net.n_classes, net.pixels), np.float32)
    if not settings.box:
        variables += 0.5
    adam = UncorrectedAdam.of(variables, settings.step)
    for _ in range(settings.attack_steps):
        pictures = (np.tanh(variables) + 1) / 2 if settings.box else variables
        _, gradient = net.pulled(parameters, pictures, doubt)
        if settings.penalty != "none":
            gradient = (
                gradient
                + settings.weight * penalty(settings.penalty, pictures, net.height, net.width)[1]
            )
        if settings.box:
            gradient = gradient * 2 * pictures * (1 - pictures)  # derivative of the box
        variables += adam.move(gradient)
    return (np.tanh(variables) + 1) / 2 if settings.box else variables


def _prior(
    net: PictureNet,
    parameters: np.ndarray,
    settings: InversionSettings,
    public: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """Adam on -log p + λ‖z‖² / 2, where a picture is a public mean plus smooth detail.

    Detail is z times the square root of the public pictures' amplitude at each frequency; at the
    end its contrast is twice theirs. For class k, mean and amplitudes come from public pictures of
    the other classes only.
    """
    pixels, labels = public
    shape = (net.height, net.width)
    pixels = pixels.astype(np.float64).reshape(-1, *shape)
    fourier = rfft2(pixels, norm="ortho")
    seen, powers = np.square(pixels).mean((1, 2)), np.abs(fourier) ** 2
    means, spectra, contrasts = [], [], []
    for label in range(net.n_classes):
        mask = labels != label
        mean = pixels[mask].mean(axis=0)
        power = powers[mask].mean(axis=0) - np.abs(rfft2(mean, norm="ortho")) ** 2
        power = power.clip(min=0)
        spectra.append(np.sqrt(np.sqrt(power) * np.sqrt(power.max())))
        means.append(mean.ravel())
        contrasts.append(np.sqrt(seen[mask].mean() - np.square(mean).mean()))
    mean, spectrum, contrast = (np.array(rows, np.float32) for rows in (means, spectra, contrasts))

    def shaped(z: np.ndarray) -> np.ndarray:
        fourier = rfft2(z.reshape(*z.shape[:2], *shape))
        return irfft2(fourier * spectrum, shape).reshape(z.shape)

    variables = np.zeros((len(parameters), net.n_classes, net.pixels), np.float32)
    adam = UncorrectedAdam.of(variables, settings.step)
    for _ in range(settings.attack_steps):
        pictures = mean + shaped(variables)
        _, gradient = net.pulled(parameters, pictures, surprise)
        variables += adam.move(shaped(gradient) + settings.weight * variables)
    detail = shaped(variables)
    spread = detail.std(-1, keepdims=True)
    return mean + _CONTRAST * contrast[:, None] * detail / np.where(spread > 0, spread, 1)


def without_model(public: np.ndarray, height: int, width: int) -> dict[str, np.ndarray]:
    """Return (h, w) pictures of an attacker without a model: black, grey, the public mean."""
    grey = np.full((height, width), 0.5)
    mean = public.mean(axis=0).reshape(height, width)
    return {"black": np.zeros((height, width)), "grey": grey, "public mean": mean}


def sureness(net: PictureNet, parameters: np.ndarray, pictures: np.ndarray) -> np.ndarray:
    """Return (R, K) probabilities that R models assign to class k for picture k of (R, K, h, w)."""
    rows = pictures.reshape(*pictures.shape[:2], -1).astype(np.float32)
    chances = softmax(net.logits(np.asarray(parameters, np.float32), rows), axis=-1)
    return np.diagonal(chances, axis1=1, axis2=2)
