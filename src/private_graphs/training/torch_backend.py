"""The training step in PyTorch with autograd: what a GPU runs, and the oracle of the CPU kernels.

All visits of a step are stacked, padded to equal numbers of rows; each visit gets its own copy of
its replica's parameters, so that one backward pass yields the gradient of every visit (a part of
one replica) apart. Graphs, blocks and keys go to the device once, the numbers of the blocks to
visit once per epoch, scores come back once per evaluation: in between nothing is transferred and
nothing waits for the device. Sums run over sorted rows, never by atomic additions, so that a device
repeats its results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional

from private_graphs.training import torch_noise
from private_graphs.training.kernels import Blocks, Inputs, Rule, State, Step, n_parameters

_CPU_ROOM = 2**32
_LAYERS = ("rows0", "rows1", "rows2")


def free_bytes(device: torch.device) -> int:
    """Memory that the device has left; a fixed amount on the CPU, whose jobs are bounded apart."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else _CPU_ROOM


def chunks_that_fit(sizes: Sequence[int] | np.ndarray, room: int) -> list[slice]:
    """Cut ``sizes`` into consecutive chunks of at most ``room`` in all, or of one alone."""
    cuts, total = [0], 0
    for number, size in enumerate(sizes):
        if total + size > room and number > cuts[-1]:
            cuts.append(number)
            total = 0
        total += size
    return [slice(*ends) for ends in zip(cuts, [*cuts[1:], len(sizes)], strict=True)]


class _Rows(NamedTuple):
    """A sparse matrix as PyTorch's ``embedding_bag`` reads it."""

    indices: torch.Tensor  # (nnz,) int64
    offsets: torch.Tensor  # (rows + 1,) int64
    values: torch.Tensor | None  # (nnz,); None: ones

    def __matmul__(self, dense: torch.Tensor) -> torch.Tensor:
        return functional.embedding_bag(
            self.indices, dense, self.offsets, mode="sum", per_sample_weights=self.values,
            include_last_offset=True,
        )  # fmt: skip


class _Product(torch.autograd.Function):
    """``matrix @ dense`` whose gradient gathers too: PyTorch's own would wait for the device."""

    @staticmethod
    def forward(ctx, dense: torch.Tensor, matrix: _Rows, transposed: _Rows) -> torch.Tensor:
        ctx.transposed = transposed
        return matrix @ dense

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return ctx.transposed @ gradient.contiguous(), None, None


class _Stack(NamedTuple):
    """V visits, each padded to the most rows of any."""

    features: tuple[_Rows, _Rows]  # (V * most rows0) x (V * words), and transposed
    first: tuple[_Rows, _Rows]  # (V * most rows1) x (V * most rows0)
    second: tuple[_Rows, _Rows]  # (V * most rows2) x (V * most rows1)
    labels: torch.Tensor  # (V, most rows2)
    weights: torch.Tensor  # (V, most rows2) of a row's loss: its visit's mean, 0 where padded


@dataclass
class _Group:
    """Replicas that make a step together, and their V visits, on host and device."""

    visits: np.ndarray
    noisy: bool
    replicas: torch.Tensor  # (A,)
    starts: torch.Tensor  # (A + 1,) where visits of each replica start
    owners: torch.Tensor  # (V,) replica of each visit
    units: torch.Tensor  # (V,) first dropout unit of each visit: a replica's visits share none
    blocks: torch.Tensor  # (V,)


class _Kept(dict[bytes, tuple[_Stack, int]]):
    """Stacks by their visits; the eldest leave once all hold more than ``room`` bytes."""

    def __init__(self, room: int) -> None:
        self.room = room

    def get_or_make(self, visits: np.ndarray, make, size: int) -> _Stack:
        stack, _ = self.pop(visits.tobytes(), None) or (make(), size)
        self[visits.tobytes()] = stack, size
        while len(self) > 1 and sum(size for _, size in self.values()) > self.room:
            del self[next(iter(self))]
        return stack


class TorchBackend:
    """Same contract as ``CpuBackend``; parameters stay on ``device`` between steps."""

    def __init__(
        self, inputs: Inputs, blocks: Blocks, rule: Rule, state: State, device: str
    ) -> None:
        self.inputs, self.rule, self.hidden = inputs, rule, inputs.n_hidden
        self.device = torch.device(device)
        room = free_bytes(self.device)
        self.room = room // 2
        self.theta = torch.from_numpy(state.parameters.copy()).to(self.device)
        self.dtype = self.theta.dtype
        self.m, self.v = torch.zeros_like(self.theta), torch.zeros_like(self.theta)
        self.best = self.theta.clone()
        self.learning_rate = self._sent(state.learning_rate).to(self.dtype)[:, None]
        self.noise_std = self._sent(state.noise_std)[:, None]  # float64
        self.noisy = state.noise_std > 0
        self.noise_key, self.dropout_key = (
            self._sent(key.astype(np.int64)) for key in (state.noise_key, state.dropout_key)
        )
        self.used = n_parameters(inputs.n_features, inputs.n_hidden, inputs.n_classes)
        self.n_rows, self.nonzeros = self._sizes(inputs, blocks)
        self.on_device = {
            name: self._sent(getattr(blocks, name))
            for name in (*_LAYERS, *(f"{name}_start" for name in _LAYERS), "graph")
        }
        self.matrices = {
            name: [
                self._sent(getattr(inputs, f"{name}_{part}"))
                for part in ("pointers", "indices", "values")
            ]
            for name in ("x", "a")
        }
        self.labels = self._sent(inputs.labels)
        self.trained, self.scored = _Kept(room // 8), _Kept(room // 8)
        self.sent, self.groups = np.zeros(0, np.int64), {}

    def _sent(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    @staticmethod
    def _sizes(inputs: Inputs, blocks: Blocks) -> tuple[np.ndarray, np.ndarray]:
        """Rows of each layer (3, B), and non-zeros that they select of features and graph."""
        rows, nonzeros = [], []
        for name in _LAYERS:
            nodes, starts = getattr(blocks, name), getattr(blocks, f"{name}_start")
            graph = np.repeat(blocks.graph, np.diff(starts))
            if name == "rows0":
                lengths = np.diff(inputs.x_pointers)[nodes]
            else:
                lengths = np.diff(inputs.a_pointers, axis=1)[graph, nodes]
            rows.append(np.diff(starts))
            nonzeros.append(np.diff(np.concatenate([[0], np.cumsum(lengths)])[starts]))
        return np.array(rows), np.array(nonzeros)

    def _bytes(self, visits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bytes (V,) of each visit: of its stack, and of what a step takes beside it.

        From above: a non-zero is held twice and sorted once, a hidden unit has six copies and 16
        bytes of a random draw, a parameter six and a float64 sum.
        """
        number = self.theta.element_size()
        nonzeros = self.nonzeros[:, visits].sum(axis=0)
        rows = self.n_rows[:, visits].max(axis=1, initial=0)
        stack = nonzeros * 2 * (8 + number) + 8 * int(rows.sum() + self.inputs.n_features)
        units = int(rows.sum()) * self.hidden
        return stack, nonzeros * 48 + units * (6 * number + 16) + self.used * (6 * number + 48)

    def begin(self, steps: Sequence[Step]) -> None:
        """Send what the coming steps visit; nothing where it is what the last ones visited."""
        parts, made = [], []
        for step in steps:
            owner = np.repeat(np.arange(len(step.replicas)), np.diff(step.visit_start))
            seen = self.n_rows[2, step.visits] > 0  # without labels the gradient is zero
            owner, visits = owner[seen], step.visits[seen]
            starts = np.searchsorted(owner, np.arange(len(step.replicas) + 1))
            sizes = np.concatenate([[0], np.cumsum(np.sum(self._bytes(visits), axis=0))])[starts]
            for chunk in chunks_that_fit(np.diff(sizes), self.room):
                first, last = starts[chunk.start], starts[chunk.stop]
                taken, of = visits[first:last], owner[first:last]
                units = -(-self.n_rows[1, taken] * self.hidden // 16)
                before = np.concatenate([[0], np.cumsum(units)])
                local = starts[chunk.start : chunk.stop + 1] - first
                used = before[:-1] - before[local[of - chunk.start]]
                replicas = step.replicas[chunk]
                made.append((step.number, taken, bool(self.noisy[replicas].any())))
                parts += [replicas, local, step.replicas[of], used, taken]
        flat = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        if not np.array_equal(flat, self.sent):
            self.sent, self.received = flat, self._sent(flat)
        arrays = self.received.split([len(each) for each in parts])
        self.groups = {}
        for number, (step, *host) in enumerate(made):
            group = _Group(*host, *arrays[5 * number : 5 * number + 5])
            self.groups.setdefault(step, []).append(group)

    def _ranges(
        self, starts: torch.Tensor, lengths: torch.Tensor, total: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Concatenate the ranges [start, start + length): owners, places within, numbers."""
        owners = torch.repeat_interleave(lengths, output_size=total)
        within = torch.arange(total, device=self.device) - (lengths.cumsum(0) - lengths)[owners]
        return owners, within, starts[owners] + within

    def _sparse(self, indices, rows, values, shape: tuple[int, int]) -> tuple[_Rows, _Rows]:
        """A matrix of ``shape`` and its transpose, from entries sorted by row."""
        found = []
        for _ in range(2):
            ends = torch.arange(shape[0] + 1, device=self.device)
            found.append(_Rows(indices, torch.searchsorted(rows, ends), values))
            order = indices.sort(stable=True)
            indices, rows, values = rows[order.indices], order.values, values[order.indices]
            shape = shape[::-1]
        return found[0], found[1]

    def _stacked(self, visits: np.ndarray, blocks: torch.Tensor) -> _Stack:
        """Stack the blocks of ``visits``, whose numbers are ``blocks`` on the device."""
        count, nodes_in_all = len(visits), len(self.labels)
        totals, nonzeros = self.n_rows[:, visits].sum(axis=1), self.nonzeros[:, visits].sum(axis=1)
        widths = [self.inputs.n_features, *self.n_rows[:, visits].max(axis=1).tolist()]
        below, matrices = None, []  # below: sorted keys of the rows that a layer's entries select
        for layer, name in enumerate(_LAYERS):
            starts = self.on_device[f"{name}_start"]
            first, lengths = starts[blocks], starts[blocks + 1] - starts[blocks]
            visit, within, number = self._ranges(first, lengths, int(totals[layer]))
            nodes = self.on_device[name][number].long()
            pointers, indices, values = self.matrices["a" if layer else "x"]
            if layer:
                pointers = pointers.flatten()
                row = self.on_device["graph"][blocks][visit] * (nodes_in_all + 1) + nodes
            else:
                row = nodes
            entries = self._ranges(
                pointers[row], pointers[row + 1] - pointers[row], int(nonzeros[layer])
            )
            of = visit[entries[0]]
            column = indices[entries[2]].long()
            if below is not None:
                keys, before = below
                column = torch.searchsorted(keys, of * nodes_in_all + column) - before[of]
            placed = visit * widths[layer + 1] + within
            matrices.append(
                self._sparse(
                    of * widths[layer] + column, placed[entries[0]], values[entries[2]],
                    (count * widths[layer + 1], count * widths[layer]),
                )
            )  # fmt: skip
            below = visit * nodes_in_all + nodes, lengths.cumsum(0) - lengths
        labels = torch.zeros(count * widths[3], dtype=torch.int64, device=self.device)
        weights = torch.zeros(count * widths[3], dtype=self.dtype, device=self.device)
        labels[placed] = self.labels[nodes].long()
        weights[placed] = (1 / lengths.to(self.dtype))[visit]
        shape = (count, widths[3])
        return _Stack(*matrices, labels.view(shape), weights.view(shape))

    def _logits(
        self, stack: _Stack, theta: torch.Tensor, drop: torch.Tensor | None
    ) -> torch.Tensor:
        """Logits (V, rows, classes) of all visits; ``theta`` is (V, P), ``drop`` hidden units."""
        f, h, k = self.inputs.n_features, self.hidden, self.inputs.n_classes
        first, bias1, second, bias2 = theta[:, : self.used].split([f * h, h, h * k, k], dim=1)
        z0 = _Product.apply(first.reshape(-1, h), *stack.features)
        hidden = _Product.apply(z0, *stack.first).unflatten(0, (len(theta), -1))
        hidden = torch.relu(hidden + bias1[:, None])
        if drop is not None:
            hidden = hidden.masked_fill(drop.view(hidden.shape), 0.0) * self.rule.keep_scale
        y = (hidden @ second.unflatten(1, (h, k))).flatten(0, 1)
        return _Product.apply(y, *stack.second).unflatten(0, (len(theta), -1)) + bias2[:, None]

    def _loss(self, logits: torch.Tensor, stack: _Stack) -> torch.Tensor:
        """Mean cross-entropy (V,) of every visit."""
        losses = functional.cross_entropy(logits.transpose(1, 2), stack.labels, reduction="none")
        return torch.where(stack.weights > 0, losses * stack.weights, 0.0).sum(dim=1)

    def prepare(self) -> None:
        """Nothing to compile."""

    def train_step(self, step: Step) -> np.ndarray:
        """One step of every replica of ``step``, announced by ``begin``; scores no row."""
        for group in self.groups[step.number]:
            shape = (len(group.replicas), self.theta.shape[1])
            total = torch.zeros(shape, dtype=torch.float64, device=self.device)
            if len(group.visits):
                visits = torch.arange(len(group.visits), device=self.device)
                gradients = self._clipped(step, group).double()
                total = _Rows(visits, group.starts, None) @ gradients
            self._update(step, group, self._noisy(step, group, total) / self.rule.divisor)
        return np.zeros(0)

    def _clipped(self, step: Step, group: _Group) -> torch.Tensor:
        """Clipped gradients (V, P); non-finite ones are zero (docs/privacy.md §2)."""
        visits, drop = group.visits, None
        stack = self.trained.get_or_make(
            visits, lambda: self._stacked(visits, group.blocks), int(self._bytes(visits)[0].sum())
        )
        if step.dropout:
            units = int(self.n_rows[1, visits].max()) * self.hidden
            keys = self.dropout_key[group.owners]
            drawn = torch_noise.random_bytes(keys, step.number, group.units, units)
            drop = drawn < self.rule.keep_threshold
        theta = self.theta[group.owners].requires_grad_()
        loss = self._loss(self._logits(stack, theta, drop), stack).sum()
        (gradients,) = torch.autograd.grad(loss, theta)
        norms = gradients.norm(dim=1, keepdim=True)
        margin = 1e-5 if self.dtype == torch.float32 else 1e-12
        factors = (self.rule.clip / (norms * (1 + margin))).clamp(max=1.0)
        return torch.where(torch.isfinite(norms), gradients * factors, 0.0)

    def _noisy(self, step: Step, group: _Group, total: torch.Tensor) -> torch.Tensor:
        """Return ``total`` (A, P) float64 with the noise of the step, in the parameters' type.

        Sums of several visits get their noise before they are rounded; a single visit's gradient
        is of the parameters' type, and so is its noise.
        """
        if not group.noisy:
            return total.to(self.dtype)
        std, keys = self.noise_std[group.replicas], self.noise_key[group.replicas]
        normals = torch_noise.normals(keys, step.number, total.shape[1], self.dtype)
        single = total.to(self.dtype) + std.to(self.dtype) * normals
        several = (group.starts.diff() > 1)[:, None]
        return torch.where(several, (total + std * normals).to(self.dtype), single)

    def _update(self, step: Step, group: _Group, mean: torch.Tensor) -> None:
        rule, t, rows = self.rule, step.number, group.replicas
        gradient = mean + rule.weight_decay * self.theta[rows]
        if not rule.adam:
            self.theta[rows] -= self.learning_rate[rows] * gradient
            return
        self.m[rows] = 0.9 * self.m[rows] + 0.1 * gradient
        self.v[rows] = 0.999 * self.v[rows] + 0.001 * gradient**2
        rate = self.learning_rate[rows] / (1 - 0.9 ** (t + 1))
        root = (self.v[rows] / (1 - 0.999 ** (t + 1))).sqrt()
        self.theta[rows] -= rate * self.m[rows] / (root + 1e-8)

    @torch.no_grad()
    def evaluate(self, replicas: np.ndarray, block_of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean cross-entropy (A,) and predictions (A, M) of ``replicas`` on their blocks."""
        sizes, found = np.sum(self._bytes(block_of), axis=0), []
        rows, blocks = self._sent(np.stack([replicas, block_of]))
        most = int(self.n_rows[2, block_of].max(initial=0))
        if most == 0:
            return np.zeros(len(replicas)), np.zeros((len(replicas), 0), np.int32)
        for chunk in chunks_that_fit(sizes, self.room):
            visits, of = block_of[chunk], blocks[chunk]
            stack = self.scored.get_or_make(
                visits, lambda of=of, visits=visits: self._stacked(visits, of),
                int(self._bytes(visits)[0].sum()),
            )  # fmt: skip
            logits = self._logits(stack, self.theta[rows[chunk]], None)
            loss = self._loss(logits, stack).double()[:, None].view(torch.int32)
            classes = functional.pad(logits.argmax(2).int(), (0, most - logits.shape[1]))
            found.append(torch.cat([loss, classes], dim=1))
        scores = torch.cat(found).cpu().numpy()  # the only transfer: losses in two words each
        return scores[:, :2].copy().view(np.float64)[:, 0], scores[:, 2:].copy()

    def keep_best(self, replicas: np.ndarray) -> None:
        """Remember the present parameters of ``replicas``."""
        rows = self._sent(replicas)
        self.best[rows] = self.theta[rows]

    def restore_best(self) -> None:
        """Go back to the remembered parameters."""
        self.theta = self.best.clone()

    def parameters(self) -> np.ndarray:
        """Return (R, P) without the unused ends of the rows."""
        return self.theta[:, : self.used].cpu().numpy()
