"""More work counts as more, and what is counted is what the kernels do."""

from __future__ import annotations

import math

import pytest

from private_graphs.cells import Cell, CellPlan, RateChoice
from private_graphs.cost.model import CostModel, read_reference
from private_graphs.cost.reach import Coverage, Reach
from private_graphs.cost.work import KINDS, count_work, task_of
from private_graphs.datasets.registry import GraphSize

SIZE = GraphSize(nodes=40, edges=60, nonzeros=300, features=50, classes=3, train_nodes=10)


def plan(
    dataset="cora", protocol="paper", optimizer="sgd", splits=1, train_fraction=1.0,
    visits="protocol", **changes,
) -> CellPlan:  # fmt: skip
    cell = Cell(
        study="s", experiment="e", dataset=dataset, optimizer=optimizer, protocol=protocol,
        splits=splits, train_fraction=train_fraction, visits=visits,
    )  # fmt: skip
    settings = dict(seeds=(0, 1), epsilons=(math.inf, 2.0), epochs=100, patience=None)
    return CellPlan(cell=cell, **settings | changes)


def work(reach: Reach | None = None, **changes) -> dict[str, float]:
    return count_work(task_of(plan(**changes)), SIZE, reach or Reach(30, 80))


def seconds(**changes) -> float:
    shipped = read_reference().model
    return CostModel(shipped.coefficients, {}, "").seconds(plan(**changes))


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
    assert seconds(**more) > seconds() > read_reference().model.coefficients["job"]


@pytest.mark.parametrize("protocol", ["released", "paper", "sound"])
def test_less_of_the_graph_is_shorter(protocol):
    times = [seconds(protocol=protocol, train_fraction=each) for each in (0.1, 0.5, 1.0)]
    assert times == sorted(times)


def test_poisson_visits_take_a_step_per_part():
    """Each with its own noise; the per-epoch sum has one draw."""
    summed, poisson = (
        work(protocol="sound", optimizer="adam", splits=10, visits=visits)
        for visits in ("epoch_sum", "poisson")
    )
    assert poisson["draw"] == 10 * summed["draw"]
    assert poisson["nonzero"] == pytest.approx(summed["nonzero"])


def test_the_whole_training_graph_is_read_twice_per_epoch_and_once_more_to_validate():
    """Two runs with DP, two without; 80 non-zeros and 2 · 30 + 10 entries in training."""
    epochs, validated = 400, 200
    validation = 300 * 10 / 40  # under sound: that of the validation nodes, a third of 30
    found = work(protocol="sound")
    assert found["nonzero"] == pytest.approx(2 * 80 * epochs + validation * validated)
    edges = 2 * 60 * (10 / 40) ** 2
    assert found["entry"] == pytest.approx(2 * 70 * epochs + (10 + edges) * validated)
    assert found["sgd"] == epochs * (32 * 50 + 32 * 4 + 3)
    assert found["adam"] == 0
    assert found["draw"] == 200 * (32 * 50 + 32 * 4 + 3)


def test_parts_lose_the_edges_between_them():
    found = work(splits=10, epsilons=(2.0,))
    assert found["nonzero"] == 2 * 80 * 200
    assert found["entry"] == pytest.approx(2 * (10 + 2 * 3) * 200)


def test_released_reads_what_two_hops_reach_for_each_part():
    reach = Reach(30, 80, nonzeros=Coverage(mean=2.0, shape=1.0))
    found = work(reach, protocol="released", splits=10, epsilons=(2.0,))
    share = 1 - 1 / (1 + 0.1 * 2.0)
    assert found["nonzero"] == pytest.approx(2 * 10 * share * 300 * 200)


def test_private_sgd_on_parts_draws_for_the_rows_that_it_reads_alone():
    reach = Reach(30, 80, own_words=Coverage(mean=1.0, shape=1.0))
    rest, share = 32 * 4 + 3, 1 - 1 / 1.1
    found = work(reach, splits=10, epsilons=(2.0,))
    final = 2 * (32 * 50 + rest)
    assert found["draw"] == pytest.approx(200 * 10 * (32 * 50 * share + rest) + final)
    adam = work(reach, splits=10, epsilons=(2.0,), optimizer="adam")
    assert adam["draw"] == 200 * 10 * (32 * 50 + rest)


def test_runs_that_stop_early_take_their_epochs_alone():
    stopping = task_of(plan(patience=20), 30.0)
    assert (stopping.private_epochs, stopping.non_private_epochs) == (200, 60)
    assert task_of(plan(patience=None), 30.0).non_private_epochs == 200
    assert task_of(plan(patience=20), math.inf).non_private_epochs == 200


def test_a_rate_chosen_elsewhere_is_trained_alone():
    grid = plan(private_learning_rates=(0.1, 1.0, 10.0))
    choice = RateChoice(cell=grid.cell, epsilon=2.0)
    assert task_of(grid).private_runs == 6
    assert task_of(grid.model_copy(update={"chosen_in": choice})).private_runs == 2


def test_every_kind_of_work_is_counted_of_a_graph_that_was_never_measured():
    found = count_work(task_of(plan(dataset="unmeasured", protocol="released", splits=4)), SIZE)
    assert set(found) == set(KINDS)
    assert found["nonzero"] >= 2 * 4 * 300 * 0.99 * 400  # everything is read for every part


def test_the_full_table_on_cora_is_a_matter_of_minutes():
    """Within an order of magnitude of 2,000 epochs of 5 runs at about .3 ms."""
    task = task_of(plan(seeds=tuple(range(5)), epsilons=(2.0,), epochs=2000))
    model = read_reference().model
    kinds = [kind for kind in KINDS if kind != "job"]
    assert 0.5 < model.seconds_of(task, kinds) < 60
