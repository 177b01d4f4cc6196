"""Canaries of the proved methods: a tiny task in which one unit decides one prediction.

The attack is a black box: it calls the ``run`` of the method that produces every result, and
guesses from the predicted class of one test node, class 1 against class 0, by a rule fixed before
any run. The two neighbours differ in one unit, so that all releases differ by as much as the
method's sensitivity allows: the label of a training node with its own word (replace), or the only
edge of the test node (add_remove). docs/methods.md, "Audits".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from private_graphs.core.streams import Streams
from private_graphs.mechanisms.door import Door
from private_graphs.methods import method_named
from private_graphs.privacy.audits import Errors
from private_graphs.privacy.events import Event, NoisyGradients
from private_graphs.privacy.queries import GaussianQuery
from private_graphs.tasks.graph_task import GraphTask
from private_graphs.tasks.method import ALONE, Context, Outcome, Progress, Request
from private_graphs.tasks.tasks import SCENARIOS, ScenarioName

_PUBLIC_COPIES = 16
"""Number of public texts with the canary's word in either sign, per text of every other word."""
_TARGET = 0
"""The test node whose prediction is read."""
_VOTERS = 20
"""Number of training nodes of each class at edge level; a multiple of the text model's folds."""
_FOLDS = 5


@dataclass(frozen=True)
class MethodDesign:
    """Design of an audit of a proved method."""

    method: str
    scenario: ScenarioName
    epsilon: float
    runs: int = 1000
    """Number of runs per neighbour."""
    seed: int = 0
    delta: float = 1e-5
    classes: int = 2

    @property
    def title(self) -> str:
        """Name in messages."""
        classes = f", {self.classes} classes" if self.classes > 2 else ""
        return f"{self.method}, scenario {self.scenario}{classes}"

    @property
    def unit(self) -> str:
        """The protected unit."""
        return SCENARIOS[self.scenario].unit

    @property
    def relation(self) -> str:
        """The neighbouring relation."""
        return SCENARIOS[self.scenario].relation

    def facts(self) -> dict[str, Any]:
        """Return the description of the design for an audit's document."""
        edge = self.scenario == "edges"
        canary = "edge of a test node, there or not" if edge else "node with its label flipped"
        return {
            "protocol": "sound",
            "method": self.method,
            "setting": self.scenario,
            "n_classes": self.classes,
            "n_splits": 1,
            "visits": "full_graph",
            "design": f"canary {canary}, many runs",
            "unit": self.unit,
            "relation": self.relation,
        }


def canary_task(design: MethodDesign, arm: int) -> GraphTask:
    """Return the neighbour of ``arm``, 0 or 1: the canary's label, or whether its edge is there."""
    if design.scenario == "edges":
        return _edge_task(design, bool(arm))
    shape = method_named(design.method).canary
    eye = sp.identity(shape.words, format="csr")
    rest = [eye[1:], -eye[1:]]
    public = sp.vstack([sp.vstack([eye[:1], -eye[:1]])] * _PUBLIC_COPIES * (shape.words - 1) + rest)
    validation, test = sp.csr_matrix(public), sp.csr_matrix(sp.vstack([eye[:1], -eye[:1]]))
    # A neutral node of each class: they add the same to the scores of all classes.
    training = sp.csr_matrix(sp.vstack([eye[:1], *[eye[1:2]] * design.classes]))
    n = training.shape[0]
    n_public = validation.shape[0] + test.shape[0]
    graph = design.scenario == "graph"
    return GraphTask(
        scenario=SCENARIOS[design.scenario],
        n_units=max(n, shape.units),
        n_classes=design.classes,
        delta=design.delta,
        train_features=training,
        train_labels=np.array([arm, *range(design.classes)]),
        validation_features=validation,
        # neither word has a class
        validation_labels=np.arange(validation.shape[0]) // 2 % design.classes,
        test_features=test,
        public_adjacency=sp.csr_matrix((n_public, n_public)) if graph else None,
        train_to_public=sp.csr_matrix((n, n_public)) if graph else None,
        train_adjacency=sp.csr_matrix((n, n)) if graph else None,
    )


def _edge_task(design: MethodDesign, present: bool) -> GraphTask:
    voters = _VOTERS * design.classes
    labels = np.arange(voters) // _FOLDS % design.classes  # equal class counts in every fold
    n = voters + 2  # one validation and one test node
    adjacency = np.zeros((n, n))
    adjacency[:voters, :voters] = labels[:, None] == labels
    np.fill_diagonal(adjacency, 0)
    voter = int((labels == 1).argmax())
    adjacency[voter, -1] = adjacency[-1, voter] = present
    return GraphTask(
        scenario=SCENARIOS["edges"],
        n_units=voters * (_VOTERS - 1) // 2 + present,
        n_classes=design.classes,
        delta=design.delta,
        train_features=sp.csr_matrix((voters, 1)),
        train_labels=labels,
        validation_features=sp.csr_matrix((1, 1)),
        validation_labels=np.zeros(1, dtype=np.int64),
        test_features=sp.csr_matrix((1, 1)),
        adjacency=sp.csr_matrix(adjacency),
    )


def outcomes(
    design: MethodDesign, arm: int, context: Context = ALONE
) -> tuple[list[Outcome], list[tuple[Event, ...]]]:
    """Run the method ``design.runs`` times on one neighbour; also return each run's releases."""
    task = canary_task(design, arm)
    identity = {
        "audit": design.method, "setting": design.scenario, "epsilon": f"{design.epsilon:g}",
        "delta": design.delta, "arm": arm, "seed": design.seed,
    }  # fmt: skip
    if design.classes > 2:
        identity["classes"] = design.classes
    # Labels that a method fits would add the same to both arms: post-processing.
    fits = method_named(design.method).fits_validation_labels
    known = np.arange(0 if fits else len(task.validation_labels))
    streams = [Streams.of(identity | {"replica": replica}) for replica in range(design.runs)]
    requests = [Request(design.epsilon, design.seed, known, stream.public) for stream in streams]
    door = Door.of(streams)
    runs = method_named(design.method).run(task, requests, door, context)
    door.close()
    return runs, door.events()


def guesses(runs: Sequence[Outcome]) -> np.ndarray:
    """Return (runs,) bool: whether the attack guesses arm 1."""
    return np.array([run.test_predictions[_TARGET] == 1 for run in runs])


def method_errors(
    design: MethodDesign, progress: Progress | None = None
) -> tuple[Errors, NoisyGradients | GaussianQuery]:
    """Run both arms and count how often the prediction gives the wrong neighbour.

    Also returns a run's release: the event that the door counted.
    """
    wrong, events, context = [], set(), Context(progress)
    for arm in (0, 1):
        runs, released = outcomes(design, arm, context.after(arm * design.runs, 2 * design.runs))
        wrong.append(int(np.sum(guesses(runs) != bool(arm))))
        events.update(event for sequence in released for event in sequence)
    [event] = events
    return Errors(wrong[0], design.runs, wrong[1], design.runs), event


def noise_of(event: NoisyGradients | GaussianQuery) -> tuple[float, int]:
    """Return the noise of a release (in sensitivities or clip norms), and their number."""
    if isinstance(event, NoisyGradients):
        return event.noise_multiplier, event.releases
    return event.noise_std / event.sensitivity, event.count
