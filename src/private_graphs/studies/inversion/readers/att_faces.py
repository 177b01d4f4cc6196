"""AT&T (ORL) faces: 40 people, 10 grey photographs each, in PGM files of 92 x 112 pixels.

Halved by the mean of 2 x 2 pixels to 46 x 56.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from private_graphs.core.errors import UserError
from private_graphs.datasets.image_dataset import ParsedImages
from private_graphs.datasets.photographs import people_spec, split
from private_graphs.datasets.views import DataView

_PEOPLE, _PHOTOGRAPHS, _WIDTH, _HEIGHT = 40, 10, 92, 112
_HEADER = b"P5\n%d %d\n255\n" % (_WIDTH, _HEIGHT)
_COPIES = 22
"""Copies of each photograph, including itself: 220 per person, as in Zhang 2021, §4.5.1."""


def read_photograph(path: Path) -> np.ndarray:
    """Return (112, 92) uint8 of a binary PGM file; UserError for another header or size."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error}); supply the raw files") from None
    if len(content) != len(_HEADER) + _WIDTH * _HEIGHT or not content.startswith(_HEADER):
        raise UserError(
            f"{path}: {len(content)} bytes that begin with {content[:14]!r}; expected a PGM file "
            f"of {_WIDTH} x {_HEIGHT} pixels ({_HEADER!r}): supply the raw files again"
        )
    pixels = np.frombuffer(content, np.uint8, offset=len(_HEADER))
    return pixels.reshape(_HEIGHT, _WIDTH)


def read_faces(folder: Path, view: DataView) -> ParsedImages:
    """Read ``s1/1.pgm`` to ``s40/10.pgm`` of a folder; person i has label i - 1."""
    photographs = np.array([
        [read_photograph(folder / f"s{person}" / f"{number}.pgm")
         for number in range(1, _PHOTOGRAPHS + 1)]
        for person in range(1, _PEOPLE + 1)
    ])  # fmt: skip
    shape = (_PEOPLE, _PHOTOGRAPHS, _HEIGHT // 2, 2, _WIDTH // 2, 2)
    halved = (photographs.reshape(shape).sum(axis=(3, 5), dtype=np.uint16) + 2) // 4
    return split(halved.astype(np.uint8), view, _COPIES)


_SHAPE = (_PEOPLE, _PHOTOGRAPHS, _HEIGHT // 2, _WIDTH // 2)
DATASETS = (
    people_spec("att-faces", "AT&T (ORL) faces, 40 people", "att-faces", _SHAPE, read=read_faces),
)
