"""A released classifier: one safetensors file, and prediction from it alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from private_graphs.core.errors import UserError, listed
from private_graphs.core.files import atomic_path
from private_graphs.core.limits import MOST_NAME_BYTES
from private_graphs.documents.hashing import HashedWords, PublicWords
from private_graphs.documents.unit_sums import Map, scores_of

if TYPE_CHECKING:
    from private_graphs.documents.neighbours import PublicNeighbours

MODEL_FILE = "model.safetensors"
FORMATS, ABOUT = ("2", "3", "4", "5"), "private_graphs"
"""Formats of the file: without and with words that have no sign; with public neighbours, all with a
class ("4") or not."""


_MOST_ABOUT = 2**24
"""Most bytes of the header, which is parsed whole."""


def require_readable(header: int, sizes: Mapping[str, int]) -> None:
    """Raise ValueError for a file of a model that a reader would refuse, by its header in bytes and
    the bytes of its arrays."""
    for name, size, most in (
        ("header", header, _MOST_ABOUT), ("number of arrays", len(sizes), 10),
        *((name, sizes.get(name, 0), MOST_NAME_BYTES) for name in ("words", "neighbours")),
    ):  # fmt: skip
        if size > most:
            raise ValueError(f"its {name} is {size:,}, expected at most {most:,}")


@dataclass(frozen=True, eq=False)
class ReleasedModel:
    """A linear classifier of texts, computed from released and public values alone."""

    features: Map
    weights: np.ndarray
    """(columns + 1, K)"""
    classes: tuple[str, ...]
    text: tuple[str, ...]
    """Text columns in the order in which they are read."""
    id: str
    graph: str
    shares: tuple[float, ...] = ()
    """Shares of the classes that the constants suppose, from noisy sizes; empty in releases of
    earlier versions."""
    epsilon: float | None = None
    """ε of the release; None in releases of earlier versions."""
    neighbours: PublicNeighbours | None = None
    """Public documents whose links to new ones tell of their classes; None: links tell nothing."""

    @property
    def classes_(self) -> np.ndarray:
        """Class names, as in scikit-learn."""
        return np.array(self.classes)

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        """Return (texts, K) scores of the classes, without votes.

        Raises:
            UserError: the model that reads texts makes vectors of another length than the weights
                are for (it is loaded at the first text), or a score overflows.
        """
        columns = self.features.columns
        if len(self.weights) != columns + 1:
            raise UserError(
                f"the release of {self.graph!r}: its weights are for vectors of "
                f"{len(self.weights) - 1:,} numbers, and its texts are read as vectors of "
                f"{columns:,}; take the folder anew from who made it"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            scores = scores_of(self.weights, self.features, list(texts))
        if not np.isfinite(scores).all():
            raise UserError(
                f"the release of {self.graph!r}: its numbers are too large to be computed with; "
                "take the folder anew from who made it"
            )
        return scores

    def predict_proba(self, texts: Sequence[str], votes: np.ndarray | None = None) -> np.ndarray:
        """Return (texts, K) shares of the classes; a text is its columns, joined by line breaks.

        ``votes`` (texts, K) of linked public documents, as ``neighbours`` reads them, are added.
        """
        scores = self.scores(texts)
        return softmax(scores if votes is None else scores + votes, axis=1)

    def predict(self, texts: Sequence[str], votes: np.ndarray | None = None) -> np.ndarray:
        """Return the class names of texts."""
        return self.classes_[self.predict_proba(texts, votes).argmax(axis=1)]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return what the model is made of, as scikit-learn's ``clone`` asks."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def __repr__(self) -> str:
        return (f"ReleasedModel of {self.graph!r}: {', '.join(self.text)} -> "
                f"{listed(self.classes)}")  # fmt: skip

    def content(self) -> bytes:
        """Return the bytes of the model's file: equal for equal models.

        Raises:
            UserError: one that is too large to be read again, such as for its list of words.
        """
        import safetensors.numpy

        tensors = {"weights": np.ascontiguousarray(self.weights)}
        about: dict[str, Any] = {
            "format": FORMATS[0], "graph": self.graph, "id": self.id, "classes": self.classes,
            "text": self.text,
        }  # fmt: skip
        if isinstance(self.features, HashedWords):
            about["columns"] = self.features.columns
            if not self.features.signed:
                about |= {"format": FORMATS[1], "signed": False}
        elif isinstance(self.features, PublicWords):
            tensors |= {
                "word_weights": self.features.weights,
                "centre": self.features.centre,
                "directions": np.ascontiguousarray(self.features.directions),
            }
        else:
            about |= {"model": self.features.name, "model_sha256": self.features.digest}
        if self.features.words:
            words = "\n".join(self.features.words).encode()
            tensors["words"] = np.frombuffer(words, np.uint8).copy()
        if self.shares:
            about |= {"shares": self.shares, "epsilon": self.epsilon}
        if self.neighbours is not None:
            about["format"] = FORMATS[3]
            ids = json.dumps(self.neighbours.ids).encode()
            tensors |= {
                "neighbours": np.frombuffer(ids, np.uint8).copy(),
                "odds": np.ascontiguousarray(self.neighbours.odds),
            }
        # One entry: the library writes several in an order of its own, another one each time.
        metadata = {ABOUT: json.dumps(about)}
        try:
            sizes = {name: array.nbytes for name, array in tensors.items()}
            require_readable(len(json.dumps(metadata)), sizes)
        except ValueError as error:
            raise UserError(f"the model of {self.graph!r}: {error}; give fewer or shorter words, "
                            "ids or classes") from error  # fmt: skip
        return safetensors.numpy.save(tensors, metadata=metadata)

    def save(self, path: Path) -> None:
        """Write the model atomically."""
        with atomic_path(path) as temporary:
            temporary.write_bytes(self.content())
