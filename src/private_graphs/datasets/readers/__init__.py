"""Readers of built-in datasets: modules with ``DATASETS``, here or in a study's ``readers``.

The file ``names.yaml`` next to them has the names of their datasets, so that a name is found
without importing a module that does not define it.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from private_graphs.core.files import parsed_yaml
from private_graphs.core.imports import PACKAGE, modules_of

if TYPE_CHECKING:
    from private_graphs.datasets.spec import DatasetSpec


@cache
def modules_by_name() -> dict[str, str]:
    """Return the dotted names of readers by dataset, by module and in its order.

    A name that ends in ``*`` stands for those that the module's function ``named`` (name → spec or
    None) finds and no list holds.
    """
    modules = modules_of(__name__)
    folders = {PACKAGE.joinpath(*module.split(".")[1:-1]) for module in modules.values()}
    lists: dict[str, list[str]] = {}
    for folder in folders:
        lists |= parsed_yaml((folder / "names.yaml").read_text(encoding="utf-8"))
    return {name: modules[stem] for stem in sorted(lists) for name in lists[stem]}


class BuiltIn(MutableMapping[str, "DatasetSpec"]):
    """Every built-in dataset by name; a look-up imports the module of that dataset alone."""

    def __init__(self) -> None:
        self._specs: dict[str, DatasetSpec] = {}

    def module(self, name: str) -> str:
        """Return the dotted name of the module that reads a dataset; KeyError if there is none."""
        if name in _listed():
            return _listed()[name]
        return _composed(name)[0]

    def __contains__(self, name: object) -> bool:
        if name in self._specs or name in _listed():
            return True
        try:
            _composed(str(name))
        except KeyError:
            return False
        return True

    def __getitem__(self, name: str) -> DatasetSpec:
        if name not in self._specs:
            if name not in _listed():
                return _composed(name)[1]
            for spec in import_module(_listed()[name]).DATASETS:
                self._specs.setdefault(spec.name, spec)
        return self._specs[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*(name for name in self._specs if name not in _listed()), *_listed()])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __setitem__(self, name: str, spec: DatasetSpec) -> None:
        self._specs[name] = spec

    def __delitem__(self, name: str) -> None:
        del self._specs[name]


@cache
def _listed() -> dict[str, str]:
    """Return the names of ``modules_by_name`` that stand for one dataset."""
    return {name: module for name, module in modules_by_name().items() if name[-1] != "*"}


def _composed(name: str) -> tuple[str, DatasetSpec]:
    """Return module and spec of a name that no list holds; KeyError if there is none."""
    for start, module in modules_by_name().items():
        if start.endswith("*") and name.startswith(start[:-1]):
            spec = import_module(module).named(name)
            if spec is not None:
                return module, spec
    raise KeyError(name)


DATASETS = BuiltIn()
