"""Modules of the package: those of a kind, and the files that a script or module imports.

A study is a folder ``studies/<id>``: modules that it alone uses are in ``studies/<id>/methods`` and
``studies/<id>/readers``. There is no list of these modules.

A workflow rule declares the hash of an import closure as a parameter, so that editing a file reruns
exactly the steps that can reach it; a run records it as its code fingerprint.
"""

from __future__ import annotations

import ast
import hashlib
import pkgutil
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from private_graphs.core.bounded_files import read_bounded
from private_graphs.core.errors import UserError

PACKAGE = Path(__file__).resolve().parents[1]
STUDIES = PACKAGE / "studies"
_WORD = re.compile(r"\bimport\b")
_STATEMENT = re.compile(
    r"^[ \t]*((?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+(?:\([^()]*\)|[\w., \t]+?))[ \t]*(?:#.*)?$",
    re.MULTILINE,
)


def import_closure(start: str | Path, package: Path = PACKAGE) -> list[Path]:
    """Return every file inside ``package`` that ``start`` imports, directly or not, sorted.

    ``start`` is a script (a path that ends in ``.py``) or a dotted module name of the package. Of a
    module of another package, which is installed, all files of that package count.
    Imports are read from the syntax tree, so those inside functions and ``TYPE_CHECKING`` blocks
    count too, while imports by a computed name are missed. A module adds the ``__init__.py`` of
    every package above it. A script adds the modules next to it that it imports, but not itself.
    """
    script = Path(start) if str(start).endswith(".py") else None
    folder = script.parent if script else None
    if script is not None:
        if not script.is_file():
            raise UserError(f"{script}: no such script; expected the path of a Python file")
        waiting = {*_imported_files(script, package, folder)}
    elif not (waiting := _installed_files(str(start), package)):
        if not _exists(str(start), package):
            raise UserError(f"{start}: no such module; expected one of the package {package.name}")
        waiting = _module(start, package)
    files: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in files or path == script:
            continue
        files.add(path)
        waiting |= _imported_files(path, package, folder)
    return sorted(files)


def package_data(closure: Iterable[Path], package: Path = PACKAGE) -> list[Path]:
    """Return the files other than code (templates, styles) in the subpackages of a closure.

    Files of studies are excluded: they are inputs of the rules that read them.
    """
    folders = {path.parent for path in closure if path.is_relative_to(package)} - {package}
    folders = {folder for folder in folders if not folder.is_relative_to(package / "studies")}
    files = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    return sorted(  # bytecode and compiled kernels are transient
        path for path in files
        if path.suffix != ".py" and path.name[0] != "." and "__pycache__" not in path.parts
    )  # fmt: skip


@cache
def code_state(*starts: str | Path) -> str:
    """Return a hash of all code that scripts or modules reach, with the templates and styles next
    to it: a workflow rule declares it, so that an edit reruns exactly the steps that can reach it.

    The result is cached for the life of the process, because every job of a run asks for it.
    """
    closure = {path for start in starts for path in import_closure(start)}
    return _fingerprint({*closure, *package_data(closure)}, PACKAGE)


def code_fingerprint(*starts: str | Path, package: Path = PACKAGE) -> str:
    """Return 16 hexadecimal digits of a sha256 over names and contents of the import closures."""
    closure = {path for start in starts for path in import_closure(start, package)}
    return _fingerprint(closure, package)


def _fingerprint(paths: Iterable[Path], package: Path) -> str:
    names = {
        (path.relative_to(package) if path.is_relative_to(package) else Path(path.name), path)
        for path in paths
    }
    digest = hashlib.sha256()
    for name, path in sorted(names):  # independent of the location of package and script
        content = read_bounded(path)
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _imported_files(path: Path, package: Path, folder: Path | None) -> frozenset[Path]:
    """Return the files that the imports written in ``path`` load directly.

    Closures overlap, so each state of a file (time, size) is read only once.
    """
    status = path.stat()
    return _files_of(path, package, folder, (status.st_mtime_ns, status.st_size))


@cache
def _files_of(
    path: Path, package: Path, folder: Path | None, state: tuple[int, int]
) -> frozenset[Path]:
    names = _imported_names(path, package, state)
    files = {file for name in names for file in _module(name, package)}
    if folder:
        siblings = (folder / f"{name}.py" for name in names)
        files |= {sibling for sibling in siblings if sibling.is_file()}
    return frozenset(files)


@cache
def _imported_names(path: Path, package: Path, state: tuple[int, int]) -> tuple[str, ...]:
    """Return absolute dotted names: modules, and ``module.name`` for what may be a submodule."""
    return tuple(_names(path, package))


def _names(path: Path, package: Path) -> Iterator[str]:
    waiting: list[ast.AST] = [_tree(path.read_text(encoding="utf-8"), path)]
    while waiting:  # statements alone: no expression holds an import, and most nodes are in one
        node = waiting.pop()
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, part, ())
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, path, package)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _tree(text: str, path: Path) -> ast.Module:
    """Return the syntax tree of the import statements of a file, or of all of it.

    Reading whole files is most of the time that planning takes. If each ``import`` in the text is
    in a statement on lines of its own, these statements say the same.
    """
    statements = _STATEMENT.findall(text)
    if sum(len(_WORD.findall(statement)) for statement in statements) == len(_WORD.findall(text)):
        with suppress(SyntaxError):  # a line of a docstring that only begins like an import
            return ast.parse("\n".join(statements), filename=str(path))
    return ast.parse(text, filename=str(path))


def _installed_files(name: str, package: Path) -> set[Path]:
    """Return the files of the installed package that a module belongs to; none of our own."""
    first = name.partition(".")[0]
    spec = find_spec(first) if first != package.name else None
    if spec is None or not spec.origin:
        return set()
    folders = [Path(place) for place in spec.submodule_search_locations or ()]
    return {Path(spec.origin), *(path for folder in folders for path in folder.rglob("*.py"))}


def _absolute(node: ast.ImportFrom, path: Path, package: Path) -> str:
    if not node.level or not path.is_relative_to(package):
        return node.module or ""
    inside = (package.name, *path.relative_to(package).parts[:-1])
    parents = inside[: len(inside) - (node.level - 1)]
    return ".".join((*parents, node.module)) if node.module else ".".join(parents)


def _module(name: str | Path, package: Path) -> set[Path]:
    """Return the file of a dotted module name and the ``__init__.py`` files above it."""
    first, *rest = str(name).split(".")
    if first != package.name:
        return set()
    folder, files = package, {package / "__init__.py"}
    for part in rest:
        folder = folder / part
        if (folder / "__init__.py").is_file():
            files.add(folder / "__init__.py")
        elif folder.with_suffix(".py").is_file():
            files.add(folder.with_suffix(".py"))
            break
        elif not folder.is_dir():  # a name defined in the module
            break
    return files


def _exists(name: str, package: Path) -> bool:
    first, *rest = name.split(".")
    path = package.joinpath(*rest)
    files = (path / "__init__.py", *([path.with_suffix(".py")] if rest else ()))
    return first == package.name and any(file.is_file() for file in files)


@cache
def modules_of(package: str) -> dict[str, str]:
    """Return the dotted names of modules by their last part, sorted by it.

    The modules are those in ``package``, such as ``private_graphs.methods``, and in the folders of
    the same name in studies. Nothing is imported.
    """
    root, *_, kind = package.split(".")
    home = PACKAGE.joinpath(*package.split(".")[1:])
    homes = {package: home} | {
        f"{root}.studies.{folder.parent.name}.{kind}": folder
        for folder in sorted(STUDIES.glob(f"*/{kind}"))
    }
    pairs = [(module.name, f"{name}.{module.name}") for name, folder in homes.items()
             for module in pkgutil.iter_modules([str(folder)])]  # fmt: skip
    names = dict(sorted(pairs))
    if len(names) < len(pairs):
        twice = sorted(name for name, _ in pairs if sum(name == key for key, _ in pairs) > 1)
        raise RuntimeError(f"{kind}: two modules are named {twice[0]!r}; expected distinct names")
    return names
