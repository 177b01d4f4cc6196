"""The tables as people read them: words for settings, mean ± standard deviation, ε in words."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from private_graphs.protocols import PROTOCOLS
from private_graphs.reporting.curves import Curves
from private_graphs.reporting.formats import NOTHING, Readable, is_missing, number
from private_graphs.reporting.score_tables import ScoreTable, published_rows

RAW_ROWS_NOTE = (
    "raw rows: rows of the raw file of edges between nodes of the graph. The paper counts them: "
    "32,782 edges for Pokec."
)
REDDIT_NOTE = (
    "reddit: neither published size can come from the released script. It keeps all 55,703 test "
    "nodes, and floor(10 %) of the training nodes of each class are at least 15,307. The authors' "
    "statistics code subtracts 8,026 validation and test nodes, which is 5,643 + 2,383, and 2,383 "
    "is 10 % of the 23,831 validation nodes: the runs behind the paper sampled validation and test "
    "nodes too, by code that was not published (docs/data.md)."
)

OPTIMIZER_TITLES = {"": NOTHING, "sgd": "SGD", "adam": "Adam"}

FEATURE_TITLES = {
    "raw": "raw",
    "bow": "bag of words",
    "fasttext": "fastText",
    "bert": "BERT",
    "sbert": "Sentence-BERT",
}
"""Words for kinds of features."""

_PANEL_HEADS = {"dataset": "dataset", "features_kind": "features"}

_SETTING_TITLES = {
    "majority": "majority class",
    "random": "uniform random",
    "non_private": "no DP",
    "non_private_split": "no DP, graph splits",
    "dp_full": "DP, full graph",
    "dp_split": "DP, graph splits",
}

PROVED_NOTE = (
    "ε proved is of one run whose settings are fixed in advance and holds for the unit that stands "
    "beside it, rounded to the nearest; none: no finite ε is proved. All seeds and learning rates "
    "of a row together have epsilon_all_runs of the CSV."
)
VACUOUS_NOTE = "vacuous: ε above 20, which promises next to nothing."
REFUTED_NOTE = (
    "refuted: ε > x: an attack on the same training code at the same claim shows, at 99.9 % "
    "confidence, that ε is above x and hence above the claim; the statement names the training "
    "that was attacked (docs/privacy.md §10, §11)."
)
SEED_NOTE = (
    "ε proved supposes that the seeds were secret; these rows are made with published seeds, so "
    "that they can be made again."
)
MODEL_ONLY_NOTE = (
    "model only: the proved ε covers the trained parameters; the scored predictions were computed "
    "from private edges and reveal more."
)

_PRIVATE_NOTES = (PROVED_NOTE, REFUTED_NOTE, MODEL_ONLY_NOTE, VACUOUS_NOTE)


def seed_notes(frame: pd.DataFrame, *columns: str) -> tuple[str, ...]:
    """Return what has to be said once of proved rows whose seed is published, if there are any."""
    columns = columns or ("status",)
    seeded = any((frame[name] == "proved_if_seed_secret").any() for name in columns)
    return (SEED_NOTE,) if seeded else ()


def setting_title(row: Mapping[str, Any]) -> str:
    """Return the words for the setting of a row of scores, with the number of splits if known."""
    splits = row.get("splits")
    if row["setting"] == "dp_split" and not is_missing(splits):
        return f"DP, {int(splits)} splits"
    return _SETTING_TITLES[row["setting"]]


def score(row: Mapping[str, Any], protocol: str) -> str:
    """Return ``0.552 ± 0.021`` for a cell of a table of scores; without ± for one seed.

    The majority class has none either, unless the seeds draw different training nodes.
    """
    mean, std = row[f"{protocol}_mean"], row[f"{protocol}_std"]
    if is_missing(mean):
        return NOTHING
    fixed = is_missing(std) or (row.get("setting") == "majority" and std == 0)
    return f"{mean:.3f}" + ("" if fixed else f" ± {std:.3f}")


def epsilon_proved(row: Mapping[str, Any], protocol: str) -> str:
    """Return what is proved for one source's cell: ``3.38 per node, model only``.

    ``none`` where nothing is; ``no DP`` for non-private rows; empty for baselines and for cells
    that were not run. A claim that an audit refuted is ``refuted: ε > 3.16``.
    """
    status = row.get(f"{protocol}_status")
    if is_missing(status):
        return ""
    if status == "not_private":
        return "no DP"
    proved = row[f"{protocol}_epsilon_proved"]
    words = []
    if not is_missing(proved):
        words = [f"{number(proved, 2)} per {row[f'{protocol}_unit']}".replace("_", " ")]
    elif status != "refuted":
        words = ["none"]
    if status == "refuted":
        words.append(f"refuted{refuting_bound(row, protocol, ': {}')}")
    return ", ".join([*words, *limits(row, protocol)])


def refuting_bound(row: Mapping[str, Any], protocol: str, words: str = "{}") -> str:
    """Return what an audit shows, rounded down: ``ε > 3.16`` within ``words``; "" where unknown."""
    lower = row.get(f"{protocol}_audit_epsilon_lower")
    return "" if is_missing(lower) else words.format(f"ε > {math.floor(100 * lower) / 100:.2f}")


def together(row: Mapping[str, Any], protocol: str) -> str:
    """Return ε of all runs behind one source's cell: ``all 30 runs: ε 8.99``.

    Empty where nothing is proved and where it is one run.
    """
    count, epsilon = row[f"{protocol}_runs_released"], row[f"{protocol}_epsilon_all_runs"]
    if is_missing(count) or is_missing(epsilon) or count == 1:
        return ""
    return f"all {int(count)} runs: ε {number(epsilon, 2)}"


def warnings(row: Mapping[str, Any], protocol: str) -> list[str]:
    """Return what a reader of a private cell has to know: a refuted claim, then its ``limits``."""
    if row[f"{protocol}_status"] != "refuted":
        return limits(row, protocol)
    shown = refuting_bound(row, protocol, ": an attack shows {}")
    return [f"claim refuted{shown}", *limits(row, protocol)]


def limits(row: Mapping[str, Any], protocol: str) -> list[str]:
    """Return what limits the ε of a private cell: ``model only``, ``vacuous``.

    Under ``released`` also the ε of the authors' own accountant where it is another one.
    """
    found = []
    authors = authors_epsilon(row, protocol)
    if authors:
        found.append(f"authors’ accountant: {authors}")
    proved = not is_missing(row[f"{protocol}_epsilon_proved"])
    if proved and row[f"{protocol}_inference"] == "leaks":
        found.append("model only")
    if row[f"{protocol}_vacuous"] is True:
        found.append("vacuous")
    return found


def score_table(frame: pd.DataFrame, table: ScoreTable) -> Readable:
    """Return a table of scores for people."""
    heads = [("", _PANEL_HEADS[name]) for name in table.panel]
    heads += [("", name) for name in ("setting", "optimizer", "ε", lead_title(table))]
    for source in table.sources:
        heads += [(source.heading, "F1"), (source.heading, "ε proved")]
    rows = []
    for row in frame.to_dict("records"):
        cells = [panel_words(row, name) for name in table.panel]
        cells += [setting_title(row), OPTIMIZER_TITLES[row["optimizer"]], number(row["epsilon"])]
        cells.append(lead_words(row, table))
        for source in table.sources:
            cells.append(score(row, source.prefix))
            cells.append(epsilon_proved(row, source.prefix) or NOTHING)
        rows.append(tuple(cells))
    return Readable(
        caption=f"{table.label}. {table.title}: mean ± standard deviation over the seeds",
        columns=tuple(heads),
        rows=tuple(rows),
        notes=(
            *score_notes(table),
            *_PRIVATE_NOTES,
            *seed_notes(frame, *(f"{each.prefix}_status" for each in table.sources)),
        ),
        legend=_legend({source.protocol for source in table.sources}),
    )


def score_notes(table: ScoreTable) -> tuple[str, ...]:
    """Return what has to be said of one table of scores and of no other."""
    found = [table.meaning] if table.meaning else []
    if table.published_dataset:
        found.append(f"published: the paper's values, on {table.published_dataset} alone.")
    if table.difference:
        first, second = (source.heading for source in table.sources)
        found.append(f"{lead_title(table)}: micro-F1 {second} minus {first}, times 100.")
    return tuple(found)


def lead_title(table: ScoreTable) -> str:
    """Return the heading of the column of numbers before the sources."""
    return "gain in points" if table.difference else "published"


def lead_words(row: Mapping[str, Any], table: ScoreTable) -> str:
    """Return the number before the sources: ``0.83``, or a gain in points as ``+1.5``."""
    value = row[table.lead]
    if not table.difference or is_missing(value):
        return number(value, 2)
    return f"{value:+.1f}"


def panel_words(row: Mapping[str, Any], name: str) -> str:
    """Return the words for one column of the panel of a table of scores."""
    value = row.get(name)
    if is_missing(value):
        return NOTHING
    return feature_title(value) if name == "features_kind" else str(value)


def feature_title(kind: str) -> str:
    """Return the words for a kind of features: ``bag of words``."""
    return FEATURE_TITLES.get(kind, kind)


def printed_elsewhere(table: ScoreTable, published: pd.DataFrame) -> Readable:
    """Return what the paper prints for its own dataset, for a page that has others.

    ``published`` is the table as printed; a row per kind of features and optimizer, a column per ε.
    """
    rows = published_rows(table, published)
    epsilons = sorted(rows["epsilon"].unique(), key=lambda each: (each != float("inf"), each))
    lines = []
    for (kind, optimizer), line in rows.groupby(["features_kind", "optimizer"], sort=False):
        at = dict(zip(line["epsilon"], line["micro_f1"], strict=True))
        cells = (number(at.get(each), 2) for each in epsilons)
        lines.append((feature_title(kind), OPTIMIZER_TITLES[optimizer], *cells))
    heads = [("", "features"), ("", "optimizer")]
    heads += [("", "no DP" if each == float("inf") else f"ε = {number(each)}") for each in epsilons]
    place = str(table.published_dataset).capitalize()
    return Readable(
        caption=f"The paper, on {place}",
        columns=tuple(heads),
        rows=tuple(lines),
        notes=(
            f"Micro-F1 as the paper prints it for {place}. That is another dataset than the one "
            "above: these scores and those above cannot be compared.",
        ),
    )


def table3(frame: pd.DataFrame) -> Readable:
    """Return Table 3 for people."""
    heads = [
        ("", "ε"),
        ("", "optimizer"),
        ("", "epochs"),
        ("published", "ε"),
        ("published", "noise"),
    ]
    for protocol in PROTOCOLS:
        heads += [(protocol, "noise"), (protocol, "ε, formula"), (protocol, "ε proved")]
    rows = []
    for row in frame.to_dict("records"):
        cells = [
            number(row["epsilon"]), OPTIMIZER_TITLES[row["optimizer"]], number(row["epochs"]),
            number(row["published_epsilon"], 2), number(row["published_noise_multiplier"]),
        ]  # fmt: skip
        for protocol in PROTOCOLS:
            cells.append(number(row[f"{protocol}_noise_multiplier"]))
            cells.append(formula_epsilon(row, protocol))
            cells.append(noise_epsilon_proved(row, protocol))
        rows.append(tuple(cells))
    return Readable(
        caption="Table 3. Noise multipliers for an ε on the full graph",
        columns=tuple(heads),
        rows=tuple(rows),
        notes=(
            "ε, formula: the paper's moments accountant, q = 1; in brackets what the authors' "
            "float64 sum returns where it differs.",
            "ε proved: exact Gaussian DP, node level, replace.",
            VACUOUS_NOTE,
        ),
        legend=_legend(),
    )


def curve_points(frame: pd.DataFrame, curves: Curves, claims: Sequence[str] = ()) -> Readable:
    """Return the points behind a figure for people: a row per line, a column per position.

    ``claims`` are what the paper says about the whole figure.
    """
    positions = sorted(frame[curves.x].unique())
    heads = [("", name) for name in ("dataset", "protocol", "optimizer", "ε", "ε proved")]
    heads += [("", position_title(curves.x, each)) for each in positions]
    rows = []
    lines = frame.groupby(["dataset", "protocol", "optimizer", "epsilon"], sort=False)
    for (dataset, protocol, optimizer, epsilon), line in lines:
        at = {row[curves.x]: row for row in line.to_dict("records")}
        cells = [dataset, protocol, OPTIMIZER_TITLES[optimizer], number(epsilon)]
        cells.append(_line_privacy(line) if curves.private else "no DP")
        rows.append((*cells, *(_point(at[each]) if each in at else NOTHING for each in positions)))
    return Readable(
        caption=f"{curves.label}. {curves.title}. Micro-F1 on the test nodes: mean ± standard "
        f"deviation over the seeds; columns: {curves.x_label}",
        columns=tuple(heads),
        rows=tuple(rows),
        notes=(
            "In square brackets: the published value, where the text or Table 1 prints one.",
            *(_PRIVATE_NOTES if curves.private else ()),
            *seed_notes(frame),
            *claims,
        ),
        legend=_legend(),
    )


def position_title(x: str, position: float) -> str:
    """Return the words for a position on the axis of a figure: ``25 %``, or ``10``."""
    return f"{100 * position:.3g} %" if x == "train_fraction" else f"{int(position)}"


def under_protocol(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return a point of a figure as a row of a table of scores that has one source."""
    return {f"{point['protocol']}_{name}": value for name, value in point.items()}


def _point(point: Mapping[str, Any]) -> str:
    words = score(under_protocol(point), point["protocol"])
    published = point["published"]
    return words if is_missing(published) else f"{words} [{printed(published)}]"


def printed(value: float) -> str:
    """Return a published score with the paper's digits: two decimals, or three."""
    return number(value, 2 if round(value, 2) == value else 3)


def proved_range(line: pd.DataFrame) -> str:
    """Return ε proved along the points of ``line``: ``3.38``, ``1.59 to 25``, ``none`` or
    ``refuted: ε > 3.16``."""
    proved = line["epsilon_proved"].dropna()
    if proved.empty:
        refuted = line[line["status"] == "refuted"]
        if refuted.empty:
            return "none"
        weakest = {"x_audit_epsilon_lower": refuted["audit_epsilon_lower"].min()}
        return f"refuted{refuting_bound(weakest, 'x', ': {}')}"
    words = _range(proved)
    return words if len(proved) == len(line) else f"{words}, none for some"


def together_range(line: pd.DataFrame) -> str:
    """Return ε of all runs behind each point of ``line``: ``all 5 to 35 runs: ε 8.2 to 24.1``.

    Empty where nothing is proved and where each point is one run.
    """
    several = line[line["epsilon_all_runs"].notna() & (line["runs_released"] > 1)]
    if several.empty:
        return ""
    counts = _range(several["runs_released"], decimals=0)
    return f"all {counts} runs: ε {_range(several['epsilon_all_runs'])}"


def _range(values: pd.Series, decimals: int = 2) -> str:
    low, high = (
        number(each, min(decimals, 1) if each >= 100 else decimals)
        for each in (values.min(), values.max())
    )
    return low if low == high else f"{low} to {high}"


def proved_units(points: pd.DataFrame) -> str:
    """Return the units that the proved ε of ``points`` hold for: ``node``."""
    units = points.loc[points["epsilon_proved"].notna(), "unit"]
    return " or ".join(sorted(units.unique())).replace("_", " ")


def leaks(points: pd.DataFrame) -> bool:
    """Return whether a proved ε of ``points`` does not cover the scored predictions."""
    return bool((points["epsilon_proved"].notna() & (points["inference"] == "leaks")).any())


def _line_privacy(line: pd.DataFrame) -> str:
    """Return what is proved along the points of a private line, in words like a row of scores."""
    words, proved = proved_range(line), line[line["epsilon_proved"].notna()]
    if proved.empty:
        return words
    limits = ["model only"] if leaks(line) else []
    vacuous = proved["vacuous"].astype(bool)
    if vacuous.any():
        limits.append("vacuous" if vacuous.all() else "vacuous in part")
    return ", ".join([f"{words} per {proved_units(line)}", *limits])


def formula_epsilon(row: Mapping[str, Any], protocol: str) -> str:
    """Return the formula's ε of a cell of Table 3, with the authors' number where it differs."""
    words = number(row[f"{protocol}_epsilon_published"], 2)
    authors = authors_epsilon(row, protocol)
    return f"{words} [{authors}]" if authors else words


def authors_epsilon(row: Mapping[str, Any], protocol: str) -> str:
    """Return what the authors' accountant prints if two decimals show a difference, else ``""``."""
    value = row.get(f"{protocol}_authors_epsilon")
    if is_missing(value):
        return ""
    words = number(value, 2)
    return "" if words == number(row[f"{protocol}_epsilon_published"], 2) else words


def noise_epsilon_proved(row: Mapping[str, Any], protocol: str) -> str:
    """Return the proved ε of a cell of Table 3 in a few words."""
    proved = row[f"{protocol}_epsilon_proved"]
    if is_missing(proved):
        return "none"
    return number(proved, 2) + (", vacuous" if proved > 20 else "")


def table5(frame: pd.DataFrame) -> Readable:
    """Return Table 5 for people."""
    heads = [("", "dataset"), ("", "data")]
    for name in ("classes", "test nodes", "train nodes"):
        heads += [(name, "published"), (name, "ours")]
    heads += [("", "nodes"), ("", "edges"), ("", "features"), ("", "majority share")]
    rows = []
    for row in frame.to_dict("records"):
        cells = [row["dataset"], _data_words(row)]
        for name in ("classes", "test_size", "train_size"):
            cells += [number(row[f"published_{name}"]), number(row[name])]
        edges = number(row["edges"])
        if not is_missing(row["edge_entries"]):
            edges += f" ({number(row['edge_entries'])} raw rows)"
        cells += [number(row["nodes"]), edges, number(row["features"])]
        rows.append((*cells, number(row["majority_share"], 3)))
    return Readable(
        caption="Table 5. Datasets: published sizes and the sizes after loading",
        columns=tuple(heads),
        rows=tuple(rows),
        notes=(
            "edges: undirected, each counted once, without loops.",
            "majority share: of the most frequent training class among the test nodes.",
            *([RAW_ROWS_NOTE] if frame["edge_entries"].notna().any() else []),
            *([REDDIT_NOTE] if (frame["dataset"] == "reddit").any() else []),
        ),
    )


def _data_words(row: Mapping[str, Any]) -> str:
    """Return ``real``, or ``synthetic, read as sound, bag of words``."""
    words = ["synthetic" if row["synthetic"] else "real"]
    if not is_missing(row["view"]):
        words.append(f"read as {row['view']}")
    if not is_missing(row["features_kind"]) and row["features_kind"] != "raw":
        words.append(feature_title(row["features_kind"]))
    return ", ".join(words)


def _legend(protocols: Collection[str] = tuple(PROTOCOLS)) -> tuple[str, ...]:
    known = (each for each in PROTOCOLS.values() if each.name in protocols)
    return tuple(f"{each.name}: {each.summary}." for each in known)
