"""Build one dataset from its raw files."""

from pathlib import Path

from job import reported


def main(job):
    """Build the dataset and save it with its statistics."""
    from private_graphs.core.errors import UserError
    from private_graphs.core.files import write_json
    from private_graphs.core.manifest import MANIFEST, changed_file
    from private_graphs.datasets.registry import build
    from private_graphs.datasets.views import VIEWS
    from private_graphs.workflow.verify import require_raw, write_build

    name, *rest = job.wildcards.build.split("/")
    view = VIEWS[rest[-1] if rest else "sound"]
    folder = Path(job.output.info).parent
    with reported(f"dataset {job.wildcards.build}", job.log[0]) as log:
        raw, state = Path("data/raw"), Path(job.input.state)
        if state.name != MANIFEST:
            require_raw(raw, [state])
        elif reason := changed_file(state.parent):  # of a graph that a user built
            raise UserError(f"{reason}; build {name} again with private-graphs dataset")
        dataset = build(name, raw, view)
        dataset.save(folder)
        write_json(job.output.statistics, dataset.statistics())
        write_build(folder, [job.input.state])
        log.note(f"fingerprint {dataset.fingerprint}")


main(snakemake)  # noqa: F821
