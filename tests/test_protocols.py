"""The protocols are immutable, documented values that nothing asks for by name."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from pathlib import Path

import pytest

from private_graphs.datasets import protocols
from private_graphs.methods import all_methods
from private_graphs.methods.gcn_protocols import PROTOCOLS, SOUND
from private_graphs.training import gcn_protocol


def test_every_method_takes_its_protocols_from_the_three():
    for method in all_methods().values():
        assert set(method.protocols) <= set(protocols.PROTOCOLS)
        for name, protocol in method.protocols.items():
            base = protocols.PROTOCOLS[name]
            assert (protocol.name, protocol.data) == (name, base.data)
            assert protocol.calibration == base.calibration


def test_every_field_is_documented():
    documented = set()
    for module in (protocols, gcn_protocol):
        for body in (
            node.body
            for node in ast.parse(inspect.getsource(module)).body
            if isinstance(node, ast.ClassDef) and node.name.endswith("Protocol")
        ):
            documented |= {
                before.target.id
                for before, after in zip(body, body[1:], strict=False)
                if isinstance(before, ast.AnnAssign)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            }
    assert documented == {field.name for field in fields(SOUND)} - {"name"}


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
