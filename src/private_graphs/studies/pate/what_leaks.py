"""What leaks in practice: attacks on what the teachers' labels teach, beside every ε."""

from __future__ import annotations

from private_graphs.report.leaks import leak_exhibit

EXHIBIT = leak_exhibit(
    "what_leaks",
    ("leaks_labels",),
    "An attacker guesses which private pictures the teachers learned from, by the answers of a "
    "classifier trained on the released labels.",
)
