"""DP-APPR: private approximate PageRank rows of a few target nodes (*roots*), then DP-SGD on these.

Zhang (2021), Chapter 5, after PPRGo (Bojchevski et al., KDD 2020). A share q′ of the training nodes
is sampled; M of the sampled nodes get rows on their induced graph (``appr_rows``), and a two-layer
perceptron is trained on the mixed outputs of the targets (``training.roots``). Predictions average
over the test graph, which is public, and read no training node. Privacy cost: ``appr_budget``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import scipy.sparse
from pydantic import Field

from private_graphs.core.errors import UserError
from private_graphs.core.streams import PublicStreams, Streams
from private_graphs.mechanisms.descent import Descent
from private_graphs.mechanisms.door import Door, ReleaseMismatch
from private_graphs.privacy.accountants import gdp_epsilon
from private_graphs.privacy.assumptions import HIDDEN_MASKS
from private_graphs.privacy.events import Event
from private_graphs.privacy.losses import SampledGaussian
from private_graphs.privacy.queries import Query
from private_graphs.privacy.query_losses import composed, loss_of
from private_graphs.privacy.secret_samples import amplified_epsilon
from private_graphs.studies.dpappr.methods.appr_attack import layer_attack, picture
from private_graphs.studies.dpappr.methods.appr_budget import (
    PROTOCOLS,
    SAMPLED_KINDS,
    ApprNoise,
    ApprProtocol,
    Kind,
    ReleasePlan,
    claim,
    events,
    proved_noise,
    published_noise,
    releases,
)
from private_graphs.studies.dpappr.methods.appr_rows import (
    chosen_rows,
    columns_clipped,
    columns_normalised,
    exact_rows,
    gaussian_rows,
    most_rows,
    one_hot_rows,
    random_rows,
    truncated,
)
from private_graphs.tasks.graph_task import Records, unit_rows
from private_graphs.tasks.method import Context, Method, Outcome, Request, Settings
from private_graphs.tasks.tasks import NodeTask

_RESTART = 0.25
"""Weight of a node's own output in every propagation step of prediction (Equation 5.19)."""
BOUND_DELTA = 1e-5
"""δ at which published rows are also analysed: their own δ allows the release of a whole node."""
_DECAY = 1e-4
"""Weight decay without DP, as in the authors' code."""
ANCHORED = (
    "the weight of a root in its own row was compared on Cora-ML; on this graph that choice is not "
    "priced"
)


class ApprSettings(Settings):
    """Settings of DP-APPR; the defaults are the thesis's on Cora-ML."""

    top: int = Field(default=4, ge=1)
    """Number K of entries of a row."""
    sample: float = Field(default=0.09, gt=0, le=1)
    """Share q′ of the training nodes that is sampled; 1: all of them."""
    roots: int | None = Field(default=70, ge=1)
    """Number M of sampled nodes that get multi-node rows; None: all."""
    batch: int = Field(default=60, ge=1)
    """Number B of target nodes of a step; only for protocols with batches."""
    root_rate: float | None = Field(default=None, gt=0, le=1)
    """Probability with which each target joins a step (Poisson sampling); None: the protocol's
    batches. Only with proved noise, and not for chosen rows."""
    epochs: int = Field(default=200, ge=1)
    """Epochs; steps with full batches."""
    learning_rate: float = Field(default=0.005, gt=0)
    optimizer: Literal["adam", "sgd"] = "adam"
    clip: float = Field(default=1.0, gt=0)
    """Clip norm C of a target's gradient."""
    row_clip: float = Field(default=0.01, gt=0)
    """Clip norm C1 of a row with Gaussian noise."""
    entry_clip: float = Field(default=0.001, gt=0)
    """Clip value C2 of entries of chosen rows."""
    others: int = Field(default=1, ge=0)
    """Maximum number R of other nodes' rows that contain a node; only if the protocol truncates."""
    anchor: float = Field(default=0.0, ge=0, lt=1)
    """Weight of the target itself in its row, in addition to the private part; needs no data."""
    training_epsilon: float | None = Field(default=None, gt=0)
    """Part of ε for training, in protocols with published noise; None: half."""
    propagations: int = Field(default=2, ge=0)
    """Averaging steps over the test graph at prediction; 0: each node alone."""
    unit_rows: bool = False
    """Whether features are first scaled to norm 1; by default they are used as stored."""
    attacked: bool = False
    """Whether degrees are guessed from hidden layers, if the protocol publishes facts on the
    sample."""
    drawn: bool = False
    """Whether hidden layers are also drawn."""


def sampled_nodes(share: float, n_train: int) -> int:
    """Return the number of sampled training nodes: ceil(share · n)."""
    return math.ceil(round(share * n_train, 9))


@dataclass(frozen=True, eq=False)
class Sample:
    """The sampled training nodes in random order, and their induced graph."""

    features: scipy.sparse.csr_matrix
    labels: np.ndarray
    edge_index: np.ndarray
    """(2, E) edges among the sampled nodes, by their positions."""
    rate: float

    @classmethod
    def of(cls, data: ApprData, places: np.ndarray) -> Sample:
        """Take the training nodes at ``places`` (m,), which are in random order.

        The order matters: if sorted by number, one exchanged node would shift all positions.
        """
        train = np.flatnonzero(data.task.graph.train_mask)
        nodes = train[places]
        positions = np.full(data.task.graph.n_nodes, -1)
        positions[nodes] = np.arange(len(nodes))
        ends = positions[data.task.graph.edge_index]
        return cls(
            data.features[nodes], data.task.graph.labels[nodes],
            ends[:, (ends >= 0).all(axis=0)], len(nodes) / len(train),
        )  # fmt: skip

    @property
    def size(self) -> int:
        """Number of sampled nodes m."""
        return len(self.labels)

    @cached_property
    def walk(self) -> scipy.sparse.csr_matrix:
        """Adjacency matrix of the induced graph with self-loops."""
        from private_graphs.graphs.pagerank import with_loops

        return with_loops(self.edge_index, self.size)

    @cached_property
    def degrees(self) -> np.ndarray:
        """(m,) degrees without self-loops."""
        return np.bincount(self.edge_index.ravel(), minlength=self.size)

    def pagerank(self, n_roots: int) -> np.ndarray:
        """Return (M, m) PageRank rows of the first M nodes; cached."""
        from private_graphs.graphs.pagerank import pagerank_rows

        if n_roots not in self._pagerank:
            self._pagerank[n_roots] = pagerank_rows(self.walk, np.arange(n_roots))
        return self._pagerank[n_roots]

    @cached_property
    def _pagerank(self) -> dict[int, np.ndarray]:
        return {}


def shared_sample(task: NodeTask, request: Request) -> str:
    """Return the name of the sample that a request shares with others (``SecretSample.shared``).

    It is that of the seed if a protocol repeats published work with a kept seed; otherwise empty.
    """
    secret = request.streams.secret or task.protocol.calibration == "proved"
    return "" if secret else f"seed {request.seed}"


@dataclass(frozen=True, eq=False)
class ApprData:
    """Arrays of a task, with features as stored or as unit rows, and samples by seed."""

    task: NodeTask
    features: scipy.sparse.csr_matrix

    @classmethod
    def of(cls, task: NodeTask, unit: bool) -> ApprData:
        """Convert a task."""
        features = task.graph.features
        matrix = scipy.sparse.csr_matrix(
            features if isinstance(features, np.ndarray) else features.to_scipy()
        )
        return cls(task, unit_rows(matrix) if unit else matrix)

    def sample(self, request: Request, door: Door) -> Sample:
        """Return a request's sample: its own if the sample is in the plan, else its seed's."""
        shared, share = None, request.settings.sample
        if shared_sample(self.task, request):
            shared = Streams.of({"sample": "uniform", "seed": request.seed})
        n_train = int(self.task.graph.train_mask.sum())
        (places,) = door.sample(n_train, sampled_nodes(share, n_train), shared=shared)
        sample = Sample.of(self, places)
        if shared is None or share == 1:
            return sample
        # which caches its PageRank
        return self._samples.setdefault((request.seed, share, places.tobytes()), sample)

    @cached_property
    def majority(self) -> int:
        """Most frequent class of all training nodes, sampled or not."""
        graph = self.task.graph
        labels = graph.labels[graph.train_mask & (graph.labels >= 0)]
        return int(np.bincount(labels, minlength=1).argmax())

    @cached_property
    def _samples(self) -> dict[tuple[int, float], Sample]:
        return {}

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        """Validation and test nodes, for prediction."""
        graph = self.task.graph
        return Side.of(self, graph.validation_mask), Side.of(self, graph.test_mask)


@dataclass(frozen=True, eq=False)
class Side:
    """Public nodes with their edges, as a matrix of means over a node and its neighbours."""

    features: scipy.sparse.csr_matrix
    mean: scipy.sparse.csr_matrix
    scored: np.ndarray
    """Positions of the nodes with a label."""

    @classmethod
    def of(cls, data: ApprData, mask: np.ndarray) -> Side:
        """Induce the graph of the nodes of ``mask``, with self-loops."""
        from private_graphs.graphs.pagerank import with_loops
        from private_graphs.graphs.sample import induced_subgraph

        nodes, edges = np.flatnonzero(mask), data.task.graph.edge_index
        walk = with_loops(induced_subgraph(edges[0], edges[1], mask), len(nodes))
        mean = scipy.sparse.diags(1 / np.maximum(walk.sum(axis=1).A1, 1)) @ walk
        scored = np.flatnonzero(data.task.graph.labels[nodes] >= 0)
        return cls(data.features[nodes], scipy.sparse.csr_matrix(mean), scored)

    def predict(
        self, theta: np.ndarray, hops: int, dropout: float, generator: np.random.Generator
    ) -> np.ndarray:
        """Return the classes of the scored nodes by Equation 5.19."""
        logits = outputs(theta, self.features, dropout, generator)
        mixed = logits
        for _ in range(hops):
            mixed = (1 - _RESTART) * (self.mean @ mixed) + _RESTART * logits
        return mixed[self.scored].argmax(axis=1)


def _dropped(values: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
    if not share:
        return values
    return values * (generator.random(values.shape) >= share) / (1 - share)


def hidden(
    theta: np.ndarray,
    features: scipy.sparse.csr_matrix,
    dropout: float = 0.0,
    generator: np.random.Generator | None = None,
) -> np.ndarray:
    """Return (n, 32): the first layer of nodes, before its activation."""
    from private_graphs.training.roots import HIDDEN

    rows = features
    if dropout:
        rows = features.copy()
        rows.data = _dropped(rows.data, dropout, generator)
    return rows @ theta[: features.shape[1] * HIDDEN].reshape(-1, HIDDEN).astype(np.float64)


def outputs(
    theta: np.ndarray,
    features: scipy.sparse.csr_matrix,
    dropout: float = 0.0,
    generator: np.random.Generator | None = None,
) -> np.ndarray:
    """Return (n, classes): the network's outputs for each node alone."""
    first = np.maximum(hidden(theta, features, dropout, generator), 0)
    second = theta[features.shape[1] * first.shape[1] :].reshape(first.shape[1], -1)
    return _dropped(first, dropout, generator) @ second.astype(np.float64)


def plan_of(kind: Kind, task: NodeTask, settings: ApprSettings) -> ReleasePlan:
    """Return the planned releases of a run, without noise scales."""
    protocol: ApprProtocol = task.protocol
    n_train = int(task.graph.train_mask.sum())
    size = sampled_nodes(settings.sample, n_train)
    n_rooted = min(settings.roots or size, size)
    n_roots = size if protocol.unrooted == "one_hot" else n_rooted
    full = protocol.batches == "full"
    batch = n_roots if full else min(settings.batch, n_roots)
    per_epoch = -(-n_roots // batch)
    if settings.root_rate is not None and not (full and kind in SAMPLED_KINDS):
        raise UserError(
            f"root_rate is {settings.root_rate:g} under {protocol.name} with {kind} rows; expected "
            f"none, or sound with rows that are {', '.join(SAMPLED_KINDS)}: of others no bound of "
            "use is proved"
        )
    limit: int | None = settings.others if protocol.truncates else None
    return ReleasePlan(
        kind=kind, rate=size / n_train, n_sampled=size, private_roots=n_rooted,
        n_roots=n_roots, top=min(settings.top, size), epochs=settings.epochs,
        steps=settings.epochs * per_epoch, batch=batch, row_clip=settings.row_clip,
        entry_clip=settings.entry_clip, clip_norm=settings.clip,
        others={"one_hot": 0, "exact": None}.get(kind, limit), per_batch=kind == "exact",
        overlaps=protocol.batches == "fixed_cycle" and n_roots % batch > 0, delta=task.delta,
        root_rate=settings.root_rate,
    )  # fmt: skip


def parts_of(plan: ReleasePlan, request: Request) -> tuple[float, float]:
    """Return ε of the rows and of training with published noise; infinity: no noise."""
    total, training = request.epsilon, request.settings.training_epsilon
    if not plan.has_rows:
        return math.inf, total if training is None else training
    if training is None:
        return total / 2, total / 2
    if training >= total:
        raise UserError(
            f"training_epsilon is {training:g} with epsilon {total:g}; expected a smaller part: "
            "the rest pays for the rows"
        )
    return total - training, training


def batches_of(
    plan: ReleasePlan, protocol: ApprProtocol, usable: np.ndarray, descent: Descent
) -> np.ndarray:
    """Return (T, B) target nodes of every step; -1 as padding, or for targets without a label."""
    n, size = plan.n_roots, plan.batch
    per_epoch = -(-n // size)
    if plan.root_rate is not None:
        [joined] = descent.join_steps(plan.steps, n)
        return _labelled(_table(joined), usable)
    [generator] = descent.orders()
    if protocol.batches == "full":
        epochs = np.arange(n)[None]
    elif protocol.batches == "fixed_cycle":
        order = generator.permutation(n)
        starts = np.minimum(size * np.arange(per_epoch), n - size)
        epochs = order[starts[:, None] + np.arange(size)]
    else:
        orders = np.full((plan.epochs, per_epoch * size), -1)
        for order in orders:
            order[:n] = generator.permutation(n)
        return _labelled(orders.reshape(-1, size), usable)
    return _labelled(np.tile(epochs, (plan.epochs, 1)), usable)


def _table(joined: Sequence[np.ndarray]) -> np.ndarray:
    """Return (steps, widest batch): the targets that join each step, padded with -1."""
    batches = np.full((len(joined), max(1, *map(len, joined))), -1)
    for batch, roots in zip(batches, joined, strict=True):
        batch[: len(roots)] = roots
    return batches


def _labelled(batches: np.ndarray, usable: np.ndarray) -> np.ndarray:
    return np.where((batches >= 0) & usable[batches], batches, -1)


def rows_of(
    plan: ReleasePlan,
    protocol: ApprProtocol,
    sample: Sample,
    streams: PublicStreams,
    door: Door,
    queries: Sequence[Query],
    anchor: float = 0.0,
) -> scipy.sparse.csr_matrix:
    """Return (roots, m): the rows of all target nodes, after the protocol's column rule.

    ``queries`` are the queries of the rows; none without DP.
    """
    n, none = plan.private_roots, (None, None)
    if plan.kind == "one_hot":
        rows = one_hot_rows(0, sample.size)[:n]
    elif plan.kind == "random":
        rows = random_rows(n, sample.size, plan.top, streams.generator("random_rows"))
    elif plan.kind == "exact":
        rows = exact_rows(sample.pagerank(n), plan.top)
    elif plan.kind == "gaussian":
        query = (*queries, *none)[0]
        rows = gaussian_rows(sample.pagerank(n), plan.top, plan.row_clip, door, query)
    else:
        choice, values = (*queries, *none)[:2]
        rows = chosen_rows(
            sample.pagerank(n), plan.top, plan.entry_clip, door, choice, values,
            "entries" if plan.kind == "chosen_values" else "alike",
        )  # fmt: skip
    if anchor:
        rows = anchor * one_hot_rows(0, sample.size)[:n] + (1 - anchor) * rows
    if plan.n_roots > n:
        rows = scipy.sparse.vstack([rows, one_hot_rows(n, sample.size)], format="csr")
    if plan.kind != "exact":
        rule = {"normalise": columns_normalised, "clip": columns_clipped}[protocol.columns]
        rows = rule(rows)
    return rows if plan.others is None else truncated(rows, plan.others)


def _bound(plan: ReleasePlan, noise: ApprNoise, rows: scipy.sparse.csr_matrix) -> float:
    """Return the ε that a run proves at ``BOUND_DELTA``, whatever the δ of its claim.

    R is that of the run's own rows: these are released before training on them.
    """
    limit = 0 if plan.kind == "one_hot" else most_rows(rows)
    released = events(replace(plan, others=limit), noise)
    if plan.rate < 1:
        (sample,) = released
        released = sample.releases
    losses = tuple(loss_of(event) for event in released)
    delta = BOUND_DELTA / plan.rate
    if not all(isinstance(loss, SampledGaussian) for loss in losses):
        epsilon = composed(losses, delta)[0]
    else:
        epsilon = gdp_epsilon(math.sqrt(sum(2 * loss.steps * loss.rho for loss in losses)), delta)
    return amplified_epsilon(epsilon, plan.rate)


def _shown(plan: ReleasePlan, sample: Sample, rows: scipy.sparse.csr_matrix) -> dict[str, Any]:
    """Return statistics of the M targets' rows, computed from the sampled graph."""
    chosen = rows[: plan.private_roots] != 0
    diagonal = chosen.diagonal().mean()
    neighbours = scipy.sparse.csr_matrix(sample.walk - scipy.sparse.eye(sample.size))
    neighbours = neighbours[: plan.private_roots]
    hits = neighbours.multiply(chosen).sum(axis=1).A1
    degree = neighbours.sum(axis=1).A1
    recall = hits[degree > 0] / degree[degree > 0]
    return {
        "sampled_nodes": sample.size,
        "edges_left": sample.edge_index.shape[1],
        "isolated_share": float((sample.degrees == 0).mean()),
        "own_share": float(diagonal),
        "neighbour_recall": float(recall.mean()) if len(recall) else None,
    }


@dataclass(frozen=True, eq=False)
class _Training:
    """One request, ready to train."""

    data: ApprData
    kind: Kind
    request: Request
    door: Door
    asked: Records | None = None

    def outcome(self) -> Outcome:
        """Train and predict."""
        from private_graphs.training import roots

        request, task = self.request, self.data.task
        settings, protocol, streams = request.settings, task.protocol, request.streams
        plan = plan_of(self.kind, task, settings)
        noise, parts = noise_of(plan, task, request)
        queries = releases(plan, noise) if request.private else ()
        self.door.plan([_events(plan, noise, task, request)])
        sample = self.data.sample(request, self.door)
        rows = rows_of(plan, protocol, sample, streams, self.door, queries[:-1], settings.anchor)
        # The published protocols keep the noise of training where rows alone have none.
        std = 0.0 if noise.multiplier is None else noise.multiplier * settings.clip
        steps = [queries[-1] if queries else None]
        descent = self.door.descent(steps, coins="batches", without=std)
        if plan.others is not None and most_rows(rows) > plan.others:
            raise ReleaseMismatch(
                f"a node stands in {most_rows(rows)} rows beside its own; {plan.others} are priced"
            )
        proved = protocol.calibration == "proved"
        start = roots.initial(
            sample.features.shape[1], task.n_classes, streams.generator("initial")
        )
        bare = noise.multiplier is None
        usable = sample.labels[: plan.n_roots] >= 0
        how = roots.RootTraining(
            batches=batches_of(plan, protocol, usable, descent),
            divisor=plan.divisor,
            learning_rate=settings.learning_rate,
            clip_norm=math.inf if bare else settings.clip,
            adam=settings.optimizer == "adam",
            weight_decay=_DECAY if bare else 0.0,
            dropout=protocol.dropout,
        )
        shared = roots.Roots.of(
            sample.features, rows, np.maximum(sample.labels[: plan.n_roots], 0),
            np.float64 if proved else np.float32,
        )  # fmt: skip
        seed = int(streams.generator("dropout").integers(2**62))
        theta = roots.train(shared, start, how, descent, seed)
        validation, test = (
            side.predict(theta, settings.propagations, protocol.dropout, streams.generator(purpose))
            for side, purpose in zip(self.data.sides, ("validation", "test"), strict=True)
        )
        measured = {"epochs": settings.epochs, "noise_multiplier": noise.multiplier}
        evaluated: dict[str, Any] = {}
        if not proved:
            measured |= {"epsilon_rows": parts[0], "epsilon_training": parts[1]}
            if request.private:
                bounds = {"epsilon_bound": _bound(plan, noise, rows),
                         "others_found": most_rows(rows)}  # fmt: skip
                # Exact rows are not released: statistics of them would read private edges.
                (measured if plan.has_rows else evaluated).update(bounds)
        if protocol.shows_sample:
            evaluated |= _shown(plan, sample, rows)
            layer = hidden(theta, sample.features)
            if settings.attacked:
                evaluated |= layer_attack(layer, sample.degrees, sample.labels, request.seed)
            if settings.drawn:
                evaluated["picture"] = picture(layer, sample.labels, request.seed)
        return Outcome(
            test_predictions=test,
            validation_predictions=validation,
            measured=measured,
            evaluated=evaluated,
            majority=self.data.majority,
            logits=self._logits(theta),
        )

    def _logits(self, theta: np.ndarray) -> np.ndarray | None:
        """Return the outputs for each node alone that an attack asks for."""
        if self.asked is None:
            return None
        rows = self.asked.train_features
        return outputs(theta, unit_rows(rows) if self.request.settings.unit_rows else rows)


def stated(
    kind: Kind, task: NodeTask, request: Request, context: Context, chosen: Mapping
) -> dict[str, Any]:
    """See ``Method.stated``."""
    plan = plan_of(kind, task, request.settings)
    noise, parts = noise_of(plan, task, request, chosen.get("noise_multiplier"))
    proved = task.protocol.calibration == "proved"
    drops = task.protocol.dropout > 0 and request.private
    hidden_masks = drops and not request.streams.secret
    generator = "numpy+philox_float64" if plan.has_rows else "philox_float64"
    return {
        "events": _events(plan, noise, task, request),
        "claim": None if proved or not request.private else claim(plan, *parts),
        "noise_generator": generator if proved else "philox_float32",
        "assumptions": (ANCHORED,) * bool(request.settings.anchor) + (HIDDEN_MASKS,) * hidden_masks,
    }


def _events(
    plan: ReleasePlan, noise: ApprNoise, task: NodeTask, request: Request
) -> tuple[Event, ...]:
    return events(plan, noise, shared_sample(task, request)) if request.private else ()


def noise_of(
    plan: ReleasePlan, task: NodeTask, request: Request, multiplier: float | None = None
) -> tuple[ApprNoise, tuple[float, float]]:
    """Return the noise of a run, and the ε of rows and training as published.

    ``multiplier`` is the noise multiplier of a run that was calibrated before.
    """
    if task.protocol.calibration == "proved":
        noise = proved_noise(plan, request.epsilon, multiplier) if request.private else ApprNoise()
        return noise, (math.inf, math.inf)
    parts = parts_of(plan, request)
    return published_noise(plan, *parts, multiplier), parts


def run(
    kind: Kind, task: NodeTask, requests: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Answer every request, in order."""
    data: dict[bool, ApprData] = {}
    for request in requests:
        unit = request.settings.unit_rows
        if unit not in data:
            data[unit] = ApprData.of(task, unit)
    runs = [
        _Training(data[req.settings.unit_rows], kind, req, door.of_lanes([lane]), context.asked)
        for lane, req in enumerate(requests)
    ]
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(context.threads) as pool:
        for outcome in pool.map(_Training.outcome, runs):
            outcomes.append(outcome)
            context.report(len(outcomes), len(requests))
    return outcomes


# Exact rows, hidden by the noise of the steps; without DP they are the source's VANILLA.
METHODS = tuple(
    Method(
        f"appr_{name}",
        title,
        partial(run, kind),
        ("nodes",),
        settings=ApprSettings,
        protocols=PROTOCOLS,
        named=("sample", "epochs"),
        names_majority=True,
        stated=partial(stated, kind),
        prepares="features are used as they are, unless the settings say unit_rows",
        summary=summary,
    )
    for name, title, kind, summary in (
        ("gaussian", "GM", "gaussian",
         "DP-APPR: Gaussian noise on every entry of a row of PageRank; the largest are kept."),
        ("chosen", "EM-v0", "chosen",
         "DP-APPR: the exponential mechanism chooses entries of a row; all weigh the same."),
        ("chosen_values", "EM-v1", "chosen_values",
         "DP-APPR: the exponential mechanism chooses entries of a row; their values get noise."),
        ("features", "FEATURES", "one_hot",
         "Baseline: the same network on each node’s own features; no edge is read."),
        ("random", "RANDOM", "random",
         "Baseline: the same network with random neighbours; no edge is read."),
        ("exact", "DPSGD", "exact",
         "The same network on exact rows of PageRank, which noise in training has to hide."),
    )
)  # fmt: skip
