"""Graphs of users that the configuration of a run describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from private_graphs.datasets.own import OwnGraph, known, remember
from private_graphs.datasets.registry import DATASETS, DECLARED, OWN_FOLDER
from private_graphs.errors import UsageError
from private_graphs.study import validated


def declare_graphs(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``raw`` with names in place of the graphs that entries of ``datasets`` describe.

    An entry is a name, or a mapping with the fields of ``OwnGraph``; a mapping of names to such
    fields may stand in place of the list. The registry has each graph from now on
    (``registry.DECLARED``); ``keep_declarations`` writes them. Raises UsageError, naming the key,
    for a description that is incomplete or whose name is taken.
    """
    entries = raw.get("datasets")
    if isinstance(entries, Mapping) and "name" in entries:
        entries = [entries]
    elif isinstance(entries, Mapping):
        if wrong := [name for name, fields in entries.items() if isinstance(fields, str)]:
            raise UsageError(
                f"configuration: datasets: {wrong[0]}: found {entries[wrong[0]]!r}; expected a "
                "list, such as [cora, {name: my_graph, nodes: ...}]"
            )
        entries = [{"name": name, **fields} if fields else name for name, fields in entries.items()]
    if not isinstance(entries, list | tuple):
        return dict(raw)
    return {**raw, "datasets": [_name(entry) for entry in entries]}


def _name(entry: Any) -> Any:
    """Return the name of an entry; the graph that it describes is declared."""
    if not isinstance(entry, Mapping):
        return entry
    own = validated(OwnGraph, dict(entry), "configuration: datasets", UsageError)
    if own.name in DATASETS:
        raise UsageError(
            f"configuration: datasets: {own.name!r} is the name of a built-in dataset; choose "
            "another"
        )
    DECLARED[own.name] = own
    return own.name


def keep_declarations() -> list[str]:
    """Write the graphs that the configuration declares below ``data/own``, where the command line
    and later runs find them; return a line for each that replaces another declaration."""
    lines = []
    before = known(OWN_FOLDER)
    for name, own in DECLARED.items():
        earlier = before.get(name, own)
        changed = [
            field
            for field in OwnGraph.model_fields
            if getattr(own, field) != getattr(earlier, field)
        ]
        if changed:
            lines.append(
                f"The declaration of {name} is replaced: {', '.join(changed)}. What an earlier "
                "version of it cost in privacy still counts."
            )
        remember(own, OWN_FOLDER)
    return lines
