"""List means: what one record and one friendship move, in whole numbers, and what is declared."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from answers import answers
from test_noisy_sums import graph_of, request, task_of

from private_graphs.attacks.neighbours import neighbours
from private_graphs.attacks.small_jobs import small_job
from private_graphs.core.errors import UserError
from private_graphs.methods import list_means, method_named
from private_graphs.methods.list_means import (
    LIST_SHARE,
    feature_entries,
    list_entries,
    list_sums,
    non_negative,
    scores,
)
from private_graphs.methods.noisy_sums import adjacency_of
from private_graphs.running.run import execute
from private_graphs.tasks.graph_task import unit_rows

METHOD = method_named("list_means")
SPACINGS = (Fraction(1, 2**31), Fraction(1, 2**40), Fraction(1, 2**3))
spacings = pytest.mark.parametrize("spacing", SPACINGS)


def sums_of(task, spacing: Fraction) -> np.ndarray:
    lists = adjacency_of(task.graph) if task.lists is None else task.lists
    return list_sums(task, lists, non_negative(task.graph.features), spacing)


def square(moved: np.ndarray) -> int:
    return sum(int(each) ** 2 for each in moved[moved != 0])


@spacings
def test_entries_are_rounded_down_and_a_term_is_no_longer_than_one(spacing):
    lengths = [0, 1, 2, 3, 7, 85, 4096, 10**6]
    for length, entry in zip(lengths, list_entries(np.array(lengths), spacing), strict=True):
        entry = int(entry)
        assert length * entry**2 <= LIST_SHARE / spacing**2
        assert length == entry == 0 or length * (entry + 1) ** 2 > LIST_SHARE / spacing**2
    signed = non_negative(np.array([[-3.0, 4.0], [-1.0, 0.0]], np.float32))
    assert signed.toarray().tolist() == [[0, 1], [0, 0]]
    draws = np.random.default_rng(0)
    rows = draws.random((500, 40)) * (draws.random((500, 40)) < draws.random((500, 1)))
    rows[:3] = np.eye(40)[0], np.zeros(40), 10.0 ** draws.uniform(-6, 6, 40)
    entries = feature_entries(unit_rows(sp.csr_matrix(rows)), spacing).toarray()
    assert entries.min() >= 0
    squares = [square(row) * spacing**2 for row in entries]
    assert max(squares) <= 1 - LIST_SHARE and squares[1] == 0
    if spacing < 2**-20:
        assert squares[0] > 0.0499999


@spacings
def test_a_replaced_node_moves_the_sums_by_the_root_of_two_at_most_in_whole_numbers(spacing):
    task = task_of("lists")
    before, moved = sums_of(task, spacing), []
    for other in neighbours(task, 12, 0):
        change = square(sums_of(other.task, spacing) - before) * spacing**2
        assert change <= 2
        moved.append(float(change))
    if spacing < 2**-20:
        assert max(moved) == pytest.approx(2, abs=1e-5), "attained"


def test_one_friendship_on_both_lists_moves_the_sums_by_the_root_of_1_9_at_most():
    """Two friends with ``own`` and ``other`` other friends, ``common`` of whom are the same."""

    def term(others: range, label: int, friend: int | None) -> np.ndarray:
        found, members = np.zeros((12, 2)), [*others, *([] if friend is None else [friend])]
        found[members, label] = math.sqrt(LIST_SHARE / max(1, len(members)))
        return found

    found = []
    for own, other, same in product(range(5), range(5), (0, 1)):
        for common in range(min(own, other) + 1):
            theirs = range(2 + own - common, 2 + own - common + other)
            mine = range(2, 2 + own)
            change = term(mine, 0, 1) - term(mine, 0, None)
            change += term(theirs, same, 0) - term(theirs, same, None)
            found.append(np.square(change).sum())
    assert max(found) == pytest.approx(1.9) and math.sqrt(1.9 / 2) < 0.975


def test_only_declared_lengths_are_read_and_short_lists_are_refused():
    dense = task_of("lists")
    for degree in (None, 19.9):
        asked = [request("list_means", 1.0, mean_degree=degree)]
        with pytest.raises(UserError, match="mlp_steps"):
            answers(METHOD, dense, asked)
    empty = replace(dense, lists=adjacency_of(dense.graph) * 0)
    asked = [request("list_means", 1.0, mean_degree=20)]
    assert len(answers(METHOD, empty, asked)[0].test_predictions) == 20
    job = small_job(METHOD, "lists", "sound", changed={"mean_degree": None})
    job = job.model_copy(update={"dataset": "cora"})
    with pytest.raises(UserError, match="mean length of 3.9"):
        named = graph_of()
        execute(job, replace(named, info=named.info.model_copy(update={"name": "cora"})))


def test_a_score_reads_the_sums_and_the_record_of_its_own_node_alone():
    task = task_of("lists")
    lists, rows = adjacency_of(task.graph), non_negative(task.graph.features)
    noisy = np.random.default_rng(0).normal(0, 9, (sum(rows.shape), task.n_classes))
    places = np.arange(50, 60)
    found = scores(noisy, lists[places], rows[places], places)
    for place, each in zip(places, found, strict=True):
        alone = scores(noisy, lists[[place]], rows[[place]], places[:1] * 0 + place)
        np.testing.assert_array_equal(alone[0], each)


@pytest.mark.parametrize(
    ("listed", "own", "words", "helps"),
    [(True, 0, 0, True), (False, 0.1, 0, True), (False, 0, 0.2, False), (False, 0, 0, False)],
)
def test_the_own_list_and_the_votes_about_oneself_help_each_alone(
    listed, own, words, helps, monkeypatch
):
    monkeypatch.setattr(list_means, "OWN_ROW", own)
    monkeypatch.setattr(list_means, "FEATURES", words)
    task = task_of("lists")
    lists = sp.lil_matrix(adjacency_of(task.graph))
    lists[70:] *= listed
    task = replace(task, lists=lists.tocsr())
    (found,) = answers(METHOD, task, [request("list_means", math.inf, mean_degree=20)])
    right = np.mean(found.test_predictions == graph_of().labels[70:])
    assert right > 0.8 if helps else right < 0.5
