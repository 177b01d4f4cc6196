"""Links of declared documents: votes of public neighbours, and rows that read links.

    python benchmarks/neighbours.py --data cora,pubmed
    python benchmarks/neighbours.py    # what the CSV has not yet

measures, and adds to docs/benchmarks/neighbours.csv; docs/benchmarks.md and the guide show it.

Papers as words, in the parts of ``comparison.py``, at ε = 1. *Labelled*: the first documents of the
part that chooses (and then of the training part) are public, with class and links; what remains of
the training part is private, and the third part is asked. *Asked*: of the third part some documents
are public without a class, and are asked themselves.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
from comparison import Texts, papers
from pages import links_table, put
from sklearn.feature_extraction.text import CountVectorizer

from private_graphs.core.streams import Streams
from private_graphs.documents.declaration import default_delta
from private_graphs.documents.hashing import tokens
from private_graphs.documents.neighbours import count_votes, votes_of
from private_graphs.documents.rivals import Scores, regression, sums_alone
from private_graphs.documents.unit_means import ClassSums
from private_graphs.documents.unit_sums import (
    FEWEST_TEXTS,
    PublicTexts,
    Sums,
    Terms,
    scores_of,
)
from private_graphs.documents.unit_words import WordSums
from private_graphs.mechanisms.door import Door
from private_graphs.methods import method_named
from private_graphs.tasks.graph_task import GraphTask, unit_rows
from private_graphs.tasks.method import ALONE, Request
from private_graphs.tasks.tasks import SCENARIOS

ROOT = Path(__file__).resolve().parents[1]
CELLS = ROOT / "docs" / "benchmarks" / "neighbours.csv"
DATA, DRAWS, EPSILON = ("cora", "citeseer", "cora-ml", "pubmed"), 3, 1.0
LABELLED = (20, 100, 500, 1500)
ASKED = ((0, 100), (0, 500), (0, 1000), (100, 1000), (500, 1000))
"""Public documents with a class, and those without one, which are asked."""
METHODS = {
    "words": "words",
    "links": "and links",
    "alone": "public alone, and links",
    "regression": "logistic regression on them, and links",
    "word_sums": "`word_sums`, and links",
    "class_sums": "`class_sums`, and links",
    "graph": "`class_sums` under `graph`",
}
PUBLIC_MODELS: dict[str, Callable[[Sums], Scores]] = {
    "alone": sums_alone,
    "regression": regression,
}


@dataclass(frozen=True, eq=False)
class Parts:
    """Documents of a cell."""

    data: Texts
    private: np.ndarray
    known: np.ndarray
    """Public documents with a class."""
    open: np.ndarray
    """Public documents without one."""
    asked: np.ndarray

    def terms(self, rows: np.ndarray) -> Terms:
        """Return documents, each a unit."""
        texts = [self.data.texts[row] for row in rows.tolist()]
        return Terms(texts, self.data.labels[rows], np.arange(len(rows)))

    def linked(self, scores: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return (asked, K) ``scores`` of the asked, with votes of public documents.

        ``scores`` are those of the texts of some documents; none is read of one with a class.
        """
        size, public = len(self.data.texts), np.concatenate([self.known, self.open])
        labels = np.where(np.arange(len(public)) < len(self.known), self.data.labels[public], -1)
        words = np.zeros((len(public), self.data.n_classes))
        if len(self.open):
            words[len(self.known) :] = scores(self.open)
        voters, places = np.full(size, -1), np.full(size, -1)
        voters[public], places[self.asked] = np.arange(len(public)), np.arange(len(self.asked))
        links = voters[self.data.links]
        result = count_votes(words, labels, links[:, (links >= 0).all(axis=0)])
        pairs = np.hstack([self.data.links, self.data.links[::-1]])
        pairs = np.array([places[pairs[0]], voters[pairs[1]]])
        pairs = pairs[:, (pairs >= 0).all(axis=0)]
        return scores(self.asked) + votes_of(pairs, result.odds, len(self.asked))

    def right(self, scores: np.ndarray) -> float:
        """Return the share of right answers."""
        return float((scores.argmax(axis=1) == self.data.labels[self.asked]).mean())


def released(parts: Parts, kind: type[Sums], draws: int) -> dict[str, list[float]]:
    """Return scores of releases: of words, and with votes."""
    data, opened = parts.data, parts.open if kind is ClassSums else parts.open[:0]
    public = parts.terms(np.concatenate([parts.known, opened]))
    public.labels[len(parts.known) :] = -1
    known = PublicTexts(public.texts if kind is ClassSums else ())
    delta = default_delta(len(parts.private))
    training = kind.of(known, len(parts.private), data.n_classes, EPSILON, delta, "document")
    sums, private = training.public_sums(public), parts.private
    found: dict[str, list[float]] = {"words": [], "links": []}
    for _ in range(draws):
        door = Door.of([Streams.of({"links": data.name}, os.urandom(32))])
        noisy = training.released(parts.terms(private), door)
        weights, _ = training.read_out(noisy, sums)

        def scores(rows: np.ndarray, weights: np.ndarray = weights) -> np.ndarray:
            return scores_of(weights, training.features, parts.terms(rows).texts)

        found["words"].append(parts.right(scores(parts.asked)))
        found["links"].append(parts.right(parts.linked(scores)))
    if kind is WordSums:
        for name, model in PUBLIC_MODELS.items():
            read = partial(model(training), public)
            found[name] = [
                parts.right(parts.linked(lambda rows, read=read: read(parts.terms(rows).texts)))
            ]
    return found


def studied(parts: Parts, draw: int) -> float:
    """Return the score of ``class_sums`` under ``graph``: a row reads its links to public texts."""
    data, public = parts.data, np.concatenate([parts.known, parts.asked])
    counts = CountVectorizer(binary=True, analyzer=tokens).fit_transform(data.texts)
    rows = unit_rows(scipy.sparse.csr_matrix(counts, dtype=float))
    size = len(data.texts)
    ends = np.hstack([data.links, data.links[::-1]])
    links = scipy.sparse.csr_matrix((np.ones(ends.shape[1]), tuple(ends)), (size, size))
    own = parts.private[data.labels[parts.private] >= 0]
    task = GraphTask(
        scenario=SCENARIOS["graph"], n_units=len(parts.private), n_classes=data.n_classes,
        delta=data.delta, train_features=rows[own], train_labels=data.labels[own],
        validation_features=rows[parts.known], validation_labels=data.labels[parts.known],
        test_features=rows[parts.asked], public_adjacency=links[public][:, public],
        train_to_public=links[own][:, public], train_adjacency=links[own][:, own],
    )  # fmt: skip
    streams = Streams.of({"links": data.name, "draw": draw}, os.urandom(32))
    request = Request(EPSILON, draw, np.arange(len(parts.known)), streams.public)
    [outcome] = method_named("class_sums").run(task, [request], Door.of([streams]), ALONE)
    return float((outcome.test_predictions == data.labels[parts.asked]).mean())


def cells(data: Texts) -> Iterator[tuple[str, int, int, Parts]]:
    """Yield the kind of a cell, numbers of public documents with and without a class, and parts."""
    order = np.random.default_rng(1)
    first, rest = order.permutation(data.choosing), order.permutation(data.trained)
    pool, none = np.concatenate([first, rest]), np.zeros(0, np.int64)
    pool, tested = (rows[data.labels[rows] >= 0] for rows in (pool, data.tested))
    for size in LABELLED:
        known = pool[:size]
        yield "labelled", size, 0, Parts(data, np.setdiff1d(rest, known), known, none, tested)
    for known, size in ASKED:
        asked = tested[:size]
        yield "asked", known, size, Parts(data, data.trained, pool[:known], asked, asked)


def measure(names: Sequence[str]) -> None:
    """Add cells to the CSV, one after the other, what is there excepted."""
    table = pd.read_csv(CELLS) if CELLS.exists() else pd.DataFrame(columns=["data", "kind"])
    for name in names:
        data = papers(name)
        for kind, known, opened, parts in cells(data):
            about = {"data": name, "kind": kind, "labelled": known, "unlabelled": opened,
                     "private": len(parts.private)}  # fmt: skip
            cell = (table[[*about]] == pd.Series(about)).all(axis=1)
            there, draws = set(table[cell]["method"]), range(DRAWS)
            found: dict[str, list[float]] = {}
            if kind == "labelled" and "links" not in there:
                found = released(parts, WordSums, DRAWS)
            elif kind == "asked" and "word_sums" not in there:
                found["word_sums"] = released(parts, WordSums, DRAWS)["links"]
                if opened >= FEWEST_TEXTS:
                    found["class_sums"] = released(parts, ClassSums, DRAWS)["links"]
            if kind == "asked" and "graph" not in there:
                found["graph"] = [studied(parts, draw) for draw in draws]
            if not found:
                continue
            rows = [
                about | {"method": method, "score": float(np.mean(scores)),
                         "spread": float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0,
                         "draws": len(scores)}
                for method, scores in found.items()
            ]  # fmt: skip
            print(about, found, file=sys.stderr, flush=True)
            table = pd.concat([table, pd.DataFrame(rows)])
            table.to_csv(CELLS, index=False, float_format="%.4g")


def main() -> None:
    """Measure what is asked for, and write what the page says of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=",".join(DATA))
    measure(parser.parse_args().data.split(","))
    put("links", links_table())


if __name__ == "__main__":
    main()
