"""Scattering transform of images: fixed wavelets, moduli and averages, without learned parameters.

Bruna & Mallat 2013; for private learning Tramèr & Boneh, ICLR 2021. Two scales and eight directions
of Morlet wavelets; averages of the image, of |x * ψ1| and of ||x * ψ1| * ψ2|, one for every four
pixels of height and width: 81 channels.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch

_DIRECTIONS = 8
_STRIDE = 4
"""Distance between averages in pixels: 2 to the power of the number of scales."""
_MARGIN = 2
"""Pixels by which an image is mirrored on every side."""


def _gabor(shape: tuple[int, int], sigma: float, angle: float, wave: float, slant: float):
    """Return a Gaussian times a wave, periodic on a grid of ``shape``."""
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    curve = turn @ np.diag([1, slant**2]) @ turn.T / (2 * sigma**2)
    height, width = shape
    kernel = np.zeros(shape, complex)
    for i in range(-2, 3):
        for j in range(-2, 3):
            y, x = np.mgrid[i * height : (i + 1) * height, j * width : (j + 1) * width]
            decay = curve[0, 0] * y * y + 2 * curve[0, 1] * y * x + curve[1, 1] * x * x
            phase = wave * (y * math.cos(angle) + x * math.sin(angle))
            kernel += np.exp(-decay + 1j * phase)
    return kernel / (2 * math.pi * sigma**2 / slant)


@lru_cache(maxsize=8)
def _wavelets(shape: tuple[int, int]) -> torch.Tensor:
    """Return the (2, 8, h, w) Fourier transforms of the Morlet wavelets, which are real."""
    filters = []
    for scale in range(2):
        for direction in range(_DIRECTIONS):
            angle = direction * math.pi / _DIRECTIONS
            sigma, wave, slant = 0.8 * 2**scale, 0.75 * math.pi / 2**scale, 4 / _DIRECTIONS
            bell = _gabor(shape, sigma, angle, 0.0, slant)
            ripple = _gabor(shape, sigma, angle, wave, slant)
            filters.append(np.fft.fft2(ripple - ripple.sum() / bell.sum() * bell).real)
    return torch.tensor(np.stack(filters).reshape(2, _DIRECTIONS, *shape), dtype=torch.float32)


@lru_cache(maxsize=16)
def _average(size: int, stride: int) -> torch.Tensor:
    """Return the (s, size / stride) matrix of Gaussian averages around every fourth pixel.

    It reads every pixel or every second one, as ``stride`` says.
    """
    sigma = 0.8 * 2
    places = torch.arange(_MARGIN, size - _MARGIN, _STRIDE, dtype=torch.float32)
    pixels = torch.arange(0, size, stride)
    apart = (pixels[None] - places[:, None] + size / 2) % size - size / 2
    weights = torch.exp(-(apart**2) / (2 * sigma**2))
    return weights / weights.sum(1, keepdim=True)


def _filtered(spectrum: torch.Tensor, wavelets: torch.Tensor) -> torch.Tensor:
    """Return (n, m, 8, h/2, w/2) transforms of every second pixel of filtered maps.

    ``spectrum`` (n, m, h, w) are transforms of maps; ``wavelets`` (8, h, w) are those of the second
    scale, which leave little above half the highest frequency. The transform of every second pixel
    is the mean of the four quarters.
    """
    numbers = torch.view_as_real(spectrum)[:, :, None]
    height, width = (size // 2 for size in wavelets.shape[1:])
    total = torch.zeros(1)
    for rows in (slice(height), slice(height, None)):
        for columns in (slice(width), slice(width, None)):
            part = numbers[..., rows, columns, :] * wavelets[:, rows, columns, None]
            total = total + part if total.ndim == 1 else total.add_(part)
    return torch.view_as_complex(total.mul_(0.25))


def scattered(images: torch.Tensor) -> torch.Tensor:
    """Return (n, c · 81, s, t) averages of (n, c, h, w) images, each computed from its image alone.

    s and t are a quarter of height and width, rounded up.
    """
    n, channels = images.shape[:2]
    margins = [side for size in images.shape[:1:-1] for side in (_MARGIN, _MARGIN + size % 2)]
    padded = torch.nn.functional.pad(images, margins, mode="reflect").flatten(0, 1)
    shape = tuple(padded.shape[1:])
    first, second = _wavelets(shape)

    def averaged(maps: torch.Tensor, stride: int) -> torch.Tensor:
        rows, columns = (_average(size, stride) for size in shape)
        return rows @ maps @ columns.T

    spectrum = torch.fft.fft2(padded)[:, None]
    fine = torch.fft.ifft2(spectrum * first).abs()
    coarse = torch.fft.ifft2(_filtered(spectrum, second)).abs().flatten(1, 2)
    pairs = torch.fft.ifft2(_filtered(torch.fft.fft2(fine), second)).abs().flatten(1, 2)
    averages = [averaged(padded[:, None], 1), averaged(fine, 1), averaged(coarse, 2),
             averaged(pairs, 2)]  # fmt: skip
    return torch.cat(averages, 1).unflatten(0, (n, channels)).flatten(1, 2)
