"""From ε to noise, events and statement, by the fields of the protocol."""

from __future__ import annotations

import io
import math
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from private_graphs.cells import Cell, CellPlan, RateChoice
from private_graphs.methods.budgets import Budget, budget, epsilon_of_noise, training_event
from private_graphs.methods.search import Search
from small_graphs import random_graph

from private_graphs.datasets import registry
from private_graphs.datasets.own import OwnGraph, read_own
from private_graphs.errors import UserError
from private_graphs.methods.gcn_protocols import PAPER, PROTOCOLS, RELEASED, SOUND, SOUND_POISSON
from private_graphs.privacy.accountants import gdp_epsilon, pld_epsilon
from private_graphs.privacy.events import FullBatch, Poisson, Shuffled

EPOCHS = {"sgd": 2000, "adam": 500}


def plan_of(protocol="paper", optimizer="adam", splits=1, train_fraction=1.0, **changes):
    cell = Cell(
        study="s", experiment="e", dataset="small", optimizer=optimizer, protocol=protocol,
        splits=splits, train_fraction=train_fraction,
    )  # fmt: skip
    settings = dict(seeds=(0,), epsilons=(2.0,), epochs=EPOCHS[optimizer]) | changes
    return CellPlan(cell=cell, **settings)


def bought(epsilon: float, protocol="paper", *, value=None, search=None, **how) -> Budget:
    source = how.pop("noise_source", "seeded")
    dataset = how.pop("dataset", None) or random_graph(0)
    plan = plan_of(protocol, **how)
    return budget(plan, value or PROTOCOLS[protocol], dataset, epsilon, source, search=search)


SIX = (0.01, 0.1, 1, 10, 50, 100)


def searched(protocol="paper", *, noise_multiplier=50.0, n_runs=30, **where) -> Search:
    """A finished choice among six rates at ε = 2."""
    choice = RateChoice(cell=plan_of(protocol, **where).cell, epsilon=2)
    return Search(choice, 10.0, 6, n_runs, noise_multiplier, 500)


@pytest.mark.parametrize("protocol", ["released", "paper"])
@pytest.mark.parametrize(
    ("optimizer", "epsilon", "noise", "published"),
    [
        ("sgd", 2, 112, 1.9958), ("sgd", 5, 48, 4.9068), ("sgd", 10, 26, 9.7548),
        ("sgd", 137, 4, 136.5129), ("adam", 2, 56, 1.9958), ("adam", 5, 24, 4.9068),
        ("adam", 10, 13, 9.7548), ("adam", 137, 2, 136.5129),
    ],
)  # fmt: skip
def test_the_full_graph_takes_the_printed_noise_and_records_the_formula(
    protocol, optimizer, epsilon, noise, published
):
    found = bought(epsilon, protocol, optimizer=optimizer)
    assert found.noise_multiplier == noise
    assert found.epsilon_published == pytest.approx(published, abs=5e-5)


@pytest.mark.parametrize(
    "change", [{"splits": 10}, {"epochs": 499}, {"delta": 1e-6}], ids=lambda each: str(each)
)
def test_printed_noise_is_for_the_papers_own_setting_only(change):
    found = bought(2, **change)
    assert found.noise_multiplier not in (56, 112)
    assert found.epsilon_published <= 2
    assert found.epsilon_published == pytest.approx(2, abs=1e-3)


@pytest.mark.parametrize(("epsilon", "proved"), [(1, 5.889), (2, 13.371)])
def test_paper_with_shuffled_splits_has_the_proved_value_of_the_cyclic_schedule(epsilon, proved):
    found = bought(epsilon, "paper", splits=10)
    assert found.epsilon_proved == pytest.approx(proved, abs=2e-3)
    assert found.epsilon_published <= epsilon
    assert found.statement["mechanisms"][0]["sampling"] == "shuffle(10)"
    exact = gdp_epsilon(2 * math.sqrt(500) / found.noise_multiplier, 1e-5)
    assert found.epsilon_proved == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("splits", [1, 10])
def test_released_proves_nothing_and_clips_nothing(splits):
    found = bought(2, "released", splits=splits)
    assert found.epsilon_proved is None and found.clip is None
    assert found.statement["status"] == "published_only"
    assert found.statement["mechanisms"][0]["clipping"] == "none"
    assert found.statement["inference"] == "leaks"


def test_released_keeps_what_the_authors_accountant_prints_where_it_differs():
    """At ε near 1 on the full graph their alternating sum cancels, at times below nothing."""
    found = bought(1, "released", optimizer="sgd").built
    assert 1e-5 < found.epsilon_published - found.authors_accountant_epsilon < 1e-3
    found = bought(1, "released", optimizer="sgd", noise_multiplier=220.0).built
    assert found.authors_accountant_epsilon == pytest.approx(-0.148, abs=1e-3)
    assert found.epsilon_published == pytest.approx(0.996, abs=1e-3)
    assert bought(1, "paper", optimizer="sgd").built.authors_accountant_epsilon is None
    assert bought(2, "released", optimizer="sgd").built.authors_accountant_epsilon is None


@pytest.mark.parametrize("splits", [1, 10])
@pytest.mark.parametrize("epsilon", [1, 2, 5, 10])
def test_sound_meets_its_target_at_node_level_replace_and_rounds_noise_up(epsilon, splits):
    found = bought(epsilon, "sound", splits=splits)
    sigma = {1: 166.839, 2: 89.166, 5: 39.886, 10: 22.356}[epsilon]  # docs/privacy.md §3
    assert found.noise_multiplier == pytest.approx(sigma, abs=0.0015)
    assert found.noise_multiplier == round(found.noise_multiplier, 3)
    assert found.epsilon_proved <= epsilon
    assert gdp_epsilon(2 * math.sqrt(500) / (found.noise_multiplier - 0.001), 1e-5) > epsilon
    assert found.epsilon_published is None
    assert (found.unit, found.relation) == ("node", "replace")
    assert found.statement["status"] == "proved_if_seed_secret"
    assert found.statement["inference"] == "inductive_disjoint"
    assert found.clip == 1.0


def test_sound_with_poisson_visits_is_priced_as_poisson():
    found = bought(2, "sound", value=SOUND_POISSON, splits=10)
    assert found.noise_multiplier == pytest.approx(28.195, abs=0.0015)
    assert found.epsilon_proved <= 2
    assert found.statement["mechanisms"][0]["sampling"] == "poisson(0.1)"


def test_all_budgets_of_a_cell_and_the_search_behind_them_are_in_the_price_of_its_file():
    how = dict(seeds=(0, 1, 2), epsilons=(1.0, 2.0, math.inf), chosen_in=searched().choice)
    found = {each: bought(each, search=searched(), **how).built for each in how["epsilons"]}
    noises = [(bought(each, **how).noise_multiplier, 3) for each in (1.0, 2.0)]
    mu = math.sqrt(sum(4 * 500 * n / noise**2 for noise, n in (*noises, (50.0, 30))))
    for statement in found.values():
        assert statement.epsilon_of_file == pytest.approx(gdp_epsilon(mu, 1e-5), rel=1e-9)
        assert (statement.n_rows_counted, statement.n_rows_not_counted) == (36, 3)
    assert found[1.0].epsilon_all_runs < found[1.0].epsilon_of_file


def test_a_file_with_unclipped_rows_proves_nothing_together():
    statement = bought(2, "released", epsilons=(2.0, math.inf)).built
    assert statement.epsilon_of_file is None and statement.n_rows_counted == 1
    assert "nothing is proved" in statement.proof_of_file


def test_epsilon_137_means_136_51_wherever_noise_is_calibrated():
    for protocol, splits in (("sound", 1), ("paper", 10), ("released", 10)):
        named, meant = (
            bought(epsilon, protocol, splits=splits) for epsilon in (137.0, 136.51)
        )  # fmt: skip
        assert named.noise_multiplier == meant.noise_multiplier
        assert named.epsilon == 137
        assert named.built.epsilon_target == 136.51
        assert named.built.vacuous


@pytest.mark.parametrize(
    ("protocol", "splits", "sampling", "releases"),
    [
        (PAPER, 1, FullBatch(parts=1), 500),
        (PAPER, 10, Shuffled(parts=10), 5000),
        (SOUND, 10, FullBatch(parts=10), 500),
        (SOUND_POISSON, 10, Poisson(rate=0.1), 5000),
        (RELEASED, 10, Shuffled(parts=10), 5000),
    ],
)
def test_the_event_says_what_training_releases(protocol, splits, sampling, releases):
    event = training_event(plan_of(splits=splits), protocol, 3.0)
    assert (event.sampling, event.releases, event.epochs) == (sampling, releases, 500)
    assert event.noise_multiplier == 3.0 and event.n_tensors == 4
    clips = protocol is not RELEASED
    assert event.clipping == ("gradient_global" if clips else "none")


def test_stratified_fractions_with_splits_touch_three_parts_and_coins_one():
    touched = {
        (protocol.name, splits, fraction): training_event(
            plan_of(splits=splits, train_fraction=fraction), protocol, 3.0
        ).relabel_touches
        for protocol in (PAPER, SOUND)
        for splits, fraction in ((10, 0.5), (1, 0.5), (10, 1.0))
    }
    assert touched.pop(("paper", 10, 0.5)) == 3
    assert set(touched.values()) == {1}
    whole = bought(2, "paper", splits=10)
    sampled = bought(2, "paper", splits=10, train_fraction=0.5)
    assert sampled.noise_multiplier == whole.noise_multiplier
    assert sampled.epsilon_proved > whole.epsilon_proved


def fake_reddit(folder, monkeypatch, view):
    """The dataset that a tiny archive in the form of Reddit's gives in a view."""
    generator = np.random.default_rng(0)
    row, col = generator.integers(0, 1500, (2, 6000))
    data = {
        "feature": generator.standard_normal((1500, 3)),
        "label": np.arange(1500) % 41,
        "node_types": np.repeat([1, 2, 3], [1300, 100, 100]),
    }
    graph = {"row": row, "col": col, "shape": np.array([1500, 1500]), "format": np.array(b"coo")}
    (folder / "reddit").mkdir()
    with zipfile.ZipFile(folder / "reddit" / "reddit.zip", "w") as archive:
        for name, values in (("data", data), ("graph", graph)):
            stream = io.BytesIO()
            np.savez(stream, **values)
            archive.writestr(f"reddit_{name}.npz", stream.getvalue())
    monkeypatch.setattr(registry, "raw_records", lambda name, raw_dir: [])
    return registry.build("reddit", folder, view)


@pytest.mark.parametrize(
    ("protocol", "moved", "words"),
    [
        ("paper", math.sqrt(3), "depends on private labels"),
        ("sound", 1.0, "an independent coin of probability 0.1"),
    ],
)
def test_a_dataset_that_was_sampled_per_class_is_priced_and_says_so(
    tmp_path, monkeypatch, protocol, moved, words
):
    dataset = fake_reddit(tmp_path, monkeypatch, PROTOCOLS[protocol].data)
    how = dict(splits=10, noise_multiplier=20.0, epochs=100)
    found = bought(2, protocol, dataset=dataset, **how).built
    assert found.epsilon_proved == pytest.approx(gdp_epsilon(moved, 1e-5), rel=1e-9)
    assert words in found.preprocessing and "raw features" not in found.preprocessing
    assert "made from the posts" in found.preprocessing
    whole = bought(2, protocol, dataset=dataset, **(how | {"splits": 1})).built
    assert whole.epsilon_proved == pytest.approx(gdp_epsilon(1.0, 1e-5), rel=1e-9)

    search = replace(searched(protocol, splits=10, noise_multiplier=20.0), epochs=100)
    found = bought(
        2, protocol, dataset=dataset, chosen_in=search.choice, search=search, **how
    ).built
    together = gdp_epsilon(moved * math.sqrt(1 + 30), 1e-5)
    assert found.epsilon_all_runs == pytest.approx(together, rel=1e-9)


def test_two_draws_per_class_touch_four_parts():
    for draws, node_sample, fraction in (
        (3, "stratified", 1.0),
        (4, "stratified", 0.5),
        (3, "keyed_coin", 0.5),
        (1, "keyed_coin", 1.0),
    ):
        plan = plan_of(splits=10, train_fraction=fraction)
        assert training_event(plan, PAPER, 3.0, node_sample).relabel_touches == draws


def test_after_two_draws_per_class_one_relabelled_node_moves_at_most_four():
    """Each draw takes the first of each class in an order that labels do not enter."""
    generator = np.random.default_rng(0)

    def drawn(nodes, labels, order, fraction):
        kept = set()
        for label in set(labels):
            members = sorted((n for n in nodes if labels[n] == label), key=order.__getitem__)
            kept |= set(members[: int(len(members) * fraction)])
        return kept

    most = {1: 0, 2: 0}
    for _ in range(3000):
        labels = generator.integers(0, 2, 14).tolist()
        changed = [1 - labels[0], *labels[1:]]
        before = after = set(range(14))
        for number, fraction in ((1, 0.6), (2, 0.5)):
            order = generator.permutation(14)
            before = drawn(before, labels, order, fraction)
            after = drawn(after, changed, order, fraction)
            moved = (before ^ after) | (before & after & {0})
            most[number] = max(most[number], len(moved))
    assert most == {1: 3, 2: 4}


def test_a_delta_too_large_for_the_units_is_refused_under_sound_and_published_only_under_paper():
    many = random_graph(0, nodes=60, train=50)
    with pytest.raises(UserError, match=r"delta x units = 1; expected less than 1"):
        bought(2, "sound", delta=1 / 50, dataset=many)
    found = bought(2, "paper", delta=1 / 50, dataset=many)
    assert found.epsilon_proved is None
    assert found.statement["status"] == "published_only"
    assert bought(2, "sound", delta=1 / 51, dataset=many).epsilon_proved <= 2
    assert bought(math.inf, "sound", delta=1 / 50, dataset=many).noise_multiplier == 0


def test_units_are_the_training_nodes_labelled_or_not():
    dataset = random_graph(0, unlabelled=7)
    assert bought(2, "sound", dataset=dataset).built.n_units == 30


@pytest.mark.parametrize("protocol", ["released", "paper", "sound"])
def test_without_dp_nothing_is_claimed(protocol):
    found = bought(math.inf, protocol)
    assert found.noise_multiplier == 0 and found.clip is None and not found.private
    assert found.unit is None and found.relation is None
    assert found.statement["status"] == "not_private"
    assert found.statement["mechanisms"] == []
    assert found.epsilon_published is None and found.epsilon_proved is None


def test_all_released_runs_compose():
    found = bought(2, "sound", seeds=(0, 1, 2, 3, 4)).built
    assert found.n_runs_released == 5
    assert found.epsilon_all_runs == pytest.approx(5.00136, abs=5e-4)  # docs/privacy.md §5
    six = bought(2, "sound", seeds=(0, 1, 2, 3, 4), private_learning_rates=SIX).built
    assert six.n_runs_released == 30 and six.selection.n_configs == 6
    assert six.epsilon_all_runs > found.epsilon_all_runs


@pytest.mark.parametrize("protocol", ["paper", "sound"])
def test_a_rate_chosen_elsewhere_is_paid_for_with_the_runs_of_the_search(protocol):
    search = searched(protocol, splits=10)
    plain = bought(5, protocol, splits=10, seeds=(0, 1, 2))
    found = bought(
        5, protocol, splits=10, seeds=(0, 1, 2), private_learning_rates=SIX,
        chosen_in=search.choice, search=search,
    )  # fmt: skip
    own, other = (2 * math.sqrt(500) / noise for noise in (found.noise_multiplier, 50.0))
    assert found.built.epsilon_all_runs == pytest.approx(
        gdp_epsilon(math.sqrt(3 * own**2 + 30 * other**2), 1e-5), rel=1e-9
    )
    assert found.noise_multiplier == plain.noise_multiplier
    assert found.epsilon_proved == plain.epsilon_proved
    assert found.built.n_runs_released == 3 + 30 and found.built.selection.n_configs == 6
    words = found.built.selection.data
    assert "30 runs at epsilon = 2 (noise multiplier 50)" in words and "reused here" in words
    assert plain.built.selection.n_configs == 1


def test_a_search_under_released_proves_nothing_and_reads_the_private_graph():
    search = searched("released")
    found = bought(5, "released", chosen_in=search.choice, search=search).built
    assert found.epsilon_all_runs is None and found.n_runs_released == 31
    assert found.selection.cost.startswith("not accounted")


def test_the_search_of_poisson_visits_is_composed_by_pld():
    search = searched("sound", splits=10, noise_multiplier=28.195, n_runs=6)
    found = bought(
        2, "sound", value=SOUND_POISSON, splits=10, chosen_in=search.choice, search=search
    ).built
    assert found.epsilon_all_runs == pytest.approx(
        pld_epsilon(28.195, 7 * 5000, 0.1, 1e-5, "replace"), abs=2e-3
    )


def test_without_dp_a_search_costs_nothing():
    search = searched("sound")
    found = bought(math.inf, "sound", chosen_in=search.choice, search=search).built
    assert found.n_runs_released == 1 and found.selection.n_configs == 1


def test_a_train_fraction_does_not_change_what_a_full_graph_run_costs():
    for protocol in ("paper", "sound"):
        whole, part = (bought(2, protocol, train_fraction=fraction).built for fraction in (1, 0.25))
        assert part.epsilon_proved == whole.epsilon_proved
        used = [fact for fact in part.public_facts if "which training nodes are used" in fact]
        assert len(used) == (protocol == "sound")  # stratified draws depend on the labels


def test_a_kept_seed_is_said_to_be_supposed_secret_and_entropy_is_not():
    seeded, drawn = (
        bought(2, "sound", noise_source=source).built for source in ("seeded", "os_entropy")
    )
    assert any("supposes a secret seed" in each for each in seeded.assumptions)
    assert not any("secret seed" in each for each in drawn.assumptions)
    assert (seeded.noise_source, drawn.noise_source) == ("seeded", "os_entropy")
    assert seeded.statement_id != drawn.statement_id


def test_the_choice_of_a_learning_rate_is_free_on_public_nodes_and_not_under_released():
    def selection(protocol):
        return bought(2, protocol, private_learning_rates=SIX).built.selection

    assert selection("paper").public and selection("sound").public
    assert not selection("released").public
    assert "whole graph" in selection("released").data
    assert bought(2, "released").built.selection.public  # one configuration: nothing is chosen


def test_the_partition_is_declared_public_where_there_is_one():
    assert "partition" in " ".join(bought(2, "sound", splits=10).built.public_facts)
    assert "partition" not in " ".join(bought(2, "sound").built.public_facts)


def test_a_statement_declares_what_the_dataset_declares_and_nothing_twice(tmp_path):
    dataset = registry.build("synthetic-planetoid", tmp_path)
    facts = bought(2, "sound", dataset=dataset, splits=10).built.public_facts
    assert facts[: len(dataset.info.public_facts)] == tuple(dataset.info.public_facts)
    assert len(set(facts)) == len(facts)
    for words in ("number of nodes", "vocabulary", "masks", "validation and test nodes"):
        assert sum(words in each for each in facts) == 1
    assert not any("number of words" in each for each in facts)  # the vocabulary says it


@pytest.mark.parametrize("features", ["bow", "fasttext"])
def test_the_statement_of_an_own_graph_names_ids_classes_and_texts(tmp_path, features):
    texts = ["red fox", "red hen", "blue fox", "blue hen"] * 5
    rows = [f"n{n},{text},{'ab'[n % 2]}" for n, text in enumerate(texts)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,text,label", *rows]) + "\n")
    (tmp_path / "edges.csv").write_text("source,target\nn0,n1\n")
    own = OwnGraph(
        name="mine", nodes=tmp_path / "nodes.csv", edges=tmp_path / "edges.csv",
        text=("text",), label="label",
    )  # fmt: skip
    graph = read_own(own, PROTOCOLS["sound"].data)
    dataset = graph.with_features(np.ones((20, 2), np.float32), features, ["made"], [])
    facts = bought(2, "sound", dataset=dataset).built.public_facts
    assert set(graph.info.public_facts) <= set(facts)
    said = " ".join(facts)
    assert "their ids" in said and "names of the classes" in said
    assert "with their texts, labels and mutual edges" in said
    assert ("number of words" in said) == (features == "bow")


@pytest.mark.parametrize("splits", [1, 10])
@pytest.mark.parametrize("protocol", ["released", "paper", "sound"])
def test_given_noise_is_kept_and_priced(protocol, splits):
    found = bought(3.0, protocol, splits=splits, noise_multiplier=50.0)
    assert found.noise_multiplier == 50.0
    assert found.built.epsilon_target is None
    value = epsilon_of_noise(plan_of(protocol, splits=splits), PROTOCOLS[protocol], 50.0)
    expected = found.epsilon_proved if protocol == "sound" else found.epsilon_published
    assert value == pytest.approx(expected, rel=1e-9)


def test_protocols_are_read_by_their_fields_not_by_their_name():
    """A released protocol that clips is priced; a paper that does not is not."""
    clipping = replace(RELEASED, clipping="global_norm")
    assert bought(2, "released", value=clipping).epsilon_proved is not None
    assert bought(2, "paper", value=replace(PAPER, clipping="none")).epsilon_proved is None
    proved = replace(PAPER, calibration="proved")
    assert bought(2, "paper", value=proved).epsilon_proved <= 2


def test_no_statement_holds_a_number_that_json_cannot():
    for protocol in ("released", "paper", "sound"):
        for epsilon in (0.5, 2, 137, math.inf):
            statement = bought(epsilon, protocol).statement
            numbers = [value for value in statement.values() if isinstance(value, float)]
            assert np.isfinite(numbers).all()
