"""An ordinary script of Opacus, and the same with a mistake that its result does not show."""

import copy

import torch
from opacus import PrivacyEngine
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split


def data():
    """Return 120 records that a seed invents: six numbers, and a class."""
    draws = torch.Generator().manual_seed(1)
    rows = torch.randn(120, 6, generator=draws)
    return TensorDataset(rows, (rows[:, 0] + rows[:, 1] > 0).long())


def accuracy(model, records):
    """Return the share of right answers."""
    rows, labels = (torch.stack([record[column] for record in records]) for column in (0, 1))
    with torch.no_grad():
        return (model(rows).argmax(1) == labels).float().mean().item()


def train(data, held_out=None):
    """Train with Opacus, and return what would be published: the model and its epsilon."""
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
    engine, best, kept = PrivacyEngine(), 0.0, None
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        data_loader=DataLoader(data, batch_size=20), noise_multiplier=1.0, max_grad_norm=1.0,
    )  # fmt: skip
    for _ in range(4):
        for rows, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(rows), labels).backward()
            optimizer.step()
        score = 0.0 if held_out is None else accuracy(model, held_out)
        if score >= best:
            best, kept = score, copy.deepcopy(model.state_dict())
    return kept, engine.get_epsilon(delta=1e-4)


def train_best(data):
    """Return the model of the epoch with the best score on private records: the mistake."""
    return train(*random_split(data, [90, 30]))
