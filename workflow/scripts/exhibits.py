"""Write the rows of a scale and every exhibit that is made of them."""

from pathlib import Path

from job import reported


def main(snake):
    """Gather the rows of all jobs, and write the exhibits of every study."""
    from private_graphs.report.write import write_exhibits

    scale = Path(snake.output.rows).parent
    with reported("exhibits", snake.log[0]) as log:
        written = write_exhibits(
            scale, snake.params.exhibits, snake.params.jobs,
            statistics=snake.input.statistics, processed=Path("data/processed"),
        )  # fmt: skip
        for path in written:
            log.note(str(path))


main(snakemake)  # noqa: F821
