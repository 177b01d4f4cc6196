"""Figures 1 to 6 of LREC 2022, and what leaks in practice."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.report import words
from private_graphs.report.columns import along, arranged, plain
from private_graphs.report.leaks import leak_exhibit
from private_graphs.report.results import Results
from private_graphs.report.words import OPTIMIZERS
from private_graphs.running.exhibit import Block, Cell, Chart, Column, Exhibit, Table
from private_graphs.studies.lrec2022.points import parts_words, printed_gcns, score_cell, scored

# --- Figures 1 to 4: micro-F1 by share of the training nodes, or by splits (Section 5) ---

CURVE_PLACE = ["dataset", "optimizer", "epsilon", "splits", "train_fraction"]
"""Columns that identify a point under one protocol."""
CURVE_LINE = ["dataset", "protocol", "optimizer", "epsilon"]
Printed = Callable[[Any, str], pd.DataFrame]
"""Callable: (results, name of a figure) → printed values of its points (``printed_points``)."""
DRAWN_NOTE = (
    "A share of the training nodes is drawn class by class under released and paper, each class "
    "keeping that share of its nodes; the text does not say how it is drawn. Under sound every "
    "node has a coin of its own."
)
AXES = {"splits": "number of splits", "train_fraction": "share of the training nodes"}


def printed_points(results: Any, figure: str) -> pd.DataFrame:
    """Return printed values of a figure's points: those of the text, else those of Table 1.

    ``published_where`` also names Table 1 where the paper contradicts itself.
    """
    claims = results.published("claims").dropna(subset=[*CURVE_PLACE, "value"])
    claims = claims.query("figure == @figure")
    table = printed_gcns(results)[[*CURVE_PLACE, "published"]]
    points = claims[[*CURVE_PLACE, "value", "where"]].merge(table, how="outer", on=CURVE_PLACE)
    where = points["where"].str.replace("fig", "text on Figure ").str.replace("sec", "Section ")
    mask = (points["value"] - points["published"]).abs() > 0.005
    where[mask] += [f" (Table 1: {value:g})" for value in points.loc[mask, "published"]]
    published = points["value"].fillna(points["published"])
    return points[CURVE_PLACE].assign(published=published, published_where=where.fillna("Table 1"))


def curves(
    results: Any, figure: str, group: str, x: str, private: bool, printed: Printed = printed_points
) -> list[Block]:
    """Return the charts of a figure over ``x``, and the table of its points.

    With DP a chart per dataset has a row per protocol and a line per ε; without DP one chart has a
    row per dataset and a line per protocol. Optimizers stand side by side.
    """
    points = curve_points(results, figure, group, private, printed)
    label = figure.replace("figure", "Figure ")
    optimizers = pd.Categorical(points["optimizer"].map(OPTIMIZERS), list(OPTIMIZERS.values()))
    frame = points.assign(optimizer=optimizers, title=points["dataset"].map(results.title_of))
    frame["share"] = 100 * frame["train_fraction"]
    chart = partial(
        Chart, x="splits" if x == "splits" else "share", steps=x == "splits", column="optimizer",
        printed="published", references={"majority class": "majority"}, y_label="test micro-F1",
        x_label=AXES[x] if x == "splits" else f"{AXES[x]} in %",
    )  # fmt: skip
    if not private:
        charts = [chart(f"{label}. Without DP", frame, line="protocol", row="title")]
    else:
        charts = [
            chart(f"{label}. {title}", _with_privacy(rows), line="epsilon", words="privacy",
                  row="heading", line_label="ε asked:")
            for title, rows in frame.groupby("title", sort=False)
        ]  # fmt: skip
    return [*charts, _curve_table(points, results, x, private)]


def curve_points(
    results: Any, figure: str, group: str, private: bool, printed: Printed = printed_points
) -> pd.DataFrame:
    """Return a row per point of a figure, with its baselines and printed value."""
    points = scored(
        results, group, [*CURVE_PLACE, "protocol"], learning_rate="learning_rate",
        majority="majority_micro_f1", random="random_micro_f1",
    )  # fmt: skip
    points = points[np.isfinite(points["epsilon"]) == private]
    points = points.merge(printed(results, figure), how="left", on=CURVE_PLACE)
    by = ["dataset", "protocol", "optimizer", "epsilon", "splits", "train_fraction"]
    return arranged(points, by, protocol=PROTOCOLS, optimizer=OPTIMIZERS)


def _with_privacy(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the proved ε along every line, and the headings of the protocols."""
    return pd.concat(_of_protocol(part) for _, part in rows.groupby("protocol", sort=False))


def _of_protocol(rows: pd.DataFrame) -> pd.DataFrame:
    proved = rows[rows["epsilon_proved"].notna()]
    text = "no finite ε is proved"
    if len(proved):
        units = " or ".join(proved["unit"].unique()).replace("_", " ")
        leaks = (proved["inference"] == "leaks").any()
        text = f"ε proved per {units} and run{f', {words.MODEL_ONLY}' if leaks else ''}"
    along = {epsilon: f"→ {_proved(line)}" for epsilon, line in rows.groupby("epsilon")}
    return rows.assign(heading=rows["protocol"] + f"\n{text}", privacy=rows["epsilon"].map(along))


def _proved(line: pd.DataFrame) -> str:
    """Format the range of proved ε along a line; ``refuted`` or ``none`` otherwise."""
    proved = line["epsilon_proved"]
    if proved.isna().any():
        return "refuted" if (line["status"] == "refuted").any() else "none"
    ends = dict.fromkeys(
        words.budget(value) if value < 20 else f"{math.ceil(value)}"
        for value in (proved.min(), proved.max())
    )
    return " to ".join(ends)


def _curve_table(points: pd.DataFrame, results: Any, x: str, private: bool) -> Table:
    """Return the numbers behind the charts: a row per line, a column per position."""
    privacy = {key: words.guarantees(rows) for key, rows in points.groupby(CURVE_LINE)}
    columns = [
        *plain("dataset", "protocol"),
        Column("optimizer", lambda row: OPTIMIZERS[row["optimizer"]]),
    ]
    if private:
        columns += [
            Column("ε", lambda row: words.number(row["epsilon"])),
            Column("ε proved", lambda row: privacy[tuple(row[name] for name in CURVE_LINE)]),
        ]
    heads = parts_words if x == "splits" else lambda share: f"{100 * share:.3g} %"
    columns += along(points, CURVE_LINE, x, sorted(points[x].unique()), _cell, words=heads)
    return Table(
        f"Test micro-F1 by {AXES[x]}: mean ± standard deviation over the seeds",
        points, columns, panel="dataset", lines=points[CURVE_LINE].drop_duplicates(),
        notes=(
            "In square brackets: the published value, where the text or Table 1 prints one.",
            *([DRAWN_NOTE] if x == "train_fraction" else []), *results.protocol_notes(),
            *words.privacy_notes(points),
        ),
    )  # fmt: skip


def _cell(point: dict[str, Any]) -> Cell:
    printed = words.printed(point["published"])
    return score_cell(point, "" if printed == Cell() else f" [{printed.text}]")


# --- hard cases: test nodes that SGD without DP gets wrong with all training nodes ---

PLACE = ["dataset", "features", "protocol"]
POINT = [*PLACE, "epsilon", "train_fraction"]
NOTES = (
    "hard cases: test nodes that SGD without DP gets wrong with all training nodes, for every seed "
    "its own; shares are of the run with the same seed, mean ± standard deviation over the seeds.",
    "all test nodes: the error rate of the same run. A run that is wrong everywhere keeps every "
    "hard case; where both shares are alike, hard cases are no harder to it than others.",
    "In square brackets: what the paper prints.",
)


def hard_shares(results: Results, group: str, fraction: float | None = None) -> pd.DataFrame:
    """Return a row per run of SGD in a group: shares of its hard and of all cases still wrong.

    ``fraction`` selects runs with that share of the training nodes. Seeds without the run that
    defines hard cases are left out.
    """
    runs = results.runs[results.runs["optimizer"] == "sgd"]
    whole = (runs["group"] == "A") & (runs["train_fraction"] == 1)
    records = []
    for key, reference in runs[whole].groupby(PLACE):
        same = (runs[PLACE] == key).all(axis=1) & (runs["group"] == group)
        same &= (fraction is None) | (runs["train_fraction"] == fraction)
        subset = runs[same & runs["seed"].isin(reference["seed"])]
        hard = dict(zip(reference["seed"], wrong_nodes(results, reference), strict=True))
        keys = subset[[*POINT, "seed"]].to_dict("records")
        for row, wrong in zip(keys, wrong_nodes(results, subset), strict=True):
            cases = hard[row["seed"]]
            records.append(row | {
                "cases": cases.sum(), "kept": 100 * wrong[cases].mean() if cases.any() else np.nan,
                "error": 100 * wrong.mean(),
            })  # fmt: skip
    return pd.DataFrame(records, columns=[*POINT, "seed", "cases", "kept", "error"])


def wrong_nodes(results: Results, rows: pd.DataFrame) -> np.ndarray:
    """Return (R, M) whether runs are wrong on the labelled test nodes."""
    if rows.empty:
        return np.zeros((0, 0), dtype=bool)
    classes, labels = results.predictions(rows)
    return (classes != labels)[:, labels >= 0]


def hard_cases(results: Results, figure: str, group: str, x: str) -> list[Block]:
    """Return a chart with a row of facets per dataset, and its table, over column ``x``."""
    shares = hard_shares(results, group, 1.0 if x == "epsilon" else None)
    runs = results.runs.merge(shares[[*POINT, "seed"]].drop_duplicates())
    runs = runs[(runs["group"] == group) & (runs["optimizer"] == "sgd")]
    points = results.with_rows(runs).points(POINT)
    means = shares.groupby(POINT).agg(
        cases=("cases", "mean"), kept=("kept", "mean"), kept_std=("kept", "std"),
    )  # fmt: skip
    points = points.merge(means.reset_index(), on=POINT)
    points = points.assign(error=100 * (1 - points.pop("mean")), error_std=100 * points.pop("std"))
    points["published"] = _printed(results, figure, points)
    points = arranged(points, ["dataset", "protocol", x], protocol=PROTOCOLS)
    return [_hard_chart(results, points, figure, x), _hard_table(points, results, x)]


def _printed(results: Results, figure: str, points: pd.DataFrame) -> list[float | None]:
    """Return the text's value at every point."""
    claims = results.published("claims")
    if "figure" not in claims:
        return [None] * len(points)
    claims = claims[claims["figure"] == figure].dropna(subset=["value"]).to_dict("records")
    return [
        next((
            claim["value"] for claim in claims
            if claim["dataset"] == row["dataset"]
            and claim["train_fraction"] == row["train_fraction"]
            and (words.missing(claim["epsilon"]) or claim["epsilon"] == row["epsilon"])
        ), None)
        for row in points.to_dict("records")
    ]  # fmt: skip


def _hard_chart(results: Results, points: pd.DataFrame, figure: str, x: str) -> Chart:
    parts = [
        points.assign(line=line, mean=points[name], std=points[f"{name}_std"],
                      published=points["published"] if name == "kept" else None)
        for name, line in (("kept", "hard cases"), ("error", "all test nodes"))
    ]  # fmt: skip
    frame = pd.concat(parts, ignore_index=True)
    frame["share"] = 100 * frame["train_fraction"]
    frame["title"] = frame["dataset"].map(results.title_of)
    protocols = [name for name in PROTOCOLS if name in set(frame["protocol"])]
    frame["protocol"] = pd.Categorical(frame["protocol"], protocols)
    label = figure.replace("figure", "Figure ")
    under = "under DP" if x == "epsilon" else "with less training data"
    return Chart(
        f"{label}. Test nodes that SGD gets wrong {under}", frame,
        x="epsilon" if x == "epsilon" else "share", steps=x == "epsilon", line="line",
        row="title", column="protocol", printed="published", y_label="wrong, in %",
        x_label="ε asked for" if x == "epsilon" else "share of the training nodes in %",
    )  # fmt: skip


def _hard_table(points: pd.DataFrame, results: Results, x: str) -> Table:
    def share(name: str) -> Any:
        def show(row: dict[str, Any]) -> Cell:
            printed = row["published"] if name == "kept" else None
            note = "" if words.missing(printed) else f" [{words.number(printed)}]"
            return score_cell(
                row | {"mean": row[name] / 100, "std": row[f"{name}_std"] / 100}, note, 1, 100
            )

        return show

    at = Column("ε", lambda row: words.number(row["epsilon"]))
    if x != "epsilon":
        at = Column("training nodes", lambda row: f"{100 * row['train_fraction']:.3g} %")
    columns = [
        *plain("dataset", "protocol"),
        at,
        Column("hard cases", lambda row: words.number(row["cases"], 1)),
        Column("hard cases", share("kept"), "wrong, in %"),
        Column("all test nodes", share("error"), "wrong, in %"),
        *([Column("ε proved", words.guarantee)] if x == "epsilon" else []),
    ]
    return Table(
        "Hard cases that are still wrong, beside the error on all test nodes", points, columns,
        (*NOTES, *results.protocol_notes(), *words.privacy_notes(points)), panel="dataset",
    )  # fmt: skip


CURVES = tuple(
    Exhibit(
        name, title, (group,),
        partial(curves, figure=name.partition("_")[0], group=group, x=x, private=private),
        label, meaning,
    )
    for name, title, label, group, x, private, meaning in (
        ("figure1", "Without DP, by share of the training nodes", "", "A", "train_fraction", False,
         "How much training data does a graph convolutional network need when nothing is private? "
         "SGD and Adam train on random shares of the training nodes."),
        ("figure2", "With DP, by share of the training nodes", "", "B", "train_fraction", True,
         "Does more training data help under DP, on the full graph?"),
        ("figure3", "Without DP, by number of random splits", "", "C", "splits", False,
         "How much accuracy does training on random splits cost, compared with the full graph (1 "
         "split)?"),
        ("figure3_without_dp", "SGD on random splits of larger graphs", "Figure 3, SGD",
         "C_without_dp", "splits", False,
         "PubMed in Figure 3, as the text describes it: SGD without DP on the full graph and on "
         "random splits."),
    )
)  # fmt: skip


def _figure4(results: Any) -> list[Block]:
    """Return the figure, and the text's claim about it compared with the noise of its points."""
    blocks = curves(results, "figure4", "C", x="splits", private=True)
    claims = results.published("claims").query("figure == 'figure4'")
    noise = curve_points(results, "figure4", "C", private=True).query("protocol == 'paper'")
    noise = noise.pivot_table("noise_multiplier", ["dataset", "optimizer", "epsilon"], "splits")
    factors = [
        f"{ratios.min():.2f} to {ratios.max():.2f} for {splits:g} splits"
        for splits, ratios in noise.rdiv(noise.get(1.0, pd.NA), axis=0).items()
        if splits > 1 and ratios.notna().any()
    ]
    return [
        *blocks,
        *(f"The paper (Section 6.3): {claim}, {value:g}. Its formula asks for less noise at the "
          f"same ε, by a factor of {', '.join(factors)}, because it takes shuffled visits for "
          "Poisson samples. They justify no such factor: a node takes part once in every epoch, "
          "and the noise that a proved ε needs is the same for every number of splits "
          "(docs/privacy.md §3)."
          for claim, value in zip(claims["claim"], claims["value"], strict=True)),
    ]  # fmt: skip


FIGURE4 = Exhibit(
    "figure4",
    "With DP, by number of random splits",
    groups=("C",),
    build=_figure4,
    meaning="Does training on random splits help under DP? 1 split is the full graph.",
)


def hard_exhibits(names: tuple[str, str], study: str = "", more: str = "") -> tuple[Exhibit, ...]:
    """Return the exhibits of hard cases by share of the training nodes, and by ε."""
    groups = (f"{study}A", f"{study}B")
    by_share = partial(hard_cases, figure=names[0], group="A", x="train_fraction")
    by_budget = partial(hard_cases, figure=names[1], group="B", x="epsilon")
    return (
        Exhibit(names[0], "Hard cases, by share of the training nodes", groups[:1], by_share,
                meaning="Do the same test nodes stay wrong when SGD has fewer training nodes?"
                f"{more}"),
        Exhibit(names[1], "Hard cases under DP, by ε", groups, by_budget,
                meaning="Do the test nodes that SGD gets wrong without DP stay wrong under it?"
                f"{more}"),
    )  # fmt: skip


HARD_CASES = hard_exhibits(
    ("figure5", "figure6"), more=" The share of all wrong nodes stands beside it."
)

WHAT_LEAKS = leak_exhibit(
    "what_leaks",
    (
        "leaks_without_dp", "leaks_unlabelled", "leaks_pubmed", "leaks_refuted", "leaks_private",
        "leaks_sgd", "leaks_proved", "leaks_links", "leaks_edges", "leaks_noisy_graph",
        "leaks_words",
    ),
    "An attacker guesses who was a training node, which edges there are, and who used a rare word, "
    "beside the printed and the proved ε.",
)  # fmt: skip
