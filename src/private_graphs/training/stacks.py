"""Stacks of small perceptrons: R replicas trained at once, full batch or by per-example DP-SGD.

A network is written once, as a function of ``Forward``, which records its operations on parameters.
Gradients of examples follow from the gradients g of the recorded outputs and their inputs a: the
gradient of a weight is Σ cᵢ aᵢ gᵢᵀ, and one example's has with its bias the squared norm
|gᵢ|²(|aᵢ|² + 1) (Goodfellow 2015). No gradient of a single example is stored, and sparse features
are never made dense.

Shapes: R replicas, k parallel branches of the same form, n rows, h channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import scipy.sparse
import torch
from torch.nn import functional

from private_graphs.core.streams import PublicStreams
from private_graphs.mechanisms.descent import Descent
from private_graphs.mechanisms.door import Door
from private_graphs.training import layers
from private_graphs.training.dpsgd import Adam, clip_factors, descend, minibatches

EPSILON, MOMENTUM = 1e-5, 0.1
"""Constants of batch normalisation."""
Norm = Literal["batch", "layer", "none"]


class SparseRows:
    """Sparse features (N, d), for products with R matrices at once."""

    def __init__(self, matrix: scipy.sparse.csr_matrix):
        self.matrix = scipy.sparse.csr_matrix(matrix, dtype=np.float32)
        squares = self.matrix.multiply(self.matrix).sum(1)
        self.squares = torch.from_numpy(np.asarray(squares, np.float32)[:, 0])
        start = self.matrix.indptr.astype(np.int64)
        self.arrays = start, self.matrix.indices, self.matrix.data

    def __len__(self) -> int:
        return self.matrix.shape[0]

    def take(self, nodes: np.ndarray) -> SparseRows:
        """Return the rows of ``nodes``."""
        return SparseRows(self.matrix[nodes])


@dataclass(frozen=True, eq=False)
class StackInputs:
    """Inputs of a network for each node: features, and precomputed sums over neighbours."""

    rows: SparseRows
    hops: torch.Tensor | None = None
    """(R, s, N, h) sums over neighbours of s stages."""

    def take(self, nodes: np.ndarray) -> StackInputs:
        """Return the inputs of ``nodes``."""
        hops = None if self.hops is None else self.hops[:, :, torch.from_numpy(nodes)].contiguous()
        return StackInputs(self.rows.take(nodes), hops)

    def view(self, index: torch.Tensor | None = None) -> View:
        """Return all rows, or those of ``index`` (R, n), which may differ between replicas."""
        return View(self, index)


@dataclass(frozen=True, eq=False)
class Stars(StackInputs):
    """Inputs of multi-row examples: a node and the neighbours it reads, by replica."""

    members: torch.Tensor | None = None
    """(R, n, 1 + w) int32 rows of each example: its own, then those of its neighbours."""
    present: torch.Tensor | None = None
    """(R, n, w) 1 for a neighbour, 0 for padding."""

    def view(self, index: torch.Tensor | None = None) -> View:
        """Return the rows of the examples of the (R, n) ``index``."""
        replica = torch.arange(len(self.members))[:, None]
        rows = self.members[replica, index].flatten(1).long()
        return View(self, rows, self.present[replica, index])


@dataclass(frozen=True, eq=False)
class View:
    """Rows that a forward pass sees."""

    inputs: StackInputs
    index: torch.Tensor | None
    present: torch.Tensor | None = None
    """(R, n, w) as in ``Stars``; None for single-row examples."""

    @property
    def hops(self) -> torch.Tensor:
        """(R, s, n, h) sums over neighbours."""
        hops = self.inputs.hops
        if self.index is None:
            return hops
        replicas, stages, _, width = hops.shape
        sums = torch.empty(replicas, stages, self.index.shape[1], width)
        layers.take(lanes(width), hops.numpy(), self.rows, sums.numpy())
        return sums

    @property
    def rows(self) -> np.ndarray:
        """(R, n) row indices of the inputs, or (1, n) shared by all replicas."""
        if self.index is None:
            return np.arange(len(self.inputs.rows))[None]
        return _indices("rows", self.index.numpy(), len(self.inputs.rows))

    @property
    def squares(self) -> torch.Tensor:
        """Squared norms of the features: (n,) or (R, n)."""
        squares = self.inputs.rows.squares
        return squares if self.index is None else squares[self.index]

    def times(self, weight: torch.Tensor) -> torch.Tensor:
        """Return (R, n, h): features times the (R, d, h) weight."""
        outputs, index = weight.shape[-1], self.rows
        product = torch.empty(len(weight), index.shape[1], outputs)
        arrays = self.inputs.rows.arrays
        layers.gather(lanes(outputs), *arrays, index, _array(weight), product.numpy())
        return product

    def example_squares(self, output: torch.Tensor, examples: int) -> torch.Tensor:
        """Return (R, examples): squared norms of transposed features times (R, n, h).

        Each norm is over the rows of one example.
        """
        rows, squares = self.inputs.rows, torch.empty(len(output), examples)
        total = np.zeros((rows.matrix.shape[1], output.shape[-1]))
        layers.scatter_squares(*rows.arrays, self.rows, _array(output), total, squares.numpy())
        return squares

    def sums(self, output: torch.Tensor) -> torch.Tensor:
        """Return (R, d, h): the transposed features times (R, n, h), float32 or float64."""
        rows, (replicas, _, outputs) = self.inputs.rows, output.shape
        total = torch.zeros(replicas, rows.matrix.shape[1], outputs, dtype=output.dtype)
        given = (*rows.arrays, self.rows, _array(output), total.numpy())
        if output.dtype == torch.float64:
            layers.scatter_exactly(*given)
        else:
            layers.scatter(lanes(outputs), *given)
        return total


def lanes(width: int) -> tuple[int, ...]:
    """Encode the row width as the length of a tuple, so that Numba specialises on it."""
    return (0,) * width


def _indices(name: str, indices: np.ndarray, size: int) -> np.ndarray:
    """Return ``indices`` for compiled code, which checks none and would read and write elsewhere.

    Raises:
        IndexError: one is outside 0 to ``size`` - 1, as where a replay gives those of another run.
    """
    if indices.size and not (0 <= indices.min() and indices.max() < size):
        raise IndexError(
            f"{name} from {indices.min()} to {indices.max()}; expected them from 0 to {size - 1}"
        )
    return indices


def _array(values: torch.Tensor) -> np.ndarray:
    """Return ``values`` for compiled code, with contiguous rows and channels."""
    if not values[(0,) * (values.dim() - 2)].is_contiguous():
        values = values.contiguous()
    return values.detach().numpy()


class _Compiled(torch.autograd.Function):
    """A compiled operation and its derivative, opaque to autograd."""

    @staticmethod
    def forward(ctx, ahead, back, inputs: torch.Tensor):
        ctx.back = back
        return ahead(inputs.detach()).detach()

    @staticmethod
    def backward(ctx, grad: torch.Tensor):
        # ``back`` holds the record of the pass, which holds this node: no collector sees that cycle
        back, ctx.back = ctx.back, None
        return None, None, back(grad)


@dataclass(frozen=True, eq=False)
class RecordedOperation:
    """An operation with parameters."""

    name: str
    kind: str
    """``features``, ``linear``, ``affine``, or ``batch``: affine after batch normalisation."""
    inputs: torch.Tensor | None
    """(R, k, n, i); None for ``features``. For ``batch``, once the gradient is known: (2, R, k,
    h), the gradients of scale and shift, summed over all rows."""
    outputs: torch.Tensor
    """(R, …, n, o)."""
    begin: int
    """First of the output's branches that belongs to this operation."""


class Mixed(torch.autograd.Function):
    """Products of sparse (N, N) matrices, one per replica or one for all, with (R, 1, N, h)."""

    @staticmethod
    def forward(ctx, values: torch.Tensor, matrices: Sequence[scipy.sparse.csr_matrix]):
        ctx.matrices = matrices
        return _mixed(values, matrices)

    @staticmethod
    def backward(ctx, grad: torch.Tensor):
        return _mixed(grad, [matrix.T for matrix in ctx.matrices]), None


def _mixed(values: torch.Tensor, matrices: Sequence[scipy.sparse.spmatrix]) -> torch.Tensor:
    rows = values[:, 0].detach().numpy()
    if len(matrices) == 1:
        matrices = [matrices[0]] * len(rows)
    return torch.from_numpy(np.stack([a @ b for a, b in zip(matrices, rows, strict=True)]))[:, None]


class Stack:
    """Parameters of R replicas: named views (R, …) of one (R, P) tensor, and running statistics."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], running: Mapping[str, torch.Tensor]):
        self.shapes = {name: tuple(param.shape) for name, param in tensors.items()}
        self.flat = torch.cat([param.reshape(len(param), -1) for param in tensors.values()], dim=1)
        self.running = dict(running)
        self._kept: dict[tuple[str, tuple[int, ...]], torch.Tensor] = {}

    def keep(self, name: str, shape: Sequence[int]) -> torch.Tensor:
        """Return uninitialised memory, the same at every step, because new allocations are slow."""
        key = name, tuple(shape)
        if key not in self._kept:
            self._kept[key] = torch.from_numpy(np.empty(key[1], np.float32))
        return self._kept[key]

    @property
    def parameters(self) -> dict[str, torch.Tensor]:
        """Parameter views by name."""
        return self.named(self.flat)

    def named(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the named views of a (R, P) tensor with the same layout."""
        sizes = [math.prod(shape[1:]) for shape in self.shapes.values()]
        parts = flat.split(sizes, dim=1)
        return {
            name: part.view(shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    def state(self) -> list[torch.Tensor]:
        """Return everything that training changes, each (R, …)."""
        return [self.flat, *self.running.values()]


@dataclass(eq=False)
class Forward:
    """One forward pass: the operations with parameters, and a record of them."""

    stack: Stack
    view: View
    training: bool
    recorded: list[RecordedOperation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parameters = self.stack.parameters

    def _record(self, name: str, kind: str, inputs, outputs: torch.Tensor, begin: int = 0) -> None:
        if not outputs.requires_grad:
            outputs.requires_grad_()
        self.recorded.append(RecordedOperation(name, kind, inputs, outputs, begin))

    def features(self, name: str, sums: str | None = None) -> torch.Tensor:
        """Return (R, 1, n, h), or (R, 1 + s, n, h) with layers ``sums`` on sums over neighbours.

        ``name`` is the linear layer on the features.
        """
        product = self.view.times(self.parameters[f"{name}.weight"])
        product = product.add_(self.parameters[f"{name}.bias"][:, None, :])[:, None]
        if not sums:
            out = product
        elif not self.training:
            return torch.cat([product, self.linear(sums, self.view.hops)], dim=1)
        else:
            replicas, k, n, _ = (hops := self.view.hops).shape
            out = self.stack.keep(f"{name} out", (replicas, 1 + k, n, product.shape[-1])).detach()
            out[:, :1] = product
            self._product(sums, hops, out[:, 1:])
        if self.training:
            self._record(name, "features", None, out)
            if sums:
                self._record(sums, "linear", hops, out, 1)
        return out

    def _product(self, name: str, inputs: torch.Tensor, out: torch.Tensor) -> None:
        weight, bias = self._weight(name), self.parameters[f"{name}.bias"]
        for operands in zip(bias[:, :, None], inputs, weight, out, strict=True):
            torch.baddbmm(*operands[:3], out=operands[3])

    def _weight(self, name: str) -> torch.Tensor:
        """Return a contiguous copy of a weight: alignment may change last bits of results."""
        return self.parameters[f"{name}.weight"].clone(memory_format=torch.contiguous_format)

    def linear(self, name: str, inputs: torch.Tensor) -> torch.Tensor:
        """Return (R, k, n, o): each branch's own linear layer applied to (R, k, n, i)."""
        weight = self.parameters[f"{name}.weight"]
        shape = *inputs.shape[:3], weight.shape[-1]

        def ahead(x: torch.Tensor) -> torch.Tensor:
            self._product(name, x, out := self.stack.keep(f"{name} out", shape))
            return out

        def back(grad: torch.Tensor) -> torch.Tensor:
            out = self.stack.keep(f"{name} back", inputs.shape)
            for operands in zip(grad, self._weight(name).transpose(-1, -2), out, strict=True):
                torch.bmm(*operands[:2], out=operands[2])
            return out

        if not self.training:
            return torch.matmul(inputs, weight) + self.parameters[f"{name}.bias"][:, :, None]
        outputs = _Compiled.apply(ahead, back, inputs)
        self._record(name, "linear", inputs, outputs)
        return outputs

    def norm(self, name: str, kind: Norm, inputs: torch.Tensor, after_selu: bool = False):
        """Return (R, k, n, h), normalised, then scaled and shifted per channel.

        ``after_selu``: apply SELU first; then no other operation may read ``inputs``, which is
        overwritten.
        """
        if not self.training:
            return self._evaluated(name, kind, functional.selu(inputs) if after_selu else inputs)
        if kind == "none":
            return self._selu(name, inputs) if after_selu else inputs
        shape = inputs.shape
        width = lanes(shape[-1])
        settings = np.float32(EPSILON), after_selu
        active, out = _array(inputs), self.stack.keep(f"{name} out", shape)
        scale, shift = (
            self.parameters[f"{name}.{part}"].contiguous().numpy() for part in ("weight", "bias")
        )
        if kind == "layer":
            standard, deviation = (
                self.stack.keep(f"{name} standard", shape),
                np.empty(shape[:3], "f4"),
            )
            moments = standard.numpy(), deviation
        else:
            standard, moments = None, (np.empty_like(scale), np.empty_like(scale))
        gradients = np.empty((2, *scale.shape), np.float32)

        def ahead(x: torch.Tensor) -> torch.Tensor:
            run = layers.layer_norm if kind == "layer" else layers.batch_norm
            run(width, *settings, active, scale, shift, *moments, out.numpy())
            return out

        def back(grad: torch.Tensor) -> torch.Tensor:
            before = self.stack.keep(f"{name} back", shape)
            given = _array(grad), active, scale, *moments
            if kind == "layer":
                layers.layer_norm_back(width, after_selu, *given, before.numpy())
            else:
                layers.batch_norm_back(width, *settings, *given, gradients, before.numpy())
            return before

        outputs = _Compiled.apply(ahead, back, inputs)
        if kind == "batch":
            n = shape[2]
            self._run(name, moments[0], moments[1] * (n / max(1, n - 1)))
            self._record(name, "batch", torch.from_numpy(gradients), outputs)
        else:
            self._record(name, "affine", standard, outputs)
        return outputs

    def _selu(self, name: str, inputs: torch.Tensor) -> torch.Tensor:
        active = _array(inputs)

        def ahead(x: torch.Tensor) -> torch.Tensor:
            layers.selu(active)
            return x

        def back(grad: torch.Tensor) -> torch.Tensor:
            before = self.stack.keep(f"{name} back", inputs.shape)
            layers.selu_back(lanes(inputs.shape[-1]), _array(grad), active, before.numpy())
            return before

        return _Compiled.apply(ahead, back, inputs)

    def _run(self, name: str, *moments: np.ndarray) -> None:
        """Update the running statistics with the batch's, mean and variance (R, k, h)."""
        for part, new in zip(("mean", "variance"), moments, strict=True):
            self.stack.running[f"{name}.{part}"].lerp_(torch.from_numpy(new), MOMENTUM)

    def _evaluated(self, name: str, kind: Norm, inputs: torch.Tensor) -> torch.Tensor:
        """``norm`` outside of training, in plain PyTorch."""
        if kind == "none":
            return inputs
        if kind == "layer":
            standard = functional.layer_norm(inputs, inputs.shape[-1:], eps=EPSILON)
        else:
            mean, variance = (
                self.stack.running[f"{name}.{part}"][:, :, None, :] for part in ("mean", "variance")
            )
            standard = (inputs - mean) * torch.rsqrt(variance + EPSILON)
        scale = self.parameters[f"{name}.weight"][:, :, None, :]
        return standard * scale + self.parameters[f"{name}.bias"][:, :, None, :]

    def joined(self, branches: torch.Tensor, normalise: bool) -> torch.Tensor:
        """Return (R, 1, n, k·h): concatenated branches of (R, k, n, h), optionally of norm 1."""
        replicas, k, n, h = branches.shape
        if not (self.training and normalise):
            side = branches.transpose(1, 2).reshape(replicas, 1, n, k * h)
            return functional.normalize(side, dim=-1) if normalise else side
        unit = self.stack.keep("joined", (replicas, 1, n, k * h))
        rows, inverse = unit.view(replicas, n * k, h).numpy(), np.empty((replicas, n), np.float32)

        def ahead(x: torch.Tensor) -> torch.Tensor:
            layers.unit_rows(lanes(h), _array(x), rows, inverse)
            return unit

        def back(grad: torch.Tensor) -> torch.Tensor:
            out, given = self.stack.keep("joined back", branches.shape), _array(grad)
            layers.unit_rows_back(lanes(h), given.reshape(rows.shape), rows, inverse, out.numpy())
            return out

        return _Compiled.apply(ahead, back, branches)


Network = Callable[[Forward], torch.Tensor]
"""Callable: forward pass → logits (R, n, C)."""


def initial(
    shapes: Mapping[str, tuple[int, ...]], streams: Sequence[PublicStreams], stage: int = 0
) -> dict[str, torch.Tensor]:
    """Return (R, …) parameters of ``shapes``: layers uniform within ±1/sqrt(inputs), norms 1 and 0.

    The shape of a layer's ``NAME.weight`` is (k, inputs, outputs), of the feature layer's (inputs,
    outputs), of a norm's (k, h).
    """
    generators = [stream.generator(f"initial {stage}") for stream in streams]
    tensors = {}
    for name, shape in shapes.items():
        layer = name.rsplit(".", 1)[0]
        if "norm" in layer:
            value = 1.0 if name.endswith("weight") else 0.0
            tensors[name] = torch.full((len(streams), *shape), value)
        else:
            bound = 1 / math.sqrt(shapes[f"{layer}.weight"][-2])
            draws = [generator.uniform(-bound, bound, shape) for generator in generators]
            tensors[name] = torch.from_numpy(np.stack(draws).astype(np.float32))
    return tensors


def running(shapes: Mapping[str, tuple[int, ...]], replicas: int) -> dict[str, torch.Tensor]:
    """Return the initial statistics of batch normalisation."""
    norms = [name.rsplit(".", 1)[0] for name in shapes if name.endswith("norm.weight")]
    stats = {}
    for name in norms:
        shape = (replicas, *shapes[f"{name}.weight"])
        stats[f"{name}.mean"], stats[f"{name}.variance"] = torch.zeros(shape), torch.ones(shape)
    return stats


CLIP_MARGIN = 1e-3
"""Relative safety margin of clipped norms below the planned clip norm. Norms are float32 sums of
at most some ten thousand squares, with a relative error below 3e-4; clipped gradients are
multiplied and added in float64."""
Step = tuple[str, str, torch.Tensor | None, torch.Tensor]
"""One layer's name, kind, inputs, and gradient of the loss by its outputs."""


def _steps(
    network: Network,
    stack: Stack,
    view: View,
    labels: torch.Tensor,
    rows: torch.Tensor | None = None,
    weight: float = 1.0,
) -> tuple[list[Step], int]:
    """Return the backward steps from the loss, times ``weight``, and the number of rows."""
    forward = Forward(stack, view, training=True)
    logits = network(forward)
    grad = stack.keep("residuals", logits.shape)
    n, classes = logits.shape[1:]
    chosen = np.arange(n) if rows is None else _indices("rows", rows.numpy(), n)
    targets = _indices("classes", labels.view(-1, len(chosen)).numpy(), classes)
    layers.residuals(_array(logits), targets, chosen, np.float32(weight), grad.numpy())
    given = {id(record.outputs): record.outputs for record in forward.recorded}
    grads = dict(zip(given, torch.autograd.grad(logits, list(given.values()), grad), strict=True))
    steps = []
    for record in forward.recorded:
        grad, inputs = grads[id(record.outputs)], record.inputs
        if record.kind == "features":
            grad = grad[:, :1]
        elif record.begin:
            grad = grad[:, record.begin :]
        steps.append((record.name, record.kind, None if inputs is None else inputs.detach(), grad))
    return steps, logits.shape[1]


def _added(
    stack: Stack, view: View, steps: Sequence[Step], coefficients: torch.Tensor | None = None
) -> torch.Tensor:
    """Return (R, P): gradients of all parameters, row i's multiplied by ``coefficients`` (R, n).

    With coefficients (clip factors) the sums are float64 (``CLIP_MARGIN``).
    """
    dtype = torch.float32 if coefficients is None else torch.float64
    flat = torch.empty_like(stack.flat, dtype=dtype)
    parts = stack.named(flat)
    for name, kind, inputs, grad in steps:
        weight, bias = parts[f"{name}.weight"], parts[f"{name}.bias"]
        if kind == "batch":
            weight.copy_(inputs[0])
            bias.copy_(inputs[1])
            continue
        if coefficients is not None:
            grad = grad.double() * _by_row(coefficients, grad)[:, None, :, None]
        if kind == "features":
            weight.copy_(view.sums(grad[:, 0]))
        elif kind == "linear":
            for operands in zip(weight, inputs.transpose(-1, -2), grad, strict=True):
                operands[0].copy_(torch.bmm(operands[1].to(dtype), operands[2]))
        else:
            weight.copy_(_column_sums(grad, inputs))
        bias.copy_(_column_sums(grad).view(bias.shape))
    return flat


def _column_sums(values: torch.Tensor, factors: torch.Tensor | None = None) -> torch.Tensor:
    """Return (R, k, h): sums over the rows of (R, k, n, h), optionally of products."""
    of = _array(values)
    out = torch.empty(*values.shape[:2], values.shape[-1], dtype=values.dtype)
    weights = of if factors is None else _array(factors)
    given = of, weights, factors is not None, out.numpy()
    if values.dtype == torch.float64:
        layers.column_sums_exactly(*given)
    else:
        layers.column_sums(lanes(out.shape[-1]), *given)
    return out


def example_gradients(
    network: Network,
    stack: Stack,
    view: View,
    labels: torch.Tensor,
    rows: torch.Tensor | None = None,
) -> tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor]]:
    """Return (R, n) squared gradient norms of the examples, and a function that sums the gradients.

    ``labels`` (R, n) or (n,). The function maps (R, n) coefficients c to Σ cᵢ gradientᵢ, (R, P).
    Norms are those of single examples if no operation mixes rows (no batch norm), except the
    adjacent rows of one example (``Stars``). The loss is that of all rows of the view, or only of
    ``rows``, to which the labels then belong.
    """
    steps, examples = _steps(network, stack, view, labels, rows)
    squares = sum(_squares(kind, inputs, grad, view, examples) for _, kind, inputs, grad in steps)
    if not (finite := torch.isfinite(squares)).all():  # a non-finite example counts as zero
        steps = [
            (name, kind, inputs if inputs is None else _without(finite, inputs),
             _without(finite, grad))
            for name, kind, inputs, grad in steps
        ]  # fmt: skip
        squares = torch.where(finite, squares, 0.0)
    return squares, lambda coefficients: _added(stack, view, steps, coefficients)


def _by_row(values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Repeat (R, n) ``values`` of examples for each of their ``rows`` (R, …, m, h)."""
    return values.repeat_interleave(rows.shape[-2] // values.shape[1], dim=1)


def _without(finite: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Set the rows of (R, k, m, h) to zero whose example is not ``finite`` (R, n)."""
    return torch.where(_by_row(finite, values)[:, None, :, None], values, 0.0)


def _squares(
    kind: str, inputs: torch.Tensor | None, grad: torch.Tensor, view: View, examples: int
) -> torch.Tensor:
    """Return (R, n) squared norms of the gradients of one layer's weight and bias."""
    if kind == "batch":
        raise ValueError("gradients of examples behind a batch norm, which mixes them")
    if grad.shape[-2] > examples:
        return _star_squares(kind, inputs, grad, view, examples)
    squares, given = torch.empty(len(grad), examples), _array(grad)
    source = given if inputs is None else _array(inputs)
    layers.row_squares(
        lanes(given.shape[-1]), lanes(source.shape[-1]), given, source,
        kind == "linear", kind == "affine", squares.numpy(),
    )  # fmt: skip
    return squares * (view.squares + 1) if kind == "features" else squares


def _star_squares(
    kind: str, inputs: torch.Tensor | None, grad: torch.Tensor, view: View, examples: int
) -> torch.Tensor:
    """``_squares`` of examples with several rows, whose gradients add up."""

    def by_example(values: torch.Tensor) -> torch.Tensor:
        return values.unflatten(-2, (examples, -1)).sum(-2).square().sum((1, -1)).float()

    grad = grad.double()  # large terms may cancel
    if kind == "features":
        return view.example_squares(grad[:, 0], examples) + by_example(grad)
    if kind == "affine":
        return by_example(grad * inputs) + by_example(grad)
    raise ValueError(f"examples of several rows at a {kind} layer; expected features or a norm")


@dataclass(frozen=True, eq=False)
class Fit:
    """Training and validation data, and learning rates."""

    train: StackInputs
    labels: np.ndarray
    """(n,) labels of ``train``."""
    rates: Sequence[float]
    """Learning rate of each replica."""
    epochs: int
    validation: StackInputs | None = None
    """Validation data: the epoch with the best score is kept; None: the last epoch."""
    validation_labels: np.ndarray | None = None
    train_rows: np.ndarray | None = None
    """Rows of ``train`` that enter the loss, if a network mixes rows; None: all."""
    validation_rows: np.ndarray | None = None
    """Rows of ``validation`` that are scored, if a network mixes rows; None: all."""
    after_epoch: Callable[[], object] = lambda: None
    """Called after every epoch."""


def _best_kept(network: Network, stack: Stack, fit: Fit, epochs: Iterator[None]) -> torch.Tensor:
    """Run ``epochs``; restore each replica's first state with the best validation score.

    Returns (epochs, R) validation scores, or (0, R) without validation data.
    """
    if fit.validation is None:
        for _ in epochs:
            fit.after_epoch()
        return torch.empty(0, len(fit.rates))
    best, snapshot, scores = None, [], []
    for _ in epochs:
        fit.after_epoch()
        score = accuracy(network, stack, fit.validation, fit.validation_labels, fit.validation_rows)
        scores.append(score)
        if best is None:
            best, snapshot = score.clone(), [tensor.clone() for tensor in stack.state()]
            continue
        better = score > best
        if better.any():
            best[better] = score[better]
            for old, new in zip(snapshot, stack.state(), strict=True):
                old[better] = new[better]
    for old, new in zip(snapshot, stack.state(), strict=True):
        new.copy_(old)
    return torch.stack(scores)


def train_whole(network: Network, stack: Stack, fit: Fit) -> torch.Tensor:
    """Train by ``epochs`` full-batch Adam steps on the mean loss; scores as ``_best_kept``."""
    adam, labels = Adam(fit.rates), torch.from_numpy(fit.labels)
    view, mean = fit.train.view(), 1 / max(1, len(labels))
    rows = None if fit.train_rows is None else torch.from_numpy(fit.train_rows)

    def epochs() -> Iterator[None]:
        for _ in range(fit.epochs):
            if len(labels):
                steps, _ = _steps(network, stack, view, labels, rows, mean)
                adam.step(stack.flat, _added(stack, view, steps))
            yield

    return _best_kept(network, stack, fit, epochs())


def train_lots(
    network: Network, stack: Stack, fit: Fit, lot: int, orders: Sequence[np.random.Generator]
) -> torch.Tensor:
    """Train by Adam on the mean loss of ``lot`` rows; scores as ``_best_kept``.

    An epoch takes each replica's rows in a random order, without a last, smaller lot.
    """
    adam, labels, n = Adam(fit.rates), torch.from_numpy(fit.labels), len(fit.labels)
    lot = min(lot, n)

    def epochs() -> Iterator[None]:
        for _ in range(fit.epochs):
            rows = torch.from_numpy(np.stack([order.permutation(n) for order in orders]))
            for start in range(0, n - lot + 1, lot) if n else ():
                index = rows[:, start : start + lot].contiguous()
                view = fit.train.view(index)
                steps, _ = _steps(network, stack, view, labels[index], None, 1 / lot)
                adam.step(stack.flat, _added(stack, view, steps))
            yield

    return _best_kept(network, stack, fit, epochs())


@dataclass(frozen=True, eq=False)
class Noisy:
    """DP-SGD settings: minibatches of ``lot`` rows on average, clipped gradients, noise."""

    lot: int
    rows: np.ndarray
    """(population,) row of the fit at each position that may join a minibatch; -1 for a position
    without a labelled example, which adds nothing."""
    descent: Descent
    lots: Literal["poisson", "whole", "fixed"] = "poisson"
    """Sampling of minibatches, see ``dpsgd.Order``."""
    clip_norm: float = 1.0
    whole: int | None = None
    """Steps of an epoch; None: the whole lots that the population has."""
    after_step: Callable[[Stack], object] = lambda stack: None
    """Called after every step with public parameters, which it may change."""
    clipped: Callable[[Stack, Sequence[np.ndarray]], torch.Tensor] | None = None
    """Callable: rows of all minibatches → (R, P) sums of clipped gradients; None: each row is an
    example."""


def steps(door: Door, queries: Sequence[Any]) -> Descent:
    """Return the noisy steps of stacked replicas."""
    return door.descent(queries, noise="gradients", dtype=np.float32, toss="count")


def train_noisy(network: Network, stack: Stack, fit: Fit, noisy: Noisy) -> torch.Tensor:
    """Train by DP-SGD with Adam; return scores as ``_best_kept``.

    Each example's gradient is clipped over all parameters together; the sum gets noise and is
    divided by ``lot``, whatever the number of rows that joined.
    """
    noisy.descent.check_clip(noisy.clip_norm)
    replicas = len(fit.rates)
    labels, population = torch.from_numpy(fit.labels), len(noisy.rows)
    adam = Adam(fit.rates, noisy.lot)
    # One width for all steps: the chunks of the sums, and so the last bits, depend on it.
    usual = min(population, noisy.lot + 6 * math.isqrt(noisy.lot))
    lots = minibatches(noisy.descent, population, min(noisy.lot, population), noisy.lots)

    def clipped(places: Sequence[np.ndarray]) -> torch.Tensor:
        drawn = [rows[rows >= 0] for rows in (noisy.rows[lane] for lane in places)]
        if noisy.clipped is not None:
            return noisy.clipped(stack, drawn)
        widest = max(usual, *map(len, drawn))
        if not len(labels):  # a private fact: noise alone updates them
            return torch.zeros_like(stack.flat, dtype=torch.float64)
        index, present = np.zeros((replicas, widest), np.int64), np.zeros((replicas, widest), bool)
        for replica, rows in enumerate(drawn):
            index[replica, : len(rows)], present[replica, : len(rows)] = rows, True
        chosen = torch.from_numpy(index)
        squares, add = example_gradients(network, stack, fit.train.view(chosen), labels[chosen])
        clip = clip_factors(squares, noisy.clip_norm, CLIP_MARGIN)
        return add(torch.where(torch.from_numpy(present), clip, 0.0))

    def epochs() -> Iterator[None]:
        whole = noisy.whole or max(1, population // noisy.lot)
        for _ in range(fit.epochs):
            for _ in descend(stack.flat, clipped, noisy.descent, adam, whole, lots, population):
                noisy.after_step(stack)
            yield

    scores = _best_kept(network, stack, fit, epochs())
    noisy.descent.public("parameters of the epoch that is kept", stack.flat)
    return scores


def outputs(network: Network, stack: Stack, inputs: StackInputs) -> torch.Tensor:
    """Return (R, N, C) logits."""
    with torch.no_grad():
        return network(Forward(stack, inputs.view(), training=False))


def predictions(network: Network, stack: Stack, inputs: StackInputs) -> np.ndarray:
    """Return (R, N) classes."""
    return outputs(network, stack, inputs).argmax(-1).numpy()


def accuracy(
    network: Network,
    stack: Stack,
    inputs: StackInputs,
    labels: np.ndarray,
    rows: np.ndarray | None = None,
) -> torch.Tensor:
    """Return (R,) accuracies on all rows, or on ``rows``, to which ``labels`` then belong."""
    classes = predictions(network, stack, inputs)
    classes = classes if rows is None else classes[:, rows]
    return torch.from_numpy(classes == labels).float().mean(-1)
