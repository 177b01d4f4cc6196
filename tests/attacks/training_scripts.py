"""Ordinary training scripts on tiny data, with mistakes planted by name, for
``replay_training``."""

from __future__ import annotations

import secrets
import time

import numpy as np
import scipy.sparse
import torch
from opacus import GradSampleModule, PrivacyEngine
from opacus.layers import DPLSTM
from opacus.optimizers import DPOptimizer
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from private_graphs.audit import gaussian

DELTA = 1e-3


def table(n: int = 64, seed: int = 1) -> TensorDataset:
    draws = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, 6, generator=draws)
    return TensorDataset(rows, (rows[:, 0] > 0).long())


def images() -> TensorDataset:
    draws = torch.Generator().manual_seed(2)
    labels = torch.randint(0, 3, (48,), generator=draws)
    return TensorDataset(
        torch.randn(48, 1, 6, 6, generator=draws) + labels[:, None, None, None], labels
    )


def texts() -> list[tuple[str, int]]:
    draws = np.random.default_rng(3)
    return [(" ".join(draws.choice(WORDS, 4)), int(draws.integers(2))) for _ in range(40)]


PRICED = ("", "shuffled", "original loader", "sigma lowered")
ORDERS = [1.5, *range(2, 20)]
WORDS = ["good", "fine", "bad", "poor", "film", "plot", "was", "is"]
PUBLIC = table(100, seed=9)


class BatchStatistics(nn.Module):
    """Normalisation by the batch, written by hand: Opacus's validator does not know it."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return (rows - rows.mean(0)) / (rows.std(0, unbiased=False) + 1e-5)


def made_private(model, optimizer, data, how="", epochs=2):
    """Call the engine as its examples do; ``how`` names what differs."""
    loader, engine = DataLoader(data, batch_size=16, shuffle=True), PrivacyEngine(accountant="rdp")
    options = {"module": model, "optimizer": optimizer, "data_loader": loader, "max_grad_norm": 1.0}
    if how == "per layer":
        options |= {"clipping": "per_layer", "max_grad_norm": [0.5] * len(list(model.parameters()))}
    if how == "adaptive":
        options |= {
            "clipping": "adaptive",
            "target_unclipped_quantile": 0.5,
            "clipbound_learning_rate": 0.2,
            "max_clipbound": 5.0,
            "min_clipbound": 0.1,
            "unclipped_num_std": 4.0,
        }
    if how.startswith("target"):
        options |= {
            "target_epsilon": 4.0,
            "target_delta": DELTA,
            "epochs": epochs,
            "alphas": ORDERS,
        }
        return engine, *engine.make_private_with_epsilon(**options)
    options |= {"noise_multiplier": 1.0, "poisson_sampling": how != "shuffled"}
    return engine, *engine.make_private(**options)


def learning_rate(rows, labels):
    """Choose a learning rate by the private loss: a mistake."""
    losses = {}
    for rate in (0.01, 0.1, 1.0, 3.0):
        weight = torch.zeros(6, 2, requires_grad=True)
        (slope,) = torch.autograd.grad(F.cross_entropy(rows @ weight, labels), weight)
        losses[rate] = F.cross_entropy(rows @ (weight - rate * slope), labels).item()
    return min(losses, key=losses.get)


def descend(model, optimizer, loader) -> None:
    """Step on every batch."""
    for batch, targets in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(batch), targets).backward()
        optimizer.step()


def logistic(data: TensorDataset, how: str = ""):
    """Train a small network with Opacus; ``how`` names a mistake, or an option."""
    torch.manual_seed(0)
    rows, labels = data.tensors
    weight, rate, epochs, validation = None, 0.5, 2, None
    if how == "standardised":
        data = TensorDataset((rows - rows.mean(0)) / rows.std(0), labels)
    if how == "class weights":
        weight = len(rows) / (2 * torch.bincount(labels, minlength=2).float())
    if how == "rate by n":
        rate = 32 / len(rows)
    if how == "rate by loss":
        rate = learning_rate(rows, labels)
    if how.startswith("best epoch"):
        (data, validation), epochs = random_split(data, [len(rows) - 24, 24]), 4
    layers = [nn.Linear(6, 8), *([BatchStatistics()] if how == "batch statistics" else [])]
    model = nn.Sequential(*layers, nn.Tanh(), nn.Linear(8, 2))
    plain = torch.optim.SGD(model.parameters(), lr=rate)
    engine, model, optimizer, loader = made_private(model, plain, data, how, epochs)
    second = torch.optim.SGD(model.parameters(), lr=0.1)
    if how == "original loader":
        loader = DataLoader(data, batch_size=16, shuffle=True)
    if how == "sigma lowered":
        optimizer.noise_multiplier = 0.3
    kept, best, numbers = model, -1.0, []
    for epoch in range(epochs + 2 * (how == "target, longer")):
        total = 0.0
        if how == "seed in the loop":
            torch.manual_seed(1)
        for batch, targets in loader:
            if how == "nobody skipped" and not len(batch):
                continue
            optimizer.zero_grad()
            loss = (
                F.cross_entropy(model(batch), targets, weight=weight)
                if len(batch)
                else model(batch).sum()
            )
            loss.backward()
            if how == "noise by hand":
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                for parameter in model.parameters():
                    parameter.grad += torch.randn_like(parameter) / 16
            if how == "second optimizer":
                second.step()
            (plain if how in ("noise by hand", "plain optimizer") else optimizer).step()
            if how.startswith("loss"):
                total += loss.item()
            if how == "batch sizes":
                numbers.append(len(batch))
        if how == "loss returned":
            numbers.append(total)
        if how == "loss printed":
            print(f"epoch {epoch}: loss {total:.4f}")
        if validation is not None:
            checked, right = (torch.stack([row[column] for row in validation]) for column in (0, 1))
            model.eval()
            with torch.no_grad():
                score = (model(checked).argmax(1) == right).float().mean().item()
            model.train()
            if score > best:
                best, kept = score, {name: p.clone() for name, p in model.state_dict().items()}
    priced = how in PRICED or how.startswith("target")  # accountants take seconds
    answer = {
        "model": kept,
        "epsilon": engine.accountant.get_epsilon(DELTA, alphas=ORDERS) if priced else None,
        "numbers": numbers,
    }
    return answer | ({"score": best} if how == "best epoch returned" else {})


class Partly(DPOptimizer):
    """An optimizer that adds no noise to the last parameter."""

    def add_noise(self):
        super().add_noise()
        self.params[-1].grad = self.params[-1].summed_grad.clone()


class Estimator:
    """Something that is fitted, and printed without what it has learned."""

    def __init__(self, mean):
        self._mean = mean

    def __repr__(self):
        return "Estimator()"

    def predict(self):
        """Return what was learned."""
        return self._mean


def of_global(mean):
    """Return a function that reads a global, and has a variable without a value."""
    global MEAN
    MEAN = mean
    if mean is None:
        unset = mean
    return lambda asked=False: unset if asked else MEAN


ANSWERS = {
    "estimator": Estimator,
    "table": lambda mean: scipy.sparse.csr_matrix(mean.numpy()),
    "method": lambda mean: Estimator(mean).predict,
    "closure": lambda mean: lambda: mean,
    "global": of_global,
}
"""What is returned beside the model, made of a private mean that printing does not show."""


def deciding(data: TensorDataset, how: str):
    """Train with Opacus, and let private losses decide without a read that differs by much."""
    torch.manual_seed(0)
    model = nn.Linear(6, 2)
    plain = torch.optim.SGD(model.parameters(), lr=0.5)
    generator = {"noise_generator": torch.Generator()} if how == "noise generator" else {}
    engine = PrivacyEngine(accountant="rdp")
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=plain, data_loader=DataLoader(data, batch_size=16),
        noise_multiplier=1.0, max_grad_norm=1.0, **generator,
    )  # fmt: skip
    if how == "exact_bias":
        optimizer.__class__ = Partly
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    best, least = torch.zeros(14), torch.tensor(1e9)
    for _ in range(4):
        total = torch.tensor(0.0)
        for batch, targets in loader:
            times = 3 if how == "augmented" else 1
            for _ in range(2 if how == "batch used twice" else 1):
                optimizer.zero_grad()
                F.cross_entropy(
                    model(batch.repeat(times, 1)), targets.repeat(times), reduction="sum"
                ).backward()
                optimizer.step()
            with torch.no_grad():
                total = total + F.cross_entropy(model(batch), targets, reduction="sum")
        if how == "plateau":
            schedule.step(total)
        if how == "stopped by NumPy" and np.asarray(total) < 80:
            break
        weights = torch.cat([p.detach().flatten() for p in model.parameters()])
        best, least = torch.where(total < least, weights, best), torch.minimum(total, least)
    mean = data.tensors[0].mean(0)
    if how == "attribute":
        model.mean = mean
    if how == "list":
        model.means = {"first": [mean]}
    if how == "of a parameter":
        next(model.parameters()).mean = mean
    if how in ANSWERS:
        return model.state_dict(), ANSWERS[how](mean)
    if how == "file":
        torch.save(mean, "mean.pt")
        return "mean.pt"
    if how == "zero_grad":
        optimizer.zero_grad()
    return best if how == "chosen in tensors" else model


def careful(data: TensorDataset, how: str = ""):
    """Train with dropout, AdamW, a schedule and the best epoch by a public or a noisy score."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 2))
    model[0].requires_grad_(how != "frozen")
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    engine, model, optimizer, loader = made_private(
        model, torch.optim.AdamW(trained, lr=0.02), data
    )
    schedule = torch.optim.lr_scheduler.StepLR(optimizer.original_optimizer, 1, 0.5)
    best, kept = -1.0, None
    for _ in range(2):
        descend(model, optimizer, loader)
        schedule.step()
        model.eval()
        with torch.no_grad():
            rows, labels = (data if how.startswith("noisy score") else PUBLIC).tensors
            right = (model(rows).argmax(1) == labels).float().sum()
            score = (
                gaussian(right, std=8.0, sensitivity=1.0)
                if how.startswith("noisy score")
                else right
            )
        model.train()
        if score.item() > best:
            best, kept = score.item(), {name: p.clone() for name, p in model.state_dict().items()}
    return {
        "model": kept,
        "best": best,
        "epsilon": engine.accountant.get_epsilon(DELTA, alphas=ORDERS),
    }


def picture(data: TensorDataset, how: str = "hooks"):
    """Train a convolutional network in one of Opacus's modes."""
    torch.manual_seed(0)
    norm = nn.InstanceNorm2d(4) if how == "instance norm" else nn.GroupNorm(2, 4)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    loader = DataLoader(data, batch_size=16, num_workers=2 * (how == "workers"))
    criterion, engine = nn.CrossEntropyLoss(), PrivacyEngine()
    model, optimizer, *more, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=0.01),
        data_loader=loader,
        criterion=criterion,
        noise_multiplier=1.2,
        max_grad_norm=0.8,
        grad_sample_mode=how if how in ("ghost", "functorch", "ew") else "hooks",
    )
    criterion = more[0] if more else criterion
    size = 5 if how == "virtual steps" else 1000
    with BatchMemoryManager(
        data_loader=loader, max_physical_batch_size=size, optimizer=optimizer
    ) as small:
        for batch, targets in small if how == "virtual steps" else loader:
            optimizer.zero_grad()
            criterion(model(batch), targets).backward()
            optimizer.step()
    return model, engine.get_epsilon(DELTA) if how == "hooks" else None


class Reader(nn.Module):
    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(words, 4), DPLSTM(4, 4, batch_first=True)
        self.out = nn.Linear(4, 2)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.embedding(codes))[0][:, -1])


def reader(data: list[tuple[str, int]], how: str = ""):
    """Train an LSTM on texts; the vocabulary is public, or a mistake."""
    torch.manual_seed(0)
    words = (
        sorted({word for text, _ in data for word in text.split()})
        if how == "vocabulary"
        else WORDS
    )
    codes = {word: number for number, word in enumerate(words, 1)}
    rows = [[codes.get(word, 0) for word in text.split()][:6] for text, _ in data]
    padded = torch.tensor([row + [0] * (6 - len(row)) for row in rows])
    data = TensorDataset(padded, torch.tensor([label for _, label in data]))
    model = Reader(len(words) + 1)
    engine, model, optimizer, loader = made_private(
        model, torch.optim.SGD(model.parameters(), lr=0.5), data
    )
    descend(model, optimizer, loader)
    return {"model": model, "words": words}


def padded(data: list[tuple[str, int]], how: str = ""):
    """Pad to the longest text of the batch and read the last place, as
    char-lstm-classification.py."""

    def collate(batch):
        rows = [
            torch.tensor([1 + WORDS.index(word) if word in WORDS else 0 for word in text.split()])
            for text, _ in batch
        ]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor(
            [label for _, label in batch]
        )

    torch.manual_seed(0)
    model, engine = Reader(len(WORDS) + 1), PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        noise_multiplier=1.0,
        data_loader=DataLoader(data, batch_size=16, collate_fn=collate),
        max_grad_norm=1.0,
    )
    descend(model, optimizer, loader)
    return model


def own_optimizer(data: TensorDataset, how: str = ""):
    """Use the optimizer without an engine, on the full batch; BatchNorm needs strict=False."""
    torch.manual_seed(0)
    rows, labels = data.tensors
    norm = [nn.BatchNorm1d(8, affine=False)] if how == "batch norm" else []
    model = GradSampleModule(
        nn.Sequential(nn.Linear(6, 8), *norm, nn.ReLU(), nn.Linear(8, 2)),
        strict=False,
        loss_reduction="sum",
    )
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01),
        noise_multiplier=2.0,
        max_grad_norm=1.0,
        expected_batch_size=None,
        loss_reduction="sum",
    )
    for _ in range(4):
        optimizer.zero_grad()
        F.cross_entropy(model(rows), labels, reduction="sum").backward()
        optimizer.step()
    return model


def numbers() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((60, 6))


def by_hand(rows: np.ndarray, how: str = ""):
    """DP-SGD in NumPy with one marked line."""
    x, y = rows[:, :-1], (rows[:, -1] > 0).astype(float)
    if how == "standardised":
        x = (x - x.mean(0)) / x.std(0)
    w = np.zeros(x.shape[1])
    for _ in range(5):
        grads = (1 / (1 + np.exp(-x @ w)) - y)[:, None] * x
        if how != "no clipping":
            grads = grads / np.maximum(1, np.linalg.norm(grads, axis=1))[:, None]
        noisy = gaussian(grads.sum(0), std=4.0, sensitivity=2.0)  # the marked line
        w = w - noisy / (y.sum() if how == "private count" else len(x))
    return {"w": w, "accuracy": float(((x @ w > 0) == y).mean()) if how == "accuracy" else None}


def graph(n: int = 40) -> Data:
    draws = torch.Generator().manual_seed(0)
    edges = torch.randint(0, n, (2, 100), generator=draws)
    return Data(
        x=torch.randn(n, 5, generator=draws),
        y=torch.randint(0, 3, (n,), generator=draws),
        edge_index=torch.cat([edges, edges.flip(0)], 1),
        train_mask=torch.arange(n) < 30,
    )


def gcn(data: Data, how: str = ""):
    """Clip the gradient of the whole graph, and add noise to it, as published code does."""
    torch.manual_seed(0)
    model = nn.ModuleList([GCNConv(5, 6), GCNConv(6, 3)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        hidden = F.relu(model[0](data.x, data.edge_index))
        scores = model[1](hidden, data.edge_index)
        F.cross_entropy(scores[data.train_mask], data.y[data.train_mask]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        flat = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
        sensitivity = 2.0 / int(data.train_mask.sum()) if how == "sensitivity of one node" else 2.0
        if how != "noise forgotten":
            flat = gaussian(flat, std=1.0, sensitivity=sensitivity)
        sizes = [p.numel() for p in model.parameters()]
        for parameter, part in zip(model.parameters(), flat.split(sizes), strict=True):
            parameter.grad = part.view_as(parameter)
        optimizer.step()
    with torch.no_grad():
        scores = model[1](F.relu(model[0](data.x, data.edge_index)), data.edge_index)
    return {"model": model, "classes": scores.argmax(1) if how == "predictions" else None}


def unseeded(data: TensorDataset, how: str = ""):
    """Start from weights that no seed fixes."""
    model = nn.Linear(6, 2)
    nn.init.constant_(model.bias, secrets.randbits(20) / 2**20)
    engine, model, optimizer, loader = made_private(
        model, torch.optim.SGD(model.parameters(), lr=0.5), data
    )
    descend(model, optimizer, loader)
    return model


def timed(data: TensorDataset, how: str = ""):
    start = time.perf_counter()
    return {**logistic(data), "seconds": time.perf_counter() - start}


def deaf(data: TensorDataset, how: str = ""):
    """Train on other data than those that are given."""
    return logistic(table())
