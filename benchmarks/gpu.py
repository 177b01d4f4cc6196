"""Speed on a GPU: replica-epochs per second, against a plain loop and the memory's bandwidth there.

    python benchmarks/gpu.py --json --mirror DIR

One row per case and device. ``plain_ratio``: the plain loop of PyTorch Geometric trains one replica
after the other on the same device, and takes so many times as long. ``bandwidth_share``: the time
in which the device copies as many bytes as an epoch has to move (each non-zero with the row that it
selects, forward and backward, and the parameters, their noise and their update), as a share of the
time taken. Where the caches hold what is selected, or features are multiplied as a dense matrix,
it may exceed 1. MNIST is per-record DP-SGD, whose plain loop is one of Opacus, and which moves no
sparse matrix; the row of BERT has texts per second in place of epochs, and its plain loop embeds
one text after the other.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from baselines import PlainLoop, opacus_epoch
from batched import Batched, Training
from embedding import corpus, texts_per_second, write_model
from floor import count_products
from reddit import ENTRIES, FEATURES, NODES
from synthetic import Size, citation_like

from private_graphs.core.streams import Streams
from private_graphs.datasets import registry, sources
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.reddit import N_CLASSES
from private_graphs.features.bert import BertEncoder
from private_graphs.mechanisms.door import Door
from private_graphs.methods.gcn_protocols import PAPER, SOUND
from private_graphs.privacy.events import NoisyGradients, Poisson
from private_graphs.training import mlp

Row = dict[str, object]
NOISE, RAW = 35.0, Path("data/raw")
POKEC = Size(nodes=20_000, edges=16_128, nonzeros=2_000_000, features=10_000, classes=2)
REDDIT = Size(NODES, ENTRIES // 2, 100 * NODES, FEATURES, N_CLASSES)
"""Reddit's nodes and entries; a sixth of its features is not zero, so that a host of 64 GiB can
make them."""
TINY = Size(nodes=500, edges=1000, nonzeros=5000)
CASES: dict[str, tuple[Size | str, int, tuple[tuple[str, Training], ...]]] = {
    name: (
        source,
        replicas,
        tuple(
            (f"{name}, {setting}", Training(protocol, optimizer, noise, splits))
            for setting, protocol, optimizer, noise, splits in settings
        ),
    )
    for name, source, replicas, settings in (
        *(
            (
                name, source, 30,
                (
                    ("full graph", PAPER, "sgd", 0.0, 1),
                    ("full graph with DP", PAPER, "sgd", 112.0, 1),
                    ("10 parts", PAPER, "adam", NOISE, 10),
                    ("sum of 10 parts", SOUND, "adam", NOISE, 10),
                ),
            )
            for name, source in (("cora", "cora"), ("pubmed", "pubmed"), ("pokec-sized", POKEC))
        ),
        ("reddit-sized", REDDIT, 4, (("full graph with DP", PAPER, "sgd", 112.0, 1),)),
        ("tiny", TINY, 2, (("10 parts", PAPER, "adam", NOISE, 10),)),
    )
}  # fmt: skip
"""Case -> (data set or size of a generated one, replicas, settings)."""
MNIST, BERT = "mnist", "bert"
OTHERS = (MNIST, BERT)
SMALL = ("tiny", "cora")


def seconds_of(run: Callable[[], object], device: str, budget: float) -> float:
    """Seconds of a run: the fastest of those that ``budget`` seconds allow, after one more."""

    def finished() -> float:
        started = time.perf_counter()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - started

    finished()
    taken = [finished()]
    while sum(taken) < budget:
        taken.append(finished())
    return min(taken)


def copy_bandwidth(device: torch.device, budget: float) -> float:
    """Bytes per second that a copy of 1 GiB (64 MiB on the CPU) reads and writes."""
    size = 2**30 if device.type == "cuda" else 2**26
    source = torch.zeros(size // 4, device=device)
    target = torch.empty_like(source)
    return 2 * size / seconds_of(lambda: target.copy_(source), device.type, budget)


def bytes_of_epoch(ours: Batched) -> float:
    """Bytes that an epoch of one replica has to move, validation included, each once.

    Parameters are read for the product and for the update, written, and have a gradient that is
    written and read; Adam reads and writes two moments more. Noise is drawn where it is added.
    """
    products = sum(each.bytes for each in count_products(ours).values())
    passes = 9 if ours.training.optimizer == "adam" else 5
    return products + 4 * passes * ours.updates


def graph_row(
    name: str, dataset: GraphDataset, training: Training, replicas: int, device: str, budget: float
) -> Row:
    """Measure one setting on one graph."""
    kind = torch.device(device.removeprefix("torch-"))
    ours = Batched(dataset, training, replicas, device)
    taken = seconds_of(ours.epoch, kind.type, budget) / replicas
    moved = bytes_of_epoch(ours)
    del ours
    plain = PlainLoop(dataset, training, "float32", induced=training.splits > 1, device=kind.type)
    return {
        "case": name,
        "device": device,
        "replica_epochs_per_second": 1 / taken,
        "plain_ratio": seconds_of(plain.epoch, kind.type, budget) / taken,
        "bandwidth_share": moved / copy_bandwidth(kind, budget) / taken,
    }


def mnist_row(device: str, budget: float, replicas: int = 10, records: int = 60_000) -> Row:
    """Per-record DP-SGD on random pictures of the size of MNIST, Poisson lots of 600."""
    generator = np.random.default_rng(0)
    rows = generator.integers(0, 256, (records, 784), dtype=np.uint8)
    labels = generator.integers(0, 10, records)
    steps = mlp.MlpTraining(1, 600, "poisson", 0.1, 1.0)
    net, streams = mlp.Net((784, 1000, 10)), [Streams.of({"replica": r}) for r in range(replicas)]
    event = NoisyGradients(
        clipping="per_record", clip_norm=1.0, noise_multiplier=1.0, epochs=1,
        releases=-(-records // steps.lot_size), sampling=Poisson(steps.lot_size / records),
    )  # fmt: skip
    kind, public = device.removeprefix("torch-"), [each.public for each in streams]

    def epoch() -> None:
        door = Door.of(streams)
        door.plan([(event,)] * replicas)
        descent = door.descent([event] * replicas)
        mlp.train(net, steps, rows, labels, public, descent, device=device)

    taken = seconds_of(epoch, kind, budget)
    multiplier = event.noise_multiplier
    plain = seconds_of(opacus_epoch(net, steps, multiplier, rows, labels, kind), kind, budget)
    return {
        "case": MNIST, "device": device, "replica_epochs_per_second": replicas / taken,
        "plain_ratio": plain * replicas / taken, "bandwidth_share": None,
    }  # fmt: skip


def bert_row(device: str, users: int = 2_500, alone: int = 300) -> Row:
    """Texts per second of a model of the real shape, batched in bf16, and one after the other."""
    kind = device.removeprefix("torch-")
    texts = corpus(users, np.random.default_rng(0)).distinct
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder))
        encoder = BertEncoder(Path(folder), kind)
        rate = texts_per_second(encoder, texts)
        chosen = np.random.default_rng(1).choice(texts, alone, replace=False)
        plain = seconds_of(lambda: [encoder.encode([text]) for text in chosen], kind, 0.0) / alone
    return {
        "case": BERT, "device": device, "texts_per_second": rate, "plain_ratio": plain * rate,
        "bandwidth_share": None,
    }  # fmt: skip


def rows(names: list[str], device: str, mirror: str | None, budget: float) -> Iterator[Row]:
    """Measure the named cases one after the other."""
    for name in names:
        if name == MNIST:
            yield mnist_row(device, budget)
            continue
        if name == BERT:
            yield bert_row(device)
            continue
        source, replicas, settings = CASES[name]
        if isinstance(source, Size):
            dataset = citation_like(source)
        else:
            sources.supply([source], RAW, mirror)
            dataset = registry.build(source, RAW)
        for title, training in settings:
            yield graph_row(title, dataset, training, replicas, device, budget)


def main() -> None:
    """Measure, and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "torch-cpu"])
    parser.add_argument("--mirror", help="folder with the raw files")
    parser.add_argument("--cases", help=f"names: a,b,c; of {', '.join([*CASES, *OTHERS])}")
    parser.add_argument("--seconds", type=float, default=5.0, help="per measurement")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    options = parser.parse_args()
    device = options.device or ("cuda" if torch.cuda.is_available() else "torch-cpu")
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("error: PyTorch finds no usable GPU; expected one, or --device torch-cpu")
    everything = [name for name in (*CASES, *OTHERS) if name != "tiny"]
    names = options.cases.split(",") if options.cases else everything
    if device == "torch-cpu" and not options.cases:
        names = list(SMALL)
        print(
            "no GPU is at hand: what a GPU runs is measured on the CPU, on small cases only",
            file=sys.stderr,
        )
    unknown = sorted(set(names) - {*CASES, *OTHERS})
    if unknown:
        sys.exit(f"error: unknown cases {unknown}; expected some of {[*CASES, *OTHERS]}")
    found = []
    for row in rows(names, device, options.mirror, options.seconds):
        if device == "cuda":
            row["device"] = torch.cuda.get_device_name()
        found.append(row)
        print(row, file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
