"""Photographs of people: PGM files that lie, varied copies, and the two splits."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from private_graphs.core.errors import UserError
from private_graphs.datasets.photographs import split, varied
from private_graphs.datasets.registry import build
from private_graphs.datasets.sources import supply
from private_graphs.datasets.views import VIEWS
from private_graphs.studies.inversion.readers.att_faces import read_faces, read_photograph
from private_graphs.studies.inversion.readers.faces94 import read_faces as read_faces94

HEADER = b"P5\n92 112\n255\n"


def write(path: Path, pixels: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(HEADER + pixels.astype(np.uint8).tobytes())
    return path


@pytest.mark.parametrize(
    "content",
    [b"", HEADER + b"\0" * 10, b"P6" + HEADER[2:] + b"\0" * 10304, HEADER + b"\0" * 10305],
)
def test_a_file_that_is_no_photograph_is_named(content, tmp_path):
    (tmp_path / "1.pgm").write_bytes(content)
    with pytest.raises(UserError, match=r"1\.pgm"):
        read_photograph(tmp_path / "1.pgm")


def test_people_are_numbered_as_their_folders_and_pixels_are_means_of_four(tmp_path):
    for person in range(1, 41):
        for number in range(1, 11):
            pixels = np.full((112, 92), 3 * person + number)
            pixels[0, 1] += 4  # of a square of four
            write(tmp_path / f"s{person}" / f"{number}.pgm", pixels)
    found = read_faces(tmp_path, VIEWS["sound"])
    assert found.images.shape == (400, 1, 56, 46)
    place = (found.labels == 9) & found.validation_mask  # s10, which sorts before s2 as text
    assert found.images[place, 0, 1, 1].tolist() == [30 + 9]
    assert found.images[place, 0, 0, 0].tolist() == [30 + 9 + 1]


def jpeg(value: int, size: tuple[int, int] = (180, 200)) -> bytes:
    written = io.BytesIO()
    Image.new("RGB", size, (value, value, value)).save(written, "JPEG")
    return written.getvalue()


def zipped(path: Path, people: int, photographs: int = 20, **last: bytes) -> Path:
    """A zip as Faces94: the photographs of person p have the grey value p, but for the last."""
    with zipfile.ZipFile(path, "w") as archive:
        for person in range(people):
            content = jpeg(person)
            for number in range(1, photographs + 1):
                archive.writestr(f"faces94/x/p{person:03d}/p.{number}.jpg", content)
        archive.writestr("faces94/readme.txt", "nothing")
        for name, other in last.items():
            archive.writestr(f"faces94/x/p000/{name}.20.jpg", other)
    return path


def test_faces94_is_a_zip_of_photographs_by_person_and_number(tmp_path):
    found = read_faces94(zipped(tmp_path / "faces94.zip", 153), VIEWS["sound"])
    assert found.images.shape == (3060, 1, 70, 60)
    assert np.bincount(found.labels[found.train_mask]).tolist() == [16] * 153
    assert np.abs(found.images[:, 0, 5, 5].astype(int) - found.labels).max() <= 2


@pytest.mark.parametrize(
    ("people", "photographs", "last", "words"),
    [
        (2, 20, {}, "2 people; expected 153"),
        (1, 19, {}, "19 photographs in faces94/x/p000; expected 20"),
        (1, 19, {"q": jpeg(1, (20, 20))}, "20 x 20 pixels"),
        (1, 19, {"q": b"P5"}, "no JPEG"),
        (1, 19, {"q": bytes(1_000_001)}, "1000001 bytes"),
    ],
)
def test_a_zip_that_is_not_faces94_is_named(people, photographs, last, words, tmp_path):
    with pytest.raises(UserError, match=words):
        read_faces94(zipped(tmp_path / "a.zip", people, photographs, **last), VIEWS["sound"])
    (tmp_path / "b.zip").write_bytes(b"PK no zip")
    with pytest.raises(UserError, match=r"b\.zip"):
        read_faces94(tmp_path / "b.zip", VIEWS["sound"])


def test_copies_are_mirrored_shifted_and_lit_and_the_first_is_the_photograph():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 200, size=(6, 20, 16)).astype(np.uint8)
    copies = varied(images, 30)
    np.testing.assert_array_equal(copies[:, 0], images)
    flipped = 0
    for copy in copies[0, 1:].astype(float):
        # the inner part is that of the photograph, or of its mirror image, at one of 49 places
        found = [
            (np.corrcoef(copy[4:-4, 4:-4].ravel(), each.ravel())[0, 1], side)
            for side, whole in enumerate((images[0], images[0, :, ::-1]))
            for y in range(1, 8) for x in range(1, 8)
            for each in [whole[y : y + 12, x : x + 8]]
        ]  # fmt: skip
        best, side = max(found)
        assert best > 0.99
        flipped += side
        assert 0.83 < copy[4:-4, 4:-4].mean() / images[0].mean() < 1.3
    assert 5 < flipped < 25


def test_what_becomes_of_a_photograph_depends_on_its_place_alone():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 200, size=(4, 10, 10)).astype(np.uint8)
    other = images.copy()
    other[2] = 255 - other[2]
    same = (varied(images, 5) == varied(other, 5)).all(axis=(1, 2, 3))
    assert same.tolist() == [True, True, False, True]


def test_copies_of_a_photograph_are_on_both_sides_in_one_view_alone():
    photographs = np.arange(3 * 10)[:, None, None] * np.ones((1, 4, 4))
    photographs = (8 * photographs).astype(np.uint8).reshape(3, 10, 4, 4)
    sound, paper = (split(photographs, VIEWS[name], 22) for name in ("sound", "paper"))
    assert len(sound.images) == 30 and len(paper.images) == 660
    assert sound.test_mask.sum() == sound.validation_mask.sum() == 3
    assert paper.train_mask.sum() == 3 * 190
    values = [set(np.unique(sound.images[mask])) for mask in (sound.train_mask, sound.test_mask)]
    assert not values[0] & values[1]


def test_the_embedded_faces_are_the_same_everywhere(tmp_path):
    supply(["faces"], tmp_path)
    dataset = build("faces", tmp_path, VIEWS["sound"])
    assert dataset.images.shape == (360, 1, 28, 24) and dataset.info.view == "sound"
    assert int(dataset.images.astype(np.int64).sum()) == EMBEDDED
    means = dataset.images.reshape(12, 30, -1).mean(axis=1)
    distances = np.linalg.norm(means[:, None] - means, axis=-1)[~np.eye(12, dtype=bool)]
    assert distances.min() > 100


EMBEDDED = 20_869_409
"""Sum of all pixels."""
