"""Flags shared by several ``private-graphs`` commands, and checks of their values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

import typer

from private_graphs.core.errors import UsageError
from private_graphs.core.limits import LARGEST_SEED, MOST_EDGES, MOST_THREADS
from private_graphs.privacy.checks import check_delta

DATA = Path("data/raw")
"""Default folder of raw files."""
Protocols = Literal["released", "paper", "sound"]
Visits = Literal["protocol", "epoch_sum", "poisson"]
NEEDS_EPSILON = "give --epsilon: a number, or inf for a run without DP"


def checked_delta(delta: float) -> float:
    """Return ``delta``; UsageError unless it is one."""
    check_delta(delta, "--delta")
    return delta


Mirror = Annotated[
    str | None, typer.Option(help="Folder (or URL) with the raw files, tried before the network.")
]
DataFolder = Annotated[
    Path, typer.Option(help="Where raw files are kept and looked for first.", metavar="DIR")
]
FeatureKind = Annotated[
    str | None,
    typer.Option(
        metavar="bow|fasttext|bert|sbert",
        help="Features made of texts; default: those the dataset was declared with, else its own.",
    ),
]
MaxEdges = Annotated[
    int | None,
    typer.Option(
        help="Public bound on the number of links, which --scenario edges needs of a graph of "
        "your own: any that is known without looking at them.",
        min=1,
        max=MOST_EDGES,
        metavar="N",
    ),
]
Device = Annotated[
    Literal["auto", "cpu", "cuda"], typer.Option(help="Where models read texts and train.")
]
Threads = Annotated[
    int, typer.Option(help="CPU threads; they share out the replicas.", min=1, max=MOST_THREADS)
]
ProtocolName = Annotated[
    Protocols,
    typer.Option(
        help="released: what the authors' code does; paper: what the text says; sound: what can "
        "be proved.",
    ),
]
Epsilon = Annotated[str | None, typer.Option(help="Privacy budget, or inf for a run without DP.")]
Delta = Annotated[
    float, typer.Option(help="The delta of (epsilon, delta)-DP.", callback=checked_delta)
]
Seed = Annotated[
    int,
    typer.Option(help="Of all draws: the same seed, the same answer.", min=0, max=LARGEST_SEED),
]
FirstSeed = Annotated[
    int | None,
    typer.Option(
        help="First seed; makes the run repeatable, and the guarantee suppose that the seed stays "
        "secret.",
        min=0,
        max=LARGEST_SEED,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def checked_epsilon(epsilon: str | None, needed: str = NEEDS_EPSILON) -> float:
    """Return the budget (inf: no DP); UsageError with the text ``needed`` if it is missing."""
    if epsilon is None:
        raise UsageError(needed)
    try:
        value = float(epsilon)
    except ValueError:
        raise UsageError(f"--epsilon is {epsilon!r}; expected a number or inf") from None
    if not value > 0:
        raise UsageError(f"--epsilon is {epsilon}; expected a number above 0, or inf for no DP")
    if math.isinf(value) and any(sign.isdigit() for sign in str(epsilon)):
        raise UsageError(
            f"--epsilon is {epsilon}, which is too large for a number; expected inf for no DP"
        )
    return value
