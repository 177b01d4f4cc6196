"""Time and memory of releases of generated graphs in shards, by the workflow itself.

    python benchmarks/shards.py --folder DIR [--documents 100000,1000000,10000000] [--page FILE]

Prints JSON. Every size is generated (not timed; removed afterwards), then released by
``workflow/shards.smk`` on the cores of the machine: ``class_sums`` of the documents but 20,000
public ones, then ``edge_votes`` of ten edges a document, where a tenth of the documents is asked.
Processor seconds are those of all processes, starts of Snakemake and Python included; memory is
that of the largest process, of which as many run at a time as there are cores. ``--page`` writes
the growth and the estimate between the markers of a page.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from private_graphs.core.files import write_text
from private_graphs.datasets.shards import ShardedGraph, write_graph
from private_graphs.site.record import machine_words

ROOT = Path(__file__).resolve().parents[1]
CLASSES, WORDS, LENGTH, STRATA = 4, 2048, 16, 20
PUBLIC = 20_000
"""Validation and test documents of ``class_sums``, half each."""
BLOCK = 2**16
SIZES = "100000,1000000,10000000"
LARGE = 10**9
NODES = 100


def labels_of(nodes: np.ndarray) -> np.ndarray:
    """Return the classes of documents, by turns."""
    return nodes % CLASSES


def words_of(labels: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return (n, LENGTH) distinct words; one of eight is typical of the class."""
    width = WORDS // LENGTH
    size = (len(labels), LENGTH)
    words = draw.integers(width, size=size, dtype=np.int32)
    typical = draw.random(size, np.float32) < 1 / 8
    words = np.where(typical, words // CLASSES * CLASSES + labels[:, None].astype(np.int32), words)
    return words + np.arange(LENGTH, dtype=np.int32) * width


def _written(path: Path, schema: pa.Schema, first: int, end: int, make: Any) -> str:
    """Write rows that ``make`` draws for the nodes from ``first`` to ``end``, block by block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, schema, compression="lz4") as file:
        for start in range(first, end, BLOCK):
            nodes = np.arange(start, min(start + BLOCK, end))
            file.write_table(pa.table(make(nodes, np.random.default_rng([7, start])), schema))
    return f"shards/{path.name}"


def write_documents(path: Path, first: int, end: int) -> dict[str, Any]:
    """Write a shard of training documents."""

    def make(nodes: np.ndarray, draw: np.random.Generator) -> dict[str, Any]:
        labels = labels_of(nodes)
        words = words_of(labels, draw).ravel()
        offsets = np.arange(0, len(words) + 1, LENGTH, dtype=np.int32)
        return {
            "label": labels.astype(np.int8),
            "columns": pa.ListArray.from_arrays(offsets, words),
        }

    schema = pa.schema({"label": pa.int8(), "columns": pa.list_(pa.int32())})
    return {"file": _written(path, schema, first, end, make)}


def write_edges(path: Path, first: int, end: int, n_nodes: int) -> dict[str, Any]:
    """Write the edges from ``first`` to ``end``: ten a node on average, six of ten in its class."""
    width = n_nodes // STRATA // CLASSES * CLASSES

    def make(nodes: np.ndarray, draw: np.random.Generator) -> dict[str, Any]:
        size = (len(nodes), STRATA)
        offsets = draw.integers(1, width + 1, size=size, dtype=np.int32)
        alike = draw.random(size, np.float32) < 0.47
        offsets = np.where(alike, (offsets + CLASSES - 1) // CLASSES * CLASSES, offsets)
        targets = nodes[:, None] + np.arange(STRATA) * width + offsets
        kept = targets < n_nodes
        return {"source": np.repeat(nodes, kept.sum(axis=1)), "target": targets[kept]}

    schema = pa.schema({"source": pa.int64(), "target": pa.int64()})
    return {"file": _written(path, schema, first, end, make), "first": first, "end": end}


def _shards(write: Any, folder: Path, end: int, count: int, *more: int) -> list[dict[str, Any]]:
    """Let ``write`` make the shards, one process per core."""
    cuts = np.linspace(0, end, count + 1).astype(int).tolist()
    paths = [folder / "shards" / f"{each:04}.parquet" for each in range(count)]
    with ProcessPoolExecutor() as pool:
        asked = [
            pool.submit(write, path, first, stop, *more)
            for path, first, stop in zip(paths, cuts[:-1], cuts[1:], strict=True)
        ]
        return [each.result() for each in asked]


def _about(name: str, scenario: str, n_train: int) -> dict[str, Any]:
    classes = [f"class {each}" for each in range(CLASSES)]
    return {"name": name, "scenario": scenario, "classes": classes, "n_features": WORDS,
            "n_train": n_train}  # fmt: skip


def documents_graph(folder: Path, size: int, shards: int) -> ShardedGraph:
    """Write a graph of ``size`` documents for ``class_sums``."""
    import scipy.sparse as sp

    n_train = size - PUBLIC
    files = _shards(write_documents, folder, n_train, shards)
    nodes = np.arange(n_train, size)
    labels, public = labels_of(nodes), {"test_records": nodes[PUBLIC // 2 :]}
    words = words_of(labels, np.random.default_rng(8))
    for name, some in (("validation", slice(0, PUBLIC // 2)), ("test", slice(PUBLIC // 2, None))):
        rows = words[some]
        ones, ends = np.ones(rows.size, np.float32), np.arange(0, rows.size + 1, LENGTH)
        public[f"{name}_labels"] = labels[some]
        public[f"{name}_features"] = sp.csr_matrix((ones, rows.ravel(), ends), (len(rows), WORDS))
    return write_graph(folder, _about(f"documents-{size}", "text", n_train), public, files)


def edges_graph(folder: Path, size: int, shards: int) -> ShardedGraph:
    """Write a graph of ``size`` documents for ``edge_votes``."""
    files = _shards(write_edges, folder, size, shards, size)
    n_train, half = size - size // 10, size // 20
    nodes = np.arange(size)
    labels, draw = labels_of(nodes), np.random.default_rng(9)
    first = draw.random((size, CLASSES))
    first[nodes, labels] += 0.3
    first /= first.sum(axis=1, keepdims=True)
    public = {
        "train_labels": labels[:n_train].astype(np.int8),
        "validation_labels": labels[n_train : n_train + half],
        "test_labels": labels[n_train + half :],
        "test_records": nodes[n_train + half :],
        "first": first,
    }
    told = {"configuration": {}, "n_configurations": 1, "chosen_by": "nothing: it was generated"}
    about = _about(f"edges-{size}", "edges", n_train) | {"first": told}
    return write_graph(folder, about, public, files)


def through_workflow(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """Release the graph in ``folder`` by the workflow; return what it took."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "workflow/shards.smk")]
    words = [f"{key}={value}" for key, value in config.items()]
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*command, "--config", *words], cwd=ROOT, check=True, stdout=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    [row] = pq.read_table(folder / "out" / "private" / "runs.parquet").to_pylist()
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak_mib": after.ru_maxrss / 1024,  # of the largest process that has ended
        "test_micro_f1": row["test_micro_f1"],
        "epsilon_proved": row["epsilon_proved"],
    }


def in_one_process(config: dict[str, Any]) -> dict[str, Any]:
    """Take the same steps one after the other, in this process; return what they took."""
    sys.path.insert(0, str(ROOT / "workflow" / "scripts"))
    from shard_job import run_of

    started, before = time.perf_counter(), time.process_time()
    run = run_of(config)
    for turn in range(run.rounds):
        run.advance(turn)
        for shard in range(len(run.graph.info.shards)):
            run.sum_shard(turn, shard)
    row = run.advance(run.rounds).rows.iloc[0]
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - before,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "test_micro_f1": float(row["test_micro_f1"]),
        "epsilon_proved": float(row["epsilon_proved"]),
    }


def measure(folder: Path, method: str, size: int, shards: int, direct: bool) -> dict[str, Any]:
    """Generate one graph, in processes of their own, release it and remove it."""
    make = documents_graph if method == "class_sums" else edges_graph
    started = time.perf_counter()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        pool.submit(make, folder, size, shards).result()
    spent = time.perf_counter() - started
    info = ShardedGraph.load(folder).info
    records = sum(pq.read_metadata(folder / each.file).num_rows for each in info.shards)
    config = {"graph": folder, "out": folder / "out", "epsilon": 1, "delta": 1e-10, "seed": 0}
    if method == "edge_votes":
        config["max_edges"] = 11 * size
    found = in_one_process(config) if direct else through_workflow(folder, config)
    shutil.rmtree(folder)
    how = "one process" if direct else "workflow"
    return {"method": method, "how": how, "documents": size, "records": records, "shards": shards,
            "generated_in": spent, **found}  # fmt: skip


def slope(values: list[float], times: list[float]) -> float:
    """Exponent of growth: slope of the least-squares line through the logarithms."""
    return float(np.polyfit(np.log(values), np.log(times), 1)[0])


def growth(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return by method and way the slopes, and what 10^9 documents would take on 100 nodes."""
    found = {}
    for key in dict.fromkeys((each["method"], each["how"]) for each in rows):
        some = [each for each in rows if (each["method"], each["how"]) == key]
        sizes, cpu = ([each[name] for each in some] for name in ("documents", "cpu_seconds"))
        if len(some) > 1:
            more = (cpu[-1] - cpu[-2]) / (sizes[-1] - sizes[-2])
            found[", ".join(key)] = {
                "slope": slope(sizes, cpu),
                "last_slope": slope(sizes[-2:], cpu[-2:]),
                "cpu_microseconds_per_document": more * 1e6,
                "cpu_hours_of_1e9": more * LARGE / 3600,
                "hours_of_1e9_on_100_nodes_of_2_cores": more * LARGE / 3600 / NODES / 2,
            }
    return found


def page(told: dict[str, Any]) -> str:
    """Return the growth and the estimate as Markdown; ``--rows`` keeps every measurement."""
    heads = ["method, how", "exponent, all sizes", "last two", "µs a document there",
             "CPU hours for 10^9", "hours on 100 nodes of 2 cores"]  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|--:" * (len(heads) - 1) + "|"]
    for key, each in told["growth"].items():
        cells = [key, f"{each['slope']:.2f}", f"{each['last_slope']:.2f}",
                 f"{each['cpu_microseconds_per_document']:.1f}", f"{each['cpu_hours_of_1e9']:.1f}",
                 f"{each['hours_of_1e9_on_100_nodes_of_2_cores']:.2f}"]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    loads = [each["load"] for each in told["rows"]]
    machine = told.get("machine") or machine_words()
    lines += ["", f"{machine}; load {min(loads):.1f} to {max(loads):.1f}."]
    return "\n".join(lines)


def main() -> None:
    """Measure every size in a process of its own, as peaks are those of a process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="for generated graphs")
    parser.add_argument("--documents", default=SIZES)
    parser.add_argument("--methods", default="class_sums,edge_votes")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--rows", type=Path, help="JSON of earlier sizes; new ones are added to it")
    parser.add_argument("--page", type=Path, help="page with markers shards")
    parser.add_argument("--direct", action="store_true", help="in one process, no Snakemake")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        method, size = options.one.split(",")
        folder = options.folder / "graph"
        print(json.dumps(measure(folder, method, int(size), options.shards, options.direct)))
        return
    kept = options.rows and options.rows.is_file()
    rows = json.loads(options.rows.read_text())["rows"] if kept else []
    told = {"rows": rows, "growth": growth(rows)}
    for method in filter(None, options.methods.split(",")):
        for size in filter(None, options.documents.split(",")):
            command = [sys.executable, __file__, "--folder", str(options.folder), "--shards",
                       str(options.shards), "--one", f"{method},{size}",
                       *(["--direct"] if options.direct else [])]  # fmt: skip
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            rows.append({**json.loads(done.stdout), "load": os.getloadavg()[0]})
            rows.sort(key=lambda each: (each["method"], each["how"], each["documents"]))
            told = {"rows": rows, "growth": growth(rows), "machine": machine_words()}
            if options.rows:
                write_text(options.rows, json.dumps(told, indent=2) + "\n")
    print(json.dumps(told, indent=2))
    if options.page:
        marks = "<!-- begin: shards -->", "<!-- end: shards -->"
        text = re.sub(
            f"{marks[0]}.*?{marks[1]}",
            lambda _: f"{marks[0]}\n{page(told)}\n{marks[1]}",
            options.page.read_text(encoding="utf-8"),
            flags=re.DOTALL,
        )
        write_text(options.page, text)


if __name__ == "__main__":
    main()
