"""The synthetic dump: the same bytes every time, the profile of the real one, nothing trivial."""

from __future__ import annotations

import gzip
import hashlib
import time

import numpy as np
import pytest
from pokec_reference import assert_equal, read
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from private_graphs.datasets.pokec import read_pokec
from private_graphs.datasets.pokec_demo import DEMO_PER_CLASS, write_demo
from private_graphs.datasets.views import VIEWS
from private_graphs.features.make import FeatureOptions, make_features

CONTENT = (
    "a550fb1fac6887dfbaf98baaa2b86ac63f9cab4d9dbd65713b06c24bbea599a0",
    "3b85ef9cc253c13605343acdf4b6cde5072d813d0f6e82bbe53cb05453df4631",
)
"""sha256 of the unpacked files: another dump would be other results."""


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    return write_demo(tmp_path_factory.mktemp("pokec_demo"))


@pytest.fixture(scope="module")
def graphs(dump):
    return {
        name: read_pokec(
            *dump,
            view,
            name="pokec_demo",
            per_class=DEMO_PER_CLASS,
            title="Pokec, synthetic",
            synthetic=True,
            sources=[],
            licence="none",
            citation="none",
            public_facts=[],
            progress=lambda *_: None,
        )
        for name, view in VIEWS.items()
    }


def test_the_dump_is_the_same_byte_for_byte(dump, tmp_path):
    started = time.perf_counter()
    again = write_demo(tmp_path)
    assert time.perf_counter() - started < 6
    assert [path.name for path in again] == [
        "soc-pokec-profiles.txt.gz",
        "soc-pokec-relationships.txt.gz",
    ]
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in dump]
    assert sum(path.stat().st_size for path in dump) <= 3_000_000
    unpacked = [gzip.decompress(path.read_bytes()) for path in dump]
    assert tuple(hashlib.sha256(each).hexdigest() for each in unpacked) == CONTENT


def test_a_file_that_is_there_is_not_touched(tmp_path):
    before = [path.stat().st_mtime_ns for path in write_demo(tmp_path)]
    assert [path.stat().st_mtime_ns for path in write_demo(tmp_path)] == before


def test_texts_have_the_profile_of_the_real_ones(dump):
    """37 % of the 49 columns filled, about 30 % of them repetitions, 6 words, some near 100."""
    rows = [line.split("\t") for line in gzip.open(dump[0], "rt", newline="\n").read().split("\n")]
    assert {len(row) for row in rows[:-1]} == {60} and rows[-1] == [""]
    cells = [cell for row in rows[:-1] for cell in row[9:58] if cell != "null"]
    assert len(cells) / (49 * (len(rows) - 1)) == pytest.approx(0.38, abs=0.01)
    assert 1 - len(set(cells)) / len(cells) == pytest.approx(0.32, abs=0.02)
    for odd in ('"', "a < b", "&amp;", "&shy;", "&#43;", '<div> <a title="vstup do klubu"'):
        assert any(odd in cell for cell in cells), odd


def test_words_per_text(graphs):
    texts = [text for column in graphs["sound"].texts.columns for text in column.to_pylist()]
    words = np.array([len(text.split()) for text in texts if text])
    assert words.mean() == pytest.approx(6.5, abs=0.2) and 90 <= words.max() <= 110


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_read_as_by_the_slow_reader(dump, graphs, view):
    assert_equal(graphs[view], read(*dump, VIEWS[view], DEMO_PER_CLASS))


def test_views_differ_in_what_they_should(graphs):
    released, paper, sound, leak = (graphs[name] for name in VIEWS)
    assert released.column("hobbies") != paper.column("hobbies"), "ranking and order"
    assert np.array_equal(paper.edge_index, sound.edge_index)
    assert paper.texts.equals(leak.texts)
    wrong = released.info.counts["edges_renumbered_twice"] / released.info.counts["edges_inside"]
    assert 0.005 < wrong < 0.02


def test_friendships_are_homophilous_and_sparse(graphs):
    graph = graphs["sound"]
    first, second = graph.edge_index
    assert np.mean(graph.labels[first] == graph.labels[second]) == pytest.approx(0.68, abs=0.01)
    degree = np.bincount(graph.edge_index.ravel(), minlength=graph.n_nodes)
    assert degree.mean() == pytest.approx(3.93, abs=0.05) and degree.max() > 20
    assert graph.info.counts["edge_rows"] > 5 * graph.info.counts["edges_inside"]


def test_words_tell_the_class_weakly_and_pets_tells_it_at_once(graphs):
    """Logistic regression on words of more than 15 users, 8-fold: .78 without pets, .95 with."""
    accuracy = {}
    for name in ("sound", "sound-with-label"):
        graph = graphs[name]
        columns = [graph.column(each) for each in graph.texts.column_names]
        documents = [" ".join(cells) for cells in zip(*columns, strict=True)]
        words = CountVectorizer(binary=True, min_df=16, token_pattern=r"\S+")
        counted = words.fit_transform(documents)
        model = LogisticRegression(C=0.1, max_iter=1000)
        accuracy[name] = cross_val_score(model, counted, graph.labels, cv=8).mean()
    assert accuracy["sound"] == pytest.approx(0.78, abs=0.03)
    assert accuracy["sound-with-label"] > 0.93


@pytest.mark.parametrize("kind", ["fasttext", "bert"])
def test_embedded_models_keep_what_the_words_tell(graphs, kind):
    """Logistic regression on standardised features, 8-fold: .83 fasttext, .78 bert."""
    graph = graphs["sound"]
    features = make_features(graph, kind, VIEWS["sound"], FeatureOptions(device="cpu")).values
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=1000))
    assert cross_val_score(model, features, graph.labels, cv=8).mean() > 0.65
    # Features that are nearly equal for all users would leave a GCN at the majority.
    spread = np.linalg.norm(features - features.mean(axis=0), axis=1).mean()
    assert spread > 0.25 * np.linalg.norm(features, axis=1).mean()
