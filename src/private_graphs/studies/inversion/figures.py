"""Figures 4.1 to 4.13 and Tables 4.1 and 4.2 of the thesis, and attacks by four measures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.methods import method_named
from private_graphs.report.columns import lookup, plain
from private_graphs.report.layout import LayoutColumn, laid_out, naming, rows_of, score_lines, short
from private_graphs.report.words import guarantee, number, privacy_notes, score_of
from private_graphs.running.exhibit import (
    Block,
    Cell,
    Chart,
    Column,
    Exhibit,
    Layout,
    LayoutCell,
    Pictures,
    Table,
)

# --- names of models, distances by target, grids of pictures ---

FACES = ("att-faces", "faces", "faces94")
NAMES = {"mnist": "MNIST", "faces94": "Faces94", "att-faces": "AT&T faces"}
MODEL, ATTACK = "unit_gradients", "model_inversion"
LEVELS = {"records": "record", "classes": "class", "subclasses": "subclass"}
"""Names of what DP protects, by scenario."""
_ATTACKS = {"original": "original", "enhanced": "enhanced", "prior": "with a prior"}
_PENALTIES = {"l1_mean": ", mean ℓ1"}
SCORES = {
    "distance": "distance",
    "no_model_distance": "without a model",
    "re_identification": "re-identified",
    "judge_accuracy": "named by a judge",
}
"""Columns of attack rows, and their headings."""
LINE_NOTE = (
    "distance: of the picture of a class to the nearest picture of that class (Euclidean for "
    "digits, 1 - SSIM for faces); without a model: of the best of black, grey and the public mean, "
    "which anybody has. A smaller distance than that line is what a model gave away."
)
METRIC_NOTE = (
    "re-identified: share of classes whose reference picture is the nearest to the attack's; named "
    "by a judge: share that a classifier names, fitted on public pictures alone. Guessing "
    "has one in the number of classes."
)
STAND_IN_NOTE = (
    "Without Faces94's files, AT&T's 40 people in varying poses stand in for its 153 in nearly "
    "one, so that printed numbers stand in rows of their own."
)
COMPARED_NOTE = (
    "paper compares with private training pictures, which is an evaluation that no guarantee "
    "covers; sound with public pictures that no model has seen."
)


def attack_words(attack: str, penalty: str) -> str:
    """Return the name of an attack."""
    return _ATTACKS[attack] + _PENALTIES.get(penalty, "")


def model_words(row: dict[str, Any]) -> str:
    """Return the name of a row's model: ``record-DP, ε = 4.2``."""
    if math.isinf(row["epsilon"]):
        return "without DP"
    return f"{LEVELS[row['scenario']]}-DP, ε = {number(row['epsilon'])}"


def attacks(results: Any) -> Any:
    """Return the results with attack rows only, and their names as columns."""
    rows = results.rows
    rows = rows[(rows["method"] == ATTACK).to_numpy()]
    words = [
        attack_words(*pair) for pair in zip(rows["attack"], rows["penalty"], strict=True)
    ]  # fmt: skip
    return results.with_rows(rows.assign(attack_words=words))


def scored(results: Any, by: Sequence[str], scores: Sequence[str]) -> pd.DataFrame:
    """Return points of several scores: a column for each mean, and ``<score>_std``."""
    also = {column: name for name in scores for column in (name, f"{name}_std")}
    return results.points(by, scores[0], **also).drop(columns=["mean", "std"])


def distances(results: Any) -> pd.DataFrame:
    """Return a row per run of an attack and target: distances with the model and without one."""
    rows = results.runs
    records = []
    arrays = results.artifacts(rows, "distances")
    for row, array in zip(rows.to_dict("records"), arrays, strict=True):
        keys = ("dataset", "scenario", "protocol", "attack_words", "epsilon", "seed")
        for target in range(0 if array is None else array.shape[1]):
            values = zip(("distance", "no_model", "black"), array[:, target], strict=True)
            records.append({name: row[name] for name in keys} | {"target": target} | dict(values))
    return pd.DataFrame(records)


def target_words(dataset: str, target: int) -> str:
    """Return the name of an attack's target: digits count from 0, persons from 1."""
    return f"person {target + 1}" if dataset in FACES else f"{target}"


def distance_table(results: Any, published: str, noun: str, datasets: Sequence[str]) -> list[Block]:
    """Return a table: a row per target of models without DP, printed and ours by attack."""
    subset = attacks(results)
    subset = subset.with_rows(subset.rows[subset.rows["dataset"].isin(datasets).to_numpy()])
    frame = distances(subset)
    if frame.empty:
        return ["No attack on a model without DP has been run."]
    keys = ["dataset", "target", "protocol", "attack_words"]
    frame = frame.groupby(keys, as_index=False)[["distance", "no_model", "black"]].mean()
    at = lookup(frame, keys)
    printed = {
        (row["pictures"], int(row["target"]) - (row["pictures"] in FACES)): row
        for row in results.published(published).to_dict("records")
    }
    lines = frame[["dataset", "target"]].drop_duplicates()
    absent = [{"dataset": dataset, "target": target} for dataset, target in printed
              if dataset not in set(lines["dataset"])]  # fmt: skip
    lines = pd.concat([pd.DataFrame(absent, columns=lines.columns), lines], ignore_index=True)
    names = list(dict.fromkeys(frame["attack_words"]))

    def theirs(kind: str) -> Column:
        def show(row: dict[str, Any]) -> Cell:
            entry = printed.get((row["dataset"], int(row["target"])), {})
            return Cell(number(entry.get(kind)), tone="published")

        return Column(kind, show, "printed")

    def ours(row: dict[str, Any], protocol: str, attack: str, name: str) -> str:
        entry = at(row, protocol=protocol, attack_words=attack) or {}
        return number(entry.get(name), 3)

    columns = [
        *plain("dataset"),
        Column("target", lambda row: target_words(row["dataset"], int(row["target"]))),
        theirs("original"), theirs("enhanced"),
    ]  # fmt: skip
    scores = [(name, name, "distance") for name in names]
    scores += [("all black", names[0], "black"), ("no model", names[0], "no_model")]
    columns += [
        Column(head, partial(ours, protocol=protocol, attack=attack, name=name), protocol)
        for protocol in subset.protocols
        for head, attack, name in scores
    ]
    notes = [LINE_NOTE, COMPARED_NOTE]
    layout = _distance_layout(results.published(published), frame)
    label = published.removeprefix("table").replace("_", ".")
    title = f"Table {label}. Distances of {noun}, no DP"
    return [Table(title, frame, columns, notes, "dataset", lines, layout=layout)]


def _distance_layout(published: pd.DataFrame, frame: pd.DataFrame) -> Layout:
    """Return the thesis's table: a row per target, a column per attack and per baseline."""
    published = published.assign(dataset=published["pictures"])
    published["target"] -= published["dataset"].isin(FACES)
    kinds = ["original", "enhanced"]
    once = frame.drop_duplicates(["dataset", "target", "protocol"])
    baselines = {"no_model": "no model", "black": "all black"}
    scores = pd.concat([
        frame.rename(columns={"attack_words": "line", "distance": "mean"}),
        *(once.assign(line=head, mean=once[name]) for name, head in baselines.items()),
    ])  # fmt: skip
    names = ["dataset", "target", "line"]
    places = [
        naming("dataset", NAMES, per=("dataset",)),
        LayoutColumn(
            "target", lambda row: target_words(row["dataset"], int(row["target"])), heading=True
        ),
        *(
            LayoutColumn(
                line, lambda row, line=line: (row["dataset"], row["target"], line), "distance"
            )
            for line in dict.fromkeys([*kinds, *scores["line"]])
        ),
    ]
    printed = {
        (row["dataset"], row["target"], kind): LayoutCell(
            short(number(row[kind], 3 if row["dataset"] in FACES else 2))
        )
        for row in published.to_dict("records") for kind in kinds
    }  # fmt: skip
    lines = score_lines(scores.to_dict("records"), lambda row: tuple(row[name] for name in names))
    return laid_out(rows_of(["dataset", "target"], published, scores), places, printed, lines)


def grids(results: Any, title: str, attack: str = "") -> list[Block]:
    """Return a grid per dataset and protocol: real pictures, then reconstructions from models.

    ``attack`` selects one attack by name.
    """
    view = attacks(results)
    rows = view.runs.sort_values("epsilon", ascending=False, kind="stable")
    if attack:
        rows = rows[rows["attack_words"] == attack]
    rows = _with_printed_budget(results, rows)
    order = {name: rank for rank, name in enumerate(["records", "subclasses", "classes"])}
    rows = rows.assign(
        place=rows["scenario"].map(order).where(np.isfinite(rows["epsilon"]), -1),
    ).sort_values(["place"], kind="stable")  # fmt: skip
    rows = rows.assign(picture=view.artifacts(rows, "pictures"), real=view.artifacts(rows, "real"))
    rows = rows[rows["picture"].notna()]
    blocks: list[Block] = []
    for (dataset, protocol), part in rows.groupby(["dataset", "protocol"], sort=True):
        part = part.drop_duplicates(["scenario", "epsilon", "attack_words"])
        images = [part["real"].iloc[0][:, :, :], *part["picture"]]
        heads = [
            model_words(row) if attack else row["attack_words"] for row in part.to_dict("records")
        ]
        columns = [str(target + (dataset in FACES)) for target in range(len(images[0]))]
        stacked = np.array(images, dtype=float) / 255
        blocks.append(
            Pictures(f"{title}: {dataset}, {protocol}", stacked, ["public", *heads], columns)
        )
    return blocks or ["No picture of an attack has been kept."]


def target_charts(results: Any, title: str) -> list[Block]:
    """Return a chart per dataset and protocol: distance by target, a facet per level of DP.

    Shown are the first ten targets, for the first attack that the thesis applies to private models;
    every facet also has the models without DP.
    """
    subset = attacks(results)
    subset = subset.with_rows(_with_printed_budget(results, subset.rows))
    frame = distances(subset)
    if frame.empty:
        return ["No attack has been run."]
    own_words = ["enhanced", "enhanced, mean ℓ1"]
    attacked = set(frame.loc[np.isfinite(frame["epsilon"]), "attack_words"])
    chosen = next((name for name in own_words if name in attacked), "")
    frame = frame[(frame["attack_words"] == chosen) & (frame["target"] < 10)]
    if frame.empty:
        return ["No attack on a private model has been run."]
    keys = ["dataset", "protocol", "scenario", "epsilon", "target"]
    points = frame.groupby(keys, as_index=False).agg(
        mean=("distance", "mean"), std=("distance", "std"), no_model=("no_model", "mean")
    )
    points = points.sort_values(["epsilon", "target"], ascending=[False, True], kind="stable")
    points["target"] += points["dataset"].isin(FACES)  # persons count from 1
    private = np.isfinite(points["epsilon"])
    plain = points[~private].drop(columns="scenario")
    levels = points.loc[private, ["dataset", "protocol", "scenario"]].drop_duplicates()
    points = pd.concat([plain.merge(levels), points[private]], ignore_index=True)
    points["level"] = pd.Categorical(
        points["scenario"].map(lambda name: f"{LEVELS[name]}-DP"),
        [f"{level}-DP" for level in LEVELS.values()],
    )
    points["line"] = [
        "without DP" if math.isinf(epsilon) else f"ε = {number(epsilon)}"
        for epsilon in points["epsilon"]
    ]
    return [
        Chart(
            f"{title}: {dataset}", part, x="target", line="line", row="protocol", column="level",
            joined=False,
            references={"no model": "no_model"}, y_label="distance", steps=True,
            x_label="person (the first ten)" if dataset in FACES else "digit", notes=[LINE_NOTE],
        )
        for dataset, part in points.groupby("dataset", sort=True)
    ]  # fmt: skip


def _with_printed_budget(results: Any, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without those under ``paper`` whose ε is not printed.

    These fill curves between printed models.
    """
    printed = rows["epsilon"].isin(results.published("models")["epsilon"])
    return rows[(printed | (rows["protocol"] != "paper")).to_numpy()]


def leakage_table(results: Any, title: str) -> Table:
    """Return a table: a row per attacked model and attack, with the information that it leaked."""
    subset = attacks(results)
    by = ["dataset", "group", "scenario", "protocol", "epsilon", "attack_words", "job"]
    frame = scored(subset, by, ["test_accuracy", *SCORES])
    frame = frame.sort_values(
        ["dataset", "protocol", "group", "epsilon"], ascending=[True, True, True, False],
        kind="stable", ignore_index=True,
    )  # fmt: skip
    columns = [
        *plain("dataset", "protocol"),
        Column("model", model_words),
        Column("ε proved", guarantee),
        Column("accuracy", partial(score_of, name="test_accuracy")),
        *plain({"attack": "attack_words"}),
        *(
            Column(head, partial(score_of, name=name)) for name, head in SCORES.items()
        ),
    ]  # fmt: skip
    notes = [LINE_NOTE, METRIC_NOTE, COMPARED_NOTE, *privacy_notes(frame)]
    return Table(title, frame, columns, notes, "dataset")


def budget_charts(results: Any, title: str) -> list[Block]:
    """Return charts against ε per dataset and protocol: accuracy, distance, re-identification."""
    subset = attacks(results)
    subset = subset.with_rows(subset.rows[np.isfinite(subset.rows["epsilon"])])
    if subset.runs.empty:
        return ["No attack on a private model has been run."]
    by = ["dataset", "scenario", "protocol", "attack_words", "epsilon"]
    frame = scored(subset, by, ["test_accuracy", "distance", "re_identification"])
    lines = frame.drop_duplicates(["dataset", "scenario", "protocol", "epsilon"])
    parts = [
        lines.assign(mean=lines["test_accuracy"], std=lines["test_accuracy_std"],
                     line="accuracy of the model", what="share"),
        *(frame.assign(mean=frame[name], std=frame[f"{name}_std"], what=what,
                       line=words + " " + frame["attack_words"])
          for name, what, words in (("re_identification", "share", "re-identified,"),
                                    ("distance", "distance", "distance,"))),
    ]  # fmt: skip
    points = pd.concat(parts, ignore_index=True)
    return [
        Chart(
            f"{title}: {what}, {dataset}", part.sort_values(["protocol", "epsilon"]), x="epsilon",
            line="line", column="protocol", x_label="ε", y_label=what, steps=True,
        )
        for (dataset, what), part in points.groupby(["dataset", "what"])
    ]  # fmt: skip


# --- tables and figures ---

SHOWN = 12
"""Number of parts shown per digit: all of them would be too small to see."""
NOTES = {
    "fitted": "Means of private training pictures: k-means follows them, and no guarantee covers "
    "what is shown.",
    "public": "Means of public pictures: every training picture belongs to the nearest of them, "
    "and none is shown.",
}
FACE_ATTACKS = ("faces_plain_attacks", "faces_record_attacks", "faces_class_attacks",
                "faces_class_sound_attacks")  # fmt: skip
DIGIT_ATTACKS = ("mnist_plain_attacks", "mnist_record_attacks", "mnist_subclass_attacks")
"""Run groups of attacks on models without DP and with it."""
PARTS_NOTE = (
    "At δ = 1e-3 nothing can be proved for 1,000 parts in all or more: δ times the number of units "
    "is then at least 1."
)

TABLE4_1 = Exhibit(
    "table4_1",
    "Attacks on a classifier of digits without DP",
    ("mnist_plain_attacks",),
    partial(distance_table, published="table4_1", noun="digits", datasets=("mnist", "digits")),
    meaning="Do attacks come nearer to the training pictures than a guess without access to the "
    "model?",
)


def _table4_2(results: Any) -> list[Block]:
    """Return the table, a panel per dataset."""
    blocks = distance_table(results, "table4_2", "faces", FACES)
    return [*blocks, STAND_IN_NOTE]


TABLE4_2 = Exhibit(
    "table4_2",
    "Attacks on a face classifier without DP",
    ("faces_plain_attacks",),
    _table4_2,
    meaning="Do attacks come nearer to the training pictures than a guess without access to the "
    "model?",
)


def _examples(results: Any, title: str) -> list[Block]:
    """Return a grid per dataset and protocol: a row per digit, a column per part."""
    rows = results.runs
    rows = rows.assign(examples=results.artifacts(rows, "examples"))
    rows = rows[rows["examples"].notna()]
    blocks: list[Block] = []
    protocols: Any = method_named(MODEL).protocols
    for (dataset, protocol), part in rows.groupby(["dataset", "protocol"], sort=True):
        examples = part["examples"].iloc[0] / 255
        pictures, n_parts = examples[:, :SHOWN], examples.shape[1]
        blocks.append(
            Pictures(
                f"{title}: {dataset}, {protocol}", pictures,
                [str(label) for label in range(len(pictures))], [""] * pictures.shape[1],
                [NOTES[protocols[protocol].parts],
                 f"The first {pictures.shape[1]} of {n_parts} parts of each digit."],
            )
        )  # fmt: skip
    return blocks or ["No picture of a part has been kept."]


def _by_parts(results: Any, title: str) -> list[Block]:
    """Return two charts per dataset: accuracy of models, and distance of an attack on them."""
    blocks: list[Block] = []
    for method, score, words in (
        (MODEL, "test_accuracy", "test accuracy"), (ATTACK, "distance", "distance"),
    ):  # fmt: skip
        rows = results.rows
        subset = results.with_rows(rows[(rows["method"] == method).to_numpy()])
        if subset.runs.empty:
            continue
        points = subset.points(["dataset", "protocol", "parts", "epsilon", "job"], score=score)
        blocks += [
            Chart(
                f"{title}: {words}, {dataset}", part, x="parts", line="protocol", steps=True,
                x_label="parts of a class", y_label=words, notes=[PARTS_NOTE],
            )
            for dataset, part in points.groupby("dataset")
        ]  # fmt: skip
    return blocks


FIGURES = tuple(
    Exhibit(f"figure4_{number}", name, groups, partial(build, title=f"Figure 4.{number}"),
            meaning=meaning)
    for number, name, groups, build, meaning in (
        (1, "Digits that attacks make of a model without DP", DIGIT_ATTACKS[:1], grids,
         "Can the attack recover digits? The printed distance prefers blank images."),
        (2, "Faces that attacks make of a model without DP", FACE_ATTACKS[:1], grids,
         "Can the attack recover faces from a model without DP?"),
        (3, "Examples of subclasses", ("mnist_examples",), _examples,
         "Subclass-level DP protects everything that looks like one of these pictures. The "
         "thesis's rule follows private pictures; the corrected one is defined by public "
         "pictures."),
        (4, "Digits, without DP and with record-DP", ("mnist_plain_attacks",
                                                      "mnist_record_attacks"),
         partial(grids, attack="enhanced, mean ℓ1"),
         "Can the attack recover digits from models with record-level DP?"),
        (5, "Digits, without DP and with subclass-DP", ("mnist_plain_attacks",
                                                        "mnist_subclass_attacks"),
         partial(grids, attack="enhanced, mean ℓ1"),
         "Can the attack recover digits from models with subclass-level DP?"),
        (6, "Distances of digits without DP and with it", DIGIT_ATTACKS, target_charts,
         "Distances by digit without DP, with record-level and with subclass-level DP."),
        (7, "Digits, record-DP: accuracy, distance and recognition against ε",
         ("mnist_record_attacks", "mnist_record_between_attacks"), budget_charts,
         "Does record-level noise keep an attack from showing digits?"),
        (8, "Digits, subclass-DP: accuracy, distance and recognition against ε",
         ("mnist_subclass_attacks",), budget_charts,
         "Does subclass-level noise leave anything to learn or to attack?"),
        (9, "Digits, subclass-DP: accuracy and distance against the number of parts",
         ("mnist_parts", "mnist_parts_attacks"), _by_parts,
         "More parts of a class are more units that learn, each protected by itself."),
        (10, "Faces by the enhanced attack, without DP and with it", FACE_ATTACKS,
         partial(grids, attack="enhanced"), "Can the attack recover faces?"),
        (11, "Distances of faces without DP and with it", FACE_ATTACKS, target_charts,
         "Distances by person: private models without any use have the largest."),
        (12, "Faces, record-DP: accuracy, distance and recognition against ε",
         ("faces_record_attacks",), budget_charts,
         "Does record-level noise keep an attack from recognising people?"),
        (13, "Faces, class-DP: accuracy, distance and recognition against ε",
         ("faces_class_attacks", "faces_class_sound_attacks"), budget_charts,
         "Does class-level noise leave anything to learn or to attack?"),
    )
)  # fmt: skip

ATTACK_SCORES = Exhibit(
    "attack_scores",
    "What attacks get from models, by four measures",
    (*FACE_ATTACKS, *DIGIT_ATTACKS, "mnist_record_between_attacks"),
    lambda results: [leakage_table(results, "What attacks get from models")],
    meaning="The people who can be recognised show that a model gives its classes away. The "
    "printed distance does not: it ranks the emptiest picture best.",
)  # fmt: skip
