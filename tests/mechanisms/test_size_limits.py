"""Code that divides private data by their size: both ways give the same, and both are replayed.

Replays are of few records, which are one block and are kept in memory: what is done with many would
be run by nobody. Here each limit is so small that few records are many.
"""

from __future__ import annotations

import ast
import re
from itertools import chain

import numpy as np
import pytest

from private_graphs.attacks.replay_audit import audit_case
from private_graphs.attacks.small_data import small_dataset
from private_graphs.attacks.small_jobs import small_job
from private_graphs.documents.hashing import HashedWords
from private_graphs.documents.unit_steps import ResidualSums
from private_graphs.documents.unit_sums import Terms, calibrated
from private_graphs.methods import method_named
from private_graphs.running.run import execute

LIMITS = [
    ("methods.class_sums", "_BLOCK", 7, "class_sums", "text"),
    ("methods.class_sums", "_KEPT", 0, "class_sums", "text"),
    ("methods.class_sums", "BATCH", 1, "class_sums", "text"),
    ("methods.edge_votes", "_BLOCK", 5, "edge_votes", "edges"),
    ("methods.node_gradients", "_BLOCK", 64, "dp_linear", "text"),
    ("methods.noisy_sums", "_ACTIVATIONS", 1, "gap", "links"),
    ("training.mlp", "_CHUNK", 5, "mlp_records", "records"),
]
"""Module, limit, small value, and the method and scenario that run it."""
SUMS = [("documents.unit_sums", "_BLOCK"), ("documents.unit_steps", "_BLOCK")]
"""Limits of exact sums over declared documents."""
PUBLIC = [
    ("methods.text_only", "_EXACT"), ("methods.text_only", "_CHUNK"),
    ("methods.public_rows", "_DENSE"), ("methods.gcn", "ROOM"), ("methods.scattering", "_LOT"),
]  # fmt: skip
"""Limits of what is computed of public data alone, of memory, and of each record by itself."""
_NAMES = re.compile(r"_?(BLOCK|KEPT|BATCH|CHUNK|ACTIVATIONS|EXACT|DENSE|ROOM|LOT)")


def test_every_limit_is_set_small_or_concerns_no_sum_of_private_data(root):
    package, found = root / "src" / "private_graphs", set()
    folders = [(package / each).glob("*.py") for each in ("methods", "documents", "mechanisms")]
    for path in [*chain(*folders), package / "training" / "mlp.py"]:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [each.id for each in getattr(node, "targets", ()) if isinstance(each, ast.Name)]
            module = ".".join(path.relative_to(package).with_suffix("").parts)
            found |= {(module, name) for name in names if _NAMES.fullmatch(name)}
    assert found == {each[:2] for each in LIMITS} | {*SUMS, *PUBLIC}


def test_many_documents_are_summed_as_few(monkeypatch):
    draws = np.random.default_rng(0)
    words = np.array("chain pedal rose soil dial tube".split())
    texts = [" ".join(draws.choice(words, 4)) for _ in range(60)]
    terms = Terms(texts, draws.integers(-1, 3, 60), np.sort(draws.integers(0, 25, 60)))
    features, lattice = HashedWords(64), calibrated(2.0, 1e-5, 64, 3)
    weights = 9 * draws.normal(size=(65, 3))

    def sums() -> tuple[np.ndarray, np.ndarray]:
        residuals = ResidualSums.of(terms, features, lattice)
        return terms.sum(features, 3, lattice), residuals.exact(weights)

    few = sums()
    for module, limit in SUMS:
        monkeypatch.setattr(f"private_graphs.{module}.{limit}", 4)
    for one, other in zip(few, sums(), strict=True):
        assert one.any() and np.array_equal(one, other)


@pytest.mark.parametrize(("module", "limit", "small", "name", "scenario"), LIMITS)
def test_many_records_are_treated_as_few(module, limit, small, name, scenario, monkeypatch):
    method = method_named(name)
    job = small_job(method, scenario, "sound", seeds=(0,))

    few = execute(job, small_dataset(method)).test_predictions
    monkeypatch.setattr(f"private_graphs.{module}.{limit}", small)
    many = execute(job, small_dataset(method)).test_predictions
    np.testing.assert_array_equal(few, many)
    found = audit_case(name, scenario, "sound", count=2, seeds=1)
    assert found.passed, found.replay.differs or found.replay.worst
    assert found.replay.calls and found.proves
