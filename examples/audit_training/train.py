"""An ordinary script of Opacus, and the same with a mistake that nobody sees in its result."""

import torch
from opacus import PrivacyEngine
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

DELTA = 1e-4


def data():
    """Return 120 records that a seed invents: six numbers, and a class."""
    draws = torch.Generator().manual_seed(1)
    rows = torch.randn(120, 6, generator=draws)
    return TensorDataset(rows, (rows[:, 0] + rows[:, 1] > 0).long())


def train(data, epochs=3):
    """Train with Opacus; what is returned would be published."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
    engine = PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        data_loader=DataLoader(data, batch_size=20), noise_multiplier=1.0, max_grad_norm=1.0,
    )  # fmt: skip
    for _ in range(epochs):
        for rows, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(rows), labels).backward()
            optimizer.step()
    return model, engine.get_epsilon(DELTA)


def train_best(data):
    """Keep the number of epochs with the best score on private records: the mistake."""
    kept, best = None, -1.0
    data, held_out = random_split(data, [90, 30], torch.Generator().manual_seed(2))
    checked, right = (torch.stack([row[column] for row in held_out]) for column in (0, 1))
    for epochs in (1, 3):
        model, epsilon = train(data, epochs)
        with torch.no_grad():
            score = (model(checked).argmax(1) == right).float().mean().item()
        if score > best:
            best, kept = score, (model, epsilon)
    return kept
