"""The training step in PyTorch with autograd: what a GPU runs, and the oracle of the CPU kernels.

All visits of a step are stacked; each visit gets its own copy of its replica's parameters, so that
one backward pass yields the gradient of every visit (a part of one replica) apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional

from private_graphs.training import noise
from private_graphs.training.kernels import Blocks, Inputs, Rule, State, Step, n_parameters


class _Rows(NamedTuple):
    """A sparse matrix as PyTorch's ``embedding_bag`` reads it."""

    indices: torch.Tensor  # (nnz,) int64
    lengths: torch.Tensor  # (rows,) int64
    values: torch.Tensor  # (nnz,)


class _Block(NamedTuple):
    features: _Rows  # rows0 x words
    first: _Rows  # rows1 x rows0
    second: _Rows  # rows2 x rows1
    labels: torch.Tensor  # (rows2,)


class TorchBackend:
    """Same contract as ``CpuBackend``; parameters stay on ``device`` between steps."""

    def __init__(
        self, inputs: Inputs, blocks: Blocks, rule: Rule, state: State, device: str
    ) -> None:
        self.inputs, self.blocks, self.rule, self.hidden = inputs, blocks, rule, inputs.n_hidden
        self.device = torch.device(device)
        self.theta = torch.from_numpy(state.parameters.copy()).to(self.device)
        self.dtype = self.theta.dtype
        self.m, self.v = torch.zeros_like(self.theta), torch.zeros_like(self.theta)
        self.learning_rate = self._tensor(state.learning_rate)[:, None]
        self.noise_std = torch.from_numpy(state.noise_std)[:, None].to(self.device)  # float64
        self.keys = state
        self.n_features = inputs.n_features
        self.used = n_parameters(inputs.n_features, inputs.n_hidden, inputs.n_classes)
        self.cache: dict[int, _Block] = {}
        self.best = self.theta.clone()
        self.generators = self._generators(state) if self.device.type == "cuda" else None

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device, self.dtype)

    def _generators(self, state: State) -> dict[str, list[torch.Generator]]:
        """One generator per replica and purpose; CUDA's takes 64 bits of the replica's key."""

        def seeded(key: np.ndarray) -> torch.Generator:
            return torch.Generator(self.device).manual_seed(int(key[:2].copy().view("<i8")[0]))

        return {
            "noise": [seeded(key) for key in state.noise_key],
            "dropout": [seeded(key) for key in state.dropout_key],
        }

    def _block(self, b: int) -> _Block:
        if b not in self.cache:
            inputs, blocks = self.inputs, self.blocks
            rows = [
                getattr(blocks, name)[getattr(blocks, f"{name}_start")[b] :][
                    : np.diff(getattr(blocks, f"{name}_start")[b : b + 2])[0]
                ]
                for name in ("rows0", "rows1", "rows2")
            ]
            pointers = inputs.a_pointers[blocks.graph[b]]
            propagation = (pointers, inputs.a_indices, inputs.a_values)
            features = (inputs.x_pointers, inputs.x_indices, inputs.x_values)
            self.cache[b] = _Block(
                self._rows(features, rows[0], None),
                self._rows(propagation, rows[1], rows[0]),
                self._rows(propagation, rows[2], rows[1]),
                torch.from_numpy(inputs.labels[rows[2]].astype(np.int64)).to(self.device),
            )
        return self.cache[b]

    def _rows(self, matrix: tuple, rows: np.ndarray, columns: np.ndarray | None) -> _Rows:
        """Take ``rows`` of a CSR matrix; renumber its columns by their place in ``columns``."""
        pointers, indices, values = matrix
        lengths = pointers[rows + 1] - pointers[rows]
        shift = np.repeat(pointers[rows] - np.cumsum(lengths) + lengths, lengths)
        places = np.arange(lengths.sum()) + shift
        picked = indices[places].astype(np.int64)
        if columns is not None:
            picked = np.searchsorted(columns, picked)
        return _Rows(
            torch.from_numpy(picked).to(self.device),
            torch.from_numpy(lengths).to(self.device),
            self._tensor(values[places]),
        )

    @staticmethod
    def _stack(parts: list[_Rows], widths: list[int]) -> _Rows:
        """Block-diagonal stack; ``widths`` are the numbers of columns of the parts."""
        starts = np.concatenate([[0], np.cumsum(widths)])
        return _Rows(
            torch.cat([each.indices + int(s) for each, s in zip(parts, starts, strict=False)]),
            torch.cat([each.lengths for each in parts]),
            torch.cat([each.values for each in parts]),
        )

    @staticmethod
    def _product(matrix: _Rows, dense: torch.Tensor) -> torch.Tensor:
        offsets = functional.pad(matrix.lengths.cumsum(0), (1, 0))
        return functional.embedding_bag(
            matrix.indices, dense, offsets, mode="sum",
            per_sample_weights=matrix.values, include_last_offset=True,
        )  # fmt: skip

    def _logits(
        self, blocks: list[_Block], theta: torch.Tensor, keep: torch.Tensor | None
    ) -> torch.Tensor:
        """Logits of all stacked blocks; ``theta`` is (visits, P), ``keep`` scales hidden units."""
        f, h, k = self.n_features, self.hidden, self.inputs.n_classes
        first, bias1, second, bias2 = theta[:, : self.used].split([f * h, h, h * k, k], dim=1)
        rows0 = [len(each.features.lengths) for each in blocks]
        rows1 = [len(each.first.lengths) for each in blocks]
        rows2 = [len(each.second.lengths) for each in blocks]
        visit = torch.arange(len(blocks), device=self.device)
        of1 = visit.repeat_interleave(torch.tensor(rows1, device=self.device))
        of2 = visit.repeat_interleave(torch.tensor(rows2, device=self.device))
        features = self._stack([each.features for each in blocks], [f] * len(blocks))
        z0 = self._product(features, first.reshape(-1, h))  # (sum rows0, hidden)
        hidden = self._product(self._stack([each.first for each in blocks], rows0), z0)
        hidden = torch.relu(hidden + bias1[of1])  # (sum rows1, hidden)
        if keep is not None:
            hidden = hidden * keep
        y = (hidden[:, None, :] @ second.reshape(-1, h, k)[of1])[:, 0, :]  # (sum rows1, classes)
        return self._product(self._stack([each.second for each in blocks], rows1), y) + bias2[of2]

    def _keep(self, replicas: np.ndarray, blocks: list[_Block], number: int) -> torch.Tensor:
        """Dropout factors (sum rows1, hidden); a replica's visits of one step share no draw."""
        used: dict[int, int] = {}
        masks = []
        for r, block in zip(replicas.tolist(), blocks, strict=True):
            size = len(block.first.lengths) * self.hidden
            if self.generators is not None:
                draw = torch.randint(
                    256, (size,), generator=self.generators["dropout"][r], device=self.device
                )
            else:
                words = np.empty((size + 15) // 16 * 4, np.uint32)
                noise.fill_flat_words(self.keys.dropout_key[r], number, used.get(r, 0), words)
                used[r] = used.get(r, 0) + (size + 15) // 16
                draw = torch.from_numpy(words.view(np.uint8)[:size].copy())
            masks.append(draw >= self.rule.keep_threshold)
        keep = torch.cat(masks).reshape(-1, self.hidden)
        return keep.to(self.dtype) * self.rule.keep_scale

    def _normals(self, replicas: np.ndarray, number: int) -> torch.Tensor:
        size = self.theta.shape[1]
        if self.generators is not None:
            drawn = [
                torch.randn(
                    size, generator=self.generators["noise"][r], device=self.device,
                    dtype=self.dtype,
                )
                for r in replicas.tolist()
            ]  # fmt: skip
            return torch.stack(drawn)
        quarter = -(-size // 4)
        out = np.empty((len(replicas), 4 * quarter), np.dtype(str(self.dtype).split(".")[1]))
        words = np.empty((4, quarter), np.uint32)
        scratch = np.empty((2, quarter), np.float32)
        for row, r in zip(out, replicas, strict=True):
            noise.fill_normals(self.keys.noise_key[r], number, 0, row, words, *scratch)
        return torch.from_numpy(out[:, :size])

    def prepare(self) -> None:
        """Nothing to compile."""

    def train_step(self, step: Step) -> np.ndarray:
        """One step of every replica of ``step``; no row is scored on the way."""
        shape = (len(step.replicas), self.theta.shape[1])
        total = torch.zeros(shape, dtype=torch.float64, device=self.device)
        visits = np.zeros(len(step.replicas), dtype=np.int64)
        place = np.repeat(np.arange(len(step.replicas)), np.diff(step.visit_start))
        blocks = [self._block(int(b)) for b in step.visits]
        seen = np.array([len(block.labels) > 0 for block in blocks], dtype=bool)
        if seen.any():
            blocks = [block for block, use in zip(blocks, seen, strict=True) if use]
            place = place[seen]
            gradients = self._clipped(step, place, blocks)
            total.index_add_(0, torch.from_numpy(place).to(self.device), gradients.double())
            visits = np.bincount(place, minlength=len(step.replicas))
        several = torch.from_numpy(visits > 1).to(self.device)[:, None]
        self._update(step, self._noisy(step, total, several) / self.rule.divisor)
        return np.zeros(0)

    def _clipped(self, step: Step, place: np.ndarray, blocks: list[_Block]) -> torch.Tensor:
        """Clipped gradients (visits, P); non-finite ones are zero (docs/privacy.md §2)."""
        replicas = step.replicas[place]
        theta = self.theta[torch.from_numpy(replicas).to(self.device)].requires_grad_()
        keep = self._keep(replicas, blocks, step.number) if step.dropout else None
        logits = self._logits(blocks, theta, keep)
        labels = torch.cat([block.labels for block in blocks])
        weights = torch.cat(
            [torch.full((len(b.labels),), 1 / len(b.labels), dtype=self.dtype) for b in blocks]
        ).to(self.device)
        loss = (functional.cross_entropy(logits, labels, reduction="none") * weights).sum()
        (gradients,) = torch.autograd.grad(loss, theta)
        norms = gradients.norm(dim=1, keepdim=True)
        margin = 1e-5 if self.dtype == torch.float32 else 1e-12
        factors = (self.rule.clip / (norms * (1 + margin))).clamp(max=1.0)
        return torch.where(torch.isfinite(norms), gradients * factors, 0.0)

    def _noisy(self, step: Step, total: torch.Tensor, several: torch.Tensor) -> torch.Tensor:
        """Return ``total`` (A, P) float64 with the noise of the step, in the parameters' type.

        Sums of ``several`` (A, 1) visits get their noise before they are rounded; a single
        visit's gradient is of the parameters' type, and so is its noise.
        """
        std = self.noise_std[torch.from_numpy(step.replicas).to(self.device)]
        if not bool((std > 0).any()):
            return total.to(self.dtype)
        normals = self._normals(step.replicas, step.number).to(self.device)
        single = total.to(self.dtype) + std.to(self.dtype) * normals
        return torch.where(several, (total + std * normals).to(self.dtype), single)

    def _update(self, step: Step, mean: torch.Tensor) -> None:
        rule, t = self.rule, step.number
        rows = torch.from_numpy(step.replicas).to(self.device)
        gradient = mean + rule.weight_decay * self.theta[rows]
        if not rule.adam:
            self.theta[rows] -= self.learning_rate[rows] * gradient
            return
        self.m[rows] = 0.9 * self.m[rows] + 0.1 * gradient
        self.v[rows] = 0.999 * self.v[rows] + 0.001 * gradient**2
        rate = self.learning_rate[rows] / (1 - 0.9 ** (t + 1))
        root = (self.v[rows] / (1 - 0.999 ** (t + 1))).sqrt()
        self.theta[rows] -= rate * self.m[rows] / (root + 1e-8)

    def evaluate(self, replicas: np.ndarray, block_of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean cross-entropy (A,) and predictions (A, M) of ``replicas`` on their blocks."""
        losses, predictions = [], []
        with torch.no_grad():
            for r, b in zip(replicas.tolist(), block_of.tolist(), strict=True):
                block = self._block(b)
                logits = self._logits([block], self.theta[r : r + 1], None)
                losses.append(functional.cross_entropy(logits, block.labels).item())
                predictions.append(logits.argmax(1).cpu().numpy().astype(np.int32))
        return np.array(losses), np.stack(predictions)

    def keep_best(self, replicas: np.ndarray) -> None:
        """Remember the present parameters of ``replicas``."""
        rows = torch.from_numpy(replicas).to(self.device)
        self.best[rows] = self.theta[rows]

    def restore_best(self) -> None:
        """Go back to the remembered parameters."""
        self.theta = self.best.clone()

    def parameters(self) -> np.ndarray:
        """Return (R, P) without the unused ends of the rows."""
        return self.theta[:, : self.used].cpu().numpy()
