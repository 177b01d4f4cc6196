"""Per-root DP-SGD in closed form beside a plain PyTorch loop that takes one gradient per root.

``python benchmarks/roots.py`` makes a sample of the size of Cora-ML's (216 nodes, 2879 features,
K = 4, B = 60) and prints microseconds per root and step of both, noise and Adam included, in turns
on one thread. ``--figure DATASET --raw DIR`` prints CPU seconds of a run of Figures 5.1-5.3
instead: all jobs of the dataset under ``--protocol``, from the task to rows and privacy statements,
on one thread. Kernels are compiled before, and raw files read.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import scipy.sparse
import torch

from private_graphs.core.streams import Streams
from private_graphs.datasets.registry import build
from private_graphs.mechanisms.door import Door
from private_graphs.methods import method_named
from private_graphs.privacy.queries import GaussianQuery
from private_graphs.running.run import execute
from private_graphs.running.study import Run, group_jobs, load_study
from private_graphs.studies.dpappr.methods.appr_rows import random_rows
from private_graphs.training.roots import HIDDEN, Roots, RootTraining, initial, train

NODES, FEATURES, CLASSES, TOP, BATCH = 216, 2879, 7, 4, 60


def problem() -> tuple[scipy.sparse.csr_matrix, scipy.sparse.csr_matrix, np.ndarray, np.ndarray]:
    """Features, rows, labels, and parameters to start from."""
    rng = np.random.default_rng(0)
    x = scipy.sparse.random(NODES, FEATURES, 0.018, "csr", np.float32, rng)
    rows = random_rows(NODES, NODES, TOP, rng).astype(np.float32)
    return x, rows, rng.integers(CLASSES, size=NODES), initial(FEATURES, CLASSES, rng)


def ours(steps: int) -> float:
    """Seconds of ``steps`` steps."""
    x, rows, labels, theta = problem()
    batches = np.resize(np.arange(NODES), (steps, BATCH))
    query = GaussianQuery(
        unit="node", relation="replace", count=steps, reason="benchmark", sensitivity=1.0,
        noise_std=1.0,
    )  # fmt: skip
    door = Door.of([Streams.of({"benchmark": steps})])
    door.plan([(query,)])
    started = time.perf_counter()
    roots = Roots.of(x, rows, labels)
    train(roots, theta, RootTraining(batches, BATCH, 0.005), door.descent([query]), 0)
    return time.perf_counter() - started


def loop(steps: int) -> float:
    """The same with autograd, root by root."""
    x, rows, labels, theta = problem()
    dense, mixing = torch.tensor(x.toarray()), torch.tensor(rows.toarray())
    first = torch.tensor(theta[: FEATURES * HIDDEN].reshape(-1, HIDDEN), dtype=torch.float32)
    second = torch.tensor(theta[FEATURES * HIDDEN :].reshape(HIDDEN, -1), dtype=torch.float32)
    parameters = [each.requires_grad_() for each in (first, second)]
    optimizer = torch.optim.Adam(parameters, lr=0.005)
    batches = np.resize(np.arange(NODES), (steps, BATCH))
    started = time.perf_counter()
    for batch in batches:
        total = [torch.zeros_like(each) for each in parameters]
        for root in batch:
            nodes = rows.indices[rows.indptr[root] : rows.indptr[root + 1]]
            hidden = torch.relu(dense[nodes] @ first) @ second
            logits = mixing[root, nodes] @ hidden
            loss = torch.nn.functional.cross_entropy(logits[None], torch.tensor([labels[root]]))
            gradients = torch.autograd.grad(loss, parameters)
            norm = torch.sqrt(sum((each**2).sum() for each in gradients))
            factor = torch.clamp(1 / norm, max=1.0)
            for sum_, each in zip(total, gradients, strict=True):
                sum_ += factor * each
        for each, sum_ in zip(parameters, total, strict=True):
            each.grad = (sum_ + torch.randn_like(sum_)) / BATCH
        optimizer.step()
    return time.perf_counter() - started


def figure(dataset: str, raw: Path, protocol: str, seeds: int) -> None:
    """Print CPU seconds of a run, by method and K, and of the mean run."""
    chosen = Run(scale="full", datasets=(dataset,), protocols=(protocol,), seeds=seeds)
    jobs = group_jobs(load_study("dpappr"), "appr_budgets", chosen)
    graph = build(dataset, raw)
    execute(jobs[0], graph)  # loads or compiles
    taken = defaultdict(list)
    for job in jobs:
        started = time.process_time()
        runs = len(execute(job, graph).rows)
        spent = time.process_time() - started
        top = f", K = {job.settings['top']}" if "top" in job.settings else ""
        taken[f"{method_named(job.method).title}{top}"].append((spent, runs))
    every = [pair for pairs in taken.values() for pair in pairs]
    for name, pairs in [*taken.items(), ("all", every)]:
        spent, runs = (sum(each) for each in zip(*pairs, strict=True))
        print(f"{dataset}, {protocol}, {name}: {spent / runs:.3f} s a run, {runs} runs", flush=True)


def main() -> None:
    """Print both and their ratio, or how long runs take."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure", metavar="DATASET")
    parser.add_argument("--raw", type=Path, help="folder of the raw files", metavar="DIR")
    parser.add_argument("--protocol", default="released")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    if options.figure:
        if options.raw is None:
            parser.error("--figure reads raw files; expected --raw DIR")
        figure(options.figure, options.raw, options.protocol, options.seeds)
        return
    torch.set_num_threads(1)
    ours(2)  # compiles
    fast, slow = (
        min(each(steps) for _ in range(3)) / (steps * BATCH)
        for each, steps in ((ours, 200), (loop, 5))
    )
    print(f"closed form {1e6 * fast:.1f} us, loop {1e6 * slow:.1f} us per root and step: "
          f"{slow / fast:.0f} times")  # fmt: skip


if __name__ == "__main__":
    main()
