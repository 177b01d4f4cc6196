"""Hours of LREC's grid on one GPU: Table 1 and Figures 1-6 on the citation graphs, job by job.

    python benchmarks/gpu_grid.py --mirror DIR > docs/benchmarks/gpu_grid.json

Jobs of one kind (dataset, method's settings, protocol, replicas with and without DP) take equally
long, and of every kind one is run: twice, for a few epochs, so that the seconds of an epoch and of
what is done once are told apart. A job is the sum for its number of epochs; replicas without DP,
which stop early, are counted to the end.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import defaultdict
from pathlib import Path

import torch

from private_graphs.core.jobs import Job
from private_graphs.core.plan import Plan
from private_graphs.core.run import execute
from private_graphs.core.study import Run
from private_graphs.datasets import registry, sources

RAW = Path("data/raw")
EXHIBITS = ("table1", *(f"figure{number}" for number in range(1, 7)))
DATASETS = ("cora", "citeseer", "pubmed")
STEPS = 15, 45
"""Steps of the two runs, at least one epoch and three: the shorter is behind the first launches,
after which a step is one graph."""


def kind_of(job: Job) -> str:
    """Return what says how long a job takes; a part of the training nodes is one kind."""
    settings = {**job.settings, "train_fraction": job.settings.get("train_fraction", 1) < 1}
    compared = {name: len(values) for name, values in job.choose.items()}
    with_dp = sum(epsilon < float("inf") for epsilon in job.epsilons)
    alike = [job.dataset, settings, job.protocol, compared, with_dp, len(job.epsilons)]
    return json.dumps([*alike, len(job.seeds)], sort_keys=True)


def seconds_of(job: Job, dataset: object, device: str) -> tuple[float, float]:
    """Seconds of an epoch of a job, and of what it does once."""
    splits = job.settings.get("splits", 1) if job.protocol != "sound" else 1
    lengths = [max(least, steps // splits) for least, steps in zip((1, 3), STEPS, strict=True)]
    taken = []
    for epochs in lengths:
        few = job.model_copy(
            update={"settings": {**job.settings, "epochs": epochs}, "chosen": None}
        )
        started = time.perf_counter()
        execute(few, dataset, device=device)
        taken.append(time.perf_counter() - started)
    epoch = max(0.0, taken[1] - taken[0]) / (lengths[1] - lengths[0])
    return epoch, max(0.0, taken[0] - lengths[0] * epoch)


def main() -> None:
    """Measure one job of every kind, and print the hours of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--mirror", help="folder with the raw files")
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="measure the longest jobs first, so long"
    )
    options = parser.parse_args()
    names = tuple(options.datasets.split(","))
    run = Run(scale="full", studies=("lrec2022",), exhibits=EXHIBITS, datasets=names)
    kinds: dict[str, list[Job]] = defaultdict(list)
    for job in Plan(run).jobs:
        if job.method == "gcn":
            kinds[kind_of(job)].append(job)
    datasets = {}
    for name in names:
        sources.supply([name], RAW, options.mirror)
        datasets[name] = registry.build(name, RAW)
    device, started = options.device, time.perf_counter()
    title = torch.cuda.get_device_name() if device == "cuda" else device
    rows = {
        name: {"dataset": name, "device": title, "jobs": 0, "measured": 0, "hours": 0.0}
        for name in names
    }
    longest_first = sorted(kinds.values(), key=lambda jobs: -jobs[0].settings.get("splits", 1))
    last = longest_first[-1][0]
    seconds_of(last, datasets[last.dataset], device)  # imports and compiles
    for one, *more in longest_first:
        row, count = rows[one.dataset], 1 + len(more)
        row["jobs"] += count
        if time.perf_counter() - started > options.seconds:
            continue
        epoch, once = seconds_of(one, datasets[one.dataset], device)
        seconds = once + one.settings["epochs"] * epoch
        print(f"{count} x {seconds:.1f} s: {one.id}", file=sys.stderr, flush=True)
        row["measured"] += count
        row["hours"] += count * seconds / 3600
    print(json.dumps(list(rows.values()), indent=1))


if __name__ == "__main__":
    main()
