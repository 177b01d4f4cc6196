"""Words, thresholds, and who decides the vocabulary."""

from __future__ import annotations

import string
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_graphs import text_graph

from private_graphs.core.errors import UserError
from private_graphs.datasets.views import RELEASED, SOUND
from private_graphs.features.bow import bag_of_words
from private_graphs.features.make import FeatureOptions, make_features
from private_graphs.features.words import texts_not_split

TEXTS = st.lists(
    st.tuples(*[st.none() | st.text(alphabet="aAbB .,!\t'č\u00a0", max_size=12)] * 2),
    min_size=4,
    max_size=9,
)


def words_of(row: tuple[str | None, ...]) -> list[str]:
    """The authors' steps, one after the other; what is empty is no word."""
    found = []
    for text in row:
        for word in (text or "").split():
            word = "".join(c for c in word.lower() if c not in string.punctuation)
            if word:
                found.append(word)
    return found


@given(TEXTS, st.integers(0, 2), st.sampled_from([RELEASED, SOUND]))
@settings(max_examples=60)
def test_same_as_counting_with_dictionaries(rows, low, view):
    graph = text_graph({"first": [a for a, _ in rows], "second": [b for _, b in rows]})
    users = [words_of(row) for row in rows]
    fitted = graph.public_nodes if view is SOUND else np.ones(len(rows), dtype=bool)
    total = Counter(word for user, f in zip(users, fitted, strict=True) if f for word in user)
    kept = sorted(word for word, count in total.items() if low < count <= 4)
    if not kept:
        with pytest.raises(UserError, match="lower thresholds"):
            bag_of_words(graph, view, (low, 4))
        return
    expected = np.array([[float(word in user) for word in kept] for user in users])
    found = bag_of_words(graph, view, (low, 4)).values
    np.testing.assert_array_equal(found.to_scipy().toarray(), expected)


@pytest.mark.parametrize(("count", "kept"), [(15, False), (16, True), (15_000, True)])
def test_thresholds_are_exact(count, kept):
    found = bag_of_words(text_graph({"text": ["word " * count, *["other " * 9] * 4]}), RELEASED)
    assert found.values.n_columns == 1 + kept


def test_occurrences_are_added_up_over_columns_and_nodes():
    graph = text_graph({"one": ["w w", None, "w", ""], "two": ["w", "w", None, None]})
    assert bag_of_words(graph, RELEASED, (4, 5)).values.to_scipy().toarray().tolist() == [
        [1], [1], [1], [0]
    ]  # fmt: skip
    with pytest.raises(UserError, match="the most frequent one: 5"):
        bag_of_words(graph, RELEASED, (5, 6))


@pytest.mark.parametrize("kind", ["bow", "fasttext", "bert"])
def test_private_text_moves_nothing_but_its_own_row(kind, labelled):
    changed = labelled.texts.to_pydict()
    for column in changed.values():
        column[0] = "celkom iné slová " * 20
    other = text_graph(changed, public=100, labels=labelled.labels)
    options = FeatureOptions(counts=(3, 1000))
    made = [make_features(graph, kind, SOUND, options) for graph in (labelled, other)]
    assert made[0].preprocessing == made[1].preprocessing
    before, after = (each.values for each in made)
    if kind == "bow":
        before, after = before.to_scipy().toarray(), after.to_scipy().toarray()
    assert before.shape == after.shape
    assert not np.allclose(before[0], after[0])
    np.testing.assert_allclose(before[1:], after[1:], atol=2e-6)


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("我喜欢猫和狗", True),
        ("ฉันรักแมว", True),
        ("ខ្ញុំស្រឡាញ់ឆ្មា", True),
        ("猫が好きです", True),
        ("ネコガスキ", True),
        ("ຂ້ອຍຮັກແມວ", True),
        ("我 喜欢 猫", False),
        ("나는 고양이를 좋아한다", False),
        ("я люблю кошек", False),
        ("I like cats", False),
    ],
)
def test_text_without_blanks_between_words_is_counted(text, lost):
    assert texts_not_split(pa.table({"a": [text, "word"], "b": ["", text]})) == 2 * lost
