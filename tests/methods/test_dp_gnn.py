"""DP-GNN: gradients of stars, neighbours that move as many roots as is priced, prices, answers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from answers import answers
from small_jobs import job_of
from test_noisy_sums import graph_of, proved, request
from torch.nn import functional

from private_graphs.core.streams import Streams
from private_graphs.methods import method_named
from private_graphs.methods.noisy_sums import owned_lists, started
from private_graphs.privacy.explain import explain
from private_graphs.privacy.queries import GaussianQuery, PoissonSums
from private_graphs.privacy.renyi import occurrence_epsilon
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.running.run import execute
from private_graphs.studies.progap.methods.dp_gnn import (
    EPOCH_CHOSEN,
    PROTOCOLS,
    DpGnnBudget,
    StarNet,
    noise_scale,
    stars_of,
)
from private_graphs.tasks.method import ALONE
from private_graphs.tasks.tasks import build_task
from private_graphs.training import stacks
from private_graphs.training.stacks import SparseRows, Stack, StackInputs

N, D, C = 12, 7, 3
STREAMS = Streams.of({"seed": 0})


def task_of(protocol: str = "sound", graph=None, delta: float = 1e-3):
    return build_task(graph or graph_of(), "lists", PROTOCOLS[protocol], delta)[0]


def random_matrix(seed: int, share: float = 0.3) -> sp.csr_matrix:
    drawn = np.random.default_rng(seed).random((N, N)) < share
    np.fill_diagonal(drawn, 0)
    return sp.csr_matrix(drawn.astype(np.float32))


@pytest.mark.parametrize("unit_rows", [False, True])
def test_gradients_of_stars_are_those_of_autograd(unit_rows):
    rng = np.random.default_rng(1)
    rows = SparseRows(sp.csr_matrix(rng.integers(0, 3, (N, D)) * (rng.random((N, D)) < 0.5)))
    reading = [random_matrix(2), random_matrix(3)]
    network = StarNet(D, C, 1, reading, "layer", reading, unit_rows)
    stack = started(network, [Streams.of({"seed": each}) for each in range(2)])
    roots, labels = np.array([0, 3, 4, 8, 11]), torch.tensor([0, 2, 1, 1, 0])
    index = torch.tensor([[4, 0, 2, 2], [1, 3, 0, 4]])
    squares, add = stacks.example_gradients(
        network, stack, stars_of(rows, reading, roots).view(index), labels[index]
    )
    coefficients = torch.rand(2, 4) * 2 - 1
    for replica in range(2):
        # on the whole graph at once, by autograd: every node reads its row of the matrix
        one = replace(network, answering=reading[replica : replica + 1])
        found = []
        for place in index[replica].tolist():
            flat = stack.flat[replica].clone().requires_grad_()
            own = {name: part[replica : replica + 1] for name, part in stack.parameters.items()}
            alone = Stack(own, {})
            alone.flat = flat[None]

            class View:
                inputs, present, hops = StackInputs(rows), None, None

                def times(self, weight):
                    return (torch.from_numpy(rows.matrix.toarray()) @ weight[0])[None]

            logits = one(stacks.Forward(alone, View(), training=False))[0, roots[place]]
            loss = functional.cross_entropy(logits[None], labels[place][None])
            found.append(torch.autograd.grad(loss, flat)[0])
        found = torch.stack(found)
        torch.testing.assert_close(squares[replica], found.square().sum(1), rtol=1e-4, atol=1e-7)
        torch.testing.assert_close(
            add(coefficients)[replica].float(),
            (coefficients[replica][:, None] * found).sum(0), rtol=1e-4, atol=1e-6,
        )  # fmt: skip


def clipped_sum(lists, features, labels, degree: int, stack=None):
    """The sum of the clipped gradients of all roots, and each of them (n, P)."""
    n, (_, width) = len(labels), features.shape
    reading = [owned_lists(sp.csr_matrix(lists, dtype=np.float32).T.tocsr(), degree, STREAMS)]
    network = StarNet(width, 2, 1, reading, "layer")
    stack = stack or started(network, [STREAMS])
    stars = stars_of(SparseRows(sp.csr_matrix(features)), reading, np.arange(n))
    view = stars.view(torch.arange(n)[None])
    squares, add = stacks.example_gradients(network, stack, view, torch.from_numpy(labels)[None])
    factors = (1 / squares.sqrt()).clamp(max=1.0)
    single = torch.cat([add(factors * row) for row in torch.eye(n)])
    return add(factors)[0], single


def test_a_replaced_node_moves_every_root_of_both_of_its_lists_by_twice_the_clip():
    """Node 0 goes from the roots of one label to those of the other, and takes the other label."""
    degree = 3
    old, new = [1, 2, 3], [4, 5, 6]
    features = np.full((7, 1), -1e5)
    features[0] = 1e10  # whoever reads it is pulled the other way
    stack = started(StarNet(1, 2, 1, [sp.csr_matrix((7, 7))], "layer"), [STREAMS])
    parts = stack.parameters
    parts["first.weight"].zero_()  # features change gradients alone
    for name in ("near0", "self0"):  # one more neighbour changes the length alone
        parts[f"{name}.weight"].copy_(parts["self0.weight"])
        parts[f"{name}.bias"].zero_()
    sums = []
    for receivers, own in ((old, 0), (new, 1)):
        lists, labels = np.zeros((7, 7)), np.array([own, 0, 0, 0, 1, 1, 1])
        lists[0, receivers] = 1
        sums.append(clipped_sum(lists, features, labels, degree, stack)[0])
    moved = float((sums[1] - sums[0]).norm())
    budget = DpGnnBudget(PROTOCOLS["sound"], 1, 1, 7, 7, degree, 1e-3, 7)
    assert budget.moved == 2 * degree + 1
    assert moved == pytest.approx(2 * budget.moved, rel=1e-3)
    assert moved > 2 * 1.5 * budget.occurrences, "the paper's D + 1 do not bound it"


def test_what_is_proved_is_what_was_asked_and_what_is_printed_needs_a_bound_that_fails():
    asked = request("dp_gnn", 8.0, epochs=2, lot=16, degree=3)
    method = method_named("dp_gnn")
    (sound,) = answers(method, task_of(), [asked])
    steps, answer = sound.events
    assert isinstance(steps, PoissonSums) and isinstance(answer, GaussianQuery)
    assert (steps.terms, steps.count, steps.rate) == (7, 6, 16 / 50)
    assert (answer.sensitivity, answer.count) == (2 * math.sqrt(3), 1)
    assert 7.8 < proved(sound.events, 1e-3) <= 8 and sound.claim is None and not sound.assumptions
    for protocol, moved in (("released", 16 * 4), ("paper", 7)):
        (other,) = answers(method, task_of(protocol), [asked])
        event, chosen = other.events
        assert event.sensitivity == 2 * moved and chosen == EPOCH_CHOSEN
        assert other.events == method.stated(task_of(protocol), asked, ALONE, {})["events"]
        assert 7.5 < other.claim.epsilon <= 8 < proved([event], 1e-3)
        assert PROTOCOLS[protocol].inference == "leaks"


@pytest.mark.parametrize("protocol", ["released", "paper"])
def test_nothing_is_proved_where_scores_over_the_true_lists_choose_the_epoch(protocol):
    """Noise of the steps alone: .643 "proved" where an attack on the choice shows 2.27."""
    settings = {"epochs": 3, "lot": 16, "degree": 3}
    job = job_of("dp_gnn", "lists", protocol, epsilons=(8.0,), delta=1e-3, settings=settings)
    result = execute(job, graph_of())
    assert result.rows["epsilon_proved"].isna().all() and (result.rows["epsilon_claimed"] > 7).all()
    (statement,) = map(PrivacyStatement.model_validate, result.statements.values())
    assert statement.status == "published_only" and statement.epsilon_published > 7
    assert {statement.epsilon_all_runs, statement.epsilon_of_file} == {None}
    assert EPOCH_CHOSEN.reason in statement.proof
    assert f"Nothing is proved: {EPOCH_CHOSEN.reason}." in explain(statement)["strength"]


def test_printed_epsilon_is_the_mixture_over_batches_without_replacement():
    scale, occurrences, batch, n, steps, delta = 2.0, 3, 4, 10, 5, 1e-3

    def bound(order):
        moment = 0.0
        for k in range(occurrences + 1):
            ways = math.comb(occurrences, k) * math.comb(n - occurrences, batch - k)
            moved = (k / (occurrences * scale)) ** 2 / 2
            moment += ways / math.comb(n, batch) * math.exp(order * (order - 1) * moved)
        log_ratio = math.log(1 - 1 / order)  # Canonne et al. 2020, Proposition 12
        return log_ratio + (steps * math.log(moment) - math.log(delta * order)) / (order - 1)

    expected = min(bound(1 + tenth / 10) for tenth in range(1, 90))
    found = occurrence_epsilon(scale, occurrences, batch, n, steps, delta)
    assert found == pytest.approx(expected, rel=1e-9)
    budget = DpGnnBudget(PROTOCOLS["paper"], 5, 5, batch, n, 2, delta, n)
    assert budget.printed(noise_scale(budget, 4.0)) == pytest.approx(4.0, abs=0.05)
    assert budget.noise_std(scale) == 2 * 3 * scale
