"""Write requirements.lock: the versions in this environment of everything the project needs.

Each has the hashes of the files that pip's package index (``PIP_INDEX_URL``) serves for Python 3.11
and 3.12, so that pip installs these and no others. A local version label (``+cpu``) is left out; of
such a package the file that pip would choose here has its hash there too. The versions go into the
environments of the rules (``envs/*.yaml``). Packages that nothing needs are left out.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import urllib.request
from importlib.metadata import PackageNotFoundError, distribution
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12")
BUILD = ("editables",)  # what an editable install with hatchling needs besides hatchling

WHEELS = re.compile(r"-(cp311-cp311|cp312-cp312|cp3\d+-abi3|(py2\.)?py3-none)-")
"""Names of wheels for CPython 3.11 or 3.12."""

HEADER = """\
# The pinned set: everything that the project, its tests and its build need, for Python 3.11 and
# 3.12, with the sha256 of the files that may be installed. Written by `make lock`. torch is the
# build that the package index serves, or PyTorch's own for the CPU alone: the index's on Linux is
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


def index() -> str:
    """Return the address of the package index, as pip reads it."""
    address = os.environ.get("PIP_INDEX_URL", "").rstrip("/")
    if not address:
        raise SystemExit(
            "PIP_INDEX_URL: not set, expected the package index whose files the lock names"
        )
    return address


def hashes(name: str, version: str) -> list[str]:
    """Return the sha256 of every file of a release that may be installed, in order."""
    accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
    with urllib.request.urlopen(
        urllib.request.Request(f"{index()}/{name}/", headers=accept), timeout=60
    ) as answer:
        files = json.load(answer)["files"]
    release = re.compile(rf"[\w.-]+?-{re.escape(version)}(-|\.tar|\.zip)", re.IGNORECASE)
    values = {
        file["hashes"]["sha256"]
        for file in files
        if release.match(file["filename"])
        and (not file["filename"].endswith(".whl") or WHEELS.search(file["filename"]))
    }
    if Version(distribution(name).version).local:
        values.add(chosen_here(f"{name}=={version}"))
    if not values:
        raise SystemExit(f"{name}=={version}: {index()} has no file of it")
    return sorted(values)


def chosen_here(pin: str) -> str:
    """Return the sha256 of the file that pip would install here."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--report", "-",
               "--ignore-installed", "--no-deps", pin]  # fmt: skip
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return str(report["install"][0]["download_info"]["archive_info"]["hashes"]["sha256"])


def main() -> None:
    """Write ``requirements.lock`` beside ``pyproject.toml``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    table = project["project"]
    needed = [*table["dependencies"], *chain(*table["optional-dependencies"].values())]
    found = pins([*needed, *project["build-system"]["requires"], *BUILD])
    lines = [
        " \\\n    ".join(
            [f"{name}=={version}", *(f"--hash=sha256:{value}" for value in hashes(name, version))]
        )
        for name, version in sorted(found.items())
    ]
    path = ROOT / "requirements.lock"
    path.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"{path.name}: {len(lines)} packages")
    for path in sorted((ROOT / "envs").glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"- ([\w.-]+)==.*", lambda pin: f"- {pin[1]}=={found[pin[1]]}", text)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
