"""The command line: what goes where, exit codes, and the message of every wrong input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
from command_line import Outcome, refused

from private_graphs import cli
from private_graphs.privacy.statements import PrivacyStatement

NAME = "synthetic-planetoid"


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("raw")


@pytest.fixture
def train(run, data):
    """Call ``train`` on embedded data for a few epochs."""

    def call(*arguments: object) -> Outcome:
        given = [] if "--dataset" in arguments else ["--dataset", NAME]
        if "--epochs" not in arguments:
            given += ["--epochs", "3"]
        return run("train", *given, "--data", data, *arguments)

    return call


def test_dataset_prints_statistics_as_json(run, data):
    found = run("dataset", NAME, "--data", data)
    assert found.code == 0
    assert found.json["nodes"] == 2400 and found.json["synthetic"] is True


ACCOUNT = ("--steps", 2000, "--delta", 1e-5)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--accountant", "moments", "--noise-multiplier", 112), 1.995762),
        (("--accountant", "moments", "--noise-multiplier", 219.2), 1.0000),
        (("--accountant", "cancelling", "--noise-multiplier", 220), -0.14764),
        (("--accountant", "gdp", "--noise-multiplier", 112), 1.55196),
        (("--accountant", "gdp", "--noise-multiplier", 112, "--relation", "zero_out"), 1.55196),
        (("--accountant", "gdp", "--noise-multiplier", 112, "--relation", "replace"), 3.38015),
        (("--accountant", "pld", "--noise-multiplier", 112, "--relation", "replace"), 3.38015),
    ],
)
def test_epsilon_prints_the_known_values(run, flags, expected):
    found = run("epsilon", *ACCOUNT, *flags)
    assert found.code == 0 and found.err == ""
    assert found.json["epsilon"] == pytest.approx(expected, abs=2e-4)


def test_noise_is_rounded_to_the_safe_side(run):
    flags = ("--steps", 500, "--accountant", "gdp", "--relation", "replace")
    noise = run("noise", "--epsilon", 2, *flags).json["noise_multiplier"]
    assert noise == pytest.approx(89.166, abs=0.0015) and noise == round(noise, 3)
    assert run("epsilon", "--noise-multiplier", noise, *flags).json["epsilon"] <= 2
    less = run("epsilon", "--noise-multiplier", round(noise - 0.001, 3), *flags).json["epsilon"]
    assert less > 2


def test_the_authors_accountant_prints_but_keeps_no_budget(run):
    flags = ("--accountant", "cancelling", "--steps", 2000)
    refused(run("noise", "--epsilon", 1, *flags), 2, "keeps no budget", "moments")
    tiny = run("epsilon", "--noise-multiplier", 0.02, *flags)
    refused(tiny, 1, "no finite epsilon", "accountant moments")


@pytest.mark.parametrize("command", ["epsilon", "noise"])
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--accountant", "gdp", "--sampling-rate", 0.1), ("sampling rate 1", "pld or moments")),
        (
            ("--accountant", "gdp", "--sampling-rate", 0.1, "--relation", "replace"),
            ("sampling rate 1", "use the accountant pld"),
        ),
        (("--accountant", "moments", "--relation", "replace"), ("add_remove only", "gdp or pld")),
        (
            ("--accountant", "cancelling", "--relation", "replace"),
            ("cancelling is the published formula", "add_remove only"),
        ),
        (
            ("--accountant", "moments", "--relation", "zero_out", "--sampling-rate", 0.1),
            ("add_remove only", "use the accountant pld"),
        ),
        (("--accountant", "momentz"), ("'momentz'", "did you mean 'moments'")),
        (("--relation", "replaced"), ("'replaced'", "did you mean 'replace'")),
        (("--sampling-rate", 1.5), ("1.5",)),
        (("--sampling-rate", 0), ("0",)),
        (("--delta", 1), ("delta",)),
        (("--delta", 0), ("delta",)),
    ],
)
def test_combinations_without_an_answer_name_the_accountant_to_use(run, command, flags, words):
    wanted = "--noise-multiplier" if command == "epsilon" else "--epsilon"
    refused(run(command, wanted, 2, "--steps", 10, *flags), 2, *words)


@pytest.mark.parametrize("flags", [("--epsilon", 0.35), ("--epsilon", 0.3597)])
def test_the_moments_accountant_names_the_epsilon_it_cannot_go_below(run, flags):
    found = run("noise", "--accountant", "moments", *ACCOUNT, *flags)
    refused(found, 2, "ln(1/delta)/32 = 0.3598")


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf"])
def test_epsilon_has_to_be_positive_and_finite_where_noise_is_asked_for(run, value):
    for accountant in ("moments", "gdp", "pld"):
        found = run("noise", "--accountant", accountant, "--steps", 10, f"--epsilon={value}")
        refused(found, 2, "epsilon")


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf"])
def test_noise_has_to_be_positive_and_finite_where_epsilon_is_asked_for(run, value):
    found = run("epsilon", "--accountant", "gdp", "--steps", 10, f"--noise-multiplier={value}")
    refused(found, 2, "noise")


def test_steps_have_to_be_positive(run):
    refused(run("epsilon", "--noise-multiplier", 2, "--steps", 0), 2, "steps")


@pytest.mark.parametrize("command", ["dataset", "train"])
def test_an_unknown_dataset_lists_the_known_and_suggests_the_nearest(run, train, data, command):
    if command == "train":
        found = train("--dataset", "coar", "--epsilon", "2")
    else:
        found = run("dataset", "coar", "--data", data)
    refused(found, 2, "unknown dataset 'coar'", "citeseer", "did you mean 'cora'?")


def test_unknown_flags_and_commands_are_wrong_usage(run, train):
    refused(train("--epsilon", "2", "--split", "10"), 2, "--split")
    refused(run("trian"), 2, "trian")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--epsilon", "0"), ("--epsilon is 0", "above 0")),
        (("--epsilon", "-2"), ("--epsilon is -2",)),
        (("--epsilon", "nan"), ("--epsilon is nan",)),
        (("--epsilon", "two"), ("'two'", "a number or inf")),
        ((), ("give --epsilon", "--noise-multiplier")),
        (("--epsilon", "2", "--noise-multiplier", "3"), ("exclude each other",)),
        (("--noise-multiplier", "0"), ("--noise-multiplier is 0",)),
        (("--noise-multiplier", "inf"), ("--noise-multiplier is inf",)),
        (("--noise-multiplier", "1e-200"), ("--noise-multiplier is 1e-200", "at least 0.001")),
        (("--noise-multiplier", "1e-4", "--protocol", "paper"), ("at least 0.001",)),
        (("--noise-multiplier", "-1"), ("--noise-multiplier is -1",)),
        (("--epsilon", "2", "--splits", "0"), ("--splits is 0",)),
        (("--epsilon", "2", "--seeds", "0"), ("--seeds is 0",)),
        (("--epsilon", "2", "--epochs", "0"), ("--epochs is 0",)),
        (("--epsilon", "2", "--threads", "0"), ("--threads is 0",)),
        (("--epsilon", "2", "--delta", "0"), ("--delta is 0",)),
        (("--epsilon", "2", "--delta", "1"), ("--delta is 1",)),
        (("--epsilon", "2", "--lr", "0"), ("--lr is 0",)),
        (("--epsilon", "2", "--lr", "nan"), ("--lr is nan",)),
        (("--epsilon", "2", "--optimizer", "adamw"), ("'adamw'", "did you mean 'adam'")),
        (("--epsilon", "2", "--protocol", "papers"), ("'papers'", "did you mean 'paper'")),
        (("--epsilon", "2", "--method", "gnc"), ("'gnc'", "did you mean 'gcn'")),
        (("--epsilon", "2", "--device", "gpu"), ("'gpu'", "auto, cpu, cuda")),
        (("--epsilon", "2", "--dtype", "float16"), ("'float16'",)),
        (("--epsilon", "2", "--visits", "shuffled"), ("'shuffled'",)),
        (("--epsilon", "0.3", "--protocol", "paper"), ("0.3598", "ln(1/delta)/32")),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else None,
)  # fmt: skip
def test_every_wrong_value_of_train_is_named(train, flags, words):
    refused(train(*flags), 2, *words)


@pytest.mark.parametrize("protocol", ["sound", "paper", "released"])
def test_early_stopping_of_a_private_run_is_an_error(train, protocol):
    found = train("--epsilon", "2", "--protocol", protocol, "--early-stopping")
    refused(found, 2, "--early-stopping is for runs without DP")
    given = train("--noise-multiplier", "9", "--protocol", protocol, "--early-stopping")
    refused(given, 2, "--early-stopping is for runs without DP")


def test_more_splits_than_training_nodes_are_an_error(train):
    found = train("--epsilon", "2", "--splits", "901", "--protocol", "sound")
    refused(found, 1, "901 parts asked of 900 training nodes", "fewer splits")


def test_a_delta_that_could_publish_a_node_is_refused_under_sound_and_only_published_otherwise(
    train,
):
    flags = ("--epsilon", "2", "--delta", "0.01", "--json")
    refused(train("--protocol", "sound", *flags), 1, "delta x units = 9", "less than 1")
    found = train("--protocol", "paper", *flags)
    assert found.code == 0
    assert found.json["statement"]["status"] == "published_only"
    assert found.json["statement"]["epsilon_proved"] is None


def test_poisson_visits_are_for_sound_alone(train):
    refused(train("--epsilon", "2", "--protocol", "paper", "--visits", "poisson"), 2, "only sound")


def test_noise_without_a_seed_is_not_drawn_on_a_gpu(train, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    refused(
        train("--epsilon", "2", "--device", "cuda"), 1, "cryptographic", "--device cpu", "--seed"
    )


def test_a_gpu_that_is_not_there_is_named(train, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused(train("--epsilon", "2", "--seed", "0", "--device", "cuda"), 1, "no usable GPU")


@pytest.mark.parametrize("command", ["dataset", "train"])
def test_without_mirror_and_network_one_message_lists_the_files(
    run, tmp_path, monkeypatch, command
):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    started = time.monotonic()
    mirror = ("--mirror", tmp_path / "nowhere", "--data", tmp_path / "raw")
    if command == "dataset":
        found = run("dataset", "cora", *mirror)
    else:
        found = run("train", "--dataset", "cora", "--epsilon", 2, *mirror)
    assert time.monotonic() - started < 25
    refused(found, 1, "ind.cora.allx", "ind.cora.test.index", "https://", "--mirror")
    assert not list((tmp_path / "raw").rglob("ind.*"))


def plan(*flags: str):
    """The plan of ``train`` with flags, without training."""
    from typer.main import get_command

    command = get_command(cli.app).commands["train"]
    context = command.make_context("train", ["--dataset", "cora", *flags])
    return cli._plan(dict(context.params))


def test_defaults_are_those_of_the_paper():
    for optimizer, epochs in (("sgd", 2000), ("adam", 500)):
        found = plan("--optimizer", optimizer, "--epsilon", "2")
        assert (found.epochs, found.delta, found.clip_norm) == (epochs, 1e-5, 1.0)
        assert (found.hidden, found.dropout, found.weight_decay) == (32, 0.5, 0.01)
        assert found.learning_rates == (0.01,) and found.dtype == "float32"
    assert plan("--optimizer", "sgd", "--epsilon", "2").private_learning_rates == (0.01,)
    grid = plan("--optimizer", "adam", "--epsilon", "2").private_learning_rates
    assert grid == (0.01, 0.1, 1, 10, 50, 100)
    assert plan("--epsilon", "2", "--lr", "3").private_learning_rates == (3.0,)
    assert plan("--epsilon", "inf", "--lr", "3").learning_rates == (3.0,)


def test_early_stopping_is_the_default_without_dp_and_can_be_left_out():
    assert plan("--epsilon", "inf").patience == 20
    assert plan("--epsilon", "inf", "--early-stopping").patience == 20
    assert plan("--epsilon", "inf", "--no-early-stopping").patience is None
    assert plan("--epsilon", "2", "--no-early-stopping").patience is None


def test_seeds_count_replicas_from_the_given_seed():
    assert plan("--epsilon", "2").seeds == (0,)
    assert plan("--epsilon", "2", "--seeds", "3").seeds == (0, 1, 2)
    assert plan("--epsilon", "2", "--seeds", "3", "--seed", "7").seeds == (7, 8, 9)


@pytest.mark.parametrize("noise", ["0.001", "0.4", "80", "1e6"])
@pytest.mark.parametrize("protocol", ["sound", "paper", "released"])
@pytest.mark.parametrize("splits", ["1", "10"])
def test_given_noise_is_never_taken_for_a_run_without_dp(protocol, noise, splits):
    found = plan("--protocol", protocol, "--noise-multiplier", noise, "--splits", splits)
    assert found.noise_multiplier == float(noise)
    assert np.isfinite(found.epsilons[0])


@pytest.mark.parametrize("protocol", ["released", "paper", "sound"])
def test_train_prints_json_on_standard_output_and_nothing_else(train, protocol):
    flags = ("--optimizer", "adam", "--splits", "3", "--seeds", "2", "--lr", "1", "--json")
    found = train("--protocol", protocol, "--epsilon", "2", *flags)
    assert found.code == 0 and "2 runs of at most 3 epochs" in found.err
    result = found.json
    assert {"scores", "epochs", "seconds_per_epoch", "statement"} <= set(result)
    assert result["epochs"] == 3
    fresh = result["statement"]["noise_source"] == "os_entropy"
    assert (result["seconds_per_epoch"] is None) == fresh, "times of fresh noise are secret"
    assert [row["seed"] for row in result["scores"]] == [0, 1]
    for row in result["scores"]:
        assert 0 <= row["test_micro_f1"] <= 1 and 0 <= row["validation_micro_f1"] <= 1
    statement = PrivacyStatement.model_validate(result["statement"])
    secret = protocol == "sound"  # which draws secret noise unless a seed is given
    assert statement.noise_source == ("os_entropy" if secret else "seeded")
    assert any("secret seed" in each for each in statement.assumptions) != secret


@pytest.mark.parametrize("epsilon", ["2", "inf"])
def test_train_prints_scores_and_statement_for_people(train, epsilon):
    found = train("--epsilon", epsilon, "--seeds", "2", "--lr", "0.1")
    assert found.code == 0
    assert "seed 0: test micro-F1 0." in found.out and "mean 0." in found.out
    assert ("not private" in found.out) == (epsilon == "inf")
    assert "epoch/s" not in found.out  # the progress bar is on standard error


def test_out_holds_the_files_of_the_run(train, tmp_path):
    flags = ("--epsilon", "2", "--seed", "3", "--seeds", "2", "--lr", "1", "--json")
    found = train(*flags, "--out", tmp_path / "deep" / "out")
    folder = tmp_path / "deep" / "out"
    names = sorted(path.name for path in folder.iterdir())
    files = ["predictions.safetensors", "runs.parquet", "statement.json"]
    assert names == ["manifest.json", *files]
    runs = pd.read_parquet(folder / "runs.parquet")
    scores = [row["test_micro_f1"] for row in found.json["scores"]]
    assert runs["test_micro_f1"].tolist() == scores and runs["seed"].tolist() == [3, 4]
    stored = json.loads((folder / "statement.json").read_text())
    assert stored == {found.json["statement"]["statement_id"]: found.json["statement"]}
    predictions = safetensors.numpy.load_file(folder / "predictions.safetensors")
    assert predictions["predictions"].shape == (2, len(predictions["test_nodes"]))


def test_explain_says_what_a_finished_run_promises(run, train, tmp_path):
    found = train("--epsilon", "2", "--seeds", "2", "--json", "--out", tmp_path)
    identifier = found.json["statement"]["statement_id"]
    told = run("explain", tmp_path)
    assert told.code == 0 and told.err == ""
    assert told.out.startswith(f"Statement {identifier} (proved): 2 runs of gcn (adam, the full")
    assert "12 runs were made; all of them together keep" in " ".join(told.out.split())
    assert all(len(line) <= 88 for line in told.out.splitlines()[1:])
    [parts] = run("explain", tmp_path, "--json").json
    assert parts["statement_id"] == identifier and parts["epsilon"] <= 2
    assert parts["belief_at_most"] == pytest.approx(0.881, abs=1e-3)
    (tmp_path / "alone.json").write_bytes((tmp_path / "statement.json").read_bytes())
    [alone] = run("explain", tmp_path / "alone.json", "--statement", identifier, "--json").json
    assert alone == {**parts, "belongs_to": ""}
    refused(run("explain", tmp_path, "--statement", f"{identifier[:-1]}x"), 1, "did you mean")
    refused(run("explain", tmp_path / "nowhere"), 1, "nowhere", "statement.json", "--out DIR")
    changed = (tmp_path / "alone.json").read_text().replace('"delta": 1e-05', '"delta": 1e-06')
    (tmp_path / "alone.json").write_text(changed)
    refused(run("explain", tmp_path / "alone.json"), 1, "changed after it was written")


def test_the_privacy_notes_show_what_explain_prints(run, train, tmp_path, root):
    train("--epsilon", "2", "--lr", "1", "--seeds", "1", "--out", tmp_path)
    text = run("explain", tmp_path).out.split("\n", 1)[1]
    notes = (root / "docs" / "privacy.md").read_text(encoding="utf-8")
    assert text in notes, f"put this into docs/privacy.md, section 11:\n{text}"


def test_explain_tells_each_budget_of_a_cell_apart(run, train, tmp_path):
    train("--epsilon", "2", "--lr", "1", "--out", tmp_path / "two")
    train("--epsilon", "inf", "--out", tmp_path / "none")
    tables = [pd.read_parquet(tmp_path / name / "runs.parquet") for name in ("two", "none")]
    both = tmp_path / "both"
    both.mkdir()
    pd.concat(tables).to_parquet(both / "runs.parquet")
    statements = [
        json.loads((tmp_path / n / "statement.json").read_text()) for n in ("two", "none")
    ]
    (both / "statement.json").write_text(json.dumps(statements[0] | statements[1]))
    private, plain = run("explain", both, "--json").json
    assert private["status"] == "proved" and "epsilon 2" in private["belongs_to"]
    assert plain["status"] == "not_private" and "without DP" in plain["belongs_to"]
    assert run("explain", both).out.count("Statement ") == 2


def test_a_folder_that_cannot_be_written_is_an_error_with_a_message(train, tmp_path):
    (tmp_path / "file").write_text("in the way")
    found = train("--epsilon", "2", "--lr", "1", "--out", tmp_path / "file" / "out")
    refused(found, 1, "--out is", "cannot be made or written")
    assert "training" not in found.err  # it is said before the training, not after


@pytest.mark.parametrize("protocol", ["paper", "sound"])
def test_a_seed_makes_a_run_repeatable_to_the_last_bit(train, tmp_path, protocol):
    flags = ("--protocol", protocol, "--epsilon", "2", "--splits", "3", "--lr", "1", "--json")
    contents = []
    for number in range(2):
        out = tmp_path / str(number)
        found = train(*flags, "--seed", "5", "--out", out)
        assert found.json["statement"]["noise_source"] == "seeded"
        predictions = (out / "predictions.safetensors").read_bytes()
        runs = pd.read_parquet(out / "runs.parquet").drop(columns="seconds")
        contents.append((predictions, runs.to_json(), (out / "statement.json").read_bytes()))
    assert contents[0] == contents[1]


def test_without_a_seed_sound_never_repeats(train, tmp_path):
    losses = []
    for number in range(2):
        out = tmp_path / str(number)
        train("--epsilon", "2", "--lr", "1", "--out", out)
        losses.append(pd.read_parquet(out / "runs.parquet")["validation_loss"].item())
    assert losses[0] != losses[1]


def test_the_installed_command_keeps_its_streams_and_exit_codes_apart(root):
    """The one test in a process of its own: exit codes as a shell sees them."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    code = "from private_graphs.cli import main; main()"

    def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *arguments], env=environment, text=True,
            capture_output=True,
        )  # fmt: skip

    flags = ("--steps", "2000", "--accountant", "gdp")
    done = shell("epsilon", "--noise-multiplier", "112", *flags)
    assert (done.returncode, done.stderr) == (0, "") and json.loads(done.stdout)["epsilon"] > 1
    done = shell("noise", "--epsilon", "0", *flags)
    assert (done.returncode, done.stdout) == (2, "") and "Traceback" not in done.stderr
    assert shell("--help").returncode == 0
