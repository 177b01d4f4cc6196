"""Draw the noise of the rounds whose sums are there; ask the next round, or write the release."""

from job import reported
from shard_job import run_of


def main(snake):
    """Run the method as far as the sums allow."""
    from private_graphs.cli.release import save_run

    run = run_of(snake.config)
    turn = int(snake.params.turn)
    with reported(f"{run.job.id}: round {turn}", snake.log[0], secret=True):
        result = run.advance(turn)
        if result is not None:
            save_run(result, run.job, list(run.graph.info.classes), run.out)


main(snakemake)  # noqa: F821
