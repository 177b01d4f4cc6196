"""Train one cell: all its replicas together."""

from pathlib import Path

from job import reported


def main(job):
    """Unpack the plan, train, and save the cell with its plan beside it."""
    from private_graphs.cells import CellPlan
    from private_graphs.datasets.graph_dataset import GraphDataset
    from private_graphs.files import write_text
    from private_graphs.imports import code_fingerprint
    from private_graphs.methods.gcn import train_cell
    from private_graphs.methods.search import read_search

    plan = CellPlan.model_validate_json(job.params.plan)
    folder = Path(job.output.runs).parent
    secret = job.params.noise_source == "os_entropy"
    title = f"trained {plan.cell.cell_id}"
    with reported(title, job.log[0], times=job.params.times, secret=secret) as note:
        choice = plan.chosen_in
        result = train_cell(
            plan,
            GraphDataset.load(Path(job.input.graph).parent),
            device="auto" if job.resources.gpu else "cpu",
            threads=job.threads,
            noise_source=job.params.noise_source,
            search=read_search(choice, job.input.search) if choice else None,
            code_fingerprint=code_fingerprint("private_graphs.methods.gcn"),
        )
        result.save(folder)
        write_text(folder / "plan.json", plan.model_dump_json(indent=2) + "\n")
        note(f"{plan.n_replicas} runs")


main(snakemake)  # noqa: F821
