"""What leaks in practice: attacks on members and on friendships beside every ε."""

from __future__ import annotations

from private_graphs.report.exhibit import Exhibit
from private_graphs.report.leaks import blocks

EXHIBIT = Exhibit(
    "what_leaks",
    "What leaks in practice",
    groups=("leaks_lists", "leaks_lists_without_dp", "leaks_friendships"),
    build=blocks,
    meaning="How well an attacker guesses who was a training node, and somebody who knows all "
    "other friendships one of them, beside the printed and the proved ε. It is evidence: no bound, "
    "and no audit.",
)
