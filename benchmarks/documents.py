"""``declare`` and ``classify`` on many documents: CPU seconds and peak memory of each command.

    python benchmarks/documents.py [--size 500000]

Invented letters (``examples/make_letters.py``) with four links each, one person's letters one unit,
nobody public. Writing the tables is not part of the times.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from private_graphs.site.record import machine_words

ROOT = Path(__file__).resolve().parents[1]
LETTERS = ROOT / "examples" / "make_letters.py"
DEPARTMENTS = "surgery,cardiology,neurology,paediatrics,oncology,orthopaedics,psychiatry"
LINKS = 4
"""Links of a letter."""
AIM_SECONDS, AIM_BYTES = 60.0, 2_500_000_000
METHODS = ("word_sums", "dp_linear")


def measured(folder: Path, *arguments: str) -> tuple[float, float]:
    """Return CPU seconds and peak GB of a command, which has AIM_BYTES of address space."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (AIM_BYTES, AIM_BYTES))

    command = [sys.executable, "-m", "private_graphs", *arguments]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, preexec_fn=limit
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e9


def write_tables(folder: Path, size: int) -> None:
    """Write letters.csv and links.csv."""
    subprocess.run([sys.executable, LETTERS, folder, "--size", str(size)], check=True)
    ends = np.random.default_rng(0).integers(0, size, (LINKS * size, 2))
    with open(folder / "links.csv", "w", encoding="utf-8") as stream:
        stream.write("source,target\n")
        stream.writelines(
            f"L{one:06},L{other:06}\n" for one, other in ends.tolist() if one != other
        )


def main() -> None:
    """Measure, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=500_000, help="number of letters")
    size = parser.parse_args().size
    rows = []
    with tempfile.TemporaryDirectory(prefix="documents-") as place:
        folder = Path(place)
        write_tables(folder, size)
        declared, most = measured(
            folder, "declare", "letters", "--nodes", "letters.csv", "--edges", "links.csv",
            "--text", "title,text", "--label", "department", "--unit", "patient", "--classes",
            DEPARTMENTS,
        )  # fmt: skip
        for method in METHODS:
            seconds, peak = measured(
                folder, "classify", "letters", "--epsilon", "1", "--method", method, "--out", method
            )
            peak = max(peak, most)
            both = declared + seconds
            rows.append(
                f"| `{method}` | {declared:.1f} | {seconds:.1f} | {both:.1f} | {peak:.2f} | "
                f"{'reached' if both <= AIM_SECONDS else '**missed**'} |"
            )
    print("\n".join([
        f"{size:,} letters, {LINKS * size:,} links. Machine: {machine_words()}.", "",
        "| method | declare [s] | classify [s] | both [s] | peak [GB] | aim |",
        "|---|--:|--:|--:|--:|---|", *rows,
    ]))  # fmt: skip


if __name__ == "__main__":
    main()
