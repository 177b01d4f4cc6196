"""The three protocols: immutable descriptions of how a result was obtained.

A study's methods extend ``Protocol`` with further fields and have their own values
(``Method.protocols``). Behaviour depends on these fields, not on the protocol's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

from private_graphs.datasets.views import VIEWS, DataView


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Choices behind a result; section numbers refer to ``docs/privacy.md``."""

    name: Literal["released", "paper", "sound"]
    summary: str
    """One-line summary for readers of a table."""

    calibration: Literal["published", "proved"] = "proved"
    """Noise from the paper's formula, or from the proof: with the latter the requested ε holds."""

    inference: Literal["leaks", "inductive_disjoint"] | None = None
    """What published predictions reveal beyond the parameters (§5); None: as the scenario."""

    unlabelled: Literal["class_zero", "ignored"] = "ignored"
    """Treatment of records without a label: counted as class 0, or left out of loss and scores."""

    random_baseline: Literal["without_last_class", "all_classes"] = "all_classes"
    """Classes from which the uniform random baseline draws (§4.5)."""

    stops_on_test: int | None = None
    """Epochs without a lower loss on test images after which training stops (§4.9); None: training
    runs all its epochs, and no method can read a label of a test record."""

    prepares: str = ""
    """Preprocessing of features beyond the method's, as a sentence for the privacy statement."""

    @property
    def data(self) -> DataView:
        """View of raw files that leave a choice: profiles, texts, a fixed sample (§4.6)."""
        return VIEWS[self.name]

    @property
    def title(self) -> str:
        """Name on pages; files and commands have ``name``."""
        return _TITLES[self.name]


_TITLES = {
    "released": "authors’ code", "paper": "as described", "sound": "corrected",
}  # fmt: skip

_Own = TypeVar("_Own", bound=Protocol)


def by_name(*protocols: _Own) -> dict[str, _Own]:
    """Return the protocols of a method by name."""
    return {protocol.name: protocol for protocol in protocols}


RELEASED = Protocol(
    name="released",
    summary="what the authors' published code does, defects included",
    calibration="published",
    inference="leaks",
)
PAPER = Protocol(
    name="paper",
    summary="what the paper's text says, with the paper's accounting",
    calibration="published",
    inference="leaks",
)
SOUND = Protocol(name="sound", summary="what can be proved")

PROTOCOLS = by_name(RELEASED, PAPER, SOUND)
"""Protocols by name, in the order of tables; a study's own methods define theirs in their files."""
