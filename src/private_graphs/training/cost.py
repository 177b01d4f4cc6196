"""How long a cell trains, before it does."""

from __future__ import annotations

from private_graphs.cells import CellPlan
from private_graphs.datasets.registry import GraphSize
from private_graphs.protocols import PROTOCOLS

JOB_SECONDS = 6.0
"""Start of Python, loading, accounting and saving, whatever the cell."""
_NONZERO, _EDGE, _NODE = 4.0e-9, 1.0e-8, 8.0e-8
"""Seconds per feature non-zero, directed edge and node of one forward and backward pass."""
_DRAW, _SGD, _ADAM = 1.4e-9, 0.7e-9, 1.2e-9
"""Seconds per parameter and step: one Gaussian draw, one update."""
_VALIDATION = 0.3
"""Share of a pass over the whole graph that scoring the validation nodes takes."""


def estimate_seconds(plan: CellPlan, size: GraphSize) -> float:
    """Estimate the seconds that one core takes for all replicas of a plan, job start included.

    Constants come from runs on one server core; early stopping is not foreseen, so non-private
    cells tend to take less.
    """
    cell, protocol = plan.cell, PROTOCOLS[plan.cell.protocol]
    width = plan.hidden / 32 * (2 if plan.dtype == "float64" else 1)
    whole = width * (size.nonzeros * _NONZERO + 2 * size.edges * _EDGE + size.nodes * _NODE)
    if protocol.message_passing == "induced":
        training = whole * cell.train_fraction * size.train_nodes / size.nodes
    else:  # with splits each step reads the neighbours' neighbours of one part
        training = whole * min(cell.splits, 1 + 0.45 * (cell.splits - 1))
    visits = protocol.visits if cell.visits == "protocol" else cell.visits
    steps = 1 if visits == "epoch_sum" else cell.splits
    parameters = plan.hidden * (size.features + size.classes + 1) + size.classes
    update = _ADAM if cell.optimizer == "adam" else _SGD
    total = 0.0
    for epsilon in plan.epsilons:
        private = epsilon != float("inf")
        grid = plan.private_learning_rates if private else plan.learning_rates
        epoch = training + steps * parameters * (update + (_DRAW if private else 0.0))
        epoch += 0.0 if private else whole * _VALIDATION
        total += len(grid) * len(plan.seeds) * plan.epochs * epoch
    return JOB_SECONDS + total
