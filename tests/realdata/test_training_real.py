"""Training on the real graphs: the known scores, and one step of PyTorch Geometric."""

from __future__ import annotations

import pytest
from small_jobs import job_of

from private_graphs.datasets.registry import build
from private_graphs.datasets.sources import supply
from private_graphs.running.run import execute


@pytest.fixture(scope="module")
def real(mirror, tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    supply(["cora", "citeseer"], folder, mirror, progress=lambda *_: None)
    return {name: build(name, folder) for name in ("cora", "citeseer")}


def train(dataset, protocol: str, optimizer: str, epsilons=(float("inf"),), seeds=(0,), **settings):
    settings = {"splits": 1, "epochs": 500, "dtype": "float32", "optimizer": optimizer} | settings
    job = job_of(protocol=protocol, settings=settings, epsilons=epsilons, seeds=seeds)
    return execute(job, dataset).rows


def test_cora_is_learned_as_in_the_paper_and_better_than_its_majority(real):
    runs = train(real["cora"], "released", "adam", seeds=(0, 1))
    assert runs["majority_micro_f1"].tolist() == pytest.approx([0.319, 0.319])
    assert runs["test_micro_f1"].min() >= 0.86
    assert (runs["epochs"] < 500).all()  # stopped early
    assert runs["random_micro_f1"].between(0.1, 0.25).all()


def test_citeseer_is_learned_and_its_majority_is_that_of_the_paper(real):
    runs = train(real["citeseer"], "released", "adam")
    assert runs["majority_micro_f1"].item() == pytest.approx(0.181)
    assert runs["test_micro_f1"].item() >= 0.75


def test_cora_ml_is_learned_under_every_protocol_and_budgeted_as_stated(mirror, tmp_path):
    if not (mirror / "citation-npz" / "cora_ml.npz").is_file():
        pytest.skip(f"the mirror {mirror} has no citation-npz/cora_ml.npz")
    supply(["cora-ml"], tmp_path, mirror, progress=lambda *_: None)
    dataset = build("cora-ml", tmp_path)
    for protocol in ("released", "paper", "sound"):
        runs = train(dataset, protocol, "adam", epochs=100)
        assert runs["majority_micro_f1"].item() == pytest.approx(0.296)
        assert runs["test_micro_f1"].item() > 0.6
    private = train(dataset, "sound", "adam", epochs=20, splits=10, epsilons=(2.0,))
    assert (private["epsilon_proved"] <= 2).all() and (private["unit"] == "node").all()
    assert private["test_macro_f1"].between(0, 1).all()


def test_joint_clipping_on_cora_leaves_little_of_what_released_learns(real):
    """The printed noise of ε = 2: unclipped gradients still learn, clipped ones do not."""
    private = dict(epsilons=(2.0,), learning_rate=10.0)
    released = train(real["cora"], "released", "adam", **private)
    paper = train(real["cora"], "paper", "adam", **private)
    assert released["noise_multiplier"].item() == paper["noise_multiplier"].item() == 56
    assert released["test_micro_f1"].item() > 0.4
    assert paper["test_micro_f1"].item() < 0.35
