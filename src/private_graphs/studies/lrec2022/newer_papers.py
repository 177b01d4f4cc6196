"""Newer papers on the same graphs: what they print, what their code proves, ours on their split."""

from __future__ import annotations

from typing import Any

import pandas as pd

from private_graphs.report.columns import plain
from private_graphs.report.words import enumeration, missing, number, printed, score_of
from private_graphs.running.exhibit import Block, Cell, Column, Exhibit, Table
from private_graphs.studies.lrec2022.points import score_cell

PRINTED = ["paper", "model", "relation", "delta", "split", "place", "printed", "spread", "proves"]
PAPER = ["paper", "relation", "split", "place"]
"""Columns of the heading over the methods of a paper."""
TITLE = "Accuracy, printed and ours"
NAMED_COLUMNS = ["mean", "std", "status", "epsilon_proved", "statement_id"]
NO_POINTS = pd.DataFrame(columns=["mask_seed", *NAMED_COLUMNS])
"""Points of what was not run."""
NAMED = 12345
"""Seed of the masks that DPDGC's code draws."""
NAMED_SPLIT = f"75/10/15, seed {NAMED}"
OURS = {"edge": ("label_counts", "edges"), "node": ("class_sums", "graph")}
"""Protected unit -> our method and scenario."""
TEXTS_ALONE = {"edge": ("text_only", "edges"), "node": ("class_sums", "text")}
"""Protected unit -> the same without any edge."""
PROVES = {
    "released_embedding": "no ε: its embedding is released without the scaling that its noise "
    "supposes",
    "last_step": "no ε: its last aggregation adds no noise",
    "shared_scale": "not this ε: the coordinates of its noise share a scale",
    "dpappr": "not this ε: see DP-APPR",
    "progap": "see ProGAP and GAP",
    "no_edges": "it reads no edge",
    "no_fault": "read, no fault found",
    "not_read": "not read",
}
"""What a printed row's released code proves: words of ``published/newer_papers.csv``."""
NOTES = (
    "ours: a node is a training node; texts and links among validation and test nodes are public; "
    "constants were set with Cora and PubMed. The best printed score of a paper stands first.",
    "printed: accuracy, which is micro-F1. ± as printed: of DPDGC half a 95 % interval of ten runs "
    "on one split, of CARIBOU's logs the deviation of ten runs. A dash: no score could be read.",
    "No text of these papers was read beyond abstracts: what a code proves is said of the code.",
    "split of DPDGC: 75 % training, 10 % validation and 15 % test nodes, drawn by seed "
    f"{NAMED} as its repository does; mean ± deviation over the draws of the "
    "noise. all draws: that one and further ones; mean ± deviation over the draws.",
    "ours, edge: noisy counts of the neighbours' labels, a friendship added or removed, δ = 0, "
    "which is stricter than one directed entry; all training labels are public. node: noisy class "
    "sums, a training node with text, label and all its edges replaced, no label public, δ as "
    "DPDGC's.",
    "texts alone: the same split without any edge; at node level private texts at the same ε.",
)


def build(results: Any) -> list[Block]:
    """Return a table: a row per printed score at an ε that was run, or per ε where none is."""
    titles = {item["name"]: item["title"].partition(" (")[0] for item in results.statistics}
    drawn = _draws(results)
    key = ["dataset", "unit", "epsilon"]
    ran = pd.DataFrame(
        [(dataset, unit, epsilon) for dataset, method, scenario, epsilon in drawn
         for unit, ours in OURS.items() if ours == (method, scenario)], columns=key,
    )  # fmt: skip
    theirs = results.published("newer_papers").rename(columns={"test_micro_f1": "printed"})
    theirs = theirs[theirs["dataset"].isin(ran["dataset"])].merge(ran, "left", key, indicator="run")
    shown = theirs[(theirs["run"] == "both") | theirs["printed"].isna()]
    unprinted = ran[~ran["dataset"].isin(theirs["dataset"])]
    frame = pd.concat([shown, unprinted], ignore_index=True)[[*key, *PRINTED]]
    rows = []
    order = [*key, "printed"]
    for row in frame.sort_values(order, ascending=[True] * 3 + [False]).to_dict("records"):
        own = drawn.get((row["dataset"], *OURS[row["unit"]], row["epsilon"]), NO_POINTS)
        method, scenario = TEXTS_ALONE[row["unit"]]
        epsilon = row["epsilon"] if scenario == "text" else 0.0
        alone = drawn.get((row["dataset"], method, scenario, epsilon), NO_POINTS)
        same = row["split"] == NAMED_SPLIT or missing(row["paper"])
        points = own[(own["mask_seed"] == NAMED) & same]
        named = dict.fromkeys(NAMED_COLUMNS) | dict(*points[NAMED_COLUMNS].to_dict("records"))
        rows.append(
            {"graph": titles[row["dataset"]], **row, **named}
            | _over("draws", own)
            | _over("alone", alone)
        )
    return [_table(pd.DataFrame(rows))] if rows else []


FAULTS = ("released_embedding", "last_step", "shared_scale")
"""Values of ``PROVES`` that say that a paper's own method lacks noise."""


def numbers(results: Any) -> dict[str, str]:
    """Return the ``papers`` of the table, ``read`` of them, ``faults`` among these and the
    ``faulty`` ones, those ``without fault``, and the printed ``smallest`` and ``largest`` ε."""
    rows = results.published("newer_papers")
    of_authors = rows[[paper.startswith(model.partition("-")[0]) for paper, model in
                zip(rows["paper"], rows["model"], strict=True)]]  # fmt: skip
    named = of_authors.assign(name=of_authors["paper"].str.partition(" (")[0]).groupby(
        "name", sort=False
    )
    verdicts = {name: set(group["proves"]) for name, group in named}
    faulty = [name for name, proofs in verdicts.items() if proofs & {*FAULTS}]
    sound = [name for name, proofs in verdicts.items() if "no_fault" in proofs]
    judged = [name for name, proofs in verdicts.items() if proofs != {"not_read"}]
    return {
        "papers": number(rows["paper"].nunique()), "read": number(len(judged)),
        "faults": number(len(faulty)), "faulty": enumeration(faulty),
        "without fault": enumeration(sound),
        "smallest": number(rows["epsilon"].min()), "largest": number(rows["epsilon"].max()),
    }  # fmt: skip


def _draws(results: Any) -> dict[tuple[Any, ...], pd.DataFrame]:
    """Return the points of every draw of masks by dataset, method, scenario and ε: with no public
    label where nodes are protected."""
    edges = results.rows["scenario"] == "edges"
    shown = results.with_rows(results.rows[edges | (results.rows["validation_labels"] == 0)])
    place = ["dataset", "method", "scenario", "epsilon"]
    return dict(iter(shown.points([*place, "mask_seed"]).groupby(place)))


def _over(name: str, points: pd.DataFrame) -> dict[str, float]:
    """Return mean and deviation over draws of masks."""
    return {name: points["mean"].mean(), f"{name}_std": points["mean"].std()}


def _table(frame: pd.DataFrame) -> Table:
    """Return the scores of every method by ε, below what its paper protects and how it splits."""
    lines: list[dict[str, Any]] = []
    for (graph, unit), part in frame.groupby(["graph", "unit"], sort=False):
        panel, deltas = f"{graph}, {unit} level", part.groupby("paper")["delta"].first()
        head = {"panel": panel, "paper": f"Ours: {OURS[unit][0]}", "proves": Cell()}
        rows = part.to_dict("records")
        for name, words in (("draws", "all draws"), ("alone", "texts alone")):
            lines.append(head | {row["epsilon"]: score_of(row, name) for row in rows}
                         | {"method": words})  # fmt: skip
        same = {row["epsilon"]: score_cell(row) for row in rows if not missing(row["statement_id"])}
        lines += [head | same | {"method": "split of DPDGC"}] if same else []
        papers = part.sort_values("printed", ascending=False)
        keys = [*PAPER, "model", "proves"]
        judged: set[tuple[str, str]] = set()  # of a method once
        alike = papers.groupby(PAPER, sort=False)["proves"].nunique() == 1
        for (*about, model, proves), group in papers.groupby(keys, sort=False):
            delta, whole = deltas[about[0]], alike[tuple(about)]
            about += [] if missing(delta) else [f"δ = {number(delta)}"]
            about += [f"code: {PROVES[proves]}"] if whole else []
            lines.append({row["epsilon"]: _printed(row) for row in group.to_dict("records")} | {
                "panel": panel, "paper": " · ".join(dict.fromkeys(about)), "method": model,
                "proves": Cell() if whole or (about[0], model) in judged else Cell(PROVES[proves]),
            })  # fmt: skip
            judged.add((about[0], model))
    order = list(dict.fromkeys((line["panel"], line["paper"]) for line in lines))
    lines.sort(key=lambda line: order.index((line["panel"], line["paper"])))
    columns = [
        Column("paper", lambda row: row["paper"], above=True),
        *plain("panel", "method"),
        Column("its code proves", lambda row: row["proves"], under=True),
        *(Column(f"ε = {number(at)}", lambda row, at=at: Cell() if missing(row[at]) else row[at],
                 sparse=True)
          for at in sorted(frame["epsilon"].unique())),
    ]  # fmt: skip
    return Table(TITLE, frame, columns, NOTES, "panel", pd.DataFrame(lines))


def _printed(row: dict[str, Any]) -> Cell:
    cell = printed(row["printed"])
    around = "" if missing(row["spread"]) else f" ± {row['spread']:.3f}"
    return Cell(f"{cell.text}{around}", tone=cell.tone)


EXHIBIT = Exhibit(
    "newer_papers",
    "Newer papers on these graphs",
    groups=["newer_edges", "newer_nodes"],
    build=build,
    numbers=numbers,
    meaning="Later papers on the same graphs: the printed accuracy, the ε that their released code "
    f"proves, and the accuracy of ours ({OURS['edge'][0]} for an edge, {OURS['node'][0]} for a "
    "node) on the same split at the same unit and ε.",
)
