"""One transfer over HTTP: bounded, counted, and refused where its end cannot be told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from private_graphs.errors import UserError

CONNECT_SECONDS, READ_SECONDS = 4.0, 10.0
PROBE_SECONDS = 8.0
"""How long a host may take to answer at all, name resolution included, before it is given up."""

CHUNK_BYTES, REPORT_BYTES = 1 << 16, 1 << 23
"""Bytes per read, and between two calls of a progress function inside one file."""

Progress = Callable[[str, int, int], None]
"""Called with (file, bytes done, bytes in all) before each file, now and then during a large one,
and once at the end (file ""). A file whose size is not listed counts from when its transfer begins,
so the bytes in all can grow."""


class Refused(Exception):
    """A host answers, but not with the file; says why."""


class Interrupted(Exception):
    """A transfer broke off; says why."""


@dataclass
class Meter:
    """Counts bytes over several files for a :data:`Progress`."""

    progress: Progress
    total: int
    """Bytes of all files as far as they are known."""
    done: int = 0
    """Bytes of the files that are finished."""
    file: str = ""
    _size: int = 0
    _moved: int = 0
    _told: int = 0

    def begin(self, file: str, size: int | None) -> None:
        """Start with a file; ``size`` is None where it is not listed."""
        self.file, self._size = file, size or 0
        self.restart(None)
        self._tell()

    def restart(self, size: int | None) -> None:
        """Start the transfer of the present file, whose size is now known to be ``size``."""
        self._moved = self._told = 0
        if size is not None:
            self.total += size - self._size
            self._size = size

    def moved(self, count: int) -> None:
        """Count bytes of the present file."""
        self._moved += count
        if self._moved - self._told >= REPORT_BYTES:
            self._told = self._moved
            self._tell()

    def finish(self, size: int) -> None:
        """The present file is there and has ``size`` bytes."""
        self.restart(size)
        self.done += size

    def close(self) -> None:
        """All files have been tried."""
        self.file, self._moved = "", 0
        self._tell()

    def _tell(self) -> None:
        done = self.done + self._moved
        self.progress(self.file, done, max(self.total, done))


def probe(url: str) -> str | None:
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


def download(url: str, path: Path, file: str, limit: int, listed: bool, meter: Meter) -> None:
    """Write what ``url`` answers to ``path``, byte for byte as it is stored there.

    Args:
        file: its name in messages. limit: largest size in bytes that is accepted.
        listed: size and sha256 are known and will be checked; otherwise the host has to say how
            long the file is, so that a transfer that breaks off is noticed.
        meter: counts the bytes.

    Raises:
        UserError: the file is larger than ``limit``.
        Refused: an HTTP error, or an answer whose end cannot be told.
        Interrupted: the transfer broke off.
    """
    import requests

    host = urlsplit(url).netloc
    # A server that compresses on the way would make the bytes depend on its mood.
    asked = {"Accept-Encoding": "identity"}
    timeout = (CONNECT_SECONDS, READ_SECONDS)
    try:
        with requests.get(url, stream=True, headers=asked, timeout=timeout) as response:
            if response.status_code != 200:
                raise Refused(f"{host} answers {response.status_code}")
            size = _announced(response.headers, host, file, listed)
            _refuse_more(size or 0, limit, file, url)
            meter.restart(None if listed else size)
            # Some servers label a .gz file as an encoding, which would be undone here.
            response.raw.headers.pop("Content-Encoding", None)
            written = 0
            with open(path, "wb") as stream:
                for chunk in response.iter_content(CHUNK_BYTES):
                    written += len(chunk)
                    _refuse_more(written, limit, file, url)
                    stream.write(chunk)
                    meter.moved(len(chunk))
            if size is not None and written != size:
                raise Interrupted(
                    f"the transfer from {host} broke off at {written} of {size} bytes"
                )
    except requests.RequestException as error:
        raise Interrupted(f"the transfer from {host} failed ({type(error).__name__})") from error


def _announced(headers: dict[str, str], host: str, file: str, listed: bool) -> int | None:
    """Return the size that a host announces, None where the end is marked in another way."""
    encoding = headers.get("Content-Encoding", "identity").lower()
    if encoding != "identity" and not file.endswith(".gz"):
        raise Refused(f"{host} sends {file} compressed ({encoding}) although asked not to")
    length = headers.get("Content-Length", "")
    size = int(length) if length.isdecimal() else None
    chunked = "chunked" in headers.get("Transfer-Encoding", "").lower()
    if size is None and not chunked and not listed:
        raise Refused(
            f"{host} does not say how long {file} is, so that a transfer that breaks off would "
            "look like the whole file"
        )
    return None if chunked else size


def _refuse_more(size: int, limit: int, file: str, url: str) -> None:
    if size > limit:
        raise UserError(
            f"{file}: wrong size: found more than the {limit} bytes that are expected at most "
            f"({size} or more, from {url})"
        )
