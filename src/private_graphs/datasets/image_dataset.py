"""Labelled images with masks: in memory, on disk, and the invariants of both."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from private_graphs.datasets.invariants import Checker, check_keys, check_labels_and_masks
from private_graphs.datasets.labelled import (
    IMAGES_FILE,
    MASKS,
    PUBLIC_MASKS,
    LabelledDataset,
    LabelledInfo,
)


class ImageInfo(LabelledInfo):
    """Content of an image dataset's ``dataset.json``."""

    units: Literal["image"] = "image"
    n_images: int = Field(ge=1)
    channels: int = Field(ge=1)
    height: int = Field(ge=1)
    width: int = Field(ge=1)
    features: Literal["raw"] = "raw"
    view: str | None = None
    """View in which the raw files were read, where they leave a choice."""


@dataclass(frozen=True, eq=False)
class ParsedImages:
    """Result of a reader of raw images; the registry adds names and sources."""

    images: np.ndarray
    labels: np.ndarray
    train_mask: np.ndarray
    validation_mask: np.ndarray
    test_mask: np.ndarray
    preprocessing: tuple[str, ...] = ()
    votes: np.ndarray | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageDataset(LabelledDataset):
    """n images of c channels with labels and three disjoint masks.

    The constructor checks every invariant and raises :class:`UserError` naming the key.
    """

    images: np.ndarray
    """(n, c, h, w) uint8."""
    info: ImageInfo
    votes: np.ndarray | None = None
    """(n, K) int32 vote counts of teachers that were trained elsewhere, on training images among
    others; private; 0 on training images. None: no such teachers."""
    tensors_file: ClassVar[str] = IMAGES_FILE

    @classmethod
    def generated(
        cls, name: str, classes: Sequence[str], images: np.ndarray, labels: np.ndarray,
        masks: Sequence[np.ndarray],
    ) -> ImageDataset:  # fmt: skip
        """Make a dataset that does not come from a file, as ``GraphDataset.generated``."""
        arrays = dict(zip(MASKS, masks, strict=True)) | {"labels": labels.astype(np.int64)}
        return cls.of(
            images, arrays, name=name, title=name, synthetic=True, classes=list(classes),
            sources=[], licence="none", citation="none", public_facts=[],
        )  # fmt: skip

    @classmethod
    def of(cls, images: np.ndarray, arrays: Mapping[str, Any], **fields: Any) -> ImageDataset:
        """Make a dataset of (n, c, h, w) images, labels, masks and perhaps votes; ``fields`` are
        those of its ``info`` that do not follow from the arrays."""
        sizes = dict(zip(("n_images", "channels", "height", "width"), images.shape, strict=True))
        return cls(images=images, info=ImageInfo(**sizes, **fields), **arrays)

    def __post_init__(self) -> None:
        where = f"dataset {self.info.name!r}"
        _check(self.arrays(), self.info, where, where)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the stored arrays by key."""
        votes = {} if self.votes is None else {"votes": self.votes}
        return super().arrays() | {"images": self.images} | votes

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> ImageDataset:
        """Read a folder written by :meth:`save`; UserError for a violated invariant."""
        info, arrays = cls.stored(folder, ImageInfo, _check)
        return cls(**arrays, info=info)

    def statistics(self) -> dict[str, Any]:
        """Return counts, the majority baseline and sources; see ``statistics.of_images``."""
        from private_graphs.datasets.statistics import of_images

        return of_images(self)


def _check(arrays: dict[str, np.ndarray], info: ImageInfo, where: str, info_where: str) -> None:
    """Raise UserError for the first violated invariant."""
    check, check_info = Checker(where), Checker(info_where)
    check_keys(check, arrays, {"images", "labels", *MASKS} | ({"votes"} & arrays.keys()))
    check_labels_and_masks(check, check_info, arrays, info.classes)
    n_images = len(arrays["labels"])
    shape = (n_images, info.channels, info.height, info.width)
    check.array(arrays["images"], "images", np.uint8, shape)
    if "votes" in arrays:
        check.array(arrays["votes"], "votes", np.int32, (n_images, len(info.classes)))
    check_info.require(
        info.n_images == n_images, "n_images", info.n_images, f"{n_images}, as stored"
    )


def image_dataset(
    parsed: ParsedImages, fields: dict[str, Any], arrays: dict[str, np.ndarray], view: str | None
) -> ImageDataset:
    """Return the dataset of what a reader parsed, with the fields that all datasets have."""
    facts = [
        "the number of images and the classes", PUBLIC_MASKS,
        "all validation and test images with their labels",
    ]  # fmt: skip
    arrays = arrays | {"votes": parsed.votes}
    return ImageDataset.of(parsed.images, arrays, **fields, view=view, public_facts=facts)
