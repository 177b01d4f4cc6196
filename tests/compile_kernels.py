"""Compile the kernels that many tests use, each once: two workers that meet a kernel at the same
time compile it twice, for minutes."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout, suppress
from io import StringIO
from multiprocessing import get_context

from private_graphs.attacks.small_data import small_dataset
from private_graphs.attacks.small_jobs import small_job
from private_graphs.cli import main
from private_graphs.methods import method_named
from private_graphs.running.run import execute

AUDIT = "audit --protocol released --epsilon 2 --runs 10 --json"
"""Command whose graph has rows of other widths than those of the short jobs."""
CASES = (
    (AUDIT, "appr_gaussian nodes sound", "appr_gaussian nodes released"),
    ("gcn nodes sound",),
    ("class_sums text sound", "dp_gnn lists sound", "dpdgc links sound", "dpdgc lists sound",
     "gap links sound", "progap lists sound", "label_sums lists sound"),
)  # fmt: skip
"""Of each process: a command, and short jobs, whose training calls kernels that no other process
compiles."""


def train(cases: tuple[str, ...]) -> None:
    """Train one after the other."""
    for case in cases:
        if case == AUDIT:
            with redirect_stdout(StringIO()), suppress(SystemExit):
                main(case.split())
            continue
        name, scenario, protocol = case.split()
        method = method_named(name)
        job = small_job(method, scenario, protocol, seeds=(0,))
        execute(job, small_dataset(method, {}))


if __name__ == "__main__":
    with ProcessPoolExecutor(len(CASES), mp_context=get_context("spawn")) as pool:
        list(pool.map(train, CASES))
