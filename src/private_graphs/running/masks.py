"""Masks of training, validation and test nodes that a job draws at random or takes from METIS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from private_graphs.core.errors import UserError
from private_graphs.core.streams import Streams
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.running.jobs import Job


def with_drawn_masks(
    dataset: GraphDataset,
    test_share: float,
    validation_share: float,
    generator: np.random.Generator,
) -> GraphDataset:
    """Return ``dataset`` with uniformly drawn masks, independent of edges and labels.

    The test nodes for a generator do not depend on the other share. All other nodes train.
    """
    n = dataset.n_nodes
    order = generator.permutation(n)
    first = round(test_share * n)
    second = first + round(validation_share * n)
    places = np.empty(n, np.int64)
    places[order] = np.arange(n)
    return replace(
        dataset,
        test_mask=places < first,
        validation_mask=(first <= places) & (places < second),
        train_mask=places >= second,
    )


def with_metis_masks(dataset: GraphDataset, parts: int) -> GraphDataset:
    """Return ``dataset`` with the masks of DPAR's authors: of the parts that METIS makes, the fifth
    holds the test nodes, the sixth is left out, all others train.

    Raises UserError for a graph too small to have both.
    """
    from private_graphs.graphs.metis import metis_partition

    part = metis_partition(dataset.edge_index, dataset.n_nodes, parts)
    test, train = part == 4, (part != 4) & (part != 5)
    if not (test.any() and train.any()):
        raise UserError(
            f"{dataset.info.name}: METIS makes an empty part of its {dataset.n_nodes} nodes; "
            f"expected many more nodes than the {parts} parts"
        )
    nobody = np.zeros(dataset.n_nodes, bool)
    return replace(dataset, test_mask=test, validation_mask=nobody, train_mask=train)


def masked(job: Job, dataset: GraphDataset, seed: int) -> GraphDataset:
    """Return the dataset with the masks of ``seed``: as stored, drawn at random, or from METIS."""
    if job.test_share is not None:
        masks = Streams.of({"masks": "uniform", "seed": seed}).generator("masks")
        dataset = with_drawn_masks(dataset, job.test_share, job.validation_share, masks)
    if job.metis_parts:
        dataset = with_metis_masks(dataset, job.metis_parts)
    return dataset
