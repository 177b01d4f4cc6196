"""Common code of the gradient methods on node texts: settings, training in batches, events.

Rows are principal coordinates of public texts (``public_text``), under ``graph`` of texts averaged
twice. A fixed rule derives settings from public numbers, whatever validation labels are known: the
only labels that are read are those of training nodes, through the noisy steps alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy.sparse

from private_graphs.mechanisms.door import Door
from private_graphs.methods.node_gradients import (
    Linear,
    ModelTraining,
    descend,
    full_batches,
    predict,
)
from private_graphs.methods.public_text import PublicText
from private_graphs.privacy.accountants import gdp_mu
from private_graphs.tasks.graph_task import GraphTask
from private_graphs.tasks.method import Context, Outcome, Request, in_batches

_HOPS = 2
_MORE_DIRECTIONS = 1.4
"""Number of directions of rows averaged over public neighbours, relative to rows that are not."""
_CLIP_NORM = 0.5
_RANKS = (6, 512)
_STEPS = (6, 48)
_LARGEST_SIGNAL = 20_000.0
_CHOSEN_BY = "nothing: the settings follow from the public sizes and the budget by a fixed rule"
_NO_EDGE = "no edge is read: at edge level epsilon is 0"
_OWN_EDGES = (
    "an edge between a training node and a public one is read in the training node's row alone; "
    "edges among training nodes are not read"
)


@dataclass(frozen=True)
class GradientSettings:
    """Settings with which one request is answered."""

    rank: int
    """Number of principal coordinates that represent a text."""
    steps: ModelTraining


def configuration(signal: float, rate: float, rates: tuple[float, float]) -> GradientSettings:
    """Return the settings for a signal n·μ/K: a larger signal gets more directions and steps.

    The learning rate is ``rate`` times the square root of the signal, within ``rates``.
    """
    rank = np.clip(0.75 * signal**0.75, *_RANKS)
    count = np.clip(2.2 * signal ** (1 / 3), *_STEPS)
    learning_rate = np.clip(rate * signal**0.5, *rates)
    return GradientSettings(
        round(float(rank)),
        ModelTraining(round(float(count)), round(float(learning_rate), 1), _CLIP_NORM),
    )


@lru_cache(maxsize=256)
def signal(n_units: int, n_classes: int, epsilon: float, delta: float) -> float:
    """Return n·μ/K, the size of a class times the inverse noise scale; at most 20,000."""
    if math.isinf(epsilon):
        return _LARGEST_SIGNAL
    return min(_LARGEST_SIGNAL, n_units * gdp_mu(epsilon, delta) / n_classes)


@dataclass(frozen=True)
class TextGradients:
    """Trainer of softmax regression on node texts; ``run`` is a method's ``run``."""

    rule: Callable[[float], GradientSettings]
    """Callable: signal n·μ/K → settings, before the rank is cut to the public directions."""

    def run(
        self, task: GraphTask, requests: Sequence[Request], door: Door, context: Context
    ) -> list[Outcome]:
        """Answer every request, in order; requests with equal settings train as one batch."""
        text = PublicText.of(task, _HOPS)
        key, answer = (partial(call, task, text) for call in (self._configuration, self._answer))
        return in_batches(requests, door, context, key, answer)

    def _rule(self, task: GraphTask, request: Request) -> GradientSettings:
        return self.rule(signal(task.n_units, task.n_classes, request.epsilon, task.delta))

    def _configuration(
        self, task: GraphTask, text: PublicText, request: Request
    ) -> GradientSettings:
        """Return the settings of a request, from public numbers alone."""
        chosen = self._rule(task, request)
        rank = round(_MORE_DIRECTIONS * chosen.rank) if _reads_edges(task) else chosen.rank
        return GradientSettings(max(1, min(rank, text.axes.rank)), chosen.steps)

    def _answer(
        self,
        task: GraphTask,
        text: PublicText,
        requests: Sequence[Request],
        door: Door,
        context: Context,
    ) -> list[Outcome]:
        """Train one batch on the training nodes and predict."""
        configuration = self._configuration(task, text, requests[0])
        steps, rank = configuration.steps, configuration.rank
        model = Linear(rank, task.n_classes)
        evaluated, rows = (
            _coordinates(text, matrix, rank)
            for matrix in (text.evaluated_rows(task), text.training_rows(task, slice(None)))
        )
        queries = [
            full_batches(task, request, steps.count, steps.clip_norm) for request in requests
        ]
        door.plan([(query,) if query else () for query in queries])
        start = np.stack([model.start(run.streams.generator("initial")) for run in requests])
        fitted = descend(
            model, start, rows, task.train_labels, steps, door.descent(queries),
            divisor=task.n_units,
        )  # fmt: skip
        logits = [None] * len(requests)
        if context.asked is not None:
            targets = _coordinates(text, text.training_rows(context.asked, slice(None)), rank)
            logits = model.logits(fitted, targets).transpose(1, 0, 2)
        return [
            Outcome.of(task, classes, settings={"rank": rank, **asdict(steps)}, logits=scores)
            for classes, scores in zip(predict(model, fitted, evaluated), logits, strict=True)
        ]

    def stated(
        self, task: GraphTask, request: Request, context: Context, chosen: Mapping
    ) -> dict[str, Any]:
        """See ``Method.stated``."""
        steps = self._rule(task, request).steps
        query = full_batches(task, request, steps.count, steps.clip_norm)
        premise = _OWN_EDGES if _reads_edges(task) else _NO_EDGE
        return {
            "events": (query,) if query else (), "chosen_by": _CHOSEN_BY, "assumptions": (premise,),
        }  # fmt: skip


def _coordinates(text: PublicText, rows: scipy.sparse.csr_matrix, rank: int) -> np.ndarray:
    """Return (rows, rank) float32 coordinates on the first axes, each row of norm 1 or zero."""
    return text.axes.unit(rows, rank).astype(np.float32)


def _reads_edges(task: GraphTask) -> bool:
    return task.public_adjacency is not None
