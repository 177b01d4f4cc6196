"""Views: the ways to read the raw files of a dataset, so that each protocol has its own graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class DataView:
    """Choices that determine the nodes, texts and features of a dataset.

    Datasets whose raw files leave no choice (the citation graphs) have no views. Section numbers
    refer to ``docs/privacy.md``.
    """

    name: str
    """Name of the view and of the built dataset's folder."""

    profile_reading: Literal["as_released", "exact"]
    """``as_released``: the first raw row is consumed as a header, and edge ends are renumbered in
    place, so that new ids collide with old ones (§4.6)."""

    profile_ranking: Literal["non_null_columns", "completion_percentage"]
    """Measure of a Pokec profile's completeness (§4.6)."""

    label_column: Literal["kept", "dropped"]
    """Whether the text column that defines the label is among the texts (§4.6)."""

    vocabulary: Literal["all_nodes", "public_nodes"]
    """Nodes whose texts determine the words, tokens or embedded models. Words counted on private
    nodes are outside every guarantee (§5)."""

    empty_texts: Literal["counted", "masked"]
    """``counted``: empty columns and special tokens enter the means of BERT's hidden states."""

    node_sample: Literal["stratified", "keyed_coin"]
    """Sampling of a fixed share of the training nodes, done once for a dataset (Reddit): per class,
    or by an independent coin per node (§3)."""

    missing_class: Literal["kept", "dropped"]
    """Whether nodes of unknown class form a class of their own (Facebook100), as in the released
    code, where one raw row has a negative year."""

    copies: Literal["split", "none"]
    """``split``: augmented copies of photographs are made before the split, so that copies of a
    training photograph are test images (Zhang 2021, §4.5.1)."""


SOUND = DataView(
    name="sound",
    profile_reading="exact",
    profile_ranking="completion_percentage",
    label_column="dropped",
    vocabulary="public_nodes",
    empty_texts="masked",
    node_sample="keyed_coin",
    missing_class="dropped",
    copies="none",
)

PAPER = replace(
    SOUND, name="paper", label_column="kept", vocabulary="all_nodes", node_sample="stratified",
    copies="split",
)  # fmt: skip

RELEASED = replace(
    PAPER, name="released", profile_reading="as_released", profile_ranking="non_null_columns",
    empty_texts="counted", missing_class="kept",
)  # fmt: skip

SOUND_WITH_LABEL = replace(SOUND, name="sound-with-label", label_column="kept")
"""SOUND with the column that defines the label, to measure the effect of this leak."""

VIEWS: dict[str, DataView] = {
    view.name: view for view in (RELEASED, PAPER, SOUND, SOUND_WITH_LABEL)
}
"""Every view by name."""
