"""Selection of labelled images by two networks (co-teaching), and of labels to remove (cleansing).

Co-teaching (Han et al. 2018): each network learns from the images with its peer's smallest losses.
Co-teaching+ (Yu et al. 2019): only images on which the two disagree are candidates. Cleansing:
Zhang, Emory thesis 2021, Algorithm 3.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch


def kept_share(epoch: int, beta: float, ramp: int) -> float:
    """Return R(e) = 1 - β · min(e / ramp, 1) of epoch e = 1, 2, … (Section 3.4.1)."""
    return 1 - beta * min(epoch / ramp, 1)


def chosen_by(losses: torch.Tensor, candidates: torch.Tensor, share: float) -> torch.Tensor:
    """Return the (b,) mask of the ⌈share · n⌉ smallest of the n candidates' (b,) losses.

    The peer learns from these. Ties go to the first image.
    """
    count = math.ceil(share * int(candidates.sum()) - 1e-9)
    order = torch.argsort(
        torch.where(candidates, losses, torch.full_like(losses, torch.inf)), stable=True
    )
    mask = torch.zeros_like(candidates)
    mask[order[:count]] = True
    return mask


def mean_of(losses: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Return the mean of the chosen losses; 0, without a gradient, if none is chosen."""
    return (losses * chosen).sum() / chosen.sum().clamp(min=1)


Decay = Literal["running", "literal"]


def counted(counts: np.ndarray, flags: np.ndarray, alpha: float, decay: Decay) -> np.ndarray:
    """Return the counts after an epoch; ``flags`` (n,) is True for suspicious images.

    ``running``, as in the text: T ← α (T + flag). ``literal``, line 16 of Algorithm 3: T ← T + α
    flag, where α only rescales.
    """
    return alpha * (counts + flags) if decay == "running" else counts + alpha * flags


def cleansed(
    counts: np.ndarray, tau: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions (kept, removed): the ⌊τ n + ½⌋ largest of n counts are removed.

    Ties are broken at random. Both results are sorted.
    """
    order = np.lexsort((generator.random(len(counts)), -counts))
    cut = math.floor(tau * len(counts) + 0.5)
    return np.sort(order[cut:]), np.sort(order[:cut])
