"""Numbers about newer papers' code: certificates in closed form, and replicas on Cora.

``measure`` needs Cora's raw files; what it finds is kept in ``docs/newer_papers.json``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from caribou import OWN, adjacency_of, aggregated_rows, twins

from private_graphs.attacks.shared_scale import PUBMED, StarTraining, epsilon_shown, single_delta
from private_graphs.core.files import write_text
from private_graphs.datasets.registry import build
from private_graphs.mechanisms.replay import replay
from private_graphs.report.chart import draw_chart, drawn
from private_graphs.report.words import bound
from private_graphs.running.exhibit import Chart

FILE = Path(__file__).parent / "newer_papers.json"
TRAINING_NODES, BATCH, EPOCHS = 15_774, 4_096, 9
"""HeterPoisson on PubMed: 80 % of the nodes, its batch and epochs."""
CLAIMS = (2.0, 4.0, 8.0, 16.0)


def certificates() -> list[tuple[str, ...]]:
    """Return the lower bounds on ε of HeterPoisson's noise on PubMed, by M and claimed ε."""
    rows = []
    for most in (1, 2, 3, 5):
        training = StarTraining(TRAINING_NODES, BATCH, EPOCHS, most, PUBMED)
        for claimed in CLAIMS:
            scale = training.scale(claimed)
            shown = [
                epsilon_shown(
                    scale, PUBMED, training.steps, training.mixture(stars), training.delta
                )
                for stars in (False, True)
            ]
            rows.append((f"{most}", f"{claimed:g}", f"{scale:.3f}", *map(bound, shown)))
    return rows


def profiles() -> str:
    """Return the picture of δ(ε) of one release whose ε is 1 in one dimension."""
    epsilons = np.linspace(0, 8, 33)
    frame = pd.concat([
        pd.DataFrame({"epsilon": epsilons, "line": f"d = {dimensions:,}",
                      "mean": np.log10(np.maximum(deltas, 1e-300))})
        for dimensions in (1, 3, 10, 1000)
        for deltas in [single_delta(epsilons, 1 / np.sqrt(2), dimensions)]
    ])  # fmt: skip
    chart = Chart(
        "One release that an accountant of one dimension calls ε = 1", frame[frame["mean"] > -6],
        x="epsilon", line="line", x_label="ε", y_label="log₁₀ δ(ε)", spread="",
    )  # fmt: skip
    return drawn(draw_chart(chart), "noise").decode() + "\n"


def measure(mirror: str) -> dict[str, Any]:
    """Return what the replicas release on Cora, and what can be read off it."""
    cora = build("cora", Path(mirror))
    adjacency, features = adjacency_of(cora), cora.features.to_scipy().toarray().astype(float)
    alike = dict(twins(adjacency))
    hub, nodes = next(iter(alike.items()))
    edge = (hub, int(nodes[1]))

    def apart(graph: Any, noise: float) -> float:
        rows = aggregated_rows(graph, features, noise) - OWN * features
        return float(np.linalg.norm(rows[nodes[0]] - rows[nodes[1]]))

    gone = adjacency_of(cora, edge)
    aggregated = replay(lambda graph, watch: aggregated_rows(graph, features, 100.0, watch),
                        adjacency, [gone], relation="add_remove")  # fmt: skip
    found: dict[str, Any] = {
        "edges": int(adjacency.nnz // 2), "hubs": len(alike),
        "edges_of_twins": sum(map(len, alike.values())),
        "twins": {f"{noise:g}": [apart(adjacency, noise), apart(gone, noise)]
                  for noise in (1.0, 100.0)},
        "aggregated_differs": aggregated.differs[0],
    }  # fmt: skip
    return found


def kept() -> dict[str, Any]:
    """Return what ``measure`` found last."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def write(mirror: str) -> None:
    """Keep what ``measure`` finds."""
    write_text(FILE, json.dumps(measure(mirror), indent=1) + "\n")
