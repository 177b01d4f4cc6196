"""Three examples of Opacus, as their files are, on small invented data.

OPACUS_EXAMPLES names the folder examples/ of a checkout of Opacus. Their own functions are called
as their main() calls them, with smaller networks, on the CPU.
"""

import argparse
import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from unittest import mock

import torch
from opacus import GradSampleModule, PrivacyEngine
from opacus.layers import DPLSTM
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

FOLDER = Path(os.environ.get("OPACUS_EXAMPLES", "opacus/examples"))
READERS = ("datasets", "torchvision", "transformers")
"""Packages that read the data of these examples, which the functions used here do not."""


def example(file):
    """Import one of the files."""
    spec = spec_from_file_location(Path(file).stem.replace("-", "_"), FOLDER / file)
    module = module_from_spec(spec)
    with mock.patch.dict(sys.modules, {name: mock.MagicMock() for name in READERS}):
        with mock.patch.object(sys, "argv", [file]):
            spec.loader.exec_module(module)
    return module


def draws():
    return torch.Generator().manual_seed(0)


def digits():
    return TensorDataset(torch.randn(96, 1, 28, 28, generator=draws()),
                         torch.randint(0, 10, (96,), generator=draws()))  # fmt: skip


def mnist(data):
    file, engine = example("mnist.py"), PrivacyEngine()
    model = file.SampleConvNet()
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optim.SGD(model.parameters(), lr=0.1, momentum=0),
        data_loader=DataLoader(data, batch_size=32), noise_multiplier=1.0, max_grad_norm=1.0,
    )  # fmt: skip
    options = argparse.Namespace(disable_dp=False, delta=1e-3, device="cpu")
    file.train(options, model, torch.device("cpu"), loader, optimizer, engine, 1)
    return model


def encoded(name):
    return example("char-lstm-classification.py").CharByteEncoder()(name)


def names():
    """Return 60 names of 3 to 11 letters, in four classes."""
    random, encoder = draws(), example("char-lstm-classification.py").CharByteEncoder()
    sizes = torch.randint(3, 12, (60,), generator=random).tolist()
    letters = [torch.randint(97, 123, (size,), generator=random).tolist() for size in sizes]
    return [(encoder("".join(map(chr, name))), torch.tensor(number % 4))
            for number, name in enumerate(letters)]  # fmt: skip


def char_lstm(data):
    file, engine = example("char-lstm-classification.py"), PrivacyEngine()
    model = file.CharNNClassifier(DPLSTM, 16, 16, 4)
    loader = DataLoader(data, batch_size=20, collate_fn=file.padded_collate)
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optim.SGD(model.parameters(), lr=2.0), data_loader=loader,
        noise_multiplier=1.0, max_grad_norm=1.5,
    )  # fmt: skip
    file.train(model, nn.CrossEntropyLoss(), optimizer, loader, 0, engine, 1e-3, device="cpu")
    return model


def reviews():
    """Return 60 texts of 9 to 33 words, in two classes."""
    random = draws()
    sizes = torch.randint(9, 34, (60,), generator=random).tolist()
    return [{"input_ids": torch.randint(1, 50, (size,), generator=random),
             "label": torch.tensor(number % 2)} for number, size in enumerate(sizes)]  # fmt: skip


def imdb(data):
    file, engine = example("imdb.py"), PrivacyEngine()
    model = file.SampleNet(vocab_size=50)
    loader = DataLoader(data, batch_size=16, collate_fn=file.padded_collate, shuffle=True)
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optim.Adam(model.parameters(), lr=0.02), data_loader=loader,
        noise_multiplier=0.56, max_grad_norm=1.0, poisson_sampling=False,
    )  # fmt: skip
    options = argparse.Namespace(disable_dp=False, delta=1e-3, device="cpu")
    file.train(options, model, loader, optimizer, engine, 1)
    return model


def without_the_audit():
    """Print how far the gradient of "anna" moves if another record of its batch is replaced."""
    file = example("char-lstm-classification.py")
    torch.manual_seed(0)
    model = GradSampleModule(file.CharNNClassifier(DPLSTM, 16, 16, 4))

    def gradient(other):
        batch = [(encoded("anna"), torch.tensor(0)), (encoded(other), torch.tensor(1))]
        rows, labels = file.padded_collate(batch)
        model.zero_grad()
        nn.functional.cross_entropy(model(rows), labels).backward()
        return torch.cat([p.grad_sample[0].reshape(-1) for p in model.parameters()])

    first = gradient("bob")
    print(f"norm of the gradient of anna, beside bob: {first.norm():.2f}")
    print(f"it moves by {(gradient('eve') - first).norm():.2f} if bob becomes eve,")
    print(f"and by {(gradient('x' * 60) - first).norm():.2f} if bob becomes a name of 60 letters")


if __name__ == "__main__":
    without_the_audit()
