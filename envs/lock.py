"""Write requirements.lock: the versions in this environment of everything the project needs.

The same versions go into the environments of the rules (``envs/*.yaml``).
Packages that nothing needs are left out, and so are local version labels (``+cpu``), so that the
file installs with any build that the registry serves, on Python 3.11 and 3.12.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12")
BUILD = ("editables",)  # what an editable install with hatchling needs besides hatchling

HEADER = """\
# The pinned set: everything that the project, its tests and its build need, for Python 3.11 and
# 3.12. Written by `make lock`. torch is the build that the package index serves: on Linux that is
# the CUDA build, which also runs on the CPU; its CUDA packages are pinned by torch itself.
"""


def applies(requirement: Requirement, extras: set[str]) -> bool:
    """Return whether a requirement holds on this platform under one of the supported Pythons."""
    marker = requirement.marker
    return marker is None or any(
        marker.evaluate({"extra": extra, "python_version": python})
        for extra in extras or {""}
        for python in PYTHONS
    )


def pins(requirements: list[str]) -> dict[str, str]:
    """Return name -> public version of all that the requirements need and that is installed."""
    found: dict[str, str] = {}
    visited: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(each) for each in requirements]
    while waiting:
        requirement = waiting.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key in visited:
            continue
        visited.add(key)
        try:
            package = distribution(requirement.name)
        except PackageNotFoundError:
            print(f"not installed here, left to pip: {requirement}")
            continue
        found[key[0]] = Version(package.version).public
        dependencies = map(Requirement, package.requires or [])
        waiting += [each for each in dependencies if applies(each, requirement.extras)]
    return found


def main() -> None:
    """Write ``requirements.lock`` beside ``pyproject.toml``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    table = project["project"]
    needed = [*table["dependencies"], *chain(*table["optional-dependencies"].values())]
    found = pins([*needed, *project["build-system"]["requires"], *BUILD])
    lines = [f"{name}=={version}" for name, version in sorted(found.items())]
    path = ROOT / "requirements.lock"
    path.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"{path.name}: {len(lines)} packages")
    for path in sorted((ROOT / "envs").glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"- ([\w.-]+)==.*", lambda pin: f"- {pin[1]}=={found[pin[1]]}", text)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
