"""What a method is: the one interface of every trainer, baseline and proved method.

A module of ``methods`` ends with ``METHODS``, a tuple of these; no list elsewhere names them
(``methods.all_methods`` imports every module of the package). Heavy imports stay inside ``run``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from private_graphs.privacy.events import Event
from private_graphs.protocols import SOUND, Protocol

if TYPE_CHECKING:
    from private_graphs.mechanisms.door import Door
    from private_graphs.training.streams import Streams

VALIDATION_LABELS = "validation labels"
"""Name of the part of the units that choices of settings read (``Door.part``)."""
Progress = Callable[[int, int], None]
"""Called with (work done, all work)."""


class Settings(BaseModel):
    """Settings of a method; its own are a subclass with typed, documented fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class Request:
    """One run (a *replica*): a budget, the settings, and its own random streams."""

    epsilon: float
    """Infinity: without DP. 0 where the method reads nothing private."""
    seed: int
    known: np.ndarray
    """(k,) validation records whose labels are public, indices into the validation side, sorted."""
    streams: Streams
    settings: Any = None
    """Of ``Method.settings``."""

    @property
    def private(self) -> bool:
        """Whether noise is added."""
        return math.isfinite(self.epsilon) and self.epsilon > 0


@dataclass(frozen=True)
class Context:
    """What a run has beside its task."""

    progress: Progress | None = None
    device: str = "cpu"
    threads: int = 1
    artifacts: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    """Of the jobs that this one ``needs``, by their names in the study file."""
    clock: Callable[[], float] = time.perf_counter
    """Seconds; a replay has one that counts how often it is read."""

    def report(self, done: int, total: int) -> None:
        """Pass progress on, if anybody looks."""
        if self.progress is not None:
            self.progress(done, total)

    def after(self, done: int, total: int) -> Context:
        """Return the context of a part of the work: that after ``done``, of ``total``."""
        progress = self.progress and (lambda more, _: self.report(done + more, total))
        return replace(self, progress=progress)


ALONE = Context()
"""Of a run that nobody looks at, on one thread of the CPU."""


@dataclass(frozen=True)
class Claim:
    """What a paper prints for the noise of a run, where a protocol repeats it."""

    epsilon: float
    formula: str
    authors_epsilon: float | None = None
    """What the authors' own accountant prints, where it differs."""


@dataclass(frozen=True)
class Outcome:
    """The answer to one request. The runner scores: a task has no test labels, but where its
    protocol stops on them. A run leaves out what ``Method.stated`` says: ``Method.answers`` adds
    it."""

    test_predictions: np.ndarray
    """(M,) classes."""
    validation_predictions: np.ndarray
    """(V,) classes of the validation records by the same model."""
    events: tuple[Event, ...] | None = None
    """What ``Method.stated`` says was released; the runner holds it against what passed the door,
    which is what counts. None: the method cannot say it apart from a run."""
    validation_events: tuple[Event, ...] = ()
    """The same of validation labels that are private. No training record is among them."""
    claim: Claim | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the method chose itself: JSON-able values, added to those of the request."""
    n_configurations: int = 1
    """How many of them the method compared."""
    chosen_by: str = "nothing: the settings are fixed in advance"
    """On what they were compared, in words."""
    measured: Mapping[str, Any] = field(default_factory=dict)
    """Further columns of the row: epochs, validation loss, reconstruction distance."""
    evaluated: Mapping[str, Any] = field(default_factory=dict)
    """Further columns that read private data to describe a benchmark. Nothing prices them: the
    runner keeps those of seeded runs on built-in data alone."""
    artifacts: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Kept beside the rows: pictures, embeddings, parameters."""
    curves: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Learning curves by name (``report.curves``): a value after every epoch. Nothing prices them:
    the runner keeps those of seeded runs on built-in data alone."""
    public_facts: tuple[str, ...] = ()
    """What this method takes to be public beyond its scenario."""
    assumptions: tuple[str, ...] = ()
    noise_generator: str = "numpy"
    """Key of ``privacy.assumptions.NOISE_GENERATORS``."""
    n_units: int | None = None
    """Private units, where the settings say how many there are; None: those of the task."""
    majority: int | None = None
    """Most frequent class of the private labels that the run saw (baseline of seeded runs)."""
    calibrated_for: float | Literal["asked"] | None = "asked"
    """ε that the noise was calibrated for, where it is not the one asked for; None: noise was
    given."""
    chosen_on_public: bool = True
    """Whether what settings were compared on is public, a graph without private nodes included."""

    @classmethod
    def of(cls, task: Any, classes: np.ndarray, **more: Any) -> Outcome:
        """Make one of the (V + M,) classes of validation, then test records."""
        n_validation = len(task.validation_labels)
        return cls(classes[n_validation:], classes[:n_validation], **more)


def in_batches(
    requests: Sequence[Request],
    door: Door,
    context: Context,
    key: Callable[[Request], Hashable],
    answer: Callable[[list[Request], Door, Context], list[Outcome]],
    work: Callable[[Request], int] = lambda request: 1,
) -> list[Outcome]:
    """Answer every request, in order; those with an equal ``key`` together.

    ``answer`` gets the door of their lanes, and reports progress in the units of ``work``.
    """
    batches: dict[Hashable, list[int]] = {}
    for index, request in enumerate(requests):
        batches.setdefault(key(request), []).append(index)
    found: dict[int, Outcome] = {}
    done, total = 0, sum(map(work, requests))
    for indices in batches.values():
        batch = [requests[index] for index in indices]
        outcomes = answer(batch, door.of_lanes(indices), context.after(done, total))
        found |= zip(indices, outcomes, strict=True)
        done += sum(map(work, batch))
        context.report(done, total)
    return [found[index] for index in range(len(requests))]


def but_rate(request: Request) -> Hashable:
    """Key of requests that differ in ε, seed and learning rate alone."""
    return request.private, request.settings.model_copy(update={"learning_rate": 1.0})


def _nothing_stated(
    task: Any, request: Request, context: Context, chosen: Mapping[str, Any]
) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Canary:
    """Sizes of the tiny task on which an audit sees most of a method."""

    words: int
    """Public axes at most; the canary's is the first."""
    units: int
    """Public number of private nodes, of which all but a few have no label."""


@dataclass(frozen=True)
class Method:
    """One method: what it is called, where it can run, and the function that runs it."""

    name: str
    """As in a study file and in rows."""
    title: str
    """As in tables and legends."""
    run: Callable[..., list[Outcome]]
    """``run(task, requests, door, context)``: all replicas of a job together, answered in order;
    what is private leaves through the door alone. Others call ``answers``."""
    scenarios: tuple[str, ...]
    """What may be private and public (``tasks.SCENARIOS``); the first is the default."""
    settings: type[Settings] = Settings
    protocols: Mapping[str, Protocol] = field(default_factory=lambda: {"sound": SOUND})
    """Protocols by name, with the fields that this method reads."""
    data: Literal["graph", "images"] = "graph"
    reads_private: bool = True
    """False for rows that need no private data: their ε is 0."""
    fits_validation_labels: bool = False
    """Whether parameters are fitted on public validation labels, not only settings chosen."""
    one_run: bool = True
    """Whether the method trains its released configuration alone, so that a run costs itself only;
    False where the runner compares trained configurations (``Job.choose``)."""
    named: tuple[str, ...] = ()
    """Settings that the names of jobs always tell."""
    noise_is_given: bool = False
    """Whether settings give the noise: then the ε of a request is a printed one, and its statement
    says what is proved."""
    prepares: str = ""
    """What it does to features, in words, for the privacy statement."""
    assumptions: tuple[str, ...] = ()
    """Of every private run."""
    canary: Canary | Literal["training"] | None = None
    """The task of its audit; ``training``: the attack is on the training code of the GCN
    (``attacks.canary``); None: there is no audit."""
    identity: Callable[..., dict[str, Any]] | None = None
    """``identity(fields, job, request)``: what the draws of a request depend on, made of the job's
    own ``fields`` (``run.identity``), where draws of earlier versions are to stay."""
    completed: Callable[[dict[str, Any]], tuple[dict[str, Any], dict[str, Any]]] | None = None
    """``completed(settings)``: the settings of a single job as the method's source has them where
    ``settings`` leave them open, and what its private runs choose among (``Job.choose``); None: the
    defaults, and no choice."""
    epsilon_of: Callable[..., float] | None = None
    """``epsilon_of(settings, protocol, delta)``: what the protocol attaches to the noise that is
    given in ``settings``; None where somebody has to say for what ε a run stands."""
    query: type | None = None
    """What its run asks of the private part, where that is ``ROUNDS`` exact sums over records,
    which may then lie in shards (``sharded``)."""
    names_majority: bool = False
    """Whether its outcomes name the most frequent class of the private labels."""
    stated: Callable[..., dict[str, Any]] = _nothing_stated
    """``stated(task, request, context, chosen)``: those fields of the outcome that its statement
    follows from, ``n_configurations`` only where the settings say it. They are made of the sizes of
    the task and other public numbers, and of ``chosen``, the settings that the run has in the end
    (``Outcome.settings`` among them) with its ``noise_multiplier``, which is calibrated where it is
    not there: so a statement can be made anew from the row of a run, with the noise that it had,
    without its data. Its ``events`` are the plan of the run's door."""

    def answers(
        self, task: Any, requests: Sequence[Request], door: Door, context: Context
    ) -> list[Outcome]:
        """Run, and add what is ``stated`` of each run to its outcome."""
        outcomes = self.run(task, requests, door, context)
        return [
            self._with_stated(task, *each, context) for each in zip(requests, outcomes, strict=True)
        ]

    def _with_stated(
        self, task: Any, request: Request, outcome: Outcome, context: Context
    ) -> Outcome:
        noise = outcome.measured.get("noise_multiplier")
        told = self.stated(task, request, context, {**outcome.settings, "noise_multiplier": noise})
        artifacts = {**told.get("artifacts", {}), **outcome.artifacts}
        return replace(outcome, **told | {"artifacts": artifacts})
