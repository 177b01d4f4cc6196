"""Raw files that are downloaded: their checks, and their transfer with pooch from a mirror or a
public URL, counted and bounded."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urlsplit
from urllib.request import url2pathname

from tqdm import tqdm

from private_graphs.core.errors import UserError
from private_graphs.core.files import sha256_of
from private_graphs.datasets.first_use import (
    check_beginning,
    record,
    recorded,
    refuse_page,
    way_out,
)
from private_graphs.datasets.labelled import RawFile

if TYPE_CHECKING:
    import requests

    from private_graphs.datasets.sources import Progress, SourceFile

RETRIES = 1
"""Further attempts when a transfer breaks off, the host is busy or the sha256 is wrong."""

BUSY = frozenset((429, 500, 502, 503, 504))
"""Answers of a host that may give the file at the next attempt."""

TIMEOUT = (4.0, 10.0)
"""Timeouts in seconds: to connect, and between bytes."""

CHUNK_BYTES = 1 << 20
"""Bytes per read."""

NO_SOURCE = "no public source is known: ask those who made it, and give a mirror"
HUB_HOST, HUB_OFFLINE = "huggingface.co", "HF_HUB_OFFLINE"
"""Host from which nothing is downloaded while the environment variable is 1, true, yes or on."""


class _Refused(Exception):
    """A mirror or host lacks the file or cannot be reached; the message says why."""


@dataclass
class Meter:
    """File-like writer that counts bytes and refuses more than the accepted size."""

    progress: Progress
    sizes: dict[str, int]
    """File -> size in bytes, where known."""
    source: SourceFile | None = None
    stream: BinaryIO | None = None
    done: int = 0
    """Bytes of finished files."""
    _moved: int = 0

    def turn_to(self, source: SourceFile | None) -> None:
        """Switch to a file; None after the last."""
        self.source = source
        self.start(None)
        self._tell()

    def start(self, stream: BinaryIO | None) -> None:
        """Count the current file from its beginning, as it is written to a stream."""
        self.stream, self._moved = stream, 0

    def write(self, chunk: bytes) -> None:
        """Write bytes of the current file; UserError if they are too many, or a web page."""
        if not self._moved:
            refuse_page(chunk, self.source)
        self._moved += len(chunk)
        self.source.check_size(self._moved)
        self.stream.write(chunk)
        self._tell()

    def flush(self) -> None:
        """Do nothing: pooch calls it after each chunk, and the stream flushes itself."""

    def finish(self) -> None:
        """Count the current file as finished."""
        self.sizes[self.source.file] = self._moved
        self.done += self._moved
        self.start(None)

    def _tell(self) -> None:
        done = self.done + self._moved
        file = self.source.file if self.source else ""
        self.progress(file, done, max(sum(self.sizes.values()), done))


@dataclass
class Supplier:
    """Fetcher of files with pooch that remembers unresponsive hosts."""

    raw_dir: Path
    mirror: str | None
    """Folder or base URL of the mirror."""
    registry: dict[str, str | None]
    """File -> its published or recorded sha256; None before its first use."""
    meter: Meter
    silent: dict[str, str] = field(default_factory=dict)
    """Unresponsive host -> the reason."""

    def fetch(self, source: SourceFile) -> list[str]:
        """Supply one file; return the reasons why it is missing (empty on success)."""
        reasons = []
        mirrored = self.mirror and f"{self.mirror}/{source.file}"
        for origin, absent in ((mirrored, "no mirror was given"), (source.url, NO_SOURCE)):
            reason = self._fetch_from(origin, source) if origin else absent
            if reason is None:
                return []
            reasons.append(reason)
        return reasons

    def _fetch_from(self, origin: str, source: SourceFile) -> str | None:
        """Fetch a file from a path or URL; return the reason if that fails."""
        import requests

        host = urlsplit(origin).netloc
        if _hub_is_offline(origin):
            return f"{host} is not asked because {HUB_OFFLINE} is set"
        if host in self.silent:
            return self.silent[host]
        try:
            self._retrieve(origin, source, RETRIES if host else 0)
        except _Refused as error:
            return str(error)
        except requests.RequestException as error:
            if error.response is not None:
                return _answer(error.response)
            self.silent[host] = f"the transfer from {host} broke off ({type(error).__name__})"
            return self.silent[host]
        return None

    def _retrieve(self, origin: str, source: SourceFile, retries: int) -> None:
        """Fetch a file with pooch, which checks the sha256 before it renames the file."""
        import pooch

        pooch.get_logger().setLevel("WARNING")  # the meter reports progress
        target, expected = self.raw_dir / source.file, self.registry[source.file]
        target.parent.mkdir(parents=True, exist_ok=True)

        def transfer(origin: str, temporary: str, _: Any) -> None:
            os.unlink(temporary)  # pooch's empty file is readable by its owner alone
            with open(temporary, "wb") as stream:
                self.meter.start(stream)
                (self._ask if urlsplit(origin).netloc else self._copy)(origin, source)
            if expected is None:
                check_beginning(Path(temporary), source)

        pup = pooch.create(
            self.raw_dir, "", registry=self.registry, urls={source.file: origin},
            retry_if_failed=retries,
        )  # fmt: skip
        try:
            pup.fetch(source.file, downloader=transfer)
        except UserError as error:
            raise UserError(f"{error} (from {origin})") from error
        except ValueError as error:  # pooch names the found and the expected sha256
            reason = str(error).partition(". ")[0]
            raise UserError(
                f"{source.file}: wrong sha256: {reason}{way_out(target, source)} (from {origin})"
            ) from error
        if expected is None:
            record(target, source, origin)
        self.meter.finish()

    def _copy(self, path: str, source: SourceFile) -> None:
        if not Path(self.mirror).is_dir():
            raise _Refused(f"the mirror {self.mirror} is not a folder")
        if not Path(path).is_file():
            raise _Refused(f"the mirror {self.mirror} does not have it")
        self.meter.sizes[source.file] = os.stat(path).st_size
        for chunk in _read_chunks(path):
            self.meter.write(chunk)

    def _ask(self, url: str, source: SourceFile) -> None:
        """Write the response of a URL unchanged.

        Raises:
            _Refused: the host does not send the file, or not its length.
            requests.RequestException: the transfer broke off.
        """
        import pooch
        import requests

        host, answered = urlsplit(url).netloc, []

        def look(response: requests.Response, *_: Any, **__: Any) -> None:
            if response.status_code != 200:
                return
            answered.append(url)
            if source.file.endswith(".gz"):
                # Some servers declare .gz as a content encoding, which would be decoded here.
                response.raw.headers.pop("Content-Encoding", None)
            length = response.headers.get("Content-Length", "")
            if source.bytes is None and length.isdecimal():
                self.meter.sizes[source.file] = int(length)
            ends = length or "Transfer-Encoding" in response.headers
            if self.registry[source.file] is None and not ends:
                raise _Refused(
                    f"{host} does not say how long {source.file} is, so that a transfer that "
                    "breaks off would look like the whole file"
                )

        # With compression in transit the bytes would depend on the server's settings.
        ask = pooch.HTTPDownloader(
            chunk_size=CHUNK_BYTES, timeout=TIMEOUT, headers={"Accept-Encoding": "identity"},
            hooks={"response": look},
        )  # fmt: skip
        try:
            ask(url, self.meter, None)
        except requests.RequestException as error:
            if answered or (error.response is not None and error.response.status_code in BUSY):
                raise  # pooch tries again
            if error.response is not None:
                raise _Refused(_answer(error.response)) from error
            self.silent[host] = f"{host} cannot be reached ({type(error).__name__})"
            raise _Refused(self.silent[host]) from error


def _answer(response: requests.Response) -> str:
    return f"{urlsplit(response.url).netloc} answers {response.status_code}"


def _read_chunks(path: str) -> Iterator[bytes]:
    """Yield the content of a file of the mirror; _Refused if it cannot be read."""
    try:
        with open(path, "rb") as stream:
            yield from iter(lambda: stream.read(CHUNK_BYTES), b"")
    except OSError as error:
        raise _Refused(f"{path} of the mirror cannot be read ({error.strerror})") from error


def base_of(mirror: str | os.PathLike[str] | None) -> str | None:
    """Return the folder or base URL of a mirror, without ``file:`` and a trailing slash."""
    if mirror is None:
        return None
    base = os.fspath(mirror)
    if urlsplit(base).scheme == "file":
        base = url2pathname(urlsplit(base).path)
    return os.path.expanduser(base).rstrip("/")


def _hub_is_offline(url: str) -> bool:
    """Return whether the hub's own environment variable forbids this download."""
    host = urlsplit(url).hostname or ""
    forbidden = os.environ.get(HUB_OFFLINE, "").strip().lower() in {"1", "true", "yes", "on"}
    return forbidden and (host == HUB_HOST or host.endswith(f".{HUB_HOST}"))


def check_file(path: Path, source: SourceFile) -> str:
    """Check size and sha256 of a raw file; return the sha256.

    A file without them in ``data/sources.yaml`` is compared with the record of its first use, or
    recorded if there is none.

    Raises:
        UserError: they differ.
    """
    with open(path, "rb") as stream:
        refuse_page(stream.read(CHUNK_BYTES), source)
    source.check_size(path.stat().st_size)
    expected = source.sha256 or recorded(path, source)
    if expected is None:
        check_beginning(path, source)
        return record(path, source, "found in its place")
    digest = sha256_of(path)
    if digest != expected:
        raise UserError(
            f"{source.file}: wrong sha256: found {digest}, expected {expected}"
            f"{way_out(path, source)}"
        )
    return digest


def _is_there(path: Path, source: SourceFile) -> bool:
    """Return whether the raw file exists; refuse one with wrong content.

    A wrong file is moved aside if the right content is published. Otherwise it stays, since the
    user may want it.
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
            bar.refresh()  # show the file name at once; a log file needs only the last state

    return bar, progress


def _fetch_all(
    raw_dir: Path,
    mirror: str | os.PathLike[str] | None,
    fetch: dict[SourceFile, str | None],
    wrong: list[str],
    progress: Progress | None,
) -> dict[SourceFile, list[str]]:
    """Fetch files, given with their sha256; return missing ones and why; extend ``wrong``."""
    missing: dict[SourceFile, list[str]] = {}
    with contextlib.ExitStack() as stack:
        if progress is None:
            bar, progress = _tqdm_progress()
            stack.enter_context(bar)
        meter = Meter(progress, {source.file: source.bytes or 0 for source in fetch})
        registry = {source.file: expected for source, expected in fetch.items()}
        supplier = Supplier(raw_dir, base_of(mirror), registry, meter)
        for source in fetch:
            meter.turn_to(source)
            with _collected(wrong, raw_dir / source.file):
                if reasons := supplier.fetch(source):
                    missing[source] = reasons
        meter.turn_to(None)
    return missing


@contextlib.contextmanager
def _collected(wrong: list[str] | None, path: Path) -> Iterator[None]:
    """Add what is wrong with a file to a list, if there is one; UserError where it or its record
    cannot be written."""
    try:
        yield
    except UserError as error:
        if wrong is None:
            raise
        wrong.append(str(error))
    except OSError as error:
        raise UserError(
            f"{path}: the file or its record cannot be written ({error}); make room or change the "
            "permissions, then run again"
        ) from error


def _counted(files: Collection[object]) -> str:
    return "1 raw file is" if len(files) == 1 else f"{len(files)} raw files are"


def _message(missing: dict[SourceFile, list[str]], wrong: list[str], raw_dir: Path) -> str:
    """Return one message for all files that are wrong or missing."""
    lines = []
    if wrong:
        lines.append(f"{len(wrong)} raw files are not what they should be:")
        lines += [f"  {problem}" for problem in wrong]
        lines.append(
            "None of them is used. Run again with a mirror that has the published files, or put "
            f"them by hand below {raw_dir}."
        )
    if missing:
        lines.append(f"{_counted(missing)} missing:")
        at: dict[str, list[str]] = {}
        for source in missing:
            at.setdefault(source.url or NO_SOURCE, []).append(source.file)
        for origin, files in at.items():  # one archive may hold hundreds
            suffix = f" and {len(files) - 1} more" if len(files) > 1 else ""
            lines.append(f"  {files[0]}{suffix}  {origin}")
        # Files fail for few reasons; each is listed once.
        reasons = dict.fromkeys(reason for causes in missing.values() for reason in causes)
        lines.append("Why: " + "; ".join(reasons) + ".")
        example = next(iter(missing)).file
        lines.append(
            "Two ways to supply them: give a folder or URL that holds them under these names "
            "(snakemake --config mirror=DIR, private-graphs ... --mirror DIR), or put each file "
            f"by hand at its place below {raw_dir} (the first at {raw_dir / example})."
        )
    return "\n".join(lines)


def supply_files(
    files: Iterable[SourceFile],
    raw_dir: Path,
    mirror: str | os.PathLike[str] | None,
    progress: Progress | None,
) -> None:
    """Bring raw files to ``raw_dir``; arguments and errors as for ``sources.supply``."""
    wrong: list[str] = []
    fetch: dict[SourceFile, str | None] = {}
    for source in files:
        with _collected(wrong, raw_dir / source.file):
            if not _is_there(raw_dir / source.file, source):
                fetch[source] = source.sha256 or recorded(raw_dir / source.file, source)
    missing = _fetch_all(raw_dir, mirror, fetch, wrong, progress) if fetch else {}
    if wrong or missing:
        raise UserError(_message(missing, wrong, raw_dir))


def checked(name: str, raw_dir: Path, files: Iterable[SourceFile]) -> list[RawFile]:
    """Check the raw files of a dataset or model; return their records.

    Raises UserError for files that are missing or wrong.
    """
    missing = [source.file for source in files if not (raw_dir / source.file).is_file()]
    if missing:
        raise UserError(
            f"{name}: {_counted(missing)} missing below {raw_dir}: "
            f"{', '.join(missing)}; supply the raw files first"
        )
    records = []
    for source in files:
        with _collected(None, raw_dir / source.file):
            sha256 = check_file(raw_dir / source.file, source)
        records.append(RawFile(file=source.file, sha256=sha256, url=source.url))
    return records
