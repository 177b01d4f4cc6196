"""The synthetic dump is read as by a slow, plain reader."""

from __future__ import annotations

import pytest
from pokec_reference import assert_equal, read

from private_graphs.datasets.embedded import unpack
from private_graphs.datasets.pokec import read_pokec
from private_graphs.datasets.views import VIEWS

PER_CLASS = 600


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    return unpack("pokec_demo", tmp_path_factory.mktemp("raw"))


@pytest.fixture(scope="module")
def graphs(dump):
    return {
        name: read_pokec(
            *dump, view, name="pokec_demo", per_class=PER_CLASS, title="Pokec, synthetic",
            synthetic=True, sources=[], licence="none", citation="none", public_facts=[],
            progress=lambda *_: None,
        )
        for name, view in VIEWS.items()
    }  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_read_as_by_the_slow_reader(dump, graphs, view):
    assert_equal(graphs[view], read(*dump, VIEWS[view], PER_CLASS))
