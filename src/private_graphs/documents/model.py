"""A released classifier: one safetensors file, and prediction from it alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from private_graphs.core.bounded_files import parsed_json
from private_graphs.core.errors import UserError
from private_graphs.core.files import atomic_path
from private_graphs.core.limits import MOST_TABLE_BYTES
from private_graphs.core.manifest import changed_file
from private_graphs.documents.hashing import HashedWords, PublicWords
from private_graphs.documents.unit_sums import Map, scores_of
from private_graphs.documents.vectors import ModelVectors

MODEL_FILE = "model.safetensors"
_FORMATS, _ABOUT = ("2", "3"), "private_graphs"
"""Formats of the file: without and with words that have no sign."""


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

    @property
    def classes_(self) -> np.ndarray:
        """Class names, as in scikit-learn."""
        return np.array(self.classes)

    def predict_proba(self, texts: Sequence[str]) -> np.ndarray:
        """Return (texts, K) shares of the classes; a text is its columns, joined by line breaks."""
        return softmax(scores_of(self.weights, self.features, list(texts)), axis=1)

    def predict(self, texts: Sequence[str]) -> np.ndarray:
        """Return the class names of texts."""
        return self.classes_[self.predict_proba(texts).argmax(axis=1)]

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

    ``model`` is the folder or file of the public model that reads texts, if the release names one;
    downloaded models are found below ``data``.

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
        _require_finite("weights", weights)
        return ReleasedModel(features, weights, classes, _names(about["text"]), name, graph)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise UserError(
            f"{path}: cannot be read as a released model ({error}); take the folder anew from who "
            "made it"
        ) from error


def _names(value: Any) -> tuple[str, ...]:
    """Return a JSON list of names as a tuple; ValueError for anything else."""
    if not (isinstance(value, list) and value and all(isinstance(name, str) for name in value)):
        raise ValueError("a list of names is damaged")
    "".join(value).encode()  # half of a character would end the writing of predictions
    return tuple(value)


def _features(
    about: dict[str, Any], tensors: dict[str, np.ndarray], model: str | Path | None, data: Path
) -> Map:
    if "model" in about:
        (name,), (digest,) = _names([about["model"]]), _names([about["model_sha256"]])
        return ModelVectors.released(name, digest, model, data)
    words: tuple[str, ...] = ()
    if "words" in tensors:
        words = tuple(tensors["words"].tobytes().decode().split("\n"))
    if "columns" in about:
        columns, signed = about["columns"], about.get("signed", True)
        if type(columns) is not int or columns < 1 or not isinstance(signed, bool):
            raise ValueError(f"columns {columns!r}, signed {signed!r}")
        return HashedWords(columns, words, signed)
    weights, centre, directions = (tensors[key] for key in ("word_weights", "centre", "directions"))
    shapes, size = (weights.shape, centre.shape, directions.shape), len(words)
    if shapes != ((size,), (size,), (size, *directions.shape[-1:])):
        raise ValueError(f"arrays of shapes {shapes} for {size} words")
    _require_finite("arrays of words", weights, centre, directions)
    return PublicWords(words, weights, centre, directions)


def _require_finite(what: str, *arrays: np.ndarray) -> None:
    """Raise ValueError unless the arrays are finite, and what is added up of each is."""
    with np.errstate(over="ignore"):
        if not all(np.isfinite(np.abs(array.astype(float)).sum()) for array in arrays):
            raise ValueError(f"{what} that are not finite")
