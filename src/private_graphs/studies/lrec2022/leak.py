"""The leak: the gain from the text column that defines the label of Pokec."""

from __future__ import annotations

from typing import Any

import pandas as pd

from private_graphs.report.words import privacy_notes
from private_graphs.running.exhibit import NOTHING, Column, Exhibit, Table
from private_graphs.studies.lrec2022 import scores

WITHOUT, WITH = "without pets", "with pets"


def build(results: Any) -> list[Table]:
    """Return scores under ``sound`` without and with the column, and the gain in points."""
    rows = scores.points(results)
    rows = rows[(rows["protocol"] == "sound") & rows["dataset"].isin(_datasets(rows))]
    without, with_it = (rows[rows["group"] == group] for group in ("table2", "leak"))
    before, after = scores.by_key(without), scores.by_key(with_it)

    def gain(row: dict[str, Any]) -> str:
        pair = before.get(scores.key(row)), after.get(scores.key(row))
        return NOTHING if None in pair else f"{100 * (pair[1]['mean'] - pair[0]['mean']):+.1f}"

    columns = [*scores.heads(features=True), Column("gain in points", gain),
               *scores.sources(rows, "group", {"table2": WITHOUT, "leak": WITH})]  # fmt: skip
    frame = rows.sort_values([*scores.KEY, "group"])
    notes = [
        *(note for note in results.protocol_notes() if note.startswith("sound")),
        MEANING,
        f"gain in points: micro-F1 {WITH} minus {WITHOUT}, times 100.",
        *privacy_notes(rows),
    ]
    title = "The leak. What the text column that defines the label is worth"
    return [Table(scores.TITLE.format(title), frame, columns, notes, "dataset", scores.lines(rows))]


def _datasets(rows: pd.DataFrame) -> pd.Series:
    return rows.loc[rows["group"] == "leak", "dataset"]


MEANING = (
    "The label is made from the column pets, so pets is the label's own definition: the points "
    "that are gained with it are read off the answer, and nothing of them is learned from the rest "
    "of the profile. The protocols released and paper keep the column, as the paper does; sound "
    "drops it. A gain within the deviations of its two scores is noise, as under DP where both "
    "score like guessing."
)
EXHIBIT = Exhibit(
    "leak",
    "What the text column that defines the label is worth",
    groups=("table2", "leak"),
    build=build,
    meaning=MEANING,
)
