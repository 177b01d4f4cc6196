"""Files without a published checksum: recorded at first use, refused when they change."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import requests
from servers import files_below, server_of

from private_graphs.core.errors import UserError
from private_graphs.datasets import first_use, sources
from private_graphs.datasets.download import check_file
from private_graphs.datasets.first_use import receipt_path
from private_graphs.datasets.sources import (
    DatasetSources,
    SourceFile,
    raw_records,
    supply,
)

FILE, CONTENT = "dump/profiles.tsv", b"1\tmacka\n" * 500
NOWHERE = "http://127.0.0.1:9"
CAP = 100_000


def source(url_base: str = NOWHERE, file: str = FILE, max_bytes: int = CAP) -> SourceFile:
    return SourceFile(file=file, url=f"{url_base}/{file}", max_bytes=max_bytes)


def use(monkeypatch, *files: SourceFile) -> None:
    """Let ``tiny`` be the only dataset."""
    tiny = DatasetSources(licence="none", citation="none", files=files or (source(),))
    monkeypatch.setattr(sources, "load_sources", lambda: {"tiny": tiny})


@pytest.fixture(autouse=True)
def one_source(monkeypatch):
    use(monkeypatch)


@pytest.fixture
def folder(tmp_path) -> Path:
    path = tmp_path / "mirror" / FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    return tmp_path / "mirror"


@pytest.fixture
def raw(tmp_path) -> Path:
    return tmp_path / "raw"


def put(raw: Path, content: bytes = CONTENT, file: str = FILE) -> Path:
    path = raw / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def sha(content: bytes = CONTENT) -> str:
    return hashlib.sha256(content).hexdigest()


def receipt_of(raw: Path, file: str = FILE) -> dict:
    return json.loads((raw / f"{file}.receipt.json").read_text())


class Answer(http.server.BaseHTTPRequestHandler):
    """Answers every GET with ``server.content`` and the headers of ``server.headers``."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        self.server.asked.append((self.path, dict(self.headers)))
        self.send_response(200)
        for name, value in self.server.told.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(self.server.content)
        self.close_connection = True


def serve(content: bytes = CONTENT, headers: dict[str, str] | None = None):
    told = {"Content-Length": str(len(content))} if headers is None else headers
    return server_of(Answer, content=content, told=told)


@pytest.mark.parametrize("origin", ["mirror folder", "mirror url", "public url", "by hand"])
def test_the_first_use_is_recorded_with_its_origin(monkeypatch, tmp_path, raw, folder, origin):
    with serve() as (url, _):
        expected = url + "/" + FILE
        if origin == "mirror folder":
            supply(["tiny"], raw, folder)
            expected = str(folder / FILE)
        elif origin == "mirror url":
            supply(["tiny"], raw, url)
        elif origin == "public url":
            use(monkeypatch, source(url))
            supply(["tiny"], raw)
        else:
            put(raw)
            supply(["tiny"], raw)
            expected = "found in its place"
    assert receipt_of(raw) == {
        "file": FILE,
        "url": f"{url if origin == 'public url' else NOWHERE}/{FILE}",
        "bytes": len(CONTENT),
        "sha256": sha(),
        "origin": expected,
    }
    assert files_below(raw) == [FILE, FILE + ".receipt.json"]
    assert (raw / FILE).read_bytes() == CONTENT


def test_a_file_that_stays_the_same_stays_usable_and_its_record_untouched(raw, folder):
    supply(["tiny"], raw, folder)
    before = receipt_path(raw / FILE).stat().st_mtime_ns
    assert supply(["tiny"], raw) == [raw / FILE]
    (record,) = raw_records("tiny", raw)
    assert (record.file, record.sha256, record.url) == (FILE, sha(), f"{NOWHERE}/{FILE}")
    assert check_file(raw / FILE, source()) == sha()
    assert receipt_path(raw / FILE).stat().st_mtime_ns == before


@pytest.mark.parametrize("changed", [CONTENT[::-1], CONTENT + b"!", CONTENT[:-1]])
def test_a_file_that_changed_is_refused_with_both_states_and_the_way_out(raw, folder, changed):
    supply(["tiny"], raw, folder)
    put(raw, changed)
    for call in (
        lambda: supply(["tiny"], raw, folder),
        lambda: raw_records("tiny", raw),
        lambda: check_file(raw / FILE, source()),
    ):
        with pytest.raises(UserError) as raised:
            call()
        message = str(raised.value)
        for part in (FILE, sha(changed), sha(), f"remove {receipt_path(raw / FILE)}"):
            assert part in message
    assert (raw / FILE).read_bytes() == changed  # perhaps it is meant: it stays in its place
    receipt_path(raw / FILE).unlink()
    supply(["tiny"], raw)
    assert receipt_of(raw)["sha256"] == sha(changed)


@pytest.mark.parametrize(
    ("key", "value", "match"),
    [
        ("sha256", "0" * 64, "wrong sha256: .* that of its first use"),
        ("sha256", "abc", "cannot be read as the record of a first use"),
        ("url", "http://127.0.0.1:9/older", "expected one of .* remove both"),
        ("file", "dump/other.tsv", "expected one of"),
    ],
)
def test_an_edited_record_is_refused(raw, folder, key, value, match):
    supply(["tiny"], raw, folder)
    place = receipt_path(raw / FILE)
    place.write_text(json.dumps({**receipt_of(raw), key: value}))
    with pytest.raises(UserError, match=match):
        supply(["tiny"], raw, folder)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"file": "dump/profiles.tsv"}'])
def test_a_broken_record_is_named_and_never_replaced_in_silence(raw, folder, text):
    supply(["tiny"], raw, folder)
    receipt_path(raw / FILE).write_text(text)
    with pytest.raises(UserError, match="receipt.json: cannot be read .* remove it"):
        supply(["tiny"], raw, folder)
    assert receipt_path(raw / FILE).read_text() == text


def test_a_mirror_or_host_with_another_content_than_recorded_is_refused(monkeypatch, raw, folder):
    supply(["tiny"], raw, folder)
    (raw / FILE).unlink()
    (folder / FILE).write_bytes(CONTENT[::-1])
    with pytest.raises(UserError, match="wrong sha256: .* that of its first use"):
        supply(["tiny"], raw, folder)
    with serve(CONTENT[::-1]) as (url, _):
        with pytest.raises(UserError, match="wrong sha256: .* that of its first use"):
            supply(["tiny"], raw, url)
    assert files_below(raw) == [FILE + ".receipt.json"]
    (folder / FILE).write_bytes(CONTENT)
    supply(["tiny"], raw, folder)
    assert (raw / FILE).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "headers", "reason"),
    [
        (CONTENT[:99], {"Content-Length": str(len(CONTENT))}, "broke off"),
        (b"63\r\n" + CONTENT[:99] + b"\r\n", {"Transfer-Encoding": "chunked"}, "broke off"),
        (CONTENT, {}, "does not say how long dump/profiles.tsv is"),
    ],
)
def test_a_transfer_whose_end_is_missing_leaves_neither_file_nor_record(
    monkeypatch, raw, content, headers, reason
):
    with serve(content, headers) as (url, asked):
        use(monkeypatch, source(url))
        with pytest.raises(UserError, match=reason):
            supply(["tiny"], raw)
    assert files_below(raw) == []
    assert asked[0][1]["Accept-Encoding"] == "identity"


def test_a_chunked_answer_that_ends_properly_is_accepted_up_to_its_bound(monkeypatch, raw):
    chunks = [CONTENT[start : start + 100] for start in range(0, len(CONTENT), 100)]
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in [*chunks, b""])
    with serve(body, {"Transfer-Encoding": "chunked"}) as (url, _):
        use(monkeypatch, source(url, max_bytes=len(CONTENT)))
        supply(["tiny"], raw)
    assert (raw / FILE).read_bytes() == CONTENT


def test_a_compressed_file_is_kept_as_it_is_stored(monkeypatch, raw):
    """Some servers label a .gz file as an encoding, which clients would undo in silence."""
    import gzip

    content = gzip.compress(CONTENT)
    headers = {"Content-Length": str(len(content)), "Content-Encoding": "x-gzip"}
    with serve(content, headers) as (url, _):
        use(monkeypatch, source(url, "dump/profiles.txt.gz"))
        supply(["tiny"], raw)
    assert (raw / "dump/profiles.txt.gz").read_bytes() == content


@pytest.mark.parametrize("where", ["announced", "chunked", "mirror folder", "by hand"])
def test_a_file_above_its_bound_is_refused(monkeypatch, raw, folder, where):
    with contextlib.ExitStack() as stack:
        mirror = None
        if where == "announced":
            mirror, _ = stack.enter_context(serve())
        elif where == "chunked":
            body = b"".join(b"400\r\n" + b"x" * 1024 + b"\r\n" for _ in range(100))
            headers = {"Transfer-Encoding": "chunked"}
            mirror, _ = stack.enter_context(serve(body, headers))
        elif where == "mirror folder":
            mirror = folder
        else:
            put(raw)
        use(monkeypatch, source(max_bytes=2000))
        with pytest.raises(UserError, match=f"{FILE}: wrong size: found .*2000"):
            supply(["tiny"], raw, mirror)
    assert not receipt_path(raw / FILE).exists()


@pytest.mark.parametrize(
    ("file", "content"), [("a/x.zip", b"<html>"), ("a/x.gz", b"<html>"), ("a/x.txt", b"")]
)
def test_what_cannot_be_the_file_is_not_trusted(monkeypatch, raw, file, content):
    use(monkeypatch, source(file=file))
    put(raw, content, file)
    with pytest.raises(UserError, match="begins with .* expected|is a web page .* expected"):
        supply(["tiny"], raw)
    assert files_below(raw) == [file]


@pytest.fixture
def asked(monkeypatch) -> list[str]:
    """The URLs that were asked; no network is there."""
    urls = []

    def get(url, **_):
        urls.append(url)
        raise requests.ConnectionError

    monkeypatch.setattr(requests, "get", get)
    return urls


@pytest.mark.parametrize("value", ["1", "true", "YES", "on"])
def test_the_hub_is_not_asked_when_it_is_declared_offline(monkeypatch, raw, folder, asked, value):
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    model = source("https://huggingface.co/someone/resolve", "models/m/config.json")
    listed = DatasetSources(licence="none", citation="none", files=(model,))
    monkeypatch.setattr(sources, "load_models", lambda: {"m": listed})
    with pytest.raises(UserError, match="huggingface.co is not asked because HF_HUB_OFFLINE"):
        supply(["m"], raw)
    assert asked == []
    put(folder, b"{}", model.file)
    supply(["m"], raw, folder)
    assert receipt_of(raw, model.file)["bytes"] == 2


@pytest.mark.parametrize("value", [None, "", "0", "false"])
def test_the_hub_is_asked_otherwise_and_other_hosts_always(monkeypatch, raw, asked, value):
    if value is None:
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    else:
        monkeypatch.setenv("HF_HUB_OFFLINE", value)
    use(monkeypatch, source("https://huggingface.co/x"))
    with pytest.raises(UserError, match="huggingface.co cannot be reached"):
        supply(["tiny"], raw)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    use(monkeypatch, source("https://nothuggingface.co/x"))
    with pytest.raises(UserError, match="nothuggingface.co cannot be reached"):
        supply(["tiny"], raw)
    assert len(asked) == 2


def test_records_of_generated_and_of_missing_files(raw):
    records = raw_records("synthetic-npz", raw)
    assert [record.file for record in records] == ["citation-npz/synthetic.npz"]
    assert records[0].url is None
    assert records[0].sha256 == sha((raw / "citation-npz/synthetic.npz").read_bytes())
    with pytest.raises(UserError, match="tiny: 1 raw file is missing below .*supply"):
        raw_records("tiny", raw)
    with pytest.raises(UserError, match="unknown dataset 'tinny'.*did you mean 'tiny'"):
        raw_records("tinny", raw)


def test_a_folder_that_takes_no_record_is_an_error_for_the_user(monkeypatch, raw):
    put(raw)

    def refuse(*_):
        raise PermissionError("read-only")

    monkeypatch.setattr(first_use, "write_json", refuse)
    for call in (supply, lambda names, folder: raw_records(names[0], folder)):
        with pytest.raises(UserError, match="cannot be written .read-only"):
            call(["tiny"], raw)


def test_a_killed_download_leaves_no_record(raw, folder):
    script = f"""
import os, signal
from private_graphs.datasets import download, sources
from private_graphs.datasets.readers import DATASETS
from private_graphs.datasets.sources import DatasetSources, SourceFile
write = download.Meter.write
def half(meter, chunk):
    write(meter, chunk[:100])
    meter.stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
download.Meter.write = half
one = SourceFile(file={FILE!r}, url="{NOWHERE}/x", max_bytes=100000)
tiny = DatasetSources(licence="none", citation="none", files=(one,))
sources.load_sources = lambda: {{"tiny": tiny}}
sources.supply(["tiny"], {str(raw)!r}, {str(folder)!r})
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True)
    assert done.returncode != 0
    assert len(files_below(raw)) == 1 and not (raw / FILE).exists()
    supply(["tiny"], raw, folder)
    assert receipt_of(raw)["sha256"] == sha()
