"""The door: plans are kept, noise is what events say, and no stream is drawn twice."""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

from private_graphs.core.streams import PUBLIC, Streams
from private_graphs.mechanisms.door import Door, ReleaseMismatch
from private_graphs.mechanisms.replay import replay
from private_graphs.privacy.events import FullBatch, NoisyGradients, Poisson, SecretSample, Unnoised
from private_graphs.privacy.queries import GaussianQuery, PoissonSums, PureQuery

WORDS = {"unit": "node", "relation": "replace", "reason": "test"}
QUERY = GaussianQuery(count=2, sensitivity=1.0, noise_std=2.0, **WORDS)


def door_of(*plan, lanes: int = 1) -> Door:
    door = Door.of([Streams.of({"lane": lane}) for lane in range(lanes)])
    door.plan([plan] * lanes)
    return door


def test_what_is_not_planned_is_refused():
    door = door_of(QUERY)
    with pytest.raises(ReleaseMismatch, match="planned"):
        door.gaussian(np.zeros((1, 3)), [replace(QUERY, noise_std=1.0)])
    with pytest.raises(ReleaseMismatch):
        Door.of([Streams.of({})]).gaussian(np.zeros((1, 3)), [QUERY])
    with pytest.raises(ReleaseMismatch, match="once"):
        door.plan([(QUERY,)])


@pytest.mark.parametrize("uses", [0, 1])
def test_less_than_planned_is_refused(uses):
    door = door_of(QUERY)
    for _ in range(uses):
        door.gaussian(np.zeros((1, 3)), [QUERY])
    with pytest.raises(ReleaseMismatch):
        door.close()


def test_more_than_planned_is_refused_before_it_is_drawn():
    door = door_of(QUERY)
    for _ in range(2):
        door.gaussian(np.zeros((1, 3)), [QUERY])
    with pytest.raises(ReleaseMismatch, match="3 releases"):
        door.gaussian(np.zeros((1, 3)), [QUERY])


def test_noise_is_as_large_as_the_event_says_and_fresh_in_every_call_and_lane():
    door = door_of(QUERY, lanes=300)
    noise = [door.gaussian(np.zeros((300, 50)), [QUERY] * 300) for _ in range(2)]
    door.close()
    every = np.concatenate(noise)
    assert len(np.unique(every)) == every.size
    assert every.std() == pytest.approx(2.0, rel=0.02)


def test_nothing_is_added_without_dp():
    door = Door.of([Streams.of({"lane": 0}), Streams.of({"lane": 1})])
    door.plan([(), (QUERY,)])
    found = door.gaussian(np.zeros((2, 4)), [None, QUERY])
    door.gaussian(np.zeros((2, 4)), [None, QUERY])
    door.close()
    assert not found[0].any() and found[1].all() and door.events() == [(), (QUERY,)]


def test_two_doors_of_a_batch_share_their_lanes():
    door = door_of(QUERY, lanes=2)
    one, both = door.of_lanes([0]), door.of_lanes([0, 1])
    first = one.gaussian(np.zeros((1, 3)), [QUERY])
    second = both.gaussian(np.zeros((2, 3)), [QUERY] * 2)
    assert not np.isin(first, second).any()
    with pytest.raises(ReleaseMismatch):
        one.gaussian(np.zeros((1, 3)), [QUERY])


def test_a_key_is_given_once_and_no_stream_is_opened_twice():
    event = NoisyGradients("per_record", 1.0, 1.0, 2, 2, FullBatch())
    descent = door_of(event).descent([event])
    descent.keys()
    with pytest.raises(ReleaseMismatch, match="twice"):
        descent.keys()
    with pytest.raises(ReleaseMismatch, match="twice"):
        descent.add(np.zeros((1, 3)))


def test_steps_are_counted_in_python_and_in_compiled_code():
    event = NoisyGradients("per_record", 1.0, 1.0, 3, 3, FullBatch())
    door = door_of(event)
    descent = door.descent([event])
    descent.add(np.zeros((1, 3)))
    descent.taken([0], 2)
    door.close()
    with pytest.raises(ReleaseMismatch):
        descent.taken([0])


@pytest.mark.parametrize("toss", ["each", "count"])
def test_coins_are_of_the_rate_and_belong_to_positions(toss):
    event = PoissonSums(count=400, noise_multiplier=1, clip_norm=1, rate=0.3, **WORDS)
    descent = door_of(event).descent([event], toss=toss)
    rows = [descent.join(20)[0] for _ in range(400)]
    share = np.bincount(np.concatenate(rows), minlength=20) / 400
    assert share.mean() == pytest.approx(0.3, abs=0.02) and share.std() < 0.05
    with pytest.raises(ReleaseMismatch, match="coins"):
        descent.orders()


def test_a_step_is_of_those_whom_its_own_coins_chose():
    event = PoissonSums(count=4, noise_multiplier=1, clip_norm=1, rate=0.3, **WORDS)
    descent = door_of(event).descent([event])
    first = descent.join(20)
    descent.take(lambda _: np.zeros((1, 3)), first, 20)
    with pytest.raises(ReleaseMismatch, match="coins"):  # whose coins were used
        descent.take(lambda _: np.zeros((1, 3)), first, 20)
    descent.join(20)
    with pytest.raises(ReleaseMismatch, match="other units than"):
        descent.take(lambda _: np.zeros((1, 3)), first, 20)


def test_what_a_method_sets_of_the_noise_has_to_be_public():
    """The sensitivity of Laplace noise for an ε alone: here it follows from the data."""
    query = PureQuery(epsilon=1.0, count=1, **WORDS)

    def run(data, watch):
        door = Door.of([Streams.of({})], watch)
        door.plan([(query,)])
        largest = max(data.max(), 1.0)
        door.laplace(np.array([[data.sum() / largest]]), [query], sensitivity=largest)

    found = replay(run, np.zeros(3), [np.array([0, 0, 5.0])])
    assert found.largest_ratio <= 1 and any("sets the noise" in each for each in found.differs)


def test_laplace_noise_for_an_epsilon_is_held_against_its_sensitivity():
    query = PureQuery(epsilon=1.0, count=1, **WORDS)

    def run(data, watch):
        door = Door.of([Streams.of({})], watch)
        door.plan([(query,)])
        door.laplace(np.array([[data.sum()]]), [query], sensitivity=0.1)

    found = replay(run, np.zeros(3), [np.array([0, 0, 0.3])])
    assert found.largest_ratio == pytest.approx(3)


def test_a_secret_sample_has_to_be_drawn():
    door = door_of(SecretSample((replace(QUERY, count=1),), 0.5))
    door.gaussian(np.zeros((1, 3)), [replace(QUERY, count=1)])
    with pytest.raises(ReleaseMismatch, match="sample"):
        door.close()
    (places,) = door.sample(10, 4)
    door.close()
    assert len(set(places)) == 4


def test_what_is_read_without_noise_is_an_event():
    door = door_of(replace(QUERY, count=1))
    door.gaussian(np.zeros((1, 3)), [replace(QUERY, count=1)])
    door.unnoised("labels choose the epoch", [np.zeros(3)])
    door.close()
    assert door.events()[0][1] == Unnoised("labels choose the epoch")


def test_a_cap_is_paid_in_full_and_more_is_refused():
    query = replace(QUERY, count=5)
    door = door_of(query)
    asked = np.arange(8) < 4
    found = door.rows(np.zeros((8, 2)), query, asked)
    assert np.isnan(found[~asked]).all() and np.isfinite(found[asked]).all()
    door.close()
    with pytest.raises(ReleaseMismatch):
        door.rows(np.zeros((8, 2)), query, asked)
    assert door.events() == [(query,)]


def test_flips_that_cost_more_than_planned_are_refused():
    query = PureQuery(epsilon=1.0, count=1, **WORDS)
    with pytest.raises(ReleaseMismatch, match="cost"):
        door_of(query).flip(
            np.arange(3), 9, 0.9, 0.1, query, lambda draw, n: draw.integers(0, 9, n)
        )


def test_parts_have_plans_of_their_own():
    once = replace(QUERY, count=1)
    door = door_of(once)
    others = door.part("others")
    others.plan([(once,)])
    others.gaussian(np.zeros((1, 3)), [once])
    with pytest.raises(ReleaseMismatch):
        door.close()
    door.gaussian(np.zeros((1, 3)), [once])
    door.close()
    assert others.events() == [(once,)]


def test_poisson_rates_come_from_the_plan_alone():
    event = NoisyGradients("per_record", 1.0, 1.0, 10, 1, Poisson(0.1))
    descent = door_of(event).descent([event])
    assert max(len(descent.join(1000, rate=0.9)[0]) for _ in range(20)) < 200


# --- capabilities ---------------------------------------------------------------------------


def test_methods_hold_no_secret_stream():
    public = Streams.of({"a": 1}).public
    for purpose in ("noise", "lots", "gradients", "sums", "class_sums", "choice", "order"):
        with pytest.raises(ValueError, match="secret"):
            public.generator(purpose)
        with pytest.raises(ValueError, match="secret"):
            public.key(purpose)
    assert all(public.generator(name) for name in PUBLIC)


RELEASES = {
    "gaussian", "laplace", "rows", "respond", "flip", "sample", "choose_top", "descent",
}  # fmt: skip
"""Calls of a door that take the name of a stream."""
NAMING = {"stream", "noise", "coins"}
"""Arguments of these calls that are names of streams."""


def constant(node: ast.expr, module: ast.Module, path: Path) -> str:
    """The text of a literal, or of a name that the module binds to one."""
    lines = [each for each in module.body if isinstance(each, ast.Assign)]
    bound = {ast.unparse(each.targets[0]): each.value for each in lines}
    node = bound.get(ast.unparse(node), node)
    assert isinstance(node, ast.Constant), f"{path}: {ast.unparse(node)} names no fixed stream"
    return node.value


def names_of_door(root: Path) -> set[str]:
    """The names of all streams that the source lets the door open."""
    found = set()
    for path in sorted((root / "src" / "private_graphs").rglob("*.py")):
        module = ast.parse(path.read_text())
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef) and path.name == "door.py":
                pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
                found |= {value.value for each, value in pairs if each.arg in NAMING and value}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                given = [each for each in node.keywords if each.arg in NAMING]
                if node.func.attr in RELEASES:
                    found |= {constant(each.value, module, path) for each in given}
    return found


def test_no_public_purpose_reaches_a_stream_of_the_door(root: Path):
    """Under a secret no key is that of a public stream, or published; a seed's names that both
    sides know are opened on one side only."""
    names, fields = names_of_door(root), {"replica": 1}
    assert {"noise", "lots", "order", "sample", "rows", "choice", "pairs"} <= names
    for secret in (None, bytes(range(32))):
        public = {each: Streams.of(fields, secret).public.key(each).tobytes() for each in PUBLIC}
        for name in sorted(names):
            key = Streams.of(fields, secret).of_door.key(name).tobytes()
            assert key.hex()[:16] != Streams.of(fields, secret).public_id
            if secret is not None:
                assert key not in public.values()
            for purpose in (each for each in PUBLIC if PUBLIC[each] == name):
                for opens in permutations([("public", purpose), ("of_door", name)]):
                    streams = Streams.of(fields, secret)
                    (first, own), (second, other) = opens
                    getattr(streams, first).generator(own)
                    with pytest.raises(ValueError, match="of this replica opened before"):
                        getattr(streams, second).key(other)
            same = [each for each in PUBLIC if public[each] == key]
            assert same == [each for each in PUBLIC if PUBLIC[each] == name and secret is None]


def test_a_method_cannot_draw_the_noise_of_its_own_release():
    """Neither before the release nor after it, under a seed or a secret."""
    for secret, purpose in product((None, bytes(range(32))), ("diagnostic", "random_rows")):
        streams = Streams.of({"a": 1}, secret)
        door, stream = Door.of([streams]), PUBLIC[purpose]
        door.plan([(replace(QUERY, count=1),)])
        door.gaussian(np.zeros((1, 3)), [replace(QUERY, count=1)], stream=stream)
        with pytest.raises(ValueError, match=f"a public stream opens the stream {stream}"):
            streams.public.generator(purpose)
        streams = Streams.of({"a": 1}, secret)
        streams.public.generator(purpose)
        with pytest.raises(ValueError, match=f"the door opens the stream {stream}"):
            Door.of([streams]).lanes[0].generator(stream)


def test_streams_of_the_door_are_opened_by_the_door_alone(root: Path):
    package = root / "src" / "private_graphs"
    found = [
        path.relative_to(package).as_posix()
        for path in sorted(package.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("of_door", "_all")
    ]
    assert set(found) == {"core/streams.py", "mechanisms/door.py"}


DRAWING = {"discrete_gaussian", "discrete_laplace"}
LAWS = {"standard_normal", "normal", "laplace", "gumbel", "exponential", "binomial"}
DOORS = {"door", "own"}
"""What methods call their doors."""
EXCEPTIONS = {
    "mechanisms/door.py": "the door itself",
    "mechanisms/descent.py": "the door for noisy steps",
    "mechanisms/exact.py": "draws what the door asks for",
    "attacks": "attacks and audits draw their own noise",
    "datasets": "synthetic graphs and pictures",
    "features": "synthetic texts and weights of models",
    "studies/progap/claims.py": "intervals of scores that are released",
    "studies/pate/methods/pate_votes.py": "the diagnostic of a run without DP",
    "studies/inversion/methods/reconstruct.py": "an attack on a model that is released",
    "training/noise.py": "compiled noise under the door's keys",
}


def test_noise_is_drawn_by_the_door_alone(root: Path):
    """No other module calls what draws noise, imports it, or makes a generator from a secret."""
    found = []
    package = root / "src" / "private_graphs"
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if any(name == each or name.startswith(f"{each}/") for each in EXCEPTIONS):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                found += [(name, each.name) for each in node.names if each.name in DRAWING]
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of_door = isinstance(node.func.value, ast.Name) and node.func.value.id in DOORS
                if node.func.attr in LAWS and not of_door:
                    found.append((name, node.func.attr))
    assert not found
