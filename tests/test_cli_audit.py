"""``private-graphs audit``: its JSON, its text, its exit codes."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from command_line import refused

from private_graphs.privacy.audits import one_run_epsilon
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
        ((), "--protocol, such as released, or --method"),
        (("--protocol", "sound", "--scenario", "text"), "--scenario: has no effect: --protocol "),
        (("--protocol", "sound", "--method", "edge_votes"), "--protocol: has no effect"),
        (("--replay", "--mechanisms"), "--replay: has no effect: --mechanisms takes no such"),
        (("--mechanisms", "--relation", "zero_out"), "--relation: has no effect"),
        (("--scores", "a", "b", "--runs", "9", "--seed", "5"), "--runs, --seed: has no effect"),
        (("--scores", "a", "b", "--claim", "2", "--epsilon", "1"), "--epsilon: has no effect"),
        (("--method", "dp_linaer"), "did you mean 'dp_linear'"),
        (("--method", "dp_linear", "--scenario", "edges"), "expected text or graph"),
        (("--method", "dp_linear", "--splits", "2"), "--splits: has no effect"),
        (("--protocol", "sonud"), "'sonud'"),
        (("--protocol", "sound", "--epsilon", "-1"), "epsilon is -1"),
        (("--protocol", "sound", "--runs", "5"), "at least 10"),
        (("--protocol", "sound", "--splits", "50", "--runs", "10"), "at most 21"),
        (
            ("--protocol", "paper", "--splits", "4", "--visits", "poisson"),
            "only sound has a choice",
        ),
        (("--protocol", "released", "--epsilon", "0.1"), "cannot certify"),
    ],
)
def test_wrong_usage_says_what_to_do(audit, arguments, words):
    refused(audit(*arguments), 2, words)


TRAIN = """
import numpy as np
from private_graphs.audit import gaussian

def data():
    return np.random.default_rng(0).standard_normal((30, 4))

rows = data()

def train(rows, clip=1.0):
    scale = np.maximum(1, np.linalg.norm(rows, axis=1) / clip)
    return gaussian((rows / scale[:, None]).sum(0), std=8.0, sensitivity=2.0)

def unclipped(rows):
    return train(rows, 100.0)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(TRAIN, encoding="utf-8")
    return path


def test_a_training_of_ones_own_is_replayed(audit, script):
    flags = ("--data", f"{script}:data", "--neighbours", 4)
    answer = audit("--script", f"{script}:train", *flags, "--json")
    assert answer.code == 0 and (answer.json["verdict"], answer.json["neighbours"]) == (
        "no leak found", 4,
    )  # fmt: skip
    answer = audit("--script", f"{script}:unclipped", "--data", f"{script}:rows", "--neighbours", 4)
    assert answer.code == 1 and answer.out.startswith("LEAKS: ")
    assert "a sum moves too far: step 1: by " in answer.out
    answer = audit("--script", f"{script}:train", *flags, "--claim", 0.5, "--delta", 1e-5)
    assert answer.code == 1 and "you claim 0.500; what ran proves " in answer.out


def test_a_claim_that_is_no_number_does_not_pass(audit, script, tmp_path):
    own = ("--script", f"{script}:train", "--data", f"{script}:data", "--neighbours", 2)
    answer = audit(*own, "--claim", "nan", "--delta", 1e-5)
    assert answer.code == 1 and "you claim nan; what ran proves " in answer.out
    scores = tmp_path / "scores"
    scores.write_text("\n".join(map(str, range(40))), encoding="utf-8")
    refused(audit("--scores", scores, scores, "--claim", "nan"), 2, "epsilon is nan; expected a")
    words = f"{tmp_path}: cannot be used (Is a directory)"
    refused(audit("--scores", tmp_path, scores), 1, words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--script", "own.py:train"), "expected both"),
        (("--script", "own.py:train", "--data", "none.py:data"), "found no such file"),
        (("--script", "own.py:trian", "--data", "own.py:data"), "it defines data, gaussian, np,"),
        (("--script", "own.py:rows", "--data", "own.py:data"), "expected a function of the data"),
        (("--script", "own.py:train", "--data", "own.py:data", "--replay"), "--replay: has no"),
        (("--script", "own.py:train", "--data", "own.py:data", "--delta", ".1"), "no --claim"),
        (("--protocol", "sound", "--claim", "2"), "--claim: has no effect: --protocol"),
    ],
)
def test_a_training_that_cannot_be_replayed_is_refused(
    audit, script, monkeypatch, arguments, words
):
    monkeypatch.chdir(script.parent)
    refused(audit(*arguments), 2, words)


def test_scores_of_canaries_of_one_run_give_the_bound_of_the_one_run_audit(audit, tmp_path):
    """All 200 guesses right: the same number as for the audit of the released code's canaries."""
    draws = np.random.default_rng(0)
    for name, shift in (("in", 9.0), ("out", 0.0)):
        scores = draws.normal(shift, 1, size=200)
        (tmp_path / f"{name}.csv").write_text("\n".join(map(str, scores)), encoding="utf-8")
    files = (tmp_path / "in.csv", tmp_path / "out.csv")
    answer = audit("--scores", *files, "--canaries").json
    assert (answer["canaries"], answer["guesses"], answer["right"]) == (400, 200, 200)
    assert answer["epsilon_lower"] == pytest.approx(one_run_epsilon(400, 200, 200, 1e-5, 0.999))
    swapped = audit("--scores", *files[::-1], "--canaries").json
    assert (swapped["right"], swapped["epsilon_lower"]) == (0, 0)
    answer = audit("--scores", *files, "--json").json
    assert answer["epsilon_lower_gaussian"] > answer["epsilon_lower"] > 0
    assert audit("--scores", *files, "--canaries", "--claim", 2).code == 2
