"""The pages quote commands with what they print: the quick ones are run again and compared."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from fnmatch import fnmatch
from os.path import normpath
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import private_graphs
from private_graphs.cli import application
from private_graphs.methods import all_methods
from private_graphs.running.study import Run

PAGES = ("docs/studies/lrec2022.md", "docs/privacy.md")
ROW = re.compile(r"\| `private-graphs ((?:epsilon|noise) [^`]+)` \| (-?[\d.]+) \|")
"""A row of a table: a command, and the number that it prints, rounded."""
ROOT = Path(__file__).parents[1]
LINKING = (
    "README.md",
    "CONTRIBUTING.md",
    "config/README.md",
    *(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md")),
)


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def block_of(page: str, command: str) -> list[str]:
    """Return the lines that a page shows below ``$ command``."""
    found = re.search(rf"```\n\$ {re.escape(command)}\n(.*?)```", text_of(page), flags=re.DOTALL)
    assert found, f"{page} does not show what {command} prints"
    return found.group(1).splitlines()


def anchor(heading: str) -> str:
    """Return what GitHub makes of a heading for links to it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


QUOTED = [(page, *found) for page in PAGES for found in ROW.findall(text_of(page))]


def test_the_page_quotes_a_command_for_each_claim_about_numbers():
    assert len([page for page, *_ in QUOTED if page == PAGES[0]]) >= 20


@pytest.mark.parametrize(("page", "command", "printed"), QUOTED)
def test_a_quoted_command_prints_the_number_beside_it(page, command, printed):
    answer = CliRunner().invoke(application(), shlex.split(command))
    assert answer.exit_code == 0, answer.output
    value = next(iter(json.loads(answer.stdout).values()))
    _, _, decimals = printed.partition(".")
    assert f"{value:.{len(decimals)}f}" == printed


def rules_of_the_makefile() -> dict[str, list[str]]:
    """Return target → what it depends on."""
    found = re.findall(r"^([\w-]+):(?!=)(.*)$", text_of("Makefile"), re.MULTILINE)
    return {name: needed.split() for name, needed in found}


def test_the_first_screen_has_a_command_for_the_results_and_one_for_the_tests_with_their_times():
    screen = text_of("README.md").partition("\n## ")[0]
    assert screen.count("\n") <= 40
    commands = re.findall(r"^(make [\w-]+) +# (.+)$", screen, re.MULTILINE)
    assert [command for command, _ in commands] == ["make reproduce", "make test"]
    rules = rules_of_the_makefile()
    for command, words in commands:
        assert re.search(r"install.*: about \d+ minutes$", words), words
        assert "install" in rules[command.removeprefix("make ")], f"{command} does no set-up"
    assert re.search(r"^exec make test\b", text_of(".ci/run"), re.MULTILINE)


def test_the_catalog_page_names_every_key_of_the_configuration():
    keys = re.findall(r"`(\w+)`", text_of("config/README.md").partition("The keys are")[2])
    assert keys[: len(Run.model_fields)] == list(Run.model_fields)


def test_the_page_says_of_every_method_what_its_choices_read():
    choices = pd.read_csv(ROOT / "docs" / "choices.csv")
    named = re.findall(r"[a-z_*]+", " ".join(choices["method"]))
    for name in all_methods():
        assert any(fnmatch(name, each) for each in named), f"{name}: what do its choices read?"


def test_the_audit_that_refutes_the_released_code_prints_what_the_page_shows():
    command = "audit --protocol released --epsilon 2 --runs 1000 --seed 0"
    answer = CliRunner().invoke(application(), command.split())
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.splitlines() == block_of(PAGES[0], f"private-graphs {command}")


def test_links_between_the_pages_point_to_files_and_headings():
    for page in LINKING:
        for target, heading in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", text_of(page)):
            if target.startswith("http"):
                continue
            file = (ROOT / page).parent / target if target else ROOT / page
            if (ROOT / "results") in Path(normpath(file)).parents:
                continue  # a page of results: test_docs_site.py
            assert file.exists(), f"{page}: {target}"
            if heading:
                headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
                assert heading in map(anchor, headings), f"{page}: {target}#{heading}"


def test_every_proof_names_the_code_and_the_test_of_each_statement():
    """test_generated.py holds their lines."""
    parts = re.split(r"^## (\d+)\. ", text_of("docs/privacy.md"), flags=re.MULTILINE)
    proofs = {int(number): text for number, text in zip(parts[1::2], parts[2::2], strict=True)}
    others = {4, 12, 13}  # the authors' code, the pattern of all proofs, what broke
    for number in proofs.keys() - others:
        tables = proofs[number].split("| statement | function | test |\n| --- | --- | --- |\n")[1:]
        lines = [line for table in tables for line in table.partition("\n\n")[0].splitlines()]
        named = [re.findall(r"`(src|tests)/[\w/]+\.py:\d+` `[\w.]+`", line) for line in lines]
        assert len(lines) >= 2 and all(each == ["src", "tests"] for each in named), number


@pytest.mark.parametrize("name", [name for name in private_graphs.__all__ if name[0] != "_"])
def test_every_verb_says_its_parameters_with_types_and_shows_an_example(name):
    verb = getattr(private_graphs, name)
    text = inspect.getdoc(verb)
    assert "\nReturns:\n" in text and "\nExample:\n    >>> " in text
    said = re.findall(r"^    ([\w, ]+) \([^)]+\): ", text.partition("\nArgs:\n")[2], re.MULTILINE)
    assert ", ".join(said).split(", ") == list(inspect.signature(verb).parameters)


def test_the_help_of_classify_fits_on_one_screen():
    answer = CliRunner().invoke(application(), ["classify", "--help"], terminal_width=72)
    assert len(answer.stdout.splitlines()) <= 50


AUDITED = "docs/audit-your-training.md"
NUMBER = re.compile(r"\d+\.\d+")


@pytest.mark.parametrize(("name", "code"), [("train", 0), ("train_best", 1)])
def test_the_audit_of_ones_own_training_prints_what_the_page_shows(name, code, monkeypatch):
    """Words are equal; numbers are those of another processor within 5 %."""
    monkeypatch.chdir(ROOT)
    file = "examples/audit_training/train.py"
    command = f"audit --script {file}:{name} --data {file}:data"
    answer = CliRunner().invoke(application(), command.split())
    assert answer.exit_code == code, answer.output
    shown = "\n".join(block_of(AUDITED, f"private-graphs {command}"))
    assert NUMBER.sub("#", answer.stdout.strip()) == NUMBER.sub("#", shown)
    numbers = [[float(number) for number in NUMBER.findall(text)]
               for text in (answer.stdout, shown)]  # fmt: skip
    assert numbers[0] == pytest.approx(numbers[1], rel=0.05)


def test_the_page_lists_every_planted_mistake_with_its_verdict():
    from attacks.test_training_replay import EPSILONS, LEAKS

    rows = re.findall(
        r"^\| .* \| (LEAKS|WRONG EPSILON) \| (.*) \|$", text_of(AUDITED), re.MULTILINE
    )
    for verdict, findings in (("LEAKS", LEAKS), ("WRONG EPSILON", EPSILONS)):
        words = " ".join(shown for name, shown in rows if name == verdict)
        for line in findings.values():
            assert line.partition(":")[0] in words, line
