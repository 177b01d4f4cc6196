"""The verbs for declared documents, with the same names in the shell and in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from private_graphs.core.errors import (
    UsageError,
    UserError,
    counted,
    require_text,
    system_error_text,
)
from private_graphs.datasets.own_tables import is_frame
from private_graphs.documents.declaration import DATA, Declared
from private_graphs.documents.intake import declare
from private_graphs.documents.model import ReleasedModel
from private_graphs.documents.model_file import load
from private_graphs.documents.predict import declared_prior, read_new, use_words, written_to
from private_graphs.documents.prediction import ClassUse, Predictions
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
    """Empty for a text without a word that the model knows."""
    scores: np.ndarray
    """(documents,) probability of the predicted class under the model; NaN without one."""
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
    empty: int = 0
    """Number of documents without a word that the model knows."""
    used: tuple[ClassUse, ...] = ()
    """How often each class was predicted, beside the released shares."""
    linked: int | None = None
    """Number of documents with a link to a public one; None where no links were read."""
    votes: bool = False
    """Whether the release can read links to its public documents."""

    @property
    def links_read(self) -> str:
        """What was done with links; empty where the release can read none."""
        if not self.votes:
            return ""
        if self.linked is None:
            return (
                "by their words alone: give links to the public documents of the release with "
                "--edges (edges= in Python)"
            )
        rest = len(self.ids) - self.linked
        return (
            f"{self.linked:,} of {counted(len(self.ids), 'document')} with a link to a public one, "
            f"which votes; the other {rest:,} by their words alone"
        )

    @property
    def warning(self) -> str:
        """What the owner of the documents has to know before the classes are given away."""
        held = "" if self.protected is None else (
            f"; the ledger protects {self.protected:,} of these {len(self.ids):,} ids"
        )  # fmt: skip
        if self.unread:
            held = f"; how many of these ids are protected is not known: {self.unread}"
        read = "text" if self.linked is None else "text and links"
        return f"each class is an exact function of its {read}, which no epsilon covers{held}"

    def lines(self) -> list[str]:
        """Return what the command prints."""
        where = f" in {self.out}" if self.out else ""
        lines = [f"{counted(len(self.ids), 'document')} classified{where}", self.warning]
        lines += [self.links_read] if self.votes else []
        lines += use_words(self.used, self.empty) if self.used else []
        if self.unknown is not None:
            lines.append(f"{100 * self.unknown:.1f} % of their words are unknown to the model")
        if self.accuracy is not None:
            lines.append(
                f"{100 * self.accuracy:.1f} % of those with a class are right: an exact number "
                "about these documents, not to be given away if they are private"
            )
        return lines

    def __repr__(self) -> str:
        return "\n".join(self.lines())


def predict(
    release: str | Path,
    *,
    nodes: str | Path | Any,
    out: str | Path | None = None,
    label: str | None = None,
    encoding: str = "utf-8",
    model: str | Path | None = None,
    data: str | Path = DATA,
    shares: Mapping[str, float] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    edges: str | Path | None = None,
    source: str = "source",
    target: str = "target",
) -> Predicted:
    """Classify new documents with a released model; no ε is spent.

    Each class is an exact function of its text, and of the links that are read, which no ε covers:
    the result says how many of the ids a release in the ledger of ``data`` protects.

    Args:
        release (path): the folder ``release`` of ``classify``.
        nodes (path or DataFrame): table of documents, read in blocks, so that its length costs time
            and no memory.
        out (path): CSV for ids, classes and scores, readable by you alone; None writes none.
        label (str): column with true classes, to count right answers.
        encoding (str): encoding of CSV files.
        model (path): as in ``load``.
        data (path): folder of raw files, as in ``declare``.
        shares (dict of str to float): shares of the classes among these documents, in place of
            those of the release; for releases of ε ≥ 2.
        progress (callable): gets the number of finished documents and of all.
        edges (path): table of links; those between a new document and a public one of the release
            vote, no other is used.
        source, target (str): columns of the links.

    Returns:
        Predicted: ids, classes, and (documents,) probabilities of the predicted classes.

    Example:
        >>> predict("january/release", nodes="new.csv", out="classes.csv")  # doctest: +SKIP

    Raises:
        UserError: no model in the folder, a table that cannot be used, an ``out`` that has anything
            but predictions or lies in a release, or ``edges`` where the
            release has no public documents whose links tell classes apart.
    """
    from private_graphs.documents.ledger import BudgetLedger

    require_text(label=label, source=source, target=target, shares=",".join(shares or ()))
    if out is not None:
        BudgetLedger(Path(data)).refuse(Path(out))
    released = load(release, model=model, data=data)
    nodes = nodes if is_frame(nodes) else Path(nodes)
    links = None
    if edges is not None:
        if released.neighbours is None:
            raise UsageError(
                f"--edges: the release in {release} reads no links: it was made without links "
                "among public documents, or they do not tell classes apart; leave --edges out"
            )
        links = released.neighbours.read(Path(edges), source, target, encoding)
    linked = 0
    found = Predictions(released, declared_prior(released, shares))
    tables = [Path(table) for table in (nodes, edges) if table is not None and not is_frame(table)]
    # before the ledger is asked
    with written_to(found, None if out is None else Path(out), tables):
        for ids, texts, labels, done in read_new(
            nodes, released.text, released.id, label, encoding
        ):
            votes = None
            if links is not None:
                votes, n_linked = links.of(ids)
                linked += n_linked
            found.add(ids, texts, labels, votes)
            progress(int(1000 * done), 1000)
    protected, unread = None, ""
    try:
        protected = BudgetLedger(Path(data)).count_protected(found.ids)
    except (OSError, UserError) as error:
        unread = system_error_text(error) if isinstance(error, OSError) else str(error)
    known, words = found.words.tolist()
    return Predicted(
        found.ids, found.classes, np.concatenate(found.scores),
        1 - known / max(1, words) if released.features.words else None,
        found.right / found.labelled if found.labelled else None, protected, unread,
        Path(out) if out else None, found.empty, found.used,
        None if links is None else linked,
        released.neighbours is not None,
    )  # fmt: skip


def attack(
    folder: str | Path, *, data: str | Path = DATA, models: int = 256, seed: int = 0
) -> Attacked:
    """Attack classifiers of random halves, trained like a release.

    The result is evidence, never a bound. It is private, and is written into the folder ``private``
    of the release.

    Args:
        folder (path): folder of ``classify(..., out=folder)``.
        data (path): folder of raw files, as in ``declare``.
        models (int): classifiers that are trained and attacked, at least 8.
        seed (int): the same seed gives the same answer.

    Returns:
        Attacked: AUC and true positive rate at 1 % false positives, with 95 % intervals, and what
        the proof allows.

    Example:
        >>> attack("january", models=64)  # doctest: +SKIP

    Raises:
        UserError: no release of declared documents in the folder.
    """
    from private_graphs.documents.attack import attack

    return attack(folder, data=data, models=models, seed=seed)


def explain(*folders: str | Path, full: bool = False) -> Explained:
    """Say in words what releases guarantee, alone and together.

    Args:
        folders (path): folders of ``classify`` or of jobs, or files ``statement.json``.
        full (bool): whether to add the formula of the proof and all that is public or not covered.

    Returns:
        Explained: texts, and ε and δ of all of them for a unit that is in each.

    Example:
        >>> explain("january", "february").epsilon  # doctest: +SKIP

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
    """Return ε of noisy, clipped gradient steps (docs/privacy.md §0).

    Args:
        noise_multiplier (float): standard deviation of the noise in units of the clip norm.
        steps (int): number of steps.
        sampling_rate (float): probability with which a record joins a step, 0 to 1.
        delta (float): δ of the guarantee.
        relation (str): ``replace``, ``add_remove`` or ``zero_out``.
        accountant (str): ``pld``, ``gdp`` or ``moments``.

    Returns:
        float: ε, an upper bound (``gdp``: exact).

    Example:
        >>> round(epsilon(112, 2000, accountant="gdp"), 4)
        3.3801
    """
    from private_graphs.privacy.named_accountants import epsilon_for

    return epsilon_for(accountant, noise_multiplier, steps, sampling_rate, delta, relation)
