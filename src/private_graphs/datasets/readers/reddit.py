"""Reddit posts of GraphSAGE, as PyTorch Geometric and DGL distribute them.

``reddit-8`` has the posts of the largest communities, with ProGAP's own split.
"""

from __future__ import annotations

from private_graphs.datasets.reddit import read_reddit, read_reddit_classes
from private_graphs.datasets.spec import DatasetSpec, GraphSize, numbered

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
        read=read_reddit,
    ),
    DatasetSpec(
        "reddit-8",
        "Reddit posts (GraphSAGE), its 8 largest communities",
        "reddit/reddit.zip",
        numbered(8),
        GraphSize(116_713, 23_116_690, 116_713 * 602, 602, 8, 87_535),
        max_edges=24_000_000,
        read=read_reddit_classes,
    ),
)
