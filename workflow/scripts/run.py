"""Run one job: all its replicas together."""

from pathlib import Path

from job import reported
from warm import handed_over


def main(snake):
    """Unpack the job, run it, and save its files with the job beside them."""
    if handed_over(snake):
        return
    from private_graphs.datasets.registry import load_built
    from private_graphs.imports import code_fingerprint
    from private_graphs.jobs import Job
    from private_graphs.methods import module_of
    from private_graphs.result import read_artifacts, read_rows
    from private_graphs.run import execute
    from private_graphs.verify import finish

    job = Job.model_validate_json(snake.params.job)
    folder = Path(snake.output.manifest).parent
    choice = Path(snake.input.choice[0]).parent if snake.input.choice else None
    needed = dict(zip(job.needs, snake.input.needs, strict=True))
    source = snake.params.noise_source
    secret = source == "os_entropy"
    with reported(f"ran {job.id}", snake.log[0], times=snake.params.times, secret=secret) as log:
        result = execute(
            job,
            load_built(Path(snake.input.dataset).parent),
            chosen=read_rows(choice) if choice else None,
            artifacts={name: read_artifacts(Path(path).parent) for name, path in needed.items()},
            noise_source=source,
            device="auto" if snake.resources.gpu else "cpu",
            threads=snake.threads,
            progress=log.progress,
            code_fingerprint=code_fingerprint("private_graphs.run", module_of(job.method)),
        )
        result.save(folder)
        made_from = [snake.input.dataset, *snake.input.choice, *snake.input.needs]
        finish(folder, job, made_from, secret=secret)
        log.note(f"{len(result.rows)} runs")


main(snakemake)  # noqa: F821
