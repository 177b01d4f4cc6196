"""Labelled records with three masks: the common base of node and image datasets."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import safetensors
import safetensors.numpy
from pydantic import Field, ValidationError

from private_graphs.core.errors import UserError
from private_graphs.core.files import atomic_path, write_text
from private_graphs.core.models import Strict, first_fault
from private_graphs.datasets.arrays import MASKS, fingerprint_of

INFO_FILE = "dataset.json"
IMAGES_FILE = "images.safetensors"
FILE_MASKS = ("train_mask", "val_mask", "test_mask")
"""Names of the masks in other libraries' files, in the order of ``MASKS``."""
PUBLIC_SIZES = "the number of nodes, the classes and global statistics"
PUBLIC_MASKS = "the train, validation and test masks"
"""Facts that most datasets declare public (docs/privacy.md §5)."""
_REBUILD = "delete the folder and build the dataset again"


class RawFile(Strict):
    """A raw file that a dataset was built from."""

    file: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    url: str | None
    """URL of the download; None where the file was generated or has no public source."""


class LabelledInfo(Strict):
    """Common content of every ``dataset.json``."""

    name: str = Field(min_length=1)
    title: str
    synthetic: bool
    classes: list[str] = Field(min_length=1)
    """Names of the labels 0..K-1."""
    units: str
    """Kind of one record, such as ``node``."""
    sources: list[RawFile]
    licence: str
    citation: str
    public_facts: list[str]
    """Facts that are public by declaration (docs/privacy.md §5)."""
    preprocessing: list[str] = []
    """Sentences on how records and features were chosen, for the privacy statement."""


Info = TypeVar("Info", bound=LabelledInfo)


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelledDataset:
    """N records with labels and three disjoint masks."""

    labels: np.ndarray
    """(N,) int64 in 0..K-1, or -1 where there is no label."""
    train_mask: np.ndarray
    """(N,) bool."""
    validation_mask: np.ndarray
    """(N,) bool."""
    test_mask: np.ndarray
    """(N,) bool."""
    info: Any

    tensors_file: ClassVar[str]
    """Name of the file that holds the arrays."""
    info_file: ClassVar[str] = INFO_FILE

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.info.classes)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (64 hex digits) over the name and all arrays, independent of the platform."""
        return fingerprint_of(self.info.name, self.arrays())

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the stored arrays by key."""
        return {key: getattr(self, key) for key in ("labels", *MASKS)}

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the arrays, then what describes them, each atomically."""
        folder = Path(folder)
        tensors = {key: np.ascontiguousarray(value) for key, value in self.arrays().items()}
        with atomic_path(folder / self.tensors_file) as temporary:
            safetensors.numpy.save_file(tensors, temporary)
        write_text(folder / self.info_file, self.info.model_dump_json(indent=2) + "\n")

    @classmethod
    def stored(
        cls, folder: str | os.PathLike[str], info_type: type[Info],
        check: Callable[[dict[str, np.ndarray], Info, str, str], None] | None = None,
    ) -> tuple[Info, dict[str, np.ndarray]]:  # fmt: skip
        """Return what :meth:`save` wrote: the description, and the arrays by key.

        ``check`` raises UserError for a violated invariant; it gets both, and their origins.

        Raises:
            UserError: names the file, the key, what was found and what was expected.
        """
        tensors, about = Path(folder) / cls.tensors_file, Path(folder) / cls.info_file
        path = about
        try:
            info = info_type.model_validate_json(path.read_bytes(), strict=True)
            path = tensors
            arrays = safetensors.numpy.load_file(path)
        except ValidationError as error:
            raise UserError(f"{path}: {first_fault(error)}; {_REBUILD}") from error
        except (OSError, ValueError, KeyError, safetensors.SafetensorError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UserError(f"{path}: cannot be read ({reason}); {_REBUILD}") from error
        if check is not None:
            check(arrays, info, str(tensors), str(about))
        return info, arrays
