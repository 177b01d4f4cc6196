"""What is printed as proved was replayed: by a recorded replay, or before the first row."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from private_graphs import methods
from private_graphs.attacks import replay_cover
from private_graphs.attacks.replay_cover import REPLAYS, missing_replay
from private_graphs.attacks.small_data import small_dataset
from private_graphs.attacks.small_jobs import small_job
from private_graphs.core.errors import UserError
from private_graphs.core.imports import code_fingerprint, import_closure
from private_graphs.methods import method_named
from private_graphs.privacy.statement_checks import with_replay
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.report.statement import headline, reason
from private_graphs.report.words import NOT_REPLAYED_NOTE, guarantee, privacy_notes
from private_graphs.running.run import execute

ROOT = Path(__file__).resolve().parents[2]


def shown(name: str) -> str:
    """The content of a file as docs/extending.md shows it."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    return dict(re.findall(r"`[\w/.]+/([\w.]+)`:\n\n```\w+\n(.*?)```", page, re.DOTALL))[name]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install the method of the page as a package with an entry point, with a word changed."""

    def install(old: str = "", new: str = "") -> Path:
        text = shown("noisy_steps.py")
        assert old in text
        package = tmp_path / "made_up_package"
        package.mkdir()
        (package / "__init__.py").write_text('"""A package of somebody."""\n')
        (package / "noisy_steps.py").write_text(text.replace(old, new))
        about = tmp_path / "made_up_package-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(
            "[private_graphs.methods]\nnoisy_steps = made_up_package.noisy_steps\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        return package

    for_all = (methods._modules, methods.all_methods, replay_cover._replayed)
    for cached in for_all:
        cached.cache_clear()
    yield install
    for cached in for_all:
        cached.cache_clear()
    for name in [name for name in sys.modules if name.startswith("made_up_package")]:
        del sys.modules[name]


def job_of(name: str, **changes):
    return small_job(method_named(name), "text", "sound", epsilons=(1.0,), seeds=(0,), **changes)


def test_a_method_of_an_installed_package_is_found_replayed_and_proved(installed):
    package = installed()
    job = job_of("noisy_steps")
    found = execute(job, small_dataset(method_named("noisy_steps")), missing_replay=missing_replay)
    assert set(found.rows["status"]) == {"proved_if_seed_secret"}
    assert "not_replayed" not in next(iter(found.statements.values()))
    module = methods.module_of("noisy_steps")
    assert {package / "noisy_steps.py", package / "__init__.py"} <= set(import_closure(module))
    assert any(path.name == "dpsgd.py" for path in import_closure(module)), "what it imports of us"
    before = code_fingerprint(module)
    (package / "__init__.py").write_text('"""An edit."""\n')
    assert code_fingerprint(module) != before


def test_a_divisor_that_counts_labels_is_refused_before_the_first_row(installed):
    installed("/ task.n_units *", "/ len(labels) *")
    with pytest.raises(UserError, match=r"weights after step 0; no row is written") as caught:
        execute(
            job_of("noisy_steps"),
            small_dataset(method_named("noisy_steps")),
            missing_replay=missing_replay,
        )
    assert "--method noisy_steps" in str(caught.value)


def test_a_method_that_no_small_job_can_run_is_proved_and_not_replayed(installed):
    installed("    descent.check_clip", """    assert settings.steps == 3, "texts"
    descent.check_clip""")  # fmt: skip
    job = job_of("noisy_steps", changed={"steps": 3})
    found = execute(job, small_dataset(method_named("noisy_steps")), missing_replay=missing_replay)
    assert set(found.rows["status"]) == {"proved_not_replayed"}
    document = next(iter(found.statements.values()))
    assert document["not_replayed"].endswith("AssertionError: texts")
    statement = PrivacyStatement.model_validate(document)
    assert headline(statement).text.startswith("Proved, not replayed, if the seed")
    assert "AssertionError" in reason(statement)
    point = {**found.rows.iloc[0], "vacuous": False}
    assert ", not replayed" in guarantee(point).text
    assert NOT_REPLAYED_NOTE in privacy_notes(found.rows)
    with pytest.raises(ValueError, match="was changed after it was written"):
        PrivacyStatement.model_validate(document | {"not_replayed": ""})


def test_settings_of_recorded_rows_need_no_replay_and_others_do(monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(replay_cover, "_replayed", lambda *case: asked.append(case[-1]) or "why")
    for entry in json.loads(REPLAYS.read_text()):
        method = method_named(entry["method"])
        job = small_job(method, entry["scenario"], entry["protocol"], changed=entry["settings"])
        settings = method.settings.model_validate(dict(job.settings)).model_dump(mode="json")
        assert missing_replay(job, [settings]) == "" and not asked, entry
    job = small_job(method_named("gcn"), "nodes", "sound", changed={"dropout": 0.25})
    assert missing_replay(job, [{"dropout": 0.25}]) == "why" and asked == ['{"dropout": 0.25}']
    assert missing_replay(small_job(method_named("public_only"), "text", "sound"), [{}]) == ""


def test_a_statement_without_a_proof_says_nothing_of_replays(installed):
    installed()
    job = job_of("noisy_steps").model_copy(update={"epsilons": (float("inf"),)})
    found = execute(job, small_dataset(method_named("noisy_steps")))
    plain = PrivacyStatement.model_validate(next(iter(found.statements.values())))
    assert with_replay(plain, "why") is plain
