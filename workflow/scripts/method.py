"""Run one proved method on one dataset: all its budgets and noise draws."""

from pathlib import Path

from job import reported, terminal


def main(job):
    """Unpack the plan, run, and save the cell with its plan beside it."""
    from tqdm import tqdm

    from private_graphs.cells import MethodPlan
    from private_graphs.datasets.graph_dataset import GraphDataset
    from private_graphs.files import write_text
    from private_graphs.imports import code_fingerprint
    from private_graphs.methods.proved import run_method

    plan = MethodPlan.model_validate_json(job.params.plan)
    folder = Path(job.output.runs).parent
    secret = job.params.noise_source == "os_entropy"
    title = f"ran {plan.cell.cell_id}"
    with reported(title, job.log[0], times=job.params.times, secret=secret) as note:
        with tqdm(
            desc=plan.cell.cell_id, unit="run", file=terminal(), leave=False,
            disable=secret or None,  # a bar shows times
        ) as bar:  # fmt: skip

            def progress(done, total):
                bar.total = total
                bar.update(done - bar.n)

            result = run_method(
                plan,
                GraphDataset.load(Path(job.input.graph).parent),
                noise_source=job.params.noise_source,
                progress=progress,
                code_fingerprint=code_fingerprint("private_graphs.methods.proved"),
            )
        result.save(folder)
        write_text(folder / "plan.json", plan.model_dump_json(indent=2) + "\n")
        note(f"{len(result.runs)} runs")


main(snakemake)  # noqa: F821
