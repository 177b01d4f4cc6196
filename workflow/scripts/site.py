"""Write the page with all scales, one page per exhibit and one per privacy statement."""

from pathlib import Path

from job import reported


def main(snake):
    """Write ``results/index.html`` and what it links to."""
    from private_graphs.report.site import write_site
    from private_graphs.workflow.verify import require_whole

    root = Path(snake.output[0]).parent
    with reported("site", snake.log[0]) as log:
        # verdicts of this run alone: those of other scales may be older than what judges them
        exhibits = Path(snake.input.exhibits).parent
        require_whole(exhibits)
        written = write_site(root, "recorded", snake.threads, exhibits.parent.name)
        log.note(f"{snake.output[0]} and {len(written) - 1} pages behind it")


main(snakemake)  # noqa: F821
