"""Files are whole or not there."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import subprocess
import sys

import pytest
import safetensors

from private_graphs import cli
from private_graphs.core import files, manifest
from private_graphs.core.bounded_files import read_bounded
from private_graphs.core.errors import (
    UsageError,
    from_extra,
    lacks_memory,
    require_system,
    suggest,
    system_error_text,
)


def test_a_file_appears_under_its_name_only_when_it_is_complete(tmp_path):
    target = tmp_path / "deep" / "file.txt"
    with files.atomic_path(target) as temporary:
        assert temporary.parent == target.parent and temporary != target
        temporary.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert os.listdir(target.parent) == ["file.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_while_writing_keeps_the_former_file_and_leaves_no_other(tmp_path, error):
    target = tmp_path / "file.txt"
    files.write_text(target, "former")
    with pytest.raises(error):
        with files.atomic_path(target) as temporary:
            temporary.write_text("half")
            raise error
    assert target.read_text() == "former" and os.listdir(tmp_path) == ["file.txt"]


def test_a_temporary_file_that_cannot_be_removed_hides_nothing(tmp_path, monkeypatch):
    def closed(path, missing_ok=False):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(type(tmp_path), "unlink", closed)
    files.write_text(tmp_path / "file.txt", "whole")
    assert (tmp_path / "file.txt").read_text() == "whole"
    with pytest.raises(ValueError, match="the cause"), files.atomic_path(tmp_path / "other"):
        raise ValueError("the cause")


def test_a_folder_and_a_pipe_are_not_renamed_over_and_a_pipe_without_writer_is_named(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")  # in place of /dev/null, which a test must not touch
    for name, words in (("folder", "directory"), ("", "directory"), ("pipe", "device or pipe")):
        with pytest.raises(OSError, match=words):
            files.write_text(tmp_path / name, "x")
    assert (tmp_path / "pipe").is_fifo() and sorted(os.listdir(tmp_path)) == ["folder", "pipe"]
    with pytest.raises(UsageError, match="pipe: is a pipe that nobody writes into"):
        read_bounded(tmp_path / "pipe")


def test_what_fails_after_a_file_was_opened_names_it(tmp_path, monkeypatch):
    with pytest.raises(OSError) as error:
        read_bounded("/proc/self/mem")  # can be opened, and at its beginning not read
    assert error.value.errno == errno.EIO and error.value.filename == "/proc/self/mem"
    real = os.close

    def without_room(file: int) -> None:  # as a network drive
        real(file)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    with monkeypatch.context() as patched, pytest.raises(OSError) as error:
        patched.setattr(os, "close", without_room)
        files.sync(tmp_path)
    assert f"{tmp_path}: cannot be written" in system_error_text(error.value)


@pytest.mark.parametrize(("code", "remedy"), [
    (errno.ENOSPC, "make room"), (errno.EFBIG, "ulimit -f"), (errno.EMFILE, "ulimit -n"),
    (errno.EISDIR, "move it away"), (errno.EEXIST, "move it away"), (errno.EIO, "another disk"),
])  # fmt: skip
def test_a_system_error_has_the_remedy_of_its_reason(code, remedy):
    told = system_error_text(OSError(code, os.strerror(code), "a/b"))
    assert told.startswith("a/b: cannot be ") and remedy in told


def test_a_manifest_that_cannot_be_read_is_not_said_to_be_damaged(tmp_path):
    (tmp_path / manifest.MANIFEST).symlink_to("/proc/self/mem")  # can be opened, and not be read
    with pytest.raises(OSError, match=r"Input/output error: '.*manifest.json'"):
        manifest.changed_file(tmp_path)


def test_a_killed_process_leaves_nothing_under_the_final_name(tmp_path):
    code = (
        "import os, signal, sys\n"
        "from private_graphs.core.files import atomic_path\n"
        "with atomic_path(sys.argv[1]) as temporary:\n"
        "    temporary.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    target = tmp_path / "file.txt"
    done = subprocess.run([sys.executable, "-c", code, str(target)], env=_environment())
    assert done.returncode == -signal.SIGKILL
    assert not target.exists()
    assert all(name.endswith(".partial") for name in os.listdir(tmp_path))
    files.write_text(target, "whole")
    assert target.read_text() == "whole"


def _environment() -> dict[str, str]:
    source = str(files._PACKAGE.parent)
    return {**os.environ, "PYTHONPATH": source}


def test_json_is_strict_and_text_is_utf_8(tmp_path):
    for value in (math.inf, math.nan):
        with pytest.raises(ValueError):
            files.write_json(tmp_path / "value.json", {"epsilon": value})
    assert os.listdir(tmp_path) == []
    files.write_json(tmp_path / "value.json", {"ε": [1, None]})
    text = (tmp_path / "value.json").read_bytes().decode("utf-8")
    assert json.loads(text) == {"ε": [1, None]} and text.endswith("\n")


def test_the_nearest_name_is_suggested_and_a_far_one_is_not():
    assert suggest("coar", ["cora", "citeseer"]) == "; did you mean 'cora'?"
    assert suggest("zzz", ["cora", "citeseer"]) == ""


def test_results_of_another_schema_are_named(tmp_path):
    for schema, reason in (({}, None), ({"schema": 1}, None), ({"schema": 2}, "schema 2")):
        files.write_json(tmp_path / manifest.MANIFEST, {**schema, "sha256": {}})
        found = manifest.changed_file(tmp_path)
        assert found is None if reason is None else reason in found
    for sha256, reason in (({"9" * 400: ""}, "is gone"), ([[]], "not a manifest")):
        files.write_json(tmp_path / manifest.MANIFEST, {"sha256": sha256})
        assert reason in manifest.changed_file(tmp_path)


def test_a_name_with_a_zero_byte_is_refused_in_a_sentence():
    with pytest.raises(UsageError, match="zero byte"):
        read_bounded("posts\0.csv")


WRAPPED = "Error while serializing: I/O error: No space left on device (os error 28)"


@pytest.mark.parametrize("error", [
    OSError(errno.ENOSPC, "No space left on device"), safetensors.SafetensorError(WRAPPED),
])  # fmt: skip
def test_a_full_disk_is_told_with_the_file_whichever_library_meets_it(tmp_path, error):
    target = tmp_path / "file.txt"
    with pytest.raises(OSError) as raised, files.atomic_path(target):
        raise error
    said = system_error_text(raised.value)
    assert said.startswith(f"{target}: cannot be written (No space left on device); make room")


@pytest.mark.parametrize(("error", "words"), [
    (OSError(errno.ENOLCK, "No locks available"), "cannot be locked"),
    (OSError(errno.ENOSYS, "Function not implemented", "x/lock"), "x/lock: cannot be locked"),
    (OSError(errno.EIO, "Input/output error", "x"), "reports a fault"),
    (OSError(errno.EROFS, "Read-only file system", "x"), "mounted read-only"),
    (OSError("no number"), "cannot be read or written (no number)"),
    (safetensors.SafetensorError(WRAPPED), "make room"),
    (ImportError("libx.so: failed to map segment from shared object"), "not enough memory"),
    (OSError(errno.ENOMEM, "Cannot allocate memory"), "not enough memory"),
    (KeyError("secret"), "a defect of private-graphs (KeyError at"),
])  # fmt: skip
def test_an_error_of_the_system_is_told_with_its_remedy_and_is_no_defect(
    monkeypatch, capsys, error, words
):
    def fail(names):
        raise error

    monkeypatch.setattr(cli, "application", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main(["ledger"])
    said = capsys.readouterr().err
    assert ended.value.code == 1 and words in said and "secret" not in said
    assert ("a defect" in said) == isinstance(error, KeyError)


def test_an_optional_part_that_lacks_memory_is_not_said_to_be_missing():
    with pytest.raises(MemoryError), from_extra("bert"):
        raise ImportError("libtorch.so: cannot allocate memory in static TLS block")
    assert lacks_memory(SystemError("<built-in> returned NULL without setting an exception"))


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.EMFILE, errno.ENOMEM])
def test_what_the_system_refuses_a_library_does_not_mean_a_damaged_file(code):
    error = RuntimeError(f"while loading: {os.strerror(code)} (os error {code})")
    with pytest.raises(OSError, match=r"model\.bin") as raised:
        require_system(error, "model.bin")
    assert raised.value.errno == code
    require_system(FileNotFoundError(errno.ENOENT, "No such file", "part"), "folder")
    require_system(ValueError("magic bytes"), "model.bin")


@pytest.mark.parametrize("deep", ["[" * 300_000, "- " * 300_000, "[\n" * 300_000, "{a: " * 300_000])
def test_yaml_that_nests_deeply_is_an_error_and_not_the_end_of_the_interpreter(deep):
    with pytest.raises(RecursionError):
        files.parsed_yaml(deep)
    assert files.parsed_yaml("a: [1, {b: 2}]") == {"a": [1, {"b": 2}]}
