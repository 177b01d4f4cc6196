"""Supplying raw files: mirror folder, HTTP mirror, wrong and truncated files, no network."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import itertools
import re
import socket
from pathlib import Path

import pytest
import yaml
from servers import files_below, server_of

from private_graphs.core.errors import UserError
from private_graphs.datasets import download, sources
from private_graphs.datasets.sources import (
    DatasetSources,
    SourceFile,
    load_models,
    load_sources,
    supply,
)

CONTENTS = {
    "planetoid/ind.tiny.x": b"features " * 1000,
    "planetoid/ind.tiny.y": b"labels",
    "planetoid/ind.tiny.test.index": b"3\n2\n1\n",
}


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def use(monkeypatch, url_base: str, contents=CONTENTS) -> None:
    """Let ``tiny`` be the only dataset, with its public URLs at ``url_base``."""
    files = tuple(
        SourceFile(
            file=file,
            url=f"{url_base}/{file}",
            bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
        )
        for file, content in contents.items()
    )
    tiny = DatasetSources(licence="none", citation="none", files=files)
    monkeypatch.setattr(sources, "load_sources", lambda: {"tiny": tiny})


@pytest.fixture
def offline(monkeypatch):
    """The public URLs point to a port where nobody listens."""
    use(monkeypatch, f"http://127.0.0.1:{closed_port()}")


@pytest.fixture
def folder(tmp_path) -> Path:
    for file, content in CONTENTS.items():
        path = tmp_path / "mirror" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "mirror"


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        self.server.asked.append((self.command, self.path))


def assert_complete(raw: Path) -> None:
    assert files_below(raw) == sorted(CONTENTS)
    for file, content in CONTENTS.items():
        assert (raw / file).read_bytes() == content


@pytest.mark.parametrize("form", ["folder", "path", "file url", "capitals", "home"])
def test_a_mirror_folder_supplies_every_file(tmp_path, folder, offline, monkeypatch, form):
    monkeypatch.setenv("HOME", str(tmp_path))
    mirror = {
        "folder": str(folder), "path": folder, "file url": folder.as_uri(), "home": "~/mirror",
        "capitals": folder.as_uri().replace("file", "FILE"),
    }[form]  # fmt: skip
    paths = supply(["tiny"], tmp_path / "raw", mirror)
    assert paths == [tmp_path / "raw" / file for file in CONTENTS]
    assert_complete(tmp_path / "raw")
    modes = {path.stat().st_mode for path in (*paths, folder / "planetoid/ind.tiny.x")}
    assert len(modes) == 1  # whoever may read new files may read these


def test_an_http_mirror_supplies_every_file(tmp_path, folder, offline):
    with server_of(functools.partial(Handler, directory=str(folder))) as (url, asked):
        supply(["tiny"], tmp_path / "raw", url + "/")
    assert_complete(tmp_path / "raw")
    assert [path for command, path in asked if command == "GET"] == ["/" + f for f in CONTENTS]


def test_the_public_url_is_used_without_a_mirror_and_for_what_the_mirror_lacks(
    tmp_path, folder, monkeypatch
):
    with server_of(functools.partial(Handler, directory=str(folder))) as (url, asked):
        use(monkeypatch, url)
        supply(["tiny"], tmp_path / "raw")
        assert_complete(tmp_path / "raw")
        partial = tmp_path / "partial"
        (partial / "planetoid").mkdir(parents=True)
        (partial / "planetoid/ind.tiny.x").write_bytes(CONTENTS["planetoid/ind.tiny.x"])
        asked.clear()
        supply(["tiny"], tmp_path / "raw2", partial)
        assert_complete(tmp_path / "raw2")
    assert ("GET", "/planetoid/ind.tiny.x") not in asked


def test_files_that_are_there_are_kept_and_nothing_is_asked(tmp_path, folder, offline, capfd):
    supply(["tiny"], tmp_path / "raw", folder)
    times = {file: (tmp_path / "raw" / file).stat().st_mtime_ns for file in CONTENTS}
    capfd.readouterr()
    supply(["tiny", "tiny"], tmp_path / "raw", "http://127.0.0.1:1/nowhere")
    assert {file: (tmp_path / "raw" / file).stat().st_mtime_ns for file in CONTENTS} == times
    assert capfd.readouterr() == ("", "")


def test_progress_is_told_per_file_and_shown_on_standard_error(tmp_path, folder, offline, capfd):
    told = []
    supply(["tiny"], tmp_path / "a", folder, progress=lambda *state: told.append(state))
    sizes = [len(content) for content in CONTENTS.values()]
    total = sum(sizes)
    before = [0, sizes[0], sizes[0] + sizes[1], total]
    assert told == [
        (file, before[number + part], total)
        for number, file in enumerate(CONTENTS)
        for part in (0, 1)  # its begin, and its only piece
    ] + [("", total, total)]
    assert capfd.readouterr().err == ""
    supply(["tiny"], tmp_path / "b", folder)
    captured = capfd.readouterr()
    assert "raw files" in captured.err and captured.out == ""


@pytest.mark.parametrize("same_size", [True, False])
@pytest.mark.parametrize("over_http", [True, False])
def test_a_wrong_file_is_named_with_both_sums_and_not_left(
    tmp_path, folder, offline, same_size, over_http
):
    content = CONTENTS["planetoid/ind.tiny.y"]
    wrong = content[::-1] if same_size else content + b"!"
    (folder / "planetoid/ind.tiny.y").write_bytes(wrong)
    with contextlib.ExitStack() as stack:
        mirror = folder
        if over_http:
            handler = functools.partial(Handler, directory=str(folder))
            mirror, _ = stack.enter_context(server_of(handler))
        with pytest.raises(UserError) as raised:
            supply(["tiny"], tmp_path / "raw", mirror)
    message = str(raised.value)
    assert "planetoid/ind.tiny.y: wrong " in message and str(mirror) in message
    if same_size:
        assert hashlib.sha256(wrong).hexdigest() in message
        assert hashlib.sha256(content).hexdigest() in message
    assert "Run again" in message
    assert files_below(tmp_path / "raw") == sorted(set(CONTENTS) - {"planetoid/ind.tiny.y"})


def test_a_wrong_file_put_by_hand_is_moved_aside_and_the_next_run_mends_it(
    tmp_path, folder, offline
):
    supply(["tiny"], tmp_path / "raw", folder)
    path = tmp_path / "raw/planetoid/ind.tiny.y"
    path.write_bytes(b"lebals")
    with pytest.raises(UserError, match="ind.tiny.y: wrong sha256.*moved to ind.tiny.y.rejected"):
        supply(["tiny"], tmp_path / "raw", folder)
    assert not path.exists()
    assert path.with_name("ind.tiny.y.rejected").read_bytes() == b"lebals"
    supply(["tiny"], tmp_path / "raw", folder)
    assert path.read_bytes() == CONTENTS["planetoid/ind.tiny.y"]


class Truncating(Handler):
    """Announces the whole file, sends half of it and hangs up."""

    announce = True

    def do_GET(self):
        content = CONTENTS[self.path.lstrip("/")]
        self.send_response(200)
        if self.announce:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])

    def do_HEAD(self):
        self.send_response(200)
        self.end_headers()


class TruncatingSilently(Truncating):
    announce = False


class Failing(Handler):
    def do_GET(self):
        self.send_response(503)
        self.send_header("Content-Length", "0")
        self.end_headers()


PAGE = b"\n<!DOCTYPE html><html><title>Log in</title></html>"


class Paged(Handler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)


class Endless(Truncating):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(10_000):
                self.wfile.write(b"x" * 65536)


@pytest.mark.parametrize(
    ("handler", "reason", "times"),
    [
        (Truncating, "broke off", 2),
        (TruncatingSilently, "wrong sha256", 2),
        (Failing, "answers 503", 2),
        (Paged, "is a web page", 1),
        (Endless, "wrong size", 1),
    ],
)
def test_a_broken_download_is_an_error_and_leaves_nothing(
    tmp_path, monkeypatch, handler, reason, times
):
    name = "planetoid/ind.tiny.x"
    use(monkeypatch, f"http://127.0.0.1:{closed_port()}", {name: CONTENTS[name]})
    with server_of(handler) as (url, asked), pytest.raises(UserError, match=reason) as raised:
        supply(["tiny"], tmp_path / "raw", url)
    assert name in str(raised.value)
    assert asked.count(("GET", f"/{name}")) == times
    assert files_below(tmp_path / "raw") == []


@pytest.mark.parametrize("first", [Truncating, Failing])
def test_a_broken_transfer_and_a_busy_host_are_tried_again(tmp_path, offline, first):
    class Recovering(first):
        failed: set = set()

        def do_GET(self):
            if self.path not in self.failed:
                self.failed.add(self.path)
                return super().do_GET()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(CONTENTS[self.path.lstrip("/")])

    with server_of(Recovering) as (url, _):
        supply(["tiny"], tmp_path / "raw", url)
    assert_complete(tmp_path / "raw")


def test_without_network_one_message_lists_every_file_and_both_ways(tmp_path, monkeypatch):
    contents = {f"planetoid/ind.tiny.{number}": bytes([number]) for number in range(24)}
    base = f"http://127.0.0.1:{closed_port()}"
    use(monkeypatch, base, contents)
    with pytest.raises(UserError) as raised:
        supply(["tiny"], tmp_path / "raw", tmp_path / "no-mirror")
    message = str(raised.value)
    assert message.startswith("24 raw files are missing:")
    for file in contents:
        assert f"{file}  {base}/{file}\n" in message
    assert f"the mirror {tmp_path / 'no-mirror'} is not a folder" in message
    assert message.count("cannot be reached") == 1
    assert "mirror=DIR" in message and "--mirror DIR" in message
    assert str(tmp_path / "raw" / "planetoid/ind.tiny.0") in message
    assert files_below(tmp_path / "raw") == []


def connections(listener: socket.socket) -> int:
    """Return how many connections wait that nobody accepted."""
    listener.setblocking(False)
    for count in itertools.count():
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return count


def test_a_silent_host_is_given_up_once_for_all_files(tmp_path, monkeypatch):
    contents = {f"planetoid/ind.tiny.{number}": bytes([number]) for number in range(24)}
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)  # accepts connections and never answers
        monkeypatch.setattr(download, "TIMEOUT", (1, 1))
        use(monkeypatch, f"http://127.0.0.1:{listener.getsockname()[1]}", contents)
        with pytest.raises(UserError, match="24 raw files are missing"):
            supply(["tiny"], tmp_path / "raw")
        assert connections(listener) == 1


def test_what_the_mirror_has_is_kept_although_another_file_is_missing(tmp_path, folder, offline):
    (folder / "planetoid/ind.tiny.x").unlink()
    with pytest.raises(UserError, match="1 raw file is missing") as raised:
        supply(["tiny"], tmp_path / "raw", folder)
    assert "ind.tiny.y" not in str(raised.value)
    assert files_below(tmp_path / "raw") == sorted(set(CONTENTS) - {"planetoid/ind.tiny.x"})


def test_embedded_datasets_are_generated_without_any_source(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "create_connection", None)
    paths = supply(["synthetic-planetoid", "synthetic-npz"], tmp_path / "raw")
    assert len(paths) == 9 and all(path.is_file() for path in paths)
    assert tmp_path / "raw/planetoid/ind.synthetic.graph" in paths
    assert tmp_path / "raw/citation-npz/synthetic.npz" in paths


NEVER_PUBLISHED = {"pokec", "reddit", "reddit-8", "amazon", "wenet", "faces94", "svhn", "facebook",
                   "fb100"}  # fmt: skip
"""Datasets with a file whose sum nobody published."""


def test_the_shipped_list_has_an_address_and_a_sum_of_every_file_that_has_one():
    shipped = load_sources()
    for name, dataset in shipped.items():
        assert dataset.licence and dataset.citation
        for source in dataset.files:
            name_or_archive = (f"/{source.file.split('/')[-1]}", ".zip")  # an archive: mirror only
            assert (source.url is None) == (name == "wenet")
            assert source.url is None or source.url.endswith(name_or_archive)
    unknown = {
        name for name, each in shipped.items() if None in {file.sha256 for file in each.files}
    }
    assert unknown == NEVER_PUBLISHED


def test_the_shipped_models_name_one_pinned_revision_each_and_hold_no_pickle():
    models = load_models()
    assert list(models) == [
        "fasttext-cc-sk-300",
        "bert-base-multilingual-cased",
        "distiluse-base-multilingual-cased-v2",
    ]
    for name, model in models.items():
        assert model.licence and model.citation
        files = [source.file.removeprefix(f"models/{name}/") for source in model.files]
        assert len(set(files)) == len(files)
        assert all(source.file.startswith(f"models/{name}/") for source in model.files)
        assert not any(file.endswith(("pytorch_model.bin", ".pkl", ".pt")) for file in files)
        if name == "fasttext-cc-sk-300":
            continue
        revisions = set()
        for source, file in zip(model.files, files, strict=True):
            found = re.fullmatch(
                rf"https://huggingface.co/[\w-]+/{name}/resolve/([0-9a-f]{{40}})/(.+)", source.url
            )
            revisions.add(found[1])
            assert found[2] == file
        assert len(revisions) == 1
        assert {"config.json", "vocab.txt", "model.safetensors"} <= set(files)


ENTRY = {"file": "a/b", "url": "https://x/b", "bytes": 1, "sha256": "0" * 64}


BOTH = "found.*expected"
"""What an entry is told that has a size without a sum, or neither and no bound."""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sha256": "abc"}, ".sha256: found"), ({"bytes": 0}, ".bytes: found"),
        ({"url": "ftp://x/b"}, ".url: found"), ({"file": "../b"}, ".file: found"),
        ({"file": "/b"}, ".file: found"), ({"md5": "abc"}, ".md5: found"),
        ({"max_bytes": 0}, ".max_bytes: found"), ({"sha256": None}, f": {BOTH}"),
        ({"bytes": None}, f": {BOTH}"), ({"max_bytes": 9}, f": {BOTH}"),
        ({"bytes": None, "sha256": None}, f": {BOTH}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["datasets", "models"])
def test_a_wrong_entry_of_the_list_is_named(tmp_path, kind, change, words):
    path = tmp_path / "sources.yaml"
    tiny = {"licence": "none", "citation": "none", "files": [ENTRY | change]}
    path.write_text(yaml.safe_dump({"datasets": {}} | {kind: {"tiny": tiny}}))
    with pytest.raises(UserError, match=f"sources.yaml: {kind}.tiny.files.0{words}"):
        {"datasets": load_sources, "models": load_models}[kind](path)


@pytest.mark.parametrize("content", [None, "a: [", "- 1", ""])
def test_a_list_that_cannot_be_read_is_an_error_for_the_user(tmp_path, content):
    path = tmp_path / "sources.yaml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match="sources.yaml"):
        load_sources(path)


def test_a_page_in_place_of_a_file_is_named(tmp_path, offline, folder):
    (folder / "planetoid/ind.tiny.y").write_bytes(PAGE)
    with pytest.raises(UserError, match="ind.tiny.y: is a web page"):
        supply(["tiny"], tmp_path / "raw", folder)
    (tmp_path / "raw/planetoid/ind.tiny.y").write_bytes(PAGE)  # put there by hand
    with pytest.raises(UserError, match="ind.tiny.y: is a web page"):
        supply(["tiny"], tmp_path / "raw")


def test_a_file_of_the_mirror_that_cannot_be_read_is_named(tmp_path, folder, offline, monkeypatch):
    """Root may read everything, so that the refusal of the system is made up here."""
    unreadable = str(folder / "planetoid/ind.tiny.y")

    def refuse(path, *arguments, **more):
        if path == unreadable:
            raise PermissionError(13, "Permission denied", path)
        return open(path, *arguments, **more)

    monkeypatch.setattr(download, "open", refuse, raising=False)
    with pytest.raises(UserError, match=f"{unreadable} of the mirror cannot be read") as raised:
        supply(["tiny"], tmp_path / "raw", folder)
    assert "cannot be written" not in str(raised.value)


def test_a_raw_folder_that_cannot_be_written_is_an_error_for_the_user(tmp_path, folder, offline):
    (tmp_path / "raw").write_text("a file, not a folder")
    with pytest.raises(UserError, match="cannot be written"):
        supply(["tiny"], tmp_path / "raw", folder)
