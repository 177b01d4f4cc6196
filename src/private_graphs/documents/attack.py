"""``attack`` for declared documents: what releases like the owner's show of who was in them.

Classifiers are trained as the owner's was, on random halves of the training units, and attacked by
somebody who knows all documents and labels but not who is in. Of public documents a half teaches
these classifiers, and the other one says how good they are. The result reads private documents
without noise: it stays in the folder ``private``, and only so it costs no ε.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from private_graphs.attacks.decoding import decoded
from private_graphs.attacks.membership import Shadows, cross_checked, rates
from private_graphs.attacks.views import margins
from private_graphs.core.arguments import require_types
from private_graphs.core.errors import UsageError, UserError, counted, listed
from private_graphs.core.files import write_json
from private_graphs.core.limits import LARGEST_SEED, MOST_COUNT
from private_graphs.core.private_files import private_folder
from private_graphs.core.streams import Streams
from private_graphs.documents.declaration import needed
from private_graphs.documents.hashing import tokens
from private_graphs.documents.ledger import BudgetLedger
from private_graphs.documents.model import ReleasedModel
from private_graphs.documents.model_file import load
from private_graphs.documents.release import METHODS, PlannedRelease, planned_release, terms_of
from private_graphs.documents.tables import KNOWN, PUBLIC_TEST, TEST, TRAINING, read_documents
from private_graphs.documents.unit_sums import (
    Sums,
    Terms,
    cells_of,
    mu_of,
    scores_of,
)
from private_graphs.mechanisms.door import Door
from private_graphs.privacy.audits import most_of_gaussian
from private_graphs.privacy.rounding import at_most

SHADOWS = 256
FILE = "leaks.json"
_MOST_UNITS = 2000
"""Units with a coin; of more units the others are always in."""
_EXPOSED = 0.01
"""Share of the units that are shown as most exposed."""


@dataclass(frozen=True)
class Seen:
    """How well an attacker tells units that are in from others, each value with its interval."""

    what: str
    """What the attacker reads."""
    auc: tuple[float, float, float]
    tpr_01: tuple[float, float, float]
    """True positive rate at 1 % false positives."""
    most_exposed: float
    """AUC of the hundredth of the units whom half of the models name, measured on the others."""


@dataclass(frozen=True)
class Attacked:
    """Result of ``attack``."""

    graph: str
    unit: str
    epsilon: float
    """ε of the attacked releases."""
    delta: float
    models: int
    units: int
    """Units with a coin: training units with a class."""
    always_in: int
    seen: tuple[Seen, ...]
    auc_allowed: float
    """Largest AUC that the proof allows for any attack on one unit."""
    tpr_allowed: float
    accuracy: float | None
    """Share of right answers of the models of random halves, by unit; None without a test unit."""
    released_units: int
    """Number of units that the release protects."""
    table_units: int
    """Number of units in the table as it is now, of which the attacked classifiers are."""
    file: Path

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return what was seen, and what that cannot rule out."""

        def with_interval(estimate: tuple[float, float, float], digits: int) -> str:
            value, low, high = (f"{number:.{digits}f}" for number in estimate)
            return f"{value} ({low} to {high})"

        lines = [
            f"models      {self.models:,} classifiers like the release of {self.graph!r} at "
            f"epsilon {self.epsilon:g}, each of a random half of {self.units:,} {self.unit}s with "
            "a class" + (f" and always of {self.always_in:,} others" if self.always_in else ""),
            "accuracy    "
            + ("no labelled test unit" if self.accuracy is None else f"{self.accuracy:.3f}"),
            *(
                f"{view.what:11} AUC {with_interval(view.auc, 3)}, true positives at 1 % false "
                f"positives {with_interval(view.tpr_01, 4)}, AUC of the most exposed 1 % "
                f"{view.most_exposed:.3f}"
                for view in self.seen
            ),
            f"proved      AUC at most {at_most(self.auc_allowed, 3)}, true positives at most "
            f"{at_most(self.tpr_allowed, 4)}, for any attack on one {self.unit}",
            *([self._difference] if self.released_units != self.table_units else []),
            *LIMITS,
            f"file        {self.file}",
        ]
        return lines

    @property
    def _difference(self) -> str:
        return (
            f"The release protects {counted(self.released_units, self.unit)}; these are "
            f"classifiers of the {self.table_units:,} in the table as it is now."
        )


LIMITS = (
    "This is evidence, never a bound: an attacker who knows more may see more.",
    "Random halves understate: somebody who knows nine of ten units sees more of the tenth.",
    "Means hide people: a few may be exposed where most are not. The proof holds for each.",
    "Half of the classifiers name the most exposed 1 %, the other half measure them: where little "
    "leaks, chance names them, and their AUC may lie below the average.",
    "Keep this private: it reads protected documents without noise, and spends no epsilon only "
    "because nobody else sees it.",
)
"""What no attack can rule out, and whom its result is for."""


@require_types
def attack(
    folder: str | Path,
    *,
    data: str | Path = Path("data/raw"),
    models: int = SHADOWS,
    seed: int = 0,
) -> Attacked:
    """Measure how well an attacker can tell who was in the training data.

    Classifiers are trained as the release was trained, on random halves of the units. The attacker
    knows all documents, but not which were used. The result is evidence, not a bound. It is
    computed from private documents without noise, and written to the folder private beside the
    release: keep it there; publishing it would break the guarantee.

    Args:
        folder (path): folder that ``classify`` wrote.
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
    if not 8 <= models <= MOST_COUNT:
        raise UsageError(
            f"--models is {models}; expected 8 to {MOST_COUNT:,}, half of which are compared"
        )
    if not 0 <= seed <= LARGEST_SEED:
        raise UsageError(f"--seed is {seed}; expected 0 to {LARGEST_SEED:,}")
    model, folder = load(folder), _owners(Path(folder))
    spec, statement = needed(model.graph, Path(data)), _released(folder)
    method = statement["method"]
    plan = planned_release(
        spec, read_documents(spec), BudgetLedger(Path(data)), statement["epsilon_target"], method
    )
    _require_as_released(folder, model, statement, plan)
    docs = terms_of(plan.docs, TRAINING)
    units = np.unique(docs.unit_of[docs.labels >= 0])
    if len(units) < 2:
        raise UserError(f"{spec.name}: fewer than two training units have a class; expected more")
    generator = np.random.default_rng([seed, 43])
    order = generator.permutation(len(units))
    targets, rest = np.sort(order[:_MOST_UNITS]), order[_MOST_UNITS:]
    if isinstance(plan.training, Sums):
        scores, weights = _of_sums(plan, plan.training, targets, rest, models, generator, seed)
    else:
        scores, weights = _of_steps(plan, units[targets], models, generator, seed)
    allowed = most_of_gaussian(mu_of(plan.training.queries), {"01": 0.01})
    result = Attacked(
        graph=model.graph, unit=spec.unit or "document", epsilon=plan.epsilon, delta=plan.delta,
        models=models, units=len(targets), always_in=len(rest),
        seen=tuple(_seen(what, *pair) for what, pair in scores.items()),
        auc_allowed=allowed["auc"], tpr_allowed=allowed["tpr_01"],
        accuracy=_accuracy(plan, weights), released_units=statement["n_units"],
        table_units=plan.protected, file=folder / "private" / FILE,
    )  # fmt: skip
    with private_folder(result.file.parent):
        fields = asdict(result) | {"limits": LIMITS}
        del fields["file"]
        write_json(result.file, fields)
    return result


def _owners(folder: Path) -> Path:
    """Return the owner's folder of a release; what is found may not lie in what is given away."""
    path = folder.resolve()
    root = path.parent if path.name == "release" and not (path / "release").is_dir() else folder
    if all((root / part).is_dir() for part in ("release", "private")):
        return root
    raise UsageError(
        f"{folder}: has no folders 'release' and 'private', expected DIR of 'private-graphs "
        "classify NAME --out DIR': what an attack finds is private, and would be written into what "
        "is given away; name the owner's DIR"
    )


def _released(folder: Path) -> dict[str, Any]:
    """Return the statement of the release in a folder, with its target ε and its method."""
    from private_graphs.report.explained import statements_of

    statement, *others = (entry.statement for entry in statements_of(folder))
    epsilon, method = statement["epsilon_target"], statement["method"]
    if others or epsilon is None or method not in METHODS:
        raise UserError(
            f"{folder}: {counted(1 + len(others), 'statement')}, the first of {method!r} with the "
            f"target epsilon {epsilon}; expected one alone, of {', '.join(METHODS)}, as "
            "'private-graphs classify NAME --out DIR' writes it"
        )
    return statement


def _require_as_released(
    folder: Path, model: ReleasedModel, statement: dict[str, Any], plan: PlannedRelease
) -> None:
    """Raise UsageError where documents of this name are declared otherwise than for a release.

    The first public fact names the column of persons.
    """
    spec, another = plan.spec, plan.statement(statement["method"])
    for what, parts, others in (
        ("classes", model.classes, plan.docs.classes), ("text columns", model.text, spec.text),
        ("column of ids", (model.id,), (spec.id,)),
        ("unit", statement["public_facts"][:1], another.public_facts[:1]),
        ("rows of texts", [statement["features"]], [another.features]),
    ):  # fmt: skip
        if [*parts] != [*others]:
            raise UsageError(
                f"{folder}: its {what} are {listed(parts)}, and {spec.name!r} is declared with "
                f"{listed(others)}: classifiers of it would be no releases like this one; declare "
                "it as it was"
            )


Scored = dict[str, tuple[np.ndarray, np.ndarray]]
"""By what the attacker reads: (R, units) scores and coins."""


def _of_sums(
    plan: PlannedRelease, training: Sums, targets: np.ndarray, rest: np.ndarray, models: int,
    generator: np.random.Generator, seed: int,
) -> tuple[Scored, list[np.ndarray]]:  # fmt: skip
    """Release sums of random halves, a matrix product for all, and decode them."""
    docs, known = terms_of(plan.docs, TRAINING), terms_of(plan.docs, KNOWN)
    names, terms = _terms(training, docs)
    _, without = _terms(training, _without_rare_words(docs))
    lattice, public = training.lattice, training.public_sums(known)
    scores: Scored = {}
    weights: list[np.ndarray] = []
    for what, moved, always in (
        ("sums", terms[targets], terms[rest].sum(axis=0)),
        ("rare words", (terms - without)[targets],
         without[targets].sum(axis=0) + terms[rest].sum(axis=0)),
    ):  # fmt: skip
        coins = generator.random((models, len(targets))) < 0.5
        base = np.asarray(always).ravel()
        exact = (coins.astype(np.int64) @ moved + base).astype(np.int64)
        door = _door(plan, models, {"seed": seed, "of": what})
        door.plan([training.queries] * models)
        exact = exact.reshape(models, -1, training.n_classes)
        noisy = door.gaussian(exact, list(training.queries) * models, stream="class_sums")
        door.close()
        flat = noisy.reshape(models, -1) - base * lattice.spacing
        scores[what] = decoded(moved * lattice.spacing, flat, lattice.noise_std), coins
        if what == "sums":
            weights = [training.read_out(sums, public)[0] for sums in noisy]
            ratios = Shadows(_margins(plan, weights, names[targets]), coins).ratios()
            scores["classifier"] = ratios["online"], coins
    return scores, weights


def _of_steps(
    plan: PlannedRelease, units: np.ndarray, models: int, generator: np.random.Generator, seed: int
) -> tuple[Scored, list[np.ndarray]]:
    """Train a classifier of each random half, one after the other."""
    docs, known = terms_of(plan.docs, TRAINING), terms_of(plan.docs, KNOWN)
    coins = generator.random((models, len(units))) < 0.5
    weights = []
    for number, flips in enumerate(coins):
        out = np.isin(docs.unit_of, units[~flips])
        half = replace(docs, labels=np.where(out, -1, docs.labels))
        door = _door(plan, 1, {"seed": seed, "number": number})
        weights.append(plan.training.weights(half, known, door)[0])
        door.close()
    ratios = Shadows(_margins(plan, weights, units), coins).ratios()
    return {"classifier": (ratios["online"], coins)}, weights


def _door(plan: PlannedRelease, models: int, fields: dict[str, Any]) -> Door:
    """Return a door with seeded noise: what passes it stays private."""
    return Door.of([
        Streams.of({"attack": plan.spec.name, "model": model, **fields}) for model in range(models)
    ])  # fmt: skip


def _without_rare_words(terms: Terms) -> Terms:
    """Return units whose first labelled document lacks the word that the fewest documents have."""
    listed = [tokens(text) for text in terms.texts]
    frequency = Counter(word for words in listed for word in set(words))
    texts = list(terms.texts)
    labelled = np.flatnonzero(terms.labels >= 0)
    _, first = np.unique(terms.unit_of[labelled], return_index=True)
    for row in labelled[first]:
        rare = min(listed[row], key=lambda word: (frequency[word], word), default=None)
        texts[row] = " ".join(word for word in listed[row] if word != rare)
    return replace(terms, texts=texts)


def _terms(training: Sums, docs: Terms) -> tuple[np.ndarray, sp.csr_matrix]:
    """Return the numbers of the units with a class, and their rounded terms in a row."""
    columns, n_classes = training.features.columns + 1, training.n_classes
    rows, places, values = [], [], []
    for units, label, terms in docs.blocks(training.features, training.lattice, training.SHARE):
        of_class = terms.tocoo()
        rows.append(units[of_class.row])
        places.append(of_class.col.astype(np.int64) * n_classes + label)
        values.append(of_class.data)
    names, row = np.unique(np.concatenate(rows), return_inverse=True)
    entries = (np.concatenate(values), (row, np.concatenate(places)))
    return names, sp.csr_matrix(entries, (len(names), columns * n_classes))


def _margins(plan: PlannedRelease, weights: Sequence[np.ndarray], units: np.ndarray) -> np.ndarray:
    """Return (R, units) mean margins of the labelled documents of each unit."""
    docs = terms_of(plan.docs, TRAINING)
    rows = np.flatnonzero((docs.labels >= 0) & np.isin(docs.unit_of, units))
    scores = _scores(plan, weights, [docs.texts[row] for row in rows.tolist()])
    logits = margins(scores, docs.labels[rows])  # (R, documents)
    _, inverse = np.unique(docs.unit_of[rows], return_inverse=True)
    mean = sp.csr_matrix((1 / np.bincount(inverse)[inverse], (np.arange(len(rows)), inverse)))
    return np.asarray(logits @ mean)


def _scores(
    plan: PlannedRelease, weights: Sequence[np.ndarray], texts: Sequence[str]
) -> np.ndarray:
    """Return (R, documents, K) scores of R classifiers."""
    joined = scores_of(np.hstack(weights), plan.training.features, texts)
    return joined.reshape(len(texts), len(weights), -1).transpose(1, 0, 2)


def _accuracy(plan: PlannedRelease, weights: Sequence[np.ndarray]) -> float | None:
    """Return the share of right answers on test units, in the mean over the classifiers."""
    docs = terms_of(plan.docs, TEST, PUBLIC_TEST)
    rows = np.flatnonzero(docs.labels >= 0)
    if not len(rows):
        return None
    labels, units = docs.labels[rows], docs.unit_of[rows]
    answers = _scores(plan, weights, [docs.texts[row] for row in rows.tolist()]).argmax(axis=2)
    right = [cells_of(answer, answer, labels, units)[:, 0].mean() for answer in answers]
    return float(np.mean(right))


def _seen(what: str, scores: np.ndarray, coins: np.ndarray) -> Seen:
    metrics = rates(scores, coins)
    exposed = cross_checked(scores, coins, max(1, math.ceil(_EXPOSED * scores.shape[1])))
    return Seen(what, metrics["auc"], metrics["tpr_01"], exposed)
