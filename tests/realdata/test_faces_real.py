"""AT&T's faces from the mirror: how they are split, and what they teach."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from private_graphs.datasets.image_dataset import ImageDataset
from private_graphs.datasets.registry import DATASETS, build
from private_graphs.datasets.sources import supply
from private_graphs.datasets.views import VIEWS
from private_graphs.running.run import execute
from private_graphs.running.study import Run, group_jobs, load_study


@pytest.fixture(scope="module")
def raw(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (mirror / "att-faces").is_dir():
        pytest.skip("the mirror has no att-faces")
    folder = tmp_path_factory.mktemp("raw")
    supply(["att-faces"], folder, mirror, progress=lambda *_: None)
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


@pytest.mark.long
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
