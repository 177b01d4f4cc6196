"""Copy the tables of a finished scale to a folder that is kept: ``docs/results``.

Run as ``python -m private_graphs.reporting.publish results/full docs/results``. Beside Table 1 and
its figure it writes how each learning rate scored and how long the cells trained.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pandas as pd

from private_graphs.errors import UserError
from private_graphs.files import atomic_path, write_text
from private_graphs.reporting.runs import collect, find_runs

KEPT = (
    "tables/{study}_table1.csv",
    "tables/{study}_table1.md",
    "tables/{study}_table3.md",
    "tables/{study}_table5.md",
    "figures/{study}_table1.png",
)


def publish(scale_folder: str | Path, target: str | Path, study: str = "lrec2022") -> list[Path]:
    """Copy what is kept of a finished scale and write ``<study>_runs.md`` beside it."""
    scale_folder, target = Path(scale_folder), Path(target)
    missing = [each.format(study=study) for each in KEPT]
    missing = [each for each in missing if not (scale_folder / each).is_file()]
    if missing:
        raise UserError(
            f"{scale_folder} lacks {', '.join(missing)}; expected a finished run: run snakemake "
            "with this scale first"
        )
    written = []
    for each in KEPT:
        source = scale_folder / each.format(study=study)
        with atomic_path(target / source.name) as temporary:
            shutil.copyfile(source, temporary)
        written.append(target / source.name)
    runs, _ = collect(find_runs(scale_folder, study))
    page = target / f"{study}_runs.md"
    write_text(page, "\n".join([*_learning_rates(runs), "", *_times(runs), ""]))
    return [*written, page]


def _learning_rates(runs: pd.DataFrame) -> list[str]:
    """Mean scores of every learning rate tried under DP with Adam, as a Markdown table."""
    tried = runs[(runs["optimizer"] == "adam") & (runs["noise_multiplier"] > 0)]
    keys = ["dataset", "protocol", "n_splits", "epsilon", "lr"]
    means = tried.groupby(keys)[["validation_micro_f1", "test_micro_f1", "selected"]].mean()
    lines = [
        "# Learning rates of Adam under DP",
        "",
        "Mean micro-F1 over the seeds. The choice reads the validation column alone.",
        "",
        "| dataset | protocol | splits | ε | learning rate | validation | test | chosen |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for (dataset, protocol, splits, epsilon, rate), row in means.iterrows():
        chosen = "yes" if row["selected"] > 0 else ""
        lines.append(
            f"| {dataset} | {protocol} | {splits} | {epsilon:g} | {rate:g} | "
            f"{row['validation_micro_f1']:.3f} | {row['test_micro_f1']:.3f} | {chosen} |"
        )
    return lines


def _times(runs: pd.DataFrame) -> list[str]:
    """Training time of every cell."""
    keys = ["dataset", "optimizer", "protocol", "n_splits"]
    cells = runs.groupby(keys).agg(
        runs=("seconds", "size"), epochs=("epochs", "sum"), seconds=("seconds", "sum")
    )
    lines = [
        "# Training time",
        "",
        "Seconds of training on one core, without the start of the job.",
        "",
        "| dataset | optimizer | protocol | splits | runs | epochs of all runs | seconds |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for (dataset, optimizer, protocol, splits), row in cells.iterrows():
        lines.append(
            f"| {dataset} | {optimizer} | {protocol} | {splits} | {row['runs']:.0f} | "
            f"{row['epochs']:.0f} | {row['seconds']:.1f} |"
        )
    lines.append(
        f"| all | | | | {len(runs)} | {runs['epochs'].sum()} | {cells.seconds.sum():.1f} |"
    )
    return lines


if __name__ == "__main__":
    try:
        for path in publish(*sys.argv[1:]):
            print(path)
    except UserError as error:
        sys.exit(f"error: {error}")
