"""The picture of growth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

Rows = Sequence[Mapping[str, object]]
# Shapes differ as well as colours, and the colours differ in lightness, so that grey print works.
_STYLES = (
    {"color": "#111111", "marker": "o"},
    {"color": "#14532d", "marker": "^"},
    {"color": "#3b7dd8", "marker": "s"},
    {"color": "#9b4dca", "marker": "D", "markerfacecolor": "white"},
    {"color": "#d9822b", "marker": "v", "markerfacecolor": "white"},
)


def _short(value: float, _: object = None) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def _panel(axis, frame: pd.DataFrame, title: str) -> None:
    for style, (case, line) in zip(_STYLES, frame.groupby("case", sort=False), strict=False):
        axis.plot(line["value"], line["epoch_ms"], label=case, linewidth=1.4, **style)
    values, fastest = frame["value"], frame["epoch_ms"].min()
    ends = [values.min(), values.max()]
    guide = [fastest * 0.55, fastest * 0.55 * ends[1] / ends[0]]
    axis.plot(ends, guide, color="#888888", linestyle="--", linewidth=1.2, label="slope 1")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(sorted(set(values)))
    axis.xaxis.set_major_formatter(FuncFormatter(_short))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_formatter(FuncFormatter(_short))
    axis.set_xlabel(title)


def draw(rows: Rows) -> Figure:
    """Return one panel per axis: milliseconds per epoch of all replicas, both axes logarithmic."""
    frame = pd.DataFrame(rows)
    titles = list(dict.fromkeys(frame["axis"]))
    style = {"axes.grid": True, "axes.axisbelow": True, "grid.color": "#e6e6e6"}
    with mpl.rc_context(style | {"axes.edgecolor": "#888888"}):
        figure = Figure(figsize=(11.0, 7.2), layout="constrained")
        panels = figure.subplots(2, 3, sharey=True).ravel()
    for panel, title in zip(panels, titles, strict=False):
        shown = f"{title} (by nodes)" if "," in title else title
        _panel(panel, frame[frame["axis"] == title], shown)
    for panel in panels[::3]:
        panel.set_ylabel("ms per epoch of all replicas")
    panels[-1].axis("off")
    handles, labels = panels[0].get_legend_handles_labels()
    panels[-1].legend(handles, labels, loc="center", frameon=False)
    return figure
