"""A graph whose nodes have texts, from which features are made: in memory and on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pydantic import Field

from private_graphs.core.errors import UsageError, UserError
from private_graphs.core.files import atomic_path
from private_graphs.datasets.arrays import require
from private_graphs.datasets.graph_dataset import GraphDataset, SparseFeatures
from private_graphs.datasets.labelled import (
    MASKS,
    PUBLIC_MASKS,
    PUBLIC_SIZES,
    LabelledDataset,
    LabelledInfo,
    RawFile,
)
from private_graphs.datasets.registry import OWN_FOLDER, dataset_spec, told_of, view_of
from private_graphs.datasets.sources import raw_records
from private_graphs.datasets.views import DataView

TEXTS_FILE, STRUCTURE_FILE, TEXT_INFO_FILE = (
    "texts.parquet", "structure.safetensors", "text_graph.json",
)  # fmt: skip
_REBUILD = "delete the folder and build it again"
PUBLIC_FACTS = (
    PUBLIC_SIZES,
    PUBLIC_MASKS,
    "all validation and test nodes with their texts, labels and mutual edges",
)
"""Facts that a dataset with texts declares public (docs/privacy.md §5)."""


class TextGraphInfo(LabelledInfo):
    """Content of ``text_graph.json``; ``preprocessing`` says how nodes and texts were chosen."""

    units: str = "node"
    view: str
    """Name of the view in ``datasets/views.py``."""
    loops_dropped: int = Field(ge=0)
    duplicates_dropped: int = Field(ge=0)
    one_way_edges: int | None = Field(default=None, ge=0)
    counts: dict[str, int] = {}
    """Counts from reading the raw files, such as ``malformed_rows``."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TextGraph(LabelledDataset):
    """An undirected graph with texts, labels and three disjoint masks."""

    texts: pa.Table
    """N rows; string columns in the order of the raw file; null for an empty cell."""
    edge_index: np.ndarray
    """(2, E) int64; every undirected edge once, i < j, no loops, sorted lexicographically."""
    info: TextGraphInfo
    tensors_file: ClassVar[str] = STRUCTURE_FILE
    info_file: ClassVar[str] = TEXT_INFO_FILE

    def __post_init__(self) -> None:
        where = f"text graph {self.info.name!r}"
        lengths = {key: len(getattr(self, key)) for key in ("labels", *MASKS)}
        fits = {*lengths.values()} == {self.n_nodes}
        require(fits, where, f"{lengths} entries", f"{self.n_nodes}, one per text row", _REBUILD)
        for name, kind in zip(self.texts.column_names, self.texts.schema.types, strict=True):
            fits = pa.types.is_string(kind) or pa.types.is_large_string(kind)
            require(fits, f"{where}: text column {name!r}", kind, "text", _REBUILD)

    @property
    def n_nodes(self) -> int:
        """Number of nodes N."""
        return self.texts.num_rows

    @property
    def public_nodes(self) -> np.ndarray:
        """(N,) bool: nodes whose texts are public by declaration (docs/privacy.md §5)."""
        return self.validation_mask | self.test_mask

    def column(self, name: str) -> list[str]:
        """Return the N texts of one column, "" for null."""
        return [text or "" for text in self.texts.column(name).to_pylist()]

    def with_features(
        self,
        features: SparseFeatures | np.ndarray,
        kind: str,
        preprocessing: list[str],
        sources: list[RawFile],
        counts: Mapping[str, int] | None = None,
    ) -> GraphDataset:
        """Return the dataset with a feature matrix in place of the texts.

        ``kind`` names the features (bow, fasttext, bert, sbert); ``preprocessing`` says how they
        were made, in sentences for the privacy statement; ``sources`` are the model files;
        ``counts`` what the encoder counted, such as cut texts.
        """
        info = self.info
        return GraphDataset.of(
            features,
            self.arrays(),
            **info.model_dump(exclude={"counts", "preprocessing", "sources"}),
            features=kind,
            sources=[*info.sources, *sources],
            preprocessing=[*info.preprocessing, *preprocessing],
            counts=info.counts | dict(counts or {}),
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the stored arrays by key."""
        return super().arrays() | {"edge_index": self.edge_index}

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``texts.parquet``, ``structure.safetensors`` and, last, ``text_graph.json``."""
        with atomic_path(Path(folder) / TEXTS_FILE) as temporary:
            pyarrow.parquet.write_table(self.texts, temporary)
        super().save(folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> TextGraph:
        """Read a folder written by :meth:`save`; UserError if it cannot be read."""
        info, arrays = cls.stored(folder, TextGraphInfo)
        try:
            texts = pyarrow.parquet.read_table(Path(folder) / TEXTS_FILE, use_threads=False)
            texts.validate(full=True)
            return cls(texts=texts, **arrays, info=info)
        except (OSError, TypeError, pa.ArrowException) as error:
            raise UserError(
                f"{folder}: cannot be read as a text graph ({error}); {_REBUILD}"
            ) from error


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
        from private_graphs.datasets.own import read_own

        return read_own(spec.own, view)
    if spec.read_texts is None:
        raise UsageError(f"{name} has no texts; its features are in its raw files")
    fields = told_of(spec, raw_records(name, raw_dir))
    return spec.read_texts(
        raw_dir / spec.raw, view, **fields, public_facts=PUBLIC_FACTS, progress=progress
    )
