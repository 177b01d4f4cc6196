"""Types of list values in ``config.yaml`` and after ``--config``, in all accepted spellings."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from private_graphs.core.limits import LARGEST_SEED, MOST_SEEDS
from private_graphs.datasets.own import OwnGraph
from private_graphs.running.jobs import Epsilon

ALL = "all"
"""Value in place of names: everything the studies have; for exhibits, the default ones."""


def _read_names(value: object) -> tuple[str, ...] | None:
    """Parse ``a,b``, ``[a,b]``, a list or one name; ``all`` and an empty value are None."""
    if value is None or value == ALL:
        return None
    parts = value if isinstance(value, list | tuple) else str(value).strip().strip("[]").split(",")
    names = [str(part).strip().strip("'\"") for part in parts]
    if not names or not all(names):
        raise ValueError("expected names separated by commas, without blanks")
    return tuple(dict.fromkeys(names))


def _read_seeds(value: object) -> object:
    """Parse ``N`` (seeds 0 to N-1), ``0,3,7``, ``[0,3]`` or a list; ``all`` is None."""
    if isinstance(value, bool) or isinstance(value, float):
        raise ValueError("expected a whole number N, or seeds such as 0,3,7")
    text = str(value).strip()
    listed = isinstance(value, list | tuple) or "," in text or text.startswith("[")
    names = _read_names(text.rstrip(", ") if isinstance(value, str) else value)
    if names is None:
        return None
    try:
        numbers = [int(name) for name in names]
    except ValueError:
        raise ValueError("expected a whole number N, or seeds such as 0,3,7") from None
    if listed:
        if min(numbers) < 0:
            raise ValueError("a seed cannot be negative")
        if max(numbers) > LARGEST_SEED:
            raise ValueError(f"a seed is at most {LARGEST_SEED:,}")
        return tuple(numbers)
    if numbers[0] < 1:
        raise ValueError("expected at least one seed")
    if numbers[0] > MOST_SEEDS:
        raise ValueError(
            f"that would be {numbers[0]:,} seeds, expected at most {MOST_SEEDS:,}; a single seed "
            f"is written seeds=[{numbers[0]}]"
        )
    return tuple(range(numbers[0]))


def _read_splits(value: object) -> object:
    """Parse ``1,10``, ``[1,10]``, a list or one number; ``all`` is None, ``FILE.csv`` stays."""
    if isinstance(value, str) and value.endswith(".csv"):
        return value
    names = _read_names(value)
    if names is None:
        return None
    try:
        numbers = tuple(int(name) for name in names)
    except ValueError:
        numbers = (0,)
    if min(numbers) < 1:
        raise ValueError("expected numbers of subgraphs such as 1,10, or a file such as parts.csv")
    return numbers


Epsilons = Annotated[
    tuple[Epsilon, ...] | None,
    BeforeValidator(_read_names, json_schema_input_type=float | str | list[float | str] | None),
]
Names = Annotated[
    tuple[str, ...] | None,
    BeforeValidator(_read_names, json_schema_input_type=str | list[str] | None),
]
Datasets = Annotated[
    tuple[str, ...] | None,
    BeforeValidator(_read_names, json_schema_input_type=str | list[str | OwnGraph] | None),
]
Seeds = Annotated[
    tuple[int, ...] | None,
    BeforeValidator(_read_seeds, json_schema_input_type=int | str | list[int] | None),
]

Splits = Annotated[
    tuple[int, ...] | str | None,
    BeforeValidator(_read_splits, json_schema_input_type=int | str | list[int] | None),
]
