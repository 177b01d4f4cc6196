"""The datasets by name: where their raw files lie, which reader reads them, what is known ahead."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

import numpy as np

from private_graphs.datasets.graph_dataset import (
    DatasetInfo,
    GraphDataset,
    ParsedGraph,
    RawFile,
    SparseFeatures,
)
from private_graphs.datasets.image_dataset import (
    IMAGES_FILE,
    ImageDataset,
    ImageInfo,
    ParsedImages,
)
from private_graphs.datasets.npz import read_npz
from private_graphs.datasets.own import (
    EMBEDDED,
    OwnGraph,
    declarations,
    known,
    read_declaration,
    read_own,
)
from private_graphs.datasets.planetoid import read_planetoid
from private_graphs.datasets.readers import reader_specs
from private_graphs.datasets.sources import load_sources, raw_records
from private_graphs.datasets.spec import TEXT_FEATURES, DatasetSpec, GraphSize
from private_graphs.datasets.text_graph import TextGraph
from private_graphs.datasets.views import VIEWS, DataView
from private_graphs.errors import UsageError, UserError, suggest

OWN_FOLDER = Path("data/own")
"""Where the graphs of users are declared, below the working folder."""

DECLARED: dict[str, OwnGraph] = {}
"""Graphs of users that the configuration of this process declares, before they are written."""

_SIZES = "the number of nodes, the classes and global statistics"
_MASKS = "the train, validation and test masks"
_PUBLIC_IMAGES = "all validation and test images with their labels"
PUBLIC_FACTS = (
    _SIZES,
    _MASKS,
    "all validation and test nodes with their texts, labels and mutual edges",
)
"""What a dataset of texts declares public (docs/privacy.md §5)."""


def _numbered(n_classes: int) -> tuple[str, ...]:
    return tuple(f"class {label}" for label in range(n_classes))


# The Planetoid files carry no names of classes. Cora's and CiteSeer's follow from the class counts
# of the original corpora (Sen et al., 2008). The .npz files carry them under `class_names`:
# Cora-ML's are the last parts of its topic paths; MS Academic's, a pickled array, are as they are.
_SPECS = (
    DatasetSpec(
        "cora",
        "Cora (Planetoid)",
        "planetoid",
        "cora",
        (
            "Theory",
            "Reinforcement_Learning",
            "Genetic_Algorithms",
            "Neural_Networks",
            "Probabilistic_Methods",
            "Case_Based",
            "Rule_Learning",
        ),
        GraphSize(2708, 5278, 49216, 1433, 7, 1208),
        max_edges=5_300,
    ),
    DatasetSpec(
        "citeseer",
        "CiteSeer (Planetoid)",
        "planetoid",
        "citeseer",
        ("AI", "ML", "IR", "DB", "Agents", "HCI"),
        GraphSize(3327, 4552, 105165, 3703, 6, 1827),
        max_edges=4_600,
    ),
    DatasetSpec(
        "pubmed",
        "PubMed Diabetes (Planetoid)",
        "planetoid",
        "pubmed",
        _numbered(3),
        GraphSize(19717, 44324, 988031, 500, 3, 18217),
        max_edges=45_000,
    ),
    DatasetSpec(
        "cora-ml",
        "Cora-ML (gnn-benchmark)",
        "npz",
        "citation-npz/cora_ml.npz",
        (
            "Case-Based",
            "Theory",
            "Genetic_Algorithms",
            "Probabilistic_Methods",
            "Neural_Networks",
            "Rule_Learning",
            "Reinforcement_Learning",
        ),
        GraphSize(2995, 8158, 151171, 2879, 7, 1495),
        max_edges=8_200,
    ),
    DatasetSpec(
        "ms-academic",
        "MS Academic, computer science (gnn-benchmark)",
        "npz",
        "citation-npz/ms_academic.npz",
        (
            "bioinformatics",
            "machine_learning",
            "computer_vision",
            "NLP",
            "graphics",
            "networks",
            "security",
            "databases",
            "data_mining",
            "game_theory",
            "HCI",
            "information_theory",
            "medical_informatics",
            "robotics",
            "theoretical_cs",
        ),
        GraphSize(18333, 81894, 1092079, 6805, 15, 16833),
        max_edges=82_000,
    ),
    DatasetSpec(
        "synthetic-planetoid",
        "Synthetic citation graph in the Planetoid format",
        "planetoid",
        "synthetic",
        _numbered(7),
        GraphSize(2400, 4944, 42658, 1200, 7, 900),
        max_edges=5_000,
        synthetic=True,
    ),
    DatasetSpec(
        "synthetic-npz",
        "Synthetic citation graph in the gnn-benchmark format",
        "npz",
        "citation-npz/synthetic.npz",
        _numbered(7),
        GraphSize(2500, 5405, 44298, 1300, 7, 1000),
        max_edges=5_500,
        synthetic=True,
    ),
    # Sizes of Pokec and Reddit are those of the paper and of the published files; words per user
    # are estimated.
    DatasetSpec(
        "pokec",
        "Pokec, users with cats or dogs (SNAP)",
        "pokec",
        "pokec",
        ("cat", "dog"),
        GraphSize(20000, 32782, 20000 * 768, 768, 2, 16000),
        max_edges=33_000,
        features=TEXT_FEATURES,
        sizes={
            "bow": (9447, 20000 * 120),
            "fasttext": (300, 20000 * 300),
            "sbert": (512, 20000 * 512),
        },
        models={
            "bert": "bert-base-multilingual-cased",
            "fasttext": "fasttext-cc-sk-300",
            "sbert": "distiluse-base-multilingual-cased-v2",
        },
        views=tuple(VIEWS),
        per_class=10_000,
    ),
    DatasetSpec(
        "reddit",
        "Reddit posts (GraphSAGE), 10 % of the training nodes",
        "reddit",
        "reddit/reddit.zip",
        _numbered(41),
        GraphSize(94_876, 10_000_000, 94_876 * 602, 602, 41, 15_342),
        max_edges=58_000_000,  # of the whole graph, before nodes are sampled
        views=("released", "paper", "sound"),
    ),
    DatasetSpec(
        "pokec_demo",
        "Synthetic user profiles in the Pokec format",
        "pokec",
        "pokec_demo",
        ("cat", "dog"),
        GraphSize(1200, 2352, 1200 * 96, 96, 2, 960),
        max_edges=2_400,
        synthetic=True,
        features=TEXT_FEATURES,
        sizes={"bow": (471, 165385), "fasttext": (64, 1200 * 64), "sbert": (64, 1200 * 64)},
        views=tuple(VIEWS),
        per_class=600,
    ),
)

DATASETS: dict[str, DatasetSpec] = {spec.name: spec for spec in (*_SPECS, *reader_specs())}
"""Every dataset by name."""

_SYNTHETIC_LICENCE = "Apache-2.0 (generated by this project)"
_SYNTHETIC_CITATION = "Generated by private_graphs.datasets; no real document, picture or person"


def dataset_names(own_folder: Path = OWN_FOLDER) -> list[str]:
    """Return the names of all datasets: built-in ones, then those that users declared.

    A declaration that cannot be read is left out, with a warning on standard error.
    """
    return [*DATASETS, *{**known(own_folder), **DECLARED}]


def dataset_spec(name: str, own_folder: Path = OWN_FOLDER) -> DatasetSpec:
    """Return the entry of a dataset; ``own_folder`` holds the graphs that users declared.

    Raises:
        UsageError: no dataset has this name; lists the names and suggests the nearest.
        UserError: the declaration of this name cannot be read (another one does not matter).
    """
    if name in DATASETS:
        return DATASETS[name]
    if name in DECLARED:
        return own_spec(DECLARED[name])
    declared = declarations(own_folder)
    if name in declared:
        return own_spec(read_declaration(declared[name]))
    names = dataset_names(own_folder)
    near = suggest(name, names) or suggest(name.lower(), names)
    raise UsageError(
        f"unknown dataset {name!r}, expected one of {', '.join(names)}{near}; a graph of your own "
        "is declared with private-graphs dataset NAME --nodes FILE --edges FILE, and is then "
        f"looked up in {Path(own_folder).as_posix()} (beside the folder of --data)"
    )


def declared_graphs(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of ``names`` that are graphs of users: all that is not built in."""
    return tuple(sorted(set(names) - set(DATASETS)))


def own_spec(own: OwnGraph) -> DatasetSpec:
    """Entry of a user's graph; its size is that of the declaration's files, its columns a guess."""
    nodes, edges = _rows(own.nodes), _rows(own.edges)
    kinds = (own.features, *(each for each in TEXT_FEATURES if each != own.features))
    columns = {"bow": (5000, 60 * nodes), "fasttext": (300, 300 * nodes)}
    columns |= {"bert": (768, 768 * nodes), "sbert": (512, 512 * nodes)}
    default, nonzeros = columns[own.features]
    models = {
        "bert": "bert-base-multilingual-cased",
        "sbert": "distiluse-base-multilingual-cased-v2",
    }
    if own.model is not None:  # a model is that of the declared features alone
        models.pop(own.features, None)
    return DatasetSpec(
        own.name,
        own.title or own.name,
        "own",
        own.nodes.as_posix(),
        ("to be read",),
        GraphSize(nodes, edges, nonzeros, default, 2, max(1, nodes * 8 // 10)),
        features=kinds,
        sizes=columns,
        models={} if own.model == EMBEDDED else models,
        views=("released", "paper", "sound"),
        max_edges=own.max_edges,
        own=own,
    )


def _rows(table: Path) -> int:
    """Rows of a table, about: the lines of a CSV file; 1 where it is absent or damaged.

    Sizes are for estimates: who reads the table says what is wrong with it.
    """
    try:
        status = table.stat()
        return _count_rows(table.absolute(), status.st_mtime_ns, status.st_size)
    except OSError:
        return 1


@lru_cache(maxsize=256)
def _count_rows(table: Path, mtime_ns: int, size: int) -> int:
    """Count as ``_rows`` does, once for every state of a file."""
    import pyarrow
    import pyarrow.parquet

    with table.open("rb") as stream:
        if stream.read(4) == b"PAR1":
            try:
                return max(1, pyarrow.parquet.ParquetFile(stream).metadata.num_rows)
            except (pyarrow.ArrowException, OSError):
                return 1
        stream.seek(0)
        return max(1, sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(1 << 20), b"")))


def features_of(spec: DatasetSpec, asked: str | None = None) -> str:
    """Return the kind of features: ``asked`` (raw and None mean the default) if there is such.

    Raises:
        UsageError: the dataset has no features of this kind.
    """
    if asked in (None, "raw"):
        return spec.features[0]
    if asked not in spec.features:
        raise UsageError(
            f"{spec.name} has no features {asked!r}; expected one of {', '.join(spec.features)}"
            f"{suggest(asked, spec.features)}"
        )
    return asked


def view_of(spec: DatasetSpec, view: DataView) -> DataView | None:
    """Return ``view``, or None for a dataset whose raw files leave no choice.

    Raises:
        UsageError: the dataset cannot be read in this view.
    """
    if not spec.views:
        return None
    if view.name not in spec.views:
        raise UsageError(
            f"{spec.name} has no view {view.name!r}; expected one of {', '.join(spec.views)}"
        )
    return view


def build_name(name: str, features: str, view: DataView) -> str:
    """Return the folder of a built dataset below ``data/processed``, such as ``pokec/bow/sound``.

    ``features`` may be raw, which means the default. Raises as ``features_of`` and ``view_of`` do.
    """
    spec = dataset_spec(name)
    found = view_of(spec, view)
    return name if found is None else f"{name}/{features_of(spec, features)}/{found.name}"


def build(
    name: str, raw_dir: str | os.PathLike[str], view: DataView = VIEWS["sound"]
) -> GraphDataset | ImageDataset:
    """Build a dataset whose features are in its raw files, which are checked before parsing.

    Raises:
        UserError: an unknown name, a dataset of texts, or raw files that are missing, wrong or
            malformed.
    """
    spec, raw_dir = dataset_spec(name), Path(raw_dir)
    if spec.has_texts:
        raise UsageError(
            f"{name}: its features are made of texts; expected one of "
            f"{', '.join(DATASETS[each].name for each in DATASETS if not DATASETS[each].has_texts)}"
            ": use private_graphs.features.load.load_dataset"
        )
    found = view_of(spec, view)
    sources = raw_records(name, raw_dir)
    parsed: ParsedGraph | ParsedImages
    if spec.read is not None:
        parsed = spec.read(raw_dir / spec.raw, *([found] if found else []))
        if isinstance(parsed, ParsedImages):
            return _images(spec, parsed, sources)
    elif spec.format == "planetoid":
        parsed = read_planetoid(raw_dir / "planetoid", spec.raw, spec.n_validation)
    elif spec.format == "reddit":
        from private_graphs.datasets.reddit import read_reddit

        parsed = read_reddit(raw_dir / spec.raw, view)
    else:
        parsed = read_npz(raw_dir / spec.raw, spec.n_validation, spec.n_test, len(spec.classes))
    return _dataset(spec, parsed, sources, found)


def load_built(folder: str | os.PathLike[str]) -> GraphDataset | ImageDataset:
    """Read a built dataset of either kind; UserError as ``load`` of its class raises."""
    images = (Path(folder) / IMAGES_FILE).is_file()
    return ImageDataset.load(folder) if images else GraphDataset.load(folder)


def build_texts(
    name: str,
    raw_dir: str | os.PathLike[str],
    view: DataView,
    progress: Callable[[str, int, int], None] | None = None,
    own_folder: Path = OWN_FOLDER,
) -> TextGraph:
    """Build the text graph of a dataset from its raw files, or of a user's graph from its tables.

    ``progress`` is called with (stage, bytes done, bytes in all); by default there is a bar on
    standard error.

    Raises:
        UserError: an unknown name, a dataset without texts, or files that are missing, wrong or
            malformed.
    """
    spec, raw_dir = dataset_spec(name, own_folder), Path(raw_dir)
    view_of(spec, view)
    if spec.own is not None:
        return read_own(spec.own, view)
    if spec.format != "pokec":
        raise UsageError(f"{name} has no texts; its features are in its raw files")
    from private_graphs.datasets.pokec import read_pokec

    sources = raw_records(name, raw_dir)
    folder = raw_dir / spec.raw
    origin = None if spec.synthetic else load_sources()[name]
    return read_pokec(
        folder / "soc-pokec-profiles.txt.gz",
        folder / "soc-pokec-relationships.txt.gz",
        view,
        name=name,
        per_class=spec.per_class,
        title=spec.title,
        synthetic=spec.synthetic,
        sources=sources,
        licence=origin.licence if origin else _SYNTHETIC_LICENCE,
        citation=origin.citation if origin else _SYNTHETIC_CITATION,
        public_facts=PUBLIC_FACTS,
        progress=progress,
    )


def _public_facts(words: bool, node_sample: str | None) -> list[str]:
    """What a dataset without texts declares public; ``words``: its features count words."""
    return [
        _SIZES,
        *(["the vocabulary (columns of the features)"] if words else []),
        # Which training nodes a sample per class keeps follows from labels that are private.
        "the validation and test masks" if node_sample == "stratified" else _MASKS,
        "all validation and test nodes with their features, labels and mutual edges",
    ]


def _check_masks(spec: DatasetSpec, parsed: ParsedGraph | ParsedImages) -> None:
    for name in ("train_mask", "validation_mask", "test_mask"):
        if not np.any(getattr(parsed, name) & (parsed.labels >= 0)):
            raise UserError(
                f"{spec.name}: {name}: no member of it has a label, expected at least one to learn "
                "from or to score; supply labels, or declare other numbers of validation and test "
                "members"
            )


def _images(spec: DatasetSpec, parsed: ParsedImages, sources: list[RawFile]) -> ImageDataset:
    _check_masks(spec, parsed)
    origin = None if spec.synthetic else load_sources()[spec.name]
    n_images, channels, height, width = parsed.images.shape
    info = ImageInfo(
        name=spec.name,
        title=spec.title,
        synthetic=spec.synthetic,
        classes=list(spec.classes),
        n_images=n_images,
        channels=channels,
        height=height,
        width=width,
        sources=sources,
        licence=origin.licence if origin else _SYNTHETIC_LICENCE,
        citation=origin.citation if origin else _SYNTHETIC_CITATION,
        public_facts=["the number of images and the classes", _MASKS, _PUBLIC_IMAGES],
        preprocessing=list(parsed.preprocessing),
    )
    arrays = (parsed.images, parsed.labels, parsed.train_mask)
    return ImageDataset(*arrays, parsed.validation_mask, parsed.test_mask, info)


def _dataset(
    spec: DatasetSpec, parsed: ParsedGraph, sources: list[RawFile], view: DataView | None
) -> GraphDataset:
    fewer = view is not None and spec.read is not None  # a view of it may lack the last ones
    if not (
        parsed.n_classes == len(spec.classes) or fewer and parsed.n_classes < len(spec.classes)
    ):
        raise UserError(
            f"{spec.name}: found {parsed.n_classes} classes in the raw files, expected "
            f"{len(spec.classes)}"
        )
    _check_masks(spec, parsed)
    sparse = isinstance(parsed.features, SparseFeatures)
    origin = None if spec.synthetic else load_sources()[spec.name]
    info = DatasetInfo(
        name=spec.name,
        title=spec.title,
        synthetic=spec.synthetic,
        classes=list(spec.classes[: parsed.n_classes]),
        feature_kind="sparse" if sparse else "dense",
        units="node",
        n_nodes=len(parsed.labels),
        n_edges=parsed.edge_index.shape[1],
        n_features=parsed.features.n_columns if sparse else parsed.features.shape[1],
        loops_dropped=parsed.loops_dropped,
        duplicates_dropped=parsed.duplicates_dropped,
        one_way_edges=parsed.one_way_edges,
        sources=sources,
        licence=origin.licence if origin else _SYNTHETIC_LICENCE,
        citation=origin.citation if origin else _SYNTHETIC_CITATION,
        public_facts=_public_facts(words=sparse, node_sample=parsed.node_sample),
        view=view.name if view else None,
        node_sample=parsed.node_sample,
        preprocessing=list(parsed.preprocessing),
    )
    return GraphDataset(
        features=parsed.features,
        edge_index=parsed.edge_index,
        labels=parsed.labels,
        train_mask=parsed.train_mask,
        validation_mask=parsed.validation_mask,
        test_mask=parsed.test_mask,
        info=info,
    )
