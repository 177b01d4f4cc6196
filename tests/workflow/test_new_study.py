"""The study of docs/extending.md: its files, written down as the page shows them, make a page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from lent_kernels import lend_kernels

PARTS = ("src", "workflow", "profiles", "envs", "data/sources.yaml", "data/embedded", "Snakefile",
         "config.yaml")  # fmt: skip


@pytest.fixture(scope="module")
def project(root: Path, tmp_path_factory) -> Path:
    """A copy of the repository with the files that the page shows; nothing in it is edited."""
    folder = tmp_path_factory.mktemp("extended")
    for part in PARTS:
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (root / part).is_dir() else shutil.copy2
        copy(root / part, folder / part)
    lend_kernels(root / "src", folder / "src")
    page = (root / "docs" / "extending.md").read_text(encoding="utf-8")
    files = re.findall(r"`([\w/.]+)`:\n\n```\w+\n(.*?)```", page, flags=re.DOTALL)
    assert len(files) == 10
    for name, text in files:
        assert not (folder / name).exists()
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.long
def test_a_study_of_three_files_and_a_csv_goes_from_yaml_to_its_page(project: Path) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "snakemake"), "--config", "studies=tiny"],
        cwd=project, env={**os.environ, "PYTHONPATH": str(project / "src")}, text=True, timeout=600,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    results = project / "results" / "demo"
    rows = pd.read_parquet(results / "rows.parquet")
    own = rows[rows["source"] == "own"]
    assert set(own["study"]) == {"tiny"} and len(own) == 3 * (3 + 3)
    private = own[own["epsilon"] == 1]
    assert set(private["status"]) == {"proved_if_seed_secret"}, "both were replayed before they ran"
    assert (private["epsilon_proved"] <= 1).all() and (private["epsilon_proved"] > 0.99).all()
    assert len(rows[rows["source"] == "published"]) == 2 + 1
    text = (results / "exhibits" / "tiny" / "counts.md").read_text(encoding="utf-8")
    assert "noisy majority" in text and "0.25" in text
    text = (results / "exhibits" / "tiny" / "main.md").read_text(encoding="utf-8")
    assert "Synthetic" in text and "noisy steps" in text and text.count("ε 1") == 2, text
    claims = pd.read_csv(results / "claims" / "tiny.csv").set_index("id")
    assert set(claims["protocol"]) == {"sound"} and len(claims) == 2
    plain = own[(own["epsilon"] == float("inf")) & own["settings"].str.contains('"place": 1')]
    other = own[(own["epsilon"] == float("inf")) & own["settings"].str.contains('"place": 2')]
    won = plain["test_accuracy"].mean() > other["test_accuracy"].mean()
    verdicts = claims["verdict"].rename(lambda name: name.split(".")[0])
    assert verdicts["a_quarter"] == "not_asked", (
        "nobody claims it of noise that is made for a proof"
    )
    assert verdicts["first_wins"] == ("holds" if won else "fails")
    assert claims["command"].str.contains("exhibits=tiny.counts datasets=synthetic").all()
    pages = [path.read_text(encoding="utf-8") for path in (project / "results").rglob("*.html")]
    assert any("Accuracy of the noisy majority" in page for page in pages)
    assert "A study of three small files" in (project / "results/index.html").read_text()
