"""The synthetic dump: the same bytes every time, the profile of the real one, nothing trivial."""

from __future__ import annotations

import gzip
import hashlib

import pytest
from pokec_reference import assert_equal, read

from private_graphs.datasets.pokec import read_pokec
from private_graphs.datasets.pokec_demo import DEMO_PER_CLASS, write_demo
from private_graphs.datasets.views import VIEWS

CONTENT = (
    "a550fb1fac6887dfbaf98baaa2b86ac63f9cab4d9dbd65713b06c24bbea599a0",
    "3b85ef9cc253c13605343acdf4b6cde5072d813d0f6e82bbe53cb05453df4631",
)
"""sha256 of the unpacked files: another dump would be other results."""


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    return write_demo(tmp_path_factory.mktemp("pokec_demo"))


@pytest.fixture(scope="module")
def graphs(dump):
    return {
        name: read_pokec(
            *dump, view, name="pokec_demo", per_class=DEMO_PER_CLASS, title="Pokec, synthetic",
            synthetic=True, sources=[], licence="none", citation="none", public_facts=[],
            progress=lambda *_: None,
        )
        for name, view in VIEWS.items()
    }  # fmt: skip


def test_the_dump_is_the_same_byte_for_byte(dump, tmp_path):
    again = write_demo(tmp_path)
    assert [path.name for path in again] == [
        "soc-pokec-profiles.txt.gz",
        "soc-pokec-relationships.txt.gz",
    ]
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in dump]
    assert sum(path.stat().st_size for path in dump) <= 3_000_000
    unpacked = [gzip.decompress(path.read_bytes()) for path in dump]
    assert tuple(hashlib.sha256(each).hexdigest() for each in unpacked) == CONTENT


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_read_as_by_the_slow_reader(dump, graphs, view):
    assert_equal(graphs[view], read(*dump, VIEWS[view], DEMO_PER_CLASS))
