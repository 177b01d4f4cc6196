"""Reading and subsampling a graph of the size of Reddit: seconds and peak memory.

    python benchmarks/reddit.py --json reddit.json

Writes a file of the form and size of ``reddit.zip`` with random content (not timed, about 2 GB on
disk for as long as it runs), then reads and samples it once for each kind of sample, in a process
of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from private_graphs.core.files import atomic_path, write_json
from private_graphs.datasets.reddit import DATA_FILE, GRAPH_FILE, N_CLASSES, read_reddit
from private_graphs.datasets.views import RELEASED, SOUND
from private_graphs.site.record import machine_words

NODES, FEATURES, ENTRIES = 232_965, 602, 114_615_892
MASKS = (153_431, 23_831, 55_703)
"""Training, validation and test nodes."""
AIM_SECONDS, AIM_GIB = 120.0, 8.0
KINDS = {view.node_sample: view for view in (RELEASED, SOUND)}
CHUNK = 1 << 20


def _save(
    archive: zipfile.ZipFile, key: str, shape: tuple[int, ...], dtype: str,
    blocks: Iterator[np.ndarray],
) -> None:  # fmt: skip
    """Write one array of an ``.npz`` file block by block."""
    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    with archive.open(f"{key}.npy", "w", force_zip64=True) as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for block in blocks:
            stream.write(np.ascontiguousarray(block, dtype=dtype).tobytes())


def _pairs(nodes: int, entries: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the ends of entries // 2 random pairs without loops; the same every time."""
    for number, start in enumerate(range(0, entries // 2, CHUNK)):
        generator = np.random.default_rng([2, number])
        count = min(CHUNK, entries // 2 - start)
        first = generator.integers(0, nodes, count, dtype=np.int32)
        step = generator.integers(1, nodes, count, dtype=np.int32)
        yield first, (first + step) % nodes


def _features(nodes: int, width: int) -> Iterator[np.ndarray]:
    generator = np.random.default_rng(1)
    rows = max(1, CHUNK // width)
    for start in range(0, nodes, rows):
        yield generator.standard_normal((min(rows, nodes - start), width), dtype=np.float32)


def generate(path: Path, scale: float = 1.0) -> dict[str, int]:
    """Write an archive like ``reddit.zip`` at ``scale`` times its nodes and entries.

    Features are float64 and every archive is compressed, which makes it no smaller to unpack than
    the published one. Every pair of nodes has both its entries. Returns the sizes.
    """
    masks = [max(N_CLASSES, int(count * scale)) for count in MASKS]
    nodes, entries = sum(masks), int(ENTRIES * scale) // 2 * 2
    generator = np.random.default_rng(0)
    kinds = generator.permutation(np.repeat([1, 2, 3], masks))
    labels = generator.integers(0, N_CLASSES, nodes)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        data, graph = Path(folder) / DATA_FILE, Path(folder) / GRAPH_FILE
        with zipfile.ZipFile(data, "w") as archive:
            _save(archive, "feature", (nodes, FEATURES), "<f8", _features(nodes, FEATURES))
            _save(archive, "label", (nodes,), "<i8", iter([labels]))
            _save(archive, "node_types", (nodes,), "<i8", iter([kinds]))
            _save(archive, "node_ids", (nodes,), "<i8", iter([np.arange(nodes)]))
        with zipfile.ZipFile(graph, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            ends = {"row": (0, 1), "col": (1, 0)}
            for key, order in ends.items():
                both = (pair[end] for pair in _pairs(nodes, entries) for end in order)
                _save(archive, key, (entries,), "<i4", both)
            ones = (np.ones(len(first) * 2) for first, _ in _pairs(nodes, entries))
            _save(archive, "data", (entries,), "<f4", ones)
            _save(archive, "shape", (2,), "<i8", iter([np.array([nodes, nodes])]))
            _save(archive, "format", (), "|S3", iter([np.array(b"coo")]))
        with (
            atomic_path(path) as temporary,
            zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        ):
            archive.write(data, DATA_FILE)
            archive.write(graph, GRAPH_FILE)
    return {"nodes": nodes, "entries": entries, "bytes": path.stat().st_size}


def read_once(path: Path, kind: str) -> dict[str, float]:
    """Read and sample in this process: sizes, seconds and the peak of its memory."""
    started = time.perf_counter()
    graph = read_reddit(path, KINDS[kind])
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
    return {
        "seconds": seconds,
        "peak_gib": peak / 2**30,
        "training_nodes": int(graph.train_mask.sum()),
        "nodes": len(graph.labels),
        "edges": graph.edge_index.shape[1],
    }


def _in_own_process(path: Path, kind: str) -> dict[str, float]:
    """Result of :func:`read_once` in a fresh process."""
    command = [sys.executable, str(Path(__file__).resolve()), "--read", str(path), "--kind", kind]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def measure(scale: float, folder: Path | None, say: Callable[[str], None]) -> dict[str, object]:
    """Generate the archive below ``folder``, read it for each kind of sample, and remove it."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="reddit-") as place:
        path = Path(place) / "reddit.zip"
        say(f"writing {path}")
        sizes = generate(path, scale)
        kinds = {}
        for kind in KINDS:
            say(f"reading: {kind}")
            kinds[kind] = _in_own_process(path, kind)
    worst = [max(each[key] for each in kinds.values()) for key in ("seconds", "peak_gib")]
    return {
        "scale": scale,
        **sizes,
        "kinds": kinds,
        "aim_seconds": AIM_SECONDS,
        "aim_gib": AIM_GIB,
        "reached": worst[0] <= AIM_SECONDS and worst[1] <= AIM_GIB,
        "machine": machine_words(),
    }


def page(result: dict[str, object]) -> str:
    """The result as Markdown."""
    lines = [
        f"Read and sampled: {result['nodes']:,} nodes, {result['entries']:,} directed entries, "
        f"{FEATURES} features, an archive of {result['bytes']:,} bytes "
        f"(scale {result['scale']:g}). Aim: {result['aim_seconds']:g} s and "
        f"{result['aim_gib']:g} GiB: {'reached' if result['reached'] else '**missed**'}. "
        f"Machine: {result['machine']}.",
        "",
        "| sample | seconds | peak memory, GiB | training nodes | nodes | edges |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for kind, each in result["kinds"].items():
        lines.append(
            f"| {kind} | {each['seconds']:.1f} | {each['peak_gib']:.2f} | "
            f"{each['training_nodes']:,} | {each['nodes']:,} | {each['edges']:,} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, print the page, write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of nodes and entries")
    parser.add_argument("--json", type=Path, help="file for the numbers")
    parser.add_argument("--folder", type=Path, help="where the archive is written meanwhile")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=list(KINDS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read is not None:
        print(json.dumps(read_once(options.read, options.kind)))
        return
    result = measure(
        options.scale, options.folder, lambda text: print(text, file=sys.stderr, flush=True)
    )
    if options.json is not None:
        write_json(options.json, result)
    print(page(result))


if __name__ == "__main__":
    main()
