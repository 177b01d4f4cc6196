"""A synthetic campus in the format of Facebook100, so that everything runs without a download."""

from __future__ import annotations

from functools import partial

from private_graphs.datasets.embedded import unpack
from private_graphs.datasets.readers.facebook100 import read_campuses
from private_graphs.datasets.spec import DatasetSpec, GraphSize

_FOLDER = "synthetic-campus"
DATASETS = (
    DatasetSpec(
        "synthetic-campus",
        "Synthetic campus in the format of Facebook100",
        _FOLDER,
        tuple(f"class of {year}" for year in range(2004, 2010)),
        GraphSize(2_038, 46_520, 7_508, 144, 6, 1_539),
        max_edges=47_000,
        synthetic=True,
        read=partial(read_campuses, campuses=("Synthetic1",), smallest=100),
        write=partial(unpack, _FOLDER),
    ),
)
