"""Run the jobs of a batch: of each, all replicas together."""

from pathlib import Path

from batch import carry_out


def main(snake):
    """Unpack the jobs, run them, and save their files with the job beside them."""
    from functools import lru_cache

    from private_graphs.core.errors import counted
    from private_graphs.core.imports import code_fingerprint
    from private_graphs.core.manifest import MANIFEST
    from private_graphs.datasets.registry import load_built
    from private_graphs.methods import module_of
    from private_graphs.running.job_files import read_artifacts, read_rows
    from private_graphs.running.run import execute
    from private_graphs.running.splits import read_parts
    from private_graphs.running.views import has_splits
    from private_graphs.workflow.replays import missing_replay
    from private_graphs.workflow.verify import require_whole

    load = lru_cache(1)(load_built)
    built = dict(each.split(" ", 1) for each in snake.params.built)

    def folder_of(name):
        return Path(snake.params.folder, name)

    def chosen_in(job):
        return [folder_of(job.chosen.job.id)] if job.chosen else []

    def splits_of(job):
        return [Path(snake.params.splits, job.id)] if has_splits(job) else []

    def made_from(job):
        folders = [Path(built[job.id]), *chosen_in(job), *map(folder_of, job.needs.values())]
        folders += splits_of(job)
        return [(each / MANIFEST).as_posix() for each in folders]

    def compute(job, folder, log):
        require_whole(*(Path(path).parent for path in made_from(job)))
        choice = [read_rows(each) for each in chosen_in(job)]
        parts = [read_parts(each) for each in splits_of(job)]
        result = execute(
            job,
            load(built[job.id]),
            chosen=choice[0] if choice else None,
            artifacts={name: read_artifacts(folder_of(each)) for name, each in job.needs.items()},
            noise_source=snake.params.noise_source,
            parts=parts[0] if parts else None,
            device=snake.config.get("device", "cpu"),
            threads=snake.threads,
            progress=log.progress,
            missing_replay=missing_replay(),
            code_fingerprint=code_fingerprint("private_graphs.running.run", module_of(job.method)),
        )
        result.save(folder)
        log.note(counted(len(result.rows), "run"))

    carry_out(snake, made_from, compute)


main(snakemake)  # noqa: F821
