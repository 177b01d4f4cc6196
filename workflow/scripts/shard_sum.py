"""Sum one shard exactly; the sum is private and stays where it is written."""

from job import reported
from shard_job import run_of


def main(snake):
    """Answer the query of a round for one shard."""
    turn, shard = int(snake.wildcards.turn), int(snake.wildcards.shard)
    with reported(f"summed shard {shard}", snake.log[0], secret=True):
        run_of(snake.config).sum_shard(turn, shard)


main(snakemake)  # noqa: F821
