"""Read the texts, the labels and the graph of one dataset."""

from pathlib import Path

from job import reported


def main(job):
    """Read the raw files in one view and save the text graph."""
    from private_graphs.datasets.text_graph import build_texts
    from private_graphs.datasets.views import VIEWS
    from private_graphs.workflow.verify import require_raw, write_hashes

    name, view = job.wildcards.dataset, VIEWS[job.wildcards.view]
    with reported(f"texts of {name}, {view.name}", job.log[0]) as log:
        receipts = [path for path in job.input.sources if Path(path).suffix == ".json"]
        require_raw(Path("data/raw"), receipts)
        graph = build_texts(name, Path("data/raw"), view, log.progress)
        folder = Path(job.output.manifest).parent
        graph.save(folder)
        files = ["texts.parquet", "structure.safetensors", "text_graph.json"]
        write_hashes(folder, files, receipts)
        log.note(f"{graph.n_nodes} nodes, {graph.edge_index.shape[1]} edges")


main(snakemake)  # noqa: F821
