"""DPDGC: an encoder of the adjacency by DP-SGD, its noisy output as embedding, a classifier.

Chien, Chen, Pan, Li, Özgür & Milenkovic, NeurIPS 2023, as their code has it (thupchnsky/dp-gnn
572a028); no text beyond the abstract was read. The encoder is linear, Z = A W + b, and is trained
by a fixed head; Z is released once; the classifier (LINKX, Lim et al. 2021) reads features and Z.
Its training is post-processing under ``links``, and DP-SGD under ``lists``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse
from pydantic import Field

from private_graphs.core.streams import PublicStreams
from private_graphs.datasets.protocols import Protocol, by_name
from private_graphs.mechanisms.door import Door
from private_graphs.methods.noisy_sums import (
    VALIDATION_READ,
    SumsData,
    layer,
    norms,
    owned_lists,
    started,
)
from private_graphs.privacy.calibration import gdp_noise, smallest_noise
from private_graphs.privacy.events import Event
from private_graphs.privacy.queries import GaussianQuery, PoissonSums
from private_graphs.privacy.query_calibration import scale_noise
from private_graphs.privacy.renyi import fixed_lots_epsilon
from private_graphs.studies.dpdgc.read_back import Embedding, counted
from private_graphs.tasks.method import (
    Context,
    Method,
    Outcome,
    PrintedEpsilon,
    Request,
    Settings,
    in_batches,
    torch_memory,
)
from private_graphs.tasks.tasks import NodeTask

if TYPE_CHECKING:
    import torch

    from private_graphs.datasets.spec import GraphSize
    from private_graphs.training import stacks

WIDTH = 64
"""Number of hidden channels, and of numbers of a row of the embedding."""
DROPOUT = 0.5
"""Dropout rate of the classifier at edge level."""
SUPPOSED_NORM = 1e-8
"""Norm of a node's weights that the noise of the released code supposes (``norm_scale``)."""


class DpdgcSettings(Settings):
    """Settings of DPDGC; the defaults are those of the authors' scripts for Cora."""

    epochs: int = Field(default=100, ge=1)
    """Epochs of each of the two trainings."""
    lot: int = Field(default=64, ge=1)
    """Number of training nodes of a step, on average under coins."""
    learning_rate: float = Field(default=0.001, gt=0)
    neighbours: int | None = Field(default=None, ge=1)
    """k of N_k: neighbours of the protected node whose rows may change; None: all that are on its
    list. Only under ``lists``."""
    degree: int = Field(default=100, ge=1)
    """Maximum number D of nodes on a list; only under ``lists``."""
    read_back: Literal[True] | None = None
    """Whether edges are read back from what is released (``read_back``)."""


@dataclass(frozen=True, kw_only=True)
class DpdgcProtocol(Protocol):
    """Weights of the encoder, minibatches, and choices that read validation nodes."""

    weights: Literal["trained", "scaled", "random"]
    """Weights of the encoder: trained, trained and scaled to norm 1 after each step, or public
    random ones of norm 1."""
    lots: Literal["fixed", "poisson"]
    """Minibatches: a fixed number of nodes without replacement, or independent coins."""
    encoder_epoch: Literal["best_validation", "last"]
    """Epoch of the encoder that is kept; the best one is found on validation nodes' own edges."""
    epoch_of_lists: Literal["best_validation", "last"]
    """Epoch of the classifier that is kept under ``lists``, where validation nodes are private."""


PROTOCOLS = by_name(
    DpdgcProtocol(
        name="released",
        summary="what the authors' code does: the scaling of the encoder's weights, for which "
        "the noise is made, changes a copy that is thrown away",
        calibration="published",
        weights="trained",
        lots="fixed",
        encoder_epoch="best_validation",
        epoch_of_lists="best_validation",
    ),
    DpdgcProtocol(
        name="paper",
        summary="the code with the weights scaled, to norm 1; minibatches by coins, and the "
        "encoder's last epoch, so that they can be priced. The paper's text was not read",
        calibration="published",
        weights="scaled",
        lots="poisson",
        encoder_epoch="last",
        epoch_of_lists="best_validation",
    ),
    DpdgcProtocol(
        name="sound",
        summary="what can be proved: public random weights, and all noise in one release of "
        "the embedding; an undirected edge, or a node with the list that it owns",
        weights="random",
        lots="poisson",
        encoder_epoch="last",
        epoch_of_lists="last",
    ),
)

_SUPPOSED = (
    "the noise is made for weights of norm 1e-8, and the weights are not scaled to it: one edge "
    "moves the embedding by the norm of a node's weights, which nothing bounds"
)
_MANY_ROWS = (
    "a changed node moves the gradients of all nodes that list it, and the noise of a sum is made "
    "for the square root of their number"
)
_ENDS = "an undirected edge changes the gradients of its two ends, each clipped"
_RECEIVERS = (
    "an edge to a node adds its weights, of norm 1, to one row; an undirected edge adds to two"
)
_LISTS = (
    "a node adds its weights, of norm 1, to the rows of the {degree} nodes at most that it lists; "
    "replaced, it leaves these rows and adds to as many others"
)
_OWN_STEP = "one training node changes its own clipped gradient alone, which reads noisy rows"
_ANY_ENTRIES = "N_k has no bound on the list of a node, only on how many of its entries change"


@dataclass(frozen=True)
class DpdgcReleases:
    """What one run releases, up to the scale of all its noise."""

    protocol: DpdgcProtocol
    unit: Literal["edge_undirected", "node_out_list"]
    neighbours: int | None
    degree: int
    n: int
    """Number of training nodes."""
    lot: int
    epochs: int
    adjacency: bool
    """Whether the adjacency is read at all."""
    delta: float

    @classmethod
    def of(cls, task: NodeTask, settings: DpdgcSettings, adjacency: bool) -> DpdgcReleases:
        """Return the releases of a run with these settings."""
        lists = task.scenario.unit == "node_out_list"
        n = int(task.graph.train_mask.sum())
        return cls(task.protocol, task.scenario.unit, settings.neighbours if lists else None,
                   settings.degree, n, min(settings.lot, n), settings.epochs, adjacency,
                   task.delta)  # fmt: skip

    @property
    def lists(self) -> bool:
        """Whether nodes are private."""
        return self.unit == "node_out_list"

    @property
    def bound(self) -> int | None:
        """Maximum number of nodes on a list; None: lists are as they are."""
        proved = self.protocol.weights == "random"
        if self.neighbours is not None:
            return self.neighbours if proved else None
        return self.degree if self.lists else None

    @property
    def encodes(self) -> bool:
        """Whether an encoder is trained."""
        return self.adjacency and self.protocol.weights != "random"

    @property
    def encoder_steps(self) -> int:
        """Number of steps of an epoch of the encoder."""
        return math.ceil(self.n / self.lot)

    @property
    def factor(self) -> float:
        """Noise of a step of the encoder, in units of the scale: 2·sqrt of the changed rows."""
        if not self.lists:
            return 2.0
        return 2 * math.sqrt((self.neighbours or self.degree) + 1)

    @property
    def reach(self) -> float:
        """What the code takes for the change of the embedding at weights of norm 1."""
        if not self.lists:
            return 1.0
        return math.sqrt(2 * self.degree if self.neighbours is None else self.neighbours)

    def events(self, scale: float) -> tuple[Event, ...]:
        """Return the plan: steps of the encoder, the embedding, steps of the classifier."""
        encoder = [self._encoder(scale)] if self.encodes else []
        embedding = [self.embedding(scale)] if self.adjacency else []
        classifier = [self._classifier(scale)] if self.lists else []
        return (*encoder, *embedding, *classifier)

    @property
    def _words(self) -> dict[str, Any]:
        return {"unit": self.unit, "relation": "replace" if self.lists else "add_remove"}

    def _encoder(self, scale: float) -> Event:
        count, noise = self.epochs * self.encoder_steps, self.factor * scale
        reason = _MANY_ROWS if self.lists else _ENDS
        words = {"clipping": "per_record", "reason": reason, "unproved": self.lists, **self._words}
        if self.protocol.lots == "fixed":
            sensitivity = self.factor if self.lists else 4.0
            return GaussianQuery(count=count, sensitivity=sensitivity, noise_std=noise, **words)
        rows = 2 if not self.lists else (self.neighbours or self.degree) + 1
        return PoissonSums(count=count, noise_multiplier=noise, clip_norm=1.0, terms=rows,
                           rate=self.lot / self.n, exchange=not self.lists, **words)  # fmt: skip

    def embedding(self, scale: float) -> GaussianQuery:
        """Return the release of the embedding."""
        words, std = {"count": 1, **self._words}, scale * self.reach
        if self.protocol.weights == "trained":
            supposed = SUPPOSED_NORM * self.reach
            return GaussianQuery(sensitivity=supposed, noise_std=scale * supposed, unproved=True,
                                 reason=_SUPPOSED, **words)  # fmt: skip
        if not self.lists:
            std = std if self.encodes else std * math.sqrt(2)
            return GaussianQuery(
                sensitivity=math.sqrt(2), noise_std=std, reason=_RECEIVERS, **words
            )
        if self.bound is None:
            return GaussianQuery(sensitivity=self.reach, noise_std=std, unproved=True,
                                 reason=_ANY_ENTRIES, **words)  # fmt: skip
        moved = math.sqrt(2 * self.bound)
        return GaussianQuery(sensitivity=moved, noise_std=scale * moved,
                             reason=_LISTS.format(degree=self.bound), **words)  # fmt: skip

    def _classifier(self, scale: float) -> Event:
        words = {"count": self.epochs * (self.n // self.lot), "clipping": "per_record",
                 "reason": _OWN_STEP, **self._words}  # fmt: skip
        if self.protocol.lots == "fixed":
            return GaussianQuery(sensitivity=2.0, noise_std=2 * scale, **words)
        return PoissonSums(noise_multiplier=2 * scale, clip_norm=1.0, rate=self.lot / self.n,
                           **words)  # fmt: skip

    def claimed(self, scale: float) -> float:
        """Return the ε that a Rényi accountant gives for what the code composes."""
        trainings = self.encodes + self.lists
        steps = trainings * (self.epochs * self.n // self.lot)
        others = int(self.adjacency)
        return fixed_lots_epsilon(scale, steps, self.lot, self.n, others, self.delta)


@lru_cache(maxsize=256)
def noise_scale(releases: DpdgcReleases, epsilon: float) -> float:
    """Return the scale of all noise at ``epsilon``."""
    if not releases.events(1.0):
        return 0.0
    if releases.protocol.calibration == "published":
        return smallest_noise(releases.claimed, epsilon, guess=4.0)
    if not releases.lists:
        return gdp_noise(epsilon, 1, releases.delta, "add_remove")
    return scale_noise(epsilon, releases.delta, releases.events)


# --- networks ---


@dataclass(frozen=True, eq=False)
class AdjacencyEncoder:
    """A linear layer on rows of the adjacency, and a head (h, C) that is not trained."""

    n_nodes: int
    head: torch.Tensor
    norm: stacks.Norm = "none"

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Parameter shapes of one replica."""
        return layer("rows", self.n_nodes, WIDTH)

    def __call__(self, forward: stacks.Forward):
        """Return logits (R, n, C)."""
        from torch.nn.functional import selu

        return selu(forward.features("rows"))[:, 0] @ self.head


@dataclass(frozen=True, eq=False)
class LinkxClassifier:
    """LINKX: two layers on features; two on these with the embedding, added to both; a head."""

    n_features: int
    n_classes: int
    norm: stacks.Norm
    masks: torch.Generator | None
    """Source of the masks of dropout; None: no dropout."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Parameter shapes of one replica."""
        shapes = layer("first", self.n_features, WIDTH) | layer("second", 1, WIDTH, WIDTH)
        shapes |= layer("third", 1, 2 * WIDTH, WIDTH) | layer("fourth", 1, WIDTH, WIDTH)
        if self.norm != "none":
            shapes |= norms(["first", "third", "last"], 1, WIDTH) | norms(["joined"], 1, 2 * WIDTH)
        return shapes | layer("head", 1, WIDTH, self.n_classes)

    def __call__(self, forward: stacks.Forward):
        """Return logits (R, n, C)."""
        import torch

        texts = forward.linear("second", self._active(forward, "first", forward.features("first")))
        rows = forward.view.hops
        joined = self._active(forward, "joined", torch.cat([texts, rows], dim=-1))
        inner = self._active(forward, "third", forward.linear("third", joined))
        last = self._active(forward, "last", forward.linear("fourth", inner) + texts + rows)
        return forward.linear("head", last)[:, 0]

    def _active(self, forward: stacks.Forward, name: str, values: torch.Tensor) -> torch.Tensor:
        """Return ``values`` after normalisation, dropout and SELU."""
        import torch
        from torch.nn.functional import selu

        values = forward.norm(f"{name}.norm", self.norm, values)
        if forward.training and self.masks is not None:
            mask = torch.empty_like(values).bernoulli_(1 - DROPOUT, generator=self.masks)
            values = values * mask / (1 - DROPOUT)
        return selu(values)


def fixed_head(n_classes: int, streams: PublicStreams) -> torch.Tensor:
    """Return (h, C): the first columns of a random orthogonal matrix, times sqrt(6 / h)."""
    import torch

    draws = streams.generator("initial head").uniform(-1, 1, (WIDTH, WIDTH))
    rotation = np.linalg.qr(draws)[0][:n_classes] * math.sqrt(6 / WIDTH)
    return torch.from_numpy(rotation.astype(np.float32).T.copy())


# --- a run ---


@dataclass(eq=False)
class _OneRun:
    """One replica."""

    data: SumsData
    request: Request
    releases: DpdgcReleases
    scale: float
    door: Door

    def __post_init__(self) -> None:
        self.plan = self.releases.events(self.scale) if self.request.private else ()
        self.door.plan([self.plan])
        self.labels = self.data.task.graph.labels
        self.receiving = self._receiving()
        self._planned = iter(self.plan)

    def _receiving(self) -> scipy.sparse.csr_matrix:
        """Return (N, N) whose row i marks the nodes that list i, less than all under a bound."""
        lists, bound = self.data.adjacency, self.releases.bound
        if bound is not None:
            lists = owned_lists(lists, bound, self.request.streams)
        return lists.T.tocsr()

    def embedding(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the released embedding (N, h), the weights (N, h) and the bias (h,)."""
        n = self.data.task.graph.n_nodes
        if self.releases.encodes:
            weights, bias = self._encoder(n)
        else:
            weights = self.request.streams.generator("random_rows").uniform(-1, 1, (n, WIDTH))
            weights /= np.linalg.norm(weights, axis=1, keepdims=True)
            bias = np.zeros(WIDTH)
        query = next(self._planned, None)
        assert query is None or isinstance(query, GaussianQuery)
        [rows] = self.door.gaussian((self.receiving @ weights)[None], [query], stream="embedding")
        return rows, weights, bias

    def _encoder(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        from private_graphs.training import stacks

        inputs = stacks.StackInputs(stacks.SparseRows(self.receiving))
        network = AdjacencyEncoder(n, fixed_head(self.data.task.n_classes, self.request.streams))
        stack = started(network, [self.request.streams], 0)
        scaled = self.releases.protocol.weights == "scaled"

        def scale(stack: stacks.Stack) -> None:
            if scaled:
                rows = stack.parameters["rows.weight"]
                rows /= rows.norm(dim=-1, keepdim=True).clamp_(min=1e-12)

        scale(stack)
        chooses = self.releases.protocol.encoder_epoch == "best_validation"
        self._fit(network, stack, inputs, chooses, self.releases.encoder_steps, scale)
        weights, bias = (stack.parameters[f"rows.{part}"][0].double().numpy()
                         for part in ("weight", "bias"))  # fmt: skip
        if scaled:  # to the last bit of the type in which they are added up
            weights = weights / np.linalg.norm(weights, axis=1, keepdims=True)
        return weights, bias

    def classes(self, embedding: np.ndarray) -> np.ndarray:
        """Return logits (N, C) of the classifier, trained on features and the embedding."""
        import torch

        from private_graphs.training import stacks

        steps = self.releases.lists and self.request.private
        rows = torch.from_numpy(embedding.astype(np.float32))[None, None]
        inputs = stacks.StackInputs(self.data.rows, rows)
        seed = int(self.request.streams.generator("dropout").integers(2**62))
        masks = None if steps else torch.Generator().manual_seed(seed)
        size = self.data.task.graph.n_features, self.data.task.n_classes
        network = LinkxClassifier(*size, "none" if steps else "batch", masks)
        stack = started(network, [self.request.streams], 1)
        chooses = not self.releases.lists or (
            self.releases.protocol.epoch_of_lists == "best_validation"
        )
        self._fit(network, stack, inputs, chooses, self.releases.n // self.releases.lot)
        return stacks.outputs(network, stack, inputs)[0].numpy()

    def _fit(
        self, network: Any, stack: stacks.Stack, inputs: stacks.StackInputs, chooses: bool,
        steps: int, after_step: Any = lambda stack: None,
    ) -> None:  # fmt: skip
        """Train by the noisy steps that are planned next, or by steps without noise."""
        from private_graphs.training import stacks

        data, settings = self.data, self.request.settings
        fit = stacks.Fit(
            inputs.take(data.train), self.labels[data.train], [settings.learning_rate],
            settings.epochs, inputs.take(data.validation) if chooses else None,
            self.labels[data.validation] if chooses else None,
        )  # fmt: skip
        noisy = self.request.private and (
            isinstance(network, AdjacencyEncoder) or self.releases.lists
        )
        if noisy:
            descent = stacks.steps(self.door, [next(self._planned)])
            lots = self.releases.protocol.lots
            stacks.train_noisy(network, stack, fit, stacks.Noisy(
                self.releases.lot, data.places, descent, lots, whole=steps, after_step=after_step
            ))  # fmt: skip
        else:
            order = self.request.streams.generator(f"partition {len(stack.shapes)}")
            stacks.train_lots(network, stack, fit, self.releases.lot, [order])


def _answer(
    adjacency: bool, data: SumsData, batch: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Train one run."""
    (request,), task = batch, data.task
    releases = DpdgcReleases.of(task, request.settings, adjacency)
    scale = noise_scale(releases, request.epsilon) if request.private else 0.0
    run, n = _OneRun(data, request, releases, scale, door), task.graph.n_nodes
    measured: dict[str, Any] = {"epochs": request.settings.epochs, "noise_multiplier": scale}
    evaluated: dict[str, Any] = {}
    embedding = np.zeros((n, WIDTH))
    if adjacency:
        rows, weights, bias = run.embedding()
        embedding = rows + bias
        if request.private:
            std = releases.embedding(scale).noise_std
            longest = float(np.linalg.norm(weights, axis=1).max())
            measured["edge_shift"] = math.sqrt(2) * longest / std
            if request.settings.read_back:
                evaluated = counted(Embedding(rows, weights, std), run.receiving)
    logits = run.classes(embedding)
    predicted = logits.argmax(-1)
    return [
        Outcome(
            test_predictions=predicted[data.test],
            validation_predictions=predicted[data.validation],
            measured=measured,
            evaluated=evaluated,
            logits=None if data.asked is None else logits[data.asked],
        )
    ]


def _run_all(
    adjacency: bool, task: NodeTask, requests: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Answer every request, one after the other."""
    import torch

    torch.set_num_threads(context.threads)
    answered = partial(_answer, adjacency, SumsData.of(task, context.asked))
    return in_batches(requests, door, context, lambda request: request.streams.public_id, answered)


def _stated(
    adjacency: bool, task: NodeTask, request: Request, context: Context, chosen: Mapping[str, Any]
) -> dict[str, Any]:
    """See ``Method.stated``."""
    if not request.private:
        return {"noise_generator": "numpy_float32"}
    releases = DpdgcReleases.of(task, request.settings, adjacency)
    scale = chosen.get("noise_multiplier")
    scale = noise_scale(releases, request.epsilon) if scale is None else scale
    chooses = releases.lists and task.protocol.epoch_of_lists == "best_validation"
    unit = "a node" if releases.lists else "one directed entry of the adjacency"
    claim = None
    if task.protocol.calibration == "published" and releases.events(1.0):
        formula = "Rényi DP of minibatches without replacement and one Gaussian release"
        claim = PrintedEpsilon(releases.claimed(scale), f"{formula}, for {unit}")
    return {
        "events": releases.events(scale),
        "claim": claim,
        "noise_generator": "numpy_float32",
        "assumptions": (VALIDATION_READ,) if chooses else (),
    }


def memory(settings: DpdgcSettings, size: GraphSize, runs: int) -> int:
    """See ``Method.memory``: weights, moments, gradients and noise of the two first layers."""
    return torch_memory(settings, size, 1) + 100 * WIDTH * (size.nodes + size.features)


def _method(name: str, title: str, scenarios: tuple[str, ...], **fields: Any) -> Method:
    adjacency = name == "dpdgc"
    return Method(
        name, title, partial(_run_all, adjacency), scenarios, settings=DpdgcSettings,
        protocols=PROTOCOLS, prepares="features are used as they are",
        stated=partial(_stated, adjacency), memory=memory, **fields,
    )  # fmt: skip


METHODS = (
    _method("dpdgc", "DPDGC", ("links", "lists"), named=("neighbours",),
            summary="A noisy linear embedding of the adjacency, and a classifier on it and the "
            "features."),
    _method("dpdgc_alone", "its classifier, no adjacency", ("links",), reads_private=False,
            summary="Baseline: DPDGC's classifier on features alone; no edge is read."),
    _method("dpdgc_alone_steps", "its classifier, no adjacency, by DP-SGD", ("lists",),
            summary="Baseline: DPDGC's classifier on features alone, by DP-SGD."),
)  # fmt: skip
