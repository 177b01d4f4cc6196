"""Reading and building a graph of the size of ogbn-products: CPU seconds and peak memory.

    python benchmarks/products.py --json products.json

Writes an archive of the form and size of ``products.zip`` with random content (not timed), then
builds the dataset in a process of its own: what the workflow does with the genuine file. For as
long as it runs it needs 4 GB on disk.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv

from private_graphs.core.files import write_json
from private_graphs.datasets import registry
from private_graphs.datasets.graph_dataset import ParsedGraph
from private_graphs.datasets.ogb import N_CLASSES, N_FEATURES, RAW, SMALLEST, read_products
from private_graphs.site.record import machine_words

NODES, EDGES = 2_449_029, 61_859_140
LARGE, LARGE_SHARE = 10, 0.7312
"""Classes above the bound, and their share of the nodes."""
WITHIN_CLASS = 0.6
"""Edges that are drawn inside a class; so as many stay as of the genuine graph."""
AIM_GIB = 6.0
CHUNK = 1 << 20


def _labels(nodes: int) -> np.ndarray:
    """Return shuffled labels (nodes,) with exact shares: ten large classes, many small ones."""
    shares = np.full(N_CLASSES, (1 - LARGE_SHARE) / (N_CLASSES - LARGE))
    shares[:: N_CLASSES // LARGE][:LARGE] = np.linspace(1.3, 0.7, LARGE) * LARGE_SHARE / LARGE
    counts = np.round(shares * nodes).astype(np.int64)
    counts[0] += nodes - counts.sum()
    return np.random.default_rng(0).permutation(np.repeat(np.arange(N_CLASSES), counts))


def _edges(labels: np.ndarray, edges: int) -> Iterator[np.ndarray]:
    """Yield (some, 2) ends of random edges, each once in one direction as in the genuine file."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels, minlength=N_CLASSES)
    starts = np.cumsum(sizes) - sizes
    for number, begin in enumerate(range(0, edges, CHUNK)):
        generator = np.random.default_rng([1, number])
        count = min(CHUNK, edges - begin)
        first = generator.integers(0, len(labels), count)
        own = labels[first]
        inside = order[starts[own] + generator.integers(0, sizes[own])]
        other = generator.integers(0, len(labels), count)
        second = np.where(generator.random(count) < WITHIN_CLASS, inside, other)
        yield np.stack([first, second], axis=1)


def _features(nodes: int) -> Iterator[np.ndarray]:
    generator = np.random.default_rng(2)
    rows = CHUNK // N_FEATURES
    for begin in range(0, nodes, rows):
        shape = (min(rows, nodes - begin), N_FEATURES)
        yield generator.standard_normal(shape, dtype=np.float32)


def generate(path: Path, scale: float = 1.0) -> dict[str, int]:
    """Write an archive like ``products.zip`` at ``scale`` times its nodes and edges."""
    nodes, edges = int(NODES * scale), int(EDGES * scale)
    labels = _labels(nodes)
    tables = {
        "num-node-list": iter([np.array([[nodes]])]),
        "num-edge-list": iter([np.array([[edges]])]),
        "node-label": iter([labels[:, None]]),
        "node-feat": _features(nodes),
        "edge": _edges(labels, edges),
    }
    plain = pyarrow.csv.WriteOptions(include_header=False)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, blocks in tables.items():
            with (
                archive.open(f"{RAW}/{name}.csv.gz", "w", force_zip64=True) as member,
                gzip.GzipFile(fileobj=member, mode="wb", compresslevel=1) as packed,
            ):
                for block in blocks:
                    columns = {str(number): column for number, column in enumerate(block.T)}
                    pyarrow.csv.write_csv(pyarrow.table(columns), packed, plain)
    return {"raw_nodes": nodes, "raw_edges": edges, "bytes": path.stat().st_size}


def _peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 2**30  # Linux counts in KiB


def build_once(folder: Path, scale: float) -> dict[str, float]:
    """Build, check, count and save the dataset in this process: sizes, seconds, peaks of memory."""
    found: dict[str, float] = {}

    def read(path: Path) -> ParsedGraph:
        began = time.process_time()
        graph = read_products(path, int(SMALLEST * scale))
        found["reading_cpu_seconds"] = time.process_time() - began
        found["reading_gib"] = _peak_gib()
        return graph

    registry.DATASETS["amazon"] = replace(registry.DATASETS["amazon"], read=read)
    began = time.process_time()
    dataset = registry.build("amazon", folder)
    dataset.save(folder / "built")
    counted = dataset.statistics()
    found["building_cpu_seconds"] = time.process_time() - began
    found["building_gib"] = _peak_gib()
    return found | {name: counted[name] for name in ("nodes", "edges", "features", "classes")}


def measure(scale: float, folder: Path | None, say: Callable[[str], None]) -> dict[str, object]:
    """Generate the archive below ``folder``, build the dataset, and remove both."""
    spec = registry.DATASETS["amazon"]
    with tempfile.TemporaryDirectory(dir=folder, prefix="products-") as place:
        path = Path(place) / spec.raw
        path.parent.mkdir()
        say(f"writing {path}")
        sizes = generate(path, scale)
        say("building")
        command = [sys.executable, str(Path(__file__).resolve())]
        command += ["--build", place, "--scale", str(scale)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
    found = json.loads(done.stdout)
    return {
        "scale": scale,
        **sizes,
        **found,
        "aim_gib": AIM_GIB,
        "reached": found["building_gib"] <= AIM_GIB,
        "machine": machine_words(),
    }


def page(result: dict[str, object]) -> str:
    """The result as Markdown."""
    lines = [
        f"Read: {result['raw_nodes']:,} nodes, {result['raw_edges']:,} edges, {N_FEATURES} "
        f"features, an archive of {result['bytes']:,} bytes (scale {result['scale']:g}). Kept: "
        f"{result['nodes']:,} nodes and {result['edges']:,} edges of {result['classes']} classes. "
        f"Aim: {result['aim_gib']:g} GiB: {'reached' if result['reached'] else '**missed**'}. "
        f"Machine: {result['machine']}.",
        "",
        "| | CPU seconds, one thread | peak memory, GiB |",
        "|---|---:|---:|",
    ]
    for name, words in {
        "reading": "reading",
        "building": "all: checks, file and counts too",
    }.items():
        seconds, peak = result[f"{name}_cpu_seconds"], result[f"{name}_gib"]
        lines.append(f"| {words} | {seconds:.0f} | {peak:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print the page, write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of nodes and edges")
    parser.add_argument("--json", type=Path, help="file for the numbers")
    parser.add_argument("--folder", type=Path, help="where files are written meanwhile")
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build is not None:
        print(json.dumps(build_once(options.build, options.scale)))
        return
    result = measure(
        options.scale, options.folder, lambda text: print(text, file=sys.stderr, flush=True)
    )
    if options.json is not None:
        write_json(options.json, result)
    print(page(result))


if __name__ == "__main__":
    main()
