"""What a job reads before it trains: raw files in a view, and parts of the training graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from private_graphs.datasets.views import SOUND_WITH_LABEL, DataView
from private_graphs.methods import method_named

if TYPE_CHECKING:
    from private_graphs.running.jobs import Job


def data_view(job: Job) -> DataView:
    """Return how the raw files of a job's dataset are read, if there are several ways."""
    view = method_named(job.method).protocols[job.protocol].data
    dropped = job.view == "with_label" and view.label_column == "dropped"
    return SOUND_WITH_LABEL if dropped else view


def has_splits(job: Job) -> bool:
    """Whether the replicas of a job train on parts of the training graph, drawn before."""
    if job.kind != "run" or (method := method_named(job.method)).parts is None:
        return False
    return bool(method.settings.model_validate(job.settings).model_dump()["splits"] > 1)
