"""Constants of ``classify --method dp_linear``, chosen on documents that docs/comparison.md never
scores.

    python benchmarks/unit_steps.py    # writes docs/benchmarks/unit_steps.csv

Letters of another seed, and the papers of PubMed without the test documents of the comparison: four
fifths train, as where nobody is public, and the others are scored. Every constant is varied around
the values in the code; all candidates see the same streams of noise.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import numpy as np
from comparison import CHOOSING, EPSILONS, Texts, letters, papers
from pages import FOLDER, constants_table, put, write_rows

from private_graphs.core.streams import Streams
from private_graphs.documents import unit_steps, unit_sums
from private_graphs.mechanisms.door import Door
from private_graphs.methods import class_sums

DRAWS, SEED = 3, 777
NAMES = ("STEPS", "RATE", "COLUMNS_PER_SIGNAL", "COUNT_SHARE", "BIAS", "RATES", "CLIP_NORM")
NOW = {name: getattr(unit_steps, name) for name in NAMES}
JOINTLY = {"STEPS": (32, 64, 128), "RATE": (0.75, 1.5, 3.0), "COLUMNS_PER_SIGNAL": (2.0, 4.0, 8.0)}
ALONE = {
    "COUNT_SHARE": (0.005, 0.05), "BIAS": (0.1, 1.0), "RATES": ((5.0, 50.0), (20.0, 200.0)),
    "CLIP_NORM": (0.25, 1.0),
}  # fmt: skip
WITH_PUBLIC = {"STEPS": (32, 128), "RATE": (0.75, 3.0)}
AS_NOW = "as in the code"


def candidates() -> Iterator[tuple[dict, bool]]:
    """Yield what differs from the values in the code, and whether documents are public."""
    for values in itertools.product(*JOINTLY.values()):
        yield dict(zip(JOINTLY, values, strict=True)), False
    yield from (({name: value}, False) for name, values in ALONE.items() for value in values)
    yield {}, True
    yield from (({name: value}, True) for name, values in WITH_PUBLIC.items() for value in values)


def sets() -> list[Texts]:
    """Return documents that the comparison does not score: ``tested`` are the held-out ones."""
    found = []
    for data in (letters(5000, SEED), papers("pubmed")):
        known = np.concatenate([data.trained, data.tested]) if data.name == "letters" else (
            data.trained)  # fmt: skip
        mixed = np.random.default_rng(SEED).permutation(known)
        size = round(0.8 * (4000 if data.name == "letters" else len(known)))
        found.append(replace(data, trained=np.sort(mixed[:size]), tested=np.sort(mixed[size:])))
    return found


class Trial:
    """Documents whose rows are computed once for each map."""

    def __init__(self, data: Texts) -> None:
        self.data, self.kept = data, {}

    def terms(self, rows: np.ndarray) -> unit_sums.Terms:
        return unit_sums.Terms([self.data.texts[row] for row in rows], self.data.labels[rows],
                               np.arange(len(rows)))  # fmt: skip

    def scores(self, epsilon: float, public: bool) -> list[float]:
        """Return the shares of right answers on held-out documents, by draw."""
        data = self.data
        known = self.terms(data.choosing[: CHOOSING if public else 0])
        training = unit_steps.LinearSteps.of(
            unit_sums.PublicTexts(known.texts), len(data.trained), data.n_classes, epsilon,
            data.delta, "document",
        )  # fmt: skip
        key = public, training.features.columns, unit_steps.BIAS
        if key not in self.kept:
            self.kept = {key: self.kept[key] for key in list(self.kept)[-3:]}
            terms = self.terms(data.trained)
            asked = training.features.rows([data.texts[row] for row in data.tested])
            self.kept[key] = terms, training.sums(terms), asked
        terms, sums, asked = self.kept[key]
        found = []

        def kept(self: unit_steps.LinearSteps, _: unit_sums.Terms) -> unit_steps.ResidualSums:
            return replace(sums, lattice=self.step_lattice)

        with patch.object(unit_steps.LinearSteps, "sums", kept):
            for draw in range(DRAWS):
                door = Door.of([Streams.of({"draw": draw})])
                weights, _ = training.weights(terms, known, door)
                told = (asked @ weights[:-1] + weights[-1]).argmax(axis=1)
                found.append(float((told == data.labels[data.tested]).mean()))
        return found


def rows_of_grid() -> Iterator[list[str]]:
    """Yield the rows of the table, as they are computed."""
    trials = [Trial(data) for data in sets()]
    for changed, public in candidates():
        cells = []
        for trial in trials:
            for epsilon in EPSILONS:
                values = NOW | changed
                with (
                    patch.multiple(unit_steps, **values),
                    patch.object(class_sums, "CLIP_NORM", values["CLIP_NORM"]),
                ):
                    cells.append(float(np.mean(trial.scores(epsilon, public))))
        words = ", ".join(f"{name} = {value}" for name, value in changed.items()
                          if value != NOW[name])  # fmt: skip
        row = [words or AS_NOW, f"{CHOOSING}" if public else "nobody",
               *(f"{cell:.4f}" for cell in cells), f"{np.mean(cells):.4f}"]  # fmt: skip
        print(" | ".join(row), file=sys.stderr, flush=True)
        yield row


def main() -> None:
    """Score every candidate; write the rows and what the page says of them."""
    heads = [f"{name}, ε = {epsilon:g}" for name in ("letters", "pubmed") for epsilon in EPSILONS]
    names = ("constants", "public", *heads, "mean")
    rows = [dict(zip(names, row, strict=True)) for row in rows_of_grid()]
    write_rows(FOLDER, "unit_steps", rows)
    put("constants", constants_table())


if __name__ == "__main__":
    main()
