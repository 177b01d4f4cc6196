"""Answers by class: right and wrong ones of test units, and the sizes of the classes that train.

A labelled document of a test unit has a vector: right, a one at its class; wrong, 1/sqrt 2 at its
class and at the predicted one. No entry is negative and the norm is 1 at most, and so is it of a
mean over a unit's documents: replacing a unit moves the sum by sqrt 2 at most (docs/privacy.md,
"Counts of right answers").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from private_graphs.core.errors import counted, listed
from private_graphs.documents.unit_sums import SENSITIVITY, Counts, unit_shares
from private_graphs.methods.lattice import LatticeGaussian

REASON = (
    "a unit adds the mean over its labelled documents of a vector with a one at its class where "
    "the answer is right, else with 1/sqrt 2 at its class and at the predicted one: no entry is "
    "negative and the norm is 1 at most, so that two such means differ by at most sqrt 2; only "
    "test units count, no test unit trains"
)
SUMS = "public documents alone"
REGRESSION = "logistic regression on public documents"
"""What is free, and compared with a release: its classifier without private documents, and another
one."""
_ROOT = math.sqrt(0.5)


def calibrated_answers(epsilon: float, delta: float, n_classes: int) -> LatticeGaussian:
    """Return the noise of the 3K numbers about test units."""
    size = 3 * n_classes
    return LatticeGaussian.calibrate(
        epsilon, delta, SENSITIVITY, dimension=size, entries=size, contributions=2
    )


def answers_of(
    predicted: np.ndarray, labels: np.ndarray, unit_of: np.ndarray, n_classes: int
) -> np.ndarray:
    """Return (units, 3K): right answers by class, wrong ones by class and by predicted class."""
    known = labels >= 0
    labels, predicted, units = labels[known], predicted[known], unit_of[known]
    right = predicted == labels
    # what a document has no part in is counted in a last column, which is left out
    parts = (np.where(right, labels, n_classes), np.where(right, n_classes, labels),
             np.where(right, n_classes, predicted))  # fmt: skip
    return np.hstack([
        size * unit_shares(cells, units, n_classes + 1)[:, :n_classes]
        for cells, size in zip(parts, (1.0, _ROOT, _ROOT), strict=True)
    ])  # fmt: skip


@dataclass(frozen=True)
class ClassScore:
    """Answers about the documents of one class, by unit."""

    name: str
    recall: float | None
    """Share of right answers; None where there are too few, or too much noise."""
    error: float | None
    """Standard error of the share, noise included."""


@dataclass(frozen=True, eq=False)
class ClassAnswers:
    """Sums of ``answers_of`` over test units, exact or noisy."""

    right: np.ndarray
    """(K,)"""
    wrong: np.ndarray
    """(K,) by class."""
    mistaken: np.ndarray
    """(K,) by predicted class."""
    noise_std: float

    @classmethod
    def of(cls, sums: np.ndarray, noise_std: float) -> ClassAnswers:
        """Take the 3K numbers apart."""
        right, wrong, mistaken = np.split(np.asarray(sums, float), 3)
        return cls(right, wrong / _ROOT, mistaken / _ROOT, noise_std)

    def counts(self, majority: int, tested: int) -> Counts:
        """Return what is compared with always answering the class ``majority``."""
        others = np.arange(len(self.right)) != majority
        wrong = (self.wrong.sum() + self.mistaken.sum()) / 2  # both count all wrong answers
        cells = (self.right[majority], self.right[others].sum(), self.wrong[majority],
                 wrong - self.wrong[majority])  # fmt: skip
        gain_variance = (len(self.right) + 1) * self.noise_std**2
        return Counts(tuple(map(float, cells)), gain_variance, tested)

    def by_class(self, names: Sequence[str]) -> tuple[ClassScore, ...]:
        """Return the recall of each class."""
        scores = []
        for name, right, wrong in zip(names, self.right, self.wrong, strict=True):
            size, least = float(right + wrong), max(1.0, 2 * math.sqrt(3) * self.noise_std)
            if size < least:
                scores.append(ClassScore(name, None, None))
                continue
            share = min(max(float(right) / size, 0.0), 1.0)
            noise = self.noise_std**2 * ((1 - share) ** 2 + 2 * share**2) / size
            spread = max(share * (1 - share), 1 / size)
            scores.append(ClassScore(name, share, math.sqrt((spread + noise) / size)))
        return tuple(scores)

    @property
    def macro_f1(self) -> float:
        """Mean over classes of the harmonic mean of recall and precision."""
        both = np.maximum(2 * self.right + self.wrong + self.mistaken, 1.0)
        return float(np.clip(2 * self.right / both, 0.0, 1.0).mean())


def recall_words(scores: Sequence[ClassScore], macro_f1: float) -> str:
    """Return macro-F1, and the recall of each class with its error."""
    words = listed(
        f"{score.name} " + ("?" if score.recall is None or score.error is None else
                           f"{score.recall:.2f} ± {score.error:.2f}")
        for score in scores
    )  # fmt: skip
    return f"macro-F1 {macro_f1:.3f}; right answers by class: {words}"


@dataclass(frozen=True)
class ClassSize:
    """Noisy number of labelled units that train of one class."""

    name: str
    units: float
    error: float
    """Standard deviation of its noise."""
    learned: bool
    """Whether it is as large as a class has to be under this noise."""


def size_words(sizes: Sequence[ClassSize], unit: str) -> list[str]:
    """Return the sizes, and which classes are too small."""

    def shown(size: ClassSize) -> str:
        return f"{size.name} {max(0.0, size.units):,.0f}"

    if not sizes:
        return []
    lines = [f"class sizes (± {sizes[0].error:,.0f}): {listed(map(shown, sizes))}"]
    small = [size for size in sizes if not size.learned]
    if small:
        lines.append("cannot be learned at this epsilon: " + listed(
            f"{size.name}, {max(0.0, size.units):,.0f} ± {counted(round(size.error), unit)}"
            for size in small
        ))  # fmt: skip
    return lines
