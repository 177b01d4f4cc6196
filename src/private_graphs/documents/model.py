"""A released classifier: one safetensors file, and prediction from it alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from private_graphs.core.bounded_files import parsed_json
from private_graphs.core.errors import UserError, listed
from private_graphs.core.files import atomic_path
from private_graphs.core.limits import MOST_TABLE_BYTES
from private_graphs.core.manifest import changed_file
from private_graphs.documents.hashing import HashedWords, PublicWords
from private_graphs.documents.unit_sums import Map, scores_of
from private_graphs.documents.vectors import ModelVectors

if TYPE_CHECKING:
    from private_graphs.documents.neighbours import PublicNeighbours

MODEL_FILE = "model.safetensors"
_FORMATS, _ABOUT = ("2", "3", "4", "5"), "private_graphs"
"""Formats of the file: without and with words that have no sign; with public neighbours, all with a
class ("4") or not."""


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
                are for; it is loaded at the first text.
        """
        columns = self.features.columns
        if len(self.weights) != columns + 1:
            raise UserError(
                f"the release of {self.graph!r}: its weights are for vectors of "
                f"{len(self.weights) - 1:,} numbers, and its texts are read as vectors of "
                f"{columns:,}; take the folder anew from who made it"
            )
        return scores_of(self.weights, self.features, list(texts))

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
        """Return the bytes of the model's file: equal for equal models."""
        import safetensors.numpy

        tensors = {"weights": np.ascontiguousarray(self.weights)}
        about: dict[str, Any] = {
            "format": _FORMATS[0], "graph": self.graph, "id": self.id, "classes": self.classes,
            "text": self.text,
        }  # fmt: skip
        if isinstance(self.features, HashedWords):
            about["columns"] = self.features.columns
            if not self.features.signed:
                about |= {"format": _FORMATS[1], "signed": False}
        elif isinstance(self.features, ModelVectors):
            about |= {"model": self.features.name, "model_sha256": self.features.digest}
        else:
            tensors |= {
                "word_weights": self.features.weights,
                "centre": self.features.centre,
                "directions": np.ascontiguousarray(self.features.directions),
            }
        if self.features.words:
            words = "\n".join(self.features.words).encode()
            tensors["words"] = np.frombuffer(words, np.uint8).copy()
        if self.shares:
            about |= {"shares": self.shares, "epsilon": self.epsilon}
        if self.neighbours is not None:
            about["format"] = _FORMATS[3]
            ids = json.dumps(self.neighbours.ids).encode()
            tensors |= {
                "neighbours": np.frombuffer(ids, np.uint8).copy(),
                "odds": np.ascontiguousarray(self.neighbours.odds),
            }
        # One entry: the library writes several in an order of its own, another one each time.
        return safetensors.numpy.save(tensors, metadata={_ABOUT: json.dumps(about)})

    def save(self, path: Path) -> None:
        """Write the model atomically."""
        with atomic_path(path) as temporary:
            temporary.write_bytes(self.content())


def load(
    folder: str | Path, *, model: str | Path | None = None, data: str | Path = Path("data/raw")
) -> ReleasedModel:
    """Read the model of a release folder; nothing of it is unpickled.

    Args:
        folder (path): the folder ``release`` of ``classify``, or its model file.
        model (path): folder or file of the public model that reads texts, if the release names one.
        data (path): folder below which downloaded models are found.

    Returns:
        ReleasedModel: a classifier with ``predict``, ``predict_proba`` and ``classes_``.

    Example:
        >>> load("january/release").predict(["Fracture of the knee"])  # doctest: +SKIP

    Raises:
        UserError: no model, or one that cannot be read, with the path.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(folder)
    path = path if path.suffix == ".safetensors" else path / MODEL_FILE
    if not path.is_file():
        inner = path.parent / "release" / MODEL_FILE
        if not inner.is_file():
            exists = path.parent.is_dir()
            raise UserError(
                f"{path if exists else path.parent}: no such {'file' if exists else 'folder'}; "
                "expected the folder 'release' of 'private-graphs classify NAME --out DIR' with a "
                "model (word_sums, class_sums and dp_linear have one; gcn and edge_votes predict "
                "by reading private links, so that no model can be given away)"
            )
        path = inner
    if reason := changed_file(path.parent, only=path.name):
        raise UserError(f"{reason}; take the folder anew from who made it")
    try:
        if (size := path.stat().st_size) > MOST_TABLE_BYTES:
            raise ValueError(f"it has {size:,} bytes, expected at most {MOST_TABLE_BYTES:,}")
        with safe_open(path, "numpy") as file:
            about = parsed_json((file.metadata() or {}).get(_ABOUT, "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        if about.get("format") not in _FORMATS:
            raise ValueError(
                f"format {about.get('format')}, expected {' or '.join(_FORMATS)}: another version "
                "of private-graphs wrote it; use that one"
            )
        weights, features = tensors["weights"], _features(about, tensors, model, Path(data))
        classes, columns = _names(about["classes"]), len(weights) - 1
        (name,), (graph,) = _names([about["id"]]), _names([about["graph"]])
        if not isinstance(features, ModelVectors):  # whose model may not be at hand
            columns = features.columns
        if weights.shape != (columns + 1, len(classes)):
            raise ValueError(f"weights of shape {weights.shape} for {len(classes)} classes")
        _require_numbers("weights", weights)
        _require_distinct("classes", classes)
        _require_distinct("columns", (name, *_names(about["text"])))
        shares, epsilon = _numbers(about, len(classes))
        return ReleasedModel(
            features, weights, classes, _names(about["text"]), name, graph, shares=shares,
            epsilon=epsilon, neighbours=_neighbours(tensors, len(classes)),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise UserError(
            f"{path}: cannot be read as a released model ({error}); take the folder anew from who "
            "made it"
        ) from error


def _numbers(about: dict[str, Any], n_classes: int) -> tuple[tuple[float, ...], float | None]:
    """Return the shares of classes and ε, if a model has them; ValueError for damaged ones."""
    if "shares" not in about:
        return (), None
    shares = np.array(about["shares"], float)
    if shares.shape != (n_classes,) or not (shares > 0).all() or abs(shares.sum() - 1) > 1e-6:
        raise ValueError(f"shares {about['shares']} of {n_classes} classes")
    if not 0 < (epsilon := float(about["epsilon"])) < np.inf:
        raise ValueError(f"epsilon {epsilon}")
    return tuple(shares.tolist()), epsilon


def _names(value: Any) -> tuple[str, ...]:
    """Return a JSON list of names as a tuple; ValueError for anything else."""
    if not (isinstance(value, list) and value and all(isinstance(name, str) for name in value)):
        raise ValueError("a list of names is damaged")
    "".join(value).encode()  # half of a character would end the writing of predictions
    return tuple(value)


def _neighbours(tensors: dict[str, np.ndarray], n_classes: int) -> PublicNeighbours | None:
    """Return the public neighbours of a model, if it has some; ValueError for damaged ones."""
    if "neighbours" not in tensors:
        return None
    from private_graphs.documents.neighbours import PublicNeighbours

    ids = _names(parsed_json(_bytes(tensors, "neighbours")))
    _require_distinct("public neighbours", ids)
    odds = tensors["odds"]
    if "neighbour_classes" in tensors:  # of format 4: each votes for its class alone
        labels = tensors["neighbour_classes"]
        if labels.dtype.kind not in "iu" or not np.isin(labels, np.arange(n_classes)).all():
            raise ValueError(f"classes of public neighbours of type {labels.dtype}")
        odds = np.eye(n_classes)[labels] * odds
    if odds.shape != (len(ids), n_classes):
        raise ValueError(f"votes of shape {odds.shape} of {len(ids)} public neighbours")
    _require_numbers("odds of links", odds)
    return PublicNeighbours(ids, odds)


def _features(
    about: dict[str, Any], tensors: dict[str, np.ndarray], model: str | Path | None, data: Path
) -> Map:
    if "model" in about:
        (name,), (digest,) = _names([about["model"]]), _names([about["model_sha256"]])
        return ModelVectors.released(name, digest, model, data)
    words: tuple[str, ...] = ()
    if "words" in tensors:
        words = tuple(_bytes(tensors, "words").decode().split("\n"))
        _require_distinct("words", words)
    if "columns" in about:
        columns, signed = about["columns"], about.get("signed", True)
        if type(columns) is not int or columns < 1 or not isinstance(signed, bool):
            raise ValueError(f"columns {columns!r}, signed {signed!r}")
        return HashedWords(columns, words, signed)
    weights, centre, directions = (tensors[key] for key in ("word_weights", "centre", "directions"))
    shapes, size = (weights.shape, centre.shape, directions.shape), len(words)
    if shapes != ((size,), (size,), (size, *directions.shape[-1:])):
        raise ValueError(f"arrays of shapes {shapes} for {size} words")
    _require_numbers("arrays of words", weights, centre, directions)
    return PublicWords(words, weights, centre, directions)


def _bytes(tensors: dict[str, np.ndarray], name: str) -> bytes:
    """Return the bytes of an array of bytes; ValueError for one of numbers."""
    if tensors[name].dtype != np.uint8:
        raise ValueError(f"{name} of type {tensors[name].dtype}, expected bytes")
    return tensors[name].tobytes()


def _require_distinct(what: str, names: Sequence[str]) -> None:
    """Raise ValueError for a name that stands twice: nobody knows which one is meant."""
    if len(set(names)) < len(names):
        raise ValueError(f"{what} with a name that stands twice")


def _require_numbers(what: str, *arrays: np.ndarray) -> None:
    """Raise ValueError unless the arrays have real, finite numbers, whose sum is finite too."""
    if wrong := [array.dtype for array in arrays if array.dtype.kind != "f"]:
        raise ValueError(f"{what} of type {wrong[0]}, expected floating-point numbers")
    with np.errstate(over="ignore"):
        if not all(np.isfinite(np.abs(array.astype(float)).sum()) for array in arrays):
            raise ValueError(f"{what} that are not finite")
