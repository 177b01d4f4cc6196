"""Write the page with all scales, one page per figure and one per privacy statement."""

from pathlib import Path

from job import reported


def main(job):
    """Write ``results/index.html`` and what it links to."""
    from private_graphs.reporting.site import write_site

    with reported("site", job.log[0]) as note:
        written = write_site(Path(job.output[0]).parent)
        note(f"{job.output[0]} and {len(written) - 1} pages behind it")


main(snakemake)  # noqa: F821
