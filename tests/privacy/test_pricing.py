"""What an event is worth for each unit, relation and schedule, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from private_graphs.core.errors import UserError
from private_graphs.privacy.accountants import compose_groups, gdp_epsilon, price
from private_graphs.privacy.calibration import gdp_noise
from private_graphs.privacy.events import (
    Cyclic,
    FullBatch,
    NoisyGradients,
    Poisson,
    Sampling,
    Shuffled,
)
from private_graphs.privacy.gradient_prices import pld_epsilon, sensitivity

DELTA = 1e-5
EPOCHS = 500


def _event(sampling: Sampling, noise: float = 89.167, **changes: object) -> NoisyGradients:
    releases = {FullBatch: EPOCHS, Poisson: 10 * EPOCHS}.get(
        type(sampling), getattr(sampling, "parts", 1) * EPOCHS
    )
    fields = {"clipping": "gradient_global", "clip_norm": 1.0, "noise_multiplier": noise}
    return NoisyGradients(
        **{**fields, "releases": releases, "epochs": EPOCHS, "sampling": sampling, **changes}
    )


@pytest.mark.parametrize("relation", ["replace", "zero_out", "add_remove"])
@pytest.mark.parametrize("sampling", [FullBatch(), FullBatch(10), Cyclic(10), Shuffled(10)])
def test_a_node_moves_a_gradient_from_anything_to_anything(
    sampling: Sampling, relation: str
) -> None:
    priced = price(_event(sampling), "node", relation, DELTA)
    assert priced.mu == 2 * math.sqrt(EPOCHS) / 89.167
    assert priced.epsilon == pytest.approx(2.0, abs=1e-4)
    assert priced.epsilon <= 2.0


@pytest.mark.parametrize("relation", ["zero_out", "add_remove"])
@pytest.mark.parametrize("sampling", [FullBatch(), FullBatch(10), Cyclic(10), Shuffled(10)])
def test_a_vanishing_subgraph_moves_a_release_by_one_clip_norm(
    sampling: Sampling, relation: str
) -> None:
    assert price(_event(sampling), "subgraph", relation, DELTA).mu == math.sqrt(EPOCHS) / 89.167


def test_a_replaced_subgraph_moves_a_release_by_two() -> None:
    assert price(_event(Cyclic(10)), "subgraph", "replace", DELTA).mu == pytest.approx(
        2 * math.sqrt(EPOCHS) / 89.167
    )


def test_a_whole_graph_touches_every_part() -> None:
    one = math.sqrt(EPOCHS) / 89.167
    assert price(_event(FullBatch()), "graph", "zero_out", DELTA).mu == pytest.approx(one)
    assert price(_event(FullBatch()), "graph", "replace", DELTA).mu == pytest.approx(2 * one)
    assert price(_event(FullBatch(10)), "graph", "zero_out", DELTA).mu == pytest.approx(10 * one)
    assert price(_event(Cyclic(10)), "graph", "replace", DELTA).mu == pytest.approx(
        2 * math.sqrt(10) * one
    )


@pytest.mark.parametrize(("noise", "proved"), [(34.696, 5.889), (17.715, 13.371)])
def test_shuffled_splits_are_priced_as_cyclic_and_never_amplified(
    noise: float, proved: float
) -> None:
    shuffled = price(_event(Shuffled(10), noise), "node", "replace", DELTA)
    assert shuffled.epsilon == pytest.approx(proved, abs=6e-4)
    assert shuffled.epsilon == price(_event(Cyclic(10), noise), "node", "replace", DELTA).epsilon
    assert "never amplified" in shuffled.proof


def test_stratified_subsampling_touches_three_parts() -> None:
    noise = gdp_noise(2, EPOCHS, DELTA, "replace")
    priced = price(_event(Shuffled(10), noise, relabel_touches=3), "node", "replace", DELTA)
    assert priced.mu == pytest.approx(2 * math.sqrt(3 * EPOCHS) / noise)
    assert priced.epsilon == pytest.approx(3.72, abs=5e-3)


def test_three_touched_parts_of_one_sum_move_it_three_times_as_far() -> None:
    event = _event(FullBatch(10), relabel_touches=3)
    assert sensitivity(event, "node", "replace") == 6.0
    assert price(event, "node", "replace", DELTA).mu == pytest.approx(
        6 * math.sqrt(EPOCHS) / 89.167
    )


def test_poisson_nodes_are_replaced_and_subgraphs_vanish() -> None:
    event = _event(Poisson(0.1), 28.196)
    node = price(event, "node", "replace", DELTA)
    assert node.epsilon == pld_epsilon(28.196, 5000, 0.1, DELTA, "replace")
    assert node.epsilon == pytest.approx(2.0, abs=2e-4)
    assert node.mu is None
    assert price(event, "node", "zero_out", DELTA).epsilon == node.epsilon
    subgraph = price(_event(Poisson(0.1), 14.137), "subgraph", "zero_out", DELTA)
    assert subgraph.epsilon == pld_epsilon(14.137, 5000, 0.1, DELTA, "zero_out")
    assert subgraph.epsilon == pytest.approx(2.0, abs=2e-4)
    assert any("secret" in each for each in node.conditions)


def test_gradients_without_a_joint_clip_prove_nothing() -> None:
    unclipped = price(_event(Shuffled(10), clipping="none"), "node", "replace", DELTA)
    assert unclipped.epsilon is None
    assert "nothing is clipped" in unclipped.proof
    per_tensor = price(
        _event(FullBatch(), clipping="gradient_per_tensor"), "node", "replace", DELTA
    )
    assert per_tensor.epsilon is None
    assert "sqrt(4)" in per_tensor.proof
    assert compose_groups([([unclipped], 5)], DELTA) is None


def test_sensitivity_is_in_units_of_the_gradient() -> None:
    event = _event(FullBatch(), clip_norm=0.5)
    assert sensitivity(event, "node", "replace") == 1.0
    assert sensitivity(event, "graph", "zero_out") == 0.5
    assert sensitivity(replace(event, clipping="gradient_per_tensor"), "node", "replace") == 2.0
    assert sensitivity(replace(event, clipping="none"), "node", "replace") is None


@pytest.mark.parametrize(
    ("event", "unit", "message"),
    [
        (_event(Poisson(0.1)), "graph", "every part that joins a Poisson step"),
        (_event(Poisson(0.1), relabel_touches=3), "node", "independent keyed coin"),
        (_event(FullBatch()), "edge_undirected", "no proof for unit 'edge_undirected'"),
        (_event(FullBatch()), "nodes", "did you mean 'node'"),
    ],
)
def test_what_cannot_be_priced_soundly_is_an_error(
    event: NoisyGradients, unit: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        price(event, unit, "replace", DELTA)


def test_different_events_compose() -> None:
    cyclic = price(_event(Cyclic(10)), "node", "replace", DELTA)
    full = price(_event(FullBatch(), 50.0), "node", "replace", DELTA)
    expected = gdp_epsilon(math.hypot(cyclic.mu, full.mu), DELTA)
    assert compose_groups([([cyclic, full], 1)], DELTA) == pytest.approx(expected)
    poisson = price(_event(Poisson(0.1), 28.196), "node", "replace", DELTA)
    mixed = compose_groups([([cyclic, poisson], 1)], DELTA)
    assert max(cyclic.epsilon, poisson.epsilon) < mixed < cyclic.epsilon + poisson.epsilon


def test_events_priced_under_different_relations_do_not_compose() -> None:
    first, second = (
        price(_event(Poisson(0.1), 28.196), "subgraph", relation, DELTA)
        for relation in ("replace", "zero_out")
    )
    with pytest.raises(UserError, match="different relations"):
        compose_groups([([first, second], 1)], DELTA)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clip_norm": 0.0}, "clip_norm is 0"),
        ({"noise_multiplier": 0.0}, "noise_multiplier is 0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"releases": 499}, "499 releases in 500 epochs"),
        ({"sampling": Cyclic(10)}, "expected 5000"),
    ],
)
def test_inconsistent_events_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        replace(_event(FullBatch()), **changes)


@pytest.mark.parametrize("make", [lambda: Poisson(0.0), lambda: Poisson(1.1), lambda: Cyclic(0)])
def test_impossible_sampling_is_refused(make) -> None:
    with pytest.raises(UserError):
        make()
