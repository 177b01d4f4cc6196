"""The draws of ``noise`` as tensor operations, for many replicas at once, on any device.

The words equal those of the compiled code for the same keys, steps and counters; uint32 numbers are
stored in int64. Nothing here waits for the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch

from private_graphs.core.errors import UserError

_MASK = 0xFFFFFFFF
_WORDS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
"""Constants of ChaCha's state."""


def words(keys: torch.Tensor, step: torch.Tensor, units: torch.Tensor) -> list[torch.Tensor]:
    """Return four int64 words (A, U) of ``units`` (A, U); ``keys`` are (A, 4) or (A, 8)."""
    draw = _kernels(units.device) if units.device.type == "cuda" else _by_tensors
    return draw(keys, step, units)


@cache
def _kernels(device: torch.device) -> Callable[..., list[torch.Tensor]]:
    """Return the GPU kernel of the words, after a check against the tensor operations.

    Raises:
        UserError: the words differ, so that noise would be wrong without any sign of it.
    """
    from private_graphs.training import cuda_words  # imports Triton

    step = torch.tensor(2**33 + 9, device=device)
    units = torch.arange(600, device=device) + torch.tensor([[0], [5]], device=device)
    for width in (4, 8):
        keys = torch.arange(1, 2 * width + 1, device=device).view(2, width) * 0x9E3779B9 & _MASK
        drawn = zip(
            cuda_words.words(keys, step, units), _by_tensors(keys, step, units), strict=True
        )
        if not all(torch.equal(*pair) for pair in drawn):
            raise UserError(
                f"device is {str(device)!r}, but its random words are not those of the generator; "
                "expected the same as by PyTorch's operations: use --device cpu"
            )
    return cuda_words.words


def _by_tensors(keys: torch.Tensor, step: torch.Tensor, units: torch.Tensor) -> list[torch.Tensor]:
    draw = _philox if keys.shape[1] == 4 else _chacha
    return draw([column[:, None] for column in keys.unbind(1)], step, units)


def _philox(key: list[torch.Tensor], step: torch.Tensor, units: torch.Tensor) -> list[torch.Tensor]:
    """Philox4x32-10; a product of two words may wrap in int64, which keeps its 64 bits."""
    k0, k1, c2, c3 = key
    c0, c1 = units & _MASK, step & _MASK
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1 = (p1 >> 32) & _MASK ^ c1 ^ k0, p1 & _MASK
        c2, c3 = (p0 >> 32) & _MASK ^ c3 ^ k1, p0 & _MASK
        k0, k1 = (k0 + 0x9E3779B9) & _MASK, (k1 + 0xBB67AE85) & _MASK
    return [word.expand(units.shape) for word in (c0, c1, c2, c3)]


def chacha_block(state: torch.Tensor) -> torch.Tensor:
    """Apply ChaCha20's block function (RFC 8439 §2.3) to states (16, …), four columns at a time."""
    a, b, c, d = state.unflatten(0, (4, 4))

    def turned(x: torch.Tensor, bits: int) -> torch.Tensor:
        return (x << bits | x >> 32 - bits) & _MASK

    for number in range(20):
        for left, right in ((16, 12), (8, 7)):
            a = (a + b) & _MASK
            d = turned(d ^ a, left)
            c = (c + d) & _MASK
            b = turned(b ^ c, right)
        shift = 1 if number % 2 else -1  # to the diagonals and back
        b, c, d = b.roll(shift, 0), c.roll(2, 0), d.roll(-shift, 0)
    return (torch.cat([a, b, c, d]) + state) & _MASK


def _chacha(key: list[torch.Tensor], step: torch.Tensor, units: torch.Tensor) -> list[torch.Tensor]:
    """Return quarters of ChaCha20 blocks: of 64 units, the first 16 are the first quarters."""
    shape, flat = units.shape, units.flatten()
    state = [torch.full_like(flat, word) for word in _WORDS]
    state += [word.expand(shape).flatten() for word in key]
    state.append(flat // 64 * 16 + flat % 16)
    state += [word.expand_as(flat) for word in (step & _MASK, step >> 32)]
    state.append(torch.zeros_like(flat))
    blocks = chacha_block(torch.stack(state)).unflatten(0, (4, 4))
    quarter = (flat % 64 // 16).expand(1, 4, -1)
    return list(blocks.gather(0, quarter)[0].unflatten(1, shape))


def normals(keys: torch.Tensor, step: torch.Tensor, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Return standard normals (A, count) of a step, by Box-Muller as in ``noise.fill_normals``."""
    units = torch.arange(-(-count // 4), device=keys.device).expand(len(keys), -1)
    drawn = words(keys, step, units)
    parts = []
    for high, low in (drawn[:2], drawn[2:]):
        radius = ((high << 8 | low >> 24).to(dtype) + 0.5) * 2.0**-40
        radius = (-2 * radius.log()).sqrt()
        angle = 2 * math.pi * ((low & 0xFFFFFF).to(dtype) * 2.0**-24)
        parts += [radius * angle.cos(), radius * angle.sin()]
    return torch.cat(parts, dim=1)[:, :count]


def random_bytes(
    keys: torch.Tensor, step: torch.Tensor, first: torch.Tensor, count: int
) -> torch.Tensor:
    """Return bytes (A, count) from the units ``first`` (A,) on."""
    units = first[:, None] + torch.arange(-(-count // 16), device=keys.device)
    return bytes_of(keys, step, units)[:, :count]


def bytes_of(keys: torch.Tensor, step: torch.Tensor, units: torch.Tensor) -> torch.Tensor:
    """Return the bytes (A, 16 U) of ``units`` (A, U)."""
    drawn = torch.stack(words(keys, step, units), dim=2)
    places = torch.arange(0, 32, 8, device=keys.device)
    return (drawn[..., None] >> places & 0xFF).flatten(1)
