"""Location of methods and data readers: in their own package, and in the folders of studies.

A study is a folder ``studies/<id>``: modules that it alone uses are in ``studies/<id>/methods`` and
``studies/<id>/readers``. There is no list of these modules.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
STUDIES = _PACKAGE / "studies"


@cache
def modules_of(package: str) -> dict[str, str]:
    """Return the dotted names of modules by their last part, sorted by it.

    The modules are those in ``package``, such as ``private_graphs.methods``, and in the folders of
    the same name in studies. Nothing is imported.
    """
    root, *_, kind = package.split(".")
    home = _PACKAGE.joinpath(*package.split(".")[1:])
    homes = {package: home} | {
        f"{root}.studies.{folder.parent.name}.{kind}": folder
        for folder in sorted(STUDIES.glob(f"*/{kind}"))
    }
    pairs = [
        (module.name, f"{name}.{module.name}")
        for name, folder in homes.items()
        for module in pkgutil.iter_modules([str(folder)])
    ]
    names = dict(sorted(pairs))
    if len(names) < len(pairs):
        twice = sorted(name for name, _ in pairs if sum(name == other for other, _ in pairs) > 1)
        raise RuntimeError(f"{kind}: two modules are named {twice[0]!r}; expected distinct names")
    return names
