"""Figures 4.1 to 4.13 and Tables 4.1 and 4.2 of the thesis, and attacks by four measures."""

from __future__ import annotations

from functools import partial
from typing import Any

from private_graphs.methods import method_named
from private_graphs.running.exhibit import Block, Chart, Exhibit, Pictures
from private_graphs.studies.inversion.attacked import (
    ATTACK,
    FACES,
    MODEL,
    STAND_IN_NOTE,
    budget_charts,
    distance_table,
    grids,
    leakage_table,
    target_charts,
)

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

FIGURE4_1 = Exhibit(
    "figure4_1",
    "Digits that attacks make of a model without DP",
    ("mnist_plain_attacks",),
    partial(grids, title="Figure 4.1"),
    meaning="Can the attack recover digits? The printed distance prefers blank images.",
)

FIGURE4_2 = Exhibit(
    "figure4_2",
    "Faces that attacks make of a model without DP",
    ("faces_plain_attacks",),
    partial(grids, title="Figure 4.2"),
    meaning="Can the attack recover faces from a model without DP?",
)


def _examples(results: Any) -> list[Block]:
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
                f"Figure 4.3: {dataset}, {protocol}", pictures,
                [str(label) for label in range(len(pictures))], [""] * pictures.shape[1],
                [NOTES[protocols[protocol].parts],
                 f"The first {pictures.shape[1]} of {n_parts} parts of each digit."],
            )
        )  # fmt: skip
    return blocks or ["No picture of a part has been kept."]


FIGURE4_3 = Exhibit(
    "figure4_3",
    "Examples of subclasses",
    ("mnist_examples",),
    _examples,
    meaning="Subclass-level DP protects everything that looks like one of these pictures. The "
    "thesis's rule follows private pictures; the corrected one is defined by public pictures.",
)

FIGURE4_4 = Exhibit(
    "figure4_4",
    "Digits, without DP and with record-DP",
    ("mnist_plain_attacks", "mnist_record_attacks"),
    partial(grids, title="Figure 4.4", attack="enhanced, mean ℓ1"),
    meaning="Can the attack recover digits from models with record-level DP?",
)

FIGURE4_5 = Exhibit(
    "figure4_5",
    "Digits, without DP and with subclass-DP",
    ("mnist_plain_attacks", "mnist_subclass_attacks"),
    partial(grids, title="Figure 4.5", attack="enhanced, mean ℓ1"),
    meaning="Can the attack recover digits from models with subclass-level DP?",
)

FIGURE4_6 = Exhibit(
    "figure4_6",
    "Distances of digits without DP and with it",
    DIGIT_ATTACKS,
    partial(target_charts, title="Figure 4.6"),
    meaning="Distances by digit without DP, with record-level and with subclass-level DP.",
)

FIGURE4_7 = Exhibit(
    "figure4_7",
    "Digits, record-DP: accuracy, distance and recognition against ε",
    ("mnist_record_attacks", "mnist_record_between_attacks"),
    partial(budget_charts, title="Figure 4.7"),
    meaning="Does record-level noise keep an attack from showing digits?",
)

FIGURE4_8 = Exhibit(
    "figure4_8",
    "Digits, subclass-DP: accuracy, distance and recognition against ε",
    ("mnist_subclass_attacks",),
    partial(budget_charts, title="Figure 4.8"),
    meaning="Does subclass-level noise leave anything to learn or to attack?",
)


def _by_parts(results: Any) -> list[Block]:
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
                f"Figure 4.9: {words}, {dataset}", part, x="parts", line="protocol", steps=True,
                x_label="parts of a class", y_label=words, notes=[PARTS_NOTE],
            )
            for dataset, part in points.groupby("dataset")
        ]  # fmt: skip
    return blocks


FIGURE4_9 = Exhibit(
    "figure4_9",
    "Digits, subclass-DP: accuracy and distance against the number of parts",
    ("mnist_parts", "mnist_parts_attacks"),
    _by_parts,
    meaning="More parts of a class are more units that learn, each protected by itself.",
)

FIGURE4_10 = Exhibit(
    "figure4_10",
    "Faces by the enhanced attack, without DP and with it",
    FACE_ATTACKS,
    partial(grids, title="Figure 4.10", attack="enhanced"),
    meaning="Can the attack recover faces?",
)

FIGURE4_11 = Exhibit(
    "figure4_11",
    "Distances of faces without DP and with it",
    FACE_ATTACKS,
    partial(target_charts, title="Figure 4.11"),
    meaning="Distances by person: private models without any use have the largest.",
)

FIGURE4_12 = Exhibit(
    "figure4_12",
    "Faces, record-DP: accuracy, distance and recognition against ε",
    ("faces_record_attacks",),
    partial(budget_charts, title="Figure 4.12"),
    meaning="Does record-level noise keep an attack from recognising people?",
)

FIGURE4_13 = Exhibit(
    "figure4_13",
    "Faces, class-DP: accuracy, distance and recognition against ε",
    ("faces_class_attacks", "faces_class_sound_attacks"),
    partial(budget_charts, title="Figure 4.13"),
    meaning="Does class-level noise leave anything to learn or to attack?",
)

ATTACK_SCORES = Exhibit(
    "attack_scores",
    "What attacks get from models, by four measures",
    (*FACE_ATTACKS, *DIGIT_ATTACKS, "mnist_record_between_attacks"),
    lambda results: [leakage_table(results, "What attacks get from models")],
    meaning="The people who can be recognised show that a model gives its classes away. The "
    "printed distance does not: it ranks the emptiest picture best.",
)  # fmt: skip
