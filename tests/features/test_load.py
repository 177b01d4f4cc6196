"""From a declaration to a build: whose model it is, and when a build is made again."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from private_graphs.core.errors import UserError
from private_graphs.datasets.own import OwnGraph, remember
from private_graphs.datasets.registry import dataset_spec
from private_graphs.datasets.views import SOUND
from private_graphs.features import build
from private_graphs.features.build import feature_options
from private_graphs.features.load import load_dataset
from private_graphs.features.matrix import FeatureMatrix
from private_graphs.features.models import own_model_files

NODES = "id,body,topic,split\na,one,x,train\nb,two,y,train\nc,three,x,val\nd,four,y,test\n"
KINDS = ("bow", "fasttext", "bert", "sbert")


@pytest.fixture
def declare(tmp_path, monkeypatch):
    """Declare the graph g in a working folder with two models."""
    monkeypatch.chdir(tmp_path)
    Path("nodes.csv").write_text(NODES)
    Path("edges.csv").write_text("source,target\na,b\n")
    Path("vectors.bin").write_bytes(build.FASTTEXT_MAGIC + b"vectors")
    for name in ("config.json", "modules.json", "1_Pooling/config.json", ".cache/lock", ".hidden"):
        path = Path("folder", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)

    def call(**changes):
        files = {"nodes": "nodes.csv", "edges": "edges.csv"}
        columns = {"text": "body", "label": "topic", "split": "split"}
        remember(OwnGraph(name="g", **files, **columns, **changes), "data/own")
        return dataset_spec("g")

    return call


@pytest.fixture
def made(monkeypatch) -> list[tuple[str, str]]:
    """Stand in for making and downloading; collect what would be made, (kind, device)."""
    calls = []

    def make(texts, kind, view, options):
        calls.append((kind, options.device))
        return FeatureMatrix(np.ones((4, 2), np.float32), (), options.model_files)

    monkeypatch.setattr(build, "make_features", make)
    monkeypatch.setattr(build, "resolve_device", lambda device: device)
    return calls


def loaded(kind: str, device: str = "cpu"):
    return load_dataset("g", kind, SOUND, Path("data/raw"), device=device)


def test_a_model_is_used_for_the_declared_features_and_replaces_no_other(declare):
    options = {}
    for features, model in (("fasttext", "vectors.bin"), ("bert", "folder"), ("sbert", "folder")):
        spec = declare(features=features, model=model)
        for kind in KINDS:
            if not spec.models_of(kind):
                options[kind] = feature_options(spec, kind, Path("data/raw"), Path("cache"))
        assert options[features].model == Path(model) and options[features].model_name == model
        assert [each.file for each in options[features].model_files] == own_model_files(spec)
        assert all(options[kind].model is None for kind in options if kind != features)
        assert {kind for kind in KINDS if spec.models_of(kind)} == {"bert", "sbert"} - {features}
        options.clear()


def test_the_files_of_a_model_are_listed_without_hidden_ones(declare):
    spec = declare(features="sbert", model="folder")
    assert own_model_files(spec) == [
        "folder/1_Pooling/config.json", "folder/config.json", "folder/modules.json",
    ]  # fmt: skip
    assert own_model_files(spec, "sbert") == own_model_files(spec)
    assert own_model_files(spec, "bow") == [] == own_model_files(dataset_spec("cora"))
    assert own_model_files(declare(features="fasttext", model="vectors.bin")) == ["vectors.bin"]
    missing = declare(features="fasttext", model="none.bin")
    assert own_model_files(missing) == []
    with pytest.raises(UserError, match="none.bin: no such model"):
        loaded("fasttext")


@pytest.mark.parametrize("kind", ["fasttext", "bert", "sbert"])
def test_a_folder_that_is_no_model_is_not_read_through(declare, made, monkeypatch, kind):
    monkeypatch.setattr(Path, "rglob", lambda *_: pytest.fail("read through"))
    Path("other").mkdir()
    assert own_model_files(declare(features=kind, model="other")) == []
    with pytest.raises(UserError, match="other: no such model"):
        loaded(kind)


@pytest.mark.parametrize(
    ("kind", "model", "file"),
    [("fasttext", "vectors.bin", "vectors.bin"), ("sbert", "folder", "folder/config.json")],
)
def test_a_model_that_changed_in_its_place_is_noticed(declare, made, kind, model, file):
    declare(features=kind, model=model)
    for _ in range(2):
        loaded(kind)
    assert made == [(kind, "cpu")]
    before = Path(file).read_bytes()
    Path(file).write_bytes(before[:-2] + before[:-3:-1])
    loaded(kind)
    assert Path(file).read_bytes() != before and len(made) == 2
    Path("folder/.hidden").write_text("no part of the model")
    loaded(kind)
    assert len(made) == 2


def test_a_build_is_of_one_precision(declare, made):
    declare(features="bert", model="embedded")
    for device in ("cpu", "cpu", "cuda", "cuda", "cpu"):
        loaded("bert", device)
    assert made == [("bert", "cpu"), ("bert", "cuda"), ("bert", "cpu")]


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_no_fasttext_model_is_named_and_nobody_is_told_to_delete_it(declare, made, packed):
    content, name = b"2 300\nthe 0.1 0.2\n", "cc.en.300.vec.gz" if packed else "cc.en.300.vec"
    Path(name).write_bytes(gzip.compress(content) if packed else content)
    declare(features="fasttext", model=name)
    with pytest.raises(UserError, match="is no binary fastText model") as error:
        loaded("fasttext")
    assert "delete" not in str(error.value) and made == []
    Path(name).write_bytes(gzip.compress(content)[:12])
    with pytest.raises(UserError, match=name):
        loaded("fasttext")
