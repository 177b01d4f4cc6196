"""Attacks on trained models as rows: one for every number that was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from private_graphs.errors import UserError
from private_graphs.jobs import Job
from private_graphs.methods import method_named
from private_graphs.run import settings_text

LEAK_COLUMNS = ("attack", "left_out", "sees", "score", "measure", "who", "value", "low", "high",
                "accuracy", "n_shadows", "n_targets")  # fmt: skip
"""Columns of a leak beside ``store.RUN_COLUMNS``: the fields of ``attacks.leaks.Measurement``
and of ``jobs.LeakAttack``, and the accuracy of the model that is trained on all nodes."""


def leak_rows(job: Job, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a finished attack (``attacks.leaks.run_job``).

    Raises:
        UserError: the document lacks a field.
    """
    try:
        (epsilon,), leaks, guarantee = job.epsilons, job.leaks, document["guarantee"]
        settings = method_named(job.method).settings.model_validate(job.settings)
        common = {
            "source": "leaks", "study": job.study, "group": job.group, "job": job.name,
            "dataset": job.dataset, "features": job.features, "method": job.method,
            "scenario": job.scenario, "protocol": job.protocol,
            "settings": settings_text(settings, {}), "epsilon": epsilon, "delta": job.delta,
            "seed": leaks.seed, "seconds": document["seconds"] / max(1, len(document["measured"])),
            "attack": leaks.attack, "left_out": leaks.left_out, "n_shadows": leaks.shadows,
            "n_targets": leaks.targets,
            **{name: guarantee[name] for name in ("unit", "relation", "epsilon_claimed",
               "epsilon_proved", "noise_multiplier", "accuracy")},
        }  # fmt: skip
        fields = ("sees", "score", "measure", "who", "value", "low", "high")
        return [common | {name: each[name] for name in fields} for each in document["measured"]]
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{job.id}/leaks.json: an attack without {error}; expected what attacks write: delete "
            "its folder and run the job again"
        ) from None
