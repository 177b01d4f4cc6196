"""Votes of public neighbours: what a link to a public document of a class tells of a document.

Nothing is trained with links. How often linked documents share a class is counted on links whose
two ends are public, so that no link of a private document is read. A document's own links to public
ones are read when it is predicted: each adds the log-odds of its neighbour's class to the scores
(docs/privacy.md §16, "Public neighbours").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from private_graphs.core.errors import counted
from private_graphs.datasets.own_tables import read_table
from private_graphs.datasets.spelling import seen

_LINKS_BY_CHANCE = 4.0
"""Links that are added to those that are counted, with classes drawn by chance."""


@dataclass(frozen=True)
class LinkFacts:
    """Links among public documents with a class."""

    links: int
    same: float
    """Share of the links that join two documents of one class."""
    chance: float
    """This share if classes were drawn independently."""
    odds: tuple[float, ...]
    """(K,) what a link to a document of a class adds to the log-odds of this class; 0: nothing."""

    @classmethod
    def of(cls, ends: np.ndarray, n_classes: int) -> LinkFacts:
        """Count links whose two ends have the classes ``ends`` (2, links).

        A neighbour's class is that of the document with probability h, else drawn with the shares
        p of the classes among the ends of links: a neighbour of class c multiplies the odds of c by
        1 + h / ((1 - h) p_c). h >= 0 is fitted to the links and four more by chance, so that few
        links, and links that join classes by chance, tell nothing.
        """
        links = ends.shape[1]
        counts = np.bincount(ends.ravel(), minlength=n_classes) + 1.0
        shares = counts / counts.sum()
        chance = float((shares**2).sum())
        within = int((ends[0] == ends[1]).sum())
        same = (within + _LINKS_BY_CHANCE * chance) / (links + _LINKS_BY_CHANCE)
        bound = max(same - chance, 0.0) / (1 - chance)
        odds = np.log1p(bound / ((1 - bound) * shares))
        return cls(links, within / max(links, 1), chance, tuple(odds.tolist()))

    @property
    def sentence(self) -> str:
        """Return the facts in words."""
        head = f"{counted(self.links, 'link')} among public documents"
        if not self.links or not max(self.odds):
            return f"{head}: they do not tell classes apart, so that links are not used"
        low, high = min(self.odds), max(self.odds)
        return (
            f"{head}, {100 * self.same:.0f} % within a class ({100 * self.chance:.0f} % by "
            f"chance): a link to a public document adds {low:.1f} to {high:.1f} to the log-odds of "
            "its class"
        )


@dataclass(frozen=True, eq=False)
class PublicNeighbours:
    """Public documents with a class, which vote on documents that are linked to them."""

    ids: tuple[str, ...]
    labels: np.ndarray
    """(documents,) classes."""
    odds: np.ndarray
    """(K,) see ``LinkFacts``."""

    def votes(self, pairs: np.ndarray, size: int) -> np.ndarray:
        """Return (size, K) votes, for (2, P) places that are asked, and documents that vote."""
        return votes_of(pairs[0], self.labels[pairs[1]], size, self.odds)

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
        for sources, targets in (columns, columns[::-1]):
            places = pc.fill_null(pc.index_in(pa.array(targets, pa.string()), known), -1)
            votes = np.asarray(places)
            rows = np.flatnonzero(votes >= 0).tolist()
            rows = [row for row in rows if sources[row] != targets[row]]
            codes = [names.setdefault(sources[row], len(names)) for row in rows]
            pairs = np.hstack([pairs, np.array([codes, votes[rows]], np.int64).reshape(2, -1)])
        pairs = np.unique(pairs, axis=1)  # a link that is given twice is one link
        return LinkVotes(names, self.votes(pairs, len(names)))


@dataclass(frozen=True, eq=False)
class LinkVotes:
    """Votes on the documents that have a link to a public one."""

    places: dict[str, int]
    """Visible form of an id -> row of ``scores``."""
    scores: np.ndarray
    """(linked documents, K)"""

    def of(self, ids: Sequence[str]) -> tuple[np.ndarray, int]:
        """Return (documents, K) votes on documents, and how many of them got one."""
        rows = np.array([self.places.get(seen(name), -1) for name in ids], np.int64)
        linked = rows >= 0
        votes = np.zeros((len(rows), self.scores.shape[1]))
        votes[linked] = self.scores[rows[linked]]
        return votes, int(linked.sum())


def votes_of(rows: np.ndarray, classes: np.ndarray, size: int, odds: np.ndarray) -> np.ndarray:
    """Return (size, K): ``odds`` of a neighbour's class, added up by row."""
    votes = np.zeros((size, len(odds)))
    np.add.at(votes, (rows, classes), odds[classes])
    return votes
