"""``private-graphs dataset``: build a built-in dataset or one of PyG."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from private_graphs.cli.options import (
    DATA,
    DataFolder,
    Device,
    FeatureKind,
    Mirror,
    ProtocolName,
    Threads,
)
from private_graphs.cli.run import load_data
from private_graphs.cli.terminal import print_json, say
from private_graphs.core.errors import UsageError
from private_graphs.core.protocols import PROTOCOLS


def dataset(
    name: Annotated[
        str, typer.Argument(help="Such as cora, or with --pyg a new name.")
    ],
    features: FeatureKind = None,
    pyg: Annotated[
        str | None,
        typer.Option(help="A dataset of PyTorch Geometric, such as CitationFull:DBLP.",
                     metavar="CLASS:NAME"),
    ] = None,
    protocol: ProtocolName = "sound",
    mirror: Mirror = None,
    data: DataFolder = DATA,
    device: Device = "auto",
    threads: Threads = 1,
) -> None:  # fmt: skip
    """Build a dataset and print its statistics as JSON.

    With --pyg, PyTorch Geometric downloads a node-level dataset (below raw/pyg of --data) and reads
    it. You trust its readers and the publisher of the files, whose sha256 is shown; pickles, which
    can run code, are read only if this project lists their sha256 (Planetoid). The graph is kept as
    arrays in own beside --data, and train and classify accept its name.

    Missing raw files are taken from --mirror or downloaded, and checked by sha256. Documents of
    your own that must stay private: 'declare'.

    Examples:

    private-graphs dataset synthetic-planetoid

    private-graphs dataset pokec_demo --features fasttext --protocol paper

    private-graphs dataset dblp --pyg CitationFull:DBLP
    """
    if pyg is not None:
        if features is not None:
            raise UsageError("--features with --pyg, expected neither; leave out one of the two")
        _show(_from_pyg(name, pyg, data))
        return
    _show(load_data(name, features, PROTOCOLS[protocol].data, mirror, data, device, threads))


def _from_pyg(name: str, pyg: str, data: Path):
    """Build a dataset of PyTorch Geometric, and store it under its name."""
    from private_graphs.datasets import pyg as reader
    from private_graphs.datasets.own import OWN_FOLDER, free_name
    from private_graphs.datasets.registry import dataset_names
    from private_graphs.documents.declaration import known_names

    folder = data.parent / OWN_FOLDER
    if name in dataset_names(folder) or name in known_names(data):
        raise UsageError(f"{name!r} is the name of another dataset; choose another name")
    try:
        free_name(name)
    except ValueError as error:
        raise UsageError(f"{name!r}: {error}") from None
    built = reader.read(name, pyg, data)
    built.save(folder / name)
    say(f"{name}: {built.n_nodes:,} nodes, kept in {folder / name}")
    return built


def _show(built: Any) -> None:
    """Print the statistics of a dataset, and warnings: for an own graph all of them."""
    from private_graphs.datasets.own_warnings import warnings_about, warnings_about_texts
    from private_graphs.datasets.registry import DATASETS

    statistics = built.statistics()
    if hasattr(built.info, "counts"):  # images have none
        warned = warnings_about_texts if built.info.name in DATASETS else warnings_about
        for warning in warned(statistics):
            say(f"warning: {warning}")
    print_json({**statistics, "public_facts": built.info.public_facts})
