"""The RO-Crate of a scale: hashes of what is published, none of a user's raw files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from private_graphs.core.files import write_json
from private_graphs.workflow.crate import write_crate


def statistics(name: str, url: str | None) -> dict:
    source = {
        "file": f"{name}.raw",
        "url": url,
        "sha256": hashlib.sha256(name.encode()).hexdigest(),
    }
    return {"name": name, "licence": "L", "citation": "C", "sources": [source]}


def test_a_graph_of_a_user_is_named_and_its_raw_file_is_not(tmp_path: Path) -> None:
    """A plain sha256 confirms a guess: who knows all but one label tries every class."""
    write_json(tmp_path / "datasets" / "cora.json", statistics("cora", "https://example.org/x"))
    write_json(tmp_path / "datasets" / "mine.json", statistics("mine", None))
    write_json(tmp_path / "exhibits" / "manifest.json", {"sha256": {}})
    text = write_crate(tmp_path).read_text()
    root = next(each for each in json.loads(text)["@graph"] if each["@id"] == "./")
    assert root["description"].startswith("mine: a graph of your own.")
    assert hashlib.sha256(b"cora").hexdigest() in text and "cora.raw" in text
    assert hashlib.sha256(b"mine").hexdigest() not in text and "mine.raw" not in text
