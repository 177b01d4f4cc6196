"""Read the texts, the labels and the graph of one dataset."""

from pathlib import Path

from job import reported, terminal


def main(job):
    """Read the raw files in one view and save the text graph."""
    from tqdm import tqdm

    from private_graphs.datasets.registry import build_texts
    from private_graphs.datasets.views import VIEWS

    name, view = job.wildcards.dataset, VIEWS[job.wildcards.view]
    with reported(f"texts of {name}, {view.name}", job.log[0]) as note:
        with tqdm(
            desc=f"{name}, {view.name}", unit="B", unit_scale=True, file=terminal(), disable=None,
            leave=False,
        ) as bar:  # fmt: skip

            def progress(stage, done, total):
                bar.total = total
                bar.set_postfix_str(stage, refresh=False)
                bar.update(done - bar.n)

            graph = build_texts(name, Path("data/raw"), view, progress)
        graph.save(Path(job.output.info).parent)
        note(f"{graph.n_nodes} nodes, {graph.edge_index.shape[1]} edges")


main(snakemake)  # noqa: F821
