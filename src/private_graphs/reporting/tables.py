"""The tables of a study, published values beside the three protocols."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from private_graphs.config import load_study
from private_graphs.datasets.registry import declared_graphs
from private_graphs.datasets.views import VIEWS
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
from private_graphs.reporting import method_tables, readable
from private_graphs.reporting.audits import audit_table, read_audits
from private_graphs.reporting.claims import claims
from private_graphs.reporting.curves import curves_of, points
from private_graphs.reporting.formats import Readable, write_table
from private_graphs.reporting.published import published_table
from private_graphs.reporting.runs import collect, find_runs
from private_graphs.reporting.score_tables import SCORE_TABLES, rank, score_table

KEEP = "a graph of your own. This table holds scores and counts on private data: keep it."
"""What the notes of a table say of such a graph."""


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
    """Return the sizes of the datasets: published, then ours, one row per build in order.

    ``statistics`` are those of ``GraphDataset.statistics()``, one for each dataset and view of its
    raw files. ``edge_entries`` (raw rows behind the edges) is absent where it is unknown.
    """
    printed = published.set_index("dataset")
    rows = []
    for ours in sorted(statistics, key=_build_order):
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
        row |= {name: ours.get(name) for name in ("view", "features_kind", "edge_entries")}
        rows.append(row)
    return pd.DataFrame(rows)


def _build_order(statistics: Mapping[str, Any]) -> tuple[str, int, str]:
    view = statistics.get("view") or ""
    return statistics["name"], rank(["", *VIEWS], view), view


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

    ``tables`` are ``table3``, ``table5``, ``audit``, tables of scores of the study (``table1``,
    ``leak``), its figures (``figure1``), whose points are written in the same way, and the tables
    of proved methods (``method_tables.NAMES``). Scores and figures cover every finished cell below
    ``<scale_folder>/runs/<study>``, also those of earlier and narrower runs, proved methods those
    below ``<scale_folder>/methods/<study>``, audits those below ``<scale_folder>/audits/<study>``;
    Table 5 every build of
    a dataset whose ``statistics`` were ever given (they are kept in ``<scale_folder>/datasets``).
    ``epochs``, ``epsilons`` and ``delta`` are those of Table 3.

    Raises UserError where there is no finished cell for a table of scores, a figure or a table of
    proved methods.
    """
    scale_folder = Path(scale_folder)
    for each in statistics:
        view = f".{each['view']}" if each.get("view") else ""
        write_json(scale_folder / "datasets" / f"{each['name']}{view}.json", dict(each))
    runs: pd.DataFrame | None = None
    proved: method_tables.MethodTables | None = None
    written: list[Path] = []
    for name in tables:
        if name == "table3":
            frame = table3(published_table(study, name), epochs or {}, epsilons, delta)
            text = readable.table3(frame)
        elif name == "table5":
            frame = table5(_builds(scale_folder), published_table(study, name))
            text = readable.table5(frame)
        elif name == "audit":
            frame = read_audits(scale_folder, study)
            text = audit_table(frame)
        else:
            if runs is None:
                runs, statements = collect(find_runs(scale_folder, study))
            if name in method_tables.NAMES:
                proved = proved or method_tables.read(scale_folder, study, runs, statements)
                frame, text = proved.table(name)
            else:
                frame, text = _scored(scale_folder, study, name, runs, statements)
        text = _marked_private(frame, text)
        written += write_table(frame, text, scale_folder / "tables" / f"{study}_{name}")
    return written


def _marked_private(frame: pd.DataFrame, text: Readable) -> Readable:
    """Say first which rows are of users' own graphs: no statement covers their scores."""
    names = declared_graphs(frame["dataset"]) if "dataset" in frame else ()
    return replace(text, notes=(*(f"{name}: {KEEP}" for name in names), *text.notes))


def _scored(
    scale_folder: Path,
    study: str,
    name: str,
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
) -> tuple[pd.DataFrame, Readable]:
    """Return a table of scores, or the points of a figure, for programs and for people."""
    table = SCORE_TABLES.get((study, name))
    if table is None:
        frame = points(runs, statements, load_study(study), name)
        curves = curves_of(study, name)
        return frame, readable.curve_points(frame, curves, claims(study, curves, frame))
    if not (runs["experiment"] == name).any():
        raise UserError(
            f"{scale_folder / 'runs' / study}: no finished cell of experiment {name}; train some "
            f"first (snakemake --config scale={scale_folder.name} experiments={name})"
        )
    published = None if table.difference else published_table(study, name)
    frame = score_table(table, runs, statements, published)
    return frame, readable.score_table(frame, table)


def read_statistics(scale_folder: Path) -> dict[str, dict[str, Any]]:
    """Return the statistics that ``write_tables`` kept, by dataset name: of its first view."""
    found: dict[str, dict[str, Any]] = {}
    for each in _builds(scale_folder):
        found.setdefault(each["name"], each)
    return found


def _builds(scale_folder: Path) -> list[dict[str, Any]]:
    """Return the statistics of every build that ``write_tables`` kept, in order."""
    paths = (Path(scale_folder) / "datasets").glob("*.json")
    return sorted(
        (json.loads(path.read_text(encoding="utf-8")) for path in paths), key=_build_order
    )
