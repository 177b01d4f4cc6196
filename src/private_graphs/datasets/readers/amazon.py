"""Amazon products bought together: ogbn-products, as ProGAP reads it."""

from __future__ import annotations

from private_graphs.datasets.ogb import read_products
from private_graphs.datasets.spec import DatasetSpec, GraphSize, numbered

# Sizes from the paper.
DATASETS = (
    DatasetSpec(
        "amazon",
        "Amazon products (ogbn-products), its 10 largest categories",
        "ogbn-products/products.zip",
        numbered(10),
        GraphSize(1_790_731, 40_483_416, 179_073_100, 100, 10, 1_343_048),
        max_edges=41_000_000,
        read=read_products,
    ),
)
