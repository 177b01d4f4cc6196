"""Fashion-MNIST cut for PATE: what the proved method reaches on all test images."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from private_graphs.datasets.image_dataset import ImageDataset
from private_graphs.datasets.registry import build
from private_graphs.datasets.sources import supply
from private_graphs.jobs import Job
from private_graphs.report.record import read_recorded
from private_graphs.run import execute

RECORDED = Path(__file__).parents[2] / "recorded" / "pate"
NAME = "fashion-mnist-students"
BARS = {1.0: 0.87}
"""Accuracy on all 10,000 images of the test file, no public label read, by ε."""


@pytest.fixture(scope="module")
def dataset(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> ImageDataset:
    if not (mirror / "fashion-mnist").is_dir():
        pytest.skip("the mirror has no fashion-mnist")
    folder = tmp_path_factory.mktemp("raw")
    supply([NAME], folder, mirror, progress=lambda *_: None)
    return build(NAME, folder)


def frontier(dataset: ImageDataset, method: str, epsilons: tuple[float, ...]) -> pd.DataFrame:
    job = Job(
        study="pate", group="frontier", name="bars", dataset=NAME, method=method,
        scenario="records", epsilons=epsilons, seeds=(0,),
    )  # fmt: skip
    return execute(job, dataset).rows


def test_noisy_steps_reach_their_bars_on_all_test_images(dataset: ImageDataset) -> None:
    sizes = [int(mask.sum()) for mask in (
        dataset.train_mask, dataset.validation_mask, dataset.test_mask)]  # fmt: skip
    assert sizes == [60_000, 9_000, 1_000]
    rows = frontier(dataset, "scattering", tuple(BARS))
    whole = 0.1 * rows["test_accuracy"] + 0.9 * rows["validation_micro_f1"]
    for epsilon, bar in BARS.items():
        mine = rows["epsilon"] == epsilon
        assert (rows.loc[mine, "epsilon_proved"] <= epsilon).all()
        assert (rows.loc[mine, ["unit", "relation"]] == ["record", "replace"]).all(axis=None)
        assert whole[mine].min() >= bar


def test_recorded_noisy_steps_with_the_public_labels_beat_these_alone() -> None:
    runs = read_recorded(RECORDED).runs.query("group == 'frontier'")
    alone = runs.loc[runs["epsilon"] == 0, "test_accuracy"].max()
    both = runs.query("method == 'scattering_labels' and epsilon == 1")["test_accuracy"]
    assert both.mean() > alone > 0.87
