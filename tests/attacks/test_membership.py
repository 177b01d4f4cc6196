"""Membership inference: coins, views, scores, bounds, and leaks that were planted."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from small_graphs import (
    HIDDEN,
    by_tensor,
    dense_logits,
    dense_propagation,
    random_graph,
    with_parts,
)

from private_graphs.attacks import leaks, membership, shadow_models
from private_graphs.attacks.membership import FixedDesign, Scored, Shadows, node_aucs, rates, surest
from private_graphs.attacks.neighbours import with_members
from private_graphs.attacks.views import PUBLISHED, TOGETHER, gcn_margins, margins, queries
from private_graphs.core.errors import UserError
from private_graphs.datasets.embedded import unpack
from private_graphs.datasets.registry import build
from private_graphs.mechanisms.door import UNSEEN, Door, ReleaseMismatch
from private_graphs.methods import gcn
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu, price
from private_graphs.privacy.calibration import gdp_noise
from private_graphs.privacy.queries import GaussianQuery, PoissonSums, PureQuery
from private_graphs.report.leaks import LEAK_COLUMNS, leak_rows
from private_graphs.running import run
from private_graphs.running.jobs import Job, LeakAttack
from private_graphs.running.run import planned
from private_graphs.tasks.method import Context, Outcome
from private_graphs.tasks.tasks import SCENARIOS


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """The synthetic graph of the demo."""
    folder = tmp_path_factory.mktemp("raw")
    unpack("planetoid", folder)
    return build("synthetic-planetoid", folder)


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr(membership, "RESAMPLES", 3)


@pytest.fixture
def generator():
    return np.random.default_rng(0)


def job_of(method="gcn", scenario="nodes", protocol="released", epsilon=math.inf, settings=None,
           **attack) -> Job:  # fmt: skip
    attack = {"attack": "membership", "shadows": 8} | attack
    return Job(
        study="lrec2022", group="g", name="n", dataset="synthetic-planetoid", method=method,
        scenario=scenario, protocol=protocol, settings=settings or {}, epsilons=(epsilon,),
        leaks=LeakAttack(**attack),
    )  # fmt: skip


def guarantee_of(epsilon=None):
    """A guarantee by one Gaussian release, or none."""
    events = ()
    if epsilon is not None:
        events = (
            GaussianQuery(count=1, sensitivity=1.0, unit="node", relation="replace", reason="test",
                          noise_std=gdp_noise(epsilon, 1, 1e-5, "add_remove"), clipping="row"),
        )  # fmt: skip
    return leaks.Guarantee("node", "replace", 1e-5, events, epsilon, None, 0.8)


def drawn(n_models: int, n: int, shift: float | np.ndarray):
    """Coins, and margins that membership moves by ``shift``, with a mean and a size per node."""
    generator = np.random.default_rng(n_models + n)
    coins = generator.random((n_models, n)) < 0.5
    noise = generator.standard_normal((n_models, n)) + shift * coins
    return coins, noise * generator.uniform(0.5, 2, n) + 5 * generator.standard_normal(n)


# --- coins and views -----------------------------------------------------------------------------


def test_every_model_has_its_own_independent_fair_coins():
    job = job_of()
    coins = np.stack([shadow_models.coins_of(job, number, 400) for number in range(50)])
    assert np.array_equal(coins[7], shadow_models.coins_of(job, 7, 400))
    assert abs(coins.mean() - 0.5) < 0.02
    assert coins.sum(axis=0).std() == pytest.approx(math.sqrt(50) / 2, rel=0.2)  # not R/2 each
    assert coins.sum(axis=1).std() == pytest.approx(math.sqrt(400) / 2, rel=0.4)
    assert abs(np.corrcoef(coins)[np.triu_indices(50, 1)]).max() < 0.25
    assert not np.array_equal(coins[0], shadow_models.coins_of(job_of(seed=1), 0, 400))


def test_views_ask_for_the_node_alone_with_its_public_edges_and_in_the_whole_graph(generator):
    dataset = random_graph(3, nodes=40, degree=5.0)
    asked = np.flatnonzero(dataset.train_mask)
    parameters = generator.standard_normal((2, 5000))
    size = dataset.n_features * HIDDEN + HIDDEN + HIDDEN * dataset.n_classes + dataset.n_classes
    parameters = parameters[:, :size]
    matrix = dataset.features.to_scipy().astype(np.float64)
    labels = dataset.labels[asked]
    found = gcn_margins(
        parameters, matrix, queries(dataset, asked), labels, HIDDEN, dataset.n_classes
    )
    pairs = dataset.edge_index.T.tolist()
    for place, node in enumerate(asked):
        seen = {int(node), *np.flatnonzero(~dataset.train_mask).tolist()}
        graphs = {
            "features": [],
            "public": [(i, j) for i, j in pairs if i in seen and j in seen],
            "whole": pairs,
        }
        for view, edges in graphs.items():
            propagation = dense_propagation(dataset.n_nodes, edges)
            logits = dense_logits(torch.from_numpy(parameters[1]), dataset, propagation)
            expected = margins(logits.numpy()[[node]], labels[[place]])
            assert found[view][1, place] == pytest.approx(expected.item(), rel=1e-9), view
    assert by_tensor(parameters[0], dataset)[0].shape == (dataset.n_features, HIDDEN)


def test_margins_are_exact_where_probabilities_are_not():
    logits = np.array([[5000.0, 0.0, 4000.0], [0.1, 0.2, 0.3]])
    p = np.exp(logits[1]) / np.exp(logits[1]).sum()
    found = margins(logits, np.array([0, 2]))
    assert found == pytest.approx([1000.0, math.log(p[2] / (1 - p[2]))])


# --- scores and rates ----------------------------------------------------------------------------


def test_no_leak_is_chance_and_a_leak_is_found_by_every_ratio():
    coins, same = drawn(40, 300, 0.0)
    for score in Shadows(same, coins).ratios().values():
        value, low, high = rates(score, coins)["auc"]
        assert low < 0.5 < high and high - low < 0.06 and value == pytest.approx(0.5, abs=0.015)
    coins, moved = drawn(40, 300, 2.0)
    found = {name: rates(score, coins) for name, score in Shadows(moved, coins).ratios().items()}
    assert found["online"]["auc"][0] == pytest.approx(0.92, abs=0.02)  # Φ(√2)
    assert found["offline"]["tpr_01"][0] > 0.15 > 3 * found["plain"]["tpr_01"][0]


def test_few_shadows_share_their_variance(monkeypatch):
    coins, moved = drawn(12, 2000, 2.0)
    few = Shadows(moved, coins)
    shared = rates(few.ratios()["online"], coins)["tpr_01"][0]
    monkeypatch.setattr(membership, "PER_NODE_FROM", 2)
    assert shared > rates(few.ratios()["online"], coins)["tpr_01"][0]


def test_scores_of_targets_do_not_read_their_coins_and_leave_one_out_reads_no_own_coin():
    coins, moved = drawn(40, 50, 2.0)
    shadows = Shadows(moved[:30], coins[:30])
    alone = Shadows(moved, coins).ratios()["online"]
    flipped = coins.copy()
    flipped[3] = ~flipped[3]
    assert Shadows(moved, flipped).ratios()["online"][3] == pytest.approx(alone[3])
    one = Shadows(np.delete(moved, 3, 0), np.delete(coins, 3, 0)).ratios(moved[3:4])["online"]
    assert one[0] == pytest.approx(alone[3])
    assert shadows.ratios(moved[30:])["online"].shape == (10, 50)


def test_rates_are_those_of_all_pairs_counted_one_by_one():
    coins, moved = drawn(20, 60, 1.0)
    inside, outside = moved[coins], moved[~coins]
    found = rates(moved, coins, 2)
    assert found["auc"][0] == pytest.approx((inside[:, None] > outside).mean(), abs=1e-3)
    threshold = np.quantile(outside, 0.99)
    assert found["tpr_01"][0] == pytest.approx((inside > threshold).mean(), abs=0.02)
    assert node_aucs(moved, coins)[0] == pytest.approx(
        (moved[coins[:, 0], 0][:, None] > moved[~coins[:, 0], 0]).mean()
    )


def test_an_interval_leaves_as_much_out_at_either_end(monkeypatch):
    coins, moved = drawn(20, 60, 1.0)
    widths = []
    for confidence in (1.0, 0.95):
        monkeypatch.setattr(membership, "CONFIDENCE", confidence)
        _, low, high = rates(moved, coins, 2)["auc"]  # of two draws, between which it interpolates
        widths.append(high - low)
    assert widths[1] / widths[0] == pytest.approx(0.95)


def test_an_interval_resamples_targets_and_nodes():
    """Of targets that are all alike, or nodes, there is one for an interval."""
    coins, moved = drawn(1, 30, 1.0)
    for alike in (lambda row: np.tile(row, (30, 1)), lambda row: np.tile(row.T, (1, 30))):
        _, low, high = rates(alike(moved), alike(coins), 20)["auc"]
        assert high - low > 0.1


def test_targets_are_scored_by_shadows_and_by_no_coin_of_targets(generator):
    def models(n_models: int) -> shadow_models.Models:
        coins, moved = drawn(n_models, 20, 2.0)
        classes = generator.integers(2, size=(n_models, 20))
        return shadow_models.Models(np.arange(20), coins, classes, np.zeros(n_models), 0.5, 2,
                                    np.eye(20, dtype=bool), {"whole": moved})  # fmt: skip

    shadows, targets = models(12), models(10)
    found = membership.scored(shadows, targets).targets
    other = membership.scored(shadows, replace(targets, coins=~targets.coins)).targets
    assert ("whole", "online") in found and (PUBLISHED, "online") in found
    assert all(np.array_equal(found[key], other[key]) for key in found)


def test_a_proof_is_broken_by_what_holds_for_a_thousand_tests_at_the_same_delta():
    words = {"count": 40, "unit": "node", "relation": "replace", "reason": "test"}
    steps = PoissonSums(noise_multiplier=4.0, clip_norm=1.0, rate=0.1, **words)
    held = replace(guarantee_of(), events=(steps,))
    proved = held.at(1e-12)
    assert proved == pytest.approx(price(steps, "node", "replace", 1e-12).epsilon)
    assert proved > 1.2 * held.at(1e-5)
    guesses = next(each for right in range(501)
                   if (each := leaks.Guesses(500, 500, right)).epsilon(1e-12) > proved)  # fmt: skip
    assert held.held_against(guesses, 1e-12) == proved  # at 95 % one of twenty true proofs is
    with pytest.raises(UserError, match="breaks its proof"):
        held.held_against(leaks.Guesses(500, 500, 500), 1e-12)


def test_a_guarantee_allows_what_all_its_releases_allow_together():
    one = guarantee_of(2.0)
    mu = gdp_mu(2.0, 1e-5)
    twice = replace(one, events=one.events * 2)
    assert twice.epsilon_proved == pytest.approx(gdp_epsilon(math.sqrt(2) * mu, 1e-5), rel=1e-3)
    both = twice.allowed()
    assert both["auc"] == pytest.approx(ndtr(math.sqrt(2) * mu / math.sqrt(2)), rel=1e-3)
    pure = PureQuery(epsilon=1.0, count=1, unit="node", relation="replace", reason="test")
    found = replace(one, events=(pure,), delta=0.01).allowed()
    epsilon = replace(one, events=(pure,), delta=0.01).epsilon_proved
    exact = 1 - 0.99**2 / (1 + math.exp(epsilon))  # the area over the curve of (ε, δ)
    assert exact <= found["auc"] < exact + 0.01
    assert found["tpr_01"] == pytest.approx(math.exp(epsilon) * 0.01 + 0.01)


# --- bounds and planted leaks --------------------------------------------------------------------


def test_a_model_that_memorises_one_class_is_found_by_the_nodes_that_shadows_name():
    labels = np.arange(400) % 4
    coins, moved = drawn(80, 400, np.where(labels == 2, 5.0, 0.0))
    score = Shadows(moved[:40], coins[:40])
    design = FixedDesign.of(score.ratios()["online"], coins[:40])
    assert (labels[design.nodes] == 2).mean() > 0.9
    guesses = design.guess(score.ratios(moved[40:])["online"], coins[40:])
    assert guesses.canaries == 40 * 100 and guesses.guesses == 400
    assert guesses.epsilon(1e-5) > 2
    coins, same = drawn(80, 400, 0.0)
    score = Shadows(same[:40], coins[:40])
    design = FixedDesign.of(score.ratios()["online"], coins[:40])
    honest = score.ratios(same[40:])["online"]
    assert design.guess(honest, coins[40:]).epsilon(1e-5) < 0.3
    sure = surest(honest, coins[40:])
    assert sure.epsilon(1e-12) < 0.3 and (sure.canaries, sure.guesses) == (40 * 400, 40 * 2 * 8)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_nobody_is_guessed_twice_in_a_model(n):
    coins, moved = drawn(40, n, 8.0)
    sure = surest(Shadows(moved, coins).ratios()["online"], coins)
    assert (sure.canaries, sure.guesses) == (40 * n, 40 * min(n, 2)) and sure.epsilon(1e-12) > 0


def test_published_classes_that_read_private_edges_are_found(generator):
    coins = generator.random((120, 60)) < 0.5
    near = np.eye(60, dtype=bool)
    leaking = np.where(generator.random((120, 60)) < 0.7, coins, ~coins).astype(int)
    models = shadow_models.Models(
        np.arange(60), coins, leaking, np.zeros(120), 0.5, 2, near=near
    )  # fmt: skip
    assert (
        rates(membership.scored(models, None).shadows[PUBLISHED, "online"], coins)["auc"][1] > 0.6
    )
    silent = replace(models, classes=generator.integers(2, size=(120, 60)))
    assert (
        rates(membership.scored(silent, None).shadows[PUBLISHED, "online"], coins)["auc"][1] < 0.5
    )


@pytest.mark.long
def test_class_sums_without_noise_but_with_a_proof_end_the_run(dataset, monkeypatch):
    job = job_of("class_sums", "text", "sound", shadows=6, targets=12)
    context, trainer, trained = Context(), shadow_models.trainer, []

    def noted(*asked):
        train = trainer(*asked)
        return lambda numbers: trained.extend(numbers) or train(numbers)

    train = trainer(job, dataset, context)
    shadows, targets = train(range(6)), train(range(6, 18))
    assert not (shadows.coins[:, None] == targets.coins[None]).all(axis=2).any()
    scores = membership.scored(shadows, targets)
    assert scores.fixed_in_advance() == ("noisy sums", "decoding")
    with pytest.raises(UserError, match="breaks its proof"):
        membership.bounds(scores, shadows.coins, targets.coins, guarantee_of(1.0))
    free = membership.bounds(scores, shadows.coins, targets.coins, guarantee_of())
    assert max(each.value for each in free if each.measure.startswith("epsilon_shown")) > 3
    _, low, _ = membership.rates(scores.targets["noisy sums", "decoding"], targets.coins)["auc"]
    assert low > guarantee_of(8.0).allowed()["auc"], "above the curve of a stated ε = 8 too"
    honest = job.model_copy(update={"epsilons": (1.0,)})
    guarantee = leaks.Guarantee.of(honest, dataset, context)
    monkeypatch.setattr(shadow_models, "trainer", noted)
    found = {(each.score, each.measure): each.value
             for each in membership.attack(honest, dataset, guarantee, context)}  # fmt: skip
    assert trained == list(range(18)), "no shadow is a target"
    allowed = found["", "allowed_auc"]
    assert allowed == pytest.approx(0.575, abs=0.01)
    assert 0.5 < found["decoding", "auc"] < allowed + 0.03
    assert found["decoding", "epsilon_shown"] < guarantee.epsilon_proved <= 1


def test_a_bound_chooses_its_design_on_shadows_alone():
    (coins, scores), (_, noise) = drawn(20, 400, 1.0), drawn(20, 400, 0.0)
    key = (TOGETHER, "online")
    found = membership.bounds(Scored({key: scores}, {key: noise}), coins, coins, guarantee_of())
    design = FixedDesign.of(scores, coins)
    right = next(each.value for each in found if each.measure == "epsilon_shown_right")
    assert right == design.guess(noise, coins).right / (20 * membership.GUESSES)


def test_bounds_read_all_views_together_where_nothing_is_decoded():
    keys = (("features", "online"), ("whole", "plain"), (TOGETHER, "online"), (PUBLISHED, "online"))
    assert Scored(dict.fromkeys(keys)).fixed_in_advance() == (TOGETHER, "online")


# --- jobs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("left_out", ["absent", "unlabelled"])
def test_an_attack_on_a_gcn_becomes_rows(left_out, dataset):
    settings = {"optimizer": "adam", "epochs": 30, "learning_rate": 0.05}
    job = job_of(settings=settings, shadows=8, left_out=left_out)
    document = leaks.run_job(job, dataset)
    rows = leak_rows(job, document)
    assert set(LEAK_COLUMNS) <= set(rows[0]) and {row["source"] for row in rows} == {"leaks"}
    found = {
        (row["sees"], row["score"], row["measure"]): row for row in rows if row["who"] == "all"
    }
    assert found["whole", "online", "auc"]["value"] > 0.6
    assert found["whole", "online", "auc"]["left_out"] == left_out
    assert sum(row["seconds"] for row in rows) == pytest.approx(document["seconds"])
    with pytest.raises(UserError, match="delete its folder"):
        leak_rows(job, {"guarantee": {}, "measured": []})


def test_nothing_about_the_noise_depends_on_who_is_left_out(dataset):
    """The stated releases of a model on half of the nodes are those of the model on all."""
    job = job_of(protocol="sound", epsilon=2.0, settings={"optimizer": "sgd", "epochs": 5})
    guarantee = leaks.Guarantee.of(job, dataset, Context())
    assert guarantee.epsilon_proved <= 2 and guarantee.unit == SCENARIOS["nodes"].unit
    task, requests = planned(job, dataset)
    door = Door.of([each.streams for each in requests])
    half = np.flatnonzero(dataset.train_mask)[::2]
    _, (noise,) = gcn.fit(task, requests, door, Context(), gcn.Members([half], "absent"))
    door.close()
    assert door.events() == [guarantee.events] and noise == guarantee.noise_multiplier


def test_a_node_that_is_left_out_stays_a_unit(dataset):
    task, _ = planned(job_of("dp_linear", "graph", "sound", epsilon=2.0), dataset)
    kept = np.arange(task.n_train) % 3 == 0
    some = with_members(task, kept)
    assert some.n_units == task.n_units and some.n_train == kept.sum()
    assert np.array_equal(some.train_labels, task.train_labels[kept])
    assert (some.train_to_public != task.train_to_public[kept]).nnz == 0
    assert some.test_features is task.test_features


def test_no_run_tells_logits_and_the_reference_engine_is_not_attacked(dataset, monkeypatch):
    nobody = np.zeros(0, np.int64)
    told = Outcome(nobody, nobody, logits=np.zeros((1, 2)))
    monkeypatch.setattr(run.Runner, "_outcomes", lambda *_: [told])
    with pytest.raises(ReleaseMismatch, match="no attack asked for"):
        run.answer(job_of(), dataset, UNSEEN)
    train = shadow_models.trainer(job_of(settings={"engine": "reference"}), dataset, Context())
    with pytest.raises(UserError, match="random halves"):
        train(range(2))


def test_models_on_all_nodes_are_the_models_without_coins():
    dataset = with_parts(random_graph(5))
    job = job_of(protocol="paper", epsilon=2.0, settings={"optimizer": "adam", "epochs": 4})
    task, requests = planned(job, dataset)
    everybody = np.flatnonzero(dataset.train_mask)
    found = [
        gcn.fit(task, requests, Door.of([each.streams for each in requests]), Context(), members)[0]
        for members in (None, *(gcn.Members([everybody], how) for how in ("absent", "unlabelled")))
    ]
    for other in found[1:]:
        assert np.array_equal(other.parameters, found[0].parameters)
        assert np.array_equal(other.test_predictions, found[0].test_predictions)
