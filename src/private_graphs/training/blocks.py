"""Which rows each visit reads: the training and evaluation blocks of a batch of replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.sparse as sp

from private_graphs.core.streams import PublicStreams
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.graphs.normalise import gcn_propagation
from private_graphs.graphs.split import (
    edges_within,
    keyed_coin_sample,
    random_partition,
    stratified_sample,
)
from private_graphs.training.kernels import Blocks, Inputs, padded

if TYPE_CHECKING:
    from private_graphs.training.gcn_protocol import GcnProtocol


@dataclass(frozen=True)
class Structure:
    """Graphs, blocks, and which replica visits which block. R replicas, s parts."""

    inputs: Inputs
    blocks: Blocks
    parts: np.ndarray
    """(R, s) block of each part of each replica."""
    validation: np.ndarray
    """(R,) block that scores the validation nodes."""
    test: np.ndarray
    """(R,) block that scores the test nodes."""
    validation_nodes: np.ndarray
    test_nodes: np.ndarray
    joined: bool
    """Whether training blocks score the validation nodes too."""
    majority: np.ndarray
    """(R,) most frequent class of the labelled training nodes of each replica."""


class _Builder:
    """Collects graphs and blocks; lists are concatenated once at the end."""

    def __init__(self, features: sp.csr_array) -> None:
        self.features = features
        self.graphs: list[sp.csr_array] = []
        self.graph_of: list[int] = []
        self.n_loss: list[int] = []
        self.part: list[int] = []
        self.closed: list[bool] = []
        self.lists: dict[str, list[np.ndarray]] = {
            "rows0": [], "rows1": [], "rows2": [], "words": [],
        }  # fmt: skip

    def add_graph(self, edge_index: np.ndarray) -> int:
        self.graphs.append(gcn_propagation(edge_index, self.features.shape[0]))
        return len(self.graphs) - 1

    def add_block(
        self, graph: int, loss_nodes: np.ndarray, scored_nodes: np.ndarray | None = None,
        part: int = 0,
    ) -> int:  # fmt: skip
        """Add the block whose loss reads ``loss_nodes`` of ``graph``.

        ``scored_nodes`` are scored in the same forward pass, without entering the loss.
        """
        matrix = self.graphs[graph]
        rows2 = loss_nodes
        if scored_nodes is not None:
            rows2 = np.concatenate([loss_nodes, scored_nodes])
        rows1 = _columns(matrix, rows2)
        rows0 = _columns(matrix, rows1)
        words = _columns(self.features, rows0)
        for name, nodes in zip(self.lists, (rows0, rows1, rows2, words), strict=True):
            self.lists[name].append(nodes.astype(np.int32))
        self.graph_of.append(graph)
        self.n_loss.append(len(loss_nodes))
        self.part.append(part)
        self.closed.append(len(rows0) == len(rows1))  # rows1 are always among rows0
        return len(self.graph_of) - 1

    def blocks(self) -> Blocks:
        fields: dict[str, np.ndarray] = {
            "graph": np.array(self.graph_of, dtype=np.int64),
            "n_loss": np.array(self.n_loss, dtype=np.int64),
            "part": np.array(self.part, dtype=np.int64),
            "closed": np.array(self.closed, dtype=bool),
        }
        for name, lists in self.lists.items():
            sizes = [len(array) for array in lists]
            fields[f"{name}_start"] = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
            fields[name] = np.concatenate(lists).astype(np.int32)
        return Blocks(**fields)

    def inputs(self, labels: np.ndarray, n_classes: int, hidden: int, dtype) -> Inputs:
        sizes = np.cumsum([0] + [graph.nnz for graph in self.graphs])[:-1]
        pointers = [
            graph.indptr.astype(np.int64) + start
            for graph, start in zip(self.graphs, sizes, strict=True)
        ]
        return Inputs(
            x_pointers=self.features.indptr.astype(np.int64),
            x_indices=self.features.indices.astype(np.int32),
            x_values=self.features.data.astype(dtype),
            a_pointers=np.stack(pointers),
            a_indices=np.concatenate([graph.indices for graph in self.graphs]).astype(np.int32),
            a_values=np.concatenate([graph.data for graph in self.graphs]).astype(dtype),
            labels=labels.astype(np.int32),
            n_features=self.features.shape[1],
            n_classes=n_classes,
            n_hidden=hidden,
            hidden_lanes=(True,) * hidden,
            class_lanes=(True,) * padded(n_classes),
        )


def _columns(matrix: sp.csr_array, rows: np.ndarray) -> np.ndarray:
    """Return the sorted columns in which any of ``rows`` has a non-zero."""
    starts, ends = matrix.indptr[rows], matrix.indptr[rows + 1]
    lengths = ends - starts
    offsets = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    present = np.zeros(matrix.shape[1], dtype=bool)
    present[matrix.indices[np.arange(lengths.sum()) + offsets]] = True
    return np.flatnonzero(present)


def feature_matrix(dataset: GraphDataset) -> sp.csr_array:
    """Return the (N, F) features, whether they are stored dense or sparse."""
    features = dataset.features
    dense = isinstance(features, np.ndarray)
    return sp.csr_array(features if dense else features.to_scipy())


def training_labels(dataset: GraphDataset, protocol: GcnProtocol) -> np.ndarray:
    """Return (N,) labels as the protocol reads them; -1 stays outside every loss."""
    if protocol.unlabelled == "class_zero":
        return np.where(dataset.labels < 0, 0, dataset.labels)
    return dataset.labels


def sample_training_nodes(
    dataset: GraphDataset, protocol: GcnProtocol, fraction: float, streams: PublicStreams
) -> np.ndarray:
    """Return the training nodes that a replica keeps; the others leave the graph."""
    nodes = np.flatnonzero(dataset.train_mask)
    if fraction >= 1:
        return nodes
    generator = streams.generator("train_sample")
    if protocol.subsampling == "keyed_coin":
        return keyed_coin_sample(nodes, fraction, generator)
    labels = training_labels(dataset, protocol)
    return stratified_sample(nodes, labels[nodes], fraction, generator)


def build_structure(
    dataset: GraphDataset,
    protocol: GcnProtocol,
    *,
    splits: int,
    train_fraction: float,
    validation_graph: str,
    streams: Sequence[PublicStreams],
    hidden: int,
    dtype,
    parts_before: Sequence[np.ndarray | None] | None = None,
    join_validation: bool = False,
    members: Sequence[np.ndarray] | None = None,
    left_out: Literal["absent", "unlabelled"] = "absent",
) -> Structure:
    """Build the blocks of all replicas.

    ``validation_graph`` is ``whole_graph`` or ``evaluated_mask``. ``join_validation`` lets the
    training blocks score the validation nodes too (see ``engine.joins_validation``). Replicas
    share blocks wherever nothing random tells them apart. ``members`` are the training nodes of
    each replica, in place of a drawn sample; the others leave the graph, or stay in it
    ``unlabelled``, outside every loss. ``parts_before`` are the (T,) parts of the training nodes of
    each replica that were drawn before. Raises UserError for more splits than training nodes.
    """
    labels = training_labels(dataset, protocol)
    builder = _Builder(feature_matrix(dataset))
    validation_nodes = np.flatnonzero(dataset.validation_mask & (labels >= 0))
    test_nodes = np.flatnonzero(dataset.test_mask & (labels >= 0))
    own_structure = splits > 1 or train_fraction < 1 or members is not None
    removes = train_fraction < 1 or (members is not None and left_out == "absent")
    shared: dict[str, int] = {}
    parts, validation, test, majority = [], [], [], []
    for row, stream in enumerate(streams):
        if parts and not own_structure:
            for column in (parts, validation, test, majority):
                column.append(column[0])
            continue
        learned = sample = sample_training_nodes(dataset, protocol, train_fraction, stream)
        if members is not None:
            learned = members[row]
            sample = learned if left_out == "absent" else sample
        group = np.full(dataset.n_nodes, -1, dtype=np.int64)
        before = parts_before[row] if parts_before else None
        group[sample] = parts_of(dataset, sample, splits, stream, before)
        whole = _whole_graph(builder, dataset, sample, removes, shared)
        if protocol.message_passing == "whole_graph":
            graph = whole
        else:
            graph = builder.add_graph(edges_within(dataset.edge_index, group))
        loss_nodes = learned[labels[learned] >= 0]
        scored = validation_nodes if join_validation else None
        parts.append(
            [
                builder.add_block(graph, loss_nodes[group[loss_nodes] == p], scored, p)
                for p in range(splits)
            ]
        )
        for kind, mask, nodes, blocks in (
            (validation_graph, "validation_mask", validation_nodes, validation),
            (protocol.test_graph, "test_mask", test_nodes, test),
        ):
            if kind == "whole_graph" and removes:
                blocks.append(builder.add_block(whole, nodes))
                continue
            if mask not in shared:
                graph = whole if kind == "whole_graph" else _induced(builder, dataset, mask)
                shared[mask] = builder.add_block(graph, nodes)
            blocks.append(shared[mask])
        counts = np.bincount(labels[loss_nodes], minlength=dataset.n_classes)
        majority.append(int(counts.argmax()))
    return Structure(
        inputs=builder.inputs(labels, dataset.n_classes, hidden, dtype),
        blocks=builder.blocks(),
        parts=np.array(parts, dtype=np.int64),
        validation=np.array(validation, dtype=np.int64),
        test=np.array(test, dtype=np.int64),
        validation_nodes=validation_nodes,
        test_nodes=test_nodes,
        joined=join_validation,
        majority=np.array(majority, dtype=np.int64),
    )


def parts_of(
    dataset: GraphDataset,
    sample: np.ndarray,
    splits: int,
    streams: PublicStreams,
    before: np.ndarray | None = None,
) -> np.ndarray:
    """Return the part of each kept node, ``before`` if the (T,) training nodes have theirs.

    All training nodes are partitioned first, whichever are kept, so that a node's part depends on
    public facts alone (docs/privacy.md §3).
    """
    if splits == 1:
        return np.zeros(len(sample), dtype=np.int64)
    nodes = np.flatnonzero(dataset.train_mask)
    part = np.full(dataset.n_nodes, -1, dtype=np.int64)
    if before is None:
        before = random_partition(nodes, splits, streams.generator("partition"))
    part[nodes] = before
    return part[sample]


def _whole_graph(
    builder: _Builder,
    dataset: GraphDataset,
    sample: np.ndarray,
    removes: bool,
    shared: dict[str, int],
) -> int:
    """Add the graph of all nodes except the removed training nodes; return its number."""
    if not removes:
        if "whole" not in shared:
            shared["whole"] = builder.add_graph(dataset.edge_index)
        return shared["whole"]
    present = np.where(dataset.train_mask, -1, 0)
    present[sample] = 0
    return builder.add_graph(edges_within(dataset.edge_index, present))


def _induced(builder: _Builder, dataset: GraphDataset, mask: str) -> int:
    """Add the graph that the nodes of a mask induce; return its number."""
    group = np.where(getattr(dataset, mask), 0, -1)
    return builder.add_graph(edges_within(dataset.edge_index, group))
