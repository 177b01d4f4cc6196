"""Compiled steps under watch are those that nobody watches, to the bit, and what is seen is true.

A watched step calls the same compiled functions with a look at the sum between them; what it shows
is the exact sum, and the state that follows from the noisy one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
import torch
from doors import one_lane
from small_graphs import clipped, fit, part_gradients, parts_of, random_graph, start, streams

from private_graphs.mechanisms.door import UNSEEN, Door, ReleaseMismatch, Watch
from private_graphs.mechanisms.replay import Recording, Replaying
from private_graphs.methods.gcn_protocols import PAPER, RELEASED, SOUND, SOUND_POISSON
from private_graphs.privacy.queries import GaussianQuery
from private_graphs.training import roots
from private_graphs.training.roots import HIDDEN, Roots, RootTraining

GRAPH = random_graph(unlabelled=3)
SIGMA, CLIP = 1.5, 0.2
SEEDS = (0, 1)


def assert_same(found, expected) -> None:
    for name in (
        "parameters", "epochs", "validation_loss", "validation_losses", "validation_predictions",
        "test_predictions",
    ):  # fmt: skip
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name


def steps_of(protocol, splits: int, epochs: int) -> int:
    return epochs * (1 if splits == 1 or protocol.visits == "epoch_sum" else splits)


class Unwatched(Watch):
    """No watch, with masks of dropout at the places that runs with fresh noise give them too."""

    public_places = True


# --- the GCN ---------------------------------------------------------------------------------


def test_steps_that_a_watch_cannot_see_are_refused():
    how = dict(noise=SIGMA, private=True, epochs=2, clip_norm=CLIP, device="torch-cpu")
    fit(GRAPH, SOUND, **how)
    with pytest.raises(ReleaseMismatch, match="watch"):
        fit(GRAPH, SOUND, watch=Recording(), **how)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize(
    "protocol", [SOUND, PAPER, SOUND_POISSON, RELEASED], ids=["sum", "shuffled", "poisson", "none"]
)
def test_watched_training_is_that_which_nobody_watches(protocol, splits, optimizer, dtype):
    how = dict(
        seeds=SEEDS, splits=splits, epochs=4, noise=[SIGMA, 2 * SIGMA], clip_norm=CLIP,
        dropout=0.5, optimizer=optimizer, dtype=dtype, lazy_noise=False,
        validate_every_epoch=True,
    )  # fmt: skip
    watch = Recording()
    assert_same(
        fit(GRAPH, protocol, watch=watch, **how), fit(GRAPH, protocol, watch=Unwatched(), **how)
    )
    counts = [len(tape) for tape in watch.tapes.values()]
    assert counts == [steps_of(protocol, splits, 4)] * 2 and not watch.findings


@pytest.mark.parametrize("splits", [1, 3])
def test_a_watch_sees_every_step_also_where_noise_could_wait(splits):
    how = dict(splits=splits, epochs=3, noise=SIGMA, clip_norm=CLIP)
    watched = fit(GRAPH, PAPER, watch=Recording(), lazy_noise=True, **how)
    assert_same(watched, fit(GRAPH, PAPER, lazy_noise=False, **how))


@pytest.mark.parametrize("protocol", [SOUND, PAPER, SOUND_POISSON], ids=lambda each: each.visits)
@pytest.mark.parametrize("splits", [1, 3])
def test_what_a_watch_sees_are_the_sums_of_clipped_gradients(protocol, splits):
    watch, parts = Recording(), parts_of(GRAPH, splits)
    fit(GRAPH, protocol, splits=splits, epochs=3, noise=SIGMA, clip_norm=CLIP, watch=watch)
    (tape,), theta = watch.tapes.values(), start(GRAPH)
    order, joined = streams(0)[0].of_door.generator("order"), []
    for _ in range(3):
        if splits == 1 or protocol.visits == "epoch_sum":
            joined.append(np.ones(splits, dtype=bool))
        elif protocol.visits == "shuffled":
            joined += list(np.eye(splits, dtype=bool)[order.permutation(splits)])
        else:
            joined += list(order.random((splits, splits)) < 1 / splits)
    assert len(joined) == len(tape)
    for taped, row in zip(tape, joined, strict=True):
        gradients = clipped(part_gradients(GRAPH, parts, theta), CLIP)
        total = gradients[torch.from_numpy(row)].sum(0).numpy()
        assert np.abs(taped.exact[: len(theta)] - total).max() <= 1e-9
        assert not taped.exact[len(theta) :].any()
        theta = taped.noisy[: len(theta)].copy()


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("protocol", [SOUND, PAPER, SOUND_POISSON], ids=lambda each: each.visits)
def test_on_a_neighbouring_graph_a_replayed_run_ends_where_the_first_did(
    protocol, splits, optimizer
):
    """The taped state takes the place of the run's own, moments of Adam included."""
    how = dict(
        splits=splits, epochs=4, noise=SIGMA, clip_norm=CLIP, optimizer=optimizer, dropout=0.5
    )
    first = Recording()
    expected = fit(GRAPH, protocol, watch=first, **how)
    labels = GRAPH.labels.copy()
    labels[10] = (labels[10] + 1) % 3
    neighbour = replace(GRAPH, labels=labels)
    assert not np.array_equal(
        fit(neighbour, protocol, lazy_noise=False, **how).parameters, expected.parameters
    )
    again = Replaying(first, "replace")
    assert_same(fit(neighbour, protocol, watch=again, **how), expected)
    again.finished()
    assert not again.findings and 0 < again.largest <= 1 + 1e-9
    assert again.calls == steps_of(protocol, splits, 4)


class Twice(Watch):
    """Doubles the parameters after every step."""

    active = True

    def passed(self, lane, part, kind, query, exact, noisy):
        """Return the double."""
        return 2 * noisy


def test_what_a_watch_returns_is_what_training_goes_on_with():
    how = dict(epochs=2, noise=SIGMA, clip_norm=CLIP, lr=0.0)  # nothing moves but by the watch
    found = fit(GRAPH, SOUND, watch=Twice(), **how).parameters[0]
    np.testing.assert_array_equal(found, 4 * start(GRAPH))


# --- roots -----------------------------------------------------------------------------------


def problem(dtype) -> tuple[Roots, np.ndarray]:
    """Eight roots that mix the outputs of up to three nodes, and parameters to start from."""
    rng = np.random.default_rng(0)
    x = scipy.sparse.random(8, 30, 0.4, "csr", random_state=rng)
    pi = np.zeros((8, 8))
    for row in pi:
        row[rng.choice(8, 3, replace=False)] = rng.normal(size=3)
    pi[-1] = np.eye(8)[-1]
    labels = rng.integers(3, size=8)
    return Roots.of(x, scipy.sparse.csr_matrix(pi), labels, dtype), roots.initial(30, 3, rng)


BATCHES = np.array([[0, 1, 2], [3, 4, -1], [-1, -1, -1], [5, 6, 7], [0, 7, 2]])
QUERY = GaussianQuery(
    unit="node", relation="replace", reason="test", count=len(BATCHES), sensitivity=2 * CLIP,
    noise_std=SIGMA * CLIP,
)  # fmt: skip


def trained(
    data: Roots, theta, plan: RootTraining, watch: Watch = UNSEEN, query=QUERY
) -> np.ndarray:
    lanes = one_lane(query).lanes
    door = Door(lanes, watch)
    found = roots.train(data, theta, plan, door.descent([query]), 5)
    door.close()
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("adam", [False, True], ids=["sgd", "adam"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("query", [QUERY, None], ids=["noise", "bare"])
def test_watched_steps_of_roots_are_those_that_nobody_watches(query, dropout, adam, dtype):
    data, theta = problem(dtype)
    plan = RootTraining(
        BATCHES, 3.0, 0.1, CLIP, adam=adam, dropout=dropout, weight_decay=0.0 if query else 0.05
    )
    watch = Recording()
    watch.public_places = False
    found, expected = (trained(data, theta, plan, each, query) for each in (watch, UNSEEN))
    assert found.dtype == dtype and found.tobytes() == expected.tobytes()
    (tape,) = watch.tapes.values()
    assert len(tape) == len(BATCHES) and all(each.query == query for each in tape)
    again = Replaying(watch, "replace")
    assert trained(data, theta, plan, again, query).tobytes() == expected.tobytes()
    again.finished()
    assert not again.findings and again.largest == 0


def test_what_a_watch_sees_are_the_sums_of_clipped_roots():
    data, theta = problem(np.float64)
    watch = Recording()
    trained(data, theta, RootTraining(BATCHES, 3.0, 0.1, CLIP, adam=False), watch)
    (tape,) = watch.tapes.values()
    assert len(theta) == 30 * HIDDEN + 3 * HIDDEN
    for taped, batch in zip(tape, BATCHES, strict=True):
        # A step of rate 1 of the batch alone, which has no noise.
        alone = RootTraining(batch[None], 1.0, 1.0, CLIP, adam=False)
        total = theta - trained(data, theta, alone, query=None)
        assert np.abs(taped.exact - total).max() <= 1e-12
        assert taped.exact.any() == (batch >= 0).any()
        theta = taped.noisy[: len(theta)]
