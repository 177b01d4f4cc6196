"""Training functions and data that a user's Python files define, as the command line names them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from private_graphs.core.errors import UsageError


@contextmanager
def script_names(train: str, data: str) -> Iterator[tuple[Callable[[Any], Any], Any]]:
    """Import ``FILE:NAME`` of a function and of its data, whose folders are on the path meanwhile.

    Data may be a function without arguments that returns them.

    Raises:
        UsageError: a file or a name does not exist, or ``train`` is no function.
    """
    modules, path = dict[Path, ModuleType](), sys.path[:]
    try:
        function, rows = (_value(name, modules) for name in (train, data))
        if not callable(function):
            raise UsageError(
                f"{train} is {type(function).__name__}; expected a function of the data"
            )
        yield function, rows() if callable(rows) and not hasattr(rows, "__len__") else rows
    finally:
        sys.path[:] = path
        for module in modules.values():
            sys.modules.pop(module.__name__, None)


def _value(name: str, modules: dict[Path, ModuleType]) -> Any:
    file, _, attribute = name.rpartition(":")
    path = Path(file).resolve()
    if not (file and path.is_file()):
        raise UsageError(f"{name}: found no such file; expected FILE:NAME, such as train.py:train")
    if path not in modules:
        modules[path] = _imported(path)
    module = modules[path]
    if not hasattr(module, attribute):
        names = sorted(key for key in vars(module) if not key.startswith("_"))
        raise UsageError(f"{file} has no {attribute!r}; it defines {', '.join(names)}")
    return getattr(module, attribute)


def _imported(path: Path) -> ModuleType:
    """Import a file as Python would run it, with its folder first on the path."""
    spec = spec_from_file_location(f"audited_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path.name} is no Python file; expected one, such as train.py")
    module = module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module
