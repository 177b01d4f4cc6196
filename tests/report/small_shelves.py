"""Shelves in miniature: a few rows, their statements, and two exhibits over them."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import pandas as pd

from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.report.results import Results
from private_graphs.running.exhibit import Cell, Chart, Column, Exhibit, Table
from private_graphs.running.store import tidy
from private_graphs.running.study import Sentences
from private_graphs.site.record import Made
from private_graphs.site.shelf import Shelf

MADE = Made("0.1.0", "2026-01-02", "a machine", 1.5, ("snakemake --config scale=full",))
STUDY = SimpleNamespace(
    id="small", title="A small study", citation="Nobody.", url="https://x.org",
    published={"table1": SimpleNamespace(file="printed.csv", by_others=False)}, seeds=3, colours={},
    recorded_scale="full", rank=1, name="Small (2026)", says=Sentences(), advice=(), elsewhere={},
)  # fmt: skip
PROVED = {"released": None, "paper": 3.38021, "sound": 1.99998}
AUDIT = {
    "design": "canary", "unit": "node", "relation": "replace", "delta": 1e-5, "runs": 2000,
    "epsilon_lower": 3.2814, "confidence": 0.999,
}  # fmt: skip


def statement(protocol: str, epsilon: float, **changes: Any) -> PrivacyStatement:
    """Return a statement of the GCN at one ε."""
    private = math.isfinite(epsilon)
    proved = PROVED[protocol] if private else None
    mechanism = {
        "type": "gaussian_gradient", "clipping": "gradient_global", "clip_norm": 1.0,
        "sensitivity": 2.0, "noise_multiplier": 56.0, "count": 2000, "parts": 1,
        "sampling": "none", "relation": "replace",
    }  # fmt: skip
    values = {
        "study": "small", "dataset": "cora", "features": "raw", "method": "gcn",
        "scenario": "nodes", "protocol": protocol, "data_fingerprint": "da7a", "unit": "node",
        "relation": "replace", "delta": 1e-5, "n_units": 1208,
        "epsilon_target": epsilon if private else None,
        "epsilon_published": epsilon if private and protocol != "sound" else None,
        "published_formula": None, "authors_accountant_epsilon": None, "epsilon_proved": proved,
        "proof": "mu = 1" if proved else "none: nothing is clipped", "vacuous": False,
        "n_runs_released": 3, "epsilon_all_runs": proved and 2 * proved, "n_rows_counted": 3,
        "n_rows_not_counted": 0, "epsilon_of_file": proved and 2 * proved,
        "proof_of_file": "all rows compose", "accountant": "exact", "epsilon_second_route": None,
        "mechanisms": [mechanism] if private else [], "noise_source": "seeded",
        "public_facts": ["the masks"], "assumptions": ["the divisor is public"],
        "inference": "inductive_disjoint" if protocol == "sound" else "leaks",
        "selection": {"n_configs": 3, "data": "validation scores", "cost": "as all runs"},
        "preprocessing": "row-normalised", "audit": None,
    }  # fmt: skip
    values |= changes
    if not private or protocol == "sound":  # no attack shows more than is proved
        values["audit"] = None
    if not private:
        values |= dict.fromkeys(("epsilon_proved", "epsilon_all_runs", "epsilon_published"))
    published, audit = values["epsilon_published"], values["audit"]
    refuted = audit is not None and published and audit["epsilon_lower"] > published
    held = "proved_if_seed_secret" if values["epsilon_proved"] is not None else "published_only"
    status = "refuted" if refuted else held
    return PrivacyStatement.model_validate(
        values | {"status": status if private else "not_private"}
    )


def shelf(
    name: str = "full",
    *,
    dataset: str = "cora",
    title: str = "Cora",
    protocols: tuple[str, ...] = ("released", "paper", "sound"),
    epsilons: tuple[float, ...] = (2.0, math.inf),
    exhibits: tuple[Exhibit, ...] = (),
    missing: dict[str, tuple[str, ...]] | None = None,
    **changes: Any,
) -> Shelf:
    """Return two seeds of every protocol at every ε."""
    rows, statements = [], {}
    for protocol in protocols:
        for epsilon in epsilons:
            made = statement(protocol, epsilon, dataset=dataset, **changes)
            statements[made.statement_id] = made.model_dump(mode="json")
            for seed, score in enumerate((0.5, 0.6)):
                rows.append({
                    "source": "recorded" if name == "recorded" else "own", "study": "small",
                    "group": "table", "job": f"{dataset}/raw/gcn/nodes/{protocol}",
                    "dataset": dataset, "features": "raw", "view": None, "method": "gcn",
                    "scenario": "nodes", "protocol": protocol, "epsilon": epsilon, "seed": seed,
                    "settings": json.dumps({"optimizer": "adam", "splits": 1}), "delta": 1e-5,
                    "validation_labels": 500, "validation_nodes": 500, "selected": True,
                    "epsilon_proved": made.epsilon_proved, "status": made.status,
                    "statement_id": made.statement_id, "test_micro_f1": score,
                    "noise_source": "seeded", "device": "cpu", "code_fingerprint": "c0de",
                    "replica_id": f"{protocol}{epsilon}{seed}",
                })  # fmt: skip
    source = {"file": "raw.txt", "url": "https://x.org/raw.txt", "sha256": "0a1b"}
    statistics = [{
        "name": dataset, "title": title, "synthetic": name == "demo", "view": None, "nodes": 10,
        "edges": 20, "citation": "Nobody, 2020", "licence": "CC0", "sources": [source],
        "masks": {"train": 6, "test": 4}, "train_class_counts": {"A": 2, "B": 4},
        "degrees": {"0": 1, "16 to 31": 1, "2 to 3": 6, "1,024 to 2,047": 1, "8 to 15": 2},
    }]  # fmt: skip
    results = Results(STUDY, name, tidy([pd.DataFrame(rows)]), statements, statistics)
    made = MADE if name == "recorded" else None
    return Shelf(name, results, exhibits or (TABLE, FIGURE), made, missing or {})


def _table(results: Any) -> list[Any]:
    columns = [
        Column("dataset", lambda row: row["dataset"]),
        Column("score", lambda row: f"{row['test_micro_f1']:.3f}", "micro-F1"),
        Column("ε proved", lambda row: Cell("see there", row["statement_id"], "proved"), "privacy"),
    ]
    frame = results.rows.drop_duplicates("statement_id")
    return ["A paragraph of words.", Table("Scores", frame, columns, notes=("A note.",))]


def _figure(results: Any) -> list[Any]:
    frame = results.rows.assign(mean=results.rows["test_micro_f1"], std=0.1)
    frame = frame[frame["epsilon"] == 2.0].drop_duplicates("protocol")
    return [Chart("Curves", frame, x="epsilon", line="protocol", notes=("Of points.",)),
            Chart("More curves", frame, x="epsilon", line="protocol")]  # fmt: skip


TABLE = Exhibit("table1", "Scores of all settings", ["table"], _table, meaning="What it means.")
FIGURE = Exhibit("figure1", "Curves of all settings", ["table"], _figure)
