"""The raw files and their checksums as a Markdown table.

    python -m private_graphs.datasets.sources_table

prints that of docs/data.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from private_graphs.datasets.sources import DatasetSources, load_models, load_sources

FIRST_USE = "trust on first use"


def sources_table(listed: Mapping[str, DatasetSources]) -> str:
    """Return a table with one row per file of the datasets or models ``listed``."""
    lines = ["| of | file | bytes | sha256 |", "|---|---|---:|---|"]
    for name, each in listed.items():
        for source in each.files:
            size = "-" if source.bytes is None else f"{source.bytes:,}"
            sha256 = FIRST_USE if source.sha256 is None else f"`{source.sha256}`"
            lines.append(f"| `{name}` | [{source.file}]({source.url}) | {size} | {sha256} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(sources_table({**load_sources(), **load_models()}))
