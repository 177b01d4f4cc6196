"""Raw files: where they come from, their checksums, and how they get to ``data/raw``.

A file is taken from the mirror first, then from its public URL. Nothing appears under its final
name before its size and sha256 have been checked: against the published ones, or, where nobody has
published any, against those recorded at its first use (``datasets/first_use.py``).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from tqdm import tqdm

from private_graphs.datasets.download import (
    Interrupted,
    Meter,
    Progress,
    Refused,
    download,
    probe,
)
from private_graphs.datasets.first_use import confirm
from private_graphs.datasets.labelled import RawFile
from private_graphs.datasets.readers import DATASETS
from private_graphs.errors import UserError, suggest
from private_graphs.files import atomic_path, resource, sha256_of

ATTEMPTS = 2
"""Downloads tried per file when a transfer breaks off."""

NO_SOURCE = "no public source is known: ask those who made it, and give a mirror"
HUB_HOST, HUB_OFFLINE = "huggingface.co", "HF_HUB_OFFLINE"
"""No file is downloaded from this host where the environment variable is 1, true, yes or on."""


WRITERS: dict[str, Callable[[Path], list[Path]]] = {
    name: spec.write for name, spec in DATASETS.items() if spec.write is not None
}
"""Datasets whose raw files are generated: name -> function that writes them below a raw folder,
leaves alone what is there unchanged, and returns their paths."""


class SourceFile(BaseModel):
    """One raw file; ``file`` is its path below the raw folder and below a mirror.

    Without ``bytes`` and ``sha256`` the file is trusted on first use; ``max_bytes`` then bounds
    what is accepted. Without ``url`` no public source is known: it comes from a mirror alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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
        """Largest size that is accepted."""
        return self.bytes or self.max_bytes

    @field_validator("file")
    @classmethod
    def _relative(cls, value: str) -> str:
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts or str(path) != value or value == ".":
            raise ValueError("expected a relative path without '..'")
        return value


class DatasetSources(BaseModel):
    """The raw files of one dataset, or the files of one pre-trained model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    licence: str
    citation: str
    files: tuple[SourceFile, ...] = Field(min_length=1)


class _Sources(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    datasets: dict[str, DatasetSources]
    models: dict[str, DatasetSources] = {}


@cache
def _load(path: Path) -> _Sources:
    try:
        return _Sources.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read ({error}); restore it") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "file"
        raise UserError(
            f"{path}: {key}: found {str(first['input'])[:80]!r}: {first['msg']}; correct the entry"
        ) from error


def load_sources(path: Path | None = None) -> dict[str, DatasetSources]:
    """Read and validate ``data/sources.yaml`` (or another file of its form): dataset -> sources.

    Raises:
        UserError: the file cannot be read or does not have the form.
    """
    return _load(path or resource("data/sources.yaml")).datasets


def load_models(path: Path | None = None) -> dict[str, DatasetSources]:
    """Return the pre-trained models of the same file: name -> sources; errors as load_sources."""
    return _load(path or resource("data/sources.yaml")).models


def check_file(path: Path, source: SourceFile) -> str:
    """Check size and sha256 of a raw file; return the sha256.

    A file without them in ``data/sources.yaml`` is compared with the record of its first use, which
    is made if there is none.

    Raises:
        UserError: they differ.
    """
    if source.sha256 is None:
        _check_limit(path.stat().st_size, source, str(path))
        return confirm(path, source.file, source.url).sha256
    size = path.stat().st_size
    if size != source.bytes:
        raise UserError(f"{source.file}: wrong size: found {size} bytes, expected {source.bytes}")
    found = sha256_of(path)
    if found != source.sha256:
        raise UserError(f"{source.file}: wrong sha256: found {found}, expected {source.sha256}")
    return found


def _check_limit(size: int, source: SourceFile, origin: str) -> None:
    if size > source.limit:
        raise UserError(
            f"{source.file}: wrong size: found {size} bytes, expected at most {source.limit} "
            f"(from {origin})"
        )


@dataclass
class _Supplier:
    """Fetches files and remembers which hosts do not answer."""

    raw_dir: Path
    mirror: str | None
    meter: Meter
    hosts: dict[str, str | None] = field(default_factory=dict)
    """Host -> why it cannot be reached (None: it answers)."""

    @property
    def mirror_folder(self) -> Path | None:
        if self.mirror is None or self.mirror.startswith(("http://", "https://")):
            return None
        if self.mirror.startswith("file:"):
            return Path(url2pathname(urlsplit(self.mirror).path))
        return Path(self.mirror).expanduser()

    def fetch(self, source: SourceFile) -> list[str]:
        """Supply one file; return the reasons why it is missing (empty: it is there)."""
        reasons = []
        folder = self.mirror_folder
        if folder is not None:
            reason = self._copy(folder, source)
        elif self.mirror is not None:
            base = self.mirror.rstrip("/")
            reason = self._download(f"{base}/{quote(source.file)}", source)
        else:
            reason = "no mirror was given"
        if reason is None:
            return []
        reasons.append(reason)
        if source.url is None:
            return [*reasons, NO_SOURCE]
        reason = self._download(source.url, source)
        return [] if reason is None else [*reasons, reason]

    @contextlib.contextmanager
    def _checked(self, source: SourceFile, origin: str) -> Iterator[Path]:
        """Yield a temporary path; check what was written there, then give it its final name."""
        target = self.raw_dir / source.file
        with atomic_path(target) as temporary:
            yield temporary
            if source.sha256 is None:
                confirm(target, source.file, source.url, origin, temporary)
            else:
                try:
                    check_file(temporary, source)
                except UserError as error:
                    raise UserError(f"{error} (from {origin})") from error
            self.meter.finish(temporary.stat().st_size)

    def _copy(self, folder: Path, source: SourceFile) -> str | None:
        path = folder / source.file
        if not folder.is_dir():
            return f"the mirror {folder} is not a folder"
        if not path.is_file():
            return f"the mirror {folder} does not have it"
        size = path.stat().st_size
        if source.sha256 is None:
            _check_limit(size, source, str(path))
            self.meter.restart(size)
        with self._checked(source, str(path)) as temporary:
            shutil.copyfile(path, temporary)
        return None

    def _download(self, url: str, source: SourceFile) -> str | None:
        host = urlsplit(url).netloc
        if _hub_is_offline(url):
            return f"{host} is not asked because {HUB_OFFLINE} is set"
        if host not in self.hosts:
            self.hosts[host] = probe(url)
        if self.hosts[host] is not None:
            return self.hosts[host]
        listed = source.sha256 is not None
        for _ in range(ATTEMPTS):
            try:
                with self._checked(source, url) as temporary:
                    download(url, temporary, source.file, source.limit, listed, self.meter)
                return None
            except Refused as error:
                return str(error)
            except Interrupted as error:
                reason = str(error)
        self.hosts[host] = reason
        return reason


def _hub_is_offline(url: str) -> bool:
    """Say whether the user forbids this download by the hub's own environment variable."""
    host = urlsplit(url).hostname or ""
    forbidden = os.environ.get(HUB_OFFLINE, "").strip().lower() in {"1", "true", "yes", "on"}
    return forbidden and (host == HUB_HOST or host.endswith(f".{HUB_HOST}"))


def _wanted(names: Iterable[str]) -> tuple[list[SourceFile], list[str]]:
    """Return the files of downloaded datasets and models, and the names of generated datasets."""
    sources = {**load_sources(), **load_models()}
    files, generated = {}, []
    for name in dict.fromkeys(names):
        if name in WRITERS:
            generated.append(name)
        elif name in sources:
            files.update({source.file: source for source in sources[name].files})
        else:
            known = [*sources, *WRITERS]
            raise UserError(
                f"unknown dataset {name!r}, expected one of {', '.join(known)}"
                f"{suggest(name, known)}"
            )
    return list(files.values()), generated


def raw_records(name: str, raw_dir: str | os.PathLike[str]) -> list[RawFile]:
    """Check, or generate, the raw files of a dataset or model; return what they are.

    Returns:
        One record per file, in the order of ``data/sources.yaml``, with its published sha256 or
        that recorded at its first use.

    Raises:
        UserError: an unknown name, or files that are missing or wrong.
    """
    raw_dir = Path(raw_dir)
    files, generated = _wanted([name])
    if generated:
        return [
            RawFile(file=path.relative_to(raw_dir).as_posix(), sha256=sha256_of(path), url=None)
            for path in WRITERS[name](raw_dir)
        ]
    missing = [source.file for source in files if not (raw_dir / source.file).is_file()]
    if missing:
        raise UserError(
            f"{name}: {_counted(missing)} missing below {raw_dir}: "
            f"{', '.join(missing)}; supply the raw files first"
        )
    records = []
    for source in files:
        try:
            sha256 = check_file(raw_dir / source.file, source)
        except OSError as error:
            raise _unwritable(raw_dir / source.file, error) from error
        records.append(RawFile(file=source.file, sha256=sha256, url=source.url))
    return records


def _is_there(path: Path, source: SourceFile) -> bool:
    """Say whether the raw file is there; one with a wrong content is refused.

    It is moved aside where the right content is published. Otherwise it stays: perhaps it is the
    file that its user wants.
    """
    if not path.exists():
        return False
    try:
        check_file(path, source)
    except UserError as error:
        if source.sha256 is None:
            raise
        rejected = path.with_name(path.name + ".rejected")
        os.replace(path, rejected)
        raise UserError(f"{error} (found at {path}, moved to {rejected.name})") from error
    return True


def _tqdm_progress() -> tuple[tqdm, Progress]:
    bar = tqdm(unit="B", unit_scale=True, desc="raw files")

    def progress(file: str, done: int, total: int) -> None:
        bar.total = total
        bar.set_postfix_str(file, refresh=False)
        bar.update(done - bar.n)
        if sys.stderr.isatty():
            bar.refresh()  # name the file at once; a log file needs only the last state

    return bar, progress


def supply(
    names: Iterable[str],
    raw_dir: str | os.PathLike[str],
    mirror: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Bring all raw files of the named datasets and models to ``raw_dir``; return their paths.

    A file that is there with the right sha256 is kept; the raw files of embedded datasets are
    generated. Others come from the mirror (a folder, a ``file:`` or ``http(s):`` base URL) or,
    failing that, from their public URL. A file without a published sha256 is recorded at its first
    use, also one that was put there by hand, and has to match its record from then on.

    Args:
        progress: called as described at ``download.Progress``; by default a bar on standard error.

    Raises:
        UserError: an unknown name; or one message with every file that is missing (its URL and
            the two ways to supply it) and every file with a wrong size or sha256.
    """
    raw_dir = Path(raw_dir)
    files, generated = _wanted(names)
    paths = [path for name in generated for path in WRITERS[name](raw_dir)]
    wrong: list[str] = []
    fetch: list[SourceFile] = []
    for source in files:
        try:
            if not _is_there(raw_dir / source.file, source):
                fetch.append(source)
        except UserError as error:
            wrong.append(str(error))
        except OSError as error:
            raise _unwritable(raw_dir / source.file, error) from error
    missing = _fetch_all(raw_dir, mirror, fetch, wrong, progress) if fetch else {}
    if wrong or missing:
        raise UserError(_message(missing, wrong, raw_dir))
    return paths + [raw_dir / source.file for source in files]


def _fetch_all(
    raw_dir: Path,
    mirror: str | os.PathLike[str] | None,
    fetch: list[SourceFile],
    wrong: list[str],
    progress: Progress | None,
) -> dict[SourceFile, list[str]]:
    """Fetch files one by one; return those missing with the reasons, add to ``wrong``."""
    missing: dict[SourceFile, list[str]] = {}
    with contextlib.ExitStack() as stack:
        if progress is None:
            bar, progress = _tqdm_progress()
            stack.enter_context(bar)
        meter = Meter(progress, sum(source.bytes or 0 for source in fetch))
        supplier = _Supplier(raw_dir, None if mirror is None else os.fspath(mirror), meter)
        for source in fetch:
            meter.begin(source.file, source.bytes)
            try:
                reasons = supplier.fetch(source)
                if reasons:
                    missing[source] = reasons
            except UserError as error:
                wrong.append(str(error))
            except OSError as error:
                raise _unwritable(raw_dir / source.file, error) from error
        meter.close()
    return missing


def _unwritable(path: Path, error: OSError) -> UserError:
    return UserError(
        f"{path}: the file or its record cannot be written ({error}); make room or change the "
        "permissions, then run again"
    )


def _counted(files: Collection[object]) -> str:
    return "1 raw file is" if len(files) == 1 else f"{len(files)} raw files are"


def _message(missing: dict[SourceFile, list[str]], wrong: list[str], raw_dir: Path) -> str:
    """One message for all files that are wrong or missing."""
    lines = []
    if wrong:
        lines.append(f"{len(wrong)} raw files are not what they should be:")
        lines += [f"  {each}" for each in wrong]
        lines.append(
            "None of them is used. Run again with a mirror that has the published files, or put "
            f"them by hand below {raw_dir}."
        )
    if missing:
        lines.append(f"{_counted(missing)} missing:")
        at: dict[str, list[str]] = {}
        for source in missing:
            at.setdefault(source.url or NO_SOURCE, []).append(source.file)
        for place, files in at.items():  # one archive may hold hundreds
            more = f" and {len(files) - 1} more" if len(files) > 1 else ""
            lines.append(f"  {files[0]}{more}  {place}")
        # Files fail for few reasons; each is said once.
        reasons = dict.fromkeys(reason for each in missing.values() for reason in each)
        lines.append("Why: " + "; ".join(reasons) + ".")
        example = next(iter(missing)).file
        lines.append(
            "Two ways to supply them: give a folder or URL that holds them under these names "
            "(snakemake --config mirror=DIR, private-graphs ... --mirror DIR), or put each file "
            f"by hand at its place below {raw_dir} (the first at {raw_dir / example})."
        )
    return "\n".join(lines)
