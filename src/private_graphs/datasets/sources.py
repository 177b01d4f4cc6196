"""Raw files: their origin, their checksums, and how they get to ``data/raw``.

A file is taken from the mirror first, then from its public URL (``datasets/download.py``). It gets
its final name after its sha256 matched the published one or, where none is published, the one
recorded at its first use (``datasets/first_use.py``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path, PurePosixPath

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from private_graphs.core.errors import UserError, suggest
from private_graphs.core.files import parsed_yaml, resource
from private_graphs.core.models import Strict, first_fault
from private_graphs.datasets.labelled import RawFile
from private_graphs.datasets.readers import DATASETS

Progress = Callable[[str, int, int], None]
"""Progress callback (file, bytes done, bytes in all): called before each file, after each
piece of it, and once at the end (file ""). A file of unlisted size counts from the start of its
transfer, so the bytes in all can grow."""


class SourceFile(Strict):
    """One raw file; ``file`` is its path below the raw folder and below a mirror.

    Without ``bytes`` and ``sha256`` the file is trusted on first use; ``max_bytes`` then bounds its
    size. Without ``url`` it has no public source and comes from a mirror alone.
    """

    file: str
    url: str | None = Field(default=None, pattern=r"^https?://")
    bytes: int | None = Field(default=None, ge=1)
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    max_bytes: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _pinned_or_bounded(self) -> SourceFile:
        if (self.bytes is None) != (self.sha256 is None):
            raise ValueError("expected both of bytes and sha256, or neither (trust on first use)")
        if (self.bytes is None) == (self.max_bytes is None):
            raise ValueError(
                "expected max_bytes where bytes and sha256 are not known, and only there"
            )
        return self

    @property
    def limit(self) -> int:
        """Largest accepted size in bytes."""
        return self.bytes or self.max_bytes

    def check_size(self, size: int) -> None:
        """Raise UserError if a file of at least ``size`` bytes is larger than accepted."""
        if size > self.limit:
            raise UserError(
                f"{self.file}: wrong size: found {size} bytes or more, expected "
                f"{'at most ' if self.bytes is None else ''}{self.limit}"
            )

    @field_validator("file")
    @classmethod
    def _relative(cls, value: str) -> str:
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts or str(path) != value or value == ".":
            raise ValueError("expected a relative path without '..'")
        return value


class DatasetSources(Strict):
    """Raw files of one dataset, or files of one pre-trained model."""

    licence: str
    citation: str
    files: tuple[SourceFile, ...] = Field(min_length=1)


class _Sources(Strict):
    datasets: dict[str, DatasetSources]
    models: dict[str, DatasetSources] = {}


@cache
def _load(path: Path) -> _Sources:
    try:
        return _Sources.model_validate(parsed_yaml(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read ({error}); restore it") from error
    except ValidationError as error:
        raise UserError(f"{path}: {first_fault(error)}; correct the entry") from error


def load_sources(path: Path | None = None) -> dict[str, DatasetSources]:
    """Load and validate ``data/sources.yaml`` (or another file in its format): dataset -> sources.

    Raises:
        UserError: the file cannot be read or does not have the format.
    """
    return _load(path or resource("data/sources.yaml")).datasets


def load_models(path: Path | None = None) -> dict[str, DatasetSources]:
    """Return the pre-trained models in the same file: name -> sources; same errors."""
    return _load(path or resource("data/sources.yaml")).models


def _wanted(names: Iterable[str]) -> tuple[list[SourceFile], list[str]]:
    """Return the files of downloaded datasets and models, and the names of generated datasets."""
    sources = {**load_sources(), **load_models()}
    files, generated = {}, []
    for name in dict.fromkeys(names):
        if name in sources:
            files.update({source.file: source for source in sources[name].files})
        elif name in DATASETS and DATASETS[name].write is not None:
            generated.append(name)
        elif name in DATASETS and (part := DATASETS[name].part_of):
            files |= {file.file: file for file in sources[part[0]].files if file.file == part[1]}
        else:
            known = [*sources, *(key for key in DATASETS if DATASETS[key].write is not None)]
            raise UserError(
                f"unknown dataset {name!r}, expected one of {', '.join(known)}"
                f"{suggest(name, known)}"
            )
    return list(files.values()), generated


def raw_records(name: str, raw_dir: str | os.PathLike[str]) -> list[RawFile]:
    """Check, or generate, the raw files of a dataset or model; return their records.

    Returns:
        One record per file, in the order of ``data/sources.yaml``, with its published sha256 or the
        one recorded at its first use.

    Raises:
        UserError: an unknown name, or files that are missing or wrong.
    """
    raw_dir = Path(raw_dir)
    files, generated = _wanted([name])
    if generated:
        return DATASETS[name].written(raw_dir)
    from private_graphs.datasets.download import checked

    return checked(name, raw_dir, files)


def supply(
    names: Iterable[str],
    raw_dir: str | os.PathLike[str],
    mirror: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Bring all raw files of the named datasets and models to ``raw_dir``; return their paths.

    An existing file with the right sha256 is kept; raw files of embedded datasets are generated.
    Others come from the mirror (a folder, a ``file:`` or ``http(s):`` base URL) or, failing that,
    from their public URL. A file without a published sha256, even one put there by hand, is
    recorded at its first use and must match its record from then on.

    Args:
        progress: callback as described at :data:`Progress`; by default a bar on standard error.

    Raises:
        UserError: an unknown name; or one message with every file that is missing (its URL and the
            two ways to supply it) and every file with a wrong size or sha256.
    """
    raw_dir = Path(raw_dir)
    files, generated = _wanted(names)
    paths = [path for name in generated for path in DATASETS[name].write(raw_dir)]
    if not files:
        return paths
    from private_graphs.datasets.download import supply_files

    supply_files(files, raw_dir, mirror, progress)
    return paths + [raw_dir / source.file for source in files]
