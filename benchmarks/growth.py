"""Growth of training time with replicas, nodes, edges and non-zeros of the features.

    python benchmarks/growth.py --out docs/benchmarks

Synthetic graphs, one axis varied at a time. Time is milliseconds per epoch of all replicas,
validation included; the points of one line take turns within a round, and the fastest round of each
counts. A slope is that of the least-squares line through the logarithms.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from batched import Batched, Training
from floor import Rates, floor_of
from growth_picture import draw
from pages import write_rows
from PIL import Image
from synthetic import Size, citation_like
from threadpoolctl import threadpool_limits
from timing import in_turns, machine

from private_graphs.core.files import atomic_path
from private_graphs.methods.gcn_protocols import PAPER, RELEASED, SOUND

AIM = 1.1
BASE, REPLICAS = Size(nodes=8000, edges=20_000, nonzeros=200_000), 4
LINES = (
    Training(PAPER, "sgd", 0.0, 1),
    Training(PAPER, "sgd", 112.0, 1),
    Training(PAPER, "adam", 35.0, 10),
    Training(SOUND, "adam", 35.0, 10),
    Training(RELEASED, "adam", 35.0, 10),
)
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
ALL = "nodes, edges and non-zeros"


@dataclass(frozen=True)
class Point:
    """One measured size."""

    axis: str
    value: int
    size: Size
    replicas: int


def axes(scale: float, replicas: tuple[int, ...], factors: tuple[float, ...]) -> list[list[Point]]:
    """The points of every axis; ``scale`` multiplies the base graph."""
    counts = ("nodes", "edges", "nonzeros")
    base = replace(BASE, **{name: int(getattr(BASE, name) * scale) for name in counts})

    def scaled(names: tuple[str, ...], factor: float) -> Size:
        return replace(base, **{name: int(getattr(base, name) * factor) for name in names})

    found = [[Point("replicas", count, base, count) for count in replicas]]
    titles = {"nodes": ("nodes",), "edges": ("edges",), "non-zeros": ("nonzeros",), ALL: counts}
    for title, names in titles.items():
        sizes = [scaled(names, factor) for factor in factors]
        found.append([Point(title, getattr(each, names[0]), each, REPLICAS) for each in sizes])
    return found


def slope(values: list[float], times: list[float]) -> float:
    """Exponent of growth: slope of the least-squares line through the logarithms."""
    return float(np.polyfit(np.log(values), np.log(times), 1)[0])


def measure_line(
    training: Training, points: list[Point], rates: Rates, rounds: int, seconds: float
) -> list[dict[str, object]]:
    """Measure one line: all points of an axis for one way to train."""
    graphs = {size: citation_like(size) for size in {point.size for point in points}}
    batches = {
        str(point.value): Batched(graphs[point.size], training, point.replicas) for point in points
    }
    for each in batches.values():
        each.epoch()
    taken = in_turns({key: each.side for key, each in batches.items()}, rounds, seconds)
    per_epoch = [taken[str(point.value)] * point.replicas for point in points]
    exponent = slope([point.value for point in points], per_epoch)
    rows = []
    for point, milliseconds in zip(points, per_epoch, strict=True):
        floor = floor_of(batches[str(point.value)], rates).total * point.replicas
        rows.append(
            {
                "axis": point.axis,
                "case": training.title,
                "value": point.value,
                "replicas": point.replicas,
                "nodes": point.size.nodes,
                "edges": point.size.edges,
                "nonzeros": point.size.nonzeros,
                "epoch_ms": milliseconds,
                "replica_epoch_ms": milliseconds / point.replicas,
                "floor_ms": floor,
                "over_floor": milliseconds / floor,
                "slope": exponent,
                "aim": None if point.axis == ALL else AIM,
                "reached": None if point.axis == ALL else exponent <= AIM,
            }
        )
    return rows


def main() -> None:
    """Measure every line; write its points and their picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="per point and round")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the base graph")
    parser.add_argument("--replicas", default="1,2,4,8,16,30", help="the axis of replicas")
    parser.add_argument("--factors", default="0.25,0.5,1,2,4", help="of the other axes")
    parser.add_argument("--out", type=Path, help="folder for the points and their picture")
    options = parser.parse_args()
    replicas = tuple(int(each) for each in options.replicas.split(","))
    factors = tuple(float(each) for each in options.factors.split(","))
    where, rows = machine(), []
    with threadpool_limits(limits=1):
        rates = Rates(options.seconds / 2)
        for points in axes(options.scale, replicas, factors):
            for training in LINES:
                line = measure_line(training, points, rates, options.rounds, options.seconds)
                rows += [{**row, "machine": where} for row in line]
                print(
                    f"{line[0]['axis']}: {training.title}: slope {line[0]['slope']:.2f}",
                    file=sys.stderr, flush=True,
                )  # fmt: skip
    if options.out is None:
        return
    with atomic_path(options.out / "growth.png") as temporary:
        draw(rows).savefig(temporary, format="png", dpi=140)
        Image.open(temporary).convert("RGB").quantize(64).save(temporary, "png", optimize=True)
    write_rows(options.out, "growth", rows)


if __name__ == "__main__":
    main()
