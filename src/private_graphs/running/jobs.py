"""Jobs: the unit of computation, for one dataset, method, scenario, protocol and settings.

Replicas of a job are combinations of seed × ε × compared settings. A job is plain data: a study
file expands to jobs, Snakemake passes them on as JSON, and ``job.json`` beside every result
describes the run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from private_graphs.core.limits import (
    LARGEST_SEED,
    MOST_COUNT,
    MOST_EDGES,
    MOST_RUNS,
    SMALLEST_DELTA,
)
from private_graphs.core.models import Strict


def _read_epsilon(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value.strip().lower() == "inf":
        return math.inf
    if any(sign.isdigit() for sign in value) and math.isinf(float(value)):
        raise ValueError("too large for a number; expected inf for no DP")
    return value


def _write_epsilon(value: float) -> float | str:
    return "inf" if math.isinf(value) else value


Epsilon = Annotated[
    float,
    BeforeValidator(_read_epsilon),
    PlainSerializer(_write_epsilon, when_used="json"),
    Field(gt=0),
]
"""Privacy budget; infinity (JSON ``"inf"``) means without DP."""

Value = str | int | float | bool
"""Value of a setting that jobs vary or compare."""
JOB_FILE = "job.json"
FILES = ("runs.parquet", "statement.json", "predictions.safetensors")
"""Files of a finished job, besides its job, manifest and optional artifacts."""
AUDIT_FILE = "audit.json"
"""File of a finished audit in place of ``FILES``."""
LEAK_FILE = "leaks.json"
"""File of a finished attack on trained models (``attacks.leaks``) in place of ``FILES``."""


class Attack(Strict):
    """Audit parameters: many runs on two neighbouring tasks (docs/privacy.md §10)."""

    runs: int = Field(ge=10, le=MOST_RUNS)
    """Runs per neighbouring task."""
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    """Seed, fixed because the confidence assumes that it was not selected."""


class LeakAttack(Strict):
    """Parameters of an attack on models that are trained on the job's dataset (docs/leaks.md)."""

    attack: Literal["membership", "links", "words"]
    """What the attacker wants to know: who was a training node, which edges there are, or whether a
    rare word was in a text."""
    shadows: int = Field(ge=4, le=MOST_RUNS)
    """Number of models that are trained on random halves. Each is attacked with the others."""
    targets: int = Field(default=0, ge=0, le=MOST_RUNS)
    """Number of further models that are attacked for a lower bound on ε, by a design that is fixed
    on the shadows; 0: no bound."""
    left_out: Literal["absent", "unlabelled"] = "absent"
    """Whether a training node that a coin leaves out is removed, as the unit of node level is, or
    stays in the graph without its label."""
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)


class Chosen(Strict):
    """Reference to the job in which the settings of private replicas are chosen once."""

    job: Job
    """Job that compared the settings."""
    epsilon: Epsilon
    """ε of the compared runs."""


class Job(Strict):
    """Plan of one computation, for one process."""

    study: str
    group: str
    """Run group of the study file."""
    name: str
    """Path below ``jobs/<study>/<group>``: dataset/features/method/scenario/protocol and the
    settings that the group varies."""
    dataset: str
    features: str = "raw"
    view: str = "protocol"
    """View of the raw files: the protocol's own, or a name (``datasets.views``)."""
    method: str
    scenario: str
    protocol: str = "sound"
    settings: dict[str, Any] = {}
    """Values of ``Method.settings`` that differ from the defaults."""
    epsilons: tuple[Epsilon, ...] = ()
    """Budgets of the runs with all validation labels public."""
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1)
    delta: float = Field(default=1e-5, ge=SMALLEST_DELTA, lt=1)
    choose: dict[str, tuple[Value, ...]] = {}
    """Settings that private replicas try, chosen by validation micro-F1 at every ε."""
    chosen: Chosen | None = None
    """Job that made the choice, if it was not this one."""
    validation_labels: tuple[int, ...] = ()
    """Numbers of public validation labels in further runs, at ``validation_epsilons``."""
    validation_epsilons: tuple[Epsilon, ...] = ()
    test_share: float | None = Field(default=None, gt=0, lt=1)
    """Share of the nodes that each seed draws as test nodes; None: the masks of the dataset."""
    validation_share: float = Field(default=0, ge=0, lt=1)
    """Share of the nodes that each seed draws as validation nodes; needs ``test_share``."""
    mask_seed: int | None = Field(default=None, ge=0, le=LARGEST_SEED)
    """Seed of the one draw of masks that all seeds of the job share; needs ``test_share``."""
    metis_parts: int | None = Field(default=None, ge=6, le=MOST_COUNT)
    """Number of parts into which METIS cuts the graph, in place of the dataset's masks: the fifth
    part holds the test nodes, the sixth is left out, all others train. METIS reads every edge:
    nothing is proved."""
    max_edges: int | None = Field(default=None, ge=1, le=MOST_EDGES)
    """Public bound on the number of edges, required by scenario ``edges`` and absent elsewhere."""
    needs: dict[str, str] = {}
    """Jobs whose artifacts the method reads: name -> identifier (``Job.id``)."""
    attack: Attack | None = None
    leaks: LeakAttack | None = None

    @model_validator(mode="after")
    def _some_run(self) -> Job:
        if not self.epsilons and not (self.validation_labels and self.validation_epsilons):
            raise ValueError(
                "no run: expected epsilons, or validation_labels with validation_epsilons"
            )
        if self.metis_parts and (self.test_share or self.validation_share):
            raise ValueError(
                "metis_parts says who is a test node; expected no test_share or validation_share "
                "beside it"
            )
        if self.metis_parts and self.leaks:
            raise ValueError(
                "metis_parts reads every edge, which has no price; expected no leaks beside it, "
                "which are held against what is proved"
            )
        if self.mask_seed is not None and self.test_share is None:
            raise ValueError("mask_seed draws shares of the nodes; expected test_share beside it")
        if self.choose and self.validation_labels:
            raise ValueError(
                "choose compares scores on all validation labels; expected no validation_labels "
                "beside it"
            )
        labels = (self.validation_labels, self.validation_epsilons)
        for values in (self.seeds, self.epsilons, *labels, *self.choose.values()):
            if len(set(values)) < len(values):
                raise ValueError(f"expected distinct values, found {list(values)}")
        return self

    @property
    def masks_vary(self) -> bool:
        """Whether each seed draws test nodes of its own."""
        return self.test_share is not None and self.mask_seed is None

    @property
    def kind(self) -> Literal["run", "audit", "leaks"]:
        """What the job does: run a method, audit it, or attack the models that it trains."""
        return "audit" if self.attack else "leaks" if self.leaks else "run"

    @property
    def id(self) -> str:
        """``<study>/<group>/<name>``: the folder of its files below ``results/<scale>/jobs``."""
        return f"{self.study}/{self.group}/{self.name}"

    def candidates(self, epsilon: float) -> list[dict[str, Any]]:
        """Return the settings that the job runs at ``epsilon``, as changes of ``settings``."""
        if math.isinf(epsilon) or self.chosen is not None:
            return [{}]
        changes: list[dict[str, Any]] = [{}]
        for name, values in self.choose.items():
            changes = [{**change, name: value} for change in changes for value in values]
        return changes

    @property
    def n_replicas(self) -> int:
        """Largest number of runs: a small validation set has fewer."""
        if self.leaks:
            return self.leaks.shadows + self.leaks.targets
        fewer = len(self.validation_labels) * len(self.validation_epsilons)
        n_candidates = sum(len(self.candidates(epsilon)) for epsilon in self.epsilons)
        return len(self.seeds) * (n_candidates + fewer)


Chosen.model_rebuild()


def job_name(parts: Sequence[str], named: Mapping[str, Any], view: str) -> str:
    """Return the name of a job: its place, and the settings that distinguish it from others."""
    words = [f"{key}={_value(value)}" for key, value in named.items()]
    words += [] if view == "protocol" else [f"view={view}"]
    return "/".join([*parts, *([",".join(words)] if words else [])])


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def read_job(path: Path) -> Job | None:
    """Return the job that a file describes; None if it is missing or unreadable."""
    try:
        return Job.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None
