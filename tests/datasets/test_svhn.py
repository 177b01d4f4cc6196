"""SVHN and published votes: the raw formats, files that lie, and Table 3.4 made of such files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io

from private_graphs.core.errors import UserError
from private_graphs.datasets import registry, sources
from private_graphs.datasets.image_dataset import ImageDataset
from private_graphs.datasets.votes import read_votes
from private_graphs.report.claims import judged
from private_graphs.report.results import Results
from private_graphs.running.run import execute
from private_graphs.running.store import tidy
from private_graphs.running.study import Run, group_jobs, load_study
from private_graphs.studies.pate.claims import CLAIMS
from private_graphs.studies.pate.readers import svhn
from private_graphs.studies.pate.tables import ABSENT, TABLE3_4

N_TRAIN, N_TEST, TEACHERS = 30, 90, 250


def write_mat(path: Path, labels: np.ndarray, rng: np.random.Generator) -> None:
    """A MATLAB file as SVHN's: the digit is a bright column; 10 stands for 0."""
    images = rng.integers(90, size=(32, 32, 3, len(labels)), dtype=np.uint8)
    for place, label in enumerate(labels):
        images[:, 3 * label : 3 * label + 3, :, place] += 160
    written = np.where(labels == 0, 10, labels).astype(np.uint8)[:, None]
    scipy.io.savemat(path, {"X": images, "y": written}, do_compression=True)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Raw files in the published formats: 90 % of 250 teachers are right."""
    folder, rng = tmp_path_factory.mktemp("raw") / "svhn", np.random.default_rng(0)
    folder.mkdir()
    train, test = (rng.integers(10, size=n) for n in (N_TRAIN, N_TEST))
    write_mat(folder / "train_32x32.mat", train, rng)
    write_mat(folder / "test_32x32.mat", test, rng)
    wrong = rng.random((TEACHERS, N_TEST)) < 0.1
    answers = np.where(wrong, rng.integers(10, size=wrong.shape), test)
    np.save(folder / svhn.VOTES, answers.astype(np.int32))
    return folder.parent


@pytest.fixture(scope="module")
def dataset(raw: Path) -> ImageDataset:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(svhn, "POOL", 60)
        patched.setattr(sources, "raw_records", lambda *_: [])  # the checksums of other files
        return registry.build("svhn", raw)


def test_images_labels_and_votes_of_the_files(raw: Path, dataset: ImageDataset, tmp_path: Path):
    assert dataset.images.shape == (N_TRAIN + N_TEST, 3, 32, 32)
    masks = dataset.train_mask, dataset.validation_mask, dataset.test_mask
    assert [int(mask.sum()) for mask in masks] == [N_TRAIN, 60, 30]
    files = [scipy.io.loadmat(raw / "svhn" / f"{side}_32x32.mat") for side in ("train", "test")]
    assert np.array_equal(dataset.images[3, 1], files[0]["X"][:, :, 1, 3])
    assert np.array_equal(dataset.images[N_TRAIN + 7, 2], files[1]["X"][:, :, 2, 7])
    written = np.concatenate([each["y"][:, 0] for each in files])
    assert np.array_equal(dataset.labels, np.where(written == 10, 0, written))
    answers = np.load(raw / "svhn" / svhn.VOTES)
    votes = dataset.votes[N_TRAIN:]
    assert not dataset.votes[:N_TRAIN].any() and (votes.sum(1) == TEACHERS).all()
    assert all(votes[q, k] == (answers[:, q] == k).sum() for q in range(9) for k in range(10))
    dataset.save(tmp_path)
    again = ImageDataset.load(tmp_path)
    assert again.fingerprint == dataset.fingerprint and np.array_equal(again.votes, dataset.votes)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((4, 5), int), "shape"), (np.full((4, 6), 3), "classes"),
        (np.full((4, 6), -1), "classes"), (np.array([[2, 1, 0]] * 5 + [[2, 2, 0]]), "3 to 4 votes"),
        (np.array([[4, -1, 0]] * 6), "negative"), (np.zeros((6, 3)), "float64"),
        (np.zeros(6, int), "2 dimensions"), (np.array([[None] * 6] * 4), "cannot be read"),
    ],
)  # fmt: skip
def test_votes_that_are_none_are_refused(array, message, tmp_path: Path):
    np.save(tmp_path / "votes.npy", array, allow_pickle=True)
    with pytest.raises(UserError, match=f"votes.npy.*{message}"):
        read_votes(tmp_path / "votes.npy", 6, 3)


@pytest.mark.parametrize(
    "content",
    [
        {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1], [11]], np.uint8)},
        {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1]], np.uint8)},
        {"X": np.zeros((28, 28, 1, 1), np.uint8), "y": np.array([[1]], np.uint8)},
        {"y": np.array([[1]], np.uint8)},
    ],
)
def test_other_matlab_files_are_refused(content, raw: Path, tmp_path: Path):
    scipy.io.savemat(tmp_path / "train_32x32.mat", content)
    with pytest.raises(UserError, match="train_32x32.mat.*found.*expected"):
        svhn.read_svhn(tmp_path)


# --- Table 3.4 --------------------------------------------------------------------------------

SMALL = {"queries": 45, "answers": 30, "network": "mlp", "epochs": 2, "batch": 15}
"""Of 60 public images; 250 teachers, so that threshold and noise are those of the study."""


def run_of(*datasets: str) -> Run:
    return Run(scale="reduced", studies=("pate",), datasets=datasets or None, seeds=2)


def table_rows(dataset: ImageDataset) -> Results:
    """Run the jobs of Table 3.4, smaller, as their study names them."""
    study, rows, statements, kept = load_study("pate", "reduced"), [], {}, {}
    for group in ("svhn_labels", "svhn_plus", "svhn_students"):
        for job in group_jobs(study, group, run_of("svhn")):
            small = SMALL | ({"generator": 20} if job.method == "pate_student" else {})
            artifacts = {stage: kept[needed] for stage, needed in job.needs.items()}
            done = execute(
                job.model_copy(update={"settings": job.settings | small}), dataset,
                artifacts=artifacts,
            )  # fmt: skip
            kept[job.id] = done.artifacts
            rows.append(done.rows.assign(source="own"))
            statements |= done.statements
    return Results.of(study, "reduced", tidy([pd.concat(rows)]), statements)


def test_table_3_4_is_made_of_the_files(dataset: ImageDataset):
    results = table_rows(dataset)
    (table,) = results.build(TABLE3_4)
    texts = [
        [getattr(cell, "text", cell) for cell in (column.show(row) for column in table.columns)]
        for row in table.lines.to_dict("records")
    ]
    assert [line[1:4] for line in texts[:4]] == [
        ["3.96", "PATE", "80.5"], ["3.96", "PATE, co-teaching", "86.1"],
        ["3.96", "PATE+", "79.8"], ["3.96", "PATE++", "91.5"],
    ]  # fmt: skip
    assert len(texts) == 8 and not any(ABSENT in cell for line in texts for cell in line)
    runs = results.runs
    assert (runs["delta"] == 1e-6).all() and (runs["unit"] == "record").all()
    sound = runs[runs["protocol"] == "sound"]
    assert ((sound["epsilon_proved"] <= sound["epsilon"]) & (sound["epsilon_proved"] > 3.9)).all()
    labels = runs[runs["group"] == "svhn_labels"]
    assert (labels["labels"] > 0).all() and (labels["labels"] <= 30).all()
    assert labels["label_accuracy"].mean() > 0.8  # of little noise: 45 queries are cheap
    verdicts = judged(CLAIMS, results).set_index(["id", "protocol"])["verdict"]
    made = verdicts[(verdicts != "not_run") & (verdicts.index.get_level_values("protocol") != "")]
    assert {(claim.removesuffix(".svhn"), protocol) for claim, protocol in made.index} == {
        (claim, protocol)
        for claim in ("svhn_gain", "svhn_plus_below")
        for protocol in ("paper", "sound")
    }
