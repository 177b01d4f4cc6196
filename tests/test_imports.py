"""The import closure decides what a change of code reruns."""

from __future__ import annotations

from pathlib import Path

import pytest

from private_graphs.core.imports import (
    PACKAGE,
    code_fingerprint,
    code_state,
    import_closure,
    package_data,
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package ``demo`` with nested, relative and lazy imports."""
    files = {
        "demo/__init__.py": "", "demo/first.py": "from demo.inner import second\n",
        "demo/lonely.py": "", "demo/lazy.py": "def work():\n    from .inner.third import x\n",
        "demo/inner/__init__.py": "",
        "demo/inner/second.py": "from . import fourth\nfrom ..lazy import work\n",
        "demo/inner/third.py": "import numpy\nimport demo.first\nx = 1\n",
        "demo/inner/fourth.py": "", "demo/inner/templates/page.html": "<p>",
        "demo/inner/__pycache__/kernels.nbc": "", "demo/plain/fifth.py": "import demo.lonely\n",
        "demo/plain/page.css": "", "scripts/work.py": "import helper\n",
        "scripts/helper.py": "import demo.inner.fourth\n",
        "scripts/other.py": "import demo.lonely\n",
    }  # fmt: skip
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "demo"


def names(paths: list[Path], package: Path) -> set[str]:
    return {path.relative_to(package.parent).as_posix() for path in paths}


def test_closure_follows_submodules_relative_lazy_and_circular_imports(package: Path) -> None:
    found = names(import_closure("demo.first", package), package)
    assert found == {
        "demo/__init__.py", "demo/first.py", "demo/lazy.py", "demo/inner/__init__.py",
        "demo/inner/second.py", "demo/inner/third.py", "demo/inner/fourth.py",
    }  # fmt: skip


def test_closure_of_a_script_has_the_modules_beside_it_but_not_the_script(package: Path) -> None:
    found = names(import_closure(package.parent / "scripts" / "work.py", package), package)
    assert found == {
        "scripts/helper.py", "demo/__init__.py", "demo/inner/__init__.py", "demo/inner/fourth.py",
    }  # fmt: skip


def test_modules_of_a_folder_without_init_are_reached_too(package: Path) -> None:
    found = names(import_closure("demo.plain.fifth", package), package)
    assert found == {"demo/__init__.py", "demo/plain/fifth.py", "demo/lonely.py"}


def test_templates_of_a_reached_subpackage_belong_to_its_data(package: Path) -> None:
    closure = import_closure("demo.first", package)
    assert names(package_data(closure, package), package) == {"demo/inner/templates/page.html"}
    closure = import_closure("demo.plain.fifth", package)
    assert names(package_data(closure, package), package) == {"demo/plain/page.css"}
    assert package_data(import_closure("demo.lonely", package), package) == []


def test_fingerprint_changes_with_code_inside_the_closure_only(package: Path) -> None:
    before = code_fingerprint("demo.inner.fourth", package=package)
    assert len(before) == 16
    (package / "lonely.py").write_text("x = 2\n")
    assert code_fingerprint("demo.inner.fourth", package=package) == before
    (package / "inner" / "fourth.py").write_text("x = 2\n")
    assert code_fingerprint("demo.inner.fourth", package=package) != before


def test_the_state_of_code_does_not_depend_on_where_a_script_lies(tmp_path: Path) -> None:
    """A script's neighbours are named as such: a project that is moved does not run again."""
    states = []
    for folder in ("a", "z"):
        place = tmp_path / folder
        place.mkdir()
        (place / "job.py").write_text("import private_graphs.core.files\n")
        (place / "run.py").write_text("from job import files\n")
        states.append(code_state(place / "run.py"))
    (place / "job.py").write_text("import private_graphs.core.errors\n")
    code_state.cache_clear()
    assert states[0] == states[1] != code_state(place / "run.py")


def test_attacks_are_no_part_of_what_runs_reach() -> None:
    scripts = PACKAGE.parents[1] / "workflow" / "scripts"
    for name in ("run", "features"):
        reached = import_closure(scripts / f"{name}.py")
        assert not [path for path in reached if path.parent.name == "attacks"], name


@pytest.mark.parametrize("text", [
    "import demo.lonely", "x = 1; import demo.lonely", "if True: from demo import lonely",
    "from demo import (  # one (of many)\n    lonely,\n)", "from demo import \\\n    lonely",
    "try:\n\timport os, demo.lonely as other  # why\nexcept ImportError: pass",
    "match 1:\n    case 1:\n        from demo import (\n            lonely,\n        )",
    '"""Who writes\nimport this and that\nmeans it."""\nimport demo.lonely',
    "def f():\n    from .. import lonely",
])  # fmt: skip
def test_an_import_is_seen_in_whatever_form_it_is_written(package: Path, text: str) -> None:
    (package / "plain" / "form.py").write_text(text + "\n")
    expected = {"demo/__init__.py", "demo/lonely.py", "demo/plain/form.py"}
    assert names(import_closure("demo.plain.form", package), package) == expected
