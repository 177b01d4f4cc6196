"""What leaks in practice: attacks on what the teachers' labels teach, beside every ε."""

from __future__ import annotations

from private_graphs.report.exhibit import Exhibit
from private_graphs.report.leaks import blocks

EXHIBIT = Exhibit(
    "what_leaks",
    "What leaks in practice",
    groups=("leaks_votes", "leaks_labels"),
    build=blocks,
    meaning="How well an attacker guesses which private pictures the teachers learned from, by "
    "what a classifier of the released labels answers; without DP by the teachers’ votes. It is "
    "evidence: no bound, and no audit.",
)
