"""Links of declared documents: votes of public neighbours, and rows that read links.

    python benchmarks/neighbours.py --data cora,pubmed
    python benchmarks/neighbours.py    # what the CSV has not yet

measures, adds to docs/benchmarks/neighbours.csv, and writes docs/benchmarks/neighbours.md from it.

Papers as words, in the parts of ``comparison.py``, at ε = 1. *Labelled*: the first documents of the
part that chooses (and then of the training part) are public, with class and links; what remains of
the training part is private, and the third part is asked. *Asked*: of the third part some documents
are public without a class, and are asked themselves.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
from comparison import Texts, papers
from sklearn.feature_extraction.text import CountVectorizer

import private_graphs
from private_graphs.core.streams import Streams
from private_graphs.documents.hashing import tokens
from private_graphs.mechanisms.door import Door
from private_graphs.methods import method_named
from private_graphs.tasks.graph_task import GraphTask, unit_rows
from private_graphs.tasks.method import ALONE, Request
from private_graphs.tasks.tasks import SCENARIOS

ROOT = Path(__file__).resolve().parents[1]
CELLS = ROOT / "docs" / "benchmarks" / "neighbours.csv"
PAGE = ROOT / "docs" / "benchmarks" / "neighbours.md"
DATA, DRAWS, EPSILON = ("cora", "citeseer", "cora-ml", "pubmed"), 3, 1.0
LABELLED = (20, 100, 500, 1500)
ASKED = ((0, 100), (0, 500), (0, 1000), (100, 1000), (500, 1000))
"""Public documents with a class, and those without one, which are asked."""
METHODS = {
    "words": "words",
    "links": "and links",
    "public": "public alone, and links",
    "word_sums": "`word_sums`, and links",
    "class_sums": "`class_sums`, and links",
    "graph": "`class_sums` under `graph`",
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

    def table(self, rows: np.ndarray, path: Path, hidden: Sequence[int] = ()) -> Path:
        """Write documents, some without their class."""
        path.parent.mkdir(exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["id", "text", "label"])
            for row in rows.tolist():
                name = "" if row in hidden else f"c{self.data.labels[row]}"
                writer.writerow([f"d{row}", self.data.texts[row], name])
        return path

    def links(self, rows: np.ndarray, path: Path) -> Path:
        """Write the links among documents."""
        inside = np.isin(self.data.links, rows).all(axis=0)
        ends = [[f"d{row}" for row in side] for side in self.data.links[:, inside].tolist()]
        pd.DataFrame({"source": ends[0], "target": ends[1]}).to_csv(path, index=False)
        return path


def declared(parts: Parts, method: str) -> dict[str, float]:
    """Return scores of 'declare', 'classify' and 'predict', and what public documents alone give.

    ``word_sums`` reads no text without a class: it gets none.
    """
    opened = parts.open if method == "class_sums" else parts.open[:0]
    with tempfile.TemporaryDirectory() as name:
        folder, everything = Path(name), np.arange(len(parts.data.texts))
        raw, public = folder / "data" / "raw", np.concatenate([parts.known, opened])
        hidden = set(opened.tolist())
        more = {}
        if len(public):
            parts.table(public, folder / "open" / "o.csv", hidden)
            more = {"public_files": folder / "open"}
        private_graphs.declare(
            "compared", nodes=parts.table(parts.private, folder / "n.csv"), text="text",
            label="label", data=raw, drop_empty=True, unknown_edges="drop",
            edges=parts.links(everything, folder / "e.csv"),
            classes=[f"c{number}" for number in range(parts.data.n_classes)],
            **more or {"test_share": 0},
        )  # fmt: skip
        result = private_graphs.classify("compared", epsilon=EPSILON, out=folder / "out", data=raw)
        assert result.method == method, result.method
        asked = parts.table(parts.asked, folder / "new.csv")
        release = folder / "out" / "release"
        found = {}
        for kind, edges in (("words", None), ("links", folder / "e.csv")):
            if edges is None or private_graphs.load(release).neighbours is not None:
                score = private_graphs.predict(
                    release, nodes=asked, label="label", edges=edges, data=raw
                ).accuracy
            found[kind] = score  # links that tell nothing change nothing
        if result.quality is not None:
            free = (result.quality.public_alone, result.quality.public_regression)
            found["public"] = max(score for score in free if score is not None)
        return found


def studied(parts: Parts, draw: int) -> dict[str, float]:
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
    return {"graph": float((outcome.test_predictions == data.labels[parts.asked]).mean())}


def cells(data: Texts) -> Iterator[tuple[str, int, int, Parts]]:
    """Yield the kind of a cell, numbers of public documents with and without a class, and parts."""
    order = np.random.default_rng(1)
    first, rest = order.permutation(data.choosing), order.permutation(data.trained)
    pool, none = np.concatenate([first, rest]), np.zeros(0, np.int64)
    for size in LABELLED:
        known = pool[:size]
        yield "labelled", size, 0, Parts(data, np.setdiff1d(rest, known), known, none, data.tested)
    for known, size in ASKED:
        asked = data.tested[:size]
        yield "asked", known, size, Parts(data, data.trained, first[:known], asked, asked)


def measure(names: Sequence[str]) -> None:
    """Add cells to the CSV, one after the other, what is there excepted."""
    table = pd.read_csv(CELLS) if CELLS.exists() else pd.DataFrame(columns=["data", "kind"])
    for name in names:
        data = papers(name)
        for kind, known, opened, parts in cells(data):
            about = {"data": name, "kind": kind, "labelled": known, "unlabelled": opened,
                     "private": len(parts.private)}  # fmt: skip
            there = (table["data"] == name) & (table["kind"] == kind)
            if (
                there.any()
                and (there & (table["labelled"] == known) & (table["unlabelled"] == opened)).any()
            ):
                continue
            found: dict[str, list[float]] = {}
            for draw in range(DRAWS):
                if kind == "labelled":
                    scores = declared(parts, "word_sums")
                else:
                    scores = {"word_sums": declared(parts, "word_sums")["links"]}
                    if opened >= 200:
                        scores["class_sums"] = declared(parts, "class_sums")["links"]
                    scores |= studied(parts, draw)
                for method, score in scores.items():
                    found.setdefault(method, []).append(score)
            rows = [
                about | {"method": method, "score": float(np.mean(scores)),
                         "spread": float(np.std(scores, ddof=1)), "draws": DRAWS}
                for method, scores in found.items()
            ]  # fmt: skip
            print(about, found, file=sys.stderr, flush=True)
            table = pd.concat([table, pd.DataFrame(rows)])
            table.to_csv(CELLS, index=False, float_format="%.4g")


def shown(kind: str, methods: Sequence[str]) -> str:
    """Return a table of one kind of cells."""
    table = pd.read_csv(CELLS)
    table = table[table["kind"] == kind]
    lines = [["", "public with class", "without", "private", *(METHODS[name] for name in methods)],
             ["---", *["---:"] * (3 + len(methods))]]  # fmt: skip
    places = ["data", "labelled", "unlabelled", "private"]
    for place, cell in table.groupby(places, sort=False):
        by = cell.set_index("method")
        lines.append([*map(str, place), *(
            "–" if name not in by.index else f"{by.at[name, 'score']:.3f}"
            + (f" ± {by.at[name, 'spread']:.3f}" if by.at[name, "spread"] >= 5e-4 else "")
            for name in methods
        )])  # fmt: skip
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page() -> str:
    """Return docs/benchmarks/neighbours.md."""
    return f"""# Links of declared documents

Made by `python benchmarks/neighbours.py`, from [its cells](neighbours.csv): papers as words, share
of right answers at ε = 1, mean ± standard deviation over {DRAWS} draws of the noise. 1,000 asked
documents make about ± .015 by themselves.

## Public documents with a class: their votes

`declare --edges`, `classify`, `predict --edges`: no link of a private document is read to train.
*Public alone* is the better of the two models that a release has to beat, on the public documents
themselves, in five folds.

{shown("labelled", ("words", "links", "public"))}

## Public documents without a class, which are asked themselves

*and links*: votes of public documents with a class, as above. *Under `graph`* is the study's
method, which is not open to declared documents: a private document's row reads its own links to
public ones, the asked ones among them, and answers are averaged over public links.

{shown("asked", ("word_sums", "class_sums", "graph"))}
"""


def main() -> None:
    """Measure what is asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=",".join(DATA))
    measure(parser.parse_args().data.split(","))
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
