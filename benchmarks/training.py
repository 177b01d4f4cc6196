"""Speed of batched training against a plain loop: ratios within one run, one thread each.

    python benchmarks/training.py --mirror DIR [--out docs/benchmarks]

Every measurement is milliseconds per replica-epoch, validation included on both sides; both sides
take turns within a round, and the fastest round of each side counts: whatever else the machine does
only adds time.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from baselines import PlainLoop
from profile_step import profile
from threadpoolctl import threadpool_limits

from private_graphs.datasets import registry, sources
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.files import write_text
from private_graphs.protocols import PAPER, PROTOCOLS, Protocol
from private_graphs.training import engine
from private_graphs.training.blocks import build_structure
from private_graphs.training.streams import Streams

torch.set_num_threads(1)
WHOLE_GRAPH_DP = replace(PAPER, message_passing="whole_graph")
"""Clipped full-graph training on the whole graph: the yardstick of the per-epoch sum."""


@dataclass(frozen=True)
class Case:
    """One row: our batched training against one or more baselines, with the ratios to reach."""

    name: str
    protocol: Protocol
    optimizer: str
    noise: float
    splits: int
    baselines: dict[str, Callable[[GraphDataset], Callable[[], object]]]
    targets: dict[str, float]


def plain(dtype: torch.dtype, **options) -> Callable[[GraphDataset], Callable[[], object]]:
    """A plain loop as a baseline."""
    return lambda dataset: PlainLoop(dataset, dtype, **options).epoch


def batched(
    dataset: GraphDataset, protocol: Protocol, optimizer: str, noise: float, splits: int,
    replicas: int,
) -> Callable[[], None]:  # fmt: skip
    """One epoch of all replicas, scored on validation, as a function to time."""
    batch = make_batch(dataset, protocol, optimizer, noise, splits, replicas)
    everyone = np.arange(replicas)
    batch.backend.prepare()
    epochs = iter(range(1, 10**9))
    never = np.full(replicas, np.nan)

    def epoch() -> None:
        batch._epoch(everyone, next(epochs), never)
        if not batch.structure.joined:  # else the epoch itself scored the validation nodes
            batch.score(batch.structure.validation)

    return epoch


def make_batch(
    dataset: GraphDataset, protocol: Protocol, optimizer: str, noise: float, splits: int,
    replicas: int,
) -> engine._Batch:  # fmt: skip
    """The engine's batch of replicas, ready to run epochs."""
    streams = [Streams.of({"benchmark": seed}) for seed in range(replicas)]
    graph = protocol.private_selection_graph if noise else protocol.test_graph
    settings = engine.Settings(
        optimizer=optimizer,
        epochs=1,
        private=noise > 0,
        weight_decay=0.0 if noise else 0.01,
        validate_every_epoch=True,
    )
    structure = build_structure(
        dataset, protocol, splits=splits, train_fraction=1.0, validation_graph=graph,
        streams=streams, hidden=32, dtype=np.float32,
        join_validation=engine.joins_validation(protocol, settings, splits, 1.0),
    )  # fmt: skip
    specs = [engine.ReplicaSpec(each, 0.01, noise) for each in streams]
    return engine._Batch(structure, protocol, settings, specs, np.arange(replicas))


def cases(replicas: int) -> list[Case]:
    """Every comparison of the page."""
    f64, f32 = torch.float64, torch.float32

    def both(**options):
        return {"float64 loop": plain(f64, **options), "float32 loop": plain(f32, **options)}

    found = [
        Case(
            f"non-private, {name}", protocol, "sgd", 0.0, 1, both(dropout=name != "released"),
            {"float64 loop": 70, "float32 loop": 28},
        )
        for name, protocol in PROTOCOLS.items()
    ]  # fmt: skip
    for name, protocol in PROTOCOLS.items():
        targets = {"float64 loop": 55, "float32 loop": 22} if name == "paper" else {}
        found.append(
            Case(
                f"DP full graph, {name}",
                protocol,
                "sgd",
                112.0,
                1,
                both(noise_multiplier=112.0),
                targets,
            )  # fmt: skip
        )
    split = dict(noise_multiplier=35.0, splits=10, optimizer="adam")
    for name in ("released", "paper"):
        split["dropout"] = name != "released"
        found.append(
            Case(
                f"DP, 10 splits, {name}",
                PROTOCOLS[name],
                "adam",
                35.0,
                10,
                {
                    "float64 loop, full forward": plain(f64, **split),
                    "float32 loop, induced parts": plain(f32, induced=True, **split),
                },
                {"float64 loop, full forward": 100, "float32 loop, induced parts": 8}
                if name == "paper"
                else {},
            )  # fmt: skip
        )
    found.append(
        Case(
            "DP, 10 splits, sound (per-epoch sum)",
            PROTOCOLS["sound"],
            "adam",
            35.0,
            10,
            {
                "batched DP full graph on the whole graph": lambda dataset: batched(
                    dataset, WHOLE_GRAPH_DP, "adam", 35.0, 1, replicas
                )
            },
            {"batched DP full graph on the whole graph": 1 / 1.5},
        )  # fmt: skip
    )
    return found


def milliseconds(run: Callable[[], object], budget: float) -> float:
    """Mean milliseconds of ``run`` over about ``budget`` seconds."""
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < budget or count < 2:
        run()
        count += 1
    return (time.perf_counter() - started) / count * 1e3


def measure(case: Case, dataset: GraphDataset, replicas: int, rounds: int, seconds: float) -> dict:
    """Milliseconds per replica-epoch of both sides, measured in turns; the fastest rounds."""
    ours = batched(dataset, case.protocol, case.optimizer, case.noise, case.splits, replicas)
    sides = {name: make(dataset) for name, make in case.baselines.items()}
    for run in (ours, *sides.values()):
        run()
    taken: dict[str, list[float]] = {"ours": [], **{name: [] for name in sides}}
    for _ in range(rounds):
        taken["ours"].append(milliseconds(ours, seconds) / replicas)
        for name, run in sides.items():
            per = replicas if name.startswith("batched") else 1
            taken[name].append(milliseconds(run, seconds) / per)
    return {name: min(values) for name, values in taken.items()}


def machine() -> str:
    """Processor, and the versions that matter."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    import numba

    return (
        f"{model}, one thread; Python {platform.python_version()}, torch {torch.__version__}, "
        f"numba {numba.__version__}"
    ).replace("+cpu", " (CPU build)")


def page(dataset: str, replicas: int, rows: list[str], csv: list[str], parts: list[str]) -> str:
    """The benchmark page as Markdown."""
    return "\n".join(
        [
            "# Speed of batched training",
            "",
            f"{dataset}, {replicas} replicas, milliseconds per replica-epoch, validation included "
            "on both sides. The baselines are what a user would write: a plain loop with "
            "`GCNConv`, dense features, one replica, on the whole graph. Both sides ran in turns "
            "within one run; means over a round, of the fastest round of each side.",
            "",
            f"Machine: {machine()}.",
            "",
            "Command: `python benchmarks/training.py --mirror DIR`",
            "",
            "| case | ours | baseline | its time | ratio | aim | |",
            "|---|---:|---|---:|---:|---:|---|",
            *rows,
            "",
            "## Where a step's time goes",
            "",
            "Milliseconds of one replica's step, from running its phases apart; the fastest of 300 "
            "runs each.",
            "",
            *parts,
            "",
        ]
    )


def main() -> None:
    """Measure every case and write the page and its numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--mirror", help="folder with the raw files")
    parser.add_argument("--replicas", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.7, help="per side and round")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--out", type=Path, help="folder for the page and the CSV")
    options = parser.parse_args()
    sources.supply([options.dataset], Path("data/raw"), options.mirror)
    dataset = registry.build(options.dataset, Path("data/raw"))
    rows, csv = [], ["case,ours_ms,baseline,baseline_ms,ratio,aim"]
    with threadpool_limits(limits=1):
        for case in cases(options.replicas):
            if options.only not in case.name:
                continue
            taken = measure(case, dataset, options.replicas, options.rounds, options.seconds)
            for name in case.baselines:
                ratio, aim = taken[name] / taken["ours"], case.targets.get(name)
                verdict = "" if aim is None else "reached" if ratio >= aim else "**missed**"
                shown = "" if aim is None else f"≥ {aim:.3g}×"
                rows.append(
                    f"| {case.name} | {taken['ours']:.3f} | {name} | {taken[name]:.2f} | "
                    f"{ratio:.3g}× | {shown} | {verdict} |"
                )
                csv.append(
                    f'"{case.name}",{taken["ours"]:.4f},"{name}",{taken[name]:.4f},{ratio:.4f},'
                    f"{'' if aim is None else aim}"
                )
                print(rows[-1], file=sys.stderr, flush=True)
        parts = profile(dataset, make_batch)
    text = page(options.dataset, options.replicas, rows, csv, parts)
    if options.out:
        write_text(options.out / f"training_{options.dataset}.md", text)
        write_text(options.out / f"training_{options.dataset}.csv", "\n".join(csv) + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
