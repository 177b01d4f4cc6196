"""Raw files: where they come from, their checksums, and how they get to ``data/raw``.

A file is taken from the mirror first, then from its public URL. Nothing appears under its final
name before its size and sha256 have been checked.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from tqdm import tqdm

from private_graphs.datasets import embedded
from private_graphs.errors import UserError, suggest
from private_graphs.files import atomic_path, resource, sha256_of

CONNECT_SECONDS, READ_SECONDS = 4.0, 10.0
PROBE_SECONDS = 8.0
"""How long a host may take to answer at all, name resolution included, before it is given up."""

ATTEMPTS = 2
"""Downloads tried per file when a transfer breaks off."""

Progress = Callable[[str, int, int], None]
"""Called with (file, bytes done, bytes in all) before each file and once at the end (file "")."""


class SourceFile(BaseModel):
    """One raw file; ``file`` is its path below the raw folder and below a mirror."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    url: str = Field(pattern=r"^https?://")
    bytes: int = Field(ge=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")

    @field_validator("file")
    @classmethod
    def _relative(cls, value: str) -> str:
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts or str(path) != value or value == ".":
            raise ValueError("expected a relative path without '..'")
        return value


class DatasetSources(BaseModel):
    """The raw files of one dataset."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    licence: str
    citation: str
    files: tuple[SourceFile, ...] = Field(min_length=1)


class _Sources(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    datasets: dict[str, DatasetSources]


@cache
def load_sources(path: Path | None = None) -> dict[str, DatasetSources]:
    """Read and validate ``data/sources.yaml`` (or another file of its form): name -> sources.

    Raises:
        UserError: the file cannot be read or does not have the form.
    """
    path = path or resource("data/sources.yaml")
    try:
        return _Sources.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))).datasets
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read ({error}); restore it") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "file"
        raise UserError(
            f"{path}: {key}: found {str(first['input'])[:80]!r}: {first['msg']}; correct the entry"
        ) from error


def check_file(path: Path, source: SourceFile) -> None:
    """Check size and sha256 of a raw file.

    Raises:
        UserError: they differ from ``data/sources.yaml``.
    """
    size = path.stat().st_size
    if size != source.bytes:
        raise UserError(f"{source.file}: wrong size: found {size} bytes, expected {source.bytes}")
    found = sha256_of(path)
    if found != source.sha256:
        raise UserError(f"{source.file}: wrong sha256: found {found}, expected {source.sha256}")


class _Limited:
    """A binary file that refuses to grow beyond the expected size."""

    def __init__(self, stream: Any, source: SourceFile, url: str) -> None:
        self._stream, self._left, self._source, self._url = stream, source.bytes, source, url

    def write(self, chunk: bytes) -> int:
        self._left -= len(chunk)
        if self._left < 0:
            raise UserError(
                f"{self._source.file}: wrong size: found more than the expected "
                f"{self._source.bytes} bytes (from {self._url})"
            )
        return self._stream.write(chunk)

    def flush(self) -> None:
        self._stream.flush()


@dataclass
class _Supplier:
    """Fetches files and remembers which hosts do not answer."""

    raw_dir: Path
    mirror: str | None
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
        reason = self._download(source.url, source)
        return [] if reason is None else [*reasons, reason]

    @contextlib.contextmanager
    def _checked(self, source: SourceFile, origin: str) -> Iterator[Path]:
        """Yield a temporary path; check what was written there, then give it its final name."""
        target = self.raw_dir / source.file
        with atomic_path(target) as temporary:
            yield temporary
            try:
                check_file(temporary, source)
            except UserError as error:
                raise UserError(f"{error} (from {origin})") from error

    def _copy(self, folder: Path, source: SourceFile) -> str | None:
        if not folder.is_dir():
            return f"the mirror {folder} is not a folder"
        if not (folder / source.file).is_file():
            return f"the mirror {folder} does not have it"
        with self._checked(source, str(folder / source.file)) as temporary:
            shutil.copyfile(folder / source.file, temporary)
        return None

    def _download(self, url: str, source: SourceFile) -> str | None:
        from pooch import HTTPDownloader
        from requests import HTTPError, RequestException

        host = urlsplit(url).netloc
        if host not in self.hosts:
            self.hosts[host] = _probe(url)
        if self.hosts[host] is not None:
            return self.hosts[host]
        download = HTTPDownloader(chunk_size=1 << 16, timeout=(CONNECT_SECONDS, READ_SECONDS))
        for attempt in range(ATTEMPTS):
            try:
                with self._checked(source, url) as temporary:
                    with open(temporary, "wb") as stream:
                        download(url, _Limited(stream, source, url), None)
                return None
            except HTTPError as error:
                return f"{host} answers {error.response.status_code}"
            except RequestException as error:
                reason = f"the transfer from {host} failed ({type(error).__name__})"
                if attempt + 1 == ATTEMPTS:
                    self.hosts[host] = reason
        return reason


def _probe(url: str) -> str | None:
    """Return None if the host of ``url`` answers, else why not, within PROBE_SECONDS.

    Redirects and proxies are followed as a download would; name resolution has no time limit of its
    own, therefore the thread.
    """
    import requests

    host, answers, reasons = urlsplit(url).netloc, [], []

    def ask() -> None:
        try:
            timeout = (CONNECT_SECONDS, CONNECT_SECONDS)
            answers.append(requests.head(url, allow_redirects=True, timeout=timeout).status_code)
        except requests.RequestException as error:
            reasons.append(f"{host} cannot be reached ({type(error).__name__})")

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PROBE_SECONDS)
    if answers:
        return None
    return reasons[0] if reasons else f"{host} did not answer within {PROBE_SECONDS:g} s"


def _wanted(names: Iterable[str]) -> tuple[list[SourceFile], list[str]]:
    """Return the files of the downloaded datasets and the names of the embedded ones."""
    sources = load_sources()
    files, generated = {}, []
    for name in dict.fromkeys(names):
        if name in embedded.MODELS:
            generated.append(name)
        elif name in sources:
            files.update({source.file: source for source in sources[name].files})
        else:
            known = [*sources, *embedded.MODELS]
            raise UserError(
                f"unknown dataset {name!r}, expected one of {', '.join(known)}"
                f"{suggest(name, known)}"
            )
    return list(files.values()), generated


def _is_there(path: Path, source: SourceFile) -> bool:
    """Say whether the raw file is there; one with a wrong content is moved aside and refused."""
    if not path.exists():
        return False
    try:
        check_file(path, source)
    except UserError as error:
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
    """Bring all raw files of the named datasets to ``raw_dir`` and return their paths.

    A file that is there with the right sha256 is kept; the raw files of embedded datasets are
    generated. Others come from the mirror (a folder, a ``file:`` or ``http(s):`` base URL) or,
    failing that, from their public URL.

    Args:
        progress: called as described at :data:`Progress`; by default a bar on standard error.

    Raises:
        UserError: an unknown dataset; or one message with every file that is missing (its URL and
            the two ways to supply it) and every file with a wrong size or sha256, none of which
            is left under its final name.
    """
    raw_dir = Path(raw_dir)
    files, generated = _wanted(names)
    supplier = _Supplier(raw_dir, None if mirror is None else os.fspath(mirror))
    paths = [path for name in generated for path in embedded.write_raw(name, raw_dir)]
    wrong: list[str] = []
    fetch: list[SourceFile] = []
    for source in files:
        try:
            if not _is_there(raw_dir / source.file, source):
                fetch.append(source)
        except UserError as error:
            wrong.append(str(error))
    missing = _fetch_all(supplier, fetch, wrong, progress)
    if wrong or missing:
        raise UserError(_message(missing, wrong, raw_dir))
    return paths + [raw_dir / source.file for source in files]


def _fetch_all(
    supplier: _Supplier, fetch: list[SourceFile], wrong: list[str], progress: Progress | None
) -> dict[SourceFile, list[str]]:
    """Fetch files one by one; return those missing with the reasons, add to ``wrong``."""
    missing: dict[SourceFile, list[str]] = {}
    if not fetch:
        return missing
    with contextlib.ExitStack() as stack:
        if progress is None:
            bar, progress = _tqdm_progress()
            stack.enter_context(bar)
        done, total = 0, sum(source.bytes for source in fetch)
        for source in fetch:
            progress(source.file, done, total)
            try:
                reasons = supplier.fetch(source)
                if reasons:
                    missing[source] = reasons
                else:
                    done += source.bytes
            except UserError as error:
                wrong.append(str(error))
            except OSError as error:
                raise UserError(
                    f"{supplier.raw_dir / source.file}: cannot be written ({error}); make room or "
                    "change the permissions, then run again"
                ) from error
        progress("", done, total)
    return missing


def _message(missing: dict[SourceFile, list[str]], wrong: list[str], raw_dir: Path) -> str:
    """One message for all files that are wrong or missing."""
    lines = []
    if wrong:
        lines.append(f"{len(wrong)} raw files are not what they should be:")
        lines += [f"  {each}" for each in wrong]
        lines.append(
            "None of them was kept. Run again with a mirror that has the published files, or put "
            f"them by hand below {raw_dir}."
        )
    if missing:
        lines.append(f"{len(missing)} raw files are missing:")
        lines += [f"  {source.file}  {source.url}" for source in missing]
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
