"""Fashion-MNIST cut for PATE: what the proved method reaches on images of the test file."""

from __future__ import annotations

from pathlib import Path

from private_graphs.site.record import read_recorded

RECORDED = Path(__file__).parents[2] / "recorded" / "pate"


def test_recorded_noisy_steps_reach_87_percent_of_all_test_images() -> None:
    """Whose predictions ``test_recorded`` compares with the labels; no public label is read."""
    runs = read_recorded(RECORDED).runs.query(
        "group == 'frontier' and dataset == 'fashion-mnist-students'"
    )
    rows = runs.query("method == 'scattering' and epsilon == 1")
    whole = 0.1 * rows["test_accuracy"] + 0.9 * rows["validation_micro_f1"]
    assert len(rows) and (rows["epsilon_proved"] <= 1).all() and whole.min() >= 0.87


def test_recorded_noisy_steps_with_the_public_labels_beat_these_alone() -> None:
    runs = read_recorded(RECORDED).runs.query("group == 'frontier'")
    alone = runs.loc[runs["epsilon"] == 0, "test_accuracy"].max()
    both = runs.query("method == 'scattering_labels' and epsilon == 1")["test_accuracy"]
    assert both.mean() > alone > 0.87
