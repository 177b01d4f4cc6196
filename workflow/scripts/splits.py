"""Draw the parts of the jobs of a batch, or take those that are given, before they train."""

from pathlib import Path

from batch import carry_out


def main(snake):
    """Unpack the jobs, draw the parts of every replica, and write them with their sizes."""
    from functools import lru_cache

    from private_graphs.core.manifest import MANIFEST
    from private_graphs.datasets.registry import load_built
    from private_graphs.graphs.partition import read_partition
    from private_graphs.running.job_files import read_rows
    from private_graphs.running.splits import splits_of
    from private_graphs.workflow.verify import require_whole

    load = lru_cache(1)(load_built)
    built = dict(each.split(" ", 1) for each in snake.params.built)
    given = read_partition(snake.params.given) if snake.params.given else None

    def chosen_in(job):
        return [Path(snake.params.finished, job.chosen.job.id)] if job.chosen else []

    def made_from(job):
        return [(each / MANIFEST).as_posix() for each in (Path(built[job.id]), *chosen_in(job))]

    def compute(job, folder, log):
        require_whole(*(Path(path).parent for path in made_from(job)))
        choice = [read_rows(each) for each in chosen_in(job)]
        found = splits_of(
            job,
            load(built[job.id]),
            chosen=choice[0] if choice else None,
            noise_source=snake.params.noise_source,
            given=given if "partition" in job.settings else None,
        )
        found.save(folder)
        log.note(f"{len(found.sizes)} parts")

    carry_out(snake, made_from, compute)


main(snakemake)  # noqa: F821
