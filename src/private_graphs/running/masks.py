"""Masks of training, validation and test nodes that a job draws at random or takes from METIS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from private_graphs.core.errors import UserError
from private_graphs.core.streams import Streams
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.running.jobs import Job


def with_drawn_masks(
    dataset: GraphDataset, test_share: float, validation_share: float, seed: int, *, by_torch: bool
) -> GraphDataset:
    """Return ``dataset`` with uniformly drawn masks, independent of edges and labels.

    The test nodes of a seed do not depend on the other share. All other nodes train. ``by_torch``:
    the masks that PyTorch Geometric's ``RandomNodeSplit`` draws after ``torch.manual_seed(seed)``,
    which takes the validation nodes first.
    """
    n = dataset.n_nodes
    sizes = {"test": round(test_share * n), "validation": round(validation_share * n)}
    if by_torch:
        import torch

        order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).numpy()
        sizes = dict(reversed(sizes.items()))
    else:
        masks = Streams.of({"masks": "uniform", "seed": seed}).generator("masks")
        order = masks.permutation(n)
    parts = dict(zip([*sizes, "train"], np.split(order, np.cumsum([*sizes.values()])), strict=True))
    test, validation, train = (
        np.isin(np.arange(n), parts[name]) for name in ("test", "validation", "train")
    )
    return replace(dataset, test_mask=test, validation_mask=validation, train_mask=train)


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
        drawn, by_torch = (seed, False) if job.mask_seed is None else (job.mask_seed, True)
        dataset = with_drawn_masks(
            dataset, job.test_share, job.validation_share, drawn, by_torch=by_torch
        )
    if job.metis_parts:
        dataset = with_metis_masks(dataset, job.metis_parts)
    return dataset
