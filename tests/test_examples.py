"""Examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = ("accountants", "calibration", "moments", "named_accountants", "queries")


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module_print_what_they_say(name):
    outcome = doctest.testmod(importlib.import_module(f"private_graphs.privacy.{name}"))
    assert outcome.attempted and not outcome.failed
