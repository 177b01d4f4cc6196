"""What several commands of ``private-graphs`` do: load a graph, print, speak to the user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from private_graphs.cli_options import ProgressBar

DATA = Path("data/raw")
"""Where raw files are kept if nothing else is said."""


def print_json(value: Any) -> None:
    """Print a result on standard output."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def say(message: str) -> None:
    """Print on standard error what is no result."""
    typer.echo(message, err=True)


def load_graph(
    name: str,
    features: str | None,
    view,
    mirror: str | None,
    data: Path,
    device: str,
    threads: int,
    declared=None,
):
    """Supply the raw files of a dataset, make its features, and return it."""
    from private_graphs.features.load import load_dataset

    with ProgressBar("features", "text") as progress:
        return load_dataset(
            name,
            features,
            view,
            data,
            mirror,
            threads=threads,
            device=device,
            progress=progress,
            declared=declared,
        )
