"""CPU back end of the engine: the compiled kernels behind the engine's interface."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from private_graphs.mechanisms.descent import Descent
from private_graphs.training import kernels, updates
from private_graphs.training.kernels import Blocks, Inputs, Rule, State, Step


class CpuBackend:
    """State and work space of the replicas of one thread."""

    def __init__(
        self, inputs: Inputs, blocks: Blocks, rule: Rule, state: State, descent: Descent
    ) -> None:
        self.descent = descent
        self.inputs, self.blocks, self.rule, self.state = inputs, blocks, rule, state
        self.scratch = kernels.make_scratch(
            len(inputs.labels),
            inputs.n_features,
            inputs.n_hidden,
            inputs.n_classes,
            state.parameters.dtype,
        )
        self.best: np.ndarray | None = None
        self.steps = 0

    def prepare(self) -> None:
        """Compile the kernels for these types, or load them from Numba's cache."""
        nobody = np.zeros(0, dtype=np.int64)
        self.train_step(Step(nobody, np.zeros(1, dtype=np.int64), nobody, 0, False, np.zeros(0)))
        self._catch_up(nobody)
        self.evaluate(nobody, nobody)
        self.steps = 0

    def _catch_up(self, replicas: np.ndarray) -> None:
        """Apply the noise that rows of W1 have not received yet."""
        if self.rule.lazy:
            updates.catch_up_all(
                self.inputs, replicas, self.steps, self.rule, self.state, self.scratch
            )

    def begin(self, steps: Sequence[Step]) -> None:
        """Do nothing: no data have to be sent ahead."""

    def train_step(self, step: Step) -> np.ndarray:
        """Take one step of every replica of ``step``; return the loss (A,) of scored-only rows."""
        scored = np.zeros(len(step.replicas))
        parts = (self.inputs, self.blocks, step, self.rule, self.state, self.scratch)
        if self.descent.door.watch.active and len(step.replicas):
            self._watched_step(parts, scored)
        else:
            kernels.train_step(*parts, scored)
        self.steps = step.number + 1
        return scored

    def _watched_step(self, parts: tuple, scored: np.ndarray) -> None:
        """Take a step with the same two compiled functions, and show the watch the sum between.

        The tape gets the state after the step, which is a function of the state before and the
        noisy sum.
        """
        step, state, s = parts[2], self.state, self.scratch
        for a, r in enumerate(step.replicas):
            stops, several, drawn = kernels.accumulate(a, *parts, scored)
            if stops:
                continue
            exact = (s.sums if several else s.total).astype(np.float64)
            kernels.finish(a, several, drawn, *parts)
            after = [state.parameters[r], state.first_moment[r], state.second_moment[r]]
            update = self.descent.passed(r, "compiled_step", exact, np.concatenate(after))
            cuts = np.cumsum([len(array) for array in after])[:-1]
            for old, new in zip(after, np.split(update, cuts), strict=True):
                old[:] = new

    def evaluate(self, replicas: np.ndarray, block_of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean cross-entropy (A,) and predictions (A, M) of ``replicas`` on their blocks."""
        self._catch_up(replicas)
        starts = self.blocks.rows2_start
        scored = starts[block_of + 1] - starts[block_of]
        predictions = np.zeros((len(replicas), int(scored.max(initial=0))), dtype=np.int32)
        loss = np.zeros(len(replicas))
        kernels.evaluate(
            self.inputs, self.blocks, replicas, block_of, self.rule, self.state, self.scratch,
            loss, predictions,
        )  # fmt: skip
        return loss, predictions

    def keep_best(self, replicas: np.ndarray) -> None:
        """Store the current parameters of ``replicas``."""
        if self.best is None:
            self.best = self.state.parameters.copy()
        self.best[replicas] = self.state.parameters[replicas]

    def restore_best(self) -> None:
        """Restore the stored parameters."""
        if self.best is not None:
            self.state.parameters[:] = self.best

    def parameters(self) -> np.ndarray:
        """Return (R, P) without the padding of the rows."""
        self._catch_up(np.arange(len(self.state.parameters)))
        inputs = self.inputs
        used = kernels.n_parameters(inputs.n_features, inputs.n_hidden, inputs.n_classes)
        return self.state.parameters[:, :used].copy()
