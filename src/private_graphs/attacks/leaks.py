"""Attacks on trained models, from end to end: what each measured, beside the guarantee.

An attack on models that a method trains on a real dataset is evidence of what leaks in practice. It
is never an upper bound, and no audit: it may fail where another attacker succeeds (docs/leaks.md).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from private_graphs.core.errors import UserError
from private_graphs.core.models import fields_of
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.mechanisms.door import UNSEEN
from private_graphs.methods import method_named
from private_graphs.privacy.accountants import compose_groups, price
from private_graphs.privacy.audits import most_of_gaussian, one_run_epsilon
from private_graphs.privacy.events import Event
from private_graphs.privacy.rounding import at_least, at_most
from private_graphs.running.jobs import Job
from private_graphs.running.masks import masked
from private_graphs.running.result import scores
from private_graphs.running.run import answer
from private_graphs.tasks.method import Context, Progress
from private_graphs.tasks.tasks import SCENARIOS

CONFIDENCE = 0.95
"""Confidence of every interval and bound."""
BREAKS = 1 - 0.001 / 1000
"""Confidence at which a bound contradicts a proof: 99.9 % jointly for a thousand tests."""
TINY_DELTA = 1e-12
"""δ for guesses about many canaries: at a usual δ these show nothing (docs/leaks.md)."""
FALSE_POSITIVES = {"01": 0.01, "001": 0.001}
"""False positive rates at which attacks are compared, by name."""


@dataclass(frozen=True)
class Measurement:
    """One number that an attack measured."""

    sees: str
    """What the attacker sees (``attacks.views`` for membership); empty where it does not matter."""
    score: str
    """How the attacker ranks its guesses: ``online``, ``offline``, ``plain``, ``decoding``, …"""
    measure: str
    """``auc``; ``tpr_01`` and ``tpr_001``: true positive rates at 1 % and .1 % false positives;
    ``tnr_01``: the same of non-members; ``epsilon_shown``; ``accuracy``; ``majority``; …"""
    value: float
    low: float | None = None
    """Interval of ``CONFIDENCE``; None for a number that has none."""
    high: float | None = None
    who: str = "all"
    """Whom the number is about: all, or a part such as ``degree 1``."""


@dataclass(frozen=True)
class Guesses:
    """Guesses of a design that was fixed before the targets were made."""

    canaries: int
    guesses: int
    right: int

    def epsilon(self, delta: float, confidence: float = CONFIDENCE) -> float:
        """Return the ε that they refute, whatever the mechanism (docs/privacy.md §10)."""
        return one_run_epsilon(self.canaries, self.guesses, self.right, delta, confidence)


@dataclass(frozen=True)
class Guarantee:
    """What is claimed and proved of the attacked runs."""

    unit: str
    relation: str
    delta: float
    events: tuple[Event, ...]
    epsilon_claimed: float | None
    """ε that the paper prints, or that was asked of a proved method; None without DP."""
    noise_multiplier: float | None
    accuracy: float
    """Of the model that is trained on all training nodes, on the test nodes."""

    @classmethod
    def of(cls, job: Job, dataset: GraphDataset, context: Context) -> Guarantee:
        """Run the job once on the dataset itself."""
        task, (one, *_) = answer(job, dataset, UNSEEN, context=context)
        scenario, outcome = SCENARIOS[job.scenario], one.outcome
        epsilon = job.epsilons[0] if one.request.private else None
        truth = dataset.labels[dataset.test_mask]
        if method_named(job.method).protocols[job.protocol].unlabelled == "class_zero":
            truth = np.maximum(truth, 0)
        truth = truth[truth >= 0]
        return cls(
            unit=scenario.unit,
            relation=scenario.relation,
            delta=job.delta,
            events=one.events if epsilon else (),
            epsilon_claimed=outcome.claim.epsilon if outcome.claim else epsilon,
            noise_multiplier=outcome.measured.get("noise_multiplier"),
            accuracy=float(scores(truth, outcome.test_predictions)["accuracy"]),
        )

    def at(self, delta: float) -> float | None:
        """Return the proved ε at another δ; None where nothing is proved."""
        priced = [price(event, self.unit, self.relation, delta) for event in self.events]
        return compose_groups([(priced, 1)], delta)

    def held_against(self, guesses: Guesses, delta: float) -> float | None:
        """Return the proved ε at another δ, which guesses do not contradict; None: nothing proved.

        Raises:
            UserError: they do.
        """
        proved, least = self.at(delta), guesses.epsilon(delta, BREAKS)
        if proved is not None and least > proved:
            raise UserError(
                f"an attack shows epsilon >= {at_least(least)} at delta = {delta:g} where "
                f"{at_most(proved)} is proved: the code breaks its proof; mend it before "
                "publishing any result"
            )
        return proved

    def allowed(self, false_positives: Mapping[str, float] = FALSE_POSITIVES) -> dict[str, float]:
        """Return the largest AUC and true positive rates (by name of the false positive rate) that
        the proof leaves to any attack; empty where nothing is proved.

        Exact for Gaussian mechanisms; of others what (ε, δ) allows.
        """
        if self.epsilon_proved is None:
            return {}
        mus = [price(event, self.unit, self.relation, self.delta).mu for event in self.events]
        if None not in mus:
            return most_of_gaussian(math.sqrt(sum(mu**2 for mu in mus)), false_positives)
        growth = math.exp(min(self.epsilon_proved, 700))
        return {"auc": min(1.0, growth / (1 + growth) + self.delta)} | {
            f"tpr_{name}": min(1.0, growth * rate + self.delta)
            for name, rate in false_positives.items()
        }

    @cached_property
    def epsilon_proved(self) -> float | None:
        """Proved ε at the job's δ."""
        return self.at(self.delta)

    def document(self) -> dict[str, Any]:
        """Return the fields that rows show."""
        return fields_of(
            self, "unit", "relation", "epsilon_claimed", "epsilon_proved", "noise_multiplier",
            "accuracy",
        )  # fmt: skip


Attacker = Callable[[Job, GraphDataset, Guarantee, Context], Iterable[Measurement]]
"""``attack(job, dataset, guarantee, context)`` of a module of this package."""


def attacker(name: str) -> Attacker:
    """Return the attack that ``LeakAttack.attack`` names."""
    from private_graphs.attacks import links, membership, words

    return {"membership": membership, "links": links, "words": words}[name].attack


def run_job(
    job: Job, dataset: GraphDataset, *, threads: int = 1, progress: Progress | None = None
) -> dict[str, Any]:
    """Carry out a planned attack: return its numbers and the guarantee as JSON-able fields."""
    started, context = time.perf_counter(), Context(progress=progress, threads=threads)
    # the masks of one seed for all models, which would each draw their own
    dataset = masked(job, dataset, job.seeds[0])
    job = job.model_copy(update={"test_share": None, "validation_share": 0.0, "mask_seed": None})
    guarantee = Guarantee.of(job, dataset, Context(threads=threads))
    measured = attacker(job.leaks.attack)(job, dataset, guarantee, context)
    return {
        "guarantee": guarantee.document(),
        "measured": [asdict(measurement) for measurement in measured],
        "seconds": round(time.perf_counter() - started, 1),
    }
