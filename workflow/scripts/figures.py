"""Draw the figures of every study that has Table 1."""

from pathlib import Path

from job import reported


def main(job):
    """Draw Table 1 of each study."""
    from private_graphs.reporting.figures import write_figure1

    folder = Path(job.output[0]).parents[1]
    with reported("figures", job.log[0]) as note:
        for study in job.params.studies:
            write_figure1(folder, study)
        note(f"{len(job.output)} files in {folder}/figures")


main(snakemake)  # noqa: F821
