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
    audited: bool = False
    """Whether ``attacks.method_canary`` has a canary for it."""


METHOD_NAMES: dict[str, MethodName] = {
    "class_sums": MethodName("class sums", ("text", "graph"), audited=True),
    "class_sums_text": MethodName("class sums, no edges", ("graph",), audited=True),
    "class_sums_public": MethodName(
        "class sums and public labels", ("text", "graph"), fits_tuning_labels=True
    ),
    "dp_linear": MethodName("DP linear", ("text", "graph"), audited=True),
    "dp_mlp": MethodName("DP MLP", ("text", "graph"), audited=True),
    "gcn": MethodName("GCN, per-epoch sum", ("graph",)),
    "gcn_poisson": MethodName("GCN, Poisson parts", ("graph",)),
    "edge_votes": MethodName("neighbour votes", ("edges",), audited=True),
    "text_only": MethodName("text only", ("edges",), reads_private=False),
    "public_only": MethodName(
        "public only", ("text", "graph"), reads_private=False, fits_tuning_labels=True
    ),
}
"""By the name in study files and run tables, in the order of legends and tables."""


def methods_of(setting: SettingName, *, audited: bool = False) -> list[str]:
    """Return the methods that can be run in ``setting``; of these, those that an audit attacks."""
    return [
        name
        for name, each in METHOD_NAMES.items()
        if setting in each.settings and (each.audited or not audited)
    ]
