"""The privacy statement of every result row, as one immutable, JSON-safe value.

Fields and rules: ``docs/privacy.md`` §11. A statement is built from the events of a training run;
only facts that code cannot know (what is public, what is assumed) are written by hand.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from private_graphs.core.errors import UserError
from private_graphs.core.version import __version__
from private_graphs.privacy.assumptions import NoiseSource, assumptions_of
from private_graphs.privacy.checks import check_delta
from private_graphs.privacy.dp_events import DpEvents, dp_events
from private_graphs.privacy.events import (
    Bounding,
    Clipping,
    Event,
    NoisyGradients,
    Poisson,
    SecretSample,
    Unnoised,
)
from private_graphs.privacy.prices import FileRows, Prices, SearchRuns, price_runs

if TYPE_CHECKING:
    from private_graphs.privacy.queries import Query

Unit = Literal[
    "graph",
    "subgraph",
    "node",
    "node_out_list",
    "edge_directed",
    "edge_undirected",
    "record",
    "document",
    "person",
    "class",
    "subclass",
]
Relation = Literal["add_remove", "zero_out", "replace"]
Inference = Literal[
    "params_only", "joint_dp_predictions", "inductive_disjoint", "noisy_rows", "leaks"
]
"""Coverage beyond the parameters; ``noisy_rows``: every prediction, computed from noisy releases
and public data alone."""
Status = Literal[
    "proved", "proved_if_seed_secret", "proved_not_replayed", "published_only", "refuted",
    "not_private",
]  # fmt: skip
"""Status; ``proved_if_seed_secret``: a proof exists, but the seed is stored with the result;
``proved_not_replayed``: one exists, but no replay on neighbours tests it for these settings."""
Finite = Annotated[float, Field(allow_inf_nan=False)]

VACUOUS_EPSILON = 20.0
"""ε above which a guarantee is nearly meaningless and the statement is flagged."""

DECLARED = "declared documents"
"""Study of the releases of an owner's documents."""
PUBLIC_LINKS = "the links among these documents"
"""Public fact of a release that reads them without noise."""
AUDIT_CONFIDENCE = 0.999
"""Lowest confidence at which an audit may contradict a claim."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Mechanism(_Frozen):
    """One mechanism as it was run."""

    type: str
    clipping: Clipping | Bounding
    clip_norm: Finite | None
    """Clip norm; null where nothing is clipped to a norm."""
    sensitivity: Finite | None
    """Largest distance by which a unit moves a release that it touches; null without a bound."""
    noise_multiplier: Finite | None
    """Noise in units of the clip norm of a gradient or sum, else of the sensitivity; null where the
    release is described by its budget alone."""
    count: int
    parts: int
    """Number of disjoint parts of the training graph: 1 for the full graph."""
    sampling: str
    relation: Relation


class Selection(_Frozen):
    """Selection of the released configuration. ``build_statement`` writes ``cost``."""

    n_configs: int = Field(ge=1)
    data: str
    """Data of the selection score, in words."""
    public: bool = True
    """Whether the score reads only public data and a graph without private nodes."""
    cost: str = ""


class Audit(_Frozen):
    """Attack that bounds ε from below."""

    design: str
    unit: Unit
    relation: Relation
    delta: Finite
    runs: int
    epsilon_lower: Finite
    confidence: Finite


class About(_Frozen):
    """Subject of a statement: fields of the statement."""

    study: str
    dataset: str
    features: str
    method: str
    scenario: str
    """Scenario: what is private and what is public (``tasks.SCENARIOS``)."""
    protocol: str
    data_fingerprint: str
    """Hash of the dataset; under ``os_entropy`` keyed with secret bytes that are not kept."""


class AlsoProved(_Frozen):
    """ε of one run for another relation."""

    relation: Relation
    epsilon: Finite


_NOT_IDENTIFYING = {"statement_id", "status", "audit", "dp_events"}


class PrivacyStatement(About):
    """Guarantees of one result row, and their assumptions."""

    statement_id: str = ""
    """First 12 hexadecimal digits of the sha256 of the canonical JSON of the claim: all fields but
    this one, ``audit``, ``dp_events``, and ``status``, which an audit may change and which follows
    from the others."""
    package_version: str = __version__
    """Version of the package that computed the row."""
    status: Status
    unit: Unit
    """Protected unit."""
    relation: Relation
    """Change of the unit that neighbours differ in."""
    delta: Finite
    """δ of all ε of the statement."""
    n_units: int = Field(ge=1)
    """Number of units; at edge level an upper bound, declared beforehand."""
    epsilon_target: Finite | None
    """ε for which the noise was calibrated; null where the noise was given."""
    epsilon_published: Finite | None
    """ε by the paper's formula; null where no paper prints one."""
    published_formula: str | None
    """Formula behind ``epsilon_published``."""
    authors_accountant_epsilon: Finite | None
    """ε printed by the authors' cancelling accountant, where it differs."""
    epsilon_proved: Finite | None
    """Proved ε per run, settings fixed in advance; 0: nothing private is read; null: no proof."""
    also_proved: tuple[AlsoProved, ...] = ()
    """ε of one run for other relations: at edge level for ``replace``, a link elsewhere; of
    declared documents for a unit that is blanked."""
    proof: str
    """Proof of ``epsilon_proved`` in words, with the formula."""
    not_replayed: str = ""
    """Why no replay on neighbours tests the proof; left out where one does."""
    vacuous: bool
    """Whether ε proved (without a proof: published) exceeds 20."""
    n_runs_released: int = Field(ge=1)
    """Number of runs of this budget, with those of the search that chose its settings."""
    epsilon_all_runs: Finite | None
    """ε of these runs together; null where nothing is proved."""
    n_rows_counted: int = Field(ge=0)
    """Number of private rows in the same file."""
    n_rows_not_counted: int = Field(ge=0)
    """Number of rows without DP in the same file, which reveal the data."""
    epsilon_of_file: Finite | None
    """ε of all counted rows, at all budgets; null where nothing is proved."""
    proof_of_file: str
    """Proof of ``epsilon_of_file`` in words, or the reason why nothing is proved."""
    accountant: str
    """Accountant of ``epsilon_proved``, with its version."""
    epsilon_second_route: Finite | None
    """ε by an independent computation; null where there is none."""
    mechanisms: tuple[Mechanism, ...]
    """Mechanisms of one run."""
    dp_events: tuple[DpEvents, ...] = ()
    """The mechanisms of one run once more, for dp-accounting; more than one where they are about
    different units: the run costs the largest. Empty in older files."""
    noise_source: NoiseSource
    """Source of all random draws: a kept seed, or the operating system."""
    public_facts: tuple[str, ...]
    """Facts about the data that the claim takes to be public."""
    assumptions: tuple[str, ...]
    """Assumptions of the proof that no test covers."""
    inference: Inference
    """What else the guarantee covers beyond the parameters."""
    selection: Selection
    """Choice of the settings, and its cost."""
    preprocessing: str
    """Steps before the task that no guarantee covers."""
    audit: Audit | None = None
    """Attack on the same claim; null where none was made."""

    @model_serializer(mode="wrap")
    def _without_replay(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = whole(self)
        return {key: value for key, value in fields.items() if key != "not_replayed" or value}

    @model_validator(mode="after")
    def _identify(self) -> PrivacyStatement:
        content = self.model_dump(mode="json", exclude=_NOT_IDENTIFYING)
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        expected = hashlib.sha256(canonical.encode()).hexdigest()[:12]
        if self.statement_id not in ("", expected):
            raise ValueError(
                f"statement_id is {self.statement_id}, its content gives {expected}: "
                "the statement was changed after it was written"
            )
        if self.audit is not None:
            _check_audit(self.audit, self.unit, self.relation, self.delta, self.epsilon_proved)
        status = status_of(
            bool(self.mechanisms),
            self.noise_source,
            self.epsilon_published,
            self.epsilon_proved,
            self.audit,
            self.not_replayed,
        )
        if self.status != status:
            raise ValueError(
                f"status is {self.status}, the other fields give {status}: the statement was "
                "changed after it was written"
            )
        object.__setattr__(self, "statement_id", expected)
        return self

    @property
    def reads_nothing(self) -> bool:
        """Whether no private data were used. ε alone does not say so: it is also 0 where noise
        hides the data so well that δ covers everything."""
        return self.epsilon_proved == 0 and not self.mechanisms


def status_of(
    has_mechanisms: bool,
    noise_source: str,
    published: float | None,
    proved: float | None,
    audit: Audit | None,
    not_replayed: str = "",
) -> Status:
    """Return the status that follows from the other fields of a statement (§11)."""
    if not has_mechanisms and published is None and proved is None:
        return "not_private"
    if audit is not None and published is not None and audit.epsilon_lower > published:
        return "refuted"
    if proved is None:
        return "published_only"
    if has_mechanisms and not_replayed:
        return "proved_not_replayed"
    # without private data the seed hides nothing
    hidden = noise_source == "os_entropy" or not has_mechanisms
    return "proved" if hidden else "proved_if_seed_secret"


def _query_mechanism(event: Query) -> Mechanism:
    sums = event if event.type == "gaussian_sum" else None
    moved = getattr(event, "sensitivity", None)
    if sums:
        twice = sums.exchange or event.relation == "replace"
        moved = (2 if twice else 1) * sums.terms * sums.clip_norm
    scale = getattr(event, "noise_std", getattr(event, "scale", None))
    return Mechanism(
        type=event.type,
        clipping=event.clipping,
        clip_norm=sums.clip_norm if sums else None,
        sensitivity=moved,
        noise_multiplier=sums.noise_multiplier if sums else scale and scale / moved,
        count=event.count,
        parts=1,
        sampling=Poisson(sums.rate).describe() if sums else "none",
        relation=event.relation,
    )


def _mechanism(event: NoisyGradients | Query, unit: Unit, relation: Relation) -> Mechanism:
    if not isinstance(event, NoisyGradients):
        return _query_mechanism(event)
    from private_graphs.privacy.gradient_prices import sensitivity

    rate = event.sampling.rate if isinstance(event.sampling, Poisson) else None
    return Mechanism(
        type="gaussian_gradient",
        clipping=event.clipping,
        clip_norm=event.clip_norm,
        sensitivity=sensitivity(event, unit, relation),
        noise_multiplier=event.noise_multiplier,
        count=event.releases,
        parts=round(1 / rate) if rate else event.parts,
        sampling=event.sampling.describe(),
        relation=relation,
    )


def _mechanisms(event: Event, unit: Unit, relation: Relation) -> tuple[Mechanism, ...]:
    if isinstance(event, Unnoised):
        return ()
    if not isinstance(event, SecretSample):
        return (_mechanism(event, unit, relation),)
    inside = (_mechanism(release, unit, relation) for release in event.releases)
    sample = f"secret_sample({event.rate:g})"
    return tuple(
        part.model_copy(
            update={"sampling": sample if part.sampling == "none" else f"{part.sampling}, {sample}"}
        )
        for part in inside
    )


def _with_cost(
    selection: Selection, private: bool, epsilon_all: float | None, one_run: bool
) -> Selection:
    """Return ``selection`` with its cost, at least the composition of all trained runs (§5)."""
    n_configs = selection.n_configs
    if not private:
        cost = "none: the run is not private"
    elif n_configs == 1:
        cost = "none: the settings were fixed in advance"
    elif one_run and selection.public:
        cost = (
            f"none: the {n_configs} configurations are compared on public data by what one run "
            "released; no further run reads private data"
        )
    elif not selection.public:
        cost = (
            f"not accounted: the scores that choose among {n_configs} configurations read the "
            "private graph and are a further query"
        )
    elif epsilon_all is None:
        cost = f"nothing is proved for the runs of the {n_configs} configurations, nor the choice"
    else:
        cost = (
            f"the choice among {n_configs} configurations reads public data only and costs "
            "nothing beyond the composition of all trained runs: the selected run, as a "
            "selection, has epsilon_all_runs; epsilon_proved is that of one run whose learning "
            "rate is fixed in advance"
        )
    return selection.model_copy(update={"cost": cost})


def _finite(value: float | None, private: bool) -> float | None:
    return value if private and value is not None and math.isfinite(value) else None


def _accountants(prices: Prices) -> dict[str, Any]:
    return {
        "accountant": "; ".join(dict.fromkeys(event.accountant for event in prices.own)) or "none",
        "epsilon_second_route": prices.second_route,
    }


def _file_fields(file: FileRows) -> dict[str, Any]:
    return {
        "n_rows_counted": file.counted,
        "n_rows_not_counted": file.not_counted,
        "epsilon_of_file": file.epsilon,
        "proof_of_file": file.proof,
    }


def _check_audit(
    audit: Audit | None, unit: str, relation: str, delta: float, proved: float | None
) -> None:
    """Raise UserError if audit and claim cannot be compared, or the audit breaks the proof."""
    if audit is None:
        return
    covered = audit.relation == relation or relation == "replace"
    confident = audit.confidence >= AUDIT_CONFIDENCE
    if not (covered and confident and audit.unit == unit and audit.delta == delta):
        raise UserError(
            f"the audit '{audit.design}' ({audit.unit}, {audit.relation}, delta {audit.delta:g}, "
            f"confidence {audit.confidence:g}) cannot be compared with a claim for {unit}, "
            f"{relation}, delta {delta:g}; expected the same unit and delta, an equal or weaker "
            f"relation and confidence >= {AUDIT_CONFIDENCE}"
        )
    if proved is not None and audit.epsilon_lower > proved:
        raise UserError(
            f"the audit '{audit.design}' shows epsilon >= {audit.epsilon_lower:g} where "
            f"{proved:g} is proved: the training code breaks its proof; mend it before "
            "publishing any result"
        )


def _check_consistency(
    events: Sequence[Event],
    private: bool,
    reads_private: bool,
    n_runs_released: int,
    selection: Selection,
    one_run: bool,
) -> None:
    expected = private and reads_private
    if expected != bool(events):
        raise UserError(
            f"private is {private} with {len(events)} mechanisms; expected at least one mechanism "
            "of a private run and none of a non-private one or of one that reads nothing private"
        )
    if not one_run and n_runs_released < selection.n_configs:
        raise UserError(
            f"n_runs_released is {n_runs_released} with {selection.n_configs} configurations to "
            "choose from; every run whose score was compared counts as released"
        )


def build_statement(
    *,
    events: Sequence[Event],
    unit: Unit,
    relation: Relation,
    delta: float,
    n_units: int,
    epsilon_published: float | None,
    published_formula: str | None,
    n_runs_released: int,
    about: About,
    file: FileRows,
    noise_source: NoiseSource,
    inference: Inference,
    selection: Selection,
    preprocessing: str,
    public_facts: Sequence[str],
    assumptions: Sequence[str],
    private: bool,
    epsilon_target: float | None = None,
    noise_generator: str = "philox_float32",
    authors_accountant_epsilon: float | None = None,
    apart: Sequence[Event] = (),
    reads_private: bool = True,
    one_run: bool = False,
    others: Sequence[SearchRuns] = (),
) -> PrivacyStatement:
    """Compute the privacy cost of one run, and state what is proved, published, assumed and public.

    ``events`` are those of one run (none where ``private`` is False, nor where ``reads_private``
    is, for ε = 0); ``n_runs_released`` counts all runs with them that are released or whose scores
    were compared. ``others`` (runs released together, or of another job among which the choice was
    made) count too; ``file`` is the joint guarantee of all rows of the file.
    ``one_run``: no configuration but the released one was trained on private data. ``apart`` are
    events of the same run about other units: the division of units is public and no unit is in
    both, so the run costs the larger of the two (McSherry 2009, parallel composition), and so do
    all runs. ``n_units`` is a declared bound at edge level; ``noise_generator`` is a key of
    ``NOISE_GENERATORS``. UserError if no accountant covers an event.
    """
    check_delta(delta)
    n_all = n_runs_released + sum(run.n_runs for run in others)
    _check_consistency(events, private, reads_private, n_all, selection, one_run)
    claim = (unit, relation, delta, n_units)
    groups = [SearchRuns(tuple(events), n_runs_released), *others]
    prices = price_runs(claim, groups, reads_private, apart)
    proved = prices.proved
    published = _finite(epsilon_published, private)
    mechanisms = tuple(
        mechanism for event in (*events, *apart) for mechanism in _mechanisms(event, unit, relation)
    )
    return PrivacyStatement(
        **about.model_dump(),
        status=status_of(bool(mechanisms), noise_source, published, proved, None),
        **dict(zip(("unit", "relation", "delta", "n_units"), claim, strict=True)),
        epsilon_target=_finite(epsilon_target, private),
        epsilon_published=published,
        published_formula=published_formula if published is not None else None,
        authors_accountant_epsilon=_finite(authors_accountant_epsilon, private),
        epsilon_proved=proved,
        also_proved=() if proved is None else _also_proved(claim, events, apart),
        proof=prices.proof or "none: the run uses no noise",
        vacuous=(published or 0.0 if proved is None else proved) > VACUOUS_EPSILON,
        n_runs_released=n_all,
        epsilon_all_runs=prices.together,
        **_file_fields(file),
        **_accountants(prices),
        mechanisms=mechanisms,
        dp_events=dp_events(events, apart, claim[:3], reads_private),
        noise_source=noise_source,
        public_facts=tuple(public_facts),
        assumptions=assumptions_of(assumptions, prices, private, noise_source, noise_generator),
        inference=inference,
        selection=_with_cost(selection, private, prices.together, one_run),
        preprocessing=preprocessing,
    )


def _also_proved(
    claim: tuple[Unit, Relation, float, int], events: Sequence[Event], apart: Sequence[Event]
) -> tuple[AlsoProved, ...]:
    """Return further guarantees: for an edge moved elsewhere, for a unit left out.

    Of ``events`` and of those ``apart``, which no unit pays together, the larger one holds.
    """
    unit, relation, *_ = claim
    if apart and unit not in ("document", "person"):
        return ()
    if apart:
        groups = [_also_proved(claim, group, ()) for group in (events, apart)]
        return max(groups, key=lambda group: group[0].epsilon) if all(groups) else ()
    if unit.startswith("edge") and relation == "add_remove":
        from private_graphs.privacy.query_prices import replacing_epsilon

        epsilon, variant = replacing_epsilon(claim, events), "replace"
    elif unit in ("record", "document", "person") and relation == "replace":
        from private_graphs.privacy.query_prices import vanishing_epsilon

        epsilon, variant = vanishing_epsilon(claim, events)
    else:
        return ()
    return () if epsilon is None else (AlsoProved(relation=variant, epsilon=epsilon),)
