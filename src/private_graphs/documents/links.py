"""Classification of public documents by their links, which are private (scenario ``edges``).

Texts and labels are public by declaration; who is linked to whom is protected, each link by itself.
Noisy votes of linked documents (``methods.edge_votes``) give classes to documents without one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

from private_graphs.core.entropy import fresh_bytes
from private_graphs.core.errors import UsageError, counted
from private_graphs.core.spreadsheets import table_text
from private_graphs.core.streams import Streams
from private_graphs.documents import release
from private_graphs.documents.accounts import PUBLISHED, Cost, People
from private_graphs.documents.answers import SUMS
from private_graphs.documents.declaration import LINK, Declaration, delta_of
from private_graphs.documents.earlier import earlier_releases, people_of
from private_graphs.documents.hashing import PublicWords
from private_graphs.documents.ledger import BudgetLedger
from private_graphs.documents.link_tables import read_links
from private_graphs.documents.rivals import public_quality
from private_graphs.documents.tables import KNOWN, PUBLIC, TEST, TRAINING, Documents
from private_graphs.documents.unit_sums import Terms, mu_of
from private_graphs.mechanisms.door import Door
from private_graphs.methods import method_named
from private_graphs.methods.edge_votes import draw_voters
from private_graphs.methods.text_only import text_model
from private_graphs.privacy.queries import GaussianQuery
from private_graphs.privacy.statements import PrivacyStatement, Selection
from private_graphs.tasks.graph_task import GraphTask
from private_graphs.tasks.method import ALONE, Request
from private_graphs.tasks.tasks import SCENARIOS

_SCENARIO = SCENARIOS["edges"]


@dataclass(frozen=True, eq=False)
class PlannedVotes:
    """Everything about a release of links that is decided before one is read."""

    unit_name: ClassVar = LINK
    spender: ClassVar = LINK
    relation: ClassVar = _SCENARIO.relation
    spec: Declaration
    docs: Documents
    people: People
    epsilon: float
    delta: float
    protected: int
    """Public bound on the links."""
    task: GraphTask
    order: np.ndarray
    """(N,) documents in the order of the task: those that train, then those that are asked."""
    events: tuple[GaussianQuery, ...]

    @classmethod
    def of(
        cls, spec: Declaration, docs: Documents, ledger: BudgetLedger, epsilon: float
    ) -> PlannedVotes:
        """Decide everything about a release.

        Raises:
            UsageError: private documents, no links, or no bound on their number.
        """
        from private_graphs.privacy.calibration import refuse_large_delta

        private = len(docs.units_on(TRAINING, TEST))  # also one without a text that is read
        if private:
            raise UsageError(
                f"--scenario edges publishes functions of texts and labels without noise, and "
                f"{spec.name!r} has {counted(private, 'private ' + (spec.unit or 'document'))}: "
                "nothing would be left of what protects them. Leave it out, or declare all "
                "documents public"
            )
        if spec.edges is None or spec.max_edges is None:
            raise UsageError(
                f"--scenario edges protects the links of {spec.name!r}, which has "
                f"{'none' if spec.edges is None else 'no bound on their number'}: declare it with "
                "--edges FILE and --max-edges N, a bound that is known without looking at them"
            )
        people = people_of(spec, docs, ledger)
        earlier_releases(spec, docs, people, ledger.entries())
        delta = delta_of(spec, spec.max_edges)
        refuse_large_delta(delta, spec.max_edges)
        order, task = _task(spec, docs, delta)
        request = _request(spec, epsilon, Streams.of({"public": spec.name}))
        voters = draw_voters(task, request.streams.generator("voters"))
        counts = {"asked_training_nodes": int(voters.asked[: task.n_train].sum())}
        facts = method_named(release.LINK_METHOD).stated(task, request, ALONE, counts)
        return cls(spec, docs, people, epsilon, delta, spec.max_edges, task, order, facts["events"])

    @property
    def queries(self) -> tuple[tuple[GaussianQuery, ...], tuple[GaussianQuery, ...]]:
        """Return the events of the votes, and none of test units."""
        return self.events, ()

    @property
    def costs(self) -> dict[int, Cost]:
        """Return side -> cost in the account of documents: they are published."""
        return dict.fromkeys(PUBLIC, PUBLISHED)

    publishes_links: ClassVar = False

    @property
    def links(self) -> Cost:
        """Cost for a link."""
        return Cost(mu_of(self.events), sum(event.total_variation for event in self.events))

    def trees(self) -> list[dict[str, Any]]:
        """Return the planned mechanisms as event trees of dp-accounting."""
        return release.event_trees(*self.queries, (_SCENARIO.unit, self.relation, self.delta))

    @property
    def asked(self) -> Terms:
        """Public test documents and all others without a class, as units."""
        rows = self.order[self.task.n_train :]
        return Terms([], self.docs.labels[rows], self.docs.unit_of[rows])

    facts: ClassVar = None
    """No link among the documents is public."""

    def free_rows(self) -> dict[str, np.ndarray]:
        """Return the classes of the asked documents by texts alone."""
        classes = text_model(self.task).probabilities.argmax(axis=1)
        return {SUMS: classes[self.task.n_train :]}

    def drawn(self, free: dict[str, np.ndarray] | None, door: Door) -> release.Drawn:
        """Read the links through the door, and return what follows from its answers."""
        request = _request(self.spec, self.epsilon, Streams.of({"public": self.spec.name}))
        [outcome] = method_named(release.LINK_METHOD).run(self.task, [request], door, ALONE)
        door.close()
        majority = int(np.bincount(self.task.train_labels).argmax())
        predicted, classes = outcome.test_predictions, self.docs.classes
        rows = self.order[self.task.n_train :]
        quality = public_quality(classes, self.asked, predicted, majority, free)
        return release.Drawn(
            quality and replace(quality, of="links"),
            None,
            tuple((self.docs.ids[row], classes[code])
                  for row, code in zip(rows, predicted, strict=True)),
        )  # fmt: skip

    @property
    def room(self) -> tuple[int]:
        """Return the bytes of the classes in ``release``."""
        ids = [self.docs.ids[row] for row in self.order[self.task.n_train :]]
        longest = max(self.docs.classes, key=lambda label: len(label.encode()))
        return (len(table_text(["id", "class"], ((name, longest) for name in ids)).encode()),)

    def statement(self, method: str, secret: bytes | None = None) -> PrivacyStatement:
        """Return the privacy statement of the release; ``secret`` keys the hash of its table."""
        return release.statement_of(
            self.spec, *self.queries,
            (_SCENARIO.unit, self.relation, self.delta, self.protected), self.epsilon, method,
            secret or fresh_bytes(),
            scenario=_SCENARIO.name,
            features="words of public documents",
            inference=_SCENARIO.inference,
            selection=Selection(
                n_configs=text_model(self.task).n_configurations, data="public labels"
            ),
            preprocessing="texts become rows by words and weights of these documents",
            public_facts=(
                f"{counted(len(self.order), 'document')} with ids, texts and labels",
                "the names of the classes, the budget and all settings",
                "a bound on the number of links, declared without looking at them",
            ),
            assumptions=(
                "ids, batches, class names, columns and budgets were not chosen by who is linked "
                "to whom",
            ),
        )  # fmt: skip


def _request(spec: Declaration, epsilon: float, streams: Streams) -> Request:
    return Request(epsilon, 0, np.zeros(0, np.int64), streams.public)


def _task(spec: Declaration, docs: Documents, delta: float) -> tuple[np.ndarray, GraphTask]:
    """Return the order of documents, and the task: those with a class that do not test train."""
    rows = docs.on(*PUBLIC)
    trains = (docs.labels[rows] >= 0) & (docs.sides[docs.unit_of[rows]] == KNOWN)
    order = np.concatenate([rows[trains], rows[~trains]])
    n, size = int(trains.sum()), len(order)
    if not n:
        raise UsageError(
            f"{spec.nodes}: no public document with a class trains; expected some of each class"
        )
    texts = [docs.texts[row] for row in order]
    features = PublicWords.counted(texts).weighted(texts)
    edges, _ = read_links(spec, docs.ids)
    positions = np.full(len(docs.ids), -1)
    positions[order] = np.arange(size)
    first, second = positions[edges[:, (positions[edges] >= 0).all(axis=0)]]
    ends = np.r_[first, second], np.r_[second, first]
    none = scipy.sparse.csr_matrix((0, features.shape[1]))
    return order, GraphTask(
        scenario=_SCENARIO, n_units=spec.max_edges or 0, n_classes=len(docs.classes), delta=delta,
        train_features=features[:n], train_labels=docs.labels[order[:n]],
        validation_features=none, validation_labels=np.zeros(0, np.int64),
        test_features=features[n:],
        adjacency=scipy.sparse.csr_matrix((np.ones(len(ends[0])), ends), (size, size)),
    )  # fmt: skip
