"""What the scripts of all kinds of features share."""

from pathlib import Path

from job import reported, terminal


def build(job, kind):
    """Make features of ``kind`` and save the dataset with its statistics."""
    from tqdm import tqdm

    from private_graphs.datasets import registry
    from private_graphs.datasets.text_graph import TextGraph
    from private_graphs.datasets.views import VIEWS
    from private_graphs.features.load import build_features, cache_of, feature_options

    name, view = job.wildcards.dataset, VIEWS[job.wildcards.view]
    folder = Path(job.output.graph).parent
    with reported(f"{kind} features of {name}, {view.name}", job.log[0]) as note:
        texts = TextGraph.load(Path(job.input.texts).parent)
        with tqdm(
            desc=f"{kind}, {view.name}", unit="text", file=terminal(), disable=None, leave=False
        ) as bar:

            def progress(done, total):
                bar.total = total
                bar.update(done - bar.n)

            spec = registry.dataset_spec(name)
            options = feature_options(
                spec,
                kind,
                Path("data/raw"),
                cache_of(folder),
                threads=job.threads,
                device="auto" if job.resources.get("gpu") else "cpu",
                progress=progress,
            )
            dataset = build_features(spec, texts, kind, view, options, folder)
        note(f"{dataset.n_nodes} nodes, {dataset.n_features} columns")
