"""Reddit posts of GraphSAGE, as PyTorch Geometric and DGL distribute them."""

from __future__ import annotations

from pathlib import Path

from private_graphs.datasets.graph_dataset import ParsedGraph
from private_graphs.datasets.spec import DatasetSpec, GraphSize, numbered
from private_graphs.datasets.views import DataView


def _read(path: Path, view: DataView) -> ParsedGraph:
    from private_graphs.datasets.reddit import read_reddit

    return read_reddit(path, view)


# Sizes from the paper and the published file.
DATASETS = (
    DatasetSpec(
        "reddit",
        "Reddit posts (GraphSAGE), 10 % of the training nodes",
        "reddit/reddit.zip",
        numbered(41),
        GraphSize(94_876, 10_000_000, 94_876 * 602, 602, 41, 15_342),
        max_edges=58_000_000,  # for the whole graph, before nodes are sampled
        views=("released", "paper", "sound"),
        read=_read,
    ),
)
