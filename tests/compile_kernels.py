"""Compile the kernels that many tests use, each once: two workers that meet a kernel at the same
time compile it twice, for minutes."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from private_graphs.attacks.small_jobs import small_dataset, small_job
from private_graphs.methods import method_named
from private_graphs.running.run import execute

CASES = (
    [("gcn", "nodes", "sound")],
    [("appr_gaussian", "nodes", "sound"), ("appr_gaussian", "nodes", "released"),
     ("class_sums", "text", "sound")],
)  # fmt: skip
"""Of each process: short jobs whose training calls kernels that no other process compiles."""


def train(cases: list[tuple[str, str, str]]) -> None:
    """Train short jobs, one after the other."""
    for name, scenario, protocol in cases:
        method = method_named(name)
        job = small_job(method, scenario, protocol, seeds=(0,))
        execute(job, small_dataset(method, {}))


if __name__ == "__main__":
    with ProcessPoolExecutor(len(CASES), mp_context=get_context("spawn")) as pool:
        list(pool.map(train, CASES))
