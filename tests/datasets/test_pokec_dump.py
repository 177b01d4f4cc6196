"""The benchmark of reading Pokec in its smallest form; nothing here judges speed."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys

import pytest


def test_the_benchmark_writes_a_dump_once_and_measures_every_view(root, tmp_path):
    command = [sys.executable, str(root / "benchmarks" / "pokec.py"), "--scale", "0.002"]
    folder, page = tmp_path / "dump", tmp_path / "pokec.json"
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--folder", str(folder), "--json", str(page)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert "dump written" in done.stderr and "malformed" not in done.stderr
    measured = json.loads(page.read_text())["views"]
    assert [each["view"] for each in measured] == ["released", "paper", "sound"]
    for each in measured:
        assert each["nodes"] == 40 and each["edges"] > 0 and 0 < each["peak_mib"] < 3072
        assert each["counts"]["rows"] == 3266 and each["counts"]["edge_rows"] == 61245
        assert sum(each["seconds"].values()) == pytest.approx(each["seconds_in_all"])
    assert done.stdout.count("| paper |") == 1
    with gzip.open(folder / "soc-pokec-profiles.txt.gz", "rt", newline="\n") as stream:
        rows = stream.read().splitlines()
    assert {row.count("\t") for row in rows} == {59} and all(row.endswith("\t") for row in rows)
    assert 700 < sum(map(len, rows)) / len(rows) < 1300
    answers = [row.split("\t")[13] for row in rows]
    assert answers.count("null") / len(answers) == pytest.approx(0.5, abs=0.05)
