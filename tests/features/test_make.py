"""The one door to all kinds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from private_graphs.core.errors import UserError
from private_graphs.datasets.spec import TEXT_FEATURES
from private_graphs.datasets.views import PAPER, RELEASED, SOUND
from private_graphs.features.make import FeatureOptions, make_features


def test_an_unknown_kind_is_named_with_the_nearest(labelled):
    with pytest.raises(UserError, match="'fastext'.*bert, bow, fasttext, sbert.*'fasttext'"):
        make_features(labelled, "fastext", SOUND, FeatureOptions())


@pytest.mark.parametrize("view", [RELEASED, PAPER, SOUND], ids=lambda view: view.name)
@pytest.mark.parametrize("kind", TEXT_FEATURES)
def test_embedded_features_make_a_dataset_and_carry_signal(
    kind, view, labelled, tmp_path, no_network
):
    if kind == "sbert":
        pytest.importorskip("sentence_transformers")
    options = FeatureOptions(counts=(3, 1000), cache=tmp_path, device="cpu")
    found = make_features(labelled, kind, view, options)
    dataset = labelled.with_features(
        found.values, kind, list(found.preprocessing), list(found.models)
    )
    assert dataset.info.features == kind and found.preprocessing
    assert all(each.url is None for each in found.models) and bool(found.models) == (kind != "bow")
    x = found.values.to_scipy().toarray() if kind == "bow" else found.values
    assert x.dtype == np.float32
    x = StandardScaler().fit_transform(x)
    train = labelled.train_mask
    model = LogisticRegression(C=0.01, max_iter=500).fit(x[train], labelled.labels[train])
    assert model.score(x[~train], labelled.labels[~train]) > 0.7  # the majority: 0.5


@pytest.mark.parametrize("kind", ["fasttext", "bert", "sbert"])
def test_embedded_models_are_the_same_in_every_run(kind, labelled):
    if kind == "sbert":
        pytest.importorskip("sentence_transformers")
    first, second = (
        make_features(labelled, kind, SOUND, FeatureOptions(counts=(3, 1000), device="cpu"))
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.values, second.values)
    assert [each.sha256 for each in first.models] == [each.sha256 for each in second.models]
