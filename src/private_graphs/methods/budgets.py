"""From a requested ε to noise, events and a privacy statement, as a protocol's fields say."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from private_graphs.cells import CellPlan
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.methods.search import Search
from private_graphs.privacy.accountants import cancelling_moments_epsilon, moments_epsilon, price
from private_graphs.privacy.assumptions import NoiseSource
from private_graphs.privacy.calibration import (
    gdp_noise,
    moments_formula,
    pld_noise,
    published_noise,
    refuse_large_delta,
    target_epsilon,
)
from private_graphs.privacy.events import FullBatch, NoisyGradients, Poisson, Sampling, Shuffled
from private_graphs.privacy.prices import FileRows, SearchRuns, price_file
from private_graphs.privacy.statements import (
    About,
    PrivacyStatement,
    Selection,
    build_statement,
)
from private_graphs.protocols import Protocol

UNIT, RELATION = "node", "replace"
_DIFFERS = 1e-6
_RELABEL_TOUCHES = (1, 3, 4)
"""Parts that one relabelled node can touch after 0, 1 or 2 draws per class (docs/privacy.md §3)."""


@dataclass(frozen=True)
class Budget:
    """What one requested ε buys: the noise, and the statement of a run with it."""

    epsilon: float
    """As requested; infinity without DP."""
    noise_multiplier: float
    """In units of the clip norm; 0 without DP."""
    clip: float | None
    """Clip norm, None where nothing is clipped."""
    built: PrivacyStatement

    @property
    def private(self) -> bool:
        """Whether noise is added."""
        return not math.isinf(self.epsilon)

    @property
    def statement_id(self) -> str:
        """Identifier of the statement by its content."""
        return self.built.statement_id

    @cached_property
    def statement(self) -> dict:
        """The statement as JSON-able fields."""
        return self.built.model_dump(mode="json")

    @property
    def epsilon_published(self) -> float | None:
        """ε by the published formula, None where the protocol has none."""
        return self.built.epsilon_published

    @property
    def epsilon_proved(self) -> float | None:
        """Proved ε of one run, None where nothing is proved."""
        return self.built.epsilon_proved

    @property
    def unit(self) -> str | None:
        """Unit of the claim, None without DP."""
        return self.built.unit if self.private else None

    @property
    def relation(self) -> str | None:
        """Relation of the claim, None without DP."""
        return self.built.relation if self.private else None


def budget(
    plan: CellPlan,
    protocol: Protocol,
    dataset: GraphDataset,
    epsilon: float,
    noise_source: NoiseSource,
    device: str = "cpu",
    search: Search | None = None,
    fingerprint: str | None = None,
) -> Budget:
    """Calibrate the noise of ``epsilon`` and state what a run with it guarantees.

    ``search`` is the finished choice of ``plan.chosen_in``, where it has one; ``fingerprint`` what
    is told of the dataset's own (``result.told_fingerprint``; default: the same). Raises
    UserError for a budget that the protocol cannot be calibrated for, and, where the protocol
    claims a proof, for delta · (number of training nodes) >= 1.
    """
    private = not math.isinf(epsilon)
    n_units = int(dataset.train_mask.sum())
    if private and protocol.calibration == "proved":
        refuse_large_delta(plan.delta, n_units)
    file = _file_rows(plan, protocol, n_units, dataset.info.node_sample, search)
    if noise_source == "os_entropy":  # the rows without DP lie in a file of their own
        file = replace(file, not_counted=0) if private else _nothing_counted(file)
    search = search if private else None
    noise = _noise(plan, protocol, epsilon) if private else 0.0
    clips = private and protocol.clipping == "global_norm"
    node_sample = dataset.info.node_sample
    built = build_statement(
        events=[training_event(plan, protocol, noise, node_sample)] if private else [],
        unit=UNIT,
        relation=RELATION,
        delta=plan.delta,
        n_units=n_units,
        n_runs_released=len(plan.seeds) * plan.n_learning_rates(epsilon),
        about=About(
            study=plan.cell.study,
            dataset=plan.cell.dataset,
            features=plan.cell.features,
            method=plan.cell.method,
            scenario=None,
            protocol=plan.cell.protocol,
            data_fingerprint=fingerprint or dataset.fingerprint,
        ),
        file=file,
        noise_source=noise_source,
        noise_generator="torch_cuda" if device == "cuda" else f"philox_{plan.dtype}",
        inference=protocol.inference,
        selection=_selection(plan, protocol, epsilon, search),
        search=_search_runs(plan, protocol, search, node_sample) if search else None,
        preprocessing=_preprocessing(dataset),
        public_facts=_public_facts(plan, protocol, dataset, noise_source),
        assumptions=[],
        private=private,
        epsilon_target=None if plan.noise_multiplier or not private else target_epsilon(epsilon),
        **(_published(plan, protocol, noise) if private else _UNPUBLISHED),
    )
    return Budget(epsilon, noise, plan.clip_norm if clips else None, built)


@lru_cache(maxsize=64)
def _file_rows(
    plan: CellPlan,
    protocol: Protocol,
    n_units: int,
    node_sample: str | None,
    search: Search | None,
) -> FileRows:
    """What all rows of the cell prove together, with the runs of the search that they rest on."""
    groups, without = [], 0
    for epsilon in plan.epsilons:
        count = len(plan.seeds) * plan.n_learning_rates(epsilon)
        if math.isinf(epsilon):
            without += count
        else:
            event = training_event(plan, protocol, _noise(plan, protocol, epsilon), node_sample)
            groups.append(SearchRuns((event,), count))
    if groups and search:
        groups.append(_search_runs(plan, protocol, search, node_sample))
    return price_file((UNIT, RELATION, plan.delta, n_units), groups, without)


def _nothing_counted(file: FileRows) -> FileRows:
    return FileRows(None, "none: no row of the file is private", 0, file.not_counted)


def training_event(
    plan: CellPlan,
    protocol: Protocol,
    noise_multiplier: float,
    node_sample: str | None = None,
) -> NoisyGradients:
    """Describe what a private run releases: noisy gradients, one release per step.

    ``node_sample`` is how the training nodes of the dataset itself were sampled, if they were
    (``DatasetInfo.node_sample``).
    """
    splits, epochs = plan.cell.splits, plan.epochs
    sampling: Sampling
    if splits == 1 or protocol.visits == "epoch_sum":
        sampling, releases = FullBatch(parts=splits), epochs
    elif protocol.visits == "shuffled":
        sampling, releases = Shuffled(parts=splits), splits * epochs
    else:
        sampling, releases = Poisson(rate=1 / splits), splits * epochs
    draws = (node_sample == "stratified") + (
        protocol.subsampling == "stratified" and plan.cell.train_fraction < 1
    )
    return NoisyGradients(
        clipping="gradient_global" if protocol.clipping == "global_norm" else "none",
        clip_norm=plan.clip_norm,
        noise_multiplier=noise_multiplier,
        releases=releases,
        epochs=epochs,
        sampling=sampling,
        relabel_touches=_RELABEL_TOUCHES[draws] if splits > 1 else 1,
    )


def epsilon_of_noise(plan: CellPlan, protocol: Protocol, noise_multiplier: float) -> float:
    """Return the ε that the protocol attaches to a given noise: published or proved."""
    if protocol.calibration == "published":
        rate, steps = 1 / plan.cell.splits, plan.cell.splits * plan.epochs
        return moments_epsilon(noise_multiplier, steps, rate, plan.delta)
    event = training_event(plan, protocol, noise_multiplier)
    return price(event, UNIT, RELATION, plan.delta).epsilon


def _noise(plan: CellPlan, protocol: Protocol, epsilon: float) -> float:
    if plan.noise_multiplier is not None:
        return plan.noise_multiplier
    splits, epochs = plan.cell.splits, plan.epochs
    if protocol.calibration == "published":
        return published_noise(
            epsilon, plan.cell.optimizer, splits, epochs, plan.delta
        ).noise_multiplier
    target = target_epsilon(epsilon)
    if protocol.visits == "poisson" and splits > 1:
        return pld_noise(target, splits * epochs, 1 / splits, plan.delta, RELATION)
    return gdp_noise(target, epochs, plan.delta, RELATION)


def _preprocessing(dataset: GraphDataset) -> str:
    degrees = "degrees are counted inside each message-passing graph"
    if not dataset.info.preprocessing:
        return f"none: raw features; {degrees}"
    sentences = [each.rstrip(".") for each in (*dataset.info.preprocessing, degrees)]
    return " ".join(f"{each[0].upper()}{each[1:]}." for each in sentences)


_UNPUBLISHED = {"epsilon_published": None, "published_formula": None}


def _published(plan: CellPlan, protocol: Protocol, noise: float) -> dict[str, object]:
    """Published ε of the noise; for unclipped training also what the authors' code prints."""
    if protocol.calibration != "published":
        return _UNPUBLISHED
    rate, steps = 1 / plan.cell.splits, plan.cell.splits * plan.epochs
    published = moments_epsilon(noise, steps, rate, plan.delta)
    found: dict[str, object] = {
        "epsilon_published": published,
        "published_formula": moments_formula(rate, steps),
    }
    if protocol.clipping == "none":
        printed = cancelling_moments_epsilon(noise, steps, rate, plan.delta)
        if math.isfinite(printed) and abs(printed - published) > _DIFFERS:
            found["authors_accountant_epsilon"] = printed
    return found


def _search_runs(
    plan: CellPlan, protocol: Protocol, search: Search, node_sample: str | None
) -> SearchRuns:
    """What the runs of the search released: other noise, and perhaps other nodes."""
    searched = plan.model_copy(update={"cell": search.choice.cell, "epochs": search.epochs})
    event = training_event(searched, protocol, search.noise_multiplier, node_sample)
    return SearchRuns(events=(event,), n_runs=search.n_runs)


def _selection(
    plan: CellPlan, protocol: Protocol, epsilon: float, search: Search | None
) -> Selection:
    n_configs = search.n_rates if search else plan.n_learning_rates(epsilon)
    if n_configs == 1:
        return Selection(n_configs=1, data="nothing: the learning rate is fixed in advance")
    private = not math.isinf(epsilon)
    graph = protocol.private_selection_graph if private else protocol.test_graph
    public = graph == "evaluated_mask"
    seen = "the graph that they induce" if public else "the whole graph, training nodes included"
    data = f"mean micro-F1 over the seeds on the validation nodes, scored on {seen}"
    if search:
        data += (
            f"; chosen once, among {search.n_runs} runs at epsilon = {search.choice.epsilon:g} "
            f"(noise multiplier {search.noise_multiplier:g}) on all training nodes, and reused here"
        )
    return Selection(n_configs=n_configs, data=data, public=public)


def _public_facts(
    plan: CellPlan, protocol: Protocol, dataset: GraphDataset, noise_source: NoiseSource
) -> list[str]:
    """What the dataset declares public, then what the run itself needs to be so."""
    told = (
        (
            "the majority class of the training labels (baseline row)",
            "a hash of the dataset and its sizes: they identify the data and are not covered",
        )
        if noise_source == "seeded"
        else ("the sizes of the dataset: they are not covered",)
    )
    facts = [
        *dataset.info.public_facts,
        *told,
        "all settings of the run: epochs, learning rates, clip norm, noise multiplier, splits",
    ]
    if dataset.info.features == "bow":
        facts.append("the number of words that are counted (columns of the features)")
    if plan.cell.splits > 1:
        facts.append("the partition into parts, drawn without looking at the graph")
    if plan.cell.train_fraction < 1 and protocol.subsampling == "keyed_coin":
        facts.append("which training nodes are used, drawn without looking at the graph")
    return facts
