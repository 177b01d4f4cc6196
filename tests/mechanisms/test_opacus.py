"""Training code of others behind the door: an optimizer of Opacus."""

from __future__ import annotations

import opacus
import pytest
import torch

from private_graphs.audit import Door, PoissonSums, Streams, replay

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS, RATE = 4, 0.25
QUERY = PoissonSums(
    unit="record", relation="replace", count=STEPS, reason="one clipped gradient of a record",
    noise_multiplier=1.0, clip_norm=1.0, rate=RATE,
)  # fmt: skip


class BehindTheDoor(opacus.optimizers.DPOptimizer):
    """An optimizer whose sums of clipped gradients get their noise from a door."""

    def __init__(self, optimizer: torch.optim.Optimizer, descent, size: float) -> None:
        super().__init__(
            optimizer, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=size,
            loss_reduction="sum",
        )  # fmt: skip
        self.descent = descent

    def add_noise(self) -> None:
        """Let the sum of all parameters pass the door as one."""
        sums = [parameter.summed_grad for parameter in self.params]
        (noisy,) = self.descent.add(torch.cat([each.reshape(-1) for each in sums]).double()[None])
        sizes = [each.numel() for each in sums]
        for parameter, each in zip(self.params, noisy.split(sizes), strict=True):
            parameter.grad = each.view_as(parameter).to(parameter.dtype)


def train(data, watch):
    rows, labels = data
    door = Door.of([Streams.of({"seed": 0})], watch)
    door.plan([(QUERY,)])
    descent = door.descent([QUERY])
    torch.manual_seed(0)
    layers = torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)
    model = opacus.GradSampleModule(torch.nn.Sequential(*layers))
    optimizer = BehindTheDoor(
        torch.optim.SGD(model.parameters(), lr=0.5), descent, RATE * len(rows)
    )
    for _ in range(STEPS):
        (joined,) = descent.join(len(rows))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(
            model(rows[joined]), labels[joined], reduction="sum"
        )
        loss.backward()
        optimizer.step()
        flat = torch.cat([each.detach().reshape(-1) for each in model.parameters()])
        descent.public("parameters", [flat.numpy()])
    door.close()
    return flat.numpy()


def pair():
    draws = torch.Generator().manual_seed(1)
    rows = torch.randn(40, 5, generator=draws)
    labels = (rows[:, 0] > 0).long()
    other, flipped = rows.clone(), labels.clone()
    other[7], flipped[7] = 9.0, 1 - labels[7]
    return (rows, labels), (other, flipped)


def test_training_passes_and_who_joins_no_step_moves_nothing():
    data, neighbour = pair()
    found = replay(train, data, [neighbour], coins=("all",))
    assert found.calls == 2 * STEPS and found.passed and found.rest_equal
    assert 0 < found.largest_ratio <= 1
    assert replay(train, data, [neighbour], coins=("none",)).largest_ratio == 0
