"""Speed of batched training against a plain loop: ratios within one run, one thread each.

    python benchmarks/training.py --mirror DIR --out docs/benchmarks

Every measurement is milliseconds per replica-epoch, validation included on both sides; both sides
take turns within a round, and the fastest round of each side counts: whatever else the machine does
only adds time. Beside each time stands its floor: what its sparse products, noise draws and update
cost at least, at rates measured in the same run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd
import torch
from cases import cases
from floor import Rates
from measure import measure, records
from pages import write_rows
from threadpoolctl import threadpool_limits
from timing import machine

from private_graphs.core.errors import UserError
from private_graphs.datasets import registry, sources

RAW = Path("data/raw")


def run(name: str, options: argparse.Namespace) -> None:
    """Measure every case of a dataset; write its rows, and the rates of its floors.

    Raises UserError where no case is left.
    """
    where = machine()
    wanted = [
        case
        for case in cases(options.replicas, options.longest)
        if options.only in case.training.title
    ]
    if not wanted:
        raise UserError(
            f"--only {options.only!r} is part of no case; expected part of a name such as "
            "'DP, 10 splits, paper, Adam'"
        )
    sources.supply([name], RAW, options.mirror)
    dataset = registry.build(name, RAW)
    rates, measured = Rates(options.seconds / 10), []
    for case in wanted:
        each = measure(case, dataset, rates, options.replicas, options.rounds, options.seconds)
        measured.append(each)
        ratios = ", ".join(
            f"{each.baselines[side] / each.ours:.3g}x {side}" for side in each.baselines
        )
        print(
            f"{name}: {case.training.title}: {each.ours:.3f} ms, {each.over_floor:.2f} floors; "
            f"{ratios}", file=sys.stderr, flush=True,
        )  # fmt: skip
    if options.out is None:
        return
    write_rows(options.out, f"training_{name}", records(measured, name, where))
    path = options.out / "rates.csv"
    others = pd.read_csv(path).to_dict("records") if path.is_file() else []
    kept = [row for row in others if row["dataset"] != name]
    write_rows(options.out, "rates", [*kept, *rates.rows(name)])


def main() -> None:
    """Measure the datasets one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="cora,citeseer,pubmed", help="names: a,b,c")
    parser.add_argument("--mirror", help="folder with the raw files")
    parser.add_argument("--replicas", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="per side and round")
    parser.add_argument(
        "--longest", type=float, default=4.0,
        help="seconds of a plain loop's epoch above which a tenth of its steps is measured",
    )  # fmt: skip
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--out", type=Path, help="folder for the rows; without it: printed ratios")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with threadpool_limits(limits=1):
        for name in options.dataset.split(","):
            try:
                run(name, options)
            except UserError as error:
                sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
