"""One case measured: both sides, the floor, the phases."""

from __future__ import annotations

from dataclasses import dataclass

from batched import Batched
from cases import Case
from floor import Floor, Rates, floor_of, products_alone
from phases import NAMES, phases
from timing import in_turns

from private_graphs.datasets.graph_dataset import GraphDataset


@dataclass(frozen=True)
class Measured:
    """One case: milliseconds per replica-epoch of everything that the page shows of it."""

    case: Case
    ours: float
    baselines: dict[str, float]
    notes: dict[str, str]
    floor: Floor
    products_alone: float
    phases: dict[str, float]

    @property
    def over_floor(self) -> float:
        """Measured time as a multiple of the floor."""
        return self.ours / self.floor.total


def measure(
    case: Case, dataset: GraphDataset, rates: Rates, replicas: int, rounds: int, seconds: float
) -> Measured:
    """Measure both sides of a case in turns, ``seconds`` per side and round, then our pieces."""
    ours = Batched(dataset, case.training, replicas)
    ours.epoch()
    sides = {"ours": ours.side} | {name: make(dataset) for name, make in case.baselines.items()}
    taken = in_turns(sides, rounds, seconds)
    own = taken.pop("ours")
    return Measured(
        case=case,
        ours=own,
        baselines=taken,
        notes={name: sides[name].note for name in taken},
        floor=floor_of(ours, rates),
        products_alone=products_alone(ours, seconds / 2),
        phases=phases(ours, seconds / 2),
    )


def records(measured: list[Measured], dataset: str, where: str) -> list[dict[str, object]]:
    """One row per comparison, for the CSV."""
    found = []
    for each in measured:
        for name, milliseconds in each.baselines.items():
            training, aim = each.case.training, each.case.aim(dataset, name)
            ratio = milliseconds / each.ours
            found.append(
                {
                    "case": training.title,
                    "protocol": training.protocol.name,
                    "optimizer": training.optimizer,
                    "splits": training.splits,
                    "noise_multiplier": training.noise,
                    "ours_ms": each.ours,
                    "floor_ms": each.floor.total,
                    "over_floor": each.over_floor,
                    "baseline": name,
                    "baseline_ms": milliseconds,
                    "baseline_measured": each.notes[name] or "whole epochs",
                    "ratio": ratio,
                    "aim": aim,
                    "reached": None if aim is None else ratio >= aim,
                    "mflop": each.floor.flops / 1e6,
                    "mb_moved": each.floor.bytes / 1e6,
                    "products_ms": each.floor.products,
                    "products_alone_ms": each.products_alone,
                    "draws": each.floor.draws,
                    "noise_ms": each.floor.noise,
                    "update_ms": each.floor.update,
                    **{f"{key.replace(' ', '_')}_ms": each.phases[key] for key in NAMES},
                    "machine": where,
                }
            )
    return found
