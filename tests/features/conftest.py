"""Small text graphs, and a stop to every connection."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from text_graphs import labelled_texts

from private_graphs.datasets.text_graph import TextGraph
from private_graphs.datasets.views import RELEASED
from private_graphs.features.tiny import tiny_bert


@pytest.fixture(scope="session")
def labelled() -> TextGraph:
    """300 nodes whose words depend on their label."""
    return labelled_texts()


@pytest.fixture(scope="session")
def bert_folder(labelled, tmp_path_factory) -> Path:
    """A tiny BERT on disk."""
    return tiny_bert(labelled, RELEASED, tmp_path_factory.mktemp("models"))


@pytest.fixture
def no_network(monkeypatch) -> Iterator[None]:
    """Any connection fails the test, also where a library forgives the error."""
    tried: list[object] = []

    def refuse(*arguments: object, **_: object) -> None:
        tried.append(arguments)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    yield
    assert not tried
