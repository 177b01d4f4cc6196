"""Perceptron on records: events and prices, claims, what may be read, neighbours, microbatches."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from answers import answers

from private_graphs.core.errors import UserError
from private_graphs.core.streams import Streams
from private_graphs.datasets.image_dataset import ImageDataset
from private_graphs.methods import method_named
from private_graphs.privacy.accountants import price
from private_graphs.privacy.events import FullBatch, NoisyGradients, Poisson, Shuffled
from private_graphs.running.jobs import Job
from private_graphs.running.run import execute
from private_graphs.studies.lrec2022.methods.mlp_records import MlpRecordsSettings, claim, planned
from private_graphs.tasks.method import Request
from private_graphs.tasks.tasks import build_task

METHOD = method_named("mlp_records")
PROTOCOLS = ("released", "paper", "sound")


def images(n_train: int = 200, seed: int = 1) -> ImageDataset:
    """Four classes told apart by the bright quarter of a picture."""
    rng = np.random.default_rng(seed)
    n = n_train + 60
    labels = rng.integers(0, 4, size=n)
    pixels = rng.integers(0, 90, size=(n, 1, 6, 6)).astype(np.uint8)
    for image, label in zip(pixels, labels, strict=True):
        image[0, 3 * (label // 2) :, 3 * (label % 2) :][:3, :3] += 160
    side = np.searchsorted([n_train, n_train + 20], np.arange(n), side="right")
    return ImageDataset.generated(
        "quarters", "abcd", pixels, labels, [side == part for part in range(3)]
    )


def job(protocol: str, epsilons: tuple[float, ...] = (3.0,), **settings: object) -> Job:
    return Job(
        study="lrec2022", group="table4", name="quarters", dataset="quarters",
        method="mlp_records", scenario="records", protocol=protocol, epsilons=epsilons,
        settings={"lot_size": 20, "epochs": 3, "hidden": 16, **settings}, seeds=(0, 1),
    )  # fmt: skip


def task(protocol: str, dataset: ImageDataset | None = None):
    return build_task(dataset or images(), "records", METHOD.protocols[protocol], 1e-5)[0]


def request(epsilon: float = 3.0, **settings: object) -> Request:
    values = {"lot_size": 20, "epochs": 3, "hidden": 16, **settings}
    streams = Streams.of({"test": 1})
    return Request(epsilon, 0, np.arange(20), streams, MlpRecordsSettings(**values))


# §1 of the privacy specification: rate, noise, steps -> formula, add/remove, replace
TABLE = [
    (600, 4, 10_000, 1.258575, 0.94687, 1.99312),
    (6_000, 4, 1_000, 4.244507, 3.44434, 7.48907),
    (60_000, 4, 100, 15.131463, 13.20671, 33.10373),
    (60_000, 50, 100, 0.979705, 0.72552, 1.55498),
    (60_000, 100, 100, 0.524779, 0.34067, 0.72552),
]


@pytest.mark.parametrize(("lot", "noise", "steps", "formula", "vanishing", "replaced"), TABLE)
def test_the_papers_settings_have_the_tabulated_prices(
    lot: int, noise: float, steps: int, formula: float, vanishing: float, replaced: float
) -> None:
    settings = MlpRecordsSettings(lot_size=lot, noise_multiplier=noise)
    asked = replace(request(), settings=settings)
    big = replace(task("sound"), n_units=60_000)
    (event,) = planned(big, asked)
    assert (event.releases, event.epochs) == (steps, 100)
    for relation, expected in (("add_remove", vanishing), ("replace", replaced)):
        found = price(event, "record", relation, 1e-5).epsilon
        assert -1e-5 < found - expected < 2e-4
    for protocol in ("paper", "released"):
        printed = claim(replace(big, protocol=METHOD.protocols[protocol]), settings)
        assert printed.epsilon == pytest.approx(formula, abs=1e-6)
        # the last published value, .50, is the authors' accountant's: its sum cancels to two digits
        authors = None if noise < 100 else pytest.approx(0.5, abs=0.01)
        assert printed.authors_epsilon == authors
    assert claim(big, settings) is None
    (shuffled,) = planned(replace(big, protocol=METHOD.protocols["paper"]), asked)
    assert price(shuffled, "record", "replace", 1e-5).mu == pytest.approx(20 / noise)


def event(sampling, clipping: str = "per_record") -> NoisyGradients:
    steps = {FullBatch: 5, Shuffled: 50}.get(type(sampling), 50)
    return NoisyGradients(clipping, 1.0, 6.0, steps, 5, sampling)


def test_a_microbatch_costs_a_replacement_and_is_proved_under_poisson_sampling_alone() -> None:
    grouped = event(Poisson(0.1), "per_group")
    expected = price(event(Poisson(0.1)), "record", "replace", 1e-5).epsilon
    for relation in ("zero_out", "replace"):
        assert price(grouped, "record", relation, 1e-5).epsilon == expected
    # a whole group that vanishes takes one term of norm C away
    group = price(grouped, "subgraph", "zero_out", 1e-5).epsilon
    assert group == price(event(Poisson(0.1)), "record", "zero_out", 1e-5).epsilon
    assert price(grouped, "record", "add_remove", 1e-5).epsilon is None
    for sampling in (FullBatch(200), Shuffled(10)):
        assert price(event(sampling, "per_group"), "record", "replace", 1e-5).epsilon is None
    result = execute(job("sound", microbatch=4), images())
    (statement,) = result.statements.values()
    assert statement["mechanisms"][0]["clipping"] == "per_group"
    assert statement["mechanisms"][0]["sensitivity"] == 2.0
    assert statement["epsilon_proved"] == pytest.approx(statement["also_proved"][0]["epsilon"])
    (statement,) = execute(job("paper", microbatch=4), images()).statements.values()
    assert statement["epsilon_proved"] is None and statement["status"] == "published_only"


def test_lots_that_cannot_be_cut_and_wrong_data_are_refused() -> None:
    for settings in ({"lot_size": 201}, {"lot_size": 20, "microbatch": 3}):
        with pytest.raises(UserError, match="expected a multiple of microbatch"):
            execute(job("sound", **settings), images())
    with pytest.raises(UserError, match="units are images; expected records"):
        build_task(images(), "text", METHOD.protocols["sound"], 1e-5)
    with pytest.raises(UserError, match="delta x units"):
        execute(job("sound").model_copy(update={"delta": 0.01}), images())


def test_each_branch_of_the_authors_code_is_told_with_its_own_noise() -> None:
    big = replace(task("released"), n_units=60_000)
    for lot in (600, 60_000):
        asked = {"lot_size": lot, "noise_multiplier": 50.0, "clip_norm": 2.0}
        (whole,) = planned(big, replace(request(), settings=MlpRecordsSettings(**asked)))
        settings = MlpRecordsSettings(**asked, noise_on="record")
        (each,) = planned(big, replace(request(), settings=settings))
        assert whole.noise_multiplier == 50 and whole.clipping == each.clipping == "none"
        assert each.noise_multiplier == pytest.approx(50 / math.sqrt(lot))
        assert price(each, "record", "replace", 1e-5).epsilon is None
        assert claim(big, settings) == claim(big, MlpRecordsSettings(**asked)), (
            "the printed ε is one"
        )
    results = [execute(job("released", **more), images()) for more in ({}, {"noise_on": "record"})]
    noise = [next(iter(each.statements.values()))["mechanisms"][0] for each in results]
    assert [each["noise_multiplier"] for each in noise] == pytest.approx([4, 4 / math.sqrt(20)])
    assert all((each.rows["noise_multiplier"] == 4).all() for each in results)
    assert not set(results[0].rows["replica_id"]) & set(results[1].rows["replica_id"])
    for protocol in ("paper", "sound"):
        with pytest.raises(UserError, match="only released has a choice"):
            execute(job(protocol, noise_on="record"), images())


def test_released_stops_on_test_labels_and_says_so_and_no_other_protocol_has_them() -> None:
    dataset = images()
    other = dataset.labels.copy()
    other[dataset.test_mask] = (other[dataset.test_mask] + 1) % 4
    changed = replace(dataset, labels=other)
    noisy = {"epochs": 60, "noise_multiplier": 9.0, "lot_size": 100}
    for protocol in PROTOCOLS:
        stops = METHOD.protocols[protocol].stops_on_test is not None
        given = task(protocol, dataset).stopping_labels
        assert stops == (protocol == "released") == (given is not None)
        (first,), (second,) = (
            answers(METHOD, task(protocol, each), [request(**noisy)]) for each in (dataset, changed)
        )
        assert np.array_equal(first.test_predictions, second.test_predictions) != stops
        assert (first.measured["epochs"] < 60) == stops
        (statement,) = execute(job(protocol, **noisy), dataset).statements.values()
        facts = " ".join(statement["public_facts"])
        assert ("training stops early" in facts) == stops
        assert ("loss of the last batch of test images" in statement["selection"]["data"]) == stops
        assert statement["selection"]["n_configs"] == (60 if stops else 1)
        assert statement["mechanisms"][0]["count"] == 120, "priced for all epochs"
    labels = task("released", dataset).stopping_labels
    both = dataset.validation_mask | dataset.test_mask
    np.testing.assert_array_equal(labels, dataset.labels[both])
