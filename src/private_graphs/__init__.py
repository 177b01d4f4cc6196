"""Differentially private graph learning: published results, recomputed with their real privacy.

Documents of an owner: ``declare``, ``classify``, ``predict``, ``explain``, ``ledger`` and
``attack`` do what the commands of these names do and return dataclasses, ``plan_releases``,
``spent_on`` and ``add_spending`` what those of ``ledger`` do; ``load`` reads a released model,
``epsilon`` prices noisy steps (docs/your-own-graph.md).
"""

from importlib import import_module
from typing import Any

from private_graphs.core.version import __version__

_VERBS = {
    "declare": "documents.intake", "classify": "documents.release", "predict": "documents.predict",
    "load": "documents.model_file", "explain": "report.explained", "attack": "documents.attack",
    "epsilon": "privacy.named_accountants",
    **dict.fromkeys(("add_spending", "ledger", "plan_releases", "spent_on"), "documents.spending"),
}  # fmt: skip
"""Verb -> its module."""
__all__ = ["__version__", *_VERBS]


def __getattr__(name: str) -> Any:
    """Import a verb when it is first used: importing the package stays quick.

    By name, so that the code of the verbs is none of what every module of the package depends on.
    """
    if name not in _VERBS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_VERBS[name]}"), name)


def __dir__() -> list[str]:
    """Return all names, those of the verbs included."""
    return sorted({*globals(), *_VERBS})
