"""Table 1's Cora again with PyTorch Geometric and Opacus alone, beside the recorded runs.

    python benchmarks/reference.py --mirror DIR

Every recorded run of the compiled engine under ``paper`` and ``released`` (its settings, its
learning rate, its seed) is made again by ``training/reference.py``, whose noise, dropout, partition
and first weights are other draws. Each replica is written as it ends, and those that are there are
not made again: the command may be stopped and started. The page is
renewed after each one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from pages import FOLDER, put
from threadpoolctl import threadpool_limits

from private_graphs.core.errors import UserError
from private_graphs.core.files import atomic_path
from private_graphs.datasets import registry, sources
from private_graphs.running.jobs import Job
from private_graphs.running.run import execute

RAW, ROOT = Path("data/raw"), Path(__file__).resolve().parents[1]
RECORDED = ROOT / "recorded" / "lrec2022" / "rows.parquet"
CELL = ["protocol", "optimizer", "splits", "epsilon"]
LIMIT = 2.6
"""Standard errors of a difference of means above which the two engines count as different."""


def recorded() -> pd.DataFrame:
    """Return the recorded runs of Table 1's Cora at their chosen learning rates, cheapest first."""
    rows = pd.read_parquet(RECORDED)
    wanted = (rows["group"] == "table1") & (rows["dataset"] == "cora") & (rows["method"] == "gcn")
    wanted &= rows["protocol"].isin(["paper", "released"]) & (rows["selected"] == True)  # noqa: E712
    rows = rows[wanted].reset_index(drop=True)
    settings = pd.DataFrame(json.loads(each) for each in rows["settings"])
    rows = rows.assign(optimizer=settings["optimizer"], splits=settings["splits"])
    cost = settings["epochs"] * settings["splits"] * np.where(rows["protocol"] == "paper", 1, 3)
    return rows.iloc[cost.argsort(kind="stable")]


def replica(row: pd.Series, dataset: object) -> dict[str, object]:
    """Make one recorded run again by the reference engine, and return its row."""
    settings = json.loads(row["settings"])
    del settings["visits"]  # those of the protocol
    started = time.process_time()
    job = Job(
        study="lrec2022", group="reference", name="reference", dataset="cora", method="gcn",
        scenario="nodes", protocol=row["protocol"], seeds=(row["seed"],),
        epsilons=(row["epsilon"],), settings=settings | {"engine": "reference"},
    )  # fmt: skip
    (found,) = execute(job, dataset).rows.to_dict("records")
    kept = ("noise_multiplier", "epochs", "test_micro_f1")
    return (
        {key: row[key] for key in [*CELL, "seed"]}
        | {"learning_rate": settings["learning_rate"]}
        | {key: found[key] for key in kept}
        | {"seconds": round(time.process_time() - started, 1)}
    )


def compared(ours: pd.DataFrame, theirs: pd.DataFrame) -> pd.DataFrame:
    """Return a row per cell: means and deviations of both engines, and their difference.

    ``errors``: the difference of the means in standard errors. Cells of which replicas are missing
    are left out.
    """
    means = {
        name: rows.groupby(CELL)["test_micro_f1"]
        .agg(["size", "mean", "std"])
        .add_prefix(f"{name}_")
        for name, rows in (("reference", ours), ("compiled", theirs))
    }
    both = pd.concat(means.values(), axis=1, join="inner").reset_index()
    both = both[both["reference_size"] == both["compiled_size"]]
    variance = both["reference_std"] ** 2 + both["compiled_std"] ** 2
    difference = both["reference_mean"] - both["compiled_mean"]
    return both.assign(errors=difference / np.sqrt(variance / both["compiled_size"]))


def table(ours: pd.DataFrame, theirs: pd.DataFrame) -> str:
    """Return a row per finished cell, and what is missing."""
    cells = compared(ours, theirs)
    within, hours = (cells["errors"].abs() <= LIMIT).sum(), ours["seconds"].sum() / 3600
    lines = [
        "| protocol | optimizer | splits | ε | reference | compiled | difference |",
        "|---|---|---:|---:|---:|---:|---:|",
        *(
            f"| {each.protocol} | {each.optimizer} | {each.splits} | "
            f"{'∞' if np.isinf(each.epsilon) else f'{each.epsilon:g}'} | "
            f"{each.reference_mean:.3f} ({each.reference_std:.3f}) | "
            f"{each.compiled_mean:.3f} ({each.compiled_std:.3f}) | {each.errors:+.1f} |"
            for each in cells.itertuples()
        ),
        "",
        f"{within} of {len(cells)} means are within {LIMIT} standard errors; "
        f"{len(ours)} of {len(theirs)} replicas are made, in {hours:.2f} hours of one thread; rows "
        "of which replicas are missing are not shown.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Make the replicas that are missing, and write their rows and the page after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mirror", help="folder with the raw files")
    parser.add_argument("--most", type=int, help="replicas to make at most")
    options = parser.parse_args()
    torch.set_num_threads(1)
    file, theirs = FOLDER / "reference.csv", recorded()
    rows = pd.read_csv(file).to_dict("records") if file.is_file() else []
    there = {tuple(row[key] for key in [*CELL, "seed"]) for row in rows}
    missing = [row for _, row in theirs.iterrows() if tuple(row[[*CELL, "seed"]]) not in there]
    try:
        sources.supply(["cora"], RAW, options.mirror)
        dataset = registry.build("cora", RAW)
    except UserError as error:
        sys.exit(f"error: {error}")
    for row in missing[: options.most]:
        with threadpool_limits(limits=1):
            rows.append(replica(row, dataset))
        print(rows[-1], file=sys.stderr, flush=True)
        frame = pd.DataFrame(rows).sort_values([*CELL, "seed"])
        with atomic_path(file) as temporary:
            frame.to_csv(temporary, index=False, float_format="%.6g")
        put("reference", table(frame, theirs))


if __name__ == "__main__":
    main()
