"""Every method through every command that can name it, in its smallest setting."""

from __future__ import annotations

import json
from functools import partial

import pandas as pd
import pytest
from command_line import refused

from private_graphs.attacks import replay_audit
from private_graphs.attacks.small_data import small_dataset
from private_graphs.attacks.small_jobs import all_cases, small_job
from private_graphs.cli import train as cli_train
from private_graphs.methods import all_methods
from private_graphs.tasks.method import Method

METHODS = all_methods().values()
TRAINED = [
    pytest.param(
        method.name, scenario, protocol,
        marks=() if (scenario, protocol) == (method.scenarios[0], [*method.protocols][-1])
        else pytest.mark.long,
    )
    for method in METHODS
    for scenario in method.scenarios
    for protocol in method.protocols
]  # fmt: skip
"""Each method in its first scenario under its last protocol; all others take long together."""
REFUSED = {"mlp_records": "a study runs it", "model_inversion": "needs"}
"""Methods that no command but a study's runs: their noise is given, or they read another job."""


@pytest.fixture(autouse=True)
def _small_data(monkeypatch):
    """Sixty nodes or pictures in place of those of the named dataset."""
    monkeypatch.setattr(cli_train, "load_data", lambda name, *_: small_dataset(
        all_methods()["class_codes" if name == "faces" else "gcn"]
    ))  # fmt: skip


def short(method: Method, scenario: str, protocol: str) -> list[str]:
    """The flags of the settings that make a run short."""
    settings = small_job(method, scenario, protocol).settings
    return [f"--set={name}={value if isinstance(value, str) else json.dumps(value)}"
            for name, value in settings.items()]  # fmt: skip


@pytest.mark.parametrize(("name", "scenario", "protocol"), TRAINED)
def test_what_is_trained_is_printed_saved_and_explained(run, tmp_path, name, scenario, protocol):
    method = all_methods()[name]
    dataset = "faces" if method.data == "images" else "synthetic-planetoid"
    train = partial(
        run, "train", "--dataset", dataset, "--method", name, "--scenario", scenario,
        "--protocol", protocol, *(("--epsilon", 2) if method.reads_private else ()), "--seed", 0,
        *short(method, scenario, protocol),
    )  # fmt: skip
    if name in REFUSED:
        answer = train()
        refused(answer, answer.code, REFUSED[name])
        assert answer.code in (1, 2)
        return
    answer = train("--json", "--out", tmp_path)
    assert answer.code == 0, answer.err
    [row] = pd.read_parquet(tmp_path / "runs.parquet").query("selected").to_dict("records")
    [score] = answer.json["scores"]
    assert score["test_micro_f1"] == row["test_micro_f1"]
    assert (score["lr"] is None) == ("learning_rate" not in json.loads(row["settings"]))
    told = run("explain", tmp_path)
    assert told.code == 0, told.err
    assert f", {name} ({scenario}), protocol {protocol}" in " ".join(told.out.split())
    if (scenario, protocol) == (method.scenarios[0], [*method.protocols][-1]):
        words = train()
        assert words.code == 0, words.err
        line, statement = words.out.split("\n", 1)
        assert line.startswith(f"seed 0: test micro-F1 {row['test_micro_f1']:.3f}")
        assert "nan" not in line and "None" not in line
        assert ("lr" in line) == (score["lr"] is not None)
        assert answer.json["statement"]["statement_id"] in statement


QUICK = ("class_sums", "gap", "pate_labels")
"""Of sums, of steps on a whole graph, of images; tests/mechanisms replays every method."""


@pytest.mark.parametrize("name", QUICK)
def test_what_reads_private_data_is_replayed(run, monkeypatch, name):
    here = partial(replay_audit.audit_methods, processes=1)
    monkeypatch.setattr(replay_audit, "audit_methods", here)
    case = partial(replay_audit.audit_case, seeds=1)
    monkeypatch.setattr(replay_audit, "audit_case", case)
    monkeypatch.setattr(replay_audit, "recorded_settings", lambda *_: [])
    protocol = [*all_methods()[name].protocols][-1]
    flags = ("--method", name, "--protocol", protocol, "--neighbours", 2, "--json")
    answer = run("audit", "--replay", *flags)
    assert answer.code == 0, answer.err
    replayed = [(each["method"], each["scenario"], each["protocol"]) for each in answer.json]
    assert list(dict.fromkeys(replayed)) == all_cases(name, protocol) and all(
        each["passed"] for each in answer.json
    )
