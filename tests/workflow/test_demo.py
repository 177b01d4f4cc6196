"""The whole demo, computed anew, against the golden rows and predictions (``make test-all``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import STUDY, UNREACHABLE, copy_of

SETTINGS = {"OPENBLAS_CORETYPE": "Haswell", "NUMBA_CPU_NAME": "generic"}
"""With which the golden results were made: every machine then computes the same bits."""


def test_the_demo_has_the_golden_rows_and_predictions(
    request, root: Path, tmp_path: Path, monkeypatch
) -> None:
    if not request.config.getoption("--demo"):
        pytest.skip("takes half an hour: make test-all")
    project = copy_of(root, tmp_path / "demo")
    asked = ("exhibits", "--cores", "all", "--config", f"studies={STUDY}")
    run = project.snakemake(*asked, limit=None, **SETTINGS, **UNREACHABLE)
    assert run.returncode == 0, run.stdout
    monkeypatch.syspath_prepend(root / "tests" / "report")
    from golden import differences

    assert differences(project.demo) == []
