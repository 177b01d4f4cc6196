"""Run a proved method: every request of a cell, with rows and privacy statements.

The counterpart of ``gcn.train_cell`` for methods whose guarantee holds in every run. A method says
what it released; here that is priced, compared with what was asked for, and written down.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from private_graphs.cells import MethodPlan
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.errors import UserError
from private_graphs.methods import (
    class_sums,
    class_sums_public,
    dp_linear,
    dp_mlp,
    edge_votes,
    gcn_proved,
    public_only,
    text_only,
)
from private_graphs.methods.names import METHOD_NAMES
from private_graphs.methods.problem import SETTINGS, Problem, build_problem
from private_graphs.methods.requests import Method, Outcome, Progress, Request
from private_graphs.methods.result import (
    CellResult,
    NoiseSource,
    new_secret,
    told_fingerprint,
)
from private_graphs.privacy.calibration import refuse_large_delta, target_epsilon
from private_graphs.privacy.prices import FileRows, SearchRuns, price_file
from private_graphs.privacy.statements import (
    About,
    PrivacyStatement,
    Selection,
    build_statement,
)
from private_graphs.training.metrics import majority_score, random_score, scores
from private_graphs.training.streams import Streams

_OPTIONAL = (
    "delta", "epsilon_proved", "validation_micro_f1", "validation_macro_f1", "majority_micro_f1",
    "seconds",
)  # fmt: skip
"""Numbers that are null where nothing applies."""

_PROTOCOL = "sound"

CONSTANTS = (
    "the constants of the method were set by its authors with experiments on Cora, CiteSeer and "
    "PubMed; on these graphs that choice is not priced"
)
PUBLIC_ELSEWHERE = (
    "other runs counted in n_runs_released read labels of tuning nodes as public ones: "
    "epsilon_all_runs covers training nodes, epsilon_proved both"
)
PUBLIC_IN_FILE = (
    "other rows of this file read labels of tuning nodes as public ones: epsilon_of_file covers "
    "training nodes, epsilon_proved both"
)

METHODS: dict[str, Method] = {
    each.name: each
    for each in (
        class_sums.CLASS_SUMS,
        class_sums.CLASS_SUMS_TEXT,
        class_sums_public.CLASS_SUMS_PUBLIC,
        dp_linear.METHOD,
        dp_mlp.METHOD,
        gcn_proved.METHOD,
        gcn_proved.POISSON_METHOD,
        edge_votes.METHOD,
        text_only.METHOD,
        public_only.PUBLIC_ONLY,
    )
}
"""Every proved method by its name; ``methods.names`` has their titles."""


def run_method(
    plan: MethodPlan,
    dataset: GraphDataset,
    *,
    noise_source: NoiseSource = "seeded",
    progress: Progress | None = None,
    code_fingerprint: str = "",
    unlabelled: bool = False,
) -> CellResult:
    """Answer every request of the plan; return rows, statements and test predictions.

    ``unlabelled`` predicts test nodes without a label too; scores are of those that have one.
    Under ``os_entropy`` all draws also depend on fresh secret bytes and cannot be repeated. Raises
    UserError for a graph without labelled nodes of some kind, for delta · units >= 1, and for a
    method that releases more than it was asked to.
    """
    method, setting = METHODS[plan.cell.method], SETTINGS[plan.cell.setting]
    if setting.name not in METHOD_NAMES[plan.cell.method].settings:
        raise UserError(
            f"{plan.cell.cell_id}: {plan.cell.method} has no setting {setting.name}; expected "
            f"{', '.join(METHOD_NAMES[plan.cell.method].settings)}"
        )
    problem = build_problem(dataset, setting, plan.delta, unlabelled, plan.max_edges)
    if METHOD_NAMES[plan.cell.method].reads_private:
        refuse_large_delta(plan.delta, max(problem.n_units, len(problem.tuning_labels)))
    secret = new_secret(noise_source)
    requests = _requests(plan, problem, dataset, secret)
    started = time.perf_counter()
    outcomes = method.run(problem, requests, progress)
    seconds = (time.perf_counter() - started) / len(requests)
    fingerprint = told_fingerprint(dataset.fingerprint, secret)
    runs = [_run_of(problem, *each) for each in zip(requests, outcomes, strict=True)]
    shared = _Shared(plan, problem, dataset, runs, noise_source, fingerprint)
    built = {run: _statement(shared, run) for run in dict.fromkeys(runs)}
    statements = [built[run] for run in runs]
    test_nodes = np.flatnonzero(dataset.test_mask & (unlabelled | (dataset.labels >= 0)))
    rows = [
        _row(plan, problem, dataset, request, outcome, statement, dataset.labels[test_nodes])
        for request, outcome, statement in zip(requests, outcomes, statements, strict=True)
    ]
    table = pd.DataFrame(rows).assign(
        # Under os_entropy no duration is kept: docs/privacy.md §5.
        seconds=math.nan if noise_source == "os_entropy" else seconds,
        device="cpu",
        noise_source=noise_source,
        code_fingerprint=code_fingerprint,
        data_fingerprint=fingerprint,
    )
    for column in _OPTIONAL:
        table[column] = table[column].astype("float64")
    return CellResult(
        table,
        {each.statement_id: each.model_dump(mode="json") for each in statements},
        test_nodes,
        np.stack([each.test_predictions for each in outcomes]),
    )


def _requests(
    plan: MethodPlan, problem: Problem, dataset: GraphDataset, secret: bytes | None
) -> list[Request]:
    """All tuning labels at every ε, then fewer of them; ε is 0 where nothing private is read."""
    size = len(problem.tuning_labels)
    # The public labels are drawn without the fingerprint, which depends on private data.
    fewer = [each for each in plan.tuning_labels if each < size]
    if METHOD_NAMES[plan.cell.method].reads_private:
        points = [(epsilon, size) for epsilon in plan.epsilons]
        points += [(epsilon, known) for known in fewer for epsilon in plan.tuning_epsilons]
    else:
        everything = [size] if plan.epsilons else []
        points = [(0.0, known) for known in (*everything, *fewer)]
    found = []
    for epsilon, n_known in points:
        # Public data with all its labels leave nothing to draw.
        for seed in plan.seeds if epsilon or n_known < size else plan.seeds[:1]:
            identity = {
                "data": dataset.fingerprint,
                "cell": plan.cell.model_dump(mode="json"),
                "epsilon": "inf" if math.isinf(epsilon) else epsilon,
                "delta": plan.delta,
                "tuning_labels": n_known,
                "seed": seed,
            }
            streams = Streams.of(identity, secret)
            draw = Streams.of({"tuning_labels": n_known, "seed": seed}, secret)
            order = draw.generator("tuning_labels").permutation(size)
            found.append(Request(epsilon, seed, np.sort(order[:n_known]), streams))
    return found


@dataclass(frozen=True)
class _Run:
    """What one statement says of a run: requests that agree in it share the statement."""

    epsilon: float
    events: tuple
    tuning_events: tuple
    selection: Selection
    facts: tuple[str, ...]
    assumptions: tuple[str, ...]
    noise_generator: str


@dataclass(frozen=True)
class _Shared:
    """What the statements of a cell have in common."""

    plan: MethodPlan
    problem: Problem
    dataset: GraphDataset
    runs: Sequence[_Run]
    """One per request."""
    noise_source: NoiseSource
    fingerprint: str

    @property
    def about(self) -> About:
        """What the statements are about."""
        cell = self.plan.cell
        return About(
            study=cell.study,
            dataset=cell.dataset,
            features=cell.features,
            method=cell.method,
            scenario=cell.setting,
            protocol=_PROTOCOL,
            data_fingerprint=self.fingerprint,
        )

    def file_of(self, run: _Run) -> FileRows:
        """What the rows of the file of ``run`` prove together (``CellResult.save``)."""
        private = [each for each in self.runs if math.isfinite(each.epsilon)]
        without = len(self.runs) - len(private)
        if self.noise_source == "os_entropy":
            if math.isfinite(run.epsilon):
                without = 0
            else:
                private = []
        counts = Counter((each.events, each.tuning_events) for each in private)
        groups = [SearchRuns(events, n_runs, apart) for (events, apart), n_runs in counts.items()]
        setting = self.problem.setting
        claim = (setting.unit, setting.relation, self.plan.delta, self.problem.n_units)
        return price_file(claim, groups, without)


def _run_of(problem: Problem, request: Request, outcome: Outcome) -> _Run:
    public = [*problem.setting.public_facts, *outcome.public_facts]
    known, size = len(request.known), len(problem.tuning_labels)
    if known:
        public.append(
            "the labels of all tuning nodes"
            if known == size
            else f"the labels of {known} tuning nodes, others in each run, drawn without looking "
            "at the data"
        )
    return _Run(
        epsilon=request.epsilon,
        events=outcome.events,
        tuning_events=outcome.tuning_events,
        selection=Selection(
            n_configs=outcome.n_configurations,
            data=outcome.chosen_by,
            public=not outcome.tuning_events,
        ),
        facts=tuple(public),
        assumptions=outcome.assumptions,
        noise_generator=outcome.noise_generator,
    )


def _statement(shared: _Shared, run: _Run) -> PrivacyStatement:
    """The statement of all requests with this run; those with the same ε count each other."""
    plan, problem = shared.plan, shared.problem
    same = [each for each in shared.runs if each.epsilon == run.epsilon]
    private = math.isfinite(run.epsilon)
    reads_private = METHOD_NAMES[plan.cell.method].reads_private
    counts = Counter(each.events for each in same)
    own = counts.pop(run.events)
    in_all_runs = all(each.tuning_events for each in same)
    assumptions = [*run.assumptions]
    if reads_private and private:
        assumptions.append(CONSTANTS)
        if run.tuning_events and not in_all_runs:
            assumptions.append(PUBLIC_ELSEWHERE)
        if run.tuning_events and not all(
            each.tuning_events for each in shared.runs if math.isfinite(each.epsilon)
        ):
            assumptions.append(PUBLIC_IN_FILE)
    statement = build_statement(
        events=run.events,
        apart=run.tuning_events,
        unit=problem.setting.unit,
        relation=problem.setting.relation,
        delta=plan.delta,
        n_units=problem.n_units,
        epsilon_published=None,
        published_formula=None,
        n_runs_released=own,
        others=[SearchRuns(events, n_runs) for events, n_runs in counts.items()],
        about=shared.about,
        file=shared.file_of(run),
        noise_source=shared.noise_source,
        noise_generator=run.noise_generator,
        inference=problem.setting.inference,
        selection=run.selection,
        preprocessing=_preprocessing(shared.dataset),
        public_facts=[*run.facts, *_not_covered(shared.noise_source), "all settings of the run"],
        assumptions=assumptions,
        private=private,
        reads_private=reads_private,
        one_run=True,
        apart_in_all_runs=in_all_runs,
        epsilon_target=target_epsilon(run.epsilon) if private and reads_private else None,
    )
    proved = statement.epsilon_proved
    if private and (proved is None or proved > target_epsilon(run.epsilon)):
        raise UserError(
            f"{plan.cell.cell_id}: {plan.cell.method} released what proves epsilon = {proved} "
            f"where {run.epsilon:g} was asked for; its result may not be reported"
        )
    return statement


def _not_covered(noise_source: NoiseSource) -> list[str]:
    if noise_source == "os_entropy":  # the hash has a secret key, and no time is told
        return []
    return ["a hash of the dataset and how long runs took: these are not covered"]


def _preprocessing(dataset: GraphDataset) -> str:
    sentences = (*dataset.info.preprocessing, "every row of features is scaled to norm 1 by itself")
    return " ".join(f"{each[0].upper()}{each[1:].rstrip('.')}." for each in sentences)


def _row(
    plan: MethodPlan,
    problem: Problem,
    dataset: GraphDataset,
    request: Request,
    outcome: Outcome,
    statement: PrivacyStatement,
    test_labels: np.ndarray,
) -> dict[str, object]:
    """One row of the run table, without what all runs of the cell share."""
    cell, known = plan.cell, METHOD_NAMES[plan.cell.method]
    labelled = test_labels >= 0
    test_labels = test_labels[labelled]
    test = scores(test_labels, outcome.test_predictions[labelled])
    labels = problem.tuning_labels[request.known]  # scores on the others would be queries
    validation = {"micro_f1": None, "macro_f1": None}
    if len(labels) and not known.fits_tuning_labels:  # else they would be of the fitted nodes
        validation = scores(labels, outcome.tuning_predictions[request.known])
    private = math.isfinite(request.epsilon)
    return {
        "replica_id": request.streams.public_id,
        "statement_id": statement.statement_id,
        "study": cell.study,
        "experiment": cell.experiment,
        "protocol": _PROTOCOL,
        "dataset": cell.dataset,
        "features": cell.features,
        "view": dataset.info.view,
        "method": cell.method,
        "setting": cell.setting,
        "fits_tuning_labels": known.fits_tuning_labels,
        "tuning_nodes": len(problem.tuning_labels),
        "tuning_labels": len(request.known),
        "configuration": json.dumps(outcome.configuration, sort_keys=True),
        "n_configurations": outcome.n_configurations,
        "epsilon": request.epsilon,
        "delta": plan.delta if private else None,
        "epsilon_proved": statement.epsilon_proved if private else None,
        "unit": statement.unit if private else None,
        "relation": statement.relation if private else None,
        "inference": problem.setting.inference,
        "seed": request.seed,
        **{f"test_{name}": value for name, value in test.items()},
        "validation_micro_f1": validation["micro_f1"],
        "validation_macro_f1": validation["macro_f1"],
        "majority_micro_f1": (
            majority_score(test_labels, int(np.bincount(labels).argmax())) if len(labels) else None
        ),
        "random_micro_f1": random_score(test_labels, dataset.n_classes, False, request.streams),
    }
