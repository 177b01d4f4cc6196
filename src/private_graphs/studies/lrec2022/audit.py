"""Audits: the claimed ε, the proved ε, and the lower bound of an attack on the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.methods import all_methods
from private_graphs.report.columns import arranged, plain
from private_graphs.report.words import bound, budget, missing, number
from private_graphs.running.exhibit import Cell, Column, Exhibit, Table

VISITS = {"full_graph": "full graph", "shuffled": "shuffled", "epoch_sum": "per-epoch sum",
          "poisson": "Poisson"}  # fmt: skip
"""Names of the ways in which parts are visited."""
VERDICTS = {
    "proof_broken": "breaks its proof",
    "refuted": "claim refuted",
    "refuted_if_gaussian": "claim refuted if Gaussian",
    "not_refuted": "not refuted",
}
BOUNDS = {
    "epsilon_lower": "no assumption",
    "epsilon_lower_gaussian": "if Gaussian",
    "one_run_epsilon_lower": "one run",
}
NOTES = (
    "The attack guesses the label of one canary node from the trained parameters, or from what a "
    "proved method predicts for one test node (edges: whether that node has one edge); every ε is "
    "for one node under replace, of edges for one edge under add_remove, at the same δ. Lower "
    "bounds hold at 95 %, verdicts at 99.9 % (docs/privacy.md, §10). ε proved is rounded up, lower "
    "bounds are rounded down.",
    "if Gaussian: sharper, and valid where the proof says that the mechanism is an exact "
    "composition of Gaussian releases. one run: one training with 200 canaries, full graph, for "
    "one node that takes part or not.",
    "A bound below a claim proves nothing: this attack found no more. A bound above what is proved "
    "would have ended the run.",
)


def build(results: Any) -> list[Table]:
    """Return one row per audit."""
    rows = results.audits.assign(
        attacked=[attacked(row, results) for row in results.audits.to_dict("records")],
        training=results.audits["visits"].isna(),
    )  # fmt: skip
    by = ["epsilon", "protocol", "training", "method", "scenario", "splits", "job"]
    rows = arranged(rows, by, protocol=PROTOCOLS, method=all_methods())
    frame = rows.dropna(axis=1, how="all").drop(columns=["training", "source"])
    columns = [
        *plain("protocol", {"training": "attacked"}),
        Column("noise", lambda row: f"{row['noise_multiplier']:.4g}"),
        Column("ε claimed", lambda row: number(row["epsilon"])),
        Column("ε proved", proved),
        *(
            Column(words, lambda row, name=name: lower(row.get(name)), "audited lower bound")
            for name, words in BOUNDS.items()
        ),
        Column("runs", lambda row: number(row["runs"])),
        Column("verdict", verdict),
    ]
    title = "Audits. What is claimed, what is proved, and what an attack on the code shows"
    return [Table(title, frame.reset_index(drop=True), columns, NOTES)]


def attacked(row: Mapping[str, Any], results: Any) -> str:
    """Return the attacked code: a training schedule, or a method in its scenario."""
    if missing(row.get("visits")):
        return f"{results.title(row['method'])}, {row['scenario']}"
    visits = VISITS[row["visits"]]
    return visits if row["splits"] == 1 else f"{row['splits']:.0f} splits, {visits}"


def proved(row: Mapping[str, Any]) -> str:
    """Format the proved ε; ``none`` without a proof."""
    epsilon = row["epsilon_proved"]
    return "none" if missing(epsilon) else budget(epsilon)


def lower(epsilon: Any) -> str:
    """Format a lower bound: ``> 3.98``."""
    return Cell().text if missing(epsilon) else f"> {bound(epsilon)}"


def verdict(row: Mapping[str, Any]) -> Cell:
    """Return the verdict in words."""
    tone = "" if row["verdict"] == "not_refuted" else "refuted"
    return Cell(VERDICTS[row["verdict"]], tone=tone)


EXHIBIT = Exhibit(
    "audit",
    "What is claimed, what is proved, and what an attack on the code shows",
    groups=("audit",),
    build=build,
    meaning="An attack on the code refutes some claims; it refutes no proof.",
)
