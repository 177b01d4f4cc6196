"""The random words of ``torch_noise`` on a GPU, each draw in one kernel instead of hundreds.

Triton compiles the kernels on first use; it comes with PyTorch for CUDA.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_UNITS = 256
"""Units that one Triton program computes."""


def words(keys: torch.Tensor, step: torch.Tensor, units: torch.Tensor) -> list[torch.Tensor]:
    """Return four words (A, U) in int64 of ``units`` (A, U), as ``torch_noise.words`` does."""
    out = torch.empty(4, *units.shape, dtype=torch.int64, device=units.device)
    draw = _philox if keys.shape[1] == 4 else _chacha
    grid = (len(units), triton.cdiv(units.shape[1], _UNITS))  # the first may be long
    if units.numel():
        draw[grid](
            keys.contiguous(), step, units, *units.stride(), out, units.shape[1], units.numel(),
            UNITS=_UNITS,
        )  # fmt: skip
    return list(out)


@triton.jit
def _philox(keys, step, units, by_row, by_unit, out, count, size, UNITS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    mask = offsets < count
    c0 = tl.load(units + row * by_row + offsets * by_unit, mask, 0).to(tl.uint32)
    zero = c0 & 0
    c1 = zero + (tl.load(step) & 0xFFFFFFFF).to(tl.uint32)
    k0 = tl.load(keys + row * 4).to(tl.uint32)
    k1 = tl.load(keys + row * 4 + 1).to(tl.uint32)
    c2 = zero + tl.load(keys + row * 4 + 2).to(tl.uint32)
    c3 = zero + tl.load(keys + row * 4 + 3).to(tl.uint32)
    for _ in tl.static_range(10):
        p0 = c0.to(tl.uint64) * 0xD2511F53
        p1 = c2.to(tl.uint64) * 0xCD9E8D57
        c0 = (p1 >> 32).to(tl.uint32) ^ c1 ^ k0
        c1 = p1.to(tl.uint32)
        c2 = (p0 >> 32).to(tl.uint32) ^ c3 ^ k1
        c3 = p0.to(tl.uint32)
        k0 = (k0.to(tl.uint64) + 0x9E3779B9).to(tl.uint32)
        k1 = (k1.to(tl.uint64) + 0xBB67AE85).to(tl.uint32)
    target = out + row * count + offsets
    tl.store(target, c0.to(tl.int64), mask)
    tl.store(target + size, c1.to(tl.int64), mask)
    tl.store(target + 2 * size, c2.to(tl.int64), mask)
    tl.store(target + 3 * size, c3.to(tl.int64), mask)


@triton.jit
def _quarter(a, b, c, d):
    """Apply one quarter round (RFC 8439 §2.1)."""
    a = a + b
    d = d ^ a
    d = (d << 16) | (d >> 16)
    c = c + d
    b = b ^ c
    b = (b << 12) | (b >> 20)
    a = a + b
    d = d ^ a
    d = (d << 8) | (d >> 24)
    c = c + d
    b = b ^ c
    b = (b << 7) | (b >> 25)
    return a, b, c, d


@triton.jit
def _chosen(quarter, a, b, c, d):
    return tl.where(quarter < 2, tl.where(quarter == 0, a, b), tl.where(quarter == 2, c, d))


@triton.jit
def _chacha(keys, step, units, by_row, by_unit, out, count, size, UNITS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    mask = offsets < count
    unit = tl.load(units + row * by_row + offsets * by_unit, mask, 0)
    quarter = unit % 64 // 16
    block = (unit // 64 * 16 + unit % 16).to(tl.uint32)
    number = tl.load(step)
    zero = block & 0
    key = keys + row * 8
    i0 = zero + 0x61707865
    i1 = zero + 0x3320646E
    i2 = zero + 0x79622D32
    i3 = zero + 0x6B206574
    i4 = zero + tl.load(key).to(tl.uint32)
    i5 = zero + tl.load(key + 1).to(tl.uint32)
    i6 = zero + tl.load(key + 2).to(tl.uint32)
    i7 = zero + tl.load(key + 3).to(tl.uint32)
    i8 = zero + tl.load(key + 4).to(tl.uint32)
    i9 = zero + tl.load(key + 5).to(tl.uint32)
    i10 = zero + tl.load(key + 6).to(tl.uint32)
    i11 = zero + tl.load(key + 7).to(tl.uint32)
    i13 = zero + (number & 0xFFFFFFFF).to(tl.uint32)
    i14 = zero + (number >> 32).to(tl.uint32)
    x0, x1, x2, x3, x4, x5, x6, x7 = i0, i1, i2, i3, i4, i5, i6, i7
    x8, x9, x10, x11, x12, x13, x14, x15 = i8, i9, i10, i11, block, i13, i14, zero
    for _ in tl.static_range(10):
        x0, x4, x8, x12 = _quarter(x0, x4, x8, x12)
        x1, x5, x9, x13 = _quarter(x1, x5, x9, x13)
        x2, x6, x10, x14 = _quarter(x2, x6, x10, x14)
        x3, x7, x11, x15 = _quarter(x3, x7, x11, x15)
        x0, x5, x10, x15 = _quarter(x0, x5, x10, x15)
        x1, x6, x11, x12 = _quarter(x1, x6, x11, x12)
        x2, x7, x8, x13 = _quarter(x2, x7, x8, x13)
        x3, x4, x9, x14 = _quarter(x3, x4, x9, x14)
    target = out + row * count + offsets
    first = _chosen(quarter, x0 + i0, x4 + i4, x8 + i8, x12 + block)
    second = _chosen(quarter, x1 + i1, x5 + i5, x9 + i9, x13 + i13)
    third = _chosen(quarter, x2 + i2, x6 + i6, x10 + i10, x14 + i14)
    fourth = _chosen(quarter, x3 + i3, x7 + i7, x11 + i11, x15)
    tl.store(target, first.to(tl.int64), mask)
    tl.store(target + size, second.to(tl.int64), mask)
    tl.store(target + 2 * size, third.to(tl.int64), mask)
    tl.store(target + 3 * size, fourth.to(tl.int64), mask)
