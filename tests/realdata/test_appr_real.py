"""DP-APPR on real graphs: rows of all nodes, what a sample leaves, scores of a prototype."""

from __future__ import annotations

import math

import numpy as np
import pytest

from private_graphs.datasets.registry import build
from private_graphs.graphs.pagerank import pagerank_rows, with_loops
from private_graphs.running.jobs import Job
from private_graphs.running.run import execute

FIELDS = {"study": "s", "group": "g", "name": "n", "scenario": "nodes", "test_share": 0.2}


@pytest.fixture(scope="module")
def graphs(mirror):
    """Every graph of the study that the mirror has."""
    for file in ("cora_ml.npz", "ms_academic.npz"):
        if not (mirror / "citation-npz" / file).is_file():
            pytest.skip(f"the mirror has no citation-npz/{file}")
    return {name: build(name, mirror) for name in ("cora-ml", "pubmed", "ms-academic")}


def _mean(graph, method: str, protocol: str = "released", seeds: int = 3, **fields) -> float:
    job = Job(**FIELDS | {"dataset": graph.info.name, "method": method, "protocol": protocol,
                          "seeds": tuple(range(seeds))} | fields)  # fmt: skip
    rows = execute(job, graph).rows
    return rows.loc[rows["validation_labels"] == 0, "test_accuracy"].mean()


def test_the_rows_of_all_nodes(graphs):
    graph = graphs["cora-ml"]
    walk = with_loops(graph.edge_index, graph.n_nodes)
    rows = pagerank_rows(walk, np.arange(graph.n_nodes))
    assert rows.diagonal().min() > 0.3  # every root is in its own row
    largest = -np.sort(-rows, axis=1)[:, :16]
    assert largest.sum(axis=1).mean() == pytest.approx(0.85, abs=0.02)


def test_hardly_an_edge_is_left_in_a_sample(graphs):
    ranges = {"cora-ml": (0.09, 216, 26, 75), "pubmed": (0.01, 158, 0, 7),
              "ms-academic": (0.03, 440, 34, 64)}  # fmt: skip
    for name, (share, size, least, most) in ranges.items():
        job = Job(**FIELDS, dataset=name, method="appr_features", protocol="paper",
                  seeds=tuple(range(5)), epsilons=(math.inf,),
                  settings={"sample": share, "epochs": 1})  # fmt: skip
        rows = execute(job, graphs[name]).rows
        assert set(rows["sampled_nodes"]) == {size}
        assert rows["edges_left"].between(least, most).all()


def test_scores_on_cora_ml_are_those_of_a_prototype(graphs):
    graph = graphs["cora-ml"]
    given = {"delta": 2e-3, "epsilons": (4.0,)}
    assert _mean(graph, "appr_exact", epsilons=(math.inf,)) == pytest.approx(0.692, abs=0.03)
    assert _mean(graph, "appr_features", **given) == pytest.approx(0.624, abs=0.05)
    assert _mean(graph, "appr_random", **given) == pytest.approx(0.533, abs=0.06)
    gaussian = _mean(graph, "appr_gaussian", delta=2e-3, epsilons=(8.0,))
    assert gaussian == pytest.approx(0.515, abs=0.05)
