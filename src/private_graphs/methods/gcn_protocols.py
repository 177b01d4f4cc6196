"""The three protocols of the LREC 2022 GCN as values: what is clipped, which graph is read.

The trainer and its budget read the fields, never a protocol's name. Section numbers refer to
``docs/privacy.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from private_graphs.core.protocols import Protocol
from private_graphs.datasets import views


@dataclass(frozen=True, kw_only=True)
class GcnProtocol(Protocol):
    """How a GCN of the paper was trained and scored."""

    clipping: Literal["none", "global_norm"]
    """``none``: the gradient is not clipped (§4.1). ``global_norm``: one clip of all parameters."""

    message_passing: Literal["whole_graph", "induced"]
    """Graph of the training forward pass: the whole graph, or the subgraph induced by the
    training nodes and, with splits, by each part (§3)."""

    visits: Literal["shuffled", "epoch_sum", "poisson"]
    """With splits: one step per part in a fresh random order; one step per epoch on the sum of
    the clipped gradients of all parts (§3 A′); or steps that each part joins with probability
    1/s (§3 B)."""

    test_graph: Literal["whole_graph", "evaluated_mask"]
    """Graph of a scoring forward pass: the whole graph, or the evaluated nodes alone."""

    private_selection_graph: Literal["whole_graph", "evaluated_mask"]
    """The same, for the validation scores that choose a learning rate under DP."""

    dropout: Literal["first_epoch", "every_epoch"]
    """``first_epoch``: evaluation mode stays on after the first epoch (§4.0)."""

    stopped_weights: Literal["last", "best_validation"]
    """Weights that an early-stopped (non-private) run keeps."""

    subsampling: Literal["stratified", "keyed_coin"]
    """Sampling of a train fraction: per class, or by an independent coin per node (§3)."""


RELEASED = GcnProtocol(
    name="released",
    summary="what the authors' published code does: nothing is clipped, edges cross the splits",
    clipping="none",
    message_passing="whole_graph",
    visits="shuffled",
    test_graph="whole_graph",
    private_selection_graph="whole_graph",
    dropout="first_epoch",
    stopped_weights="last",
    unlabelled="class_zero",
    calibration="published",
    subsampling="stratified",
    random_baseline="without_last_class",
    inference="leaks",
    data=views.RELEASED,
)

PAPER = GcnProtocol(
    name="paper",
    summary="what the paper's text says: one global clip, induced parts, the paper's accounting",
    clipping="global_norm",
    message_passing="induced",
    visits="shuffled",
    test_graph="whole_graph",
    private_selection_graph="evaluated_mask",
    dropout="every_epoch",
    stopped_weights="best_validation",
    unlabelled="ignored",
    calibration="published",
    subsampling="stratified",
    random_baseline="all_classes",
    inference="leaks",
    data=views.PAPER,
)

SOUND = GcnProtocol(
    name="sound",
    summary="what can be proved: node-level replace, calibrated and scored without leaks",
    clipping="global_norm",
    message_passing="induced",
    visits="epoch_sum",
    test_graph="evaluated_mask",
    private_selection_graph="evaluated_mask",
    dropout="every_epoch",
    stopped_weights="best_validation",
    unlabelled="ignored",
    calibration="proved",
    subsampling="keyed_coin",
    random_baseline="all_classes",
    inference="inductive_disjoint",
    data=views.SOUND,
)

SOUND_POISSON = replace(
    SOUND, summary="as sound, with Poisson-sampled parts in place of the per-epoch sum",
    visits="poisson",
)  # fmt: skip

PROTOCOLS: dict[str, GcnProtocol] = {each.name: each for each in (RELEASED, PAPER, SOUND)}
