"""Reads: the numbers that code takes out of tensors into Python, where a replay cannot follow them.

A number that differs between two neighbours is private. Whether it decides what is released is
tested by a run that gets other numbers in its place (``other_numbers``).
"""

from __future__ import annotations

import inspect
import math
import sysconfig
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

TURNS = (0, 1, 2)
"""Runs with other numbers: how floats are scaled (``tensor_reads``)."""
NUMBERS = 1000
"""Largest array whose numbers are kept and replaced."""
_OURS = ("private_graphs.mechanisms", "private_graphs.attacks", "unittest")
_PACKAGES = {str(Path(sysconfig.get_paths()[name])) for name in ("purelib", "platlib", "stdlib")}


@contextmanager
def tensor_reads(
    others: Mapping[str, Sequence[Any]] | None = None, turn: int = 0
) -> Iterator[dict[str, list[Any]]]:
    """Collect the numbers that are read out of tensors: ``file:line`` -> values, in order.

    Packages that are installed, and the audit itself, are not looked at. ``others``: place ->
    values, one of which is returned in place of the number that is read there. Floats are also
    scaled, to pass thresholds: in ``turn`` 0 by up to 3, in 1 and 2 by 0 and by 10 in turns.
    """
    import torch

    numbers: dict[str, list[Any]] = defaultdict(list)
    draws = np.random.default_rng(0)

    def watched(method: Callable[..., Any]) -> Callable[..., Any]:
        def read(self: Any, *arguments: Any, **options: Any) -> Any:
            value = method(self, *arguments, **options)
            frame = inspect.currentframe()
            line = _place(frame.f_back if frame else None)
            if line:
                numbers[line].append(_number(value))
                if others and line in others:
                    far = 10.0 * ((len(numbers[line]) + turn) % 2)
                    factor = far if turn else 3 * draws.random()
                    value = _other(value, others[line], draws, factor)
            return value

        return read

    with ExitStack() as patches:
        for name in ("item", "tolist", "numpy", "__bool__", "__float__", "__int__", "__index__"):
            method = watched(getattr(torch.Tensor, name))
            patches.enter_context(mock.patch.object(torch.Tensor, name, method))
        yield numbers


def private_places(first: Mapping[str, list[Any]], second: Mapping[str, list[Any]]) -> set[str]:
    """Return the places whose numbers differ between the runs of two neighbours."""
    return {
        line
        for line in first.keys() & second.keys()
        if [*map(_content, first[line])] != [*map(_content, second[line])]
    }


def other_numbers(
    runs: Sequence[Mapping[str, list[Any]]], places: set[str]
) -> dict[str, list[Any]]:
    """Return, for each place, the different numbers that these runs read there."""
    return {
        line: list({_content(value): value for run in runs for value in run.get(line, ())}.values())
        for line in places
    }


def _place(frame: Any) -> str:
    if frame is None or str(frame.f_globals.get("__name__")).startswith(_OURS):
        return ""
    path = frame.f_code.co_filename
    if path.startswith("<") or any(path.startswith(folder) for folder in _PACKAGES):
        return ""
    return f"{Path(path).name}:{frame.f_lineno}"


def _number(value: Any) -> Any:
    """Return what is kept of a number: a copy, or of a large array a sum of its bytes."""
    if isinstance(value, np.ndarray):
        return value.copy() if value.size <= NUMBERS else hash(value.tobytes())
    return value


def _content(value: Any) -> Hashable:
    """Return what two numbers have in common if they are equal, to the bit."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return repr(value)


def _other(value: Any, numbers: Sequence[Any], draws: np.random.Generator, factor: float) -> Any:
    """Return another number of the kind of ``value``; floats times ``factor``."""
    alike = [
        number
        for number in numbers
        if type(number) is type(value) and np.shape(number) == np.shape(value)
    ]
    if not alike:
        return value
    number = alike[draws.integers(len(alike))]
    if isinstance(number, float) and math.isfinite(number):
        return number * factor
    return number.copy() if isinstance(number, np.ndarray) else number
