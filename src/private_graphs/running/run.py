"""Execution of one job: requests, choice of settings, privacy cost, statements, scores, rows.

A method reports its releases (``core.method``); this module computes their privacy cost,
compares it with the requested ε, and writes the rows. No other module makes rows.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from private_graphs.core.devices import resolve_device
from private_graphs.core.entropy import published_fingerprint
from private_graphs.core.errors import UserError
from private_graphs.core.models import fields_of
from private_graphs.core.streams import Streams
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.protocols import Protocol
from private_graphs.datasets.registry import declared_graphs
from private_graphs.mechanisms.door import UNSEEN, Door, ReleaseMismatch, Watch
from private_graphs.methods import method_named
from private_graphs.privacy.assumptions import NoiseSource
from private_graphs.privacy.calibration import refuse_large_delta
from private_graphs.privacy.events import Event, Unnoised
from private_graphs.privacy.prices import FileRows, SearchRuns, price_file
from private_graphs.privacy.statements import (
    About,
    PrivacyStatement,
    Selection,
    build_statement,
)
from private_graphs.running.jobs import Job
from private_graphs.running.result import (
    CURVE,
    JobResult,
    majority_score,
    new_secret,
    random_score,
    scores,
)
from private_graphs.tasks.method import (
    ALONE,
    Context,
    Method,
    Outcome,
    Progress,
    Request,
    in_batches,
)
from private_graphs.tasks.tasks import SCENARIOS, Evaluation, Task, build_task

if TYPE_CHECKING:
    from private_graphs.running.settings_search import Search

_NUMBERS = (
    "delta", "noise_multiplier", "epsilon_claimed", "epsilon_proved", "validation_micro_f1",
    "validation_macro_f1", "majority_micro_f1", "random_micro_f1", "seconds",
)  # fmt: skip
"""Columns of numbers, null where they do not apply."""

MissingReplay = Callable[[Job, Sequence[Mapping[str, Any]]], str]
"""Job and the settings of its private runs -> why no replay tests their proofs, or nothing."""

_METIS = Unnoised("METIS, which reads every edge, says who is a training node")

SCORES_SHOWN = (
    "the graph is published, and scores on its test nodes are shown: they read features and lists "
    "of test nodes, which epsilon does not cover"
)


def execute(
    job: Job,
    dataset: GraphDataset,
    *,
    chosen: pd.DataFrame | None = None,
    artifacts: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    noise_source: NoiseSource = "seeded",
    device: str = "cpu",
    threads: int = 1,
    progress: Progress | None = None,
    code_fingerprint: str = "",
    unlabelled: bool = False,
    secret: bytes | None = None,
    parts: np.ndarray | None = None,
    missing_replay: MissingReplay = lambda job, settings: "",
) -> JobResult:
    """Run every replica of ``job`` and return rows, statements, predictions and artifacts.

    ``chosen`` are the rows of ``job.chosen.job``, ``artifacts`` the artifacts of the jobs in
    ``job.needs``. ``unlabelled`` also predicts test records without a label; scores use labelled
    ones only. ``device`` auto means a GPU if there is one. Under ``os_entropy`` all draws also
    depend on fresh secret bytes and cannot be repeated, except by the other steps of a run in
    shards, which keep the bytes (``secret``). ``parts`` (R, T) were drawn before, by
    ``core.splits``. ``missing_replay`` tells, before anything runs, why no replay tests the proofs
    of a job with such settings, which statements then say. Raises UserError for a job that cannot
    be carried out (unknown scenario, too many splits, an impossible budget, delta · units >= 1),
    and for a method that releases more than requested.
    """
    runner = Runner.of(job, dataset, chosen, noise_source, unlabelled, secret)
    if parts is not None:
        runner = runner.with_parts(parts)
    if device == "auto":
        device = resolve_device(device)
    private = [request.settings for request in runner.requests if request.private]
    not_replayed = missing_replay(job, [entry.model_dump(mode="json") for entry in private])
    context = Context(progress, device, threads, artifacts or {})
    if artifacts and noise_source == "os_entropy":
        raise UserError(
            f"{job.id}: it reads artifacts of {', '.join(artifacts)}, which nothing prices where "
            "noise is fresh; expected a dataset with a kept seed"
        )
    # Seconds of the processor do not depend on what else the machine does.
    clock = time.process_time if device == "cpu" else time.perf_counter
    started = clock()
    # BLAS splits products by the number of threads, which affects the last bits.
    with threadpool_limits(limits=threads):
        answers = runner.answers(context)
    seconds = (clock() - started) / len(answers)
    outcomes = [answer.outcome for answer in answers]
    runs = [runner.run_of(answer) for answer in answers]
    statements = {run: runner.statement(run, runs) for run in dict.fromkeys(runs)}
    if not_replayed:
        from private_graphs.privacy.statement_checks import with_replay

        statements = {run: with_replay(entry, not_replayed) for run, entry in statements.items()}
    rows = [
        runner.row(request, outcome, statements[run], seconds)
        for request, outcome, run in zip(runner.requests, outcomes, runs, strict=True)
    ]
    table = pd.DataFrame(rows).assign(
        device=device, noise_source=noise_source, code_fingerprint=code_fingerprint,
        data_fingerprint=runner.fingerprint,
    )  # fmt: skip
    for column in _NUMBERS:
        table[column] = table[column].astype("float64")
    table["selected"] = _selected(table, runner.requests, tuple(job.choose))
    return JobResult(
        table,
        {entry.statement_id: entry.model_dump(mode="json") for entry in statements.values()},
        runner.all_seeds("test_records"),
        np.stack([outcome.test_predictions for outcome in outcomes]),
        {
            f"{request.streams.public_id}/{name}": np.ascontiguousarray(array)
            for request, outcome in zip(runner.requests, outcomes, strict=True)
            for name, array in outcome.artifacts.items()
            if noise_source == "seeded"  # their privacy cost is not computed
        }
        | {
            f"{request.streams.public_id}/{CURVE}{name}": curve.astype(np.float32)
            for request, outcome in zip(runner.requests, outcomes, strict=True)
            for name, curve in outcome.curves.items()
            if runner.is_published
        },
        runner.all_seeds("test_labels") if runner.is_published else None,
    )


def statement_columns(statement: PrivacyStatement, private: bool) -> dict[str, Any]:
    """Return the columns of a row that repeat its statement; ``private``: the row's ε is finite."""
    return {
        "n_configurations": statement.selection.n_configs,
        "epsilon_claimed": statement.epsilon_published,
        "epsilon_proved": statement.epsilon_proved if private else None,
        "unit": statement.unit if private else None,
        "relation": statement.relation if private else None,
        "inference": statement.inference,
        "status": statement.status,
        "statement_id": statement.statement_id,
    }


@dataclass(frozen=True)
class Answer:
    """A method's outcome for a request, with its privacy events."""

    request: Request
    outcome: Outcome
    events: tuple[Event, ...]


def answer(
    job: Job,
    dataset: GraphDataset,
    watch: Watch,
    task: Task | None = None,
    context: Context = ALONE,
) -> tuple[Task, list[Answer]]:
    """Return the task of a job and its method's answers under a ``watch``, without statements.

    ``task`` replaces the job's own task, while streams and settings stay those of the dataset, as a
    replay needs.
    """
    runner = Runner.of(job, dataset, None, "seeded", False)
    with threadpool_limits(limits=1):
        return runner.task, runner.answers(context, watch, task)


def planned(job: Job, dataset: GraphDataset) -> tuple[Task, list[Request]]:
    """Return the task and the requests of a job, for an attack that trains its models."""
    runner = Runner.of(job, dataset, None, "seeded", False)
    return runner.task, runner.requests


def identity(job: Job, data: str, request: Request, changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stream identity of a request: everything that distinguishes the replica.

    The key names are those of version 0.1, so that recorded results reproduce; ``changed`` are the
    request's settings that differ from the method's defaults. ``data`` is the fingerprint of the
    dataset.
    """
    fields: dict[str, Any] = {
        "data": data,
        "cell": {
            "study": job.study,
            "experiment": job.group,
            **fields_of(job, "dataset", "features", "method"),
            "setting": job.scenario,
        },
        "epsilon": "inf" if math.isinf(request.epsilon) else request.epsilon,
        "delta": job.delta,
        "tuning_labels": len(request.known),
        "seed": request.seed,
    }
    if job.protocol != "sound":
        fields["protocol"] = job.protocol
    if job.view != "protocol":
        fields["view"] = job.view
    if changed:
        fields["settings"] = dict(changed)
    return fields


@dataclass(frozen=True)
class _Run:
    """The parts of a run that its statement depends on: requests that agree in them share it."""

    epsilon: float
    events: tuple[Any, ...]
    selection: Selection
    facts: tuple[str, ...]
    assumptions: tuple[str, ...]
    noise_generator: str
    n_units: int
    calibrated_for: float | None
    claim: Any


@dataclass(frozen=True)
class Runner:
    """A job to run, with the common parts of its statements and rows."""

    job: Job
    method: Method
    protocol: Protocol
    dataset: GraphDataset
    task: Task
    """Task of the first seed; where each seed draws its own task, the sizes are equal."""
    scored: dict[int, tuple[Evaluation, np.ndarray]]
    """Seed -> evaluation of its answers, and the validation labels of its task."""
    unlabelled: bool
    requests: list[Request]
    search: Search | None
    noise_source: NoiseSource
    fingerprint: str
    """Dataset hash as published: plain for seeded runs, keyed under secret randomness."""

    @classmethod
    def of(
        cls,
        job: Job,
        dataset: GraphDataset,
        chosen: pd.DataFrame | None,
        noise_source: NoiseSource,
        unlabelled: bool,
        secret: bytes | None = None,
    ) -> Runner:
        method = method_named(job.method)
        for key, value, choices in (
            ("scenario", job.scenario, method.scenarios),
            ("protocol", job.protocol, tuple(method.protocols)),
        ):
            if value not in choices:
                raise UserError(
                    f"{job.id}: {job.method} has no {key} {value}; expected {', '.join(choices)}"
                )
        if method.one_run and any(len(values) > 1 for values in job.choose.values()):
            raise UserError(
                f"{job.id}: {job.method} is not priced for a choice among its runs; expected one "
                "value of each setting in choose"
            )
        if job.validation_labels and SCENARIOS[job.scenario].cut == "whole":
            raise UserError(
                f"{job.id}: validation_labels: {job.method} reads all validation labels in "
                f"scenario {job.scenario}; expected none to be kept back: leave them out"
            )
        protocol = method.protocols[job.protocol]
        if job.metis_parts and (protocol.calibration == "proved" or noise_source != "seeded"):
            raise UserError(
                f"{job.id}: metis_parts: METIS reads every edge, which has no price; expected a "
                "dataset with a kept seed, and a protocol that repeats what was published"
            )
        task, evaluation = _cut(job, dataset, job.seeds[0], unlabelled)
        if method.reads_private and protocol.calibration == "proved":
            # public validation labels have no privacy cost
            are_public = task.scenario.unit in ("class", "subclass")
            scored = 0 if are_public else len(task.validation_labels)
            refuse_large_delta(job.delta, max(task.n_units, scored))
        if (job.chosen is None) != (chosen is None):
            raise UserError(
                f"{job.id}: its settings are chosen in {job.chosen and job.chosen.job.id}; found "
                f"{'no' if chosen is None else 'other'} rows of it: run that job first"
            )
        search = None
        if chosen is not None:
            from private_graphs.running.settings_search import search_of

            search = search_of(job, method, task, chosen)
        secret = new_secret(noise_source) if secret is None else secret
        requests = _requests(job, method, task, dataset.fingerprint, search, secret)
        fingerprint = published_fingerprint(dataset.fingerprint, secret)
        return cls(
            job, method, protocol, dataset, task,
            {seed: (evaluation, task.validation_labels) for seed in job.seeds},
            unlabelled, requests, search, noise_source, fingerprint,
        )  # fmt: skip

    def with_parts(self, parts: np.ndarray) -> Runner:
        """Return the runner whose requests, in order, have (R, T) parts of the training nodes.

        Raises UserError for parts of another job.
        """
        shape = (len(self.requests), int(self.dataset.train_mask.sum()))
        if not (self.job.masks_vary or self.job.metis_parts) and parts.shape != shape:
            raise UserError(
                f"{self.job.id}: parts of shape {parts.shape}; expected {shape}, its runs and its "
                "training nodes: draw them again (delete its folder below splits)"
            )
        pairs = zip(self.requests, parts, strict=True)
        return replace(self, requests=[replace(request, parts=part) for request, part in pairs])

    def answers(
        self, context: Context, watch: Watch = UNSEEN, task: Task | None = None
    ) -> list[Answer]:
        """Answer all requests through one door; ``task`` replaces the job's own task.

        Raises ReleaseMismatch if the releases differ from the plan, and if a method planned nothing
        for a private run.
        """
        door = Door.of([request.streams for request in self.requests], watch)
        public = [replace(request, streams=request.streams.public) for request in self.requests]
        outcomes = self._outcomes(public, door, context, task or self.task)
        door.close()
        if context.asked is None and any(outcome.logits is not None for outcome in outcomes):
            raise ReleaseMismatch(f"{self.job.method} returns logits that no attack asked for")
        if self.method.reads_private and not all(
            planned or not request.private
            for planned, request in zip(door.planned(), public, strict=True)
        ):
            raise ReleaseMismatch(f"{self.job.method} planned nothing for a private run")
        for lane in door.lanes:  # a unit is in one part: equal plans have one privacy cost
            for name in lane.ledgers.keys() - {""}:
                if lane.ledger(name).events != lane.ledger("").events:
                    raise ReleaseMismatch(
                        f"{self.job.method}: {lane.ledger(name).events} of {name}; expected the "
                        f"plan of all other units, which is stated: {lane.ledger('').events}"
                    )
        answers = [Answer(*fields) for fields in zip(public, outcomes, door.events(), strict=True)]
        for answer in answers:
            stated = answer.outcome.events
            if stated is not None and answer.events != stated:
                raise ReleaseMismatch(
                    f"{self.job.method} released {answer.events}; it states {stated}"
                )
        return answers

    def _outcomes(
        self, requests: list[Request], door: Door, context: Context, task: Task
    ) -> list[Outcome]:
        """Answer requests together, or seed by seed where each seed draws its own test nodes."""
        if not self.job.masks_vary:
            return self.method.answers(task, requests, door, context)

        def answer(batch: list[Request], door: Door, context: Context) -> list[Outcome]:
            seed = batch[0].seed
            task, evaluation = _cut(self.job, self.dataset, seed, self.unlabelled)
            self.scored[seed] = evaluation, task.validation_labels
            return self.method.answers(task, batch, door, context)

        return in_batches(requests, door, context, lambda request: request.seed, answer)

    def task_of(self, seed: int) -> Task:
        """Return the task of the requests of a seed."""
        if not self.job.masks_vary:
            return self.task
        return _cut(self.job, self.dataset, seed, self.unlabelled)[0]

    def all_seeds(self, name: str) -> np.ndarray:
        """Return a field of the evaluation, stacked over requests where each seed has its own."""
        if not self.job.masks_vary:
            return getattr(self.scored[self.job.seeds[0]][0], name)
        parts = [getattr(self.scored[request.seed][0], name) for request in self.requests]
        return np.stack(parts)

    # --- statements ---

    def run_of(self, answer: Answer) -> _Run:
        """Return the parts of an answer that its statement depends on."""
        request, outcome = answer.request, answer.outcome
        n_configurations, words = outcome.n_configurations, outcome.chosen_by
        promises = request.private or not self.method.reads_private  # a finite ε, or 0
        if not self.method.one_run:  # the runner compares the trained configurations
            n_configurations = len(self.job.candidates(request.epsilon))
            if self.search and request.private:
                n_configurations = self.search.n_configurations
                words = f"{words}; {self.search.words}"
            elif n_configurations == 1:
                words = "nothing: the settings are fixed in advance"
                if self.method.assumptions and promises:
                    words += "; how the method's constants were set stands among the assumptions"
        n_known, size = len(request.known), len(self.task.validation_labels)
        facts = [*self.task.scenario.public_facts, *outcome.public_facts]
        if self.method.one_run and n_known:
            facts.append(
                "the labels of all validation records"
                if n_known == size
                else f"the labels of {n_known} validation records, others in each run, drawn "
                "without looking at the data"
            )
        if self.job.masks_vary:
            facts.append(
                "who is a training node: every seed draws other test nodes, without looking at "
                "the data; what is said of a run is of the training nodes of that run, and of all "
                "runs together of nodes that train in every one alone"
            )
        if self.noise_source == "seeded":  # else the hash is keyed and no time is published
            facts.append("a hash of the dataset and how long runs took: these are not covered")
            if self.method.names_majority:
                facts.append("the majority class of the training labels (baseline row)")
        if self.hides_scores and self.is_published:
            facts.append(SCORES_SHOWN)
        given = outcome.calibrated_for
        noisy = request.private and self.method.reads_private
        return _Run(
            epsilon=request.epsilon,
            events=(*answer.events, *([_METIS] if self.job.metis_parts and noisy else [])),
            selection=Selection(
                n_configs=n_configurations,
                data=words,
                public=outcome.chosen_on_public or n_configurations == 1,
            ),
            facts=(*facts, "all settings of the run"),
            assumptions=(
                *outcome.assumptions,
                *(self.method.assumptions if promises else ()),
            ),
            noise_generator=outcome.noise_generator,
            n_units=outcome.n_units or self.task.n_units,
            calibrated_for=(request.epsilon if given == "asked" else given) if noisy else None,
            claim=outcome.claim,
        )

    @property
    def is_published(self) -> bool:
        """Whether data are public, so that results may contain test labels; never a user's."""
        return self.noise_source == "seeded" and not declared_graphs([self.job.dataset])

    @property
    def hides_scores(self) -> bool:
        """Whether a score would read records that the protocol protects."""
        return self.task.scenario.scores_are_queries and self.protocol.calibration == "proved"

    def statement(self, run: _Run, runs: Sequence[_Run]) -> PrivacyStatement:
        """Return the statement of all requests with this run; runs with the same ε compose."""
        job, scenario = self.job, self.task.scenario
        private, search = math.isfinite(run.epsilon), self.search
        same = [peer for peer in runs if peer.epsilon == run.epsilon]
        counts = Counter(peer.events for peer in same)
        n_released = counts.pop(run.events)
        claim = run.claim
        statement = build_statement(
            **fields_of(run, "events", "n_units", "noise_generator", "selection", "assumptions"),
            unit=scenario.unit,
            relation=scenario.relation,
            delta=job.delta,
            epsilon_published=claim and claim.epsilon,
            published_formula=claim and claim.formula,
            authors_accountant_epsilon=claim and claim.authors_epsilon,
            n_runs_released=n_released,
            others=[
                *(SearchRuns(events, n_runs) for events, n_runs in counts.items()),
                *(search.runs if search and private else ()),
            ],
            about=About(
                **fields_of(job, "study", "dataset", "features", "method", "scenario", "protocol"),
                data_fingerprint=self.fingerprint,
            ),
            file=self._file_of(run, runs),
            noise_source=self.noise_source,
            inference=self.protocol.inference or scenario.inference,
            preprocessing=self._preprocessing(),
            public_facts=run.facts,
            private=private,
            reads_private=self.method.reads_private,
            one_run=self.method.one_run,
            epsilon_target=run.calibrated_for,
        )
        self._refuse_excess(run, statement)
        return statement

    def _refuse_excess(self, run: _Run, statement: PrivacyStatement) -> None:
        """Raise UserError if the releases exceed the requested ε."""
        if self.protocol.calibration != "proved" or not math.isfinite(run.epsilon):
            return
        if self.method.noise_is_given or not self.method.reads_private:
            return
        allowed = run.epsilon if run.calibrated_for is None else run.calibrated_for
        proved = statement.epsilon_proved
        if proved is None or proved > min(allowed, run.epsilon):
            raise UserError(
                f"{self.job.id}: {self.job.method} released what proves epsilon = {proved} "
                f"where {run.epsilon:g} was asked for; its result may not be reported"
            )

    def _file_of(self, run: _Run, runs: Sequence[_Run]) -> FileRows:
        """Return the joint guarantee of all rows in the file of ``run`` (``JobResult.save``)."""
        private = [peer for peer in runs if math.isfinite(peer.epsilon)]
        without = len(runs) - len(private)
        if self.noise_source == "os_entropy":  # rows without DP are in a separate file
            if math.isfinite(run.epsilon):
                without = 0
            else:
                private = []
        counts = Counter(peer.events for peer in private)
        groups = [SearchRuns(events, n_runs) for events, n_runs in counts.items()]
        if groups and self.search:
            groups += self.search.runs
        scenario = self.task.scenario
        claim = (scenario.unit, scenario.relation, self.job.delta, run.n_units)
        return price_file(claim, tuple(groups), without)

    def _preprocessing(self) -> str:
        sentences = (
            *self.dataset.info.preprocessing, self.method.prepares, self.protocol.prepares,
        )  # fmt: skip
        return " ".join(f"{s[0].upper()}{s[1:].rstrip('.')}." for s in sentences if s)

    # --- rows ---

    def row(
        self, request: Request, outcome: Outcome, statement: PrivacyStatement, seconds: float
    ) -> dict[str, Any]:
        """Return one row, without the columns that all rows of the job share."""
        job, private = self.job, math.isfinite(request.epsilon)
        evaluation, validation_labels = self.scored[request.seed]
        labelled = evaluation.test_labels >= 0
        truth = evaluation.test_labels[labelled]
        test = scores(truth, outcome.test_predictions[labelled])
        if self.hides_scores and not self.is_published:
            test = dict.fromkeys(test, math.nan)
        known = validation_labels[request.known]  # scores on others would be queries
        validation: dict[str, float | None] = {"micro_f1": None, "macro_f1": None}
        method = self.method  # no score on labels that were fitted
        fits = method.fits_validation_labels and not method.validates_without_labels
        if len(known) and not fits and not self.hides_scores:
            validation |= scores(known, outcome.validation_predictions[request.known])
        measured = dict(outcome.measured)
        seconds = measured.pop("seconds", seconds)
        measured |= outcome.evaluated if self.is_published else {}
        cut = fields_of(job, "test_share", "mask_seed", "metis_parts")
        if job.metis_parts:
            measured.pop("epsilon_bound", None)  # covers the method's own releases only
        return {
            **fields_of(job, "study", "group"),
            "job": job.name,
            **fields_of(job, "dataset", "features"),
            "view": getattr(self.dataset.info, "view", None),
            **fields_of(job, "method", "scenario", "protocol"),
            "settings": settings_text(request.settings, outcome.settings),
            "epsilon": request.epsilon,
            "delta": job.delta if private else None,
            "seed": request.seed,
            "validation_labels": len(request.known),
            "validation_nodes": len(self.task.validation_labels),
            "noise_multiplier": measured.pop("noise_multiplier", None),
            **statement_columns(statement, private),
            "replica_id": request.streams.public_id,
            **{f"test_{name}": value for name, value in test.items()},
            "validation_micro_f1": validation["micro_f1"],
            "validation_macro_f1": validation["macro_f1"],
            "majority_micro_f1": self._majority(outcome, known, truth),
            "random_micro_f1": random_score(
                truth, self.task.n_classes,
                self.protocol.random_baseline == "without_last_class", request.streams,
            ),
            # Under os_entropy no duration is kept: docs/privacy.md §5.
            "seconds": math.nan if self.noise_source == "os_entropy" else seconds,
            **{name: value for name, value in cut.items() if value is not None},
            **measured,
        }  # fmt: skip

    def _majority(self, outcome: Outcome, known: np.ndarray, truth: np.ndarray) -> float | None:
        """Return the score of the most frequent class in training labels or public ones alone."""
        if outcome.majority is not None and self.noise_source == "seeded":
            return majority_score(truth, outcome.majority)
        public = known[known >= 0]
        return majority_score(truth, int(np.bincount(public).argmax())) if len(public) else None


def _cut(job: Job, dataset: GraphDataset, seed: int, unlabelled: bool) -> tuple[Task, Evaluation]:
    """Cut the dataset for a seed; all seeds get the same cut unless each draws its test nodes."""
    protocol = method_named(job.method).protocols[job.protocol]
    if job.test_share is not None or job.metis_parts:
        from private_graphs.running.masks import masked

        dataset = masked(job, dataset, seed)
    return build_task(
        dataset, job.scenario, protocol, job.delta,
        unlabelled=unlabelled, max_edges=job.max_edges,
    )  # fmt: skip


def settings_text(settings: Any, chosen: Mapping[str, Any]) -> str:
    """Return the settings of a run as sorted JSON; ``chosen`` are those that the method chose."""
    fields = settings.model_dump(mode="json") if settings is not None else {}
    fields = {name: value for name, value in fields.items() if value is not None} | dict(chosen)
    return json.dumps(fields, sort_keys=True)


def _requests(
    job: Job,
    method: Method,
    task: Task,
    data: str,
    search: Search | None,
    secret: bytes | None,
) -> list[Request]:
    """Return requests with all validation labels at every ε, then with fewer labels.

    ε is 0 where nothing private is read. ``data`` is the fingerprint of the dataset.
    """
    size = len(task.validation_labels)
    fewer = [number for number in job.validation_labels if number < size]
    if method.reads_private:
        points = [(epsilon, size) for epsilon in job.epsilons]
        points += [(epsilon, n_known) for n_known in fewer for epsilon in job.validation_epsilons]
    else:
        everything = [size] if job.epsilons else []
        points = [(0.0, n_known) for n_known in (*everything, *fewer)]
    requests = []
    for epsilon, n_known in points:
        changes = job.candidates(epsilon)
        if search and math.isfinite(epsilon):
            changes = [search.settings]
        # With all labels public nothing is drawn.
        seeds = job.seeds if epsilon or n_known < size else job.seeds[:1]
        for change in changes:
            changed = {**job.settings, **change}
            settings = method.settings.model_validate(changed)
            for seed in seeds:
                # The public labels are drawn without the fingerprint, which depends on private
                # data.
                draw = Streams.of({"tuning_labels": n_known, "seed": seed}, secret)
                order = draw.generator("tuning_labels").permutation(size)
                request = Request(epsilon, seed, np.sort(order[:n_known]), draw, settings)
                fields = identity(job, data, request, changed)
                if method.identity is not None:
                    fields = method.identity(fields, job, request)
                if job.mask_seed is not None:  # else the run's own seed draws the masks too
                    fields = fields | {"masks": job.mask_seed}
                requests.append(replace(request, streams=Streams.of(fields, secret)))
    if len({request.streams.identity for request in requests}) < len(requests):
        raise UserError(
            f"{job.id}: two of its runs would share their draws; expected distinct ones"
        )
    return requests


def _selected(
    rows: pd.DataFrame, requests: Sequence[Request], compared: tuple[str, ...]
) -> np.ndarray:
    """Return the mask of rows whose settings have the best mean validation micro-F1 at their ε.

    Ties go to the settings that come first in order. Test scores have no influence.
    """
    keys = [tuple(getattr(request.settings, name) for name in compared) for request in requests]
    if len(set(keys)) == 1:
        return np.ones(len(rows), dtype=bool)
    frame = pd.DataFrame(
        {"epsilon": rows["epsilon"], "key": keys, "score": rows["validation_micro_f1"]}
    )
    best = {}
    for epsilon, part in frame.groupby("epsilon"):
        means = part.groupby("key")["score"].mean().round(12)  # sorted by key
        best[epsilon] = means.idxmax()
    return np.array(
        [key == best[epsilon] for epsilon, key in zip(rows["epsilon"], keys, strict=True)]
    )
