"""The canary is as strong as the proofs allow and no stronger, and audits judge as they should."""

from __future__ import annotations

import numpy as np
import pytest

from private_graphs.attacks import audit as auditing
from private_graphs.attacks.audit import CanaryAudit, require_unbroken, run_audit
from private_graphs.attacks.canary import (
    Design,
    OneRun,
    canary_graph,
    label_scores,
    one_run,
)
from private_graphs.core.errors import UserError
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu
from private_graphs.privacy.audits import Errors, gaussian_mu

CLIPPED = ["paper", "sound"]


# --- the design ------------------------------------------------------------------------------


def test_the_canary_is_isolated_and_alone_in_its_dimension():
    graph = canary_graph([1e4, 0.0, 5.0], [1, 0, -1])
    canaries = np.arange(20, 23)
    assert not np.isin(graph.edge_index, canaries).any()
    features = graph.features.to_scipy().toarray()
    assert features[20, 4] == 1e4 and features[22, 6] == 5.0
    others = np.delete(features, canaries, axis=0)
    assert (others[:, 4:] == 0).all() and others.max() < 0.01
    assert graph.labels[20] == 1 and graph.labels[21] == 0
    assert graph.train_mask[canaries].tolist() == [True, True, False]
    assert not (graph.validation_mask | graph.test_mask)[canaries].any()


@pytest.mark.parametrize("protocol", CLIPPED)
@pytest.mark.parametrize("label", [0, 1])
def test_without_noise_the_score_is_all_that_clipping_lets_through(protocol, label):
    found = label_scores(Design(protocol, 2.0, runs=5), 0.0, label)
    assert found == pytest.approx((1 if label else -1) * np.full(5, 100.0), rel=1e-4)


def test_without_clipping_the_canary_is_seen_through_any_noise():
    released = label_scores(Design("released", 2.0, runs=5), 0.0, 1)
    assert released.min() > 5_000


def test_the_score_has_the_noise_of_all_steps():
    runs, sigma = 400, 25.0
    found = label_scores(Design("sound", 2.0, runs=runs), sigma, 1)
    assert abs(found.mean() - 100) < 5 * sigma * 10 / np.sqrt(runs)
    assert np.std(found) == pytest.approx(sigma * 10, rel=0.15)


def test_splits_leave_the_signal_of_one_part_per_epoch():
    for protocol, expected in (("paper", 100.0), ("sound", 10.0)):  # sound divides by the parts
        found = label_scores(Design(protocol, 2.0, splits=10, runs=5), 0.0, 1)
        assert found == pytest.approx(np.full(5, expected), rel=0.02)


def test_one_run_tells_all_canaries_without_clipping_and_hardly_any_with_it():
    assert one_run(Design("released", 2.0), 25.0).right == 100
    assert 30 <= one_run(Design("sound", 2.0), 40.0).right <= 70
    silent = one_run(Design("sound", 2.0), 0.0)
    assert silent.right == silent.guesses == 100


# --- verdicts --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audits() -> dict[str, CanaryAudit]:
    return {name: run_audit(Design(name, 2.0)) for name in ("released", "paper", "sound")}


@pytest.mark.parametrize("protocol", CLIPPED)
def test_what_is_proved_stands_and_the_attack_comes_close_to_it(audits, protocol):
    found = audits[protocol]
    bounds = (found.lower(), found.lower_gaussian(), found.lower_one_run())
    assert max(bounds) < found.epsilon_proved
    assert found.lower_gaussian() > 0.3 * found.epsilon_proved
    assert gaussian_mu(found.errors, 1e-6) > 0.7 * found.mu_proved  # about the estimate itself
    assert not found.breaks_proof
    require_unbroken(found)


def test_the_published_epsilon_of_paper_is_below_what_gaussian_noise_shows(audits):
    found = audits["paper"]
    assert found.epsilon_published < 2 < found.lower_gaussian()
    assert found.verdict in ("refuted_if_gaussian", "not_refuted")


def test_the_noise_is_that_of_the_protocol(audits):
    assert audits["paper"].noise_multiplier == audits["released"].noise_multiplier
    assert audits["paper"].epsilon_proved == pytest.approx(
        gdp_epsilon(20 / audits["paper"].noise_multiplier, 1e-5)
    )
    assert audits["sound"].epsilon_proved <= 2


def found_with(errors: int, runs: int, *, proved=2.0, single=None, gaussian=True) -> CanaryAudit:
    mu = gdp_mu(proved, 1e-5) if proved and gaussian else None
    counted = Errors(errors, runs, errors, runs)
    return CanaryAudit(
        Design("sound", 2.0, runs=runs), 40.0, None, proved, mu, counted, single, 1.0, 100
    )


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (found_with(0, 1000), "proof_broken"),
        (found_with(0, 1000, proved=20.0, gaussian=False), "refuted"),
        (found_with(0, 1000, proved=None), "refuted"),
        (found_with(345, 1000, proved=2.0), "proof_broken"),  # the profile says so
        (found_with(345, 1000, proved=2.0, gaussian=False), "not_refuted"),
        (found_with(300, 1000, proved=8.0), "refuted_if_gaussian"),
        (found_with(480, 1000), "not_refuted"),
        (found_with(500, 1000, single=OneRun(200, 100, 100)), "proof_broken"),
        (found_with(500, 1000, proved=None, single=OneRun(200, 100, 100)), "refuted"),
    ],
)
def test_verdicts(found, verdict):
    assert found.verdict == verdict
    assert found.document()["verdict"] == verdict
    assert auditing.VERDICTS[verdict] in auditing.describe(found)
    if verdict == "proof_broken":
        with pytest.raises(UserError, match="breaks its proof"):
            require_unbroken(found)
    else:
        require_unbroken(found)
