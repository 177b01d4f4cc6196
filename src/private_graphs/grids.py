"""From the grids of a study to plans: one per training job that a run asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

from private_graphs.cells import (
    AuditPlan,
    Cell,
    CellPlan,
    MethodAuditPlan,
    MethodCell,
    MethodPlan,
    RateChoice,
)
from private_graphs.config import (
    SELECTION,
    AuditExperiment,
    GridPoint,
    MethodsExperiment,
    RunConfig,
    Scale,
    Study,
    TrainingExperiment,
    experiment_datasets,
    experiments_of,
    feature_kinds,
)
from private_graphs.datasets.registry import dataset_spec
from private_graphs.protocols import PROTOCOLS


def plans(study: Study, run: RunConfig) -> list[CellPlan]:
    """Expand the grids of ``study`` into one plan per training job that ``run`` asks for.

    Cells in which a learning rate is chosen for others come along, whether asked for or not.
    """
    found: dict[str, CellPlan] = {}
    for name, experiment in experiments_of(study, run).items():
        if not isinstance(experiment, TrainingExperiment):
            continue
        grid = _Grid(study, run, name, experiment)
        asked = run.protocols or tuple(PROTOCOLS)
        axes = product(
            [
                (dataset, features)
                for dataset in experiment_datasets(study, run, experiment)
                for features in feature_kinds(dataset, experiment, run)
            ],
            experiment.optimizers,
            [protocol for protocol in asked if protocol in experiment.protocols],
            experiment.grid,
            experiment.train_fractions,
        )
        for (dataset, features), optimizer, protocol, point, fraction in axes:
            place = dict(dataset=dataset, features=features, optimizer=optimizer, protocol=protocol)
            plan = grid.plan(place, point, fraction)
            searched = grid.searched(place, point) if grid.needs_choice(optimizer, point) else None
            if searched is not None:
                found.setdefault(searched.cell.cell_id, searched)
                choice = RateChoice(cell=searched.cell, epsilon=experiment.rate_chosen_at)
                plan = plan.model_copy(update={"chosen_in": choice})
            found[plan.cell.cell_id] = plan
    return list(found.values())


def audit_plans(study: Study, run: RunConfig) -> list[AuditPlan | MethodAuditPlan]:
    """Return the attacks that ``run`` asks for; sound with splits is attacked in both schedules.

    The proved methods are attacked wherever ``sound`` is.
    """
    found: dict[str, AuditPlan | MethodAuditPlan] = {}
    for experiment in experiments_of(study, run).values():
        if not isinstance(experiment, AuditExperiment):
            continue
        asked = [each for each in run.protocols or tuple(PROTOCOLS) if each in experiment.protocols]
        for protocol, splits, epsilon in product(asked, experiment.splits, experiment.epsilons):
            both = PROTOCOLS[protocol].calibration == "proved" and splits > 1
            for visits in ("protocol", "poisson") if both else ("protocol",):
                plan = AuditPlan(
                    protocol=protocol, splits=splits, visits=visits, epsilon=epsilon,
                    runs=experiment.runs, seed=experiment.seed,
                )  # fmt: skip
                found.setdefault(plan.name, plan)
        if "sound" not in asked:
            continue
        pairs = [(s, method) for s, methods in experiment.methods.items() for method in methods]
        for (setting, method), epsilon in product(pairs, experiment.epsilons):
            plan = MethodAuditPlan(
                method=method, setting=setting, epsilon=epsilon, runs=experiment.runs,
                seed=experiment.seed,
            )  # fmt: skip
            found.setdefault(plan.name, plan)
    return list(found.values())


def method_plans(study: Study, run: RunConfig) -> list[MethodPlan]:
    """Return one plan per cell of the proved methods that ``run`` asks for.

    They are proved, so a run that names protocols without ``sound`` has none of them; those of
    setting ``edges`` need a graph with a declared bound on its edges.
    """
    if run.protocols and "sound" not in run.protocols:
        return []
    found = []
    for name, experiment in experiments_of(study, run).items():
        if not isinstance(experiment, MethodsExperiment):
            continue
        for dataset in experiment_datasets(study, run, experiment):
            for features in feature_kinds(dataset, experiment, run):
                for setting, methods in experiment.methods.items():
                    bound = dataset_spec(dataset).max_edges if setting == "edges" else None
                    if setting == "edges" and bound is None:
                        continue  # a user's own graph without max_edges: the workflow says so
                    found += [
                        MethodPlan(
                            cell=MethodCell(
                                study=study.id, experiment=name, dataset=dataset,
                                features=features, method=method, setting=setting,
                            ),
                            seeds=run.seeds or tuple(range(experiment.draws)),
                            epsilons=experiment.epsilons,
                            # Under edges all labels are public but those of the test nodes.
                            tuning_labels=() if setting == "edges" else experiment.tuning_labels,
                            tuning_epsilons=experiment.tuning_epsilons,
                            delta=study.scales[run.scale].training.delta,
                            max_edges=bound,
                        )
                        for method in methods
                    ]  # fmt: skip
    return found


@dataclass(frozen=True)
class _Grid:
    """An experiment of a run, to make plans of its cells and of those that these depend on."""

    study: Study
    run: RunConfig
    name: str
    experiment: TrainingExperiment

    @property
    def _scale(self) -> Scale:
        return self.study.scales[self.run.scale]

    def plan(self, place: Mapping[str, str], point: GridPoint, fraction: float) -> CellPlan:
        """Plan of one cell; ``place`` names dataset, features, optimizer and protocol."""
        settings, optimizer = self._scale.training, place["optimizer"]
        return CellPlan(
            cell=Cell(
                study=self.study.id,
                experiment=self.name,
                method=self.experiment.method,
                view=self.experiment.view,
                splits=point.splits,
                train_fraction=fraction,
                **place,
            ),
            seeds=self.run.seeds or tuple(range(self._scale.seeds)),
            epsilons=point.epsilons,
            epochs=settings.epochs[optimizer],
            learning_rates=settings.learning_rates[optimizer],
            private_learning_rates=settings.private_learning_rates[optimizer],
            **settings.model_dump(exclude={"epochs", "learning_rates", "private_learning_rates"}),
        )

    def needs_choice(self, optimizer: str, point: GridPoint) -> bool:
        """Whether private replicas use a rate that is chosen elsewhere among several."""
        private = any(not math.isinf(epsilon) for epsilon in point.epsilons)
        several = len(self._scale.training.private_learning_rates[optimizer]) > 1
        return self.experiment.rate_chosen_at is not None and private and several

    def searched(self, place: Mapping[str, str], point: GridPoint) -> CellPlan:
        """Plan of the cell that compares the rates: one of another experiment, or its own."""
        for name, other in self._scale.experiments.items():
            if isinstance(other, TrainingExperiment) and other.searches(
                self.experiment, place["optimizer"], point.splits
            ):
                same = next(each for each in other.grid if each.splits == point.splits)
                return replace(self, name=name, experiment=other).plan(place, same, 1.0)
        alone = GridPoint(splits=point.splits, epsilons=(self.experiment.rate_chosen_at,))
        return replace(self, name=SELECTION).plan(place, alone, 1.0)
