"""Labelled images with masks: in memory, on disk, and the invariants of both."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import safetensors
import safetensors.numpy
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from private_graphs.datasets.arrays import fingerprint_of
from private_graphs.datasets.graph_dataset import INFO_FILE, RawFile
from private_graphs.datasets.invariants import Checker, check_labels_and_masks
from private_graphs.errors import UserError
from private_graphs.files import atomic_path, write_text

IMAGES_FILE = "images.safetensors"
_MASKS = ("train_mask", "validation_mask", "test_mask")
_KEYS = {"images", "labels", *_MASKS}
_REBUILD = "delete the folder and build the dataset again"


class ImageInfo(BaseModel):
    """What ``dataset.json`` of images holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    title: str
    synthetic: bool
    classes: list[str] = Field(min_length=1)
    """Names of the labels 0..K-1."""
    units: Literal["image"] = "image"
    n_images: int = Field(ge=1)
    channels: int = Field(ge=1)
    height: int = Field(ge=1)
    width: int = Field(ge=1)
    sources: list[RawFile]
    licence: str
    citation: str
    public_facts: list[str]
    """What is public by declaration (docs/privacy.md §5)."""
    features: Literal["raw"] = "raw"
    view: None = None
    preprocessing: list[str] = []
    """Sentences on how images were chosen, for the privacy statement."""


@dataclass(frozen=True, eq=False)
class ParsedImages:
    """What a reader of raw images returns; the registry adds names and sources."""

    images: np.ndarray
    labels: np.ndarray
    train_mask: np.ndarray
    validation_mask: np.ndarray
    test_mask: np.ndarray
    preprocessing: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ImageDataset:
    """n images of c channels with labels and three disjoint masks.

    Building one checks every invariant and raises :class:`UserError` naming the key.
    """

    images: np.ndarray
    """(n, c, h, w) uint8."""
    labels: np.ndarray
    """(n,) int64 in 0..K-1, or -1 where there is no label."""
    train_mask: np.ndarray
    """(n,) bool."""
    validation_mask: np.ndarray
    """(n,) bool."""
    test_mask: np.ndarray
    """(n,) bool."""
    info: ImageInfo

    def __post_init__(self) -> None:
        where = f"dataset {self.info.name!r}"
        _check(self._arrays(), self.info, where, where)

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.info.classes)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (64 hex digits) over the name and all arrays, independent of the platform."""
        return fingerprint_of(self.info.name, self._arrays())

    def _arrays(self) -> dict[str, np.ndarray]:
        return {key: getattr(self, key) for key in ("images", "labels", *_MASKS)}

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``images.safetensors``, then ``dataset.json``, each atomically."""
        folder = Path(folder)
        tensors = {key: np.ascontiguousarray(value) for key, value in self._arrays().items()}
        with atomic_path(folder / IMAGES_FILE) as temporary:
            safetensors.numpy.save_file(tensors, temporary)
        write_text(folder / INFO_FILE, self.info.model_dump_json(indent=2) + "\n")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> ImageDataset:
        """Read a folder written by :meth:`save` and check every invariant.

        Raises:
            UserError: names the file, the key, what was found and what was expected.
        """
        info_path, path = Path(folder) / INFO_FILE, Path(folder) / IMAGES_FILE
        try:
            info = ImageInfo.model_validate_json(info_path.read_bytes(), strict=True)
            arrays = safetensors.numpy.load_file(path)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"]) or "JSON"
            raise UserError(
                f"{info_path}: {key}: found {str(first['input'])[:80]!r}: {first['msg']}; "
                f"{_REBUILD}"
            ) from error
        except (OSError, ValueError, KeyError, safetensors.SafetensorError) as error:
            raise UserError(f"{folder}: cannot be read ({error}); {_REBUILD}") from error
        _check(arrays, info, str(path), str(info_path))
        return cls(**arrays, info=info)

    def statistics(self) -> dict[str, Any]:
        """Return counts, the majority baseline and sources as a JSON-able dict (scores in 0..1)."""
        labelled = self.labels >= 0
        masks = {key.removesuffix("_mask"): getattr(self, key) for key in _MASKS}
        counts = np.bincount(self.labels[self.train_mask & labelled], minlength=self.n_classes)
        test_labels = self.labels[self.test_mask & labelled]
        info = self.info
        return {
            "name": info.name,
            "title": info.title,
            "synthetic": info.synthetic,
            "units": info.units,
            "images": info.n_images,
            "shape": [info.channels, info.height, info.width],
            "classes": self.n_classes,
            "masks": {key: int(mask.sum()) for key, mask in masks.items()},
            "labelled": {key: int((mask & labelled).sum()) for key, mask in masks.items()},
            "train_class_counts": dict(zip(info.classes, counts.tolist(), strict=True)),
            "majority_class": info.classes[int(counts.argmax())],
            "majority_share_on_test": (
                float(np.mean(test_labels == counts.argmax())) if len(test_labels) else None
            ),
            "fingerprint": self.fingerprint,
            "sources": [source.model_dump() for source in info.sources],
            "preprocessing": info.preprocessing,
            "licence": info.licence,
            "citation": info.citation,
        }


def _check(arrays: dict[str, np.ndarray], info: ImageInfo, where: str, info_where: str) -> None:
    """Raise UserError for the first invariant that does not hold."""
    check, check_info = Checker(where), Checker(info_where)
    for key in sorted(_KEYS ^ set(arrays)):
        there = "a key that does not belong here" if key in arrays else "no such key"
        check.require(False, key, there, f"exactly the keys {sorted(_KEYS)}")
    check.array(arrays["labels"], "labels", np.int64, (None,))
    check_labels_and_masks(check, arrays, len(info.classes))
    n_images = len(arrays["labels"])
    shape = (n_images, info.channels, info.height, info.width)
    check.array(arrays["images"], "images", np.uint8, shape)
    check_info.require(
        info.n_images == n_images, "n_images", info.n_images, f"{n_images}, as stored"
    )
    distinct = len(set(info.classes)) == len(info.classes)
    check_info.require(distinct, "classes", info.classes, "distinct names")
