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


def test_growth_is_the_exponent_of_processor_time(shards):
    rows = [
        {"method": "m", "how": "workflow", "documents": 10**n, "records": 1, "shards": 4,
         "cpu_seconds": 3.0 * 10**n, "seconds": 1.0, "peak_mib": 5.0, "load": 1.0}
        for n in (5, 6, 7)
    ]  # fmt: skip
    (found,) = shards.growth(rows).values()
    assert found["slope"] == pytest.approx(1) and found["last_slope"] == pytest.approx(1)
    assert found["cpu_hours_of_1e9"] == pytest.approx(3e9 / 3600)
    assert found["hours_of_1e9_on_100_nodes_of_2_cores"] == pytest.approx(3e9 / 3600 / 200)
    assert "| m | workflow | 100,000 |" in shards.page(
        {"rows": rows, "growth": shards.growth(rows)}
    )
    assert shards.growth(rows[:1]) == {}
