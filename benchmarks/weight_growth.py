"""Why noise makes an unclipped gradient win: weights grow under noise, and gradients with them.

python benchmarks/weight_growth.py --dataset cora

Plain SGD on the full graph adds noise of one size to every step, so that the weights make a random
walk away from zero. The gradient of a two-layer network grows with its weights. Where nothing
bounds it (``released``), it comes to stand out of noise that was calibrated for gradients of norm
C; where it is clipped (``paper``), every step carries the same noise and a signal of at most C, so
that t steps together stay within sqrt(t)/noise multiplier standard deviations.
``unclipped`` is ``paper`` without its clipping and with nothing else changed.

What is printed is measured on training nodes and is itself not private (``docs/privacy.md`` §4).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from private_graphs.core.errors import UserError
from private_graphs.core.streams import Streams
from private_graphs.datasets.graph_dataset import TENSORS_FILE, GraphDataset
from private_graphs.features.load import load_dataset
from private_graphs.mechanisms.door import Door
from private_graphs.methods.gcn_protocols import (
    PROTOCOLS,
    GcnSettings,
    noise_multiplier,
    training_event,
)
from private_graphs.running.result import scores
from private_graphs.training import engine
from private_graphs.training.blocks import Structure, build_structure
from private_graphs.training.engine import EngineSettings, ReplicaSpec
from private_graphs.training.gcn_protocol import GcnProtocol

EPOCHS = (1, 10, 100, 500, 2000)
"""Where the training is looked at; the last is the number of epochs of the paper's DP-SGD."""
SHOWN: dict[str, GcnProtocol] = {
    "released": PROTOCOLS["released"],
    "paper": PROTOCOLS["paper"],
    "unclipped": replace(PROTOCOLS["paper"], clipping="none"),
}
"""``unclipped`` is ``paper`` in everything but the clipping: it sets its effect apart."""
CLIP_NORM, DELTA, LEARNING_RATE, HIDDEN = 1.0, 1e-5, 0.01, 32
_PROBE_RATE = 1e-3
"""Of the one noiseless float64 step that reads off a gradient: any will do."""
_HEADS = ("protocol", "epoch", "weights", "gradient", "as used", "noise", "signal", "F1")


@dataclass(frozen=True)
class Growth:
    """One of ``SHOWN`` after some epochs; norms are L2, means over the seeds."""

    protocol: str
    epoch: int
    weight_norm: float
    gradient_norm: float
    """Of the training loss at these weights, before clipping and without noise or dropout."""
    used_norm: float
    """What a step takes of it: at most the clip norm where the protocol clips."""
    noise_norm: float
    """Typical norm of the noise of one step: noise multiplier · clip norm · sqrt(parameters)."""
    signal: float
    """Of all steps so far, had each this gradient, in standard deviations of their noise along it:
    sqrt(epoch) · used norm / (noise multiplier · clip norm)."""
    validation_micro_f1: float


def _structure(dataset: GraphDataset, protocol: GcnProtocol, streams: list[Streams], dtype: str):
    return build_structure(
        dataset, protocol, splits=1, train_fraction=1.0,
        validation_graph=protocol.private_selection_graph,
        streams=[each.public for each in streams], hidden=HIDDEN, dtype=np.dtype(dtype),
    )  # fmt: skip


def gradients(
    dataset: GraphDataset, protocol: GcnProtocol, streams: list[Streams], parameters: np.ndarray
) -> np.ndarray:
    """Return the gradients (R, P) of the training loss at ``parameters`` (R, P), unclipped.

    Read off one step of the training engine without noise and dropout.
    """
    bare = replace(protocol, clipping="none")
    settings = EngineSettings("sgd", 1, private=True, hidden=HIDDEN, dropout=0.0, dtype="float64")
    starts = parameters.astype(np.float64)
    specs = [
        ReplicaSpec(stream.public, _PROBE_RATE, start)
        for stream, start in zip(streams, starts, strict=True)
    ]
    structure = _structure(dataset, bare, streams, settings.dtype)
    descent = Door.of(streams).descent([None] * len(streams), coins="order")
    ends = engine.train(structure, bare, settings, specs, descent).parameters
    return (starts - ends) / _PROBE_RATE


def growth(
    dataset: GraphDataset,
    name: str,
    noise_multiplier: float,
    seeds: int,
    epochs: Sequence[int] = EPOCHS,
) -> list[Growth]:
    """Train ``seeds`` replicas of DP-SGD as ``SHOWN[name]`` says; look at them after ``epochs``.

    The noise of a step depends on its number alone, so that a shorter training is the beginning of
    a longer one.
    """
    streams = [Streams.of({"growth": name, "seed": seed}) for seed in range(seeds)]
    structure = _structure(dataset, SHOWN[name], streams, "float32")
    return [_after(epoch, dataset, name, structure, streams, noise_multiplier) for epoch in epochs]


def _after(
    epoch: int,
    dataset: GraphDataset,
    name: str,
    structure: Structure,
    streams: list[Streams],
    noise_multiplier: float,
) -> Growth:
    protocol = SHOWN[name]
    settings = EngineSettings("sgd", epoch, private=True, clip_norm=CLIP_NORM, hidden=HIDDEN)
    given = GcnSettings(epochs=epoch, clip_norm=CLIP_NORM)
    event, door = training_event(given, protocol, noise_multiplier), Door.of(streams)
    door.plan([(event,)] * len(streams))
    descent = door.descent([event] * len(streams), coins="order")
    specs = [ReplicaSpec(stream.public, LEARNING_RATE) for stream in streams]
    trained = engine.train(structure, protocol, settings, specs, descent)
    found = np.linalg.norm(gradients(dataset, protocol, streams, trained.parameters), axis=1)
    used = found if protocol.clipping == "none" else np.minimum(found, CLIP_NORM)
    labels = dataset.labels[structure.validation_nodes]
    f1 = [scores(labels, each)["micro_f1"] for each in trained.validation_predictions]
    return Growth(
        protocol=name,
        epoch=epoch,
        weight_norm=float(np.linalg.norm(trained.parameters, axis=1).mean()),
        gradient_norm=float(found.mean()),
        used_norm=float(used.mean()),
        noise_norm=noise_multiplier * CLIP_NORM * math.sqrt(trained.parameters.shape[1]),
        signal=math.sqrt(epoch) * float(used.mean()) / (noise_multiplier * CLIP_NORM),
        validation_micro_f1=float(np.mean(f1)),
    )


def table(rows: Sequence[Growth]) -> str:
    """Return the rows in columns for a terminal."""
    lines = [
        (
            each.protocol, str(each.epoch), f"{each.weight_norm:.0f}", f"{each.gradient_norm:.3g}",
            f"{each.used_norm:.3g}", f"{each.noise_norm:.0f}",
            f"{each.signal:.2f}", f"{each.validation_micro_f1:.2f}",
        )
        for each in rows
    ]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(_HEADS, *lines, strict=True)]
    return "\n".join(
        "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
        for line in (_HEADS, *lines)
    )


def _dataset(name: str, raw: Path, mirror: str | None) -> GraphDataset:
    built = Path(name)
    if (built / TENSORS_FILE).is_file():
        return GraphDataset.load(built)
    return load_dataset(name, None, PROTOCOLS["paper"].data, raw, mirror, device="cpu")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print weights, gradients and noise of full-graph DP-SGD with and without clipping."""
    parser = argparse.ArgumentParser(
        prog="python benchmarks/weight_growth.py",
        description="Norms of weights, gradient and noise along DP-SGD (full graph, learning rate "
        f"{LEARNING_RATE:g}, clip norm {CLIP_NORM:g}), with and without clipping, at the noise "
        "that the paper's formula gives for epsilon; F1 is on the validation nodes.",
    )
    parser.add_argument("--dataset", required=True, help="a name, or the folder of a built dataset")
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--raw", type=Path, default=Path("data/raw"), help="folder of raw files")
    parser.add_argument("--mirror", help="folder or URL with the raw files, tried first")
    given = parser.parse_args(arguments)
    if given.seeds < 1:
        parser.error(f"--seeds is {given.seeds}; expected at least 1")
    try:
        dataset = _dataset(given.dataset, given.raw, given.mirror)
        settings = GcnSettings(optimizer="sgd", epochs=EPOCHS[-1])
        noise = noise_multiplier(given.epsilon, settings, PROTOCOLS["paper"], DELTA)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    rows = [row for name in SHOWN for row in growth(dataset, name, noise, given.seeds)]
    print(table(rows))


if __name__ == "__main__":
    main()
