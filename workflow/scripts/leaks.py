"""Attack the models of a batch, and write what was measured."""

from pathlib import Path

from batch import carry_out, save_document


def main(snake):
    """Unpack the jobs, train and attack their models, and write what was measured."""
    from functools import lru_cache

    from private_graphs.attacks.leaks import run_job
    from private_graphs.core.manifest import MANIFEST
    from private_graphs.datasets.registry import load_built
    from private_graphs.running.jobs import LEAK_FILE
    from private_graphs.workflow.verify import require_whole

    load = lru_cache(1)(load_built)
    built = dict(each.split(" ", 1) for each in snake.params.built)

    def made_from(job):
        return [(Path(built[job.id]) / MANIFEST).as_posix()]

    def compute(job, folder, log):
        require_whole(Path(built[job.id]))
        found = run_job(job, load(built[job.id]), threads=snake.threads, progress=log.progress)
        save_document(folder, LEAK_FILE, found)
        log.note(f"{len(found['measured'])} numbers")

    carry_out(snake, made_from, compute)


main(snakemake)  # noqa: F821
