"""What leaks in practice: attacks on friendships beside every ε."""

from __future__ import annotations

from private_graphs.report.exhibit import Exhibit
from private_graphs.report.leaks import blocks, numbers

EXHIBIT = Exhibit(
    "what_leaks",
    "What leaks in practice",
    groups=("leaks_friendships",),
    build=blocks,
    numbers=numbers,
    meaning="How well somebody who knows all other friendships guesses one, beside the printed and "
    "the proved ε. It is evidence: no bound, and no audit.",
)
