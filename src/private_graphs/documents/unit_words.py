"""One Gaussian release of sums of words by class, over units whose documents are averaged.

The same release as ``unit_sums``, of rows without a negative entry and with a small constant; the
classifier, ``methods.word_prior``, has nothing to set (docs/privacy.md §16, "Word sums").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from private_graphs.documents.hashing import HashedWords
from private_graphs.documents.unit_sums import PublicTexts, Sums, Terms
from private_graphs.methods.word_prior import (
    COLUMNS,
    CONSTANT_SHARE,
    REASON,
    Totals,
    weights_of,
)


@dataclass(frozen=True, eq=False)
class WordSums(Sums):
    """Training by one noisy sum of words, with everything that is decided before a private read."""

    SHARE: ClassVar[float] = CONSTANT_SHARE
    REASON: ClassVar[str] = REASON

    @staticmethod
    def map_of(
        public: PublicTexts, n_units: int, n_classes: int, epsilon: float, delta: float
    ) -> HashedWords:
        """See ``Sums.map_of``; the columns are the same at every size."""
        return HashedWords(COLUMNS, public.words, signed=False)

    def read_out(self, noisy: np.ndarray, public: Any) -> tuple[np.ndarray, np.ndarray]:
        """See ``Sums.read_out``; ``public`` is read behind the gate of ``weights_of``."""
        private = Totals.of(noisy, self.lattice.noise_std)
        return weights_of(private, self.n_units, public).weights, private.sizes

    def alone(self, known: Terms) -> np.ndarray:
        """See ``Sums.alone``."""
        totals = self.public_sums(known)
        if totals is None:
            return np.zeros((self.features.columns + 1, self.n_classes))
        return weights_of(totals, int(totals.sizes.sum())).weights

    def public_sums(self, known: Terms) -> Totals | None:
        """Return the sums of labelled public documents; None without one."""
        labelled = np.flatnonzero(known.labels >= 0)
        if not len(labelled):
            return None
        codes = np.eye(self.n_classes)[known.labels[labelled]]
        rows = self.features.rows([known.texts[int(row)] for row in labelled])
        return Totals(rows.T @ codes, codes.sum(axis=0))
