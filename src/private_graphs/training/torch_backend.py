"""PyTorch back end of the engine: what a GPU runs, and the reference of the CPU kernels.

All visits of a step are stacked, padded to equal numbers of rows; each visit gets its own copy of
its replica's parameters, so that one backward pass of autograd yields the gradient of every visit
(a part of one replica) separately. Replicas that all visit the same block share one matrix, and are
adjacent columns of its product. Graphs, blocks and keys are sent to the device once, the numbers of
the blocks to visit once per epoch, and scores return once per evaluation: in between there is no
transfer and no wait for the device. Sums run over sorted rows, never by atomic additions, so that a
device repeats its results. On CUDA a step with repeated shapes is one graph of kernels, launched at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from private_graphs.training import torch_noise
from private_graphs.training.kernels import Blocks, Inputs, Rule, State, Step, n_parameters

_CPU_ROOM = 2**32
_LAYERS = ("rows0", "rows1", "rows2")
_DENSE = 1 / 32
"""Share of non-zeros from which features are multiplied as a dense matrix: about the point where
both take equally long on an H100."""
_FILLED = 64
"""Number of entries in a padding row."""
_CAPTURE_AT = 10
"""Number of calls with equal shapes after which they become one CUDA graph: capturing takes as
long as many calls."""


def free_bytes(device: torch.device) -> int:
    """Free device memory in bytes; a constant on the CPU, where ``mem_mb`` limits jobs."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else _CPU_ROOM


def chunks_that_fit(sizes: Sequence[int] | np.ndarray, room: int) -> list[slice]:
    """Cut ``sizes`` into consecutive chunks of total at most ``room``, or of one element."""
    cuts, total = [0], 0
    for number, size in enumerate(sizes):
        if total + size > room and number > cuts[-1]:
            cuts.append(number)
            total = 0
        total += size
    return [slice(*ends) for ends in zip(cuts, [*cuts[1:], len(sizes)], strict=True)]


class _SparseRows(NamedTuple):
    """Sparse matrix in the format of PyTorch's ``embedding_bag``."""

    indices: torch.Tensor  # (nnz,)
    offsets: torch.Tensor  # (rows + 1,), of the type of the indices
    values: torch.Tensor | None  # (nnz,); None: ones

    def __matmul__(self, dense: torch.Tensor) -> torch.Tensor:
        return functional.embedding_bag(
            self.indices, dense, self.offsets, mode="sum", per_sample_weights=self.values,
            include_last_offset=True,
        )  # fmt: skip


class _SparseProduct(torch.autograd.Function):
    """``matrix @ dense`` whose gradient also gathers: PyTorch's own would wait for the device.

    ``dense`` is (stacked, rows, columns); additional rows of a transposed matrix are dropped.
    """

    @staticmethod
    def forward(
        ctx, dense: torch.Tensor, matrix: _SparseRows, transposed: _SparseRows
    ) -> torch.Tensor:
        ctx.transposed, ctx.rows = transposed, dense.shape[1]
        return (matrix @ dense.flatten(0, 1)).unflatten(0, (len(dense), -1))

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        product = ctx.transposed @ gradient.flatten(0, 1).contiguous()
        return product.unflatten(0, (len(gradient), -1))[:, : ctx.rows], None, None


class _Padded(NamedTuple):
    """Sparse matrices of B blocks, padded to equal numbers of rows and of entries.

    Padding entries are zero and lie in padding rows, few in each: all other rows would wait for a
    long one.
    """

    indices: torch.Tensor  # (B, entries) int32 columns
    offsets: torch.Tensor  # (B, rows) int32
    values: torch.Tensor  # (B, entries)
    width: int  # rows of the matrix that each is multiplied with

    def stacked(self, places: torch.Tensor) -> _SparseRows:
        """Return the block-diagonal matrix of the matrices ``places`` (G,)."""
        entries = self.indices.shape[1]
        if len(self.indices) == 1:
            offsets = functional.pad(self.offsets[0], (0, 1), value=entries)
            return _SparseRows(self.indices[0], offsets, self.values[0])
        kind = torch.int32 if len(places) * max(entries, self.width) < 2**31 else torch.int64
        number = torch.arange(len(places), dtype=kind, device=places.device)[:, None]
        indices = self.indices[places] + number * self.width
        offsets = (self.offsets[places] + number * entries).flatten()
        offsets = functional.pad(offsets, (0, 1), value=len(places) * entries)
        return _SparseRows(indices.flatten(), offsets, self.values[places].flatten())


class _Shelf(NamedTuple):
    """Blocks that are visited together, padded to their largest numbers of rows and entries."""

    blocks: np.ndarray  # (B,) block numbers, sorted
    features: tuple[_Padded, _Padded] | torch.Tensor  # with transposes; dense: (B, rows0) nodes
    first: tuple[_Padded, _Padded]  # rows1 x rows0
    second: tuple[_Padded, _Padded]  # rows2 x rows1
    labels: torch.Tensor  # (B, rows2)
    weights: torch.Tensor  # (B, rows2) of a row's loss: the mean over its visit, 0 for padding


def _graph_pool(clock: torch.Tensor) -> Any:
    """Return the memory pool of CUDA graphs, which never run concurrently; None on the CPU.

    The pool lives as long as a graph in it: an empty graph is kept with it.
    """
    if clock.device.type != "cuda":
        return None
    handle, keeper = torch.cuda.graph_pool_handle(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(keeper, pool=handle):
        clock.add_(0)
    return handle, keeper


def _captured(
    pool: Any, function: Callable[..., torch.Tensor | None], inputs: Sequence[torch.Tensor]
) -> Callable[[], torch.Tensor | None]:
    """Capture ``function`` of ``inputs``, read anew in each replay, as one CUDA graph.

    All other tensors that it reads or writes must stay in place, and Python numbers are constants.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool[0]):
        output = function(*inputs)

    def replay() -> torch.Tensor | None:
        graph.replay()
        return output

    return replay


class _Repeated:
    """A function of tensors of fixed shapes, captured as a CUDA graph after repeated calls.

    The function is an argument of every call and not stored: its owner would then refer to itself,
    and keep the device's memory until Python collects cycles.
    """

    def __init__(self, pool: Any) -> None:
        self.pool, self.calls, self.replay = pool, 0, None

    def __call__(
        self, function: Callable[..., torch.Tensor | None], *tensors: torch.Tensor
    ) -> torch.Tensor | None:
        self.calls += 1
        if self.pool is None or self.calls < _CAPTURE_AT:
            return function(*tensors)
        if self.replay is None:
            self.inputs = [tensor.clone() for tensor in tensors]
            self.replay = _captured(self.pool, function, self.inputs)
        for buffer, given in zip(self.inputs, tensors, strict=True):
            buffer.copy_(given)
        return self.replay()


@dataclass
class _Group:
    """A replicas that take a step together, with V visits in all."""

    noisy: bool
    several: bool
    """Whether any replica has a number of visits other than one."""
    replicas: torch.Tensor  # (A,)
    starts: torch.Tensor  # (A + 1,) where the visits of each replica start
    owners: torch.Tensor  # (V,) replica of each visit
    dropout: bool
    shelf: _Shelf | None
    blocks: np.ndarray
    """Blocks of the padded matrices that are built anew for every step, if none are kept."""
    repeated: _Repeated


class _Visits(NamedTuple):
    """Visits of a group in one step."""

    group: _Group
    places: torch.Tensor  # (V,) index of the visited block among the padded ones
    units: torch.Tensor  # (V,) first dropout unit of each visit; visits of a replica share none


class TorchBackend:
    """PyTorch back end with the interface of ``CpuBackend``; parameters stay on ``device``."""

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
        self.clock = torch.zeros((), dtype=torch.int64, device=self.device)
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
        self.part = blocks.part
        self.dense = self._dense(room)
        self.largest_shelf = room // 8  # building one takes several times its size
        self.trained = self.scored = None
        self.sent, self.groups, self.visits = None, {}, {}
        self.scorers: dict[bytes, tuple[_Repeated, _Shelf | None, list[torch.Tensor]]] = {}
        self.pool = _graph_pool(self.clock)

    def _sent(self, array: np.ndarray) -> torch.Tensor:
        host = torch.from_numpy(np.ascontiguousarray(array))
        if self.device.type == "cuda":  # pageable memory would wait for the device
            host = host.pin_memory()
        return host.to(self.device, non_blocking=True)

    def _dense(self, room: int) -> torch.Tensor | None:
        """Return dense features (N + 1, F), the last row zero; None if too sparse or too large."""
        pointers, indices, values = self.matrices["x"]
        shape = len(pointers), self.inputs.n_features
        cells = shape[0] * shape[1]
        if len(values) < _DENSE * cells or cells * self.theta.element_size() > room // 8:
            return None
        rows, _, _ = self._ranges(pointers[:-1], pointers.diff(), len(values))
        dense = torch.zeros(shape, dtype=self.dtype, device=self.device)
        dense[rows, indices.long()] = values
        return dense

    @staticmethod
    def _sizes(inputs: Inputs, blocks: Blocks) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of each layer (3, B), and the non-zeros of features and graph in them."""
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

    def _held(self, blocks: np.ndarray) -> int:
        """Return the bytes of padded ``blocks``: each entry is stored twice."""
        number = self.theta.element_size()
        rows = self.n_rows[:, blocks].max(axis=1, initial=0)
        entries = int(self.nonzeros[self.dense is not None :, blocks].max(axis=1, initial=0).sum())
        per_block = entries * 2 * (4 + number) + 16 * int(rows.sum() + self.inputs.n_features)
        return len(blocks) * per_block

    def _bytes(self, visits: np.ndarray, shelf: _Shelf | None) -> int:
        """Return an upper bound of a step's bytes for each of ``visits``.

        An entry is copied from the padded blocks if there are several, and sorted if these are
        built for the step. A row of dense features is copied; a hidden unit has eight copies and 16
        bytes of random draws; a parameter has six copies and a float64 sum.
        """
        number = self.theta.element_size()
        blocks = visits if shelf is None else shelf.blocks
        most = self.nonzeros[self.dense is not None :, blocks].max(axis=1, initial=0)
        rows = self.n_rows[:, blocks].max(axis=1, initial=0) + most.max() // _FILLED + 1
        per_entry = 96 if shelf is None else 24 if len(shelf.blocks) > 1 else 0
        units = int(rows.sum()) * self.hidden
        dense = 0 if self.dense is None else int(rows[0]) * self.inputs.n_features * number
        taken = int(most.sum()) * per_entry + units * (8 * number + 16) + dense
        return taken + self.used * (6 * number + 48)

    def _shelf_of(self, blocks: np.ndarray, last: _Shelf | None) -> _Shelf | None:
        """Return padded ``blocks``: ``last`` if it contains them; None for none or too many."""
        if not len(blocks):
            return None
        if last is not None and np.isin(blocks, last.blocks).all():
            return last
        return self._shelf(blocks) if self._held(blocks) <= self.largest_shelf else None

    def begin(self, steps: Sequence[Step]) -> None:
        """Send the block numbers of the coming steps, unless they equal the last ones."""
        blocks = np.unique(np.concatenate([step.visits for step in steps]))
        blocks = blocks[self.n_rows[2, blocks] > 0]  # without labels the gradient is zero
        self.trained = self._shelf_of(blocks, self.trained)
        parts, pairs, groups = [], [], {}
        for step in steps:
            owner = np.repeat(np.arange(len(step.replicas)), np.diff(step.visit_start))
            seen = np.isin(step.visits, blocks)
            owner, visits = owner[seen], step.visits[seen]
            starts = np.searchsorted(owner, np.arange(len(step.replicas) + 1))
            noise = self.used * 64  # also for a replica without visits
            sizes = np.diff(starts) * self._bytes(visits, self.trained) + noise
            for chunk in chunks_that_fit(sizes, self.room):
                first, last = starts[chunk.start], starts[chunk.stop]
                taken, of = visits[first:last], owner[first:last]
                replicas, local = step.replicas[chunk], starts[chunk.start : chunk.stop + 1] - first
                shelf = self.trained
                numbers = np.unique(taken) if shelf is None else shelf.blocks
                key = (replicas.tobytes(), local.tobytes(), numbers.tobytes(), step.dropout)
                if key not in groups:
                    groups[key] = self.groups.get(key) or self._group(
                        replicas, local, step.replicas[of], step.dropout, numbers
                    )
                units = -(-self.n_rows[1, taken] * self.hidden // 16)
                before = np.concatenate([[0], np.cumsum(units)])
                used = before[:-1] - before[local[of - chunk.start]]
                if self.rule.apart:
                    used = self.part[taken] * self.rule.apart
                pairs.append((step.number, groups[key]))
                parts += [np.searchsorted(numbers, taken), used]
        flat = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        if not np.array_equal(flat, self.sent):
            self.sent, self.received = flat, self._sent(flat)
        arrays = self.received.split([len(part) for part in parts])
        self.groups, self.visits = groups, {}
        for number, (step, group) in enumerate(pairs):
            visits = _Visits(group, *arrays[2 * number : 2 * number + 2])
            self.visits.setdefault(step, []).append(visits)

    def _group(
        self, replicas: np.ndarray, starts: np.ndarray, owners: np.ndarray, dropout: bool,
        blocks: np.ndarray,
    ) -> _Group:  # fmt: skip
        """Return the group of replicas that step together; ``blocks`` are the padded ones."""
        return _Group(  # type: ignore[call-arg]
            bool(self.noisy[replicas].any()), bool((np.diff(starts) != 1).any()),
            *map(self._sent, (replicas, starts, owners)), dropout, self.trained, blocks,
            _Repeated(None if self.trained is None else self.pool),
        )  # fmt: skip

    def _ranges(
        self, starts: torch.Tensor, lengths: torch.Tensor, total: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Concatenate the ranges [start, start + length): owners, offsets within, numbers."""
        owners = torch.repeat_interleave(lengths, output_size=total)
        within = torch.arange(total, device=self.device) - (lengths.cumsum(0) - lengths)[owners]
        return owners, within, starts[owners] + within

    def _padded(
        self, of: torch.Tensor, places: tuple[torch.Tensor, torch.Tensor], values: torch.Tensor,
        counts: np.ndarray, real: Sequence[np.ndarray], heights: Sequence[int], width: int,
    ) -> tuple[_Padded, _Padded]:  # fmt: skip
        """Return padded matrices and their transposes, from entries sorted by block and row.

        Entry i belongs to block ``of[i]`` and is at (row, column) ``places``; ``counts`` are
        entries per block. Blocks have ``real`` rows and columns, and are padded to ``heights``;
        ``width``: rows of the matrices that they are multiplied with.
        """
        blocks, most, matrices = len(counts), int(counts.max(initial=0)), []
        before = self._sent(np.cumsum(counts) - counts)
        slots = of * most + torch.arange(len(of), device=self.device) - before[of]
        row, column = places
        for rows, height, columns in zip(real, heights, (width, heights[0]), strict=True):
            ends = torch.arange(height, device=self.device)
            starts = torch.arange(blocks, device=self.device)[:, None] * height
            offsets = torch.searchsorted(of * height + row, starts + ends) - before[:, None]
            filled = (ends - self._sent(rows)[:, None]).clamp(min=0) * _FILLED
            offsets = (offsets + filled).clamp(max=most)
            indices = torch.zeros(blocks * most, dtype=torch.int32, device=self.device)
            entries = torch.zeros(blocks * most, dtype=values.dtype, device=self.device)
            indices[slots], entries[slots] = column.int(), values
            matrix = indices.view(blocks, -1), offsets.int(), entries.view(blocks, -1), columns
            matrices.append(_Padded(*matrix))
            order = (of * width + column).sort(stable=True).indices
            row, column, values = column[order], row[order], values[order]
        return matrices[0], matrices[1]

    def _shelf(self, numbers: np.ndarray) -> _Shelf:
        """Build the padded matrices of the blocks ``numbers``."""
        count, nodes_in_all = len(numbers), len(self.labels)
        blocks = self._sent(numbers)
        # Sizes of words, rows0, rows1 and rows2: each is rows of one matrix and columns of the
        # next, with room for the padding entries of both.
        real = [np.full(count, self.inputs.n_features), *self.n_rows[:, numbers]]
        counts = self.nonzeros[:, numbers]
        if self.dense is not None:
            counts[0] = 0
        filling = [0, *-(-np.ptp(counts, axis=1) // _FILLED), 0]
        widths = [
            int(rows.max() + max(either))
            for rows, either in zip(real, pairwise(filling), strict=True)
        ]
        below, matrices = None, []  # below: sorted keys of the rows that a layer's entries select
        for layer, name in enumerate(_LAYERS):
            starts = self.on_device[f"{name}_start"]
            first, lengths = starts[blocks], starts[blocks + 1] - starts[blocks]
            block, within, number = self._ranges(
                first, lengths, int(self.n_rows[layer, numbers].sum())
            )
            nodes = self.on_device[name][number].long()
            pointers, indices, values = self.matrices["a" if layer else "x"]
            if layer:
                pointers = pointers.flatten()
                row = self.on_device["graph"][blocks][block] * (nodes_in_all + 1) + nodes
            else:
                row = nodes
            if layer == 0 and self.dense is not None:
                shape = count, widths[1]
                chosen = torch.full(shape, nodes_in_all, dtype=torch.int64, device=self.device)
                chosen[block, within] = nodes
                matrices.append(chosen)
            else:
                owners, _, entries = self._ranges(
                    pointers[row], pointers[row + 1] - pointers[row], int(counts[layer].sum())
                )
                of = block[owners]
                column = indices[entries].long()
                if below is not None:
                    keys, before = below
                    column = torch.searchsorted(keys, of * nodes_in_all + column) - before[of]
                width = widths[layer] if layer else self.inputs.n_features
                matrices.append(
                    self._padded(
                        of, (within[owners], column), values[entries], counts[layer],
                        (real[layer + 1], real[layer]), (widths[layer + 1], widths[layer]), width,
                    )
                )  # fmt: skip
            below = block * nodes_in_all + nodes, lengths.cumsum(0) - lengths
        labels = torch.zeros(count, widths[3], dtype=torch.int64, device=self.device)
        weights = torch.zeros(count, widths[3], dtype=self.dtype, device=self.device)
        labels[block, within] = self.labels[nodes].long()
        weights[block, within] = (1 / lengths.to(self.dtype))[block]
        return _Shelf(numbers, *matrices, labels, weights)  # type: ignore[call-arg]

    def _logits(
        self, shelf: _Shelf, places: torch.Tensor, theta: torch.Tensor, drop: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits (G, rows, C, classes) of all visits, and indices (G,) of stacked blocks.

        V = G · C visits: if all visit the same single block, it is stacked once (G = 1) and the
        visits are adjacent columns. ``theta`` is (V, P), ``drop`` (V, units) are hidden units.
        """
        f, h, k = self.inputs.n_features, self.hidden, self.inputs.n_classes
        if len(shelf.blocks) == 1:
            places = places[:1]
        groups = len(places)
        theta = theta[:, : self.used].unflatten(0, (groups, -1))  # (G, C, P)
        first, bias1, second, bias2 = theta.split([f * h, h, h * k, k], dim=2)
        wide = first.unflatten(2, (f, h)).transpose(1, 2).flatten(2)  # (G, F, C h)
        if self.dense is None:
            z0 = _SparseProduct.apply(wide, *(matrix.stacked(places) for matrix in shelf.features))
        else:
            z0 = self.dense[shelf.features[places]] @ wide
        hidden = _SparseProduct.apply(z0, *(matrix.stacked(places) for matrix in shelf.first))
        hidden = torch.relu(hidden.unflatten(2, (-1, h)).transpose(1, 2) + bias1[:, :, None])
        if drop is not None:
            hidden = hidden.masked_fill(drop.view(hidden.shape), 0.0) * self.rule.keep_scale
        y = (hidden @ second.unflatten(2, (h, k))).transpose(1, 2).flatten(2)
        logits = _SparseProduct.apply(y, *(matrix.stacked(places) for matrix in shelf.second))
        return logits.unflatten(2, (-1, k)) + bias2[:, None], places

    def _loss(self, logits: torch.Tensor, shelf: _Shelf, places: torch.Tensor) -> torch.Tensor:
        """Return the mean cross-entropy (V,) of every visit."""
        shape = logits.shape[:3]
        labels = shelf.labels[places][:, :, None].expand(shape).flatten()
        losses = functional.cross_entropy(logits.flatten(0, 2), labels, reduction="none")
        weights = shelf.weights[places][:, :, None]
        return torch.where(weights > 0, losses.view(shape) * weights, 0.0).sum(dim=1).flatten()

    def prepare(self) -> None:
        """Do nothing: there is nothing to compile."""

    def train_step(self, step: Step) -> np.ndarray:
        """Take one step of every replica of ``step``, which ``begin`` announced; score no rows."""
        self.clock.fill_(step.number)
        for group, places, units in self.visits[step.number]:
            group.repeated(partial(self._move, group), places, units)
        return np.zeros(0)

    def _move(self, group: _Group, places: torch.Tensor, units: torch.Tensor) -> None:
        """Update the replicas of ``group`` by the noisy sum of their visits' gradients."""
        shape = (len(group.replicas), self.theta.shape[1])
        total = torch.zeros(shape, dtype=torch.float64, device=self.device)
        if len(places):
            shelf = self._shelf(group.blocks) if group.shelf is None else group.shelf
            gradients = self._clipped(group, shelf, places, units)
            total = gradients.double()
            if group.several:
                visits = torch.arange(len(places), device=self.device)
                total = _SparseRows(visits, group.starts, None) @ total
        self._update(group, self._noisy(group, total) / self.rule.divisor)

    def _clipped(
        self, group: _Group, shelf: _Shelf, places: torch.Tensor, units: torch.Tensor
    ) -> torch.Tensor:
        """Return clipped gradients (V, P); non-finite ones are zero (docs/privacy.md §2)."""
        drop = None
        if group.dropout:
            count = shelf.first[0].offsets.shape[1] * self.hidden
            keys = self.dropout_key[group.owners]
            drawn = torch_noise.random_bytes(keys, self.clock, units, count)
            drop = drawn < self.rule.keep_threshold
        theta = self.theta[group.owners].requires_grad_()
        logits, stacked = self._logits(shelf, places, theta, drop)
        (gradients,) = torch.autograd.grad(self._loss(logits, shelf, stacked).sum(), theta)
        norms = torch.linalg.vector_norm(gradients, dim=1, keepdim=True, dtype=torch.float64)
        margin = 1e-5 if self.dtype == torch.float32 else 1e-12
        factors = (self.rule.clip / (norms * (1 + margin))).clamp(max=1.0)
        return torch.where(torch.isfinite(norms), gradients * factors.to(self.dtype), 0.0)

    def _noisy(self, group: _Group, total: torch.Tensor) -> torch.Tensor:
        """Return ``total`` (A, P) float64 plus the step's noise, in the parameters' type.

        Sums of several visits get their noise before rounding; a single visit's gradient has the
        parameters' type, and so has its noise.
        """
        if not group.noisy:
            return total.to(self.dtype)
        std, keys = self.noise_std[group.replicas], self.noise_key[group.replicas]
        normals = torch_noise.normals(keys, self.clock, total.shape[1], self.dtype)
        single = total.to(self.dtype) + std.to(self.dtype) * normals
        if not group.several:
            return single
        several = (group.starts.diff() > 1)[:, None]
        return torch.where(several, (total + std * normals).to(self.dtype), single)

    def _update(self, group: _Group, mean: torch.Tensor) -> None:
        rule, rows = self.rule, group.replicas
        gradient = mean + rule.weight_decay * self.theta[rows]
        if not rule.adam:
            self.theta[rows] -= self.learning_rate[rows] * gradient
            return
        taken = (self.clock + 1).double()
        self.m[rows] = 0.9 * self.m[rows] + 0.1 * gradient
        self.v[rows] = 0.999 * self.v[rows] + 0.001 * gradient**2
        rate = self.learning_rate[rows] / (1 - 0.9**taken)
        root = (self.v[rows] / (1 - 0.999**taken)).sqrt()
        self.theta[rows] -= rate * self.m[rows] / (root + 1e-8)

    @torch.no_grad()
    def evaluate(self, replicas: np.ndarray, block_of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean cross-entropy (A,) and predictions (A, M) of ``replicas`` on their blocks."""
        most = int(self.n_rows[2, block_of].max(initial=0))
        if most == 0:
            return np.zeros(len(replicas)), np.zeros((len(replicas), 0), np.int32)
        self.scored, chunks = self._shelf_of(np.unique(block_of), self.scored), []
        sizes = [self._bytes(block_of, self.scored)] * len(block_of)
        for chunk in chunks_that_fit(sizes, self.room):
            scored = self._scorer(replicas[chunk], block_of[chunk])
            chunks.append(functional.pad(scored, (0, most + 2 - scored.shape[1])))
        scores = torch.cat(chunks).cpu().numpy()  # the only transfer; a loss is two words
        return scores[:, :2].copy().view(np.float64)[:, 0], scores[:, 2:].copy()

    def _scorer(self, replicas: np.ndarray, visits: np.ndarray) -> torch.Tensor:
        """Return the scores of one chunk."""
        shelf = self.scored
        blocks = np.unique(visits) if shelf is None else shelf.blocks
        key = replicas.tobytes() + visits.tobytes() + blocks.tobytes()
        if key not in self.scorers:
            while len(self.scorers) >= 8:  # replicas that stop leave unused scorers behind
                del self.scorers[next(iter(self.scorers))]
            given = [self._sent(array) for array in (replicas, np.searchsorted(blocks, visits))]
            self.scorers[key] = _Repeated(None if shelf is None else self.pool), shelf, given
        repeated, shelf, given = self.scorers[key]
        return repeated(partial(self._scores, shelf or self._shelf(blocks)), *given)

    def _scores(self, shelf: _Shelf, rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Return losses (two int32 words) and classes of the replicas ``rows`` (V, 2 + rows2)."""
        logits, stacked = self._logits(shelf, places, self.theta[rows], None)
        loss = self._loss(logits, shelf, stacked).double()[:, None].view(torch.int32)
        classes = logits.argmax(3).int().transpose(1, 2).flatten(0, 1)
        return torch.cat([loss, classes], dim=1)

    def keep_best(self, replicas: np.ndarray) -> None:
        """Store the current parameters of ``replicas``."""
        rows = self._sent(replicas)
        self.best[rows] = self.theta[rows]

    def restore_best(self) -> None:
        """Restore the stored parameters."""
        self.theta.copy_(self.best)

    def parameters(self) -> np.ndarray:
        """Return (R, P) without the padding of the rows."""
        return self.theta[:, : self.used].cpu().numpy()
