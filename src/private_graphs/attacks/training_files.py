"""Training functions and data that a user's Python files define, as the command line names them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from private_graphs.core.errors import UsageError, UserError, lacks_memory, listed


@contextmanager
def script_names(train: str, data: str) -> Iterator[tuple[Callable[[Any], Any], Any]]:
    """Import ``FILE:NAME`` of a function and of its data, whose folders are on the path meanwhile.

    Data may be a function without arguments that returns them.

    Raises:
        UsageError: a file or a name does not exist, or ``train`` is no function.
        UserError: one of the files raised an error meanwhile, or ended Python: an exit code of its
            own would be taken for a verdict.
    """
    modules, path = dict[Path, ModuleType](), sys.path[:]
    ended, process = os._exit, os.getpid()

    def end(code: int) -> None:  # without a report, 0 would be taken for a verdict
        if os.getpid() == process:
            raise SystemExit(code)
        ended(code)  # as every process that multiprocessing forks ends

    try:
        os._exit = end
        function, rows = (_value(name, modules) for name in (train, data))
        if not callable(function):
            raise UsageError(
                f"{train} is {type(function).__name__}; expected a function of the data"
            )
        yield function, rows() if callable(rows) and not hasattr(rows, "__len__") else rows
    except (Exception, SystemExit) as error:
        places = [(frame.filename, frame.lineno) for frame in extract_tb(error.__traceback__)]
        if isinstance(error, SyntaxError):
            places += [(str(error.filename), error.lineno)]
        own = [place for place in places if Path(place[0]) in modules]
        if isinstance(error, UserError | OSError) or lacks_memory(error):
            raise
        shadows = listed(_shadows(modules, [file for file, _ in places]), 3)
        if shadows and not own and isinstance(error, Exception):
            raise UserError(
                f"{shadows}: has the name of another module, and was imported in its place "
                f"({type(error).__name__}: {error}); rename it"
            ) from error
        if not own:
            raise
        rename = f", or rename {shadows}, which has the name of another module" if shadows else ""
        raise UserError(
            f"{own[-1][0]}: line {own[-1][1]} ends the audit with {type(error).__name__} "
            f"({error}), so that there is no verdict; correct the script{rename}"
        ) from error
    finally:
        os._exit = ended
        sys.path[:] = path
        for module in modules.values():
            sys.modules.pop(module.__name__, None)


def _shadows(modules: Iterable[Path], raised: Iterable[str]) -> list[str]:
    """Return files beside the scripts that were imported, or have ``raised`` an error meanwhile,
    and have names of modules of Python or libraries."""
    folders = {path.parent for path in modules}
    others = [place for place in sys.path if Path(place).resolve() not in folders]
    loaded = (getattr(module, "__file__", None) for module in [*sys.modules.values()])
    beside = {Path(file).resolve() for file in (*loaded, *raised) if file} - {*modules}
    return [
        str(file) for file in sorted(beside)
        if file.parent in folders and PathFinder.find_spec(file.stem, others)
    ]  # fmt: skip


def _value(name: str, modules: dict[Path, ModuleType]) -> Any:
    file, _, attribute = name.rpartition(":")
    path = Path(file).resolve()
    if not (file and path.is_file()):
        raise UsageError(f"{name}: found no such file; expected FILE:NAME, such as train.py:train")
    if path not in modules:
        _import(path, modules)
    module = modules[path]
    if not hasattr(module, attribute):
        names = sorted(key for key in vars(module) if not key.startswith("_"))
        raise UsageError(f"{file} has no {attribute!r}; it defines {', '.join(names)}")
    return getattr(module, attribute)


def _import(path: Path, modules: dict[Path, ModuleType]) -> None:
    """Import a file into ``modules`` as Python would run it, with its folder first on the path."""
    spec = spec_from_file_location(f"audited_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path.name} is no Python file; expected one, such as train.py")
    module = modules[path] = module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
