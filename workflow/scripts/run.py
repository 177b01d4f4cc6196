"""Run one job: all its replicas together."""

from pathlib import Path

from job import reported


def main(snake):
    """Unpack the job, run it, and save its files with the job beside them."""
    from private_graphs.datasets.graph_dataset import GraphDataset
    from private_graphs.jobs import Job
    from private_graphs.run import execute
    from private_graphs.workflow_files import read_artifacts, read_choice, save

    job = Job.model_validate_json(snake.params.job)
    secret = snake.params.noise_source == "os_entropy"
    with reported(
        f"ran {job.id}", snake.log[0], times=snake.params.times, secret=secret
    ) as log:
        result = execute(
            job,
            GraphDataset.load(Path(snake.input.dataset[0]).parent),
            chosen=read_choice(snake.input.choice),
            artifacts=read_artifacts(job, snake.input.needs),
            noise_source=snake.params.noise_source,
            device="auto" if snake.resources.gpu else "cpu",
            threads=snake.threads,
            progress=log.progress,
            code_fingerprint=fingerprint(snake.input.code),
        )
        log.note(f"{len(result.rows)} runs")


main(snakemake)  # noqa: F821
