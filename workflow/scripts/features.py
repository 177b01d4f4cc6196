"""Make features of one kind of the texts of one dataset."""

from pathlib import Path

from job import reported


def main(job):
    """Make the features and save the dataset with its statistics."""
    from private_graphs.datasets import registry
    from private_graphs.datasets.text_graph import TextGraph
    from private_graphs.datasets.views import VIEWS
    from private_graphs.features.build import build_features, cache_of, feature_options
    from private_graphs.workflow.verify import require_raw, require_whole, write_build

    name, kind, view = job.wildcards.dataset, job.wildcards.kind, VIEWS[job.wildcards.view]
    folder = Path(job.output.info).parent
    with reported(f"{kind} features of {name}, {view.name}", job.log[0]) as log:
        require_whole(Path(job.input.texts).parent)
        require_raw(Path("data/raw"), job.input.models)
        texts = TextGraph.load(Path(job.input.texts).parent)
        spec = registry.dataset_spec(name)
        options = feature_options(
            spec,
            kind,
            Path("data/raw"),
            cache_of(folder),
            threads=job.threads,
            device=job.config.get("device", "cpu"),
            progress=log.progress,
        )
        dataset = build_features(spec, texts, kind, view, options, folder)
        write_build(folder, [job.input.texts, *job.input.models])
        log.note(f"{dataset.n_nodes} nodes, {dataset.n_features} columns")


main(snakemake)  # noqa: F821
