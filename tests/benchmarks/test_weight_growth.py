"""The growth of weights and gradients under noise, on graphs small enough to recompute."""

from __future__ import annotations

import math

import numpy as np
import pytest
from small_graphs import part_gradients, parts_of, random_graph, start, streams
from weight_growth import EPOCHS, SHOWN, gradients, growth, main

from private_graphs.methods.gcn_protocols import PAPER

NOISE = 112.0


def test_gradients_are_those_of_a_dense_network_whether_or_not_the_protocol_clips():
    dataset = random_graph()
    theta = 3 * start(dataset)
    expected = part_gradients(dataset, parts_of(dataset, 1), theta)[0].numpy()
    found = gradients(dataset, PAPER, streams(0), theta[None])
    assert np.linalg.norm(expected) > 0.1
    assert found.shape == (1, len(theta)) and np.abs(found[0] - expected).max() <= 1e-9


@pytest.fixture(scope="module")
def shown():
    dataset = random_graph(nodes=80, features=30)
    return [growth(dataset, name, NOISE, 2, (1, 10, 100)) for name in SHOWN]


def test_weights_grow_like_a_random_walk_and_the_gradient_with_them(shown):
    for rows in shown:
        assert [each.epoch for each in rows] == [1, 10, 100]
        assert rows[2].weight_norm == pytest.approx(10 * rows[0].weight_norm, rel=0.3)
        assert rows[2].gradient_norm > 3 * rows[0].gradient_norm > 3


def test_only_the_clipped_signal_stays_bounded(shown):
    free, bounded, unclipped = shown
    for row in (*free, *unclipped):
        assert row.used_norm == row.gradient_norm
    for row in bounded:
        assert row.used_norm == 1.0 < row.gradient_norm
        assert row.signal == pytest.approx(math.sqrt(row.epoch) / NOISE)
    assert min(free[2].signal, unclipped[2].signal) > 3 * bounded[2].signal
    assert free[0].noise_norm == pytest.approx(NOISE * math.sqrt(30 * 32 + 32 + 32 * 3 + 3))


def test_the_command_reads_a_built_dataset_and_names_what_is_wrong(tmp_path, capsys):
    random_graph().save(tmp_path / "graph")
    main(["--dataset", str(tmp_path / "graph"), "--seeds", "1", "--epsilon", "1"])
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == [str(epoch) for epoch in EPOCHS] * 3
    with pytest.raises(SystemExit):
        main(["--dataset", "coral"])
    assert "did you mean 'cora'" in capsys.readouterr().err
