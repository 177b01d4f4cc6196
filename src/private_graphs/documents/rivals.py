"""Public documents of a declaration: what they answer alone, which a release has to beat.

All public documents teach. So that they can test as well, they are cut into five folds by a keyed
hash of their unit, and the answers about a fold are those of a classifier that is made without it:
of the release, and of two models of public documents alone (docs/privacy.md §16, "The verdict").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from private_graphs.core.errors import counted
from private_graphs.documents.answers import REGRESSION, SUMS, ClassAnswers, answers_of
from private_graphs.documents.neighbours import LinkFacts, PublicNeighbours, count_votes
from private_graphs.documents.release import FEWEST, Quality
from private_graphs.documents.tables import PUBLIC, Documents, keyed
from private_graphs.documents.unit_sums import Counts, Sums, Terms, cells_of, scores_of
from private_graphs.documents.vectors import ModelVectors

FOLDS = 5
_LEAST_SHARE = 1e-6
"""Probability of a class that logistic regression has not seen."""

TextScores = Callable[[Sequence[str]], np.ndarray]
"""(texts, K) scores of texts."""
Scores = Callable[[Terms, Sequence[str]], np.ndarray]
"""(texts, K) scores of texts, by a classifier that reads these public documents."""


@dataclass(frozen=True, eq=False)
class PublicDocuments:
    """Public documents, and the links whose two ends are among them."""

    ids: tuple[str, ...]
    terms: Terms
    folds: np.ndarray
    """(documents,)"""
    links: np.ndarray
    """(2, links) places among the documents, each link once."""
    n_classes: int

    @classmethod
    def of(cls, docs: Documents, edges: np.ndarray) -> PublicDocuments:
        """Take the public documents; of (2, E) ``edges`` only those between two of them."""
        rows = docs.on(*PUBLIC)
        places = np.full(len(docs.ids), -1)
        places[rows] = np.arange(len(rows))
        ends = places[edges]
        units = docs.unit_of[rows]
        folds = np.array(keyed("folds", docs.units), dtype=np.uint64) % np.uint64(FOLDS)
        return cls(
            tuple(docs.ids[row] for row in rows),
            Terms([docs.texts[row] for row in rows], docs.labels[rows], units),
            folds[units].astype(np.int64), ends[:, (ends >= 0).all(axis=0)], len(docs.classes),
        )  # fmt: skip

    @property
    def labelled(self) -> bool:
        """Whether a document has a class."""
        return bool((self.terms.labels >= 0).any())

    @cached_property
    def facts(self) -> LinkFacts | None:
        """What links among documents with a class tell; None without a link among documents."""
        if not self.links.shape[1]:
            return None
        labels = self.terms.labels
        return LinkFacts.of(
            np.eye(self.n_classes)[labels], self.links[:, (labels[self.links] >= 0).all(axis=0)]
        )

    @property
    def links_words(self) -> str:
        """What is known of the links before a release; empty without one."""
        if self.facts is None:
            return ""
        unknown = int((self.terms.labels[self.links] < 0).any(axis=0).sum())
        return self.facts.sentence if not unknown else (
            f"{counted(self.links.shape[1], 'link')} among public documents, {unknown:,} with an "
            "end without a class: what they tell follows from the release"
        )  # fmt: skip

    def _scores(self, scores: TextScores, asked: np.ndarray) -> np.ndarray:
        """Return (documents, K) scores of the texts that are ``asked``, 0 for the others."""
        rows, found = np.flatnonzero(asked), np.zeros((len(asked), self.n_classes))
        found[rows] = scores(self.terms.part(rows).texts)
        return found

    def neighbours(self, scores: TextScores) -> tuple[LinkFacts | None, PublicNeighbours | None]:
        """Return what links tell, with classes by ``scores`` where none is known, and documents
        that vote; None without links, no documents where links tell nothing."""
        if not self.links.shape[1]:
            return None, None
        labels = self.terms.labels
        votes = count_votes(self._scores(scores, labels < 0), labels, self.links)
        return votes.facts, PublicNeighbours(self.ids, votes.odds) if votes.facts.tie else None

    def answers(self, scores: Scores) -> tuple[np.ndarray, np.ndarray]:
        """Return (documents, K) scores of the texts alone, and with votes of linked documents.

        Of each fold by a classifier that reads the others, and by votes that know no class of it.
        """
        alone, linked = (np.zeros((len(self.ids), self.n_classes)) for _ in range(2))
        voters = np.isin(np.arange(len(self.ids)), self.links)
        for fold in np.unique(self.folds):
            asked = self.folds == fold
            labels = np.where(asked, -1, self.terms.labels)
            taught = self.terms.part(np.flatnonzero(~asked))
            found = self._scores(partial(scores, taught), asked | (voters & (labels < 0)))
            alone[asked] = found[asked]
            linked[asked] = count_votes(found, labels, self.links).scores[asked]
        return alone, linked

    def rivals(self, sums: Sums) -> dict[str, np.ndarray] | None:
        """Return name -> (documents,) classes by public documents alone; None without a class.

        ``sums`` reads texts; its classifier is that of a release without private documents. Both
        have the votes of linked public documents, as the release has.
        """
        if not self.labelled:
            return None
        models = {SUMS: sums_alone(sums), REGRESSION: regression(sums)}
        return {name: self.answers(scores)[1].argmax(axis=1) for name, scores in models.items()}


def sums_alone(sums: Sums) -> Scores:
    """Return the classifier of ``sums`` by public documents alone."""

    def scores(taught: Terms, texts: Sequence[str]) -> np.ndarray:
        return scores_of(sums.alone(taught), sums.features, texts)

    return scores


def regression(sums: Sums) -> Scores:
    """Return logistic regression on TF-IDF, or on the vectors of a model that reads the texts."""

    def scores(taught: Terms, texts: Sequence[str]) -> np.ndarray:
        from sklearn.linear_model import LogisticRegression

        labelled = np.flatnonzero(taught.labels >= 0)
        known, labels = taught.part(labelled).texts, taught.labels[labelled]
        shares = np.full((len(texts), sums.n_classes), _LEAST_SHARE)
        classes = np.unique(labels)
        if len(classes) < 2:
            shares[:, classes] = 1.0
            return np.log(shares)
        read, answered = _rows(sums, known, texts)
        fit = LogisticRegression(C=10, max_iter=500).fit(read, labels)
        shares[:, fit.classes_] = np.maximum(fit.predict_proba(answered), _LEAST_SHARE)
        return np.log(shares)

    return scores


def _rows(sums: Sums, known: Sequence[str], texts: Sequence[str]) -> tuple[Any, Any]:
    if isinstance(sums.features, ModelVectors):
        return sums.features.rows(known), sums.features.rows(texts)
    from sklearn.feature_extraction.text import TfidfVectorizer

    from private_graphs.documents.hashing import tokens

    words = TfidfVectorizer(sublinear_tf=True, analyzer=tokens)
    return words.fit_transform(known), words.transform(texts)


def _exact_verdict(cells: np.ndarray) -> str:
    """Return the verdict of the exact paired test by unit, at the level of two standard errors."""
    from scipy.stats import binomtest

    better = cells[:, 1] - cells[:, 2]
    won, lost = int((better > 0).sum()), int((better < 0).sum())
    if not won + lost or binomtest(won, won + lost).pvalue > 0.0455:
        return "none"
    return "gain" if won > lost else "loss"


def public_quality(
    classes: Sequence[str], test: Terms, predicted: np.ndarray, majority: int,
    free: dict[str, np.ndarray] | None,
) -> Quality | None:  # fmt: skip
    """Compare exact answers on public test units with those that are free: the verdict is the worst
    of the comparisons with ``free`` and the majority, so that nothing is chosen by the answers."""
    if free is None or not (test.labels >= 0).any():
        return None
    rivals: dict[str, tuple[Counts, str]] = {}
    constant = np.full(len(predicted), majority)
    for name, baseline in (*free.items(), ("majority", constant)):
        cells = cells_of(predicted, baseline, test.labels, test.unit_of)
        counts = Counts(tuple(cells.sum(axis=0).tolist()), 0.0, len(cells))
        rivals[name] = counts, _exact_verdict(cells)
    verdicts = {verdict for _, verdict in rivals.values()}
    counts, _ = max(rivals.values(), key=lambda rival: rival[0].other)
    verdict: str = next(outcome for outcome in ("loss", "none", "gain") if outcome in verdicts)
    if counts.labelled < FEWEST:
        verdict = "cannot tell"
    cells = answers_of(predicted, test.labels, test.unit_of, len(classes))
    answers = ClassAnswers.of(cells.sum(axis=0), 0.0)
    return Quality(
        counts.score, rivals["majority"][0].other, classes[majority],
        rivals[SUMS][0].other, counts.labelled, counts.gain, counts.error, verdict, False,
        macro_f1=answers.macro_f1, by_class=answers.by_class(classes),
        public_regression=rivals[REGRESSION][0].other if REGRESSION in rivals else None,
    )  # fmt: skip
