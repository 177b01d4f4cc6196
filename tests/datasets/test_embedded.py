"""The embedded datasets: what ships is what their generators draw, bit for bit."""

from __future__ import annotations

import hashlib

import pytest
from made_data import embedded_files

from private_graphs.core.errors import UserError
from private_graphs.datasets import embedded


def test_the_generators_draw_what_ships():
    drawn = {name: hashlib.sha256(data).hexdigest() for name, data in embedded_files().items()}
    assert drawn == embedded.checksums()


def test_less_than_a_megabyte_ships(root):
    files = [path for path in (root / "data" / "embedded").rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"SHA256SUMS"} | {
        f"{name.rpartition('/')[2]}.gz" for name in embedded.checksums()
    }
    assert sum(path.stat().st_size for path in files) < 1_000_000


def test_unchanged_raw_files_are_not_rewritten_and_changed_ones_are(tmp_path):
    paths = embedded.unpack("planetoid", tmp_path)
    times = [path.stat().st_mtime_ns for path in paths]
    good = paths[0].read_bytes()
    paths[0].write_bytes(b"changed")
    again = embedded.unpack("planetoid", tmp_path)
    assert again == paths and paths[0].read_bytes() == good
    assert [path.stat().st_mtime_ns for path in paths[1:]] == times[1:]


def test_a_packed_file_with_another_content_is_refused(tmp_path, monkeypatch):
    sums = embedded.checksums() | {"planetoid/ind.synthetic.y": 64 * "0"}
    monkeypatch.setattr(embedded, "checksums", lambda: sums)
    with pytest.raises(UserError, match=r"ind\.synthetic\.y\.gz: another content"):
        embedded.unpack("planetoid", tmp_path)
    assert not (tmp_path / "planetoid" / "ind.synthetic.y").exists()
