"""AT&T's faces and MNIST from the mirror: pictures that know nothing, and what faces teach."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from private_graphs.datasets.image_dataset import ImageDataset
from private_graphs.datasets.registry import DATASETS, build
from private_graphs.datasets.sources import supply
from private_graphs.datasets.views import VIEWS
from private_graphs.run import execute
from private_graphs.studies.inversion.methods.reconstruct import without_model
from private_graphs.studies.inversion.methods.similarity import References
from private_graphs.study import Run, group_jobs, load_study

NAMES = ("mnist", "att-faces")
BLACK = [5.65, 3.57, 4.80, 4.73, 4.69, 4.59, 5.13, 4.87, 4.98, 5.08]
"""Distance of an all-black picture to the nearest training picture of each digit."""


@pytest.fixture(scope="module")
def raw(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in NAMES:
        if not (mirror / name).is_dir():
            pytest.skip(f"the mirror has no {name}")
    folder = tmp_path_factory.mktemp("raw")
    supply(NAMES, folder, mirror, progress=lambda *_: None)
    return folder


@pytest.fixture(scope="module")
def faces(raw: Path) -> dict[str, ImageDataset]:
    return {name: build("att-faces", raw, VIEWS[name]) for name in ("paper", "sound")}


def test_the_faces_are_forty_people_split_before_or_after_copies_are_made(faces):
    sound, paper = faces["sound"], faces["paper"]
    assert sound.images.shape == (400, 1, 56, 46) and paper.images.shape == (8800, 1, 56, 46)
    for mask, each in (("train_mask", 8), ("validation_mask", 1), ("test_mask", 1)):
        assert (np.bincount(sound.labels[getattr(sound, mask)]) == each).all()
    assert (np.bincount(paper.labels[paper.train_mask]) == 190).all()
    assert DATASETS["att-faces"].size.nodes == 400
    # person 10 is s10 and comes after s9, not after s1
    assert sound.info.classes[9] == "person 10"


def test_a_black_picture_is_nearer_to_every_digit_than_both_published_attacks(raw):
    mnist = build("mnist", raw)
    pictures, labels = mnist.images[mnist.train_mask, 0] / 255, mnist.labels[mnist.train_mask]
    references = References("euclidean", pictures, labels)
    public = mnist.images[mnist.validation_mask, 0].reshape(1000, -1) / 255
    found = {
        name: references.nearest(np.broadcast_to(picture, (10, 28, 28)))
        for name, picture in without_model(public, 28, 28).items()
    }
    np.testing.assert_allclose(found["black"], BLACK, atol=0.005)
    assert 12.85 < found["grey"].min() and found["grey"].max() < 13.35
    assert 5.2 < found["public mean"].min() and found["public mean"].max() < 5.7
    means = np.stack([pictures[labels == digit].mean(axis=0) for digit in range(10)])
    nearest = references.nearest(means)  # even what a class really looks like is not nearer
    assert [nearest.min(), nearest.max()] == pytest.approx([3.16, 5.40], abs=0.005)
    printed = load_study("inversion").published["table4_1"].file
    path = Path(__file__).parents[2] / "studies" / "published" / printed
    rows = np.genfromtxt(path, delimiter=",", skip_header=1)
    assert (found["black"] < rows[:, 1]).all() and (found["black"] < rows[:, 2]).all()


def test_faces_are_learned_without_dp_and_one_report_per_class_keeps_most_of_it(faces):
    study = load_study("inversion")
    (job,) = group_jobs(study, "faces_plain", Run.parse({"scale": "full", "seeds": 1}))[1:]
    assert job.protocol == "sound"
    rows = execute(job, faces["sound"]).rows
    assert rows["test_accuracy"].iloc[0] >= 0.9
    jobs = group_jobs(study, "faces_codes", Run.parse({"scale": "full", "seeds": 30}))
    (job,) = [
        each for each in jobs
        if each.settings["release"] == "codes" and not each.settings["replaced"]
    ]  # fmt: skip
    rows = execute(job, faces["sound"]).rows
    means = rows.groupby("epsilon")["test_accuracy"].mean()
    # half of min(1, e^ε p0 + δ) where a replaced class is recognised by chance alone
    for epsilon in (3.0, 8.0):
        chance = means[math.inf] / (math.exp(epsilon) + 39)
        assert means[epsilon] >= min(1, math.exp(epsilon) * chance + 1e-3) / 2
    assert means[8.0] > 0.7 and (rows["epsilon_proved"].dropna() <= 8).all()
