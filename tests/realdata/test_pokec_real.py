"""The genuine first 100 profiles and friendships: read like the slow reader."""

from __future__ import annotations

import numpy as np
import pytest
from pokec_reference import assert_equal, read

from private_graphs.datasets.pokec import read_pokec
from private_graphs.datasets.views import VIEWS

PER_CLASS = 2
"""There are two cat people among the 100, and 15 dog people."""


@pytest.fixture(scope="module")
def excerpt(mirror):
    names = ("soc-pokec-profiles.head100.txt", "soc-pokec-relationships.head100.txt")
    paths = [mirror / "pokec" / name for name in names]
    absent = [path.name for path in paths if not path.is_file()]
    if absent:
        pytest.skip(f"the mirror has no excerpt of Pokec ({', '.join(absent)})")
    return paths


@pytest.mark.parametrize("view", VIEWS)
def test_the_excerpt_is_read_as_by_the_slow_reader(excerpt, view):
    graph = read_pokec(
        *excerpt, VIEWS[view], name="pokec", per_class=PER_CLASS, title="Pokec", synthetic=False,
        sources=[], licence="as published", citation="Takac & Zabovsky, 2012", public_facts=[],
        progress=lambda *_: None,
    )  # fmt: skip
    assert_equal(graph, read(*excerpt, VIEWS[view], PER_CLASS))
    released = view == "released"
    assert graph.info.counts["rows"] == graph.info.counts["edge_rows"] == 100
    assert graph.info.counts["malformed_rows"] == graph.info.counts["malformed_edge_rows"] == 0
    dogs = graph.info.counts["candidates_dog"]
    assert (graph.info.counts["candidates_cat"], dogs) == (2, 14 if released else 15)
    assert np.bincount(graph.labels).tolist() == [PER_CLASS, PER_CLASS]
