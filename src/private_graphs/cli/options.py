"""Options shared by many ``private-graphs`` commands."""

from pathlib import Path
from typing import Annotated

from typer import Option

from private_graphs.core.limits import LARGEST_SEED, MOST_THREADS

DATA = Path("data/raw")
"""Default folder of raw files."""
DataFolder = Annotated[
    Path, Option(help="Where raw files are kept and looked for first.", metavar="DIR")
]
Mirror = Annotated[
    str | None, Option(help="Folder (or URL) with the raw files, tried before the network.")
]
Threads = Annotated[
    int, Option(help="CPU threads; they share out the replicas.", min=1, max=MOST_THREADS)
]
Seed = Annotated[
    int, Option(help="Of all draws: the same seed, the same answer.", min=0, max=LARGEST_SEED)
]
AsJson = Annotated[bool, Option("--json", help="Print the result as JSON.")]
