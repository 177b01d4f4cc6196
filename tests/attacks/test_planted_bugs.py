"""Bugs that break a proof without breaking a score, planted one at a time: each is caught.

Every attack passes on the code as it is (docs/privacy.md §10).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from small_graphs import with_parts

from private_graphs.attacks.audit import EACH_CONFIDENCE, CanaryAudit, run_audit
from private_graphs.attacks.canary import Design, canary_graph, displacements, label_scores
from private_graphs.core.streams import Streams
from private_graphs.privacy.accountants import gdp_delta
from private_graphs.privacy.audits import Errors, refutes_profile
from private_graphs.training import blocks, engine
from private_graphs.training.torch_backend import TorchBackend

# --- clipping per tensor ---------------------------------------------------------------------

BALANCED = Design("paper", 8.0, runs=400, clip_norm=0.003, feature=1.0, device="torch-cpu")
"""A canary whose gradients of last layer and last bias are alike in norm, and both above the clip
norm: clipped one by one, they are longer together by sqrt(2)."""


def plant_clipping_per_tensor(monkeypatch) -> None:
    honest = TorchBackend._clipped

    def per_tensor(backend, *visits):
        rule = backend.rule
        backend.rule = rule._replace(clip=np.inf)
        gradients = honest(backend, *visits)
        backend.rule = rule
        f, h, k = gradients.shape[1], backend.hidden, 2
        used = backend.used
        ends = [used - h * k - k - h, h, h * k, k, f - used]
        return torch.cat(
            [
                tensor
                * (rule.clip / tensor.norm(dim=1, keepdim=True).clamp(min=1e-30)).clamp(max=1)
                for tensor in gradients.split(ends, dim=1)
            ],
            dim=1,
        )

    monkeypatch.setattr(TorchBackend, "_clipped", per_tensor)


def test_clipping_per_tensor_is_caught_by_the_audit_of_a_balanced_canary(monkeypatch):
    few = replace(BALANCED, runs=20)
    assert label_scores(few, 0.0, 1).max() <= 0.3 * (1 + 1e-5)
    assert not run_audit(BALANCED).breaks_proof
    plant_clipping_per_tensor(monkeypatch)
    assert label_scores(few, 0.0, 1).mean() > 0.3 * 1.3
    assert run_audit(BALANCED).verdict == "proof_broken"


# --- an edge across parts is kept --------------------------------------------------------------

HUB = Design("sound", 2.0, splits=10, runs=100, epochs=25)
THRESHOLD = HUB.epochs * HUB.splits / 2
"""Half of what reaches the parameters if every part sees the hub; fixed before any run."""


def hub_graph(feature: float):
    """The canary is joined to all training nodes, all labelled 1: a neighbour without its word."""
    graph = canary_graph([feature], [1])
    edges = [*map(tuple, graph.edge_index.T), *((node, 20) for node in range(20))]
    labels = np.where(graph.train_mask, 1, graph.labels)
    return replace(with_parts(graph, edges=edges), labels=labels)


def hub_scores(feature: float, noise: float) -> np.ndarray:
    """Displacements towards label 1, of the sum of the parts, when the hub has this feature."""
    dataset, hidden, rows = hub_graph(feature), HUB.settings.hidden, HUB.runs
    streams = [Streams.of({"hub": feature, "replica": row}) for row in range(rows)]
    starts = np.stack(
        [engine.initial_parameters(each, dataset.n_features, hidden, 2) for each in streams]
    ).astype(np.float32).astype(np.float64)  # fmt: skip
    last = hidden * 2 + 2
    starts[:, -last:] = 0
    own = np.maximum(starts[:, 4 * hidden : 5 * hidden], 0)
    direction = (own[:, :, None] * np.array([1.0, -1.0])).reshape(rows, -1)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    moved = displacements(HUB, dataset, streams, starts, noise)[:, -last:-2]
    return HUB.splits * np.einsum("rp,rp->r", moved, direction)


def hub_errors(noise: float) -> Errors:
    blank, seen = hub_scores(0.0, noise), hub_scores(1e4, noise)
    wrong = int(np.sum(blank > THRESHOLD)), int(np.sum(seen <= THRESHOLD))
    return Errors(wrong[0], HUB.runs, wrong[1], HUB.runs)


def test_an_edge_kept_across_parts_is_caught_by_the_audit_of_a_hub(monkeypatch):
    noise = 19.939  # epsilon 2 in 25 epochs
    mu = 2 * np.sqrt(HUB.epochs) / noise

    def refuted() -> bool:
        return refutes_profile(hub_errors(noise), lambda e: gdp_delta(mu, e), EACH_CONFIDENCE)

    assert hub_scores(1e4, 0.0).max() < 1.2 * HUB.epochs  # one part of the ten
    assert not refuted()
    monkeypatch.setattr(blocks, "edges_within", lambda edges, group: edges)
    assert hub_scores(1e4, 0.0).min() > 0.9 * HUB.splits * HUB.epochs
    assert refuted()


# --- sampling that is not Poisson ----------------------------------------------------------------

POISSON = Design("sound", 2.0, splits=10, visits="poisson", runs=100, epochs=30)


def joined_steps() -> np.ndarray:
    """How often the canary's part joined its 300 steps, read off runs without noise (200,)."""
    return np.abs(label_scores(replace(POISSON, runs=200), 0.0, 1))


def is_binomial(found: np.ndarray) -> bool:
    """Mean and variance of Bin(300, 1/10), each at 1e-4; other parts' terms add a little."""
    steps, rate = POISSON.epochs * POISSON.splits, 1 / POISSON.splits
    std = np.sqrt(steps * rate * (1 - rate))
    mean = abs(found.mean() - steps * rate) < 4 * std / np.sqrt(len(found))
    spread = len(found) * found.var() / std**2
    return mean and stats.chi2.ppf(1e-4, 199) < spread < 1.5 * stats.chi2.ppf(1 - 1e-4, 199)


def plant_schedule(monkeypatch, visits: str) -> None:
    """Training that asks for Poisson steps makes others."""
    honest = engine._Batch._schedule

    def other(batch, active):
        if batch.visits != "poisson":
            return honest(batch, active)
        if visits == "all":
            return [list(batch.structure.parts[batch.rows[active]])] * batch.splits
        batch.visits = visits
        planned = honest(batch, active)
        batch.visits = "poisson"
        return planned

    monkeypatch.setattr(engine._Batch, "_schedule", other)


@pytest.mark.long
def test_every_part_in_every_step_is_caught_by_the_audit(monkeypatch):
    assert not run_audit(POISSON).breaks_proof
    plant_schedule(monkeypatch, "all")
    found: CanaryAudit = run_audit(POISSON)
    assert found.mu_proved is None and found.verdict == "proof_broken"
    assert found.lower(EACH_CONFIDENCE) > found.epsilon_proved


def test_a_shuffled_order_in_place_of_poisson_is_caught_by_the_counts_of_joined_steps(monkeypatch):
    assert is_binomial(joined_steps())
    plant_schedule(monkeypatch, "shuffled")
    assert not is_binomial(joined_steps())
