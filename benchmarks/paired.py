"""Speed of two source trees: a finished job of every method, in alternating processes.

    python benchmarks/paired.py OLD NEW --results results/demo --times 5

OLD and NEW are checkouts. Each process runs a job twice, first to load or compile, and reports the
processor time of the second run; a row has the medians of both trees and their ratio. Methods that
one of the trees does not have are named and left out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

ONE_RUN = """
import json, sys, time
from pathlib import Path
from private_graphs.datasets.registry import load_built
try:
    from private_graphs.running.jobs import Job
    from private_graphs.running.run import execute
except ImportError:  # a tree that has them at its top
    from private_graphs.jobs import Job
    from private_graphs.run import execute
for line in sys.stdin:
    text, built = json.loads(line)
    fields = {name: value for name, value in json.loads(text).items()
              if value is not None or name in Job.model_fields}
    try:
        job, dataset = Job.model_validate(fields), load_built(Path(built))
        execute(job, dataset)
    except Exception as error:  # a method or setting that this tree does not have
        print(type(error).__name__, error, file=sys.stderr)
        print("nan", flush=True)
        continue
    started = time.process_time()
    execute(job, dataset)
    print(time.process_time() - started, flush=True)
"""


def cases(results: Path) -> dict[str, tuple[str, str]]:
    """Return by name the job and the built dataset of one finished job of each kind.

    Jobs that read others are left out, and of a kind the one with the most work is taken.
    """
    found: dict[str, tuple[float, str, str]] = {}
    for path in sorted(results.rglob("job.json")):
        job = json.loads(path.read_text())
        made_from = json.loads(path.with_name("manifest.json").read_text())["made_from"]
        built = [each for each in made_from if "processed" in each]
        if job.get("needs") or job.get("chosen") or job.get("attack") or len(built) != 1:
            continue
        settings = job.get("settings") or {}
        work = len(job["seeds"]) * len(job["epsilons"]) * settings.get("epochs", 1)
        key = f"{job['method']} {job['protocol']}"
        if key not in found or work > found[key][0]:
            found[key] = work, path.read_text(), str(Path(built[0]).parent.resolve())
    return {key: (text, built) for key, (_, text, built) in sorted(found.items())}


def measure(tree: Path, wanted: list[tuple[str, str]]) -> list[float]:
    """Return the processor seconds of every case, in one process of a tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    lines = "\n".join(json.dumps(each) for each in wanted)
    run = subprocess.run(
        [sys.executable, "-c", ONE_RUN], input=lines, env=environment, text=True,
        stdout=subprocess.PIPE, check=False,
    )  # fmt: skip
    if run.returncode:
        raise SystemExit(f"{tree}: the process ended with status {run.returncode}")
    return [float(line) for line in run.stdout.split()]


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--only", default="", help="protocols or methods, such as 'gap sound,gcn'")
    arguments = parser.parse_args()
    only = arguments.only.split(",")
    wanted = {
        name: case
        for name, case in cases(arguments.results).items()
        if any(name.startswith(each) for each in only)
    }
    taken: dict[Path, list[list[float]]] = {arguments.old: [], arguments.new: []}
    for number in range(arguments.times):
        for tree, runs in taken.items():
            runs.append(measure(tree, list(wanted.values())))
        print(f"round {number + 1} of {arguments.times}", file=sys.stderr)
    print("method,protocol,old_s,new_s,ratio")
    for name, old, new in zip(wanted, *(zip(*runs, strict=True) for runs in taken.values()),
                              strict=True):  # fmt: skip
        if math.isnan(sum(old) + sum(new)):
            print(f"{name}: not in both trees", file=sys.stderr)
            continue
        ratio = median(old) / median(new)
        print(f"{name.replace(' ', ',')},{median(old):.3f},{median(new):.3f},{ratio:.2f}")


if __name__ == "__main__":
    main()
