"""SVHN and published votes: the raw formats, and files that lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.io

from private_graphs.core.errors import UserError
from private_graphs.datasets import registry, sources
from private_graphs.datasets.image_dataset import ImageDataset
from private_graphs.datasets.votes import read_votes
from private_graphs.studies.pate.readers import svhn

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
