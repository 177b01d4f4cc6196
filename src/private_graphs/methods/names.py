"""Names, titles and settings of the proved methods, for configuration and reports.

Nothing is imported here: a study file is checked without loading what trains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SettingName = Literal["text", "graph", "edges"]
"""What is private and what is public; ``methods.problem.SETTINGS`` has the details."""


@dataclass(frozen=True)
class MethodName:
    """What is known of a method before it runs."""

    title: str
    """As in tables and legends."""
    settings: tuple[SettingName, ...]
    """Those that it can be run in."""
    reads_private: bool = True
    """False for rows that need no private data: their ε is 0."""
    fits_tuning_labels: bool = False
    """Whether parameters are fitted on public tuning labels, not only settings chosen on them."""


METHOD_NAMES: dict[str, MethodName] = {
    "class_sums": MethodName("class sums", ("text", "graph")),
    "class_sums_text": MethodName("class sums, no edges", ("graph",)),
    "class_sums_public": MethodName(
        "class sums and public labels", ("text", "graph"), fits_tuning_labels=True
    ),
    "dp_linear": MethodName("DP linear", ("text",)),
    "dp_mlp": MethodName("DP MLP", ("text",)),
    "gcn": MethodName("GCN, per-epoch sum", ("graph",)),
    "gcn_poisson": MethodName("GCN, Poisson parts", ("graph",)),
    "edge_votes": MethodName("neighbour votes", ("edges",)),
    "text_only": MethodName("text only", ("edges",), reads_private=False),
    "public_only": MethodName(
        "public only", ("text", "graph"), reads_private=False, fits_tuning_labels=True
    ),
}
"""By the name in study files and run tables, in the order of legends and tables."""
