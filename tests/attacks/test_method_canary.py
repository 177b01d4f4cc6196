"""Audits of the proved methods: the code as it is passes, and planted bugs are refuted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from private_graphs.attacks.audit import run_method_audit
from private_graphs.attacks.method_canary import MethodDesign, canary_task, guesses, outcomes
from private_graphs.methods import all_methods, class_sums, node_gradients
from private_graphs.methods.public_text import Axes
from private_graphs.privacy.audits import gaussian_mu
from private_graphs.tasks.method import Canary

AUDITED = [
    (name, scenario)
    for name, method in all_methods().items()
    if isinstance(method.canary, Canary)
    for scenario in method.scenarios
]


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize(("method", "scenario"), AUDITED)
def test_neighbours_differ_in_one_unit(method, scenario, classes):
    design = MethodDesign(method, scenario, 2.0, classes=classes)
    first, second = (canary_task(design, arm) for arm in (0, 1))
    assert first.n_classes == classes == len(set(first.train_labels))
    if scenario == "edges":
        different = (first.adjacency != second.adjacency).tocoo()
        assert different.nnz == 2, "one undirected edge"
        assert set(zip(different.row, different.col, strict=True)) == set(
            zip(different.col, different.row, strict=True)
        )
        assert np.array_equal(first.train_labels, second.train_labels)
    else:
        assert np.flatnonzero(first.train_labels != second.train_labels).tolist() == [0]
    for name in ("train_features", "validation_features", "test_features"):
        assert (getattr(first, name) != getattr(second, name)).nnz == 0
    assert np.array_equal(first.validation_labels, second.validation_labels)


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize(("method", "scenario"), AUDITED)
def test_without_noise_the_prediction_tells_the_neighbours_apart(method, scenario, classes):
    design = MethodDesign(method, scenario, np.inf, runs=1, classes=classes)
    # Without its edge the test node has a tie, which goes to class 0.
    for arm in (0, 1):
        found, released = outcomes(design, arm)
        assert guesses(found).tolist() == [bool(arm)] and released == [()]


@pytest.mark.parametrize(("method", "scenario"), AUDITED)
def test_the_audit_comes_near_what_is_proved_and_does_not_exceed_it(method, scenario):
    found = run_method_audit(MethodDesign(method, scenario, 8.0, runs=150))
    assert found.verdict == "not_refuted"
    assert found.epsilon_proved == pytest.approx(8, abs=0.02) and found.epsilon_proved <= 8
    assert 0 < found.lower_gaussian() < found.epsilon_proved
    attacked = gaussian_mu(found.errors, 1e-6)  # about the estimate itself
    assert attacked > 0.6 * found.mu_proved


def test_the_document_names_method_scenario_unit_and_relation():
    found = run_method_audit(MethodDesign("class_sums", "graph", 2.0, runs=20)).document()
    assert (found["protocol"], found["method"], found["setting"]) == (
        "sound", "class_sums", "graph",
    )  # fmt: skip
    assert (found["unit"], found["relation"], found["epochs"]) == ("node", "replace", 1)
    again = run_method_audit(MethodDesign("class_sums", "graph", 2.0, runs=20)).document()
    assert again | {"seconds": 0} == found | {"seconds": 0}


# --- planted bugs ------------------------------------------------------------------------------


def broken(method: str, scenario: str, epsilon: float, runs: int) -> bool:
    return run_method_audit(MethodDesign(method, scenario, epsilon, runs=runs)).breaks_proof


def test_noise_halved_and_stated_so_is_no_broken_proof_but_a_refuted_claim(monkeypatch):
    honest = class_sums.lattices

    def less(*each):
        planned, _ = honest(*each)
        return replace(planned, spacing=planned.spacing / 8), None

    monkeypatch.setattr(class_sums, "lattices", less)
    found = run_method_audit(MethodDesign("class_sums", "text", 2.0, runs=300))
    assert not found.breaks_proof and found.epsilon_proved > 2
    assert found.verdict in ("refuted", "refuted_if_gaussian")


def test_rows_that_are_not_normalised_are_caught_in_class_sums(monkeypatch):
    honest = Axes.unit
    monkeypatch.setattr(Axes, "unit", lambda *each: 3 * honest(*each))
    assert broken("class_sums", "text", 4.0, 1000)


@pytest.mark.parametrize("method", ["dp_linear"])
def test_gradients_that_are_not_clipped_are_caught(monkeypatch, method):
    runs = 1500
    assert not broken(method, "text", 8.0, runs)
    monkeypatch.setattr(node_gradients, "clip_factors", lambda squared, _: np.ones_like(squared))
    assert broken(method, "text", 8.0, runs)
