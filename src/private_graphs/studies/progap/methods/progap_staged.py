"""ProGAP with staged search: a run tries many configurations and releases each sum once.

Under ``links`` features and labels are public, so computations on them and on released sums are
post-processing. After each noisy sum every configuration trains on it; the one with the best score
on the public validation labels sends the rows of the next sum, and at the end the best stage of the
best configuration answers. The privacy cost is that of K sums, whatever the number of
configurations (docs/methods.md); separate runs would each have this cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from private_graphs.mechanisms.door import Door
from private_graphs.methods.noisy_sums import (
    PROTOCOLS,
    SumsData,
    SumsSettings,
    Trainer,
    answer_alike,
    budget_of,
    memory,
    planned,
    stated_by,
)
from private_graphs.studies.progap.methods.progap import Stage, last_base
from private_graphs.tasks.method import Context, Method, Outcome, Request
from private_graphs.tasks.tasks import NodeTask

if TYPE_CHECKING:
    from private_graphs.training import stacks


class StagedSettings(SumsSettings):
    """Settings of the search; ``learning_rates`` replaces ``learning_rate``."""

    layers: tuple[int, ...] = (1, 2)
    """Candidate numbers of layers of each base."""
    learning_rates: tuple[float, ...] = (0.01, 0.05)
    """Candidate learning rates."""


_budget = partial(budget_of, stages=0)
_CHOSEN_BY = "accuracy on the public validation labels, from sums that were released once"


@dataclass(eq=False)
class _Line:
    """Configurations with the same number of layers: replicas of one batch, ordered by rate."""

    layers: int
    trainer: Trainer
    stage: Stage | None = None
    stack: stacks.Stack | None = None


def _train(data: SumsData, requests: Sequence[Request], door: Door) -> list[Outcome]:
    """Train requests that differ only in ε and seed."""
    import torch

    from private_graphs.training import stacks

    task, settings = data.task, requests[0].settings
    budget, n_runs = _budget(task, settings), len(requests)
    tried = [
        replace(request, settings=request.settings.model_copy(update={"learning_rate": rate}))
        for rate in settings.learning_rates
        for request in requests
    ]
    answering, sums = planned(data, budget, requests, door)
    lines = [_Line(layers, Trainer(data, tried, (), door, ())) for layers in settings.layers]
    inputs = stacks.StackInputs(data.rows)
    best = np.full(n_runs, -1.0)
    predicted = np.zeros((n_runs, len(data.rows)), np.int64)
    chosen: list[dict] = [{} for _ in requests]
    for number in range(settings.hops + 1):
        scores, answers = [], []
        for line in lines:
            line.stage = Stage(
                number, line.layers, task.graph.n_features, task.n_classes, "batch",
                task.protocol.unit_rows and settings.hops > 0,
            )  # fmt: skip
            line.stack = line.stage.grown(line.stack, [each.streams for each in tried])
            line.trainer.fit(line.stage, line.stack, inputs)
            scores.append(line.trainer.best)
            answers.append(stacks.predictions(line.stage, line.stack, inputs))
        by_run = np.concatenate(scores).reshape(-1, n_runs)  # (configurations, R)
        winner = by_run.argmax(axis=0)
        for run_, index in enumerate(winner):
            if by_run[index, run_] > best[run_]:
                best[run_] = by_run[index, run_]
                predicted[run_] = np.concatenate(answers).reshape(-1, n_runs, len(data.rows))[
                    index, run_
                ]
                line, rate = divmod(int(index), len(settings.learning_rates))
                chosen[run_] = {
                    "depth": number,
                    "layers": settings.layers[line],
                    "learning_rate": settings.learning_rates[rate],
                }
        if number < settings.hops:
            every = np.concatenate([last_base(each.stage, each.stack, inputs) for each in lines])
            every = every.reshape(-1, n_runs, *every.shape[1:])
            rows = sums.release(number + 1, every[winner, np.arange(n_runs)])
            new = torch.from_numpy(rows)[:, None].repeat(len(settings.learning_rates), 1, 1, 1)
            hops = new if inputs.hops is None else torch.cat([inputs.hops, new], dim=1)
            inputs = stacks.StackInputs(data.rows, hops)
    n_tried = (settings.hops + 1) * len(lines) * len(settings.learning_rates)
    return [
        replace(outcome, settings=own, n_configurations=n_tried)
        for outcome, own in zip(answering.outcomes(predicted), chosen, strict=True)
    ]


def _stated(task: NodeTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    return stated_by(_budget)(task, request, context, chosen) | {"chosen_by": _CHOSEN_BY}


METHODS = (
    Method(
        "progap_staged",
        "ProGAP, staged search",
        partial(answer_alike, _train),
        ("links",),
        settings=StagedSettings,
        protocols={"sound": PROTOCOLS["sound"]},
        named=("hops",),
        prepares="features are used as they are",
        stated=_stated,
        memory=memory,
        summary="ProGAP that tries many configurations and releases each sum once.",
    ),
)
