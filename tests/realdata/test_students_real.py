"""Fashion-MNIST cut for PATE: what the proved method reaches on all test images."""

from __future__ import annotations

from pathlib import Path

import pytest

from private_graphs.datasets.registry import build
from private_graphs.datasets.sources import supply
from private_graphs.jobs import Job
from private_graphs.run import execute

NAME = "fashion-mnist-students"
BARS = {2.0: 0.88, 1.0: 0.87}
"""Accuracy on all 10,000 images of the test file, no public label read, by ε."""


def test_noisy_steps_reach_their_bars_on_all_test_images(mirror: Path, tmp_path: Path) -> None:
    if not (mirror / "fashion-mnist").is_dir():
        pytest.skip("the mirror has no fashion-mnist")
    supply([NAME], tmp_path, mirror, progress=lambda *_: None)
    dataset = build(NAME, tmp_path)
    sizes = [int(mask.sum()) for mask in (
        dataset.train_mask, dataset.validation_mask, dataset.test_mask)]  # fmt: skip
    assert sizes == [60_000, 9_000, 1_000]
    job = Job(
        study="pate", group="frontier", name="bars", dataset=NAME, method="scattering",
        scenario="records", epsilons=tuple(BARS), seeds=(0,),
    )  # fmt: skip
    rows = execute(job, dataset).rows
    whole = 0.1 * rows["test_accuracy"] + 0.9 * rows["validation_micro_f1"]
    for epsilon, bar in BARS.items():
        mine = rows["epsilon"] == epsilon
        assert (rows.loc[mine, "epsilon_proved"] <= epsilon).all()
        assert (rows.loc[mine, ["unit", "relation"]] == ["record", "replace"]).all(axis=None)
        assert whole[mine].min() >= bar
