"""Search for settings: the choice that another, finished job made, and the releases of its runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.core.errors import UserError
from private_graphs.core.streams import Streams
from private_graphs.privacy.prices import SearchRuns
from private_graphs.running.jobs import Job
from private_graphs.tasks.method import ALONE, Method, Request
from private_graphs.tasks.tasks import Task


@dataclass(frozen=True)
class Search:
    """Settings that a finished job chose, and the releases of the runs that it compared."""

    settings: dict[str, Any]
    n_configurations: int
    runs: tuple[SearchRuns, ...]
    words: str


def search_of(job: Job, method: Method, task: Task, rows: pd.DataFrame) -> Search:
    """Read the settings that ``job.chosen`` names from the rows of its job.

    Raises UserError if the rows belong to another job, or did not choose exactly one configuration.
    """
    assert job.chosen is not None
    searched, epsilon = job.chosen.job, job.chosen.epsilon
    remedy = f"run {searched.id} again (delete its folder)"
    for key in ("study", "group", "name"):
        values = sorted(set(rows["job" if key == "name" else key]))
        if values != [getattr(searched, key)]:
            raise UserError(
                f"{searched.id}: {key} of its rows is {', '.join(map(str, values))}; expected "
                f"{getattr(searched, key)}: {remedy}"
            )
    compared = rows[rows["epsilon"] == epsilon]
    winners = {
        json.dumps({name: settings[name] for name in searched.choose}, sort_keys=True)
        for settings in map(json.loads, compared.loc[compared["selected"], "settings"])
    }
    if len(winners) != 1:
        raise UserError(
            f"{searched.id}: {len(winners)} configurations are selected at epsilon = {epsilon:g}; "
            f"expected one: {remedy}"
        )
    (winner,) = map(json.loads, winners)
    noise = compared["noise_multiplier"].iloc[0]
    return Search(
        settings=winner,
        n_configurations=len(searched.candidates(epsilon)),
        runs=tuple(_searched_runs(method, task, searched, epsilon, compared)),
        words=(
            f"chosen once, among {len(compared)} runs at epsilon = {epsilon:g} (noise multiplier "
            f"{noise:g}) on all training nodes, and reused here"
        ),
    )


def _searched_runs(
    method: Method, task: Task, searched: Job, epsilon: float, compared: pd.DataFrame
) -> Iterator[SearchRuns]:
    """Yield the releases of the compared runs: each configuration has its own events."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for text, seed in zip(compared["settings"], compared["seed"], strict=True):
        choice = {name: json.loads(text)[name] for name in searched.choose}
        settings = method.settings.model_validate({**searched.settings, **choice})
        streams = Streams.of({"seed": int(seed)}).public  # nothing is drawn from them
        request = Request(epsilon, seed, np.empty(0, np.int64), streams, settings)
        counts[method.stated(task, request, ALONE, {})["events"]] += 1
    for events, n_runs in counts.items():
        yield SearchRuns(events, n_runs)
