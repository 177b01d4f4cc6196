"""What leaks in practice: attacks on trained models beside every ε."""

from __future__ import annotations

from private_graphs.report.exhibit import Exhibit
from private_graphs.report.leaks import blocks, numbers

EXHIBIT = Exhibit(
    "what_leaks",
    "What leaks in practice",
    groups=(
        "leaks_without_dp", "leaks_unlabelled", "leaks_pubmed", "leaks_refuted", "leaks_private",
        "leaks_sgd", "leaks_proved", "leaks_links", "leaks_edges", "leaks_noisy_graph",
        "leaks_words",
    ),
    build=blocks,
    numbers=numbers,
    meaning="How well an attacker guesses who was a training node, which edges there are, and who "
    "used a rare word, beside the printed and the proved ε. Evidence: no bound, and no audit.",
)  # fmt: skip
