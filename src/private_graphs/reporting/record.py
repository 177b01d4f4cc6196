"""Record the finished cells of a scale in three files per study, to compare later runs with.

Run as ``python -m private_graphs.reporting.record results/full recorded``.
``recorded/<study>/`` holds ``rows.parquet`` (the rows of all trainings and proved methods),
``statements.json``, ``predictions.safetensors`` and ``README.md`` (commands, machine, hours). Equal
results give equal bytes. Results without published seeds are refused.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import safetensors
import safetensors.numpy

from private_graphs import __version__
from private_graphs.cost.finished import job_seconds
from private_graphs.cost.probe import machine_words
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.errors import UserError
from private_graphs.files import atomic_path, write_json, write_text
from private_graphs.reporting.runs import (
    METHOD_COLUMNS,
    RUN_COLUMNS,
    collect,
    find_runs,
    read_statements,
)
from private_graphs.training.metrics import scores

ROWS, STATEMENTS, PREDICTIONS = "rows.parquet", "statements.json", "predictions.safetensors"
_COLUMNS = {"runs": RUN_COLUMNS, "methods": METHOD_COLUMNS}
_JOBS = {"runs": "train", "methods": "method"}
"""Rule of the workflow that makes the cells of a folder; its benchmark files are named so."""
_MOST_CLASSES = 256


@dataclass(frozen=True)
class Recorded:
    """The recorded results of one study."""

    rows: pd.DataFrame
    """Columns of both kinds of run tables, null where a kind has none; ``cell`` is the folder below
    ``results/<scale>``, such as ``runs/lrec2022/table1/…`` or ``methods/lrec2022/frontier/…``."""
    statements: dict[str, dict[str, Any]]
    """Privacy statements by identifier."""
    predictions: dict[str, np.ndarray]
    """Of each cell: (R, M) uint8 classes of its R rows, in their order in ``rows``."""
    test_nodes: dict[str, np.ndarray]
    """Of each graph (``graph_of``): (M,) int64 numbers of the nodes that are predicted."""

    def graph_of(self, cell: str) -> str:
        """Return the name under which ``test_nodes`` holds those of a cell."""
        return _graph(self.rows[self.rows["cell"] == cell].iloc[0])

    def check_scores(self, labels: Mapping[str, np.ndarray]) -> int:
        """Compute the test scores of every row from its predictions; return how many rows.

        ``labels`` are the (N,) labels of graphs by their names in ``test_nodes``, -1 where there is
        none; rows of other graphs are left out. Raises UserError where a row says otherwise.
        """
        checked = 0
        for cell, rows in self.rows.groupby("cell"):
            graph = self.graph_of(cell)
            if graph not in labels:
                continue
            truth = labels[graph][self.test_nodes[graph]]
            scored = truth >= 0
            for row, predicted in zip(rows.itertuples(), self.predictions[cell], strict=True):
                found = scores(truth[scored], predicted[scored].astype(np.int64))
                for name, value in found.items():
                    said = getattr(row, f"test_{name}")
                    if not np.isclose(said, value, rtol=0, atol=1e-9):
                        raise UserError(
                            f"{cell}: row {row.replica_id} says test_{name} {said}, its "
                            f"predictions score {value} on {graph}; expected the same: train the "
                            "cell again, and record"
                        )
            checked += len(rows)
        return checked


def record(
    scale_folder: str | Path,
    target: str | Path,
    *,
    processed: str | Path = "data/processed",
    commands: Sequence[str] = (),
    day: str = "",
    machine: str = "",
) -> list[Path]:
    """Write ``target/<study>/`` of every study that has finished cells; return the paths.

    ``processed`` is the folder of the built datasets: where that of a row is there, its scores are
    computed from its predictions and compared. ``commands``, ``day`` and ``machine`` go to the
    README; the last two are by default today and this machine. Raises UserError where nothing is
    finished, a cell lacks a file or contradicts itself, or its seeds are secret.
    """
    scale_folder, target = Path(scale_folder), Path(target)
    studies = sorted({path.name for kind in _COLUMNS for path in scale_folder.glob(f"{kind}/*")})
    written = []
    for study in studies:
        tables, statements = [], {}
        for kind, columns in _COLUMNS.items():
            rows, found = collect(find_runs(scale_folder, study, kind), columns)
            if len(rows):
                rows["cell"] = [
                    Path(each).relative_to(scale_folder).as_posix() for each in rows["cell"]
                ]
                tables.append(pyarrow.Table.from_pandas(rows, preserve_index=False))
                statements |= found
        if not tables:
            continue
        whole = pyarrow.concat_tables(tables, promote_options="permissive")
        whole = whole.replace_schema_metadata(None)
        rows = whole.to_pandas()
        _refuse_secret_seeds(rows)
        predictions, nodes = _predictions(scale_folder, rows)
        recorded = Recorded(rows, statements, predictions, nodes)
        checked = recorded.check_scores(_labels(Path(processed), rows))
        folder = target / study
        with atomic_path(folder / ROWS) as temporary:
            pyarrow.parquet.write_table(whole, temporary, compression="zstd", compression_level=19)
        write_json(folder / STATEMENTS, dict(sorted(statements.items())))
        _save_predictions(recorded, folder / PREDICTIONS)
        lines = _page(
            study,
            recorded,
            commands,
            day or date.today().isoformat(),
            machine or machine_words(),
            _hours(scale_folder, rows),
            checked,
        )
        write_text(folder / "README.md", "\n".join([*lines, ""]))
        read_recorded(folder)
        written += [folder / name for name in (ROWS, STATEMENTS, PREDICTIONS, "README.md")]
    if not written:
        raise UserError(
            f"{scale_folder}: no finished cell in runs/ or methods/; expected the results of a "
            "scale, such as results/full: run snakemake first"
        )
    return written


def read_recorded(folder: str | Path) -> Recorded:
    """Return what ``record`` wrote to ``recorded/<study>``.

    Raises UserError where a file is missing or damaged, a statement is not valid, a row has no
    statement, or the predictions are not those of the rows.
    """
    folder = Path(folder)
    for name in (ROWS, STATEMENTS, PREDICTIONS):
        if not (folder / name).is_file():
            raise UserError(
                f"{folder / name}: no such file; expected the recorded results of a study: write "
                "them with python -m private_graphs.reporting.record RESULTS RECORDED"
            )
    rows = pd.read_parquet(folder / ROWS)
    statements = read_statements(folder / STATEMENTS)
    missing = sorted(set(rows["statement_id"]) ^ set(statements))
    if missing:
        raise UserError(
            f"{folder / STATEMENTS}: {', '.join(missing[:3])} stand in it or in {ROWS} alone; "
            "expected one statement for every row, and no other: record again"
        )
    with safetensors.safe_open(folder / PREDICTIONS, "numpy") as stored:
        order = json.loads(stored.metadata()["replica_ids"])
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}
    nodes = {
        name.removeprefix(_NODES): tensor
        for name, tensor in tensors.items()
        if name.startswith(_NODES)
    }
    cells = {cell: group["replica_id"].tolist() for cell, group in rows.groupby("cell")}
    predictions = {name: each for name, each in tensors.items() if not name.startswith(_NODES)}
    if order != cells or set(predictions) != set(cells):
        raise UserError(
            f"{folder / PREDICTIONS}: holds other runs than {ROWS}, or in another order; expected "
            "the same: record again"
        )
    recorded = Recorded(rows, statements, predictions, nodes)
    for cell, found in predictions.items():
        expected = (len(cells[cell]), len(nodes[recorded.graph_of(cell)]))
        if found.shape != expected or found.dtype != np.uint8:
            raise UserError(
                f"{folder / PREDICTIONS}: {cell} is {found.dtype} of shape {found.shape}; expected "
                f"uint8 of shape {expected}: record again"
            )
    return recorded


# --- predictions and labels ---

_NODES = "test_nodes/"
"""What the names of the tensors of test nodes begin with; others have the name of a cell."""


def _graph(row: Any) -> str:
    """Name of the graph of a row: nodes may differ between the views of the raw files."""
    return row["dataset"] if pd.isna(row["view"]) else f"{row['dataset']}/{row['view']}"


def _predictions(
    scale_folder: Path, rows: pd.DataFrame
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the predictions of all cells, in the order of ``rows``, and the nodes of graphs."""
    predictions, nodes = {}, {}
    for cell, group in rows.groupby("cell"):
        path = scale_folder / cell / PREDICTIONS
        try:
            with safetensors.safe_open(path, "numpy") as stored:
                order = json.loads(stored.metadata()["replica_ids"])
                classes, own = stored.get_tensor("predictions"), stored.get_tensor("test_nodes")
        except (OSError, KeyError, TypeError, ValueError, safetensors.SafetensorError) as error:
            raise UserError(
                f"{path}: not readable predictions ({error}); delete {path.parent} and train the "
                "cell again"
            ) from error
        graph = _graph(group.iloc[0])
        if not np.array_equal(nodes.setdefault(graph, own), own):
            raise UserError(
                f"{path}: other test nodes than those of an earlier cell of {graph}; expected one "
                f"set of them per graph: delete {path.parent} and train the cell again"
            )
        if order != group["replica_id"].tolist() or classes.shape != (len(group), len(own)):
            raise UserError(
                f"{path}: {classes.shape} predictions of other runs than the {len(group)} of "
                f"runs.parquet; delete {path.parent} and train the cell again"
            )
        if classes.min(initial=0) < 0 or classes.max(initial=0) >= _MOST_CLASSES:
            raise UserError(
                f"{path}: classes {classes.min()} to {classes.max()}; expected 0 to "
                f"{_MOST_CLASSES - 1}, which one byte holds: such a dataset cannot be recorded"
            )
        predictions[cell] = classes.astype(np.uint8)
    return predictions, nodes


def _save_predictions(recorded: Recorded, path: Path) -> None:
    tensors = {f"{_NODES}{name}": each for name, each in recorded.test_nodes.items()}
    cells = recorded.rows.groupby("cell")["replica_id"].agg(list).to_dict()
    # one entry: the library writes several in an order that changes from run to run
    order = {"replica_ids": json.dumps(cells, sort_keys=True)}
    with atomic_path(path) as temporary:
        safetensors.numpy.save_file(tensors | recorded.predictions, temporary, metadata=order)


def _labels(processed: Path, rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the labels of the graphs whose built datasets are there, by ``_graph``."""
    found = {}
    for _, row in rows.drop_duplicates(["dataset", "features", "view"]).iterrows():
        place = [row["dataset"]]
        if not pd.isna(row["view"]):
            place += [row["features"], row["view"]]
        folder = processed.joinpath(*place)
        if folder.is_dir() and _graph(row) not in found:
            found[_graph(row)] = GraphDataset.load(folder).labels
    return found


def _refuse_secret_seeds(rows: pd.DataFrame) -> None:
    secret = rows[rows["noise_source"] != "seeded"]
    if len(secret):
        raise UserError(
            f"{secret['cell'].iloc[0]}: noise source {secret['noise_source'].iloc[0]}; expected "
            "seeded: nobody can repeat runs with secret seeds, and their rows without DP and their "
            "scores are private; record a scale without them"
        )


# --- the page beside them ---


def _hours(scale_folder: Path, rows: pd.DataFrame) -> float:
    """Wall hours of all jobs by their benchmark files; of training alone where one has none."""
    total = 0.0
    for cell, group in rows.groupby("cell"):
        kind, place = cell.split("/", 1)
        training = group["seconds"].sum()
        benchmark = scale_folder / "benchmarks" / _JOBS[kind] / f"{place}.tsv"
        total += job_seconds(benchmark, training) or training
    return total / 3600


def _page(
    study: str,
    recorded: Recorded,
    commands: Iterable[str],
    day: str,
    machine: str,
    hours: float,
    checked: int,
) -> list[str]:
    """Return the lines of README.md."""
    rows = recorded.rows
    counts = rows.groupby(["dataset", "experiment"]).agg(
        cells=("cell", "nunique"), rows=("cell", "size")
    )
    return [
        f"# Recorded results of {study}",
        "",
        f"private-graphs {__version__}, {day}. Machine: {machine}. All jobs: {hours:.2f} hours.",
        "",
        *(["```", *commands, "```", ""] if commands else []),
        "| dataset | experiment | cells | rows |",
        "|---|---|---:|---:|",
        *(
            f"| {name} | {made} | {row.cells} | {row.rows} |"
            for (name, made), row in zip(counts.index, counts.itertuples(), strict=True)
        ),
        "",
        f"- `{ROWS}`: {len(rows)} rows with the columns of trainings and of proved methods; `cell` "
        "is the folder below `results/<scale>`.",
        f"- `{STATEMENTS}`: {len(recorded.statements)} privacy statements by identifier.",
        f"- `{PREDICTIONS}`: of each cell the uint8 classes of its rows, in their order; of each "
        "graph the numbers of its test nodes.",
        "",
        f"The test scores of {checked} rows were computed from their predictions, and are those of "
        "the rows. Every run has a published seed: these files show what the code does on public "
        "data, and protect nobody. `private_graphs.reporting.record.read_recorded` reads them.",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Record what the command line names and print the paths."""
    parser = argparse.ArgumentParser(prog="python -m private_graphs.reporting.record")
    parser.add_argument("scale_folder", help="such as results/full")
    parser.add_argument("target", help="such as recorded")
    parser.add_argument("--processed", default="data/processed", help="the built datasets")
    parser.add_argument("--command", action="append", default=[], help="what made the results")
    parser.add_argument("--day", default="", help="of the README; today if left out")
    parser.add_argument("--machine", default="", help="of the README; this one if left out")
    given = parser.parse_args(arguments)
    written = record(
        given.scale_folder, given.target, processed=given.processed, commands=given.command,
        day=given.day, machine=given.machine,
    )  # fmt: skip
    for path in written:
        print(path)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
