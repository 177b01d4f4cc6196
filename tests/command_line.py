"""What one call of the command line printed, and how a refusal looks."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """Exit code, standard output and standard error."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        """Standard output, read as JSON."""
        return json.loads(self.out)


def refused(outcome: Outcome, code: int, *words: str) -> None:
    """One message on standard error, nothing on standard output, no traceback."""
    assert (outcome.code, outcome.out) == (code, ""), outcome
    assert "Traceback" not in outcome.err
    for word in words:
        assert word in outcome.err, outcome.err
