"""Two-layer GCN with SGD or Adam, non-private or with clipped, noisy gradients.

Source: Igamberdiev & Habernal, LREC 2022, Sections 3-5; Kipf & Welling, ICLR 2017. All replicas of
a job train as two batches, with and without DP, which differ in clipping and stopping.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from private_graphs.core.errors import UserError
from private_graphs.mechanisms.door import Door
from private_graphs.methods.gcn_protocols import (
    PROTOCOLS,
    GcnSettings,
    calibrated_for,
    claim,
    completed,
    epsilon_of_noise,
    noise_multiplier,
    protocol_of,
    training_event,
)
from private_graphs.privacy.assumptions import HIDDEN_MASKS
from private_graphs.privacy.calibration import refuse_large_delta
from private_graphs.tasks.method import Context, Method, Outcome, Request, but_rate, in_batches
from private_graphs.tasks.tasks import NodeTask
from private_graphs.training.gcn_protocol import GcnProtocol

if TYPE_CHECKING:
    from private_graphs.datasets.spec import GraphSize
    from private_graphs.training.engine import Trained

ROOM = 2**30
"""Bytes of replicas that train at once on the CPU."""
GIVEN_PARTITION = (
    "whoever gave the partition of the training nodes made it without looking at an edge, a text "
    "or a label of theirs"
)
_DRAWS = {"epochs", "clip_norm", "weight_decay", "hidden", "dropout"}
"""Settings that identify a replica's streams, in addition to job, noise, learning rate and seed."""


def run(task: NodeTask, requests: Sequence[Request], door: Door, context: Context) -> list[Outcome]:
    """Train every request, in order; those that differ only in noise, rate and seed as one batch.

    Raises:
        UserError: there are more splits than training nodes, or a budget cannot be calibrated.
    """
    answer, epochs = partial(_train, task), lambda request: request.settings.epochs
    most = None  # the GPU cuts its own batches
    if context.device == "cpu":
        largest = max(memory_of_run(request.settings, task.graph.size) for request in requests)
        most = max(1, ROOM // largest)
    return in_batches(requests, door, context, but_rate, answer, epochs, most)


def memory(settings: GcnSettings, size: GraphSize, runs: int) -> int:
    """See ``Method.memory``."""
    run_bytes = memory_of_run(settings, size)
    scratch, predictions = 2 * run_bytes, runs * size.nodes * 8
    return min(runs * run_bytes, max(run_bytes, ROOM)) + scratch + predictions


def memory_of_run(settings: GcnSettings, size: GraphSize) -> int:
    """Predicted bytes of one replica in training."""
    hidden, classes = settings.hidden, size.classes
    weights = (size.features + 1) * hidden + (hidden + 1) * classes
    copies = 5 if settings.optimizer == "adam" else 3  # with moments and the result
    numbers = copies * weights * np.dtype(settings.dtype).itemsize
    if settings.splits == 1 and settings.train_fraction == 1:
        return numbers
    entries = size.nodes + 2 * size.edges // settings.splits
    return numbers + 8 * size.nodes + 12 * (entries + size.train_nodes) + 4 * size.nonzeros


def stated(task: NodeTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    """See ``Method.stated``."""
    settings, private = request.settings, request.private
    protocol = protocol_of(settings, task.protocol)
    fields = {
        "chosen_by": _chosen_by(protocol, private),
        "chosen_on_public": _selection_graph(protocol, private) == "evaluated_mask",
        "public_facts": _public_facts(settings, protocol, task),
        "noise_generator": "numpy_float64" if settings.engine else f"philox_{settings.dtype}",
        "calibrated_for": None if settings.noise_multiplier else calibrated_for(request.epsilon),
    }
    if not private:
        return fields
    assumptions = (
        *((HIDDEN_MASKS,) if _hides_masks(settings, protocol, request) else ()),
        *((GIVEN_PARTITION,) if settings.partition else ()),
    )
    if assumptions:
        fields["assumptions"] = assumptions
    noise = chosen.get("noise_multiplier")
    if noise is None:
        noise = noise_multiplier(request.epsilon, settings, protocol, task.delta)
    event = training_event(settings, protocol, noise, task.graph.info.node_sample)
    return fields | {"events": (event,), "claim": claim(settings, protocol, noise, task.delta)}


def _hides_masks(settings: GcnSettings, protocol: GcnProtocol, request: Request) -> bool:
    """Return whether where a part's masks begin follows from the parts before it in a step."""
    several = settings.splits > 1 and protocol.visits != "shuffled"
    if settings.engine:  # one generator for all steps
        return settings.dropout > 0 and settings.splits > 1
    return settings.dropout > 0 and several and not request.streams.secret


@dataclass(frozen=True)
class Members:
    """Training nodes of each replica, for an attack; the others are left out."""

    nodes: Sequence[np.ndarray]
    left_out: Literal["absent", "unlabelled"]


def fit(
    task: NodeTask,
    requests: Sequence[Request],
    door: Door,
    context: Context,
    members: Members | None = None,
) -> tuple[Trained, list[float]]:
    """Train requests that are all private, or all non-private, as one batch.

    Returns the trained models, which are not released, and their noise multipliers, which do not
    depend on ``members``.
    """
    from private_graphs.training import engine
    from private_graphs.training.blocks import build_structure

    settings: GcnSettings = requests[0].settings
    private, protocol = requests[0].private, protocol_of(settings, task.protocol)
    if private and protocol.calibration == "proved":
        refuse_large_delta(task.delta, task.n_units)
    if settings.partition and any(request.parts is None for request in requests):
        raise UserError(
            f"partition: {settings.partition} names a partition that somebody gave, and none came; "
            "expected its parts: snakemake --config splits=FILE"
        )
    noises = [
        noise_multiplier(request.epsilon, request.settings, protocol, task.delta)
        for request in requests
    ]
    batch = engine.EngineSettings(
        optimizer=settings.optimizer,
        epochs=settings.epochs,
        private=private,
        clip_norm=settings.clip_norm,
        weight_decay=0.0 if private else settings.weight_decay,
        hidden=settings.hidden,
        dropout=settings.dropout,
        patience=None if private else settings.patience,
        dtype="float64" if settings.engine else settings.dtype,
        device=context.device,
    )
    replicas = [
        engine.ReplicaSpec(request.streams, request.settings.learning_rate, parts=request.parts)
        for request in requests
    ]
    events = [
        stated(task, request, context, {"noise_multiplier": noise}).get("events", ())
        for request, noise in zip(requests, noises, strict=True)
    ]
    door.plan(events)
    descent = door.descent([plan[0] if plan else None for plan in events], coins="order")
    parts = {"splits": settings.splits, "train_fraction": settings.train_fraction,
             "validation_graph": _selection_graph(protocol, private)}  # fmt: skip
    watched = {"progress": context.progress, "clock": context.clock}
    if settings.engine == "reference":
        if members is not None:
            raise UserError(
                "engine is reference, which learns from all training nodes; expected no engine in "
                "the settings of an attack, whose models learn from random halves"
            )
        from private_graphs.training import reference

        trained = reference.train(
            task.graph, protocol, batch, replicas, descent, **parts, **watched
        )
        return trained, noises
    structure = build_structure(
        task.graph,
        protocol,
        **parts,
        streams=[request.streams for request in requests],
        parts_before=[request.parts for request in requests],
        hidden=settings.hidden,
        dtype=np.dtype(settings.dtype),
        join_validation=members is None
        and engine.joins_validation(protocol, batch, settings.splits, settings.train_fraction),
        **({} if members is None else {"members": members.nodes, "left_out": members.left_out}),
    )
    trained = engine.train(
        structure, protocol, batch, replicas, descent, threads=context.threads, **watched
    )
    return trained, noises


def _train(
    task: NodeTask, requests: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Train requests that are all private, or all non-private, and predict."""
    trained, noises = fit(task, requests, door, context)
    settings: GcnSettings = requests[0].settings
    protocol = protocol_of(settings, task.protocol)
    outcomes = []
    for index, noise in enumerate(noises):
        epochs = int(trained.epochs[index])
        outcomes.append(
            Outcome(
                test_predictions=trained.test_predictions[index],
                validation_predictions=trained.validation_predictions[index],
                settings={"visits": protocol.visits if settings.splits > 1 else "full_graph"},
                measured={
                    "epochs": epochs,
                    "validation_loss": float(trained.validation_loss[index]),
                    "noise_multiplier": noise,
                    "seconds": trained.seconds / trained.epochs.sum() * epochs,
                },
                curves=_curves(trained.validation_losses[:epochs, index]),
                artifacts=_partition(task, protocol, requests[index]),
                majority=int(trained.majority[index]),
            )
        )
    return outcomes


def _partition(task: NodeTask, protocol: GcnProtocol, request: Request) -> dict[str, np.ndarray]:
    """Return the part (N,) of each training node, -1 for all other nodes, where there are parts."""
    from private_graphs.training.blocks import sample_training_nodes

    settings: GcnSettings = request.settings
    if settings.splits == 1:
        return {}
    sample = sample_training_nodes(task.graph, protocol, settings.train_fraction, request.streams)
    part = np.full(task.graph.n_nodes, -1, dtype=np.int32)
    part[task.graph.train_mask] = parts(task, request)
    left_out = task.graph.train_mask.copy()
    left_out[sample] = False
    part[left_out] = -1
    return {"partition": part}


def parts(task: NodeTask, request: Request) -> np.ndarray | None:
    """See ``Method.parts``."""
    from private_graphs.training.blocks import parts_of

    if request.settings.splits == 1 or request.parts is not None:
        return request.parts
    nodes = np.flatnonzero(task.graph.train_mask)
    return parts_of(task.graph, nodes, request.settings.splits, request.streams)


def _curves(losses: np.ndarray) -> dict[str, np.ndarray]:
    """Return the learning curve of a run, if its epochs were scored."""
    scored = losses[~np.isnan(losses)]
    return {"validation_loss": scored} if len(scored) > 1 else {}


def _selection_graph(protocol: GcnProtocol, private: bool) -> str:
    return protocol.private_selection_graph if private else protocol.test_graph


def _chosen_by(protocol: GcnProtocol, private: bool) -> str:
    public = _selection_graph(protocol, private) == "evaluated_mask"
    seen = "the graph that they induce" if public else "the whole graph, training nodes included"
    return f"mean micro-F1 over the seeds on the validation nodes, scored on {seen}"


def _public_facts(settings: GcnSettings, protocol: GcnProtocol, task: NodeTask) -> tuple[str, ...]:
    """Return the dataset's public facts, then those that the run itself requires."""
    info = task.graph.info
    facts = [*info.public_facts]
    if info.features == "bow":
        facts.append("the number of words that are counted (columns of the features)")
    if settings.splits > 1:
        origin = "as given" if settings.partition else "drawn without looking at the graph"
        facts.append(f"the partition into parts, {origin}")
    if settings.train_fraction < 1 and protocol.subsampling == "keyed_coin":
        facts.append("which training nodes are used, drawn without looking at the graph")
    return tuple(facts)


def _identity(fields: dict[str, Any], job: Any, request: Request) -> dict[str, Any]:
    """Stream identity in the key names of version 0.1, so that recorded results reproduce."""
    settings: GcnSettings = request.settings
    protocol = protocol_of(settings, PROTOCOLS[job.protocol])
    cell = {
        **fields["cell"],
        "method": "gcn",
        "optimizer": settings.optimizer,
        "protocol": job.protocol,
        "visits": settings.visits,
        "splits": settings.splits,
        "train_fraction": settings.train_fraction,
    }
    del cell["setting"]
    if job.view != "protocol":
        cell["view"] = job.view
    if settings.partition:
        cell["partition"] = settings.partition
    noise = noise_multiplier(request.epsilon, settings, protocol, job.delta)
    return {
        "data": fields["data"],
        "cell": cell,
        "visits": protocol.visits,
        "settings": {**settings.model_dump(mode="json", include=_DRAWS), "delta": job.delta}
        | ({"engine": settings.engine} if settings.engine else {}),
        "epsilon": "inf" if math.isinf(request.epsilon) else request.epsilon,
        "noise": noise,
        "learning_rate": settings.learning_rate,
        "seed": request.seed,
    }


METHODS = (
    Method(
        "gcn",
        "GCN",
        run,
        ("nodes",),
        settings=GcnSettings,
        protocols=PROTOCOLS,
        one_run=False,
        named=("optimizer", "partition", "splits", "train_fraction"),
        parts=parts,
        prepares="degrees are counted inside each message-passing graph",
        canary="training",
        identity=_identity,
        completed=completed,
        epsilon_of=epsilon_of_noise,
        names_majority=True,
        stated=stated,
        memory=memory,
        summary="Two-layer graph convolutional network; under DP with clipped, noisy "
        "gradients (DP-SGD, DP-Adam).",
    ),
)
