"""A text graph that a configuration describes, for studies: declaration, and reader of its tables.

All its validation and test nodes are public by declaration. Documents that must stay private are
another matter: ``private_graphs.documents``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pydantic import Field, ValidationError, field_validator, model_validator

from private_graphs.core.errors import UsageError, UserError, suggest
from private_graphs.core.files import sha256_of, write_text
from private_graphs.core.limits import LARGEST_SEED, MOST_EDGES
from private_graphs.core.models import Strict
from private_graphs.datasets import own_tables
from private_graphs.datasets.arrays import UndirectedEdges, undirected_edges
from private_graphs.datasets.graph_names import free_name
from private_graphs.datasets.labelled import RawFile
from private_graphs.datasets.spec import TEXT_FEATURES, DatasetSpec, GraphSize
from private_graphs.datasets.spelling import NOT_SEEN, is_missing, looks, seen
from private_graphs.datasets.text_graph import TextGraph, TextGraphInfo
from private_graphs.datasets.views import DataView
from private_graphs.graphs.split import keyed_split

OWN_FOLDER = "own"
"""Folder of the declarations, next to the folder of raw files: ``data/raw`` -> ``data/own``."""

EMBEDDED = "embedded"
"""Value of ``model`` for the tiny embedded model made from the texts themselves."""
MASKS = ("train", "validation", "test")
_SPLIT_NAMES = {**dict(zip(MASKS, range(3), strict=True)), "val": 1, "valid": 1}
PUBLIC_FACTS = (
    "the number of nodes, their ids and the train, validation and test masks",
    "the names of the classes",
    "all validation and test nodes with their texts, labels and mutual edges",
)
"""Facts that the owner of a graph declares public by building it (docs/privacy.md §5)."""


class OwnGraph(Strict):
    """Declaration of a user's own text graph: files, columns, and the features to make."""

    name: str = Field(max_length=80, json_schema_extra={"pattern": "^[a-z][a-z0-9_-]*$"})
    nodes: Path
    """Nodes table: CSV or Parquet with one row per node; relative to the working folder."""
    edges: Path
    """Edges table: CSV or Parquet with one row per edge and columns ``source`` and ``target``."""
    text: tuple[str, ...] = Field(min_length=1)
    """Text columns, in the order in which they are read."""
    label: str
    id: str = "id"
    split: str | None = None
    """Column with train, validation (val, valid) or test; None: a keyed 80/10/10 split."""
    features: Literal["bow", "fasttext", "bert", "sbert"] = "bow"
    model: str | None = None
    """Model of ``features``: folder of a BERT or sentence model, or fastText ``.bin`` file. Other
    kinds of features are made as under None: bow needs no model, fasttext trains a small model on
    the public texts, bert and sbert use the multilingual model of the download rules. ``embedded``:
    tiny models made from the public texts, for every kind."""
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    """Public seed of the masks where there is no split column."""
    min_count: int = Field(default=2, ge=0)
    """Words of bow occur more often than this."""
    max_count: int = Field(default=15_000, ge=1)
    """Words of bow occur at most this often."""
    max_edges: int | None = Field(default=None, ge=1, le=MOST_EDGES)
    """Public bound on the edges for scenario ``edges``, set without looking at them."""
    source: str = "source"
    target: str = "target"
    title: str | None = None
    licence: str | None = None
    citation: str | None = None

    @field_validator("text", mode="before")
    @classmethod
    def _one_column(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("name")
    @classmethod
    def _free_name(cls, value: str) -> str:
        return free_name(value)

    @model_validator(mode="after")
    def _model_has_a_use(self) -> OwnGraph:
        if self.model is not None and self.features == "bow":
            raise ValueError(
                f"model is {self.model!r}, but the features are bow, which have no model; choose "
                "features fasttext, bert or sbert, or leave the model out"
            )
        return self

    @model_validator(mode="after")
    def _one_role_per_column(self) -> OwnGraph:
        if self.label in self.text:
            raise ValueError(
                f"the label column {self.label!r} is among the text columns: the features would "
                "hold what they are to predict; leave it out of the texts"
            )
        roles = [("id", self.id), ("label", self.label), ("split", self.split)]
        roles += [("text", name) for name in self.text]
        names = [name for _, name in roles if name is not None]
        for name in names:
            if names.count(name) > 1:
                duplicates = " and ".join(role for role, column in roles if column == name)
                raise ValueError(
                    f"column {name!r} is named twice ({duplicates}), expected one role per column"
                )
        if self.source == self.target:
            raise ValueError(f"source and target are both {self.source!r}, expected two columns")
        if self.max_count <= self.min_count:
            raise ValueError(
                f"max_count is {self.max_count}, expected more than min_count ({self.min_count})"
            )
        return self


def declare(values: Mapping[str, Any], where: str) -> OwnGraph:
    """Check a declaration; each message begins with ``where``, such as a file.

    Raises:
        UsageError: unknown keys, values of a wrong form, columns with two roles.
    """
    try:
        return OwnGraph.model_validate(dict(values))
    except ValidationError as error:
        from private_graphs.core.wrong_fields import wrong_fields

        fields = wrong_fields(error.errors(), OwnGraph.model_fields)
        lines = [": ".join(filter(None, (where, *field))) for field in fields]
        raise UsageError("\n".join(lines)) from None


def remember(spec: OwnGraph, folder: str | os.PathLike[str]) -> Path:
    """Write ``<folder>/<name>.json`` if it is new or changed, and return its path."""
    path = Path(folder) / f"{spec.name}.json"
    text = spec.model_dump_json(indent=2, exclude_none=True) + "\n"
    if not path.is_file() or path.read_bytes() != text.encode():
        write_text(path, text)
    return path


def declarations(folder: str | os.PathLike[str]) -> dict[str, Path]:
    """Return the declaration files in a folder by graph name (empty without a folder)."""
    return {path.stem: path for path in sorted(Path(folder).glob("*.json"))}


def read_declaration(path: Path) -> OwnGraph:
    """Read one file that :func:`remember` wrote.

    Raises:
        UserError: the file cannot be read, or declares another name; the message names it.
    """
    try:
        spec = OwnGraph.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        first = str(error) if isinstance(error, OSError) else error.errors()[0]["msg"]
        raise UserError(
            f"{path}: cannot be read as the declaration of a graph ({first}); delete it, and "
            "describe the graph again under datasets of the configuration"
        ) from error
    if spec.name != path.stem:
        raise UserError(
            f"{path}: declares the graph {spec.name!r}, expected {path.stem!r}; rename the file"
        )
    return spec


def known(folder: str | os.PathLike[str]) -> dict[str, OwnGraph]:
    """Return the declared graphs in a folder by name.

    An unreadable declaration must not block the others: it is left out, with a warning on standard
    error.
    """
    graphs = {}
    for name, path in declarations(folder).items():
        try:
            graphs[name] = read_declaration(path)
        except UserError as error:
            _warn(str(error))
    return graphs


@cache
def _warn(message: str) -> None:
    """Print a warning once per process."""
    print(f"warning: {message}", file=sys.stderr)


def source_records(spec: OwnGraph) -> list[RawFile]:
    """Return records of the nodes and edges files with their current sha256.

    Raises:
        UserError: a file that cannot be read.
    """
    records = []
    for path in (spec.nodes, spec.edges):
        try:
            records.append(RawFile(file=path.as_posix(), sha256=sha256_of(path), url=None))
        except OSError as error:
            raise UserError(
                f"{path}: cannot be read ({error.strerror or error}); the graph {spec.name!r} "
                f"needs it: check the path{own_tables.relative_to(path)}"
            ) from error
    return records


def read_own(spec: OwnGraph, view: DataView) -> TextGraph:
    """Read the two tables of a user's graph.

    Nodes keep the order of the file; classes are sorted by name. Invisible characters around ids
    and labels are removed. Loops and repeated edges are dropped and counted. The texts are the same
    in every view.

    Raises:
        UserError: names the file and the line (Parquet: the row) of what cannot be used.
    """
    roles = {"id": spec.id, "label": spec.label} | own_tables.text_roles(spec.text)
    if spec.split is not None:
        roles["split"] = spec.split
    written = own_tables.read_table(spec.nodes, roles)
    nodes = written.trimmed(spec.id)
    ids = own_tables.distinct_ids(nodes, spec.id)
    if len(ids) < 3:
        raise UserError(
            f"{nodes.path}: {len(ids)} nodes, expected at least 3: one to train on, one to "
            "validate, one to test"
        )
    split = _split(nodes, spec, ids)
    classes, labels = _labels(nodes, spec, split)
    texts = _texts(nodes, spec)
    edges_table = own_tables.read_table(
        spec.edges, {"source": spec.source, "target": spec.target}, may_be_empty=True
    ).trimmed(spec.source, spec.target)
    edges = _edges(edges_table, spec, nodes)
    files = ((spec.nodes, nodes), (spec.edges, edges_table))
    info = TextGraphInfo(
        name=spec.name,
        title=spec.title or spec.name,
        synthetic=False,
        view=view.name,
        classes=classes,
        **edges.entry_counts,
        counts={
            "edge_rows": edges_table.n_rows,
            "nodes_without_label": int(np.sum(labels < 0)),
            "ids_alike": _alike(ids),
            "names_trimmed": sum(
                _not_seen_around(written.columns[name]) for name in (spec.id, spec.label)
            ),
            "texts_missing": _count(texts, is_missing),
            "texts_replaced": _count(texts, lambda text: "\ufffd" in text),
        },
        sources=[
            RawFile(file=path.as_posix(), sha256=table.sha256, url=None) for path, table in files
        ],
        licence=spec.licence or "not stated by the owner",
        citation=spec.citation or "not stated by the owner",
        public_facts=list(PUBLIC_FACTS),
        preprocessing=_preprocessing(spec),
    )
    masks = {f"{mask}_mask": split == number for number, mask in enumerate(MASKS)}
    return TextGraph(texts=texts, edge_index=edges.edge_index, labels=labels, **masks, info=info)


def _preprocessing(spec: OwnGraph) -> list[str]:
    """Return sentences on how masks, classes and edges were made, without counts (private)."""
    if spec.split is None:
        masks = (
            f"masks: 80/10/10 by a keyed permutation of the ids (public seed {spec.seed}); texts, "
            "labels and edges have no part in it"
        )
    else:
        masks = (
            f"masks: the column {spec.split!r} of the owner's file; they are public, and nothing "
            "is claimed about how they were chosen"
        )
    return [
        masks,
        "classes: the labels that occur in the owner's file, training nodes included",
        "edges: undirected; self-loops and repeated edges were dropped",
    ]


def _not_seen_around(column: pa.ChunkedArray) -> int:
    """Return how many values begin or end with invisible characters other than white space."""
    import pyarrow.compute as pc

    blank = pc.utf8_trim_whitespace(column)
    mask = pc.not_equal(pc.utf8_trim(blank, characters=NOT_SEEN), blank)
    return pc.sum(mask).as_py() or 0


def _alike(ids: list[str]) -> int:
    """Return how many ids look exactly like an earlier one; pure ASCII ids never do."""
    non_ascii = [node_id for node_id in ids if not (node_id.isascii() and node_id.isprintable())]
    if not non_ascii:
        return 0
    plain = {node_id for node_id in ids if node_id.isascii() and node_id.isprintable()}
    renderings = [seen(node_id) for node_id in non_ascii]
    return len(renderings) - len(set(renderings) - plain)


def _split(nodes: own_tables.OwnTable, spec: OwnGraph, ids: list[str]) -> np.ndarray:
    """Return (N,) 0 (train), 1 (validation) or 2 (test)."""
    import pyarrow.compute as pc

    if spec.split is None:
        return keyed_split(ids, spec.seed)
    column = nodes.columns[spec.split]
    values = pc.fill_null(pc.utf8_lower(pc.utf8_trim(column, characters=NOT_SEEN)), "")
    names = list(_SPLIT_NAMES)
    codes = np.asarray(pc.fill_null(pc.index_in(values, pa.array(names)), -1))
    if (codes < 0).any():
        rows, suffix = own_tables.first_rows(codes < 0)
        value = column[rows[0]].as_py()
        raise nodes.error(
            rows,
            f"{spec.split!r} is {value or ''!r}{suffix}, expected train, validation or test"
            f"{_split_meant(value or '')}",
        )
    return np.asarray(list(_SPLIT_NAMES.values()))[codes]


def _split_meant(value: str) -> str:
    """Return a hint on the meaning of a wrong split value, as ``suggest`` does."""
    if value.strip().lower() in {"dev", "devel", "development", "eval", "evaluation", "tune"}:
        return "; did you mean validation (val, valid)?"
    return suggest(value, _SPLIT_NAMES)


def _labels(
    nodes: own_tables.OwnTable, spec: OwnGraph, split: np.ndarray
) -> tuple[list[str], np.ndarray]:
    """Return class names in order, and (N,) int64 labels, -1 for no label."""
    import pyarrow.compute as pc

    column = pc.utf8_trim(nodes.columns[spec.label], characters=NOT_SEEN)
    blank = own_tables.is_blank(column)
    if (blank & (split == 0)).any():
        rows, suffix = own_tables.first_rows(blank & (split == 0))
        raise nodes.error(
            rows,
            f"training node without a label in {spec.label!r}{suffix}; label it, leave it out, or "
            "put it outside the training nodes with a split column",
        )
    for number, mask in enumerate(MASKS):
        if not (~blank & (split == number)).any():
            if (split == number).any():
                fault, advice = "no node with a label", f"label some in {spec.label!r}"
            else:
                fault, advice = "no node", f"write {mask} in some rows"
            if spec.split is not None:
                advice += ", or leave --split out"
            raise UserError(
                f"{nodes.path}: {fault} for {mask} (column {spec.split or spec.label!r}), expected "
                f"at least one: {advice}"
            )
    values = pc.if_else(pa.array(blank), pa.scalar(None, pa.string()), column)
    classes = sorted(name for name in pc.unique(values).to_pylist() if name is not None)
    if len(classes) < 2:
        raise UserError(
            f"{nodes.path}: one class only: every label in {spec.label!r} is {classes[0]!r}, "
            "expected at least two classes; check the column"
        )
    codes = pc.fill_null(pc.index_in(values, pa.array(classes, pa.string())), -1)
    return classes, np.asarray(codes).astype(np.int64)


def _texts(nodes: own_tables.OwnTable, spec: OwnGraph) -> pa.Table:
    """Return the text columns; UserError for a node without any text."""
    blank = np.logical_and.reduce([own_tables.is_blank(nodes.columns[name]) for name in spec.text])
    if blank.any():
        rows, suffix = own_tables.first_rows(blank)
        columns = ", ".join(repr(name) for name in spec.text)
        raise nodes.error(
            rows, f"empty text in {columns}{suffix}; write a text, or leave out the node"
        )
    return pa.table({name: nodes.columns[name] for name in spec.text})


def _count(texts: pa.Table, predicate: Callable[[str], bool]) -> int:
    """Return the number of texts for which ``predicate`` is true."""
    columns = (texts[name].to_pylist() for name in texts.column_names)
    return sum(predicate(text) for column in columns for text in column if text)


def _edges(
    table: own_tables.OwnTable, spec: OwnGraph, nodes: own_tables.OwnTable
) -> UndirectedEdges:
    """Return the edges between row numbers of the nodes."""
    import pyarrow.compute as pc

    ids = nodes.columns[spec.id].combine_chunks()
    ends = []
    for name in (spec.source, spec.target):
        codes = np.asarray(pc.fill_null(pc.index_in(table.columns[name], ids, skip_nulls=True), -1))
        if (codes < 0).any():
            rows, suffix = own_tables.first_rows(codes < 0)
            value = table.columns[name][rows[0]].as_py()
            guess = None if value is None else _near_id(value, ids.to_pylist())
            what = "no id" if value is None else f"{value!r} is the id of no node"
            advice = "correct the id, add the node, or remove the edge"
            if value is None:
                advice = "write the id, or remove the empty line"
            raise table.error(
                rows,
                f"{what} ({name!r}){suffix}, expected ids of the column {spec.id!r} of {nodes.path}"
                f"{f'; did you mean {guess!r}?' if guess else ''}; {advice}",
            )
        ends.append(codes)
    return undirected_edges(*ends, nodes.n_rows)  # type: ignore[call-arg]


def _near_id(value: str, ids: list[str]) -> str | None:
    """Return an id that looks like this one, or is the same number; None if there is none."""
    return next((node_id for node_id in ids if looks(node_id) == looks(value)), None)


def own_spec(graph: OwnGraph) -> DatasetSpec:
    """Return the entry of a user's graph: size from the declared files, columns a guess."""
    nodes, edges = _rows(graph.nodes), _rows(graph.edges)
    kinds = (graph.features, *(kind for kind in TEXT_FEATURES if kind != graph.features))
    columns = {"bow": (5000, 60 * nodes), "fasttext": (300, 300 * nodes)}
    columns |= {"bert": (768, 768 * nodes), "sbert": (512, 512 * nodes)}
    default, nonzeros = columns[graph.features]
    models = {
        "bert": "bert-base-multilingual-cased",
        "sbert": "distiluse-base-multilingual-cased-v2",
    }
    if graph.model is not None:  # a model belongs to the declared features alone
        models.pop(graph.features, None)
    return DatasetSpec(
        graph.name,
        graph.title or graph.name,
        graph.nodes.as_posix(),
        ("to be read",),
        GraphSize(nodes, edges, nonzeros, default, 2, max(1, nodes * 8 // 10)),
        features=kinds,
        sizes=columns,
        models={} if graph.model == EMBEDDED else models,
        views=("released", "paper", "sound"),
        max_edges=graph.max_edges,
        own=graph,
    )


def _rows(table: Path) -> int:
    """Return an estimate of a table's rows: lines of a CSV file; 1 for an absent or damaged file.

    Sizes serve estimates only; the reader of the table reports its errors.
    """
    try:
        status = table.stat()
        return _count_rows(table.absolute(), status.st_mtime_ns, status.st_size)
    except OSError:
        return 1


@lru_cache(maxsize=256)
def _count_rows(table: Path, mtime_ns: int, size: int) -> int:
    """Return the count of ``_rows``, cached per state of the file."""
    with table.open("rb") as stream:
        if stream.read(4) == b"PAR1":
            try:
                return max(1, pa.parquet.ParquetFile(stream).metadata.num_rows)
            except (pa.ArrowException, OSError):
                return 1
        stream.seek(0)
        return max(1, sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(1 << 20), b"")))
