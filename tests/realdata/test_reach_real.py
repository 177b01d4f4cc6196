"""What the estimate of training time knows of the real graphs is what is measured on them."""

from __future__ import annotations

import pytest
from private_graphs.cost.reach import known_reach, measure

from private_graphs.datasets.registry import DATASETS, build
from private_graphs.datasets.sources import supply


@pytest.mark.parametrize(
    "name", [name for name, spec in DATASETS.items() if not (spec.synthetic or spec.views)]
)
def test_what_is_kept_of_a_real_graph_is_what_is_measured(mirror, tmp_path, name):
    supply([name], tmp_path, mirror, progress=lambda *_: None)
    found, kept = measure(build(name, tmp_path)), known_reach(name)
    assert kept is not None, f"run python -m private_graphs.cost measure {name}"
    assert (found.train_edges, found.train_nonzeros) == (kept.train_edges, kept.train_nonzeros)
    for curve in ("nodes", "entries", "nonzeros", "words", "own_words"):
        shares = [getattr(each, curve).share(probability) for each, probability in
                  [(found, 0.1), (kept, 0.1), (found, 0.01), (kept, 0.01)]]  # fmt: skip
        assert shares[0::2] == pytest.approx(shares[1::2], rel=0.01), curve
