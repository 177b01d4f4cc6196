"""Reddit as ProGAP reads it: posts of the largest communities, with ProGAP's own split."""

from __future__ import annotations

from pathlib import Path

from private_graphs.datasets.graph_dataset import ParsedGraph
from private_graphs.datasets.spec import DatasetSpec, GraphSize, numbered


def _read(path: Path) -> ParsedGraph:
    from private_graphs.datasets.reddit import read_reddit_classes

    return read_reddit_classes(path)


# Sizes from the paper.
DATASETS = (
    DatasetSpec(
        "reddit-8",
        "Reddit posts (GraphSAGE), its 8 largest communities",
        "reddit/reddit.zip",
        numbered(8),
        GraphSize(116_713, 23_116_690, 116_713 * 602, 602, 8, 87_535),
        max_edges=24_000_000,
        read=_read,
    ),
)
