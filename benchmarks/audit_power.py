"""From which factor of noise on the end-to-end audits notice that there is too little of it.

``python benchmarks/audit_power.py`` measures it for 2, 3 and 7 classes at ε = 2 and 8, and writes
the table of docs/audits.md; some minutes. The noise shrinks, the events go on to claim all of it.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np

from private_graphs.attacks.audit import run_method_audit
from private_graphs.attacks.method_canary import MethodDesign
from private_graphs.methods import node_gradients
from private_graphs.training import exact

PAGE = Path(__file__).resolve().parents[1] / "docs" / "audits.md"
BEGIN, END = "<!-- begin: power -->", "<!-- end: power -->"
METHODS = (
    ("class_sums", "text"),
    ("dp_linear", "text"),
    ("dp_mlp", "text"),
    ("edge_votes", "edges"),
)
CLASSES, EPSILONS = (2, 3, 7), (2.0, 8.0)
FACTORS = (0.85, 0.75, 0.65, 0.577, 0.5, 0.4, 0.3, 0.2, 0.1)
RUNS = {"edge_votes": 300}


class _Less:
    """A generator whose normals are ``factor`` times as large."""

    def __init__(self, generator: np.random.Generator, factor: float) -> None:
        self.generator, self.factor = generator, factor

    def standard_normal(self, n: int) -> np.ndarray:
        return self.factor * self.generator.standard_normal(n)


@contextmanager
def less_noise(factor: float):
    """Multiply the noise of the lattice and of gradient steps by ``factor``."""
    draw, descend = exact.discrete_gaussian, node_gradients.descend

    def fewer(generator, steps, shape):
        return draw(generator, max(1, round(factor * steps)), shape)

    def quiet(*given, **named):
        *front, generators = given
        return descend(*front, [_Less(each, factor) for each in generators], **named)

    with (
        mock.patch.object(exact, "discrete_gaussian", fewer),
        mock.patch("private_graphs.methods.text_gradients.descend", quiet),
    ):
        yield


def largest_noticed(method: str, scenario: str, epsilon: float, classes: int) -> str:
    """Return the largest of FACTORS at which the audit says that the proof is broken."""
    for factor in FACTORS:
        runs = RUNS.get(method, 1000)
        with less_noise(factor):
            design = MethodDesign(method, scenario, epsilon, runs=runs, classes=classes)
            if run_method_audit(design).breaks_proof:
                return f"{factor:g}"
    return "none"


def table() -> str:
    """Return the Markdown table; factors by method, ε and number of classes."""
    lines = [
        "| method | ε | " + " | ".join(f"{k} classes" for k in CLASSES) + " |",
        "| --- | --- |" + " --- |" * len(CLASSES),
    ]
    for method, scenario in METHODS:
        for epsilon in EPSILONS:
            cells = [largest_noticed(method, scenario, epsilon, k) for k in CLASSES]
            lines.append(f"| `{method}` | {epsilon:g} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return "\n".join(lines)


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(BEGIN)
    made = table()
    PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}")
