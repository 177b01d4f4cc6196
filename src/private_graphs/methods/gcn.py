"""Two-layer GCN with SGD or Adam, non-private or with clipped, noisy gradients.

Source: Igamberdiev & Habernal, LREC 2022, Sections 3-5; Kipf & Welling, ICLR 2017. One call trains
one cell: all its replicas (seed × ε × learning rate) together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from private_graphs.cells import Cell, CellPlan
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.devices import resolve_device
from private_graphs.errors import UsageError, UserError
from private_graphs.methods.budgets import Budget, budget, training_event
from private_graphs.methods.emitted import check_released
from private_graphs.methods.result import (
    CellResult,
    NoiseSource,
    new_secret,
    told_fingerprint,
)
from private_graphs.methods.search import Search
from private_graphs.protocols import PROTOCOLS, SOUND_POISSON, Protocol
from private_graphs.training import engine
from private_graphs.training.blocks import Structure, build_structure
from private_graphs.training.engine import Progress, ReplicaSpec, Settings
from private_graphs.training.metrics import majority_score, random_score, scores
from private_graphs.training.streams import Streams

_SETTINGS = {"epochs", "delta", "clip_norm", "weight_decay", "hidden", "dropout"}
"""Settings that, beside cell, noise, learning rate and seed, tell replicas apart."""


def protocol_of(cell: Cell) -> Protocol:
    """Return the protocol of a cell with the visits that the cell asks for."""
    protocol = PROTOCOLS[cell.protocol]
    if cell.visits == "protocol":
        return protocol
    if protocol.calibration != "proved":
        raise UsageError(
            f"visits: {cell.visits!r} asked of the protocol {protocol.name!r}, whose own are "
            f"{protocol.visits!r}; only sound has a choice: leave visits out"
        )
    return SOUND_POISSON if cell.visits == "poisson" else protocol


@dataclass(frozen=True)
class Replica:
    """One training run of the cell."""

    seed: int
    learning_rate: float
    budget: Budget
    streams: Streams
    replica_id: str


def train_cell(
    plan: CellPlan,
    dataset: GraphDataset,
    *,
    device: str = "auto",
    threads: int = 1,
    noise_source: NoiseSource = "seeded",
    progress: Progress | None = None,
    search: Search | None = None,
    code_fingerprint: str = "",
) -> CellResult:
    """Train every replica of the plan and return runs, statements and test predictions.

    ``device`` is auto, cpu or cuda; ``threads`` share out the replicas. Under ``os_entropy`` every
    stream also depends on fresh secret bytes, and the run cannot be repeated; with a finite ε it
    needs the CPU (``device_of``). ``search`` is the finished choice that ``plan.chosen_in`` asks
    for (``read_search``). Raises UserError for plans that cannot be carried out (too many splits,
    an impossible budget, a choice that is missing).
    """
    if plan.chosen_in != (search.choice if search else None):
        raise UserError(
            f"{plan.cell.cell_id}: the learning rate is to be chosen in {plan.chosen_in}; "
            f"found {search}: train that cell first and read its choice"
        )
    device = device_of(plan, device, noise_source)
    protocol = protocol_of(plan.cell)
    secret = new_secret(noise_source)
    replicas = _replicas(plan, protocol, dataset, secret, device, search)
    frames, predictions, offset = [], [], 0
    total = len(replicas) * plan.epochs
    test_nodes = np.empty(0, dtype=np.int64)
    for private in (False, True):
        group = [each for each in replicas if each.budget.private == private]
        if not group:
            continue
        report = _shifted(progress, offset, total)
        structure, trained = _train_group(
            plan, protocol, dataset, group, private, device, threads, report
        )
        frames.append(_rows(plan, protocol, dataset, group, structure, trained, device))
        predictions.append(trained.test_predictions)
        test_nodes = structure.test_nodes
        offset += len(group) * plan.epochs
    runs = pd.concat(frames, ignore_index=True)
    runs["selected"] = _selected(runs)
    if noise_source == "os_entropy":  # docs/privacy.md §5: no duration, no private majority class
        runs["seconds"] = math.nan
        runs["majority_micro_f1"] = _public_majority(dataset)
    runs["noise_source"] = noise_source
    runs["code_fingerprint"] = code_fingerprint
    runs["data_fingerprint"] = told_fingerprint(dataset.fingerprint, secret)
    statements = {each.budget.statement_id: each.budget.statement for each in replicas}
    return CellResult(runs, statements, test_nodes, np.concatenate(predictions))


def device_of(plan: CellPlan, device: str, noise_source: NoiseSource) -> str:
    """Return cpu or cuda for the runs of ``plan``; ``device`` is auto, cpu or cuda.

    Raises UserError for cuda where there is no GPU, and where noise of ``os_entropy`` is added.
    """
    noisy = any(math.isfinite(epsilon) for epsilon in plan.epsilons)
    return resolve_device(device, secret_noise=noisy and noise_source == "os_entropy")


def _shifted(progress: Progress | None, offset: int, total: int) -> Progress | None:
    if progress is None:
        return None
    return lambda done, _: progress(offset + done, total)


def _replicas(
    plan: CellPlan,
    protocol: Protocol,
    dataset: GraphDataset,
    secret: bytes | None,
    device: str,
    search: Search | None = None,
) -> list[Replica]:
    """Replicas in the order of their rows; ``secret`` is None for seeded ones."""
    noise_source: NoiseSource = "os_entropy" if secret else "seeded"
    fingerprint = told_fingerprint(dataset.fingerprint, secret)
    found = []
    for epsilon in plan.epsilons:
        grid = plan.rates(epsilon, search.learning_rate if search else None)
        bought = budget(plan, protocol, dataset, epsilon, noise_source, device, search, fingerprint)
        for learning_rate in grid:
            for seed in plan.seeds:
                identity = {
                    "data": dataset.fingerprint,
                    "cell": plan.cell.identity(),
                    "visits": protocol.visits,
                    "settings": plan.model_dump(mode="json", include=_SETTINGS),
                    "epsilon": "inf" if math.isinf(epsilon) else epsilon,
                    "noise": bought.noise_multiplier,
                    "learning_rate": learning_rate,
                    "seed": seed,
                }
                streams = Streams.of(identity, secret)
                found.append(
                    Replica(
                        seed=seed,
                        learning_rate=learning_rate,
                        budget=bought,
                        streams=streams,
                        replica_id=streams.public_id,
                    )
                )
    return found


def _train_group(
    plan: CellPlan,
    protocol: Protocol,
    dataset: GraphDataset,
    group: list[Replica],
    private: bool,
    device: str,
    threads: int,
    progress: Progress | None,
) -> tuple[Structure, engine.Trained]:
    """Train the private or the non-private replicas, which differ in clipping and stopping."""
    validation_graph = protocol.private_selection_graph if private else protocol.test_graph
    settings = Settings(
        optimizer=plan.cell.optimizer,
        epochs=plan.epochs,
        private=private,
        clip_norm=plan.clip_norm,
        weight_decay=0.0 if private else plan.weight_decay,
        hidden=plan.hidden,
        dropout=plan.dropout,
        patience=None if private else plan.patience,
        dtype=plan.dtype,
        device=device,
    )
    structure = build_structure(
        dataset,
        protocol,
        splits=plan.cell.splits,
        train_fraction=plan.cell.train_fraction,
        validation_graph=validation_graph,
        streams=[each.streams for each in group],
        hidden=plan.hidden,
        dtype=np.dtype(plan.dtype),
        join_validation=engine.joins_validation(
            protocol, settings, plan.cell.splits, plan.cell.train_fraction
        ),
    )
    specs = [
        ReplicaSpec(each.streams, each.learning_rate, each.budget.noise_multiplier)
        for each in group
    ]
    trained = engine.train(structure, protocol, settings, specs, threads=threads, progress=progress)
    if private:
        for each, released in zip(group, trained.released, strict=True):
            noise = each.budget.noise_multiplier
            planned = training_event(plan, protocol, noise, dataset.info.node_sample)
            check_released(planned, released)
    return structure, trained


def _rows(
    plan: CellPlan,
    protocol: Protocol,
    dataset: GraphDataset,
    group: list[Replica],
    structure: Structure,
    trained: engine.Trained,
    device: str,
) -> pd.DataFrame:
    """One row per replica, in the columns of the run table."""
    cell = plan.cell
    share = trained.seconds / trained.epochs.sum()
    labels = structure.inputs.labels
    test_labels = labels[structure.test_nodes]
    validation_labels = labels[structure.validation_nodes]
    last_missing = protocol.random_baseline == "without_last_class"
    rows: list[dict[str, object]] = []
    for index, each in enumerate(group):
        test = scores(test_labels, trained.test_predictions[index])
        validation = scores(validation_labels, trained.validation_predictions[index])
        bought = each.budget
        rows.append(
            {
                "replica_id": each.replica_id,
                "statement_id": bought.statement_id,
                "study": cell.study,
                "experiment": cell.experiment,
                "protocol": cell.protocol,
                "dataset": cell.dataset,
                "features": cell.features,
                "view": dataset.info.view,
                "method": cell.method,
                "optimizer": cell.optimizer,
                "visits": protocol.visits if cell.splits > 1 else "full_graph",
                "n_splits": cell.splits,
                "train_fraction": cell.train_fraction,
                "lr": each.learning_rate,
                "epochs": int(trained.epochs[index]),
                "max_epochs": plan.epochs,
                "epsilon": bought.epsilon,
                "noise_multiplier": bought.noise_multiplier,
                "clip": bought.clip,
                "delta": plan.delta if bought.private else None,
                "epsilon_published": bought.epsilon_published,
                "epsilon_proved": bought.epsilon_proved,
                "unit": bought.unit,
                "relation": bought.relation,
                "inference": protocol.inference,
                "seed": each.seed,
                **{f"test_{name}": value for name, value in test.items()},
                "validation_micro_f1": validation["micro_f1"],
                "validation_macro_f1": validation["macro_f1"],
                "validation_loss": float(trained.validation_loss[index]),
                "majority_micro_f1": majority_score(test_labels, structure.majority[index]),
                "random_micro_f1": random_score(
                    test_labels, dataset.n_classes, last_missing, each.streams
                ),
                "seconds": share * int(trained.epochs[index]),
                "device": device,
                "dtype": plan.dtype,
            }
        )
    frame = pd.DataFrame(rows)
    for column in ("clip", "delta", "epsilon_published", "epsilon_proved", "seconds"):
        frame[column] = frame[column].astype("float64")
    return frame


def _public_majority(dataset: GraphDataset) -> float:
    """Score on test nodes of the class that is most frequent among validation nodes; NaN for none.

    The majority class of the training labels is a function of private data that no price covers.
    """
    labelled = dataset.labels >= 0
    validation = dataset.labels[dataset.validation_mask & labelled]
    if not len(validation):
        return math.nan
    test = dataset.labels[dataset.test_mask & labelled]
    return majority_score(test, int(np.bincount(validation).argmax()))


def _selected(runs: pd.DataFrame) -> np.ndarray:
    """True where the learning rate has the highest mean validation micro-F1 of its ε.

    Ties go to the smaller learning rate. Test scores play no part.
    """
    chosen = {epsilon: _best(part) for epsilon, part in _by_epsilon(runs)}
    return np.array(
        [lr == chosen[epsilon] for epsilon, lr in zip(runs["epsilon"], runs["lr"], strict=True)]
    )


def _by_epsilon(runs: pd.DataFrame) -> Iterator[tuple[float, pd.DataFrame]]:
    for epsilon in runs["epsilon"].unique():
        yield epsilon, runs[runs["epsilon"] == epsilon]


def _best(runs: pd.DataFrame) -> float:
    means = runs.groupby("lr")["validation_micro_f1"].mean().round(12)  # sorted by lr
    return float(means.idxmax())
