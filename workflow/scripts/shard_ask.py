"""Draw the noise of the rounds whose sums are there; ask the next round, or write the release."""

from job import reported
from shard_job import run_of


def main(snake):
    """Run the method as far as the sums allow."""
    run = run_of(snake.config)
    turn = int(snake.params.turn)
    with reported(f"{run.job.id}: round {turn}", snake.log[0], secret=True):
        result = run.advance(turn)
        if result is not None:
            run.save(result)


main(snakemake)  # noqa: F821
