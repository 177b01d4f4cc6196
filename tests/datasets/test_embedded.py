"""The embedded graphs: same bytes every time."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from private_graphs.datasets import embedded

NAMES = tuple(embedded.MODELS)
COMBINED_SHA256 = {
    "synthetic-planetoid": "eecb6ba9ba4abb5033c5a45668d8d394e2b5f5138e2dd90299caea52acfb03b6",
    "synthetic-npz": "f71f3c4cf321382e9de4cf8a20a53cb59a35b9327b51c9a02398cd6e7bd8445d",
}


def combined(paths) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_the_raw_bytes_are_the_same_in_every_process_and_on_every_day(tmp_path, name):
    script = "import sys; from private_graphs.datasets import embedded as e; "
    script += "e.write_raw(*sys.argv[1:])"
    subprocess.run(
        [sys.executable, "-c", script, name, str(tmp_path / "other")],
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    here = embedded.write_raw(name, tmp_path / "here")
    other = [tmp_path / "other" / path.relative_to(tmp_path / "here") for path in here]
    assert combined(here) == combined(other) == COMBINED_SHA256[name]


def test_unchanged_raw_files_are_not_rewritten_and_changed_ones_are(tmp_path):
    paths = embedded.write_raw("synthetic-planetoid", tmp_path)
    times = [path.stat().st_mtime_ns for path in paths]
    good = paths[0].read_bytes()
    paths[0].write_bytes(b"changed")
    again = embedded.write_raw("synthetic-planetoid", tmp_path)
    assert again == paths and paths[0].read_bytes() == good
    assert [path.stat().st_mtime_ns for path in paths[1:]] == times[1:]
