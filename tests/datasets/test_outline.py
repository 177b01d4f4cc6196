"""Outlines of datasets: every size, and no record."""

from __future__ import annotations

import json

import numpy as np
import pytest

from private_graphs.datasets.outline import outline_of, sizes_of
from private_graphs.datasets.registry import build
from private_graphs.datasets.views import VIEWS


@pytest.mark.parametrize(("name", "view"), [("synthetic-npz", None), ("digits", None),
                                            ("faces", "sound")])  # fmt: skip
def test_an_outline_has_the_sizes_of_its_dataset_and_nothing_of_its_records(name, view, tmp_path):
    dataset = build(name, tmp_path, **({} if view is None else {"view": VIEWS[view]}))
    statistics = dataset.statistics()
    outline = outline_of(json.loads(json.dumps(sizes_of(statistics))))
    again = outline.statistics()
    for key in ("name", "title", "classes", "masks", "labelled", "fingerprint", "preprocessing",
                "public_facts", "view"):  # fmt: skip
        assert again[key] == statistics[key]
    assert len(outline.labels) == len(dataset.labels) and set(outline.labels) <= {0, -1}
    if "nodes" in statistics:
        assert again["features"] == statistics["features"]
        assert again["edges"] == again["feature_nonzeros"] == 0
    else:
        assert outline.images.shape == dataset.images.shape and not np.any(outline.images)
