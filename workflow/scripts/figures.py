"""Draw Table 1 and the figures of every study that the run asks for."""

from pathlib import Path

from job import reported


def main(job):
    """Unpack which datasets each figure of each study is drawn for."""
    from private_graphs.reporting.figures import write_figures

    folder = Path(job.output[0]).parents[1]
    with reported("figures", job.log[0]) as note:
        for study, wanted in job.params.wanted.items():
            for path in write_figures(folder, study, wanted):
                note(str(path))
        note(f"{len(job.output)} files in {folder}/figures")


main(snakemake)  # noqa: F821
