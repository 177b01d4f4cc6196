"""``classify`` for declared documents: budget, one private release, its verdict and its files."""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from warnings import warn

import numpy as np

from private_graphs.core.arguments import require_types
from private_graphs.core.bounded_files import parsed_json, read_bounded
from private_graphs.core.entropy import fresh_bytes, published_fingerprint
from private_graphs.core.errors import (
    UsageError,
    UserError,
    counted,
    naming,
    refuse_idle,
    require_text,
)
from private_graphs.core.files import make_writable, names_in, sha256_of
from private_graphs.core.limits import MOST_NAME_BYTES, MOST_TABLE_BYTES
from private_graphs.core.manifest import MANIFEST
from private_graphs.core.spreadsheets import table_text
from private_graphs.documents.accounts import (
    PUBLISHED,
    Account,
    Cost,
    People,
    RecordedRelease,
    charged_account,
    spender,
)
from private_graphs.documents.answers import REASON as COUNT_REASON
from private_graphs.documents.answers import (
    REGRESSION,
    SUMS,
    ClassAnswers,
    ClassScore,
    ClassSize,
    answers_of,
    calibrated_answers,
    recall_words,
    size_words,
)
from private_graphs.documents.declaration import (
    DATA,
    Declaration,
    changes_of,
    delta_of,
    needed,
    require_current,
)
from private_graphs.documents.earlier import earlier_releases, people_of, smallest_budget
from private_graphs.documents.hashing import HashedWords, PublicWords, listed_words
from private_graphs.documents.ledger import BudgetLedger
from private_graphs.documents.model import ReleasedModel
from private_graphs.documents.noise import NoiseKey, computation_of
from private_graphs.documents.payment import AnswerDigest, paid, rehearsed
from private_graphs.documents.prediction import score_columns
from private_graphs.documents.tables import PUBLIC, TEST, TRAINING, Documents, read_documents
from private_graphs.documents.unit_sums import (
    FEWEST_TEXTS,
    PublicTexts,
    Sums,
    Terms,
    cells_of,
    mu_of,
    query_of,
    scores_of,
)
from private_graphs.documents.unit_words import WordSums
from private_graphs.mechanisms.door import Door, ReleaseMismatch
from private_graphs.methods.word_prior import shrunk_sizes
from private_graphs.privacy.events import Event
from private_graphs.privacy.queries import GaussianQuery
from private_graphs.privacy.rounding import at_most
from private_graphs.privacy.statements import (
    DECLARED,
    PUBLIC_LINKS,
    About,
    PrivacyStatement,
    Relation,
    Selection,
    Unit,
    build_statement,
)

if TYPE_CHECKING:
    from private_graphs.documents.links import PlannedVotes
    from private_graphs.documents.neighbours import LinkFacts, PublicNeighbours
    from private_graphs.documents.rivals import PublicDocuments
    from private_graphs.documents.unit_steps import LinearSteps

METHODS = ("word_sums", "class_sums", "dp_linear")
"""Methods for declared documents."""
LINK_METHOD = "edge_votes"
"""Method for the links between public documents."""
FEWEST = 30
"""Labelled test units below which no verdict is given."""
MOST_ERROR = 0.25
"""Standard error of a comparison above which no verdict is given."""
_CLEAR = 2.0
"""Standard errors that make a difference clear."""
PAID = "an interrupted run has paid for this very release: it is continued, and costs no more"
_TESTED = "test units"
"""Part of the units that the counts of right answers are about."""


@dataclass(frozen=True)
class Quality:
    """Score of a release on test units, compared with what costs nothing."""

    score: float
    """Share of right answers, by unit."""
    majority: float
    """Share of the most frequent class."""
    majority_class: str
    public_alone: float | None
    """Share of right answers of public documents alone, by the same classifier without the private
    ones; None without public documents."""
    tested: float
    """Number of labelled test units; noisy where these are private."""
    gain: float
    """Score less the best of the others."""
    error: float
    """Standard error of the gain, noise included."""
    verdict: str
    """``gain``, ``loss``, ``none`` or ``cannot tell``."""
    noisy: bool
    """Whether the numbers are a noisy release about private test units."""
    of: str = "documents"
    """What is private: documents or links."""
    macro_f1: float | None = None
    by_class: tuple[ClassScore, ...] = ()
    public_regression: float | None = None
    """Share of right answers of public documents alone, by logistic regression on TF-IDF."""
    without_links: float | None = None
    """Share of right answers without votes of linked public documents; None without links."""

    @property
    def only_noise(self) -> bool:
        """Whether the numbers are too noisy to be shown."""
        return self.noisy and self.verdict == "cannot tell"

    @property
    def scores(self) -> str:
        """Return the scores in one line."""
        rivals = {SUMS: self.public_alone, REGRESSION: self.public_regression}
        baseline = "".join(
            f", {name} {score:.3f}" for name, score in rivals.items() if score is not None
        )
        without = "" if self.without_links is None else (
            f" (without links {self.without_links:.3f})")  # fmt: skip
        noisy = " (noisy counts)" if self.noisy else ""
        return (
            f"right answers {self.score:.3f}{without}; largest class ({self.majority_class}) "
            f"{self.majority:.3f}{baseline}{noisy}"
        )

    @property
    def sentence(self) -> str:
        """Return the verdict in words, with its numbers."""
        rivals = {REGRESSION: self.public_regression, SUMS: self.public_alone,
                  "the largest class": self.majority}  # fmt: skip
        rival = max((score, name) for name, score in rivals.items() if score is not None)[1]
        margin = f"{100 * self.gain:+.1f} points, standard error {100 * self.error:.1f}"
        tested = f"about {self.tested:,.0f}" if self.noisy else f"{self.tested:,.0f}"
        if self.verdict == "cannot tell":
            wide = min(100.0, 200 * self.error)
            return f"Cannot tell: {tested} labelled test units, ± {wide:.0f} points."
        words = {
            "gain": f"Private {self.of} were worth it: better than {rival}",
            "none": f"No clear gain over {rival}",
            "loss": f"Not worth it: worse than {rival}",
        }[self.verdict]
        return f"{words} ({margin}, {tested} labelled test units)."


@dataclass(frozen=True)
class Classified:
    """Result of ``classify``."""

    name: str
    method: str
    epsilon: float
    """ε that was asked for."""
    delta: float
    unit: str
    spender: str
    """Whom the account of the unit counts: ``unit``, or persons too (``accounts.spender``)."""
    units: int
    """Number of protected units."""
    spent_before: float
    spent: float
    """ε that the most used unit has spent, this release included."""
    budget: float | None
    quality: Quality | None
    statement: dict[str, Any] | None
    release: Path | None
    """Folder that may be given away; None for a dry run."""
    private: Path | None
    """Folder for the owner; None for a dry run, and where all documents are public."""
    plan: tuple[str, ...] = ()
    """Lines of a dry run."""
    groups: tuple[tuple[int, float], ...] = ()
    """Number of units of somebody who has several, and their ε."""
    sizes: tuple[ClassSize, ...] = ()
    """Noisy sizes of the classes among the units that train."""
    linked: LinkFacts | None = None
    """Links among public documents; None without one."""

    def lines(self) -> list[str]:
        """Return what the command prints."""
        if self.plan:
            return list(self.plan)
        budget = "no budget is set" if self.budget is None else f"of a budget of {self.budget:g}"
        quality, lines = self.quality, []
        if quality is not None:
            if not quality.only_noise:
                lines += [quality.scores]
                if quality.by_class and quality.macro_f1 is not None:
                    lines += [recall_words(quality.by_class, quality.macro_f1)]
            lines += [quality.sentence]
        lines += [] if self.linked is None else [f"links: {self.linked.sentence}"]
        lines += size_words(self.sizes, self.unit)
        if self.blanked is not None:
            lines += [
                f"epsilon {self.epsilon:g} where a {self.unit} is replaced, "
                f"{at_most(self.blanked)} where one is blanked (compare this one with Opacus)"
            ]
        private = f"; not to be given away: {self.private}" if self.private else ""
        return [
            *lines,
            f"spent: {at_most(self.spent)} for the most used {self.spender} ({budget}), delta "
            f"{self.delta:g}",
            f"may be given away: {self.release}{private}",
        ]

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    @property
    def blanked(self) -> float | None:
        """ε where a unit's documents are blanked, in place of replaced; None: none is proved."""
        also = self.statement["also_proved"] if self.statement else ()
        return next((row["epsilon"] for row in also if row["relation"] == "zero_out"), None)


@dataclass(frozen=True, eq=False)
class Drawn:
    """What follows from the noisy values of a release."""

    quality: Quality | None
    model: ReleasedModel | None
    """Classifier; None where classes are read off the noisy values."""
    predicted: tuple[tuple[str, str], ...] = ()
    """Without a model: ids of documents, and their classes."""
    sizes: tuple[ClassSize, ...] = ()
    linked: LinkFacts | None = None
    """What links among public documents tell; None without one."""


@dataclass(frozen=True, eq=False)
class PlannedRelease:
    """Everything about a release of texts that is decided before a private value is read."""

    spec: Declaration
    docs: Documents
    people: People
    epsilon: float
    delta: float
    protected: int
    trained: int
    training: Sums | LinearSteps
    public: PublicDocuments | None
    """None: nobody is public."""
    sums: Sums
    """Sums whose classifier of public documents alone is the release's rival."""
    count_lattice: Any | None
    unit: Unit
    spender: str
    """Whom the account of the unit counts."""
    told_numbers: bool
    """Whether what was spent before tells numbers of documents of persons."""

    @property
    def queries(self) -> tuple[tuple[GaussianQuery, ...], tuple[GaussianQuery, ...]]:
        """Return the events of training and of the counts of test units."""
        count = self.count_lattice and query_of(self.count_lattice, self.unit, COUNT_REASON)
        return self.training.queries, (count,) if count else ()

    @property
    def costs(self) -> dict[int, Cost]:
        """Return side -> cost: no unit trains and tests, and public documents are published."""
        private = {
            side: Cost(mu_of(queries), sum(query.total_variation for query in queries))
            for side, queries in zip((TRAINING, TEST), self.queries, strict=True) if queries
        }  # fmt: skip
        public = PUBLIC if len(self.docs.units_on(*PUBLIC)) else ()
        return private | dict.fromkeys(public, PUBLISHED)

    relation: ClassVar[Relation] = "replace"
    links: ClassVar = None
    """Cost for a link of a private document: none is read."""

    @property
    def publishes_links(self) -> bool:
        """Whether links among public documents enter the release, without noise."""
        return self.public is not None and self.spec.edges is not None

    @property
    def room(self) -> tuple[int, int]:
        """Return the bytes of the model and classes in ``release``, and of those in ``private``."""
        n_classes = len(self.docs.classes)
        weights = np.zeros((self.training.features.columns + 1, n_classes))
        voters = None
        if self.facts is not None and self.public is not None:
            from private_graphs.documents.neighbours import PublicNeighbours

            ids = self.public.ids
            voters = PublicNeighbours(ids, np.zeros((len(ids), n_classes)))
        model = self._model(weights, np.ones(n_classes), voters)
        return len(model.content()) + self._room(*PUBLIC), self._room(TRAINING, TEST)

    def _room(self, *sides: int) -> int:
        """Return the most bytes of predicted classes of documents."""
        ids = [self.docs.ids[row] for row in self.docs.on(*sides)]
        longest = max(self.docs.classes, key=lambda label: len(label.encode()))
        header = ["id", "class", *score_columns(self.docs.classes)]
        numbers = [0.1234] * (len(header) - 2)
        return len(table_text(header, ((name, longest, *numbers) for name in ids)).encode())

    def _model(
        self, weights: np.ndarray, sizes: np.ndarray, neighbours: PublicNeighbours | None
    ) -> ReleasedModel:
        mean = max(float(sizes.sum()), 1.0) / len(sizes)
        shares = shrunk_sizes(sizes, self.training.size_noise, mean)
        return ReleasedModel(
            self.training.features, weights, self.docs.classes, self.spec.text, self.spec.id,
            self.spec.name, shares=tuple((shares / shares.sum()).tolist()),
            epsilon=self.epsilon, neighbours=neighbours,
        )  # fmt: skip

    @property
    def unit_name(self) -> str:
        """Name of the unit in the owner's words."""
        return self.spec.unit or "document"

    def trees(self) -> list[dict[str, Any]]:
        """Return the planned mechanisms as event trees of dp-accounting."""
        return event_trees(*self.queries, (self.unit, self.relation, self.delta))

    def free_rows(self) -> dict[str, np.ndarray] | None:
        """See ``PublicDocuments.rivals``."""
        return None if self.public is None else self.public.rivals(self.sums)

    @property
    def facts(self) -> LinkFacts | None:
        """What links among public documents with a class tell; None without a link."""
        return None if self.public is None else self.public.facts

    def drawn(self, free: dict[str, np.ndarray] | None, door: Door) -> Drawn:
        """Read the private documents through the door, and return what follows from its answers."""
        docs, training = self.docs, self.training
        noisy: Any = training.released(terms_of(docs, TRAINING), door)
        known = training.public_sums(terms_of(docs, *PUBLIC))
        weights, sizes = training.read_out(noisy, known)
        facts, neighbours = None, None
        if self.public is not None:
            facts, neighbours = self.public.neighbours(
                partial(scores_of, weights, training.features)
            )
        model = self._model(weights, sizes, neighbours)
        majority = int(sizes.argmax())
        if self.count_lattice is None:
            quality = self._public_quality(noisy, majority, free, neighbours is not None)
        else:
            test = terms_of(docs, TEST)
            predicted = scores_of(weights, training.features, test.texts).argmax(axis=1)
            quality = self._noisy_quality(test, predicted, majority, door)
        door.close()
        least, error = training.least_class, training.size_noise
        return Drawn(quality, model, linked=facts, sizes=tuple(
            ClassSize(name, units, error, units >= least)
            for name, units in zip(docs.classes, sizes.tolist(), strict=True)
        ))  # fmt: skip

    def _public_quality(
        self, noisy: Any, majority: int, free: dict[str, np.ndarray] | None, neighbours: bool
    ) -> Quality | None:
        """Answer about each fold of the public documents by a classifier that reads the others."""
        training, public = self.training, self.public
        if public is None or free is None:
            return None
        from private_graphs.documents.rivals import public_quality

        def scores(taught: Terms, texts: Sequence[str]) -> np.ndarray:
            weights, _ = training.read_out(noisy, training.public_sums(taught))
            return scores_of(weights, training.features, texts)

        words, linked = public.answers(scores)
        quality = public_quality(
            self.docs.classes, public.terms, linked.argmax(axis=1), majority, free
        )
        if quality is None or not neighbours:
            return quality
        without = right_share(public.terms, words.argmax(axis=1))
        return replace(quality, without_links=without)

    def _noisy_quality(
        self, test: Terms, predicted: np.ndarray, majority: int, door: Door
    ) -> Quality:
        """Release noisy counts of private test units, and compare with the largest class."""
        lattice = self.count_lattice
        assert lattice is not None
        classes = self.docs.classes
        cells = answers_of(predicted, test.labels, test.unit_of, len(classes))
        exact = lattice.rounded(cells).sum(axis=0)
        [query] = self.queries[1]
        part = door.part(_TESTED)
        part.plan([(query,)])
        [noisy] = part.gaussian(exact[None], [query], stream="counts")
        tested = len(self.docs.units_on(TEST))
        answers = ClassAnswers.of(noisy, lattice.noise_std)
        counts = answers.counts(majority, tested)
        z = counts.gain / counts.error
        verdict: str = "gain" if z >= _CLEAR else "loss" if z <= -_CLEAR else "none"
        if counts.labelled < FEWEST or counts.error > MOST_ERROR:
            verdict = "cannot tell"
        return Quality(
            counts.score, counts.other, classes[majority], None, counts.labelled,
            counts.gain, counts.error, verdict, True, macro_f1=answers.macro_f1,
            by_class=answers.by_class(classes),
        )  # fmt: skip

    def statement(self, method: str, secret: bytes | None = None) -> PrivacyStatement:
        """Return the privacy statement of the release; ``secret`` keys the hash of its table."""
        spec, docs = self.spec, self.docs
        known, features = len(docs.on(*PUBLIC)), self.training.features
        if isinstance(features, HashedWords):
            by = "hashed words"
            read_by = "a hash that was fixed in advance; " + (
                "words outside a public list are not read" if spec.vocabulary
                else "no vocabulary is made"
            )  # fmt: skip
        elif isinstance(features, PublicWords):
            by = "words of public documents"
            read_by = f"words, weights and axes of {counted(known, 'public document')}"
        else:
            by = f"vectors of {features.name}"
            read_by = f"{by}, a model (sha256 {features.digest}) that was trained on other texts"
        return statement_of(
            spec, *self.queries, (self.unit, self.relation, self.delta, self.protected),
            self.epsilon, method, secret or fresh_bytes(),
            scenario="text",
            features=by,
            inference="params_only",
            selection=Selection(n_configs=1, data="nothing: a fixed rule of public numbers"),
            preprocessing=f"texts become rows by {read_by}" + (
                "" if self.facts is None else
                "; links among public documents say how often linked ones share a class"
            ),
            public_facts=(
                f"the ids{f' of documents and of {spec.unit}s' if spec.unit else ''}, and which of "
                "them train or test (a keyed hash of the ids decides)",
                "the number of units, the names of the classes, the budget and all settings",
                *([f"how many documents a {spec.unit or 'person'} has that are or were units of "
                   "their own, or another one's, as far as what was spent before tells it"]
                  if self.told_numbers else []),
                *(["the list of words"] if spec.vocabulary else []),
                *(["the model that reads texts"] if spec.model else []),
                *([f"{counted(known, 'document')} public by declaration, with texts and labels"]
                  if known else []),
                *([PUBLIC_LINKS] if self.publishes_links else []),
            ),
            assumptions=(
                *(["one person has one id: who has several is protected for each of them alone, "
                   "and k ids together have a larger epsilon, that of k times the noise ratio"]
                  if spec.unit else []),
                "ids, batches, sides, class names, columns and budgets were not chosen by what the "
                "documents say",
                *(["the model that reads texts was neither fitted on these documents nor chosen by "
                   "what they say"] if spec.model else []),
            ),
        )  # fmt: skip


def _warn_of_notes(line: str) -> None:
    if line.startswith("note: "):
        warn(line, stacklevel=3)


@require_types
def classify(
    name: str,
    *,
    epsilon: float,
    method: str | None = None,
    scenario: Literal["text", "edges"] = "text",
    out: str | Path | None = None,
    dry_run: bool = False,
    force: bool = False,
    contact: str = "",
    device: Literal["auto", "cpu", "cuda"] = "auto",
    data: str | Path = DATA,
    say: Callable[[str], None] = _warn_of_notes,
    command: str = "private_graphs.classify",
) -> Classified:
    """Train one classifier with a proved guarantee; say whether private data were worth it.

    One private release of the documents that ``declare`` names, within their budget. The ledger is
    written before anything is added up of private texts, labels or links; over the budget nothing
    is drawn (exit code 3 of the command). Every call is a further release: fix the settings
    beforehand. Published graphs are trained on by the command ``train``.

    word_sums: one noisy sum of words for each class, weighed as these sums allow. class_sums: one
    noisy sum of rows for each class. dp_linear: noisy gradient steps; better where each class has
    thousands of documents of few distinct words.

    Args:
        name (str): name of declared documents.
        epsilon (float): ε of this release, above 0.
        method (word_sums|class_sums|dp_linear): by default word_sums for words, class_sums for
            texts that a model reads and beside 200 public texts without a class.
        scenario (str): what is protected: documents, or the links between public ones.
        out (folder): folder for release (model, statement, one page: may be given away) and private
            (predictions of your documents: not to be given away).
        dry_run (bool): show what would be spent; use no private label, draw nothing.
        force (bool): overwrite an earlier run in ``out``, or pay again where one cannot be
            continued; what was spent stays spent.
        contact (str): whom the page of the release names.
        device (str): where a model reads texts.
        data (path): folder of raw files, as in ``declare``.
        say (callable): gets one line per step; by default notes alone are told, as warnings.
        command (str): name of the caller in messages.

    Returns:
        Classified: the verdict, what was spent, and the files.

    Example:
        >>> result = classify("letters", epsilon=2, out="january")  # doctest: +SKIP
        >>> result.quality.sentence, result.spent  # doctest: +SKIP

    What can be known to fail is tried before the ledger is charged. A release that was charged and
    interrupted is continued by the same call, with the same noise and at no further cost; every
    error after the charge has a note that says so.

    Raises:
        OverBudget: a unit's budget does not allow the release; nothing is computed or drawn.
        UserError: files that cannot be used, an earlier run in ``out``, a ledger that was lost, or
            another process that makes this release.
    """
    from private_graphs.documents import files

    data, epsilon = Path(data), float(epsilon)  # 1 and 1.0 are one release
    require_text(contact=contact)
    _check_request(method, scenario, epsilon)
    with paid(name, data) as payment:
        spec = needed(name, data)
        if device == "cuda" and spec.model is None:
            refuse_idle("no model reads these texts, and words are hashed on the CPU",
                        device=device)  # fmt: skip
        with nullcontext(Path()) if dry_run else _reserved(out) as folder:
            say(f"reading {spec.nodes.name}")
            docs = read_documents(spec)
            for change in changes_of(spec):
                say(f"note: {change}")
            method = _method_of(spec, docs, method, scenario)
            settings = dict(method=method, scenario=scenario, epsilon=epsilon)
            with BudgetLedger(data).noise(_computation(spec, docs, settings, device)) as noise:
                ledger = BudgetLedger(data, before=noise.release)
                payment.release = lambda: noise.release
                payment.epsilon, payment.folder, payment.ledger = epsilon, folder, ledger
                if out is not None and (seen := files.state_in(Path(out))) is not None:
                    ledger.check(seen, f"the release in {out}")
                if noise.lost and not (noise.release or force):
                    from private_graphs.documents.refusals import refuse_lost_key

                    refuse_lost_key(noise, name, method, epsilon, ledger.folder)
                plan = _plan_of(spec, docs, ledger, epsilon, method, scenario, device)
                release = _PaidRelease(name, method, plan, ledger, noise, plan.free_rows())
                if dry_run:
                    return release.planned()
                return release.made(folder, force, contact, say, command)


@dataclass(frozen=True, eq=False)
class _PaidRelease:
    """A planned release, with the ledger that it is charged to and the key of its noise."""

    name: str
    method: str
    plan: PlannedRelease | PlannedVotes
    ledger: BudgetLedger
    noise: NoiseKey
    free: dict[str, np.ndarray] | None
    """Answers by public data alone; None without any."""

    def accounts(self, entries: Sequence[RecordedRelease]) -> tuple[Account, Account]:
        """Return what was spent by some releases, and what is spent with this one."""
        plan = self.plan
        account = plan.people, plan.delta, plan.costs, plan.links
        before, after = (charged_account(entries, *account, asked=asked) for asked in (False, True))
        return before, after

    def result(self, **values: Any) -> Classified:
        """Return the result with what is known of every release."""
        plan = self.plan
        return Classified(
            name=self.name, method=self.method, epsilon=plan.epsilon, delta=plan.delta,
            unit=plan.unit_name, spender=plan.spender, units=plan.protected,
            budget=plan.spec.budget, **values,
        )  # fmt: skip

    def planned(self) -> Classified:
        """Return what the release would cost: nothing is drawn."""
        from private_graphs.documents.plans import lines_of

        before, after = self.accounts(BudgetLedger(self.ledger.data).entries())
        paid_before = bool(self.noise.release)
        accounts = before, before if paid_before else after
        return self.result(
            linked=self.plan.facts, spent_before=before.spent, spent=accounts[1].spent,
            quality=None, statement=None, release=None, private=None,
            plan=lines_of(self.plan, *accounts, self.free, paid_before),
        )  # fmt: skip

    def made(
        self, folder: Path, force: bool, contact: str, say: Callable[[str], None], command: str
    ) -> Classified:
        """Charge the release, draw it, and write its files; try before what may fail."""
        from private_graphs.documents import files

        plan, ledger, noise = self.plan, self.ledger, self.noise
        spec, docs = plan.spec, plan.docs
        statement = plan.statement(self.method, noise.derived("fingerprint"))
        _refuse_earlier(folder, force, statement.statement_id if noise.release else None)
        room = plan.room
        _refuse_shared(folder, ledger)
        files.refuse_folders(folder)
        result = partial(
            self.result, statement=statement.model_dump(mode="json"), release=folder / "release",
            private=folder / "private" if room[1:] else None,
            groups=files.group_prices([plan.links] if plan.links else [
                cost for cost in plan.costs.values() if math.isfinite(cost.mu)], plan.delta),
        )  # fmt: skip
        files.page(result(spent_before=0.0, spent=plan.epsilon, quality=None, linked=plan.facts),
             statement, spec, docs, contact, "date")  # fmt: skip
        if isinstance(plan, PlannedRelease) and spec.model:
            model: Any = plan.training.features
            say(f"reading the documents by {model.name}")  # one that it fails at costs nothing yet
            model.read([docs.texts[row] for row in np.flatnonzero(docs.kept)])
        with rehearsed(folder, room):
            _charge(ledger, plan, noise, say, command=command, graph=self.name, method=self.method)
            say(f"adding up the private {'links' if plan.links else 'documents'} under noise")
            drawn = _draw(plan, self.free, ledger, noise, self.name)
            entries = BudgetLedger(ledger.data).entries()
            index = [entry.release for entry in entries].index(noise.release)
            before, after = self.accounts(entries[:index])
            answer = result(
                spent_before=before.spent, spent=after.spent, quality=drawn.quality,
                sizes=drawn.sizes, linked=drawn.linked,
            )  # fmt: skip
            files.write_run(answer, statement, drawn, docs, spec, contact, entries[index],
                            ledger.folder)  # fmt: skip
            ledger.finish(noise.release, statement=statement.statement_id)
        return answer


def _check_request(method: str | None, scenario: str, epsilon: float) -> None:
    """Raise UsageError for a method or an ε that no release of the scenario has."""
    methods = [*METHODS] if scenario == "text" else [LINK_METHOD]
    if method is not None and method not in methods:
        from private_graphs.documents.refusals import other_method

        raise other_method(method, methods)
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise UsageError(f"--epsilon is {epsilon:g}; expected a number above 0")


def _plan_of(
    spec: Declaration, docs: Documents, ledger: BudgetLedger, epsilon: float, method: str,
    scenario: str, device: str,
) -> PlannedRelease | PlannedVotes:  # fmt: skip
    """Return the plan of a release of texts or of links, which are loaded where they are asked."""
    if scenario == "text":
        return planned_release(spec, docs, ledger, epsilon, method, device)
    from private_graphs.documents.links import PlannedVotes

    return PlannedVotes.of(spec, docs, ledger, epsilon)


def _draw(
    plan: PlannedRelease | PlannedVotes, free: dict[str, np.ndarray] | None, ledger: BudgetLedger,
    noise: NoiseKey, name: str,
) -> Drawn:  # fmt: skip
    """Draw what the ledger was charged for, and mark its answers there."""
    answers = AnswerDigest()
    door = Door.of([noise.streams(name)], answers)
    drawn = plan.drawn(free, door)
    if tuple(door.part(part).events()[0] for part in ("", _TESTED)) != plan.queries:
        raise ReleaseMismatch("other events were drawn than the ledger was charged for")
    ledger.draw(noise.release, answers.mark(noise))
    return drawn


def _charge(
    ledger: BudgetLedger, plan: PlannedRelease | PlannedVotes, noise: NoiseKey,
    say: Callable[[str], None], **words: str,
) -> None:  # fmt: skip
    """Charge a release to the ledger, unless it is charged already and continued."""
    if noise.release:
        say(f"{PAID}; it tells what was spent then ('private-graphs ledger' tells it of today)")
        return
    if noise.others:
        say(f"note: {counted(noise.others, 'release')} in the ledger could be continued by the "
            "same command, table, declaration and version as before; this is another one, and is "
            "charged")  # fmt: skip
    entries = ledger.entries()  # who has lost ledger and declarations is told at least this
    known = (f"{counted(len(entries), 'release')}, the newest of {entries[-1].date[:10]}"
             if entries else "no earlier release: this is the first one")  # fmt: skip
    say(f"the ledger in {ledger.folder} knows {known}")
    promised = smallest_budget(earlier_releases(plan.spec, plan.docs, plan.people, entries))
    if promised < (plan.spec.budget or math.inf):
        from private_graphs.documents.refusals import raised_budget

        say(f"note: {raised_budget(promised, plan.spec.budget)}")

    def check(entries: list[RecordedRelease]) -> None:
        require_current(plan.spec, ledger.data)  # its budget may be smaller by now
        earlier = earlier_releases(plan.spec, plan.docs, plan.people, entries)
        if isinstance(plan, PlannedRelease) and _account_facts(plan.spec, earlier) != (
            plan.spender,
            plan.told_numbers,
        ):
            # what was spent would be a number of documents, and the statement does not say so
            raise UsageError(f"{plan.spec.name}: another release of these ids was charged "
                             "meanwhile; nothing was spent: run the command again")  # fmt: skip

    ledger.start(
        plan.people, plan.costs, plan.spec.budget, plan.epsilon, links=plan.links, noise=noise,
        check=check, delta=plan.delta, unit=plan.unit_name, relation=plan.relation,
        publishes_links=plan.publishes_links,
        mechanisms=plan.trees(), **words,
    )  # fmt: skip


def _method_of(spec: Declaration, docs: Documents, method: str | None, scenario: str) -> str:
    """Return the method that is asked for, by default the first that fits; UsageError otherwise."""
    if scenario != "text":
        return LINK_METHOD
    fitting = methods_of(spec, docs)
    if method is not None and method not in fitting:
        from private_graphs.documents.refusals import unfit_method

        raise unfit_method(method, fitting, FEWEST_TEXTS)
    return method or fitting[0]


def training_of(method: str) -> type[Sums] | type[LinearSteps]:
    """Return how a method of ``METHODS`` trains; what is not the default is loaded when asked."""
    if method == "dp_linear":
        from private_graphs.documents.unit_steps import LinearSteps

        return LinearSteps
    if method == "class_sums":
        from private_graphs.documents.unit_means import ClassSums

        return ClassSums
    return WordSums


def methods_of(spec: Declaration, docs: Documents) -> tuple[str, str]:
    """Return the methods for the texts of a declaration, the default first.

    Public facts alone decide: whether a model reads the texts, and how many public texts have no
    class (docs/notes.md, "Word sums", has the scores).
    """
    unlabelled = int((docs.labels[docs.on(*PUBLIC)] < 0).sum())
    return "class_sums" if spec.model or unlabelled >= FEWEST_TEXTS else "word_sums", "dp_linear"


def _computation(
    spec: Declaration, docs: Documents, settings: dict[str, Any], device: str
) -> bytes:
    """Return the digest of all that a release depends on: of files the content, not the place."""
    if on_device := spec.model and not spec.model.endswith((".bin", ".gz")):  # no word vectors
        from private_graphs.core.devices import resolve_device

        device = resolve_device(device)
    # of documents all that is read stands in ``docs``
    files = (spec.edges, MOST_TABLE_BYTES), (spec.vocabulary, MOST_NAME_BYTES)
    paths = {"nodes", "edges", "vocabulary", "public_files", "model"}
    settings = settings | {
        "declaration": spec.model_dump(mode="json", exclude={"ledger", *paths}),
        "device": device if on_device else None,
        "files": [docs.sha256, *(path and _digest(path, most) for path, most in files)],
    }
    return computation_of(
        settings, docs.ids, docs.units, docs.unit_of, docs.sides, docs.texts, docs.labels,
        docs.kept, list(docs.classes),
    )  # fmt: skip


def _digest(path: Path, most: int) -> str:
    if not os.path.isfile(path) or path.stat().st_size > most:
        read_bounded(path, most)  # raises, and says what the file is
    return sha256_of(path)


def _refuse_earlier(folder: Path, force: bool, continued: str | None) -> None:
    """Raise UsageError for files of an earlier run, unless they are those of ``continued``.

    A run that was interrupted leaves files without a manifest, or is whole but for the ledger.
    """
    manifest = folder / "release" / MANIFEST
    if continued is not None and not manifest.exists():
        force = True
    elif continued is not None:
        with suppress(ValueError, TypeError, KeyError):
            force = force or parsed_json(read_bounded(manifest))["statement_ids"] == [continued]
    for part in ("release", "private"):
        written = [name for name in names_in(folder / part) if name[0] != "."]
        if written and not force:  # hidden files are of killed processes
            what = "a whole release, which is paid for, of" if manifest.exists() else "files of"
            raise UsageError(
                f"{folder / part}: has {what} an earlier run; choose another --out, or overwrite "
                "them with --force (what that run has spent stays spent)"
            )


def _refuse_shared(folder: Path, ledger: BudgetLedger) -> None:
    """Raise UsageError where links or ``--out`` put files into a folder that has another purpose.

    What may be given away would lie beside what may not, or stop the ledger.
    """
    release, private = ((folder / part).resolve() for part in ("release", "private"))
    if release == private or release in private.parents or private in release.parents:
        raise UsageError(
            f"{folder}: its folders release and private are one through a link, and what lies in "
            "private must not be given away; remove the link"
        )
    ledger.refuse(folder / "release", folder / "private")


@contextmanager
def _reserved(out: str | Path | None) -> Iterator[Path]:
    """Hold the folder for the files: no two releases that are paid for are written into one.

    Raises:
        UsageError: another process writes there.
    """
    if out is None:
        raise UsageError("give --out DIR: a release that is paid for should be kept")
    out = Path(out)
    make_writable(out)
    held = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    same_folder = False
    try:
        with suppress(BlockingIOError), naming(out):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # another process may have removed the folder, or made it anew, since it was opened
            same_folder = out.exists() and os.path.samestat(os.stat(out), os.fstat(held))
        if not same_folder:
            raise UsageError(f"{out}: another process writes a release there; choose another --out")
        yield out
    finally:
        with suppress(OSError):  # not empty: something was written
            if same_folder:  # an empty folder of another process is one that it holds
                out.rmdir()
        with naming(out):
            os.close(held)


def planned_release(
    spec: Declaration, docs: Documents, ledger: BudgetLedger, epsilon: float, method: str,
    device: str = "auto",
) -> PlannedRelease:  # fmt: skip
    """Decide everything about a release, without reading a label."""
    from private_graphs.privacy.calibration import refuse_large_delta

    people = people_of(spec, docs, ledger)
    # refuses documents that are public now
    whom, tells = _account_facts(spec, earlier_releases(spec, docs, people, ledger.entries()))
    trained, protected = len(docs.units_on(TRAINING)), len(docs.units_on(TRAINING, TEST))
    if not protected:
        raise UserError(
            f"{spec.name}: every document is public; what is protected are the links: add "
            "--scenario edges"
        )
    if not trained:
        raise UserError(
            f"{spec.name}: {counted(protected, spec.unit or 'document')}, of whom none trains "
            "(some only test, by their ids); expected many more"
        )
    delta, n_classes = delta_of(spec, protected), len(docs.classes)
    refuse_large_delta(delta, protected)
    unit: Unit = "document" if spec.unit is None else "person"
    words = listed_words(spec.vocabulary, spec.encoding) if spec.vocabulary else ()
    model = None
    if spec.model:
        from private_graphs.documents.vectors import ModelVectors

        model = ModelVectors.find(spec.model, ledger.data, spec.model_sha256, device)
    public = PublicTexts([docs.texts[row] for row in docs.on(*PUBLIC)], words, model)
    arguments = public, trained, n_classes, epsilon, delta, unit
    training = training_of(method).of(*arguments)
    if model is not None:
        at_once = max(training.TEXTS_AT_ONCE, len(public.known))
        model.require_memory(docs.texts, at_once, training.COPIES)
    sums = training
    if not isinstance(sums, Sums):  # the classifier of public documents alone is one of sums
        default: Any = training_of(methods_of(spec, docs)[0])
        sums = default.of(*arguments)
    training.check_total(protected)
    tested = len(docs.units_on(TEST))
    return PlannedRelease(
        spec=spec, docs=docs, people=people, epsilon=epsilon, delta=delta,
        protected=protected, trained=trained, training=training, sums=sums, unit=unit,
        public=public_documents(spec, docs),
        count_lattice=calibrated_answers(epsilon, delta, n_classes) if tested else None,
        spender=whom, told_numbers=tells,
    )  # fmt: skip


def _account_facts(spec: Declaration, earlier: Sequence[RecordedRelease]) -> tuple[str, bool]:
    """Return whom the account counts, and whether what was spent tells numbers of documents."""
    tells = any(spec.unit or entry.by_person for entry in earlier)
    return spender(spec.unit or "document", earlier), tells


def public_documents(spec: Declaration, docs: Documents) -> PublicDocuments | None:
    """Return the public documents and the links among them; None where nobody is public."""
    if not len(docs.units_on(*PUBLIC)):
        return None
    from private_graphs.documents.link_tables import read_links
    from private_graphs.documents.rivals import PublicDocuments

    return PublicDocuments.of(docs, read_links(spec, docs.ids)[0])


def terms_of(docs: Documents, *sides: int) -> Terms:
    """Return the units on some sides, as they are summed."""
    rows = docs.on(*sides)
    return Terms([docs.texts[row] for row in rows], docs.labels[rows], docs.unit_of[rows])


# --- parts that releases of texts and of links share ---


def right_share(test: Terms, predicted: np.ndarray) -> float:
    """Return the share of right answers on public units; NaN without a labelled one."""
    cells = cells_of(predicted, predicted, test.labels, test.unit_of)
    return float(cells[:, 0].mean()) if len(cells) else math.nan


def event_trees(
    events: Sequence[Event], apart: Sequence[Event], claim: tuple[Unit, Relation, float]
) -> list[dict[str, Any]]:
    """Return planned mechanisms as event trees of dp-accounting."""
    from private_graphs.privacy.dp_events import dp_events

    return [tree.model_dump(mode="json") for tree in dp_events(events, apart, claim, True)]


def statement_of(
    spec: Declaration, events: Sequence[Event], apart: Sequence[Event],
    claim: tuple[Unit, Relation, float, int], epsilon: float, method: str, secret: bytes, *,
    scenario: str, features: str, **fields: Any,
) -> PrivacyStatement:  # fmt: skip
    """Return the statement of one release of declared documents; no hash of its data is kept."""
    from private_graphs.privacy.prices import SearchRuns, price_file

    unit, relation, delta, n_units = claim
    return build_statement(
        events=tuple(events), apart=tuple(apart), unit=unit, relation=relation, delta=delta,
        n_units=n_units, epsilon_published=None, published_formula=None,
        n_runs_released=1, private=True, one_run=True, epsilon_target=epsilon,
        about=About(
            study=DECLARED, dataset=spec.name, features=features, method=method,
            scenario=scenario, protocol="sound",
            data_fingerprint=published_fingerprint(sha256_of(spec.nodes), secret),
        ),
        file=price_file(claim, (SearchRuns(tuple(events), 1, tuple(apart)),), 0),
        noise_source="os_entropy", noise_generator="discrete_gaussian", **fields,
    )  # fmt: skip
