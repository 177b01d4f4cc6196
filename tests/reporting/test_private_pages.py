"""Pages and tables that hold a graph of a user say so; those of published data do not."""

from __future__ import annotations

import math

from private_graphs.reporting.site import write_site
from private_graphs.reporting.tables import write_tables

BANNER = "scores and counts of private data"


def written(root, cell, statistics, *names: str) -> dict[str, str]:
    """Write finished cells on datasets with these names, tables and pages; return their texts."""
    folder = root / "full"
    for name in names:
        for kind in ("table1", "B"):
            cell(folder, dataset=name, experiment=kind, protocol="sound",
                 scores={math.inf: [0.8], 2.0: [0.5]})  # fmt: skip
    write_tables(
        folder, "lrec2022", tables=["table1", "table5", "figure2"],
        statistics=[statistics(name) for name in names],
    )  # fmt: skip
    write_site(root)
    paths = [*root.rglob("*.html"), *root.rglob("*.md"), *root.rglob("*.tex")]
    return {path.relative_to(root).as_posix(): path.read_text() for path in paths}


def test_everything_that_holds_a_graph_of_a_user_is_marked_private(tmp_path, cell, statistics):
    texts = written(tmp_path, cell, statistics, "my_graph")
    assert len([name for name in texts if "statements" in name]) >= 1
    for name, text in texts.items():
        mark = BANNER if name.endswith(".html") else "scores and counts on private data: keep it"
        assert mark in " ".join(text.split()), name


def test_nothing_that_holds_published_data_alone_is_marked_private(tmp_path, cell, statistics):
    for name, text in written(tmp_path, cell, statistics, "cora").items():
        assert "private data" not in text, name
