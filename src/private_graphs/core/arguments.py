"""Types of what Python gives to a verb: a wrong one is refused before anything is read or spent."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from reprlib import repr as short_repr
from types import UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from private_graphs.core.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")
_KINDS: dict[Any, Any] = {Path: os.PathLike, int: Integral, float: Real}
"""Type of a signature -> what is taken for it."""


def require_types(function: Callable[P, R]) -> Callable[P, R]:
    """Return a verb that raises UsageError for arguments which its signature does not allow.

    ``Any`` beside other types is a DataFrame of pandas. No name is empty, unless it is by default:
    an empty one would count as none.
    """

    @wraps(function)
    def verb(*values: P.args, **options: P.kwargs) -> R:
        signature = inspect.signature(function, eval_str=True)
        for name, value in signature.bind(*values, **options).arguments.items():
            parameter = signature.parameters[name]
            hint, several = parameter.annotation, parameter.kind is parameter.VAR_POSITIONAL
            for each in value if several else (value,):
                empty = isinstance(each, str) and each == "" != parameter.default
                if empty or not _fits(each, hint) or not _is_text(each):
                    choice = " or ".join(get_args(hint)) if get_origin(hint) is Literal else ""
                    raise UsageError(
                        f"{function.__name__}: --{name.replace('_', '-')} is {_shown(each)}; "
                        f"expected {choice or _words(function.__annotations__[name])}"
                        f"{', not empty' * empty}"
                    )
        return function(*values, **options)

    return verb


def _is_text(value: Any) -> bool:
    """Return whether a text or path could be the name of a file: it has no half of a character."""
    try:
        if isinstance(value, str | os.PathLike):
            os.fsencode(value)
    except UnicodeError:
        return False
    return True


def _shown(value: Any) -> str:
    """Return a short value, and of another one the type alone: it may hold private texts."""
    short = value is None or isinstance(value, str | bytes | Real | os.PathLike)
    return short_repr(value) if short else f"of type {type(value).__name__}"


def _words(hint: str) -> str:
    return hint.replace("Any", "DataFrame")


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type, such as ``Mapping[str, float] | None``."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        frame = Any in parts and hasattr(value, "iloc") and hasattr(value, "columns")
        return frame or any(_fits(value, part) for part in parts if part is not Any)
    if kind is Literal:
        return value in [*parts]
    if isinstance(value, bool):
        return kind is bool  # no number, though Python counts with it
    if isinstance(value, Mapping) and kind is Mapping:
        return all(_fits(key, parts[0]) and _fits(item, parts[1]) for key, item in value.items())
    if isinstance(value, Mapping | bytes):
        return False
    if kind is Sequence:
        # the order of a set is another one in each process
        texts = isinstance(value, Collection) and not isinstance(value, str | set | frozenset)
        return texts and all(_fits(each, parts[0]) for each in value)
    return isinstance(value, _KINDS.get(kind, kind))
