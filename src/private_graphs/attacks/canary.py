"""Canaries: nodes whose presence or label affects training as much as clipping allows.

**Many runs**: the attack guesses the label of one isolated node with a huge feature from the sign
of the parameters' displacement. **One run** (Steinke, Nasr & Jagielski 2023): it guesses which of
many such nodes took part. Bounds: docs/privacy.md §10; findings: docs/audits.md.

All training uses ``training.engine``: the attacked code is the code that produces all results of
this project.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from private_graphs.core.models import fields_of
from private_graphs.core.streams import Streams
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.mechanisms.door import Door
from private_graphs.methods import gcn_protocols
from private_graphs.privacy.audits import Errors
from private_graphs.tasks.method import Context
from private_graphs.training import engine
from private_graphs.training.blocks import Structure, build_structure
from private_graphs.training.engine import EngineSettings, Progress, ReplicaSpec

CLASSES = 2
THRESHOLD = 0.0
"""Displacement above which the guessed label is 1; fixed before any run."""
ONE_RUN_CANARIES = 200
ONE_RUN_GUESSES = 100
"""Number of guesses, half for inclusion and half against; the attack abstains on other canaries."""
RING = 20
"""Number of ordinary training nodes, joined in a ring."""
_WORDS = 4
"""Number of features of the ordinary nodes."""
_SMALL = 0.01
"""Largest feature value of ordinary nodes, whose gradients are negligible next to a canary's."""
_LEARNING_RATE = 1e-12
"""Learning rate that keeps every step at the start; parameters that start at zero represent such
numbers exactly."""


@dataclass(frozen=True)
class Design:
    """Design of an audit: training, number of runs, and strength of the canary."""

    protocol: str
    epsilon: float
    splits: int = 1
    visits: str = "protocol"
    runs: int = 1000
    """Number of runs per label of the canary."""
    seed: int = 0
    epochs: int = 100
    """Number of epochs of plain SGD; one step each on the full graph."""
    delta: float = 1e-5
    clip_norm: float = 1.0
    feature: float = 1e4
    """Value of the canary's own feature; the other nodes have features below .01."""
    device: str = "cpu"

    @property
    def settings(self) -> gcn_protocols.GcnSettings:
        """Settings of the attacked runs; noise and claim follow from them."""
        return gcn_protocols.GcnSettings(
            optimizer="sgd", splits=self.splits, visits=self.visits, epochs=self.epochs,
            clip_norm=self.clip_norm, dropout=0.0,
        )  # fmt: skip

    @property
    def rules(self) -> gcn_protocols.GcnProtocol:
        """The protocol with the visits of the design."""
        return gcn_protocols.protocol_of(self.settings, gcn_protocols.PROTOCOLS[self.protocol])

    @property
    def title(self) -> str:
        """Name in messages."""
        return f"{self.protocol} with {self.splits} splits"

    @property
    def unit(self) -> str:
        """The protected unit."""
        return gcn_protocols.UNIT

    @property
    def relation(self) -> str:
        """The neighbouring relation."""
        return gcn_protocols.RELATION

    def facts(self) -> dict[str, Any]:
        """Return the description of the design for an audit's document."""
        visits = self.rules.visits
        return {
            "protocol": self.protocol,
            "method": "gcn",
            "setting": None,
            "n_splits": self.splits,
            "visits": "full_graph" if self.splits == 1 else visits,
            "design": "canary node with its label flipped, many runs",
            "unit": self.unit,
            "relation": self.relation,
        }


# --- graphs ----------------------------------------------------------------------------------


def canary_graph(features: Sequence[float], labels: Sequence[int]) -> GraphDataset:
    """Return the ring of ordinary nodes, followed by isolated canaries.

    ``features`` (m,) is the value of each canary in its own dimension and ``labels`` (m,) its
    class; -1 excludes a canary from all masks. Node ``RING + i`` is canary i.
    """
    m, generator = len(features), np.random.default_rng(0)
    n = RING + m + 2 * CLASSES  # validation and test nodes: one of each class
    matrix = np.zeros((n, _WORDS + m), dtype=np.float32)
    matrix[:, :_WORDS] = _SMALL * generator.random((n, _WORDS))
    canaries = RING + np.arange(m)
    matrix[canaries] = 0
    matrix[canaries, _WORDS + np.arange(m)] = features
    members = np.asarray(labels) >= 0
    classes = np.arange(n) % CLASSES
    classes[canaries] = np.maximum(labels, 0)
    train = np.arange(n) < RING
    train[canaries] = members
    ring = np.arange(RING)
    ends = np.sort(np.stack([ring, (ring + 1) % RING]), axis=0)
    tested = np.arange(n) >= n - CLASSES
    masks = train, (np.arange(n) >= n - 2 * CLASSES) & ~tested, tested
    return GraphDataset.generated("canary", ["0", "1"], sp.csr_matrix(matrix), ends, classes, masks)


def _structure(design: Design, dataset: GraphDataset, streams: Sequence[Streams]) -> Structure:
    settings = design.settings
    return build_structure(
        dataset, design.rules, splits=design.splits, train_fraction=1.0,
        validation_graph=design.rules.private_selection_graph,
        streams=[stream.public for stream in streams], hidden=settings.hidden,
        dtype=np.dtype(settings.dtype),
    )  # fmt: skip


def displacements(
    design: Design,
    dataset: GraphDataset,
    streams: Sequence[Streams],
    starts: np.ndarray,
    noise: float,
    threads: int = 1,
    progress: Progress | None = None,
) -> np.ndarray:
    """Train replicas that start at ``starts`` (R, P) in one batch; return (θ0 - θT)/lr (R, P).

    ``noise`` is the multiplier. An attacker who knows the start can compute this from the
    parameters.
    """
    given = design.settings
    settings = EngineSettings(
        optimizer="sgd", private=True, device=design.device,
        **fields_of(given, "epochs", "clip_norm", "hidden", "dropout", "dtype"),
    )  # fmt: skip
    specs = [
        ReplicaSpec(stream.public, _LEARNING_RATE, start)
        for stream, start in zip(streams, starts, strict=True)
    ]
    structure = _structure(design, dataset, streams)
    event = gcn_protocols.training_event(given, design.rules, noise) if noise else None
    door = Door.of(streams)
    door.plan([(event,) if event else ()] * len(streams))
    descent = door.descent([event] * len(streams), coins="order")
    trained = engine.train(
        structure, design.rules, settings, specs, descent, threads=threads, progress=progress
    )
    door.close()
    return (starts - trained.parameters.astype(np.float64)) / _LEARNING_RATE


def _streams(design: Design, purpose: str, noise: float, number: int) -> list[Streams]:
    identity = {
        "audit": purpose,
        **fields_of(design, "protocol", "epsilon", "delta"),
        "settings": design.settings.model_dump(mode="json", exclude={"partition"}),
        "noise": noise,
        "seed": design.seed,
    }
    return [Streams.of(identity | {"replica": replica}) for replica in range(number)]


def _initial(
    streams: Sequence[Streams], dataset: GraphDataset, hidden: int
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Return integer-valued float32 initial parameters (R, P), and views of W1, b1, W2, b2."""
    usual = (
        engine.initial_parameters(stream, dataset.n_features, hidden, CLASSES) for stream in streams
    )
    flat = np.stack([vector.astype(np.float32) for vector in usual]).astype(np.float64)
    return flat, engine.layers(flat, dataset.n_features, hidden, CLASSES)


# --- many runs -------------------------------------------------------------------------------


def label_scores(
    design: Design, noise: float, label: int, *, threads: int = 1, progress: Progress | None = None
) -> np.ndarray:
    """Return scores (runs,) of the arm whose canary has ``label``: displacement towards label 1.

    Scores are in units of the gradient; without noise and with clipping they are ±epochs · clip
    norm (divided by the public divisor).
    """
    dataset = canary_graph([design.feature], [label])
    hidden = design.settings.hidden
    streams = _streams(design, f"label {label}", noise, design.runs)
    starts, (w1, b1, w2, b2) = _initial(streams, dataset, hidden)
    starts[:, -w2[0].size - b2[0].size :] = 0  # the last layer
    h = np.maximum(design.feature * w1[:, -1] + b1, 0)  # the canary's hidden vector
    toward = np.array([1.0, -1.0])  # the gradient of logits at label 1, which descent subtracts
    direction = np.concatenate(
        [(h[:, :, None] * toward).reshape(len(h), -1), np.tile(toward, (len(h), 1))], axis=1
    )
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    moved = displacements(design, dataset, streams, starts, noise, threads, progress)
    return np.einsum("rp,rp->r", moved[:, -direction.shape[1] :], direction)


def label_errors(
    design: Design, noise: float, *, threads: int = 1, progress: Progress | None = None
) -> Errors:
    """Train both arms and count how often the sign of the score gives the wrong label."""
    wrong, n_steps, context = [], design.runs * design.epochs, Context(progress)
    for label in (0, 1):
        report = context.after(label * n_steps, 2 * n_steps).progress
        scores = label_scores(design, noise, label, threads=threads, progress=report)
        wrong.append(int(np.sum((scores > THRESHOLD) != bool(label))))
    return Errors(wrong[0], design.runs, wrong[1], design.runs)


# --- one run ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class OneRun:
    """Correct guesses of the attack about the canaries of one run."""

    canaries: int
    guesses: int
    right: int


def one_run(design: Design, noise: float) -> OneRun:
    """Train once on the full graph with canaries included by coins, and guess which they are."""
    m, half = ONE_RUN_CANARIES, ONE_RUN_GUESSES // 2
    design = replace(design, splits=1, visits="protocol", runs=1)
    streams = _streams(design, "one run", noise, 1)
    included = streams[0].generator("canaries").random(m) < 0.5
    labels = np.arange(m) % CLASSES
    dataset = canary_graph([design.feature] * m, np.where(included, labels, -1))
    hidden = design.settings.hidden
    starts, (w1, b1, w2, _) = _initial(streams, dataset, hidden)
    n1 = w1[0].size
    starts[:, :n1] = 0
    starts[:, n1 : n1 + hidden] = 1
    gap = w2[0, :, 0] - w2[0, :, 1]  # label 1 moves along it, label 0 against it
    toward = np.where(labels[:, None] == 1, gap, -gap) / np.linalg.norm(gap)
    moved = displacements(design, dataset, streams, starts, noise)
    rows = moved[0, :n1].reshape(-1, hidden)[_WORDS:]
    order = np.argsort(np.sum(rows * toward, axis=1))
    right = int(np.sum(included[order[-half:]]) + np.sum(~included[order[:half]]))
    return OneRun(canaries=m, guesses=2 * half, right=right)
