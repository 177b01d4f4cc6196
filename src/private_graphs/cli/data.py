"""``private-graphs dataset``: build a built-in dataset, your own graph or one of PyG."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, Any

import typer

from private_graphs.cli.options import (
    DATA,
    DataFolder,
    Device,
    FeatureKind,
    MaxEdges,
    Mirror,
    ProtocolName,
    Threads,
)
from private_graphs.cli.run import load_data
from private_graphs.cli.terminal import print_json, say
from private_graphs.errors import UsageError, UserError
from private_graphs.protocols import PROTOCOLS

_OTHER_FLAGS = ("protocol", "mirror", "data", "device", "threads")
"""Flags that do not belong to a declaration."""


def dataset(
    name: Annotated[str, typer.Argument(help="Such as cora, or a name for a graph of your own.")],
    nodes: Annotated[
        Path | None, typer.Option(help="Your own graph: CSV or Parquet, one row per node.")
    ] = None,
    edges: Annotated[
        Path | None, typer.Option(help="CSV or Parquet with the columns source and target.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Columns with text, such as title,body; a name with a comma "
                     "in double quotes.", metavar="A,B")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Column with the class to predict.", metavar="COLUMN")
    ] = None,
    id: Annotated[
        str | None, typer.Option(help="Column with the ids; default id.", metavar="COLUMN")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Column with train, validation or test; default: 80/10/10 by a keyed "
                     "permutation of the ids.", metavar="COLUMN"),
    ] = None,
    features: FeatureKind = None,
    model: Annotated[
        str | None,
        typer.Option(help="Folder of a BERT or sentence model, a fastText .bin file, or "
                     "'embedded': a tiny one for trying things out."),
    ] = None,
    min_count: Annotated[
        int | None, typer.Option(help="bow: words occur more often than this; default 2.")
    ] = None,
    max_count: Annotated[
        int | None, typer.Option(help="bow: words occur at most this often; default 15000.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the 80/10/10 masks, which are public; default 0.")
    ] = None,
    max_edges: MaxEdges = None,
    source: Annotated[
        str | None, typer.Option(help="Column of the edges; default source.", metavar="COLUMN")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Column of the edges; default target.", metavar="COLUMN")
    ] = None,
    pyg: Annotated[
        str | None,
        typer.Option(help="A dataset of PyTorch Geometric, such as CitationFull:DBLP.",
                     metavar="CLASS:NAME"),
    ] = None,
    title: Annotated[str | None, typer.Option(help="For people.")] = None,
    licence: Annotated[str | None, typer.Option(help="Of the texts.")] = None,
    citation: Annotated[str | None, typer.Option(help="Where the texts come from.")] = None,
    protocol: ProtocolName = "sound",
    mirror: Mirror = None,
    data: DataFolder = DATA,
    device: Device = "auto",
    threads: Threads = 1,
) -> None:  # fmt: skip
    """Build a dataset and print its statistics as JSON; with --nodes, a graph of your own.

    With --pyg, PyTorch Geometric downloads a node-level dataset (below raw/pyg of --data) and reads
    it. You trust its readers and the publisher of the files, whose sha256 is shown; pickles, which
    can run code, are read only if this project lists their sha256 (Planetoid). The graph is kept as
    arrays in own beside --data, and train and classify accept its name.

    Missing raw files are taken from --mirror or downloaded, and checked by sha256. A graph of your
    own is remembered by its name: train and every study then accept it. All its validation and test
    nodes are public by declaration: read docs/your-own-graph.md first.

    Examples:

    private-graphs dataset synthetic-planetoid

    private-graphs dataset pokec_demo --features fasttext --protocol paper

    private-graphs dataset my_graph --nodes nodes.csv --edges edges.csv --text title,body --label
    topic --features bow

    private-graphs dataset dblp --pyg CitationFull:DBLP
    """
    flags = locals()
    if pyg is not None:
        _show(_from_pyg(flags, data))
        return
    declared = _declaration(
        {key: value for key, value in flags.items() if key not in _OTHER_FLAGS}, data
    )
    built = load_data(
        name, features, PROTOCOLS[protocol].data, mirror, data, device, threads, declared
    )
    if declared is not None:
        _remember(declared, built.n_nodes, data)
    _show(built)


def _from_pyg(flags: dict[str, Any], data: Path):
    """Build a dataset of PyTorch Geometric, and store it under its name."""
    from private_graphs.datasets import pyg
    from private_graphs.datasets.own import OWN_FOLDER, free_name
    from private_graphs.datasets.registry import dataset_names

    name = flags["name"]
    others = [
        f"--{key.replace('_', '-')}"
        for key, value in flags.items()
        if value is not None and key not in ("name", "pyg", *_OTHER_FLAGS)
    ]
    if others:
        raise UsageError(
            f"{', '.join(others)} with --pyg, expected neither; leave out one of the two"
        )
    folder = data.parent / OWN_FOLDER
    if name in dataset_names(folder):
        raise UsageError(f"{name!r} is the name of another dataset; choose another name")
    try:
        free_name(name)
    except ValueError as error:
        raise UsageError(f"{name!r}: {error}") from None
    built = pyg.read(name, flags["pyg"], data)
    built.save(folder / name)
    say(f"{name}: {built.n_nodes:,} nodes, kept in {folder / name}")
    return built


def _declaration(flags: dict[str, Any], data: Path):
    """Return the declaration that the flags of an own graph give; None without --nodes."""
    from private_graphs.datasets.own import OWN_FOLDER, anchored, declare
    from private_graphs.datasets.own_tables import column_names
    from private_graphs.datasets.registry import DATASETS, built_graphs

    given = {key: value for key, value in flags.items() if value is not None}
    if "nodes" not in given:
        alone = [f"--{key.replace('_', '-')}" for key in given if key not in ("name", "features")]
        if alone:
            raise UsageError(
                f"{', '.join(alone)} without --nodes; give --nodes, --edges, --text and --label "
                "too: a change needs the whole declaration again"
            )
        return None
    missing = [f"--{key}" for key in ("edges", "text", "label") if key not in given]
    if missing:
        raise UsageError(f"--nodes also needs {', '.join(missing)}; see 'dataset --help'")
    if given["name"] in DATASETS:
        raise UsageError(f"{given['name']!r} is a built-in dataset; choose another name")
    if given["name"] in built_graphs(data.parent / OWN_FOLDER):
        raise UsageError(f"{given['name']!r} is a dataset of --pyg; choose another name")
    columns = _text_columns(given["text"], column_names(given["nodes"]))
    if "" in columns:
        raise UsageError(
            f"--text is {given['text']!r}: a comma without a column on both sides; expected names "
            "such as title,body: remove the comma"
        )
    own = declare({**given, "text": columns}, "dataset", flags=True)
    return own if data == DATA else anchored(own)


def _text_columns(value: str, header: list[str]) -> tuple[str, ...]:
    """Parse --text: names separated by commas, or the one column whose name contains them all.

    A name with a comma may be in double quotes; blanks around a name are dropped unless ``header``
    has them.
    """
    if value in header:
        return (value,)
    names = next(csv.reader([value], skipinitialspace='"' in value), [""])
    return tuple(name if name in header else name.strip() for name in names)


def _remember(own: Any, nodes: int, data: Path) -> None:
    """Save the declaration of a graph that was built, and print what it replaces."""
    from private_graphs.datasets.own import (
        OWN_FOLDER,
        declarations,
        differences,
        read_declaration,
        remember,
    )

    folder = data.parent / OWN_FOLDER
    before, replaced = declarations(folder).get(own.name), ""
    if before is not None:
        try:
            replaced = ", ".join(differences(read_declaration(before), own))
        except UserError:
            replaced = "it could not be read"
    path = remember(own, folder)
    if replaced:
        say(
            f"replaces the declaration of {own.name}: {replaced}; what an earlier version cost "
            "in privacy still counts"
        )
    say(f"{own.name}: {nodes:,} nodes read, declared in {path}")


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
