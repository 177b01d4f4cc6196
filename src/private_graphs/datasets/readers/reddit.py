"""Reddit posts of GraphSAGE, as PyTorch Geometric and DGL distribute them.

``reddit-8`` has the posts of the largest communities, with ProGAP's own split.
"""

from __future__ import annotations

from pathlib import Path

from private_graphs.datasets.graph_dataset import ParsedGraph
from private_graphs.datasets.spec import DatasetSpec, GraphSize, numbered
from private_graphs.datasets.views import DataView


def _read(path: Path, view: DataView) -> ParsedGraph:
    from private_graphs.datasets.reddit import read_reddit

    return read_reddit(path, view)


def _read_classes(path: Path) -> ParsedGraph:
    from private_graphs.datasets.reddit import read_reddit_classes

    return read_reddit_classes(path)


# Sizes from the papers and the published file.
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
    DatasetSpec(
        "reddit-8",
        "Reddit posts (GraphSAGE), its 8 largest communities",
        "reddit/reddit.zip",
        numbered(8),
        GraphSize(116_713, 23_116_690, 116_713 * 602, 602, 8, 87_535),
        max_edges=24_000_000,
        read=_read_classes,
    ),
)
