"""Formatting of numbers as text, for terminal, Markdown, LaTeX and page alike.

A proved ε is rounded up and an attack's lower bound is rounded down, so that no text promises more
than a statement does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from private_graphs.core.errors import UserError
from private_graphs.datasets.registry import dataset_spec
from private_graphs.features.models import random_model
from private_graphs.privacy.rounding import at_least, at_most
from private_graphs.privacy.statements import VACUOUS_EPSILON
from private_graphs.running.exhibit import NOTHING, Cell

FEATURES = {"raw": "raw", "bow": "bag of words", "fasttext": "fastText", "bert": "BERT",
            "sbert": "Sentence-BERT"}  # fmt: skip
"""Names of feature kinds, in the order of tables."""
RANDOM_MODEL = "tiny, random"
"""Name of a model with random weights, which stands in for a trained one."""
POOLED_WITH = "pooled_with"
"""Column of points: the other run groups whose runs of the same job count there."""
OPTIMIZERS = {"sgd": "SGD", "adam": "Adam"}
"""Names of optimizers, in the order of tables."""

SCALE = {
    "e1": "ε ≤ 1: strong", "e3": "ε ≤ 3: good", "e10": "ε ≤ 10: weak", "e20": "ε ≤ 20: very weak",
    "vacuous": "ε > 20: too large to mean anything",
    "none": "none: no finite ε is proved",
    "refuted": "refuted: an attack shows more than is claimed (99.9 %)",
}  # fmt: skip
"""Meaning of ``strength`` and ``tone``, from the strongest guarantee to a refuted one."""
_ENDS = {1: "e1", 3: "e3", 10: "e10", VACUOUS_EPSILON: "e20"}

PROVED_NOTE = (
    "ε proved is for one run with settings fixed in advance, for the unit beside it, rounded up; "
    "none: no finite ε is proved. The column epsilon_all_runs of the CSV is the ε of all runs "
    "behind a row."
)
REFUTED_NOTE = (
    "refuted: ε > x: an attack on the same code at the same claim shows, at 99.9 % confidence, "
    "that ε is above x and hence above the claim; the statement names what was attacked "
    "(docs/privacy.md §10, §11)."
)
MODEL_ONLY = "covers the model, not the predictions"
MODEL_ONLY_NOTE = (
    f"{MODEL_ONLY}: the proved ε is of the trained parameters; the scored predictions were "
    "computed from private edges and reveal more."
)
VACUOUS = "too large to mean anything (> 20)"
SEED_NOTE = (
    "ε proved supposes that the seeds were secret; these rows are made with published seeds, so "
    "that they can be made again."
)
NOT_REPLAYED = "not replayed"
NOT_REPLAYED_NOTE = (
    f"{NOT_REPLAYED}: the proof is on paper: no replay on neighbours tested it for the code and "
    "the settings of these runs; the statement says why."
)

_LARGE = 1e6


def unit(name: str) -> str:
    """Return the name of a guarantee's unit."""
    names = {"edge_undirected": "edge",
             "node_out_list": "person with the list of friends they keep"}  # fmt: skip
    return names.get(name, name.replace("_", " "))


def features(kind: str, dataset: str) -> str:
    """Return the name of a dataset's features: ``BERT (tiny, random)``."""
    words = FEATURES.get(kind, kind)
    return f"{words} ({RANDOM_MODEL})" if random_features(kind, dataset) else words


def random_features(kind: str, dataset: str) -> bool:
    """Return whether the features come from a random model; False for a deleted graph."""
    try:
        return random_model(dataset_spec(dataset), kind)
    except UserError:
        return False


def missing(value: Any) -> bool:
    """Return whether ``value`` stands for no value (None, NaN, NA or empty text)."""
    return value is None or value is pd.NA or value == "" or value != value


def enumeration(texts: Sequence[str]) -> str:
    """Return texts as a list in a sentence: ``A, B and C``."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def duration(seconds: float) -> str:
    """Return seconds in words: ``45 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def number(value: Any, decimals: int | None = None) -> str:
    """Format a number: infinity as ∞, at most ``decimals`` decimals, missing as a dash."""
    if missing(value):
        return NOTHING
    if math.isinf(value):
        return "∞"
    text = f"{value:.{decimals}f}" if decimals is not None else f"{value:.10g}"
    return text.replace("e-0", "e-")


def budget(epsilon: float) -> str:
    """Format a valid ε, rounded up to two decimals; four digits from a million."""
    return at_most(float(epsilon), None if epsilon >= _LARGE else 2)


def bound(epsilon: float) -> str:
    """Format a lower bound on ε, rounded down in the same way."""
    return at_least(float(epsilon), None if epsilon >= _LARGE else 2)


def score(point: Mapping[str, Any] | None, decimals: int = 3, times: float = 1) -> Cell:
    """Format mean and spread of a point, ``0.552 ± 0.021``; without ± for one run.

    A point with runs of several run groups says of how many: ``0.552 ± 0.021 (15 runs)``.
    ``times`` is 100 for scores in per cent.
    """
    if point is None or missing(point.get("mean")):
        return Cell()
    spread = next((point[name] for name in ("std", "ci95") if name in point), None)
    around = "" if missing(spread) else f" ± {times * spread:.{decimals}f}"
    text = f"{times * point['mean']:.{decimals}f}{around}{pooled_runs(point)}"
    return Cell(text, accuracy=accuracy(point))


def score_of(
    point: Mapping[str, Any] | None, name: str, decimals: int = 3, times: float = 1
) -> Cell:
    """Format another score of a point, with its spread ``<name>_std`` (``Results.points``)."""
    return Cell() if point is None else score(
        {"mean": point[name], "std": point[f"{name}_std"]}, decimals, times
    )  # fmt: skip


def accuracy(point: Mapping[str, Any]) -> tuple[str, float] | None:
    """Return dataset and mean of a point (``Cell.accuracy``)."""
    return (point["dataset"], point["mean"]) if "dataset" in point else None


def pooled_runs(point: Mapping[str, Any]) -> str:
    """Return of how many runs a point is, where these are of several run groups."""
    return "" if missing(point.get(POOLED_WITH)) else f" ({point['n']} runs)"


def printed(value: Any) -> Cell:
    """Format a published score with the paper's digits: two or three decimals."""
    if missing(value):
        return Cell()
    return Cell(number(value, 2 if round(value, 2) == value else 3), tone="published")


def strength(epsilon: Any) -> str:
    """Return the key of ``SCALE`` for a proved ε, or for none."""
    if missing(epsilon):
        return "none"
    return next((name for end, name in _ENDS.items() if epsilon <= end), "vacuous")


def tone(point: Mapping[str, Any]) -> str:
    """Return the tone of a point, which shows its privacy (``Cell.tone``)."""
    if missing(point.get("status")) or point["status"] == "not_private":
        return ""
    if point["status"] == "refuted":
        return "refuted"
    return strength(point["epsilon_proved"])


def guarantee(point: Mapping[str, Any] | None) -> Cell:
    """Return what is proved, refuted or open for a point, with its statement.

    ``3.39 per node``; ``none`` without a proof, ``refuted: ε > 3.16`` if an attack shows more than
    the claim, ``no DP`` without DP. A point has ``status``, ``epsilon_proved``,
    ``unit``, ``inference``, ``vacuous`` and ``statement_id`` of its statement, and the requested
    ``epsilon``: 0 if nothing private is read.
    """
    if point is None or missing(point.get("status")):
        return Cell()
    if point["status"] == "not_private":
        return Cell("no DP", point["statement_id"])
    proved, words = point["epsilon_proved"], []
    if proved == point.get("epsilon") == 0:  # no budget was requested
        return Cell("0: nothing private is read", point["statement_id"], tone(point))
    if not missing(proved):
        words.append(f"{budget(proved)} per {unit(point['unit'])}")
        words += [NOT_REPLAYED] * (point["status"] == "proved_not_replayed")
    elif point["status"] != "refuted":
        words.append("none")
    if point["status"] == "refuted":
        words.append(_refuted(point.get("audit_epsilon_lower")))
    return Cell(", ".join([*words, *limits(point)]), point["statement_id"], tone(point))


def _refuted(lower: Any) -> str:
    return "refuted" if missing(lower) else f"refuted: ε > {bound(lower)}"


def limits(point: Mapping[str, Any]) -> list[str]:
    """Return the limits of a point's ε: ``authors’ accountant: …``, ``MODEL_ONLY``, ``VACUOUS``.

    The authors' own number is included if it differs from the claim in two decimals.
    """
    limits = []
    authors, claimed = (
        number(point.get(name), 2) for name in ("authors_epsilon", "epsilon_claimed")
    )
    if authors not in (NOTHING, claimed):
        limits.append(f"authors’ accountant: {authors}")
    if not missing(point["epsilon_proved"]) and point["inference"] == "leaks":
        limits.append(MODEL_ONLY)
    if not missing(point["vacuous"]) and point["vacuous"]:
        limits.append(VACUOUS)
    return limits


def guarantees(points: pd.DataFrame) -> Cell:
    """Return what is proved for several points: ``1.59 to 13.21 per node``.

    Ranges are those of the proved ε; ``none for some`` means that some points have no proof.
    """
    private = points[points["status"].notna() & (points["status"] != "not_private")]
    if private.empty:
        return Cell("no DP" if points["status"].notna().any() else NOTHING)
    proved = private[private["epsilon_proved"].notna()]
    refuted = private[private["status"] == "refuted"]
    words = []
    if len(proved):
        low, high = budget(proved["epsilon_proved"].min()), budget(proved["epsilon_proved"].max())
        units = " or ".join(unit(name) for name in sorted(proved["unit"].unique()))
        words.append(f"{low if low == high else f'{low} to {high}'} per {units}")
        words += ["none for some"] * (len(proved) < len(private))
        untested = proved["status"] == "proved_not_replayed"
        if untested.any():
            words.append(NOT_REPLAYED if untested.all() else f"{NOT_REPLAYED} for some")
    elif refuted.empty:
        words.append("none")
    if len(refuted):
        text = _refuted(refuted["audit_epsilon_lower"].min())
        words.append(text if len(refuted) == len(private) else f"{text} for some")
    if (proved["inference"] == "leaks").any():
        words.append(MODEL_ONLY)
    vacuous = private["vacuous"].fillna(False).astype(bool)
    if vacuous.any():
        words.append(VACUOUS if vacuous.all() else f"in part {VACUOUS}")
    weakest = strength(private["epsilon_proved"].max() if len(proved) == len(private) else None)
    return Cell(", ".join(words), "", "refuted" if len(refuted) else weakest)


def privacy_notes(points: pd.DataFrame) -> list[str]:
    """Return explanations of the terms that ``guarantee`` uses for ``points``."""
    private = points[points["status"].notna() & (points["status"] != "not_private")]
    proved = private["epsilon_proved"].notna()
    notes = {
        PROVED_NOTE: len(private) > 0,
        REFUTED_NOTE: (private["status"] == "refuted").any(),
        MODEL_ONLY_NOTE: (proved & (private["inference"] == "leaks")).any(),
        SEED_NOTE: (private["status"] == "proved_if_seed_secret").any(),
        NOT_REPLAYED_NOTE: (private["status"] == "proved_not_replayed").any(),
    }
    return [note for note, needed in notes.items() if needed]
