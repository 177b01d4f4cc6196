"""Write the page with all scales, one page per exhibit and one per privacy statement."""

from pathlib import Path

from job import reported


def main(snake):
    """Write ``results/index.html`` and what it links to."""
    from private_graphs.report.site import write_site
    from private_graphs.verify import require_whole

    root = Path(snake.output[0]).parent
    with reported("site", snake.log[0]) as log:
        # those of this run alone: what other scales have may be older than what judges it
        require_whole(*(Path(path).parent for path in [snake.input.exhibits, *snake.input.claims]))
        folders = [Path(snake.input.exhibits).parents[1] / "claims"]
        folders += [Path(manifest).parent for manifest in snake.input.claims]
        verdicts = [path for folder in folders for path in folder.glob("*.csv")]
        written = write_site(root, "recorded", snake.threads, verdicts)
        log.note(f"{snake.output[0]} and {len(written) - 1} pages behind it")


main(snakemake)  # noqa: F821
