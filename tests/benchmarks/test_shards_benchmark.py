"""The benchmark of graphs in shards: what it generates can be released, what it prints follows."""

from __future__ import annotations

import pytest


@pytest.fixture
def shards(root, monkeypatch):
    """The module of the command, with few public documents."""
    import shards

    monkeypatch.setattr(shards, "PUBLIC", 200)
    return shards


@pytest.mark.parametrize("method", ["class_sums", "edge_votes"])
def test_generated_graphs_are_released(shards, tmp_path, method):
    make = shards.documents_graph if method == "class_sums" else shards.edges_graph
    graph = make(tmp_path, 3000, 3)
    assert len(graph.info.shards) == 3
    config = {"graph": tmp_path, "out": tmp_path / "out", "epsilon": 1, "delta": 1e-10, "seed": 0}
    bound = {"max_edges": 33_000} if method == "edge_votes" else {}
    found = shards.in_one_process(config | bound)
    assert 0.99 < found["epsilon_proved"] <= 1
    if method == "edge_votes":
        assert found["test_micro_f1"] > 0.5  # of four classes; few documents tell class sums little
    assert found["cpu_seconds"] > 0 and found["peak_mib"] > 0
