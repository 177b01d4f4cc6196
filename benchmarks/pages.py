"""The benchmark pages as Markdown, their numbers as CSV, and the index of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from floor import Rates
from measure import Measured
from phases import NAMES

from private_graphs.core.files import atomic_path, write_text

Rows = Sequence[Mapping[str, object]]

FLOOR_TEXT = (
    "The floor estimates from below what an epoch costs with these algorithms on this machine: "
    "the sparse products with the features and the propagation matrix (non-zeros counted from the "
    "blocks, forward and backward, validation included; the slower of bytes moved at the "
    "bandwidth of the gather kernel for a table of that size, and of floating-point operations at "
    "the kernel's rate with all data in the first cache), one Gaussian draw for each parameter "
    "that gets noise, and one pass of the optimizer over the parameters that it changes. Dense "
    "products, loss, dropout, norms and the slower reading of a matrix that fits no near cache "
    "are not in it. Rates are measured on random columns and vary with the load of the machine."
)
PHASES_TEXT = (
    "Milliseconds per replica-epoch, from running the pieces of epochs apart; the fastest run of "
    "each. *Forward* is without dropout; the *rest of the visits* is the backward pass, the norm "
    "for clipping, dropout and calling the kernels once per step; *noise and update* is a whole "
    "training epoch less one that stops before both, so it can come out slightly negative where "
    "there is next to nothing to do. Under `released` without DP the training pass scores the "
    "validation nodes on the way (validation 0)."
)


def write_page(folder: Path, name: str, page: str, rows: Rows) -> None:
    """Write ``<name>.md`` and ``<name>.csv``."""
    with atomic_path(folder / f"{name}.csv") as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False, float_format="%.5g")
    write_text(folder / f"{name}.md", page)


def _ratio_table(rows: Rows) -> list[str]:
    found = [
        "| case | ours | floor | ours / floor | baseline | its time | ratio | aim | |",
        "|---|---:|---:|---:|---|---:|---:|---:|---|",
    ]
    for row in rows:
        aim = "" if row["aim"] is None else f"≥ {row['aim']:.3g}×"
        verdict = {None: "", True: "reached", False: "**missed**"}[row["reached"]]
        partly = row["baseline_measured"] != "whole epochs"
        baseline = f"{row['baseline']} ({row['baseline_measured']})" if partly else row["baseline"]
        found.append(
            f"| {row['case']} | {row['ours_ms']:.3f} | {row['floor_ms']:.3f} | "
            f"{row['over_floor']:.2f} | {baseline} | {row['baseline_ms']:.2f} | "
            f"{row['ratio']:.3g}× | {aim} | {verdict} |"
        )
    return found


def _floor_table(measured: Sequence[Measured]) -> list[str]:
    found = [
        "| case | MFLOP | MB moved | products | (run alone) | draws | noise | update | floor | "
        "ours / floor |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for each in measured:
        floor = each.floor
        found.append(
            f"| {each.case.training.title} | {floor.flops / 1e6:.2f} | {floor.bytes / 1e6:.2f} | "
            f"{floor.products:.3f} | {each.products_alone:.3f} | {floor.draws:,} | "
            f"{floor.noise:.3f} | {floor.update:.3f} | {floor.total:.3f} | "
            f"{each.over_floor:.2f} |"
        )
    return found


def _phase_row(each: Measured) -> str:
    cells = " | ".join(f"{each.phases[name]:.3f}" for name in NAMES)
    return f"| {each.case.training.title} | {cells} | {sum(each.phases.values()):.3f} |"


def _phase_table(measured: Sequence[Measured]) -> list[str]:
    """The case closest to its floor, the one farthest from it, then all."""
    best = min(measured, key=lambda each: each.over_floor)
    worst = max(measured, key=lambda each: each.over_floor)
    found = [
        f"Closest to its floor: **{best.case.training.title}**, {best.over_floor:.2f} times. "
        f"Farthest: **{worst.case.training.title}**, {worst.over_floor:.2f} times; of its time "
        f"{_largest_phase(worst)}.",
        "",
        f"| case | {' | '.join(NAMES)} | sum |",
        "|---|" + "---:|" * (len(NAMES) + 1),
    ]
    return found + [_phase_row(each) for each in measured]


def _largest_phase(each: Measured) -> str:
    name = max(each.phases, key=each.phases.__getitem__)
    return f"{each.phases[name] / sum(each.phases.values()):.0%} goes into *{name}*"


def training_page(
    dataset: str,
    replicas: int,
    command: str,
    rows: Rows,
    measured: Sequence[Measured],
    rates: Rates,
) -> str:
    """The page of one dataset; ``rows`` are ``measured`` as records, one per comparison."""
    partly = any(row["baseline_measured"] != "whole epochs" for row in rows)
    scaled = (
        " Where a baseline's row says *steps, scaled*, its epoch would take too long: that many of "
        "its steps were timed, all of which do the same work, and scaled to the epoch; its "
        "validation was timed apart and added."
    )
    lines = [
        f"# Speed of batched training on {dataset}",
        "",
        f"{replicas} replicas, milliseconds of processor time per replica-epoch, validation "
        "included on both sides. "
        "The baselines are what a user would write: a plain loop with `GCNConv`, dense features "
        "and dense noise, one replica, on the whole graph. Both sides ran in turns within one run; "
        "means over a round, of the fastest round of each side."
        + (scaled if partly else ""),
        "",
        f"Machine: {rows[0]['machine']}.",
        "",
        f"Command: `{command}`",
        "",
        *_ratio_table(rows),
        "",
        "The float64 baseline's time is dominated by one dense matrix product (nodes × words × "
        "32), so its ratio follows the machine's float64 arithmetic.",
        "",
        "## The floor",
        "",
        FLOOR_TEXT,
        "",
        "Per replica-epoch; times in milliseconds. *Run alone*: the same sparse products by our "
        "kernels, with nothing around them.",
        "",
        *_floor_table(measured),
        "",
        *rates.table(),
        "",
        "## Where the time goes",
        "",
        PHASES_TEXT,
        "",
        *_phase_table(measured),
        "",
    ]  # fmt: skip
    return "\n".join(lines)


def write_index(folder: Path) -> None:
    """Write ``README.md``: what the pages of the folder show, from their numbers."""
    lines = [
        "# Benchmarks",
        "",
        "| page | compared | aims reached | machine |",
        "|---|---|---|---|",
    ]
    for path in sorted(folder.glob("*.csv")):
        frame = pd.read_csv(path)
        if "machine" not in frame:
            continue  # numbers of an older form, until their page is measured anew
        name = path.stem
        with_aim = frame[frame["aim"].notna()]
        missed = with_aim[~with_aim["reached"].astype(bool)]
        reached = f"{len(with_aim) - len(missed)} of {len(with_aim)}" if len(with_aim) else "no aim"
        if len(missed):
            reached += "; missed: " + "; ".join(missed["case"].drop_duplicates())
        lines.append(
            f"| [{name}]({name}.md), [.csv]({name}.csv) | {len(frame)} | {reached} | "
            f"{frame['machine'].iloc[0]} |"
        )
    lines += [
        "",
        "## What a ratio means",
        "",
        "How many times faster one epoch of one replica is with the batched engine than with a "
        "plain PyTorch loop that does the same: the loop's time divided by ours, both from the "
        "same run on the same machine, one thread each, in turns. Ratios travel between machines "
        "better than milliseconds do, but not perfectly: the float64 loop follows dense float64 "
        "arithmetic, ours follows caches. The case of the per-epoch sum (`sound` with splits) is "
        "compared with batched full-graph training, which it should not be much slower than.",
        "",
        "*Ours / floor* says how much is left to gain on this machine without a better algorithm.",
        "A *slope* on the growth page is the exponent of growth: 1 means that twice the size takes "
        "twice the time.",
        "",
        "## Again",
        "",
        "```",
        "python benchmarks/training.py --mirror DIR --out docs/benchmarks",
        "python benchmarks/growth.py --out docs/benchmarks",
        "```",
        "",
        "The first takes `--dataset` (default: `cora,citeseer,pubmed`) and `--only TEXT` to narrow "
        "the cases; without `--out` it prints the page. `DIR` holds the raw files in the layout of "
        "`data/sources.yaml`; without `--mirror` they are downloaded. Both commands write pages, "
        "numbers and this index. Run them on a machine that does nothing else.",
        "",
    ]  # fmt: skip
    write_text(folder / "README.md", "\n".join(lines))
