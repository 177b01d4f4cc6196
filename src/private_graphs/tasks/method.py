"""The interface of every method: trainer, baseline and proved method.

A module of ``methods`` ends with ``METHODS``, a tuple of ``Method`` values; no other list names
them (``methods.all_methods`` imports every module of the package). Heavy imports stay in ``run``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, field_validator

from private_graphs.core.limits import MOST_COUNT
from private_graphs.datasets.protocols import SOUND, Protocol
from private_graphs.privacy.events import Event

if TYPE_CHECKING:
    from private_graphs.datasets.spec import GraphSize
    from private_graphs.mechanisms.door import Door

CONSTANTS = (
    "the constants of the method were set by its authors with experiments on Cora, CiteSeer and "
    "PubMed; on these graphs that choice is not priced"
)
"""Assumption of methods whose constants were set on benchmark graphs."""
Progress = Callable[[int, int], None]
"""Called with (work done, all work)."""


class Settings(BaseModel):
    """Settings of a method; subclasses add typed, documented fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _bounded(cls, value: Any) -> Any:
        """Refuse counts that no machine can hold or do."""
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int) and number > MOST_COUNT:
                raise ValueError(f"should be at most {MOST_COUNT:,}")
        return value


@dataclass(frozen=True)
class Request:
    """One run (a *replica*): a budget, settings, and its own random streams."""

    epsilon: float
    """Infinity: without DP. 0 if the method reads no private data."""
    seed: int
    known: np.ndarray
    """(k,) validation records whose labels are public, indices into the validation side, sorted."""
    streams: Any
    """``Streams`` in the runner, ``PublicStreams`` in a method; None where nothing is drawn."""
    settings: Any = None
    """Instance of ``Method.settings``."""
    parts: np.ndarray | None = None
    """(T,) part of each training node, where it was drawn or given before the run
    (``core.splits``); None: the method draws it from the same stream."""

    @property
    def private(self) -> bool:
        """Whether noise is added."""
        return math.isfinite(self.epsilon) and self.epsilon > 0


@dataclass(frozen=True)
class Context:
    """Inputs of a run in addition to its task."""

    progress: Progress | None = None
    device: str = "cpu"
    threads: int = 1
    artifacts: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    """Artifacts of the jobs that this one ``needs``, by their names in the study file."""
    clock: Callable[[], float] = time.perf_counter
    """Time in seconds; a replay's clock counts its reads."""
    asked: Any = None
    """Records whose logits an attack asks for (``Outcome.logits``): ``graph_task.Records``, under
    ``lists`` the numbers of nodes, pixels of images."""

    def report(self, done: int, total: int) -> None:
        """Pass progress on, if there is a callback."""
        if self.progress is not None:
            self.progress(done, total)

    def in_turn(self, requests: Sequence[Request]) -> Iterator[Request]:
        """Yield the requests, and pass on after each that it was answered."""
        for done, request in enumerate(requests, 1):
            yield request
            self.report(done, len(requests))

    def after(self, done: int, total: int) -> Context:
        """Return the context of a part of the work: ``done`` of ``total`` came before it."""
        progress = self.progress and (lambda count, _: self.report(done + count, total))
        return replace(self, progress=progress)


ALONE = Context()
"""Default context: CPU, one thread, no progress callback."""


@dataclass(frozen=True)
class PrintedEpsilon:
    """The ε that a paper prints for the noise of a run, if a protocol reproduces it."""

    epsilon: float
    formula: str
    authors_epsilon: float | None = None
    """The ε of the authors' own accountant, if it differs."""


@dataclass(frozen=True)
class Outcome:
    """Answer to one request. The runner computes scores: a task has no test labels, unless its
    protocol stops on them. A run leaves out the fields of ``Method.stated``; ``Method.answers``
    adds them."""

    test_predictions: np.ndarray
    """(M,) classes."""
    validation_predictions: np.ndarray
    """(V,) predicted classes of the validation records by the same model."""
    events: tuple[Event, ...] | None = None
    """Releases according to ``Method.stated``; the runner compares them with the door's count,
    which is authoritative. None: the method cannot state them without a run."""
    claim: PrintedEpsilon | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the method chose itself: JSON-able values, added to the request's."""
    n_configurations: int = 1
    """Number of configurations that the method compared."""
    chosen_by: str = "nothing: the settings are fixed in advance"
    """Criterion of the comparison, in words."""
    measured: Mapping[str, Any] = field(default_factory=dict)
    """Further columns of the row: epochs, validation loss, reconstruction distance."""
    evaluated: Mapping[str, Any] = field(default_factory=dict)
    """Further columns that read private data to describe a benchmark. They are not covered by ε:
    the runner keeps them only for seeded runs on built-in data."""
    artifacts: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Arrays stored with the rows: pictures, embeddings, parameters."""
    curves: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Learning curves by name (``report.curves``): a value after every epoch. They are not
    covered by ε: the runner keeps them only for seeded runs on built-in data."""
    logits: np.ndarray | None = None
    """(A, K) class scores of the records that an attack ``asked`` for; they are never saved."""
    public_facts: tuple[str, ...] = ()
    """Facts that this method assumes public beyond its scenario."""
    assumptions: tuple[str, ...] = ()
    noise_generator: str = "numpy"
    """Key of ``privacy.assumptions.NOISE_GENERATORS``."""
    n_units: int | None = None
    """Number of private units, if the settings determine it; None: the task's."""
    majority: int | None = None
    """Most frequent class of the private labels that the run read (baseline of seeded runs)."""
    calibrated_for: float | Literal["asked"] | None = "asked"
    """ε for which the noise was calibrated, if not the requested one; None: noise was given."""
    chosen_on_public: bool = True
    """Whether settings were compared on public data, including a graph without private nodes."""

    @classmethod
    def of(cls, task: Any, classes: np.ndarray, **fields: Any) -> Outcome:
        """Build an outcome from (V + M,) classes of the validation, then test records."""
        n_validation = len(task.validation_labels)
        return cls(classes[n_validation:], classes[:n_validation], **fields)


def in_batches(
    requests: Sequence[Request],
    door: Door,
    context: Context,
    key: Callable[[Request], Hashable],
    answer: Callable[[list[Request], Door, Context], list[Outcome]],
    work: Callable[[Request], int] = lambda request: 1,
    most: int | None = None,
) -> list[Outcome]:
    """Answer every request, in order; requests with an equal ``key`` are answered together.

    ``answer`` gets the door of their replicas, and reports progress in units of ``work``. It gets
    at most ``most`` requests at once.
    """
    batches: dict[Hashable, list[int]] = {}
    for index, request in enumerate(requests):
        batches.setdefault(key(request), []).append(index)
    answers: dict[int, Outcome] = {}
    done, total = 0, sum(map(work, requests))
    slices = [
        group[start : start + (most or len(group))]
        for group in batches.values()
        for start in range(0, len(group), most or len(group))
    ]
    for indices in slices:
        batch = [requests[index] for index in indices]
        outcomes = answer(batch, door.of_lanes(indices), context.after(done, total))
        answers |= zip(indices, outcomes, strict=True)
        done += sum(map(work, batch))
        context.report(done, total)
    return [answers[index] for index in range(len(requests))]


def but_rate(request: Request) -> Hashable:
    """Key of requests that differ only in ε, seed and learning rate."""
    return request.private, request.settings.model_copy(update={"learning_rate": 1.0})


def _nothing_stated(
    task: Any, request: Request, context: Context, chosen: Mapping[str, Any]
) -> dict[str, Any]:
    return {}


def no_arrays(settings: Settings, size: GraphSize, runs: int) -> int:
    """Memory of a method that works on few runs at a time."""
    return 0


def torch_memory(settings: Settings, size: GraphSize, runs: int) -> int:
    """Memory of PyTorch's libraries."""
    return 140 * 2**20


def picture_memory(settings: Settings, size: GraphSize, runs: int) -> int:
    """Memory of PyTorch's libraries, and of features or gradients by pixel."""
    return torch_memory(settings, size, runs) + 12 * size.nonzeros


@dataclass(frozen=True)
class Canary:
    """Sizes of the tiny task on which a method's audit is most sensitive."""

    words: int
    """Maximum number of public axes; the canary's is the first."""
    units: int
    """Public number of private nodes, all but a few of which have no label."""


@dataclass(frozen=True)
class Method:
    """One method: its names, its scenarios, and the function that runs it."""

    name: str
    """Name in study files and rows."""
    title: str
    """Name in tables and legends."""
    run: Callable[..., list[Outcome]]
    """``run(task, requests, door, context)``: all replicas of a job together, answered in order;
    private data leave only through the door. Callers use ``answers``."""
    scenarios: tuple[str, ...]
    """Supported scenarios, which say what is private and public (``tasks.SCENARIOS``); the first
    is the default."""
    settings: type[Settings] = Settings
    summary: str = ""
    """What it does, in one line below its name."""
    protocols: Mapping[str, Protocol] = field(default_factory=lambda: {"sound": SOUND})
    """Protocols by name, with the fields that this method reads."""
    data: Literal["graph", "images"] = "graph"
    reads_private: bool = True
    """False for methods that read no private data: their ε is 0."""
    fits_validation_labels: bool = False
    """Whether public validation labels fit parameters, not only choose settings."""
    validates_without_labels: bool = False
    """Whether validation predictions are nevertheless those of a model that no label fitted."""
    one_run: bool = True
    """Whether the method trains only its released configuration, so that a run's privacy cost is
    its own; False if the runner compares trained configurations (``Job.choose``)."""
    named: tuple[str, ...] = ()
    """Settings that job names always include."""
    noise_is_given: bool = False
    """Whether settings give the noise: then the request's ε is a printed one, and the statement
    says what is proved."""
    prepares: str = ""
    """Feature preprocessing in words, for the privacy statement."""
    assumptions: tuple[str, ...] = ()
    """Assumptions of every private run."""
    canary: Canary | Literal["training"] | None = None
    """Task of the method's audit; ``training``: the attack is on the training code of the GCN
    (``attacks.canary``); None: there is no audit."""
    identity: Callable[..., dict[str, Any]] | None = None
    """``identity(fields, job, request)``: stream identity of a request, made from the job's own
    ``fields`` (``run.identity``), so that recorded results of earlier versions reproduce."""
    completed: Callable[[dict[str, Any]], tuple[dict[str, Any], dict[str, Any]]] | None = None
    """``completed(settings)``: settings of a single job, with the source's values for those left
    open, and the alternatives that its private runs choose among (``Job.choose``); None: the
    defaults, and no choice."""
    parts: Callable[[Any, Request], np.ndarray | None] | None = None
    """``parts(task, request)``: (T,) part of each training node of a run that cuts its training
    graph into random parts, as its streams draw them; None where the graph stays whole."""
    epsilon_of: Callable[..., float] | None = None
    """``epsilon_of(settings, protocol, delta)``: the ε that the protocol assigns to the noise
    given in ``settings``; None if the user must state the ε."""
    query: type[Any] | None = None
    """Query of the private records, if a run is ``ROUNDS`` exact sums over records, which may
    then be in shards (``sharded``)."""
    names_majority: bool = False
    """Whether outcomes contain the most frequent class of the private labels."""
    stated: Callable[..., dict[str, Any]] = _nothing_stated
    """``stated(task, request, context, chosen)``: the outcome fields on which the statement
    depends; ``n_configurations`` only if the settings determine it. They follow from the task's
    sizes and other public numbers, and from ``chosen``, the final settings of the run (including
    ``Outcome.settings``) with its ``noise_multiplier``, which is calibrated if missing: so a
    statement can be computed again from the row of a run, with its noise, without its data. The
    ``events`` are the plan of the run's door."""

    memory: Callable[[Any, GraphSize, int], int] = no_arrays
    """``memory(settings, size, runs)``: predicted bytes at the peak of a job, beyond its dataset
    and the libraries that every job loads."""

    def answers(
        self, task: Any, requests: Sequence[Request], door: Door, context: Context
    ) -> list[Outcome]:
        """Run, and add the fields of ``stated`` to each outcome."""
        outcomes = self.run(task, requests, door, context)
        return [
            self._with_stated(task, *pair, context) for pair in zip(requests, outcomes, strict=True)
        ]

    def _with_stated(
        self, task: Any, request: Request, outcome: Outcome, context: Context
    ) -> Outcome:
        noise = outcome.measured.get("noise_multiplier")
        chosen = {**outcome.settings, "noise_multiplier": noise}
        fields = self.stated(task, request, context, chosen)
        artifacts = {**fields.get("artifacts", {}), **outcome.artifacts}
        return replace(outcome, **fields | {"artifacts": artifacts})
