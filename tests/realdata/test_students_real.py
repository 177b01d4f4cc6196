"""Fashion-MNIST cut for PATE: what the proved method reaches on images of the test file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from private_graphs.datasets.image_dataset import ImageDataset
from private_graphs.datasets.registry import build
from private_graphs.datasets.sources import supply
from private_graphs.running.jobs import Job
from private_graphs.running.run import execute
from private_graphs.site.record import read_recorded

RECORDED = Path(__file__).parents[2] / "recorded" / "pate"
NAME = "fashion-mnist-students"


@pytest.fixture(scope="module")
def dataset(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> ImageDataset:
    if not (mirror / "fashion-mnist").is_dir():
        pytest.skip("the mirror has no fashion-mnist")
    folder = tmp_path_factory.mktemp("raw")
    supply([NAME], folder, mirror, progress=lambda *_: None)
    return build(NAME, folder)


def first_of(dataset: ImageDataset, *sizes: int) -> ImageDataset:
    """The dataset with so many training, validation and test images alone."""
    masks = dataset.train_mask, dataset.validation_mask, dataset.test_mask
    kept = np.sort(np.concatenate(
        [np.flatnonzero(mask)[:size] for mask, size in zip(masks, sizes, strict=True)]
    ))  # fmt: skip
    info = dataset.info.model_copy(update={"n_images": len(kept)})
    return replace(
        dataset, images=dataset.images[kept], labels=dataset.labels[kept],
        train_mask=masks[0][kept], validation_mask=masks[1][kept], test_mask=masks[2][kept],
        info=info,
    )  # fmt: skip


@pytest.mark.long
def test_noisy_steps_on_few_images_learn_what_their_budget_allows(dataset: ImageDataset) -> None:
    """A tenth of the images, at twice the ε: computing features of all of them takes minutes."""
    few = first_of(dataset, 6000, 1000, 1000)
    job = Job(
        study="pate", group="frontier", name="bars", dataset=NAME, method="scattering",
        scenario="records", epsilons=(2.0,), seeds=(0,),
    )  # fmt: skip
    rows = execute(job, few).rows
    assert (rows["epsilon_proved"] <= 2).all()
    assert (rows[["unit", "relation"]] == ["record", "replace"]).all(axis=None)
    assert (rows["test_accuracy"] + rows["validation_micro_f1"]).min() / 2 >= 0.77


def test_recorded_noisy_steps_reach_87_percent_of_all_test_images() -> None:
    """Whose predictions ``test_recorded`` compares with the labels; no public label is read."""
    runs = read_recorded(RECORDED).runs.query("group == 'frontier' and dataset == @NAME")
    rows = runs.query("method == 'scattering' and epsilon == 1")
    whole = 0.1 * rows["test_accuracy"] + 0.9 * rows["validation_micro_f1"]
    assert len(rows) and (rows["epsilon_proved"] <= 1).all() and whole.min() >= 0.87


def test_recorded_noisy_steps_with_the_public_labels_beat_these_alone() -> None:
    runs = read_recorded(RECORDED).runs.query("group == 'frontier'")
    alone = runs.loc[runs["epsilon"] == 0, "test_accuracy"].max()
    both = runs.query("method == 'scattering_labels' and epsilon == 1")["test_accuracy"]
    assert both.mean() > alone > 0.87
