"""What the speed pages compare: cases, their baselines, and the ratios to reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from baselines import PlainLoop, plain_side
from batched import WHOLE_GRAPH_DP, Batched, Training
from timing import Side

from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.methods.gcn_protocols import PROTOCOLS

F64, F32 = "float64 loop", "float32 loop"
FULL64, INDUCED32 = "float64 loop, full forward", "float32 loop, induced parts"
WHOLE_DP = "batched DP full graph on the whole graph"
SPLITS = (10, 100)
_FULL_NOISE, _SPLIT_NOISE = 112.0, 35.0

AIMS: dict[str, dict[tuple[str, str], float]] = {
    "cora": {
        **{
            (f"non-private, {name}, SGD", loop): aim
            for name in PROTOCOLS
            for loop, aim in ((F64, 70), (F32, 28))
        },
        ("DP full graph, paper, SGD", F64): 55,
        ("DP full graph, paper, SGD", F32): 22,
        ("DP, 10 splits, paper, Adam", FULL64): 100,
        ("DP, 10 splits, paper, Adam", INDUCED32): 8,
        ("DP, 10 splits, sound, Adam", WHOLE_DP): 1 / 1.5,
        ("DP, 100 splits, paper, SGD", FULL64): 110,
    },
    "pubmed": {
        **{
            (f"{setting}, {name}, SGD", loop): aim
            for setting in ("non-private", "DP full graph")
            for name in PROTOCOLS
            for loop, aim in ((F64, 22), (F32, 9))
        },
        ("DP, 10 splits, paper, Adam", FULL64): 130,
    },
}
"""Dataset -> (case, baseline) -> smallest ratio; other comparisons are shown without an aim."""


@dataclass(frozen=True)
class Case:
    """Batched training against baselines, each made from the dataset when its turn comes."""

    training: Training
    baselines: Mapping[str, Callable[[GraphDataset], Side]]

    def aim(self, dataset: str, baseline: str) -> float | None:
        """The ratio to reach, if there is one."""
        return AIMS.get(dataset, {}).get((self.training.title, baseline))


def _plain(
    training: Training, dtype: str, longest: float, induced: bool = False
) -> Callable[[GraphDataset], Side]:
    """The plain loop that does what ``training`` does."""
    return lambda data: plain_side(PlainLoop(data, training, dtype, induced=induced), longest)


def _full_graph(training: Training, longest: float) -> Case:
    loops = {F64: "float64", F32: "float32"}
    return Case(training, {name: _plain(training, dtype, longest) for name, dtype in loops.items()})


def _with_splits(training: Training, longest: float, replicas: int) -> Case:
    """Steps part by part have plain loops to compare with; the per-epoch sum is one step, and
    compared with the one step of full-graph training."""
    if training.protocol.visits == "epoch_sum":
        yardstick = Training(WHOLE_GRAPH_DP, training.optimizer, training.noise, 1)
        return Case(training, {WHOLE_DP: lambda data: Batched(data, yardstick, replicas).side})
    return Case(
        training,
        {
            FULL64: _plain(training, "float64", longest),
            INDUCED32: _plain(training, "float32", longest, induced=True),
        },
    )


def cases(replicas: int, longest: float) -> list[Case]:
    """Every comparison of a page.

    ``longest`` is the number of seconds above which a plain loop's epoch is measured in part.
    """
    found = [
        _full_graph(Training(protocol, "sgd", noise, 1), longest)
        for noise in (0.0, _FULL_NOISE)
        for protocol in PROTOCOLS.values()
    ]
    for splits in SPLITS:
        for optimizer in ("adam",) if splits == 10 else ("sgd", "adam"):
            for protocol in PROTOCOLS.values():
                training = Training(protocol, optimizer, _SPLIT_NOISE, splits)
                found.append(_with_splits(training, longest, replicas))
    return found
