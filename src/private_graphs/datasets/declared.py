"""User graphs that a configuration declares under its key ``datasets``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from private_graphs.core.errors import UsageError
from private_graphs.datasets.own import OwnGraph, declare, known, remember
from private_graphs.datasets.registry import DATASETS, DECLARED, OWN_FOLDER


def declare_graphs(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``raw`` with each graph that an entry of ``datasets`` describes replaced by its name.

    An entry is a name, or a mapping with the fields of ``OwnGraph``; a mapping of names to such
    fields may replace the list. Each graph is registered in ``registry.DECLARED``;
    ``keep_declarations`` writes it to disk. Raises UsageError, naming the key, for an incomplete
    description or a name that is taken.
    """
    entries = raw.get("datasets")
    if isinstance(entries, Mapping) and "name" in entries:
        entries = [entries]
    elif isinstance(entries, Mapping):
        if wrong := [name for name, fields in entries.items()
                     if fields and not isinstance(fields, Mapping)]:  # fmt: skip
            raise UsageError(
                f"configuration: datasets: {wrong[0]}: found {entries[wrong[0]]!r}; expected a "
                "list, such as [cora, {name: my_graph, nodes: ...}]"
            )
        entries = [{"name": name, **fields} if fields else name for name, fields in entries.items()]
    if not isinstance(entries, list | tuple):
        return dict(raw)
    names = []
    for entry in entries:
        if isinstance(entry, Mapping):
            graph = declare(dict(entry), "configuration: datasets")
            if graph.name in DATASETS:
                raise UsageError(
                    f"configuration: datasets: {graph.name!r} is the name of a built-in dataset; "
                    "choose another"
                )
            DECLARED[graph.name] = graph
            entry = graph.name
        names.append(entry)
    return {**raw, "datasets": names}


def keep_declarations() -> list[str]:
    """Write the graphs that the configuration declares below ``data/own``, where the command line
    and later runs find them; return a line for each replaced declaration."""
    lines = []
    before = known(OWN_FOLDER)
    for name, graph in DECLARED.items():
        fields = OwnGraph.model_fields
        earlier = before.get(name, graph)
        changed = [field for field in fields if getattr(graph, field) != getattr(earlier, field)]
        if changed:
            lines.append(
                f"The declaration of {name} is replaced: {', '.join(changed)}. What an earlier "
                "version of it cost in privacy still counts."
            )
        remember(graph, OWN_FOLDER)
    return lines
