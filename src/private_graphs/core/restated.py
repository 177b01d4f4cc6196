"""Statements of finished runs, made again by the current code, without records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.core.errors import UserError
from private_graphs.core.jobs import Job
from private_graphs.core.method import Context, Outcome
from private_graphs.core.run import Answer, Runner
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.privacy.statements import PrivacyStatement


@dataclass(frozen=True)
class Restated:
    """Statements of finished runs, made again by the current code."""

    statements: list[PrivacyStatement]
    """One statement per run."""
    artifacts: dict[str, np.ndarray]
    """Artifacts that the method states for jobs that need them, as in ``JobResult.artifacts``."""


def restated(
    job: Job,
    dataset: GraphDataset,
    rows: pd.DataFrame,
    *,
    chosen: pd.DataFrame | None = None,
    artifacts: Mapping[str, Mapping[str, np.ndarray]] | None = None,
) -> Restated:
    """Make the statements of the finished, seeded runs of ``job`` again, without records.

    ``rows`` are all rows that count as its file, ``dataset`` has the right sizes
    (``datasets.outline``; with ``metis_parts`` after the cut by METIS), ``chosen`` are the rows of
    ``job.chosen.job``, ``artifacts`` the artifacts of the jobs in ``job.needs``. Raises UserError
    for a row that the job does not plan.
    """
    cut_already = job.model_copy(update={"metis_parts": None})
    runner = replace(Runner.of(cut_already, dataset, chosen, "seeded", False), job=job)
    compared = tuple(job.choose)
    requests = {
        (each.epsilon, each.seed, len(each.known),
         *(getattr(each.settings, name) for name in compared)): each
        for each in runner.requests
    }  # fmt: skip
    nobody = np.empty(0, np.int64)
    runs = []
    told: dict[str, Any] = {}
    needed = ["epsilon", "seed", "validation_labels", "settings", "noise_multiplier", "device",
              "n_configurations"]  # fmt: skip
    for row in rows[needed].to_dict("records"):
        settings = json.loads(row["settings"])
        had = settings if pd.isna(row["noise_multiplier"]) else (
            settings | {"noise_multiplier": row["noise_multiplier"]}
        )  # fmt: skip
        key = (row["epsilon"], row["seed"], row["validation_labels"],
               *(settings[name] for name in compared))  # fmt: skip
        if key not in requests:
            raise UserError(
                f"{job.id}: no run with epsilon, seed, public validation labels"
                f"{''.join(f', {name}' for name in compared)} = {', '.join(map(str, key))} is "
                "planned; expected one for every row: record the job again"
            )
        context = Context(device=row["device"], artifacts=artifacts or {})
        fields = runner.method.stated(runner.task, requests[key], context, had)
        public_id = requests[key].streams.public_id
        told |= {f"{public_id}/{name}": each for name, each in fields.get("artifacts", {}).items()}
        fields = {"n_configurations": row["n_configurations"]} | fields
        outcome = Outcome(nobody, nobody, **fields)
        runs.append(runner.run_of(Answer(requests[key], outcome, outcome.events or ())))
    statements = {run: runner.statement(run, runs) for run in dict.fromkeys(runs)}
    return Restated([statements[run] for run in runs], told)
