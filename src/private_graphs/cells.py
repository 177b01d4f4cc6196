"""A cell is what one job trains; its plan names the replicas that train together."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    field_validator,
    model_validator,
)

from private_graphs.datasets.views import SOUND_WITH_LABEL, DataView
from private_graphs.protocols import PROTOCOLS


def _read_epsilon(value: object) -> object:
    return math.inf if isinstance(value, str) and value.strip().lower() == "inf" else value


def _write_epsilon(value: float) -> float | str:
    return "inf" if math.isinf(value) else value


Epsilon = Annotated[
    float,
    BeforeValidator(_read_epsilon),
    PlainSerializer(_write_epsilon, when_used="json"),
    Field(gt=0),
]
"""A privacy budget; infinity (JSON ``"inf"``) means training without DP."""


class Cell(BaseModel):
    """One (experiment, dataset, features, method, optimizer, protocol, splits, train fraction)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    study: str
    experiment: str
    dataset: str
    features: str = "raw"
    method: str = "gcn"
    optimizer: Literal["sgd", "adam"]
    protocol: Literal["released", "paper", "sound"]
    visits: Literal["protocol", "epoch_sum", "poisson"] = "protocol"
    """``protocol`` keeps the protocol's own visits; the others are the two choices of ``sound``."""
    splits: int = Field(ge=1)
    train_fraction: float = Field(default=1.0, gt=0, le=1)
    view: Literal["protocol", "with_label"] = "protocol"
    """``protocol`` keeps the protocol's own view of the raw files; ``with_label`` adds the text
    column that defines the label where that view drops it."""

    @property
    def cell_id(self) -> str:
        """Path of the cell below ``runs/<study>/``."""
        visits = "" if self.visits == "protocol" else f"-{self.visits}"
        view = "" if self.view == "protocol" else f"-{self.view}"
        return (
            f"{self.experiment}/{self.dataset}/{self.features}/{self.method}/{self.optimizer}/"
            f"{self.protocol}{visits}{view}/s{self.splits}/f{self.train_fraction:g}"
        )

    @property
    def data_view(self) -> DataView:
        """How the raw files of the dataset are read, where they leave a choice."""
        own = PROTOCOLS[self.protocol].data
        dropped = self.view == "with_label" and own.label_column == "dropped"
        return SOUND_WITH_LABEL if dropped else own

    def identity(self) -> dict[str, Any]:
        """Return the fields that the draws of its runs depend on.

        The view is among them only where it is not the protocol's own, so that cells keep the
        draws that they had before there were views.
        """
        fields = self.model_dump(mode="json")
        if self.view == "protocol":
            del fields["view"]
        return fields


class RateChoice(BaseModel):
    """Where the learning rate of private replicas is chosen once, to be used in further cells."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cell: Cell
    """The cell that tried every learning rate of the grid."""
    epsilon: Epsilon
    """Its runs at this ε were compared."""


class MethodCell(BaseModel):
    """One (experiment, dataset, features, method, setting) of the proved methods."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    study: str
    experiment: str
    dataset: str
    features: str = "raw"
    method: str
    setting: Literal["text", "graph", "edges"]

    @property
    def cell_id(self) -> str:
        """Path of the cell below ``methods/<study>/``."""
        return f"{self.experiment}/{self.dataset}/{self.features}/{self.method}/{self.setting}"

    @property
    def data_view(self) -> DataView:
        """How the raw files of the dataset are read, where they leave a choice."""
        return PROTOCOLS["sound"].data


class MethodPlan(BaseModel):
    """A cell of a proved method with the axes of its runs (seed × ε × public tuning labels)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cell: MethodCell
    seeds: tuple[int, ...] = Field(min_length=1)
    """One per draw of the noise."""
    epsilons: tuple[Epsilon, ...]
    """Of the runs with all tuning labels public; empty: there are none of them."""
    tuning_labels: tuple[int, ...] = ()
    """Further runs have only so many public tuning labels, at ``tuning_epsilons``."""
    tuning_epsilons: tuple[Epsilon, ...] = ()
    delta: float = Field(default=1e-5, gt=0, lt=1)
    max_edges: int | None = Field(default=None, ge=1)
    """Public bound on the number of edges; setting ``edges`` alone needs and has it."""

    @model_validator(mode="after")
    def _some_run(self) -> MethodPlan:
        if not self.epsilons and not (self.tuning_labels and self.tuning_epsilons):
            raise ValueError("no run: expected epsilons, or tuning_labels with tuning_epsilons")
        return self

    @property
    def n_replicas(self) -> int:
        """Number of runs at most: a small tuning set has fewer."""
        fewer = len(self.tuning_labels) * len(self.tuning_epsilons)
        return len(self.seeds) * (len(self.epsilons) + fewer)


class AuditPlan(BaseModel):
    """An attack on one mechanism: training under a protocol with a number of splits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol: Literal["released", "paper", "sound"]
    splits: int = Field(ge=1)
    visits: Literal["protocol", "poisson"] = "protocol"
    epsilon: float = Field(gt=0)
    """The claim that is attacked."""
    runs: int = Field(ge=10)
    """Training runs per label of the canary."""
    seed: int = Field(ge=0)

    @property
    def name(self) -> str:
        """Stem of its file below ``audits/<study>/``."""
        visits = "" if self.visits == "protocol" else f"_{self.visits}"
        return f"{self.protocol}{visits}_s{self.splits}_e{self.epsilon:g}"


class MethodAuditPlan(BaseModel):
    """An attack on a proved method in one setting."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str
    setting: Literal["text", "graph", "edges"]
    epsilon: float = Field(gt=0)
    """The claim that is attacked, and proved."""
    runs: int = Field(ge=10)
    """Runs per neighbour."""
    seed: int = Field(ge=0)

    @property
    def name(self) -> str:
        """Stem of its file below ``audits/<study>/``."""
        return f"{self.method}_{self.setting}_e{self.epsilon:g}"


def read_audit_plan(text: str) -> AuditPlan | MethodAuditPlan:
    """Return the plan of an audit, of either kind, from its JSON."""
    return TypeAdapter(AuditPlan | MethodAuditPlan).validate_json(text)


class CellPlan(BaseModel):
    """A cell with its training settings and the axes of its replicas (seed × ε × learning rate)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cell: Cell
    seeds: tuple[int, ...] = Field(min_length=1)
    epsilons: tuple[Epsilon, ...] = Field(min_length=1)
    learning_rates: tuple[float, ...] = Field(default=(0.01,), min_length=1)
    """Learning rates of non-private replicas."""
    private_learning_rates: tuple[float, ...] = Field(default=(0.01,), min_length=1)
    """Grid of the private replicas; the choice is made on validation scores, per ε."""
    chosen_in: RateChoice | None = None
    """Cell whose choice the private replicas use, at every ε; None: each ε tries the whole grid."""
    epochs: int = Field(ge=1)
    noise_multiplier: float | None = Field(default=None, gt=0)
    """Given noise in place of a calibrated one (every private replica then has this noise)."""
    delta: float = Field(default=1e-5, gt=0, lt=1)
    clip_norm: float = Field(default=1.0, gt=0)
    weight_decay: float = Field(default=0.01, ge=0)
    """Non-private replicas only."""
    hidden: int = Field(default=32, ge=1)
    dropout: float = Field(default=0.5, ge=0, lt=1)
    patience: int | None = Field(default=20, ge=1)
    """Epochs without a better validation loss before a non-private replica stops; None: never."""
    dtype: Literal["float32", "float64"] = "float32"

    @field_validator("seeds", "epsilons", "learning_rates", "private_learning_rates")
    @classmethod
    def _distinct(cls, values: tuple) -> tuple:
        """Equal values would make equal replicas, which share every draw."""
        if len(set(values)) < len(values):
            raise ValueError(f"expected distinct values, found {list(values)}")
        return values

    def rates(self, epsilon: float, chosen: float | None = None) -> tuple[float | None, ...]:
        """Learning rates that the cell itself trains at ``epsilon``.

        ``chosen`` is what ``chosen_in`` chose; None stands for it where nobody knows it yet.
        """
        if math.isinf(epsilon):
            return self.learning_rates
        return (chosen,) if self.chosen_in else self.private_learning_rates

    def n_learning_rates(self, epsilon: float) -> int:
        """Number of learning rates that the cell itself trains at ``epsilon``."""
        return len(self.rates(epsilon))

    @property
    def n_replicas(self) -> int:
        """Number of training runs of the cell."""
        return len(self.seeds) * sum(map(self.n_learning_rates, self.epsilons))
