"""The growth page: its table and its picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from pages import FLOOR_TEXT

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


def _table(frame: pd.DataFrame) -> list[str]:
    found = [
        "| axis | case | from … to | ms per epoch of all replicas | ms per replica-epoch | "
        "ours / floor | slope | aim | |",
        "|---|---|---|---|---|---|---:|---:|---|",
    ]
    for (axis, case), line in frame.groupby(["axis", "case"], sort=False):
        first, last = line.iloc[0], line.iloc[-1]
        aim = "" if pd.isna(first["aim"]) else f"≤ {first['aim']:.3g}"
        verdict = "" if not aim else "reached" if first["reached"] else "**missed**"
        found.append(
            f"| {axis} | {case} | {_short(first['value'])} … {_short(last['value'])} | "
            f"{first['epoch_ms']:.3g} … {last['epoch_ms']:.3g} | "
            f"{first['replica_epoch_ms']:.3g} … {last['replica_epoch_ms']:.3g} | "
            f"{first['over_floor']:.2f} … {last['over_floor']:.2f} | {first['slope']:.2f} | "
            f"{aim} | {verdict} |"
        )
    return found


def growth_page(rows: Rows, command: str) -> str:
    """The growth page as Markdown; its picture is ``growth.png``."""
    frame = pd.DataFrame(rows)
    # every axis but that of the replicas shares the base graph, one of its own points
    base = frame[frame["axis"] == "replicas"].iloc[0]
    replicas = frame[frame["axis"] != "replicas"]["replicas"].iloc[0]
    return "\n".join(
        [
            "# How training time grows",
            "",
            "Synthetic graphs from a seeded generator, one axis varied at a time from the same "
            f"graph ({base['nodes']:,} nodes, {base['edges']:,} edges, {base['nonzeros']:,} "
            f"non-zeros in the features, half of the nodes in training; {replicas} replicas where "
            "they are not the axis). Time is milliseconds per epoch of all replicas, validation "
            "included, one thread; the fastest round of each point. The slope is that of the "
            "least-squares line through the logarithms: 1 means that twice the size takes twice "
            "the time. On the axis of replicas the time per replica-epoch grows with the slope "
            "less 1. An axis alone tends to stay below 1, because the other terms do not grow; the "
            "last axis varies nodes, edges and non-zeros together, and is shown without an aim.",
            "",
            f"Machine: {base['machine']}.",
            "",
            f"Command: `{command}`",
            "",
            "![Time per epoch against replicas, nodes, edges and non-zeros](growth.png)",
            "",
            *_table(frame),
            "",
            "Every point with its floor is in [growth.csv](growth.csv).",
            "",
            FLOOR_TEXT,
            "",
        ]
    )
