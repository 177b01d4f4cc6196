"""Finished cells in miniature: run tables and statements as training writes them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.reporting.runs import METHOD_COLUMNS, RUN_COLUMNS

MECHANISM = {
    "type": "gaussian_gradient", "clipping": "gradient_global", "clip_norm": 1.0,
    "sensitivity": 2.0, "count": 2000, "parts": 1, "sampling": "none", "relation": "replace",
}  # fmt: skip
PROVED = {"released": None, "paper": 3.3802, "sound": 2.0}
INFERENCE = {"released": "leaks", "paper": "leaks", "sound": "inductive_disjoint"}


def statement(protocol: str, epsilon: float, noise: float, **changes: Any) -> dict[str, Any]:
    """Return a privacy statement as a dictionary."""
    private = math.isfinite(epsilon)
    proved = PROVED[protocol] if private else None
    values = {
        "study": "lrec2022",
        "dataset": "cora",
        "features": "raw",
        "method": "gcn",
        "scenario": None,
        "protocol": protocol,
        "data_fingerprint": "da7a",
        "n_rows_counted": 3,
        "n_rows_not_counted": 0,
        "proof_of_file": "all rows compose",
        "epsilon_of_file": 4.1 if proved else None,
        "status": "not_private",
        "unit": "node",
        "relation": "replace",
        "public_facts": ["N", "the masks"],
        "delta": 1e-5,
        "n_units": 1208,
        "epsilon_target": epsilon if private else None,
        "epsilon_published": epsilon if private else None,
        "published_formula": "moments accountant, q = 1, T = 2000",
        "epsilon_proved": proved,
        "proof": "exact Gaussian DP" if proved else "nothing is clipped",
        "vacuous": False,
        "n_runs_released": 3,
        "epsilon_all_runs": 4.1 if proved else None,
        "accountant": "gdp 1",
        "epsilon_second_route": None,
        "authors_accountant_epsilon": None,
        "mechanisms": [MECHANISM | {"noise_multiplier": noise}] if private and epsilon else [],
        "noise_source": "seeded",
        "assumptions": ["the guarantee supposes a secret seed"],
        "inference": INFERENCE[protocol],
        "selection": {"n_configs": 3, "data": "validation scores", "cost": "as all runs"},
        "preprocessing": "row-normalised",
        "audit": None,
    } | changes
    audit, published = values["audit"], values["epsilon_published"]
    if not private:
        values |= {"mechanisms": [], "epsilon_published": None, "epsilon_proved": None}
        values |= {"status": "not_private"}
    elif published and audit and audit["epsilon_lower"] > published:
        values["status"] = "refuted"
    elif values["epsilon_proved"] is None:
        values["status"] = "published_only"
    else:
        values["status"] = "proved_if_seed_secret" if values["mechanisms"] else "proved"
    return PrivacyStatement.model_validate(values).model_dump(mode="json")


def write_cell(
    scale_folder: Path,
    *,
    dataset: str = "cora",
    features: str = "raw",
    view: str | None = None,
    protocol: str = "paper",
    optimizer: str = "sgd",
    splits: int = 1,
    experiment: str = "table1",
    fraction: float = 1.0,
    scores: dict[float, list[float]],
    majority: float = 0.32,
    rates: tuple[float, ...] = (0.01,),
    **changes: Any,
) -> Path:
    """Write one finished cell: ``scores`` holds test micro-F1 per ε and seed, of the last rate.

    The replicas of all other rates are worse and not selected. ``changes`` go to the statements.
    """
    read = f"{protocol}-with_label" if view == "sound-with-label" else protocol
    cell = f"{experiment}/{dataset}/{features}/gcn/{optimizer}/{read}/s{splits}/f{fraction:g}"
    folder = scale_folder / "runs" / "lrec2022" / cell
    folder.mkdir(parents=True)
    rows, statements = [], {}
    for epsilon, values in scores.items():
        private = math.isfinite(epsilon)
        noise = 112.0 / epsilon if private else 0.0
        about = {"dataset": dataset, "features": features}
        said = statement(protocol, epsilon, noise or 1.0, **(about | changes))
        statements[said["statement_id"]] = said
        for rate in rates:
            for seed, value in enumerate(values):
                row = dict.fromkeys(RUN_COLUMNS) | {
                    "replica_id": f"{cell}-{epsilon}-{rate}-{seed}",
                    "statement_id": said["statement_id"],
                    "selected": rate == rates[-1],
                    "study": "lrec2022", "experiment": experiment, "protocol": protocol,
                    "dataset": dataset, "features": features, "view": view, "method": "gcn",
                    "optimizer": optimizer, "visits": "full_graph",
                    "n_splits": splits, "train_fraction": fraction,
                    "lr": rate, "epochs": 2000, "max_epochs": 2000, "epsilon": epsilon,
                    "noise_multiplier": noise, "clip": 1.0 if private else None, "delta": 1e-5,
                    "epsilon_published": said["epsilon_published"],
                    "epsilon_proved": said["epsilon_proved"], "unit": said["unit"],
                    "relation": said["relation"], "inference": said["inference"], "seed": seed,
                    "test_micro_f1": value if rate == rates[-1] else 0.01,
                    "test_macro_f1": value, "test_accuracy": value,
                    "validation_micro_f1": value, "validation_macro_f1": value,
                    "validation_loss": 1.0, "majority_micro_f1": majority,
                    "random_micro_f1": 0.14 + 0.01 * seed, "seconds": 1.0, "device": "cpu",
                    "dtype": "float32", "noise_source": "seeded", "code_fingerprint": "c0de",
                    "data_fingerprint": "da7a",
                }  # fmt: skip
                rows.append(row)
    pd.DataFrame(rows, columns=list(RUN_COLUMNS)).to_parquet(folder / "runs.parquet")
    (folder / "statement.json").write_text(json.dumps(statements))
    return folder


def statistics_of(name: str = "cora", **changes: Any) -> dict[str, Any]:
    """Return a dataset's statistics as ``GraphDataset.statistics`` does."""
    return {
        "name": name, "title": name.title(), "synthetic": False, "nodes": 2708, "edges": 5278,
        "features": 1433, "classes": 7, "isolated_nodes": 0, "majority_share_on_test": 0.319,
        "masks": {"train": 1208, "validation": 500, "test": 1000}, "licence": "unknown",
        "fingerprint": "da7a",
    } | changes  # fmt: skip


@pytest.fixture
def cell() -> Callable[..., Path]:
    """The function that writes a finished cell."""
    return write_cell


@pytest.fixture
def statistics() -> Callable[..., dict[str, Any]]:
    """The function that returns a dataset's statistics."""
    return statistics_of


@pytest.fixture
def mechanism() -> dict[str, Any]:
    """The fields of a statement's mechanism but for the noise."""
    return MECHANISM | {"noise_multiplier": 112.0}


METHODS = {
    "text": ("class_sums", "dp_linear", "dp_mlp", "public_only"),
    "graph": ("class_sums", "gcn", "gcn_poisson", "public_only", "class_sums_public"),
    "edges": ("text_only", "edge_votes"),
}
"""Methods by setting."""
PUBLIC = ("public_only", "text_only")
"""Methods that read nothing private."""
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, math.inf)
UNIT = {
    "text": ("node", "replace", "params_only"),
    "graph": ("node", "replace", "inductive_disjoint"),
    "edges": ("edge_undirected", "add_remove", "params_only"),
}


def method_statement(method: str, setting: str, epsilon: float, **changes: Any) -> dict[str, Any]:
    """Return the statement of a proved method at a number of public labels."""
    unit, relation, inference = UNIT[setting]
    values = {
        "unit": unit, "relation": relation, "inference": inference, "epsilon_published": None,
        "published_formula": None, "accountant": "exact Gaussian DP (scipy 1)",
        "epsilon_all_runs": 3.5 * epsilon if epsilon < math.inf else None,
        "epsilon_proved": epsilon if epsilon < math.inf else None, "n_runs_released": 40,
        "method": method, "scenario": setting, "proof": method,
        "public_facts": ["the sizes", f"{method}, {setting}"],
    }  # fmt: skip
    return statement("sound", epsilon, 1.0, **(values | changes))


def write_methods(
    scale_folder: Path,
    method: str,
    setting: str,
    score: Callable[[float, int, int], float],
    *,
    dataset: str = "cora",
    features: str = "raw",
    validation: Callable[[float, int, int], float] | None = None,
    epsilons: tuple[float, ...] = EPSILONS,
    tuning_nodes: int = 500,
    fewer: tuple[int, ...] = (100, 20, 0),
    seeds: int = 10,
    majority: float = 0.3,
    **changes: Any,
) -> Path:
    """Write one finished cell of a proved method.

    ``score`` gives test micro-F1 by (ε, public labels, seed), ``validation`` the same on the
    tuning nodes, by default alike. ``changes`` go to the statements.
    """
    cell = f"frontier/{dataset}/{features}/{method}/{setting}"
    folder = scale_folder / "methods" / "lrec2022" / cell
    folder.mkdir(parents=True)
    public = method in PUBLIC
    asked = (0.0,) if public else epsilons
    places = [(epsilon, tuning_nodes) for epsilon in asked]
    places += [
        (epsilon, count)
        for epsilon in asked
        if epsilon in (0, 1, 2, 4) and setting != "edges"
        for count in fewer
    ]
    rows, statements = [], {}
    for epsilon, labels in places:
        facts = [f"{labels} labels", f"{method} {setting} {dataset}"]
        about = {"dataset": dataset, "features": features, "public_facts": facts}
        said = method_statement(method, setting, epsilon, **(about | changes))
        statements[said["statement_id"]] = said
        for seed in range(seeds):
            value = score(epsilon, labels, seed)
            row = dict.fromkeys(METHOD_COLUMNS) | {
                "replica_id": f"{cell}-{epsilon}-{labels}-{seed}", "study": "lrec2022",
                "statement_id": said["statement_id"], "experiment": "frontier",
                "protocol": "sound", "dataset": dataset, "features": features, "method": method,
                "setting": setting,
                "fits_tuning_labels": method in ("public_only", "class_sums_public"),
                "tuning_nodes": tuning_nodes, "tuning_labels": labels, "configuration": "{}",
                "n_configurations": 3, "epsilon": epsilon,
                "delta": math.nan if math.isinf(epsilon) else 1e-5,
                "epsilon_proved": math.nan if math.isinf(epsilon) else said["epsilon_proved"],
                "unit": None if math.isinf(epsilon) else said["unit"],
                "relation": None if math.isinf(epsilon) else said["relation"],
                "inference": said["inference"], "seed": seed, "test_micro_f1": value,
                "test_macro_f1": value, "test_accuracy": value,
                "validation_micro_f1": (
                    (validation or score)(epsilon, labels, seed) if labels else math.nan
                ),
                "validation_macro_f1": value,
                "majority_micro_f1": majority if labels else math.nan,
                "random_micro_f1": 0.14, "seconds": 0.5, "device": "cpu",
                "noise_source": "seeded", "code_fingerprint": "c0de",
                "data_fingerprint": "da7a",
            }  # fmt: skip
            rows.append(row)
    pd.DataFrame(rows, columns=list(METHOD_COLUMNS)).to_parquet(folder / "runs.parquet")
    (folder / "statement.json").write_text(json.dumps(statements))
    return folder


def rising(top: float, spread: float = 0.01, step: float = 0.08) -> Callable[..., float]:
    """Return scores that rise with ε up to ``top`` without DP, and fall a little with labels."""

    def score(epsilon: float, labels: int, seed: int) -> float:
        away = 0.0 if math.isinf(epsilon) else step * (4 - math.log2(epsilon or 1))
        return top - away - 0.01 * (labels < 100) + spread * ((seed % 3) - 1)

    return score


def level(values: dict[int, float], spread: float = 0.0) -> Callable[..., float]:
    """Return scores of a row that reads nothing private, by number of public labels."""
    return lambda epsilon, labels, seed: values[labels] + spread * ((seed % 3) - 1)


@pytest.fixture
def method_cell() -> Callable[..., Path]:
    """The function that writes a finished cell of a proved method."""
    return write_methods
