"""Small graphs, a one-call trainer, and a dense GCN to compare the compiled kernels with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch
from torch.nn import functional

from private_graphs.core.streams import Streams
from private_graphs.datasets.graph_dataset import GraphDataset, SparseFeatures
from private_graphs.graphs.split import random_partition
from private_graphs.mechanisms.descent import Descent
from private_graphs.mechanisms.door import UNSEEN, Door, Watch
from private_graphs.methods.gcn_protocols import GcnSettings, training_event
from private_graphs.training import engine
from private_graphs.training.blocks import Structure, build_structure
from private_graphs.training.engine import EngineSettings, ReplicaSpec, Trained
from private_graphs.training.gcn_protocol import GcnProtocol

HIDDEN = 32  # one width everywhere: each width is compiled apart


def make_graph(
    edges, features, labels, *, train, validation, test, classes: int = 2, name: str = "small"
) -> GraphDataset:
    """Build a dataset from lists; ``edges`` are pairs in any order, the masks are node ids."""
    labels = np.asarray(labels, dtype=np.int64)
    pairs = sorted({(min(pair), max(pair)) for pair in edges})
    edge_index = np.array(pairs, dtype=np.int64).reshape(-1, 2).T.copy()
    everyone = np.arange(len(labels))
    return GraphDataset.generated(
        name, [f"class {c}" for c in range(classes)],
        sp.csr_matrix(np.asarray(features, dtype=np.float32)), edge_index, labels,
        [np.isin(everyone, nodes) for nodes in (train, validation, test)],
    )  # fmt: skip


def four_nodes(features=None, edges=((0, 1), (1, 2), (1, 3), (2, 3))) -> GraphDataset:
    """Training nodes 0 and 1, validation node 2, test node 3; 1 is tied to all others."""
    if features is None:
        features = [[1, 0, 2], [0, 1, 0], [0.5, 0, 1], [0, 3, 1]]
    return make_graph(edges, features, [0, 1, 0, 1], train=[0, 1], validation=[2], test=[3])


def random_graph(
    seed: int = 0,
    *,
    nodes: int = 60,
    features: int = 20,
    classes: int = 3,
    degree: float = 4.0,
    train: int | None = None,
    unlabelled: int = 0,
) -> GraphDataset:
    """Random edges and words; the first ``train`` nodes train, the others score by halves.

    The first ``unlabelled`` training nodes have no label.
    """
    generator = np.random.default_rng(seed)
    train = nodes // 2 if train is None else train
    upper = np.triu(generator.random((nodes, nodes)) < degree / nodes, 1)
    words = generator.random((nodes, features)) < 0.3
    labels = generator.integers(0, classes, nodes)
    labels[:unlabelled] = -1
    middle = (train + nodes) // 2
    return make_graph(
        np.argwhere(upper), words * generator.uniform(0.5, 1.5, words.shape), labels,
        train=range(train), validation=range(train, middle), test=range(middle, nodes),
        classes=classes,
    )  # fmt: skip


def with_parts(dataset: GraphDataset, **changes) -> GraphDataset:
    """Copy of a dataset with other arrays; ``features`` may be a dense matrix, ``edges`` pairs."""
    if "features" in changes:
        matrix = sp.csr_matrix(np.asarray(changes["features"], dtype=np.float32))
        changes["features"] = SparseFeatures.from_scipy(matrix)
    info = dataset.info
    if "edges" in changes:
        pairs = sorted({(min(pair), max(pair)) for pair in changes.pop("edges")})
        changes["edge_index"] = np.array(pairs, dtype=np.int64).reshape(-1, 2).T.copy()
        info = info.model_copy(update={"n_edges": len(pairs)})
    return replace(dataset, info=info, **changes)


def dense_features(dataset: GraphDataset) -> np.ndarray:
    """Features (N, F) float32."""
    return dataset.features.to_scipy().toarray()


def streams(*seeds: int | bytes) -> list[Streams]:
    """One stream per seed; bytes are a secret."""
    return [
        Streams.of({}, seed) if isinstance(seed, bytes) else Streams.of({"seed": seed})
        for seed in seeds
    ]


def structure_of(
    dataset: GraphDataset,
    protocol: GcnProtocol,
    *,
    seeds=(0,),
    splits: int = 1,
    train_fraction: float = 1.0,
    validation_graph: str | None = None,
    dtype: str = "float64",
    join_validation: bool = False,
) -> Structure:
    """The blocks of replicas, with the protocol's own evaluation graph unless another is named."""
    return build_structure(
        dataset, protocol, splits=splits, train_fraction=train_fraction,
        validation_graph=validation_graph or protocol.test_graph,
        streams=[each.public for each in streams(*seeds)], hidden=HIDDEN,
        dtype=np.dtype(dtype), join_validation=join_validation,
    )  # fmt: skip


def descent_of(
    protocol: GcnProtocol,
    chosen: EngineSettings,
    *,
    seeds,
    splits: int,
    noise=0.0,
    watch: Watch = UNSEEN,
) -> Descent:
    """The planned steps of one replica per seed; ``noise`` 0 plans none."""
    door, given = Door.of(streams(*seeds), watch), GcnSettings(
        splits=splits, epochs=chosen.epochs, clip_norm=chosen.clip_norm
    )  # fmt: skip
    queries = [
        training_event(given, protocol, float(multiplier)) if multiplier else None
        for multiplier in np.broadcast_to(noise, len(seeds))
    ]
    door.plan([[query] if query else [] for query in queries])
    return door.descent(queries, coins="order")


def replicas_of(seeds, lr=0.1) -> list[ReplicaSpec]:
    """One replica per seed; ``lr`` may be a list."""
    rates = np.broadcast_to(lr, len(seeds))
    return [
        ReplicaSpec(stream.public, float(rate))
        for stream, rate in zip(streams(*seeds), rates, strict=True)
    ]


def fit(
    dataset: GraphDataset,
    protocol: GcnProtocol,
    *,
    seeds=(0,),
    splits: int = 1,
    train_fraction: float = 1.0,
    noise=0.0,
    lr=0.1,
    dtype: str = "float64",
    threads: int = 1,
    structure: Structure | None = None,
    validation_graph: str | None = None,
    watch: Watch = UNSEEN,
    **settings,
) -> Trained:
    """Train one replica per seed; ``noise`` and ``lr`` may be lists, one value per replica.

    Noisy steps are those of the plan, but for replicas that stop early.
    """
    defaults = dict(optimizer="sgd", epochs=1, private=bool(np.any(noise)), dropout=0.0)
    chosen = EngineSettings(dtype=dtype, hidden=HIDDEN, **(defaults | settings))
    if structure is None:
        structure = structure_of(
            dataset, protocol, seeds=seeds, splits=splits, train_fraction=train_fraction,
            validation_graph=validation_graph, dtype=dtype,
            join_validation=engine.joins_validation(protocol, chosen, splits, train_fraction),
        )  # fmt: skip
    descent = descent_of(
        protocol, chosen, seeds=seeds, splits=structure.parts.shape[1], noise=noise, watch=watch
    )
    trained = engine.train(
        structure, protocol, chosen, replicas_of(seeds, lr), descent, threads=threads
    )
    if chosen.patience is None:
        descent.door.close()
    return trained


def by_reference(
    dataset: GraphDataset,
    protocol: GcnProtocol,
    *,
    seeds=(0,),
    splits: int = 1,
    train_fraction: float = 1.0,
    noise=0.0,
    lr=0.1,
    **settings,
) -> Trained:
    """As ``fit``, by PyTorch Geometric and Opacus, in float64."""
    from private_graphs.training import reference  # takes seconds to import

    defaults = dict(optimizer="sgd", epochs=1, private=bool(np.any(noise)), dropout=0.0)
    chosen = EngineSettings(**{"dtype": "float64", "hidden": HIDDEN} | defaults | settings)
    return reference.train(
        dataset, protocol, chosen, replicas_of(seeds, lr),
        descent_of(protocol, chosen, seeds=seeds, splits=splits, noise=noise), splits=splits,
        train_fraction=train_fraction, validation_graph=protocol.test_graph,
    )  # fmt: skip


def start(dataset: GraphDataset, seed: int | bytes = 0) -> np.ndarray:
    """Parameters (P,) before the first step."""
    return engine.initial_parameters(
        streams(seed)[0], dataset.n_features, HIDDEN, dataset.n_classes
    )


def by_tensor(flat, dataset: GraphDataset):
    """Split flat parameters (P,) into W1, b1, W2, b2 of their shapes."""
    f, k = dataset.n_features, dataset.n_classes
    ends = np.cumsum([f * HIDDEN, HIDDEN, HIDDEN * k])
    first, bias1, second, bias2 = (
        flat[begin:end] for begin, end in zip([0, *ends], [*ends, len(flat)], strict=True)
    )
    return first.reshape(f, HIDDEN), bias1, second.reshape(HIDDEN, k), bias2


def dense_propagation(n_nodes: int, edges) -> torch.Tensor:
    """D^(-1/2) (A + I) D^(-1/2), written out entry by entry."""
    matrix = np.eye(n_nodes)
    for i, j in edges:
        matrix[i, j] = matrix[j, i] = 1.0
    degree = matrix.sum(1)
    return torch.from_numpy(matrix / np.sqrt(degree[:, None] * degree[None, :]))


def dense_logits(flat: torch.Tensor, dataset: GraphDataset, propagation) -> torch.Tensor:
    """Logits (N, K) of the two-layer GCN without dropout, in float64."""
    first, bias1, second, bias2 = by_tensor(flat, dataset)
    x = torch.from_numpy(dense_features(dataset).astype(np.float64))
    hidden = torch.relu(propagation @ (x @ first) + bias1)
    return propagation @ (hidden @ second) + bias2


def dense_loss(flat: torch.Tensor, dataset: GraphDataset, propagation, nodes) -> torch.Tensor:
    """Mean cross-entropy of ``nodes``."""
    logits = dense_logits(flat, dataset, propagation)
    labels = torch.from_numpy(dataset.labels)
    return functional.cross_entropy(logits[nodes], labels[nodes])


def parts_of(dataset, splits: int, seed: int | bytes = 0) -> list[np.ndarray]:
    """Node ids of each part, as the replica of ``seed`` draws them."""
    nodes = np.flatnonzero(dataset.train_mask)
    if splits == 1:
        return [nodes]
    part = random_partition(nodes, splits, streams(seed)[0].generator("partition"))
    return [nodes[part == number] for number in range(splits)]


def part_gradients(dataset, parts, theta) -> torch.Tensor:
    """Gradients (parts, P) of the parts' mean losses, each on its own induced subgraph."""
    group = np.full(dataset.n_nodes, -1)
    for number, nodes in enumerate(parts):
        group[nodes] = number
    inside = [(i, j) for i, j in dataset.edge_index.T if group[i] == group[j] != -1]
    propagation = dense_propagation(dataset.n_nodes, inside)
    weights = np.zeros((len(parts), dataset.n_nodes))
    for number, nodes in enumerate(parts):
        labelled = nodes[dataset.labels[nodes] >= 0]
        weights[number, labelled] = 1 / max(1, len(labelled))
    labels = replace(dataset, labels=np.maximum(dataset.labels, 0))

    def weighted_loss(flat, weight):
        losses = torch.stack([dense_loss(flat, labels, propagation, [n]) for n in everyone])
        return (losses * weight).sum()

    everyone = range(dataset.n_nodes)
    gradient = torch.func.vmap(torch.func.grad(weighted_loss), in_dims=(None, 0))
    return gradient(torch.as_tensor(theta), torch.from_numpy(weights))


def clipped(gradients: torch.Tensor, clip: float) -> torch.Tensor:
    """Gradients (parts, P), each scaled down to a norm of at most ``clip``."""
    norms = gradients.norm(dim=1, keepdim=True)
    return gradients * (clip / norms.clamp(min=1e-300)).clamp(max=1.0)
