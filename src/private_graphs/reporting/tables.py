"""The tables of a study, published values beside the three protocols."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from private_graphs.config import load_study
from private_graphs.errors import UserError
from private_graphs.files import write_json
from private_graphs.privacy.accountants import (
    cancelling_moments_epsilon,
    gdp_epsilon,
    moments_epsilon,
    sensitivity,
)
from private_graphs.privacy.calibration import gdp_noise, published_noise
from private_graphs.privacy.events import FullBatch, NoisyGradients
from private_graphs.protocols import PROTOCOLS
from private_graphs.reporting import readable
from private_graphs.reporting.claims import claims
from private_graphs.reporting.curves import curves_of, points
from private_graphs.reporting.formats import Readable, is_missing, write_table
from private_graphs.reporting.published import published_table
from private_graphs.reporting.runs import collect, find_runs
from private_graphs.reporting.scores import SCORE_COLUMNS, score_values

SETTINGS = (
    "majority", "random", "non_private", "non_private_split", "dp_full", "dp_split",
)  # fmt: skip
"""Settings of Table 1 in the order of its rows."""

OPTIMIZERS = ("", "sgd", "adam")
"""Optimizers in the order of the rows; baselines have none."""

KEY = ("dataset", "setting", "optimizer", "epsilon")
"""What names a row of Table 1; baselines have neither optimizer nor epsilon."""

PROTOCOL_COLUMNS = SCORE_COLUMNS
"""Columns of Table 1 for each protocol, behind its name: ``released_mean``, …"""

_Key = tuple[str, str, str, float | None]


def table1(
    runs: pd.DataFrame,
    published: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
    protocols: Sequence[str] = tuple(PROTOCOLS),
) -> pd.DataFrame:
    """Return micro-F1 (0…1) on the test nodes: published, then each protocol with its privacy.

    One row per (dataset, setting, optimizer, epsilon) that is published for, or was trained on, a
    dataset of ``runs``. Means and standard deviations (ddof 1, NaN for one seed) are over the
    seeds of the selected replicas. Columns: ``KEY``, ``splits``, ``published``, and for each
    protocol ``PROTOCOL_COLUMNS``; ``released_authors_epsilon`` is what the authors' own accountant
    prints where it differs from the formula.

    Raises UserError where two different cells, learning rates or noises claim one place.
    """
    places: dict[_Key, dict[str, Any]] = {}
    for record in published[published["dataset"].isin(set(runs["dataset"]))].to_dict("records"):
        place = places.setdefault(_key(*(record[name] for name in KEY)), {})
        place["published"] = record["micro_f1"]
    chosen = runs[runs["selected"].astype(bool)] if len(runs) else runs
    for key, protocol, splits, group in _groups(chosen):
        place = places.setdefault(key, {})
        place["splits"] = splits
        where = " ".join(str(each) for each in key)
        values = score_values(group, statements, f"table 1 has one place for {where}")
        place |= {f"{protocol}_{name}": value for name, value in values.items()}
    for key, protocol, values in _baselines(runs):
        places.setdefault(key, {}).update(
            {f"{protocol}_{name}": value for name, value in values.items()}
        )
    return _frame1(places, protocols)


def _key(dataset: str, setting: str, optimizer: Any, epsilon: Any) -> _Key:
    known = None if is_missing(epsilon) else float(epsilon)
    return dataset, setting, "" if is_missing(optimizer) else optimizer, known


def _groups(chosen: pd.DataFrame) -> Iterable[tuple[_Key, str, int, pd.DataFrame]]:
    names = ["dataset", "n_splits", "optimizer", "epsilon", "protocol"]
    for values, group in chosen.groupby(names, sort=True):
        dataset, splits, optimizer, epsilon, protocol = values
        kind = "non_private" if math.isinf(epsilon) else "dp"
        suffix = "_split" if splits > 1 else ("_full" if kind == "dp" else "")
        yield _key(dataset, kind + suffix, optimizer, epsilon), protocol, int(splits), group


def _baselines(runs: pd.DataFrame) -> Iterable[tuple[_Key, str, dict[str, Any]]]:
    order = ["optimizer", "n_splits", "epsilon", "lr", "replica_id"]
    # Every replica carries the baselines of its seed; one per seed counts.
    once = runs.sort_values(order).drop_duplicates(["dataset", "protocol", "seed"])
    for (dataset, protocol), group in once.groupby(["dataset", "protocol"], sort=True):
        for setting in ("majority", "random"):
            scores = group[f"{setting}_micro_f1"]
            values = {"mean": scores.mean(), "std": scores.std(ddof=1), "seeds": len(scores)}
            yield _key(dataset, setting, None, None), protocol, values


def _frame1(places: Mapping[_Key, Mapping[str, Any]], protocols: Sequence[str]) -> pd.DataFrame:
    columns = ["splits", "published"]
    for protocol in protocols:
        columns += [f"{protocol}_{name}" for name in PROTOCOL_COLUMNS]
        columns += ["released_authors_epsilon"] if protocol == "released" else []
    rows = []
    for key in sorted(places, key=_order):
        row = dict(zip(KEY, key, strict=True))
        rows.append(row | {name: places[key].get(name) for name in columns})
    return pd.DataFrame(rows, columns=[*KEY, *columns])


def _order(key: _Key) -> tuple[Any, ...]:
    dataset, setting, optimizer, epsilon = key
    return dataset, SETTINGS.index(setting), epsilon or 0, OPTIMIZERS.index(optimizer)


def table3(
    published: pd.DataFrame,
    epochs: Mapping[str, int],
    epsilons: Sequence[float],
    delta: float,
) -> pd.DataFrame:
    """Return the noise multiplier that each protocol needs for an ε on the full graph.

    ``epochs`` maps each optimizer to its number of steps. One row per (epsilon, optimizer):
    ``published_epsilon`` and ``published_noise_multiplier`` as printed (NaN elsewhere), then for
    each protocol the noise multiplier, ε of the paper's formula and ε proved at node level under
    the replace relation, with its unit. ``released_authors_epsilon`` is what the authors' own
    accountant prints where that differs from the formula.
    """
    rows = []
    for epsilon in sorted(epsilons):
        for optimizer, steps in epochs.items():
            ours = published_noise(epsilon, optimizer, 1, steps, delta)
            printed = published[published["epsilon"] == round(ours.epsilon_published, 2)]
            known = ours.printed and len(printed) == 1
            row = {
                "epsilon": epsilon,
                "optimizer": optimizer,
                "epochs": steps,
                "delta": delta,
                "published_epsilon": printed["epsilon"].iloc[0] if known else None,
                "published_noise_multiplier": (
                    printed[f"noise_{optimizer}"].iloc[0] if known else None
                ),
            }
            proved_noise = gdp_noise(epsilon, steps, delta, "replace")
            for protocol in PROTOCOLS.values():
                published_rule = protocol.calibration == "published"
                noise = ours.noise_multiplier if published_rule else proved_noise
                clipping = "none" if protocol.clipping == "none" else "gradient_global"
                row |= _noise_values(protocol.name, clipping, noise, steps, delta)
            rows.append(row)
    return pd.DataFrame(rows)


def _noise_values(
    protocol: str, clipping: str, noise: float, steps: int, delta: float
) -> dict[str, Any]:
    event = NoisyGradients(
        clipping=clipping,
        clip_norm=1.0,
        noise_multiplier=noise,
        releases=steps,
        epochs=steps,
        sampling=FullBatch(),
    )
    # The price of the event without its second route, which takes seconds per row.
    moved = sensitivity(event, "node", "replace")
    mu = None if moved is None else moved * math.sqrt(steps) / noise
    formula = moments_epsilon(noise, steps, 1.0, delta)
    values = {
        "noise_multiplier": noise,
        "epsilon_published": formula,
        "epsilon_proved": None if mu is None else gdp_epsilon(mu, delta),
        "unit": "node",
    }
    if protocol == "released":
        authors = cancelling_moments_epsilon(noise, steps, 1.0, delta)
        differs = math.isfinite(authors) and abs(authors - formula) > 1e-6
        values["authors_epsilon"] = authors if differs else None
    return {f"{protocol}_{name}": value for name, value in values.items()}


def table5(statistics: Iterable[Mapping[str, Any]], published: pd.DataFrame) -> pd.DataFrame:
    """Return the sizes of the datasets: published, then ours, one row per dataset in order.

    ``statistics`` are those of ``GraphDataset.statistics()``.
    """
    printed = published.set_index("dataset")
    rows = []
    for ours in sorted(statistics, key=lambda each: each["name"]):
        row: dict[str, Any] = {
            "dataset": ours["name"],
            "title": ours["title"],
            "synthetic": ours["synthetic"],
        }
        sizes = {
            "classes": ours["classes"],
            "test_size": ours["masks"]["test"],
            "train_size": ours["masks"]["train"],
        }
        for name, value in sizes.items():
            known = ours["name"] in printed.index
            row[f"published_{name}"] = printed.at[ours["name"], name] if known else None
            row[name] = value
        row |= {name: ours[name] for name in ("nodes", "edges", "features", "isolated_nodes")}
        row["majority_share"] = ours["majority_share_on_test"]
        row |= {name: ours[name] for name in ("licence", "fingerprint")}
        rows.append(row)
    return pd.DataFrame(rows)


def write_tables(
    scale_folder: Path,
    study: str,
    *,
    tables: Sequence[str] = ("table1", "table3", "table5"),
    statistics: Sequence[Mapping[str, Any]] = (),
    epochs: Mapping[str, int] | None = None,
    epsilons: Sequence[float] = (),
    delta: float = 1e-5,
) -> list[Path]:
    """Write ``<scale_folder>/tables/<study>_<table>.{csv,md,tex}`` and return the paths.

    ``tables`` are ``table1``, ``table3``, ``table5`` and figures of the study (``figure1``), whose
    points are written in the same way. Table 1 and the figures cover every finished cell below
    ``<scale_folder>/runs/<study>``, also those of earlier and narrower runs; Table 5 every dataset
    whose ``statistics`` were ever given (they are kept in ``<scale_folder>/datasets``).
    ``epochs``, ``epsilons`` and ``delta`` are those of Table 3.

    Raises UserError where there is no finished cell for Table 1 or a figure.
    """
    scale_folder = Path(scale_folder)
    for each in statistics:
        write_json(scale_folder / "datasets" / f"{each['name']}.json", dict(each))
    runs: pd.DataFrame | None = None
    written: list[Path] = []
    for name in tables:
        if name == "table3":
            frame = table3(published_table(study, name), epochs or {}, epsilons, delta)
            text = readable.table3(frame)
        elif name == "table5":
            frame = table5(read_statistics(scale_folder).values(), published_table(study, name))
            text = readable.table5(frame)
        else:
            if runs is None:
                runs, statements = collect(find_runs(scale_folder, study))
            frame, text = _scored(scale_folder, study, name, runs, statements)
        written += write_table(frame, text, scale_folder / "tables" / f"{study}_{name}")
    return written


def _scored(
    scale_folder: Path,
    study: str,
    name: str,
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
) -> tuple[pd.DataFrame, Readable]:
    """Return Table 1 or the points of a figure, for programs and for people."""
    if name != "table1":
        frame = points(runs, statements, load_study(study), name)
        curves = curves_of(study, name)
        return frame, readable.curve_points(frame, curves, claims(study, curves, frame))
    runs = runs[runs["experiment"] == "table1"]
    if runs.empty:
        raise UserError(
            f"{scale_folder / 'runs' / study}: no finished cell of table 1; train some first "
            f"(snakemake --config scale={scale_folder.name})"
        )
    frame = table1(runs, published_table(study, "table1"), statements)
    return frame, readable.table1(frame)


def read_statistics(scale_folder: Path) -> dict[str, dict[str, Any]]:
    """Return the statistics that ``write_tables`` kept, by dataset name."""
    paths = sorted((Path(scale_folder) / "datasets").glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}
