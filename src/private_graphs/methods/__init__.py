"""Methods by name: every module of this package, or of a study's ``methods``, with ``METHODS``.

A method is defined in the module of its name, or of its name's beginning (``appr_gaussian`` in
``appr.py``), so that looking up one imports one. An installed package adds modules by entry points
of the group ``private_graphs.methods``: the name stands for the file's, the value names the module.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from private_graphs.core.errors import UsageError, suggest
from private_graphs.core.imports import modules_of

if TYPE_CHECKING:
    from private_graphs.tasks.method import Method


@cache
def all_methods() -> dict[str, Method]:
    """Return every method by name, in the order of modules and of their ``METHODS``."""
    methods: dict[str, Method] = {}
    for module in _modules().values():
        for method in _defined(module):
            if method.name in methods:
                raise RuntimeError(f"{module}: there is a method {method.name!r} already")
            if _module(method.name) != module:
                raise RuntimeError(f"{module}: the name of {method.name!r} leads to another module")
            methods[method.name] = method
    return methods


def module_of(name: str) -> str:
    """Return the dotted name of the module that a method is defined in."""
    method_named(name)
    return _module(name) or ""


def method_named(name: str) -> Method:
    """Return the method ``name``; UsageError if there is none."""
    module = _module(name)
    for method in _defined(module) if module else ():
        if method.name == name:
            return method
    methods = all_methods()
    raise UsageError(
        f"unknown method {name!r}; expected {', '.join(methods)}{suggest(name, methods)}"
    )


def methods_of(scenario: str) -> list[str]:
    """Return the methods that run under ``scenario``."""
    return [method.name for method in all_methods().values() if scenario in method.scenarios]


@cache
def _modules() -> dict[str, str]:
    """Return the dotted names of modules with methods by the beginning of the methods' names."""
    modules = dict(modules_of(__name__))
    for entry in entry_points(group=__name__):
        if entry.name in modules:
            raise UsageError(
                f"{entry.value}: an entry point of {__name__} is named {entry.name!r}, as a module "
                f"of {modules[entry.name]} is; expected a name of its own: rename it"
            )
        modules[entry.name] = entry.module
    return dict(sorted(modules.items()))


def _defined(module: str) -> tuple[Method, ...]:
    return getattr(importlib.import_module(module), "METHODS", ())


def _module(name: str) -> str | None:
    """Return the module with the longest name that begins a method's name, in whole words."""
    modules, words = _modules(), name.split("_")
    stems = ("_".join(words[:count]) for count in range(len(words), 0, -1))
    return next((modules[stem] for stem in stems if stem in modules), None)
