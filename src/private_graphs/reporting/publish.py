"""Copy what a finished scale found to a folder that is kept, a folder per dataset.

Run as ``python -m private_graphs.reporting.publish results/full docs/results --datasets cora``.
``docs/results/<dataset>/`` holds the tables and figures of one dataset, how each learning rate
scored and how long every job took; other datasets' folders are left alone. Tables of all datasets
are composed from the folders that are there: ``docs/results/<study>_table1.{csv,md,png}``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from private_graphs import config
from private_graphs.cost.finished import TIMES_FILE, Finished, read_scale, write_times
from private_graphs.cost.probe import machine_words
from private_graphs.errors import UserError
from private_graphs.files import atomic_path, write_text
from private_graphs.reporting.figures import draw_scores, save_figure
from private_graphs.reporting.holdings import Holdings
from private_graphs.reporting.method_tables import NAMES
from private_graphs.reporting.publish_methods import (
    METHOD_TIMES_FILE,
    MethodHoldings,
    method_lines,
    write_method_times,
)
from private_graphs.reporting.runs import METHOD_COLUMNS, collect, find_runs
from private_graphs.reporting.score_tables import SCORE_TABLES, score_tables_of
from private_graphs.reporting.written_tables import WrittenTable, read_written

_SIZES = "table5"
"""The table of the datasets' sizes."""
_TABLES_TARGET, _FIGURES_TARGET = "tables", "figures"
"""What snakemake makes; figures come with their tables."""


def publish(
    scale_folder: str | Path,
    target: str | Path,
    datasets: Sequence[str] = (),
    study: str = "lrec2022",
) -> list[Path]:
    """Write the folder of each dataset, then the tables of all datasets; return the paths.

    ``datasets`` are by default those of the scale's tables of scores. Raises UserError where one
    of them lacks a cell of the study's default experiments or of one that was begun, a table or a
    picture, or where these are older than what they show.
    """
    scale_folder, target = Path(scale_folder), Path(target)
    stem = scale_folder / "tables" / study
    tables = {name: read_written(stem, name) for name in (_SIZES, "table3")}
    tables |= {
        each.name: read_written(stem, each.name)
        for each in score_tables_of(study)
        if stem.with_name(f"{study}_{each.name}.csv").is_file()
    }
    names = list(datasets) or _scored_datasets(tables, study)
    runs, _ = collect(find_runs(scale_folder, study))
    methods, _ = collect(find_runs(scale_folder, study, "methods"), METHOD_COLUMNS)
    known = config.load_study(study)
    held = [Holdings.of(scale_folder, known, name, runs) for name in names]
    for each in held:
        each.check_whole()
        tables |= {
            name: read_written(stem, name, each.remedy(name, _FIGURES_TARGET))
            for name in _exhibits(each)
        }
        _check_exhibits(each, tables)
    proved = {
        name: MethodHoldings(scale_folder, known, name, rows)
        for name, rows in methods.groupby("dataset")
        if name in names
    }
    for each in proved.values():
        each.check()
        tables |= {name: read_written(stem, name, each.remedy) for name in NAMES}
    jobs = read_scale(scale_folder)
    written = []
    for name, holdings in zip(names, held, strict=True):
        of_dataset = [job for job in jobs if job.task.dataset == name]
        folder = target / name
        written += _publish_tables(tables, holdings, folder)
        write_times(of_dataset, folder / TIMES_FILE)
        lines = _run_lines(holdings, runs[runs["dataset"] == name], of_dataset)
        if name in proved:
            paths, more = _publish_methods(tables, proved[name], folder)
            written += paths
            lines += ["", *more]
        write_text(folder / "runs.md", "\n".join([*lines, ""]))
        written += [folder / TIMES_FILE, folder / "runs.md"]
        for path in set(folder.glob("figure*")) - set(written):
            path.unlink()  # of an earlier run, whose other files have just been replaced
    written += tables["table3"].write(target / f"{study}_table3")
    if stem.with_name(f"{study}_audit.csv").is_file():
        written += read_written(stem, "audit").write(target / f"{study}_audit")
    return written + compose(target, study)


def compose(target: str | Path, study: str = "lrec2022") -> list[Path]:
    """Write the tables of scores and of sizes of all datasets that have a folder below ``target``.

    Columns that folders of earlier versions lack are empty for their datasets.
    """
    target, written = Path(target), []
    scored = {each.name: each for each in score_tables_of(study)}
    for name in (*scored, *NAMES, _SIZES):
        folders = sorted(path.parent for path in target.glob(f"*/{name}.csv"))
        if not folders:
            continue
        parts = {folder: read_written(folder, name, joint="/") for folder in folders}
        # The widest first: the others have no column that it lacks.
        widest = max(folders, key=lambda each: len(parts[each].frame.columns))
        columns = list(parts[widest].frame)
        for folder, part in parts.items():
            shared = [each for each in columns if each in part.frame]
            if part.head != parts[widest].head or list(part.frame) != shared:
                raise UserError(
                    f"{folder}/{name}.csv has other columns than {widest}/{name}.csv; expected "
                    "folders written by one version: publish their runs again"
                )
        frames = [part.frame.reindex(columns=columns) for part in parts.values()]
        notes = [line for part in parts.values() for line in part.notes]
        whole = replace(
            parts[widest],
            frame=pd.concat(frames, ignore_index=True),
            rows=[row for part in parts.values() for row in part.rows],
            notes=list(dict.fromkeys(notes)),
        )
        written += whole.write(target / f"{study}_{name}")
        if name in scored:
            picture = draw_scores(whole.frame, scored[name])
            written += save_figure(picture, target / f"{study}_{name}", ["png"])
    return written


# --- one dataset -----------------------------------------------------------------------------


def _scored_datasets(tables: Mapping[str, WrittenTable], study: str) -> list[str]:
    """Return the datasets of all tables of scores."""
    scored = [tables[each.name] for each in score_tables_of(study) if each.name in tables]
    return list(dict.fromkeys(name for table in scored for name in table.frame["dataset"]))


def _exhibits(holdings: Holdings) -> list[str]:
    """Names of the tables of scores and figures of all experiments that have finished cells."""
    return [name for each in holdings.experiments() for name in holdings.exhibits(each)]


def _figures(holdings: Holdings) -> list[str]:
    """Names of the figures among the exhibits."""
    return [name for each in holdings.experiments().values() for name in each.figures]


def _check_exhibits(holdings: Holdings, tables: Mapping[str, WrittenTable]) -> None:
    """Raise UserError where a table or picture of the dataset is missing or out of date."""
    dataset, study = holdings.dataset, holdings.study.id
    figures = _figures(holdings)
    for name in (*_exhibits(holdings), _SIZES):
        if not tables[name].of(dataset).rows:
            target = _FIGURES_TARGET if name in figures else _TABLES_TARGET
            raise UserError(
                f"{holdings.folder}/tables/{study}_{name}.csv has no row of {dataset!r}; expected "
                f"its tables to be written: {holdings.remedy(name, target)}"
            )
    for experiment in holdings.experiments():
        for name in holdings.exhibits(experiment):
            csv = holdings.folder / "tables" / f"{study}_{name}.csv"
            target = _FIGURES_TARGET if name in figures else _TABLES_TARGET
            holdings.check_fresh(name, csv, holdings.run_files(experiment), target)
    for name in figures:
        csv, drawn = holdings.folder / "tables" / f"{study}_{name}.csv", _drawn(holdings, name)
        if not drawn.is_file():
            raise UserError(
                f"{drawn} is missing; expected the figures of a finished run: "
                f"{holdings.remedy(name, _FIGURES_TARGET)}"
            )
        holdings.check_fresh(name, drawn, [csv], _FIGURES_TARGET)


def _drawn(holdings: Holdings, figure: str) -> Path:
    name = f"{holdings.study.id}_{figure}_{holdings.dataset}.png"
    return holdings.folder / "figures" / name


def _publish_tables(
    tables: Mapping[str, WrittenTable], holdings: Holdings, folder: Path
) -> list[Path]:
    """Write the rows of the dataset of every table and figure, and its pictures."""
    written: list[Path] = []
    dataset, study, figures = holdings.dataset, holdings.study.id, _figures(holdings)
    for name in (*_exhibits(holdings), _SIZES):
        mine = tables[name].of(dataset)
        written += mine.write(folder / name)
        if name in figures:
            written.append(_copy(_drawn(holdings, name), folder / f"{name}.png"))
        elif (study, name) in SCORE_TABLES:
            picture = draw_scores(mine.frame, SCORE_TABLES[study, name])
            written += save_figure(picture, folder / name, ["png"])
    return written


def _publish_methods(
    tables: Mapping[str, WrittenTable], holdings: MethodHoldings, folder: Path
) -> tuple[list[Path], list[str]]:
    """Write tables, pictures and times of proved methods; return paths and lines of the page."""
    written: list[Path] = []
    for name in NAMES:
        written += tables[name].of(holdings.dataset).write(folder / name)
    for name, picture in holdings.pictures().items():
        written.append(_copy(picture, folder / f"{name}.png"))
    times = holdings.times()
    write_method_times(times, folder / METHOD_TIMES_FILE)
    return [*written, folder / METHOD_TIMES_FILE], method_lines(holdings, times)


def _copy(source: Path, target: Path) -> Path:
    with atomic_path(target) as temporary:
        shutil.copyfile(source, temporary)
    return target


# --- the page about the runs -----------------------------------------------------------------


def _run_lines(holdings: Holdings, runs: pd.DataFrame, jobs: list[Finished]) -> list[str]:
    """Commands, machine, hours, and the learning rates that were tried, as Markdown."""
    settings = holdings.settings(holdings.parts())
    return [
        f"# The runs on {holdings.dataset}",
        "",
        "```",
        *(f"snakemake {each} [mirror=DIR]" for each in settings),
        f"python -m private_graphs.reporting.publish results/{holdings.folder.name} docs/results "
        f"--datasets {holdings.dataset}",
        "```",
        "",
        *_times(jobs),
        "",
        *_learning_rates(runs),
    ]


def _times(jobs: Sequence[Finished]) -> list[str]:
    """Jobs, runs and hours by experiment and number of splits."""
    groups: dict[tuple[str, int], list[Finished]] = {}
    for job in sorted(jobs, key=lambda job: (job.experiment.lower(), job.task.splits)):
        groups.setdefault((job.experiment, job.task.splits), []).append(job)
    lines = [
        f"Machine: {machine_words()}. Hours of one core; a job runs on one. Every job is in "
        f"[{TIMES_FILE}]({TIMES_FILE}).",
        "",
        "| experiment | splits | jobs | runs | epochs of all runs | hours of training | of jobs |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for (experiment, splits), members in groups.items():
        lines.append(f"| {experiment} | {splits} | {_summed(members)} |")
    return [*lines, f"| all | | {_summed(jobs)} |"]


def _summed(jobs: Sequence[Finished]) -> str:
    runs = sum(job.task.private_runs + job.task.non_private_runs for job in jobs)
    epochs = sum(job.task.private_epochs + job.task.non_private_epochs for job in jobs)
    hours = []
    for name in ("training_seconds", "job_seconds"):
        known = [value for job in jobs if (value := getattr(job, name)) is not None]
        hours.append(f"{sum(known) / 3600:.3f}" if known else "")
    return " | ".join([str(len(jobs)), str(runs), f"{epochs:.0f}", *hours])


def _learning_rates(runs: pd.DataFrame) -> list[str]:
    """Mean scores of every learning rate wherever several were tried, as a Markdown table."""
    keys = ["experiment", "optimizer", "protocol", "n_splits", "epsilon"]
    several = runs.groupby([*keys, "train_fraction"])["lr"].transform("nunique") > 1
    columns = ["validation_micro_f1", "test_micro_f1", "selected"]
    means = runs[several].groupby([*keys, "lr"])[columns].mean()
    lines = [
        "## Learning rates",
        "",
        "Mean micro-F1 over the seeds wherever several learning rates were tried. The choice reads "
        "the validation column alone.",
        "",
        "| experiment | optimizer | protocol | splits | ε | learning rate | validation | test | "
        "chosen |",
        "|---|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for key, row in means.iterrows():
        experiment, optimizer, protocol, splits, epsilon, rate = key
        chosen = "yes" if row["selected"] > 0 else ""
        lines.append(
            f"| {experiment} | {optimizer} | {protocol} | {splits} | {epsilon:g} | {rate:g} | "
            f"{row['validation_micro_f1']:.3f} | {row['test_micro_f1']:.3f} | {chosen} |"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Publish what the command line names and print the paths."""
    parser = argparse.ArgumentParser(prog="python -m private_graphs.reporting.publish")
    parser.add_argument("scale_folder", help="such as results/full")
    parser.add_argument("target", help="such as docs/results")
    parser.add_argument("--datasets", default="", help="a,b; all that have scores if left out")
    parser.add_argument("--study", default="lrec2022")
    given = parser.parse_args(arguments)
    names = [name for name in given.datasets.split(",") if name]
    for path in publish(given.scale_folder, given.target, names, given.study):
        print(path)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
