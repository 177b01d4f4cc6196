"""Word inference: was a rare word in a document from which a model learned?

Every training document with a label has one rare word, which is in it or not by an independent fair
coin. The attacker knows both versions of all documents, labels and edges, and asks which version of
each was read. A document is a part of what node level protects: an attacker on words knows more,
and sees less, than one on documents. docs/leaks.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr

from private_graphs.attacks.decoding import decoded
from private_graphs.attacks.leaks import Guarantee, Measurement
from private_graphs.attacks.links import measured_rates, shown
from private_graphs.attacks.membership import Shadows
from private_graphs.attacks.shadow_models import coins_of
from private_graphs.attacks.views import FEATURES, gcn_margins, margins, queries
from private_graphs.core.errors import UserError
from private_graphs.datasets.graph_dataset import GraphDataset, SparseFeatures
from private_graphs.mechanisms.door import Door
from private_graphs.methods import class_sums, gcn, method_named
from private_graphs.methods.exact_sums import ROW_BITS
from private_graphs.running.jobs import Job
from private_graphs.running.run import planned
from private_graphs.tasks.graph_task import GraphTask, Records
from private_graphs.tasks.method import Context
from private_graphs.tasks.tasks import build_task

BOTH, RELEASES = "both versions", "releases"
"""What the attacker sees: a model's answers to both versions of a document; the noisy sums."""


@dataclass(frozen=True, eq=False)
class RareWords:
    """The rare word of every training document with a label."""

    nodes: np.ndarray
    """(n,) documents."""
    entries: np.ndarray
    """(n,) place of its word among the stored features."""
    dataset: GraphDataset

    @classmethod
    def of(cls, dataset: GraphDataset) -> RareWords:
        """Take the word of each document that the fewest documents have, the first of equals.

        Raises:
            UserError: features that are no words.
        """
        features = dataset.features
        if not isinstance(features, SparseFeatures) or (features.values < 0).any():
            raise UserError(
                f"{dataset.info.name}: features of {dataset.info.features} are no words; expected "
                "sparse counts, such as those of bow"
            )
        matrix = features.to_scipy()
        frequency = np.bincount(matrix.indices, minlength=matrix.shape[1])
        nodes = np.flatnonzero(dataset.train_mask & (dataset.labels >= 0))
        nodes = nodes[np.diff(matrix.indptr)[nodes] > 1]  # some other word stays
        entries = [
            start + int(frequency[matrix.indices[start:stop]].argmin())
            for start, stop in zip(matrix.indptr[nodes], matrix.indptr[nodes + 1], strict=True)
        ]
        return cls(nodes, np.array(entries), dataset)

    @property
    def places(self) -> np.ndarray:
        """(n,) places of the documents among the labelled training nodes."""
        labelled = self.dataset.train_mask & (self.dataset.labels >= 0)
        return np.searchsorted(np.flatnonzero(labelled), self.nodes)

    def read(self, coins: np.ndarray) -> GraphDataset:
        """Return the dataset in which the words with heads are there, and the others are not."""
        matrix = self.dataset.features.to_scipy().copy()
        matrix.data[self.entries[~coins]] = 0
        matrix.eliminate_zeros()
        return replace(self.dataset, features=SparseFeatures.from_scipy(matrix))


def attack(
    job: Job, dataset: GraphDataset, guarantee: Guarantee, context: Context
) -> list[Measurement]:
    """Measure what a method's models, or its releases, show of rare words.

    Raises:
        UserError: the method is not attacked, or the guesses contradict what is proved.
    """
    words = RareWords.of(dataset)
    number = job.leaks.shadows
    one_run = {"validation_labels": (), "validation_epsilons": ()}
    job = job.model_copy(update={"seeds": tuple(range(number)), **one_run})
    coins = np.stack([coins_of(job, seed, len(words.nodes)) for seed in range(number)])
    truth = dataset.labels[dataset.test_mask & (dataset.labels >= 0)]
    majority = Measurement("", "", "majority", float(np.bincount(truth).max() / len(truth)))
    if job.method == "gcn":
        return [majority, *_queried(job, words, coins, context)]
    if job.method == "dp_linear":
        most = guarantee.allowed().items()
        proved = [Measurement("", "", f"allowed_{name}", value) for name, value in most]
        return [majority, *proved, *_linear(job, words, coins, context)]
    if job.method == "class_sums":
        return [majority, *_decoded(job, words, coins, guarantee)]
    raise UserError(
        f"{job.id}: no attack on words of {job.method}; expected gcn, dp_linear or class_sums"
    )


def _task(job: Job, words: RareWords, coins: np.ndarray) -> GraphTask:
    """Return the task in which the words with heads are there."""
    protocol = method_named(job.method).protocols[job.protocol]
    return build_task(words.read(coins), job.scenario, protocol, job.delta)[0]


def _queried(
    job: Job, words: RareWords, coins: np.ndarray, context: Context
) -> Iterator[Measurement]:
    """Yield what GCNs show whose answers to both versions of a document are compared."""
    task, requests = planned(job, words.dataset)
    labels, views = words.dataset.labels[words.nodes], queries(words.dataset, words.nodes)
    with_it, without = (
        sp.csr_array(words.read(np.full(len(words.nodes), side)).features.to_scipy())
        .astype(np.float64) for side in (True, False)
    )  # fmt: skip
    differences = []
    for number, (request, flips) in enumerate(zip(requests, coins, strict=True)):
        door = Door.of([request.streams])
        read = replace(task, graph=replace(task.graph, features=words.read(flips).features))
        trained, _ = gcn.fit(read, [request], door, context)
        door.close()
        first, second = (
            gcn_margins(trained.parameters, version, {FEATURES: views[FEATURES]}, labels,
                        request.settings.hidden, words.dataset.n_classes)[FEATURES][0]
            for version in (with_it, without)
        )  # fmt: skip
        differences.append(first - second)
        context.report(number + 1, len(coins))
    yield from _compared(np.stack(differences), coins)


def _compared(differences: np.ndarray, coins: np.ndarray) -> Iterator[Measurement]:
    """Yield rates of (R, n) differences between the margins of both versions of a document."""
    ratios = Shadows(differences, coins).ratios()
    for kind in ("online", "plain"):
        yield from measured_rates(BOTH, kind, ratios[kind], coins, "all")


def _linear(
    job: Job, words: RareWords, coins: np.ndarray, context: Context
) -> Iterator[Measurement]:
    """Yield what models of noisy gradients show whose answers to both versions are compared."""
    method, (_, requests) = method_named(job.method), planned(job, words.dataset)
    sides = [_task(job, words, np.full(len(words.nodes), side)) for side in (True, False)]
    labels, differences = sides[0].train_labels[words.places], []
    versions = sp.vstack([side.train_features[words.places] for side in sides], format="csr")
    asking = replace(context, progress=None, asked=Records(versions, np.tile(labels, 2)))
    for number, (request, flips) in enumerate(zip(requests, coins, strict=True)):
        door = Door.of([request.streams])
        [outcome] = method.answers(_task(job, words, flips), [request], door, asking)
        door.close()
        first, second = np.split(margins(outcome.logits, np.tile(labels, 2)), 2)
        differences.append(first - second)
        context.report(number + 1, len(coins))
    yield from _compared(np.stack(differences), coins)


def _decoded(
    job: Job, words: RareWords, coins: np.ndarray, guarantee: Guarantee
) -> Iterator[Measurement]:
    """Yield what noisy class sums show, which are linear in the words' coins."""
    sides = [_task(job, words, np.full(len(words.nodes), side)) for side in (True, False)]
    task, n_classes = sides[1], sides[1].n_classes
    method = class_sums.Released(class_sums.Public(task), job.epsilons[0])
    if method.steps:
        raise UserError(f"{job.id}: residual steps follow the class sums; expected none")
    with_it, without = (
        class_sums.grid_rows(method.rows.for_training(), side.training(slice(None)), n_classes)
        for side in sides
    )  # (n, m) whole numbers
    rows, labels = words.places, np.eye(n_classes)[task.train_labels]
    moved = np.einsum("nm,nk->nmk", (with_it - without)[rows], labels[rows])
    exact = without.T @ labels + np.tensordot(coins, moved, axes=1)  # (R, m, K)
    sums = class_sums.centred_sums(exact.astype(np.int64), method.first)
    _, requests = planned(job, words.dataset)
    door = Door.of([request.streams for request in requests])
    plan = class_sums.queries(task, method.first, None, 0)
    door.plan([plan] * len(requests))
    query = plan[0] if plan else None
    noisy = door.gaussian(sums, [query] * len(requests), stream="class_sums")
    door.close()
    codes = class_sums.class_codes(n_classes)[task.train_labels]
    terms = np.einsum("nm,nk->nmk", (with_it - without)[rows], codes[rows]).reshape(len(rows), -1)
    terms *= 2.0**-ROW_BITS
    base = (without.T @ codes).ravel() * 2.0**-ROW_BITS
    noise, releases = method.first.noise_std, noisy.reshape(len(noisy), -1) - base
    scores = decoded(sp.csr_matrix(terms), releases, noise)
    yield from measured_rates(RELEASES, "decoding", scores, coins, "all")
    yield from shown(scores, coins, guarantee, RELEASES, "decoding", "all")
    if noise:  # of one word, by somebody who knows all others: two Gaussians at this distance
        known = ndtr(np.linalg.norm(terms, axis=1) / noise / math.sqrt(2))
        for name, value in (
            ("all words, in the mean", known.mean()),
            ("the word that moves the sums most", known.max()),
        ):
            yield Measurement(RELEASES, "others known", "auc", float(value), who=name)
