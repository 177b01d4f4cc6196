"""Audits of the door's mechanisms: the noise itself, and how well it hides one unit.

Each mechanism is drawn many times through the door, as methods draw it, including compiled steps.

1. Does the noise match the event? Of many short values standard deviations and correlations
between rounds, rows, coordinates and the replicas of a batch are tested; of a few long ones, which
span several blocks of every kernel, equal numbers, tails, sums and the correlation at every
distance (``noise_tests``). Laplace noise is first transformed to be normal. Noise that is 7 % too
small, or that a rare draw tells apart, lies far outside the bounds. 2. Does it hide
one unit as well as is proved? A threshold fixed in advance distinguishes two exact values one
sensitivity apart; the errors give a lower bound on μ of Gaussian DP
(``privacy.audits.gaussian_mu``), which must not exceed the proved μ. For pure mechanisms the
probabilities of all answers are compared, and bound ε in the same way.

Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import ndtri
from scipy.stats import laplace

from private_graphs.attacks.noise_tests import NoiseSample, NoiseValues, found_together
from private_graphs.core.streams import Streams
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.mechanisms.door import Door
from private_graphs.mechanisms.replay import Recording
from private_graphs.privacy.audits import Errors, gaussian_mu, rate_upper_bound
from private_graphs.privacy.events import FullBatch, NoisyGradients
from private_graphs.privacy.queries import ExponentialChoice, GaussianQuery, LaplaceQuery, PureQuery
from private_graphs.privacy.statements import AUDIT_CONFIDENCE

SECRET = bytes(range(32))
"""Fixed secret in place of the operating system's: draws come from the same generator, and
repeat."""
ROUNDS = 2


@dataclass(frozen=True)
class Size:
    """Size of a batch of draws."""

    lanes: int
    """Number of replicas."""
    rows: int
    columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of one value."""
        return self.rows, self.columns

    @property
    def numbers(self) -> int:
        """Number of entries of one value."""
        return self.rows * self.columns


SHORT = Size(50, 4, 5)
LONG = Size(4, 4, 25_000)
"""Values of 10⁵ numbers; compiled code draws at most 4,096 at once."""
_BLOCKS = 10
"""Number of blocks of a long value whose sums are normal."""
_LONG_SEED = 10**6
"""Seed of the long values, which is none of the short ones."""
_HIDDEN = 32
"""Width of the compiled steps; each width is compiled separately."""
_WORDS = {"unit": "node", "relation": "replace", "reason": "an audit"}
_SPACING = 2.0**-29


@dataclass(frozen=True)
class MechanismAudit:
    """Result of the audit of one mechanism."""

    mechanism: str
    draws: int
    std_ratio_low: float | None
    """Bounds on the ratio of the noise's standard deviation to the event's; None for choices."""
    std_ratio_high: float | None
    mu_lower: float
    """Lower bound on μ of Gaussian DP; for pure mechanisms on ε."""
    mu_proved: float
    findings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Return whether no finding contradicts the claim."""
        return not self.findings

    def document(self) -> dict[str, Any]:
        """Return JSON-able fields."""
        return asdict(self) | {"findings": list(self.findings), "passed": self.passed}


def _door(seed: int, query: Any, lanes: int = 1) -> Door:
    """Return a door on which every replica planned the query."""
    door = Door.of([Streams.of({"audit": seed, "lane": lane}, SECRET) for lane in range(lanes)])
    door.plan([(query,)] * lanes)
    return door


def _rounds(door: Door, draw: Callable[[], np.ndarray]) -> np.ndarray:
    """Draw for all replicas in every round, (lanes, ROUNDS, ...), and close the door."""
    draws = [draw() for _ in range(ROUNDS)]
    door.close()
    return np.stack(draws, axis=1)


# --- noise: (batches, lanes, ROUNDS, rows, columns) in standard deviations, with exact values ----

Draw = Callable[[int, float, Size], np.ndarray]
"""Callable: (seed, exact value of every entry, size) → released (lanes, ROUNDS, rows, columns), in
units of the event's standard deviation or scale."""


def _gaussian(dtype: type, lattice: bool) -> Draw:
    def draw(seed: int, exact: float, size: Size) -> np.ndarray:
        query = GaussianQuery(
            count=ROUNDS, sensitivity=1.0, noise_std=3.0, dimension=size.numbers,
            spacing=_SPACING if lattice else 0.0, **_WORDS,
        )  # fmt: skip
        door, queries = _door(seed, query, size.lanes), [query] * size.lanes
        value = round(exact / _SPACING) if lattice else exact
        kind = np.int64 if lattice else np.float64
        shape = size.lanes, *size.shape
        draws = _rounds(
            door, lambda: door.gaussian(np.full(shape, value, kind), queries, dtype=dtype)
        )
        return draws / query.noise_std

    return draw


def _rows(seed: int, exact: float, size: Size) -> np.ndarray:
    count = ROUNDS * size.rows
    query = GaussianQuery(count=count, sensitivity=1.0, noise_std=3.0, **_WORDS)
    draws = np.empty((size.lanes, ROUNDS, *size.shape))
    door = _door(seed, query, size.lanes)
    mask = np.ones(size.rows, bool)
    for lane in range(size.lanes):
        lane_door = door.of_lanes([lane])
        for turn in range(ROUNDS):
            draws[lane, turn] = lane_door.rows(np.full(size.shape, exact), query, mask)
    door.close()
    return draws / query.noise_std


def _steps(dtype: type) -> Draw:
    def draw(seed: int, exact: float, size: Size) -> np.ndarray:
        lanes, numbers = size.lanes, size.numbers
        query = NoisyGradients("per_record", 1.5, 2.0, ROUNDS, ROUNDS, FullBatch(10))
        door = _door(seed, query, lanes)
        descent = door.descent([query] * lanes, dtype=dtype)
        draws = _rounds(door, lambda: descent.add(np.full((lanes, numbers), exact)))
        return draws.reshape(lanes, ROUNDS, *size.shape) / descent.stds[0]

    return draw


def _compiled_steps(dtype: str, device: str) -> Draw:
    """Return the noise of the GCN's compiled steps: training from zero without any label.

    The sum of the noise of ROUNDS steps counts as one value.
    """

    def draw(seed: int, exact: float, size: Size) -> np.ndarray:
        from private_graphs.methods.gcn_protocols import SOUND
        from private_graphs.training import engine
        from private_graphs.training.blocks import build_structure

        query = NoisyGradients("gradient_global", 1.5, 2.0, ROUNDS, ROUNDS, FullBatch(1))
        lanes, graph = size.lanes, _unlabelled_graph(-(-size.numbers // _HIDDEN))
        door = _door(seed, query, lanes)
        streams = [lane.streams.public for lane in door.lanes]
        structure = build_structure(
            graph, SOUND, splits=1, train_fraction=1.0, validation_graph="evaluated_mask",
            streams=streams, hidden=_HIDDEN, dtype=np.dtype(dtype),
        )  # fmt: skip
        settings = engine.EngineSettings(
            optimizer="sgd", epochs=ROUNDS, private=True, clip_norm=query.clip_norm, hidden=_HIDDEN,
            dropout=0.0, dtype=dtype, device=device,
        )  # fmt: skip
        start = np.zeros((graph.n_features + 1 + 2) * _HIDDEN + 2)
        specs = [engine.ReplicaSpec(stream, 1.0, start.copy()) for stream in streams]
        descent = door.descent([query] * lanes, coins="order")
        moved = engine.train(structure, SOUND, settings, specs, descent).parameters
        door.close()
        std = query.noise_multiplier * query.clip_norm * math.sqrt(ROUNDS)
        noise = exact + moved[:, : size.numbers].astype(np.float64)
        return noise.reshape(lanes, 1, *size.shape) / std

    return draw


def _unlabelled_graph(n_features: int) -> GraphDataset:
    """Return a small graph without labels of training nodes; most of its features are zero."""
    from private_graphs.attacks.canary import canary_graph

    graph = canary_graph([1.0], [1])
    matrix = graph.features.to_scipy()
    shape = len(graph.labels), max(n_features, graph.n_features)
    wide = scipy.sparse.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape)
    masks = graph.train_mask, graph.validation_mask, graph.test_mask
    dataset = GraphDataset.generated(
        "wide", ["0", "1"], wide, graph.edge_index, graph.labels, masks
    )  # fmt: skip
    return replace(dataset, labels=np.where(graph.train_mask, -1, graph.labels))


def _root_steps(seed: int, exact: float, size: Size) -> np.ndarray:
    """Return the noise of DP-APPR's compiled steps without targets: first and last parameters.

    The sum of the noise of ROUNDS steps counts as one value.
    """
    from private_graphs.training import roots

    query = GaussianQuery(count=ROUNDS, sensitivity=1.0, noise_std=3.0, **_WORDS)
    door = _door(seed, query, size.lanes)
    one = scipy.sparse.identity(1, format="csr")
    n_features = max(1, -(-size.numbers // roots.HIDDEN) - 2)
    features = scipy.sparse.csr_matrix(([1.0], ([0], [0])), (1, n_features))
    shared = roots.Roots.of(features, one, np.zeros(1, np.int64), np.float64)
    nobody = np.full((ROUNDS, 1), -1)
    how = roots.RootTraining(nobody, divisor=1.0, learning_rate=1.0, adam=False)
    start, half = np.zeros((n_features + 2) * roots.HIDDEN), size.numbers // 2
    draws = np.empty((size.lanes, 1, *size.shape))
    for lane in range(size.lanes):
        descent = door.of_lanes([lane]).descent([query], coins="batches")
        moved = roots.train(shared, start, how, descent, seed)
        draws[lane, 0] = np.r_[moved[:half], moved[-half:]].reshape(size.shape)
    door.close()
    return exact + draws / (query.noise_std * math.sqrt(ROUNDS))


def _laplace(lattice: bool, pure: bool = False) -> Draw:
    scale = 3.0

    def draw(seed: int, exact: float, size: Size) -> np.ndarray:
        lanes, options = size.lanes, {}
        query: LaplaceQuery | PureQuery = LaplaceQuery(
            count=ROUNDS, sensitivity=1.0, scale=scale, dimension=size.numbers, **_WORDS
        )
        if pure:  # the plan gives ε, the method the sensitivity
            query, options = PureQuery(epsilon=2.0, count=ROUNDS, **_WORDS), {"sensitivity": 6.0}
        door = _door(seed, query, lanes)
        weights = np.array([2, 1, 1, 1])[:, None]
        value = round(exact / _SPACING) if lattice else exact
        values = np.full((lanes, *size.shape), value, np.int64 if lattice else np.float64)
        draws = _rounds(door, lambda: door.laplace(
            values, [query] * lanes, spacing=_SPACING, weights=weights, **options
        ))  # fmt: skip
        return draws / scale / weights

    return draw


GAUSSIAN: dict[str, Draw] = {
    "gaussian": _gaussian(np.float64, False),
    "gaussian_float32": _gaussian(np.float32, False),
    "gaussian_lattice": _gaussian(np.float64, True),
    "rows": _rows,
    "steps": _steps(np.float64),
    "steps_float32": _steps(np.float32),
    "compiled_steps_float32": _compiled_steps("float32", "cpu"),
    "compiled_steps_float64": _compiled_steps("float64", "cpu"),
    "torch_steps": _compiled_steps("float32", "torch-cpu"),
    "root_steps": _root_steps,
}
_TOGETHER = dict.fromkeys(("compiled_steps_float32", "compiled_steps_float64", "torch_steps"), 20)
"""Number of short batches that compiled steps train at once."""
_RESOLUTION = {name: 2.0**-21 for name in GAUSSIAN if name.endswith("float32")} | {
    "gaussian_lattice": _SPACING,
    "laplace_lattice": _SPACING, "torch_steps": 2.0**-21,
}  # fmt: skip
"""Absolute values closer than this count as equal; float64 numbers of a law without a lattice are
told apart at 2⁻³⁰."""
LAPLACE: dict[str, Draw] = {
    "laplace": _laplace(False),
    "laplace_lattice": _laplace(True),
    "laplace_pure": _laplace(False, pure=True),
}
_MOVED = 1 / 3
"""Change of one entry by one unit: μ of Gaussian noise, ε of Laplace noise."""


def _audit_noise(name: str, batches: int) -> MechanismAudit:
    """Test the noise, and distinguish a change of the first entry from none."""
    normal, moved = name in GAUSSIAN, _MOVED
    draw = (GAUSSIAN | LAPLACE)[name]
    together = _TOGETHER.get(name, 1)
    size = replace(SHORT, lanes=together * SHORT.lanes)
    first = np.concatenate([draw(seed, 0.0, size) for seed in range(max(1, batches // together))])
    long = draw(_LONG_SEED, 0.0, LONG)
    alarm = _ALARM / 4
    tested = NoiseSample(first if normal else _normals(first), SHORT.lanes)
    values = (long if normal else _normals(long)).reshape(-1, LONG.numbers)
    resolution = _RESOLUTION.get(name, 2.0**-30)
    violations = [*tested.found(alarm), *NoiseValues(values, resolution).found(alarm)]
    if not normal:  # its sums, which a transformation of each number hides
        blocks = long.reshape(len(values), _BLOCKS, -1).sum(axis=2)
        blocks /= math.sqrt(2 * LONG.numbers / _BLOCKS)  # Laplace noise of scale 1 has variance 2
        violations += NoiseValues(blocks, resolution).found(alarm)
    findings = [str(violation) for violation in violations]
    _, low, high = tested.std_ratio(AUDIT_CONFIDENCE)
    flat = first.reshape(-1)
    here, shifted = flat[: len(flat) // 2], flat[len(flat) // 2 :] + moved
    threshold = moved / 2 if normal else moved
    wrong = int((here > threshold).sum()), int((shifted <= threshold).sum())
    errors = Errors(wrong[0], len(here), wrong[1], len(shifted))
    lower = gaussian_mu(errors, 1 - alarm) if normal else _pure_epsilon(errors, alarm)
    if lower > moved:
        findings.append(f"{lower:.4f} is shown, {moved:.4f} proved")
    return MechanismAudit(name, len(flat) + long.size, low, high, lower, moved, tuple(findings))


def _normals(noise: np.ndarray) -> np.ndarray:
    """Return Laplace noise of scale 1, transformed to normals without loss in either tail."""
    return -np.sign(noise) * ndtri(laplace.sf(np.abs(noise)))


def _pure_epsilon(errors: Errors, alarm: float) -> float:
    """Return a lower bound on ε of pure DP from two error rates, wrong with chance ``alarm``."""
    tail = alarm / 4
    often = 1 - rate_upper_bound(errors.second, errors.second_runs, tail)
    seldom = rate_upper_bound(errors.first, errors.first_runs, tail)
    return max(0.0, math.log(often / seldom)) if often > 0 else 0.0


# --- choices: numbers of each answer on two neighbours -------------------------------------------


def _respond(draws: int) -> tuple[list[np.ndarray], list[np.ndarray], float]:
    query, cells = PureQuery(epsilon=1.0, count=1, **_WORDS), 4
    counts = []
    for arm in (0, 1):
        door = _door(arm, query)
        (answers,) = door.respond([np.full(draws, arm)], cells, [query])
        counts.append(np.bincount(answers, minlength=cells))
    keep = math.e / (math.e + cells - 1)
    rates = [np.where(np.arange(cells) == arm, keep, (1 - keep) / (cells - 1)) for arm in (0, 1)]
    return counts, rates, query.epsilon


def _flip(draws: int) -> tuple[list[np.ndarray], list[np.ndarray], float]:
    """Return how often one bit among others, present or not, is released as set."""
    query, total = PureQuery(epsilon=1.0, count=1, **_WORDS), 400
    keep = 0.6
    make = keep / math.e
    runs, counts = draws // 20, []
    for arm in (0, 1):
        hits = 0
        for run in range(runs):
            door = _door(2 * run + arm, query)
            codes = np.arange(1 - arm, 40)
            set_bits = door.flip(
                codes, total, keep, make, query, lambda draw, n: draw.integers(0, total, n)
            )
            hits += int((set_bits == 0).any())
        counts.append(np.array([runs - hits, hits]))
    return counts, [np.array([1 - p, p]) for p in (make, keep)], query.epsilon


def _choose_top(draws: int) -> tuple[list[np.ndarray], list[np.ndarray], float]:
    """Return how often each of three entries is chosen from neighbouring rows."""
    query = ExponentialChoice(count=1, sensitivity=1.0, scale=2.0, **_WORDS)
    counts, rates = [], []
    for arm, scores in enumerate([np.array([3.0, 2, 1]), np.array([2.0, 3, 2])]):
        door = _door(arm, query)
        rows = np.repeat(scores[None], draws, axis=0)
        choices = door.choose_top([rows], 1, [query], without=1.0)[0][:, 0]
        counts.append(np.bincount(choices, minlength=3))
        weight = np.exp(scores / query.scale)
        rates.append(weight / weight.sum())
    return counts, rates, query.bounded_range


CHOICES: dict[str, Callable[[int], tuple[list[np.ndarray], list[np.ndarray], float]]] = {
    "respond": _respond,
    "flip": _flip,
    "choose_top": _choose_top,
}
MECHANISMS = (*GAUSSIAN, *LAPLACE, *CHOICES)
_ALARM = (1 - AUDIT_CONFIDENCE) / len(MECHANISMS)
"""Probability of a false alarm of one mechanism, so that all have that of one audit."""


def _audit_choice(name: str, draws: int) -> MechanismAudit:
    """Compare the frequency of each answer with its probability, and between two neighbours."""
    from scipy.stats import chisquare

    counts, rates, epsilon = CHOICES[name](draws)
    findings, lower = [], 0.0
    for tally, rate in zip(counts, rates, strict=True):
        if chisquare(tally, rate * tally.sum()).pvalue < _ALARM / 2 / len(counts):
            findings.append(f"{tally.tolist()} answers, expected {(rate * tally.sum()).round(1)}")
    for answer in range(len(counts[0])):
        for one, two in ((0, 1), (1, 0)):
            n, m = int(counts[one].sum()), int(counts[two].sum())
            hits, false_hits = int(counts[one][answer]), int(counts[two][answer])
            alarm = _ALARM / 2 / (2 * len(counts[0]))  # each answer, in two directions
            lower = max(lower, _pure_epsilon(Errors(false_hits, m, n - hits, n), alarm))
    if lower > epsilon:
        findings.append(f"{lower:.4f} is shown, {epsilon:.4f} proved")
    total = int(counts[0].sum())
    return MechanismAudit(name, total, None, None, lower, epsilon, tuple(findings))


def audit_mechanism(name: str, batches: int = 200) -> MechanismAudit:
    """Audit one mechanism with ``batches`` short batches and a long one."""
    draws = batches * SHORT.lanes * ROUNDS * SHORT.numbers
    if name in CHOICES:
        return _audit_choice(name, draws)
    return _audit_noise(name, batches)


def audit_mechanisms(
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[MechanismAudit]:
    """Audit every mechanism, one after the other."""
    for number, name in enumerate(MECHANISMS, 1):
        yield audit_mechanism(name)
        if progress is not None:
            progress(number, len(MECHANISMS))


_TAPE_RESOLUTION, _TAPE_WINDOW = 1e-4, 4
"""Noise of a tape is a difference of rounded numbers: a few consecutive ones are compared."""


def tape_findings(recordings: Sequence[Recording]) -> list[str]:
    """Return contradictions to the noise of recorded tapes being fresh and as large as planned.

    All numbers of all values, in standard deviations, must be those of independent normals
    (``NoiseValues``), and independent of every public stream of their replica.
    """
    from private_graphs.mechanisms.replay import tape_noise

    tapes = [
        (recording.streams[name], noise)
        for recording in recordings
        for name, noise in tape_noise(recording).items()
    ]
    if not tapes:
        return []
    alarm = (1 - AUDIT_CONFIDENCE) / 2
    values = [value for _, noise in tapes for value in noise]
    violations = NoiseValues(values, _TAPE_RESOLUTION, _TAPE_WINDOW).found(alarm)
    for streams, noise in tapes:
        numbers = np.concatenate([value.ravel() for value in noise])
        public = [
            (f"the public stream {name} in {np.dtype(kind)}", draw.standard_normal(size, kind))
            for kind in (np.float64, np.float32)
            for size in (len(numbers),)
            for name, draw in streams.public_generators().items()
        ]
        violations += found_together(numbers, public, alarm / len(tapes))
    return [str(violation) for violation in violations]


def describe(audits: Sequence[MechanismAudit]) -> str:
    """Return a table for a terminal, and the findings."""
    lines = [f"{'mechanism':24} {'draws':>9} {'std ratio':^17} {'shown':>8} {'proved':>8}"]
    for audit in audits:
        bounds = " " * 17
        if audit.std_ratio_low is not None:
            bounds = f"{audit.std_ratio_low:7.4f} - {audit.std_ratio_high:7.4f}"
        verdict = "passed" if audit.passed else "FAILED"
        lines.append(
            f"{audit.mechanism:24} {audit.draws:9} {bounds} {audit.mu_lower:8.4f} "
            f"{audit.mu_proved:8.4f} {verdict}"
        )
        lines += [f"    {finding}" for finding in audit.findings[:5]]
    return "\n".join(lines)
