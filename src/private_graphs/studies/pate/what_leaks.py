"""What leaks in practice: attacks on what the teachers' labels teach, beside every ε."""

from __future__ import annotations

from private_graphs.report import leaks
from private_graphs.running.exhibit import Exhibit

EXHIBIT = Exhibit(
    "what_leaks",
    "What leaks in practice",
    groups=("leaks_labels",),
    build=leaks.blocks,
    numbers=leaks.numbers,
    meaning="An attacker guesses which private pictures the teachers learned from, by the answers "
    "of a classifier trained on the released labels. These are examples of attacks; stronger ones "
    "may exist.",
)
