"""Runs of anybody's training code, recorded or replayed, as ``replay_training`` compares them.

Scripts of Opacus run unchanged: while a run is watched, public methods of its optimizers, samplers
and accountants are replaced, and put back on every exit. Other code marks the line where it adds
noise (``gaussian``).
"""

from __future__ import annotations

import copy
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from traceback import extract_tb
from types import CellType, FunctionType
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from private_graphs.attacks.record_neighbours import Change, size_of
from private_graphs.mechanisms.door import Watch
from private_graphs.mechanisms.reads import tensor_reads
from private_graphs.mechanisms.replay import generator_states, said, set_generators

Array = np.ndarray


@dataclass
class NoisySum:
    """A value that noise was added to, and the state of the training before it."""

    exact: Array
    noisy: Array
    std: float
    bound: float
    """What one record may move ``exact`` in L2 norm; for sums of Opacus if it is added or
    removed."""
    marked: bool = True
    """Whether the script states the bound, for the audited relation (``gaussian``)."""
    adaptive: bool = False
    """Whether the clip norm follows a noisy count, whose price the noise multiplier includes."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    parameters: bytes = b""
    ends: Sequence[int] = ()
    """Where the numbers of one parameter end and those of the next begin."""
    gradients: Array = field(default_factory=lambda: np.empty((0, 2)))
    """Two random combinations of the numbers of the gradient of each record, in order."""
    outside: Mapping[str, int] = field(default_factory=dict)
    """Optimizers that stepped on their own since the last sum: class -> steps."""
    generators: Any = None
    """States of the generators after the noise."""
    drawn: bytes = b""
    """Digest of torch's generator before the noise: which random numbers the step used."""


@dataclass(frozen=True)
class Coins:
    """Who joins the steps of Poisson sampling: ``tested`` records all steps or none.

    ``empty``: the second step is one that nobody joins, as sampling may draw it.
    """

    tested: Sequence[int]
    join: bool
    seed: int = 0
    empty: bool = False


@dataclass
class TrainingRun(Watch):
    """One run of ``train``: a recording, or with ``tape`` a replay of that run.

    ``redrawn``: other coins are tossed. ``others``: numbers that are read in place of private ones.
    """

    coins: Coins
    tape: TrainingRun | None = None
    change: Change | None = None
    far: bool = False
    """Whether the data are no neighbour but farther (``far_data``): no sums are compared."""
    redrawn: int = 0
    others: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    turn: int = 0
    """How floats of them are scaled (``tensor_reads``)."""
    memory: dict[Any, Any] = field(default_factory=Counter)
    """Answers of accountants, which take seconds and read public numbers alone."""

    sums: list[NoisySum] = field(default_factory=list)
    samplers: list[tuple[int, float, int]] = field(default_factory=list)
    """Of each epoch: records, sampling rate, steps."""
    joined_counts: list[int] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    """Of each step: gradients in its sum, records that joined it (-1: unknown)."""
    gradients: list[Array] = field(default_factory=list)
    outside: Counter[str] = field(default_factory=Counter)
    accountants: list[Any] = field(default_factory=list)
    printed: list[tuple[float, float]] = field(default_factory=list)
    """ε and δ that accountants answered."""
    target: tuple[float, float] | None = None
    poisson: bool | None = None
    """Whether make_private was asked for Poisson sampling; None if it was not called."""
    dataset: Any = None
    size: int = 0
    places_known: bool = True
    seeds: list[int] = field(default_factory=list)
    reads: dict[str, list[Any]] = field(default_factory=dict)
    answer: Any = None
    held: list[str] = field(default_factory=list)
    """What is of one batch in what is returned (``Contents``)."""
    error: str = ""
    lines: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def passed(self, lane: Any, part: str, kind: str, query: Any, exact: Any, noisy: Any) -> Any:
        """Record a sum, of which ``query`` has all but the values; return the noisy value."""
        entry = query
        entry.exact, entry.drawn = exact, _digest(torch.get_rng_state())
        step = len(self.sums)
        if self.tape is not None and step < len(self.tape.sums):
            taped = self.tape.sums[step]
            if taped.noisy.shape == noisy.shape:
                noisy = taped.noisy.copy()
            set_generators(taped.generators)
        entry.noisy, entry.generators = noisy.copy(), generator_states()
        entry.gradients = np.concatenate(self.gradients) if self.gradients else entry.gradients
        entry.outside = self.outside
        self.sums.append(entry)
        self.gradients, self.outside = [], Counter()
        return noisy

    def batches(self, sampler: Any) -> Iterator[list[int]]:
        """Yield the places that join each step of one epoch: one coin per record and step."""
        epoch, n, rate = len(self.samplers), sampler.num_samples, sampler.sample_rate
        self.samplers.append((n, rate, sampler.steps))
        taped = self.tape.samplers if self.tape else []
        before = taped[epoch][0] if epoch < len(taped) else n
        self.joined_counts = []
        tested = [self._sampled_place(self.dataset, record) for record in self.coins.tested]
        self.places_known = self.places_known and -1 not in tested
        inside = [index for index in tested if index is not None and 0 <= index < max(n, before)]
        for step in range(sampler.steps):
            draws = np.random.default_rng([self.coins.seed, self.redrawn, epoch, step])
            heads = draws.random(max(n, before)) < rate
            heads[inside] = self.coins.join
            if self.coins.empty and (epoch, step) == (0, 1):
                heads[:] = False
            if self.change is not None and self.change.how == "left out":
                heads[self.change.place] = False
            if self.change is not None and n < before:
                heads = np.delete(heads, min(self.change.place, before - 1))
            places = np.flatnonzero(heads[:n]).tolist()
            self.joined_counts.append(len(places))
            yield places

    def _sampled_place(self, dataset: Any, record: int) -> int | None:
        """Return where the sampler has a record: None if it has not, -1 if that is unknown."""
        if isinstance(dataset, torch.utils.data.Subset):
            inner = self._sampled_place(dataset.dataset, record)
            places = list(dataset.indices)
            return places.index(inner) if inner in places else None
        return record if dataset is None or abs(len(dataset) - self.size) <= 1 else -1

    @property
    def history(self) -> list[tuple[float, float]]:
        """σ and sampling rate of each step that the accountants of Opacus were told of."""
        return [
            (float(sigma), float(rate))
            for accountant in self.accountants
            for sigma, rate, count in accountant.history
            for _ in range(count)
        ]


_SEARCHING = "searching"
"""Key of how many accountants of the memory are at work."""
_watching: list[TrainingRun] = []
"""Runs that are watched now; ``gaussian`` tells the last of them."""


def gaussian(value: Any, std: float, sensitivity: float) -> Any:
    """Return ``value`` (an array, a tensor or a number) plus Gaussian noise of ``std``.

    The one line that training code without Opacus marks. ``sensitivity``: what one record may move
    ``value`` in L2 norm, under the relation that is audited. Generators: torch's for tensors, else
    NumPy's global one.
    """
    if isinstance(value, torch.Tensor):
        exact = value.detach().cpu().numpy().copy()
        noise = torch.randn(exact.shape).numpy()
    else:
        exact = np.array(value)
        noise = np.random.standard_normal(exact.shape)
    noisy = np.asarray(exact + std * noise, np.result_type(exact.dtype, np.float32))
    if _watching:
        entry = NoisySum(exact, noisy, float(std), float(sensitivity))
        noisy = _watching[-1].passed(None, "", "gaussian", entry, exact, noisy)
    if isinstance(value, torch.Tensor):
        return torch.as_tensor(noisy, device=value.device)
    return noisy if noisy.shape else noisy[()]


def execute(train: Callable[[Any], Any], data: Any, run: TrainingRun) -> TrainingRun:
    """Run ``train`` on a copy of ``data`` under ``run``, on one thread, with seeded generators.

    Errors of a recording are raised; those of a replay are kept in ``run.error``.
    """
    states, threads = generator_states(), torch.get_num_threads()
    run.size = size_of(data)
    try:
        torch.set_num_threads(1)
        random.seed(run.coins.seed)
        np.random.seed(run.coins.seed)
        torch.manual_seed(run.coins.seed)
        with said() as lines, tensor_reads(run.others, run.turn) as run.reads, _watched(run):
            contents = Contents()
            run.answer = contents.of(train(_copied(data)))
            run.held = contents.held
    except (Exception, SystemExit) as error:
        if run.tape is None:
            raise
        frame = extract_tb(error.__traceback__)[-1]
        run.error = f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
    finally:
        torch.set_num_threads(threads)
        set_generators(states)
    run.files = [line for line in lines if line.startswith("file ")]
    run.lines = [line for line in lines if not line.startswith("file ")]
    return run


@dataclass
class Contents:
    """What an object would take along that is published, as plain values and arrays."""

    known: dict[int, Any] = field(default_factory=dict)
    """Objects whose parts were read, by identity."""
    held: list[str] = field(default_factory=list)
    """Names of what Opacus leaves on a model of the last batch, and pickles with it."""

    def of(self, value: Any) -> Any:
        """Return nested plain values and arrays; a path is read as bytes."""
        if isinstance(value, torch.Tensor):
            return value.detach().cpu().numpy()
        if isinstance(value, dict):
            return {str(name): self.of(part) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(part) for part in value]
        if isinstance(value, Path) or isinstance(value, str) and os.path.isfile(value):
            return Path(value).read_bytes()
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray) and value.dtype == object:
            return [value.shape, *map(self.of, value.flat)]
        if isinstance(value, (*_PLAIN, type(None))):
            return value
        if isinstance(value, type):
            return repr(value)
        if id(value) in self.known:
            return "named before"
        self.known[id(value)] = value  # which keeps the identity from being used again
        if hasattr(value, "state_dict"):
            return self.of({**value.state_dict(), **self._attributes(value)})
        return self._pickled(value)

    def _pickled(self, value: Any) -> Any:
        """Return what a pickle of an object has in it; how it is printed, where it has none.

        What an estimator or a table prints leaves most of its numbers out.
        """
        if isinstance(value, FunctionType):
            filled = [cell for cell in value.__closure__ or () if cell != CellType()]
            read = {name: value.__globals__.get(name) for name in value.__code__.co_names}
            read = {name: part for name, part in read.items() if _is_plain(part)}
            cells = [cell.cell_contents for cell in filled]
            return self.of([value.__qualname__, value.__defaults__, cells, read])
        try:
            parts = value.__reduce_ex__(4)
        except Exception:  # a lock, an open file
            return repr(value)
        if isinstance(parts, str):
            return repr(value)
        return self.of([list(part) if isinstance(part, Iterator) else part for part in parts])

    def _attributes(self, value: Any) -> dict[str, Any]:
        """Return attributes of an optimizer, or of modules and parameters, which go with it."""
        parts = {"": value}
        if isinstance(value, torch.nn.Module):
            parts = dict(value.named_modules()) | dict(value.named_parameters())
        own = {
            f"{prefix}.{name}".lstrip("."): part
            for prefix, each in parts.items()
            for name, part in getattr(each, "__dict__", {}).items()
            if name not in _OF_TORCH and _is_plain(part)
        }  # fmt: skip
        left = [name for name in own if name.rpartition(".")[2] in _OF_OPACUS]
        self.held += [name for name in left if own[name] is not None and own[name] != []]
        return {name: part for name, part in own.items() if name not in left}


_PLAIN = (str, bytes, int, float, bool, np.ndarray)
_OF_TORCH = frozenset(vars(torch.nn.Module())) - {"training"}
_OF_OPACUS = frozenset(
    ("grad_sample", "summed_grad", "activations", "max_batch_len", "_norm_sample",
     "_per_sample_gradient_norms")
)  # fmt: skip
"""Attributes of modules and parameters that a batch leaves, most of them until ``zero_grad``."""


def _is_plain(value: Any) -> bool:
    """Return whether a value is plain, or has plain ones alone."""
    if isinstance(value, list | tuple | set | dict):
        return all(map(_is_plain, value.values() if isinstance(value, dict) else value))
    return isinstance(value, (*_PLAIN, np.generic, torch.Tensor, type(None)))


def _copied(data: Any) -> Any:
    """Return a copy, since scripts change data in place; of data that have none, a shallow one."""
    try:
        return copy.deepcopy(data)
    except TypeError:
        return copy.copy(data)


def _digest(values: Any) -> bytes:
    return blake2b(np.asarray(values).tobytes(), digest_size=16).digest()


def _flat(tensors: Any) -> Array:
    return torch.cat([tensor.detach().reshape(-1).cpu() for tensor in tensors]).numpy().copy()


@cache
def _directions(size: int, number: int) -> Array:
    return np.random.default_rng([7, number]).standard_normal((size, 2))


# --- what Opacus does ---


@contextmanager
def _watched(run: TrainingRun) -> Iterator[None]:
    """Let ``run`` see what the script does, until the context ends."""
    with ExitStack() as patches:

        def patch(owner: Any, name: str, replaced: Callable[..., Any]) -> None:
            """Replace a public function by ``replaced(function)``."""
            value = replaced(getattr(owner, name))
            patches.enter_context(mock.patch.object(owner, name, value))

        def seeded(function: Callable[..., Any]) -> Callable[..., Any]:
            def manual_seed(seed: int) -> Any:
                run.seeds.append(seed)
                return function(seed)

            return manual_seed

        patch(torch, "manual_seed", seeded)
        inside = _watch_opacus(run, patch) if find_spec("opacus") else []

        def stepped(optimizer: Any, *_: Any) -> None:
            if not inside:
                run.outside[type(optimizer).__name__] += 1

        patches.callback(register_optimizer_step_pre_hook(stepped).remove)
        _watching.append(run)
        patches.callback(_watching.remove, run)
        yield


def _classes(base: type) -> list[type]:
    """Return a class and all that are derived from it."""
    return list(
        dict.fromkeys([base, *(kind for sub in base.__subclasses__() for kind in _classes(sub))])
    )


def _watch_opacus(run: TrainingRun, patch: Callable[..., None]) -> list[str]:
    """Patch what Opacus has; return a list that is empty while no optimizer of it steps."""
    import opacus
    from opacus import accountants, optimizers, privacy_engine
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler

    inside: list[str] = []
    wrappers = {"step": _step, "add_noise": _add_noise, "clip_and_accumulate": _clip}
    for kind in _classes(optimizers.DPOptimizer):
        for name, wrapper in wrappers.items():
            if name in vars(kind):
                patch(kind, name, lambda method, wrap=wrapper: wrap(run, inside, method))
    patch(UniformWithReplacementSampler, "__iter__", lambda _: lambda self: run.batches(self))
    for kind in _classes(accountants.IAccountant):
        if "get_epsilon" in vars(kind):
            patch(kind, "get_epsilon", lambda method: _answered(run, method))
    patch(privacy_engine, "get_noise_multiplier", lambda function: _searched(run, function))

    def engine_made(method: Callable[..., Any]) -> Callable[..., None]:
        def __init__(self: Any, *arguments: Any, **options: Any) -> None:
            method(self, *arguments, **options)
            run.accountants.append(self.accountant)

        return __init__

    def made_private(method: Callable[..., Any]) -> Callable[..., Any]:
        def make_private(self: Any, **options: Any) -> Any:
            run.poisson = options.get("poisson_sampling", True)
            run.dataset = options["data_loader"].dataset
            generator = options.get("noise_generator")
            run.seeds += [] if generator is None else [generator.initial_seed()]
            return method(self, **options)

        return make_private

    def targeted(method: Callable[..., Any]) -> Callable[..., Any]:
        def make_private_with_epsilon(self: Any, **options: Any) -> Any:
            run.target = options["target_epsilon"], options["target_delta"]
            return method(self, **options)

        return make_private_with_epsilon

    patch(opacus.PrivacyEngine, "__init__", engine_made)
    patch(opacus.PrivacyEngine, "make_private", made_private)
    patch(opacus.PrivacyEngine, "make_private_with_epsilon", targeted)
    return inside


def _step(run: TrainingRun, inside: list[str], method: Callable[..., Any]) -> Callable[..., Any]:
    def step(self: Any, *arguments: Any, **options: Any) -> Any:
        inside.append("step")
        try:
            return method(self, *arguments, **options)
        finally:
            inside.pop()

    return step


def _clip(run: TrainingRun, inside: list[str], method: Callable[..., Any]) -> Callable[..., Any]:
    def clip_and_accumulate(self: Any) -> Any:
        if "clip" in inside:
            return method(self)
        parts = [part for part in self.grad_samples if part is not None]
        if parts:
            flat = (part.detach().reshape(len(part), -1).double().cpu().numpy() for part in parts)
            run.gradients.append(
                sum(rows @ _directions(rows.shape[1], number) for number, rows in enumerate(flat))
            )
        inside.append("clip")
        try:
            return method(self)
        finally:
            inside.pop()

    return clip_and_accumulate


def _add_noise(
    run: TrainingRun, inside: list[str], method: Callable[..., Any]
) -> Callable[..., Any]:
    """Watch the sum of a step, and put the taped one in its place; so with an adaptive count."""

    def add_noise(self: Any) -> Any:
        if "noise" in inside:  # a class calls that of its base
            return method(self)
        parameters = [p for p in self.params if p.summed_grad is not None]
        exact, stds = _flat(p.summed_grad for p in parameters), []
        count = getattr(self, "unclipped_num", None)
        draw = torch.normal

        def normal(*arguments: Any, **options: Any) -> torch.Tensor:
            stds.append(float(options["std"]))
            return draw(*arguments, **options)

        inside.append("noise")
        try:
            with mock.patch.object(torch, "normal", normal):
                result = method(self)
        finally:
            inside.pop()
        run.sizes.append(
            (sum(map(len, run.gradients)), run.joined_counts.pop(0) if run.joined_counts else -1)
        )
        bound = float(self.max_grad_norm)
        settings = {
            "max_grad_norm": bound,
            "noise_multiplier": float(self.noise_multiplier),
            "expected_batch_size": self.expected_batch_size,
            "loss_reduction": self.loss_reduction,
            **{
                f"learning rate {at}": group.get("lr") for at, group in enumerate(self.param_groups)
            },
        }
        noisy = _flat(p.grad for p in parameters)
        entry = NoisySum(
            exact,
            noisy,
            stds[0] if stds else 0.0,
            bound,
            False,
            count is not None,
            settings,
            _digest(_flat(parameters)),
            np.cumsum([p.numel() for p in parameters])[:-1].tolist(),
        )
        noisy = run.passed(None, "", "step", entry, exact, noisy)
        parts = np.split(noisy, entry.ends)
        for p, part in zip(parameters, parts, strict=True):
            p.grad = torch.from_numpy(part).to(p).view_as(p)
        if count is not None:  # one record is clipped or not: it moves the count by 1
            exact, noisy = np.array([float(count)]), np.array([float(self.unclipped_num)])
            entry = NoisySum(exact, noisy, stds[-1] if stds else 0.0, 1.0, adaptive=True)
            noisy = run.passed(None, "", "count", entry, exact, noisy)
            self.unclipped_num = torch.tensor(float(noisy[0]))
        return result

    return add_noise


def _answered(run: TrainingRun, method: Callable[..., Any]) -> Callable[..., float]:
    def get_epsilon(self: Any, delta: float, *arguments: Any, **options: Any) -> float:
        key = (type(self), tuple(self.history), delta, repr((arguments, options)))
        answer = _once(run.memory, key, lambda: float(method(self, delta, *arguments, **options)))
        if not run.memory[_SEARCHING]:
            run.printed.append((answer, delta))
        return answer

    return get_epsilon


def _searched(run: TrainingRun, function: Callable[..., float]) -> Callable[..., float]:
    def get_noise_multiplier(**options: Any) -> float:
        return _once(run.memory, repr(options), lambda: function(**options))

    return get_noise_multiplier


def _once(memory: dict[Any, Any], key: Any, compute: Callable[[], float]) -> float:
    """Return an answer that is computed once; what accountants ask others meanwhile is not
    printed."""
    if key not in memory:
        memory[_SEARCHING] += 1
        try:
            memory[key] = compute()
        finally:
            memory[_SEARCHING] -= 1
    return float(memory[key])
