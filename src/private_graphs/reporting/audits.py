"""The table of audits: what is claimed, what is proved, and what an attack shows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from private_graphs.errors import UserError
from private_graphs.methods.names import METHOD_NAMES
from private_graphs.protocols import PROTOCOLS
from private_graphs.reporting.formats import NOTHING, Readable, is_missing, number

_COLUMNS = (
    "protocol", "n_splits", "visits", "unit", "relation", "delta", "epochs", "noise_multiplier",
    "epsilon_claimed", "epsilon_published", "epsilon_proved", "epsilon_lower",
    "epsilon_lower_gaussian", "confidence", "runs", "errors", "verdict", "verdict_confidence",
    "seed", "method", "setting",
)  # fmt: skip
GCN = "gcn"
"""The method of audits of a protocol; those of proved methods have another, and a setting."""
VISIT_TITLES = {
    "full_graph": "full graph",
    "shuffled": "shuffled",
    "epoch_sum": "per-epoch sum",
    "poisson": "Poisson",
}
"""Words for how the parts are visited."""
VERDICT_TITLES = {
    "proof_broken": "breaks its proof",
    "refuted": "claim refuted",
    "refuted_if_gaussian": "claim refuted if Gaussian",
    "not_refuted": "not refuted",
}
_BOUND = "> {}"


def read_audits(scale_folder: Path, study: str) -> pd.DataFrame:
    """Return one row per audit below ``<scale_folder>/audits/<study>``, protocols in their order.

    Raises UserError where there is none.
    """
    folder = Path(scale_folder) / "audits" / study
    found = audit_documents(folder)
    if not found:
        raise UserError(f"{folder}: no finished audit; make some first (snakemake tables)")
    rows = []
    for each in found:
        row = {name: each[name] for name in _COLUMNS if name in each}
        row = {**dict.fromkeys(_COLUMNS), "method": GCN, **row}
        row["one_run_epsilon_lower"] = each["one_run"] and each["one_run"]["epsilon_lower"]
        rows.append(row)
    return pd.DataFrame(rows)


def audit_documents(folder: Path) -> list[dict[str, Any]]:
    """Return what every audit in ``folder`` found, in the order of the table; [] where none is.

    Raises UserError for a file that is no audit.
    """
    found = []
    for path in Path(folder).glob("*.json"):
        try:
            found.append(json.loads(path.read_text(encoding="utf-8")))
            _order(found[-1])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path}: not a readable audit ({error!r}); delete it and make it again "
                "(snakemake tables)"
            ) from error
    return sorted(found, key=_order)


def _order(audit: Mapping[str, Any]) -> tuple:
    place, method = list(PROTOCOLS).index(audit["protocol"]), audit.get("method", GCN)
    proved = (list(METHOD_NAMES).index(method), audit["setting"]) if method != GCN else (-1, "")
    visits = audit["visits"] == "poisson"
    return audit["epsilon_claimed"], place, *proved, audit["n_splits"], visits


def _attacked(row: Mapping[str, Any]) -> str:
    """Return what was attacked, in words: a schedule of training, or a method in its setting."""
    if row["method"] != GCN:
        return f"{METHOD_NAMES[row['method']].title}, {row['setting']}"
    splits, visits = int(row["n_splits"]), VISIT_TITLES[row["visits"]]
    return visits if splits == 1 else f"{splits} splits, {visits}"


def audit_table(frame: pd.DataFrame) -> Readable:
    """Return the table of audits for people."""
    heads = (
        ("", "protocol"), ("", "training"), ("", "noise"), ("", "ε claimed"), ("", "ε proved"),
        ("audited lower bound", "no assumption"), ("audited lower bound", "if Gaussian"),
        ("audited lower bound", "one run"), ("", "runs"), ("", "verdict"),
    )  # fmt: skip
    rows = []
    for row in frame.to_dict("records"):
        proved = row["epsilon_proved"]
        rows.append(
            (
                row["protocol"],
                _attacked(row),
                number(row["noise_multiplier"]),
                number(row["epsilon_claimed"]),
                "none" if is_missing(proved) else number(proved, 2),
                *(
                    NOTHING if is_missing(row[name]) else _BOUND.format(number(row[name], 2))
                    for name in (
                        "epsilon_lower",
                        "epsilon_lower_gaussian",
                        "one_run_epsilon_lower",
                    )  # fmt: skip
                ),
                number(row["runs"]),
                VERDICT_TITLES[row["verdict"]],
            )
        )
    return Readable(
        caption="Audits. What is claimed, what is proved, and what an attack on the code shows",
        columns=heads,
        rows=tuple(rows),
        notes=(
            "The attack guesses the label of one canary node from the trained parameters, or from "
            "what a proved method predicts for one test node (edges: whether that node has one "
            "edge); every ε is for one node under replace, of edges for one edge under add_remove, "
            "at the same δ. Lower bounds hold at 95 %, verdicts at 99.9 % (docs/privacy.md, §10).",
            "if Gaussian: sharper, and valid where the proof says that the mechanism is an exact "
            "composition of Gaussian releases. one run: one training with 200 canaries, full "
            "graph, for one node that takes part or not.",
            "A bound below a claim proves nothing: this attack found no more. A bound above what "
            "is proved would have ended the run.",
        ),
    )
