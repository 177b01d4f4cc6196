"""Peak resident memory of jobs, and what is predicted for them.

    python benchmarks/memory.py --mirror DIR [--out docs/benchmarks/memory.csv]

Each job runs alone in a fresh process, with few epochs, which do not matter to its memory. A first
process of each compiles the kernels and is not counted.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from private_graphs.running.jobs import Job, LeakAttack
from private_graphs.running.memory import megabytes

ADAM = {"epochs": 2, "learning_rate": 0.01}
SGD = ADAM | {"optimizer": "sgd"}
SUMS = {"epochs": 2, "hops": 2}


def job(dataset: str, method: str, scenario: str, runs: int, **more: Any) -> Job:
    """A job of so many runs with ε = 2."""
    fields = {"study": "benchmarks", "group": "memory", "name": "", "epsilons": (2,)} | more
    return Job(dataset=dataset, method=method, scenario=scenario, seeds=range(runs), **fields)


JOBS = (
    job("synthetic-planetoid", "gcn", "nodes", 5, settings=ADAM),
    job("synthetic-planetoid", "gcn", "nodes", 1000, settings=ADAM),
    job("cora", "gcn", "nodes", 5, settings=ADAM),
    job("cora", "gcn", "nodes", 100, settings=ADAM),
    job("cora", "gcn", "nodes", 1000, settings=ADAM),
    job("cora", "gcn", "nodes", 2500, settings=ADAM),
    job("cora", "gcn", "nodes", 300, settings=SGD | {"splits": 10}),
    job("pubmed", "gcn", "nodes", 20, settings=ADAM),
    job("synthetic-planetoid", "dp_linear", "text", 10),
    job("cora", "class_sums", "text", 100),
    job("cora", "dp_linear", "text", 100),
    job("facebook-cornell5", "progap", "links", 10, max_edges=660_000, delta=1e-7,
        settings=SUMS | {"hops": 5}),
    job("facebook-cornell5", "gap", "links", 10, max_edges=660_000, delta=1e-7, settings=SUMS),
    job("facebook-cornell5", "edge_rand", "links", 10, max_edges=660_000, delta=1e-7,
        settings=SUMS, protocol="released"),
    job("facebook-cornell5", "edge_votes", "edges", 10, max_edges=660_000, delta=1e-7),
    job("facebook-cornell5", "dp_gnn", "lists", 10, settings=ADAM, protocol="released"),
    job("facebook-cornell5", "list_means", "lists", 50),
    job("pubmed", "appr_exact", "nodes", 40, test_share=0.2,
        settings={"epochs": 2, "sample": 0.01, "roots": 60, "top": 4}),
    job("digits", "part_means", "subclasses", 12, delta=1e-3),
    job("faces", "class_codes", "classes", 60, delta=1e-3,
        settings={"release": "codes", "replaced": False}),
    job("faces", "unit_gradients", "classes", 12, delta=1e-3,
        settings={"copies": 4, "rate": 0.33, "draws": 16, "replaced": False, "steps": 2}),
    job("digits-students", "scattering", "records", 6),
    job("digits", "mlp_records", "records", 2, protocol="paper", epsilons=(1.26,),
        settings={"hidden": 16, "lot_size": 60, "noise_multiplier": 4, "epochs": 2}),
    job("fashion-mnist-students", "pate_labels", "records", 1, protocol="sound", epsilons=(5.04,),
        settings={"teacher_epochs": 40, "epochs": 20},
        leaks=LeakAttack(attack="membership", shadows=8, targets=4)),
)  # fmt: skip


def measured(number: int, data: Path, mirror: str | None) -> int:
    """Run a job in this process; return its peak in MiB."""
    from private_graphs.attacks.leaks import run_job
    from private_graphs.features.load import load_dataset
    from private_graphs.running.run import execute
    from private_graphs.running.views import data_view

    asked = JOBS[number]
    run = run_job if asked.leaks else execute
    run(asked, load_dataset(asked.dataset, None, data_view(asked), data, mirror))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 2**10


def table(peaks: list[int]) -> pd.DataFrame:
    """Return measured and predicted megabytes of all jobs."""
    rows = []
    for job, peak in zip(JOBS, peaks, strict=True):
        needed = megabytes(job)
        rows.append({
            "dataset": job.dataset,
            "method": f"{job.method}, attacked" if job.leaks else job.method,
            "runs": job.n_replicas,
            "settings": ", ".join(f"{key}={value}" for key, value in job.settings.items()),
            "measured": peak, "predicted": needed, "ratio": round(needed / peak, 2),
        })  # fmt: skip
    return pd.DataFrame(rows)


def main() -> None:
    """Measure all jobs, or one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mirror", help="folder or URL with the raw files")
    parser.add_argument("--data", type=Path, default=Path("data/raw"))
    parser.add_argument("--out", type=Path, help="CSV to write")
    parser.add_argument("--one", type=int, help="measure this job alone")
    asked = parser.parse_args()
    if asked.one is not None:
        print(measured(asked.one, asked.data, asked.mirror))
        return
    peaks = []
    for number in range(len(JOBS)):
        program = [sys.executable, *sys.argv, "--one", str(number)]
        runs = [subprocess.run(program, check=True, text=True, stdout=subprocess.PIPE).stdout
                for _ in range(2)]  # fmt: skip
        peaks.append(json.loads(runs[-1]))
        print(JOBS[number].method, JOBS[number].dataset, peaks[-1], file=sys.stderr, flush=True)
    found = table(peaks)
    if asked.out:
        found.to_csv(asked.out, index=False)
    print(found)


if __name__ == "__main__":
    main()
