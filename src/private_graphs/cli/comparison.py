"""Comparison of a run with the method of its scenario that reads nothing private."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from private_graphs.core.errors import counted

if TYPE_CHECKING:
    import numpy as np

    from private_graphs.running.result import JobResult

PUBLIC_METHODS = {"text": "public_only", "graph": "public_only", "edges": "text_only"}
"""The first method of a scenario that reads nothing private, which a run is compared with."""
_VERDICTS = {
    "gain": "Private data were worth it",
    "none": "No clear gain: use public data alone, which cost nobody anything",
    "loss": "Private data were not worth it: use public data alone, which cost nobody anything",
}
_CLEAR = 0.01
"""Significance level of the comparison."""


@dataclass(frozen=True)
class Compared:
    """Comparison of one run with one of the public-data method, on the same test nodes."""

    won: int
    """Labelled test nodes that only the run classifies correctly."""
    lost: int
    """Labelled test nodes that only public data classify correctly."""
    n_nodes: int
    """Number of labelled test nodes."""
    method: str = "public_only"
    """The method on public data alone."""
    score: float = math.nan
    """Test micro-F1 of that method."""
    several: bool = False
    """Whether there are further runs, which the comparison leaves out."""

    @classmethod
    def of(cls, result: JobResult, public: JobResult, labels: np.ndarray) -> Compared:
        """Compare the first runs of two results; ``labels`` (N,) are the labels of all nodes."""
        truth = labels[result.test_records]
        hits = [(one.test_predictions[0] == truth)[truth >= 0] for one in (result, public)]
        won, lost = (int((one & ~other).sum()) for one, other in (hits, hits[::-1]))
        row = public.rows.iloc[0]
        return cls(won, lost, len(hits[0]), row["method"], float(row["test_micro_f1"]),
                   len(public.rows) > 1)  # fmt: skip

    @property
    def gain(self) -> float:
        """Difference in test micro-F1."""
        return (self.won - self.lost) / self.n_nodes

    @property
    def error(self) -> float | None:
        """Standard error of the gain, if the test nodes are a sample.

        None where it cannot be estimated: one node, or the same difference at every node, where the
        sample variance is 0.
        """
        differ = self.won + self.lost
        variance = differ / self.n_nodes - self.gain**2
        if {self.won, self.lost, self.n_nodes - differ} & {self.n_nodes}:
            return None
        return math.sqrt(variance / self.n_nodes)

    @property
    def verdict(self) -> str:
        """``gain``, ``loss`` or ``none``, by the exact test of McNemar (1947) at 1 %.

        If both are equally good, each node that exactly one of them classifies correctly is a fair
        coin. The test is also valid for few nodes, and if all of them differ in the same direction.
        """
        from scipy.stats import binomtest

        differ = self.won + self.lost
        if not differ or binomtest(self.won, differ).pvalue > _CLEAR:
            return "none"
        return "gain" if self.gain > 0 else "loss"

    @property
    def sentence(self) -> str:
        """Verdict in words, with its numbers."""
        tested = counted(self.n_nodes, "test node")
        if self.error is None:
            why = (
                "too few" if self.n_nodes == 1
                else "one is right, the other wrong on all" if self.won + self.lost
                else "both are right on the same"
            )  # fmt: skip
            error = f"standard error unknown, {tested}: {why}"
        else:
            error = f"standard error {100 * self.error:.1f}, {tested}"
        first = "the first run: " if self.several else ""
        points = f"{first}{100 * self.gain:+.1f} points over {self.score:.3f} of {self.method}"
        return f"{_VERDICTS[self.verdict]} ({points}, {error})."

    def numbers(self) -> dict[str, float | str | None]:
        """Return what ``--json`` prints."""
        return {"method": self.method, "test_micro_f1": self.score, "gain": self.gain,
                "standard_error": self.error, "verdict": self.verdict}  # fmt: skip
