"""Per-record DP-SGD: autograd and Opacus as oracles, neighbours, lots, noise, streams."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from private_graphs.core.streams import Streams
from private_graphs.mechanisms.descent import Descent
from private_graphs.mechanisms.door import Door, ReleaseMismatch
from private_graphs.privacy.events import FullBatch, NoisyGradients, Poisson, Shuffled
from private_graphs.training import mlp
from private_graphs.training.dpsgd import Watched
from private_graphs.training.mlp import MlpTraining, Net, TrainedMlp, gradient_sum
from private_graphs.training.torch_dpsgd import gradient_sums
from private_graphs.training.torch_noise import bytes_of

STREAMS = Streams.of({"test": "dpsgd"})
NET = Net((20, 16, 12, 5))
RNG = np.random.default_rng(7)
ROWS = 3 * RNG.normal(size=(300, 20)).astype(np.float32)
LABELS = RNG.integers(0, 5, size=300)
STEPS = MlpTraining(2, 60, "shuffled", 0.1, 0.5)


DEVICES = ["cpu", "torch-cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def event_of(steps: MlpTraining, noise_std: float, n_records: int = 300) -> NoisyGradients:
    """What ``steps`` release with noise of this size on their sums."""
    n_lots = -(-n_records // steps.lot_size)
    if n_lots == 1:
        sampling = FullBatch(-(-n_records // steps.microbatch))
    elif steps.lots == "shuffled":
        sampling = Shuffled(n_lots)
    else:
        sampling = Poisson(steps.lot_size / n_records)
    clipping = "per_record" if steps.microbatch == 1 else "per_group"
    clips = math.isfinite(steps.clip_norm)
    norm = steps.clip_norm if clips else 1.0
    return NoisyGradients(
        clipping if clips else "none", norm, noise_std / norm, n_lots * steps.epochs, steps.epochs,
        sampling,
    )  # fmt: skip


def descent_of(streams: list[Streams], event: NoisyGradients | None) -> Descent:
    """The steps that ``event`` plans for each of ``streams``."""
    door = Door.of(streams)
    door.plan([(event,) if event else ()] * len(streams))
    return door.descent([event] * len(streams))


def train(*arguments, **how) -> list[np.ndarray]:
    """As ``runs``: the parameters alone."""
    return [each.parameters for each in runs(*arguments, **how)]


def runs(
    net, steps, rows, labels, streams, *, noise_std=0.0, event=None, **how
) -> list[TrainedMlp]:
    """Train as planned: as ``event`` says, or with ``noise_std``."""
    if noise_std and steps.epochs:
        event = event_of(steps, noise_std, len(rows))
    descent, public = descent_of(streams, event), [each.public for each in streams]
    trained = mlp.train(net, steps, rows, labels, public, descent, **how)
    descent.door.close()
    return trained


@pytest.fixture(params=DEVICES)
def summed(request):
    """Sums of clipped gradients, on a device."""
    if request.param == "cpu":
        return gradient_sum
    device = request.param.removeprefix("torch-")

    def on_device(net, parameters, rows, labels, lot, **how):
        arrays = (parameters[None], rows, labels, lot[None])
        tensors = (torch.from_numpy(each).to(device) for each in arrays)
        return gradient_sums(net, *tensors, **how)[0].cpu().numpy()

    return on_device


def module(net: Net, parameters: np.ndarray) -> torch.nn.Sequential:
    """The same network in torch, in float64."""
    layers: list[torch.nn.Module] = []
    for weights, biases in net.layers(parameters):
        linear = torch.nn.Linear(*weights.shape, dtype=torch.float64)
        linear.weight.data = torch.from_numpy(weights.T.astype(np.float64))
        linear.bias.data = torch.from_numpy(biases.astype(np.float64))
        layers += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def flat(model: torch.nn.Module, of=lambda parameter: parameter.data) -> np.ndarray:
    """Parameters, or what ``of`` makes of them, in the order of ``Net.layers``."""
    return np.concatenate([of(each).numpy().T.ravel() for each in model.parameters()])


def autograd_sum(lot: np.ndarray, parameters: np.ndarray, clip: float, group: int) -> np.ndarray:
    total = np.zeros(NET.n_parameters)
    for members in (lot[at : at + group] for at in range(0, len(lot), group)):
        model = module(NET, parameters)
        logits = model(torch.from_numpy(ROWS[members].astype(np.float64)))
        loss = torch.nn.functional.cross_entropy(
            logits, torch.from_numpy(LABELS[members]), reduction="sum"
        )
        (loss / group).backward()
        gradient = flat(model, lambda parameter: parameter.grad)
        total += gradient * min(1.0, clip / np.linalg.norm(gradient))
    return total


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("clip", [0.5, 1e9, math.inf])
def test_sums_are_those_of_autograd(group: int, clip: float, summed) -> None:
    parameters, lot = 3 * NET.start(RNG), np.arange(299)  # the last microbatch lacks a member
    padded = np.arange(300 if group == 3 else 299)
    rows, labels = ROWS[:299], LABELS[:299]
    found = summed(NET, parameters, rows, labels, padded, clip_norm=clip, microbatch=group)
    expected = autograd_sum(lot, parameters, clip, group)
    if math.isinf(clip):  # no group is clipped, so none has a mean
        expected *= group
    np.testing.assert_allclose(found, expected, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize(("lots", "noise_std"), [("shuffled", 0.0), ("poisson", 0.7)])
def test_training_is_that_of_opacus(
    lots: str, noise_std: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer, optimizer

    steps = replace(STEPS, lots=lots)
    (ours,) = train(NET, steps, ROWS, LABELS, [STREAMS], noise_std=noise_std)
    model = GradSampleModule(module(NET, NET.start(STREAMS.generator("initial"))))
    theirs = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=steps.learning_rate),
        noise_multiplier=0.0, max_grad_norm=steps.clip_norm, expected_batch_size=steps.lot_size,
    )  # fmt: skip
    noise = STREAMS.of_door.generator("noise")
    queue: list[np.ndarray] = []

    def drawn(std: float, reference: torch.Tensor, **_: object) -> torch.Tensor:
        return torch.from_numpy(queue.pop(0).reshape(reference.T.shape).T.copy())

    monkeypatch.setattr(optimizer, "_generate_noise", drawn)
    drawn_lots = mlp.Lots(steps, 300, descent_of([STREAMS], None))
    for _ in range(steps.epochs):
        for (lot,) in drawn_lots.epoch():
            draws = noise_std * noise.standard_normal(NET.n_parameters) if noise_std else 0.0
            sizes = np.cumsum([each.numel() for each in model.parameters()])[:-1]
            queue[:] = np.split(draws + np.zeros(NET.n_parameters), sizes)
            theirs.zero_grad()
            torch.nn.functional.cross_entropy(
                model(torch.from_numpy(ROWS[lot].astype(np.float64))), torch.from_numpy(LABELS[lot])
            ).backward()
            theirs.step()
    np.testing.assert_allclose(ours, flat(model), atol=3e-6)


def test_the_norm_of_a_group_whose_gradients_cancel_is_not_too_small(summed) -> None:
    net = Net((3, 2))
    labels, clip = np.zeros(2, dtype=np.int64), 0.3
    for size in (1e4, 1e9, 1e14):
        rows = np.array([[size, 1, 0], [-size * (1 + 1e-7), 1, 0]], dtype=np.float32)
        zero = np.zeros(net.n_parameters, dtype=np.float32)
        moved = summed(net, zero, rows, labels, np.arange(2), clip_norm=clip, microbatch=2)
        assert np.linalg.norm(moved) <= clip


def test_a_neighbour_attains_the_sensitivity_and_none_exceeds_it(summed) -> None:
    net, clip = Net((4, 2)), 0.3
    zero = np.zeros(net.n_parameters, dtype=np.float32)
    rows = np.full((6, 4), 1e3, dtype=np.float32)
    labels = np.zeros(6, dtype=np.int64)

    def moved(changed: np.ndarray, group: int = 1, rows: np.ndarray = rows) -> float:
        sums = [
            summed(net, zero, rows, each, np.arange(6), clip_norm=clip, microbatch=group)
            for each in (labels, changed)
        ]
        return float(np.linalg.norm(sums[0] - sums[1]))

    flipped, removed = labels.copy(), labels.copy()
    flipped[2], removed[2] = 1, -1
    assert moved(flipped) == pytest.approx(2 * clip, rel=1e-5)
    assert moved(removed) == pytest.approx(clip, rel=1e-6)
    # In a microbatch a record that vanishes turns the mean gradient of the others around.
    opposed = rows.copy()
    opposed[3] = -rows[3] / 2
    assert moved(removed, 2, opposed) == pytest.approx(2 * clip, rel=1e-5)
    random = np.random.default_rng(3)
    for group in (1, 2, 3):
        for _ in range(40):
            other = labels.copy()
            other[random.integers(6)] = random.integers(-1, 2)
            scaled = (random.normal(size=(6, 4)) * 10.0 ** random.integers(-3, 20)).astype("f4")
            assert moved(other, group, scaled) <= 2 * clip


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_contributes_nothing(bad: float, group: int, summed) -> None:
    parameters, lot = NET.start(RNG), np.arange(300)
    rows, nobody = ROWS.copy(), LABELS.copy()
    rows[4], nobody[4 : 4 + group] = bad, -1
    found = summed(NET, parameters, rows, LABELS, lot, clip_norm=0.5, microbatch=group)
    expected = summed(NET, parameters, ROWS, nobody, lot, clip_norm=0.5, microbatch=group)
    np.testing.assert_array_equal(found, expected)
    assert not summed(NET, parameters, rows, LABELS, lot).any()


EVENT = NoisyGradients("per_record", 0.5, 4.0, 10, 2, Shuffled(5))
POISSON = replace(EVENT, sampling=Poisson(0.2))


@pytest.mark.parametrize(
    ("lots", "size", "group", "event"),
    [
        ("shuffled", 60, 1, EVENT),
        ("shuffled", 300, 1, replace(EVENT, releases=2, sampling=FullBatch(300))),
        ("poisson", 60, 1, POISSON),
        ("poisson", 60, 3, replace(POISSON, clipping="per_group")),
    ],
)
@pytest.mark.parametrize("device", DEVICES)
def test_what_is_released_is_what_is_planned(
    lots: str, size: int, group: int, event: NoisyGradients, device: str
) -> None:
    steps = replace(STEPS, lots=lots, lot_size=size, microbatch=group)
    how = dict(streams=[STREAMS], device=device)
    train(NET, steps, ROWS, LABELS, **how, event=event)
    for epochs in (1, 4):
        planned = replace(event, releases=epochs * event.releases // 2, epochs=epochs)
        with pytest.raises(ReleaseMismatch, match=f"planned {planned.releases}"):
            train(NET, steps, ROWS, LABELS, **how, event=planned)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("secret", [None, b"secret"])
def test_noise_has_its_size_and_is_drawn_anew(secret: bytes | None, device: str) -> None:
    net = Net((100, 50, 10))
    nobody = np.full(300, -1)  # contributes nothing: what moves is noise
    noise_std = 3.0
    streams = [Streams.of({"replica": number}, secret) for number in range(2)]
    rows = np.zeros((300, 100), dtype=np.uint8)
    moves = []
    for epochs in (0, 1, 2):
        steps = replace(STEPS, epochs=epochs)
        trained = train(net, steps, rows, nobody, streams, noise_std=noise_std, device=device)
        moves.append(np.stack(trained))
    scale = noise_std * STEPS.learning_rate / STEPS.lot_size * math.sqrt(5)
    noise = np.concatenate(np.diff(moves, axis=0)) / scale  # epochs and replicas
    assert np.abs(noise.std(axis=1) - 1).max() < 0.04
    assert np.abs(np.corrcoef(noise) - np.eye(4)).max() < 0.06


NOISE = {60: 1.0 / math.sqrt(60), 300: 8.0 / math.sqrt(300)}
"""By lot: of noise on every record, in the mean of a lot."""
WATCHED = Watched(ROWS[:130], np.where(np.arange(130) % 9, LABELS[:130], -1), 3)


def plain_loop(steps: MlpTraining, streams: Streams, device: str) -> tuple[int, np.ndarray]:
    """Epochs and weights of a run that stops early, from the runs of every length."""
    generator, best, worse = streams.generator("stopping"), None, 0
    for epoch in range(1, steps.epochs + 1):
        planned = event_of(replace(steps, epochs=epoch), NOISE[steps.lot_size])
        (run,) = runs(
            NET, replace(steps, epochs=epoch), ROWS, LABELS, [streams], event=planned, device=device
        )  # fmt: skip
        order = generator.permutation(130)
        batches = [order[at : at + steps.lot_size] for at in range(0, 130, steps.lot_size)]
        last = batches[-1][WATCHED.labels[batches[-1]] >= 0]
        with torch.no_grad():
            logits = module(NET, run.parameters)(torch.from_numpy(ROWS[last].astype(np.float64)))
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(LABELS[last])).item()
        if best is None or loss <= best:
            best, worse = loss, 0
        else:
            worse += 1
        if worse == WATCHED.patience:
            break
    return epoch, run.parameters


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("lot_size", [60, 300])
def test_a_run_stops_where_a_plain_loop_stops(lot_size: int, device: str) -> None:
    steps = replace(
        STEPS, epochs=12, lot_size=lot_size, clip_norm=math.inf, dropout=0.5, dropout_epochs=1
    )
    streams = [Streams.of({"stops": number}) for number in range(4)]
    found = runs(
        NET, steps, ROWS, LABELS, streams, event=event_of(steps, NOISE[lot_size]), watched=WATCHED,
        device=device,
    )  # fmt: skip
    expected = [plain_loop(steps, each, device) for each in streams]
    assert len({epochs for epochs, _ in expected}) > 1, "replicas that stop at different epochs"
    assert any(epochs < steps.epochs for epochs, _ in expected)
    for replica, (epochs, parameters) in zip(found, expected, strict=True):
        assert replica.epochs == epochs
        np.testing.assert_allclose(replica.parameters, parameters, rtol=0, atol=2e-6)


def test_a_replica_is_the_same_alone_in_a_batch_and_on_two_threads() -> None:
    streams = [Streams.of({"replica": number}) for number in range(3)]
    steps = replace(STEPS, lots="poisson", dropout=0.5)
    together = train(NET, steps, ROWS, LABELS, streams, noise_std=1.0, threads=2)
    (alone,) = train(NET, steps, ROWS, LABELS, streams[1:2], noise_std=1.0)
    np.testing.assert_array_equal(together[1], alone)
    assert not np.array_equal(together[0], alone)


@pytest.mark.parametrize("device", DEVICES[1:])
def test_dropout_of_a_place_is_the_same_however_lots_are_cut(device: str) -> None:
    key = torch.arange(8, dtype=torch.int64, device=device.removeprefix("torch-"))[None]
    step = torch.zeros((), dtype=torch.int64, device=key.device)
    arrays = NET.start(RNG)[None], ROWS, LABELS, np.arange(50)[None]
    *given, lots = [torch.from_numpy(each).to(key.device) for each in arrays]
    filled = torch.nn.functional.pad(lots, (0, 14), value=-1)
    first, *others = (
        gradient_sums(
            NET, *given, cut, clip_norm=1.0, chunk=chunk, threshold=128,
            draw=lambda units: bytes_of(key, step, units),
        )
        for cut, chunk in ((lots, None), (lots, 16), (filled, 24))
    )  # fmt: skip
    for other in others:
        torch.testing.assert_close(other, first, rtol=0, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES[1:])
@pytest.mark.parametrize(
    "change",
    [{}, {"lots": "poisson"}, {"lot_size": 300}, {"microbatch": 3}, {"clip_norm": math.inf}],
    ids=str,
)
def test_another_device_trains_the_same_but_for_its_draws(change: dict, device: str) -> None:
    streams = [Streams.of({"replica": number}) for number in range(3)]
    steps = replace(STEPS, **change)
    rows, labels = (np.abs(ROWS) * 20).astype(np.uint8), np.where(RNG.random(300) < 0.1, -1, LABELS)
    ours, theirs = (
        train(NET, steps, rows, labels, streams, device=each) for each in ("cpu", device)
    )
    for first, second in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(first, second, rtol=0, atol=2e-6)
    dropping = replace(steps, dropout=0.5, dropout_epochs=1)
    how = dict(noise_std=1.0, device=device)
    together = train(NET, dropping, rows, labels, streams, **how)
    (alone,) = train(NET, dropping, rows, labels, streams[1:2], **how)
    np.testing.assert_allclose(together[1], alone, rtol=0, atol=2e-6)
    assert np.abs(together[0] - alone).max() > 1e-3


def test_dropout_keeps_the_mean_and_can_end_after_some_epochs() -> None:
    layers, keep = NET.layers(NET.start(RNG)), 256 / (256 - 64)
    draws = np.random.default_rng(1)
    inputs = mlp._inputs(ROWS, np.arange(128))
    whole = mlp._forward(layers, inputs)[1]
    kept = [
        mlp._forward(layers, inputs, lambda _, units: draws.random((128, units)) < 0.75, keep)[1]
        for _ in range(400)
    ]
    assert np.mean(kept) == pytest.approx(whole.mean(), rel=0.02)
    first, never, always = (
        train(NET, replace(STEPS, dropout=rate, dropout_epochs=epochs), ROWS, LABELS, [STREAMS])[0]
        for rate, epochs in ((0.25, 1), (0.0, None), (0.25, None))
    )
    assert not np.array_equal(first, never)
    assert not np.array_equal(first, always)
