"""ε of what others print: minibatches, Laplace noise, groups, event trees, attack scores."""

from __future__ import annotations

import itertools
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import refused

from private_graphs.attacks.scores import _repeated
from private_graphs.privacy import composition
from private_graphs.privacy.accountants import gdp_delta, gdp_epsilon
from private_graphs.privacy.audits import Errors, two_point_epsilon
from private_graphs.privacy.dp_events import NUMBERS, DpEvents, dp_events
from private_graphs.privacy.queries import LATTICE_RATIO, GaussianQuery, lattice_distance


@pytest.mark.parametrize("relation", ["replace", "zero_out", "add_remove"])
def test_neighbours_with_other_minibatches_have_no_price(run, relation):
    """One record more makes a second step of 101 records in batches of 100: anyone sees that."""
    for n in (100, 101):
        flags = ("--noise-multiplier", 4, "--epochs", 1, "--batch-size", 100, "--n", n)
        found = run("epsilon", *flags, "--relation", relation).json
        assert (found["if_shuffled"] is None) == (relation == "add_remove")
        assert found["steps"] == n - 99
        [of_shuffled] = [each for each in found["supposes"] if "if_shuffled" in each]
        assert ("null" in of_shuffled) == (relation == "add_remove")


FULL, SAMPLED = ("--steps", 9), ("--steps", 9, "--sampling-rate", 0.1)
MINIBATCHES = ("--epochs", 2, "--batch-size", 10, "--n", 95)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        *((("--relation", relation, *more), (moved, coins))
          for relation, moved in (("replace", "becomes any other"), ("zero_out", "becomes zero"),
                                  ("add_remove", "appears or vanishes"))
          for more, coins in ((FULL, "reads all records"), (SAMPLED, "secret coin"),
                              (MINIBATCHES, "secret coin"))),
        (("--accountant", "moments", *SAMPLED), ("appears or vanishes", "secret coin")),
        (("--accountant", "cancelling", *SAMPLED), ("appears or vanishes", "bounds nothing")),
        (("--accountant", "gdp", *FULL), ("becomes any other", "reads all records")),
        (("--group", 3, *SAMPLED), ("each of 3 records", "secret coin")),
        (("--mechanism", "laplace", *FULL), ("one number", "pure_epsilon alone")),
        (("--mechanism", "laplace", "--group", 2, *FULL), ("each of 2 records", "public")),
        (("--mechanism", "randomized-response", *FULL), ("each step is an answer", "public")),
    ],
)  # fmt: skip
def test_each_printed_number_says_what_it_supposes(run, flags, words):
    found = run("epsilon", "--noise-multiplier", 4, *flags).json
    text = "; ".join(found["supposes"])
    assert all(word in text for word in words), text
    assert "the same for neighbours" in text
    calibrated = not {"--mechanism", "--group", "--epochs", "cancelling"} & set(flags)
    # A search for the noise of sampled steps takes long but by the formula.
    if calibrated and ("--sampling-rate" not in flags or "moments" in flags):
        assert run("noise", "--epsilon", 2, *flags).json["supposes"] == found["supposes"]


def test_groups_laplace_noise_and_answers():
    one = composition.priced("gaussian", 2 / 0.2680511, 1, group=5, accountant="gdp")
    assert one["epsilon"] == pytest.approx(6.167, abs=1e-3) and one["bound"] == "exact"
    sampled = composition.priced("gaussian", 0.8, 50, rate=0.002, group=5)["epsilon"]
    assert sampled == pytest.approx(1.599, abs=2e-3)
    shuffled = composition.priced("gaussian", 4.0, 100, rate=0.01, group=2, shuffled=9)
    assert shuffled["if_shuffled"] == pytest.approx(gdp_epsilon(2 * 2 * 3 / 4, 1e-5))
    assert composition.priced("laplace", 2.0, 3, group=2)["pure_epsilon"] == 3.0
    assert composition.priced("randomized-response", 0.5, 1)["epsilon"] <= 0.5


def test_event_trees_of_statements_compose(run, tmp_path):
    tree = {"class": "GaussianDpEvent", "noise_multiplier": 1 / 0.2680511}
    part = {"event": tree, "neighboring_relation": "ADD_OR_REMOVE_ONE"}
    less = {"event": tree | {"noise_multiplier": 100.0}}
    path = tmp_path / "events.json"
    first = {"dp_events": [part, less], "relation": "replace"}
    path.write_text(json.dumps([first, {**first, "dp_events": [part]}]))
    found = run("epsilon", "--events", path).json
    assert found["epsilon"] == pytest.approx(1.4656, abs=1e-3) and found["runs"] == 2
    assert found["relation"] == "replace", "the statement's, not the accountant's"
    path.write_text(json.dumps([first, part]))
    refused(run("epsilon", "--events", path), 1, "add_remove and replace")
    path.write_text(json.dumps([{"event": {"class": "__import__"}}]))
    refused(run("epsilon", "--events", path), 1, "cannot price")
    for noise in (1e-320, 1e308, 0, []):
        path.write_text(json.dumps({"event": tree | {"noise_multiplier": noise}}))
        refused(
            run("epsilon", "--events", path), 1, f"{path}: event: found", "; noise_multiplier: exp"
        )
    with pytest.raises(ValueError, match="noise_multiplier: expected positive numbers"):
        DpEvents(event=tree | {"noise_multiplier": []})
    path.write_text("{}")
    refused(run("explain", path), 1, "events.json: has no statement; take the folder anew")
    path.write_text("id,text")
    refused(run("explain", path), 1, "events.json: not readable", "; expected the statement.json")
    path.write_text(json.dumps({"event": tree | {"noise_multiplier": 0.01}}))
    found = run("epsilon", "--events", path).json["epsilon"]  # within memory: tables are bounded
    assert 1 < found / gdp_epsilon(100, 1e-5) < 1.001


@pytest.mark.parametrize("flags", [
    ("--group", 3), ("--relation", "replace"), ("--accountant", "gdp"), ("--paragraph",),
    ("--mechanism", "laplace"), ("--sampling-rate", 0.5), ("--batch-size", 9), ("--steps", 9),
])  # fmt: skip
def test_no_option_is_left_unread_beside_events(run, tmp_path, flags):
    path = tmp_path / "events.json"
    path.write_text(json.dumps(gaussian(1.0)))
    refused(run("epsilon", "--events", path, *flags), 2, f"{flags[0]}: has no effect: the file of")


@pytest.mark.parametrize(("text", "words"), [
    ('{"class": "GaussianDpEvent", "noise_multiplier": 1, "noise_multiplier": 9}',
     "the name 'noise_multiplier' stands twice"),
    ('{"history": [[1.1, 0.01, 1000]], "class": "GaussianDpEvent", "noise_multiplier": 9}',
     "has history, class in one object, expected one of them"),
    ('{"event": {"class": "GaussianDpEvent", "noise_multiplier": 9}, "count": 100}', "count: "),
    ("{}", "has no event; expected dp_events of statements"), ("[]", "has no event"),
    ('{"class": "GaussianDpEvent", "noise_multiplier": true}', "noise_multiplier: expected"),
    ('{"class": "GaussianDpEvent", "noise_multiplier": NaN}', "noise_multiplier: expected"),
    ('{"class": "GaussianDpEvent", "noise_multiplier": 1, "extra": 2}',
     "has extra, noise_multiplier, expected noise_multiplier"),
    (json.dumps({"event": None, "reason": "none"}), "each with an event"),
])  # fmt: skip
def test_events_that_say_two_things_or_nothing_are_refused(run, tmp_path, text, words):
    path = tmp_path / "events.json"
    path.write_text(text)
    refused(run("epsilon", "--events", path), 1, str(path), words)


def gaussian(noise: float) -> dict:
    return {"class": "GaussianDpEvent", "noise_multiplier": noise}


def laplace(noise: float) -> dict:
    return {"class": "LaplaceDpEvent", "noise_multiplier": noise}


def sampled(noise: float, rate: float) -> dict:
    return {
        "class": "PoissonSampledDpEvent",
        "sampling_probability": rate,
        "event": gaussian(noise),
    }


def tree_of(event) -> dict:
    """An event of dp-accounting as JSON: its class, and its own parameters by their names."""
    from attrs import asdict

    def inner(value):
        if isinstance(value, list):
            return list(map(inner, value))
        return tree_of(value) if hasattr(value, "__attrs_attrs__") else value

    fields = {name: inner(value) for name, value in asdict(event, recurse=False).items()}
    return {"class": type(event).__name__, **fields}


def test_events_of_the_library_are_priced_under_its_own_names(run, tmp_path):
    """A bare event, a list of two, and the same through the library itself."""
    from dp_accounting import dp_event, pld

    step = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.1))
    events = dp_event.SelfComposedDpEvent(step, 1000), dp_event.LaplaceDpEvent(4.0)
    path = tmp_path / "events.json"
    for count in (1, 2):
        trees = list(map(tree_of, events[:count]))
        path.write_text(json.dumps(trees[0] if count == 1 else trees))
        found = run("epsilon", "--events", path, "--delta", 1e-6).json
        accountant = pld.PLDAccountant(value_discretization_interval=1e-4)
        for event in events[:count]:
            accountant.compose(event)
        least = accountant.get_epsilon(1e-6)
        assert least <= found["epsilon"] < 1.02 * least, "a coarser table, an upper bound"
        assert found["relation"] == "add_remove" and found["runs"] == count


def test_what_an_accountant_of_opacus_saved_is_priced_under_both_relations(run, tmp_path):
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    for noise, steps in ((1.1, 30), (0.9, 20)):
        for _ in range(steps):
            accountant.step(noise_multiplier=noise, sample_rate=0.01)
    path = tmp_path / "accountant.json"
    path.write_text(json.dumps(accountant.state_dict()))
    found = run("epsilon", "--events", path).json
    for name, key in (("add_remove", "epsilon"), ("replace", "epsilon_replace")):
        least, most = (
            composition.priced("gaussian", noise, 50, rate=0.01, relation=name)["epsilon"]
            for noise in (1.1, 0.9)
        )
        assert least < found[key] < most, "30 steps of one noise and 20 of the other"
    assert found["epsilon"] < accountant.get_epsilon(1e-5), "whose bound is looser"
    for history in ([], [[1.1, 0.01]], [[1.1, "all", 3]], 7):
        path.write_text(json.dumps({"history": history, "mechanism": "rdp"}))
        refused(run("epsilon", "--events", path), 1, "history is")


def test_the_delta_is_that_of_the_statement_unless_another_is_given(run, tmp_path):
    tree = {"dp_events": [{"event": gaussian(4.0)}], "relation": "replace"}
    path = tmp_path / "statement.json"
    path.write_text(json.dumps(tree | {"delta": 1e-3}))
    found = run("epsilon", "--events", path).json
    assert found["delta"] == 1e-3 and found["epsilon"] == pytest.approx(gdp_epsilon(0.25, 1e-3))
    assert run("epsilon", "--events", path, "--delta", 1e-7).json["delta"] == 1e-7
    path.write_text(json.dumps([tree | {"delta": 1e-3}, tree | {"delta": 1e-5}]))
    refused(run("epsilon", "--events", path), 1, "give --delta")
    path.write_text(json.dumps([tree | {"unit": "person"}, tree | {"unit": "document"}]))
    refused(run("epsilon", "--events", path), 1, "about units document, person", "expected one")
    path.write_text(json.dumps(tree | {"delta": "small"}))
    refused(run("epsilon", "--events", path), 1, "expected a number")


@pytest.mark.long
@pytest.mark.parametrize(
    "runs",
    [
        [[gaussian(4.0), laplace(1.1)], [gaussian(4.0)]],
        [[gaussian(4.0), laplace(1.1)]] * 3,
        [[gaussian(4.0), laplace(1.1)], [sampled(0.7, 0.1), gaussian(5.0), gaussian(3.0)]],
        [[laplace(3.0), gaussian(8.0), sampled(0.9, 0.2)], [laplace(1.3), gaussian(3.5)]],
    ],
)
def test_the_costliest_parts_are_those_that_cost_most_together(run, tmp_path, runs):
    """Profiles cross: a part that costs less alone can cost more beside others."""
    path = tmp_path / "events.json"
    path.write_text(json.dumps([{"dp_events": [{"event": each} for each in one]} for one in runs]))
    found = run("epsilon", "--events", path).json
    assert "one part of each" in found["supposes"][0]
    ways = list(itertools.product(*runs))
    every = [
        composition._price([(each, 1) for each in way], "ADD_OR_REMOVE_ONE", 1e-5) for way in ways
    ]
    assert found["epsilon"] == pytest.approx(max(every), rel=1e-6)
    if len(runs) == 2 and len(runs[1]) == 1:
        alone = [
            max(one, key=lambda each: composition._price([(each, 1)], "ADD_OR_REMOVE_ONE", 1e-5))
            for one in runs
        ]
        assert every[ways.index(tuple(alone))] < found["epsilon"] - 0.4


def test_so_many_parts_that_none_costs_most_are_refused(run, tmp_path):
    path = tmp_path / "events.json"
    parts = [{"dp_events": [{"event": gaussian(4.0 + k)}, {"event": laplace(1.1)}]}
             for k in range(9)]  # fmt: skip
    path.write_text(json.dumps(parts))
    refused(run("epsilon", "--events", path), 1, "512 ways")
    easy = [{"dp_events": [{"event": gaussian(9.0 + k)}, {"event": gaussian(8.0)}]}
            for k in range(9)]  # fmt: skip
    path.write_text(json.dumps(easy))
    assert run("epsilon", "--events", path).json["epsilon"] == pytest.approx(
        gdp_epsilon(3 / 8, 1e-5), abs=1e-3
    )


@pytest.mark.parametrize("odd", [
    gaussian(-0.01),
    {"class": "SelfComposedDpEvent", "event": gaussian(9.0), "count": 0.5},
    {"class": "GaussianDpEvent", "noise_multiplier": "9"},
])  # fmt: skip
def test_a_part_that_another_covers_is_read_all_the_same(run, tmp_path, odd):
    path = tmp_path / "events.json"
    path.write_text(json.dumps([{"dp_events": [{"event": gaussian(1.0)}, {"event": odd}]}]))
    refused(
        run("epsilon", "--events", path),
        1,
        str(path),
        "expected positive numbers"
        if "noise_multiplier" in odd
        else "count 0.5; expected a whole number",
    )


def test_answers_composed_with_themselves_all_count(run, tmp_path):
    answer = {"class": "RandomizedResponseDpEvent", "noise_parameter": 0.5, "num_buckets": 2}
    inside = {"class": "ComposedDpEvent", "events": [answer, gaussian(9.0)]}
    found = []
    for event in ({"class": "ComposedDpEvent", "events": [inside] * 5},
                  {"class": "SelfComposedDpEvent", "event": inside, "count": 5}):  # fmt: skip
        part = {"event": event, "neighboring_relation": "REPLACE_ONE"}
        (tmp_path / "events.json").write_text(json.dumps(part))
        found.append(run("epsilon", "--events", tmp_path / "events.json").json["epsilon"])
    assert found[0] == pytest.approx(found[1], abs=1e-6) and found[0] > 5


def test_the_largest_part_of_gaussian_runs_together_is_that_of_every_choice():
    noises = ((4.0, 9.0), (7.0,), (30.0, 5.0, 6.0))
    runs = [
        SimpleNamespace(
            delta=1e-5, unit="person", relation="replace", reads_nothing=False, epsilon_proved=1.0,
            epsilon_all_runs=1.0, n_runs_released=1, dp_events=[
                DpEvents(event=gaussian(noise))
                for noise in one
            ],
        )
        for one in noises
    ]  # fmt: skip
    every = [math.hypot(*(1 / noise for noise in way)) for way in itertools.product(*noises)]
    assert composition.together(runs)[0] == pytest.approx(
        max(gdp_epsilon(mu, 1e-5) for mu in every), abs=1e-4
    )


def test_many_lattice_releases_take_their_share_of_delta():
    tree = {"class": "SelfComposedDpEvent", "count": 10**6,
            "event": {"class": "GaussianDpEvent", "noise_multiplier": 1e3}}  # fmt: skip
    part = DpEvents(event=tree)
    one = SimpleNamespace(
        delta=1e-5, unit="person", relation="replace", reads_nothing=False, epsilon_proved=4.4,
        epsilon_all_runs=4.4, n_runs_released=1, dp_events=[part],
    )  # fmt: skip
    epsilon, delta = composition.together([one])
    distance = lattice_distance(LATTICE_RATIO, 2**20 * 10**6)
    assert delta == 1e-5 and distance > 1e-8
    assert gdp_delta(1.0, epsilon) + (1 + math.exp(epsilon)) * distance <= delta


@pytest.mark.parametrize("classes", [255, 300, 10**6])
def test_releases_together_pay_for_all_numbers_of_their_lattices(classes):
    """Sums of more than 255 classes have more numbers than is supposed of one release."""
    numbers = 4097 * classes
    query = GaussianQuery(
        unit="person", relation="replace", count=1, reason="sums", sensitivity=0.2680511,
        noise_std=1.0, spacing=LATTICE_RATIO, dimension=numbers,
    )  # fmt: skip
    [part] = dp_events([query], (), ("person", "replace", 1e-5), True)
    assert part.lattice_numbers == (numbers if numbers > NUMBERS else None)
    again = DpEvents.model_validate_json(part.model_dump_json())
    assert again == part
    assert ("lattice_numbers" in part.model_dump()) == (numbers > NUMBERS), "older ones stay"
    one = SimpleNamespace(
        delta=1e-5, unit="person", relation="replace", reads_nothing=False, epsilon_proved=1.0,
        epsilon_all_runs=1.0, n_runs_released=1, dp_events=[again],
    )  # fmt: skip
    epsilon, delta = composition.together([one] * 20)
    distance = 20 * query.total_variation
    assert (
        gdp_delta(math.sqrt(20) * 0.2680511, epsilon) + (1 + math.exp(epsilon)) * distance <= delta
    )


def test_runs_that_are_written_twice_are_seen_and_the_verdict_says_so(run, tmp_path):
    """With each run twice, half of them choose the threshold for themselves: the bound is false."""
    rng = np.random.default_rng(1)
    files = tmp_path / "with.csv", tmp_path / "without.csv"

    def found(with_it: np.ndarray, without: np.ndarray) -> dict:
        for path, scores in zip(files, (with_it, without), strict=True):
            np.savetxt(path, scores)
        text = run("audit", "--scores", *files, "--claim", 9).out
        told = run("audit", "--scores", *files, "--claim", 9, "--json").json
        assert ("WARNING" in text) == bool(told["warning"]) == bool(told["repeated"])
        return told

    one, two = rng.normal(1, 1, 100), rng.normal(0, 1, 100)
    assert found(np.repeat(one, 2), np.repeat(two, 2))["repeated"] == 200
    assert found(np.repeat(one, 2), rng.normal(0, 1, 200))["repeated"] == 100
    shifted = np.r_[one[:1], np.repeat(one, 2)[:-1]]  # pairs that begin at even places, too
    assert found(shifted, np.repeat(two, 2))["repeated"] >= 199
    coarse = rng.integers(0, 3, 400).astype(float)  # few values repeat by chance
    assert found(coarse, rng.permutation(coarse))["repeated"] == 0
    assert found(np.ones(200), np.zeros(200))["repeated"] == 0, "an attack that is never wrong"
    assert found(one, two)["repeated"] == 0
    false = sum(
        bool(_repeated(rng.choice([0.0, 1.0, 2.0], 60, p=[0.6, 0.3, 0.1]))) for _ in range(2000)
    )
    assert false == 0


def test_scores_of_any_attack_give_a_bound_that_holds(run, tmp_path):
    rng = np.random.default_rng(0)
    with_it, without = tmp_path / "with.csv", tmp_path / "without.csv"
    np.savetxt(with_it, rng.normal(6, 1, 2000))
    np.savetxt(without, rng.normal(0, 1, 2000))
    found = run("audit", "--scores", with_it, without, "--claim", 2, "--json").json
    assert found["refuted"] and 4 < found["epsilon_lower"] < 6
    np.savetxt(without, rng.normal(6, 1, 2000))
    found = run("audit", "--scores", with_it, without, "--claim", 2, "--json").json
    assert found["refuted"] is False and found["epsilon_lower"] < 0.3
    np.savetxt(with_it, np.tile([6, 0], 1000))  # the runs that choose the threshold tell, no others
    np.savetxt(without, np.zeros(2000))
    found = run("audit", "--scores", with_it, without, "--json").json
    assert found["epsilon_lower"] == 0 and found["runs"] == [1000, 1000]
    np.savetxt(with_it, np.ones(2000))
    found = run("audit", "--scores", with_it, without, "--json").json
    never_wrong = two_point_epsilon(Errors(0, 1000, 0, 1000), 1e-5, found["confidence"])
    assert found["epsilon_lower"] == pytest.approx(never_wrong) and found["confidence"] == 0.999
    without.write_text("score\nhigh\n")
    refused(run("audit", "--scores", with_it, without), 1, "without.csv: row 1")
