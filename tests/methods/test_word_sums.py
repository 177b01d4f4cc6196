"""Word sums: their sensitivity, the fitted prior, and the gate for public documents."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tasks import make_task, request, run

from private_graphs.documents.unit_sums import PublicTexts, Terms
from private_graphs.documents.unit_words import WordSums
from private_graphs.methods.word_prior import COLUMNS, Totals, weights_of
from private_graphs.methods.word_sums import calibrated, class_totals, rows_of

NAMES = tuple(f"word{number}" for number in range(300))
OPENING = ("dear", "colleague", "thank", "you", "for")


def texts_of(size: int, seed: int, n_classes: int = 4) -> tuple[list[str], np.ndarray]:
    """Five words that all texts begin with, and 25, four of 15 of the class; one class is rare."""
    draws = np.random.default_rng(seed)
    shares = np.array([0.4, 0.3, 0.25, 0.05])[:n_classes]
    labels = draws.choice(n_classes, size, p=shares / shares.sum())
    texts = []
    for label in labels:
        common = draws.zipf(1.3, 21).clip(1, 240) + 59
        special = 15 * label + draws.integers(0, 15, 4)
        texts.append(" ".join([*OPENING, *(NAMES[word] for word in np.r_[common, special])]))
    return texts, labels


def units(texts: list[str], labels: np.ndarray) -> Terms:
    return Terms(texts, labels, np.arange(len(texts)))


TRAINING, FRESH = units(*texts_of(1200, 0)), units(*texts_of(1000, 1))
METHOD = WordSums.of(PublicTexts(), 1200, 4, 1.0, 1e-5, "document")
EXACT = TRAINING.sum(METHOD.features, 4, METHOD.lattice, METHOD.SHARE)


def score(known: Terms | None, seed: int) -> tuple[float, np.ndarray]:
    """Right answers on fresh texts, and weights, of one release with seeded noise."""
    std = METHOD.lattice.noise_std
    noisy = EXACT * METHOD.lattice.spacing + std * np.random.default_rng(seed).normal(
        size=EXACT.shape
    )
    public = None if known is None else METHOD.public_sums(known)
    weights, _ = METHOD.read_out(noisy, public)
    scores = METHOD.features.rows(FRESH.texts) @ weights[:-1] + weights[-1]
    return float((scores.argmax(axis=1) == FRESH.labels).mean()), weights


# --- what one unit changes ----------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(node=st.integers(0, 79), data=st.data())
def test_replacing_a_node_moves_the_sum_by_at_most_the_sensitivity(node, data):
    task = make_task("text")
    features, labels = task.train_features.tolil(), task.train_labels.copy()
    # of any sign: a negative entry adds nothing
    row = st.lists(st.floats(-1e3, 1e3), min_size=task.n_features, max_size=task.n_features)
    features[node] = data.draw(row)
    labels[node] = data.draw(st.integers(0, task.n_classes - 1))
    changed = replace(task, train_features=features.tocsr(), train_labels=labels)
    lattice = calibrated(task, 1.0)
    moved = (class_totals(changed, lattice) - class_totals(task, lattice)) * lattice.spacing
    assert np.linalg.norm(moved) <= lattice.sensitivity


def test_the_sensitivity_is_attained_and_opposite_features_do_not_exceed_it():
    task = make_task("text")
    lattice, labels, opposite = calibrated(task, 1.0), task.train_labels.copy(), task.train_features
    labels[3] = (labels[3] + 1) % task.n_classes
    first = class_totals(task, lattice)
    moved = (class_totals(replace(task, train_labels=labels), lattice) - first) * lattice.spacing
    assert math.sqrt(2) * (1 - 1e-9) < np.linalg.norm(moved) <= lattice.sensitivity
    opposite = opposite.multiply(np.where(np.arange(len(labels)) == 3, -1, 1)[:, None]).tocsr()
    moved = class_totals(replace(task, train_features=opposite), lattice) - first
    assert np.linalg.norm(moved) * lattice.spacing < 1


def test_terms_of_documents_have_no_negative_entry_and_norm_one_at_most():
    draws = np.random.default_rng(0)
    texts = [" ".join(f"w{n}" for n in draws.integers(0, 9000, size)) for size in (0, 1, 9, 900)]
    terms = Terms(texts * 3, draws.integers(0, 4, 12), np.arange(12) // 2)
    for _, _, rounded in terms.blocks(METHOD.features, METHOD.lattice, METHOD.SHARE):
        assert (rounded.data >= 0).all()
        norms = np.sqrt(rounded.multiply(rounded).sum(axis=1).A1.astype(float))
        assert (norms * METHOD.lattice.spacing <= 1 + 1e-7).all()


def test_many_features_are_folded_into_the_columns_of_the_method():
    wide = sp.random(5, 3 * COLUMNS, 0.01, "csr", random_state=0)
    rows = rows_of(wide)
    assert rows.shape == (5, COLUMNS)
    np.testing.assert_allclose(rows.multiply(rows).sum(axis=1).A1, 1)
    assert (rows_of(wide[2]) != rows[2]).nnz == 0, "a row reads its own node alone"


# --- the read-out -------------------------------------------------------------------------------


def test_words_are_learned_under_the_noise_and_the_rare_class_costs_no_other():
    found = [score(None, seed)[0] for seed in range(3)]
    assert (
        np.mean(found) > 0.8
    )  # .887 by weights of logarithms without noise, .40 the largest class


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 1e6])
@pytest.mark.parametrize(("n", "k"), [(5, 2), (50, 40)])
@pytest.mark.parametrize("words", [3, 300])
@pytest.mark.filterwarnings("error")
def test_few_units_and_any_noise_give_finite_weights(epsilon, n, k, words):
    draws = np.random.default_rng(n)
    std = 1 / epsilon
    for labels in (draws.integers(0, k, n), np.zeros(n, int)):
        rows = rows_of(sp.csr_matrix(draws.random((n, words)) < 0.1))
        exact = rows.T @ np.eye(k)[labels], np.bincount(labels, minlength=k)
        noisy = [each + std * draws.normal(size=each.shape) for each in exact]
        for noise in (std, 0.0):
            found = weights_of(Totals(*(noisy if noise else exact), noise, 5 * noise), n)
            assert np.isfinite(found.weights).all()


@pytest.mark.filterwarnings("error")
def test_equal_classes_without_noise_have_no_undefined_size():
    rows = rows_of(sp.identity(4, format="csr"))
    found = weights_of(Totals(rows.T @ np.eye(4), np.ones(4)), 4).weights
    assert np.isfinite(found).all() and (found[:-1].argmax(axis=0) == np.arange(4)).all()


def test_the_number_of_units_caps_what_is_read_off_the_noise():
    """A sum of sizes above the public number, or a row of more words than columns, is noise."""
    sums, sizes = np.full((9, 3), 200.0), np.array([400.0, 500.0, 600.0])
    capped = weights_of(Totals(sums, sizes, 5.0, 20.0), 90).weights
    likewise = weights_of(Totals(sums, sizes, 5.0, 20.0), 1500).weights
    assert np.isfinite(capped).all() and not np.allclose(capped, likewise)


# --- public documents ---------------------------------------------------------------------------


@pytest.mark.parametrize("count", [5, 10, 20, 50, 100, 500])
def test_no_number_of_public_documents_destroys_the_classifier(count):
    gained = [
        score(units(*texts_of(count, 70 + seed)), seed)[0] - score(None, seed)[0]
        for seed in range(4)
    ]
    assert np.mean(gained) > (0.02 if count > 50 else -0.02)


def _renamed(texts):
    return [" ".join(f"q{word}" for word in text.split()) for text in texts]


@pytest.mark.parametrize("count", [20, 100])
@pytest.mark.parametrize("unlike", [
    _renamed, lambda texts: [" ".join(text.split()[:5]) for text in texts], lambda texts: [""] *
    len(texts),
], ids=["others", "first", "none"])  # fmt: skip
def test_public_documents_unlike_the_private_ones_change_nothing(count, unlike):
    texts, labels = texts_of(count, 7)
    for seed in range(3):
        (_, alone), (_, beside) = score(None, seed), score(units(unlike(texts), labels), seed)
        np.testing.assert_array_equal(alone, beside)


def test_public_documents_of_one_class_or_of_none_change_nothing():
    texts, labels = texts_of(100, 7)
    alone = score(None, 0)[1]
    for own in (labels * 0, labels * 0 - 1):
        np.testing.assert_array_equal(score(units(texts, own), 0)[1], alone)


def test_known_labels_are_read_and_validation_scores_are_those_of_the_release_alone():
    task = make_task("text", n_validation=200, n_train=300, words=60)
    known = request(task, 2.0)
    free, known = run("word_sums", task, [replace(known, known=known.known[:0]), known])
    np.testing.assert_array_equal(free.validation_predictions, known.validation_predictions)
    assert (known.settings["known_labels_used"], free.settings["known_labels_used"]) == (
        True,
        False,
    )
