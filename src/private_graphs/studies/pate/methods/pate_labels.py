"""PATE's teachers and their released labels; a classifier trained on these labels alone.

Zhang, Emory thesis 2021, Section 3.4.1: private images are divided into equal random parts, a
teacher learns from each, and Confident-GNMax answers queries for public images (``pate_votes``). At
ε = ∞ a row is the plurality vote of the teachers, without privacy, and its votes are stored for
other jobs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from private_graphs.core.errors import UserError
from private_graphs.datasets.protocols import Protocol, by_name
from private_graphs.mechanisms.door import Door
from private_graphs.privacy.accountants import gdp_mu
from private_graphs.privacy.calibration import refuse_large_delta
from private_graphs.privacy.queries import GaussianQuery
from private_graphs.privacy.renyi import simple_epsilon, simple_mu
from private_graphs.studies.pate.methods import pate_votes
from private_graphs.tasks import method
from private_graphs.tasks.image_task import ImageTask

if TYPE_CHECKING:
    from private_graphs.training.students import Pool, Student, Training

NetworkName = Literal["softmax", "mlp", "small", "deep"]


class PateSettings(method.Settings):
    """Settings of teachers, labels and classifiers; the defaults are the thesis's, or if it
    gives none those of docs/methods.md."""

    teachers: int = Field(default=250, ge=1)
    teacher_network: NetworkName = "deep"
    teacher_epochs: int = Field(default=40, ge=1)
    teacher_batch: int = Field(default=32, ge=1)
    teacher_rate: float = Field(default=1e-3, gt=0)
    threshold: float = 200.0
    """Noisy number of votes from which a query is answered."""
    check_noise: float = Field(default=150.0, ge=0)
    """Minimum noise standard deviation of a check; 0: every query is answered."""
    queries: int = Field(default=4500, ge=1)
    """Maximum number of queried public images."""
    answers: int = Field(default=2200, ge=1)
    """Maximum number of them that get a label."""
    network: NetworkName = "deep"
    epochs: int = Field(default=500, ge=1)
    batch: int = Field(default=100, ge=1)
    learning_rate: float = Field(default=0.01, gt=0)


@dataclass(frozen=True, kw_only=True)
class PateProtocol(Protocol):
    """Accountant that determines the noise of answers from ε."""

    accountant: Literal["theorem", "proved"]
    """``theorem``: ε = c + 2 sqrt(c ln(1/δ)), Proposition 2 optimised over λ; ``proved``: exact
    Gaussian DP."""


PROTOCOLS = by_name(
    PateProtocol(
        name="paper",
        summary="what the thesis says, with the accounting of its Proposition 2; what it "
        "leaves open (threshold, noise of checks, number of queries) is fixed in advance",
        calibration="published",
        accountant="theorem",
    ),
    PateProtocol(
        name="sound",
        summary="what can be proved: exact Gaussian DP of all checks and answers at their caps",
        accountant="proved",
    ),
)
UNKNOWN = -2
"""Stands for a true label that is not public."""
DIAGNOSTIC_NOISE = 40.0
"""σ2 of the 2018 script for MNIST; its threshold and σ1 are the defaults of ``PateSettings``."""
POST_PROCESSING = (
    "students are computed from the released labels and public images alone: further students of "
    "the same labels reveal nothing more"
)
GRID_SEARCH = (
    "the ratios are those of the thesis, which chose them by a grid search on images that it does "
    "not name; that choice is not priced"
)


def noise_of(task: ImageTask, request: method.Request) -> pate_votes.VoteNoise | None:
    """Return the noise of a request's checks and answers at their caps; None without DP."""
    settings: PateSettings = request.settings
    if not request.private:
        return None
    of = {"theorem": simple_mu, "proved": gdp_mu}[task.protocol.accountant]
    queries = min(settings.queries, len(task.validation_pixels))
    if not settings.check_noise:
        queries = min(queries, settings.answers)
    return pate_votes.noise_for(
        of(request.epsilon, task.delta), settings.threshold, settings.check_noise, queries,
        min(settings.answers, queries),
    )  # fmt: skip


def stated(
    task: ImageTask, request: method.Request, context: method.Context, chosen: Mapping
) -> dict[str, Any]:
    """See ``Method.stated``; the labels are stored for other jobs."""
    noise, claim = noise_of(task, request), None
    if noise is None:
        return {}
    if task.protocol.accountant == "theorem":
        words = f"Proposition 2 of {noise.queries} checks and {noise.answers} answers"
        claim = method.PrintedEpsilon(simple_epsilon(noise.mu, task.delta), words)
    return {
        "events": _events(task, request),
        "claim": claim,
        "noise_generator": "argmax",
        "assumptions": (POST_PROCESSING,),
    }


def _events(task: ImageTask, request: method.Request) -> tuple[GaussianQuery, ...]:
    noise = noise_of(task, request)
    return noise.events(task.scenario.unit, task.scenario.relation) if noise else ()


@dataclass(frozen=True, eq=False)
class TeacherVotes:
    """Votes of the teachers of one seed."""

    pool: np.ndarray
    """(V, K) vote counts on the public images."""
    test: np.ndarray | None = None
    """(M, K) vote counts on the test images, if they were queried."""
    asked: np.ndarray | None = None
    """(A, K) vote counts on images that an attack asks for."""


def _parts(n: int, teachers: int, generator: np.random.Generator) -> np.ndarray:
    """Return (T, n // T) records of each teacher: one random equal partition."""
    teachers = min(teachers, n)
    size = n // teachers
    return generator.permutation(n)[: teachers * size].reshape(teachers, size)


def vote(task: ImageTask, request: method.Request, context: method.Context) -> TeacherVotes:
    """Train the teachers of a request and collect their votes on all public and test images.

    If the task has votes of teachers that were trained elsewhere, these are returned.
    """
    from private_graphs.training.image_nets import Ensemble

    cut = len(task.validation_pixels)
    if task.votes is not None:
        return TeacherVotes(task.votes[:cut], task.votes[cut:])
    settings: PateSettings = request.settings
    targets = () if context.asked is None else (context.asked,)
    ensemble = Ensemble(
        settings.teacher_network, task.shape, task.n_classes, settings.teacher_epochs,
        settings.teacher_batch, settings.teacher_rate,
    )  # fmt: skip
    counts = ensemble.votes(
        _parts(task.n_units, settings.teachers, request.streams.generator("partition")),
        task.train_pixels, task.train_labels,
        np.concatenate([task.validation_pixels, task.test_pixels, *targets]),
        request.streams.generator("teachers"), context.device,
    )  # fmt: skip
    end = cut + len(task.test_pixels)
    return TeacherVotes(counts[:cut], counts[cut:end], counts[end:] if targets else None)


@dataclass(eq=False)
class TeacherStage:
    """Votes and labels by seed and ε, from needed jobs, or else computed here once."""

    task: ImageTask
    context: method.Context
    door: Door

    def __post_init__(self) -> None:
        self.made: dict[int, TeacherVotes] = {}

    def kept(self, stage: str, name: str) -> np.ndarray | None:
        """Return an artifact of a needed job; None without that job.

        Raises:
            UserError: the job has no run of this seed or ε.
        """
        if stage not in self.context.artifacts:
            return None
        arrays: Mapping[str, np.ndarray] = self.context.artifacts[stage]
        for key, array in arrays.items():
            if key.endswith(f"/{name}"):
                return array
        names = ", ".join(sorted(key.split("/", 1)[1] for key in arrays)) or "nothing"
        raise UserError(
            f"{stage}: the job that is needed has no {name}; found {names}: run it with the same "
            "seeds and budgets"
        )

    def votes(self, request: method.Request, *, test: bool = False) -> TeacherVotes:
        """Return the votes for a request's seed; ``test``: also on test images."""
        pool = self.kept("teachers", f"seed{request.seed}/votes")
        if pool is not None and not test:
            return TeacherVotes(pool)
        if request.seed not in self.made:
            self.made[request.seed] = vote(self.task, request, self.context)
        return self.made[request.seed]

    def labels(self, request: method.Request) -> np.ndarray:
        """Return the (V,) released labels of a request, ``REFUSED`` if there is none."""
        lane, plan = self.door.batch([request]), _events(self.task, request)
        labels = self.kept("labels", _name(request, "labels"))
        if labels is not None:
            self._check_price(request)
            lane.inherit([plan])
            return labels
        lane.plan([plan])
        noise, votes = noise_of(self.task, request), self.votes(request).pool
        if noise is None:
            first = np.arange(len(votes)) < request.settings.answers
            return np.where(first, votes.argmax(axis=1), pate_votes.REFUSED)
        *check, answer = plan
        return pate_votes.released_labels(
            votes, noise,
            lambda exact, mask: lane.rows(exact, check[0] if check else None, mask),
            lambda exact, mask: lane.rows(exact, answer, mask),
        )  # fmt: skip

    def _check_price(self, request: method.Request) -> None:
        """Raise UserError if another job released the labels with different noise or δ."""
        price = json.loads(bytes(self.kept("labels", _name(request, "price"))))
        expected = _price(self.task, request)
        # machines differ in the last digits of a calibrated noise
        if price.keys() != expected.keys() or not all(
            math.isclose(price[name], expected[name], rel_tol=1e-9) for name in price
        ):
            raise UserError(
                f"labels: the job that is needed released them with {price}; expected {expected}, "
                "which this job is priced for: give both groups the same protocol, delta and "
                "settings of votes"
            )

    def start(self, request: method.Request) -> np.ndarray:
        """Return the key of initial weights and orders that all students of these labels share."""
        key = self.kept("labels", _name(request, "start"))
        return request.streams.key("start").astype(np.int64) if key is None else key

    def truth(self, request: method.Request) -> np.ndarray:
        """Return the (V,) true labels of the public images, ``UNKNOWN`` if not public."""
        labels = np.full(len(self.task.validation_labels), UNKNOWN)
        labels[request.known] = self.task.validation_labels[request.known]
        return labels

    def told(self, request: method.Request, labels: np.ndarray) -> dict[str, Any]:
        """Return measures of the released labels against public truth."""
        truth, got = self.truth(request), labels != pate_votes.REFUSED
        right = (labels == truth)[got & (truth != UNKNOWN)]
        accuracy = right.mean() if len(right) else math.nan
        return {"labels": int(got.sum()), "label_accuracy": accuracy}


def _price(task: ImageTask, request: method.Request) -> dict[str, float]:
    """Return the numbers that determine the privacy cost of released labels."""
    noise = noise_of(task, request)
    return {"delta": task.delta, **(asdict(noise) if noise else {})}


def _name(request: method.Request, what: str) -> str:
    return f"seed{request.seed}/epsilon{request.epsilon:g}/{what}"


def pool_of(task: ImageTask, labels: np.ndarray, device: str) -> Pool:
    """Return the public images with their released labels (V,)."""
    import torch

    from private_graphs.training.image_nets import images_of
    from private_graphs.training.students import Pool

    return Pool(
        images_of(task.validation_pixels, task.shape, device),
        torch.from_numpy(np.ascontiguousarray(labels)).to(device),
        np.flatnonzero(labels != pate_votes.REFUSED),
    )


def training_of(settings: Any, **options: Any) -> Training:
    """Return the training settings of a student."""
    from private_graphs.training.students import Training

    return Training(
        settings.network, settings.epochs, settings.batch, settings.learning_rate, **options
    )


def classified(
    task: ImageTask, settings: Any, labels: np.ndarray, generator: np.random.Generator,
    context: method.Context, **fields: Any,
) -> method.Outcome:  # fmt: skip
    """Answer by a classifier of the public images with these (V,) labels, without a generator."""
    from private_graphs.training.students import train_supervised

    pool = pool_of(task, labels, context.device)
    student = train_supervised(training_of(settings), pool, task.shape, task.n_classes, generator)
    return outcome_of(task, student, pool, context, **fields)


def outcome_of(
    task: ImageTask, student: Student, pool: Pool, context: method.Context, **fields: Any
) -> method.Outcome:
    """Return what a student answers on the test images, the public ones and those asked for."""
    from private_graphs.training.image_nets import images_of

    images = partial(images_of, shape=task.shape, device=context.device)
    targets = context.asked
    return method.Outcome(
        test_predictions=student.classes(images(task.test_pixels)),
        validation_predictions=student.classes(pool.images),
        logits=None if targets is None else student.logits(images(targets)),
        **fields,
    )


def one_by_one(
    answer: Callable[[TeacherStage, method.Request], method.Outcome],
    task: ImageTask,
    requests: Sequence[method.Request],
    door: Door,
    context: method.Context,
) -> list[method.Outcome]:
    """Answer requests in turn; they share the votes and labels of a stage."""
    import torch

    torch.set_num_threads(context.threads)
    if task.protocol.calibration == "proved":
        refuse_large_delta(task.delta, task.n_units)
    stage = TeacherStage(task, context, door)
    return [answer(stage, request) for request in context.in_turn(requests)]


def _answer(stage: TeacherStage, request: method.Request) -> method.Outcome:
    """Release labels and train a classifier; without DP, answer with the teachers' votes."""
    return _release(stage, request) if request.private else _plurality(stage, request)


def _release(stage: TeacherStage, request: method.Request) -> method.Outcome:
    task, labels, start = stage.task, stage.labels(request), stage.start(request)
    return classified(
        task, request.settings, labels, np.random.default_rng(start), stage.context,
        measured={
            "epochs": request.settings.epochs,
            "noise_multiplier": noise_of(task, request).answer_std,
            **stage.told(request, labels),
        },
        artifacts={
            _name(request, "labels"): labels,
            _name(request, "start"): start,
            _name(request, "price"): np.frombuffer(
                json.dumps(_price(task, request)).encode(), np.uint8
            ),
        },
    )  # fmt: skip


def _plurality(stage: TeacherStage, request: method.Request) -> method.Outcome:
    """Answer with the teachers without privacy, and the ε that the 2018 script would print."""
    task, settings = stage.task, request.settings
    votes = stage.votes(request, test=True)
    noise = pate_votes.VoteNoise(
        settings.threshold, settings.check_noise, DIAGNOSTIC_NOISE * settings.threshold / 200,
        len(votes.pool), settings.answers,
    )  # fmt: skip
    labels = pate_votes.simulated_labels(votes.pool, noise, request.streams.generator("diagnostic"))
    answered = np.flatnonzero(labels != pate_votes.REFUSED)
    n_queries = answered[-1] + 1 if len(answered) else len(labels)
    measured = {"noise_multiplier": 0.0, **stage.told(request, votes.pool.argmax(axis=1))}
    if settings.check_noise:
        measured |= {
            "diagnostic_epsilon": pate_votes.dependent_epsilon(
                votes.pool[:n_queries], noise, task.delta, labels[:n_queries] != pate_votes.REFUSED
            ),
            "diagnostic_noise": noise.answer_std,
            "diagnostic_queries": int(n_queries),
            "diagnostic_labels": len(answered),
            "diagnostic_label_accuracy": stage.told(request, labels)["label_accuracy"],
        }
    return method.Outcome(
        test_predictions=votes.test.argmax(axis=1),
        validation_predictions=votes.pool.argmax(axis=1),
        logits=None if votes.asked is None else np.log1p(votes.asked),
        measured=measured,
        artifacts={f"seed{request.seed}/votes": votes.pool},
    )


METHODS = (
    method.Method(
        "pate_labels",
        "PATE's labels, supervised",
        partial(one_by_one, _answer),
        ("records",),
        settings=PateSettings,
        protocols=PROTOCOLS,
        data="images",
        prepares="pixels are divided by 255",
        stated=stated,
        memory=method.torch_memory,
        summary="Teachers on disjoint private images vote with noise; a classifier "
        "learns the released labels.",
    ),
)
