"""Build one dataset from its raw files."""

from pathlib import Path

from job import reported


def main(job):
    """Build the dataset and save it with its statistics."""
    from private_graphs.datasets.registry import build
    from private_graphs.datasets.views import VIEWS
    from private_graphs.files import write_json

    name, *rest = job.wildcards.build.split("/")
    view = VIEWS[rest[-1] if rest else "sound"]
    with reported(f"dataset {job.wildcards.build}", job.log[0]) as note:
        dataset = build(name, Path(job.input.receipt).parents[1], view)
        dataset.save(Path(job.output.graph).parent)
        write_json(job.output.statistics, dataset.statistics())
        note(f"{dataset.n_nodes} nodes, {dataset.n_edges} edges")


main(snakemake)  # noqa: F821
