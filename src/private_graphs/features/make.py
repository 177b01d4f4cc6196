"""Entry point for every kind of feature made of texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from private_graphs.core.errors import UserError, from_extra, suggest
from private_graphs.datasets.labelled import RawFile
from private_graphs.datasets.spec import TEXT_FEATURES
from private_graphs.datasets.text_graph import TextGraph
from private_graphs.datasets.views import DataView
from private_graphs.features.matrix import FeatureMatrix
from private_graphs.features.words import COUNTS


@dataclass(frozen=True)
class FeatureOptions:
    """Feature options; each kind uses those that concern it."""

    counts: tuple[int, int] = COUNTS
    """Thresholds of bow and fasttext: a word stays if it occurs more often than the first and at
    most as often as the second."""
    model: Path | None = None
    """Model folder (bert, sbert) or fastText file (.bin, .bin.gz); None: the embedded model."""
    model_name: str | None = None
    """Name of the model in the privacy statement; None: its folder or file name."""
    model_files: tuple[RawFile, ...] = ()
    """Model files with their sources; empty: those in the folder, with their sha256."""
    cache: Path | None = None
    """Folder that keeps text vectors and embedded models; None: nothing is kept."""
    device: str = "auto"
    """Device: auto, cpu or cuda."""
    threads: int = 1
    progress: Callable[[int, int], None] | None = None
    """Callback (distinct texts done, distinct texts in all)."""


def make_features(
    graph: TextGraph, kind: str, view: DataView, options: FeatureOptions | None = None
) -> FeatureMatrix:
    """Return the features (N, F) of a kind of ``spec.TEXT_FEATURES`` for the nodes of a graph.

    Raises:
        UserError: an unknown kind, or any error of the kind itself.
    """
    options = options or FeatureOptions()
    if kind not in TEXT_FEATURES:
        raise UserError(
            f"features are {kind!r}; expected one of {', '.join(TEXT_FEATURES)}"
            f"{suggest(kind, TEXT_FEATURES)}"
        )
    if kind == "bow":
        from private_graphs.features.bow import bag_of_words

        return bag_of_words(graph, view, options.counts)
    if kind == "fasttext":
        from private_graphs.features.fasttext import fasttext_means

        return fasttext_means(graph, view, options)
    if kind == "bert":
        with from_extra("bert"):
            import transformers  # noqa: F401
        from private_graphs.features.bert import BertEncoder as Encoder
    else:
        with from_extra("bert"):
            import sentence_transformers  # noqa: F401
        from private_graphs.features.sbert import SentenceEncoder as Encoder
    from private_graphs.features.embedding import text_means

    return text_means(graph, view, options, Encoder)
