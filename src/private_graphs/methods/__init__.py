"""Methods by name: every module of this package that ends with ``METHODS``."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from private_graphs.errors import UsageError, suggest
from private_graphs.methods.method import Method


@cache
def all_methods() -> dict[str, Method]:
    """Return every method by name, in the order of modules and of their ``METHODS``."""
    return {name: method for name, (method, _) in _with_modules().items()}


def module_of(name: str) -> str:
    """Return the dotted name of the module that a method is defined in."""
    method_named(name)
    return _with_modules()[name][1]


@cache
def _with_modules() -> dict[str, tuple[Method, str]]:
    methods: dict[str, tuple[Method, str]] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        for method in getattr(importlib.import_module(module.name), "METHODS", ()):
            if method.name in methods:
                raise RuntimeError(f"{module.name}: there is a method {method.name!r} already")
            methods[method.name] = (method, module.name)
    return methods


def method_named(name: str) -> Method:
    """Return a method; UsageError for a name that there is not."""
    methods = all_methods()
    if name not in methods:
        raise UsageError(
            f"unknown method {name!r}; expected {', '.join(methods)}{suggest(name, methods)}"
        )
    return methods[name]


def methods_of(scenario: str) -> list[str]:
    """Return the methods that run under ``scenario``."""
    return [method.name for method in all_methods().values() if scenario in method.scenarios]
