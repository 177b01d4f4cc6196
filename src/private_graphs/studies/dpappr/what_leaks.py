"""What leaks in practice: attacks on trained models beside every ε."""

from __future__ import annotations

from private_graphs.report.exhibit import Exhibit
from private_graphs.report.leaks import blocks

EXHIBIT = Exhibit(
    "what_leaks",
    "What leaks in practice",
    groups=("leaks_printed", "leaks_proved"),
    build=blocks,
    meaning="How well an attacker guesses who was a training node, beside the printed and the "
    "proved ε. Few of the nodes are drawn into the sample that a model learns from: most were "
    "never seen. It is evidence: no bound, and no audit.",
)
