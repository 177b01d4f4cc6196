"""Figure 4.3: images of the parts of each digit."""

from __future__ import annotations

from typing import Any

from private_graphs.methods import method_named
from private_graphs.report.exhibit import Block, Exhibit, Pictures
from private_graphs.studies.inversion.attacked import MODEL

SHOWN = 12
"""Number of parts shown per digit: all of them would be too small to see."""
NOTES = {
    "fitted": "Means of private training pictures: k-means follows them, and no guarantee covers "
    "what is shown.",
    "public": "Means of public pictures: every training picture belongs to the nearest of them, "
    "and none is shown.",
}


def build(results: Any) -> list[Block]:
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


EXHIBIT = Exhibit(
    "figure4_3",
    "Examples of subclasses",
    ("mnist_examples",),
    build,
    meaning="What subclass-level DP protects: everything that looks like one of these pictures, "
    "by a rule that follows private pictures, or by one that public pictures define.",
)
