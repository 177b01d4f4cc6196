"""Replay finds what depends on a unit beside the noisy values, and passes what does not."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from private_graphs.attacks import replay_audit
from private_graphs.attacks.replay_audit import audit_case, cases_of
from private_graphs.attacks.replay_cover import REPLAYS
from private_graphs.attacks.small_data import small_dataset
from private_graphs.attacks.small_jobs import OTHERS, all_cases, recorded_settings, small_job
from private_graphs.audit import Door, GaussianQuery, PoissonSums, Streams, replay
from private_graphs.mechanisms import door as doors
from private_graphs.mechanisms.reads import other_numbers, private_places
from private_graphs.mechanisms.replay import Recording
from private_graphs.methods import method_named
from private_graphs.privacy.queries import PureQuery
from private_graphs.running.store import recorded_rows

ROOT = Path(__file__).resolve().parents[2]
WORDS = {"unit": "record", "relation": "replace", "reason": "test"}
STEPS, CLIP, RATE = 4, 1.0, 0.3
POISSON = PoissonSums(count=STEPS, noise_multiplier=1.0, clip_norm=CLIP, rate=RATE, **WORDS)


@dataclass(frozen=True)
class Faults:
    """What a toy training does wrong."""

    clips: float = CLIP
    batch_mean: bool = False
    publishes_lots: bool = False
    rare: bool = False
    start_of_data: bool = False
    extra_call: bool = False
    stops_by_data: bool = False
    prints: bool = False
    writes: Path | None = None
    """A file as large as a private number."""
    appends: Path | None = None


def train(data: np.ndarray, watch: doors.Watch, faults: Faults = Faults()):
    """Noisy sums of clipped rows of (n, 3), and what is released beside them."""
    door = Door.of([Streams.of({"toy": 1})], watch)
    door.plan([(POISSON,)])
    descent = door.descent([POISSON])
    theta = np.full((1, 3), data.mean() if faults.start_of_data else 0.0)
    lots = []

    def clipped(joined):
        rows = data[joined[0]]
        if faults.batch_mean and len(rows):
            rows = rows - rows.mean(axis=0)
        norms = np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True) / faults.clips)
        lots.append(np.sort(joined[0]))
        return (rows / norms).sum(axis=0)[None]

    for step in range(STEPS):
        if faults.stops_by_data and step and data[0, 0] > 1:
            break
        theta = theta - 0.1 * descent.step(clipped, len(data))
        descent.public("parameters", theta)
        if faults.rare and theta[0, 0] > 50:
            theta = theta + data[0, 0]
    large = int((np.linalg.norm(data, axis=1) > faults.clips).sum())
    if faults.prints:
        print(f"{large} rows were clipped")
    if faults.writes:
        faults.writes.write_bytes(bytes(large))
    if faults.appends:
        with faults.appends.open("a") as log:
            log.write("." * large)
    return {"theta": theta, "lots": lots if faults.publishes_lots else None}


DATA = 3 * np.random.default_rng(0).normal(size=(12, 3))
NEIGHBOURS = [
    np.concatenate([row[None], DATA[1:]]) for row in (np.zeros(3), np.full(3, 1e6), -DATA[0])
]


def test_a_correct_training_passes_and_attains_its_bound():
    found = replay(train, DATA, NEIGHBOURS, coins=("drawn", "all", "none"))
    assert found.passed and found.rest_equal and found.neighbours == 9
    assert 0.9 < found.largest_ratio <= 1


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        (Faults(clips=1.5), "norm"),
        (Faults(batch_mean=True), "sum of its terms"),
        (Faults(start_of_data=True), "parameters"),
        (Faults(stops_by_data=True), "calls"),
    ],
    ids=["clip", "batch mean", "start", "stop"],
)
def test_faults_are_found_and_named(fault, shown):
    found = replay(lambda data, watch: train(data, watch, fault), DATA, NEIGHBOURS, coins=("all",))
    assert not found.passed
    assert shown in " ".join(found.differs) or found.largest_ratio > 1


@pytest.mark.parametrize("name", ["prints", "writes", "appends"])
def test_what_a_run_tells_on_the_way_is_compared(name, tmp_path):
    """A private number on standard output, or as the size of a file, is found; a public one not."""
    fault = Faults(**{name: True if name == "prints" else tmp_path / "log"})
    found = replay(lambda data, watch: train(data, watch, fault), DATA, NEIGHBOURS[:1])
    shown = "rows were clipped" if name == "prints" else "log: "
    assert any(line.startswith("/log") and shown in line for line in found.differs)
    same = replay(lambda data, watch: train(data, watch, fault), DATA, [DATA.copy()])
    assert same.rest_equal and same.neighbours == 1
    assert (same.verdict, same.passed) == ("INCONCLUSIVE", False), "no neighbour moved anything"


def test_files_that_are_renamed_or_gone_are_compared(tmp_path):
    def run(data, watch):
        part = tmp_path / "part"
        part.write_text("." * int(data[0]))
        part.replace(tmp_path / "whole")
        (tmp_path / "gone").write_text("public")
        (tmp_path / "gone").unlink()

    assert replay(run, np.zeros(2), [np.zeros(2)]).rest_equal
    found = replay(run, np.zeros(2), [np.ones(2)])
    assert any("whole: 0 bytes" in line for line in found.differs), found.differs


def test_what_is_not_repeatable_is_told_apart_from_a_leak():
    draws = itertools.count()
    found = replay(lambda data, watch: (train(data, watch), next(draws)), DATA, NEIGHBOURS)
    assert found.verdict == "NOT REPEATABLE" and not found.differs
    assert found.not_repeatable == ["/1: 0, 1"]


def test_global_generators_stay_aligned_behind_a_value_that_draws_more_on_a_neighbour():
    """Coins of the training that no guarantee covers follow the tape, not the number of draws."""

    def run(data, watch):
        np.random.seed(3)
        np.random.standard_normal(int(data[0, 0] > 0.1))
        return train(data, watch), np.random.random()

    assert DATA[0, 0] > 0.1 > NEIGHBOURS[0][0, 0]
    assert replay(run, DATA, NEIGHBOURS[:1]).passed


def test_a_private_number_that_is_read_and_decides_is_found_though_no_neighbour_flips_it():
    """The number of large rows decides above 1000 alone: neighbours change it by one."""

    def run(data, watch, decides=True):
        large = (torch.from_numpy(np.linalg.norm(data, axis=1)) > 1).double().sum().item()
        released = train(data, watch)
        return released, "many" if decides and large > 2 * LARGE else "few"

    LARGE = (np.linalg.norm(DATA, axis=1) > 1).sum()
    found = replay(run, DATA, NEIGHBOURS)
    assert found.verdict == "LEAKS"
    assert "test_replay.py" in found.differs[0] and "decides what is released" in found.differs[0]
    assert replay(lambda data, watch: run(data, watch, False), DATA, NEIGHBOURS).passed


def test_the_changed_unit_joins_every_step_if_it_is_named():
    recording = Recording("drawn", unit=(2,))
    [lane] = Door.of([Streams.of({})]).lanes
    assert recording.joined(lane, np.array([0, 4]), 5).tolist() == [0, 2, 4]
    found = replay(train, DATA, NEIGHBOURS, unit=(0,))
    assert found.passed and found.largest_ratio > 0
    order = np.array([5, 2, 0, 1, 4, 3])
    inside, outside = Recording("all", unit=(3, 4)), Recording("none", unit=(5, 2))
    assert inside.sampled(lane, order, 4).tolist() == [5, 2, 4, 3]
    assert outside.sampled(lane, order, 4).tolist() == [0, 1, 4, 3]


def test_lots_that_are_published_are_found_with_other_coins():
    """The lots are the same on both sides; drawn anew under the same tape they differ."""
    fault = Faults(publishes_lots=True)
    found = replay(lambda data, watch: train(data, watch, fault), DATA, NEIGHBOURS, redrawn=True)
    assert any("lots" in line for line in found.differs)
    assert replay(train, DATA, NEIGHBOURS, redrawn=True).passed


def test_a_branch_on_a_rare_noisy_value_is_found_with_made_up_tapes():
    fault = Faults(rare=True)
    usual = replay(lambda data, watch: train(data, watch, fault), DATA, NEIGHBOURS)
    odd = replay(lambda data, watch: train(data, watch, fault), DATA, NEIGHBOURS, made_up=True)
    assert usual.passed and not odd.passed
    assert replay(train, DATA, NEIGHBOURS, made_up=True).passed


def test_one_unit_in_two_calls_composes_along_the_tape():
    """Two pure queries of ε each, priced as one: every call passes, both together do not."""
    query = PureQuery(epsilon=1.0, count=1, calls=2, **WORDS)

    def run(data, watch):
        door = Door.of([Streams.of({})], watch)
        door.plan([(query,)])
        for part in (data, data):
            door.respond([part], 3, [query])

    found = replay(run, np.zeros(4, int), [np.array([1, 0, 0, 0])])
    assert found.largest_ratio == 2


def test_a_set_that_tells_its_order_is_found():
    """The door returns flipped bits sorted; those that were set before came first once."""
    query = PureQuery(epsilon=2.0, count=1, **WORDS)

    def run(data, watch):
        door = Door.of([Streams.of({})], watch)
        door.plan([(query,)])
        return door.flip(
            data, 200, 0.8, 0.8 / np.exp(2), query, lambda draw, n: draw.integers(200, size=n)
        )

    assert replay(run, np.arange(20, 40), [np.arange(21, 40)]).passed
    released = run(np.arange(20, 40), doors.UNSEEN)
    assert (np.diff(released) > 0).all() and released[0] < 20, "made-up bits among true ones"
    watch, [lane] = Recording(), Door.of([Streams.of({})]).lanes
    watch.passed(lane, "", "flip", query, released, released[::-1])
    assert "order" in " ".join(watch.findings)


def test_a_sum_read_twice_in_one_call_is_found():
    query = GaussianQuery(count=1, sensitivity=1.0, noise_std=1.0, **WORDS)

    def run(data, watch):
        door = Door.of([Streams.of({})], watch)
        door.plan([(query,)])
        return door.gaussian(np.array([[data.sum(), data.sum()]]), [query])

    found = replay(run, np.zeros(3), [np.array([1.0, 0, 0])])
    assert found.largest_ratio == pytest.approx(np.sqrt(2)) and found.rest_equal


def test_a_unit_that_moves_two_parts_is_found():
    query = GaussianQuery(count=1, sensitivity=1.0, noise_std=1.0, **WORDS)

    def run(data, watch):
        door = Door.of([Streams.of({})], watch)
        for part in ("first", "second"):
            own = door.part(part)
            own.plan([(query,)])
            own.gaussian(np.array([[data.sum() / 4]]), [query])

    found = replay(run, np.zeros(3), [np.array([1.0, 0, 0])])
    assert any("moves the parts" in line for line in found.differs) and found.largest_ratio < 1


def test_a_unit_that_moves_two_terms_a_little_is_found():
    def run(data, watch):
        door = Door.of([Streams.of({"toy": 1})], watch)
        door.plan([(POISSON,)])
        descent = door.descent([POISSON])
        rows = (data + np.roll(data, 1, axis=0)) / 100
        for _ in range(STEPS):
            descent.step(lambda joined: rows[joined[0]].sum(axis=0)[None], len(data))

    others = [np.concatenate([-DATA[:1], DATA[1:]])]
    found = replay(run, DATA, others, coins=("all",))
    assert any("2 terms move; 1 are priced" in line for line in found.differs)
    assert found.largest_ratio < 1


# --- all methods --------------------------------------------------------------------------------

SOUND = [case for case in all_cases() if case[2] == "sound"]
HIDING = [
    ("gcn", "nodes", "sound", {"dropout": 0.5, "splits": 12}),
    ("gcn", "nodes", "sound", {"dropout": 0.5, "splits": 12, "visits": "poisson"}),
    ("mlp_records", "records", "sound", {"dropout": 0.5}),
    ("unit_gradients", "classes", "sound", {"draws": 32, "copies": 24}),
    ("unit_gradients", "subclasses", "sound", {"draws": 4, "cells": "centroids", "parts": 4}),
]
"""Cases whose public draws differ between neighbours unless they begin at public places, and one
whose unit follows from public centroids."""
SEEDS = {"appr_features": 2}
"""Seeds without which no neighbour of a case is in a sample, so that nothing is shown."""


@pytest.mark.parametrize("case", SOUND, ids="-".join)
def test_sound_methods_pass(case):
    """Every sound case, in its cheapest settings; ``audit --replay`` has those of rows."""
    for settings in ({}, *OTHERS.get(case[0], ())):
        found = audit_case(*case, settings, count=2, seeds=SEEDS.get(case[0], 1))
        assert found.passed, (settings, found.replay.verdict, found.replay.differs)
        assert found.replay.calls and found.proves


@pytest.mark.parametrize("case", HIDING, ids=lambda case: f"{case[0]}-{case[1]}")
def test_recorded_settings_with_dropout_and_draws_pass(case):
    found = audit_case(*case, count=6, seeds=1)
    assert found.passed, found.replay.differs or found.replay.worst
    assert found.replay.calls and found.proves and found.replay.largest_ratio > 0.1


def test_a_threshold_that_no_single_unit_crosses_is_found(monkeypatch):
    """A schedule, a choice of weights: what one unit moves by a hair, many move far."""
    answered = replay_audit.answer

    def deciding(job, dataset, watch, task, context):
        whole, answers = answered(job, dataset, watch, task, context)
        late = float((task or whole).n_train < whole.n_train - 1)
        return whole, [replace(each, outcome=replace(each.outcome, measured={"late": late}))
                      for each in answers]  # fmt: skip

    monkeypatch.setattr(replay_audit, "answer", deciding)
    report = audit_case("class_sums", "text", "sound", count=4, seeds=1)
    assert not report.passed
    assert any(re.match("with many units replaced, .*late", line) for line in report.replay.differs)


def test_the_epoch_chosen_by_validation_scores_is_named():
    found = audit_case("dp_gnn", "lists", "paper", count=6, seeds=2)
    assert not found.replay.rest_equal and not found.proves and found.passed


def test_every_private_method_is_replayed():
    from private_graphs.methods import all_methods

    private = {name for name, method in all_methods().items() if method.reads_private}
    assert private - {case[0] for case in all_cases()} == {"model_inversion"}
    for case in all_cases():
        method = method_named(case[0])
        assert small_job(method, *case[1:]).method == case[0] and small_dataset(method)


def test_settings_of_rows_are_shortened_in_sizes_alone():
    texts = [
        {"dropout": 0.25, "splits": 7, "epochs": 500, "learning_rate": 0.1, "visits": "epoch_sum"},
        {"dropout": 0.25, "splits": 7, "epochs": 2000, "learning_rate": 9.0, "visits": "epoch_sum"},
        {"dropout": 0.25, "splits": 7, "train_fraction": 0.3, "visits": "poisson", "chosen": 3},
        {"dropout": 0.0, "splits": 3, "epochs": 1, "visits": "full_graph"},
    ]
    rows = pd.DataFrame({
        "method": "gcn", "scenario": "nodes", "protocol": "sound", "epsilon": 1.0,
        "settings": [json.dumps(each) for each in texts],
    })  # fmt: skip
    rows.loc[len(rows)] = ["gcn", "nodes", "sound", np.inf, json.dumps({"dropout": 0.125})]
    found = recorded_settings(rows, method_named("gcn"), "nodes", "sound")
    assert found == [
        {"dropout": 0.25, "splits": 7, "visits": "epoch_sum"},
        {"dropout": 0.25, "splits": 7, "train_fraction": 0.5, "visits": "poisson"},
        {},  # those of a short job
    ]
    cases = cases_of(rows, "gcn", "sound")
    assert [case[3] for case in cases] == [{}, *found[:2]]


def test_numbers_that_differ_in_their_last_bit_are_private():
    first, second = np.float64([1, np.nan]), np.float64([np.nextafter(1, 2), np.nan])
    runs = [{"a": [first], "b": [first]}, {"a": [second], "b": [first.copy()]}]
    assert private_places(*runs) == {"a"}
    found = other_numbers(runs, {"a", "b"})
    assert [len(found[name]) for name in ("a", "b")] == [2, 1]


def test_the_table_in_docs_has_every_recorded_setting_and_no_failure():
    """A setting that is recorded for a row of a proved protocol and not replayed is an error."""
    rows = json.loads(REPLAYS.read_text())
    replayed = [
        (row["method"], row["scenario"], row["protocol"], json.dumps(row["settings"]))
        for row in rows
    ]
    recorded = cases_of(recorded_rows(ROOT / "recorded"), None, None)
    assert sorted(replayed) == sorted((*case[:3], json.dumps(case[3])) for case in recorded), (
        f"run private-graphs audit --replay --neighbours 12 --json > {REPLAYS.relative_to(ROOT)}"
    )
    assert all(row["passed"] for row in rows)
    assert all(row["neighbours"] >= 12 for row in rows)
