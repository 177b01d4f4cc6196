"""The estimate of training time: more work is more time, whatever the machine."""

from __future__ import annotations

import math

import pytest

from private_graphs.cells import Cell, CellPlan
from private_graphs.datasets.registry import DATASETS
from private_graphs.training.cost import JOB_SECONDS, estimate_seconds


def seconds(dataset="cora", protocol="paper", optimizer="sgd", splits=1, **changes) -> float:
    cell = Cell(
        study="s", experiment="e", dataset=dataset, optimizer=optimizer, protocol=protocol,
        splits=splits, train_fraction=changes.pop("train_fraction", 1.0),
        visits=changes.pop("visits", "protocol"),
    )  # fmt: skip
    settings = dict(seeds=(0, 1), epsilons=(math.inf, 2.0), epochs=100) | changes
    return estimate_seconds(CellPlan(cell=cell, **settings), DATASETS[dataset].size)


@pytest.mark.parametrize(
    "more",
    [
        dict(epochs=200), dict(seeds=(0, 1, 2)), dict(epsilons=(math.inf, 1.0, 2.0)),
        dict(private_learning_rates=(0.01, 0.1)), dict(dataset="pubmed"), dict(dtype="float64"),
        dict(hidden=64), dict(optimizer="adam"), dict(splits=10), dict(protocol="released"),
    ],
    ids=str,
)  # fmt: skip
def test_more_work_takes_longer(more):
    assert seconds(**more) > seconds() > JOB_SECONDS


def test_less_work_is_shorter():
    assert seconds(train_fraction=0.3) < seconds()


def test_poisson_visits_take_a_step_per_part():
    """Each with its own noise; the per-epoch sum has one draw."""
    summed, poisson = (
        seconds(protocol="sound", splits=10, visits=visits) - JOB_SECONDS
        for visits in ("epoch_sum", "poisson")
    )
    assert poisson > 1.5 * summed


def test_the_full_table_on_cora_is_a_matter_of_minutes():
    """Within an order of magnitude of 2,000 epochs of 5 replicas at about .3 ms."""
    found = seconds(seeds=tuple(range(5)), epsilons=(2.0,), epochs=2000) - JOB_SECONDS
    assert 0.5 < found < 60
