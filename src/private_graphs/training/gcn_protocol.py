"""What distinguishes one way to train the GCN of LREC 2022 from another.

The trainer depends on these fields, never on the name of a protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from private_graphs.datasets.protocols import Protocol


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
