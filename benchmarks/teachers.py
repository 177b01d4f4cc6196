"""PATE's teachers as one batch beside a plain PyTorch loop that trains one after the other.

``python benchmarks/teachers.py`` trains the teachers of the study ``pate`` at its scales
``reduced`` (250 with one hidden layer of 64 units, 150 full-batch steps on 240 images of 28 x 28)
and ``demo`` (50 softmax regressions, 60 steps on 120 images of 12 x 12), and takes their votes;
pixels and labels are drawn. The loop has a module and a ``torch.optim.Adam`` for each teacher, and
is measured on some of them. Processor seconds on one thread, in turns, the fastest of two rounds.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from timing import machine, seconds_of

from private_graphs.training.image_nets import Ensemble, Kind, images_of, network

CLASSES, RATE, AIM_SECONDS, AIM_RATIO = 10, 1e-3, 60, 20


@dataclass(frozen=True)
class Case:
    """Teachers of a scale."""

    scale: str
    kind: Kind
    teachers: int
    records: int
    side: int
    steps: int
    asked: int

    def problem(self, teachers: int) -> tuple[np.ndarray, ...]:
        """Parts of ``teachers`` teachers, pixels, labels, and the images that are asked."""
        rng = np.random.default_rng(0)
        count, width = teachers * self.records, self.side**2
        labels = rng.integers(CLASSES, size=count)
        pixels = rng.integers(256, size=(count, width), dtype=np.uint8)
        parts = rng.permutation(count).reshape(teachers, self.records)
        return parts, pixels, labels, rng.integers(256, size=(self.asked, width), dtype=np.uint8)

    def batched(self, parts, pixels, labels, asked) -> np.ndarray:
        """Votes of all teachers."""
        shape = (1, self.side, self.side)
        ensemble = Ensemble(self.kind, shape, CLASSES, self.steps, self.records, RATE)
        return ensemble.votes(parts, pixels, labels, asked, np.random.default_rng(1))

    def loop(self, parts, pixels, labels, asked) -> np.ndarray:
        """The same, teacher by teacher."""
        votes, shape = np.zeros((len(asked), CLASSES), np.int64), (1, self.side, self.side)
        queries = images_of(asked, shape)
        for seed, part in enumerate(parts):
            net = network(self.kind, shape, CLASSES, seed)
            optimizer = torch.optim.Adam(net.parameters(), RATE)
            images, truth = images_of(pixels[part], shape), torch.from_numpy(labels[part])
            for _ in range(self.steps):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(net(images)[0], truth).backward()
                optimizer.step()
            with torch.no_grad():
                answers = net(queries)[0].argmax(-1)
            votes[np.arange(len(asked)), answers.numpy()] += 1
        return votes

    def products(self, teachers: int, repeats: int = 5) -> float:
        """Seconds of the products with images alone, of all steps of ``teachers`` teachers."""
        width = 64 if self.kind == "mlp" else CLASSES
        images = torch.rand(teachers, self.records, self.side**2)
        weights = torch.rand(teachers, width, self.side**2)
        errors = torch.rand(teachers, self.records, width)

        def steps() -> None:
            for _ in range(repeats):
                torch.bmm(images, weights.mT)
                torch.bmm(errors.mT, images)

        steps()
        return processor(steps) * self.steps / repeats


CASES = (
    Case("reduced", "mlp", 250, 240, 28, 150, 10_000),
    Case("demo", "softmax", 50, 120, 12, 60, 2_000),
)


def processor(run) -> float:
    """Processor seconds of one run."""
    return seconds_of(run, time.process_time)


def measured(case: Case, teachers: int, looped: int, rounds: int) -> list[str]:
    """Cells of a line of the table."""
    whole, part = case.problem(teachers), case.problem(looped)
    case.loop(*case.problem(1))  # warm
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(processor(partial(case.batched, *whole)))
        theirs.append(processor(partial(case.loop, *part)) * teachers / looped)
    fast, slow = min(ours), min(theirs)
    return [
        case.scale, f"{teachers} x {case.kind}", f"{fast:.1f} s", f"{slow:.1f} s",
        f"{slow / fast:.1f} x", f"{case.products(teachers):.1f} s",
    ]  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--teachers", type=int, help="in place of the study's numbers")
    parser.add_argument("--looped", type=int, default=25, help="teachers of the loop")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    words = machine()
    print("| scale | teachers | one batch | loop | ratio | products with images alone |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for case in CASES:
        teachers = options.teachers or case.teachers
        looped = min(options.looped, teachers)
        line = measured(case, teachers, looped, options.rounds)
        print(f"| {' | '.join(line)} |", flush=True)
    print(
        f"\nAim: 250 teachers in {AIM_SECONDS} s, and {AIM_RATIO} times a loop. The last column is "
        "what no batch saves: each step multiplies all images twice, so that a loop over it is the "
        f"largest ratio that one core allows.\n{words}."
    )


if __name__ == "__main__":
    main()
