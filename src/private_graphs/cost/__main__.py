"""Refit the shipped figures, estimate a whole grid, measure a graph, keep times of methods.

python -m private_graphs.cost refit docs/results        (or results, or both)
python -m private_graphs.cost estimate --scale full --experiments all,A,B,C --splits 1,10
python -m private_graphs.cost measure cora --raw data/raw
python -m private_graphs.cost methods results
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from private_graphs import config
from private_graphs.cost import methods, model, reach
from private_graphs.cost.finished import TIMES_FILE, Finished, read_results, read_times
from private_graphs.cost.probe import machine_words, probe_seconds
from private_graphs.cost.work import KINDS, TRAINING_KINDS
from private_graphs.datasets.registry import build
from private_graphs.errors import UserError
from private_graphs.grids import plans

_RUN_KEYS = ("scale", "datasets", "experiments", "protocols", "splits", "seeds")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(prog="python -m private_graphs.cost")
    commands = parser.add_subparsers(required=True)
    refit = commands.add_parser("refit", help="fit the shipped figures to finished jobs")
    refit.add_argument("folders", nargs="+", type=Path, help="results, or docs/results")
    refit.add_argument("--dry-run", action="store_true", help="print, change nothing")
    refit.set_defaults(run=lambda given: _refit(given.folders, given.dry_run))
    estimate = commands.add_parser("estimate", help="jobs and hours per dataset and experiment")
    for key in _RUN_KEYS:
        estimate.add_argument(f"--{key}", default="full" if key == "scale" else "all")
    estimate.add_argument("--results", type=Path, default=Path("results"))
    estimate.add_argument("--cores", type=int, default=1)
    estimate.set_defaults(run=_estimate)
    measure = commands.add_parser("measure", help="measure what a step reads of a graph")
    measure.add_argument("dataset")
    measure.add_argument("--raw", type=Path, default=Path("data/raw"))
    measure.set_defaults(run=lambda given: _measure(given.dataset, given.raw))
    kept = commands.add_parser("methods", help="ship the times of finished proved methods")
    kept.add_argument("results", nargs="+", type=Path)
    kept.set_defaults(run=lambda given: _keep_methods(given.results))
    given = parser.parse_args(arguments)
    given.run(given)


# --- refit -----------------------------------------------------------------------------------


def all_times(folders: Sequence[Path]) -> list[Finished]:
    """Return the finished jobs of results folders and of folders with published times."""
    jobs = []
    for folder in folders:
        published = sorted(folder.glob(f"*/{TIMES_FILE}"))
        jobs += [job for path in published for job in read_times(path)]
        jobs += read_results(folder)
    if not jobs:
        raise UserError(
            f"no finished job below {', '.join(map(str, folders))}; expected a results folder, or "
            f"one with */{TIMES_FILE}"
        )
    return jobs


def _refit(folders: Sequence[Path], dry_run: bool) -> None:
    jobs = all_times(folders)
    before = model.read_reference().model
    fitted = model.fit(jobs, before)
    for kind in KINDS:
        print(f"{kind:8} {before.coefficients[kind]:10.3g} -> {fitted.coefficients[kind]:10.3g} s")
    print(f"\n{'measured':>9} {'predicted':>9} ratio  cell (training alone)")
    for job in jobs:
        if job.training_seconds is not None:
            print(_compared(job, fitted.seconds_of(job.task, TRAINING_KINDS)))
    print(f"\n{'total':32} {_ratio(jobs, fitted):5.2f} predicted / measured, whole jobs")
    shuffled = random.Random(0).sample(jobs, len(jobs))
    half, other = shuffled[::2], shuffled[1::2]
    if other:
        ratio = _ratio(other, model.fit(half, before))
        print(f"{'half of the jobs from the other':32} {ratio:5.2f}")
    if not dry_run:
        model.write_reference(fitted, machine_words(), probe_seconds())
        print(f"written: {model.REFERENCE_FILE}")


def _compared(job: Finished, predicted: float) -> str:
    task, measured = job.task, job.training_seconds
    cell = (
        f"{job.experiment} {task.dataset} {task.optimizer} {task.protocol} s{task.splits} "
        f"f{task.train_fraction:g}"
    )
    return f"{measured:9.2f} {predicted:9.2f} {predicted / measured:5.2f}  {cell}"


def _ratio(jobs: Sequence[Finished], fitted: model.CostModel) -> float:
    """Predicted over measured seconds of all jobs, whole jobs where their times are known."""
    measured = predicted = 0.0
    for job in jobs:
        if job.job_seconds is not None:
            measured += job.job_seconds
            predicted += fitted.seconds_of(job.task)
        elif job.training_seconds is not None:
            measured += job.training_seconds
            predicted += fitted.seconds_of(job.task, TRAINING_KINDS)
    return predicted / measured


# --- estimate --------------------------------------------------------------------------------


def _estimate(given: argparse.Namespace) -> None:
    studies = config.load_studies()
    run = config.RunConfig.parse({key: getattr(given, key) for key in _RUN_KEYS}, studies)
    estimator = model.machine_model(given.results)
    print("\n".join(estimate_table(studies, run, estimator, max(1, given.cores))))
    print(f"\nOn {machine_words()}; {estimator.source}.")


def estimate_table(
    studies: Sequence[config.Study], run: config.RunConfig, estimator: model.CostModel, cores: int
) -> list[str]:
    """Return a Markdown table: jobs, runs and hours by dataset, experiment and splits."""
    groups = defaultdict(list)
    for study in studies:
        for plan in plans(study, run):
            cell = plan.cell
            groups[cell.dataset, cell.experiment, cell.splits].append(plan)
    lines = [
        f"| dataset | experiment | splits | jobs | runs | hours on {_cores(cores)} |",
        "|---|---|---:|---:|---:|---:|",
    ]
    totals: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0])
    order = list(dict.fromkeys(dataset for dataset, _, _ in groups))
    by_dataset = sorted(groups.items(), key=lambda item: order.index(item[0][0]))
    for (dataset, experiment, splits), group in by_dataset:
        runs = sum(plan.n_replicas for plan in group)
        hours = sum(map(estimator.seconds, group)) / 3600 / cores
        place = f"{dataset} | {experiment} | {splits}"
        lines.append(f"| {place} | {len(group)} | {runs} | {hours:.2f} |")
        for name in (dataset, "all"):
            for index, value in enumerate((len(group), runs, hours)):
                totals[name][index] += value
    everything = totals.pop("all", [0, 0, 0.0])
    for name, (jobs, runs, hours) in [*totals.items(), ("all", everything)]:
        lines.append(f"| **{name}** | all | all | {jobs} | {runs} | **{hours:.2f}** |")
    return lines


def _cores(number: int) -> str:
    return f"{number} core{'' if number == 1 else 's'}"


# --- measure ---------------------------------------------------------------------------------


def _measure(dataset: str, raw: Path) -> None:
    reach.keep(dataset, reach.measure(build(dataset, raw)))
    print(f"{dataset}: {reach.known_reach(dataset)}\nwritten: {reach.REACH_FILE}")


# --- methods ---------------------------------------------------------------------------------


def _keep_methods(folders: Sequence[Path]) -> None:
    jobs = [job for folder in folders for job in methods.finished_jobs(folder)]
    methods.write_reference(jobs)
    for job in jobs:
        print(f"{job.seconds:8.1f} s {job.runs:5} runs {job.nodes:7} nodes  "
              f"{job.method}, {job.setting}")  # fmt: skip
    print(f"written: {methods.REFERENCE_FILE}")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
