"""Table 5.1, ablations, and what the source does not show: rows, proofs, cuts, edges."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.report.columns import lookup, plain, size_columns
from private_graphs.report.layout import LayoutColumn, laid_out, naming, rows_of
from private_graphs.report.words import budget, guarantee, missing, number, privacy_notes, score
from private_graphs.running.exhibit import (
    Block,
    Column,
    Exhibit,
    Layout,
    LayoutCell,
    Line,
    Table,
)
from private_graphs.studies.dpappr.points import (
    ROWS,
    SAMPLE_NOTE,
    chart,
    difference,
    gain,
    points,
    title_of,
)

# --- Table 5.1: sizes of the datasets, as printed and after loading ---

SIZES = {"nodes": "nodes", "edges": "edges", "features": "features", "classes": "classes"}
NAMES = {"cora-ml": "Cora-ML", "pubmed": "PubMed", "ms-academic": "MS Academic"}
"""The thesis's names."""
_PRINTED = {"features": "features_printed"}


def _sizes(results: Any) -> list[Table]:
    """Return the sizes of every built graph and those that are printed."""
    at = {row["dataset"]: row for row in results.published("table1").to_dict("records")}
    rows = []
    for entry in results.statistics:
        if "nodes" not in entry:
            continue
        row = at.get(entry["name"], {})
        sizes = {name: entry[name] for name in SIZES}
        printed = {f"printed_{name}": row.get(_PRINTED.get(name, name)) for name in SIZES}
        # each edge once, and again if both directions are stored
        one_way = entry.get("one_way_edges")
        stored = None if one_way is None else 2 * entry["edges"] - one_way
        rows.append({"dataset": entry["name"], "synthetic": entry["synthetic"], "entries": stored}
                    | sizes | printed)  # fmt: skip
    columns = [*plain("dataset"), *size_columns(SIZES), *plain({"entries stored": "entries"})]
    note = (
        "entries stored: directed ones of the raw adjacency. The thesis's 8416 edges of Cora-ML "
        "are these: its file has most edges in one direction alone; its code uses them as stored, "
        "here every edge is undirected."
    )
    frame = pd.DataFrame(rows).sort_values("dataset", ignore_index=True)
    return [Table("Table 5.1. Datasets: printed sizes and those after loading", frame, columns,
                  (note,), layout=_layout(results, frame))]  # fmt: skip


def _layout(results: Any, frame: pd.DataFrame) -> Layout:
    """Return the thesis's table: a row per graph; ours are the sizes after loading."""
    published = results.published("table1").rename(columns={"features_printed": "features"})
    sizes = ("classes", "features", "nodes", "edges")
    printed = {(row["dataset"], name): LayoutCell(number(row[name]))
               for row in published.to_dict("records") for name in sizes}  # fmt: skip
    lines = {(row["dataset"], name): [Line("here", number(row[name]))]
             for row in frame.to_dict("records") for name in sizes}  # fmt: skip
    kinds = published.set_index("dataset")["type"]
    places = [
        naming("dataset", NAMES, "dataset", ("dataset",)),
        LayoutColumn(
            "type", lambda row: kinds.get(row["dataset"], ""), heading=True, per=("dataset",)
        ),
        *(LayoutColumn(name, lambda row, name=name: (row["dataset"], name)) for name in sizes),
    ]
    return laid_out(rows_of(["dataset"], published, frame), places, printed, lines)


TABLE1 = Exhibit(
    "table1",
    "Datasets",
    label="Table 5.1",
    groups=(),
    build=_sizes,
    statistics=True,
    meaning="Did the thesis use the graphs at hand, and what do its numbers of edges count?",
)


# --- prediction without the graph, and SGD in place of Adam ---

_ABLATED = ("appr_ablations", "appr_ablations_proved")
_ABLATIONS = "Ablations"
_CHANGES = {
    "propagations": (2, "local: no graph at prediction"),
    "optimizer": ("adam", "plain SGD"),
}
"""Changed settings, with their value in all other exhibits and a description of the change."""
_JOB = ("dataset", "features", "protocol", "method")


def _ablations(results: Any) -> list[Table]:
    """Return a row per changed job and ε, next to the job that differs in that choice alone."""
    frame = points(results)
    frame = frame[frame["group"].isin(_ABLATED)]
    if frame.empty:
        return []
    runs = results.runs[results.runs["method"].str.startswith("appr_")]
    whole = frame["sample"].astype(float) == 1
    frame = frame.assign(title=frame["title"].where(~whole, frame["title"] + ", all nodes"))
    frame = frame.merge(gains(runs), on=["job", "epsilon"], how="left")
    columns = [
        *plain("dataset", "protocol", {"rows": "title"}),
        Column("K", lambda row: number(row["top"]) if "VANILLA" in row["title"] else number(None)),
        *plain("change", {"ε": "epsilon"}),
        Column("accuracy", score),
        Column("unchanged", lambda row: number(row["unchanged"], 3)),
        Column("difference", difference),
        Column("ε proved", guarantee),
    ]
    notes = (
        "difference: mean over the seeds with its 95 % interval; test nodes and sample of a seed "
        "are the same, what is drawn in training is not. Algorithm 9 writes plain gradient steps; "
        "all other tables and figures have Adam, as the authors' code has.",
        SAMPLE_NOTE,
        *privacy_notes(frame),
    )
    return [Table(_ABLATIONS, frame, columns, notes, "dataset")]


def gains(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the changed jobs by ``job`` and ``epsilon``: the ``change`` in words, and the gain
    over the job with otherwise equal settings."""
    read = ["group", "job", "epsilon", "settings", "seed", "test_accuracy", *_JOB]
    parts = dict(iter(runs[list(dict.fromkeys(read))].groupby(["group", "job", "epsilon"])))
    usual, changed = {}, []
    for key, part in parts.items():
        job = part.iloc[0]
        settings = json.loads(job["settings"])
        words = [text for name, (value, text) in _CHANGES.items() if settings.pop(name) != value]
        kind = *job[list(_JOB)], json.dumps(settings, sort_keys=True), key[-1]
        if words:
            changed.append((key, kind, ", ".join(words)))
        else:
            usual[kind] = part
    return pd.DataFrame([
        {"job": key[1], "epsilon": key[2], "change": words}
        | gain(parts[key], usual.get(kind, runs.iloc[:0]))
        for key, kind, words in changed
    ])  # fmt: skip


ABLATIONS = Exhibit(
    "ablations",
    _ABLATIONS,
    groups=(*_ABLATED, "appr_budgets", "appr_all_nodes"),
    build=_ablations,
    meaning="Do plain gradient steps, which Algorithm 9 writes, learn at its learning rate? How "
    "much of the accuracy comes from public test edges at prediction?",
)


# --- the authors' own test nodes (a METIS part of the graph) beside uniformly drawn ones ---

_METIS = "Test nodes by METIS"
_GROUP = "appr_metis"
_NOT_RUN = "No run is here. METIS reads every edge: it never cuts a graph of yours."
_POINT = ["dataset", "features", "protocol", "method", "top", "training_epsilon", "epsilon"]


def _metis(results: Any) -> list[Block]:
    """Return a row per dataset and method, next to its accuracy on uniformly drawn test nodes."""
    frame = points(results)
    mask = frame["group"] == _GROUP
    uniform, frame = lookup(frame[~mask], _POINT), frame[mask]
    if frame.empty:
        return [_NOT_RUN]
    frame = frame.assign(
        largest_class=[_largest_class(results, job) for job in frame["job"]],
        uniform=[(uniform(row) or {}).get("mean") for row in frame.to_dict("records")],
    )
    columns = [
        *plain("dataset", {"rows": "title", "ε": "epsilon"}),
        Column("accuracy", score),
        *plain({"one class for all": "largest_class"}, decimals=3),
        *plain({"accuracy, uniform test nodes": "uniform"}, decimals=3),
        Column("ε proved", guarantee),
    ]
    notes = (
        "one class for all: share of the most frequent class of these test nodes, which nobody "
        "who trains knows. The partition reads every edge of the private graph, it depends on the "
        "build of METIS, and it is the same for all seeds.",
        *privacy_notes(frame),
    )
    return [Table(_METIS, frame, columns, notes, "dataset")]


def _largest_class(results: Any, job: str) -> float:
    labels = np.ravel(results.answers(f"{results.study.id}/{_GROUP}/{job}").labels)
    return float(np.bincount(labels[labels >= 0]).max() / (labels >= 0).sum())


METIS = Exhibit(
    "metis",
    _METIS,
    groups=(_GROUP, "appr_budgets"),
    build=_metis,
    meaning="The authors' code takes a part of the graph by METIS as test nodes. It may be of "
    "other classes than the rest: scores say as much about the cut as about methods.",
)


# --- gain of proved methods from private edges of training nodes, if any ---

_EDGES = "What private edges of training nodes add"
_PLACE = ["dataset", "features", "group", "job", "epsilon", "validation_labels"]


_BESIDE = {"group": "appr_beside", "method": "class_sums", "validation_labels": 0}
TRIES = (
    ("edges to public nodes, in the row of the training node, and edges among public nodes (class "
     "sums)", _BESIDE | {"scenario": "graph"},
     "class sums of texts alone", _BESIDE | {"scenario": "text"}),
    *((f"labels sent along lists of {degree} (label sums)",
       {"group": "appr_edges", "method": "label_sums", "degree": degree},
       "the same network without sums", {"group": "appr_edges", "method": "mlp_steps"})
      for degree in (1, 4)),
    ("noisy rows of PageRank, anchored in their root (GM on the sample)",
     {"group": "appr_proved", "method": "appr_gaussian", "anchor": 0.9},
     "FEATURES on the whole sample", {"group": "appr_proved", "method": "appr_features"}),
)  # fmt: skip
"""One proved use of each kind, with the values of its rows; the same without edges, with its."""


def _private_edges(results: Any) -> list[Table]:
    """Return a row per dataset, use and ε, next to the runs that read no private edge."""
    gains = compared(results)
    if gains.empty:
        return []
    frame = results.points(_PLACE, score="test_accuracy").merge(gains, on=_PLACE)
    frame = frame.sort_values(["dataset", "rank", "epsilon"])
    columns = [
        *plain("dataset", {"private edges are read as": "use"}),
        Column("without them", lambda row: f"beside {row['beside']}", under=True),
        Column("ε", lambda row: number(row["epsilon"])),
        Column("accuracy", score),
        Column("accuracy without", lambda row: number(row["unchanged"], 3)),
        Column("difference", difference),
        Column("ε proved", guarantee),
    ]
    notes = (
        "difference: mean over the seeds with its 95 % interval; test nodes of a seed are the "
        "same. Class sums without edges read no public one either; label sums and "
        "the network beside them read no edge of a test node but those on its own list; GM trains "
        "the roots alone, FEATURES all of the sample.",
        SAMPLE_NOTE,
        *privacy_notes(frame),
    )
    return [Table(_EDGES, frame.drop(columns="rank"), columns, notes, "dataset")]


def compared(results: Any) -> pd.DataFrame:
    """Return the uses in ``TRIES`` that read edges, by ``_PLACE``, with their gain."""
    rows = []
    for rank, (use, reads, rival, without) in enumerate(TRIES):
        for key, part in results.at(**reads).groupby(_PLACE):
            row = dict(zip(_PLACE, key, strict=True))
            row |= {"rank": rank, "use": use, "beside": rival}
            same = {name: row[name] for name in ("dataset", "features", "epsilon")}
            rows.append(row | gain(part, results.at(**without, **same)))
    return pd.DataFrame(rows)


PRIVATE_EDGES = Exhibit(
    "private_edges",
    _EDGES,
    groups=("appr_edges", "appr_beside", "appr_proved"),
    build=_private_edges,
    meaning="Proved uses of private edges, beside what reads none: an edge has to add more to the "
    "accuracy than its noise takes. More rows of PageRank are in Figure 1.",
)


# --- proved ε of published rows: from their noise, at a δ that does not allow releasing a node ---

_NOISE_OF = ["dataset", "protocol", "method", "top", "training_epsilon", "epsilon"]
_BOUNDS = ["epsilon_claimed", "noise_multiplier", "others_found", "epsilon_bound"]


def _proofs(results: Any) -> list[Table]:
    """Return a row per dataset, protocol, method, K and ε: the largest of the seeds."""
    runs = results.runs
    runs = runs[runs["epsilon_bound"].notna()]
    if "training_epsilon" not in runs:
        runs = runs.assign(training_epsilon=None)
    frame = runs.groupby(_NOISE_OF, dropna=False)[_BOUNDS].max().reset_index()
    frame = frame.assign(title=[title_of(results, row) for row in frame.to_dict("records")])
    columns = [
        *plain("dataset", "protocol", {"rows": "title", "K": "top"}),
        *plain({"ε of training": "training_epsilon"}),
        Column("ε claimed", lambda row: number(row["epsilon_claimed"], 2)),
        Column("noise of a step", lambda row: number(row["noise_multiplier"], 3)),
        Column("most other rows of a node", lambda row: number(row["others_found"])),
        Column("ε proved at δ = 1e-5", _bound),
    ]
    notes = (
        "a node replaced, amplified by the secret sample once: the most that the printed noise can "
        "be proved to give, of the seed where that is most. Claims are at the thesis's δ, at which "
        "δ times the training nodes is above 1: nothing is proved there.",
        "GM and EM release rows first; how many other rows a node stands in is read from them.",
    )
    return [Table("What the noise of the published rows proves", frame, columns, notes, "dataset")]


def _bound(row: dict[str, Any]) -> str:
    value = row["epsilon_bound"]
    return number(None) if missing(value) else budget(value)


PROOFS = Exhibit(
    "proofs",
    "What the noise of the published rows proves",
    groups=("appr_budgets",),
    build=_proofs,
    meaning="The distance between the ε that is claimed and what the same noise proves.",
)


# --- content of a row: edges left in the sample, the target itself, neighbours that are found ---

_ROW = ["dataset", "protocol", "title", "top", "rows_epsilon"]
_CONTENTS = ["sampled_nodes", "edges_left", "isolated_share", "own_share", "neighbour_recall"]


def _sampled_rows(results: Any) -> list[Table]:
    """Return a row per dataset, protocol, method, K and ε of the rows: means over all runs."""
    runs = results.runs.dropna(subset=["own_share"])
    runs = runs.assign(
        title=[title_of(results, row) for row in runs.to_dict("records")],
        rows_epsilon=runs["epsilon_rows"].where(runs["method"].isin(ROWS)),
    )
    frame = runs.groupby(_ROW, dropna=False)[_CONTENTS].mean().reset_index()
    frame = frame.assign(chance=frame["top"] / frame["sampled_nodes"])
    columns = [
        *plain("dataset", "protocol", {"rows": "title", "K": "top"}),
        *plain({"ε of the rows": "rows_epsilon"}),
        Column("sampled nodes", lambda row: number(row["sampled_nodes"], 0)),
        Column("edges left", lambda row: number(row["edges_left"], 1)),
        Column("isolated", lambda row: number(row["isolated_share"], 2)),
        *plain({"root in its own row": "own_share", "by chance": "chance"}, decimals=3),
        *plain({"neighbours found": "neighbour_recall"}, decimals=3),
    ]
    notes = (
        "edges left: among the sampled nodes, on average over the seeds; isolated: nodes without "
        "any. neighbours found: share of a root's true neighbours in its row, over the roots that "
        "have some. by chance: K nodes drawn from the sample.",
        SAMPLE_NOTE,
        "PageRank walks on this graph with a loop at every node, as the authors' code has it; the "
        "text names no loops, without which an isolated node has no row.",
        "these numbers read the private sample: no ε covers them.",
    )
    return [Table("Contents of a PPR row", frame, columns, notes, "dataset")]


SAMPLED_ROWS = Exhibit(
    "sampled_rows",
    "Contents of a PPR row",
    groups=("appr_budgets",),
    build=_sampled_rows,
    meaning="The sampled training graph is nearly empty, and private rows hold nodes that are "
    "drawn almost at random.",
)


def edges_left(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the number of sampled nodes and of edges left, by seed."""
    known = runs.dropna(subset=["edges_left"]).drop_duplicates("seed").set_index("seed")
    return known[["sampled_nodes", "edges_left"]]


# --- proved rows beside the thesis's best one without DP: all training nodes and labels ---

_VANILLA = "Proven, without subsampling, beside VANILLA on a sample"


def _vanilla(results: Any) -> list[Block]:
    """Return a chart for each dataset, and the numbers."""
    frame = points(results)
    vanilla = frame[(frame["title"] == "VANILLA") & (frame["protocol"] == "released")]
    best = vanilla.groupby("dataset")["mean"].max()
    features = frame[frame["method"] == "appr_features"]
    features = features[features["sample"].astype(float) == 1]
    rivals = frame[~frame["method"].str.startswith("appr_") & (frame["validation_labels"] == 0)]
    # no setting of this study applies to rows of other methods
    rivals = rivals.drop_duplicates(["dataset", "method", "scenario", "epsilon"])
    drawn = pd.concat([features, rivals])
    drawn = drawn.assign(
        line=[_line(row) for row in drawn.to_dict("records")],
        vanilla=drawn["dataset"].map(best),
    ).sort_values(["dataset", "line", "epsilon"])
    drawn = drawn.assign(lead=drawn["mean"] - drawn["vanilla"])
    facets = drawn.assign(facet=drawn["dataset"].map(results.title_of))
    lines = {"VANILLA": "vanilla"} if drawn["vanilla"].notna().any() else {}
    picture = chart(_VANILLA, facets, "epsilon", "ε proved", line="line", column="facet",
                    references=lines, steps=True)  # fmt: skip
    columns = [
        *plain("dataset", {"method": "line", "ε": "epsilon"}),
        Column("accuracy", score),
        Column("VANILLA", lambda row: number(row["vanilla"], 3)),
        Column("lead", lambda row: f"{row['lead']:+.3f}" if row["lead"] == row["lead"] else "–"),
        Column("ε proved", guarantee),
    ]
    notes = (
        "VANILLA: the thesis's network without DP, with exact rows, on its sample, as released, "
        "with the better of its K. The others train on all training nodes and read no edge among "
        "them; those of this project with 2 % of the nodes as public texts less, whose labels they "
        "do not get.",
        SAMPLE_NOTE,
        *privacy_notes(drawn),
    )
    return [picture, Table(f"{_VANILLA}: the numbers", drawn, columns, notes, "dataset")]


def _line(row: dict[str, Any]) -> str:
    if row["method"] == "appr_features":
        return f"FEATURES, all nodes, {number(row['epochs'])} steps"
    edges = {"graph": ", public edges"}.get(row["scenario"], "")
    return f"{row['title']}{edges}"


VANILLA = Exhibit(
    "vanilla",
    "Proven, without subsampling",
    groups=("appr_budgets", "appr_all_nodes", "appr_beside"),
    build=_vanilla,
    meaning="The sample costs more than it amplifies: who trains on all nodes, with a proof, is "
    "compared with the source's network without DP on its sample.",
)
