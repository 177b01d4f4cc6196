"""Reading a released model from its file; nothing of it is unpickled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from private_graphs.core.arguments import require_types
from private_graphs.core.bounded_files import parsed_json
from private_graphs.core.errors import UserError, refuse_idle, require_system, system_error_text
from private_graphs.core.limits import LONGEST_NAME, MOST_TABLE_BYTES
from private_graphs.core.manifest import MANIFEST, changed_file
from private_graphs.datasets.spelling import seen
from private_graphs.documents.hashing import HashedWords, PublicWords
from private_graphs.documents.model import (
    ABOUT,
    FORMATS,
    MODEL_FILE,
    ReleasedModel,
    require_readable,
)
from private_graphs.documents.unit_sums import Map
from private_graphs.documents.vectors import ModelVectors

if TYPE_CHECKING:
    from private_graphs.documents.neighbours import PublicNeighbours

_MOST_VOTES = 2**27
"""Votes of public neighbours that a file of format 4, where each has one class, may unpack to."""
_NUMBERS_AT_ONCE = 2**22
"""Numbers that are checked at once."""


@require_types
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
                "expected the folder of a release with a model, as 'private-graphs classify NAME "
                "--out DIR' writes it: word_sums, class_sums and dp_linear have one; gcn and "
                "edge_votes read private links to predict, so that no model can be given away"
            )
        path = inner
    reason = changed_file(path.parent, only=path.name)
    if (path.parent / "statement.json").exists() and not (path.parent / MANIFEST).exists():
        reason = f"{path.parent / MANIFEST}: is gone, or this release was never whole"
    if reason:
        raise UserError(f"{reason}; take the folder anew from who made it")
    try:
        if (size := path.stat().st_size) > MOST_TABLE_BYTES:
            raise ValueError(f"it has {size:,} bytes, expected at most {MOST_TABLE_BYTES:,}")
        with open(path, "rb") as stream:
            header = int.from_bytes(stream.read(8), "little")
        require_readable(header, {})
        with safe_open(path, "numpy") as file:
            names = {name: file.get_slice(name).get_shape() for name in file.keys()}
            require_readable(header, {name: math.prod(shape) for name, shape in names.items()})
            about = parsed_json((file.metadata() or {}).get(ABOUT, "{}"))
            tensors = {name: file.get_tensor(name) for name in names}
        if about.get("format") not in FORMATS:
            raise ValueError(
                f"format {about.get('format')}, expected {' or '.join(FORMATS)}: another version "
                "of private-graphs wrote it; use that one"
            )
        weights, features = tensors["weights"], _features(about, tensors, model, Path(data))
        classes, columns = _names(about["classes"]), len(weights) - 1
        if (length := max(map(len, classes))) > LONGEST_NAME:
            raise ValueError(f"a class with a name of {length:,} characters")
        (name,), (graph,) = _names([about["id"]]), _names([about["graph"]])
        if not isinstance(features, ModelVectors):  # whose model may not be at hand
            columns = features.columns
            refuse_idle("this release reads words, and no model", model=model)
        if weights.shape != (columns + 1, len(classes)):
            raise ValueError(f"weights of shape {weights.shape} for {len(classes)} classes")
        _require_numbers("weights", weights)
        _require_distinct("classes", list(map(seen, classes)))
        _require_distinct("columns", (name, *_names(about["text"])))
        shares, epsilon = _numbers(about, len(classes))
        return ReleasedModel(
            features, weights, classes, _names(about["text"]), name, graph, shares=shares,
            epsilon=epsilon, neighbours=_neighbours(tensors, len(classes)),
        )  # fmt: skip
    except OSError as error:
        require_system(error, path)
        if error.errno:
            raise UserError(system_error_text(error, path)) from error
        raise UserError(f"{path}: its library cannot open it; check permissions, the limit on open "
                        "files and the disk") from error  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError, MemoryError,
            SafetensorError) as error:  # fmt: skip
        require_system(error, path)
        why = f"lacks {error}" if isinstance(error, KeyError) else error
        raise UserError(
            f"{path}: cannot be read as a released model ({why}); take the folder anew from who "
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
    _require_distinct("public neighbours", list(map(seen, ids)))  # as votes compare them
    odds = tensors["odds"]
    if "neighbour_classes" in tensors:  # of format 4: each votes for its class alone
        labels = tensors["neighbour_classes"]
        if labels.dtype.kind not in "iu" or not np.isin(labels, np.arange(n_classes)).all():
            raise ValueError(f"classes of public neighbours of type {labels.dtype}")
        if (labels.shape, odds.shape) != ((len(ids),), (n_classes,)):
            raise ValueError(f"classes of shape {labels.shape} and odds of shape {odds.shape}")
        if (size := len(ids) * n_classes) > _MOST_VOTES:
            raise ValueError(f"{size:,} votes of neighbours, expected at most {_MOST_VOTES:,}")
        of_class, odds = odds, np.zeros((len(ids), n_classes))
        odds[np.arange(len(ids)), labels] = of_class[labels]
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
    for array in arrays:
        total, flat = 0.0, array.reshape(-1)
        for start in range(0, len(flat), _NUMBERS_AT_ONCE):
            with np.errstate(over="ignore"):
                total += np.abs(flat[start : start + _NUMBERS_AT_ONCE].astype(float)).sum()
        if not np.isfinite(total):
            raise ValueError(f"{what} that are not finite, or too large")
