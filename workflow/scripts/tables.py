"""Write every table that the run asks for, from all finished cells of the scale."""

import json
from pathlib import Path

from job import reported


def main(job):
    """Unpack what each study asks for and write its tables."""
    from private_graphs.reporting.tables import write_tables

    folder = Path(job.output[0]).parents[1]
    with reported("tables", job.log[0]) as note:
        statistics = [json.loads(Path(path).read_text()) for path in job.input.statistics]
        for wanted in job.params.wanted:
            for path in write_tables(folder, statistics=statistics, **wanted):
                note(str(path))
        note(f"{len(job.output)} files in {folder}/tables")


main(snakemake)  # noqa: F821
