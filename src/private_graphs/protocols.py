"""The three protocols: how a result was obtained, as immutable values.

A study's methods extend ``Protocol`` with the fields that they read, and carry their own values
(``Method.protocols``). Nothing asks for a protocol by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from private_graphs.datasets import views


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How a result was obtained. Section numbers refer to ``docs/privacy.md``."""

    name: Literal["released", "paper", "sound"]
    summary: str
    """One line for the reader of a table."""

    data: views.DataView
    """How raw files that leave a choice are read: profiles, texts, a fixed sample (§4.6)."""

    calibration: Literal["published", "proved"] = "proved"
    """Noise from the paper's formula, or from what is proved: then the ε asked for holds."""

    inference: Literal["leaks", "inductive_disjoint"] | None = None
    """What the published predictions reveal beyond the parameters (§5); None: as the scenario."""

    unlabelled: Literal["class_zero", "ignored"] = "ignored"
    """Records without a label: counted as class 0, or kept outside loss and scores."""

    random_baseline: Literal["without_last_class", "all_classes"] = "all_classes"
    """Classes that the uniform random baseline can draw (§4.5)."""

    stops_on_test: int | None = None
    """Epochs after which training stops unless its loss on test images falls (§4.9); None: it takes
    all its epochs, and no method can read a label of a test record."""

    prepares: str = ""
    """What it does to features beyond the method, in words, for the privacy statement."""


RELEASED = Protocol(
    name="released",
    summary="what the authors' published code does, defects included",
    data=views.RELEASED,
    calibration="published",
    inference="leaks",
)
PAPER = Protocol(
    name="paper",
    summary="what the paper's text says, with the paper's accounting",
    data=views.PAPER,
    calibration="published",
    inference="leaks",
)
SOUND = Protocol(name="sound", summary="what can be proved", data=views.SOUND)

PROTOCOLS: dict[str, Protocol] = {each.name: each for each in (RELEASED, PAPER, SOUND)}
"""By name, in the order of tables; what a study's own methods mean by them is in their files."""
