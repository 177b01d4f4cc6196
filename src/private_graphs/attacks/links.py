"""Link inference: what trained models and noisy releases show of the edges (docs/leaks.md).

Homophily is no leak: a classifier that reads no edge ranks linked pairs above others too. So every
ranking of **all pairs** stands beside that of a text classifier, and the leak itself is measured on
**real edges in against real edges out**: half of the edges are left out by independent coins, and
the attacker tells the kept ones from the others.

Where the edges leave through the door alone (edge level), no model says more than the releases.
These are attacked by somebody who knows all edges but a matching, whose edges are in or out by
coins: the likelihood ratio of an edge follows from the rows of its two ends, and is what an optimal
attacker has. A star, all edges of one node at once, shows what d edges of a hub lose.

Sources: influence: Wu, Long, Zhang & Li, LinkTeller, IEEE S&P 2022, Algorithm 1. Correlation of
posteriors: He, Jia, Backes, Gong & Zhang, USENIX Security 2021, attack 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax
from scipy.stats import rankdata

from private_graphs.attacks.leaks import TINY_DELTA, Guarantee, Guesses, Measurement
from private_graphs.attacks.membership import Shadows, rates, surest
from private_graphs.attacks.neighbours import with_edges, with_members
from private_graphs.attacks.shadow_models import coins_of
from private_graphs.core.errors import UserError
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.protocols import SOUND
from private_graphs.graphs.normalise import gcn_propagation
from private_graphs.mechanisms.door import Door, Lane, Watch
from private_graphs.methods import gcn, method_named
from private_graphs.methods.edge_votes import draw_voters
from private_graphs.methods.noisy_sums import adjacency_of
from private_graphs.methods.text_only import text_model
from private_graphs.privacy.queries import GaussianQuery
from private_graphs.running.jobs import Job
from private_graphs.running.run import answer, planned
from private_graphs.tasks.method import Context, Request
from private_graphs.tasks.tasks import SCENARIOS, NodeTask, Task, build_task
from private_graphs.training import engine
from private_graphs.training.blocks import feature_matrix

TEXTS, QUERIES, PARAMETERS, RELEASES = "texts", "queries", "parameters", "releases"
"""What the attacker sees: texts and training labels, no edge; answers of a model that reads the
private graph; its parameters, asked without any edge; the noisy values of an edge-level method."""
ALL_PAIRS, COINS = "all pairs", "in or out by coins"
_STEP = 1e-4
"""Relative change of a node's features by which influence is measured."""
_DEGREES = (1, 2, 5, 10, 20)
"""Least degrees of the groups in which hubs are shown."""
_EXACT_PAIRS, _SAMPLE = 4_000_000, 1_000_000
"""Most pairs of nodes that are all ranked; of more, a sample of the unlinked ones."""
_BLOCK = 2**18


# --- scores of pairs from a queryable model ---


@dataclass(frozen=True, eq=False)
class QueriedGcn:
    """One trained GCN, queried in float64: (f, h), (h,), (h, K), (K,) weights."""

    first: np.ndarray
    first_bias: np.ndarray
    second: np.ndarray
    second_bias: np.ndarray

    @classmethod
    def of(cls, parameters: np.ndarray, n_features: int, hidden: int, n_classes: int) -> QueriedGcn:
        """Take the flat parameters of one replica (``engine.Trained.parameters``) apart."""
        flat = parameters.astype(np.float64)
        return cls(*engine.layers(flat, n_features, hidden, n_classes))

    def logits(self, features: Any, propagation: sp.csr_array) -> np.ndarray:
        """Return (N, K) logits on a graph."""
        inner = propagation @ (features @ self.first) + self.first_bias
        return propagation @ (np.maximum(inner, 0) @ self.second) + self.second_bias

    def influence(self, features: Any, propagation: sp.csr_array) -> sp.csr_array:
        """Return (N, N): how far the logits of node v move, entry (v, u), with u's features.

        u's row is multiplied by 1 + ``_STEP`` and the change divided by it. Pairs without a path of
        two edges have none, and are not stored.
        """
        sent = features @ self.first
        inner = propagation @ sent + self.first_bias
        rows = np.repeat(np.arange(propagation.shape[0]), np.diff(propagation.indptr))
        moved = inner[rows] + _STEP * propagation.data[:, None] * sent[propagation.indices]
        moved = ((np.maximum(moved, 0) - np.maximum(inner[rows], 0)) / _STEP) @ self.second
        total = None
        for column in moved.T:  # the logit of one class, of the node's neighbours, then its own
            matrix = propagation.copy()
            matrix.data = column
            square = (propagation @ matrix).power(2)
            total = square if total is None else total + square
        return total.sqrt()


def entries(matrix: sp.csr_array, pairs: np.ndarray) -> np.ndarray:
    """Return (P,) sums of the entries (u, v) and (v, u) of the (2, P) pairs."""
    u, v = pairs
    return np.asarray(matrix[u, v]).ravel() + np.asarray(matrix[v, u]).ravel()


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Return centred rows of norm 1, whose inner products are Pearson correlations."""
    rows = rows - rows.mean(axis=1, keepdims=True)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)


def correlation(rows: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Return (P,) Pearson correlations of the (N, K) rows of both ends."""
    unit, correlations = unit_rows(rows), np.empty(pairs.shape[1])
    for start in range(0, pairs.shape[1], _BLOCK):
        block = slice(start, start + _BLOCK)
        correlations[block] = np.einsum("pk,pk->p", unit[pairs[0, block]], unit[pairs[1, block]])
    return correlations


# --- all pairs ---


@dataclass(frozen=True, eq=False)
class Pairs:
    """All pairs of nodes: the linked ones, and the others or a sample of them."""

    linked: np.ndarray
    """(2, E)"""
    others: np.ndarray
    """(2, M)"""
    weight: float = 1.0
    """How many pairs each of ``others`` stands for."""

    @classmethod
    def of(cls, edges: np.ndarray, n_nodes: int, generator: np.random.Generator) -> Pairs:
        """Take all pairs of few nodes; of many nodes a sample of ``_SAMPLE`` unlinked ones."""
        n_pairs = n_nodes * (n_nodes - 1) // 2
        if n_pairs <= _EXACT_PAIRS:
            non_edges = np.stack(np.triu_indices(n_nodes, 1))
        else:
            non_edges = np.sort(generator.integers(0, n_nodes, (2, _SAMPLE)), axis=0)
            non_edges = non_edges[:, non_edges[0] < non_edges[1]]
        links = np.sort(edges, axis=0)
        codes = links[0] * n_nodes + links[1]
        non_edges = non_edges[:, ~np.isin(non_edges[0] * n_nodes + non_edges[1], codes)]
        return cls(links, non_edges, (n_pairs - links.shape[1]) / non_edges.shape[1])

    def between(self, first: np.ndarray, second: np.ndarray) -> Pairs:
        """Return the pairs of a node in ``first`` and one in ``second``, both (N,) bool; the node
        in ``first`` comes first."""

        def kept(pairs: np.ndarray) -> np.ndarray:
            u, v = pairs
            turned = first[v] & second[u] & ~(first[u] & second[v])
            pairs = np.where(turned, pairs[::-1], pairs)
            return pairs[:, first[pairs[0]] & second[pairs[1]]]

        return replace(self, linked=kept(self.linked), others=kept(self.others))

    def measured(
        self, sees: str, score: str, of: Callable[[np.ndarray], np.ndarray], who: str = ALL_PAIRS
    ) -> Iterator[Measurement]:
        """Yield AUC, and precision at the known number of links, of the scores ``of(pairs)``."""
        linked, unlinked = of(self.linked), of(self.others)
        size, scores = len(linked), np.concatenate([linked, unlinked])
        ranks = rankdata(scores)[:size]
        auc = (ranks.sum() - size * (size + 1) / 2) / (size * len(unlinked))
        order = np.argsort(-scores, kind="stable")
        taken = np.searchsorted(np.cumsum(np.where(order < size, 1.0, self.weight)), size)
        last = scores[order[min(taken, len(order) - 1)]]
        above, false = (linked > last).sum(), self.weight * (unlinked > last).sum()
        tied, all_tied = (linked == last).sum(), self.weight * (unlinked == last).sum()
        share = (size - above - false) / (tied + all_tied)  # of equal scores, at random
        yield Measurement(sees, score, "auc", float(auc), who=who)
        yield Measurement(sees, score, "precision", float((above + share * tied) / size), who=who)


def text_posteriors(dataset: GraphDataset) -> np.ndarray:
    """Return (N, K) class probabilities by texts and training labels alone (``text_only``)."""
    task, _ = build_task(dataset, "edges", SOUND, 1e-5, max_edges=dataset.n_edges)
    probabilities = np.full((dataset.n_nodes, dataset.n_classes), 1 / dataset.n_classes)
    probabilities[nodes_of(dataset)] = text_model(task).probabilities
    return probabilities


def nodes_of(dataset: GraphDataset) -> np.ndarray:
    """Return the nodes of ``GraphTask.adjacency`` under ``edges``, in its order."""
    masks = (dataset.train_mask, dataset.validation_mask, dataset.test_mask)
    return np.concatenate([np.flatnonzero(mask & (dataset.labels >= 0)) for mask in masks])


# --- releases of edge-level methods, attacked by who knows all other edges ---


@dataclass(frozen=True)
class _Release:
    """One value that left the door, in the units of its noise."""

    kind: str
    query: Any
    exact: Any
    noisy: Any
    weights: Any
    """Multiples of the query's noise by row; for a flip (bits, P(1|1), P(1|0))."""


class SeenReleases(Watch):
    """Watch that keeps what left the door of one run; with a tape it returns the tape's values."""

    active = True

    def __init__(self, tape: SeenReleases | None = None) -> None:
        self.tape, self.kept = tape, []
        self.values: dict[str, np.ndarray] = {}
        self._setting: list[np.ndarray] = []

    def public(self, lane: Lane, name: str, value: np.ndarray) -> None:
        """Keep what follows from the releases, such as scores; and what sets the noise."""
        if name == "what sets the noise":
            self._setting.append(value)
        self.values[name] = value

    def passed(self, lane: Lane, part: str, kind: str, query: Any, exact: Any, noisy: Any) -> Any:
        """Keep a value, in units of the noisy one."""
        setting, self._setting = self._setting, []
        weights: Any = 1.0
        if kind == "laplace":
            unit, _, weights = setting
            exact = exact * weights * unit
        elif kind == "flip":
            weights = tuple(map(float, setting))
        elif kind == "gaussian" and query is not None and query.spacing:
            exact = exact * query.spacing
        if self.tape is not None:
            noisy = self.tape.kept[len(self.kept)].noisy
        noisy = np.array(noisy)
        self.kept.append(_Release(kind, query, np.array(exact), noisy, weights))
        return noisy.copy()


def _log_ratios(first: _Release, second: _Release) -> np.ndarray:
    """Return (rows,) logarithms of the ratio of both densities of one noisy value."""
    noisy, query = first.noisy, first.query
    first_error, second_error = (np.abs(noisy - release.exact) for release in (first, second))
    if isinstance(query, GaussianQuery):
        ratio = (second_error**2 - first_error**2) / (2 * query.noise_std**2)
    else:
        ratio = (second_error - first_error) / (query.scale * first.weights)
    return ratio.reshape(len(ratio), -1).sum(axis=1)


def _flipped(release: _Release, edges: np.ndarray, n_nodes: int) -> np.ndarray:
    """Return (E,) log-likelihood ratios, in against out, of edges under randomised response."""
    (_, keep, make), codes = release.weights, release.noisy
    rows, columns = codes // n_nodes, codes % n_nodes
    ratios = np.zeros(edges.shape[1])
    for u, v in (edges, edges[::-1])[: 1 + (rows > columns).any()]:  # one triangle, or both
        drawn = (u >= rows.min()) & (u <= rows.max())  # else another call drew the pair
        set_bits = np.isin(u * n_nodes + v, codes)
        ratio = np.where(set_bits, math.log(keep / make), math.log((1 - keep) / (1 - make)))
        ratios += np.where(drawn, ratio, 0.0)
    return ratios


def matching(edges: np.ndarray, n_nodes: int, generator: np.random.Generator) -> np.ndarray:
    """Return (E,) the number of each edge in a random maximal matching; -1 for other edges."""
    taken, group = np.zeros(n_nodes, bool), np.full(edges.shape[1], -1)
    count = 0
    for edge in generator.permutation(edges.shape[1]):
        ends = edges[:, edge]
        if not taken[ends].any():
            taken[ends], group[edge] = True, count
            count += 1
    return group


def stars(edges: np.ndarray, n_nodes: int, generator: np.random.Generator) -> np.ndarray:
    """Return (E,) the number of the star to which each edge belongs; -1 for other edges.

    A star is all edges of one node, its hub. No node is in two of them; nodes of many edges come
    first, in random order among those of equal degrees.
    """
    adjacency = sp.csr_array(
        (np.tile(np.arange(edges.shape[1]), 2) + 1, np.hstack([edges, edges[::-1]])),
        (n_nodes, n_nodes),
    )  # entries are edge numbers, from 1
    degrees = np.diff(adjacency.indptr)
    taken, group, count = np.zeros(n_nodes, bool), np.full(edges.shape[1], -1), 0
    for hub in np.lexsort([generator.random(n_nodes), -degrees]):
        row = slice(adjacency.indptr[hub], adjacency.indptr[hub + 1])
        nodes = np.append(adjacency.indices[row], hub)
        if degrees[hub] and not taken[nodes].any():
            taken[nodes], group[adjacency.data[row] - 1] = True, count
            count += 1
    return group


@dataclass(frozen=True, eq=False)
class Informed:
    """Attack on groups of edges by somebody who knows all other edges.

    Groups (edges of a matching, or stars) share no node, so that the rows of noisy values about one
    depend on it alone, given what was released before.
    """

    job: Job
    dataset: GraphDataset
    group: np.ndarray
    """(E,) number of the group of each edge, -1 for edges that are always there."""

    @cached_property
    def rows(self) -> np.ndarray:
        """(N,) group of each node, -1 for nodes in none."""
        groups = np.full(self.dataset.n_nodes, -1)
        for ends in self.dataset.edge_index:
            groups[ends[self.group >= 0]] = self.group[self.group >= 0]
        return groups

    def runs(self, number: int, context: Context) -> tuple[np.ndarray, np.ndarray]:
        """Return (R, G) coins and log-likelihood ratios of ``number`` runs."""
        runs = []
        for index in range(number):
            runs.append(self.run(index, context))
            context.report(index + 1, number)
        coins, ratios = zip(*runs, strict=True)
        return np.stack(coins), np.stack(ratios)

    def run(self, number: int, context: Context) -> tuple[np.ndarray, np.ndarray]:
        """Run the method once; return (G,) coins, and log-likelihood ratios of in against out.

        Which groups are in is drawn by coins. A second run, of the other groups, gets the noisy
        values of the first: its exact values are what these would have been.
        """
        seed = number + self.job.leaks.seed * self.job.leaks.shadows
        job = self.job.model_copy(update={"seeds": (seed,)})
        coins = coins_of(job, seed, self.group.max() + 1)
        first, nodes = self._answered(job, coins, None, context)
        second, _ = self._answered(job, ~coins, first, context)
        sides = np.where(coins, 1.0, -1.0)
        ratios, told_of = np.zeros(len(coins)), False
        for release, counterpart in zip(first.kept, second.kept, strict=True):
            if release.kind == "step":  # of gradients, which every group moves
                continue
            if release.kind == "flip":
                edges = self.group >= 0
                llr = _flipped(release, self.dataset.edge_index[:, edges], self.dataset.n_nodes)
                np.add.at(ratios, self.group[edges], llr)
                told_of |= bool(edges.any())
                continue
            row_nodes = nodes.get(len(release.noisy))
            if row_nodes is None:  # one number about the whole graph
                continue
            of = self.rows[row_nodes]
            row_llr = _log_ratios(release, counterpart)
            np.add.at(ratios, of[of >= 0], sides[of[of >= 0]] * row_llr[of >= 0])
            told_of |= bool((of >= 0).any())
        if not told_of:
            raise UserError(
                f"{self.job.id}: no noisy value is about a group that the coins decide; expected "
                "some, as an attack that reads nothing would look like privacy"
            )
        return coins, ratios

    def _answered(
        self, job: Job, coins: np.ndarray, tape: SeenReleases | None, context: Context
    ) -> tuple[SeenReleases, dict[int, np.ndarray]]:
        """Return the releases of a run on the groups with heads, and the nodes of their rows, by
        the number of rows."""
        task, watch = self.task((self.group < 0) | coins[self.group]), SeenReleases(tape)
        _, [reply] = answer(job, self.dataset, watch, task, context)
        return watch, released_nodes(task, reply.request, self.dataset)

    def task(self, present: np.ndarray) -> Task:
        """Return the task with the edges (E,) that are ``present``."""
        graph, job = with_edges(self.dataset, self.dataset.edge_index[:, present]), self.job
        protocol = method_named(job.method).protocols[job.protocol]
        task, _ = build_task(graph, job.scenario, protocol, job.delta, max_edges=job.max_edges)
        return task


class InformedOfLists(Informed):
    """The same on people with the lists that they own, by somebody who knows all others.

    ``group`` (n,) numbers the labelled training nodes that are in or out by coins. No node is on
    the lists of two, so that each sum over lists is about one of them.
    """

    @classmethod
    def of(cls, job: Job, dataset: GraphDataset, generator: np.random.Generator) -> InformedOfLists:
        """Take nodes of long lists, half of the bound at least and none that the method cuts."""
        nodes, adjacency = _labelled(dataset), adjacency_of(dataset)
        degree = np.diff(adjacency.indptr)[nodes]
        group, taken, count = np.full(len(nodes), -1), np.zeros(dataset.n_nodes, bool), 0
        settings: Any = method_named(job.method).settings.model_validate(job.settings)
        most = settings.degree
        for index in np.lexsort([generator.random(len(nodes)), -degree]):
            neighbours = adjacency[[nodes[index]]].indices
            if most <= 2 * len(neighbours) <= 2 * most and not taken[neighbours].any():
                taken[neighbours], group[index] = True, count
                count += 1
        return cls(job, dataset, group)

    @cached_property
    def rows(self) -> np.ndarray:
        """(N,) group on whose list each node is, -1 for none."""
        groups, adjacency = np.full(self.dataset.n_nodes, -1), adjacency_of(self.dataset)
        mask = self.group >= 0
        for node, group in zip(_labelled(self.dataset)[mask], self.group[mask], strict=True):
            groups[adjacency[[node]].indices] = group
        return groups

    def task(self, present: np.ndarray) -> Task:
        """Return the task of the members (n,) that are ``present``."""
        whole, _ = planned(self.job, self.dataset)
        return with_members(whole, present)


def _labelled(dataset: GraphDataset) -> np.ndarray:
    return np.flatnonzero(dataset.train_mask & (dataset.labels >= 0))


def released_nodes(task: Task, request: Request, dataset: GraphDataset) -> dict[int, np.ndarray]:
    """Return the nodes of the rows of noisy values, by the number of rows."""
    if isinstance(task, NodeTask):
        return {dataset.n_nodes: np.arange(dataset.n_nodes)}
    nodes = nodes_of(dataset)
    voters = draw_voters(task, request.streams.generator("voters")).asked
    node_sets = (nodes, nodes[task.n_train :], nodes[voters])
    return {len(subset): subset for subset in node_sets}


# --- the attack ---


def attack(
    job: Job, dataset: GraphDataset, guarantee: Guarantee, context: Context
) -> list[Measurement]:
    """Measure what a method's models, or its releases, show of the edges.

    Raises:
        UserError: the guesses contradict what is proved.
    """
    one_run = {"seeds": (0,), "validation_labels": (), "validation_epsilons": ()}
    job, generator = job.model_copy(update=one_run), np.random.default_rng([job.leaks.seed, 43])
    pairs = Pairs.of(dataset.edge_index, dataset.n_nodes, generator)
    posteriors = text_posteriors(dataset)
    measurements = list(pairs.measured(TEXTS, "posteriors", partial(correlation, posteriors)))
    if SCENARIOS[job.scenario].unit != "edge_undirected":
        return [*measurements, *_queried(job, dataset, pairs, context)]
    if method_named(job.method).reads_private:
        measurements += _shown(job, dataset, pairs, posteriors, context)
        measurements += _informed(job, dataset, guarantee, generator, context)
    return measurements


def _queried(
    job: Job, dataset: GraphDataset, pairs: Pairs, context: Context
) -> Iterator[Measurement]:
    """Yield what GCNs show: one of all edges, and shadows of edges that are in by coins."""
    task, requests = planned(
        job.model_copy(update={"seeds": tuple(range(job.leaks.shadows + 1))}), dataset
    )
    features = feature_matrix(dataset).astype(np.float64)
    identity = sp.csr_array(sp.identity(dataset.n_nodes, format="csr"))
    reads = task.protocol.test_graph == "whole_graph"  # else no query reads a private edge

    def scores(edges: np.ndarray, request: Request) -> dict[tuple[str, str], Callable]:
        """Train on some edges; return the scores of pairs by what is seen."""
        graph = with_edges(task.graph, edges)
        door = Door.of([request.streams])
        trained, _ = gcn.fit(replace(task, graph=graph), [request], door, context)
        door.close()
        model = QueriedGcn.of(trained.parameters[0], dataset.n_features, request.settings.hidden,
                       dataset.n_classes)  # fmt: skip
        probabilities = softmax(model.logits(features, identity), axis=1)
        scorers = {(PARAMETERS, "posteriors"): partial(correlation, probabilities)}
        if reads:
            propagation = gcn_propagation(edges, dataset.n_nodes)
            logits = model.logits(features, propagation)
            influence = model.influence(features, propagation)
            scorers |= {
                (QUERIES, "influence"): partial(entries, influence),
                (QUERIES, "posteriors"): partial(correlation, softmax(logits, axis=1)),
                (QUERIES, "logits"): partial(correlation, logits),
            }
        return scorers

    for key, of in scores(dataset.edge_index, requests[-1]).items():
        yield from pairs.measured(*key, of)
    coins = np.stack([
        coins_of(job, number, dataset.n_edges) for number in range(job.leaks.shadows)
    ])  # fmt: skip
    values: dict[tuple[str, str], list[np.ndarray]] = {}
    for number, mask in enumerate(coins):
        for key, of in scores(dataset.edge_index[:, mask], requests[number]).items():
            values.setdefault(key, []).append(of(dataset.edge_index))
        context.report(number + 1, len(coins))
    for (sees, score), margins in values.items():
        ratios = Shadows(np.stack(margins), coins).ratios()
        for kind in ("plain", "online"):
            name = score if kind == "plain" else f"{score}, shadows"
            yield from measured_rates(sees, name, ratios[kind], coins)


def measured_rates(
    sees: str, score: str, scores: np.ndarray, coins: np.ndarray, who: str = COINS
) -> Iterator[Measurement]:
    """Yield AUC and rates of (R, E) scores against coins, with their intervals."""
    for name, (value, low, high) in rates(scores, coins).items():
        yield Measurement(sees, score, name, value, low, high, who)


def _shown(
    job: Job, dataset: GraphDataset, pairs: Pairs, posteriors: np.ndarray, context: Context
) -> Iterator[Measurement]:
    """Yield rankings of pairs by what one run on all edges releases, each beside texts alone."""
    watch = SeenReleases()
    task, [reply] = answer(job, dataset, watch, context=context)
    nodes = released_nodes(task, reply.request, dataset)
    if flips := [release.noisy for release in watch.kept if release.kind == "flip"]:
        codes, n = np.concatenate(flips), dataset.n_nodes

        def noisy_graph(ends: np.ndarray) -> np.ndarray:
            u, v = ends
            return np.isin(u * n + v, codes).astype(np.float64) + np.isin(v * n + u, codes)

        yield from pairs.measured(RELEASES, "noisy graph", noisy_graph)
    counts = watch.kept[0]
    if counts.kind == "laplace" and np.shape(counts.noisy)[-1] == dataset.n_classes:
        row_nodes = nodes[len(counts.noisy)]
        rows = np.zeros((dataset.n_nodes, dataset.n_classes))
        rows[row_nodes] = counts.noisy
        sides = np.zeros((2, dataset.n_nodes), bool)
        sides[0, row_nodes[task.n_train :]] = sides[1, row_nodes[: task.n_train]] = True
        subset, who = pairs.between(*sides), "pairs of a training node and another"
        yield from subset.measured(
            RELEASES, "noisy counts", lambda ends: rows[ends[0], dataset.labels[ends[1]]], who
        )
        yield from subset.measured(TEXTS, "posteriors", partial(correlation, posteriors), who)
    if "scores" in watch.values:
        row_nodes = nodes[len(watch.values["scores"])]
        shares = np.zeros((dataset.n_nodes, dataset.n_classes))
        shares[row_nodes] = softmax(watch.values["scores"], axis=1)
        mask = np.isin(np.arange(dataset.n_nodes), row_nodes)
        subset, who = pairs.between(mask, mask), "pairs of asked nodes"
        for sees, probabilities in ((RELEASES, shares), (TEXTS, posteriors)):
            yield from subset.measured(sees, "posteriors", partial(correlation, probabilities), who)


def _informed(
    job: Job, dataset: GraphDataset, guarantee: Guarantee, generator: np.random.Generator,
    context: Context,
) -> Iterator[Measurement]:  # fmt: skip
    """Yield what somebody sees who knows all other edges: of single edges, and of stars."""
    edges, n_nodes = dataset.edge_index, dataset.n_nodes
    score = "likelihood"
    number = job.leaks.shadows
    attacked = Informed(job, dataset, matching(edges, n_nodes, generator))
    coins, ratios = attacked.runs(number, context)
    yield from measured_rates(RELEASES, score, ratios, coins)
    yield from shown(ratios, coins, guarantee, RELEASES, score, COINS)
    group = stars(edges, n_nodes, generator)
    coins, ratios = Informed(job, dataset, group).runs(number // 2, context)
    degree = np.bincount(group[group >= 0])
    for low, high in pairwise((*_DEGREES, math.inf)):
        band = (degree >= low) & (degree < high)
        if band.any():
            last = " and more" if high == math.inf else f" to {high - 1}"
            who = "the only edge of a node" if high == 2 else f"all {low}{last} edges of a node"
            yield from measured_rates(RELEASES, score, ratios[:, band], coins[:, band], who)
            yield Measurement(RELEASES, score, "groups", float(band.sum()), who=who)


def informed_of_lists(
    job: Job, dataset: GraphDataset, guarantee: Guarantee, context: Context
) -> Iterator[Measurement]:
    """Yield what noisy sums over lists show of members to somebody who knows all others."""
    generator, score = np.random.default_rng([job.leaks.seed, 43]), "likelihood"
    attacked = InformedOfLists.of(job.model_copy(update={"seeds": (0,)}), dataset, generator)
    coins, ratios = attacked.runs(job.leaks.shadows // 2, context)
    yield from measured_rates(RELEASES, score, ratios, coins, "all")
    yield from shown(ratios, coins, guarantee, RELEASES, score, "all")
    yield Measurement(RELEASES, score, "nodes", float(coins.shape[1]), who="likelihood")


def shown(
    scores: np.ndarray, coins: np.ndarray, guarantee: Guarantee, sees: str, score: str, who: str
) -> Iterator[Measurement]:
    """Yield what the proof allows, and the ε that guesses show: of the surest, and of everybody.

    Raises:
        UserError: more than what is proved.
    """
    for name, value in guarantee.allowed().items():
        yield Measurement(sees, score, f"allowed_{name}", value, who=who)
    right, proved = int(((scores > 0) == coins).sum()), None
    for name, guesses in (
        ("tiny", surest(scores, coins)),
        ("everybody", Guesses(coins.size, coins.size, right)),
    ):
        proved = guarantee.held_against(guesses, TINY_DELTA)
        name = f"epsilon_shown_{name}"
        yield Measurement(sees, score, name, guesses.epsilon(TINY_DELTA), who=who)
        yield Measurement(sees, score, f"{name}_right", guesses.right / guesses.guesses, who=who)
    if proved is not None:
        yield Measurement(sees, score, "epsilon_shown_tiny_proved", proved, who=who)
