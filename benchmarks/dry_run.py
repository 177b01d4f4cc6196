"""How long ``snakemake --dry-run`` takes with thousands of jobs, parsing included.

    python benchmarks/dry_run.py [--jobs 5040] [--page docs/cluster.md]

A copy of the project gets a Table 1 of Cora with as many shares of the training data as the number
of jobs needs. Both clocks count, of the best of three starts; ``--page`` writes the sentence
between the markers of a page.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from private_graphs.core.files import write_text
from private_graphs.site.record import machine_words

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("Snakefile", "config.yaml", "workflow", "profiles", "envs", "src")
A_SHARE = 12
"""Jobs of Table 1 on one graph: two optimizers, three protocols, full graph and ten splits."""
STARTS = 3


def plan_of(folder: Path, jobs: int) -> None:
    """Copy the project into ``folder``, with a Table 1 of so many jobs on one graph."""
    for part in PARTS:
        copy = _tree if (ROOT / part).is_dir() else shutil.copy2
        copy(ROOT / part, folder / part)
    (folder / "data").mkdir()
    shutil.copy2(ROOT / "data" / "sources.yaml", folder / "data")
    path = folder / "src/private_graphs/studies/lrec2022/study.yaml"
    study = yaml.safe_load(path.read_text(encoding="utf-8"))
    shares = [round((i + 1) * A_SHARE / jobs, 6) for i in range(jobs // A_SHARE)]
    for line in study["groups"]["table1"]["jobs"]:
        line["vary"]["train_fraction"] = shares
    path.write_text(yaml.safe_dump(study, sort_keys=False), encoding="utf-8")


def _tree(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", ".snakemake"))


def measured(folder: Path) -> tuple[int, float, float]:
    """Return jobs, seconds of the clock and of the processor of one dry run."""
    asked = ["--config", "scale=full", "exhibits=lrec2022.table1", "datasets=cora"]
    program = [sys.executable, "-m", "snakemake", "--dry-run", "--quiet", "rules", "--cores", "2"]
    env = {**os.environ, "PYTHONPATH": str(folder / "src")}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([*program, *asked], cwd=folder, env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    planned = re.search(r"To run: ([\d,]+) jobs", done.stdout)
    if done.returncode or planned is None:
        raise SystemExit(f"the dry run failed:\n{done.stdout[-2000:]}")
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return int(planned[1].replace(",", "")), wall, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5040, help="multiple of 12")
    parser.add_argument("--page", type=Path, help="page with markers dry-run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plan_of(Path(folder), options.jobs)
        runs = [measured(Path(folder)) for _ in range(STARTS)]
    jobs, wall, cpu = runs[0][0], min(run[1] for run in runs), min(run[2] for run in runs)
    text = (
        f"`snakemake --dry-run` of {jobs:,} jobs: {wall:.1f} s by the clock, {cpu:.1f} s of the "
        f"processor, parsing included, the best of {STARTS} starts ({machine_words()}). "
        "Command: `python benchmarks/dry_run.py`."
    )
    print(text)
    if options.page:
        page = options.page.read_text(encoding="utf-8")
        mark = r"(<!-- begin: dry-run -->\n).*?(<!-- end: dry-run -->)"
        write_text(options.page, re.sub(mark, lambda m: f"{m[1]}{text}\n{m[2]}", page, flags=re.S))


if __name__ == "__main__":
    main()
