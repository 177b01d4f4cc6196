"""The protocols are immutable, documented values that nothing asks for by name."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from pathlib import Path

import pytest

from private_graphs import protocols
from private_graphs.datasets import views
from private_graphs.methods import all_methods, gcn_protocols
from private_graphs.methods.gcn_protocols import (
    PAPER,
    PROTOCOLS,
    RELEASED,
    SOUND,
    SOUND_POISSON,
    GcnProtocol,
)

TABLE = {  # field: released, paper, sound
    "clipping": ("none", "global_norm", "global_norm"),
    "message_passing": ("whole_graph", "induced", "induced"),
    "visits": ("shuffled", "shuffled", "epoch_sum"),
    "test_graph": ("whole_graph", "whole_graph", "evaluated_mask"),
    "private_selection_graph": ("whole_graph", "evaluated_mask", "evaluated_mask"),
    "dropout": ("first_epoch", "every_epoch", "every_epoch"),
    "stopped_weights": ("last", "best_validation", "best_validation"),
    "unlabelled": ("class_zero", "ignored", "ignored"),
    "calibration": ("published", "published", "proved"),
    "subsampling": ("stratified", "stratified", "keyed_coin"),
    "random_baseline": ("without_last_class", "all_classes", "all_classes"),
    "inference": ("leaks", "leaks", "inductive_disjoint"),
    "data": (views.RELEASED, views.PAPER, views.SOUND),
    "stops_on_test": (None, None, None),
    "prepares": ("", "", ""),
}
VIEWS = {  # field: released, paper, sound, sound with label
    "profile_reading": ("as_released", "exact", "exact", "exact"),
    "profile_ranking": (
        "non_null_columns", "completion_percentage", "completion_percentage",
        "completion_percentage",
    ),
    "label_column": ("kept", "kept", "dropped", "kept"),
    "vocabulary": ("all_nodes", "all_nodes", "public_nodes", "public_nodes"),
    "empty_texts": ("counted", "masked", "masked", "masked"),
    "node_sample": ("stratified", "stratified", "keyed_coin", "keyed_coin"),
    "missing_class": ("kept", "dropped", "dropped", "dropped"),
    "copies": ("split", "split", "none", "none"),
}  # fmt: skip


def test_the_protocols_have_the_stated_fields():
    names = {field.name for field in dataclasses.fields(GcnProtocol)}
    assert names == {"name", "summary", *TABLE}
    for field, values in TABLE.items():
        assert tuple(getattr(each, field) for each in (RELEASED, PAPER, SOUND)) == values
    assert {"released": RELEASED, "paper": PAPER, "sound": SOUND} == PROTOCOLS


def test_the_views_have_the_stated_fields():
    names = {field.name for field in dataclasses.fields(views.DataView)}
    assert names == {"name", *VIEWS}
    for field, values in VIEWS.items():
        assert tuple(getattr(each, field) for each in views.VIEWS.values()) == values
    assert list(views.VIEWS) == ["released", "paper", "sound", "sound-with-label"]


def test_the_poisson_variant_differs_from_sound_in_its_visits_alone():
    changed = {
        field.name
        for field in dataclasses.fields(GcnProtocol)
        if getattr(SOUND, field.name) != getattr(SOUND_POISSON, field.name)
    }
    assert changed == {"visits", "summary"} and SOUND_POISSON.visits == "poisson"


def test_a_protocol_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SOUND.clipping = "none"


def test_every_method_takes_its_protocols_from_the_three():
    for method in all_methods().values():
        assert set(method.protocols) <= set(protocols.PROTOCOLS)
        for name, protocol in method.protocols.items():
            base = protocols.PROTOCOLS[name]
            assert (protocol.name, protocol.data) == (name, base.data)
            assert protocol.calibration == base.calibration


def test_every_field_is_documented():
    documented = set()
    for module in (protocols, gcn_protocols):
        for body in (
            node.body
            for node in ast.parse(inspect.getsource(module)).body
            if isinstance(node, ast.ClassDef)
        ):
            documented |= {
                before.target.id
                for before, after in zip(body, body[1:], strict=False)
                if isinstance(before, ast.AnnAssign)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            }
    assert documented == {"summary", *TABLE}


@pytest.mark.parametrize("folder", ["training", "methods", "graphs", "privacy", "attacks"])
def test_no_trainer_compares_with_a_name_of_a_protocol(root: Path, folder):
    for path in (root / "src" / "private_graphs" / folder).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                constants = [
                    each.value for each in ast.walk(node)
                    if isinstance(each, ast.Constant) and each.value in PROTOCOLS
                ]  # fmt: skip
                assert not constants, f"{path.name}:{node.lineno}: {constants}"
