"""Measure at full size: data, features, training of some studies; write their parts of the page.

python benchmarks/full_size.py
python benchmarks/full_size.py --only embedding
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from pages import put

HERE = Path(__file__).resolve().parent
PARTS = ("pokec", "reddit", "products", "documents", "embedding", "sums", "teachers")
"""Parts of docs/benchmarks.md, each what the script of its name prints."""


def main() -> None:
    """Run the commands, one after the other, and write what each prints into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help="parts: a,b; others are kept")
    names = parser.parse_args().only.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"--only: found {', '.join(unknown)}; expected {', '.join(PARTS)}")
    for name in names:
        script = f"{name}.py"
        print(f"python benchmarks/{script}", file=sys.stderr, flush=True)
        done = subprocess.run(
            [sys.executable, str(HERE / script)], stdout=subprocess.PIPE, text=True, check=True
        )
        put(name, done.stdout)


if __name__ == "__main__":
    main()
