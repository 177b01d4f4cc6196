"""Noisy votes along edges, directed to what each receiver still has to learn: edge-level DP.

Class probabilities from texts and training labels, both public, are the first beliefs. In each of
three rounds an edge sends one message to each of its two ends, the two together clipped to one
norm; every row of sums of messages, rounded to a public lattice, gets discrete Gaussian noise; and
a logistic regression on training nodes, whose labels are public, combines text and noisy votes into
the beliefs of the next round. docs/methods.md names the receivers and has the proof. The design
follows aggregation perturbation (Sajadmanesh et al., USENIX Security 2023, Section 4.2), with
messages in place of node embeddings; docs/privacy.md §6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from scipy.special import logsumexp

from private_graphs.mechanisms.door import Door
from private_graphs.methods.fusion import fit_weights
from private_graphs.methods.lattice import NOISE_GENERATOR, LatticeGaussian
from private_graphs.methods.text_only import CHOSEN_BY, TextModel, text_model
from private_graphs.privacy.queries import GaussianQuery
from private_graphs.tasks.graph_task import UNIT_ROWS, GraphTask, Shards
from private_graphs.tasks.method import CONSTANTS, Canary, Context, Method, Outcome, Request

ROUNDS = 3
CLIP = 0.05
"""Norm to which the two messages of an edge are clipped; they are then divided by it."""
_ASKED_SHARE = 0.2
_ASKED_AT_MOST = 2000
_BLOCK = 2**18
"""Edges that are processed at a time."""
_REASON = (
    "the rows of sums change by the two messages of the edge that appears or vanishes, and by "
    "nothing else: a message depends on public texts and labels and on earlier noisy releases, "
    "never on other edges; the two messages of an edge, as one vector, are clipped"
)


@dataclass(frozen=True, eq=False)
class Voters:
    """Receivers and labels of senders, all public."""

    asked: np.ndarray
    """(N,) bool: nodes that receive messages."""
    labels: np.ndarray
    """(N,) classes; only those of nodes outside ``asked`` are read."""


def draw_voters(task: GraphTask, generator: np.random.Generator) -> Voters:
    """Select receivers: all evaluated nodes, and a fifth of the training nodes, at most 2,000."""
    n = task.n_train
    n_nodes = n + len(task.validation_labels) + task.test_features.shape[0]
    n_asked = min(int(np.ceil(_ASKED_SHARE * n)), _ASKED_AT_MOST)
    receivers = np.arange(n_nodes) >= n
    receivers[generator.permutation(n)[:n_asked]] = True
    labels = np.zeros(n_nodes, np.int16)
    labels[:n] = task.train_labels
    labels[receivers] = 0
    return Voters(receivers, labels)


def messages(receiving: np.ndarray, sending: np.ndarray) -> np.ndarray:
    """Return q·p - q·<q, p> of each row: (E, K) beliefs q of receivers and (E, K) p of senders.

    This is the derivative of q's update if p is evidence for the same class: d/dt of q(1 + t·p) / Σ
    q(1 + t·p) at t = 0. It is zero for classes that the receiver excludes.
    """
    agreement = receiving * sending
    return agreement - receiving * agreement.sum(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class VoteQuery:
    """Query of one round on the edges, all of it public or released before."""

    place: np.ndarray
    """(N,) int32: row of ``beliefs`` of a receiver, A + class of a node that votes by its label."""
    beliefs: np.ndarray
    """(A, K): probabilities of the A receivers."""
    lattice: LatticeGaussian
    ROUNDS: ClassVar[int] = ROUNDS
    READS: ClassVar[str] = "edges"

    @classmethod
    def of(cls, voters: Voters, beliefs: np.ndarray, lattice: LatticeGaussian) -> VoteQuery:
        """Query the messages that follow from ``beliefs``."""
        rows = len(beliefs) + voters.labels.astype(np.int32)
        rows[voters.asked] = np.arange(len(beliefs))
        return cls(rows, beliefs, lattice)

    def zeros(self) -> np.ndarray:
        """Return the (A, K) sums of no edges."""
        return np.zeros(self.beliefs.shape, np.int64)

    def add(self, total: np.ndarray, pairs: tuple[np.ndarray, np.ndarray]) -> None:
        """Add the clipped and rounded messages of some edges to ``total``, in spacings.

        ``pairs`` (E,), (E,) are the ends of undirected edges, each edge once.
        """
        n_asked, n_classes = self.beliefs.shape
        first, second = (self.place[ends] for ends in pairs)
        read = (first < n_asked) | (second < n_asked)
        first, second = first[read], second[read]
        sent = np.vstack([self.beliefs, np.eye(n_classes)])
        to_first = messages(sent[first], sent[second]) * (first < n_asked)[:, None]
        to_second = messages(sent[second], sent[first]) * (second < n_asked)[:, None]
        norms = np.sqrt((to_first**2).sum(axis=1) + (to_second**2).sum(axis=1))
        votes = np.concatenate([to_first, to_second])
        votes /= np.tile(np.maximum(norms, CLIP), 2)[:, None]
        ends, columns = np.r_[first, second], np.arange(2 * len(first))
        mask = ends < n_asked
        ones = np.ones(int(mask.sum()), np.int64)
        sums = scipy.sparse.csr_matrix((ones, (ends[mask], columns[mask])), (n_asked, len(columns)))
        total += sums @ self.lattice.rounded(votes)


def vote_sums(
    edges: scipy.sparse.csr_matrix | Shards,
    voters: Voters,
    beliefs: np.ndarray,
    lattice: LatticeGaussian,
) -> np.ndarray:
    """Return (A, K) int64 sums of clipped and rounded messages, in lattice spacings.

    ``edges`` (N, N) is symmetric 0/1, or is stored in shards; ``beliefs`` (A, K) are the
    probabilities of the A receivers. One undirected edge changes the sums by a norm of at most 1,
    plus rounding.
    """
    query = VoteQuery.of(voters, beliefs, lattice)
    lattice.check_total(len(voters.asked))  # at most one message from each other node
    if isinstance(edges, Shards):
        return edges.total(query)
    total, pairs = query.zeros(), scipy.sparse.triu(edges, k=1).tocoo()
    for start in range(0, pairs.nnz, _BLOCK):
        block = slice(start, start + _BLOCK)
        query.add(total, (pairs.row[block], pairs.col[block]))
    return total


def calibrated(task: GraphTask, epsilon: float, n_asked: int) -> LatticeGaussian:
    """Return the noise of each round, with ``n_asked`` receivers."""
    return LatticeGaussian.calibrate(
        epsilon,
        task.delta,
        1.0,
        dimension=n_asked * task.n_classes,
        entries=2 * task.n_classes,
        contributions=1,
        releases=ROUNDS,
    )


def release(
    edges: scipy.sparse.csr_matrix | Shards,
    voters: Voters,
    beliefs: np.ndarray,
    lattice: LatticeGaussian,
    door: Door,
    query: GaussianQuery | None,
) -> np.ndarray:
    """Return (A, K): noisy sums of the A receivers. The only reader of the edges."""
    sums = vote_sums(edges, voters, beliefs, lattice)
    return door.gaussian(sums[None], [query])[0]


def run(
    task: GraphTask, requests: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Answer every request; the text model is fitted once for all."""
    text = text_model(task) if task.shards is None else TextModel(**task.shards.first)
    outcomes = []
    for index, request in enumerate(requests):
        outcomes.append(_answer(task, request, text, door.of_lanes([index])))
        context.report(len(outcomes), len(requests))
    return outcomes


@dataclass(frozen=True, eq=False)
class EdgeVotes:
    """Releases of one request, and beliefs computed from them."""

    voters: Voters
    lattice: LatticeGaussian
    beliefs: list[np.ndarray]
    """(A, K) beliefs before each round."""
    noisy: list[np.ndarray]
    """(A, K) noisy sums of each round: the only release about the edges."""
    scores: np.ndarray
    """(A, K) scores after the last round."""


def collect_votes(task: GraphTask, request: Request, text: TextModel, door: Door) -> EdgeVotes:
    """Run ROUNDS rounds, each with the beliefs after the one before."""
    voters = draw_voters(task, request.streams.generator("voters"))
    lattice = calibrated(task, request.epsilon, int(voters.asked.sum()))
    query = _query(task, lattice)
    door.plan([(query,) if query else ()])
    beliefs = [np.asarray(text.probabilities[voters.asked])]
    logs = np.log(beliefs[0])
    scores = [logs - logs.mean(axis=1, keepdims=True)]
    fitting = np.flatnonzero(voters.asked[: task.n_train])
    labels = task.train_labels[fitting]
    edges = task.adjacency if task.shards is None else task.shards
    for _ in range(ROUNDS):
        scores.append(release(edges, voters, beliefs[-1], lattice, door, query))
        stacked = np.stack(scores)
        weights = fit_weights(stacked[:, : len(fitting)], labels)
        total = np.tensordot(weights, stacked, axes=1)
        beliefs.append(np.exp(total - logsumexp(total, axis=1)[:, None]))
    return EdgeVotes(voters, lattice, beliefs[:-1], scores[1:], total)


def _answer(task: GraphTask, request: Request, text: TextModel, door: Door) -> Outcome:
    votes = collect_votes(task, request, text, door)
    door.public("scores", [votes.scores])
    asked_training = int(votes.voters.asked[: task.n_train].sum())
    predictions = votes.scores.argmax(axis=1)[asked_training:]
    settings = {
        **text.configuration,
        "rounds": ROUNDS,
        "clip": CLIP,
        "noise_std": votes.lattice.noise_std,
        "asked_training_nodes": asked_training,
    }
    return Outcome.of(task, predictions, settings=settings, n_configurations=text.n_configurations)


def stated(task: GraphTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    """See ``Method.stated``; ``chosen`` has the number of training nodes that receive."""
    n_public = len(task.validation_labels) + task.test_features.shape[0]
    n_asked = chosen["asked_training_nodes"] + n_public
    query = _query(task, calibrated(task, request.epsilon, n_asked))
    return {
        "events": (query,) if query else (),
        "chosen_by": CHOSEN_BY if task.shards is None else task.shards.first["chosen_by"],
        "noise_generator": NOISE_GENERATOR,
    }


def _query(task: GraphTask, lattice: LatticeGaussian) -> GaussianQuery | None:
    return lattice.query(
        unit=task.scenario.unit,
        relation=task.scenario.relation,
        reason=_REASON,
        clipping="per_record",
        count=ROUNDS,
    )


METHODS = (
    Method(
        "edge_votes",
        "neighbour votes",
        run,
        ("edges",),
        query=VoteQuery,
        stated=stated,
        prepares=UNIT_ROWS,
        assumptions=(CONSTANTS,),
        canary=Canary(words=1, units=0),
        summary="Noisy votes of neighbours, sent where the receiver still errs (edge-level DP).",
    ),
)
