"""Faces94 (Spacek): 153 people in front of a green curtain, 20 photographs each of 180 x 200.

A zip of JPEG files ``.../PERSON/NAME.NUMBER.jpg``; converted to grey, and averaged to 60 x 70
pixels. People are numbered in the order of their folders' paths.
"""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np

from private_graphs.core.errors import UserError
from private_graphs.datasets.image_dataset import ParsedImages
from private_graphs.datasets.photographs import people_spec, split
from private_graphs.datasets.views import DataView
from private_graphs.datasets.zipped import opened, readable

_PEOPLE, _PHOTOGRAPHS, _WIDTH, _HEIGHT = 153, 20, 180, 200
_SMALL_WIDTH, _SMALL_HEIGHT = 60, 70
_COPIES = 11
"""Copies of each photograph, including itself: 220 per person, as in Zhang 2021, §4.5.1."""
_LARGEST = 1_000_000
"""Maximum number of bytes of a photograph."""


def read_photograph(content: bytes, where: str) -> np.ndarray:
    """Return (70, 60) uint8 of a JPEG file of 180 x 200 pixels; UserError for anything else."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=["JPEG"]) as image:
            if image.size != (_WIDTH, _HEIGHT):
                raise UserError(
                    f"{where}: {image.size[0]} x {image.size[1]} pixels; expected {_WIDTH} x "
                    f"{_HEIGHT}: supply the published file"
                )
            grey = image.convert("L")
    except UserError:
        raise
    except Exception as error:  # exceptions for malformed pictures have no common base class
        raise UserError(
            f"{where}: no JPEG file ({error}); supply the published file again"
        ) from None
    return np.asarray(grey.resize((_SMALL_WIDTH, _SMALL_HEIGHT), Image.Resampling.BOX))


def read_faces(path: Path, view: DataView) -> ParsedImages:
    """Read the first 20 photographs of each of the 153 folders of a zip."""
    people: dict[PurePosixPath, dict[int, zipfile.ZipInfo]] = {}
    with opened(path) as archive:
        with readable(str(path)):
            for member in archive.infolist():
                name = PurePosixPath(member.filename)
                match = re.fullmatch(r".*?(\d+)\.jpg", name.name, re.IGNORECASE)
                if match:
                    people.setdefault(name.parent, {})[int(match[1])] = member
            photographs = np.array([
                [_photograph(archive, member, path) for member in _first(numbers, person, path)]
                for person, numbers in sorted(people.items())
            ])  # fmt: skip
    if len(photographs) != _PEOPLE:
        raise UserError(
            f"{path}: photographs of {len(photographs)} people; expected {_PEOPLE} folders with "
            "JPEG files: supply the zip of Faces94"
        )
    return split(photographs, view, _COPIES)


def _first(
    numbers: dict[int, zipfile.ZipInfo], person: PurePosixPath, path: Path
) -> list[zipfile.ZipInfo]:
    """Return the first 20 photographs of a person, by number."""
    if len(numbers) < _PHOTOGRAPHS:
        raise UserError(
            f"{path}: {len(numbers)} photographs in {person}; expected {_PHOTOGRAPHS}: supply the "
            "zip of Faces94"
        )
    return [numbers[number] for number in sorted(numbers)[:_PHOTOGRAPHS]]


def _photograph(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> np.ndarray:
    where = f"{path}: {member.filename}"
    if member.file_size > _LARGEST:
        raise UserError(f"{where}: {member.file_size} bytes; expected at most {_LARGEST}")
    return read_photograph(archive.read(member), where)


_SHAPE = (_PEOPLE, _PHOTOGRAPHS, _SMALL_HEIGHT, _SMALL_WIDTH)
DATASETS = (
    people_spec("faces94", "Faces94, 153 people", "faces94/faces94.zip", _SHAPE, read=read_faces),
)
