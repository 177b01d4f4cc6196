"""dp-accounting alone prices the events of a statement, and finds what the statement says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from private_graphs.privacy.accountants import compose_groups, price
from private_graphs.privacy.dp_events import dp_events
from private_graphs.privacy.events import FullBatch, NoisyGradients, SecretSample, Unnoised
from private_graphs.privacy.queries import (
    ConcentratedQuery,
    ExponentialChoice,
    GaussianQuery,
    LaplaceQuery,
    PoissonSums,
    PureQuery,
)
from private_graphs.running.store import read_statements

ROOT = Path(__file__).parents[2]
UNIT, DELTA = "record", 1e-5


@pytest.fixture(scope="module")
def program() -> str:
    """The example that prices statements without the project."""
    return (ROOT / "examples" / "price_statement.py").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def epsilon(program):
    """Its function from a part of ``dp_events`` and delta to ε."""
    space: dict = {}
    exec(program.partition("for name, statement")[0], space)
    return space["epsilon"]


def _classes(tree) -> str:
    """The classes of a tree, without parameters."""
    if isinstance(tree, dict):
        inside = [_classes(value) for value in tree.values() if isinstance(value, dict | list)]
        return f"{tree['class']}({', '.join(inside)})"
    return ", ".join(sorted({_classes(each) for each in tree if isinstance(each, dict)}))


def test_the_program_of_the_page_prices_statements_of_the_demo(
    program, tmp_path, monkeypatch, capsys
):
    kinds, refused = {}, set()
    for path in sorted((ROOT / "tests" / "golden").glob("*/statements.json.gz")):
        for name, told in read_statements(path).items():
            proved, parts = told["epsilon_proved"], told["dp_events"]
            assert parts
            refused |= {part["reason"] for part in parts if part["event"] is None}
            if all(part["event"] for part in parts) and (proved is None or proved < 12):
                kind = [(_classes(part["event"]), bool(part["secret_sample"])) for part in parts]
                kinds[str(kind), proved is None] = name, told
    assert len(kinds) >= 10 and len(refused) <= 2
    shown = {name: told for (_, unproved), (name, told) in kinds.items() if not unproved}
    (tmp_path / "statement.json").write_text(json.dumps(shown), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(program, {})
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == len(shown)
    for name, theirs, ours in lines:
        assert float(ours) <= float(theirs) * (1 + 1e-4), name
        assert float(ours) == pytest.approx(float(theirs), rel=1e-3), name


def _of(kind: type, relation: str = "replace", **fields):
    return kind(**{"unit": UNIT, "relation": relation, "count": 1, "reason": "one"} | fields)


GAUSSIAN = _of(GaussianQuery, sensitivity=2.0, noise_std=8.0, count=3)
SAMPLED = _of(PoissonSums, noise_multiplier=1.5, clip_norm=2.0, rate=0.02, count=200)


@pytest.mark.parametrize(
    "events",
    [
        (GAUSSIAN, SAMPLED),
        (GAUSSIAN, _of(PureQuery, epsilon=0.5)),
        (GAUSSIAN, _of(ConcentratedQuery, rho=0.01)),
        (_of(PureQuery, epsilon=0.5, count=3),),
        (_of(ExponentialChoice, sensitivity=1.0, scale=30.0, count=200),),
        (_of(LaplaceQuery, sensitivity=1.0, scale=2.0, count=4),),
        (_of(LaplaceQuery, sensitivity=1.0, scale=2.0), SAMPLED),
        (SecretSample((GAUSSIAN,), 0.1),),
    ],
)
def test_every_kind_of_release_is_priced_no_lower_elsewhere(events, epsilon):
    claim = UNIT, "replace", DELTA
    [part] = dp_events(events, (), claim, True)
    ours = compose_groups([([price(each, *claim) for each in events], 1)], DELTA)
    theirs = epsilon(part.model_dump(mode="json"), DELTA)
    assert ours <= theirs * (1 + 1e-4) <= ours * 2


def test_several_sampled_terms_that_appear_are_a_mixture():
    """Which ``PLDAccountant`` prices no lower, in a minute."""
    fields = {"noise_multiplier": 2.0, "clip_norm": 1.0, "rate": 0.1, "terms": 2}
    [part] = dp_events(
        (_of(PoissonSums, "add_remove", **fields),), (), (UNIT, "add_remove", DELTA), True
    )
    assert part.event["class"] == "MixtureOfGaussiansDpEvent"
    assert part.event["sensitivities"] == [0, 1, 2]
    assert part.event["sampling_probs"] == pytest.approx([0.81, 0.18, 0.01])


def test_what_proves_nothing_and_what_reads_nothing_have_events_of_their_own(epsilon):
    unclipped = NoisyGradients("none", 1.0, 1.0, 5, 5, FullBatch())
    for events in ((unclipped,), (GAUSSIAN, Unnoised("all is told")), ()):
        [part] = dp_events(events, (), (UNIT, "replace", DELTA), True)
        assert epsilon(part.model_dump(), DELTA) == float("inf")
    [part] = dp_events((), (), (UNIT, "replace", DELTA), False)
    assert epsilon(part.model_dump(), DELTA) == 0


@pytest.mark.parametrize(
    "events",
    [
        (_of(PoissonSums, noise_multiplier=2.0, clip_norm=1.0, rate=0.1, terms=3),),
        (SecretSample((GAUSSIAN,), 0.1), GAUSSIAN),
        (SAMPLED, _of(ConcentratedQuery, rho=0.01)),
    ],
)
def test_what_dp_accounting_has_no_event_for_is_said(events):
    [part] = dp_events(events, (), (UNIT, "replace", DELTA), True)
    assert part.event is None and part.reason
