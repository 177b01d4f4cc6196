"""The whole demo, computed anew, against the golden rows and predictions (``make test-all``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import UNREACHABLE, copy_of


def test_the_demo_has_the_golden_rows_and_predictions(
    request, root: Path, tmp_path: Path, monkeypatch
) -> None:
    """With ``--renew`` the demo becomes the golden one (``make golden``)."""
    renews = request.config.getoption("--renew")
    if not (renews or request.config.getoption("--demo")):
        pytest.skip("takes half an hour: make test-all")
    monkeypatch.syspath_prepend(root / "tests" / "report")
    from golden import SETTINGS, differences, renew

    project = copy_of(root, tmp_path / "demo")
    run = project.snakemake("exhibits", "--cores", "all", limit=None, **SETTINGS, **UNREACHABLE)
    assert run.returncode == 0, run.stdout
    if renews:
        renew(project.demo)
    assert differences(project.demo) == []
