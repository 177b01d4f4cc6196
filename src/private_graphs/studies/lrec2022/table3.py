"""Table 3 of LREC 2022: the noise for each ε on the full graph. Nothing is trained."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from private_graphs.methods import gcn_protocols
from private_graphs.privacy.accountants import gdp_epsilon
from private_graphs.privacy.gradient_prices import sensitivity
from private_graphs.privacy.moments import moments_epsilon
from private_graphs.report.columns import beside, lookup
from private_graphs.report.words import OPTIMIZERS, VACUOUS, budget, missing, number, strength
from private_graphs.running.exhibit import NOTHING, Cell, Column, Exhibit, Table
from private_graphs.training.gcn_protocol import GcnProtocol

EPSILONS = (2, 5, 10, 137)
"""Nominal values: the paper prints 136.51 for the last."""
KEY = ["epsilon", "optimizer", "epochs"]


def noise_row(
    epsilon: float, optimizer: str, epochs: int, protocol: GcnProtocol, delta: float
) -> dict[str, Any]:
    """Return noise, ε of the paper's formula and proved ε of one protocol."""
    settings = gcn_protocols.GcnSettings(optimizer=optimizer, epochs=epochs)
    noise = gcn_protocols.noise_multiplier(epsilon, settings, protocol, delta)
    printed = gcn_protocols.claim(settings, protocol, noise, delta)
    # The event's privacy cost without its second route, which takes seconds per row.
    moved = sensitivity(
        gcn_protocols.training_event(settings, protocol, noise),
        gcn_protocols.UNIT,
        gcn_protocols.RELATION,
    )
    proved = None if moved is None else gdp_epsilon(moved * math.sqrt(epochs) / noise, delta)
    return {
        "epsilon": epsilon, "optimizer": optimizer, "epochs": epochs, "delta": delta,
        "protocol": protocol.name, "noise_multiplier": noise,
        "epsilon_formula": moments_epsilon(noise, epochs, 1.0, delta),
        "authors_epsilon": printed and printed.authors_epsilon,
        "epsilon_proved": proved, "unit": gcn_protocols.UNIT, "relation": gcn_protocols.RELATION,
    }  # fmt: skip


def build(results: Any) -> list[Table]:
    """Return the noise of every protocol next to the paper's."""
    delta = results.study.delta
    frame = pd.DataFrame([
        noise_row(epsilon, optimizer, epochs, protocol, delta)
        for epsilon in EPSILONS
        for optimizer, epochs in gcn_protocols.PRINTED_EPOCHS.items()
        for protocol in gcn_protocols.PROTOCOLS.values()
    ])  # fmt: skip
    paper = {
        round(row["epsilon"], 2): row for row in results.published("table3").to_dict("records")
    }
    at = lookup(frame, [*KEY, "protocol"])

    def printed(row: dict[str, Any], name: str) -> float | None:
        formula = at(row, protocol="paper")["epsilon_formula"]
        return paper.get(round(formula, 2), {}).get(name)

    shows = {"noise": lambda row: number(row["noise_multiplier"]), "ε, formula": formula,
             "ε proved": proved}  # fmt: skip

    columns = [
        Column("ε", lambda row: number(row["epsilon"])),
        Column("optimizer", lambda row: OPTIMIZERS[row["optimizer"]]),
        Column("epochs", lambda row: number(row["epochs"])),
        Column("ε", lambda row: number(printed(row, "epsilon"), 2), "published"),
        Column("noise", lambda row: number(printed(row, f"noise_{row['optimizer']}")), "published"),
        *beside(frame, KEY, "protocol", gcn_protocols.PROTOCOLS, shows, ("ε, formula",)),
    ]
    notes = (
        *(f"{protocol.name}: {protocol.summary}." for protocol in gcn_protocols.PROTOCOLS.values()),
        "ε, formula: the paper's moments accountant, q = 1; in brackets what the authors' float64 "
        "sum returns where it differs.",
        "ε proved: exact Gaussian DP, node level, replace; rounded up.",
    )
    title = "Table 3. Noise multipliers for an ε on the full graph"
    return [Table(title, frame, columns, notes, lines=frame[KEY].drop_duplicates())]


def formula(row: dict[str, Any]) -> str:
    """Format ε of the formula, with the authors' own number if it differs in two decimals."""
    words, authors = number(row["epsilon_formula"], 2), number(row["authors_epsilon"], 2)
    return words if authors in (words, NOTHING) else f"{words} [{authors}]"


def proved(row: dict[str, Any]) -> Cell:
    """Format the proved ε of a noise; ``none`` without one."""
    epsilon = row["epsilon_proved"]
    if missing(epsilon):
        return Cell("none", tone="none")
    tone = strength(epsilon)
    return Cell(budget(epsilon) + (f", {VACUOUS}" if tone == "vacuous" else ""), tone=tone)


EXHIBIT = Exhibit(
    "table3",
    "Noise multipliers for an ε on the full graph",
    groups=(),
    build=build,
    meaning="How much noise does an ε take, by the paper's formula and by a proof?",
)
