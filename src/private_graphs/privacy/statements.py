"""The privacy statement that every result row carries, as one immutable, JSON-safe value.

Fields and rules: ``docs/privacy.md`` §11. A statement is built from the events that a training
run emitted; nothing in it is typed by hand but what no code can know (what is public, what is
assumed).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from private_graphs.errors import UserError
from private_graphs.privacy.accountants import (
    PricedEvent,
    compose_groups,
    price,
    sensitivity,
)
from private_graphs.privacy.checks import check_delta, delta_too_large
from private_graphs.privacy.events import (
    Bounding,
    Clipping,
    ConcentratedQuery,
    Event,
    ExponentialChoice,
    GaussianQuery,
    LaplaceQuery,
    NoisyGradients,
    Poisson,
    PoissonSums,
    PureQuery,
    Query,
)

Unit = Literal[
    "graph",
    "subgraph",
    "node",
    "node_out_list",
    "edge_directed",
    "edge_undirected",
    "record",
    "class",
    "subclass",
]
Relation = Literal["add_remove", "zero_out", "replace"]
Inference = Literal[
    "params_only", "joint_dp_predictions", "inductive_disjoint", "noisy_rows", "leaks"
]
"""What is covered beside the parameters; ``noisy_rows``: every prediction, computed from noisy
releases and public data alone."""
Status = Literal["proved", "published_only", "refuted", "not_private"]
NoiseSource = Literal["seeded", "os_entropy"]
Finite = Annotated[float, Field(allow_inf_nan=False)]

VACUOUS_EPSILON = 20.0
"""Above it a guarantee says next to nothing and the statement is flagged."""

AUDIT_CONFIDENCE = 0.999
"""Lowest confidence at which an audit may contradict a claim."""

_NOT_HARDENED = (
    ": not a cryptographic generator, not hardened against floating-point attacks; the proof "
    "supposes exact Gaussian noise"
)
NOISE_GENERATORS = {
    "numpy": "noise is NumPy's float64 generator: Gaussian by ziggurat over PCG64, seeded with 256 "
    "bits" + _NOT_HARDENED,
    "philox_float32": "noise is float32 Box-Muller over Philox4x32-10, a counter-based generator "
    "with a 128-bit key and a 40-bit radius" + _NOT_HARDENED,
    "philox_float64": "noise is float64 Box-Muller over Philox4x32-10, a counter-based generator "
    "with a 128-bit key and a 40-bit radius" + _NOT_HARDENED,
    "discrete_gaussian": "noise is an exactly sampled discrete Gaussian on a public lattice "
    "(docs/privacy.md §0.6)",
    "torch_cuda": "noise is PyTorch's normal generator on the GPU, Philox with a 64-bit key"
    + _NOT_HARDENED,
}
"""What stands in the assumptions about the noise, by the generator that drew it."""
SECRET_SEED = "the guarantee supposes a secret seed; this run's seed is kept"
ONLY_THESE_RUNS = "only the runs counted in n_runs_released are released from the private data"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Mechanism(_Frozen):
    """One mechanism as it was run."""

    type: str
    clipping: Clipping | Bounding
    clip_norm: Finite | None
    """Null where nothing is clipped to a norm."""
    sensitivity: Finite | None
    """Farthest that one unit moves one release it touches; null where nothing bounds it."""
    noise_multiplier: Finite | None
    """Noise in units of the clip norm of a gradient or sum, else of the sensitivity; null where
    the release is described by its budget alone."""
    count: int
    parts: int
    """Disjoint parts of the training graph: 1 on the full graph."""
    sampling: str
    relation: Relation


class Selection(_Frozen):
    """How the released configuration was chosen. ``build_statement`` writes ``cost``."""

    n_configs: int = Field(ge=1)
    data: str
    """What the choosing score was computed on, in words."""
    public: bool = True
    """True where the score reads public data and a graph without private nodes only."""
    cost: str = ""


@dataclass(frozen=True)
class SearchRuns:
    """Runs with other events that count too: of a search in another cell, or released beside."""

    events: tuple[Event, ...]
    """Those of one run."""
    n_runs: int


class Audit(_Frozen):
    """An attack that bounds ε from below."""

    design: str
    unit: Unit
    relation: Relation
    delta: Finite
    runs: int
    epsilon_lower: Finite
    confidence: Finite


class PrivacyStatement(_Frozen):
    """What one result row guarantees, and under which assumptions."""

    statement_id: str = ""
    """First 12 hexadecimal digits of the sha256 of the canonical JSON without this field."""
    status: Status
    unit: Unit
    relation: Relation
    delta: Finite
    n_units: int = Field(ge=1)
    epsilon_target: Finite | None
    """ε that the noise was calibrated for; null where the noise was given."""
    epsilon_published: Finite | None
    published_formula: str | None
    authors_accountant_epsilon: Finite | None
    """What the authors' cancelling accountant prints, where it differs."""
    epsilon_proved: Finite | None
    """Per run, with its settings fixed in advance; null where nothing is proved."""
    proof: str
    vacuous: bool
    n_runs_released: int = Field(ge=1)
    epsilon_all_runs: Finite | None
    accountant: str
    epsilon_second_route: Finite | None
    mechanisms: tuple[Mechanism, ...]
    noise_source: NoiseSource
    public_facts: tuple[str, ...]
    assumptions: tuple[str, ...]
    inference: Inference
    selection: Selection
    preprocessing: str
    audit: Audit | None = None

    @model_validator(mode="after")
    def _identify(self) -> PrivacyStatement:
        content = self.model_dump(mode="json", exclude={"statement_id"})
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        expected = hashlib.sha256(canonical.encode()).hexdigest()[:12]
        if self.statement_id not in ("", expected):
            raise ValueError(
                f"statement_id is {self.statement_id}, its content gives {expected}: "
                "the statement was changed after it was written"
            )
        object.__setattr__(self, "statement_id", expected)
        return self


_QUERY_TYPES = {
    GaussianQuery: "gaussian",
    LaplaceQuery: "laplace",
    ExponentialChoice: "exponential",
    PureQuery: "pure",
    ConcentratedQuery: "concentrated",
    PoissonSums: "gaussian_sum",
}


def _query_mechanism(event: Query) -> Mechanism:
    sums = isinstance(event, PoissonSums)
    moved = getattr(event, "sensitivity", None)
    if sums:
        moved = (2 if event.relation == "replace" else 1) * event.terms * event.clip_norm
    scale = getattr(event, "noise_std", getattr(event, "scale", None))
    return Mechanism(
        type=_QUERY_TYPES[type(event)],
        clipping=event.clipping,
        clip_norm=event.clip_norm if sums else None,
        sensitivity=moved,
        noise_multiplier=event.noise_multiplier if sums else scale and scale / moved,
        count=event.count,
        parts=1,
        sampling=Poisson(event.rate).describe() if sums else "none",
        relation=event.relation,
    )


def _mechanism(event: Event, unit: Unit, relation: Relation) -> Mechanism:
    if not isinstance(event, NoisyGradients):
        return _query_mechanism(event)
    sampled = isinstance(event.sampling, Poisson)
    return Mechanism(
        type="gaussian_gradient",
        clipping=event.clipping,
        clip_norm=event.clip_norm,
        sensitivity=sensitivity(event, unit, relation),
        noise_multiplier=event.noise_multiplier,
        count=event.releases,
        parts=round(1 / event.sampling.rate) if sampled else event.parts,
        sampling=event.sampling.describe(),
        relation=relation,
    )


def _with_cost(
    selection: Selection, private: bool, epsilon_all: float | None, one_run: bool
) -> Selection:
    """Write what the choice costs: never less than the composition of all trained runs (§5)."""
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
    elif one_run:
        cost = (
            f"charged: the choice among {n_configs} configurations is one of the mechanisms of "
            "this run, and epsilon_proved covers it"
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


def _assumptions(
    given: Sequence[str],
    prices: _Prices,
    private: bool,
    noise_source: str,
    generator: str,
) -> tuple[str, ...]:
    listed = list(given)
    if private and prices.own:  # nothing is supposed of noise where nothing private is read
        for priced, _ in prices.groups:
            for each in priced:
                listed += each.conditions
        listed += [NOISE_GENERATORS[generator], ONLY_THESE_RUNS]
        if noise_source == "seeded":
            listed.append(SECRET_SEED)
    return tuple(dict.fromkeys(listed))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _check_audit(
    audit: Audit, unit: str, relation: str, delta: float, proved: float | None
) -> None:
    """Raise UserError where audit and claim cannot be compared, or the audit breaks the proof."""
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


def _status(
    private: bool, published: float | None, proved: float | None, audit: Audit | None
) -> Status:
    if not private:
        return "not_private"
    if audit is not None and published is not None and audit.epsilon_lower > published:
        return "refuted"
    return "published_only" if proved is None else "proved"


def _proved(
    events: Sequence[Event], unit: Unit, relation: Relation, delta: float, n_units: int
) -> tuple[tuple[PricedEvent, ...], float | None, str]:
    """Priced events, ε of one run, and the proof in words."""
    priced = tuple(price(event, unit, relation, delta) for event in events)
    proof = "; ".join(each.proof for each in priced)
    if delta_too_large(delta, n_units):
        refusal = f"none: delta x units = {delta * n_units:g} is not below 1"
        return priced, None, f"{refusal} ({proof})"
    return priced, compose_groups([(priced, 1)], delta), proof


NOTHING_READ = ((), 0.0, "nothing private is read, so that one unit changes nothing")
"""Price of a run on public data alone."""


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


@dataclass(frozen=True)
class _Prices:
    """What all mechanisms cost together."""

    proved: float | None
    """ε of one run."""
    together: float | None
    """ε of all runs."""
    proof: str
    own: tuple[PricedEvent, ...]
    """Of one run."""
    groups: tuple[tuple[tuple[PricedEvent, ...], int], ...]
    """Of all runs, with their number."""

    @property
    def second_route(self) -> float | None:
        """ε by an independent computation, where one mechanism is all there is."""
        return self.own[0].second_route if len(self.own) == 1 and self.proved else None


def _prices(
    claim: tuple[Unit, Relation, float, int],
    runs: Sequence[SearchRuns],
    reads_private: bool,
    apart: Sequence[Event],
    apart_in_all_runs: bool,
) -> _Prices:
    """Price one run, the first of ``runs``, and all of them; the rest as in ``build_statement``."""
    delta, (first, *further) = claim[2], runs
    priced, proved, proof = _proved(first.events, *claim) if reads_private else NOTHING_READ
    groups = [(priced, first.n_runs)]
    for each in further:
        groups.append((tuple(price(event, *claim[:3]) for event in each.events), each.n_runs))
    together = compose_groups(groups, delta) if reads_private and proved is not None else proved
    if not apart or proved is None:
        return _Prices(proved, together, proof, priced, tuple(groups))
    aside, theirs, words = _proved(apart, *claim)
    n_all = sum(count for _, count in groups)
    if apart_in_all_runs:
        together = max(together, compose_groups([(aside, n_all)], delta))
    return _Prices(
        proved=max(proved, theirs),
        together=together,
        proof=f"{proof}; about units that no other mechanism reads: {words}; the larger of the two",
        own=(*priced, *aside),
        groups=(*groups, (aside, n_all)),
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
    search: SearchRuns | None = None,
    audit: Audit | None = None,
    apart: Sequence[Event] = (),
    reads_private: bool = True,
    one_run: bool = False,
    others: Sequence[SearchRuns] = (),
    apart_in_all_runs: bool = True,
) -> PrivacyStatement:
    """Price the events of one run and state what is proved, published, assumed and public.

    ``events`` are those of one run (none where ``private`` is False, nor where ``reads_private``
    is, for ε = 0); ``n_runs_released`` counts all runs with these events that are released or whose
    scores were compared: seeds × configurations. ``search`` (where the choice was made among runs
    of another cell) and ``others`` (released beside) count and compose too. ``one_run`` says that
    no configuration but the released one was trained on private data: the choice is public or one
    of the events. ``apart`` are events of the same run about other units: who is which is public
    and no unit is in both, so the run costs the larger of the two (McSherry 2009, parallel
    composition). Without ``apart_in_all_runs`` other runs read those units in the clear, and
    ``epsilon_all_runs`` leaves them out. ``n_units`` is the number of private units;
    ``noise_generator`` a key of ``NOISE_GENERATORS``. UserError where nothing prices an event, or
    an audit exceeds what is proved.
    """
    check_delta(delta)
    further = [*others, *([search] if search else [])]
    n_all = n_runs_released + sum(each.n_runs for each in further)
    _check_consistency(events, private, reads_private, n_all, selection, one_run)
    claim = (unit, relation, delta, n_units)
    groups = [SearchRuns(tuple(events), n_runs_released), *further]
    prices = _prices(claim, groups, reads_private, apart, apart_in_all_runs)
    proved = prices.proved
    published = _finite(epsilon_published) if private else None
    flagged = proved if proved is not None else published
    if audit is not None:
        _check_audit(audit, unit, relation, delta, proved)
    return PrivacyStatement(
        status=_status(private, published, proved, audit),
        unit=unit,
        relation=relation,
        delta=delta,
        n_units=n_units,
        epsilon_target=_finite(epsilon_target) if private else None,
        epsilon_published=published,
        published_formula=published_formula if published is not None else None,
        authors_accountant_epsilon=_finite(authors_accountant_epsilon) if private else None,
        epsilon_proved=proved,
        proof=prices.proof or "none: the run uses no noise",
        vacuous=flagged is not None and flagged > VACUOUS_EPSILON,
        n_runs_released=n_all,
        epsilon_all_runs=prices.together,
        accountant="; ".join(dict.fromkeys(each.accountant for each in prices.own)) or "none",
        epsilon_second_route=prices.second_route,
        mechanisms=tuple(_mechanism(event, unit, relation) for event in (*events, *apart)),
        noise_source=noise_source,
        public_facts=tuple(public_facts),
        assumptions=_assumptions(assumptions, prices, private, noise_source, noise_generator),
        inference=inference,
        selection=_with_cost(selection, private, prices.together, one_run),
        preprocessing=preprocessing,
        audit=audit,
    )


def with_audit(statement: PrivacyStatement, audit: Audit) -> PrivacyStatement:
    """Return ``statement`` with ``audit`` and the status that follows: another statement_id (§11).

    Raises UserError where the statement claims nothing, where audit and claim cannot be compared
    (another unit or δ, a stronger relation, less than ``AUDIT_CONFIDENCE``), and where the audit
    exceeds what is proved.
    """
    if statement.status == "not_private":
        raise UserError(
            f"statement {statement.statement_id} is of a run without noise; expected a claim that "
            f"the audit '{audit.design}' can be compared with"
        )
    proved = statement.epsilon_proved
    _check_audit(audit, statement.unit, statement.relation, statement.delta, proved)
    status = _status(True, statement.epsilon_published, proved, audit)
    fields = statement.model_dump(exclude={"statement_id"})
    return PrivacyStatement.model_validate(fields | {"audit": audit, "status": status})


def _budget(epsilon: float | None) -> str:
    return "none" if epsilon is None else f"{epsilon:.4g}"


def render_text(statement: PrivacyStatement) -> str:
    """Return the statement as a few lines for a terminal."""
    if statement.status == "not_private":
        head = "not private: no noise was added"
        return f"privacy     {head}\nstatement   {statement.statement_id}"
    proved = (
        f"epsilon {_budget(statement.epsilon_proved)} per run"
        f"{' (vacuous)' if statement.vacuous else ''}"
        if statement.epsilon_proved is not None
        else "nothing"
    )
    claim = f"{statement.unit}, {statement.relation}, at delta {statement.delta:g}"
    lines = [
        ("privacy", statement.status.replace("_", " ")),
        ("proved", f"{proved} for {claim}"),
        ("because", statement.proof),
    ]
    if statement.epsilon_published is not None:
        formula = f" ({statement.published_formula})" if statement.published_formula else ""
        lines.append(("published", f"epsilon {_budget(statement.epsilon_published)}{formula}"))
    if statement.epsilon_all_runs is not None and statement.n_runs_released > 1:
        together = _budget(statement.epsilon_all_runs)
        lines.append(("all runs", f"epsilon {together} for {statement.n_runs_released} runs"))
    if statement.selection.n_configs > 1:
        lines.append(("selection", statement.selection.cost))
    lines += [
        ("inference", statement.inference),
        ("prepared", statement.preprocessing),
        ("noise", statement.noise_source),
        ("supposing", "; ".join(statement.assumptions)),
        ("public", "; ".join(statement.public_facts) or "nothing"),
        ("statement", statement.statement_id),
    ]
    return "\n".join(f"{name:<12}{value}" for name, value in lines)
