"""A perceptron in place of the linear classifier of ``classify --method dp_linear``.

    python benchmarks/unit_perceptron.py --write    # writes docs/benchmarks/unit_perceptron.md

The documents are those on which the constants of ``dp_linear`` were chosen (``unit_steps.py``). The
perceptron is that of ``dp_mlp``, with the same rows, clipping and number of noisy sums; of its
settings the best ones count, for each row by itself, which the linear classifier does not get.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np
from comparison import CHOOSING, EPSILONS
from unit_steps import DRAWS, ROOT, Trial, sets

from private_graphs.documents import unit_steps, unit_sums
from private_graphs.methods.exact_sums import CLIP_NORM
from private_graphs.methods.node_gradients import TwoLayers, clipped_total, predict
from private_graphs.privacy.calibration import gdp_noise

GRID = {"units": (16,), "steps": (32, 64), "rate": (4.0, 16.0)}
"""Hidden units, noisy sums, learning rate."""


def perceptron(trial: Trial, epsilon: float, public: bool) -> dict[tuple, float]:
    """Return settings -> share of right answers on held-out documents, mean over draws."""
    data = trial.data
    known = [data.texts[row] for row in data.choosing[: CHOOSING if public else 0]]
    features = unit_steps.LinearSteps.of(
        unit_sums.PublicTexts(known), len(data.trained), data.n_classes, epsilon, data.delta,
        "document",
    ).features  # fmt: skip
    trained, asked = (
        features.rows([data.texts[row] for row in rows]).toarray().astype(np.float32)
        for rows in (data.trained, data.tested)
    )
    labels, right = data.labels[data.trained], data.labels[data.tested]
    found = {}
    for units, steps, rate in itertools.product(*GRID.values()):
        network = TwoLayers(features.columns, data.n_classes, units)
        noise = gdp_noise(epsilon, steps, data.delta, "replace") * CLIP_NORM
        scores = []
        for draw in range(DRAWS):
            generator = np.random.default_rng(draw)
            iterate = network.start(generator)[None].astype(np.float32)
            average = np.zeros(iterate.shape)
            for step in range(steps):
                total = clipped_total(network, iterate, trained, labels, CLIP_NORM)
                total += generator.normal(0.0, noise, total.shape)
                iterate = (iterate - rate / len(labels) * total).astype(np.float32)
                if step >= steps // 2:
                    average += iterate / (steps - steps // 2)
            told = predict(network, average.astype(np.float32), asked)[0]
            scores.append(float((told == right).mean()))
        found[units, steps, rate] = float(np.mean(scores))
    return found


def page() -> str:
    """Return docs/benchmarks/unit_perceptron.md.

    Where nobody is public, rows have thousands of hashed columns: letters alone.
    """
    letters, papers = map(Trial, sets())
    won, lines = 0, ["| documents | public | ε | dp_linear | perceptron |",
                     "| --- | --- | ---: | ---: | ---: |"]  # fmt: skip
    cases = [(letters, False), (letters, True), (papers, True)]
    for (trial, public), epsilon in itertools.product(cases, EPSILONS):
        linear = float(np.mean(trial.scores(epsilon, public)))
        best = max(perceptron(trial, epsilon, public).values())
        won += best > linear
        told = f"{CHOOSING}" if public else "nobody"
        line = f"| {trial.data.name} | {told} | {epsilon:g} | {linear:.4f} | {best:.4f} |"
        print(line, file=sys.stderr, flush=True)
        lines.append(line)
    table = "\n".join(lines)
    tried = len(list(itertools.product(*GRID.values())))
    units, steps, rates = (" or ".join(f"{each:g}" for each in values) for values in GRID.values())
    return f"""# A perceptron for declared documents

Made by `python benchmarks/unit_perceptron.py --write`: shares of right answers on the held-out
documents of [unit_steps](unit_steps.md), mean over {DRAWS} draws of the noise. The perceptron is
that of [`dp_mlp`](../methods.md#dp-mlp), and each document is a unit. The best of its {tried}
settings on these documents counts, for each row by itself: a choice that nobody pays for
({units} hidden units; {steps} noisy sums; learning rate {rates}).

{table}

It is better in {won} of {len(cases) * len(EPSILONS)} rows, without paying for its settings.
`classify` has no `dp_mlp` for declared documents.
"""


if __name__ == "__main__":
    text = page()
    if "--write" in sys.argv:
        path = ROOT / "docs" / "benchmarks" / "unit_perceptron.md"
        path.write_text(text, encoding="utf-8")
    print(text)
