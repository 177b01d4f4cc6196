"""Write the page with all scales, one page per exhibit and one per privacy statement."""

from pathlib import Path

from job import reported


def main(snake):
    """Write ``results/index.html`` and what it links to."""
    from private_graphs.core.errors import counted
    from private_graphs.site.site import write_site
    from private_graphs.workflow.crate import link_files, write_crate
    from private_graphs.workflow.verify import require_whole

    root = Path(snake.output.page).parent
    with reported("site", snake.log[0]) as log:
        # verdicts of this run alone: those of other scales may be older than what judges them
        exhibits = Path(snake.input.exhibits).parent
        require_whole(exhibits)
        written = write_site(root, "recorded", snake.threads, exhibits.parent.name)
        link_files(exhibits, Path(snake.output.shown), (".csv", ".svg"))
        write_crate(exhibits.parent)
        log.note(f"{snake.output.page} and {counted(len(written) - 1, 'page')} behind it")


main(snakemake)  # noqa: F821
