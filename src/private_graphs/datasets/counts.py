"""What the readers found in every dataset, as a Markdown table.

``python -m private_graphs.datasets.counts [--mirror DIR] [NAME ...]`` prints the table of
docs/data.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from private_graphs.datasets import registry, sources
from private_graphs.errors import UserError

_COLUMNS = {
    "nodes": "nodes",
    "edges": "edges",
    "loops_dropped": "loops dropped",
    "duplicates_dropped": "duplicates dropped",
    "one_way_edges": "one-way edges",
    "isolated_nodes": "isolated nodes",
    "components": "components",
    "largest_component": "largest",
    "nodes_without_features": "without words",
    "features": "words",
    "classes": "classes",
}


def counts_table(statistics: Iterable[Mapping[str, Any]]) -> str:
    """Return a Markdown table with one row per entry of ``GraphDataset.statistics()``.

    ``missing`` is the number of classes without a labelled node in train, validation and test.
    """
    titles = ["dataset", *_COLUMNS.values(), "train / validation / test", "missing"]
    lines = [f"| {' | '.join(titles)} |", f"|---|{'---:|' * (len(titles) - 1)}"]
    for each in statistics:
        values = [f"`{each['name']}`", *(_number(each[key]) for key in _COLUMNS)]
        values.append(" / ".join(_number(size) for size in each["masks"].values()))
        values.append(" / ".join(str(len(names)) for names in each["classes_missing"].values()))
        lines.append(f"| {' | '.join(values)} |")
    return "\n".join(lines)


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def main(arguments: list[str] | None = None) -> None:
    """Supply and read the named datasets (all by default) and print their table."""
    parser = argparse.ArgumentParser(
        prog="python -m private_graphs.datasets.counts", description="Counts of datasets."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="such as cora-ml; all by default")
    parser.add_argument("--mirror", help="folder or URL with the raw files, tried first")
    parser.add_argument(
        "--data", default="data/raw", metavar="DIR", help="where raw files are kept"
    )
    options = parser.parse_args(arguments)
    names = options.names or [name for name, each in registry.DATASETS.items() if not each.views]
    try:
        sources.supply(names, options.data, options.mirror)
        print(counts_table(registry.build(name, options.data).statistics() for name in names))
    except UserError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
