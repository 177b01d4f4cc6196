"""The command line: accounting, streams, exit codes."""

from __future__ import annotations

import inspect
import json
import os
import re
import resource
import subprocess
import sys
import threading
from unittest.mock import Mock

import pytest
from command_line import refused
from typer.main import get_command

import private_graphs
from private_graphs import cli
from private_graphs.cli.signatures import command_of
from private_graphs.cli.terminal import ProgressBar

ACCOUNT = ("--steps", 2000, "--delta", 1e-5)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--accountant", "moments", "--noise-multiplier", 112), 1.995762),
        (("--accountant", "cancelling", "--noise-multiplier", 218), -0.58468),
        (("--accountant", "gdp", "--noise-multiplier", 112, "--relation", "zero_out"), 1.55196),
        (("--accountant", "gdp", "--noise-multiplier", 112, "--relation", "replace"), 3.38015),
        (("--accountant", "pld", "--noise-multiplier", 112, "--relation", "replace"), 3.38015),
    ],
)
def test_epsilon_prints_the_known_values(run, flags, expected):
    found = run("epsilon", *ACCOUNT, *flags)
    assert found.code == 0 and found.err == ""
    assert found.json["epsilon"] == pytest.approx(expected, abs=2e-4)


def test_a_paragraph_has_the_numbers_that_epsilon_prints_rounded_up(run):
    flags = ("--noise-multiplier", 2, "--epochs", 5, "--batch-size", 50, "--n", 1000)
    words, found = run("epsilon", *flags, "--paragraph").out, run("epsilon", *flags).json
    five = run("epsilon", *flags, "--group", 5).json
    one = run("epsilon", *flags, "--relation", "add_remove").json
    assert found["epsilon_add_remove"] == one["epsilon"] < found["epsilon"] < five["epsilon"]
    printed = [float(number) for number in re.findall(r"epsilon (?:is )?(\d+\.\d\d)", words)]
    values = (found["epsilon"], five["epsilon"], found["if_shuffled"])
    for value, shown in zip(values, printed, strict=True):
        assert value <= shown < value + 0.01
    assert f"and {printed[0]:.2f}" not in words and "100 steps" in words
    assert run("epsilon", *flags, "--paragraph", "--group", 5).code == 2


def test_noise_takes_the_numbers_that_papers_print(run):
    flags = ("--epochs", 5, "--batch-size", 50, "--n", 1000)
    found = run("noise", "--epsilon", 2, *flags).json
    assert (found["steps"], found["sampling_rate"]) == (100, 0.05)
    same = run("noise", "--epsilon", 2, "--steps", 100, "--sampling-rate", 0.05).json
    assert same["noise_multiplier"] == found["noise_multiplier"]
    spent = run("epsilon", "--noise-multiplier", found["noise_multiplier"], *flags).json
    assert 1.95 < spent["epsilon"] <= 2
    refused(run("noise", "--epsilon", 2, "--epochs", 5), 2, "belong together")
    assert run("noise", "--epsilon", 2).code == 2


@pytest.mark.parametrize("command", ["epsilon", "noise"])
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ("--accountant", "gdp", "--sampling-rate", 0.1, "--relation", "add_remove"),
            ("sampling rate 1", "pld or moments"),
        ),
        (("--accountant", "cancelling", "--relation", "replace"), ("add_remove only",)),
        (("--accountant", "moments", "--relation", "replace"), ("use the accountant gdp or pld",)),
        (("--accountant", "momentz"), ("'momentz'", "did you mean 'moments'")),
        (("--relation", "replaced"), ("'replaced'", "did you mean 'replace'")),
        (("--sampling-rate", 1.5), ("1.5",)),
        (("--delta", 1), ("delta",)),
    ],
)
def test_combinations_without_an_answer_name_the_accountant_to_use(run, command, flags, words):
    wanted = "--noise-multiplier" if command == "epsilon" else "--epsilon"
    refused(run(command, wanted, 2, "--steps", 10, *flags), 2, *words)


@pytest.mark.parametrize(
    ("words", "verb"),
    [*((name, name) for name in ("declare", "classify", "predict", "explain", "attack")),
     ("ledger show", "ledger"), ("ledger plan", "plan_releases"), ("ledger add", "add_spending")],
)  # fmt: skip
def test_a_verb_has_the_same_parameters_in_the_shell_and_in_python(words, verb):
    command = get_command(cli.application())
    for word in words.split():
        command = command.commands[word]
    function = getattr(private_graphs, verb)
    of_python = dict(inspect.signature(function).parameters)
    for name in of_python.keys() & {"say", "progress", "command"}:
        del of_python[name]
    in_shell = {each.name: each for each in command.params}
    assert list(in_shell) == [*of_python, "as_json"]
    for name, parameter in of_python.items():
        if not in_shell[name].required:
            assert in_shell[name].default == (parameter.default or in_shell[name].default), name


def documented(letters: str, *, bound: float | None = None, sure: bool = False, more: str = "ε"):
    """Say it of ``bound``.

    Args:
        letters (path or DataFrame): table.
        bound (float): ε of ``letters``; unlike ``sure``, which ``classify`` has not.
        sure (bool): no question.
        more (A|B): sum: of both.

    Returns:
        None: letters (str): nothing.
    """


def test_words_of_a_docstring_are_those_of_the_terminal():
    command = command_of(documented)
    options = {name: each.annotation.__metadata__[0]
               for name, each in inspect.signature(command).parameters.items()}  # fmt: skip
    assert command.__doc__ == "Say it of --bound."
    assert [each.help for each in options.values()] == [
        "Table.", "Epsilon of 'letters'; unlike --sure, which 'classify' has not.", "No question.",
        "sum: of both.",
    ]  # fmt: skip
    assert [getattr(each, "metavar", None) for each in options.values()] == [None] * 3 + ["A|B"]


def test_every_parameter_of_every_command_has_words():
    commands = [*get_command(cli.application()).commands.values()]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
        silent = [each.name for each in command.params if not each.help]
        assert not silent, f"{command.name}: {silent}"


def test_unknown_flags_and_commands_are_wrong_usage(run):
    refused(run("train", "--dataset", "cora", "--epsilon", "2", "--split", "10"), 2, "--split")
    refused(run("trian"), 2, "trian")


@pytest.mark.parametrize("command", [("dataset",), ("train", "--epsilon", 2, "--dataset")])
def test_an_unknown_dataset_lists_the_others_and_suggests_the_nearest(run, tmp_path, command):
    answer = run(*command, "coar", "--data", tmp_path)
    refused(answer, 2, "'coar'", "citeseer", "did you mean 'cora'?")


def test_the_shell_completes_commands(root):
    """Completion gives no argument, and needs every command."""
    asked = {"_PRIVATE_GRAPHS_COMPLETE": "complete_bash", "COMP_WORDS": "private-graphs tr",
             "COMP_CWORD": "1"}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "private_graphs"], capture_output=True, text=True,
        env={**os.environ, **asked, "PYTHONPATH": str(root / "src")},
    )  # fmt: skip
    assert done.stdout.split() == ["train"], done.stderr


def test_the_installed_command_keeps_its_streams_and_exit_codes_apart(root):
    """The one test in processes of its own: exit codes as a shell sees them."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    code = (
        "import sys; from private_graphs.cli import main\n"
        "late = {'numba', 'scipy', 'pandas', 'torch', 'requests'} & set(sys.modules)\n"
        "assert not late, f'imported before any command: {late}'; main()"
    )

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


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(13, "Permission denied", "data/own"), ("data/own", "Permission denied")),
        (OSError(28, "No space left on device"), ("No space left", "room")),
        (MemoryError("Unable to allocate 9 TiB"), ("not enough memory", "9 TiB")),
    ],
)
def test_what_the_machine_refuses_is_one_line(run, monkeypatch, error, words):
    def fails(*_):
        raise error

    monkeypatch.setattr("private_graphs.privacy.composition.epsilon_for", fails)
    refused(run("epsilon", "--noise-multiplier", 1, "--steps", 1), 1, *words)


def test_a_shell_that_allows_too_little_is_refused_before_libraries_abort(run, monkeypatch):
    command = ("epsilon", "--noise-multiplier", 1, "--steps", 1)
    for kind, bound, words in (
        (resource.RLIMIT_AS, 480 * 2**20, "memory in MB (ulimit -v): this shell allows 480; "),
        (resource.RLIMIT_NOFILE, 6, "open files (ulimit -n): this shell allows 6; "),
    ):
        limits = {resource.RLIMIT_AS: -1, resource.RLIMIT_NOFILE: 1024, kind: bound}
        with monkeypatch.context() as patched:
            patched.setattr(resource, "getrlimit", lambda each, limits=limits: (limits[each], 0))
            refused(run(*command), 1, f"not enough {words}expected at least")
            assert run("--version").code == 0
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("no thread")))
        refused(run(*command), 1, "no further thread may start", "ulimit -u")
    assert run(*command).code == 0


@pytest.mark.parametrize(("timed", "lines"), [(True, ["work: 50 %", "work: 100 %"]), (False, [])])
def test_long_work_says_off_a_terminal_how_far_it_is_unless_its_time_is_secret(
    timed, lines, monkeypatch, capsys
):
    monkeypatch.setattr(ProgressBar, "SECONDS", 0)
    with ProgressBar("work", "step", timed=timed) as progress:
        progress(1, 2)
        progress(2, 2)
    assert capsys.readouterr().err.splitlines() == lines
