"""Models of what files and configurations hold."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError


class Strict(BaseModel):
    """Base of models: frozen, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def fields_of(value: object, *names: str) -> dict[str, Any]:
    """Return some attributes of a value by name."""
    return {name: getattr(value, name) for name in names}


def first_fault(error: ValidationError) -> str:
    """Return the first key that is wrong, what was found there, and why it is wrong."""
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"])) or "file"
    return f"{key}: found {str(first['input'])[:80]!r}: {first['msg']}"
