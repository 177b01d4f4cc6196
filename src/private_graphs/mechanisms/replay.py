"""Replay: a test, to the bit, that only noisy values depend on one unit.

A run is recorded: its *tape* holds the noisy values that left the door. The same run on a
neighbouring task gets the tape's values in place of its own. Then every exact value may differ by
at most its sensitivity, and everything else that is released must be equal to the bit, because it
is a function of public data, public draws and the tape. If that holds for **all** neighbours, tapes
and secret coins, the run is as private as its plan says (docs/privacy.md §10; a sufficient
condition). A violation that is found is certain; finding none says nothing about neighbours that
were not tried.

Replay does not test the noise itself: ``tape_noise`` returns what was drawn, for tests of its scale
and distribution.
"""

from __future__ import annotations

import io
import logging
import math
import os
import random
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np

from private_graphs.core.streams import Streams
from private_graphs.mechanisms.descent import Descent, noise_std
from private_graphs.mechanisms.door import Lane, Watch
from private_graphs.mechanisms.reads import TURNS, other_numbers, private_places, tensor_reads
from private_graphs.privacy.events import NoisyGradients, Unnoised
from private_graphs.privacy.queries import (
    ExponentialChoice,
    GaussianQuery,
    LaplaceQuery,
    PoissonSums,
    PureQuery,
)

SLACK = 1e-9
"""Relative excess of a distance that rounding in the comparison itself may cause."""
_TERM_REPLICAS = 4
"""Number of replicas whose individual terms are compared."""
_MOVED = 1e-6
"""Change of a term, in clip norms, that is attributed to rounding."""
_ROUNDED = 1e-4
"""Largest difference, in clip norms, between a sum and its terms, whose gradients are float32."""

Coins = Literal["drawn", "all", "none"]


@dataclass(frozen=True)
class Taped:
    """One value that passed the door."""

    kind: str
    part: str
    query: Any
    exact: Any
    noisy: Any
    generators: Any = None
    """States of the global generators after it, which a replay sets again."""


class Recording(Watch):
    """Watch that records what passes. ``coins``: as drawn, or all units join, or none does.

    ``unit``: positions of the changed unit, which joins each step that is drawn, and is inside or
    outside of secret samples as ``coins`` asks. ``term_steps``: steps whose individual terms are
    recorded, counted from 1.
    """

    active = True
    public_places = True
    adds_terms = True
    """Whether a step's sum is compared with its terms."""

    def __init__(
        self,
        coins: Coins = "drawn",
        unit: Sequence[int] = (),
        term_steps: Sequence[int] = (1, 2),
    ) -> None:
        self.coins, self.unit, self.term_steps = coins, tuple(unit), term_steps
        self.tapes: dict[str, list[Taped]] = defaultdict(list)
        self.values: dict[str, list[np.ndarray]] = defaultdict(list)
        self.streams: dict[str, Streams] = {}
        self.singles: dict[int, np.ndarray] = {}
        self.findings: list[str] = []
        self._steps = 0

    def passed(self, lane: Lane, part: str, kind: str, query: Any, exact: Any, noisy: Any) -> Any:
        """Record a value; a set that is released in another order than its own has a finding."""
        self.streams[lane.streams.public_id] = lane.streams
        if kind == "flip" and (np.diff(noisy) <= 0).any():
            self.findings.append("flip: codes in an order of their own; expected them sorted")
        taped = Taped(kind, part, query, _copy(exact), _copy(noisy), generator_states())
        self.tapes[lane.streams.public_id].append(taped)
        return noisy

    def joined(self, lane: Lane, positions: np.ndarray, population: int) -> np.ndarray:
        """Select all positions, none, or those with heads and the unit's."""
        if self.coins == "drawn":
            return np.union1d(positions, self.unit).astype(np.int64) if self.unit else positions
        return np.arange(population if self.coins == "all" else 0)

    def sampled(self, lane: Lane, order: np.ndarray, size: int) -> np.ndarray:
        """Put the unit inside or outside the sample, as ``coins`` asks."""
        if self.coins == "drawn" or not self.unit:
            return order[:size]
        own = np.isin(order, self.unit)
        half = size // 2 if self.coins == "all" else len(order)
        others = order[~own]
        return np.concatenate([others[:half], order[own], others[half:]])[:size]

    def public(self, lane: Lane, name: str, value: np.ndarray) -> None:
        """Record a value that follows from the tape."""
        self.values[f"{lane.streams.public_id}/{name}"].append(np.array(value))

    def terms(
        self, descent: Descent, clipped: Callable[..., Any], joined: Sequence[np.ndarray],
        total: Any, population: int,
    ) -> None:  # fmt: skip
        """Record the individual terms of the ``term_steps``; check their norms and their sum."""
        self._steps += 1
        unclipped = all(_clip(query) is None for query in descent.queries)
        if self._steps not in self.term_steps or self.coins == "none" or unclipped:
            return
        looked = min(_TERM_REPLICAS, len(joined))
        nobody = [np.empty(0, np.int64)] * (len(joined) - looked)
        singles = np.stack([
            np.asarray(clipped([np.array([i])] * looked + nobody))[:looked].copy()
            for i in range(population)
        ])  # (n, looked, P)  # fmt: skip
        self.singles[self._steps] = singles
        pairs = zip(joined[:looked], descent.queries, strict=False)
        for index, (positions, query) in enumerate(pairs):
            clip = _clip(query)
            if clip is None:
                continue
            norms = np.sqrt(np.square(singles[:, index]).sum(axis=-1))
            if norms.max(initial=0) > clip * (1 + SLACK):
                self.findings.append(f"a term of norm {norms.max() / clip:.6g} C")
            apart = np.asarray(total)[index] - singles[positions, index].sum(axis=0)
            rounded = _ROUNDED * clip * max(1, len(positions))
            if self.adds_terms and np.sqrt(np.square(apart).sum()) > rounded:
                self.findings.append("a step is not the sum of its terms")


def _clip(query: Any) -> float | None:
    """Return the norm bound of a step's term; None without clipping or without a statement."""
    if isinstance(query, PoissonSums):
        return query.clip_norm
    if isinstance(query, NoisyGradients) and query.clipping != "none":
        return query.clip_norm
    return None


def _plain(value: Any) -> Any:
    return np.asarray(value) if np.isscalar(value) or hasattr(value, "__array__") else repr(value)


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


class Replaying(Recording):
    """Watch that returns the taped values and measures the exact values of the present run.

    ``largest`` is the largest distance between two exact values, in sensitivities, and the largest
    distance of all calls of one query, composed over the counts in its plan. ``redrawn``: under
    other secret coins, which select other units, so that no exact values are compared;
    ``perturbed``: so where private numbers that the run reads are others, or many units are.
    """

    def __init__(
        self, first: Recording, relation: str, *, redrawn: bool = False, perturbed: bool = False
    ) -> None:
        super().__init__(first.coins, first.unit, first.term_steps)
        self.first, self.relation = first, relation
        self.draws = np.random.default_rng(1) if redrawn else None
        self.compares = not (redrawn or perturbed)
        self.public_places, self.adds_terms = first.public_places, first.adds_terms
        self.largest, self.worst, self.calls = 0.0, "", 0
        self.position: dict[str, int] = defaultdict(int)
        self.seen: dict[str, int] = defaultdict(int)
        self.composed: dict[tuple[Any, ...], float] = defaultdict(float)
        self.parts: dict[str, set[str]] = defaultdict(set)

    def passed(self, lane: Lane, part: str, kind: str, query: Any, exact: Any, noisy: Any) -> Any:
        """Return the taped value; measure the distance between the exact ones."""
        name = lane.streams.public_id
        at, tape = self.position[name], self.first.tapes[name]
        self.position[name] += 1
        self.calls += 1
        if at >= len(tape):
            self.findings.append(f"call {at} ({kind}) that the first run did not make")
            return noisy
        was = tape[at]
        if was.generators is not None:
            set_generators(was.generators)
        if (was.kind, was.part, was.query) != (kind, part, query):
            self.findings.append(f"call {at} ({kind}): parameters {query}, were {was.query}")
            return was.noisy
        if isinstance(query, Unnoised):
            self.findings += [
                f"read without noise ({query.reason}){line}"
                for line in differences(_plain(was.exact), _plain(exact))
            ]
            return was.noisy
        if query is None:  # no guarantee is claimed
            return was.noisy
        if kind != "flip" and np.shape(exact) != np.shape(was.exact):
            self.findings.append(
                f"call {at} ({kind}): shape {np.shape(exact)}, was {np.shape(was.exact)}"
            )
            return was.noisy
        moved = _distance(kind, query, exact, was.exact, self.relation)
        if moved and self.compares:
            self.parts[name].add(part)
        self._note(moved / (query_uses(query) if kind in ("flip", "laplace") else 1), kind, at)
        power = 2 if isinstance(query, (GaussianQuery, PoissonSums, NoisyGradients)) else 1
        key = (name, query)
        self.composed[key] += moved**power
        allowed = query.releases if isinstance(query, NoisyGradients) else query.count
        if kind != "choose_top":
            self._note((self.composed[key] / allowed) ** (1 / power), f"all calls, {kind}", at)
        return _copy(was.noisy)

    def _note(self, ratio: float, kind: str, at: int) -> None:
        if self.compares and (ratio > self.largest or math.isnan(ratio)):
            self.largest, self.worst = ratio, f"call {at} ({kind})"

    def joined(self, lane: Lane, positions: np.ndarray, population: int) -> np.ndarray:
        """Select as the recording did; under other coins, others."""
        if self.draws is None:
            return super().joined(lane, positions, population)
        rate = len(positions) / max(1, population)
        return np.flatnonzero(self.draws.random(population) < (rate or 0.5))

    def sampled(self, lane: Lane, order: np.ndarray, size: int) -> np.ndarray:
        """Sample as the recording did; under other coins, others."""
        if self.draws is None:
            return super().sampled(lane, order, size)
        return self.draws.permutation(len(order))[:size]

    def public(self, lane: Lane, name: str, value: np.ndarray) -> None:
        """Compare a value that follows from the tape, to the bit."""
        key = f"{lane.streams.public_id}/{name}"
        at, values = self.seen[key], self.first.values[key]
        self.seen[key] += 1
        if at >= len(values) or values[at].tobytes() != np.array(value).tobytes():
            self.findings.append(f"{name} after step {at}")

    def terms(
        self, descent: Descent, clipped: Callable[..., Any], joined: Sequence[np.ndarray],
        total: Any, population: int,
    ) -> None:  # fmt: skip
        """Compare the individual terms of these steps."""
        if not self.compares:
            return
        super().terms(descent, clipped, joined, total, population)
        now, was = self.singles.get(self._steps), self.first.singles.get(self._steps)
        if now is None or was is None:
            return
        if now.shape != was.shape:
            self.findings.append(f"{len(now)} terms, were {len(was)}")
            return
        for index, query in enumerate(descent.queries[: now.shape[1]]):
            clip = _clip(query)
            if clip is None:
                continue
            moved = np.sqrt(np.square(now[:, index] - was[:, index]).sum(axis=-1)) / clip
            changed = int((moved > _MOVED).sum())
            if moved.max(initial=0) > 2 * (1 + SLACK):
                self.findings.append(f"a term moves by {moved.max():.6g} C")
            if changed > query_terms(query):
                self.findings.append(f"{changed} terms move; {query_terms(query)} are priced")

    def finished(self) -> None:
        """Report values that the first run released and this one did not."""
        for name, tape in self.first.tapes.items():
            if self.position[name] != len(tape):
                self.findings.append(f"{self.position[name]} calls, {len(tape)} in the first run")
            if len(self.parts[name]) > 1:
                self.findings.append(f"one unit moves the parts {sorted(self.parts[name])}")


MADE_UP = ("huge", "negative", "zero", "equal")


class MadeUp(Recording):
    """Watch that records a run with made-up noisy values, to reach rare branches on them.

    ``kinds`` cycle over the replicas. ``spared``: public ids of replicas that keep their values,
    whose results must not change.
    """

    adds_terms = False  # float32 gradients at weights of a million: rounding is no small share

    def __init__(self, kinds: Sequence[str] = MADE_UP, spared: Container[str] = ()) -> None:
        super().__init__()
        self.kinds, self.spared = kinds, spared
        self._lanes: list[str] = []

    def passed(self, lane: Lane, part: str, kind: str, query: Any, exact: Any, noisy: Any) -> Any:
        """Return a made-up value of the same shape; choices stay."""
        numbers = kind in ("gaussian", "laplace", "step", "rows")
        name = lane.streams.public_id
        if query is not None and numbers and name not in self.spared:
            if name not in self._lanes:
                self._lanes.append(name)
            made_up = self.kinds[self._lanes.index(name) % len(self.kinds)]
            value = {"huge": 1e6, "negative": -1e6, "zero": 0.0, "equal": 1.0}[made_up]
            noisy = np.full(np.shape(noisy), value)
        return super().passed(lane, part, kind, query, exact, noisy)


def query_terms(query: PoissonSums | NoisyGradients) -> int:
    """Return how many terms of a step one unit may change."""
    return query.terms if isinstance(query, PoissonSums) else query.relabel_touches


def query_uses(query: Any) -> int:
    """Return how often one unit may affect one call: several times if calls are fewer."""
    calls = getattr(query, "calls", 0)
    return math.ceil(query.count / calls) if calls else 1


def _distance(kind: str, query: Any, first: Any, second: Any, relation: str) -> float:
    """Return the distance of two exact values, in multiples of what one unit may change once."""
    if kind == "flip":
        return float(len(np.setxor1d(first, second)))
    if kind == "respond":
        return float(np.sum(np.asarray(first) != np.asarray(second)))
    with np.errstate(invalid="ignore"):
        gap = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    if np.isnan(gap).any():
        return math.nan
    if isinstance(query, PureQuery):  # the door passes it in units of the sensitivity
        return float(np.abs(gap).sum())
    if isinstance(query, LaplaceQuery):
        return float(np.abs(gap).sum()) / query.sensitivity
    if isinstance(query, ExponentialChoice):
        return float(np.abs(gap).max(initial=0)) / query.sensitivity
    if kind == "rows":
        sizes = np.sqrt(np.square(gap).sum(axis=tuple(range(1, gap.ndim))))
        return float(sizes.max(initial=0)) / query.sensitivity
    size = float(np.sqrt(np.square(gap).sum()))
    if isinstance(query, GaussianQuery):
        whole = np.issubdtype(np.asarray(first).dtype, np.integer)
        return size * (query.spacing if whole else 1.0) / query.sensitivity
    clip = _clip(query)
    if clip is None:
        return 0.0 if size == 0 else math.inf
    once = relation in ("add_remove", "zero_out") and not getattr(query, "exchange", False)
    twice = 1 if once else 2
    return size / (twice * clip * query_terms(query))


# --- what else is released ---


def generator_states() -> tuple[Any, ...]:
    """Return the states of the global generators: of Python, NumPy and, if it is loaded,
    PyTorch."""
    torch = sys.modules.get("torch")
    return random.getstate(), np.random.get_state(), torch.get_rng_state() if torch else None


def set_generators(states: tuple[Any, ...]) -> None:
    """Set the global generators to these states."""
    random.setstate(states[0])
    np.random.set_state(states[1])
    if states[2] is not None:
        sys.modules["torch"].set_rng_state(states[2])


def differences(first: Any, second: Any, at: str = "") -> list[str]:
    """Return the paths at which two results differ, to the bit; nested plain values and arrays."""
    if type(first) is not type(second):
        return [f"{at}: {type(first).__name__}, {type(second).__name__}"]
    if is_dataclass(first):
        names = [field.name for field in fields(first)]
        return [
            line
            for name in names
            for line in differences(getattr(first, name), getattr(second, name), f"{at}/{name}")
        ]
    if isinstance(first, Mapping):
        lines = [
            f"{at}/{key}: in one of both" for key in sorted(map(str, first.keys() ^ second.keys()))
        ]
        keys = [key for key in first if key in second]
        return lines + [
            line for key in keys for line in differences(first[key], second[key], f"{at}/{key}")
        ]
    if isinstance(first, (list, tuple)):
        if len(first) != len(second):
            return [f"{at}: {len(first)} and {len(second)} elements"]
        pairs = enumerate(zip(first, second, strict=True))
        return [line for i, (a, b) in pairs for line in differences(a, b, f"{at}/{i}")]
    if isinstance(first, np.ndarray):
        if (first.shape, first.dtype) != (second.shape, second.dtype):
            return [f"{at}: {first.dtype}{first.shape}, {second.dtype}{second.shape}"]
        if first.tobytes() == second.tobytes():
            return []
        same = (first == second) | ((first != first) & (second != second))
        places = np.argwhere(~same)
        where = places[0].tolist() if len(places) else "the sign of a zero"
        return [f"{at}: {len(places)} of {first.size} differ, the first at {where}"]
    both_nan = isinstance(first, float) and math.isnan(first) and math.isnan(second)
    return [] if first == second or both_nan else [f"{at}: {first!r}, {second!r}"]


@contextmanager
def said(files: bool = True) -> Iterator[list[str]]:
    """Collect what a run tells beside its answers, in lines; ``files``: written files among them.

    These are log lines, warnings, standard output and errors, and the files that Python opens for
    writing: names, sizes and hashes of what was written. Compiled libraries that write by
    themselves are not seen.
    """
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler, out, err = Lines(0), io.StringIO(), io.StringIO()
    logging.getLogger("private_graphs").addHandler(handler)
    try:
        with (
            warnings.catch_warnings(record=True) as caught, _written() as written,
            redirect_stdout(out), redirect_stderr(err),
        ):  # fmt: skip
            warnings.simplefilter("always")
            yield lines
        lines += [f"{warning.category.__name__}: {warning.message}" for warning in caught]
        lines += [line for stream in (out, err) for line in stream.getvalue().splitlines()]
        lines += [_file_line(*entry) for entry in written.items()] if files else []
    finally:
        logging.getLogger("private_graphs").removeHandler(handler)


_opened: list[dict[str, int]] = []
"""Files that are written while ``_written`` is open: path and size before."""


def _heed(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook: note a file that is opened for writing, or the new name of one."""
    if not _opened or event not in ("open", "os.rename"):
        return
    named, flags = arguments[0], os.O_WRONLY
    if event == "os.rename":
        named = arguments[1]
    else:
        flags = arguments[2]
    if not (flags & (os.O_WRONLY | os.O_RDWR) and isinstance(named, str | bytes | os.PathLike)):
        return
    name = os.path.abspath(os.fsdecode(named))
    if not (name.startswith("/dev/") or "__pycache__" in name):  # compiled code is no release
        size = os.path.getsize(name) if flags & os.O_APPEND and os.path.isfile(name) else 0
        _opened[-1].setdefault(name, size)


@cache
def _hook() -> None:
    """Install the audit hook, which Python keeps for good."""
    sys.addaudithook(_heed)


@contextmanager
def _written() -> Iterator[dict[str, int]]:
    """Collect the files that are written: path, and size before what was appended."""
    _hook()
    files: dict[str, int] = {}
    _opened.append(files)
    try:
        yield files
    finally:
        _opened.pop()


def _file_line(name: str, before: int) -> str:
    """Return a line on a file that was written; of one that is gone its folder alone is told."""
    path = Path(name)
    if not path.is_file():
        return f"file in {path.parent}, which is gone"
    content = path.read_bytes()[before:]
    return f"file {name}: {len(content)} bytes, sha256 {sha256(content).hexdigest()[:16]}"


def first_verdict(findings: Mapping[str, Any]) -> str:
    """Return the first verdict that has findings; without any, no leak was found."""
    return next((name for name, lines in findings.items() if lines), "no leak found")


@dataclass
class Replay:
    """Findings from the replays of one run."""

    neighbours: int = 0
    calls: int = 0
    largest_ratio: float = 0.0
    """Largest distance of exact values, in sensitivities."""
    worst: str = ""
    differs: list[str] = field(default_factory=list)
    """Other differences: field and first difference."""
    not_repeatable: list[str] = field(default_factory=list)
    """Differences between two runs on the same data with the same tape."""

    @property
    def rest_equal(self) -> bool:
        """Return whether everything else is equal."""
        return not (self.differs or self.not_repeatable)

    @property
    def verdict(self) -> str:
        """Return NOT REPEATABLE, LEAKS, INCONCLUSIVE (no neighbour moved anything) or no leak."""
        within = self.largest_ratio <= 1 + SLACK
        return first_verdict({
            "NOT REPEATABLE": self.not_repeatable, "LEAKS": self.differs or not within,
            "INCONCLUSIVE": self.largest_ratio == 0,
        })  # fmt: skip

    @property
    def passed(self) -> bool:
        """Return whether neighbours moved exact values, by what is planned, and nothing else."""
        return self.verdict == "no leak found"

    def join(self, other: Replay) -> None:
        """Merge the replays of another run."""
        self.neighbours, self.calls = self.neighbours + other.neighbours, self.calls + other.calls
        if not other.largest_ratio <= self.largest_ratio:
            self.largest_ratio, self.worst = other.largest_ratio, other.worst
        self.differs += [line for line in other.differs if line not in self.differs]
        self.not_repeatable += other.not_repeatable

    def add(
        self, watch: Replaying, differs: Iterable[str], same: bool = False, where: str = ""
    ) -> None:
        """Add the findings from one neighbour, or from the ``same`` data under the same coins.

        ``where`` stands before each, of data that are no neighbour.
        """
        watch.finished()
        self.calls += watch.calls
        lines = self.not_repeatable if same else self.differs
        if same and watch.largest:
            lines.append(f"{watch.worst}: an exact value differs")
        elif not watch.largest <= self.largest_ratio:
            self.largest_ratio, self.worst = watch.largest, watch.worst
        for line in (f"{where}{finding}" for finding in (*watch.findings, *differs)):
            if line not in lines and len(lines) < 20:
                lines.append(line)


def replay(
    run: Callable[[Any, Watch], Any],
    first: Any,
    neighbours: Iterable[Any],
    relation: str = "replace",
    *,
    coins: Sequence[Coins] = ("drawn",),
    released: Callable[[Any], Any] = lambda result: result,
    redrawn: bool = False,
    made_up: bool = False,
    files: bool = True,
    unit: Sequence[int] = (),
) -> Replay:
    """Run ``run(data, watch)`` on ``first``, and replay it on neighbouring data.

    ``run`` makes its door with the watch (``Door.of(streams, watch)``) and returns everything it
    releases; ``released`` selects the part that the guarantee covers. The first replay uses
    ``first`` itself: what differs there is not repeatable (threads, a clock, global state), and
    nothing is said about privacy.

    ``redrawn``: also replay under other secret coins with the same tape, without comparing exact
    values, to detect a release of the coins. ``made_up``: also use tapes of values that noise
    hardly ever takes (huge, tiny, equal), to reach branches on them. ``files``: also compare the
    files that a run writes; not where ``run`` writes private ones, and returns those it releases.
    ``unit``: positions of the unit that changes, which joins every step of coins as drawn.

    Numbers that ``run`` reads out of tensors and that differ between neighbours are private: in
    more runs they are others, which may move exact values and nothing that is released.
    """
    report, datasets = Replay(), list(neighbours)
    for policy in coins:
        recording = Recording(policy, unit)
        with said(files) as lines, tensor_reads() as reads:
            before = released(run(first, recording))
        report.differs += [line for line in recording.findings if line not in report.differs]
        places: set[str] = set()
        runs = [reads]
        for data in (first, *datasets):
            again = Replaying(recording, relation)
            with said(files) as now, tensor_reads() as reads:
                after = released(run(data, again))
            runs.append(reads)
            places |= private_places(runs[0], reads)
            report.neighbours += data is not first
            apart = [*differences(before, after), *differences(lines, now, "/log")]
            report.add(again, apart, same=data is first)
            if report.not_repeatable:
                return report
        others_read = other_numbers(runs, places)
        for turn in TURNS if places else ():
            again = Replaying(recording, relation, perturbed=True)
            with suppress(Exception), tensor_reads(others_read, turn):  # may not fit
                after = released(run(first, again))
                names = f"{', '.join(sorted(places))} reads a private number that decides what is"
                report.add(again, [f"{names} released: {x}" for x in differences(before, after)])
        if redrawn:
            again = Replaying(recording, relation, redrawn=True)
            after = released(run(first, again))
            report.add(again, differences(before, after))
    for kind in MADE_UP if made_up else ():
        tape = MadeUp([kind])
        before = released(run(first, tape))
        for data in datasets:
            again = Replaying(tape, relation)
            report.add(again, differences(before, released(run(data, again))))
    return report


def tape_noise(watch: Recording) -> dict[str, list[np.ndarray]]:
    """Return the noise of the Gaussian values of each replica, in standard deviations."""
    noise = defaultdict(list)
    for name, tape in watch.tapes.items():
        for entry in tape:
            exact, query = np.asarray(entry.exact), entry.query
            if query is None or entry.kind not in ("gaussian", "rows", "step") or not exact.size:
                continue
            if np.issubdtype(exact.dtype, np.integer):
                exact = exact * query.spacing
            noise[name].append((entry.noisy - exact) / noise_std(query))
    return noise
