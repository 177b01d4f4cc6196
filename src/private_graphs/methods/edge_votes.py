"""Noisy votes along edges, bent towards what each receiver still has to learn: edge-level DP.

Class probabilities from texts and training labels, both public, are the first beliefs. In each of
three rounds an edge sends its two ends one message each, the two together clipped to one norm;
every row of sums of messages, rounded to a public lattice, gets discrete Gaussian noise; and a
logistic regression on training nodes, whose labels are public, weighs text and noisy votes into the
beliefs of the next round.

Where the privacy is spent is decided on public data:

- Only nodes that are asked receive: validation and test nodes and a fifth of the training nodes,
  which are treated as test nodes in everything and serve to fit the weights. Other training nodes
  vote with their labels. An edge between two of them costs nothing, and one from them to a node
  that is asked has its whole budget for that one message.
- A message is the step that the receiver's beliefs q take when the sender's beliefs p are evidence
  for the same class: d/dt of q(1 + t·p) / Σ q(1 + t·p) at t = 0, that is q·p - q·<q, p>. It has no
  part in classes that the receiver excludes, and an edge whose one end knows its class spends its
  budget on the other end.

Messages of later rounds follow the beliefs of earlier ones, which is adaptive composition. The
design follows aggregation perturbation (Sajadmanesh et al., USENIX Security 2023, Section 4.2),
with messages in place of node embeddings; docs/privacy.md §6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.special import logsumexp

from private_graphs.methods.choice import CONSTANTS
from private_graphs.methods.fusion import fit_weights
from private_graphs.methods.lattice import NOISE_GENERATOR, LatticeGaussian
from private_graphs.methods.method import ALONE, Canary, Context, Method, Outcome, Request
from private_graphs.methods.text_only import (
    CHOSEN_BY,
    N_CONFIGURATIONS,
    TextModel,
    fit_text_model,
)
from private_graphs.tasks import UNIT_ROWS, GraphTask

ROUNDS = 3
CLIP = 0.05
"""Norm that the two messages of an edge are clipped to; they are then divided by it."""
_ASKED_SHARE = 0.2
_ASKED_AT_MOST = 2000
_REASON = (
    "the rows of sums change by the two messages of the edge that appears or vanishes, and by "
    "nothing else: a message depends on public texts and labels and on earlier noisy releases, "
    "never on other edges; the two messages of an edge, as one vector, are clipped"
)


@dataclass(frozen=True, eq=False)
class Voters:
    """Who is asked and what is sent, all public."""

    asked: np.ndarray
    """(N,) bool: nodes that receive messages."""
    labels: np.ndarray
    """(N, K): one-hot rows of the training nodes that are not asked, zeros elsewhere."""

    def sent(self, beliefs: np.ndarray) -> np.ndarray:
        """Return (N, K): what each node says its class is, given the (N, K) beliefs."""
        return np.where(self.asked[:, None], beliefs, self.labels)


def draw_voters(task: GraphTask, generator: np.random.Generator) -> Voters:
    """Ask all validation and test nodes and a fifth of the training nodes, at most 2,000."""
    n, n_nodes = task.n_train, task.adjacency.shape[0]
    n_asked = min(int(np.ceil(_ASKED_SHARE * n)), _ASKED_AT_MOST)
    asked = np.arange(n_nodes) >= n
    asked[generator.permutation(n)[:n_asked]] = True
    labels = np.zeros((n_nodes, task.n_classes))
    labels[np.arange(n), task.train_labels] = 1
    labels[asked] = 0
    return Voters(asked, labels)


def messages(receiving: np.ndarray, sending: np.ndarray) -> np.ndarray:
    """Return q·p - q·<q, p> of each row: (E, K) beliefs q of receivers and (E, K) p of senders."""
    agreement = receiving * sending
    return agreement - receiving * agreement.sum(axis=1, keepdims=True)


def vote_sums(
    adjacency: scipy.sparse.csr_matrix,
    voters: Voters,
    beliefs: np.ndarray,
    lattice: LatticeGaussian,
) -> np.ndarray:
    """Return (N, K) int64 sums of clipped and rounded messages, in spacings of the lattice.

    ``adjacency`` (N, N) is symmetric 0/1; ``beliefs`` (N, K) are rows of probabilities. One
    undirected edge moves the sums by at most the norm 1, and what rounding adds. Rows of nodes that
    are not asked are zero.
    """
    pairs = scipy.sparse.triu(adjacency, k=1).tocoo()
    first, second = pairs.row, pairs.col
    sent = voters.sent(beliefs)
    to_first = messages(beliefs[first], sent[second]) * voters.asked[first, None]
    to_second = messages(beliefs[second], sent[first]) * voters.asked[second, None]
    norms = np.sqrt((to_first**2).sum(axis=1) + (to_second**2).sum(axis=1))
    both = np.concatenate([to_first, to_second])
    both /= np.tile(np.maximum(norms, CLIP), 2)[:, None]
    ends, columns = np.r_[first, second], np.arange(2 * len(first))
    shape = (adjacency.shape[0], len(columns))
    ones = np.ones(len(columns), np.int64)
    lattice.check_total(adjacency.shape[0])  # a node receives from each other one at most once
    return scipy.sparse.csr_matrix((ones, (ends, columns)), shape) @ lattice.rounded(both)


def calibrated(task: GraphTask, epsilon: float, n_asked: int) -> LatticeGaussian:
    """Return the noise of each round, where ``n_asked`` nodes receive messages."""
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
    adjacency: scipy.sparse.csr_matrix,
    voters: Voters,
    beliefs: np.ndarray,
    lattice: LatticeGaussian,
    generator: np.random.Generator,
) -> np.ndarray:
    """Return (A, K): noisy sums of the A nodes that are asked. The only reader of the edges."""
    sums = vote_sums(adjacency, voters, beliefs, lattice)[voters.asked]
    return lattice.noisy(sums, generator)


def run(task: GraphTask, requests: Sequence[Request], context: Context = ALONE) -> list[Outcome]:
    """Answer every request; the text model is fitted once for all."""
    text = fit_text_model(task)
    outcomes = []
    for request in requests:
        outcomes.append(_answer(task, request, text))
        context.report(len(outcomes), len(requests))
    return outcomes


@dataclass(frozen=True, eq=False)
class Votes:
    """What one request released, and what followed from it."""

    voters: Voters
    lattice: LatticeGaussian
    beliefs: list[np.ndarray]
    """(N, K) before each round."""
    noisy: list[np.ndarray]
    """(A, K) of each round: all that is released of the edges."""
    scores: np.ndarray
    """(A, K) after the last round."""


def collect_votes(task: GraphTask, request: Request, text: TextModel) -> Votes:
    """Ask in ROUNDS rounds, each with the beliefs that follow from those before."""
    voters = draw_voters(task, request.streams.generator("voters"))
    lattice = calibrated(task, request.epsilon, int(voters.asked.sum()))
    noise = request.streams.generator("noise")
    beliefs = [text.probabilities]
    logs = np.log(text.probabilities[voters.asked])
    scores = [logs - logs.mean(axis=1, keepdims=True)]
    fitting = np.flatnonzero(voters.asked[: task.n_train])
    labels = task.train_labels[fitting]
    for _ in range(ROUNDS):
        scores.append(release(task.adjacency, voters, beliefs[-1], lattice, noise))
        stacked = np.stack(scores)
        weights = fit_weights(stacked[:, : len(fitting)], labels)
        total = np.tensordot(weights, stacked, axes=1)
        after = beliefs[-1].copy()
        after[voters.asked] = np.exp(total - logsumexp(total, axis=1)[:, None])
        beliefs.append(after)
    return Votes(voters, lattice, beliefs[:-1], scores[1:], total)


def _answer(task: GraphTask, request: Request, text: TextModel) -> Outcome:
    votes = collect_votes(task, request, text)
    asked_training = int(votes.voters.asked[: task.n_train].sum())
    predictions = votes.scores.argmax(axis=1)[asked_training:]
    n_validation = len(task.validation_labels)
    return Outcome(
        test_predictions=predictions[n_validation:],
        validation_predictions=predictions[:n_validation],
        events=votes.lattice.events(
            unit=task.scenario.unit,
            relation=task.scenario.relation,
            reason=_REASON,
            clipping="per_record",
            count=ROUNDS,
        ),
        settings={
            **text.configuration,
            "rounds": ROUNDS,
            "clip": CLIP,
            "noise_std": votes.lattice.noise_std,
            "asked_training_nodes": asked_training,
        },
        n_configurations=N_CONFIGURATIONS,
        chosen_by=CHOSEN_BY,
        noise_generator=NOISE_GENERATOR,
    )


METHODS = (
    Method(
        "edge_votes",
        "neighbour votes",
        run,
        ("edges",),
        prepares=UNIT_ROWS,
        assumptions=(CONSTANTS,),
        canary=Canary(words=1, units=0),
    ),
)
