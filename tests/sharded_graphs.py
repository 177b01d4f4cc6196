"""Graphs in shards, written from whole ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.shards import ShardedGraph, write_graph
from private_graphs.methods.text_only import fit_text_model
from private_graphs.running.jobs import Job
from private_graphs.tasks.graph_task import GraphTask, build_graph_task
from private_graphs.tasks.tasks import SCENARIOS


def lists(matrix: sp.csr_matrix, values: bool) -> pa.Array:
    """Columns or values of the rows of a matrix."""
    kept = matrix.data if values else matrix.indices
    return pa.ListArray.from_arrays(matrix.indptr.astype(np.int32), pa.array(kept))


def in_shards(
    dataset: GraphDataset, job: Job, folder: Path, cuts: Sequence[float], backwards: bool = False
) -> ShardedGraph:
    """Write ``dataset`` for a job; ``cuts`` are the shares of the private part where shards end."""
    task = build_graph_task(dataset, SCENARIOS[job.scenario], job.delta, True, job.max_edges)
    stored = dataset.features.to_scipy()
    masks = (dataset.train_mask, dataset.validation_mask, dataset.test_mask)
    labelled = dataset.labels >= 0
    train, test = np.flatnonzero(masks[0]), np.flatnonzero(masks[2])
    validation = np.flatnonzero(masks[1] & labelled)
    public = {
        "validation_labels": dataset.labels[validation],
        "test_labels": dataset.labels[test],
        "test_records": test,
    }
    first = {}
    if job.scenario == "edges":
        model = fit_text_model(task)
        public |= {"train_labels": task.train_labels, "first": model.probabilities}
        first = {"configuration": model.configuration, "n_configurations": model.n_configurations,
                 "chosen_by": model.chosen_by}  # fmt: skip
        shards = _edges(task, folder, cuts)
    else:
        public |= {"validation_features": stored[validation], "test_features": stored[test]}
        near = None
        if job.scenario == "graph":
            public["public_adjacency"] = task.public_adjacency
            near = sp.lil_matrix((len(train), task.train_to_public.shape[1]))
            near[labelled[train]] = task.train_to_public
            near = near.tocsr()
        shards = _documents(stored[train], dataset.labels[train], near, folder, cuts)
    about = {
        "name": dataset.info.name, "scenario": job.scenario, "classes": dataset.info.classes,
        "n_features": dataset.n_features, "n_train": len(train), "features": dataset.info.features,
        "preprocessing": dataset.info.preprocessing, "first": first,
        "fingerprint": dataset.fingerprint,
    }  # fmt: skip
    return write_graph(folder, about, public, shards[::-1] if backwards else shards)


def _write(folder: Path, number: int, table: pa.Table) -> str:
    name = f"shards/{number:04}.parquet"
    (folder / "shards").mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / name, row_group_size=50)
    return name


def _documents(features, labels, near, folder, cuts) -> list[dict]:
    ends = [round(cut * len(labels)) for cut in cuts]
    files = []
    for number, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        some = slice(start, end)
        columns = {"label": labels[some], "columns": lists(features[some], False),
                   "values": lists(features[some], True)}  # fmt: skip
        if near is not None:
            columns["neighbours"] = lists(near[some], False)
        files.append({"file": _write(folder, number, pa.table(columns))})
    return files


def _edges(task: GraphTask, folder: Path, cuts: Sequence[float]) -> list[dict]:
    upper = sp.triu(task.adjacency, k=1).tocoo()
    order = np.lexsort((upper.col, upper.row))
    pairs = np.stack([upper.row, upper.col])[:, order].astype(np.int64)
    ends = [round(cut * task.adjacency.shape[0]) for cut in cuts]
    files = []
    for number, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        some = pairs[:, (pairs[0] >= start) & (pairs[0] < end)]
        name = _write(folder, number, pa.table({"source": some[0], "target": some[1]}))
        files.append({"file": name, "first": start, "end": end})
    return files
