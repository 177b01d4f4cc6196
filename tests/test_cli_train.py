"""``private-graphs train``: the job of its flags, its output, its files, its refusals."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pandas as pd
import pytest
import safetensors.numpy
from command_line import Outcome, refused
from small_graphs import random_graph
from typer.main import get_command

from private_graphs.cli import application
from private_graphs.cli import train as cli_train
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.report.explained import explain
from private_graphs.running.jobs import Job

NAME = "synthetic-planetoid"
FILES = {"job.json", "manifest.json", "predictions.safetensors", "runs.parquet", "statement.json"}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("raw")


@pytest.fixture
def train(run, data):
    """Call ``train`` on embedded data for a few epochs."""

    def call(*arguments: object) -> Outcome:
        given = [] if "--epochs" in arguments else ["--epochs", 3]
        return run("train", "--dataset", NAME, *given, "--data", data, *arguments)

    return call


def job(*flags: str) -> Job:
    """The job of ``train`` with flags, without a run."""
    command = get_command(application()).commands["train"]
    context = command.make_context("train", ["--dataset", "cora", *flags])
    return cli_train.planned(dict(context.params))


# --- jobs -------------------------------------------------------------------------------------


def test_defaults_are_those_of_the_paper():
    for optimizer, epochs in (("sgd", 2000), ("adam", 500)):
        planned = job("--optimizer", optimizer, "--epsilon", "2")
        assert planned.settings == {"optimizer": optimizer, "epochs": epochs}
        assert (planned.delta, planned.protocol, planned.scenario) == (1e-5, "sound", "nodes")
    assert job("--optimizer", "sgd", "--epsilon", "2").choose == {}
    assert job("--epsilon", "2").choose == {"learning_rate": (0.01, 0.1, 1, 10, 50, 100)}
    assert job("--epsilon", "2").n_replicas == 6 and job("--epsilon", "inf").n_replicas == 1
    for epsilon in ("2", "inf"):
        chosen = job("--epsilon", epsilon, "--lr", "3")
        assert chosen.choose == {} and chosen.settings["learning_rate"] == 3.0


@pytest.mark.parametrize("noise", ["0.001", "1e6"])
@pytest.mark.parametrize("protocol", ["sound", "paper", "released"])
def test_given_noise_is_never_taken_for_a_run_without_dp(protocol, noise):
    planned = job("--protocol", protocol, "--noise-multiplier", noise)
    assert planned.settings["noise_multiplier"] == float(noise)
    assert math.isfinite(planned.epsilons[0])


def test_a_method_whose_noise_is_given_is_left_to_studies(run, data):
    answer = run("train", "--dataset", "digits", "--data", data, "--method", "mlp_records",
                 "--epsilon", 1)  # fmt: skip
    assert answer.code == 2 and "--method is 'mlp_records'" in answer.err


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--epsilon", "0"), ("--epsilon is 0", "above 0")),
        (("--epsilon", "nan"), ("--epsilon is nan",)),
        (("--epsilon", "two"), ("'two'", "a number or inf")),
        ((), ("give --epsilon", "--noise-multiplier")),
        (("--epsilon", "2", "--noise-multiplier", "3"), ("exclude each other",)),
        (("--noise-multiplier", "0"), ("--noise-multiplier is",)),
        (("--noise-multiplier", "1e-4", "--protocol", "paper"), ("noise multiplier", "0.001")),
        (("--epsilon", "2", "--splits", "0"), ("--splits is '0'",)),
        (("--epsilon", "2", "--seeds", "0"), ("'--seeds'",)),
        (("--epsilon", "2", "--delta", "0"), ("--delta is 0",)),
        (("--epsilon", "2", "--lr", "nan"), ("--lr is 'nan'",)),
        (("--epsilon", "2", "--optimizer", "adamw"), ("'adamw'", "did you mean 'adam'")),
        (("--epsilon", "2", "--method", "gnc"), ("'gnc'", "did you mean 'gcn'")),
        (("--epsilon", "2", "--device", "gpu"), ("--device", "'gpu'", "'cuda'")),
        (("--epsilon", "2", "--set", "hiden=4"), ("--set hiden", "did you mean 'hidden'")),
        (("--epsilon", "2", "--set", "hidden"), ("--set is 'hidden'", "NAME=VALUE")),
        (("--epsilon", "2", "--protocol", "paper", "--visits", "poisson"), ("only sound",)),
        (("--epsilon", "2", "--set", "hidden=4", "--set", "hidden=8"), ("'hidden=8'", "once")),
        (("--epsilon", "2", "--lr", "1", "--set", "learning_rate=2"), ("given before",)),
        (("--epsilon", "2", "--visits", "poisson"), ("visits", "one part")),
        (("--epsilon", "inf", "--delta", "0.001"), ("--delta", "has no effect")),
        (("--epsilon", "2", "--early-stopping"), ("--early-stopping", "without DP")),
        (("--noise-multiplier", "9", "--early-stopping"), ("--early-stopping", "without DP")),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else None,
)  # fmt: skip
def test_every_wrong_value_is_named(train, flags, words):
    refused(train(*flags), 2, *words)


def test_a_folder_that_cannot_be_written_is_an_error_before_training(train, tmp_path):
    (tmp_path / "file").write_text("in the way")
    answer = train("--epsilon", "2", "--lr", "1", "--out", tmp_path / "file" / "out")
    refused(answer, 1, "file/out: cannot be used (Not a directory)", "move it away")
    assert "1 runs" not in answer.err


# --- what is printed and saved ----------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["released", "paper", "sound"])
def test_json_goes_to_standard_output_and_nothing_else(train, protocol):
    flags = ("--optimizer", "adam", "--splits", "3", "--seeds", "2", "--lr", "1", "--json")
    answer = train("--protocol", protocol, "--epsilon", "2", *flags)
    assert answer.code == 0 and "2 runs" in answer.err
    assert set(answer.json) == {
        "scores", "epochs", "noise_multiplier", "seconds_per_epoch", "public_alone", "statement",
    }  # fmt: skip
    assert answer.json["epochs"] == 3 and answer.json["noise_multiplier"] > 0
    statement = PrivacyStatement.model_validate(answer.json["statement"])
    secret = protocol == "sound"  # which draws secret noise unless a seed is given
    assert statement.noise_source == ("os_entropy" if secret else "seeded")
    assert any("secret seed" in text for text in statement.assumptions) != secret
    assert (answer.json["seconds_per_epoch"] is None) == secret, "times of fresh noise are secret"
    assert [score["seed"] for score in answer.json["scores"]] == [0, 1]
    for score in answer.json["scores"]:
        assert set(score) == {"seed", "lr", "test_micro_f1", "validation_micro_f1", "epochs"}
        assert 0 <= score["test_micro_f1"] <= 1 and 0 <= score["validation_micro_f1"] <= 1


def test_scores_that_would_read_protected_nodes_are_not_printed(train, monkeypatch):
    """Under ``lists`` all nodes are protected; noise is fresh unless a seed is given."""
    monkeypatch.setattr(cli_train, "load_data", lambda *_: random_graph())
    flags = ("--method", "label_sums", "--epsilon", "8", "--delta", "1e-4")
    said = train(*flags).out.partition("privacy")[0]
    assert "no test score" in said and not re.search(r"(micro-F1|validation|mean) 0", said)
    (score,) = json.loads(train(*flags, "--json").out)["scores"]
    assert score["test_micro_f1"] is score["validation_micro_f1"] is None
    seeded = train(*flags, "--seed", "0").out.partition("privacy")[0]
    assert "test micro-F1 0." in seeded and "validation" not in seeded, "the graph is built in"


def test_out_holds_the_files_of_the_job(train, tmp_path):
    flags = ("--epsilon", "2", "--seed", "3", "--seeds", "2", "--lr", "1", "--json")
    folder = tmp_path / "deep" / "out"
    answer = train(*flags, "--out", folder)
    assert {path.name for path in folder.iterdir()} == FILES
    assert FILES - set(json.loads((folder / "manifest.json").read_text())["sha256"]) == {
        "manifest.json"
    }
    rows = pd.read_parquet(folder / "runs.parquet")
    scores = [score["test_micro_f1"] for score in answer.json["scores"]]
    assert rows["test_micro_f1"].tolist() == scores and rows["seed"].tolist() == [3, 4]
    saved = Job.model_validate_json((folder / "job.json").read_text())
    assert (saved.study, saved.group, saved.seeds) == ("command-line", "train", (3, 4))
    assert set(rows["job"]) == {saved.name}
    stored = json.loads((folder / "statement.json").read_text())
    assert stored == {answer.json["statement"]["statement_id"]: answer.json["statement"]}
    predictions = safetensors.numpy.load_file(folder / "predictions.safetensors")
    assert predictions["predictions"].shape == (2, len(predictions["test_records"]))


def test_draws_are_those_of_earlier_versions(train, tmp_path):
    """The identifier is one that version 0.1.0 wrote: a replica is the same under new words."""
    train("--epsilon", 2, "--splits", 3, "--lr", 1, "--seed", 3, "--out", tmp_path)
    assert pd.read_parquet(tmp_path / "runs.parquet")["replica_id"].tolist() == ["247641a01585a38f"]


# --- explain ----------------------------------------------------------------------------------


def test_explain_says_what_a_finished_run_promises(run, train, tmp_path):
    answer = train("--epsilon", "2", "--seeds", "2", "--json", "--out", tmp_path)
    identifier = answer.json["statement"]["statement_id"]
    told = run("explain", tmp_path)
    assert told.code == 0 and told.err == ""
    assert told.out.startswith(f"Statement {identifier} (proved): {NAME}, gcn (nodes), ")
    assert "- All 12 runs: ε = " in told.out and "How strongly\n- One run: ε = " in told.out
    assert "…" not in told.out and "for each ε" in told.out
    assert all(len(line) <= 80 for line in told.out.splitlines())
    formula = " ".join(answer.json["statement"]["proof"].split())
    assert formula not in " ".join(told.out.split())
    assert formula in " ".join(run("explain", tmp_path, "--full").out.split())
    [parts] = run("explain", tmp_path, "--json").json
    assert parts["statement_id"] == identifier and parts["epsilon"] <= 2
    assert parts["belief_at_most"] == pytest.approx(0.881, abs=1e-3)
    (tmp_path / "alone.json").write_bytes((tmp_path / "statement.json").read_bytes())
    [alone] = run("explain", tmp_path / "alone.json", "--statement", identifier, "--json").json
    assert alone == {**parts, "belongs_to": ""}


def test_runs_of_two_seeds_cost_both_though_their_statements_are_equal(train, tmp_path):
    one, two, lone = tmp_path / "one", tmp_path / "two", tmp_path / "lone.json"
    for seed, folder in enumerate((one, two)):
        train("--epsilon", 2, "--lr", 1, "--epochs", 1, "--seed", seed, "--out", folder)
    lone.write_bytes((two / "statement.json").read_bytes())
    mu = gdp_mu(2, 1e-5)
    for folders, runs in (((one, two), 2), ((one, one), 1), ((one, one / "statement.json"), 1),
                          ((one, two, one), 2), ((one, lone), 2)):  # fmt: skip
        found = explain(*folders)
        assert len({each["statement_id"] for each in found.statements}) == 1
        assert found.epsilon == pytest.approx(gdp_epsilon(mu * runs**0.5, 1e-5), rel=1e-3), folders


def test_explain_refuses_what_is_missing_or_was_changed(run, train, tmp_path):
    identifier = train("--epsilon", "2", "--lr", 1, "--json", "--out", tmp_path).json["statement"][
        "statement_id"
    ]
    refused(run("explain", tmp_path, "--statement", f"{identifier[:-1]}x"), 1, "did you mean")
    refused(run("explain", tmp_path / "nowhere"), 1, "nowhere", "statement.json", "--out DIR")
    statement = (tmp_path / "statement.json").read_text()
    changed = statement.replace('"delta": 1e-05', '"delta": 1e-06')
    (tmp_path / "alone.json").write_text(changed)
    refused(run("explain", tmp_path / "alone.json"), 1, "alone.json", "changed")
    (tmp_path / "statement.json").write_text(changed)
    refused(run("explain", tmp_path), 1, "statement.json", "manifest.json")
    (tmp_path / "statement.json").write_text(statement)
    rows = pd.read_parquet(tmp_path / "runs.parquet")
    rows.assign(epsilon_proved=1.0).to_parquet(tmp_path / "runs.parquet")
    (tmp_path / "manifest.json").unlink()
    refused(run("explain", tmp_path), 1, "runs.parquet", "epsilon_proved 1.0 in the row")
    (tmp_path / "runs.parquet").unlink()
    refused(run("explain", tmp_path), 1, "manifest.json", "not finished")


# --- record -----------------------------------------------------------------------------------


def test_finished_jobs_are_recorded_with_the_commands_that_made_them(run, train, tmp_path):
    from private_graphs.site.record import read_recorded

    flags = ("--epsilon", "2", "--lr", "1", "--seed", "0")
    train(*flags, "--out", tmp_path / "first")
    name = Job.model_validate_json((tmp_path / "first" / "job.json").read_text()).id
    folder = tmp_path / "results" / "demo"
    train(*flags, "--out", folder / "jobs" / name)
    more = ("--command", "one", "--command", "two", "--processed", tmp_path / "none")
    answer = run("record", folder, tmp_path / "recorded", *more)
    assert answer.code == 0 and answer.out == "", answer.err
    kept = read_recorded(tmp_path / "recorded" / "command-line")
    assert kept.made.commands == ("one", "two") and len(kept.rows) == 1


def test_nothing_to_record_or_to_show_is_an_error(run, tmp_path):
    for where in (("site", tmp_path / "out"), ("paper", tmp_path / "out")):
        refused(run(*where, "--recorded", tmp_path / "none"), 2, "--recorded is", "no such folder")
    refused(run("paper", "--results", tmp_path / "none"), 2, "--results is", "no such folder")
    refused(run("record", tmp_path / "nowhere", tmp_path / "out"), 1, "nowhere")
