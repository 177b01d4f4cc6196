"""``private-graphs audit``: its JSON, its text, its exit codes."""

from __future__ import annotations

from functools import partial

import pytest
from command_line import refused

from private_graphs.training import engine

FIELDS = {
    "epsilon_claimed", "epsilon_proved", "epsilon_lower", "epsilon_lower_gaussian", "unit",
    "relation", "delta", "assumption", "confidence", "runs", "verdict",
}  # fmt: skip


@pytest.fixture
def audit(run):
    """Call ``private-graphs audit`` in this process."""
    return partial(run, "audit")


def test_released_is_refuted_at_epsilon_2_without_an_assumption(audit):
    answer = audit("--protocol", "released", "--epsilon", 2, "--runs", 100, "--json")
    found = answer.json
    assert answer.code == 0 and set(found) >= FIELDS
    assert found["epsilon_claimed"] == 2 and found["epsilon_proved"] is None
    assert found["epsilon_lower"] == pytest.approx(3.28134, abs=1e-5)
    assert found["verdict_epsilon_lower"] > 2
    assert (found["assumption"], found["verdict"]) == ("none", "refuted")
    assert (found["unit"], found["relation"], found["delta"]) == ("node", "replace", 1e-5)
    assert (found["confidence"], found["runs"], found["errors"]) == (0.95, 200, 0)
    assert found["one_run"]["right"] == found["one_run"]["guesses"] == 100


def test_more_than_is_proved_ends_with_exit_code_1(audit, monkeypatch):
    honest = engine._Batch._state

    def quiet(batch):
        state = honest(batch)
        return state._replace(noise_std=state.noise_std / 10)

    monkeypatch.setattr(engine._Batch, "_state", quiet)
    answer = audit("--protocol", "sound", "--runs", 100, "--json")
    assert answer.code == 1 and answer.json["verdict"] == "proof_broken"
    assert "breaks its proof" in answer.err and "Traceback" not in answer.err


def test_a_proved_method_is_audited_in_its_scenario(audit):
    answer = audit("--method", "class_sums", "--scenario", "graph", "--runs", 50, "--json")
    found = answer.json
    assert answer.code == 0 and set(found) >= FIELDS
    assert (found["protocol"], found["method"], found["setting"]) == (
        "sound", "class_sums", "graph",
    )  # fmt: skip
    assert (found["epsilon_claimed"], found["runs"], found["verdict"]) == (2, 100, "not_refuted")
    assert 1.99 < found["epsilon_proved"] <= 2
    answer = audit("--method", "edge_votes", "--runs", 10)
    assert answer.code == 0 and "edge_votes, scenario edges" in answer.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--protocol, such as released, --method, --replay or --mechanisms"),
        (("--protocol", "sound", "--scenario", "text"), "--scenario and --classes"),
        (("--method", "dp_linaer"), "did you mean 'dp_linear'"),
        (("--method", "dp_linear", "--scenario", "edges"), "expected text or graph"),
        (("--method", "dp_linear", "--splits", "2"), "leave them out"),
        (("--protocol", "sonud"), "'sonud'"),
        (("--protocol", "sound", "--epsilon", "-1"), "epsilon is -1"),
        (("--protocol", "sound", "--runs", "5"), "at least 10"),
        (
            ("--protocol", "paper", "--splits", "4", "--visits", "poisson"),
            "only sound has a choice",
        ),
        (("--protocol", "released", "--epsilon", "0.1"), "cannot certify"),
    ],
)
def test_wrong_usage_says_what_to_do(audit, arguments, words):
    refused(audit(*arguments), 2, words)
