"""Time and memory of reading Pokec at its real size: profiles, selection, texts, graph.

    python benchmarks/pokec.py [--scale 1.0] [--folder DIR] [--json FILE]

Writes a synthetic dump (not timed; kept in ``--folder`` and used again), then reads it in a fresh
process per view.
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
from pathlib import Path
from typing import Any

from private_graphs.core.files import write_json
from private_graphs.datasets.pokec import FRIENDSHIPS, PER_CLASS, PROFILES, TEXTS, read_pokec
from private_graphs.datasets.pokec_format import PROFILES_FILE, RELATIONSHIPS_FILE
from private_graphs.datasets.views import VIEWS

VIEWS_TIMED = ("released", "paper", "sound")
STAGES = (PROFILES, TEXTS, FRIENDSHIPS)
"""Selection counts with the profiles, building the graph with the friendships."""


def measure(folder: Path, view: str, per_class: int) -> dict[str, Any]:
    """Read the dump of ``folder`` in this process: seconds per stage, MiB at the peak, sizes."""
    began: dict[str, float] = {}

    def progress(stage: str, _done: int, _total: int) -> None:
        began.setdefault(stage, time.perf_counter())

    started = time.perf_counter()
    graph = read_pokec(
        folder / PROFILES_FILE,
        folder / RELATIONSHIPS_FILE,
        VIEWS[view],
        name="pokec-benchmark",
        per_class=per_class,
        title="Pokec at its real size, synthetic",
        synthetic=True,
        sources=[],
        licence="none",
        citation="none",
        public_facts=[],
        progress=progress,
    )
    ended = time.perf_counter()
    starts = [started, began[TEXTS], began[FRIENDSHIPS], ended]
    seconds = [after - before for before, after in zip(starts, starts[1:], strict=False)]
    return {
        "view": view,
        "seconds": dict(zip(STAGES, seconds, strict=True)),
        "seconds_in_all": ended - started,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "nodes": graph.n_nodes,
        "edges": graph.edge_index.shape[1],
        "counts": graph.info.counts,
    }


def _dump(folder: Path, scale: float) -> None:
    """Write the dump unless the one of this scale is there."""
    from pokec_dump import write_dump

    stamp = folder / "dump.json"
    wanted = {"scale": scale}
    if stamp.is_file() and json.loads(stamp.read_text()) == wanted:
        return
    stamp.unlink(missing_ok=True)
    paths = write_dump(folder, scale)
    write_json(stamp, wanted)
    sizes = ", ".join(f"{path.stat().st_size / 1e6:.0f} MB" for path in paths)
    print(f"dump written to {folder}: {sizes}", file=sys.stderr)


def table(results: list[dict[str, Any]]) -> str:
    """The measurements as a Markdown table."""
    head = ["view", *(f"{stage} [s]" for stage in STAGES), "in all [s]", "peak [MiB]", "nodes"]
    lines = ["| " + " | ".join([*head, "edges"]) + " |", "|---" + "|--:" * len(head) + "|"]
    for each in results:
        seconds = [f"{each['seconds'][stage]:.1f}" for stage in STAGES]
        cells = [each["view"], *seconds, f"{each['seconds_in_all']:.1f}"]
        cells += [f"{each['peak_mib']:.0f}", f"{each['nodes']:,}", f"{each['edges']:,}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def run(folder: Path, scale: float) -> list[dict[str, Any]]:
    """Write the dump, then measure every view in a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    _dump(folder, scale)
    results = []
    for view in VIEWS_TIMED:
        command = [sys.executable, __file__, "--folder", str(folder), "--one", view]
        finished = subprocess.run(
            [*command, "--scale", str(scale)], stdout=subprocess.PIPE, text=True, check=True
        )
        results.append(json.loads(finished.stdout))
    return results


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="size relative to the real dump")
    parser.add_argument("--folder", type=Path, help="where the dump is kept (default: nowhere)")
    parser.add_argument("--json", type=Path, help="also write the measurements here")
    parser.add_argument("--one", choices=VIEWS_TIMED, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        per_class = max(1, round(PER_CLASS * options.scale))
        print(json.dumps(measure(options.folder, options.one, per_class)))
        return
    if options.folder:
        results = run(options.folder, options.scale)
    else:
        with tempfile.TemporaryDirectory() as folder:
            results = run(Path(folder), options.scale)
    print(table(results))
    if options.json:
        write_json(
            options.json,
            {"scale": options.scale, "cores": os.cpu_count(), "views": results},
        )


if __name__ == "__main__":
    main()
