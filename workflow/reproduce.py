"""Run Snakemake, and say where its results are. Arguments are passed on to Snakemake."""

from __future__ import annotations

import os
import sys
from pathlib import Path

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


def main(arguments: list[str]) -> int:
    """Run Snakemake in this process and say where the results are."""
    os.chdir(Path(__file__).resolve().parents[1])
    from snakemake.cli import main as snakemake

    try:
        snakemake(arguments)
    except SystemExit as end:
        if end.code not in (0, None):
            return end.code if isinstance(end.code, int) else 1
    except KeyboardInterrupt:  # before the first job; later the workflow itself says so
        print("\nInterrupted before anything ran.", file=sys.stderr)
        return INTERRUPTED
    print("Done. Open results/index.html in a browser; the files are in results/*/exhibits/.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
