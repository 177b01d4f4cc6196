"""From ε to the noise, events and statement of the GCN, by the fields of its protocol."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from small_graphs import random_graph
from small_jobs import job_of, untrained

from private_graphs.methods.gcn_protocols import (
    PAPER,
    PRINTED_EPOCHS,
    PRINTED_NOISE,
    PROTOCOLS,
    SOUND,
    GcnSettings,
    noise_multiplier,
    printed_noise,
    training_event,
)
from private_graphs.privacy.accountants import gdp_epsilon
from private_graphs.privacy.moments import moments_noise
from private_graphs.running.jobs import Chosen
from private_graphs.running.run import execute
from private_graphs.training import engine

DELTA = 1e-5
JOB = {"seeds", "epsilons", "delta", "choose", "chosen", "group"}


@pytest.fixture(autouse=True)
def nothing_is_trained(monkeypatch):
    monkeypatch.setattr(engine, "train", untrained())


def settings_of(optimizer="adam", **changes) -> dict:
    return {"optimizer": optimizer, "epochs": PRINTED_EPOCHS[optimizer], "splits": 1} | changes


def bought(epsilon: float, protocol="paper", *, dataset=None, search=None, **how):
    """The row of a run at ``epsilon`` and its statement; ``search`` is (job, its rows)."""
    fields = {"seeds": (0,), "epsilons": (epsilon,)}
    fields |= {key: how.pop(key) for key in JOB & set(how)}
    source = how.pop("noise_source", "seeded")
    if search is not None:
        fields |= {"chosen": Chosen(job=search[0], epsilon=5.0), "choose": search[0].choose}
    job = job_of(protocol=protocol, settings=settings_of(**how), **fields)
    result = execute(
        job, dataset or random_graph(0), noise_source=source, chosen=search and search[1]
    )
    rows = result.rows[result.rows["epsilon"] == epsilon]
    row = {name: None if value != value else value for name, value in rows.iloc[0].items()}
    said = SimpleNamespace(**result.statements[row["statement_id"]])
    return SimpleNamespace(**row | {"said": said})


SIX = {"learning_rate": (0.01, 0.1, 1, 10, 50, 100)}


def searched(protocol="paper", *, dataset=None, choose=SIX, seeds=5, **how):
    """A finished choice at ε = 5, with noise 50 unless it is another, and its rows."""
    how = {"noise_multiplier": 50.0} | how
    job = job_of(
        protocol=protocol, settings=settings_of(**how), choose=choose, group="selection",
        epsilons=(5.0,), seeds=tuple(range(seeds)),
    )  # fmt: skip
    return job, execute(job, dataset or random_graph(0)).rows


@pytest.mark.parametrize("protocol", ["released", "paper"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize(
    ("epsilon", "claimed"), [(2, 1.9958), (5, 4.9068), (10, 9.7548), (137, 136.5129)]
)
def test_the_full_graph_takes_the_printed_noise_and_claims_what_the_formula_says(
    protocol, optimizer, epsilon, claimed
):
    found = bought(epsilon, protocol, optimizer=optimizer)
    assert found.noise_multiplier == PRINTED_NOISE[optimizer][epsilon]
    assert found.epsilon_claimed == pytest.approx(claimed, abs=6e-5)


@pytest.mark.parametrize(
    ("epsilon", "change"),
    [(1, {}), (2, {"epochs": 100}), (2, {"splits": 10}), (2, {"delta": 1e-6})],
)
def test_everything_else_takes_the_formula(epsilon, change):
    delta = change.pop("delta", DELTA)
    settings = GcnSettings(**settings_of(**change))
    assert printed_noise(epsilon, settings, delta) is None
    found = noise_multiplier(epsilon, settings, PAPER, delta)
    steps = settings.splits * settings.epochs
    assert found == moments_noise(epsilon, steps, 1 / settings.splits, delta)


@pytest.mark.parametrize(("epsilon", "proved"), [(1, 5.889), (2, 13.371)])
def test_paper_with_shuffled_splits_has_the_proved_value_of_the_cyclic_schedule(epsilon, proved):
    found = bought(epsilon, "paper", splits=10)
    assert found.epsilon_proved == pytest.approx(proved, abs=2e-3)
    assert found.epsilon_claimed <= epsilon
    assert found.said.mechanisms[0]["sampling"] == "shuffle(10)"
    exact = gdp_epsilon(2 * math.sqrt(500) / found.noise_multiplier, DELTA)
    assert found.epsilon_proved == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("splits", [1, 10])
def test_released_proves_nothing_and_clips_nothing(splits):
    found = bought(2, "released", splits=splits)
    assert found.epsilon_proved is None
    assert found.status == "published_only" and found.inference == "leaks"
    assert found.said.mechanisms[0]["clipping"] == "none"


@pytest.mark.parametrize("splits", [1, 10])
@pytest.mark.parametrize("epsilon", [1, 2, 5, 10])
def test_sound_meets_its_target_at_node_level_replace_and_rounds_noise_up(epsilon, splits):
    found = bought(epsilon, "sound", splits=splits)
    sigma = {1: 166.839, 2: 89.166, 5: 39.886, 10: 22.356}[epsilon]  # docs/privacy.md §3
    assert found.noise_multiplier == pytest.approx(sigma, abs=0.0015)
    assert found.noise_multiplier == round(found.noise_multiplier, 3)
    assert found.epsilon_proved <= epsilon
    assert gdp_epsilon(2 * math.sqrt(500) / (found.noise_multiplier - 0.001), DELTA) > epsilon
    assert found.epsilon_claimed is None
    assert (found.unit, found.relation) == ("node", "replace")
    assert (found.status, found.inference) == ("proved_if_seed_secret", "inductive_disjoint")


def test_sound_with_poisson_visits_is_priced_as_poisson():
    found = bought(2, "sound", visits="poisson", splits=10)
    assert found.noise_multiplier == pytest.approx(28.195, abs=0.0015)
    assert found.epsilon_proved <= 2
    assert found.said.mechanisms[0]["sampling"] == "poisson(0.1)"


def test_all_budgets_of_a_job_and_the_search_behind_them_are_in_the_price_of_its_file():
    how = dict(seeds=(0, 1, 2), epsilons=(1.0, 2.0, math.inf))
    found = {each: bought(each, search=searched(), **how).said for each in how["epsilons"]}
    noises = [(bought(each, **how).noise_multiplier, 3) for each in (1.0, 2.0)]
    mu = math.sqrt(sum(4 * 500 * n / noise**2 for noise, n in (*noises, (50.0, 30))))
    for said in found.values():
        assert said.epsilon_of_file == pytest.approx(gdp_epsilon(mu, DELTA), rel=1e-9)
        assert (said.n_rows_counted, said.n_rows_not_counted) == (36, 3)
    assert found[1.0].epsilon_all_runs < found[1.0].epsilon_of_file


def test_epsilon_137_means_136_51_wherever_noise_is_calibrated():
    for protocol, splits in (("sound", 1), ("paper", 10), ("released", 10)):
        named, meant = (bought(epsilon, protocol, splits=splits) for epsilon in (137.0, 136.51))
        assert named.noise_multiplier == meant.noise_multiplier
        assert named.epsilon == 137 and named.said.epsilon_target == 136.51
        assert named.said.vacuous


def test_draws_per_class_touch_more_parts_and_coins_one():
    def touched(protocol, splits, fraction, sample=None):
        settings = GcnSettings(splits=splits, train_fraction=fraction)
        return training_event(settings, protocol, 3.0, sample).relabel_touches

    for protocol in (PAPER, SOUND):
        assert touched(protocol, 1, 0.5) == touched(protocol, 10, 1.0) == 1
    assert (touched(PAPER, 10, 0.5), touched(SOUND, 10, 0.5)) == (3, 1)
    for parts, sample, fraction in (
        (3, "stratified", 1.0), (4, "stratified", 0.5), (3, "keyed_coin", 0.5),
        (1, "keyed_coin", 1.0),
    ):  # fmt: skip
        assert touched(PAPER, 10, fraction, sample) == parts
    whole = bought(2, "paper", splits=10)
    sampled = bought(2, "paper", splits=10, train_fraction=0.5)
    assert sampled.noise_multiplier == whole.noise_multiplier
    assert sampled.epsilon_proved > whole.epsilon_proved


@pytest.mark.parametrize(("protocol", "moved"), [("paper", math.sqrt(3)), ("sound", 1.0)])
def test_a_dataset_that_was_sampled_per_class_is_priced_and_says_so(protocol, moved):
    graph, sample = random_graph(0), PROTOCOLS[protocol].data.node_sample
    words = {"node_sample": sample, "preprocessing": ["nodes were sampled."]}
    dataset = replace(graph, info=graph.info.model_copy(update=words))
    how = dict(splits=10, noise_multiplier=20.0, epochs=100)
    said = bought(5, protocol, dataset=dataset, **how).said
    assert said.epsilon_proved == pytest.approx(gdp_epsilon(moved, DELTA), rel=1e-9)
    assert "odes were sampled" in said.preprocessing
    whole = bought(5, protocol, dataset=dataset, **(how | {"splits": 1})).said
    assert whole.epsilon_proved == pytest.approx(gdp_epsilon(1.0, DELTA), rel=1e-9)
    search = searched(protocol, dataset=dataset, **how)
    said = bought(5, protocol, dataset=dataset, search=search, **how).said
    together = gdp_epsilon(moved * math.sqrt(1 + 30), DELTA)
    assert said.epsilon_all_runs == pytest.approx(together, rel=1e-9)


@pytest.mark.parametrize("protocol", ["paper", "sound"])
def test_a_rate_chosen_elsewhere_is_paid_for_with_the_runs_of_the_search(protocol):
    plain = bought(5, protocol, splits=10, seeds=(0, 1, 2))
    found = bought(5, protocol, splits=10, seeds=(0, 1, 2), search=searched(protocol, splits=10))
    own, other = (2 * math.sqrt(500) / noise for noise in (found.noise_multiplier, 50.0))
    assert found.said.epsilon_all_runs == pytest.approx(
        gdp_epsilon(math.sqrt(3 * own**2 + 30 * other**2), DELTA), rel=1e-9
    )
    assert found.noise_multiplier == plain.noise_multiplier
    assert found.epsilon_proved == plain.epsilon_proved
    assert found.said.n_runs_released == 3 + 30 and found.said.selection["n_configs"] == 6
    assert plain.said.selection["n_configs"] == 1
