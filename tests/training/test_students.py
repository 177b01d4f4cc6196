"""PATE's students: selection by hand, cleansing, losses by hand, and what training must reach."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from private_graphs.training.image_nets import Ensemble, network
from private_graphs.training.selection import chosen_by, cleansed, counted, kept_share, mean_of
from private_graphs.training.students import (
    Framework,
    Pool,
    Training,
    train,
    train_supervised,
    unsupervised,
)

FIRST, SECOND = torch.tensor([1.0, 2, 3, 4]), torch.tensor([4.0, 3, 2, 1])
SHAPE = (1, 6, 6)


def places(mask: torch.Tensor) -> list[int]:
    return torch.nonzero(mask).flatten().tolist()


def test_each_learns_from_what_its_peer_finds_easy():
    everything = torch.ones(4, dtype=torch.bool)
    assert places(chosen_by(SECOND, everything, 0.5)) == [2, 3]  # for the first
    assert places(chosen_by(FIRST, everything, 0.5)) == [0, 1]


def test_among_images_on_which_they_disagree():
    differ = torch.tensor([False, True, True, False])
    assert places(chosen_by(SECOND, differ, 0.5)) == [2]
    assert places(chosen_by(FIRST, differ, 0.5)) == [1]
    nothing = chosen_by(FIRST, torch.zeros(4, dtype=torch.bool), 0.5)
    assert not nothing.any() and mean_of(FIRST, nothing) == 0


def test_the_kept_number_is_rounded_up_whatever_rounding_does():
    candidates = torch.ones(100, dtype=torch.bool)
    for share, expected in ((1 - 0.2, 80), (1 - 0.1 * 1, 90), (0.801, 81), (1.0, 100)):
        assert int(chosen_by(torch.arange(100.0), candidates, share).sum()) == expected


def test_the_kept_share_falls_to_one_minus_beta():
    assert kept_share(1, 0.2, 15) == pytest.approx(1 - 0.2 / 15)
    assert kept_share(15, 0.2, 15) == kept_share(100, 0.2, 15) == pytest.approx(0.8)


def test_counts_decay_in_the_text_and_not_in_the_algorithm():
    flags = np.array([True, False, True])
    counts = {decay: np.zeros(3) for decay in ("running", "literal")}
    for _ in range(3):
        for decay in counts:
            counts[decay] = counted(counts[decay], flags, 0.9, decay)
    assert counts["running"] == pytest.approx([2.439, 0, 2.439])
    assert counts["literal"] == pytest.approx([2.7, 0, 2.7])


def test_the_most_suspicious_labels_are_removed():
    counts = np.zeros(2200)
    counts[100:500] = 1.0
    kept, removed = cleansed(counts, 0.318, np.random.default_rng(0))
    assert len(removed) == 700 and set(range(100, 500)) <= set(removed)
    assert np.array_equal(np.sort(np.r_[kept, removed]), np.arange(2200))
    pool = Pool(torch.zeros(9000, 1), torch.zeros(9000), np.arange(0, 4400, 2))
    assert len(pool.unlabelled) == 6800
    clean = pool.without(removed)
    assert (
        len(clean.unlabelled) == 7500 and not np.isin(pool.labelled[removed], clean.labelled).any()
    )
    other = cleansed(counts, 0.318, np.random.default_rng(1))[1]
    assert not np.array_equal(removed, other), "ties are broken at random"


def test_the_class_of_generated_images_has_score_zero():
    zeros = torch.zeros(5, 10)
    expected = -(math.log(10) - math.log(11)) + math.log(11)
    assert float(unsupervised(zeros, zeros)) == pytest.approx(expected) == pytest.approx(2.493205)
    scores = torch.randn(4, 10, dtype=torch.float64)
    whole = torch.cat([scores, torch.zeros(4, 1, dtype=torch.float64)], 1).log_softmax(-1)
    expected = -(1 - whole[:, -1].exp()).log().mean() - whole[:, -1].mean()
    assert float(unsupervised(scores, scores)) == pytest.approx(float(expected))


FRAMEWORKS = [Framework(1, False, False), Framework(2, False, False), Framework(2, True, False)]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_student_is_no_worse_than_true_labels_and_no_better_than_none(framework):
    """Ten classes: true labels reach what supervised learning of them does, less three points;
    of uniformly random labels nothing is learned."""
    rng = np.random.default_rng(0)
    truth = rng.integers(10, size=1200)
    images = rng.random((1200, 1, 10, 4)) * 0.5
    images[np.arange(1200), 0, truth] += 0.5
    training = Training("mlp", epochs=8, batch=40, learning_rate=3e-3, beta=0.2, generator=30)
    right = {}
    for name, labels in (("true", truth), ("random", rng.integers(10, size=1200))):
        pool = Pool(torch.tensor(images).float(), torch.tensor(labels), np.arange(400))
        student = train(framework, training, pool, (1, 10, 4), 10, np.random.default_rng(0))
        right[name] = (student.classes(pool.images) == truth)[400:].mean()
        if name == "true":
            alone = train_supervised(training, pool, (1, 10, 4), 10, np.random.default_rng(0))
            bound = (alone.classes(pool.images) == truth)[400:].mean()
    assert right["true"] >= bound - 0.03 and bound > 0.8 and right["random"] <= 0.15


@pytest.mark.parametrize("kind", ["softmax", "mlp", "small"])
def test_teachers_in_one_batch_vote_as_teachers_one_by_one(kind):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=60)
    pixels = rng.integers(120, size=(60, 36), dtype=np.uint8)
    for row, label in zip(pixels, labels, strict=True):
        row[12 * label : 12 * label + 12] += 120
    labels[:3] = -1
    parts = rng.permutation(60).reshape(4, 15)
    ensemble = Ensemble(kind, SHAPE, 3, 4, 8, 1e-2)
    votes = ensemble.votes(parts, pixels, labels, pixels, np.random.default_rng(1))
    assert (votes.sum(1) == 4).all()
    alone = np.zeros_like(votes)
    for place in range(4):
        draws = np.random.default_rng(1)
        seeds = draws.integers(2**62, size=4)
        net = network(kind, SHAPE, 3, int(seeds[place]))
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)
        images = torch.tensor(pixels[parts[place]].reshape(-1, *SHAPE)).float() / 255
        truth = torch.tensor(labels[parts[place]])
        for _ in range(4):
            order = draws.permutation(15)
            for lot in (order[:8], order[8:]):
                loss = torch.nn.functional.cross_entropy(
                    net(images[lot])[0], truth[lot], ignore_index=-1
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        with torch.no_grad():
            classes = net(torch.tensor(pixels.reshape(-1, *SHAPE)).float() / 255)[0].argmax(-1)
        alone[np.arange(60), classes.numpy()] += 1
    assert (alone == votes).mean() > 0.98  # sums are in another order
    assert (votes.argmax(1) == np.maximum(labels, 0))[3:].mean() > 0.9
