"""Catalog of the studies: their exhibits, modules and claims, found by name."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from private_graphs.core.errors import UsageError, suggest

if TYPE_CHECKING:
    from private_graphs.running.exhibit import Exhibit

_STUDIES = "private_graphs.studies"
_FOLDER = Path(__file__).resolve().parents[1] / "studies"


def exhibits_by_name(study_id: str) -> dict[str, Exhibit]:
    """Return the exhibits of a study by name: every ``Exhibit`` of its modules, and of
    their tuples."""
    return {name: exhibit for name, (_, exhibit) in _exhibits(study_id).items()}


def exhibit_module(study_id: str, name: str) -> str:
    """Return the module that defines an exhibit."""
    return _exhibits(study_id)[name][0]


@cache
def _exhibits(study_id: str) -> dict[str, tuple[str, Exhibit]]:
    from private_graphs.running.exhibit import Exhibit

    values = [
        (module, value)
        for module in modules_of([study_id])
        for values in vars(importlib.import_module(module)).values()
        for value in (values if isinstance(values, tuple) else (values,))
    ]
    pairs = {value.name: (module, value) for module, value in values if isinstance(value, Exhibit)}
    return dict(sorted(pairs.items()))


def modules_of(study_ids: Iterable[str]) -> list[str]:
    """Return the modules of studies: exhibits, rules of claims, and their shared code."""
    names = []
    for package in (f"{_STUDIES}.{study_id}" for study_id in study_ids):
        spec = importlib.util.find_spec(package)
        places = spec.submodule_search_locations if spec else []
        modules = pkgutil.iter_modules(places, f"{package}.")
        names += [module.name for module in modules if not module.ispkg]
    return names


def claims_module(study_id: str) -> str | None:
    """Return the module with the rules of a study's claims, if it has one."""
    name = f"{_STUDIES}.{study_id}.claims"
    return name if name in modules_of([study_id]) else None


def named(words: tuple[str, ...], study_ids: list[str]) -> list[tuple[str, str]]:
    """Return (study, exhibit) for names such as ``table1`` or ``STUDY.table1``.

    Raises UsageError for a name that no study of ``study_ids`` has, or that two have.
    """
    pairs = [(study, name) for study in study_ids for name in exhibits_by_name(study)]
    chosen = []
    for word in words:
        fitting = [pair for pair in pairs if word in (pair[1], ".".join(pair))]
        if len(fitting) > 1:
            choices = " or ".join(".".join(pair) for pair in fitting)
            raise UsageError(f"configuration: exhibits: {word!r} is an exhibit of two studies: "
                             f"write {choices}")  # fmt: skip
        if not fitting:
            raise UsageError(f"configuration: exhibits: {_unknown(word, pairs, study_ids)}")
        chosen += fitting
    return list(dict.fromkeys(chosen))


def _unknown(word: str, pairs: list[tuple[str, str]], study_ids: list[str]) -> str:
    """Return the error text for an unknown exhibit, with the names that exist."""
    study, _, name = word.rpartition(".")
    if study and study not in study_ids:
        full = [".".join(pair) for pair in pairs]
        return (
            f"unknown study {study!r} of {word!r}; expected one of this run's studies: "
            f"{', '.join(study_ids)}{suggest(word, full)}"
        )
    names = list(dict.fromkeys(name for owner, name in pairs if study in ("", owner)))
    folders = (path.name for path in sorted(_FOLDER.iterdir()) if path.is_dir())
    elsewhere = [
        owner for owner in folders
        if not study and owner[0] != "_" and name in exhibits_by_name(owner)
    ]  # fmt: skip
    if elsewhere:
        return f"{name!r} is an exhibit of {elsewhere[0]}: add studies={elsewhere[0]}"
    of = f" of {study}" if study else ""
    return f"unknown name {name!r}{of}; expected {', '.join(names)}{suggest(name, names)}"
