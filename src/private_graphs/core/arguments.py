"""Types of what Python gives to a verb: a wrong one is refused before anything is read or spent."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from reprlib import repr as shortened
from types import UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from private_graphs.core.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")
_KINDS: dict[Any, Any] = {Path: os.PathLike, int: Integral, float: Real}
"""Type of a signature -> what is taken for it."""


def typed(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` that raises UsageError for arguments which its signature does not allow.

    ``Any`` beside other types is an object of a library, such as a DataFrame. No name is empty,
    unless it is by default: an empty one would count as none.
    """

    @wraps(function)
    def checked(*given: P.args, **named: P.kwargs) -> R:
        signature = inspect.signature(function, eval_str=True)
        for name, value in signature.bind(*given, **named).arguments.items():
            parameter = signature.parameters[name]
            several = parameter.kind is parameter.VAR_POSITIONAL
            for each in value if several else (value,):
                empty = isinstance(each, str) and each == "" != parameter.default
                if empty or not _fits(each, parameter.annotation):
                    kinds = " or ".join(map(str, get_args(parameter.annotation)))
                    choice = get_origin(parameter.annotation) is Literal
                    raise UsageError(
                        f"{function.__name__}: --{name.replace('_', '-')} is {shortened(each)}; "
                        f"expected {kinds if choice else function.__annotations__[name]}"
                        f"{', not empty' * empty}"
                    )
        return function(*given, **named)

    return checked


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type, such as ``Mapping[str, float] | None``."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        library = Any in parts and type(value).__module__ != "builtins"
        return library or any(_fits(value, part) for part in parts if part is not Any)
    if origin is Literal:
        return isinstance(value, str) and value in parts
    kind = origin or hint
    if isinstance(value, bool):
        return kind is bool  # no number, though Python counts with it
    if isinstance(value, Mapping):
        return kind is Mapping and all(
            _fits(each, part)
            for pair in value.items()
            for each, part in zip(pair, parts, strict=True)
        )
    if kind is Sequence:
        return isinstance(value, Collection) and not isinstance(value, str | bytes) and all(
            _fits(each, parts[0]) for each in value
        )  # fmt: skip
    return isinstance(value, _KINDS.get(kind, kind))
