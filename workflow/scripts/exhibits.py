"""Write the rows of a scale and every exhibit that is made of them."""

from pathlib import Path

from job import reported


def main(snake):
    """Gather the rows of all jobs, and write the exhibits of every study."""
    from private_graphs.site.write import write_exhibits
    from private_graphs.workflow.verify import require_whole, vouch

    scale = Path(snake.output.rows).parent
    folder = Path(snake.output.manifest).parent
    with reported("exhibits", snake.log[0]) as log:
        require_whole(*(scale / "jobs" / name for name in snake.params.jobs))
        written = write_exhibits(
            scale,
            snake.params.exhibits,
            snake.params.jobs,
            statistics=map(Path, snake.input.statistics),
            processed=Path("data/processed"),
            processes=snake.threads,
        )
        manifests = [f"{scale}/jobs/{name}/manifest.json" for name in snake.params.jobs]
        judged = [f"../claims/{path.name}" for path in written if path.parent.name == "claims"]
        vouch(folder, ["../rows.parquet", *judged], manifests)
        for path in written:
            log.note(str(path))


main(snakemake)  # noqa: F821
