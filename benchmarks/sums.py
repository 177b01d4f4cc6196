"""Stages of ProGAP in batches of replicas beside plain loops of one replica: ratios within one run.

    python benchmarks/sums.py --mirror DIR

Both sides train the same stage on the same campus, noise, clipping, Adam and lots included. Node
level: steps of DP-SGD of the stage with four sums and two layers, beside Opacus as its users write
it. Edge level: epochs of the stage with five sums and one layer on all training nodes, scored on
the validation nodes after each, beside a plain loop of PyTorch. Processor time of one thread; sides
take turns, and the fastest round of each counts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from timing import Side, in_turns, machine
from torch import nn
from torch.nn import functional

from private_graphs.core.errors import UserError
from private_graphs.core.streams import Streams
from private_graphs.datasets import registry, sources
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.mechanisms.door import Door
from private_graphs.methods.noisy_sums import PROTOCOLS, WIDTH, SumsData
from private_graphs.privacy.queries import GaussianQuery, PoissonSums
from private_graphs.studies.progap.methods.progap import ProgapSettings, Stage, last_base
from private_graphs.tasks.method import Request
from private_graphs.tasks.tasks import build_task
from private_graphs.training import stacks

RAW = Path("data/raw")
LOT, MULTIPLIER, RATE, EPOCHS = 256, 1.25, 0.01, 5
AIMS = {"node": 10.0, "edge": 4.0}


@dataclass(frozen=True)
class Shape:
    """What is trained at a level."""

    hops: int
    layers: int
    norm: stacks.Norm
    noise_std: float
    """Of the sums."""


NODE = Shape(4, 2, "layer", MULTIPLIER * 10.0)
EDGE = Shape(5, 1, "batch", 10.46)


class PlainStage(nn.Module):
    """The network of a stage in plain modules: bases side by side, joined as unit rows, a head."""

    def __init__(self, stage: Stage, norm: Callable[[], nn.Module]) -> None:
        super().__init__()

        def base(inputs: int) -> nn.Sequential:
            widths = [inputs, *[WIDTH] * stage.layers]
            layers = zip(widths[:-1], widths[1:], strict=True)
            return nn.Sequential(
                *(each for pair in layers for each in (nn.Linear(*pair), nn.SELU(), norm()))
            )

        self.bases = nn.ModuleList(
            [base(stage.n_features), *(base(WIDTH) for _ in range(stage.number))]
        )
        self.head = nn.Linear(WIDTH * (stage.number + 1), stage.n_classes)

    def forward(self, x: torch.Tensor, sums: torch.Tensor) -> torch.Tensor:
        """Return logits (n, C) of features (n, d) and sums (n, s, h)."""
        inputs = [x, *sums.unbind(1)]
        outputs = [base(each) for base, each in zip(self.bases, inputs, strict=True)]
        return self.head(functional.normalize(torch.cat(outputs, dim=1), dim=-1))


def door_of(streams: list[Streams], event: GaussianQuery | PoissonSums) -> Door:
    """Return the door of replicas that release one planned event each."""
    door = Door.of(streams)
    door.plan([(event,)] * len(streams))
    return door


class Campus:
    """A campus with noisy sums of all stages, as both sides read it."""

    def __init__(self, dataset: GraphDataset, replicas: int, scenario: str, shape: Shape) -> None:
        task, _ = build_task(dataset, scenario, PROTOCOLS["released"], 1e-5, max_edges=10**7)
        data = SumsData.of(task)
        self.task, self.data, self.shape = task, data, shape
        settings = ProgapSettings(hops=shape.hops, layers=shape.layers)
        self.streams = [Streams.of({"benchmark": seed}) for seed in range(replicas)]
        requests = [Request(1.0, 0, np.empty(0), each.public, settings) for each in self.streams]
        query = GaussianQuery(
            unit=task.scenario.unit, relation=task.scenario.relation, count=shape.hops,
            reason="benchmark", sensitivity=1.0, noise_std=shape.noise_std,
        )  # fmt: skip
        sums = data.sums(door_of(self.streams, query), [(query,)] * replicas, requests)
        self.inputs, stack = stacks.StackInputs(data.rows), None
        for number in range(shape.hops):  # a few epochs without noise make rows worth adding
            stage = self.stage(number)
            stack = stage.grown(stack, self.streams)
            stacks.train_whole(stage, stack, self.fit(3, validates=False))
            rows = last_base(stage, stack, self.inputs)
            new = torch.from_numpy(sums.release(number + 1, rows))[:, None]
            hops = self.inputs.hops
            hops = new if hops is None else torch.cat([hops, new], dim=1)
            self.inputs = stacks.StackInputs(data.rows, hops)
        self.network = self.stage(shape.hops)
        self.stack = self.network.grown(stack, self.streams)

    def stage(self, number: int) -> Stage:
        """Return the network of a stage."""
        sizes = self.task.graph.n_features, self.task.n_classes
        return Stage(number, self.shape.layers, *sizes, self.shape.norm, unit_rows=True)

    def plain(self, nodes: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Dense features, sums of the first replica and labels of ``nodes``."""
        rows = self.inputs.rows.matrix[nodes].toarray()
        return (
            torch.from_numpy(rows),
            self.inputs.hops[0, :, nodes].transpose(0, 1).contiguous(),
            torch.from_numpy(self.task.graph.labels[nodes]),
        )

    def fit(self, epochs: int, validates: bool) -> stacks.Fit:
        """How both sides train."""
        train, validation, labels = self.data.train, self.data.validation, self.task.graph.labels
        return stacks.Fit(
            self.inputs.take(train), labels[train], [RATE] * len(self.streams), epochs,
            self.inputs.take(validation) if validates else None,
            labels[validation] if validates else None,
        )  # fmt: skip


def node_sides(dataset: GraphDataset, replicas: int) -> dict[str, Side]:
    """Steps of DP-SGD: ours in batches, and Opacus."""
    campus = Campus(dataset, replicas, "lists", NODE)
    fit, n = campus.fit(1, validates=False), len(campus.data.train)
    query = PoissonSums(
        unit="node_out_list", relation="replace", count=n // LOT, reason="benchmark",
        noise_multiplier=MULTIPLIER, clip_norm=1.0, rate=LOT / n,
    )  # fmt: skip

    def epoch() -> None:
        descent = stacks.steps(door_of(campus.streams, query), [query] * replicas)
        noisy = stacks.Noisy(LOT, np.arange(n), descent)
        stacks.train_noisy(campus.network, campus.stack, fit, noisy)

    return {
        "ours": Side(((epoch, 1 / (n // LOT)),), replicas),
        "plain": Side(((opacus_step(campus), 1.0),)),
    }


def opacus_step(campus: Campus) -> Callable[[], None]:
    """Return a step of DP-SGD with Adam as users of Opacus write it."""
    from opacus import GradSampleModule  # takes seconds to import
    from opacus.optimizers import DPOptimizer

    x, sums, labels = campus.plain(campus.data.train)
    model = GradSampleModule(PlainStage(campus.network, lambda: nn.GroupNorm(1, WIDTH)))
    optimizer = DPOptimizer(
        torch.optim.Adam(model.parameters(), lr=RATE), noise_multiplier=MULTIPLIER,
        max_grad_norm=1.0, expected_batch_size=LOT,
    )  # fmt: skip

    def step() -> None:
        lot = (torch.rand(len(labels)) < LOT / len(labels)).nonzero()[:, 0]
        optimizer.zero_grad()
        functional.cross_entropy(model(x[lot], sums[lot]), labels[lot]).backward()
        optimizer.step()

    return step


def edge_sides(dataset: GraphDataset, replicas: int) -> dict[str, Side]:
    """Epochs on all training nodes: ours in batches, and plain PyTorch."""
    campus = Campus(dataset, replicas, "links", EDGE)
    fit = campus.fit(EPOCHS, validates=True)

    def epochs() -> None:
        stacks.train_whole(campus.network, campus.stack, fit)

    return {
        "ours": Side(((epochs, 1 / EPOCHS),), replicas),
        "plain": Side(((plain_epoch(campus), 1.0),)),
    }


def plain_epoch(campus: Campus) -> Callable[[], None]:
    """Return an epoch on all training nodes, scored on the validation nodes."""
    train, validation = campus.plain(campus.data.train), campus.plain(campus.data.validation)
    model = PlainStage(campus.network, lambda: nn.BatchNorm1d(WIDTH))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    best, kept = 0.0, {}

    def epoch() -> None:
        nonlocal best, kept
        model.train()
        optimizer.zero_grad()
        functional.cross_entropy(model(*train[:2]), train[2]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = model(*validation[:2]).argmax(1) == validation[2]
        if (score := float(right.double().mean())) > best:
            best, kept = score, {name: each.clone() for name, each in model.state_dict().items()}

    return epoch


def main() -> None:
    """Measure both levels, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="facebook-cornell5")
    parser.add_argument("--mirror", help="folder with the raw files")
    parser.add_argument("--replicas", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="per side and round")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    where = machine()
    try:
        sources.supply([options.dataset], RAW, options.mirror)
        dataset = registry.build(options.dataset, RAW)
    except UserError as error:
        sys.exit(f"error: {error}")
    rows = []
    with threadpool_limits(limits=1):
        for level, unit, what, sides in (
            ("node", "step", "a loop of Opacus", node_sides),
            ("edge", "epoch", "a plain loop of PyTorch", edge_sides),
        ):
            found = in_turns(sides(dataset, options.replicas), options.rounds, options.seconds)
            ratio, aim = found["plain"] / found["ours"], AIMS[level]
            rows.append(
                f"| {level} | {unit} | {found['ours']:.2f} | {what} | {found['plain']:.1f} | "
                f"{ratio:.1f} | {aim:g}: {'reached' if ratio >= aim else 'missed'} |"
            )
            print(rows[-1], file=sys.stderr, flush=True)
    print("\n".join([
        "| level | what is timed | our time [ms] | compared with | its time [ms] | ratio | aim |",
        "|---|---|--:|---|--:|--:|--:|",
        *rows,
        "",
        f"{options.dataset}, {options.replicas} replicas; {where}.",
    ]))  # fmt: skip


if __name__ == "__main__":
    main()
