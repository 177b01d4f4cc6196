"""Parts of the training graph of every replica of a job: drawn before training, in a file.

The draws are those that the training itself would make, so that results stay equal to the bit. With
fresh noise the parts are a public draw: they depend on the job and the number of the replica alone.
A user may give a partition of her own (``graphs.partition``), which all replicas then have.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import safetensors.numpy

from private_graphs.core.errors import UserError
from private_graphs.core.files import atomic_path, write_text
from private_graphs.core.manifest import write_manifest
from private_graphs.core.streams import Streams
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.graphs.partition import Partition
from private_graphs.methods import method_named
from private_graphs.privacy.assumptions import NoiseSource
from private_graphs.running.jobs import Job
from private_graphs.running.run import Runner
from private_graphs.running.store import readable, remedy
from private_graphs.tasks.tasks import NodeTask

PARTS, SIZES = "parts.safetensors", "sizes.csv"


@dataclass(frozen=True)
class JobSplits:
    """Parts of the training nodes of every replica of a job."""

    parts: np.ndarray
    """(R, T) part of each training node, in the order of the job's requests."""
    sizes: pd.DataFrame
    """A row for every replica and part: replica_id, epsilon, seed, part, nodes, and, where the
    graph is published, ``edges`` within the part and all edges between parts (``edges_cut``)."""

    def save(self, folder: Path) -> None:
        """Write ``parts.safetensors`` and ``sizes.csv`` with their manifest."""
        kind = np.uint8 if self.parts.max(initial=0) < 256 else np.int32
        with atomic_path(folder / PARTS) as temporary:
            safetensors.numpy.save_file({"parts": self.parts.astype(kind)}, temporary)
        write_text(folder / SIZES, self.sizes.to_csv(index=False))
        write_manifest(folder, [PARTS, SIZES], (), "")


def read_parts(folder: Path) -> np.ndarray:
    """Return the (R, T) parts that ``JobSplits.save`` wrote; UserError for a damaged file."""
    with remedy("delete the folder"), readable(folder / PARTS) as path:
        return safetensors.numpy.load_file(path)["parts"].astype(np.int64)


def splits_of(
    job: Job,
    dataset: GraphDataset,
    *,
    chosen: pd.DataFrame | None = None,
    noise_source: NoiseSource = "seeded",
    given: Partition | None = None,
) -> JobSplits:
    """Draw the parts of all replicas of a job whose settings have splits, or take the ``given``.

    ``chosen`` are the rows of ``job.chosen.job``. Under ``os_entropy`` no edge is counted: their
    number is private. Raises UserError for a partition of other nodes than the training nodes.
    """
    runner = Runner.of(job, dataset, chosen, noise_source, False)
    draw = method_named(job.method).parts
    if draw is None:
        raise UserError(f"{job.id}: {job.method} has no splits; expected a method that has")
    parts, tables = [], []
    for number, request in enumerate(runner.requests):
        task = cast("NodeTask", runner.task_of(request.seed))
        partition: np.ndarray | None
        if given is not None:
            partition = _given(given, task.graph)
        else:
            streams = request.streams
            if noise_source == "os_entropy":
                streams = Streams.of({"parts": json.dumps([job.id, request.seed, number])})
            partition = draw(task, replace(request, streams=streams.public))
        if partition is None:
            raise UserError(f"{job.id}: its graph stays whole; expected settings with splits")
        parts.append(partition)
        name = request.streams.public_id if noise_source == "seeded" else str(number)
        epsilon = "inf" if math.isinf(request.epsilon) else f"{request.epsilon:g}"
        table = part_sizes(task.graph, partition, with_edges=noise_source == "seeded")
        tables.append(table.assign(replica_id=name, epsilon=epsilon, seed=request.seed))
    sizes = pd.concat(tables, ignore_index=True)
    first = ["replica_id", "epsilon", "seed"]
    return JobSplits(np.stack(parts), sizes[[*first, *sizes.columns.drop(first)]])


def part_sizes(graph: GraphDataset, parts: np.ndarray, with_edges: bool = True) -> pd.DataFrame:
    """Return nodes of each part, edges within it, and edges between parts; ``parts`` is (T,)."""
    count = int(parts.max()) + 1
    table = pd.DataFrame({"part": range(count), "nodes": np.bincount(parts, minlength=count)})
    if not with_edges:
        return table
    part = np.full(graph.n_nodes, -1)
    part[graph.train_mask] = parts
    first, second = part[graph.edge_index]
    within = first[(first == second) & (first >= 0)]
    cut = int(((first != second) & (first >= 0) & (second >= 0)).sum())
    return table.assign(edges=np.bincount(within, minlength=count), edges_cut=cut)


def _given(given: Partition, graph: GraphDataset) -> np.ndarray:
    train = np.flatnonzero(graph.train_mask)
    if not np.array_equal(given.nodes, train):
        wrong = np.setxor1d(given.nodes, train)[:3]
        raise UserError(
            f"splits: the file names {len(given.nodes)} nodes of {graph.info.name}; expected its "
            f"{len(train)} training nodes (differing: {', '.join(map(str, wrong))})"
        )
    return given.parts
