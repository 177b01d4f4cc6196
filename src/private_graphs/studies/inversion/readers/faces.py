"""Embedded faces: drawn heads in idx files, so that everything runs without a download.

A person is an oval with a smooth random texture, two eyes and a mouth of their own; a photograph
of one is lit from a side, shifted and a little noisy. All of it is integer arithmetic on draws of
the legacy ``RandomState``, whose streams NumPy keeps unchanged (NEP 19).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from private_graphs.core.files import atomic_path
from private_graphs.datasets.idx import idx_bytes, read_idx
from private_graphs.datasets.image_dataset import ParsedImages
from private_graphs.datasets.photographs import people_spec, split
from private_graphs.datasets.views import DataView

_SEED = 20215
_PEOPLE, _PHOTOGRAPHS, _HEIGHT, _WIDTH = 12, 30, 28, 24
_COPIES = 7
_COARSE = 4
"""Distance in pixels of two random values of a texture."""
_NAME = "faces-idx3-ubyte"


def _texture(rng: np.random.RandomState, strength: int) -> np.ndarray:
    """Return (h, w) smooth random integers between about ± strength, by interpolation."""
    values = rng.randint(-strength, strength + 1, size=(_HEIGHT // _COARSE + 2, _WIDTH // 4 + 2))
    rows, row = np.divmod(np.arange(_HEIGHT), _COARSE)
    columns, column = np.divmod(np.arange(_WIDTH), _COARSE)
    row, column = row[:, None], column[None, :]
    corners = [values[rows + a][:, columns + b] for a in (0, 1) for b in (0, 1)]
    weights = [(_COARSE - row) * (_COARSE - column), (_COARSE - row) * column,
               row * (_COARSE - column), row * column]  # fmt: skip
    return sum(c * w for c, w in zip(corners, weights, strict=True)) // _COARSE**2


def _person(rng: np.random.RandomState) -> np.ndarray:
    """Return (h, w) integers: the face of one person in even light."""
    y, x = np.mgrid[:_HEIGHT, :_WIDTH]
    y, x = y - _HEIGHT // 2, x - _WIDTH // 2
    tall, broad = rng.randint(10, 14), rng.randint(7, 11)
    inside = (y * broad) ** 2 + (x * tall) ** 2 <= (tall * broad) ** 2
    face = np.where(inside, 150 + rng.randint(-25, 26) + _texture(rng, 60), 40)
    hair = inside & (y < rng.randint(-9, -4))
    face[hair] = rng.randint(30, 200)
    apart, high = rng.randint(2, 5), rng.randint(-4, 0)
    eyes = (np.abs(np.abs(x) - apart) <= 1) & (np.abs(y - high) <= rng.randint(0, 2))
    mouth = (np.abs(x) <= rng.randint(2, 5)) & (np.abs(y - rng.randint(4, 8)) <= rng.randint(0, 2))
    face[eyes | mouth] = rng.randint(10, 80)
    return face


def _photograph(rng: np.random.RandomState, face: np.ndarray) -> np.ndarray:
    y, x = np.mgrid[:_HEIGHT, :_WIDTH]
    down, right = rng.randint(-1, 2, size=2)
    moved = np.roll(face, (down, right), (0, 1))
    light = rng.randint(85, 116) + rng.randint(-2, 3) * (x - _WIDTH // 2) * 5 // _WIDTH
    light = light + rng.randint(-2, 3) * (y - _HEIGHT // 2) * 5 // _HEIGHT
    noisy = moved * light // 100 + rng.randint(-12, 13, size=moved.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8)


def write_faces(raw_dir: Path) -> list[Path]:
    """Generate the idx file of all photographs, unless the same file already exists."""
    rng = np.random.RandomState(_SEED)
    faces = [_person(rng) for _ in range(_PEOPLE)]
    images = np.array([_photograph(rng, face) for face in faces for _ in range(_PHOTOGRAPHS)])
    path, content = raw_dir / "faces" / _NAME, idx_bytes(images)
    if not path.is_file() or path.read_bytes() != content:
        with atomic_path(path) as temporary:
            temporary.write_bytes(content)
    return [path]


def read(folder: Path, view: DataView) -> ParsedImages:
    """Read the photographs of a folder; those of a person are adjacent."""
    images = read_idx(folder / _NAME, 3)
    return split(images.reshape(_SHAPE), view, _COPIES)


_SHAPE = (_PEOPLE, _PHOTOGRAPHS, _HEIGHT, _WIDTH)
DATASETS = (
    people_spec("faces", "Synthetic faces of twelve people", "faces", _SHAPE, synthetic=True,
                read=read, write=write_faces),
)  # fmt: skip
