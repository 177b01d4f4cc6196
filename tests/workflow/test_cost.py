"""Estimates: by like jobs, else by a rough rule."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from private_graphs.core.errors import counted
from private_graphs.report.words import duration
from private_graphs.running.jobs import Attack, Job
from private_graphs.workflow.cost import (
    START_SECONDS,
    Costs,
    duration_on,
    recorded_times,
    rough_seconds,
)

JOB = Job(study="s", group="g", name="cora/raw/m", dataset="cora", method="m", scenario="nodes",
          epsilons=(1, 2), seeds=(0, 1, 2), settings={"epochs": 100})  # fmt: skip


def changed(**fields: object) -> Job:
    """The job with other fields."""
    return JOB.model_copy(update=fields)


def test_the_rough_rule_grows_with_runs_epochs_and_the_graph() -> None:
    base = rough_seconds(JOB)
    assert rough_seconds(changed(seeds=(0,))) < base
    assert rough_seconds(changed(settings={"epochs": 2000})) > 10 * base / 2
    assert rough_seconds(changed(dataset="pubmed")) > base
    assert rough_seconds(changed(dataset="declared_no_more")) > 0
    audit = changed(dataset="canary", attack=Attack(runs=200))
    assert rough_seconds(audit) < rough_seconds(changed(dataset="canary", attack=Attack(runs=2000)))


def test_like_jobs_correct_the_rule_the_more_alike_the_first() -> None:
    assert Costs().seconds(JOB) == rough_seconds(JOB) and "factor of ten" in Costs().source
    slow, fast = 10 * rough_seconds(JOB), rough_seconds(changed(protocol="paper")) / 10
    costs = Costs([(JOB, slow), (JOB, slow), (changed(protocol="paper"), fast)])
    assert costs.seconds(JOB) == pytest.approx(slow)
    assert costs.seconds(changed(protocol="paper")) == pytest.approx(fast)
    more = changed(seeds=tuple(range(30)))
    assert costs.seconds(more) == pytest.approx(10 * rough_seconds(more)), "in proportion"
    other = changed(settings={"epochs": 50})
    assert costs.seconds(other) == pytest.approx(10 * rough_seconds(other)), "the median of all"
    unlike = changed(method="n")
    assert costs.seconds(unlike) == rough_seconds(unlike)
    assert costs.source == "as recorded"


def test_recorded_jobs_tell_as_many_seconds_as_their_runs_took(tmp_path: Path) -> None:
    recorded, other = (changed(study="pate", name=name) for name in "ab")
    rows = pd.DataFrame({"group": [recorded.group] * 3, "job": ["a", "a", "gone"], "seconds": 4.0})
    (tmp_path / recorded.study).mkdir()
    rows.to_parquet(tmp_path / recorded.study / "rows.parquet")
    more = recorded.model_copy(update={"seeds": tuple(range(30))})
    ((found, seconds),) = recorded_times([more, other], tmp_path, "reduced")
    assert not [*recorded_times([more], tmp_path, "full")], "the same name at another scale"
    assert found == more and seconds == START_SECONDS + 4 * more.n_replicas
    assert Costs([(more, seconds)]).seconds(more) == pytest.approx(seconds)


def test_jobs_share_cores_and_none_is_shorter_than_the_longest() -> None:
    assert duration_on([1, 2, 3], 2) == 3 and duration_on([10, 1], 4) == 10
    assert duration_on([], 4) == 0


def test_numbers_in_words() -> None:
    assert [counted(2, each) for each in ("job", "batch")] == ["2 jobs", "2 batches"]
    assert counted(1, "job") == "1 job"
    assert [duration(s) for s in (0.2, 45, 600, 9000)] == ["1 s", "45 s", "10 min", "2.5 h"]
