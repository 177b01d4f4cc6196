"""The six verbs for declared documents, with the same names in the shell and in Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from private_graphs.core.errors import UserError
from private_graphs.documents.declaration import DATA, Declared
from private_graphs.documents.intake import declare
from private_graphs.documents.model import ReleasedModel, load
from private_graphs.documents.release import Classified, classify
from private_graphs.documents.spending import (
    Spent,
    SpentOn,
    add_spending,
    ledger,
    plan_releases,
    spent_on,
)
from private_graphs.report.explained import Explained, explained

if TYPE_CHECKING:
    from private_graphs.documents.attack import Attacked

__all__ = [
    "Classified", "Declared", "Explained", "Predicted", "ReleasedModel", "Spent", "SpentOn",
    "add_spending", "attack", "classify", "declare", "epsilon", "explain", "ledger", "load",
    "plan_releases", "predict", "spent_on",
]  # fmt: skip


@dataclass(frozen=True)
class Predicted:
    """Result of ``predict``."""

    ids: list[str]
    classes: list[str]
    scores: np.ndarray
    """(documents,) probability of the predicted class under the model."""
    unknown: float | None
    """Share of words that the model does not know; None where all words are read."""
    accuracy: float | None
    """Share of right answers among documents whose label is a class; None if there is none."""
    protected: int | None
    """Number of documents that a release in the ledger protects; None without a ledger, and where
    it cannot be read."""
    unread: str
    """Why the ledger cannot be read; empty where it can, and without one."""
    out: Path | None

    @property
    def warning(self) -> str:
        """What the owner of the documents has to know before the classes are given away."""
        held = "" if self.protected is None else (
            f"; the ledger protects {self.protected:,} of these {len(self.ids):,} ids"
        )  # fmt: skip
        if self.unread:
            held = f"; how many of these ids are protected is not known: {self.unread}"
        return f"each class is an exact function of its text, which no epsilon covers{held}"


def predict(
    release: str | Path,
    *,
    nodes: str | Path,
    out: str | Path | None = None,
    label: str | None = None,
    encoding: str = "utf-8",
    model: str | Path | None = None,
    data: str | Path = DATA,
) -> Predicted:
    """Classify new documents with a released model; no ε is spent. See ``load`` for ``model``.

    Each class is an exact function of its text, which no ε covers: ``out`` is readable by its owner
    alone, and the result says how many of the ids a release in the ledger of ``data`` protects.

    Raises:
        UserError: no model in the folder, or a table that cannot be used.
    """
    from private_graphs.core.private_files import private_path
    from private_graphs.datasets.spelling import looks
    from private_graphs.documents.files import predictions_text
    from private_graphs.documents.ledger import BudgetLedger
    from private_graphs.documents.tables import read_new

    released = load(release, model=model, data=data)
    ids, texts, labels = read_new(Path(nodes), released.text, released.id, label, encoding)
    table, names, scores = predictions_text(released, ids, texts)
    if out is not None:  # before the ledger, which may be damaged, is asked
        with private_path(out) as temporary:
            temporary.write_text(table, encoding="utf-8")
    protected, unread = None, ""
    try:
        protected = BudgetLedger(Path(data)).count_protected(ids)
    except (OSError, UserError) as error:
        unread = str(error)
    accuracy = None
    if labels is not None:
        known = set(map(looks, released.classes))  # other labels are none, as in ``declare``
        pairs = [(looks(a), looks(b)) for a, b in zip(labels, names, strict=True)
                 if looks(a) in known]  # fmt: skip
        accuracy = sum(a == b for a, b in pairs) / len(pairs) if pairs else None
    return Predicted(
        ids, names, scores, released.features.unknown(texts), accuracy, protected, unread,
        Path(out) if out else None,
    )  # fmt: skip


def attack(
    folder: str | Path, *, data: str | Path = DATA, models: int = 256, seed: int = 0
) -> Attacked:
    """Attack classifiers of random halves, trained like a release; see ``documents.attack``.

    What is found is private, and is written into the release's folder ``private``.

    Raises:
        UserError: no release of declared documents in the folder.
    """
    from private_graphs.documents.attack import attack

    return attack(folder, data=data, models=models, seed=seed)


def explain(*folders: str | Path, full: bool = False) -> Explained:
    """Say in words what releases guarantee, alone and together.

    Raises:
        UserError: a folder without a statement, or with damaged files.
    """
    return explained([Path(folder) for folder in folders], full)


def epsilon(
    noise_multiplier: float,
    steps: int,
    *,
    sampling_rate: float = 1.0,
    delta: float = 1e-5,
    relation: str = "replace",
    accountant: str = "pld",
) -> float:
    """Return ε of noisy, clipped gradient steps (docs/privacy.md §0)."""
    from private_graphs.privacy.named_accountants import epsilon_for

    return epsilon_for(accountant, noise_multiplier, steps, sampling_rate, delta, relation)
