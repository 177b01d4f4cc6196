"""``private-graphs dataset``: build a built-in dataset, one of PyG, or one of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from private_graphs.cli import run
from private_graphs.cli.kinds import refuse_others
from private_graphs.cli.options import DATA, DataFolder, Mirror, Threads
from private_graphs.cli.run import load_data
from private_graphs.cli.terminal import print_json, say
from private_graphs.core.errors import UsageError
from private_graphs.datasets.protocols import PROTOCOLS


def dataset(
    name: str,
    *,
    features: run.FeatureKind = None,
    pyg: str | None = None,
    file: Path | None = None,
    max_edges: run.MaxEdges = None,
    protocol: run.ProtocolName = "sound",
    mirror: Mirror = None,
    data: DataFolder = DATA,
    device: run.Device = "auto",
    threads: Threads = 1,
) -> None:
    """Build a dataset and print its statistics as JSON.

    With --pyg, PyTorch Geometric downloads a node-level dataset (below raw/pyg of --data) and reads
    it. You trust its readers and the publisher of the files, whose sha256 is shown. With --file,
    the graph comes from an .npz file, or from a .pt file that PyTorch Geometric saved; nothing in
    it is run (docs/data.md has the form). The graph is kept as arrays in own beside --data; train
    and the studies accept its name. All its validation and test nodes are public.

    Missing raw files are taken from --mirror or downloaded, and checked by sha256. Documents of
    your own that must stay private: 'declare'.

    Examples:

    private-graphs dataset synthetic-planetoid

    private-graphs dataset pokec_demo --features fasttext --protocol paper

    private-graphs dataset dblp --pyg CitationFull:DBLP

    private-graphs dataset my_campus --file my_campus.npz --max-edges 100000

    Args:
        name (str): such as cora, or with --pyg and --file a new name.
        pyg (CLASS:NAME): a dataset of PyTorch Geometric, such as CitationFull:DBLP.
        file (file): a graph as .npz, or as .pt of PyTorch Geometric.
    """
    given = dict(locals())
    if pyg is not None or file is not None:
        source = "file" if pyg is None else "pyg"
        refuse_others(dataset, given, f"name data max_edges {source}", f"the graph is --{source}'s")
        _show(_brought(name, pyg, file, max_edges, data))
        return
    if max_edges is not None:
        raise UsageError("--max-edges is for --pyg and --file; leave it out")
    _show(load_data(name, features, PROTOCOLS[protocol].data, mirror, data, device, threads))


def _brought(
    name: str, pyg: str | None, file: Path | None, max_edges: int | None, data: Path
) -> Any:
    """Build a dataset of PyTorch Geometric or of a file, and store it under its name."""
    from private_graphs.datasets.graph_files import keep_graph, read_graph
    from private_graphs.datasets.graph_names import free_name
    from private_graphs.datasets.own import OWN_FOLDER
    from private_graphs.datasets.registry import built_graphs, dataset_names
    from private_graphs.documents.declaration import known_names

    folder = data.parent / OWN_FOLDER
    names = {*dataset_names([name], folder)} - {*built_graphs(folder)}
    if name in names or name in known_names(data):
        raise UsageError(f"{name!r} is the name of another dataset; choose another name")
    try:
        free_name(name)
    except ValueError as error:
        raise UsageError(f"{name!r}: {error}") from None
    if pyg is not None:
        from private_graphs.datasets import pyg as reader  # the import takes seconds

        built = reader.read(name, pyg, data)
    else:
        built = read_graph(name, file)
    keep_graph(built, folder / name, max_edges)
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
