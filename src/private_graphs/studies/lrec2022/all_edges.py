"""A node with all its edges: class sums and public data alone, by ε and number of public labels."""

from __future__ import annotations

from typing import Any

from private_graphs.running.exhibit import Block, Chart, Exhibit
from private_graphs.studies.lrec2022.labels import compared, label_table, with_labels
from private_graphs.studies.lrec2022.proved import proved_points, seed_notes

METHODS = ("class_sums", "public_only")
NOTES = (
    "The unit is a node with its text, its label and all its edges; texts and edges of the "
    "validation and test nodes are public. ε = 0: public data alone.",
    "*: a private row above public data alone with the same public labels, by more than a standard "
    "error of the difference. Draws differ in the noise and in which labels are public; the test "
    "nodes are the same, and add their own error.",
)


def build(results: Any) -> list[Block]:
    """Return a chart per dataset and the table."""
    points = proved_points(results, "frontier,all_edges")
    points = points[(points["scenario"] == "graph") & points["method"].isin(METHODS)]
    points = with_labels(compared(points[points["private"] | (points["epsilon"] == 0)]))
    charts = []
    for dataset, rows in points.groupby("dataset", sort=False):
        heading = results.title_of(dataset)
        public = rows[rows["epsilon"] == 0].set_index("labels")["mean"]
        lines = {f"public data alone, {key} labels": key for key in public.index if key != "0"}
        drawn = rows[rows["private"]].assign(
            **{name: public[key] for name, key in lines.items()}, heading=heading
        )
        charts.append(Chart(
            f"A node with all its edges: {heading}", drawn, x="epsilon", line="labels",
            line_label="public labels:", row="heading", log_x=True,
            references={name: name for name in lines}, x_label="ε of one run",
            y_label="test micro-F1",
        ))  # fmt: skip
    title = "Test micro-F1, node level with all edges: mean ± standard deviation over the draws"
    return [*charts, label_table(points, title, (*NOTES, *seed_notes(points)))]


EXHIBIT = Exhibit(
    "all_edges",
    "A node with all its edges",
    groups=("frontier", "all_edges"),
    build=build,
    meaning="One noisy release about all training nodes with all their edges, compared with public "
    "data alone, on ten graphs.",
)
