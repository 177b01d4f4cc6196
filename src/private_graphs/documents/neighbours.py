"""Votes of public neighbours: what a link to a public document tells of a document's class.

Nothing is trained with links. How much links tell is fitted to those whose two ends are public, so
that no link of a private document is read: by the classes of these documents, where they are known,
else by what the release says of their texts. A document's own links to public ones are read when it
is predicted: each adds log-odds to its scores (docs/privacy.md §16, "Public neighbours").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.optimize
from scipy.special import softmax

from private_graphs.core.errors import counted
from private_graphs.datasets.own_tables import read_table
from private_graphs.datasets.spelling import seen

_LINKS_BY_CHANCE = 4.0
"""Links that are added to those that are there, with classes drawn by chance."""
_ROUNDS = 2
"""Rounds in which documents without a class are scored by neighbours without one."""
_LEAST_SLOPE = 1e-9
"""Slope of the likelihood at no tie, relative to the number of links, below which there is none."""


@dataclass(frozen=True)
class LinkFacts:
    """What links among public documents tell of classes."""

    links: int
    same: float
    """Share of the links that join two documents of one class."""
    chance: float
    """This share if classes were drawn independently."""
    tie: float
    """h: probability that a link makes its ends of one class, whatever the shares of classes."""
    shares: tuple[float, ...]
    """(K,) shares p of the classes among the ends of links."""

    @classmethod
    def of(cls, beliefs: np.ndarray, links: np.ndarray) -> LinkFacts:
        """Fit what (2, L) ``links`` tell; ``beliefs`` (documents, K) are probabilities of classes.

        A neighbour's class is that of the document with probability h, else drawn with the shares
        p. So two ends with beliefs q and q', independent given their classes, are linked with a
        likelihood in proportion to 1 - h + h Σ_c q_c q'_c / p_c: h is its maximum over the links
        and four more by chance, so that few links, and links by chance, tell nothing.
        """
        first, second = beliefs[links[0]], beliefs[links[1]]
        shares = first.sum(axis=0) + second.sum(axis=0) + 1.0
        shares /= shares.sum()
        chance, both = float((shares**2).sum()), first * second
        ratios = np.concatenate([(both / shares).sum(axis=1), 1 / shares, [0.0]])
        weights = np.concatenate([
            np.ones(len(both)), _LINKS_BY_CHANCE * shares**2, [_LINKS_BY_CHANCE * (1 - chance)]
        ])  # fmt: skip

        def slope(tie: float) -> float:  # of a concave function, to minus infinity at 1
            return float((weights * (ratios - 1) / (1 - tie + tie * ratios)).sum())

        tie = 0.0
        if slope(0.0) > _LEAST_SLOPE * weights.sum():
            tie = float(scipy.optimize.brentq(slope, 0.0, 1 - 1e-12))
        same = float(both.sum()) / max(len(both), 1)
        return cls(len(both), same, chance, tie, tuple(shares.tolist()))

    def odds(self, beliefs: np.ndarray) -> np.ndarray:
        """Return (documents, K): what a link to each document adds to the log-odds of each class.

        With belief q in the neighbour, 1 + h/(1 - h) q_c / p_c is the factor of the odds of c.
        """
        return np.log1p(self.tie / (1 - self.tie) * beliefs / np.array(self.shares))

    @property
    def sentence(self) -> str:
        """Return the facts in words."""
        head = f"{counted(self.links, 'link')} among public documents"
        if not self.tie:
            return f"{head}: they do not tell classes apart, so that links are not used"
        odds = self.odds(np.eye(len(self.shares))).diagonal()
        return (
            f"{head}, {100 * self.same:.0f} % within a class ({100 * self.chance:.0f} % by "
            f"chance): a link to a public document adds {min(odds):.1f} to {max(odds):.1f} to the "
            "log-odds of its class"
        )


@dataclass(frozen=True, eq=False)
class PublicVotes:
    """Public documents, after those that are linked have voted on each other."""

    scores: np.ndarray
    """(documents, K), votes included."""
    facts: LinkFacts
    odds: np.ndarray
    """(documents, K) votes of each on a document that is linked to it."""


def count_votes(scores: np.ndarray, labels: np.ndarray, links: np.ndarray) -> PublicVotes:
    """Let documents vote on each other, by their class in ``labels`` (documents,) or, where it is
    -1, by ``scores``.

    ``scores`` (documents, K) of texts alone; those of documents with a class are not read for their
    votes. ``links`` (2, L), each once.
    """
    pairs, unknown = np.hstack([links, links[::-1]]), labels < 0
    beliefs = np.where(unknown[:, None], softmax(scores, axis=1), np.eye(scores.shape[1])[labels])
    for _ in range(_ROUNDS):
        facts = LinkFacts.of(beliefs, links)
        odds = facts.odds(beliefs)
        total = scores + votes_of(pairs, odds, len(scores))
        beliefs = np.where(unknown[:, None], softmax(total, axis=1), beliefs)
    return PublicVotes(total, facts, odds)


@dataclass(frozen=True, eq=False)
class PublicNeighbours:
    """Public documents, which vote on documents that are linked to them."""

    ids: tuple[str, ...]
    odds: np.ndarray
    """(documents, K) see ``LinkFacts.odds``."""

    def read(self, path: Path, source: str, target: str, encoding: str = "utf-8") -> LinkVotes:
        """Read a table of links; of each, an end that is one of these documents votes on the other.

        Links between two other documents are not used.

        Raises:
            UserError: a table that cannot be used, with file and line.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        roles = {"source": source, "target": target}
        table = read_table(path, roles, may_be_empty=True, encoding=encoding)
        table = table.trimmed(source, target)
        columns = [[seen(name or "") for name in table.columns[role].to_pylist()]
                   for role in (source, target)]  # fmt: skip
        known = pa.array(map(seen, self.ids), pa.string())
        names: dict[str, int] = {}
        pairs = np.zeros((2, 0), np.int64)
        places = [np.asarray(pc.fill_null(pc.index_in(pa.array(ends, pa.string()), known), -1))
                  for ends in columns]  # fmt: skip
        for sources, targets, votes in zip(columns, columns[::-1], places[::-1], strict=True):
            rows = np.flatnonzero(votes >= 0).tolist()
            rows = [row for row in rows if sources[row] != targets[row]]
            codes = [names.setdefault(sources[row], len(names)) for row in rows]
            pairs = np.hstack([pairs, np.array([codes, votes[rows]], np.int64).reshape(2, -1)])
        pairs = np.unique(pairs, axis=1)  # a link that is given twice is one link
        public = tuple(votes >= 0 for votes in places)
        return LinkVotes(names, votes_of(pairs, self.odds, len(names)), (*columns,), public)


@dataclass(frozen=True, eq=False)
class LinkVotes:
    """Votes on the documents that have a link to a public one."""

    places: dict[str, int]
    """Visible form of an id -> row of ``scores``."""
    scores: np.ndarray
    """(linked documents, K)"""
    ends: tuple[list[str], ...]
    """Visible forms of the two ids of each line of the table."""
    public: tuple[np.ndarray, ...]
    """(lines,) bool, twice: whether this end is a public document."""

    def idle(self, ids: Sequence[str]) -> int:
        """Return the number of lines beyond one for each link that votes on these documents."""
        names = set(map(seen, ids))
        lines = zip(*self.ends, *self.public, strict=True)
        votes = {(min(a, b), max(a, b)) for a, b, of_a, of_b in lines
                 if a != b and ((of_b and a in names) or (of_a and b in names))}  # fmt: skip
        return len(self.ends[0]) - len(votes)

    def of(self, ids: Sequence[str]) -> tuple[np.ndarray, int]:
        """Return (documents, K) votes on documents, and how many of them got one."""
        rows = np.array([self.places.get(seen(name), -1) for name in ids], np.int64)
        linked = rows >= 0
        votes = np.zeros((len(rows), self.scores.shape[1]))
        votes[linked] = self.scores[rows[linked]]
        return votes, int(linked.sum())


def votes_of(pairs: np.ndarray, odds: np.ndarray, size: int) -> np.ndarray:
    """Return (size, K): ``odds`` of the second of (2, P) ``pairs``, added up by the first."""
    votes = np.zeros((size, odds.shape[1]))
    np.add.at(votes, pairs[0], odds[pairs[1]])
    return votes
